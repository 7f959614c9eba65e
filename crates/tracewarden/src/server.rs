//! The HTTP server: accepts connections, with limits on headers and time, until the stop signal; then lets requests in
//! flight finish.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;
use tracewarden_rest::UnreadableHeads;

use crate::connections::Connections;
use crate::unreadable_heads::{ErrorReplacingStream, Exchange};

/// Maximum size of a request's line and headers together, with line ends; a larger head is rejected. hyper rejects a head
/// that is still incomplete when its buffer holds this many bytes. For other heads that depends on how many bytes arrive at
/// once, so their size is measured here.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Maximum number of headers in a request.
const MAX_HEADERS: usize = 100;
/// Pause after a failure to accept, usually for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time to write the audit records of answers aborted at shutdown.
const AUDIT_FLUSH_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// How long requests in flight may take after the stop signal.
    pub grace: Duration,
    /// How long a client may read none of its answer. A client that stops reading holds a ClickHouse query; with enough
    /// connections it would hold all of them.
    pub stall: Duration,
    /// Deadline for a request's head; it also ends idle connections.
    pub head: Duration,
}

/// Serves until `stop` completes, then waits for requests in flight. `heads` answers requests with an unreadable head.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    heads: Option<UnreadableHeads>,
    stop: impl Future<Output = ()>,
    timeout: Timeouts,
    connections: &Connections,
) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(timeout.head)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES);
    let running = GracefulShutdown::new();
    let (abort, aborted) = watch::channel(false);
    let mut stop = std::pin::pin!(stop);
    loop {
        let permit = tokio::select! {
            permit = connections.permit() => permit,
            () = &mut stop => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let open = connections.record_open(permit);
                let exchange = Arc::default();
                let stream = prepare(stream, timeout.stall);
                let stream = ErrorReplacingStream::new(stream, Arc::clone(&exchange), heads.clone());
                let service = connection_service(routes.clone(), peer, exchange, heads.clone());
                let connection = http.serve_connection(stream, service);
                let connection = running.watch(connection);
                let mut aborted = aborted.clone();
                tokio::spawn(async move {
                    let _open = open;
                    let ended = tokio::select! {
                        ended = connection => ended,
                        _ = aborted.wait_for(|now| *now) => return,
                    };
                    if let Err(error) = ended {
                        // Client disconnects are normal. Where they matter, an audit record is written.
                        tracing::debug!(%error, "connection ended");
                    }
                });
            }
            Err(error) if is_connection_error(&error) => {}
            Err(error) => {
                connections.record_accept_failure(&error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    tracing::info!("stopping; running answers may finish");
    if tokio::time::timeout(timeout.grace, running.shutdown()).await.is_err() {
        tracing::warn!("aborting answers that still run");
        if abort.send(true).is_ok() {
            // Aborted answers write their audit records now.
            tokio::time::sleep(AUDIT_FLUSH_TIME).await;
        }
    }
}

fn prepare(stream: TcpStream, stall: Duration) -> TokioIo<Pin<Box<TimeoutStream<TcpStream>>>> {
    // With Nagle's algorithm, the small last part of an answer would wait for the acknowledgement of the previous part.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(stall));
    TokioIo::new(Box::pin(stream))
}

fn connection_service(
    routes: Router,
    peer: SocketAddr,
    exchange: Arc<Exchange>,
    heads: Option<UnreadableHeads>,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = Response,
    Error = std::convert::Infallible,
    Future: Send,
> {
    hyper::service::service_fn(move |mut request: Request<Incoming>| {
        let open = exchange.begin();
        request.extensions_mut().insert(ConnectInfo(peer));
        let refused = (head_bytes(&request) > MAX_HEAD_BYTES).then(|| too_large(heads.as_ref()));
        let answer = routes.clone().oneshot(request.map(axum::body::Body::new));
        async move {
            let response = match refused {
                Some(refused) => Ok(refused),
                None => answer.await,
            };
            response.map(|response| response.map(|body| open.until_end_of(body)))
        }
    })
}

/// Returns the size of a request's head in bytes, counting each header as a line `name: value`.
fn head_bytes<B>(request: &Request<B>) -> usize {
    const VERSION: usize = " HTTP/1.1\r\n".len();
    const SEPARATORS: usize = ": \r\n".len();
    let target = request.uri().to_string().len();
    let headers = request.headers().iter();
    let headers: usize = headers.map(|(name, value)| name.as_str().len() + value.len() + SEPARATORS).sum();
    request.method().as_str().len() + " ".len() + target + VERSION + headers + "\r\n".len()
}

/// Returns the answer to a head that is too large, as for one that hyper rejects.
fn too_large(heads: Option<&UnreadableHeads>) -> Response {
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    let (headers, body) = heads.and_then(|heads| heads.answer(status)).unwrap_or_default();
    let mut response = Response::new(axum::body::Body::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Whether the failure concerns only the connection being accepted.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Returns the address at which this machine reaches a listener.
pub fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// Returns a future that completes on SIGTERM or SIGINT.
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::body::Body;
    use axum::routing::get;
    use futures::stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tracewarden_testkit::wait::until;

    use super::*;

    const TIMEOUT: Timeouts = Timeouts {
        grace: Duration::from_secs(1),
        stall: Duration::from_secs(30),
        head: Duration::from_secs(30),
    };

    struct Guard(Arc<AtomicBool>);

    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    async fn endless(dropped: Arc<AtomicBool>) -> Body {
        let guard = Guard(dropped);
        Body::from_stream(stream::repeat_with(move || {
            let _held = &guard;
            Ok::<_, io::Error>(vec![b'x'; 64 * 1024])
        }))
    }

    #[tokio::test]
    async fn disconnects_clients_that_stop_reading() {
        let dropped = Arc::new(AtomicBool::new(false));
        let held = Arc::clone(&dropped);
        let routes = Router::new().route("/", get(move || endless(Arc::clone(&held))));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let timeout = Timeouts { stall: Duration::from_millis(300), ..TIMEOUT };
        tokio::spawn(
            async move { serve(listener, routes, None, pending(), timeout, &Connections::new(9)).await },
        );
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut some = vec![0; 1024];
        // A client that reads slowly is still served.
        for _ in 0..5 {
            assert!(client.read(&mut some).await.unwrap() > 0);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        until(async || dropped.load(Ordering::SeqCst), |dropped| *dropped).await;
    }

    /// Starts a server that returns short answers, and returns its address.
    async fn start(timeout: Timeouts, connections: &Connections) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = connections.clone();
        let routes = Router::new().fallback(async || "here");
        tokio::spawn(async move { serve(listener, routes, None, pending(), timeout, &connections).await });
        address
    }

    /// Reads the answer until the connection ends, or until the time-out.
    async fn answer(client: &mut TcpStream, timeout: Duration) -> String {
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(timeout, client.read_to_end(&mut answer)).await;
        String::from_utf8(answer).unwrap()
    }

    async fn status(address: SocketAddr, head: &str) -> u16 {
        let mut client = TcpStream::connect(address).await.unwrap();
        let (mut read, mut write) = client.split();
        let (sent, mut answer) = (write.write_all(head.as_bytes()), [0; 12]);
        // The server answers before it has read all of an oversized head.
        let (_, read) = tokio::join!(sent, read.read_exact(&mut answer));
        read.unwrap();
        std::str::from_utf8(&answer[9..]).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn heads_are_bounded() {
        let address = start(TIMEOUT, &Connections::new(9)).await;
        let headers =
            |count: usize| (0..count).map(|number| format!("x-{number}: x\r\n")).collect::<String>();
        let head = |path: &str, headers: &str| format!("GET /{path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        let long = |length: usize| "x".repeat(length);
        for (head, expected) in [
            (head("", ""), 200),
            (head("", &headers(MAX_HEADERS - 1)), 200),
            (head("", &headers(MAX_HEADERS)), 431),
            (head(&long(30_000), ""), 200),
            (head(&long(2 * MAX_HEAD_BYTES), ""), 431),
            (head(&long(1 << 20), ""), 431),
            (head("", &format!("x-long: {}\r\n", long(60_000))), 200),
            (head("", &format!("x-long: {}\r\n", long(2 * MAX_HEAD_BYTES))), 431),
        ] {
            assert_eq!(status(address, &head).await, expected, "{} bytes", head.len());
        }
    }

    #[tokio::test]
    async fn a_head_of_64_kib_is_read_and_a_byte_more_refused() {
        let address = start(TIMEOUT, &Connections::new(9)).await;
        let empty = "GET / HTTP/1.1\r\nhost: x\r\nx-long: \r\n\r\n";
        let head_of_size =
            |bytes: usize| empty.replace("x-long: ", &format!("x-long: {}", "x".repeat(bytes - empty.len())));
        for (bytes, expected) in [
            (MAX_HEAD_BYTES - 1, 200),
            (MAX_HEAD_BYTES, 200),
            (MAX_HEAD_BYTES + 1, 431),
            (70_000, 431),
            (100_000, 431),
            (120_000, 431),
        ] {
            let head = head_of_size(bytes);
            assert_eq!(head.len(), bytes);
            // The result must be the same whether the head arrives at once or in parts that leave space in the buffer.
            assert_eq!(status(address, &head).await, expected, "{bytes} bytes at once");
            let mut client = TcpStream::connect(address).await.unwrap();
            let (mut read, mut write) = client.split();
            let sent = async {
                for piece in head.as_bytes().chunks(9_000) {
                    if write.write_all(piece).await.is_err() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            let mut answer = [0; 12];
            let (_, read) = tokio::join!(sent, read.read_exact(&mut answer));
            read.unwrap();
            assert_eq!(&answer[9..], expected.to_string().as_bytes(), "{bytes} bytes in pieces");
        }
    }

    struct ConstantEntropy;

    impl tracewarden_model::Entropy for ConstantEntropy {
        fn fill(&self, bytes: &mut [u8]) -> Result<(), tracewarden_model::ambient::EntropyError> {
            bytes.fill(7);
            Ok(())
        }
    }

    fn heads() -> UnreadableHeads {
        UnreadableHeads::new(&tracewarden_rest::Middleware {
            public_origin: "http://localhost".to_owned(),
            trusted_proxies: tracewarden_rest::TrustedProxies::default(),
            entropy: Arc::new(ConstantEntropy),
            metrics: tracewarden_rest::Metrics::default(),
            shutdown: tracewarden_rest::ShutdownFlag::default(),
        })
    }

    /// Sends bytes and reads at the same time; returns everything received.
    async fn exchange(address: SocketAddr, sent: &[u8]) -> String {
        let client = TcpStream::connect(address).await.unwrap();
        let (mut read, mut write) = client.into_split();
        let mut answer = Vec::new();
        let (_, read) = tokio::join!(write.write_all(sent), read.read_to_end(&mut answer));
        read.unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn a_head_that_cannot_be_read_is_answered_with_a_problem() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // A response body that looks like one of hyper's error responses must not be replaced.
        let bare =
            "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let pieces = move || stream::iter([Ok::<_, io::Error>(bare), Ok(bare)]);
        let routes = Router::new()
            .route("/bare", get(async move || Body::from_stream(pieces())))
            .fallback(async || "here");
        tokio::spawn(async move {
            serve(listener, routes, Some(heads()), pending(), TIMEOUT, &Connections::new(9)).await;
        });
        let head = |path: &str, headers: &str| format!("GET /{path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        let long = |length: usize| "x".repeat(length);
        let many: String = (0..=MAX_HEADERS).map(|number| format!("x-{number}: x\r\n")).collect();
        let good = head("", "");
        for (sent, status, code) in [
            (head("", &many), "431 Request Header Fields Too Large", "headers_too_large"),
            (
                head("", &format!("x-long: {}\r\n", long(1 << 20))),
                "431 Request Header Fields Too Large",
                "headers_too_large",
            ),
            (
                head("", &format!("x-long: {}\r\n", long(MAX_HEAD_BYTES))),
                "431 Request Header Fields Too Large",
                "headers_too_large",
            ),
            (head(&long(8 << 20), ""), "431 Request Header Fields Too Large", "headers_too_large"),
            (head(&long(65_535), ""), "414 URI Too Long", "uri_too_long"),
            ("nonsense\r\n\r\n".to_owned(), "400 Bad Request", "invalid_request"),
            (head("", "x y: z\r\n"), "400 Bad Request", "invalid_request"),
        ] {
            let answer = exchange(address, sent.as_bytes()).await;
            let (answered, body) =
                answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{code}: {answer}"));
            assert!(answered.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answered}");
            for line in [
                "content-type: application/problem+json",
                "x-content-type-options: nosniff",
                "connection: close",
                "date: ",
            ] {
                assert!(answered.contains(line), "{line}: {answered}");
            }
            let problem: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!((&problem["code"], &problem["retry"]), (&code.into(), &"never".into()), "{problem}");
            assert!(answered.contains(&format!("x-request-id: {}", problem["request_id"].as_str().unwrap())));
            assert!(answered.contains(&format!("content-length: {}", body.len())), "{answered}");
            // The same as the second request of a connection.
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(good.as_bytes()).await.unwrap();
            let mut first = [0; 1024];
            let length = client.read(&mut first).await.unwrap();
            assert!(std::str::from_utf8(&first[..length]).unwrap().ends_with("here"));
            let (mut read, mut write) = client.into_split();
            let mut answer = Vec::new();
            let (_, read) = tokio::join!(write.write_all(sent.as_bytes()), read.read_to_end(&mut answer));
            read.unwrap();
            assert!(String::from_utf8(answer).unwrap().contains(code), "{code}");
        }
        let response = exchange(address, head("bare", "connection: close\r\n").as_bytes()).await;
        assert!(response.starts_with("HTTP/1.1 200") && response.matches(bare).count() == 2, "{response}");
    }

    #[tokio::test]
    async fn disconnects_clients_that_send_heads_too_slowly() {
        let timeout = Timeouts { head: Duration::from_millis(500), ..TIMEOUT };
        let address = start(timeout, &Connections::new(9)).await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut slow = TcpStream::connect(address).await.unwrap();
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let slow_sender = async {
            // Each byte arrives in time, but the head as a whole does not.
            for piece in b"GET / HTTP/1.1\r\nhost: x\r\nx-more: and more and more".chunks(1) {
                if slow.write_all(piece).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            panic!("it could go on for ever");
        };
        let all = async {
            let waited = Duration::from_secs(30);
            tokio::join!(slow_sender, answer(&mut silent, waited), answer(&mut idle, waited))
        };
        let ((), silent, idle) = tokio::time::timeout(Duration::from_secs(20), all).await.unwrap();
        assert_eq!(silent, "");
        assert!(idle.starts_with("HTTP/1.1 200") && idle.ends_with("here"), "{idle}");
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_wait_for_one_to_end() {
        let connections = Connections::new(2);
        let address = start(TIMEOUT, &connections).await;
        let mut open = Vec::new();
        for _ in 0..2 {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            assert!(client.read(&mut [0; 1024]).await.unwrap() > 0);
            open.push(client);
        }
        let mut third = TcpStream::connect(address).await.unwrap();
        third.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        assert_eq!(answer(&mut third, Duration::from_millis(300)).await, "");
        let mut registry = prometheus_client::registry::Registry::default();
        connections.register(&mut registry);
        let counts = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        let is_full = |counts: &String| counts.contains("tracewarden_http_connections_full_total 1\n");
        let full = until(async || counts(), is_full).await;
        assert!(full.contains("tracewarden_http_connections 2\n"), "{full}");
        open.pop();
        let answered = answer(&mut third, Duration::from_secs(20)).await;
        assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
        drop((open, third));
        until(async || counts(), |counts| counts.contains("tracewarden_http_connections 0\n")).await;
    }
}

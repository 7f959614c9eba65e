//! Accepting connections, with bounds on headers and time, until the signal to stop; then letting running answers
//! finish.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;

/// Request line and headers together; a larger head is answered with 431.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Headers in a request.
const MAX_HEADERS: usize = 100;
/// A head must have arrived after this time; it also ends idle connections.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);
/// Wait after a failure to accept, which is usually a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time for the records of answers that were broken off at the end.
const LAST_RECORDS: Duration = Duration::from_secs(1);

/// How patient the server is.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How long running answers may take after the signal to stop.
    pub grace: Duration,
    /// How long a client may take none of an answer. One that stopped reading would hold a query of the trace store, and
    /// with enough connections all that it has.
    pub stall: Duration,
}

/// Serves until `stop` completes, then waits for running answers.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    stop: impl Future<Output = ()>,
    patience: Patience,
) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES);
    let running = GracefulShutdown::new();
    let (break_off, broken_off) = watch::channel(false);
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection = http
                    .serve_connection(prepare(stream, patience.stall), per_connection(routes.clone(), peer));
                let connection = running.watch(connection);
                let mut broken_off = broken_off.clone();
                tokio::spawn(async move {
                    let ended = tokio::select! {
                        ended = connection => ended,
                        _ = broken_off.wait_for(|now| *now) => return,
                    };
                    if let Err(error) = ended {
                        // Clients go away; that is their business, and each is audited where it matters.
                        tracing::debug!(%error, "connection ended");
                    }
                });
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    tracing::info!("stopping; running answers may finish");
    if tokio::time::timeout(patience.grace, running.shutdown()).await.is_err() {
        tracing::warn!("answers that still ran are broken off");
        if break_off.send(true).is_ok() {
            // Each leaves a record of how it ended, which is written now.
            tokio::time::sleep(LAST_RECORDS).await;
        }
    }
}

fn prepare(stream: TcpStream, stall: Duration) -> TokioIo<Pin<Box<TimeoutStream<TcpStream>>>> {
    // Without it the small last piece of an answer waits for the acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(stall));
    TokioIo::new(Box::pin(stream))
}

fn per_connection(
    routes: Router,
    peer: SocketAddr,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = axum::response::Response,
    Error = std::convert::Infallible,
    Future: Send,
> {
    hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        routes.clone().oneshot(request.map(axum::body::Body::new))
    })
}

/// A failure that concerns the one connection that was to be accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Completes when the operating system asks the process to stop: SIGTERM or SIGINT.
///
/// # Errors
/// When the signals cannot be watched.
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::body::Body;
    use axum::routing::get;
    use futures::stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

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
    async fn a_client_that_stops_reading_is_let_go() {
        let dropped = Arc::new(AtomicBool::new(false));
        let held = Arc::clone(&dropped);
        let routes = Router::new().route("/", get(move || endless(Arc::clone(&held))));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let patience = Patience { grace: Duration::from_secs(1), stall: Duration::from_millis(300) };
        tokio::spawn(serve(listener, routes, std::future::pending(), patience));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut some = vec![0; 1024];
        // As long as it reads, however slowly, it is served.
        for _ in 0..5 {
            assert!(client.read(&mut some).await.unwrap() > 0);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for _ in 0..100 {
            if dropped.load(Ordering::SeqCst) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the answer is still held");
    }
}

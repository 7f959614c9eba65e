//! Accepting connections, with bounds on headers and time, until the signal to stop; then letting running answers
//! finish.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

/// Request line and headers together; a larger head is answered with 431.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Headers in a request.
const MAX_HEADERS: usize = 100;
/// A head must have arrived after this time; it also ends idle connections.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);
/// Wait after a failure to accept, which is usually a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop` completes, then waits at most `grace` for running answers.
pub async fn serve(listener: TcpListener, routes: Router, stop: impl Future<Output = ()>, grace: Duration) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES);
    let running = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection = http.serve_connection(prepare(stream), per_connection(routes.clone(), peer));
                let connection = running.watch(connection);
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
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
    if tokio::time::timeout(grace, running.shutdown()).await.is_err() {
        tracing::warn!("answers that still ran were broken off");
    }
}

fn prepare(stream: TcpStream) -> TokioIo<TcpStream> {
    // Without it the small last piece of an answer waits for the acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    TokioIo::new(stream)
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

//! Checks that the service can listen on the configured addresses.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::finding::Finding;
use crate::configuration::Configuration;
use crate::server::reachable;

/// Time-out for an answer of the process that already listens on an address.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of bytes of that answer that are read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Adds a finding for each listener. It binds the address for a moment and accepts no connection.
pub(super) async fn check(configuration: &Configuration, findings: &mut Vec<Finding>) {
    // To recognise a running Tracewarden: its metric names are unique to it. The body of `/healthz` is short and not
    // unique, but every answer of the service has this request id header.
    findings.extend(check_listener("listen", configuration.listen, "/healthz", "x-request-id: ").await);
    if let Some(address) = configuration.metrics_listen {
        findings
            .extend(check_listener("metrics_listen", address, "/metrics", "tracewarden_build_info").await);
    }
}

async fn check_listener(setting: &str, address: SocketAddr, path: &str, marker: &str) -> Option<Finding> {
    if address.port() == 0 {
        return None;
    }
    let error = match TcpListener::bind(address).await {
        Ok(_) => return Some(Finding::ok(format!("`{setting}`: {address} is free"))),
        Err(error) => error,
    };
    Some(match error.kind() {
        io::ErrorKind::AddrInUse if is_this_service(address, path, marker).await => {
            Finding::ok(format!("`{setting}`: this service already runs on {address}"))
        }
        io::ErrorKind::AddrInUse => Finding::error(format!(
            "`{setting}`: another program listens on {address}, or this service on a part of it: stop it, or \
             choose another port"
        )),
        io::ErrorKind::AddrNotAvailable => {
            Finding::error(format!("`{setting}`: {address} is not an address of this machine"))
        }
        _ => Finding::error(format!("`{setting}`: cannot listen on {address}: {error}")),
    })
}

async fn is_this_service(address: SocketAddr, path: &str, marker: &str) -> bool {
    let address = reachable(address);
    let probe = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&answer).contains(marker))
    };
    // A listener that does not answer in time is taken for another program.
    matches!(timeout(TIMEOUT, probe).await, Ok(Ok(true)))
}

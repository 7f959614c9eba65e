//! A client for ClickHouse's HTTP interface, sufficient for preparing test servers.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

const PING_TIMEOUT: Duration = Duration::from_secs(2);
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(120);

/// Whether the server responds to `/ping`.
pub(super) fn ping(port: u16) -> bool {
    exchange(port, b"GET /ping HTTP/1.0\r\n\r\n", &[], PING_TIMEOUT).is_ok_and(|answer| answer.0 == 200)
}

/// Sends a statement and returns its output.
///
/// # Errors
/// The error that the server returns.
pub(super) fn post(port: u16, user: &str, password: &str, statement: &[u8]) -> Result<String, String> {
    let head = format!(
        "POST / HTTP/1.0\r\nX-ClickHouse-User: {user}\r\nX-ClickHouse-Key: {password}\r\nContent-Length: {}\r\n\r\n",
        statement.len()
    );
    match exchange(port, head.as_bytes(), statement, STATEMENT_TIMEOUT)? {
        (200, body) => Ok(body.trim_end().to_owned()),
        (status, body) => Err(format!("{status}: {}", body.trim_end())),
    }
}

/// Sends a request and returns status and body. In HTTP/1.0, a response has no chunks and ends with its connection.
fn exchange(port: u16, head: &[u8], body: &[u8], timeout: Duration) -> Result<(u16, String), String> {
    let failed = |error: std::io::Error| format!("the ClickHouse server does not answer: {error}");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
    stream.set_read_timeout(Some(timeout)).map_err(failed)?;
    stream.write_all(head).and_then(|()| stream.write_all(body)).map_err(failed)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(failed)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("the ClickHouse server gave no answer")?;
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| format!("no status in `{head}`"))?, body.to_owned()))
}

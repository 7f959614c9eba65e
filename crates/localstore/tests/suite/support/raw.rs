//! A minimal HTTP/1.1 client, because the tests check details that a client library hides: aborted connections, chunks,
//! headers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A response as received.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the body ended as its framing specifies; false if the connection was aborted before.
    pub complete: bool,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// `X-ClickHouse-Exception-Code`
    pub fn code(&self) -> Option<i32> {
        self.header("x-clickhouse-exception-code").and_then(|code| code.parse().ok())
    }
}

/// Connects and sends a request without reading the response.
pub fn send(address: &str, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("timeout");
    let mut head = format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head.push_str(&format!("Host: {address}\r\n"));
    }
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding")) {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    // The server may reject a request and close the connection before it reads the body.
    drop(sent);
    stream
}

pub fn request(address: &str, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    read(send(address, method, target, headers, body))
}

pub fn read(stream: TcpStream) -> Answer {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("a status line");
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or_else(|| panic!("no status line but `{line}`"));
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).expect("a header");
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut answer = Answer { status, headers, body: Vec::new(), complete: false };
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.complete = read_chunks(&mut reader, &mut answer.body).is_ok();
    } else {
        let length: u64 = answer.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let read = reader.take(length).read_to_end(&mut answer.body).unwrap_or(0);
        answer.complete = read as u64 == length;
    }
    answer
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> std::io::Result<()> {
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = u64::from_str_radix(size.trim(), 16).map_err(|_| std::io::Error::other("no chunk"))?;
        let read = reader.by_ref().take(size).read_to_end(body)? as u64;
        let mut end = String::new();
        reader.read_line(&mut end)?;
        if read != size || end != "\r\n" {
            return Err(std::io::Error::other("a broken chunk"));
        }
        if size == 0 {
            return Ok(());
        }
    }
}

/// Percent-encodes everything that is not a letter or digit.
pub fn encode(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}

//! A relay that repeats the first response to each statement, so that a test can cut a response that ClickHouse produces only
//! once after each of its bytes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use super::rewriting::{Message, line};

/// The recorded responses.
#[derive(Default)]
pub(super) struct RecordedResponses {
    /// Whole responses with their heads, by [`Request::statement`].
    by_statement: HashMap<Vec<u8>, Vec<u8>>,
    /// Number of repeated responses.
    pub(super) repeated: usize,
}

/// Listens on a free port of the loopback interface until the process ends.
pub(super) fn start(
    upstream: SocketAddr,
    recorded: Arc<Mutex<RecordedResponses>>,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let recorded = Arc::clone(&recorded);
            std::thread::spawn(move || relay(client, upstream, &recorded));
        }
    });
    Ok(address)
}

/// Forwards requests until the client disconnects or the server closes the connection.
fn relay(client: TcpStream, upstream: SocketAddr, recorded: &Mutex<RecordedResponses>) {
    let Ok(mut to_client) = client.try_clone() else { return };
    let mut requests = BufReader::new(client);
    while let Some(request) = Request::read(&mut requests) {
        let cached = {
            let mut recorded = recorded.lock().unwrap_or_else(PoisonError::into_inner);
            let cached = request
                .statement
                .as_ref()
                .and_then(|statement| recorded.by_statement.get(statement))
                .cloned();
            recorded.repeated += usize::from(cached.is_some());
            cached
        };
        let Some(response) = cached.or_else(|| {
            let response = exchange(upstream, &request.bytes)?;
            if let Some(statement) = request.statement {
                let mut recorded = recorded.lock().unwrap_or_else(PoisonError::into_inner);
                recorded.by_statement.insert(statement, response.clone());
            }
            Some(response)
        }) else {
            return;
        };
        if to_client.write_all(&response).is_err() {
            return;
        }
    }
}

struct Request {
    bytes: Vec<u8>,
    /// The part of a statement that is the same whenever it is sent: without the query id and without the multipart boundary.
    statement: Option<Vec<u8>>,
}

impl Request {
    fn read(from: &mut impl BufRead) -> Option<Self> {
        let first = line(from)?;
        let (mut bytes, mut length, mut boundary) = (format!("{first}\r\n").into_bytes(), 0, None);
        loop {
            let header = line(from)?;
            bytes.extend_from_slice(header.as_bytes());
            bytes.extend_from_slice(b"\r\n");
            let Some((name, value)) = header.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
            boundary = boundary.or_else(|| Some(value.split_once("boundary=")?.1.trim().to_owned()));
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body).ok()?;
        bytes.extend_from_slice(&body);
        let statement = first.starts_with("POST ").then(|| {
            let settings: Vec<&str> = first.split('&').filter(|part| !part.contains("query_id=")).collect();
            let body = String::from_utf8_lossy(&body).replace(&boundary.unwrap_or_default(), "");
            format!("{}\n{body}", settings.join("&")).into_bytes()
        });
        Some(Self { bytes, statement })
    }
}

/// Returns the whole response with its head, if it is complete.
fn exchange(upstream: SocketAddr, request: &[u8]) -> Option<Vec<u8>> {
    let mut server = TcpStream::connect(upstream).ok()?;
    server.write_all(request).ok()?;
    let mut reader = RecordingReader { from: server, bytes: Vec::new() };
    // The connection carries one response, so the buffered reader cannot read beyond it.
    let response = Message::read(&mut BufReader::new(&mut reader))?;
    response.whole.then_some(reader.bytes)
}

/// Records all bytes that are read through it.
struct RecordingReader {
    from: TcpStream,
    bytes: Vec<u8>,
}

impl Read for RecordingReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.from.read(buffer)?;
        self.bytes.extend_from_slice(buffer.get(..length).unwrap_or_default());
        Ok(length)
    }
}

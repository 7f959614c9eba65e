//! Records the statements of the service, and explains them: a proxy that forwards everything and keeps each request.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// Where the text of a statement begins in a request.
const STATEMENT: &str = "form-data; name=\"query\"\r\n\r\n";

/// The proxy. Its threads end with their connections.
pub struct Recorder {
    /// URL to use instead of the store's.
    pub url: String,
    store: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    /// Listens on a free port of the loopback interface.
    pub fn start(store: &str) -> Self {
        let store = store.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (shared, upstream) = (Arc::clone(&requests), store.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&upstream) else { continue };
                let (mut to_client, mut from_server) =
                    (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from_server, &mut to_client);
                    let _ = to_client.shutdown(Shutdown::Both);
                });
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || relay(client, server, &shared));
            }
        });
        Self { url, store, requests }
    }

    /// Returns the requests with statements since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns `EXPLAIN indexes = 1` of the statement in a request, with its values and settings.
    pub fn explain(&self, request: &str) -> String {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let body = body.replacen(STATEMENT, &format!("{STATEMENT}EXPLAIN indexes = 1 "), 1);
        let head = head.lines().filter(|line| !line.to_lowercase().starts_with("content-length:"));
        let head = head.collect::<Vec<_>>().join("\r\n");
        let request = format!("{head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        let mut connection = TcpStream::connect(&self.store).unwrap();
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Returns the text of the statement in a request.
pub fn statement(request: &str) -> &str {
    let text = request.split_once(STATEMENT).map_or("", |(_, text)| text);
    text.split("\r\n--").next().unwrap_or_default()
}

fn relay(mut client: TcpStream, mut server: TcpStream, requests: &Mutex<Vec<String>>) {
    let (mut pending, mut part) = (Vec::new(), [0; 65_536]);
    while let Ok(length @ 1..) = client.read(&mut part) {
        pending.extend_from_slice(&part[..length]);
        // Kept before it is forwarded, so that it is available as soon as the caller has the answer.
        while let Some(length) = request_length(&pending) {
            let request: Vec<u8> = pending.drain(..length).collect();
            let request = String::from_utf8_lossy(&request).into_owned();
            if request.contains(STATEMENT) {
                requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            }
        }
        if server.write_all(&part[..length]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

/// Returns the length of the first request, once it is complete.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let whole = head + length.map_or(0, |length| length.trim().parse::<usize>().unwrap());
    (bytes.len() >= whole).then_some(whole)
}

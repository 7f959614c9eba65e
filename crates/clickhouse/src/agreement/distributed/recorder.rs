//! Records the statements that a server receives: a relay that forwards everything and keeps each statement.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use url::Url;

/// A statement and its parameters, as sent.
#[derive(Debug, Clone)]
pub(super) struct RecordedStatement {
    pub(super) text: String,
    pub(super) parameters: Vec<(String, String)>,
    /// The whole request, with its settings.
    request: Vec<u8>,
}

/// The relay. Its threads end with their connections.
pub(super) struct Recorder {
    /// Address to use instead of the server's.
    pub(super) url: String,
    sent: Arc<Mutex<Vec<RecordedStatement>>>,
}

impl Recorder {
    /// Listens on a free port of the loopback interface.
    pub(super) fn start(store: &str) -> Self {
        let store = store.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let sent: Arc<Mutex<Vec<RecordedStatement>>> = Arc::default();
        let shared = Arc::clone(&sent);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&store).unwrap();
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
        Self { url, sent }
    }

    /// Returns the statements since the last call.
    pub(super) fn take(&self) -> Vec<RecordedStatement> {
        std::mem::take(&mut *self.sent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn relay(mut client: TcpStream, mut server: TcpStream, sent: &Mutex<Vec<RecordedStatement>>) {
    let (mut pending, mut part) = (Vec::new(), [0; 65_536]);
    while let Ok(length @ 1..) = client.read(&mut part) {
        pending.extend_from_slice(&part[..length]);
        // Kept before it is forwarded, so that it is available as soon as the caller has the answer.
        while let Some(length) = request_length(&pending) {
            let request: Vec<u8> = pending.drain(..length).collect();
            sent.lock().unwrap_or_else(PoisonError::into_inner).push(parse(&request));
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
    let text = std::str::from_utf8(&bytes[..head]).unwrap().to_lowercase();
    let length =
        text.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a body's length");
    let whole = head + length.trim().parse::<usize>().unwrap();
    (bytes.len() >= whole).then_some(whole)
}

/// Parses the parts of the form.
fn parse(request: &[u8]) -> RecordedStatement {
    let text = String::from_utf8(request.to_vec()).unwrap();
    let (_, form) = text.split_once("\r\n\r\n").unwrap();
    let boundary = format!("\r\n{}", form.lines().next().unwrap());
    let mut parts = form.split("Content-Disposition: form-data; name=\"").skip(1).map(|part| {
        let (name, value) = part.split_once("\"\r\n\r\n").unwrap();
        (name.to_owned(), value.split(&boundary).next().unwrap().to_owned())
    });
    let (name, text) = parts.next().unwrap();
    assert_eq!(name, "query");
    RecordedStatement { text, parameters: parts.collect(), request: request.to_vec() }
}

impl RecordedStatement {
    /// Returns the settings in the URL, and the query id.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let first = self.request.split(|byte| *byte == b'\r').next().unwrap();
        let path = std::str::from_utf8(first).unwrap().split(' ').nth(1).unwrap();
        let address = Url::parse(&format!("http://store{path}")).unwrap();
        address.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
    }

    /// Sends the request once more, to this address, and returns the whole answer.
    pub(super) fn resend(&self, store: &str) -> String {
        let store = store.trim_start_matches("http://").trim_end_matches('/');
        let mut connection = TcpStream::connect(store).unwrap();
        let line = self.request.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let (first, rest) = self.request.split_at(line);
        connection.write_all(&[first, b"Connection: close\r\n", rest].concat()).unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Formats the statement on several lines, for the golden file.
    pub(super) fn formatted(&self) -> String {
        let mut formatted = self.text.clone();
        for word in ["FROM", "WHERE", "GROUP BY", "HAVING", "AND countIf", "ORDER BY", "GLOBAL"] {
            formatted = formatted.replace(&format!(" {word} "), &format!("\n{word} "));
        }
        formatted = formatted.replace("\nGLOBAL IN", " GLOBAL IN");
        for (name, value) in &self.parameters {
            write!(formatted, "\n  {} = {value}", name.trim_start_matches("param_")).unwrap();
        }
        formatted
    }

    /// Returns sub-queries that each shard would evaluate on its own rows: an `IN` or a `JOIN` that is not `GLOBAL`.
    pub(super) fn not_global(&self) -> Vec<String> {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        let mut found = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let joins = *word == "JOIN" && words[at - 1] != "ARRAY";
            let is_in = *word == "IN" && words.get(at + 1).is_some_and(|next| next.starts_with("(SELECT"));
            let before = words[..at].iter().rev().find(|word| {
                !["LEFT", "RIGHT", "INNER", "ANY", "ALL", "SEMI", "ANTI", "NOT"].contains(*word)
            });
            if (joins || is_in) && before != Some(&"GLOBAL") {
                found.push(words[at.saturating_sub(4)..(at + 4).min(words.len())].join(" "));
            }
        }
        found
    }
}

#[test]
fn sub_queries_that_are_not_global_are_found() {
    let found = |text: &str| {
        RecordedStatement { text: text.to_owned(), parameters: Vec::new(), request: Vec::new() }
            .not_global()
            .len()
    };
    for text in [
        "SELECT 1 FROM a WHERE b IN (SELECT c FROM d)",
        "SELECT 1 FROM a WHERE b NOT IN (SELECT c FROM d)",
        "SELECT 1 FROM a LEFT ANY JOIN (SELECT c FROM d) AS e ON b = c",
        "SELECT 1 FROM a GLOBAL JOIN e ON b = c WHERE b IN (SELECT c FROM d)",
    ] {
        assert_eq!(found(text), 1, "{text}");
    }
    for text in [
        "SELECT 1 FROM a WHERE b GLOBAL IN (SELECT c FROM d) AND e IN (1, 2)",
        "SELECT 1 FROM a WHERE b GLOBAL NOT IN (SELECT c FROM d)",
        "SELECT 1 FROM a GLOBAL LEFT ANY JOIN (SELECT c FROM d) AS e ON b = c",
        "SELECT 1 FROM a ARRAY JOIN b AS c",
    ] {
        assert_eq!(found(text), 0, "{text}");
    }
}

//! Responses that are parsed as HTTP and rewritten with another body and another end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{State, lock};

/// The changes to responses to statements. Every rewritten response declares [`TAG`] as its exception tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseRewrite {
    /// The first response whose body is changed, counted from 0 since the fault was set; all later ones are changed too.
    pub from: usize,
    /// Maximum number of bytes of the body that are kept.
    pub keep: usize,
    /// Text after the kept bytes.
    pub suffix: &'static str,
    /// Size in bytes of the pieces in which this text is sent. The first piece begins with the last kept bytes.
    pub chunk_size: usize,
    /// How responses end.
    pub end: BodyEnd,
}

/// How a rewritten response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// With the last chunk: a valid end in HTTP.
    Complete,
    /// Without the last chunk, if the body was changed.
    Truncated,
    /// By closing the connection, with neither a length nor chunks, as an HTTP/1.0 proxy does.
    ConnectionClose,
    /// As [`Self::ConnectionClose`], with `Transfer-Encoding: identity`.
    IdentityThenClose,
}

/// The exception tag of every rewritten response.
pub const TAG: &str = "abcdefghijklmnop";

impl ResponseRewrite {
    /// Returns a rewriting that keeps bodies whole and uses this end.
    pub fn whole(end: BodyEnd) -> Self {
        Self { from: usize::MAX, keep: usize::MAX, suffix: "", chunk_size: usize::MAX, end }
    }
}

/// A response as it was received.
pub(super) struct Message {
    status: String,
    headers: Vec<String>,
    body: Vec<u8>,
    /// Whether the response is complete.
    pub(super) whole: bool,
}

impl Message {
    /// Reads a response; `None` at the end of the connection.
    pub(super) fn read(from: &mut impl BufRead) -> Option<Self> {
        let status = line(from)?;
        let mut headers = Vec::new();
        loop {
            match line(from)? {
                empty if empty.is_empty() => break,
                header => headers.push(header),
            }
        }
        let mut body = Vec::new();
        let value = |wanted: &str| {
            headers.iter().find_map(|header| {
                let (name, value) = header.split_once(':')?;
                name.eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
            })
        };
        let whole = match value("content-length").map(|length| length.parse::<u64>()) {
            Some(Ok(length)) => {
                from.take(length).read_to_end(&mut body).is_ok_and(|read| read as u64 == length)
            }
            Some(Err(_)) => return None,
            None => chunks(from, &mut body).is_some(),
        };
        Some(Self { status, headers, body, whole })
    }

    /// Returns the head, with the headers about the body's end and the exception tag replaced.
    fn head(&self, end: BodyEnd) -> String {
        const REPLACED: [&str; 5] =
            ["content-length", "transfer-encoding", "connection", "keep-alive", "x-clickhouse-exception-tag"];
        let mut head = format!("{}\r\nX-ClickHouse-Exception-Tag: {TAG}\r\n", self.status);
        for header in &self.headers {
            let name = header.split(':').next().unwrap_or_default();
            if !REPLACED.iter().any(|replaced| name.eq_ignore_ascii_case(replaced)) {
                head.push_str(header);
                head.push_str("\r\n");
            }
        }
        head.push_str(match end {
            BodyEnd::ConnectionClose => "Connection: close\r\n\r\n",
            BodyEnd::IdentityThenClose => "Transfer-Encoding: identity\r\nConnection: close\r\n\r\n",
            BodyEnd::Complete | BodyEnd::Truncated => "Transfer-Encoding: chunked\r\n\r\n",
        });
        head
    }
}

/// Reads a line and removes its end.
pub(super) fn line(from: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    match from.read_line(&mut line) {
        Ok(1..) if line.ends_with('\n') => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
        _ => None,
    }
}

/// Reads a chunked body; `None` if it is incomplete.
fn chunks(from: &mut impl BufRead, body: &mut Vec<u8>) -> Option<()> {
    loop {
        let length = u64::from_str_radix(&line(from)?, 16).ok()?;
        let read = from.take(length).read_to_end(body).ok()? as u64;
        if read < length || !line(from)?.is_empty() {
            return None;
        }
        if length == 0 {
            return Some(());
        }
    }
}

/// Forwards responses until the connection or the fault ends.
pub(super) fn forward_responses(
    server: TcpStream,
    mut client: TcpStream,
    state: &Mutex<State>,
    generation: u64,
    health_check: &AtomicBool,
    rewriting: ResponseRewrite,
) {
    let mut server = BufReader::new(server);
    let kept_length = |response: &Message| response.body.len().min(rewriting.keep);
    while let Some(mut response) = Message::read(&mut server) {
        let mut changed = false;
        if !health_check.load(Ordering::SeqCst) {
            let mut state = lock(state);
            if state.generation != generation {
                return;
            }
            changed = state.bodies.len() >= rewriting.from
                && (kept_length(&response) < response.body.len() || !rewriting.suffix.is_empty());
            state.changed += usize::from(changed);
            state.bodies.push(response.body.clone());
        }
        if changed {
            response.body.truncate(kept_length(&response));
        }
        let (suffix, chunk_size) =
            if changed { (rewriting.suffix, rewriting.chunk_size.max(1)) } else { ("", 1) };
        let kept_length = response.body.len();
        response.body.extend_from_slice(suffix.as_bytes());
        let (first, rest) = response.body.split_at(kept_length.saturating_sub(chunk_size / 2));
        let end = if response.whole { rewriting.end } else { BodyEnd::Truncated };
        let mut sent = client.write_all(response.head(end).as_bytes());
        for part in std::iter::once(first).chain(rest.chunks(chunk_size)).filter(|part| !part.is_empty()) {
            sent = sent.and_then(|()| match end {
                BodyEnd::ConnectionClose | BodyEnd::IdentityThenClose => client.write_all(part),
                BodyEnd::Complete | BodyEnd::Truncated => {
                    client.write_all(format!("{:x}\r\n", part.len()).as_bytes())?;
                    client.write_all(part)?;
                    client.write_all(b"\r\n")
                }
            });
        }
        let keeps_connection = match end {
            BodyEnd::ConnectionClose | BodyEnd::IdentityThenClose => false,
            BodyEnd::Truncated => !changed && response.whole,
            BodyEnd::Complete => true,
        };
        if keeps_connection {
            sent = sent.and_then(|()| client.write_all(b"0\r\n\r\n"));
        }
        if sent.is_err() || !keeps_connection {
            return;
        }
    }
}

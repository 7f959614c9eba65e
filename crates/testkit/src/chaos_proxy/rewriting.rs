//! Responses that are parsed as HTTP and rewritten with another body and another end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{State, lock};

/// The changes to responses to statements. Every rewritten response declares [`TAG`] as its exception tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewriting {
    /// The first response whose body is changed, counted from 0 since the fault was set; all later ones are changed too.
    pub from: usize,
    /// Maximum number of bytes of the body that are kept.
    pub keep: usize,
    /// Text after the kept bytes.
    pub behind: &'static str,
    /// Size in bytes of the pieces in which this text is sent. The first piece begins with the last kept bytes.
    pub piece: usize,
    /// How responses end.
    pub end: End,
}

/// How a rewritten response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With the last chunk: a valid end in HTTP.
    Proper,
    /// Without the last chunk, if the body was changed.
    Broken,
    /// By closing the connection, with neither a length nor chunks, as an HTTP/1.0 proxy does.
    Closing,
    /// As [`Self::Closing`], with `Transfer-Encoding: identity`.
    ClosingAsIdentity,
}

/// The exception tag of every rewritten response.
pub const TAG: &str = "abcdefghijklmnop";

impl Rewriting {
    /// Returns a rewriting that keeps bodies whole and uses this end.
    pub fn whole(end: End) -> Self {
        Self { from: usize::MAX, keep: usize::MAX, behind: "", piece: usize::MAX, end }
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
    fn head(&self, end: End) -> String {
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
            End::Closing => "Connection: close\r\n\r\n",
            End::ClosingAsIdentity => "Transfer-Encoding: identity\r\nConnection: close\r\n\r\n",
            End::Proper | End::Broken => "Transfer-Encoding: chunked\r\n\r\n",
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
pub(super) fn answers(
    server: TcpStream,
    mut client: TcpStream,
    state: &Mutex<State>,
    generation: u64,
    sign_of_life: &AtomicBool,
    rewriting: Rewriting,
) {
    let mut server = BufReader::new(server);
    let kept = |answer: &Message| answer.body.len().min(rewriting.keep);
    while let Some(mut answer) = Message::read(&mut server) {
        let mut changed = false;
        if !sign_of_life.load(Ordering::SeqCst) {
            let mut state = lock(state);
            if state.generation != generation {
                return;
            }
            changed = state.bodies.len() >= rewriting.from
                && (kept(&answer) < answer.body.len() || !rewriting.behind.is_empty());
            state.changed += usize::from(changed);
            state.bodies.push(answer.body.clone());
        }
        if changed {
            answer.body.truncate(kept(&answer));
        }
        let (behind, piece) = if changed { (rewriting.behind, rewriting.piece.max(1)) } else { ("", 1) };
        let kept = answer.body.len();
        answer.body.extend_from_slice(behind.as_bytes());
        let (first, rest) = answer.body.split_at(kept.saturating_sub(piece / 2));
        let end = if answer.whole { rewriting.end } else { End::Broken };
        let mut sent = client.write_all(answer.head(end).as_bytes());
        for part in std::iter::once(first).chain(rest.chunks(piece)).filter(|part| !part.is_empty()) {
            sent = sent.and_then(|()| match end {
                End::Closing | End::ClosingAsIdentity => client.write_all(part),
                End::Proper | End::Broken => {
                    client.write_all(format!("{:x}\r\n", part.len()).as_bytes())?;
                    client.write_all(part)?;
                    client.write_all(b"\r\n")
                }
            });
        }
        let goes_on = match end {
            End::Closing | End::ClosingAsIdentity => false,
            End::Broken => !changed && answer.whole,
            End::Proper => true,
        };
        if goes_on {
            sent = sent.and_then(|()| client.write_all(b"0\r\n\r\n"));
        }
        if sent.is_err() || !goes_on {
            return;
        }
    }
}

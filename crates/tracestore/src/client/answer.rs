//! Answers: the first of their bytes, which still tells whether another endpoint may be asked, and the rest as a stream.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::Client;
use super::failure::{Miss, text};
use crate::StoreError;
use crate::metrics::Measured;

/// Most of an error's text that is kept.
const MAX_ERROR_BYTES: usize = 16 * 1024;
/// Most of an answer that is collected rather than streamed.
const MAX_COLLECTED_BYTES: usize = 256 * 1024 * 1024;
/// How the block begins that ends an answer when its statement fails late.
const EXCEPTION_MARK: &[u8] = b"__exception__";

/// An answer whose first bytes are here.
pub(super) struct Arrived {
    /// `None` when it is empty.
    first: Option<Bytes>,
    response: reqwest::Response,
}

impl Arrived {
    /// Reads as far as the first bytes of rows, or all of an error.
    pub(super) async fn of(mut response: reqwest::Response) -> Result<Self, Miss> {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let code = header("X-ClickHouse-Exception-Code").and_then(|code| code.parse::<i32>().ok());
        if response.status().is_success() && code.is_none() {
            let first = response.chunk().await.map_err(|error| Miss::of_transport(&error))?;
            return Ok(Self { first, response });
        }
        let status = response.status();
        let mut message = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            message.extend_from_slice(&chunk);
            if message.len() > MAX_ERROR_BYTES {
                message.truncate(MAX_ERROR_BYTES);
                break;
            }
        }
        let message = format!("status {status}: {}", String::from_utf8_lossy(&message));
        Err(Miss::of_answer(status.as_u16(), code, message))
    }

    /// The next bytes. A connection that breaks off is an error: ClickHouse ends a failed answer without its final chunk.
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.response.chunk().await.map_err(|error| StoreError::Short(text(&error))),
        }
    }

    /// All rows, each a JSON array.
    pub(super) async fn rows<T: DeserializeOwned>(mut self) -> Result<Vec<T>, StoreError> {
        let mut body = Vec::new();
        let cut = loop {
            match self.next().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break None,
                Err(cut) => break Some(cut),
            }
            if body.len() > MAX_COLLECTED_BYTES {
                return Err(StoreError::Internal("an answer is too large to be collected".to_owned()));
            }
        };
        if let Some(cut) = cut {
            return Err(late_exception(&body).unwrap_or(cut));
        }
        body.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| {
                serde_json::from_slice(line).map_err(|error| {
                    let shown = quotable(line, b'[');
                    StoreError::Store { code: None, message: format!("unexpected row ({error}): {shown}") }
                })
            })
            .collect()
    }
}

/// What made a statement fail after its answer had begun.
fn late_exception(body: &[u8]) -> Option<StoreError> {
    let at = memchr::memmem::rfind(body, b"Code: ")?;
    memchr::memmem::find(body.get(..at)?, EXCEPTION_MARK)?;
    let message: String =
        String::from_utf8_lossy(body.get(at..)?).lines().next().unwrap_or_default().to_owned();
    let code = message.strip_prefix("Code: ")?.split('.').next()?.parse().ok()?;
    Some(StoreError::from_exception(Some(code), message))
}

/// An answer to be passed on while it arrives.
pub(crate) struct Answer {
    pub(super) arrived: Arrived,
    pub(super) measured: Measured,
    pub(super) client: Client,
    /// Whose answer it is.
    pub(super) endpoint: usize,
    /// How long the store may still be waited for, in all.
    pub(super) work: Duration,
    /// When the answer must be with its reader.
    pub(super) until: Instant,
}

/// Pieces by which the task that reads may be ahead of the reader: with one alone, each waits for the other at every piece. They
/// are of some ten to some hundred kilobytes.
const PIECES_AHEAD: usize = 16;

/// What passes from the task that reads to the reader.
enum Piece {
    Bytes(Bytes),
    /// Everything came.
    End,
}

impl Answer {
    /// The body. The time limit of the work counts while the store is waited for, and not while the reader is: a reader on a
    /// slow line gets a page that the store made in time, but nobody holds a statement open for ever.
    ///
    /// Dropping the stream ends the statement at once.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, StoreError>> + Send + use<> {
        let (sender, mut receiver) = mpsc::channel(PIECES_AHEAD);
        // A task, since a reader that is not ready does not poll, and the store's time would be taken for the reader's.
        tokio::spawn(self.pass_on(sender));
        let mut ended = false;
        stream::poll_fn(move |context| {
            if ended {
                return std::task::Poll::Ready(None);
            }
            receiver.poll_recv(context).map(|piece| match piece {
                Some(Ok(Piece::Bytes(bytes))) => Some(Ok(bytes)),
                Some(Ok(Piece::End)) => {
                    ended = true;
                    None
                }
                Some(Err(error)) => {
                    ended = true;
                    Some(Err(error))
                }
                None => {
                    ended = true;
                    Some(Err(StoreError::Short("the answer was given up".to_owned())))
                }
            })
        })
        .fuse()
    }

    async fn pass_on(self, sender: mpsc::Sender<Result<Piece, StoreError>>) {
        let Self { mut arrived, mut measured, client, endpoint, mut work, until } = self;
        // One timer for all pieces.
        let until = tokio::time::sleep_until(until.into());
        tokio::pin!(until);
        let error = loop {
            let begun = Instant::now();
            let next = tokio::select! {
                next = tokio::time::timeout(work, arrived.next()) => next,
                () = &mut until => break overdue(),
                // Nobody waits any more. The connection is closed with the answer, and the store stops.
                () = sender.closed() => return,
            };
            work = work.saturating_sub(begun.elapsed());
            let piece = match next {
                Ok(Ok(Some(bytes))) => Piece::Bytes(bytes),
                Ok(Ok(None)) => Piece::End,
                Ok(Err(error)) => {
                    client.suspect(endpoint);
                    break error;
                }
                Err(_) => {
                    break StoreError::Timeout("the rest of the answer did not come in time".to_owned());
                }
            };
            let end = matches!(piece, Piece::End);
            let sent = tokio::select! {
                sent = sender.send(Ok(piece)) => sent,
                () = &mut until => break overdue(),
            };
            match (sent, end) {
                (Ok(()), false) => {}
                (Ok(()), true) => {
                    measured.complete();
                    return;
                }
                (Err(_), _) => return,
            }
        };
        measured.failed(&error);
        // The statement ends now, not when the reader looks.
        drop((arrived, measured));
        // Where the reader is gone, nobody has to know.
        let _ = sender.send(Err(error)).await;
    }
}

fn overdue() -> StoreError {
    StoreError::Timeout("the answer was not taken in time (`answer_timeout`)".to_owned())
}

/// What a line that should not be there says, for the log; nothing when it begins like the rows that were asked for,
/// since those hold span data.
pub(crate) fn quotable(line: &[u8], row_begin: u8) -> String {
    if line.first() == Some(&row_begin) {
        return "(not shown, it may hold span data)".to_owned();
    }
    String::from_utf8_lossy(line).chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_exception_says_what_it_is() {
        let block = "[1]\n[2]\n\r\n__exception__\r\nabc\r\nCode: 159. DB::Exception: Timeout exceeded\n42 abc\r\n__exception__\r\n";
        assert!(matches!(late_exception(block.as_bytes()), Some(StoreError::Timeout(_))));
        // A value is no exception.
        assert_eq!(late_exception(b"[\"Code: 159. x\"]\n"), None);
    }
}

//! Transfers a request's body from the connection to the thread that runs the statement.

use std::io::{self, Read};
use std::sync::Arc;

use axum::body::Body;
use bytes::{Buf, Bytes};
use futures::StreamExt;
use tokio::sync::mpsc;

use crate::running::RunningQuery;

/// Maximum number of buffered parts of a body; the connection waits when the engine is behind.
const PARTS: usize = 8;

/// Reads a body that arrives through a channel. The end must be explicit: if the channel closes without it, the body
/// was truncated.
pub struct BodyReader {
    parts: mpsc::Receiver<io::Result<Option<Bytes>>>,
    current: Bytes,
    ended: bool,
}

impl BodyReader {
    /// Creates a reader of these bytes.
    pub fn complete(bytes: Bytes) -> Self {
        let (_, parts) = mpsc::channel(1);
        Self { parts, current: bytes, ended: true }
    }
}

/// Starts a task that reads the body of a query. The task ends with the body, when the query is stopped, or when the
/// reader is dropped.
pub fn receive(body: Body, running: Arc<RunningQuery>) -> BodyReader {
    let (sender, parts) = mpsc::channel(PARTS);
    tokio::spawn(async move {
        let mut stream = body.into_data_stream();
        loop {
            let received = tokio::select! {
                received = stream.next() => received,
                // A stopped query must not wait for data that may never come.
                () = running.wait_for_stop() => Some(Err(axum::Error::new(io::Error::other("the query was stopped")))),
            };
            let part = match received {
                Some(Ok(bytes)) => Ok(Some(bytes)),
                Some(Err(error)) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, error.to_string())),
                None => Ok(None),
            };
            let last = !matches!(part, Ok(Some(_)));
            if sender.send(part).await.is_err() || last {
                return;
            }
        }
    });
    BodyReader { parts, current: Bytes::new(), ended: false }
}

impl Read for BodyReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            if self.ended {
                return Ok(0);
            }
            match self.parts.blocking_recv() {
                Some(Ok(Some(bytes))) => self.current = bytes,
                Some(Ok(None)) => self.ended = true,
                Some(Err(error)) => return Err(error),
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let length = self.current.len().min(out.len());
        if let Some(out) = out.get_mut(..length) {
            self.current.copy_to_slice(out);
        }
        Ok(length)
    }
}

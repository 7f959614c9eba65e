//! Answers that are passed on while they arrive.

use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{Stream, stream};
use tokio::sync::mpsc::{self, Sender};
use tokio::time::{timeout, timeout_at};

use super::endpoints::Endpoints;
use super::metrics::InFlightStatement;
use super::response::QueryResponse;
use crate::{ClickHouseError, Result};

/// After a pause of this length, a slow reader may be the reason why the server ended the answer.
const SLOW_READER: Duration = Duration::from_secs(1);
/// Upper bound of the bytes buffered between the server and the reader.
const MAX_BUFFERED_BYTES: usize = 16 * 1024 * 1024;

/// An answer to be streamed.
pub(crate) struct StreamedResponse {
    pub(super) response: QueryResponse,
    pub(super) in_flight: InFlightStatement,
    pub(super) endpoints: Arc<Endpoints>,
    /// The endpoint that answers.
    pub(super) endpoint: usize,
    /// How long the client may still wait for the server, in total.
    pub(super) server_time_left: Duration,
    /// When the reader must have the whole answer.
    pub(crate) until: Instant,
}

/// The longest time in which the reader took no bytes although some were there.
struct SlowestPause {
    pause: Duration,
    /// Number of bytes that it took since.
    bytes_since: usize,
}

impl SlowestPause {
    fn add(&mut self, pause: Duration, bytes: usize) {
        let bytes_since = self.bytes_since.saturating_add(bytes);
        // After more bytes than can be buffered, the server has continued since that pause.
        let is_over = pause >= self.pause || bytes_since > MAX_BUFFERED_BYTES;
        let pauses = if is_over { (pause, bytes) } else { (self.pause, bytes_since) };
        (self.pause, self.bytes_since) = pauses;
    }
}

impl StreamedResponse {
    /// Returns the body. The time limit counts while the client waits for the server, not while the client waits for the
    /// reader: a reader on a slow connection gets a page that the server finished in time. [`Self::until`] bounds how long a
    /// reader may keep the statement open, even one that does not ask for more.
    ///
    /// Dropping the stream ends the statement at once.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes>> + Send + use<> {
        // Only one chunk waits here, so that a slow reader makes the server wait.
        let (chunks, mut arrived) = mpsc::channel(1);
        tokio::spawn(self.forward(chunks));
        let mut has_ended = false;
        stream::poll_fn(move |context| {
            if has_ended {
                return Poll::Ready(None);
            }
            let next = ready!(arrived.poll_recv(context));
            has_ended = !matches!(next, Some(Some(Ok(_))));
            // Without the end marker, the answer must count as incomplete.
            let cause = "the task that reads a response ended early";
            let ended_early = || Some(Err(ClickHouseError::Internal(cause.to_owned())));
            Poll::Ready(next.unwrap_or_else(ended_early))
        })
    }

    /// Sends the chunks, and then `None`, or an error.
    async fn forward(mut self, chunks: Sender<Option<Result<Bytes>>>) {
        let result = tokio::select! {
            biased;
            // The reader has disconnected.
            () = chunks.closed() => return,
            result = self.forward_chunks(&chunks) => result,
        };
        let Self { response, mut in_flight, .. } = self;
        // The statement ends even if the reader never asks for the error.
        drop(response);
        let end = match result {
            Ok(()) => {
                in_flight.record_complete();
                None
            }
            Err(error) => {
                in_flight.record_failure(&error);
                Some(Err(error))
            }
        };
        drop(in_flight);
        // A reader that has disconnected needs no end.
        let _ = chunks.send(end).await;
    }

    async fn forward_chunks(&mut self, chunks: &Sender<Option<Result<Bytes>>>) -> Result<()> {
        let not_read =
            || ClickHouseError::Timeout("the response was not read in time (`answer_timeout`)".to_owned());
        // The server has been waiting for the reader since then: the answer may be a part of a page that is read ahead.
        let mut slowest = SlowestPause { pause: self.response.at.elapsed(), bytes_since: 0 };
        loop {
            let waiting = Instant::now();
            let next = timeout(self.server_time_left, self.response.next());
            let next = timeout_at(self.until.into(), next).await.map_err(|_| not_read())?;
            self.server_time_left = self.server_time_left.saturating_sub(waiting.elapsed());
            let bytes = match next {
                Ok(Ok(Some(bytes))) => bytes,
                Ok(Ok(None)) => return Ok(()),
                Ok(Err(ClickHouseError::IncompleteResponse(cause))) => {
                    self.endpoints.check_in_background(self.endpoint);
                    let is_slow = slowest.pause >= SLOW_READER;
                    let error = ClickHouseError::IncompleteResponse;
                    return Err(if is_slow {
                        slow_reader_error(slowest.pause, &cause)
                    } else {
                        error(cause)
                    });
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    let text = "the rest of the response did not arrive in time".to_owned();
                    return Err(ClickHouseError::Timeout(text));
                }
            };
            let (count, arrived_at) = (bytes.len(), Instant::now());
            // The caller notices a reader that has disconnected.
            let _ =
                timeout_at(self.until.into(), chunks.send(Some(Ok(bytes)))).await.map_err(|_| not_read())?;
            slowest.add(arrived_at.elapsed(), count);
        }
    }
}

/// The error for a reader that was too slow. ClickHouse ends an answer of which the client takes nothing for
/// `http_send_timeout`. It uses the value of its own profile, not the one that is sent.
fn slow_reader_error(pause: Duration, cause: &str) -> ClickHouseError {
    ClickHouseError::Timeout(format!(
        "the response ended early after its reader had read nothing for {:.1} s; ClickHouse ends a response \
         that waits longer than the `http_send_timeout` of its profile `default`: {cause}",
        pause.as_secs_f64()
    ))
}

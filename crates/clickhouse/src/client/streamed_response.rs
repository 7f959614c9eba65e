//! Answers that are passed on while they arrive.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::task::{ArcWake, AtomicWaker, waker_ref};
use futures::{Stream, StreamExt as _};

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

/// The body, until its deadline.
type Body = BoxStream<'static, Result<Bytes>>;

impl StreamedResponse {
    /// Returns the body. The time limit counts while the client waits for the server, not while the client waits for the
    /// reader: a reader on a slow connection gets a page that the server finished in time. [`Self::until`] bounds how long a
    /// reader may keep the statement open.
    ///
    /// Dropping the stream ends the statement at once.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes>> + Send + use<> {
        let Self { response, in_flight, endpoints, endpoint, server_time_left, until } = self;
        // The server has been waiting for the reader since then: the answer may be a part of a page that is read ahead.
        let last_read_at = response.at;
        let body = stream::unfold(response, |mut response| async move {
            Some((response.next().await.transpose()?, response))
        });
        let body = Arc::new(Mutex::new(Some(body.boxed())));
        let arrival = Arc::<ArrivalWaker>::default();
        let (watched, waiting) = (Arc::downgrade(&body), Arc::clone(&arrival));
        // A reader that is not ready does not poll, but its deadline must apply all the same.
        let watch = tokio::spawn(async move {
            tokio::time::sleep_until(until.into()).await;
            if let Some(body) = watched.upgrade() {
                drop(body.lock().unwrap_or_else(PoisonError::into_inner).take());
                waiting.reader.wake();
            }
        });
        BodyStream {
            body,
            in_flight: Some(in_flight),
            endpoints,
            endpoint,
            server_time_left,
            waiting: None,
            last_read_at,
            server_wait: Duration::ZERO,
            slowest: (Duration::ZERO, 0),
            arrival,
            timer: Box::pin(tokio::time::sleep(server_time_left)),
            watch,
        }
    }
}

/// A stream over an answer that is still arriving.
struct BodyStream {
    /// `None` when the body has ended, and when the deadline has passed.
    body: Arc<Mutex<Option<Body>>>,
    /// `None` when the body has ended.
    in_flight: Option<InFlightStatement>,
    endpoints: Arc<Endpoints>,
    endpoint: usize,
    server_time_left: Duration,
    /// Since when the stream has been waiting for the server.
    waiting: Option<Instant>,
    /// When the reader last took bytes, and how long the stream has waited for the server since.
    last_read_at: Instant,
    server_wait: Duration,
    /// The longest time in which the reader took no bytes although some were there, and the number of bytes that it took
    /// since.
    slowest: (Duration, usize),
    arrival: Arc<ArrivalWaker>,
    timer: Pin<Box<tokio::time::Sleep>>,
    watch: tokio::task::JoinHandle<()>,
}

/// When bytes arrived that the reader waits for. The reader may come for them later: the time in between is not the server's.
#[derive(Default)]
struct ArrivalWaker {
    at: Mutex<Option<Instant>>,
    reader: AtomicWaker,
}

impl ArcWake for ArrivalWaker {
    fn wake_by_ref(arrival: &Arc<Self>) {
        arrival.at.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
        arrival.reader.wake();
    }
}

impl BodyStream {
    /// Returns how long the stream has waited for the server since the last poll.
    fn waited(&mut self) -> Duration {
        let arrived_at = self.arrival.at.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(since) = self.waiting.take() else { return Duration::ZERO };
        arrived_at.unwrap_or_else(Instant::now).saturating_duration_since(since)
    }

    fn end(&mut self, error: Option<&ClickHouseError>) {
        self.body.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.watch.abort();
        match (self.in_flight.take(), error) {
            (Some(mut in_flight), None) => in_flight.record_complete(),
            (Some(mut in_flight), Some(error)) => in_flight.record_failure(error),
            (None, _) => {}
        }
    }

    fn fail(&mut self, error: ClickHouseError) -> Poll<Option<Result<Bytes>>> {
        self.end(Some(&error));
        Poll::Ready(Some(Err(error)))
    }
}

impl Stream for BodyStream {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.in_flight.is_none() {
            return Poll::Ready(None);
        }
        // The reader's pause, without the time spent waiting for the server.
        let waited = this.waited();
        this.server_wait = this.server_wait.saturating_add(waited);
        let pause = this.last_read_at.elapsed().saturating_sub(this.server_wait);
        this.server_time_left = this.server_time_left.saturating_sub(waited);
        this.arrival.reader.register(context.waker());
        let waker = waker_ref(&this.arrival);
        let mut wake_context = Context::from_waker(&waker);
        let next = match this.body.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(body) => body.poll_next_unpin(&mut wake_context),
            None => {
                let cause = "the response was not read in time (`answer_timeout`)";
                Poll::Ready(Some(Err(ClickHouseError::Timeout(cause.to_owned()))))
            }
        };
        match next {
            Poll::Ready(Some(Ok(bytes))) => {
                let (slowest, since) = (this.slowest.0, this.slowest.1.saturating_add(bytes.len()));
                // After more bytes than can be buffered, the server has continued since that pause.
                let is_over = pause >= slowest || since > MAX_BUFFERED_BYTES;
                this.slowest = if is_over { (pause, bytes.len()) } else { (slowest, since) };
                (this.last_read_at, this.server_wait) = (Instant::now(), Duration::ZERO);
                Poll::Ready(Some(Ok(bytes)))
            }
            Poll::Ready(Some(Err(ClickHouseError::IncompleteResponse(cause)))) => {
                this.endpoints.check_in_background(this.endpoint);
                let slowest = this.slowest.0.max(pause);
                this.fail(if slowest >= SLOW_READER {
                    slow_reader_error(slowest, &cause)
                } else {
                    ClickHouseError::IncompleteResponse(cause)
                })
            }
            Poll::Ready(Some(Err(error))) => this.fail(error),
            Poll::Ready(None) => {
                this.end(None);
                Poll::Ready(None)
            }
            Poll::Pending => {
                // Checked here and not left to the timer, which every poll resets.
                if !this.server_time_left.is_zero() {
                    let now = Instant::now();
                    this.waiting = Some(now);
                    this.timer.as_mut().reset((now + this.server_time_left).into());
                    if this.timer.as_mut().poll(&mut wake_context).is_pending() {
                        return Poll::Pending;
                    }
                }
                this.fail(ClickHouseError::Timeout(
                    "the rest of the response did not arrive in time".to_owned(),
                ))
            }
        }
    }
}

impl Drop for BodyStream {
    fn drop(&mut self) {
        self.watch.abort();
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

//! Answers to requests with an unreadable head. hyper writes a bare status for them without calling the service; the
//! connection replaces it by an answer with problem details.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use tokio::time::Sleep;
use tracewarden_rest::UnreadableHeads;

/// Limits for reading the rest of such a request after the answer: a client whose connection is closed while it still
/// writes does not read the answer.
const MAX_DISCARDED_BYTES: usize = 16 * 1024 * 1024;
const LINGER: Duration = Duration::from_secs(2);

/// Tracks whether the bytes written to a connection come from the service.
#[derive(Debug, Default)]
pub struct Exchange {
    /// Number of requests whose answer has not ended.
    open: AtomicUsize,
    /// Whether the service was called since the last complete flush.
    called: AtomicBool,
}

/// A request that the service answers.
#[derive(Debug)]
pub struct OpenRequest(Arc<Exchange>);

impl OpenRequest {
    /// Returns a body that ends this request when it is dropped.
    pub fn until_end_of(self, body: Body) -> Body {
        Body::new(body.map_err(move |error| {
            let _open = &self;
            error
        }))
    }
}

impl Exchange {
    /// Records a call of the service.
    pub fn begin(self: &Arc<Self>) -> OpenRequest {
        self.open.fetch_add(1, Ordering::SeqCst);
        self.called.store(true, Ordering::SeqCst);
        OpenRequest(Arc::clone(self))
    }

    fn flushed(&self) {
        if self.open.load(Ordering::SeqCst) == 0 {
            self.called.store(false, Ordering::SeqCst);
        }
    }

    /// Whether the service's answers are written completely, and it was not called again.
    fn is_idle(&self) -> bool {
        !self.called.load(Ordering::SeqCst)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A connection that replaces bare error responses by problem details.
pub struct ErrorReplacingStream<T> {
    inner: T,
    exchange: Arc<Exchange>,
    heads: Option<UnreadableHeads>,
    /// The bytes written instead of the bare response, and how many of them are written.
    refusal: Option<(Vec<u8>, usize)>,
    is_shut: bool,
    discarded: usize,
    linger: Option<Pin<Box<Sleep>>>,
}

impl<T: Read + Write + Unpin> ErrorReplacingStream<T> {
    /// Wraps a connection; without `heads`, bare responses are not replaced.
    pub fn new(inner: T, exchange: Arc<Exchange>, heads: Option<UnreadableHeads>) -> Self {
        Self { inner, exchange, heads, refusal: None, is_shut: false, discarded: 0, linger: None }
    }

    /// Writes the whole replacement of `bare`, if `bare` is an error response of hyper.
    fn poll_refusal(
        &mut self,
        context: &mut Context<'_>,
        bare: impl FnOnce() -> Vec<u8>,
    ) -> Poll<Option<io::Result<()>>> {
        if self.refusal.is_none() {
            let Some(heads) = self.heads.as_ref().filter(|_| self.exchange.is_idle()) else {
                return Poll::Ready(None);
            };
            let Some(refusal) = replacement_for(&bare(), heads) else { return Poll::Ready(None) };
            self.refusal = Some((refusal, 0));
        }
        let Some((refusal, written)) = &mut self.refusal else { return Poll::Ready(None) };
        while let Some(rest) = refusal.get(*written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.inner).poll_write(context, rest)) {
                Ok(0) => return Poll::Ready(Some(Err(io::ErrorKind::WriteZero.into()))),
                Ok(bytes) => *written += bytes,
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        Poll::Ready(Some(Ok(())))
    }

    /// Reads and discards what the client still sends, within limits.
    fn poll_discard(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let linger = self.linger.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        if linger.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut buffer = [0; 16 * 1024];
        while self.discarded <= MAX_DISCARDED_BYTES {
            let mut read = ReadBuf::new(&mut buffer);
            match ready!(Pin::new(&mut self.inner).poll_read(context, read.unfilled())) {
                Ok(()) if !read.filled().is_empty() => self.discarded += read.filled().len(),
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

/// Returns the replacement of a bare error response of hyper; `None` if `bare` is something else. It closes the connection,
/// as hyper does.
fn replacement_for(bare: &[u8], heads: &UnreadableHeads) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bare).ok()?;
    let status = text.strip_prefix("HTTP/1.1 ").or_else(|| text.strip_prefix("HTTP/1.0 "))?.get(..3)?;
    let status: StatusCode = status.parse().ok()?;
    let (mut headers, body) = heads.answer(status)?;
    let mut lines = text.lines().filter_map(|line| line.split_once(": "));
    if let Some((_, date)) = lines.find(|(name, _)| *name == "date") {
        headers.insert(header::DATE, date.parse().ok()?);
    }
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(header::CONTENT_LENGTH, body.len().into());
    let mut answer = format!("HTTP/1.1 {status}\r\n").into_bytes();
    for (name, value) in &headers {
        answer.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    answer.extend_from_slice(b"\r\n");
    answer.extend_from_slice(&body);
    Some(answer)
}

impl<T: Read + Unpin> Read for ErrorReplacingStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: Read + Write + Unpin> Write for ErrorReplacingStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        match ready!(self.poll_refusal(context, || buffer.to_vec())) {
            Some(written) => Poll::Ready(written.map(|()| buffer.len())),
            None => Pin::new(&mut self.inner).poll_write(context, buffer),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = || buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
        match ready!(self.poll_refusal(context, all)) {
            Some(written) => Poll::Ready(written.map(|()| buffers.iter().map(|buffer| buffer.len()).sum())),
            None => Pin::new(&mut self.inner).poll_write_vectored(context, buffers),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.inner).poll_flush(context));
        // hyper flushes the connection once its own buffer is empty.
        self.exchange.flushed();
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.refusal.is_none() {
            return Pin::new(&mut self.inner).poll_shutdown(context);
        }
        if !self.is_shut {
            ready!(Pin::new(&mut self.inner).poll_shutdown(context))?;
            self.is_shut = true;
        }
        ready!(self.poll_discard(context));
        Poll::Ready(Ok(()))
    }
}

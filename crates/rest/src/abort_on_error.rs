//! Handles an error after the status was sent: the response is aborted, so clients cannot mistake it for a complete one.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use serde_json::json;
use tracewarden_service::ServiceError;

use crate::accept::Representation;
use crate::framing::text;
use crate::problem::Problem;

/// Time to transmit the last line before the connection is aborted, which discards all data that is still buffered.
const TRAILER_FLUSH_TIME: Duration = Duration::from_millis(200);

/// Turns an error of the document into an aborted connection. NDJSON responses first get a last line with the error, because the
/// status can no longer report it.
pub(crate) fn abort_on_error<S>(
    document: S,
    representation: Representation,
    request_id: String,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static
where
    S: Stream<Item = Result<Bytes, ServiceError>> + Send + 'static,
{
    // The compression layer polls once more after the end, so the stream must be fused.
    document.fuse().flat_map(move |item| match item {
        Ok(bytes) => stream::iter([Ok(bytes)]).left_stream(),
        Err(error) => error_trailer(&error, representation, &request_id).right_stream(),
    })
}

/// Returns the last line of an incomplete NDJSON response, and the error that aborts the connection.
fn error_trailer(
    error: &ServiceError,
    representation: Representation,
    request_id: &str,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + use<> {
    let log_cause = error.log_cause().unwrap_or_default();
    tracing::error!(request_id, code = error.code(), log_cause, "the answer was aborted");
    let line = (representation == Representation::Ndjson).then(|| {
        let error = Problem::from_service_error(error).details(request_id);
        Ok(Bytes::from(text(&json!({ "error": error })) + "\n"))
    });
    let timeout = if line.is_some() { TRAILER_FLUSH_TIME } else { Duration::ZERO };
    let end = async move {
        tokio::time::sleep(timeout).await;
        Err(io::Error::other("the answer was aborted"))
    };
    stream::iter(line).chain(stream::once(end))
}

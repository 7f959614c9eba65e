//! How an answer ends that fails after its status went out: broken off, never closed as if it were whole.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use serde::Serialize;
use tracewarden_service::ServiceError;

use crate::accept::Representation;
use crate::framing::text;
use crate::problem::{Problem, ProblemDetails};

/// How long the last line has to leave before the connection is broken off: what is still in buffers then is lost.
const LEAVING: Duration = Duration::from_millis(200);

/// A document whose failure breaks the connection off. One of lines says before what the status can no longer say.
pub(crate) fn broken_off_on_failure<S>(
    document: S,
    representation: Representation,
    request_id: String,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static
where
    S: Stream<Item = Result<Bytes, ServiceError>> + Send + 'static,
{
    // Whoever compresses it asks once more after its end.
    document.fuse().flat_map(move |item| match item {
        Ok(bytes) => stream::iter([Ok(bytes)]).left_stream(),
        Err(error) => last_words(&error, representation, &request_id).right_stream(),
    })
}

/// The last line of an answer in lines that is not complete.
#[derive(Serialize)]
struct Failure {
    error: ProblemDetails,
}

fn last_words(
    error: &ServiceError,
    representation: Representation,
    request_id: &str,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + use<> {
    let inside = error.inside().unwrap_or_default();
    tracing::error!(request_id, code = error.code(), inside, "the answer was broken off");
    let line = (representation == Representation::Lines).then(|| {
        let error = Problem::of(error).details(request_id);
        Ok(Bytes::from(text(&Failure { error }) + "\n"))
    });
    let patience = if line.is_some() { LEAVING } else { Duration::ZERO };
    let end = async move {
        tokio::time::sleep(patience).await;
        Err(io::Error::other("the answer was broken off"))
    };
    stream::iter(line).chain(stream::once(end))
}

//! Transfers a request's body from the connection to the thread that runs the statement.

use std::io::{self, Read};
use std::sync::Arc;

use axum::body::Body;
use futures::{StreamExt, TryStreamExt};
use tokio_util::io::{StreamReader, SyncIoBridge};

use crate::running::RunningQuery;

/// Returns a blocking reader of the body of a query. A truncated body is an error. If the query is stopped, the body
/// ends: a stopped query must not wait for data that may never come.
pub fn blocking_reader(body: Body, running: Arc<RunningQuery>) -> impl Read + Send {
    let truncated = |error: axum::Error| io::Error::new(io::ErrorKind::UnexpectedEof, error.to_string());
    let stopped = async move { running.wait_for_stop().await };
    let parts = body.into_data_stream().map_err(truncated).take_until(Box::pin(stopped));
    SyncIoBridge::new(StreamReader::new(Box::pin(parts)))
}

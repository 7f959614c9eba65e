//! NDJSON pages that begin while the search still runs: first progress lines, then the traces.
//!
//! The response of a short search, successful or not, begins after its end, so that an error has its own status.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use futures::{FutureExt, future};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tracewarden_model::Window;
use tracewarden_service::{PendingQuery, ProgressCallback, RequestInfo, SearchProgress, ServiceError};

use crate::accept::Representation;
use crate::framing::text;
use crate::page::{Page, ndjson_head, respond};
use crate::problem::Problem;

/// Time that a search may take before its response begins, and minimum time between two progress lines.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum time without a line, so that proxies do not close the connection as idle.
const MAX_SILENCE: Duration = Duration::from_secs(5);

/// Returns a progress line: the search has covered everything from `searched_to` to `to`. `fraction` is the part of the work that
/// is done, if it is known.
fn line(progress: SearchProgress, window: Window) -> Bytes {
    let SearchProgress { searched_to, traces, fraction } = progress;
    let mut content =
        json!({ "searched_to": searched_to, "from": window.from(), "to": window.to(), "traces": traces });
    let known = fraction.filter(|fraction| fraction.is_finite());
    let known = known.map(|known| json!((known.clamp(0.0, 1.0) * 1_000.0).round() / 1_000.0));
    if let Some(members) = content.as_object_mut() {
        members.extend(known.map(|known| ("fraction".to_owned(), known)));
    }
    (text(&json!({ "progress": content })) + "\n").into()
}

/// A running search.
struct Search {
    page_future: BoxFuture<'static, Result<Page, ServiceError>>,
    window: Window,
    updates: watch::Receiver<SearchProgress>,
    /// When the last line was sent or was due.
    last: Instant,
}

type Lines = BoxStream<'static, Result<Bytes, ServiceError>>;

/// Returns the page as NDJSON.
///
/// # Errors
/// When the search fails before its response begins.
pub(crate) async fn ndjson_response(begun: PendingQuery, info: &RequestInfo) -> Result<Response, Problem> {
    let (schema, window) = (begun.schema(), begun.window());
    let (sender, updates) =
        watch::channel(SearchProgress { searched_to: window.to(), traces: 0, fraction: None });
    let sender: ProgressCallback = Arc::new(move |progress| {
        sender.send_replace(progress);
    });
    let last = Instant::now();
    let mut page_future =
        async move { Page::await_first_row(begun.run(Some(sender)).await?.0).await }.boxed();
    let (head, document) = match timeout(PROGRESS_INTERVAL, &mut page_future).await {
        Ok(page) => {
            let page = page?;
            (page.ndjson_head(), page.lines().boxed())
        }
        Err(_) => {
            let search = Search { page_future, window, updates, last: last + PROGRESS_INTERVAL };
            (ndjson_head(&schema()), stream::unfold(Some(search), step).flatten().boxed())
        }
    };
    let document = stream::iter([Ok(head)]).chain(document);
    Ok(respond(document, Representation::Ndjson, info))
}

/// Returns the next part of the document: a progress line, or the lines of the page once the search has ended.
async fn step(search: Option<Search>) -> Option<(Lines, Option<Search>)> {
    let mut search = search?;
    let Search { page_future, window, updates, last } = &mut search;
    let line = next_line(updates, *window, *last);
    tokio::select! {
        biased;
        page = page_future => {
            let failed = |error| stream::iter([Err(error)]).boxed();
            Some((page.map_or_else(failed, |page| page.lines().boxed()), None))
        }
        line = line => {
            search.last = Instant::now();
            Some((stream::iter([Ok(line)]).boxed(), Some(search)))
        }
    }
}

/// Returns the next progress line: after a change, but not too soon, or unchanged after a long silence.
async fn next_line(updates: &mut watch::Receiver<SearchProgress>, window: Window, last: Instant) -> Bytes {
    sleep_until(last + PROGRESS_INTERVAL).await;
    // A search that reports no more progress may still run.
    let changed = async {
        if updates.changed().await.is_err() {
            future::pending::<()>().await;
        }
    };
    let _ = timeout_at(last + MAX_SILENCE, changed).await;
    line(*updates.borrow_and_update(), window)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tracewarden_model::{Binding, Display, Timestamp};
    use tracewarden_service::{AnswerBody, QueryAnswer, SchemaEcho};

    use super::*;

    fn window() -> Window {
        Window::new(Timestamp::from_nanos(0), Timestamp::from_nanos(3_600_000_000_000)).unwrap()
    }

    fn at(seconds: i64, traces: u32, fraction: Option<f64>) -> SearchProgress {
        let searched_to = Timestamp::from_nanos(seconds * 1_000_000_000);
        SearchProgress { searched_to, traces, fraction }
    }

    async fn page() -> Page {
        let text = String::new;
        let binding = Binding {
            database: text(),
            table: text(),
            trace_id: text(),
            span_id: text(),
            timestamp: text(),
            parent_span_id: text(),
            trace_index: None,
            display: Display::default(),
            ..Binding::default()
        };
        let body = AnswerBody::Ids(vec!["a".to_owned()]);
        let schema = SchemaEcho { binding, version: 1, omitted_columns: None, searched_around: None };
        Page::await_first_row(QueryAnswer { schema, next_cursor: None, traces: 1, body }).await.unwrap()
    }

    /// Runs a search that does `work`, and returns its lines and whether it failed.
    async fn run_search<F>(work: impl FnOnce(watch::Sender<SearchProgress>) -> F) -> (Vec<Value>, bool)
    where
        F: Future<Output = Result<Page, ServiceError>> + Send + 'static,
    {
        let (sender, updates) = watch::channel(at(3_600, 0, None));
        let page_future = work(sender).boxed();
        let search = Search { page_future, window: window(), updates, last: Instant::now() };
        let items: Vec<_> = stream::unfold(Some(search), step).flatten().collect().await;
        let failed = items.iter().any(Result::is_err);
        let bytes: Vec<u8> = items.into_iter().flatten().flatten().collect();
        let text = String::from_utf8(bytes).unwrap();
        (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), failed)
    }

    fn end() -> [Value; 2] {
        [json!({"trace_id": "a"}), json!({"end": {"next_cursor": null, "traces": 1, "spans": 0}})]
    }

    #[tokio::test(start_paused = true)]
    async fn progress_lines_are_rare_and_current() {
        // Progress every 10 ms for some time, but never at the moment of a line.
        let (lines, failed) = run_search(|sender| async move {
            let begun = Instant::now();
            for step in 1..=65_u32 {
                sleep_until(begun + Duration::from_millis(10) * step - Duration::from_millis(5)).await;
                sender.send_replace(at(3_600 - i64::from(step), step, Some(f64::from(step) / 65.0)));
            }
            Ok(page().await)
        })
        .await;
        assert!(!failed);
        let progress: Vec<&Value> = lines.iter().filter_map(|line| line.get("progress")).collect();
        assert_eq!(lines[progress.len()..], end());
        // After 250 and after 500 ms.
        let updates: Vec<Value> =
            progress.iter().map(|line| json!([line["searched_to"], line["traces"]])).collect();
        assert_eq!(updates, [json!(["1970-01-01T00:59:35Z", 25]), json!(["1970-01-01T00:59:10Z", 50])]);
        assert_eq!(
            (&progress[0]["from"], &progress[0]["to"]),
            (&json!("1970-01-01T00:00:00Z"), &json!("1970-01-01T01:00:00Z"))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn long_searches_send_progress_and_short_ones_do_not() {
        let begun = Instant::now();
        let (lines, _) = run_search(|sender| async move {
            tokio::time::sleep(MAX_SILENCE + PROGRESS_INTERVAL).await;
            drop(sender);
            Ok(page().await)
        })
        .await;
        let unchanged = json!({"progress": {"searched_to": "1970-01-01T01:00:00Z", "from": "1970-01-01T00:00:00Z",
            "to": "1970-01-01T01:00:00Z", "traces": 0}});
        assert_eq!(lines[..1], [unchanged]);
        assert_eq!(lines[1..], end());
        assert!(begun.elapsed() >= MAX_SILENCE);
        // A search that reports no more progress has not ended, and its next line is not sent at once.
        let lines_after_last_report = async |work: Duration| {
            let (lines, _) = run_search(move |sender| async move {
                sender.send_replace(at(60, 1, None));
                drop(sender);
                tokio::time::sleep(work).await;
                Ok(page().await)
            })
            .await;
            lines
        };
        let last = json!({"progress": {"searched_to": "1970-01-01T00:01:00Z", "from": "1970-01-01T00:00:00Z",
            "to": "1970-01-01T01:00:00Z", "traces": 1}});
        let lines = lines_after_last_report(PROGRESS_INTERVAL * 4).await;
        assert_eq!(lines[..1], [last]);
        assert_eq!(lines[1..], end());
        assert_eq!(lines_after_last_report(PROGRESS_INTERVAL / 2).await, end());
    }

    #[tokio::test]
    async fn nothing_follows_a_failure() {
        let (lines, failed) = run_search(|_| async { Err(ServiceError::TooManyQueries) }).await;
        assert!(failed && lines.is_empty(), "{lines:?}");
    }

    #[test]
    fn fractions_are_fractions() {
        let written = |fraction| {
            let line: Value = serde_json::from_slice(&line(at(0, 0, fraction), window())).unwrap();
            line["progress"].get("fraction").cloned()
        };
        assert_eq!(written(None), None);
        assert_eq!(written(Some(f64::NAN)), None);
        assert_eq!(written(Some(-1.0)), Some(json!(0.0)));
        assert_eq!(written(Some(7.0)), Some(json!(1.0)));
        assert_eq!(written(Some(1.0 / 3.0)), Some(json!(0.333)));
    }
}

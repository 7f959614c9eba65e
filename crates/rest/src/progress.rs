//! A page in lines that begins while the search still runs: how far it has looked, then the traces.
//!
//! A search that is over soon, well or not, is answered as any other, so that its failure has a status.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use futures::{FutureExt, future};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tracewarden_model::Window;
use tracewarden_service::{BegunQuery, OnProgress, RequestInfo, SearchProgress, ServiceError};

use crate::accept::Representation;
use crate::framing::text;
use crate::page::{Page, begin_lines, respond};
use crate::problem::Problem;
use crate::wire::Time;

/// How long a search may take before its answer begins, and the least time between two lines about it.
const EVERY: Duration = Duration::from_millis(250);
/// The longest time without a line, so that what stands between does not take the connection for dead.
const SILENCE: Duration = Duration::from_secs(5);

/// A line about the search.
#[derive(Serialize)]
struct ProgressLine {
    progress: Progress,
}

#[derive(Serialize)]
struct Progress {
    /// Everything from here to `to` has been looked at.
    searched_to: Time,
    /// The window, as the request or the cursor fixed it.
    from: Time,
    to: Time,
    /// Traces of the page found so far.
    traces: u32,
    /// How much of the work is done, from 0 to 1, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    fraction: Option<f64>,
}

fn line(progress: SearchProgress, window: Window) -> Bytes {
    let known = progress.fraction.filter(|fraction| fraction.is_finite());
    let progress = Progress {
        searched_to: progress.searched_to.into(),
        from: window.from().into(),
        to: window.to().into(),
        traces: progress.traces,
        fraction: known.map(|fraction| (fraction.clamp(0.0, 1.0) * 1_000.0).round() / 1_000.0),
    };
    (text(&ProgressLine { progress }) + "\n").into()
}

/// A search that is under way.
struct Search {
    found: BoxFuture<'static, Result<Page, ServiceError>>,
    window: Window,
    told: watch::Receiver<SearchProgress>,
    /// When the last line left, or would have.
    last: Instant,
}

enum State {
    Searching(Search),
    Found(BoxStream<'static, Result<Bytes, ServiceError>>),
    Over,
}

/// The page as lines.
///
/// # Errors
/// When the search fails at once.
pub(crate) async fn answer(begun: BegunQuery, info: &RequestInfo) -> Result<Response, Problem> {
    let (schema, window) = (begun.schema(), begun.window());
    let (tell, told) = watch::channel(SearchProgress { searched_to: window.to(), traces: 0, fraction: None });
    let tell: OnProgress = Arc::new(move |progress| {
        tell.send_replace(progress);
    });
    let last = Instant::now();
    let mut found = async move { Page::of(begun.run(Some(tell)).await?).await }.boxed();
    let head = begin_lines(&schema);
    let document = match timeout(EVERY, &mut found).await {
        Ok(page) => page?.lines().boxed(),
        Err(_) => {
            let search = Search { found, window, told, last: last + EVERY };
            stream::unfold(State::Searching(search), step).boxed()
        }
    };
    let document = stream::iter([Ok(head)]).chain(document);
    Ok(respond(document, Representation::Lines, info))
}

async fn step(mut state: State) -> Option<(Result<Bytes, ServiceError>, State)> {
    loop {
        match state {
            State::Searching(mut search) => {
                let Search { found, window, told, last } = &mut search;
                let line = next_line(told, *window, *last);
                state = tokio::select! {
                    biased;
                    page = found => match page {
                        Ok(page) => State::Found(page.lines().boxed()),
                        Err(error) => return Some((Err(error), State::Over)),
                    },
                    line = line => {
                        search.last = Instant::now();
                        return Some((Ok(line), State::Searching(search)));
                    }
                };
            }
            State::Found(mut lines) => {
                let item = lines.next().await?;
                return Some((item, State::Found(lines)));
            }
            State::Over => return None,
        }
    }
}

/// What has changed, but not too soon; the same again when nothing does for long.
async fn next_line(told: &mut watch::Receiver<SearchProgress>, window: Window, last: Instant) -> Bytes {
    sleep_until(last + EVERY).await;
    // A search that tells nothing more may still run.
    let changed = async {
        if told.changed().await.is_err() {
            future::pending::<()>().await;
        }
    };
    let _ = timeout_at(last + SILENCE, changed).await;
    line(*told.borrow_and_update(), window)
}

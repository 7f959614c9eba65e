//! The statements that a page is read in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::task::JoinSet;
use tracewarden_model::Binding;
use tracing::Instrument as _;

use super::lines::LineChecker;
use super::read_statement;
use super::trace_sizes::TraceSizes;
use crate::client::{Answer, Client};
use crate::select::{SelectedTrace, Selection};
use crate::{StoreError, TraceStore};

/// How many spans one statement reads, unless a single trace has more.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartSizes {
    /// In the first part: few, so that it comes soon, and so many that nearly every page is one part.
    pub(super) first: u64,
    /// In each of the others: each is [`GROWTH`] times the one before, up to these, which the store has to hold in memory.
    pub(super) most: u64,
    /// How long a part may wait for the one before to be taken; after that it is asked for again.
    pub(super) kept: Duration,
}

/// A part takes as long to be written as the next one to be sorted. Growing faster than parts of one size also means that
/// traces whose spans lie among each other are looked for a few times, not once for every so many spans.
const GROWTH: u64 = 4;

/// ClickHouse breaks an answer off that nobody takes anything of for its `http_send_timeout`, which is 30 seconds by default and
/// holds as the server's own profile has it, whatever comes with a statement (ClickHouse issue 64731).
const KEPT: Duration = Duration::from_secs(20);

impl Default for PartSizes {
    fn default() -> Self {
        Self { first: 25_000, most: 250_000, kept: KEPT }
    }
}

/// Traces in their order, in parts. What was counted of a trace may be a few of its spans: `usual` is what one has.
fn divide(traces: &[SelectedTrace], usual: u64, sizes: PartSizes) -> VecDeque<Vec<SelectedTrace>> {
    let (mut parts, mut part) = (VecDeque::new(), Vec::new());
    let (mut spans, mut most) = (0_u64, sizes.first);
    for trace in traces {
        let of_trace = trace.spans.max(usual);
        if !part.is_empty() && spans.saturating_add(of_trace) > most {
            parts.push_back(std::mem::take(&mut part));
            (spans, most) = (0, most.saturating_mul(GROWTH).min(sizes.most));
        }
        spans = spans.saturating_add(of_trace);
        part.push(trace.clone());
    }
    if !part.is_empty() {
        parts.push_back(part);
    }
    parts
}

/// A part that arrives, and what its lines have to be.
pub(super) type Part = (BoxStream<'static, Result<Bytes, StoreError>>, LineChecker);

/// A part whose first bytes are here, since a time.
struct Asked {
    answer: Answer,
    traces: Vec<SelectedTrace>,
    since: Instant,
}

/// The parts still to come. Dropping them ends their statements in the store.
pub(super) struct Parts {
    client: Client,
    binding: Binding,
    selection: Selection,
    projection: Vec<String>,
    waiting: VecDeque<Vec<SelectedTrace>>,
    /// The one that has been asked for. A task of its own: nobody polls for it while the part before is not taken, and its
    /// time runs all the same.
    asked: JoinSet<Result<Asked, StoreError>>,
    kept: Duration,
    /// When the whole page must be with its reader.
    until: Option<Instant>,
    sizes: Arc<TraceSizes>,
}

impl Parts {
    /// Asks for the first one.
    pub(super) fn new(
        store: &TraceStore,
        binding: &Binding,
        selection: &Selection,
        projection: Vec<String>,
        sizes: PartSizes,
    ) -> Self {
        let usual = store.trace_sizes.spans_of_a_trace(&selection.table.name).unwrap_or(0);
        let mut parts = Self {
            client: store.client.at(selection.endpoint),
            binding: binding.clone(),
            selection: selection.clone(),
            projection,
            waiting: divide(&selection.traces, usual, sizes),
            asked: JoinSet::new(),
            kept: sizes.kept,
            until: None,
            sizes: Arc::clone(&store.trace_sizes),
        };
        parts.ask();
        parts
    }

    fn ask(&mut self) {
        if let Some(traces) = self.waiting.pop_front() {
            self.ask_for(traces);
        }
    }

    fn ask_for(&mut self, traces: Vec<SelectedTrace>) {
        let statement = read_statement(&self.selection.table, &self.projection, &traces);
        let client = self.client.clone();
        let asking = async move {
            let answer = client.send(statement, "JSONEachRow").await?;
            Ok(Asked { answer, traces, since: Instant::now() })
        };
        self.asked.spawn(asking.in_current_span());
    }

    /// The next part, when its first bytes are here; the one after it is asked for then.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Part, StoreError>>> {
        loop {
            let Some(asked) = ready!(self.asked.poll_join_next(context)) else { return Poll::Ready(None) };
            let asked =
                asked.unwrap_or_else(|error| Err(StoreError::Internal(format!("a part of a page: {error}"))));
            let Asked { mut answer, traces, since } = match asked {
                Ok(asked) => asked,
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
            // The first one waits for nothing.
            if self.until.is_some() && since.elapsed() > self.kept {
                drop(answer);
                self.ask_for(traces);
                continue;
            }
            answer.until = *self.until.get_or_insert(answer.until);
            self.ask();
            let lines = LineChecker::new(&self.binding, &traces);
            return Poll::Ready(Some(Ok((answer.into_stream().boxed(), lines))));
        }
    }

    /// Remembers how large the traces were, when all have come.
    pub(super) fn arrived(&mut self, spans: u64) {
        let traces = std::mem::take(&mut self.selection.traces).len();
        if traces > 0 {
            self.sizes.remember(&self.selection.table.name, spans, traces);
        }
    }

    /// Forgets what is still to come.
    pub(super) fn give_up(&mut self) {
        self.waiting.clear();
        self.selection.traces.clear();
        self.asked = JoinSet::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(spans: &[u64], usual: u64) -> Vec<Vec<u64>> {
        let traces: Vec<SelectedTrace> = spans
            .iter()
            .enumerate()
            .map(|(place, &spans)| SelectedTrace { id: place.to_string(), spans })
            .collect();
        let parts = divide(&traces, usual, PartSizes { first: 10, most: 80, kept: KEPT });
        let ids = parts.iter().flatten().map(|trace| trace.id.clone());
        assert!(ids.eq(traces.iter().map(|trace| trace.id.clone())));
        parts.iter().map(|part| part.iter().map(|trace| trace.spans).collect()).collect()
    }

    #[test]
    fn parts_grow_up_to_a_size_and_never_cut_a_trace() {
        assert_eq!(sizes(&[], 0), Vec::<Vec<u64>>::new());
        assert_eq!(sizes(&[3, 3, 4], 0), [[3, 3, 4]]);
        assert_eq!(sizes(&[500, 3, 500], 0), [vec![500], vec![3], vec![500]]);
        assert_eq!(sizes(&[10; 20], 0), [vec![10; 1], vec![10; 4], vec![10; 8], vec![10; 7]]);
        assert_eq!(sizes(&[1, 1, 500, 1, 1], 4), [vec![1, 1], vec![500], vec![1, 1]]);
        assert_eq!(sizes(&[0, u64::MAX, u64::MAX], 0), [vec![0], vec![u64::MAX], vec![u64::MAX]]);
    }
}

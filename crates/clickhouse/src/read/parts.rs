//! The statements that read a page in parts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::task::JoinSet;
use tracewarden_model::Binding;
use tracing::Instrument as _;

use super::columns::returned_columns;
use super::lines::LineChecker;
use crate::client::{Client, StreamedResponse};
use crate::schema::{BoundTable, TraceSizes};
use crate::search::{SelectedTrace, Selection};
use crate::sql::{Statement, quote};
use crate::{ClickHouse, ClickHouseError, Result};

/// Number of spans that one statement reads, unless a single trace has more.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartSizes {
    /// In the first part: few enough to arrive soon, and enough that nearly every page is one part.
    pub(super) first: u64,
    /// In each of the others: each is [`GROWTH`] times the previous one, up to this number, which ClickHouse has to hold in
    /// memory.
    pub(super) most: u64,
    /// How long a part may wait until the reader has taken the previous one. After that its statement is sent again.
    pub(super) max_wait: Duration,
}

/// Writing a part takes as long as sorting the next one. Compared with parts of one size, growth also means that traces with
/// interleaved spans are searched for only a few times, not once for every part.
const GROWTH: u64 = 4;

/// ClickHouse aborts an answer of which the client takes nothing for `http_send_timeout`. That is 30 seconds by default, and
/// ClickHouse uses the value of the server's own profile, whatever a statement sets (ClickHouse issue 64731).
const MAX_WAIT: Duration = Duration::from_secs(20);

impl Default for PartSizes {
    fn default() -> Self {
        Self { first: 25_000, most: 250_000, max_wait: MAX_WAIT }
    }
}

/// Divides traces in their order into parts. The count of a trace may cover only a few of its spans: `mean_spans` is the usual
/// number.
fn divide(traces: &[SelectedTrace], mean_spans: u64, sizes: PartSizes) -> VecDeque<Vec<SelectedTrace>> {
    let (mut parts, mut part) = (VecDeque::new(), Vec::new());
    let (mut spans, mut most) = (0_u64, sizes.first);
    for trace in traces {
        let trace_spans = trace.spans.max(mean_spans);
        if !part.is_empty() && spans.saturating_add(trace_spans) > most {
            parts.push_back(std::mem::take(&mut part));
            (spans, most) = (0, most.saturating_mul(GROWTH).min(sizes.most));
        }
        spans = spans.saturating_add(trace_spans);
        part.push(trace.clone());
    }
    if !part.is_empty() {
        parts.push_back(part);
    }
    parts
}

/// A part that arrives, and the checker of its lines.
pub(super) type Part = (BoxStream<'static, Result<Bytes>>, LineChecker);

/// A part whose first bytes have arrived, and when.
struct ArrivedPart {
    response: StreamedResponse,
    traces: Vec<SelectedTrace>,
    since: Instant,
}

/// The remaining parts. Dropping them ends their statements in ClickHouse.
pub(super) struct Parts {
    client: Client,
    binding: Binding,
    selection: Selection,
    projection: Vec<String>,
    remaining_parts: VecDeque<Vec<SelectedTrace>>,
    /// The part whose statement was sent. It has a task of its own, because the reader does not poll it before it has taken
    /// the previous part, while its time limit applies all the same.
    in_flight: JoinSet<Result<ArrivedPart>>,
    max_wait: Duration,
    /// When the reader must have the whole page.
    until: Option<Instant>,
    sizes: Arc<TraceSizes>,
}

impl Parts {
    /// Sends the statement of the first part.
    pub(super) fn new(
        store: &ClickHouse,
        binding: &Binding,
        selection: &Selection,
        projection: Vec<String>,
        sizes: PartSizes,
    ) -> Self {
        let mean_spans = store.trace_sizes.mean_spans_per_trace(selection.table.key()).unwrap_or(0);
        let mut parts = Self {
            client: store.client.pinned_to(selection.endpoint),
            binding: binding.clone(),
            selection: selection.clone(),
            projection,
            remaining_parts: divide(&selection.traces, mean_spans, sizes),
            in_flight: JoinSet::new(),
            max_wait: sizes.max_wait,
            until: None,
            sizes: Arc::clone(&store.trace_sizes),
        };
        parts.request_next();
        parts
    }

    fn request_next(&mut self) {
        if let Some(traces) = self.remaining_parts.pop_front() {
            self.request_part(traces);
        }
    }

    fn request_part(&mut self, traces: Vec<SelectedTrace>) {
        let statement = read_statement(&self.selection.table, &self.projection, &traces);
        let client = self.client.clone();
        let part_request = async move {
            let response = client.send(statement, "JSONEachRow").await?;
            Ok(ArrivedPart { response, traces, since: Instant::now() })
        };
        self.in_flight.spawn(part_request.in_current_span());
    }

    /// Returns the next part when its first bytes have arrived, and sends the statement of the part after it.
    pub(super) async fn next(&mut self) -> Result<Option<Part>> {
        while let Some(arrived_part) = self.in_flight.join_next().await {
            let died = |error| ClickHouseError::Internal(format!("a part of a page: {error}"));
            let ArrivedPart { mut response, traces, since } = arrived_part.map_err(died).flatten()?;
            // The first part does not wait for another one.
            if self.until.is_some() && since.elapsed() > self.max_wait {
                drop(response);
                self.request_part(traces);
                continue;
            }
            response.until = *self.until.get_or_insert(response.until);
            self.request_next();
            let lines = LineChecker::new(&self.binding, &traces);
            return Ok(Some((response.into_stream().boxed(), lines)));
        }
        Ok(None)
    }

    /// Records the size of the traces, when all have arrived.
    pub(super) fn record_trace_sizes(&self, spans: u64) {
        let traces = self.selection.traces.len();
        if traces > 0 {
            self.sizes.record(self.selection.table.key(), spans, traces);
        }
    }
}

fn read_statement(table: &BoundTable, projection: &[String], traces: &[SelectedTrace]) -> Statement {
    let mut statement = table.statement();
    let trace_ids = || traces.iter().map(|trace| &trace.id);
    let ids = statement.string_parameters(trace_ids());
    let is_selected = table.trace_id.is_one_of(trace_ids(), &mut statement);
    let spans = table.spans(&is_selected, &mut statement);
    statement.filters_by_trace_id = true;
    let positions: Vec<String> = (1..=traces.len()).map(|position| position.to_string()).collect();
    let order = |id: &str, timestamp: &str, span: &str| {
        format!("transform({id}, [{ids}], [{}], 0), {timestamp}, {span}", positions.join(", "))
    };
    let (id, timestamp, span) = (&table.trace_id.text, &table.timestamp, &table.span_id.text);
    let quoted: Vec<String> = projection.iter().map(|name| quote(name)).collect();
    // No time bounds: a trace is read whole, however long it is.
    let values = returned_columns(table, projection);
    if values == quoted {
        statement.push(&format!(
            "SELECT {} FROM {spans} ORDER BY {}",
            quoted.join(", "),
            order(id, timestamp, span)
        ));
        return statement;
    }
    // In a sub-query: an alias with the name of a column would replace the column in the conditions, too.
    let names: Vec<String> = (0..projection.len()).map(|at| statement.alias(&format!("c{at}"))).collect();
    let values: Vec<String> =
        values.into_iter().zip(&names).map(|(value, name)| format!("{value} AS {name}")).collect();
    let named: Vec<String> =
        names.iter().zip(&quoted).map(|(name, quoted)| format!("{name} AS {quoted}")).collect();
    let [trace_key, time_key, span_key] = statement.aliases(["trace", "time", "span"]);
    statement.push(&format!(
        "SELECT {} FROM (SELECT {}, {id} AS {trace_key}, {timestamp} AS {time_key}, {span} AS {span_key} FROM {spans}) ORDER BY {}",
        named.join(", "),
        values.join(", "),
        order(&trace_key, &time_key, &span_key)
    ));
    statement
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(spans: &[u64], mean_spans: u64) -> Vec<Vec<u64>> {
        let traces: Vec<SelectedTrace> = spans
            .iter()
            .enumerate()
            .map(|(place, &spans)| SelectedTrace { id: place.to_string(), spans })
            .collect();
        let parts = divide(&traces, mean_spans, PartSizes { first: 10, most: 80, max_wait: MAX_WAIT });
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

//! A summary of each selected trace, for lists.

use std::collections::HashMap;

use serde::Serialize;
use tracewarden_model::{Binding, Filter, Timestamp};
use utoipa::ToSchema;

use crate::schema::DisplayExpressions;
use crate::search::{SelectedTrace, Selection};
use crate::{ClickHouse, ClickHouseError, Result};

/// Maximum number of matching span ids in a summary.
const MAX_MATCHED: u32 = 20;
/// Maximum number of services in a summary.
const MAX_SERVICES: u32 = 100;

/// Summary of a trace. A nullable member is null, and `services` is empty, if the trace source has no column for it.
#[serde_with::apply(Option => #[schema(required = true)])]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = TraceSummary)]
pub struct Summary {
    /// Trace id.
    pub trace_id: String,
    /// Name of the root span, or of the earliest span if the root is missing.
    pub root_name: Option<String>,
    /// Service of the same span.
    pub root_service: Option<String>,
    /// Start of the earliest span.
    #[schema(value_type = String, format = DateTime)]
    pub start: Timestamp,
    /// Time from the earliest start to the latest end, in nanoseconds.
    pub duration_nanos: Option<i64>,
    /// Whether a span has a duration that is negative or not a number of nanoseconds: an unsigned column that wrapped around, or
    /// a float that is NaN, infinite or outside 64 bits. The duration of such a span counts as 0.
    pub duration_invalid: bool,
    /// Number of spans.
    pub span_count: u64,
    /// Number of spans whose status is an error.
    pub error_count: Option<u64>,
    /// Names of the services in the trace, sorted; at most 100.
    pub services: Vec<String>,
    /// Ids of the spans that satisfy a condition or a group of the filter, earliest first; at most 20.
    pub matched_span_ids: Vec<String>,
}

type Row = (String, u64, i64, i64, u8, u64, String, String, Vec<String>, Vec<String>);

impl ClickHouse {
    /// Summarises selected traces, in the selection's order.
    ///
    /// # Errors
    /// When ClickHouse fails, or returns less than was selected.
    pub async fn summarise(
        &self,
        binding: &Binding,
        selection: &Selection,
        filter: &Filter,
    ) -> Result<Vec<Summary>> {
        if selection.is_empty() {
            return Ok(Vec::new());
        }
        let table = selection.table.as_ref();
        let display = DisplayExpressions::new(table, &binding.display);
        let mut statement = table.statement();
        let matched = table.any_group(filter.required_groups(), &mut statement)?;
        let is_selected =
            table.trace_id.is_one_of(selection.traces.iter().map(|trace| &trace.id), &mut statement);
        let spans = table.spans(&is_selected, &mut statement);
        statement.filters_by_trace_id = true;
        let ticks = &table.ticks;
        let empty = || "''".to_owned();
        let failed = display.is_error(&mut statement);
        let [trace, pair] = statement.aliases(["trace", "pair"]);
        let root = format!("(NOT {}, {ticks}, {})", table.is_root(), table.span_id.text);
        statement.push(&format!(
            "SELECT {id} AS {trace}, count(), min({ticks}), \
             {duration}, max({invalid}), countIf({failed}), \
             argMin({name}, {root}), argMin({service}, {root}), \
             arraySort(groupUniqArray({MAX_SERVICES})({service})), \
             arrayMap({pair} -> {pair}.2, arraySlice(arraySort(groupArraySortedIf({MAX_MATCHED})(({ticks}, {span}), {matched})), 1, {MAX_MATCHED})) \
             FROM {spans} GROUP BY {trace}",
            id = table.trace_id.text,
            duration = display.trace_duration(table),
            invalid = display.is_duration_invalid(),
            name = display.name.clone().unwrap_or_else(empty),
            service = display.service.clone().unwrap_or_else(empty),
            span = table.span_id.text,
        ));
        let rows: Vec<Row> = self.client.pinned_to(selection.endpoint).rows(statement).await?;
        let mut by_id: HashMap<String, Row> = rows.into_iter().map(|row| (row.0.clone(), row)).collect();
        let summary = |trace: &SelectedTrace| {
            let row = by_id.remove(&trace.id).filter(|row| row.1 >= trace.spans);
            let (trace_id, span_count, first, nanos, invalid, errors, name, service, services, matched) =
                row.ok_or_else(|| ClickHouseError::incomplete("spans of a trace have disappeared"))?;
            Ok(Summary {
                trace_id,
                root_name: display.name.is_some().then_some(name),
                root_service: display.service.is_some().then_some(service),
                start: Timestamp::from_nanos(first.saturating_mul(table.nanos_per_tick)),
                duration_nanos: display.has_duration().then_some(nanos),
                duration_invalid: invalid == 1,
                span_count,
                error_count: display.has_status().then_some(errors),
                services: if display.service.is_some() { services } else { Vec::new() },
                matched_span_ids: matched,
            })
        };
        selection.traces.iter().map(summary).collect()
    }
}

#[cfg(test)]
mod tests {
    use tracewarden_model::Display;
    use tracewarden_testkit::local_store::LocalStore;

    use super::*;
    use crate::agreement::{binding, unrestricted_scope};
    use crate::agreement::{connect, execute};

    /// Stored values of a span that ends before it begins, of one that took 5 ns, and of the maximum duration.
    #[tokio::test]
    async fn a_negative_duration_counts_as_zero() {
        let local = LocalStore::start().unwrap();
        let store = connect(&local);
        let longest = i64::MAX;
        for (kind, values) in [
            ("Int64", vec![("-3", 0, true), ("5", 5, false), ("9223372036854775807", longest, false)]),
            ("Int32", vec![("-3", 0, true), ("5", 5, false)]),
            (
                "UInt64",
                vec![
                    ("18446744073709360311", 0, true),
                    ("9223372036854775808", 0, true),
                    ("9223372036854775807", longest, false),
                    ("5", 5, false),
                ],
            ),
            ("UInt32", vec![("4294967291", 4_294_967_291, false), ("5", 5, false)]),
            (
                "Float64",
                vec![("-3", 0, true), ("nan", 0, true), ("18446744073709360311", 0, true), ("5.5", 5, false)],
            ),
            ("LowCardinality(UInt64)", vec![("18446744073709360311", 0, true), ("5", 5, false)]),
        ] {
            let columns = format!(
                "Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, Took {kind}"
            );
            let create = format!(
                "CREATE OR REPLACE TABLE default.spans ({columns}) ENGINE = MergeTree ORDER BY TraceId \
                 SETTINGS allow_suspicious_low_cardinality_types = 1"
            );
            execute(&local, create).await;
            let display = Display { duration: Some("Took".to_owned()), ..Display::default() };
            let binding = Binding { display, ..binding("default", "spans") };
            for (at, (stored, nanos, invalid)) in values.into_iter().enumerate() {
                let id = format!("t{at}");
                let insert =
                    format!("INSERT INTO default.spans VALUES (1790000000, '{id}', 's', '', {stored})");
                execute(&local, insert).await;
                let selection = store.find(&binding, &unrestricted_scope(), &id).await.unwrap().unwrap();
                // Repeated until ClickHouse compiles the statements.
                for _ in 0..6 {
                    let found = store.summarise(&binding, &selection, &Filter::default()).await.unwrap();
                    let found = found.first().unwrap();
                    let said = (found.duration_nanos, found.duration_invalid);
                    assert_eq!(said, (Some(nanos), invalid), "{kind} {stored}");
                    let brief = store.span_summaries(&binding, &selection, 5).await.unwrap();
                    let said = (brief[0].duration_nanos, brief[0].duration_invalid);
                    assert_eq!(said, (Some(nanos), invalid), "{kind} {stored}");
                }
            }
        }
    }
}

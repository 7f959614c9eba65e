//! A brief form of each span of one trace, for an outline.

use tracewarden_model::{Binding, Timestamp};

use crate::schema::DisplayExpressions;
use crate::search::Selection;
use crate::{ClickHouse, ClickHouseError, Result};

/// Maximum length of a span's text, in characters: clients that send spans choose the length of names.
const MAX_TEXT: u32 = 100;

/// Maximum length of a span id, in characters: clients that send spans choose this, too.
const MAX_ID: u32 = 128;

/// A brief form of a span. Texts whose display column is not bound are absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanSummary {
    /// The span id, cut to 128 characters. A cut id matches no span in ClickHouse.
    pub span_id: String,
    /// Span id of the parent, cut likewise. Empty for a span without a parent, which includes the zeros that some exporters
    /// write.
    pub parent_span_id: String,
    /// Start time.
    pub start: Timestamp,
    /// Duration in nanoseconds; 0 where the stored value is not a valid duration.
    pub duration_nanos: Option<i64>,
    /// Whether the stored value is not a valid duration.
    pub duration_invalid: bool,
    /// Operation name, cut to 100 characters.
    pub name: Option<String>,
    /// Service, cut likewise.
    pub service: Option<String>,
    /// Kind, cut likewise.
    pub kind: Option<String>,
    /// Whether the status is an error; `false` without a status column.
    pub error: bool,
}

type Row = (String, String, i64, Option<i64>, u8, String, String, String, u8);

/// Cuts a text to its first characters.
fn truncate_text(text: &str, most: u32) -> String {
    format!("substringUTF8({text}, 1, {most})")
}

/// Writes a text of a span, cut to 100 characters; empty without a column for it.
pub(super) fn truncated(text: Option<&String>) -> String {
    text.map_or_else(|| "''".to_owned(), |text| truncate_text(text, MAX_TEXT))
}

impl ClickHouse {
    /// Returns the earliest spans of a selected trace, at most this number, sorted by start and then by span id. If several
    /// traces are selected, it reads the first; if none is, the result is empty.
    ///
    /// A span has at most 556 characters of ids and texts, and less than 100 further bytes: 100,000 spans stay below the 256
    /// MiB of an answer at four bytes a character. Control characters and invalid UTF-8 become longer in JSON. Spans with
    /// many of them can exceed the limit, which is an error.
    ///
    /// # Errors
    /// When ClickHouse fails, returns fewer spans than were counted and requested, or more than 256 MiB.
    pub async fn span_summaries(
        &self,
        binding: &Binding,
        selection: &Selection,
        most: u32,
    ) -> Result<Vec<SpanSummary>> {
        let Some(trace) = selection.traces.first() else { return Ok(Vec::new()) };
        let table = selection.table.as_ref();
        let display = DisplayExpressions::new(table, &binding.display);
        let mut statement = table.statement();
        let is_trace = table.trace_id.is(&trace.id, &mut statement);
        let spans = table.spans(&is_trace, &mut statement);
        let failed = display.is_error(&mut statement);
        statement.filters_by_trace_id = true;
        statement.push(&format!(
            "SELECT {span_id}, if({is_root}, '', {parent_id}), {ticks}, {duration}, {invalid}, {name}, {service}, {kind}, {failed} \
             FROM {spans} ORDER BY {timestamp}, {span} LIMIT {most}",
            span = table.span_id.text,
            span_id = truncate_text(&table.span_id.text, MAX_ID),
            is_root = table.is_root(),
            parent_id = truncate_text(&table.parent_span_id.text, MAX_ID),
            ticks = table.ticks,
            duration = display.duration_nanos(),
            invalid = display.is_duration_invalid(),
            name = truncated(display.name.as_ref()),
            service = truncated(display.service.as_ref()),
            kind = truncated(display.kind.as_ref()),
            timestamp = table.timestamp,
        ));
        let rows: Vec<Row> = self.client.pinned_to(selection.endpoint).rows(statement).await?;
        if (rows.len() as u64) < trace.spans.min(u64::from(most)) {
            return Err(ClickHouseError::incomplete("spans of a trace have disappeared"));
        }
        let to_summary = |row: Row| {
            let (span_id, parent_span_id, ticks, duration_nanos, invalid, name, service, kind, failed) = row;
            SpanSummary {
                span_id,
                parent_span_id,
                start: Timestamp::from_nanos(ticks.saturating_mul(table.nanos_per_tick)),
                duration_nanos,
                duration_invalid: invalid == 1,
                name: display.name.is_some().then_some(name),
                service: display.service.is_some().then_some(service),
                kind: display.kind.is_some().then_some(kind),
                error: failed == 1,
            }
        };
        Ok(rows.into_iter().map(to_summary).collect())
    }
}

#[cfg(test)]
mod tests {
    use tracewarden_model::Display;
    use tracewarden_testkit::local_store::LocalStore;

    use super::*;
    use crate::agreement::{binding, unrestricted_scope};
    use crate::agreement::{connect, execute};

    /// Creates a table with one trace, and selects it.
    async fn chosen(local: &LocalStore, columns: &str, rows: &str) -> (ClickHouse, Selection) {
        let store = connect(local);
        let definitions =
            format!("Timestamp DateTime64(3), TraceId String, SpanId Nullable(String), {columns}");
        let create =
            format!("CREATE TABLE default.spans ({definitions}) ENGINE = MergeTree ORDER BY TraceId");
        execute(local, create).await;
        execute(local, format!("INSERT INTO default.spans VALUES {rows}")).await;
        let selection =
            store.find(&binding("default", "spans"), &unrestricted_scope(), "a").await.unwrap().unwrap();
        (store, selection)
    }

    #[tokio::test]
    async fn texts_are_short_and_numbers_are_durations() {
        let local = LocalStore::start().unwrap();
        let long = "é".repeat(300);
        let (store, selection) = chosen(
            &local,
            "ParentSpanId LowCardinality(Nullable(String)), Name String, Took Float32, \
             Status Nullable(Enum8('Ok' = 1, 'Error' = 2)), Kind Enum8('Server' = 1)",
            &format!(
                "(2000.5, 'a', 'c', 'b', '{long}', 7.9, 'Error', 'Server'), (2000.5, 'a', 'b', '00000000', unhex('ff'), -3, 'Ok', 'Server'), \
                 (2000.25, 'a', NULL, NULL, '', nan, NULL, 'Server'), (1999, 'b', 'x', '', '', 1, 'Error', 'Server')"
            ),
        )
        .await;
        let without = binding("default", "spans");
        let display = Display {
            name: Some("Name".to_owned()),
            duration: Some("Took".to_owned()),
            status: Some("Status".to_owned()),
            kind: Some("Kind".to_owned()),
            // A column that the table no longer has.
            service: Some("Service".to_owned()),
            ..Display::default()
        };
        let with = Binding { display, ..without.clone() };
        let summary = |id: &str, parent: &str, millis: i64, took: i64, name: &str, error: bool| SpanSummary {
            span_id: id.to_owned(),
            parent_span_id: parent.to_owned(),
            start: Timestamp::from_nanos(millis * 1_000_000),
            duration_nanos: Some(took.max(0)),
            duration_invalid: took < 0,
            name: Some(name.to_owned()),
            service: None,
            kind: Some("Server".to_owned()),
            error,
        };
        let expected = [
            summary("", "", 2_000_250, -1, "", false),
            summary("b", "", 2_000_500, -3, "\u{fffd}", false),
            summary("c", "b", 2_000_500, 7, &"é".repeat(100), true),
        ];
        // Repeated until ClickHouse compiles the statement.
        for most in [0_u32, 2, 3, 4, 5, 6] {
            let found = store.span_summaries(&with, &selection, most).await.unwrap();
            assert_eq!(found, expected[..expected.len().min(most as usize)]);
        }
        let plain = expected.map(|summary| SpanSummary {
            duration_nanos: None,
            duration_invalid: false,
            name: None,
            kind: None,
            error: false,
            ..summary
        });
        assert_eq!(store.span_summaries(&without, &selection, 10).await.unwrap(), plain);
    }

    #[tokio::test]
    async fn ids_are_short() {
        let local = LocalStore::start().unwrap();
        let [long, zeros] = ["é", "0"].map(|text| text.repeat(300));
        // Equal except for the part that is cut off; a parent of zeros and one that begins with zeros.
        let rows = format!("(1, 'a', '{long}2', '{zeros}'), (1, 'a', '{long}1', '{zeros}x')");
        let (store, selection) = chosen(&local, "ParentSpanId String", &rows).await;
        let found = store.span_summaries(&binding("default", "spans"), &selection, 5).await.unwrap();
        let ids: Vec<_> = found.into_iter().map(|span| (span.span_id, span.parent_span_id)).collect();
        let id = "é".repeat(128);
        assert_eq!(ids, [(id.clone(), "0".repeat(128)), (id, String::new())]);
    }

    #[tokio::test]
    async fn a_trace_that_lost_spans_is_an_error() {
        let local = LocalStore::start().unwrap();
        let rows = "(1, 'a', 'x', ''), (2, 'a', 'y', ''), (3, 'a', 'z', '')";
        let (store, selection) = chosen(&local, "ParentSpanId String", rows).await;
        let binding = binding("default", "spans");
        execute(&local, "DELETE FROM default.spans WHERE SpanId = 'y'".to_owned()).await;
        assert_eq!(store.span_summaries(&binding, &selection, 2).await.map(|spans| spans.len()), Ok(2));
        let short = store.span_summaries(&binding, &selection, 3).await;
        assert!(matches!(short, Err(ClickHouseError::IncompleteResponse(_))), "{short:?}");
        // More spans may have arrived since they were counted.
        execute(
            &local,
            "INSERT INTO default.spans SELECT 4, 'a', toString(number), '' FROM numbers(5)".to_owned(),
        )
        .await;
        assert_eq!(store.span_summaries(&binding, &selection, 100).await.map(|spans| spans.len()), Ok(7));
    }
}

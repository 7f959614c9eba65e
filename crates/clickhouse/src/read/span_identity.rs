//! Span identities. A span id alone does not identify a span: exporters leave it empty, and some clients reuse it.

use serde::Serialize;
use serde_json::value::RawValue;
use tracewarden_model::{Binding, Timestamp};
use utoipa::ToSchema;

use crate::read::SpanLine;
use crate::read::span_summary::{SpanSummary, truncated};
use crate::read::spans::SpanReader;
use crate::schema::{BoundTable, DisplayExpressions};
use crate::search::Selection;
use crate::sql::Statement;
use crate::{ClickHouse, ClickHouseError, Result};

/// Maximum number of spans that are read for one identity: the identity cannot tell which one is meant.
const MAX_SPANS_PER_IDENTITY: usize = 20;

/// A span of the trace.
// Contains data of the trace. Spans that have all members in common cannot be distinguished.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[schema(as = SpanMention)]
pub struct SpanIdentity {
    /// Span id. Some emitters leave it empty or give one id to several spans: `start`, `name` and `service` distinguish these.
    /// Spans that are equal in all of them are listed once.
    pub span_id: String,
    /// When the span began.
    #[schema(value_type = String, format = DateTime)]
    pub start: Timestamp,
    /// Operation name, truncated to 100 characters.
    // `None` without a column for it; the service likewise.
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// Service name, truncated to 100 characters.
    #[schema(nullable = false)]
    pub service: Option<String>,
}

/// Start in ticks, id, name, service: the sort order of spans.
pub(crate) type IdentityRow = (i64, String, String, String);

/// The names of the columns of an [`IdentityRow`].
const NAMES: [&str; 4] = ["time", "span", "name", "service"];

/// Returns the expressions of an [`IdentityRow`] over [`identity_columns`].
pub(crate) fn identity_names(statement: &Statement) -> String {
    NAMES.map(|name| statement.alias(name)).join(", ")
}

/// Returns the columns of a subquery that [`identity_names`] names.
pub(crate) fn identity_columns(
    table: &BoundTable,
    display: &DisplayExpressions,
    statement: &Statement,
) -> String {
    let columns = expressions(table, display).into_iter().zip(NAMES);
    let columns = columns.map(|(expression, name)| format!("{expression} AS {}", statement.alias(name)));
    columns.collect::<Vec<_>>().join(", ")
}

fn expressions(table: &BoundTable, display: &DisplayExpressions) -> [String; 4] {
    let (name, service) = (truncated(display.name.as_ref()), truncated(display.service.as_ref()));
    [table.ticks.clone(), table.span_id.text.clone(), name, service]
}

impl SpanIdentity {
    pub(crate) fn from_row(table: &BoundTable, display: &DisplayExpressions, row: IdentityRow) -> Self {
        let (ticks, span_id, name, service) = row;
        Self {
            span_id,
            // A time outside 64-bit nanoseconds becomes the nearest one inside.
            start: Timestamp::from_nanos(ticks.saturating_mul(table.nanos_per_tick)),
            name: display.name.is_some().then_some(name),
            service: display.service.is_some().then_some(service),
        }
    }

    /// Writes the condition for spans of this identity. Names that were not valid UTF-8 are compared after the spans have
    /// been read: their replacement is known only then.
    fn condition(
        &self,
        table: &BoundTable,
        display: &DisplayExpressions,
        statement: &mut Statement,
    ) -> String {
        let nanos = self.start.as_nanos();
        let ticks = statement.int(nanos.div_euclid(table.nanos_per_tick));
        let relation = match nanos {
            i64::MAX => ">=",
            i64::MIN => "<=",
            _ => "=",
        };
        let id = statement.string(&self.span_id);
        let [.., name, service] = expressions(table, display);
        let mut named = |expression: String, text: &Option<String>| match text {
            Some(text) if !text.contains(char::REPLACEMENT_CHARACTER) => {
                format!(" AND {expression} = {}", statement.string(text))
            }
            _ => String::new(),
        };
        let names = named(name, &self.name) + &named(service, &self.service);
        format!("({} = {id} AND {} {relation} {ticks}{names})", table.span_id.text, table.ticks)
    }
}

impl From<&SpanSummary> for SpanIdentity {
    fn from(brief: &SpanSummary) -> Self {
        let SpanSummary { span_id, start, name, service, .. } = brief.clone();
        Self { span_id, start, name, service }
    }
}

impl ClickHouse {
    /// Reads spans of a selected trace by identity. Each span is as [`ClickHouse::read_span_lines`] returns it, with its
    /// identity; they are sorted by start and then by span id. At most twenty spans of one identity are read.
    ///
    /// # Errors
    /// Those of [`ClickHouse::read_span_lines`].
    pub async fn read_spans_by_identity(
        &self,
        max_bytes: usize,
        binding: &Binding,
        selection: &Selection,
        spans: &[SpanIdentity],
        columns: Option<&[String]>,
    ) -> Result<Vec<(SpanIdentity, SpanLine)>> {
        let reader = SpanReader::new(binding, selection, columns, max_bytes)?;
        let Some(trace) = selection.traces.first().filter(|_| !spans.is_empty()) else {
            return Ok(Vec::new());
        };
        let (table, display) = (selection.table.as_ref(), &reader.display);
        let mut statement = table.statement();
        let conditions: Vec<String> =
            spans.iter().map(|span| span.condition(table, display, &mut statement)).collect();
        let is_trace = table.trace_id.is(&trace.id, &mut statement);
        let condition = format!("{is_trace} AND ({})", conditions.join(" OR "));
        let expressions = expressions(table, display);
        let limit = format!("{MAX_SPANS_PER_IDENTITY} BY {}", expressions.join(", "));
        let mut found = Vec::new();
        for (line, values) in reader.read(self, trace, statement, &condition, &expressions, &limit).await? {
            let missing = || ClickHouseError::incomplete("columns are missing");
            let row = identity_row(&values).ok_or_else(missing)?;
            let identity = SpanIdentity::from_row(table, display, row);
            if spans.contains(&identity) {
                found.push((identity, line));
            }
        }
        reader.check_size(found.iter().map(|(_, line)| line))?;
        Ok(found)
    }
}

fn identity_row(values: &[Box<RawValue>]) -> Option<IdentityRow> {
    let [ticks, span, name, service] = values else { return None };
    let text = |value: &RawValue| serde_json::from_str::<String>(value.get()).ok();
    Some((serde_json::from_str(ticks.get()).ok()?, text(span)?, text(name)?, text(service)?))
}

#[cfg(test)]
mod tests {
    use tracewarden_model::{ColumnType, Display, FieldRef, FieldSource, LogicalType, MarkedField};
    use tracewarden_policy::Predicate;
    use tracewarden_policy::predicate::{Atom, Relation, Text};
    use tracewarden_testkit::local_store::LocalStore;

    use super::*;
    use crate::agreement::{binding, unrestricted_scope};
    use crate::agreement::{connect, execute};

    /// `column == text`.
    fn equals(column: &str, text: &str) -> Predicate {
        let field = std::sync::Arc::new(MarkedField {
            field: FieldRef::column(column),
            source: FieldSource::Column,
            logical: LogicalType::String,
            column_type: ColumnType::STRING,
            filterable: true,
            policy: true,
            column: None,
        });
        Predicate::atom(Atom::CompareText(Relation::Eq, Text::Field(field), Text::Literal(text.to_owned())))
    }

    #[tokio::test]
    async fn spans_with_one_id_are_distinguished_by_time_and_names() {
        for timestamp in ["DateTime", "DateTime64(3)", "DateTime64(6)", "DateTime64(7)", "DateTime64(9)"] {
            let local = LocalStore::start().unwrap();
            let store = connect(&local);
            // Thirty spans with an empty id, two at each time; and two that share one id.
            let create = format!(
                "CREATE TABLE default.spans ENGINE = MergeTree ORDER BY TraceId AS SELECT \
                 CAST(toDateTime(1790000000 + intDiv(number, 2)) AS {timestamp}) AS Timestamp, 'a' AS TraceId, \
                 if(number < 30, '', '0000000000000001') AS SpanId, '' AS ParentSpanId, \
                 toString(number) AS Service, concat('name ', toString(number)) AS Name FROM numbers(32)"
            );
            execute(&local, create).await;
            let display = Display {
                name: Some("Name".to_owned()),
                service: Some("Service".to_owned()),
                ..Display::default()
            };
            let binding = Binding { display, ..binding("default", "spans") };
            let found = store.find(&binding, &unrestricted_scope(), "a").await.unwrap().unwrap();
            for number in 0..32 {
                let text = number.to_string();
                let predicates = [equals("Service", &text), equals("Service", "none")];
                let satisfied = store.matching_spans(&binding, &found, &predicates, &[]).await.unwrap();
                let expected = SpanIdentity {
                    span_id: if number < 30 { "" } else { "0000000000000001" }.to_owned(),
                    start: Timestamp::from_nanos((1_790_000_000 + number / 2) * 1_000_000_000),
                    name: Some(format!("name {number}")),
                    service: Some(text),
                };
                assert_eq!(satisfied[0].first, std::slice::from_ref(&expected), "{timestamp}");
                let nearest = satisfied[1].nearest.as_ref().unwrap();
                assert_eq!(nearest.span.name.as_deref(), Some("name 0"), "{timestamp}");
                let identities = [expected.clone(), nearest.span.clone()];
                let read =
                    store.read_spans_by_identity(1 << 20, &binding, &found, &identities, None).await.unwrap();
                let last = read.last().unwrap();
                assert_eq!(last.0, expected, "{timestamp}");
                assert!(last.1.json.contains(&format!("\"name {number}\"")), "{timestamp}: {read:?}");
                assert_eq!(read.len(), if number == 0 { 1 } else { 2 }, "{timestamp}");
            }
        }
    }

    /// Other spans with the same id and start do not make the answer too large.
    #[tokio::test]
    async fn spans_of_other_names_are_not_read() {
        let local = LocalStore::start().unwrap();
        let store = connect(&local);
        let create = "CREATE TABLE default.spans ENGINE = MergeTree ORDER BY TraceId AS SELECT toDateTime(1790000000) AS Timestamp, \
             'a' AS TraceId, '' AS SpanId, '' AS ParentSpanId, concat('s ', toString(number)) AS Service, repeat('x', 1000) AS Text \
             FROM numbers(20000)";
        execute(&local, create.to_owned()).await;
        let display = Display { service: Some("Service".to_owned()), ..Display::default() };
        let binding = Binding { display, ..binding("default", "spans") };
        let found = store.find(&binding, &unrestricted_scope(), "a").await.unwrap().unwrap();
        let identity = SpanIdentity {
            span_id: String::new(),
            start: Timestamp::from_nanos(1_790_000_000_000_000_000),
            name: None,
            service: Some("s 777".to_owned()),
        };
        let read = store.read_spans_by_identity(1 << 20, &binding, &found, &[identity], None).await.unwrap();
        assert!(matches!(read.as_slice(), [(_, line)] if line.json.contains("\"s 777\"")), "{read:?}");
    }

    #[tokio::test]
    async fn times_beyond_nanoseconds_are_read() {
        let local = LocalStore::start().unwrap();
        let store = connect(&local);
        let create = "CREATE TABLE default.spans ENGINE = MergeTree ORDER BY TraceId AS SELECT \
             toDateTime64('2290-01-01 00:00:00', 3, 'UTC') + number AS Timestamp, 'a' AS TraceId, '' AS SpanId, \
             '' AS ParentSpanId, toString(number) AS Service FROM numbers(3)";
        execute(&local, create.to_owned()).await;
        let display = Display { service: Some("Service".to_owned()), ..Display::default() };
        let binding = Binding { display, ..binding("default", "spans") };
        let found = store.find(&binding, &unrestricted_scope(), "a").await.unwrap().unwrap();
        let satisfied = store.matching_spans(&binding, &found, &[equals("Service", "1")], &[]).await.unwrap();
        let read =
            store.read_spans_by_identity(1 << 20, &binding, &found, &satisfied[0].first, None).await.unwrap();
        assert!(
            matches!(read.as_slice(), [(_, line)] if line.json.contains("\"Service\":\"1\"")),
            "{read:?}"
        );
    }
}

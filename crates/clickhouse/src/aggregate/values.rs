//! Lists the values of a field in selected traces.
//!
//! The traces come from a [`Selection`], which only an access scope creates, so that only spans count that the caller may
//! read: all spans of those traces, whether or not they match a policy, and no others.

use std::collections::HashMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use tracewarden_model::{LogicalType, MarkedField, Timestamp, Window};
use tracewarden_policy::Predicate;
use tracewarden_policy::predicate::{Atom, Text, TextFunction};
use utoipa::ToSchema;

use crate::schema::{BoundTable, Purpose, resolve_fields};
use crate::search::{SelectedTrace, Selection};
use crate::sql::{Statement, render, strings};
use crate::{ClickHouse, Result};

/// Maximum size of a listed value, in bytes. A longer one would have to be cut, and then no filter could use it.
pub const MAX_VALUE_BYTES: usize = 1_024;
/// Maximum number of spans of the traces that are read; one trace is read whatever its size.
const MAX_SPANS: u64 = 200_000;

/// Which values to list.
#[derive(Debug, Clone, Copy)]
pub struct ValuesRequest<'a> {
    /// A field of type string or string_array; of the latter, its elements are listed.
    pub field: &'a MarkedField,
    /// Prefix of the values.
    pub prefix: Option<&'a str>,
    /// Text that the values contain, ignoring the case of ASCII letters.
    pub contains: Option<&'a str>,
    /// The traces to read, newest first.
    pub selection: &'a Selection,
    /// The window that they were selected in.
    pub window: Window,
    /// Maximum number of values.
    pub limit: u32,
}

/// A value that a filter can use unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema, JsonSchema)]
#[schema(as = FieldValue)]
pub struct ValueCount {
    /// The value, or an element of an array.
    pub value: String,
    /// Number of sampled traces that have a span with this value.
    pub traces: u64,
    /// Number of spans with this value in these traces.
    pub spans: u64,
}

/// The values of a field in a sample of traces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldValues {
    /// Sorted by number of traces, descending; then by spans, then by value.
    pub values: Vec<ValueCount>,
    /// Number of distinct values that can be listed, including those beyond the limit.
    pub distinct: u64,
    /// Number of distinct values that cannot be listed, because no filter could use them: too long, or not UTF-8.
    pub unlisted: u64,
    /// Number of traces read: the newest of those selected.
    pub traces: u64,
}

type Row = (String, u8, u64, u64, u64, u64);

impl ClickHouse {
    /// Counts the values of a field in selected traces. It reads the spans of a trace that are within `max_trace_duration` of
    /// the time range that the selection covers.
    ///
    /// # Errors
    /// When ClickHouse fails, or the field has changed since it was marked.
    pub async fn values(&self, request: ValuesRequest<'_>) -> Result<FieldValues> {
        if request.selection.is_empty() {
            return Ok(FieldValues::default());
        }
        let client = self.client.pinned_to(request.selection.endpoint);
        let time_range = time_range(request, self.config.max_trace_duration_nanos);
        let counts = client.rows(counts_statement(request, time_range)).await?;
        let traces = traces_within_limit(&request.selection.traces, &counts.into_iter().collect());
        let statement = values_statement(request, time_range, traces)?;
        let rows: Vec<Row> = client.rows(statement).await?;
        let (distinct, unlisted) = rows.first().map_or((0, 0), |row| (row.4, row.5));
        let values = rows
            .into_iter()
            .filter(|row| row.1 == 0)
            .map(|(value, _, traces, spans, ..)| ValueCount { value, traces, spans })
            .collect();
        Ok(FieldValues {
            values,
            distinct: distinct.saturating_sub(unlisted),
            unlisted,
            traces: traces.len() as u64,
        })
    }
}

/// Writes the spans of traces in a range of time that satisfy a further condition (`AND …`), after `FROM`.
fn spans_of(
    table: &BoundTable,
    traces: &[SelectedTrace],
    time_range: Option<(Timestamp, Timestamp)>,
    condition: &str,
    statement: &mut Statement,
) -> String {
    let mut conditions = table.trace_id.is_one_of(traces.iter().map(|trace| &trace.id), statement);
    if let Some((low, high)) = time_range {
        conditions.push_str(&format!(" AND {}", table.within(low, high, statement)));
    }
    conditions.push_str(condition);
    table.spans(&conditions, statement)
}

/// Returns the statement that counts the spans to read, by trace.
fn counts_statement(request: ValuesRequest<'_>, time_range: Option<(Timestamp, Timestamp)>) -> Statement {
    let table = request.selection.table.as_ref();
    let mut statement = table.statement();
    let of_traces = spans_of(table, &request.selection.traces, time_range, "", &mut statement);
    let trace = statement.alias("trace");
    statement.push(&format!(
        "SELECT {id} AS {trace}, count() FROM {of_traces} GROUP BY {trace}",
        id = table.trace_id.text,
    ));
    statement
}

fn values_statement(
    request: ValuesRequest<'_>,
    time_range: Option<(Timestamp, Timestamp)>,
    traces: &[SelectedTrace],
) -> Result<Statement> {
    let table = request.selection.table.as_ref();
    let mut statement = table.statement();
    let (field, having) = resolve_field_values(request.field, request.prefix, &table.columns)?;
    let having = render(&having, &mut statement);
    let prefix = request.prefix.map(|prefix| statement.string(prefix));
    let values = strings(&field, prefix.as_deref(), &mut statement);
    let spans_with_value = spans_of(table, traces, time_range, &format!(" AND {having}"), &mut statement);
    let [value, trace, odd, key, seen, spans] =
        statement.aliases(["value", "trace", "odd", "key", "seen", "spans"]);
    let contained = request.contains.map(|text| statement.string(text));
    let where_contains = contained.map(|text| format!(" WHERE positionCaseInsensitive({value}, {text}) > 0"));
    // Odd values are distinguished by a hash, without keeping them: one of them can be as large as a span.
    statement.push(&format!(
        "SELECT if({odd}, '', {key}), {odd}, {seen}, {spans}, count() OVER (), countIf({odd}) OVER () FROM (\
         SELECT {odd}, if({odd}, hex(sipHash128({value})), {value}) AS {key}, uniqExact({trace}) AS {seen}, \
         count() AS {spans} FROM (\
         SELECT {value}, {trace}, {is_odd} AS {odd} FROM (\
         SELECT {id} AS {trace}, toString(arrayJoin({values})) AS {value} FROM {spans_with_value}){where_contains}) \
         GROUP BY {odd}, {key}) ORDER BY {odd}, {seen} DESC, {spans} DESC, {key} LIMIT {limit}",
        id = table.trace_id.text,
        is_odd = is_unlistable(&value),
        where_contains = where_contains.unwrap_or_default(),
        limit = request.limit,
    ));
    Ok(statement)
}

/// Returns the time range to search for spans of the selected traces; `None` for the whole table. Each trace has its
/// position in the order inside the window, and when another page follows, not before the end of this page.
fn time_range(
    request: ValuesRequest<'_>,
    max_trace_duration_nanos: Option<i64>,
) -> Option<(Timestamp, Timestamp)> {
    let longest = max_trace_duration_nanos?;
    let per_tick = request.selection.table.nanos_per_tick;
    let oldest = match request.selection.next() {
        Some(end) if end.tier == 1 => Timestamp::from_nanos(end.key.saturating_mul(per_tick)),
        _ => request.window.from(),
    };
    Some((oldest.saturating_sub(longest), request.window.to().saturating_add(longest)))
}

/// Writes whether no list can show a value.
pub(crate) fn is_unlistable(value: &str) -> String {
    format!("(length({value}) > {MAX_VALUE_BYTES} OR NOT isValidUTF8({value}))")
}

/// Returns as many of the newest traces as have few enough spans in total, but at least one.
fn traces_within_limit<'t>(
    traces: &'t [SelectedTrace],
    counts: &HashMap<String, u64>,
) -> &'t [SelectedTrace] {
    let mut spans = 0_u64;
    let fitting = traces.iter().take_while(|trace| {
        spans = spans.saturating_add(counts.get(&trace.id).copied().unwrap_or(0));
        spans <= MAX_SPANS
    });
    let count = fitting.count().max(1).min(traces.len());
    traces.get(..count).unwrap_or_default()
}

/// Returns the field as the table has it now, and the predicate for spans with a value of it that begins with `prefix`.
pub(crate) fn resolve_field_values(
    wanted: &MarkedField,
    prefix: Option<&str>,
    columns: &[crate::schema::Column],
) -> Result<(MarkedField, Predicate)> {
    let field = Arc::new(wanted.clone());
    let defined = Predicate::atom(Atom::Defined(Arc::clone(&field)));
    let begins = |prefix: &str| {
        let (value, prefix) = (Text::Field(Arc::clone(&field)), Text::Literal(prefix.to_owned()));
        Predicate::atom(Atom::TextCall(TextFunction::StartsWith, value, prefix))
    };
    let having = match prefix {
        Some(prefix) if field.logical == LogicalType::String => defined.and(begins(prefix)),
        _ => defined,
    };
    // Read as filters read it, so that a filter finds every listed value.
    let having = resolve_fields(&having, columns, Purpose::Filter)?;
    let mut now = wanted.clone();
    having.fields().into_iter().for_each(|field| now = field.as_ref().clone());
    Ok((now, having))
}

#[cfg(test)]
mod tests {
    use tracewarden_model::{
        AccessModel, Binding, Caller, Condition, Display, FieldRef, Filter, Test as ConditionTest,
    };
    use tracewarden_policy::{AccessScope, CompiledPolicies, RolePolicy, authorise};
    use tracewarden_testkit::local_store::LocalStore;

    use super::*;
    use crate::agreement::{connect, execute};
    use crate::{SelectRequest, TraceOrder, physical_field};

    const HOUR: i64 = 3_600_000_000_000;
    const NOW: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

    fn binding() -> Binding {
        Binding {
            database: "default".to_owned(),
            table: "valued".to_owned(),
            trace_id: "TraceId".to_owned(),
            span_id: "SpanId".to_owned(),
            timestamp: "Timestamp".to_owned(),
            parent_span_id: "SpanId".to_owned(),
            trace_index: None,
            display: Display::default(),
            ..Binding::default()
        }
    }

    /// Creates traces 0 to 11 with ten spans each, with every kind of column that can hold text. The first span of every
    /// third trace has the team `blue`.
    async fn table(local: &LocalStore) {
        drop(connect(local));
        execute(
            local,
            "CREATE TABLE default.valued (Timestamp DateTime64(9), TraceId LowCardinality(String), SpanId String, \
             Name LowCardinality(Nullable(String)), Fixed FixedString(4), Uuid Nullable(UUID), Kind Enum8('a' = 1, 'b' = 2), \
             Attributes Map(LowCardinality(String), String), Tags Array(LowCardinality(String)), \
             Links Array(Nullable(String)), Doc JSON) ENGINE = MergeTree ORDER BY Timestamp"
                .to_owned(),
        )
        .await;
        execute(
            local,
            format!(
                "INSERT INTO default.valued SELECT fromUnixTimestamp64Nano({now} - (number + 1) * 1000000000), \
                 concat('t', toString(number % 12)), toString(number), if(number % 5 = 0, NULL, concat('n', toString(number % 5))), \
                 if(number % 2 = 0, 'ab', 'cd\\0e'), if(number % 3 = 0, NULL, toUUID(concat('00000000-0000-0000-0000-00000000000', toString(number % 7)))), \
                 if(number % 4 = 0, 'a', 'b'), \
                 map('team', if(number % 3 = 0 AND number < 12, 'blue', 'red'), '', toString(number % 2), 'list', if(number % 2 = 0, '[\"x\", \"y\", \"x\"]', 'no list')), \
                 if(number % 6 = 0, [], [toString(number % 6), '', toString(number % 6)]), if(number % 6 = 0, [NULL], [toString(number % 4), 'l']), \
                 if(number % 2 = 0, concat('{{\"a\": \"d', toString(number % 8), '\"}}'), '{{\"a\": 5}}') FROM numbers(120)",
                now = NOW.as_nanos()
            ),
        )
        .await;
    }

    struct ValuesFixture {
        store: ClickHouse,
        columns: Vec<crate::Column>,
    }

    impl ValuesFixture {
        async fn new(local: &LocalStore) -> Self {
            let store = connect(local);
            let columns = store.catalogue().columns("default", "valued").await.unwrap();
            Self { store, columns }
        }

        fn field(&self, field: FieldRef, logical: LogicalType) -> MarkedField {
            let physical = physical_field(&field, &self.columns).unwrap();
            assert!(physical.logical_types.contains(&logical), "{field}");
            let (source, column_type) = (physical.source, physical.column_type);
            MarkedField { field, source, logical, column_type, filterable: true, policy: true, column: None }
        }

        fn scope(&self, expression: &str) -> AccessScope {
            let team = self.field(FieldRef::key("Attributes", "team"), LogicalType::String);
            let model = AccessModel { version: 1, binding: None, fields: vec![team] };
            let policy = RolePolicy { role: "r", title: "t", expression };
            let caller = Caller { username: "ada".to_owned(), ..Caller::default() };
            authorise([policy], None, &caller, &model, &CompiledPolicies::new()).unwrap()
        }

        async fn select(
            &self,
            scope: &AccessScope,
            conditions: Vec<Condition>,
            limit: u32,
        ) -> (Selection, Window) {
            let window = Window::new(NOW.saturating_sub(HOUR), NOW).unwrap();
            let (binding, filter) = (binding(), Filter::of(conditions));
            let request = SelectRequest {
                binding: &binding,
                scope,
                filter: &filter,
                window,
                order: TraceOrder::Newest,
                limit,
                after: None,
                progress: None,
            };
            (self.store.select(request).await.unwrap(), window)
        }

        async fn values(
            &self,
            policy: &str,
            field: &MarkedField,
            prefix: Option<&str>,
            limit: u32,
        ) -> FieldValues {
            let (selection, window) = self.select(&self.scope(policy), vec![], 500).await;
            let request =
                ValuesRequest { field, prefix, contains: None, selection: &selection, window, limit };
            self.store.values(request).await.unwrap()
        }

        /// Returns how many traces a filter finds by this value.
        async fn count_matching(&self, policy: &str, field: &MarkedField, value: &str) -> u64 {
            let test = match field.logical {
                LogicalType::StringArray => ConditionTest::Has(value.to_owned()),
                _ => ConditionTest::StringEq(value.to_owned()),
            };
            let condition = Condition { field: field.clone(), test };
            self.select(&self.scope(policy), vec![condition], 500).await.0.len() as u64
        }
    }

    fn listed(found: &FieldValues) -> Vec<(&str, u64, u64)> {
        found.values.iter().map(|count| (count.value.as_str(), count.traces, count.spans)).collect()
    }

    #[tokio::test]
    async fn listed_values_are_those_that_filters_find() {
        let local = LocalStore::start().unwrap();
        table(&local).await;
        let fixture = ValuesFixture::new(&local).await;
        let (text, array) = (LogicalType::String, LogicalType::StringArray);
        for (field, logical, distinct) in [
            (FieldRef::column("Name"), text, 4),
            (FieldRef::column("Fixed"), text, 2),
            (FieldRef::column("Uuid"), text, 7),
            (FieldRef::column("Kind"), text, 2),
            (FieldRef::key("Attributes", "team"), text, 2),
            (FieldRef::key("Attributes", ""), text, 2),
            (FieldRef::key("Attributes", "list"), text, 2),
            (FieldRef::key("Attributes", "list"), array, 2),
            (FieldRef::key("Attributes", "absent"), text, 0),
            (FieldRef::column("Tags"), array, 6),
            (FieldRef::column("Links"), array, 5),
            (FieldRef::key("Doc", "a"), text, 4),
        ] {
            let field = fixture.field(field, logical);
            for policy in ["true", "Attributes['team'] == 'blue'"] {
                let found = fixture.values(policy, &field, None, 100).await;
                assert_eq!(found.traces, if policy == "true" { 12 } else { 4 });
                assert_eq!((found.distinct, found.unlisted), (found.values.len() as u64, 0));
                assert!(policy != "true" || found.distinct == distinct, "{}: {found:?}", field.field);
                for count in &found.values {
                    let matching = fixture.count_matching(policy, &field, &count.value).await;
                    assert_eq!(count.traces, matching, "{} {policy}: {count:?}", field.field);
                    assert!(count.spans >= count.traces, "{count:?}");
                }
            }
        }
        // Traces 0, 3, 6 and 9 are visible, with all their spans: each has one span of the team `blue` and nine of `red`.
        let team = fixture.field(FieldRef::key("Attributes", "team"), text);
        let found = fixture.values("Attributes['team'] == 'blue'", &team, None, 100).await;
        assert_eq!(listed(&found), [("red", 4, 36), ("blue", 4, 4)]);
        // An element counts once per span.
        let tags = fixture.field(FieldRef::column("Tags"), array);
        let found = fixture.values("Attributes['team'] == 'blue'", &tags, None, 100).await;
        assert_eq!(listed(&found), [("", 2, 20), ("3", 2, 20)]);

        let name = fixture.field(FieldRef::column("Name"), text);
        let cut = fixture.values("true", &name, Some("n"), 2).await;
        assert_eq!((cut.values.len(), cut.distinct), (2, 4));
        assert_eq!(fixture.values("true", &name, Some("n3"), 9).await.distinct, 1);
        assert_eq!(fixture.values("true", &name, Some("N"), 9).await.distinct, 0);
        assert_eq!(listed(&fixture.values("true", &tags, Some("5"), 9).await), [("5", 2, 20)]);
        assert_eq!(fixture.values("false", &name, None, 9).await, FieldValues::default());
    }

    #[tokio::test]
    async fn unusable_values_are_counted_and_distant_spans_are_not_read() {
        let local = LocalStore::start().unwrap();
        table(&local).await;
        let insert = |seconds: i64, trace: &str, value: &str| {
            format!(
                "INSERT INTO default.valued (Timestamp, TraceId, SpanId, Attributes) SELECT \
                 fromUnixTimestamp64Nano({}), '{trace}', toString(number), map('odd', {value}) FROM numbers(3)",
                NOW.as_nanos() - seconds * 1_000_000_000
            )
        };
        let long = format!("repeat('x', {})", MAX_VALUE_BYTES);
        for statement in [
            insert(5, "t1", &long),
            insert(5, "t1", "concat(repeat('x', 2000), toString(number))"),
            insert(5, "t2", "unhex('ff')"),
            insert(5, "t2", "'\\0 \\\\ \\' \\n'"),
            // A trace that extends beyond the range that is read, before and after the window.
            insert(2 * 3_600 + 5, "t1", "'far before'"),
            insert(3_600 + 5, "t1", "'before'"),
            insert(-3_500, "t1", "'after'"),
            insert(-3_605, "t1", "'far after'"),
        ] {
            execute(&local, statement).await;
        }
        let fixture = ValuesFixture::new(&local).await;
        let odd = fixture.field(FieldRef::key("Attributes", "odd"), LogicalType::String);
        let found = fixture.values("true", &odd, None, 100).await;
        let long = "x".repeat(MAX_VALUE_BYTES);
        assert_eq!(
            listed(&found),
            [("\0 \\ ' \n", 1, 3), ("after", 1, 3), ("before", 1, 3), (long.as_str(), 1, 3)]
        );
        assert_eq!((found.distinct, found.unlisted), (4, 4));
        assert_eq!(fixture.count_matching("true", &odd, "\0 \\ ' \n").await, 1);
        // No value that can be listed.
        let found = fixture.values("true", &odd, Some(&"x".repeat(MAX_VALUE_BYTES + 1)), 100).await;
        assert_eq!((found.values.len(), found.distinct, found.unlisted), (0, 0, 3));
        // On a page that ends before the window does, the range begins where the page ends.
        let (selection, window) = fixture.select(&fixture.scope("true"), vec![], 1).await;
        let end = selection.next().unwrap().key;
        let request = ValuesRequest {
            field: &odd,
            prefix: None,
            contains: None,
            selection: &selection,
            window,
            limit: 1,
        };
        let (low, high) = time_range(request, fixture.store.config.max_trace_duration_nanos).unwrap();
        assert_eq!(low, Timestamp::from_nanos(end - HOUR));
        assert_eq!(high, NOW.saturating_add(HOUR));
    }

    #[test]
    fn large_traces_are_read_one_by_one() {
        let count = |spans: &[u64]| {
            let id = |at: usize| format!("trace {at}");
            let traces: Vec<_> = (0..spans.len()).map(|at| SelectedTrace { id: id(at), spans: 1 }).collect();
            let counts = spans.iter().enumerate().map(|(at, spans)| (id(at), *spans)).collect();
            traces_within_limit(&traces, &counts).len()
        };
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[MAX_SPANS]), 1);
        assert_eq!(count(&[u64::MAX, 1]), 1);
        assert_eq!(count(&[1, MAX_SPANS, 1]), 1);
        assert_eq!(count(&[1, 2, 3]), 3);
    }
}

//! Policy coverage: to how many recent traces policies would grant access. It is advice for policy authors.
//!
//! No span leaves this crate without an access scope, and this module returns only counts of traces and services of a bounded
//! sample. Yet a count reveals something about spans, and a caller that chooses the predicates can repeat the request. So the
//! caller is responsible for authorisation, as for the samples of discovery: `service` requests counts for administrators
//! only, not where the operator disabled samples, and only after the request is in the audit log.

use tracewarden_model::{Binding, Timestamp};
use tracewarden_policy::Predicate;

use super::matching_spans::parts;
use crate::client::QueryLimits;
use crate::schema::{BoundTable, DisplayExpressions};
use crate::sql::Statement;
use crate::{ClickHouse, ClickHouseError, Result};

/// Maximum number of traces of a sample.
const MAX_TRACES: u64 = 1_000;
/// Maximum number of services of one trace that are counted.
const MAX_SERVICES: u32 = 1_000;
/// Maximum number of rows that a statement may read.
const MAX_ROWS: u64 = 10_000_000;

const MINUTE: i64 = 60 * 1_000_000_000;
/// Windows of the sample, tried in turn until the sample is full.
const WINDOWS: [i64; 3] = [5 * MINUTE, 60 * MINUTE, 24 * 60 * MINUTE];

/// The predicates to count, and the time.
#[derive(Debug, Clone, Copy)]
pub struct PolicyCoverageRequest<'a> {
    /// The bound table.
    pub binding: &'a Binding,
    /// Predicates that are counted one by one: a matching span grants access to its trace. Those that do not fit into one
    /// statement, at most [`MAX_PREDICATES`](crate::MAX_PREDICATES), are left out at the end.
    pub predicates: &'a [Predicate],
    /// The end of the windows.
    pub now: Timestamp,
    /// Time limit of one statement, in seconds; there are at most three.
    pub seconds: u32,
}

/// A sample of recent traces, and the counts of the predicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyCoverage {
    /// How far back the sample goes, in nanoseconds.
    pub window_nanos: i64,
    /// Number of traces in the sample.
    pub traces: u64,
    /// Whether the window may hold more traces than the sample.
    pub sampled: bool,
    /// For each predicate, in order; shorter than the request when not all predicates could be counted.
    pub covered: Vec<CoveredTraces>,
}

/// Coverage of a sample by one predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoveredTraces {
    /// Number of traces with a span that satisfies it.
    pub traces: u64,
    /// Number of services of the matching spans; 0 when no service column is bound.
    pub matching_services: u64,
    /// Number of services of all spans of those traces; 0 likewise.
    pub services: u64,
}

type Row = (u64, u64, Vec<u64>, Vec<u64>, Vec<u64>);

impl ClickHouse {
    /// Samples recent traces, each with all its spans so far: traces that began in the newest minutes, and earlier ones while
    /// the sample is not full. Each sample is stored in `found` as soon as it is complete, and later ones are better: a
    /// caller that stops waiting has the last one. Without predicates, `found` is unchanged.
    ///
    /// # Errors
    /// When ClickHouse fails, is slow, or would have to read too much even for the newest minutes.
    pub async fn policy_coverage(
        &self,
        request: PolicyCoverageRequest<'_>,
        found: &mut Option<PolicyCoverage>,
    ) -> Result<()> {
        policy_coverage_within(self, request, MAX_ROWS, found).await
    }
}

async fn policy_coverage_within(
    store: &ClickHouse,
    request: PolicyCoverageRequest<'_>,
    rows: u64,
    found: &mut Option<PolicyCoverage>,
) -> Result<()> {
    let Some(predicates) = parts(request.predicates).first().copied() else { return Ok(()) };
    let table = store.bound_table(request.binding).await?;
    let service = DisplayExpressions::new(&table, &request.binding.display).service;
    let client = store.client.with_limits(QueryLimits { seconds: request.seconds, rows });
    let max_trace_duration = store.config.max_trace_duration_nanos;
    for window_nanos in WINDOWS {
        let from = request.now.saturating_sub(window_nanos);
        let before = max_trace_duration.map_or(window_nanos, |longest| longest.min(window_nanos));
        let range = SampleRange { scan: from.saturating_sub(before), from, to: request.now };
        let statement = statement(&table, service.as_deref(), predicates, &range)?;
        let rows: Vec<Row> = match client.rows(statement).await {
            Err(ClickHouseError::TooLarge(_)) if found.is_some() => return Ok(()),
            rows => rows?,
        };
        let coverage = policy_coverage(rows, window_nanos, predicates.len())?;
        let enough = coverage.sampled && coverage.traces.saturating_mul(2) >= MAX_TRACES;
        *found = Some(coverage);
        if enough {
            break;
        }
    }
    Ok(())
}

/// The time ranges of a sample.
struct SampleRange {
    /// Spans from here on are read.
    scan: Timestamp,
    /// Start of the window. Sampled traces have no span between `scan` and here.
    from: Timestamp,
    /// End of the window, in which sampled traces have a span.
    to: Timestamp,
}

/// Traces are selected by the hash of their id. With another order, the spans that come first in the table would decide which
/// traces are sampled, and those belong to a few services. A trace counts with all its spans or not at all: one that began
/// before the window, as far as spans are read, may have spans that are not read.
fn statement(
    table: &BoundTable,
    service: Option<&str>,
    predicates: &[Predicate],
    range: &SampleRange,
) -> Result<Statement> {
    let mut statement = table.statement();
    let service = service.unwrap_or("''");
    let [trace, whole, services, service_name] = statement.aliases(["trace", "whole", "services", "service"]);
    let matching: Vec<String> = (0..predicates.len()).map(|at| statement.alias(&format!("p{at}"))).collect();
    let mut each = String::new();
    for (predicate, name) in predicates.iter().zip(&matching) {
        let predicate = table.condition(predicate, &mut statement)?;
        // Not empty exactly where a span satisfies the predicate.
        each.push_str(&format!(", groupUniqArrayIf({MAX_SERVICES})({service}, {predicate}) AS {name}"));
    }
    let list = |item: &dyn Fn(&String) -> String| matching.iter().map(item).collect::<Vec<_>>().join(", ");
    let named = |array: String| format!("arrayCount({service_name} -> {service_name} != '', {array})");
    let covered = list(&|name| format!("countIf({whole} AND notEmpty({name}))"));
    let own = list(&|name| named(format!("groupUniqArrayArrayIf({name}, {whole})")));
    let all = list(&|name| named(format!("groupUniqArrayArrayIf({services}, {whole} AND notEmpty({name}))")));
    let in_scan = table.begins(">=", range.scan, &mut statement);
    let before_window = table.begins("<", range.from, &mut statement);
    let inside = table.within(range.from, range.to, &mut statement);
    let (id, column) = (&table.trace_id.text, &table.trace_id.column);
    let in_window = table.spans(&inside, &mut statement);
    let sampled = format!(
        "{in_scan} AND {column} GLOBAL IN (SELECT {column} FROM {in_window} GROUP BY {column} \
         HAVING NOT match({id}, '^0*$') AND isValidUTF8({id}) ORDER BY cityHash64({id}), {column} LIMIT {MAX_TRACES})"
    );
    let spans = table.spans(&sampled, &mut statement);
    statement.push(&format!(
        "SELECT count(), countIf({whole}), [{covered}], [{own}], [{all}] FROM (\
         SELECT {id} AS {trace}, countIf({before_window}) = 0 AS {whole}, \
         groupUniqArray({MAX_SERVICES})({service}) AS {services}{each} \
         FROM {spans} GROUP BY {trace})"
    ));
    Ok(statement)
}

fn policy_coverage(rows: Vec<Row>, window_nanos: i64, expected: usize) -> Result<PolicyCoverage> {
    let short = || ClickHouseError::incomplete("counts are missing");
    let (sampled_traces, traces, covered, matching, services) = rows.into_iter().next().ok_or_else(short)?;
    if [&covered, &matching, &services].iter().any(|counts| counts.len() != expected) {
        return Err(short());
    }
    let covered = covered
        .into_iter()
        .zip(matching.into_iter().zip(services))
        .map(|(traces, (matching_services, services))| CoveredTraces { traces, matching_services, services })
        .collect();
    Ok(PolicyCoverage { window_nanos, traces, sampled: sampled_traces >= MAX_TRACES, covered })
}

#[cfg(test)]
mod tests {
    use tracewarden_model::{
        AccessModel, Caller, ColumnType, Display, FieldRef, FieldSource, LogicalType, MarkedField,
    };
    use tracewarden_testkit::local_store::LocalStore;

    use super::*;
    use crate::MAX_PREDICATES;
    use crate::agreement::{connect, execute};

    const NOW: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

    fn binding(service: bool) -> Binding {
        Binding {
            database: "default".to_owned(),
            table: "recent".to_owned(),
            trace_id: "TraceId".to_owned(),
            span_id: "SpanId".to_owned(),
            timestamp: "Timestamp".to_owned(),
            parent_span_id: "ParentSpanId".to_owned(),
            trace_index: None,
            display: Display { service: service.then(|| "ServiceName".to_owned()), ..Display::default() },
            ..Binding::default()
        }
    }

    fn predicate(expression: &str) -> Predicate {
        let field = |field: FieldRef, source, column_type: &str| MarkedField {
            field,
            source,
            logical: LogicalType::String,
            column_type: ColumnType::parse(column_type),
            filterable: false,
            policy: true,
            column: None,
        };
        let fields = vec![
            field(FieldRef::column("ServiceName"), FieldSource::Column, "LowCardinality(String)"),
            field(FieldRef::key("Attributes", "team"), FieldSource::MapKey, "String"),
        ];
        let model = AccessModel { version: 1, binding: None, fields };
        let checked = tracewarden_policy::check(expression, &model).unwrap();
        checked.predicate(&Caller::default()).unwrap()
    }

    async fn table(local: &LocalStore) {
        // Installs the TLS provider that every client in this process needs.
        drop(connect(local));
        execute(
            local,
            "CREATE OR REPLACE TABLE default.recent (Timestamp DateTime64(9), TraceId String, SpanId String, \
             ParentSpanId String, ServiceName LowCardinality(String), Attributes Map(LowCardinality(String), String)) \
             ENGINE = MergeTree ORDER BY (ServiceName, Timestamp)"
                .to_owned(),
        )
        .await;
    }

    async fn insert(local: &LocalStore, spans: &str) {
        execute(
            local,
            format!(
                "INSERT INTO default.recent (Timestamp, TraceId, SpanId, ServiceName, Attributes) SELECT \
                 fromUnixTimestamp64Nano({} - toInt64(seconds_ago) * 1000000000), id, leftPad(toString(rowNumberInAllBlocks()), 16, '0'), \
                 service, map('team', team) FROM ({spans})",
                NOW.as_nanos()
            ),
        )
        .await;
    }

    async fn ask(local: &LocalStore, service: bool, predicates: &[Predicate]) -> Option<PolicyCoverage> {
        let request = PolicyCoverageRequest { binding: &binding(service), predicates, now: NOW, seconds: 60 };
        let mut found = None;
        connect(local).policy_coverage(request, &mut found).await.unwrap();
        found
    }

    #[tokio::test]
    async fn whole_traces_and_all_their_services_are_counted() {
        let local = LocalStore::start().unwrap();
        table(&local).await;
        let id = "lower(hex(MD5(toString(number))))";
        // Traces 0 to 9 go through `web` and `db`, those of the team `blue` through `mail` too, two hours ago.
        insert(&local, &format!("SELECT 7200 - number AS seconds_ago, {id} AS id, 'web' AS service, 'none' AS team FROM numbers(10)")).await;
        insert(
            &local,
            &format!(
                "SELECT 7100 AS seconds_ago, {id} AS id, 'db' AS service, 'none' AS team FROM numbers(10)"
            ),
        )
        .await;
        insert(
            &local,
            &format!(
                "SELECT 7000 AS seconds_ago, {id} AS id, 'mail' AS service, 'blue' AS team FROM numbers(4)"
            ),
        )
        .await;
        // Spans that do not count: of a trace that began earlier, without a trace, too old, or in the future.
        insert(&local, "SELECT number * 44000 AS seconds_ago, 'long' AS id, 'old' AS service, 'blue' AS team FROM numbers(3)").await;
        insert(&local, "SELECT 60 AS seconds_ago, repeat('0', number) AS id, 'stray' AS service, 'blue' AS team FROM numbers(33)").await;
        insert(&local, "SELECT 90000 AS seconds_ago, 'before' AS id, 'old' AS service, 'blue' AS team").await;
        insert(&local, "SELECT -60 AS seconds_ago, 'after' AS id, 'new' AS service, 'blue' AS team").await;
        let predicates = [
            predicate("Attributes['team'] == 'blue'"),
            predicate("ServiceName in ['web', 'mail']"),
            predicate("Attributes['team'] == 'green'"),
            Predicate::True,
            Predicate::False,
        ];
        let covered =
            |traces, matching_services, services| CoveredTraces { traces, matching_services, services };
        let coverage = ask(&local, true, &predicates).await.unwrap();
        assert_eq!(
            coverage.covered,
            [covered(4, 1, 3), covered(10, 2, 3), covered(0, 0, 0), covered(10, 3, 3), covered(0, 0, 0)]
        );
        assert_eq!((coverage.traces, coverage.sampled, coverage.window_nanos), (10, false, 24 * 60 * MINUTE));
        let coverage = ask(&local, false, &predicates).await.unwrap();
        assert_eq!(coverage.covered[..2], [covered(4, 0, 0), covered(10, 0, 0)]);
        assert_eq!(ask(&local, true, &[]).await, None);
    }

    #[tokio::test]
    async fn samples_cover_all_services_with_few_traces() {
        let local = LocalStore::start().unwrap();
        table(&local).await;
        // The table begins with the spans of `service 0`.
        insert(&local, "SELECT 60 + number % 100 AS seconds_ago, lower(hex(MD5(toString(number)))) AS id, concat('service ', toString(number % 10)) AS service, 'blue' AS team FROM numbers(20000)").await;
        let predicates: Vec<_> =
            (0..10).map(|at| predicate(&format!("ServiceName == 'service {at}'"))).collect();
        let coverage = ask(&local, true, &predicates).await.unwrap();
        assert_eq!((coverage.traces, coverage.sampled, coverage.window_nanos), (1_000, true, 5 * MINUTE));
        assert_eq!(coverage.covered.iter().map(|covered| covered.traces).sum::<u64>(), 1_000);
        assert!(coverage.covered.iter().all(|covered| (50..200).contains(&covered.traces)), "{coverage:?}");
    }

    #[tokio::test]
    async fn expensive_queries_are_skipped() {
        let local = LocalStore::start().unwrap();
        table(&local).await;
        // Ten traces in the newest minutes; the newest hour has more rows than may be read.
        insert(&local, "SELECT 60 AS seconds_ago, concat('trace ', toString(number)) AS id, 'web' AS service, 'blue' AS team FROM numbers(10)").await;
        insert(
            &local,
            "SELECT 1800 AS seconds_ago, 'busy' AS id, 'web' AS service, '' AS team FROM numbers(40000)",
        )
        .await;
        let predicates = [predicate("Attributes['team'] == 'blue'")];
        let request =
            PolicyCoverageRequest { binding: &binding(true), predicates: &predicates, now: NOW, seconds: 60 };
        let mut found = None;
        policy_coverage_within(&connect(&local), request, 30_000, &mut found).await.unwrap();
        let coverage = found.unwrap();
        assert_eq!((coverage.traces, coverage.window_nanos), (10, 5 * MINUTE));
        let mut found = None;
        let error = policy_coverage_within(&connect(&local), request, 10, &mut found).await.unwrap_err();
        assert!(matches!(error, ClickHouseError::TooLarge(_)) && found.is_none(), "{error}");
        let many = vec![Predicate::True; MAX_PREDICATES + 50];
        assert_eq!(parts(&many)[0].len(), MAX_PREDICATES);
        let values: Vec<String> = (0..100).map(|number| format!("'{number}{}'", "x".repeat(50))).collect();
        let long = format!("ServiceName in [{}]", values.join(", "));
        let large = vec![predicate(&long); MAX_PREDICATES];
        let expected = parts(&large)[0];
        assert!(!expected.is_empty() && expected.len() < MAX_PREDICATES, "{}", expected.len());
        assert_eq!(ask(&local, true, &large).await.unwrap().covered.len(), expected.len());
    }
}

//! All statements about a distributed table, which must answer like a single table. `golden/distributed.txt` holds the
//! statements, and `golden/settings.txt` their settings; `UPDATE_DOCS=1 cargo test distributed` in this crate updates them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use tracewarden_model::{
    AccessModel, Binding, Caller, ColumnType, ColumnValue, Condition, Display, FieldRef, FieldSource, Filter,
    LogicalType, MarkedField, Test, Timestamp, Window,
};
use tracewarden_policy::{AccessScope, CompiledPolicies, Predicate, RolePolicy, authorise, lower_condition};
use tracewarden_testkit::local_store::LocalStore;

use super::recorder::{RecordedStatement, Recorder};
use super::{Storage, shards};
use crate::aggregate::SamplingPlan;
use crate::agreement::differential::{connect, connect_at, execute};
use crate::{
    Buckets, ClickHouse, CollateralGrouping, CollateralQuery, Comparison, Impact, ImpactRequest,
    MAX_SPANS_BYTES, PolicyCoverageRequest, SelectRequest, Selection, StatsOrder, StatsRequest, StatsUnit,
    TraceOrder, ValuesRequest,
};

pub(super) const DEFINITIONS: &str = "Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, \
    ServiceName LowCardinality(String), Duration UInt64, SpanAttributes Map(LowCardinality(String), String)";
pub(super) const INDEX_DEFINITIONS: &str = "TraceId String, Start DateTime, End DateTime";
/// Number of traces. Each has four spans; they are ten seconds apart, up to [`NOON`].
const TRACES: u64 = 500;
const NOON: i64 = 1_800_000_000;

pub(super) fn field(field: FieldRef, source: FieldSource, column_type: &str) -> MarkedField {
    MarkedField {
        field,
        source,
        logical: LogicalType::String,
        column_type: ColumnType::parse(column_type),
        column: None,
        filterable: true,
        policy: true,
    }
}

pub(super) fn service() -> MarkedField {
    field(FieldRef::column("ServiceName"), FieldSource::Column, "LowCardinality(String)")
}

pub(super) fn tenant() -> MarkedField {
    field(FieldRef::key("SpanAttributes", "tenant"), FieldSource::MapKey, "String")
}

/// The policy is satisfied by the second span of some traces.
fn scope() -> AccessScope {
    let model = AccessModel { version: 1, binding: None, fields: vec![service(), tenant()] };
    let expression = "SpanAttributes.tenant in ['t1', 't2', 't3'] && ServiceName == 'cart'".to_owned();
    let policy = RolePolicy { role: "r", title: "t", expression: &expression };
    authorise([policy], None, &Caller::default(), &model, &CompiledPolicies::new()).unwrap()
}

pub(super) fn binding(table: &str, index: bool) -> Binding {
    Binding {
        database: "default".to_owned(),
        table: table.to_owned(),
        trace_id: "TraceId".to_owned(),
        span_id: "SpanId".to_owned(),
        timestamp: "Timestamp".to_owned(),
        parent_span_id: "ParentSpanId".to_owned(),
        trace_index: index.then(|| format!("{table}_trace_id_ts")),
        display: Display {
            service: Some("ServiceName".to_owned()),
            duration: Some("Duration".to_owned()),
            ..Display::default()
        },
        ..Binding::default()
    }
}

/// Creates spans in shards. Returns the table that has the rows.
pub(super) async fn fill_spans(local: &LocalStore) -> String {
    let key = "(ServiceName, Timestamp)";
    let rows = Storage::Shards.create(local, "spans", DEFINITIONS, key, "(SpanId, TraceId)").await;
    execute(
        local,
        format!(
            "INSERT INTO {rows} (Timestamp, TraceId, SpanId, ParentSpanId, ServiceName, Duration, SpanAttributes) \
             SELECT toDateTime64({NOON}, 9) - INTERVAL 10 * trace + 1 - span SECOND, \
             leftPad(lower(hex(trace + 1)), 32, '0'), leftPad(hex(4 * trace + span), 16, '0'), \
             if(span = 0, '', leftPad(hex(4 * trace), 16, '0')), ['web', 'cart', 'db', 'mail'][1 + span], 5, \
             map('tenant', concat('t', toString(trace % 7)), 'status', if(trace % 11 = span, '500', '200')) \
             FROM (SELECT intDiv(number, 4) AS trace, number % 4 AS span FROM numbers(4 * {TRACES}))"
        ),
    )
    .await;
    rows
}

/// Copies the same rows to `one`, with a trace index.
pub(super) async fn copy_to_one(local: &LocalStore, rows: &str) {
    execute(
        local,
        format!("CREATE TABLE default.one ENGINE = MergeTree ORDER BY TraceId AS SELECT * EXCEPT shard FROM {rows}"),
    )
    .await;
    execute(
        local,
        "CREATE TABLE default.one_trace_id_ts ENGINE = MergeTree ORDER BY TraceId AS \
         SELECT TraceId, toDateTime(min(Timestamp)) AS Start, toDateTime(max(Timestamp)) AS End FROM default.one GROUP BY TraceId"
            .to_owned(),
    )
    .await;
}

/// Creates a trace index in shards, whose rows are distributed like the spans.
pub(super) async fn fill_index(local: &LocalStore, rows: &str) {
    let index = Storage::Shards
        .create(local, "spans_trace_id_ts", INDEX_DEFINITIONS, "TraceId", "(Start, TraceId)")
        .await;
    execute(
        local,
        format!(
            "INSERT INTO {index} (TraceId, Start, End) \
             SELECT TraceId, toDateTime(Timestamp), toDateTime(Timestamp) FROM {rows}"
        ),
    )
    .await;
}

/// The answers as text, each with the title of its statements.
pub(super) type Answers = Vec<(&'static str, String)>;

async fn read(store: &ClickHouse, binding: &Binding, selection: &Selection) -> String {
    let mut text = String::new();
    let mut stream = store.read(binding, selection, None).await.unwrap();
    while let Some(chunk) = stream.next().await {
        text.push_str(std::str::from_utf8(&chunk.unwrap().lines).unwrap());
    }
    text
}

/// Removes the columns that a test adds to the table: answers include them once they exist.
fn without_created_columns(spans: &str) -> String {
    let own = |line: &str| {
        let mut span: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        span.retain(|column, _| column != "status" && column != "SpanAttributes_tenant");
        serde_json::Value::from(span).to_string()
    };
    spans.lines().map(own).collect::<Vec<_>>().join("\n")
}

/// Runs every kind of request about spans; `then` is called after each.
pub(super) async fn ask(store: &ClickHouse, table: &str, mut then: impl FnMut(&'static str)) -> Answers {
    let mut answers = Answers::new();
    let mut answered = |title, answer: String| {
        then(title);
        answers.push((title, answer));
    };
    let scope = scope();
    let at = |seconds: i64| Timestamp::from_nanos((NOON - seconds) * 1_000_000_000);
    let window = Window::new(at(3_600), at(0)).unwrap();
    let status = field(FieldRef::key("SpanAttributes", "status"), FieldSource::MapKey, "String");
    let failed = Condition { field: status.clone(), test: Test::StringEq("500".to_owned()) };
    let without = Filter::default();
    let with = Filter::of(vec![failed.clone()]);
    for (filter, index, titles) in [
        (&without, false, ["search, no conditions", "its second page"]),
        (&with, false, ["search, a condition", "its second page"]),
        (&with, true, ["search with a trace index, a condition", "its second page"]),
    ] {
        let binding = &binding(table, index);
        let request = |after| SelectRequest {
            binding,
            scope: &scope,
            filter,
            window,
            order: TraceOrder::Newest,
            limit: 5,
            after,
            progress: None,
        };
        let page = store.select(request(None)).await.unwrap();
        assert_eq!(page.len(), 5);
        answered(titles[0], format!("{:?} {:?}", page.trace_ids().collect::<Vec<_>>(), page.next()));
        let page = store.select(request(page.next().cloned())).await.unwrap();
        answered(titles[1], format!("{:?} {:?}", page.trace_ids().collect::<Vec<_>>(), page.next()));
        if index {
            let spans = read(store, binding, &page).await;
            assert_eq!(spans.lines().count(), 20);
            answered("spans of chosen traces", without_created_columns(&spans));
            answered("summaries", format!("{:?}", store.summarise(binding, &page, filter).await.unwrap()));
            let request = ValuesRequest {
                field: &status,
                prefix: None,
                contains: None,
                selection: &page,
                window,
                limit: 10,
            };
            answered("values of a field", format!("{:?}", store.values(request).await.unwrap()));
        }
    }
    let statistics = [
        ("numbers per span, by a column", false, StatsUnit::Span, vec![service()], StatsOrder::Duration),
        (
            "numbers per trace, by two fields, with a trace index",
            true,
            StatsUnit::Trace,
            vec![service(), tenant()],
            StatsOrder::Count,
        ),
    ];
    for (title, index, per, group, order) in statistics {
        let (binding, group) = (&binding(table, index), group.as_slice());
        let (filter, limit, max_traces) = (&with, 5, 20);
        let scope = &scope;
        // One of the two with everything that a statement can count.
        let buckets = (per == StatsUnit::Trace).then(|| Buckets::covering(window, 4));
        let facets = if buckets.is_some() { group } else { &[] };
        let request = StatsRequest {
            binding,
            scope,
            filter,
            window,
            group,
            per,
            order,
            limit,
            max_traces,
            buckets,
            facets,
        };
        let stats = store.stats(request).await.unwrap();
        assert_eq!((stats.total.traces, stats.complete), (20, false));
        answered(title, format!("{stats:?}"));
    }
    let binding = binding(table, true);
    let found = store.find(&binding, &scope, &format!("{:032x}", 9)).await.unwrap().unwrap();
    answered(
        "a trace by its id",
        format!("{:?} {}", found.trace_ids().collect::<Vec<_>>(), found.span_count()),
    );
    answered("its spans in brief", format!("{:?}", store.span_summaries(&binding, &found, 3).await.unwrap()));
    let spans = [32, 33, 34].map(|span| format!("{span:016X}"));
    let lines = store
        .read_spans(MAX_SPANS_BYTES, &binding, &found, &spans, Some(&["ServiceName".to_owned()]))
        .await
        .unwrap();
    assert_eq!(lines.len(), 3);
    answered("some of its spans", lines.join("\n"));
    let denied = store.find(&binding, &scope, &format!("{:032x}", 8)).await.unwrap();
    answered("a trace outside the access scope", format!("{}", denied.is_some()));
    let predicates: [Predicate; 2] = [lower_condition(&failed), scope.predicate().clone()];
    let request =
        PolicyCoverageRequest { binding: &binding, predicates: &predicates, now: at(0), seconds: 60 };
    let mut coverage = None;
    store.policy_coverage(request, &mut coverage).await.unwrap();
    answered("number of recent traces that policies grant", format!("{coverage:?}"));
    let satisfied =
        store.matching_spans(&binding, &found, &predicates, scope.referenced_fields()).await.unwrap();
    answered("which of its spans satisfy predicates", format!("{satisfied:?}"));
    let denied_id = format!("{:032x}", 8);
    let counts = store
        .matching_span_counts(&binding, &denied_id, &predicates, scope.referenced_fields())
        .await
        .unwrap();
    answered("number of matching spans in a trace outside the access scope", format!("{counts:?}"));
    let full_count = SamplingPlan::within(Duration::from_secs(60));
    let sample = SamplingPlan { full_count: Duration::ZERO, first_share: Some(1.0), ..full_count };
    for (index, sampling_plan, titles) in [
        (false, full_count, ["traces that a change grants and revokes", "collateral access of a policy"]),
        (true, full_count, ["the same with a trace index", "and that"]),
        (false, sample, ["the same of a sample", "and that"]),
    ] {
        let binding = &super::statements::binding(table, index);
        let comparisons = [Comparison { before: vec![0], after: vec![1] }];
        let (only_readable, readable, referenced_fields) = (false, &scope, scope.referenced_fields());
        let timeout = Duration::from_secs(60);
        let (predicates, comparisons) = (&predicates, &comparisons);
        let request = ImpactRequest {
            binding,
            binding_after: None,
            predicates,
            comparisons,
            collateral: None,
            window,
            readable,
            only_readable,
            referenced_fields,
            samples: 3,
            timeout,
        };
        let Impact { compared, traces, fraction, .. } =
            store.impact_with_plan(request, sampling_plan).await.unwrap();
        assert!(compared[0].gained > 0 && compared[0].lost > 0, "{compared:?}");
        // A sample is reported as one, even if it reads everything.
        assert_eq!(fraction < 1.0, sampling_plan.full_count.is_zero());
        answered(titles[0], format!("{compared:?} of {traces}"));
        let by = &CollateralGrouping::Column("ServiceName".to_owned());
        let collateral = Some(CollateralQuery { predicate_sets: &[vec![0], vec![1]], by, limit: 5 });
        let found =
            store.impact_with_plan(ImpactRequest { collateral, ..request }, sampling_plan).await.unwrap();
        assert_eq!(found.compared, compared);
        assert_eq!((found.collateral_values[1].distinct, found.collateral_values[1].only_shared), (4, 3));
        answered(titles[1], format!("{:?}", found.collateral_values));
    }
    // The same policy through a binding that reads other rows.
    let only = vec![ColumnValue { column: "ServiceName".to_owned(), value: "web".to_owned() }];
    let other = Binding { only, ..super::statements::binding(table, true) };
    let request = ImpactRequest {
        binding: &super::statements::binding(table, false),
        binding_after: Some(&other),
        predicates: &predicates,
        comparisons: &[
            Comparison { before: vec![0], after: vec![0] },
            Comparison { before: vec![1], after: vec![0] },
        ],
        collateral: None,
        window,
        readable: &scope,
        only_readable: false,
        referenced_fields: scope.referenced_fields(),
        samples: 3,
        timeout: Duration::from_secs(60),
    };
    let compared = store.impact_with_plan(request, full_count).await.unwrap().compared;
    assert!(
        compared.iter().any(|one| one.lost > 0) && compared.iter().any(|one| one.gained > 0),
        "{compared:?}"
    );
    answered("traces that another binding grants and revokes", format!("{compared:?}"));
    let columns = store.catalogue().columns("default", table).await.unwrap();
    let mut sampled =
        store.catalogue().sample_keys("default", table, &columns, Some(&binding)).await.unwrap();
    // The order in which examples are found is not specified.
    sampled.iter_mut().flat_map(|column| &mut column.keys).for_each(|key| key.examples.clear());
    answered("keys of maps", format!("{sampled:?}"));
    answers
}

#[tokio::test]
async fn statements_over_shards_match_the_file_and_a_single_table() {
    let local = shards();
    let recorder = Recorder::start(&local.url);
    let recorded = connect_at(&recorder.url, &local.password);
    let rows = fill_spans(&local).await;
    fill_index(&local, &rows).await;
    copy_to_one(&local, &rows).await;

    let (mut current, mut settings) = (String::new(), Settings::default());
    let over_shards = ask(&recorded, "spans", |title| {
        let mut formatted = Vec::new();
        for sent in recorder.take() {
            // A statement about the servers: those that can be reached answer it.
            if sent.text.contains("clusterAllReplicas(") {
                continue;
            }
            settings.record(title, &sent);
            assert_eq!(
                sent.not_global(),
                Vec::<String>::new(),
                "{title}: each shard would read only its own rows"
            );
            // Statements that read system tables are the same for every kind of table.
            if sent.text.contains("`spans") {
                formatted.push((sent.text.clone(), sent.formatted()));
            }
        }
        // Some are sent at the same time, and some again with other values.
        formatted.sort();
        formatted.dedup_by(|(other, _), (text, _)| other == text);
        let formatted: Vec<String> = formatted.into_iter().map(|(_, formatted)| formatted).collect();
        write!(current, ">>> {title}\n{}\n\n", formatted.join("\n")).unwrap();
    })
    .await;
    let over_one = ask(&connect(&local), "one", |_| {}).await;
    assert_eq!(over_shards, over_one);
    settings.assert_local_subqueries_fail(&local).await;

    assert_golden("distributed.txt", &current);
    assert_golden("settings.txt", &settings.formatted());
}

/// Compares a text with a file of `golden`, or updates the file.
fn assert_golden(name: &str, current: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&path, current).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    let differing = expected.lines().zip(current.lines()).find(|(expected, current)| expected != current);
    assert!(
        expected == current,
        "golden/{name}: run `UPDATE_DOCS=1 cargo test -p tracewarden-clickhouse distributed`; first {differing:?}"
    );
}

/// The settings that are sent with statements, as observed.
#[derive(Default)]
struct Settings {
    /// For each setting, the number of statements that had it, and its values.
    all: BTreeMap<String, (usize, BTreeSet<String>)>,
    statements: usize,
    /// Settings of the last statement.
    last: Vec<(String, String)>,
}

impl Settings {
    fn record(&mut self, title: &str, sent: &RecordedStatement) {
        let (ids, settings): (Vec<_>, Vec<_>) =
            sent.settings().into_iter().partition(|(name, _)| name == "query_id");
        assert!(matches!(ids.as_slice(), [(_, id)] if id.starts_with("tracewarden-")), "{title}: {ids:?}");
        let names: BTreeSet<&String> = settings.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), settings.len(), "{title}: a setting is sent twice");
        for (name, value) in &settings {
            // The remaining time differs from run to run.
            let seconds = value.parse().is_ok_and(|seconds: u64| (1..=600).contains(&seconds));
            let value = if name == "max_execution_time" && seconds { "1 to 600" } else { value };
            let (statements, values) = self.all.entry(name.clone()).or_default();
            *statements += 1;
            values.insert(value.to_owned());
        }
        self.statements += 1;
        self.last = settings;
    }

    /// With these settings, a sub-query that each shard would evaluate on its own rows is an error.
    async fn assert_local_subqueries_fail(&self, local: &LocalStore) {
        let ask = async |global: &str| {
            let text = format!(
                "SELECT count() FROM default.spans WHERE TraceId {global} IN (SELECT TraceId FROM default.spans)"
            );
            let request =
                reqwest::Client::new().post(&local.url).basic_auth("default", Some(&local.password));
            request.query(&self.last).body(text).send().await.unwrap().text().await.unwrap()
        };
        assert!(ask("GLOBAL").await.contains(&(4 * TRACES).to_string()));
        let refused = ask("").await;
        assert!(refused.contains("distributed_product_mode = 'deny'"), "{refused}");
    }

    fn formatted(&self) -> String {
        let formatted = |(name, (statements, values)): (&String, &(usize, BTreeSet<String>))| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let or_none = if *statements < self.statements { ", or not sent" } else { "" };
            format!("{name} = {}{or_none}\n", values.join(" or "))
        };
        self.all.iter().map(formatted).collect()
    }
}

/// Verifies the set-up: without the settings that are sent, the profile loses spans.
#[tokio::test]
async fn without_the_settings_of_the_service_shards_are_not_one_table() {
    let local = shards();
    fill_spans(&local).await;
    let ask = async |statement: &str| -> Vec<Vec<u64>> {
        let request = reqwest::Client::new().post(&local.url).basic_auth("default", Some(&local.password));
        let answer = request.body(statement.to_owned()).send().await.unwrap().text().await.unwrap();
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{statement}: {answer}"));
        answer.lines().map(|line| line.split('\t').map(number).collect()).collect()
    };
    let count = async |statement: &str| ask(statement).await.into_iter().flatten().sum::<u64>();
    let by_shard =
        ask("SELECT uniqExact(TraceId), count() FROM default.spans GROUP BY shardNum() ORDER BY 1").await;
    let [first, second] = by_shard.as_slice() else { panic!("{by_shard:?}") };
    assert_eq!(first[1] + second[1], 4 * TRACES);
    assert!(first[0] + second[0] > TRACES * 3 / 2, "the spans of most traces are apart: {by_shard:?}");

    // Each shard's own groups, taken for the whole.
    let full_count =
        "SELECT count() FROM (SELECT TraceId FROM default.spans GROUP BY TraceId HAVING count() = 4)";
    assert!(count(full_count).await < TRACES / 2);
    // Only the shard that the declared sharding key names is read.
    let id = format!("{:032x}", 1);
    let spans = format!("SELECT count() FROM default.spans WHERE TraceId IN ('{id}', 'x')");
    assert!(count(&spans).await < 4);
    // Each shard looks for the ids in its own rows only.
    let of_carts = "SELECT count() FROM default.spans WHERE TraceId IN (SELECT TraceId FROM default.spans WHERE ServiceName = 'cart')";
    assert!(count(of_carts).await < 4 * TRACES);
}

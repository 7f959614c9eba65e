//! Traces before 1970 and after 2106, which an index of `DateTime` cannot represent, on the real engine.

use std::sync::Arc;

use tracewarden_model::{
    AccessModel, Binding, Caller, ColumnType, FieldRef, FieldSource, Filter, LogicalType, MarkedField,
    Timestamp,
};
use tracewarden_policy::{CompiledPolicies, RolePolicy, authorise};
use tracewarden_testkit::local_store::LocalStore;

use super::*;
use crate::agreement::{binding, connect, execute};
use crate::search::{Plan, PlannerOptions, RequiredPredicate, StepOptions};
use crate::{ClickHouse, SelectRequest, TraceOrder};

const NOON: i64 = 1_790_000_000;
const IN_2150: i64 = 5_680_281_600;
const LAST_SECOND: i64 = 4_294_967_295;

/// Traces by id, each with its spans' times in milliseconds. All spans of a trace arrive together.
const TRACES: [(&str, &[i64]); 8] = [
    ("before", &[-60_000]),
    ("after", &[IN_2150 * 1_000]),
    ("across the beginning", &[-500, 500]),
    ("across the end", &[LAST_SECOND * 1_000 + 900, LAST_SECOND * 1_000 + 1_100]),
    ("at the end", &[LAST_SECOND * 1_000 + 900]),
    ("now", &[NOON * 1_000, NOON * 1_000 + 5]),
    ("now and before", &[-60_000, NOON * 1_000]),
    ("now and after", &[NOON * 1_000, IN_2150 * 1_000]),
];

/// How a server stores a time as `DateTime`.
#[derive(Debug, Clone, Copy)]
enum EntryEncoding {
    /// By the exporter's materialized view, as this engine does it.
    ByView,
    /// As the low 32 bits of the seconds.
    Wrapped,
}

async fn create(local: &LocalStore, timestamp: &str, encoding: EntryEncoding) {
    for name in ["spans_mv", "spans_trace_id_ts", "spans"] {
        execute(local, format!("DROP TABLE IF EXISTS default.{name} SYNC")).await;
    }
    execute(
        local,
        format!(
            "CREATE TABLE default.spans (Timestamp {timestamp}, TraceId String, SpanId String, ParentSpanId String, Place String) \
             ENGINE = MergeTree PARTITION BY toDate(Timestamp) ORDER BY (Place, toDateTime(Timestamp))"
        ),
    )
    .await;
    execute(
        local,
        "CREATE TABLE default.spans_trace_id_ts (TraceId String, Start DateTime, End DateTime) ENGINE = MergeTree \
         PARTITION BY toDate(Start) ORDER BY (TraceId, Start)"
            .to_owned(),
    )
    .await;
    if matches!(encoding, EntryEncoding::ByView) {
        execute(
            local,
            "CREATE MATERIALIZED VIEW default.spans_mv TO default.spans_trace_id_ts AS SELECT TraceId, min(Timestamp) AS Start, \
             max(Timestamp) AS End FROM default.spans WHERE TraceId != '' GROUP BY TraceId"
                .to_owned(),
        )
        .await;
    }
    for (trace, spans) in TRACES {
        let rows: Vec<String> = spans
            .iter()
            .map(|millis| {
                let place = if is_representable(*millis) { "near" } else { "far" };
                format!("(fromUnixTimestamp64Milli({millis}, 'UTC'), '{trace}', '{millis}', '', '{place}')")
            })
            .collect();
        execute(local, format!("INSERT INTO default.spans VALUES {}", rows.join(", "))).await;
        if matches!(encoding, EntryEncoding::Wrapped) {
            let seconds = |millis: Option<&i64>| millis.unwrap().div_euclid(1_000) as u32;
            let (start, end) = (seconds(spans.iter().min()), seconds(spans.iter().max()));
            let row = format!("('{trace}', {start}, {end})");
            execute(local, format!("INSERT INTO default.spans_trace_id_ts VALUES {row}")).await;
        }
    }
}

/// Whether `DateTime` can hold the time.
fn is_representable(millis: i64) -> bool {
    (0..=LAST_SECOND * 1_000 + 999).contains(&millis)
}

/// Returns the traces that a policy grants access to, found with one plan.
async fn found(
    store: &ClickHouse,
    binding: &Binding,
    policy: &str,
    window: Window,
    plan: &Option<Plan>,
) -> Vec<String> {
    let field = MarkedField {
        field: FieldRef::column("Place"),
        source: FieldSource::Column,
        logical: LogicalType::String,
        column_type: ColumnType::STRING,
        filterable: true,
        policy: true,
        column: None,
    };
    let model = AccessModel { version: 1, binding: None, fields: vec![field] };
    let policy = RolePolicy { role: "r", title: "t", expression: policy };
    let scope = authorise([policy], None, &Caller::default(), &model, &CompiledPolicies::new()).unwrap();
    let filter = Filter::default();
    let request = SelectRequest {
        binding,
        scope: &scope,
        filter: &filter,
        window,
        order: TraceOrder::Newest,
        limit: 100,
        after: None,
        progress: None,
    };
    let tables = store.bound_tables(binding).await.unwrap();
    assert!(tables.index.is_some());
    let table = Arc::new(crate::schema::table::BoundTable::new(binding, tables.columns.to_vec()).unwrap());
    let search = store.prepare(&request, &table, tables.index, PlannerOptions::default()).unwrap();
    let mut ids: Vec<String> =
        search.run(plan.as_ref()).await.unwrap().into_iter().map(|found| found.position.trace_id).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn traces_beyond_the_index_are_found() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let binding =
        Binding { trace_index: Some("spans_trace_id_ts".to_owned()), ..binding("default", "spans") };
    let hour = 3_600_000;
    let windows = [
        (-2 * hour, 0),
        (-1_000, 1_000),
        (-2 * hour, (IN_2150 + 1) * 1_000),
        (NOON * 1_000 - hour, NOON * 1_000 + hour),
        (LAST_SECOND * 1_000 - 1_000, LAST_SECOND * 1_000 + 1_000),
        (LAST_SECOND * 1_000 - 1_000, LAST_SECOND * 1_000 + 5_000),
        (IN_2150 * 1_000 - hour, IN_2150 * 1_000 + hour),
    ];
    let step_options = |window_share| StepOptions {
        first: 1_000_000_000,
        statement: 0,
        use_trace_index: true,
        window_share,
        expects_few_matches: false,
        selects_traces: true,
    };
    let plans = [
        None,
        Some(Plan::Steps(step_options(WindowShare::Most))),
        Some(Plan::Steps(step_options(WindowShare::Part))),
        Some(Plan::FilteredPass(vec![RequiredPredicate::Policies])),
        Some(Plan::FilteredPass(vec![])),
        Some(Plan::GroupByTrace),
    ];
    for (timestamp, encoding) in [
        ("DateTime64(9)", EntryEncoding::ByView),
        ("DateTime64(9)", EntryEncoding::Wrapped),
        ("DateTime64(3)", EntryEncoding::Wrapped),
    ] {
        create(&local, timestamp, encoding).await;
        for (from, to) in windows {
            let at = |millis: i64| Timestamp::from_nanos(millis * 1_000_000);
            let window = Window::new(at(from), at(to)).unwrap();
            let inside = |spans: &[i64]| spans.iter().any(|millis| (from..to).contains(millis));
            // A policy that any span satisfies, and one that only spans outside the index's range satisfy.
            for (policy, grants) in [
                ("true", (|_| true) as fn(i64) -> bool),
                ("Place == \"far\"", |millis| !is_representable(millis)),
            ] {
                let is_found = |spans: &[i64]| inside(spans) && spans.iter().any(|millis| grants(*millis));
                let mut expected: Vec<&str> =
                    TRACES.iter().filter(|(_, spans)| is_found(spans)).map(|(trace, _)| *trace).collect();
                expected.sort_unstable();
                for plan in &plans {
                    let found = found(&store, &binding, policy, window, plan).await;
                    assert_eq!(
                        found, expected,
                        "{timestamp}, {encoding:?}, {from} to {to}, {policy}, {plan:?}"
                    );
                }
            }
        }
    }
}

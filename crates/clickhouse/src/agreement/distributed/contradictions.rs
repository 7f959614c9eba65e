//! Conditions that no span can satisfy, over a distributed table. ClickHouse replaces some of them by a constant, and the initiating
//! server and the shards then name the columns around it differently: an error instead of no results.

use tracewarden_model::{
    AccessModel, Binding, Caller, Condition, Decimal, FieldRef, FieldSource, Filter, LogicalType,
    MarkedField, Relation, Test, Timestamp, Window,
};
use tracewarden_policy::{AccessScope, CompiledPolicies, KeyConstraint, RolePolicy, authorise};

use super::statements::{DEFINITIONS, binding, field, service};
use super::{Storage, shards};
use crate::agreement::differential::{connect, execute};
use crate::search::{Plan, PlannerOptions};
use crate::{Buckets, ClickHouse, SelectRequest, StatsOrder, StatsRequest, StatsUnit, TraceOrder};

const NOTHING: [usize; 5] = [0; 5];
const NOON: i64 = 1_800_000_000_000_000_000;

fn span_id() -> MarkedField {
    field(FieldRef::column("SpanId"), FieldSource::Column, "String")
}

fn duration() -> MarkedField {
    let field = field(FieldRef::column("Duration"), FieldSource::Column, "UInt64");
    MarkedField { logical: LogicalType::Number, ..field }
}

fn scope(policy: &str, key_constraint: Option<&str>) -> AccessScope {
    let model = AccessModel { version: 1, binding: None, fields: vec![service(), span_id()] };
    let policy = RolePolicy { role: "r", title: "t", expression: policy };
    let key_constraint =
        key_constraint.map(|expression| KeyConstraint { expression, knows_policy_fields: true });
    authorise([policy], key_constraint, &Caller::default(), &model, &CompiledPolicies::new()).unwrap()
}

/// Filters, the last of which matches the only trace.
fn filters() -> Vec<Filter> {
    let compare = |relation, number: i64| Condition {
        field: duration(),
        test: Test::Compare(relation, Decimal::from(number)),
    };
    let service_is = |name: &str| Condition { field: service(), test: Test::StringEq(name.to_owned()) };
    let between =
        Condition { field: duration(), test: Test::Between(Decimal::from(9_i64), Decimal::from(2_i64)) };
    let groups = [
        vec![between.clone()],
        vec![service_is("web"), between],
        vec![compare(Relation::Gt, 5), compare(Relation::Lt, 5)],
        vec![compare(Relation::Eq, 5), compare(Relation::Eq, 6)],
        vec![compare(Relation::Eq, 5), compare(Relation::Ne, 5), service_is("web")],
        vec![service_is("web"), service_is("cart")],
        vec![service_is("web"), compare(Relation::Eq, 5)],
    ];
    groups.into_iter().map(|group| Filter { same_span: vec![group], ..Filter::default() }).collect()
}

/// Counts the traces of a search in each order, of a grouped pass, and of statistics.
async fn found(
    store: &ClickHouse,
    binding: &Binding,
    scope: &AccessScope,
    filter: &Filter,
    window: Window,
) -> Vec<usize> {
    let mut found = Vec::new();
    for order in [TraceOrder::Newest, TraceOrder::Longest] {
        let (limit, after, progress) = (5, None, None);
        let request = SelectRequest { binding, scope, filter, window, order, limit, after, progress };
        found.push(store.select(request).await.unwrap().len());
    }
    let table = store.bound_table(binding).await.unwrap();
    let (order, limit, after, progress) = (TraceOrder::Newest, 5, None, None);
    let request = SelectRequest { binding, scope, filter, window, order, limit, after, progress };
    let search = store.prepare(&request, &table, None, PlannerOptions::default()).unwrap();
    found.push(search.run(Some(&Plan::GroupByTrace)).await.unwrap().len());
    for per in [StatsUnit::Span, StatsUnit::Trace] {
        let (group, order, limit, max_traces) = (&[service()][..], StatsOrder::Count, 5, 5);
        let (buckets, facets) = (Some(Buckets::covering(window, 3)), &[][..]);
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
        found.push(usize::try_from(store.stats(request).await.unwrap().total.traces).unwrap());
    }
    found
}

#[tokio::test]
async fn contradictions_find_nothing() {
    let local = shards();
    // Windows can be shorter than the precision.
    let definitions = DEFINITIONS.replace("DateTime64(9)", "DateTime64(6)");
    let rows = Storage::Shards.create(&local, "spans", &definitions, "Timestamp", "SpanId").await;
    execute(
        &local,
        format!(
            "INSERT INTO {rows} (Timestamp, TraceId, SpanId, ServiceName, Duration) SELECT fromUnixTimestamp64Nano({NOON}), \
             leftPad('a', 32, '0'), leftPad(hex(number), 16, '0'), 'web', 5 FROM numbers(8)"
        ),
    )
    .await;
    let (store, binding) = (connect(&local), binding("spans", false));
    let window = |from: i64, to: i64| {
        Window::new(Timestamp::from_nanos(NOON + from), Timestamp::from_nanos(NOON + to)).unwrap()
    };
    let no_filter = Filter::default();
    let all = scope("true", None);
    let with_key = scope("ServiceName == 'web'", Some("SpanId != ''"));
    let found = async |scope: &AccessScope, filter: &Filter, window| {
        found(&store, &binding, scope, filter, window).await
    };
    let either = scope("ServiceName.matches('w.b') || SpanId == 'a' || SpanId.startsWith('x')", None);
    for scope in [&all, &with_key, &either] {
        let filters = filters();
        let (last, contradictory) = filters.split_last().unwrap();
        for filter in contradictory {
            assert_eq!(found(scope, filter, window(-1_000_000, 1_000_000)).await, NOTHING, "{filter:?}");
        }
        assert_eq!(found(scope, last, window(-1_000_000, 1_000_000)).await, [1; 5]);
        for (from, to) in [(1, 2), (1, 999), (-999, 0)] {
            for filter in [&no_filter, last] {
                assert_eq!(
                    found(scope, filter, window(from, to)).await,
                    NOTHING,
                    "{from} to {to}, {filter:?}"
                );
            }
        }
        assert_eq!(found(scope, last, window(-1, 1)).await, [1; 5]);
    }
    // Contradictory equalities alone are found before a statement is written.
    for policy in
        ["SpanId.startsWith('A') && SpanId == '0'", "ServiceName.endsWith('x') && ServiceName == 'web'"]
    {
        for scope in [
            scope(policy, None),
            scope(policy, Some("SpanId != ''")),
            scope(&format!("{policy} || ServiceName == 'none'"), Some("ServiceName == 'web'")),
            scope("ServiceName == 'web'", Some(policy)),
        ] {
            assert!(!scope.is_empty(), "{policy}");
            let result = found(&scope, &no_filter, window(-1_000_000, 1_000_000)).await;
            assert_eq!(result, NOTHING, "{policy}");
        }
    }
}

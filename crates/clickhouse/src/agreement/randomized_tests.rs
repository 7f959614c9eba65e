//! Randomised model tests: compare selection and reading with a straightforward evaluation of their definitions, on small
//! random data sets.

mod brief_spans;
mod conditions;
mod data_sets;
mod impact;
mod orders;
mod partial_pages;
mod plans;
mod stats;
mod values;
mod windows;

use std::collections::BTreeMap;

use futures::StreamExt;
use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tracewarden_model::{
    AccessModel, Binding, Caller, ColumnType, Display, FieldRef, FieldSource, Filter, LogicalType,
    MarkedField, Timestamp, Window,
};
use tracewarden_policy::{CompiledPolicies, KeyConstraint, Outcome, RolePolicy, Span, authorise, evaluate};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::{COLUMNS, Generator};
use tracewarden_testkit::progress::Progress;
use tracewarden_testkit::repetitions::{self, Repetitions};

use self::conditions::{field_value, matches_any_group, random_filter, random_text, satisfy};
use self::data_sets::{DataSet, StoredSpan, TableShape, insert_statement, load, make_data_set};
use crate::agreement::differential::{connect, execute};
use crate::agreement::distributed::{Storage, shards};
use crate::{ClickHouse, Position, SelectRequest, TraceOrder};

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SECOND;
/// As configured by `connect`.
const MAX_TRACE_DURATION: i64 = HOUR;
const NOON: i64 = 1_790_000_000 * SECOND;
fn model(shape: TableShape) -> AccessModel {
    let mut model = Generator::model();
    let number = |field: FieldRef, column_type: &str| MarkedField {
        source: if field.map.is_some() { FieldSource::MapKey } else { FieldSource::Column },
        field,
        logical: LogicalType::Number,
        column_type: ColumnType::parse(column_type),
        filterable: true,
        policy: false,
        column: None,
    };
    model.fields.push(number(FieldRef::column("Duration"), "UInt64"));
    model.fields.push(number(FieldRef::column("Timestamp"), shape.timestamp));
    model.fields.push(number(FieldRef::key("SpanAttributes", "size"), "String"));
    let structural = ["Duration", "Timestamp"];
    model.fields.retain(|marked| {
        let name = marked.field.map.as_ref().unwrap_or(&marked.field.name);
        let is_of = |column: &str| {
            name.strip_prefix(column).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        structural.into_iter().chain(shape.columns.iter().map(|(column, _)| *column)).any(is_of)
    });
    model
}

fn binding(index: bool) -> Binding {
    Binding {
        database: "default".to_owned(),
        table: "spans".to_owned(),
        trace_id: "TraceId".to_owned(),
        span_id: "SpanId".to_owned(),
        timestamp: "Timestamp".to_owned(),
        parent_span_id: "ParentSpanId".to_owned(),
        trace_index: index.then(|| "spans_trace_id_ts".to_owned()),
        display: Display {
            name: Some("SpanName".to_owned()),
            service: Some("ServiceName".to_owned()),
            duration: Some("Duration".to_owned()),
            status: Some("StatusCode".to_owned()),
            kind: Some("Kind".to_owned()),
            ..Display::default()
        },
        ..Binding::default()
    }
}

/// Results of a caller's policies for each span of a data set.
struct Verdicts {
    /// Whether any policy is satisfied.
    granted: Vec<bool>,
    /// Whether the API key's constraint is satisfied; `None` without one.
    within: Option<Vec<bool>>,
}

impl Verdicts {
    fn evaluate(policies: &[String], key_constraint: Option<&str>, caller: &Caller, spans: &[Span]) -> Self {
        let satisfied = |expression: &str| -> Vec<bool> {
            let outcomes = evaluate(expression, &Generator::model(), caller, spans).unwrap();
            outcomes.into_iter().map(|outcome| outcome == Outcome::True).collect()
        };
        let mut granted = vec![false; spans.len()];
        for expression in policies {
            for (granted, satisfied) in granted.iter_mut().zip(satisfied(expression)) {
                *granted |= satisfied;
            }
        }
        Self { granted, within: key_constraint.map(satisfied) }
    }

    /// Whether a trace with these spans is accessible.
    fn is_accessible(&self, spans: &[usize]) -> bool {
        spans.iter().any(|at| self.granted[*at])
            && self.within.as_ref().is_none_or(|within| spans.iter().any(|at| within[*at]))
    }
}

/// How often the API key's constraint made a difference.
#[derive(Debug, Default)]
struct KeyConstraintCounts {
    /// The policies grant access to the trace, and the constraint denies it.
    denied: usize,
    /// The trace is accessible, and no single span satisfies both.
    by_another_span: usize,
}

impl KeyConstraintCounts {
    fn count(&mut self, verdicts: &Verdicts, spans: &[usize], is_accessible: bool) {
        let Some(within) = &verdicts.within else { return };
        let granted = spans.iter().any(|at| verdicts.granted[*at]);
        let both = spans.iter().any(|at| verdicts.granted[*at] && within[*at]);
        self.denied += usize::from(granted && !is_accessible);
        self.by_another_span += usize::from(is_accessible && !both);
    }
}

/// Returns the ids of all traces that the definitions select, in order.
fn expected(data_set: &DataSet, verdicts: &Verdicts, filter: &Filter, window: Window) -> Vec<String> {
    let mut traces: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    for (at, span) in data_set.spans.iter().enumerate() {
        traces.entry(&span.trace).or_default().push(at);
    }
    let (from, to) = (window.from().as_nanos(), window.to().as_nanos());
    let mut selected = Vec::new();
    for (trace, spans) in traces {
        let Ok(id) = std::str::from_utf8(trace) else { continue };
        if id.bytes().all(|byte| byte == b'0') {
            continue;
        }
        let (low, high) = impact::bounds(data_set, trace, window);
        let seen: Vec<usize> =
            spans.into_iter().filter(|at| (low..high).contains(&data_set.spans[*at].at)).collect();
        let inside = |at: &&usize| (from..to).contains(&data_set.spans[**at].at);
        let newest = |chosen: &dyn Fn(usize) -> bool| {
            seen.iter().filter(inside).filter(|at| chosen(**at)).map(|at| data_set.spans[*at].at).max()
        };
        let any_match = |at: usize| is_match(data_set, verdicts, filter, at);
        let authorised = verdicts.is_accessible(&seen);
        let spans: Vec<&StoredSpan> = seen.iter().map(|at| &data_set.spans[*at]).collect();
        let Some(latest) = newest(&|_| true) else { continue };
        if authorised && satisfy(&spans, filter) {
            let key = match newest(&any_match) {
                Some(at) => (1, at),
                None => (0, latest),
            };
            selected.push((std::cmp::Reverse(key), id.to_owned()));
        }
    }
    selected.sort();
    selected.into_iter().map(|(_, id)| id).collect()
}

/// Whether the span's time determines the position of its trace in the order `newest`.
fn is_match(data_set: &DataSet, verdicts: &Verdicts, filter: &Filter, span: usize) -> bool {
    if filter.required_groups().count() == 0 {
        verdicts.granted[span]
    } else {
        matches_any_group(&data_set.spans[span], filter)
    }
}

struct Query<'a> {
    binding: &'a Binding,
    scope: &'a tracewarden_policy::AccessScope,
    filter: &'a Filter,
    window: Window,
}

impl<'a> Query<'a> {
    /// A request for a page in the order `newest`.
    fn request(&self, limit: u32, after: Option<Position>) -> SelectRequest<'a> {
        let Self { binding, scope, filter, window } = *self;
        let order = TraceOrder::Newest;
        SelectRequest { binding, scope, filter, window, order, limit, after, progress: None }
    }
}

/// Reads all pages of a query.
async fn pages(store: &ClickHouse, data_set: &DataSet, query: &Query<'_>, limit: u32) -> Vec<String> {
    let mut ids = Vec::new();
    let mut after = None;
    loop {
        let Query { binding, filter, .. } = *query;
        let request = query.request(limit, after);
        let page = store.select(request).await.unwrap();
        assert!(page.len() <= limit as usize);
        let mut stream = store.read(binding, &page, None).await.unwrap();
        let (mut read, mut lines): (Vec<(String, i64, String)>, Vec<String>) = (Vec::new(), Vec::new());
        while let Some(chunk) = stream.next().await {
            for line in chunk.unwrap().lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let span: serde_json::Value = serde_json::from_slice(line).unwrap();
                assert!(span["derived"] == "d" && span["select"] == 1, "{span}");
                assert!(span.get("aliased").is_none(), "{span}");
                let at = Timestamp::parse(span["Timestamp"].as_str().unwrap()).unwrap().as_nanos();
                read.push((
                    span["TraceId"].as_str().unwrap().to_owned(),
                    at,
                    span["SpanId"].as_str().unwrap().to_owned(),
                ));
                lines.push(std::str::from_utf8(line).unwrap().to_owned());
            }
        }
        let whole: Vec<(String, i64, String)> = page
            .trace_ids()
            .flat_map(|id| {
                let mut spans: Vec<_> = data_set
                    .spans
                    .iter()
                    .filter(|span| span.trace == id.as_bytes())
                    .map(|span| (id.to_owned(), span.at, span.id.clone()))
                    .collect();
                spans.sort();
                spans
            })
            .collect();
        assert_eq!(read, whole, "a page is not whole");
        brief_spans::check_first_trace(store, data_set, binding, &page, &lines).await;
        let summaries = store.summarise(binding, &page, filter).await.unwrap();
        assert_eq!(summaries.len(), page.len());
        for (summary, id) in summaries.iter().zip(page.trace_ids()) {
            let spans: Vec<_> = data_set.spans.iter().filter(|span| span.trace == id.as_bytes()).collect();
            assert_eq!((summary.trace_id.as_str(), summary.span_count), (id, spans.len() as u64));
            let errors = spans.iter().filter(|span| span.failed()).count();
            assert_eq!(summary.error_count, Some(errors as u64));
            let start = spans.iter().map(|span| span.at).min().unwrap();
            let end = spans.iter().map(|span| i128::from(span.at) + i128::from(span.nanos())).max().unwrap();
            assert_eq!(summary.duration_invalid, spans.iter().any(|span| span.is_invalid()));
            assert_eq!(summary.start.as_nanos(), start);
            assert_eq!(
                summary.duration_nanos,
                Some(i64::try_from(end - i128::from(start)).unwrap_or(i64::MAX))
            );
            let mut matched: Vec<_> = spans
                .iter()
                .filter(|span| matches_any_group(span, filter))
                .map(|span| (span.at, span.id.clone()))
                .collect();
            matched.sort();
            let matched: Vec<String> = matched.into_iter().map(|(_, id)| id).collect();
            assert_eq!(summary.matched_span_ids, matched);
        }
        ids.extend(page.trace_ids().map(str::to_owned));
        after = page.next().cloned();
        if after.is_none() {
            return ids;
        }
    }
}

#[tokio::test]
async fn selection_follows_its_definitions() {
    let local = LocalStore::start().unwrap();
    check_selection(&local, Storage::OneTable, Repetitions { test: 1, verify: 3 }).await;
}

#[tokio::test]
async fn selection_follows_its_definitions_across_shards() {
    check_selection(&shards(), Storage::Shards, Repetitions::always(1)).await;
}

/// Selects, reads, summarises and finds traces in this number of data sets, unless the environment sets another one.
async fn check_selection(local: &LocalStore, storage: Storage, data_sets: Repetitions) {
    let (seed, data_sets) = (repetitions::seed(20_261_121), data_sets.get("TRACEWARDEN_TEST_DATA_SETS"));
    println!("seed {seed}, {data_sets} data sets");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut generator = Generator::new(seed);
    let store = connect(local);
    let (mut selected, mut with_exclusions) = (0, 0);
    let mut seen = KeyConstraintCounts::default();
    let mut plan_coverage = plans::PlanCoverage::default();
    let mut stats_coverage = stats::StatsCoverage::new(seed);
    let mut impact_coverage = impact::ImpactCoverage::new(seed);
    let mut values_coverage = values::ValuesCoverage::new(seed);
    // One data set cannot contain everything: `verify` adds others until they do.
    let requires_coverage = data_sets > 1 || repetitions::is_verify();
    let progress = Progress::of(data_sets, "data sets");
    for data_set_number in 0..data_sets * 8 {
        progress.at(data_set_number);
        // A few data sets may be too empty to prove anything; with some more, enough is seen.
        let sufficient = selected > data_sets * 5
            && with_exclusions > data_sets / 2
            && seen.denied > data_sets
            && seen.by_another_span > data_sets / 4
            && plan_coverage.least() > data_sets / 2
            && stats_coverage.is_sufficient(data_sets)
            && values_coverage.is_sufficient(data_sets)
            && impact_coverage.is_sufficient(data_sets);
        if data_set_number >= data_sets && (sufficient || !requires_coverage) {
            break;
        }
        let data_set = make_data_set(&mut random, &mut generator, COLUMNS);
        load(local, storage, &data_set).await;
        let binding = binding(data_set.index.is_some());
        let model = model(data_set.shape);
        stats::check_all_traces(&store, &data_set, &binding, &model, &mut stats_coverage).await;
        impact::check_changes(&store, &data_set, &binding, &model, &mut impact_coverage).await;
        for _ in 0..8 {
            let caller: Caller = generator.caller();
            let expressions: Vec<String> =
                (0..random.random_range(0..4)).map(|_| generator.expression()).collect();
            let policies =
                expressions.iter().map(|expression| RolePolicy { role: "r", title: "t", expression });
            // Two expressions, since most traces satisfy few conditions.
            let constraint_text = random
                .random_bool(0.4)
                .then(|| format!("({}) || ({})", generator.expression(), generator.expression()));
            let key_constraint = constraint_text
                .as_deref()
                .map(|expression| KeyConstraint { expression, knows_policy_fields: true });
            let scope =
                authorise(policies, key_constraint, &caller, &model, &CompiledPolicies::new()).unwrap();
            let spans: Vec<Span> = data_set.spans.iter().map(|span| span.values.clone()).collect();
            let verdicts = Verdicts::evaluate(&expressions, constraint_text.as_deref(), &caller, &spans);
            let filter = random_filter(&mut random, &model);
            let from = NOON + random.random_range(-4..4) * HOUR / 2 + random.random_range(-1..=1);
            // Short windows rarely contain a trace that is selected, and the plans are compared by what they find.
            let length = *[1, SECOND, HOUR, 24 * HOUR, 24 * HOUR, 24 * HOUR].choose(&mut random).unwrap();
            let window =
                Window::new(Timestamp::from_nanos(from), Timestamp::from_nanos(from + length)).unwrap();
            let expected = expected(&data_set, &verdicts, &filter, window);
            let query = Query { binding: &binding, scope: &scope, filter: &filter, window };
            for limit in [3, 200] {
                let found = pages(&store, &data_set, &query, limit).await;
                assert_eq!(
                    found, expected,
                    "world {data_set_number}, {:?}, {window:?}, {filter:?}, {expressions:?} within {constraint_text:?}",
                    data_set.shape
                );
            }
            partial_pages::check_partial_pages(&store, &query, &expected).await;
            orders::check_orders(&store, &data_set, &query, &expected).await;
            plans::check_plans(&store, &query, &expected, &mut random, &mut plan_coverage).await;
            stats::check_query(
                &store,
                &data_set,
                &query,
                (&expected, &verdicts),
                &model,
                &mut stats_coverage,
            )
            .await;
            values::check_fields(&store, &data_set, &query, &expected, &model, &mut values_coverage).await;
            selected += expected.len();
            if !filter.none.is_empty() {
                with_exclusions += expected.len();
            }
            let mut traces: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
            for (at, span) in data_set.spans.iter().enumerate() {
                traces.entry(&span.trace).or_default().push(at);
            }
            // The traces that the policies grant access to, where the constraint still decides, and a few others.
            let (granted, denied): (Vec<_>, Vec<_>) =
                traces.into_iter().partition(|(_, spans)| spans.iter().any(|at| verdicts.granted[*at]));
            for (id, spans) in granted.into_iter().chain(denied.into_iter().take(4)) {
                let Ok(id) = std::str::from_utf8(id) else { continue };
                let is_accessible = !id.bytes().all(|byte| byte == b'0') && verdicts.is_accessible(&spans);
                let found = store.find(&binding, &scope, id).await.unwrap();
                assert_eq!(
                    found.is_some(),
                    is_accessible,
                    "{id:?} {expressions:?} within {constraint_text:?}"
                );
                seen.count(&verdicts, &spans, is_accessible);
            }
        }
    }
    println!(
        "{selected} traces selected, {with_exclusions} of them by filters with exclusions, {seen:?}, {plan_coverage:?}, {stats_coverage:?}, {values_coverage:?}"
    );
    if !requires_coverage {
        return;
    }
    impact_coverage.assert_sufficient(data_sets);
    assert!(stats_coverage.is_sufficient(data_sets), "hardly any groups: {stats_coverage:?}");
    assert!(values_coverage.is_sufficient(data_sets), "hardly any values: {values_coverage:?}");
    assert!(plan_coverage.least() > data_sets / 2, "a plan found hardly any trace: {plan_coverage:?}");
    assert!(
        selected > data_sets * 5 && with_exclusions > data_sets / 2,
        "the data sets are too sparse to test anything"
    );
    assert!(
        seen.denied > data_sets && seen.by_another_span > data_sets / 4,
        "key constraints were hardly tested: {seen:?}"
    );
}

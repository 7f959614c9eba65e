//! Randomised model tests: compare selection and reading with a straightforward evaluation of their definitions, on small
//! random data sets.

mod brief_spans;
mod conditions;
mod impact;
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
use tracewarden_policy::{
    CompiledPolicies, FieldValue, KeyConstraint, Outcome, RolePolicy, Span, authorise, evaluate,
};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::{COLUMNS, Generator, literals};
use tracewarden_testkit::progress::Progress;

use self::conditions::{field_value, matches, random_condition, random_text};
use crate::agreement::differential::{connect, execute, hex_literal};
use crate::agreement::distributed::{Storage, shards};
use crate::{ClickHouse, SelectRequest};

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SECOND;
/// As configured by `connect`.
const MAX_TRACE_DURATION: i64 = HOUR;
const NOON: i64 = 1_790_000_000 * SECOND;
const NUMBERS: [&str; 9] =
    ["1", "2.5", "-3", "x", "", "1e3", "10", "9007199254740993", "18446744073709551615"];

#[derive(Clone)]
struct StoredSpan {
    trace: Vec<u8>,
    id: String,
    parent: &'static str,
    at: i64,
    status: &'static str,
    duration: u64,
    values: Span,
}

impl StoredSpan {
    fn failed(&self) -> bool {
        ["Error", "STATUS_CODE_ERROR", "ERROR"].contains(&self.status)
    }

    /// Returns the duration; one that wrapped around below zero counts as 0.
    fn nanos(&self) -> i64 {
        i64::try_from(self.duration).unwrap_or(0)
    }

    fn is_invalid(&self) -> bool {
        i64::try_from(self.duration).is_err()
    }
}

/// Columns and types of a table.
#[derive(Debug, Clone, Copy)]
struct TableShape {
    /// The columns that are not structural.
    columns: literals::Columns<'static>,
    timestamp: &'static str,
    nanos_per_tick: i64,
    /// The first and the last tick of the type.
    tick_range: [i64; 2],
    trace_id: &'static str,
}

/// Types with nanoseconds of a tick, and the first and the last tick: spans of broken clocks are there.
const TIMESTAMPS: [(&str, i64, [i64; 2]); 7] = [
    ("DateTime64(9)", 1, [-2_208_988_800 * SECOND, i64::MAX]),
    ("DateTime64(8)", 10, [-220_898_880_000_000_000, 1_041_379_199_999_999_999]),
    ("DateTime64(7)", 100, [-22_089_888_000_000_000, 104_137_919_999_999_999]),
    ("DateTime64(6)", 1_000, [-2_208_988_800_000_000, 10_413_791_999_999_999]),
    ("DateTime64(3)", 1_000_000, [-2_208_988_800_000, 10_413_791_999_999]),
    ("DateTime64(0)", SECOND, [-2_208_988_800, 10_413_791_999]),
    ("DateTime('UTC')", SECOND, [0, u32::MAX as i64]),
];
/// The first is that of root spans, as some exporters write it.
const PARENTS: [&str; 3] = ["0000000000000000", "", "0000000000000001"];
const STATUSES: [&str; 6] = ["Error", "Ok", "STATUS_CODE_ERROR", "", "ERROR", "error"];
const TRACE_IDS: [&str; 3] = ["String", "LowCardinality(String)", "Nullable(String)"];

/// Those of the exporter's table, and some that operators add.
const INDEXES: [(&str, &str); 9] = [
    ("TraceId", "bloom_filter(0.001)"),
    ("mapKeys(SpanAttributes)", "bloom_filter(0.01)"),
    ("mapValues(SpanAttributes)", "bloom_filter(0.01)"),
    ("mapKeys(ResourceAttributes)", "bloom_filter(0.01)"),
    ("mapValues(ResourceAttributes)", "bloom_filter(0.01)"),
    ("Tags", "bloom_filter(0.01)"),
    ("ServiceName", "set(0)"),
    ("Duration", "minmax"),
    ("Timestamp", "minmax"),
];

struct DataSet {
    shape: TableShape,
    spans: Vec<StoredSpan>,
    index: Option<Index>,
}

/// A trace index.
#[derive(Debug, Clone)]
struct Index {
    /// Bounds in whole seconds, for the traces in the index.
    seconds: BTreeMap<Vec<u8>, (i64, i64)>,
    /// Offset in nanoseconds of the bounds, for an index that is finer than the exporter's, whose bounds are `DateTime`.
    offset_nanos: Option<i64>,
}

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
        },
    }
}

fn make_data_set(
    random: &mut ChaCha8Rng,
    generator: &mut Generator,
    columns: literals::Columns<'static>,
) -> DataSet {
    let (timestamp, nanos_per_tick, tick_range) =
        if random.random_bool(0.4) { TIMESTAMPS[0] } else { *TIMESTAMPS.choose(random).unwrap() };
    let trace_id = if random.random_bool(0.6) { "String" } else { *TRACE_IDS.choose(random).unwrap() };
    let shape = TableShape { columns, timestamp, nanos_per_tick, tick_range, trace_id };
    let mut spans = Vec::new();
    for trace in 0..random.random_range(1..40) {
        let id: Vec<u8> = match random.random_range(0..40) {
            0 => Vec::new(),
            1 => b"00000000000000000000000000000000".to_vec(),
            2 => format!("not utf-8 {trace} ").into_bytes().into_iter().chain([0xff]).collect(),
            3 => format!("it's \"{trace}\" \\ \n").into_bytes(),
            _ => format!("{:032x}", trace * 7919 + 1).into_bytes(),
        };
        // Whole seconds and few of them, so that boundaries and equal times are common.
        let start = NOON + random.random_range(-4..=4) * HOUR / 2;
        for number in 0..random.random_range(1..5) {
            let apart = *[0, 1, SECOND, 600 * SECOND, HOUR, 3 * HOUR].choose(random).unwrap();
            let mut values = generator.span();
            if let Some(FieldValue::Map(entries)) = values.get_mut("SpanAttributes")
                && random.random_bool(0.6)
            {
                let size = NUMBERS.choose(random).unwrap();
                entries.push((b"size".to_vec(), FieldValue::text(*size)));
            }
            let span = StoredSpan {
                trace: id.clone(),
                id: format!("{number:016x}"),
                parent: PARENTS[(trace + number) as usize % PARENTS.len()],
                status: STATUSES[(trace * 7 + number) as usize % STATUSES.len()],
                // Some clocks are behind those of the trace's other spans.
                at: (start + apart * random.random_range(-1..3)).div_euclid(nanos_per_tick) * nanos_per_tick,
                duration: *[0, 1, 5, 1_000, i64::MAX as u64, u64::MAX - 191_304].choose(random).unwrap(),
                values,
            };
            // Exporters repeat a batch when its acknowledgement is lost.
            if random.random_bool(0.1) {
                spans.push(span.clone());
            }
            spans.push(span);
        }
    }
    let index = random.random_bool(0.5).then(|| {
        let mut bounds: BTreeMap<Vec<u8>, (i64, i64)> = BTreeMap::new();
        for span in &spans {
            let second = span.at.div_euclid(SECOND);
            let entry = bounds.entry(span.trace.clone()).or_insert((second, second));
            *entry = (entry.0.min(second), entry.1.max(second));
        }
        // The index lacks rows from before its creation: it lacks some traces, and the beginning of others.
        bounds.retain(|_, _| random.random_bool(0.8));
        for (start, end) in bounds.values_mut() {
            if random.random_bool(0.15) {
                *start = random.random_range(*start..=*end);
            }
            // The last rows of a trace, when a batch was lost on the way to the index.
            if random.random_bool(0.15) {
                *end = random.random_range(*start..=*end);
            }
        }
        let offset_nanos =
            random.random_bool(0.3).then(|| *[0, 1, SECOND / 3, SECOND - 1].choose(random).unwrap());
        Index { seconds: bounds, offset_nanos }
    });
    DataSet { shape, spans, index }
}

/// Returns the statement that inserts spans.
fn insert_statement(insert_table: &str, shape: TableShape, spans: &[StoredSpan]) -> String {
    let names: Vec<String> = shape.columns.iter().map(|(name, _)| format!("`{name}`")).collect();
    let row = |span: &StoredSpan| {
        // In `VALUES`, integers are ticks.
        let (at, trace) = (span.at / shape.nanos_per_tick, hex_literal(&span.trace));
        let StoredSpan { id, parent, status, duration, values, .. } = span;
        format!(
            "({at}, {trace}, '{id}', '{parent}', '{status}', {duration}, {})",
            literals::row(shape.columns, values)
        )
    };
    let (names, rows) = (names.join(", "), spans.iter().map(row).collect::<Vec<_>>().join(", "));
    format!(
        "INSERT INTO {insert_table} (Timestamp, TraceId, SpanId, ParentSpanId, StatusCode, Duration, {names}) VALUES {rows}"
    )
}

/// Creates the tables of a data set, and returns the one to insert spans into.
async fn load(local: &LocalStore, storage: Storage, data_set: &DataSet) -> String {
    let definitions = format!(
        "Timestamp {}, TraceId {}, SpanId String, ParentSpanId String, StatusCode LowCardinality(String), \
         Duration UInt64, {}, `select` UInt8 DEFAULT 1, derived String MATERIALIZED 'd', aliased String ALIAS 'a'",
        data_set.shape.timestamp,
        data_set.shape.trace_id,
        literals::definitions(data_set.shape.columns)
    );
    // Small granules, so that indexes can exclude some of few spans.
    let order = "(ServiceName, Timestamp) SETTINGS index_granularity = 4";
    let insert_table =
        storage.create(local, "spans", &definitions, order, "(SpanId, ifNull(TraceId, ''))").await;
    // For half of the data sets, without drawing another random number.
    if data_set.spans.len().is_multiple_of(2) {
        let indexes: Vec<String> = INDEXES
            .iter()
            .enumerate()
            .map(|(number, (expression, kind))| {
                format!("ADD INDEX idx_{number} {expression} TYPE {kind} GRANULARITY 1")
            })
            .collect();
        execute(local, format!("ALTER TABLE {insert_table} {}", indexes.join(", "))).await;
    }
    execute(local, insert_statement(&insert_table, data_set.shape, &data_set.spans)).await;
    // Outside all requested windows.
    let [first, last] = data_set.shape.tick_range;
    let far = format!(
        "INSERT INTO {insert_table} (Timestamp, TraceId, SpanId) VALUES ({first}, 'far', '1'), ({last}, 'far', '2')"
    );
    execute(local, far).await;
    if let Some(index) = &data_set.index {
        let kind = if index.offset_nanos.is_some() { "DateTime64(9)" } else { "DateTime" };
        let definitions = format!("TraceId String, Start {kind}, End {kind}");
        let insert_table =
            storage.create(local, "spans_trace_id_ts", &definitions, "TraceId", "(Start, TraceId)").await;
        // In `VALUES`, integers are ticks.
        let time = |second: i64| index.offset_nanos.map_or(second, |nanos| second * SECOND + nanos);
        let rows: Vec<String> = index
            .seconds
            .iter()
            .flat_map(|(trace, (start, end))| {
                // Several rows for each trace, like the exporter's batches.
                let (trace, start, end) = (hex_literal(trace), time(*start), time(*end));
                [format!("({trace}, {start}, {start})"), format!("({trace}, {end}, {end})")]
            })
            .collect();
        if !rows.is_empty() {
            execute(
                local,
                format!("INSERT INTO {insert_table} (TraceId, Start, End) VALUES {}", rows.join(", ")),
            )
            .await;
        }
    }
    insert_table
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
        let any_match = |at: usize| {
            if filter.conditions.is_empty() {
                verdicts.granted[at]
            } else {
                filter.conditions.iter().any(|condition| matches(&data_set.spans[at], condition))
            }
        };
        let authorised = verdicts.is_accessible(&seen);
        let all_match = filter
            .conditions
            .iter()
            .all(|condition| seen.iter().any(|at| matches(&data_set.spans[*at], condition)));
        let Some(latest) = newest(&|_| true) else { continue };
        if authorised && all_match {
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

struct Query<'a> {
    binding: &'a Binding,
    scope: &'a tracewarden_policy::AccessScope,
    filter: &'a Filter,
    window: Window,
}

/// Reads all pages of a query.
async fn pages(store: &ClickHouse, data_set: &DataSet, query: &Query<'_>, limit: u32) -> Vec<String> {
    let mut ids = Vec::new();
    let mut after = None;
    loop {
        let Query { binding, scope, filter, window } = *query;
        let request = SelectRequest { binding, scope, filter, window, limit, after, progress: None };
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
                .filter(|span| filter.conditions.iter().any(|condition| matches(span, condition)))
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
    check_selection(&local, Storage::OneTable, 5).await;
}

#[tokio::test]
async fn selection_follows_its_definitions_across_shards() {
    check_selection(&shards(), Storage::Shards, 2).await;
}

/// Selects, reads, summarises and finds traces in this number of data sets, unless the environment sets another one.
async fn check_selection(local: &LocalStore, storage: Storage, data_sets: usize) {
    let seed =
        std::env::var("TRACEWARDEN_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_121);
    let data_sets =
        std::env::var("TRACEWARDEN_TEST_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(data_sets);
    println!("seed {seed}, {data_sets} worlds");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut generator = Generator::new(seed);
    let store = connect(local);
    let mut selected = 0;
    let mut seen = KeyConstraintCounts::default();
    let mut plan_coverage = plans::PlanCoverage::default();
    let mut stats_coverage = stats::StatsCoverage::new(seed);
    let mut impact_coverage = impact::ImpactCoverage::new(seed);
    let mut values_coverage = values::ValuesCoverage::new(seed);
    let progress = Progress::of(data_sets, "worlds");
    for data_set_number in 0..data_sets * 8 {
        progress.at(data_set_number);
        // A few data sets may be too empty to prove anything; with some more, enough is seen.
        let sufficient = selected > data_sets * 5
            && seen.denied > data_sets
            && seen.by_another_span > data_sets / 4
            && plan_coverage.least() > data_sets / 2
            && stats_coverage.is_sufficient(data_sets)
            && values_coverage.is_sufficient(data_sets)
            && impact_coverage.is_sufficient(data_sets);
        if data_set_number >= data_sets && sufficient {
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
            let conditions =
                (0..random.random_range(0..3)).map(|_| random_condition(&mut random, &model)).collect();
            let filter = Filter { conditions };
            let from = NOON + random.random_range(-4..4) * HOUR / 2 + random.random_range(-1..=1);
            let length = *[1, SECOND, HOUR, 24 * HOUR].choose(&mut random).unwrap();
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
            plans::check_plans(&store, &query, &expected, &mut random, &mut plan_coverage).await;
            stats::check_query(&store, &data_set, &query, &expected, &model, &mut stats_coverage).await;
            values::check_fields(&store, &data_set, &query, &expected, &model, &mut values_coverage).await;
            selected += expected.len();
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
        "{selected} traces selected, {seen:?}, {plan_coverage:?}, {stats_coverage:?}, {values_coverage:?}"
    );
    impact_coverage.assert_sufficient(data_sets);
    assert!(stats_coverage.is_sufficient(data_sets), "hardly any groups: {stats_coverage:?}");
    assert!(values_coverage.is_sufficient(data_sets), "hardly any values: {values_coverage:?}");
    assert!(plan_coverage.least() > data_sets / 2, "a plan found hardly any trace: {plan_coverage:?}");
    assert!(selected > data_sets * 5, "the data sets are too sparse to test anything");
    assert!(
        seen.denied > data_sets && seen.by_another_span > data_sets / 4,
        "key constraints were hardly tested: {seen:?}"
    );
}

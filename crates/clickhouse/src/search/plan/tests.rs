//! Compares every plan with the grouped pass, over a table of a typical shape with typical sizes, and over tables on which a
//! plan once fell back to another one at the wrong place.

mod choice;
mod orders;
mod partial_results;
mod searches;

use tracewarden_model::{
    AccessModel, Binding, Caller, ColumnType, Condition, Display, FieldRef, FieldSource, Filter, LogicalType,
    MarkedField, Test, Timestamp, Window,
};
use tracewarden_policy::{AccessScope, CompiledPolicies, RolePolicy, authorise};
use tracewarden_testkit::local_store::LocalStore;

use super::long_traces::long_traces;
use super::search::MAX_STATEMENTS;
use super::*;
use crate::agreement::{connect, execute};
use crate::schema::{BoundTable, WindowShare};
use crate::search::selection::Position;
use crate::{ClickHouse, SelectRequest, TraceOrder};

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SECOND;
/// Start of the data: 2027-01-15 00:00 UTC.
const BEGIN: i64 = 1_800_057_600 * SECOND;
const COLUMNS: [&str; 5] = ["Service", "User", "Tenant", "Status", "Team"];

fn field(name: &str) -> MarkedField {
    MarkedField {
        field: FieldRef::column(name),
        source: FieldSource::Column,
        logical: LogicalType::String,
        column_type: ColumnType::STRING,
        filterable: true,
        policy: true,
        column: None,
    }
}

fn binding(index: bool) -> Binding {
    Binding {
        database: "default".to_owned(),
        table: "spans".to_owned(),
        trace_id: "TraceId".to_owned(),
        span_id: "SpanId".to_owned(),
        timestamp: "At".to_owned(),
        parent_span_id: "ParentSpanId".to_owned(),
        trace_index: index.then(|| "ends".to_owned()),
        display: Display::default(),
        ..Binding::default()
    }
}

fn scope(policies: &[&str]) -> AccessScope {
    let model = AccessModel { version: 1, binding: None, fields: COLUMNS.map(field).to_vec() };
    let policies = policies.iter().map(|expression| RolePolicy { role: "r", title: "t", expression });
    authorise(policies, None, &Caller::default(), &model, &CompiledPolicies::new()).unwrap()
}

fn filter(conditions: &[(&str, &str)]) -> Filter {
    let condition = |(name, value): &(&str, &str)| Condition {
        field: field(name),
        test: Test::StringEq((*value).to_owned()),
    };
    Filter::of(conditions.iter().map(condition).collect())
}

fn window(from: i64, to: i64) -> Window {
    Window::new(Timestamp::from_nanos(from), Timestamp::from_nanos(to)).unwrap()
}

/// Creates a table sorted like the exporter's, with an index on one of the columns, and the exporter's trace index.
async fn create(local: &LocalStore) {
    create_with(local, "DateTime64(9)", "DateTime").await;
}

/// Like [`create`], with other types of the timestamp and of the bounds of the trace index.
async fn create_with(local: &LocalStore, timestamp: &str, bound: &str) {
    for table in tables(timestamp, bound) {
        execute(local, table).await;
    }
}

/// The statements that create both tables.
fn tables(timestamp: &str, bound: &str) -> [String; 2] {
    [
        format!(
            "CREATE TABLE default.spans (At {timestamp}, TraceId String, SpanId String, ParentSpanId String, \
             Service LowCardinality(String), User String, Tenant String, Status LowCardinality(String), Team String, \
             INDEX users User TYPE bloom_filter(0.01) GRANULARITY 1, \
             INDEX traces TraceId TYPE bloom_filter(0.01) GRANULARITY 1) \
             ENGINE = MergeTree PARTITION BY toDate(At) ORDER BY (Service, toDateTime(At)) SETTINGS index_granularity = 64"
        ),
        format!(
            "CREATE TABLE default.ends (TraceId String, Start {bound}, End {bound}) ENGINE = MergeTree \
             PARTITION BY toDate(Start) ORDER BY (TraceId, Start)"
        ),
    ]
}

/// One search, with the plan of its pages and their maximum number.
#[derive(Clone, Copy)]
struct SearchCase<'a> {
    store: &'a ClickHouse,
    binding: &'a Binding,
    scope: &'a AccessScope,
    filter: &'a Filter,
    window: Window,
    limit: u32,
    pages: usize,
}

impl<'a> SearchCase<'a> {
    /// The first page of twenty traces.
    fn new(
        store: &'a ClickHouse,
        binding: &'a Binding,
        scope: &'a AccessScope,
        filter: &'a Filter,
        window: Window,
    ) -> Self {
        Self { store, binding, scope, filter, window, limit: 20, pages: 1 }
    }

    async fn table(&self) -> BoundTable {
        let tables = self.store.bound_tables(self.binding).await.unwrap();
        BoundTable::new(self.binding, tables.columns.to_vec()).unwrap()
    }

    async fn search<'t>(
        &'t self,
        table: &'t BoundTable,
        after: Option<Position>,
        options: PlannerOptions,
    ) -> Search<'t> {
        let Self { store, binding, scope, filter, window, limit, .. } = *self;
        let request = SelectRequest {
            binding,
            scope,
            filter,
            window,
            order: TraceOrder::Newest,
            limit,
            after,
            progress: None,
        };
        let index = store.bound_tables(binding).await.unwrap().index;
        store.prepare(&request, table, index, options).unwrap()
    }

    /// Returns traces with their positions, and the maximum number of statements of a page.
    async fn pages(&self, choice: &Option<Plan>, options: PlannerOptions) -> (Vec<Position>, usize) {
        let (mut positions, mut most, mut after) = (Vec::new(), 0, None);
        let (table, limit) = (self.table().await, self.limit as usize);
        for _ in 0..self.pages {
            let search = self.search(&table, after, options).await;
            let found = search.run(choice.as_ref()).await.unwrap();
            most = most.max(search.statements_sent.into_inner());
            let more = found.len() > limit;
            positions.extend(found.into_iter().take(limit).map(|found| found.position));
            after = positions.last().cloned();
            if !more {
                break;
            }
        }
        (positions, most)
    }

    async fn assert_same_results(&self, choices: &[Option<Plan>], options: PlannerOptions) -> usize {
        let one_page = Self { limit: self.limit * self.pages as u32, pages: 1, ..*self };
        let (expected, _) = one_page.pages(&Some(Plan::GroupByTrace), options).await;
        for choice in choices {
            let (found, most) = self.pages(choice, options).await;
            let details =
                format!("{choice:?}, {:?}, {:?}, pages of {}", self.window, self.filter, self.limit);
            assert_eq!(found, expected, "{details}");
            assert!(most <= 7, "{most} statements: {details}");
        }
        expected.len()
    }
}

fn steps(first: i64, use_trace_index: bool, window_share: WindowShare) -> Option<Plan> {
    Some(Plan::Steps(StepOptions {
        first,
        statement: 0,
        use_trace_index,
        window_share,
        expects_few_matches: false,
        selects_traces: true,
    }))
}

/// Inserts spans: seconds after the beginning, the trace, the value of the status key, and the team.
async fn insert(local: &LocalStore, spans: &[(i64, String, &str, &str)]) {
    insert_without_entries(local, spans).await;
    let entries =
        "INSERT INTO default.ends SELECT TraceId, min(At), max(At) FROM default.spans GROUP BY TraceId";
    execute(local, entries.to_owned()).await;
}

/// Like [`insert`], without entries in the trace index.
async fn insert_without_entries(local: &LocalStore, spans: &[(i64, String, &str, &str)]) {
    let rows: Vec<String> = spans
        .iter()
        .map(|(at, trace, status, team)| {
            format!("({}, '{trace}', '{at}', '', 's', 'u', 't', '{status}', '{team}')", BEGIN + at * SECOND)
        })
        .collect();
    execute(local, format!("INSERT INTO default.spans VALUES {}", rows.join(", "))).await;
}

/// The newest traces do not match, except for the oldest of them, which are the newest matches.
#[tokio::test]
async fn undecided_candidates_of_a_step_are_decided_later() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let mut spans = Vec::new();
    let end = 24 * 3_600;
    for number in 1..=200 {
        let at = end - number * 6 - 60;
        spans.push((at, format!("a{number:03}"), "Error", ""));
        if number > 190 {
            spans.push((at - 1_800, format!("a{number:03}"), "", "team1"));
        }
    }
    for number in 1..=21 {
        let at = end - 1_500 - number * 400;
        spans.push((at, format!("b{number:03}"), "Error", "team1"));
    }
    insert(&local, &spans).await;
    let (filter, scope) = (filter(&[("Status", "Error")]), scope(&["Team == \"team1\""]));
    for index in [false, true] {
        let binding = binding(index);
        let search_case = SearchCase {
            limit: 20,
            pages: 3,
            ..SearchCase::new(&store, &binding, &scope, &filter, window(BEGIN, BEGIN + 24 * HOUR))
        };
        let choices = [HOUR / 4, HOUR, 24 * HOUR].map(|first| steps(first, true, WindowShare::Most));
        assert_eq!(search_case.assert_same_results(&choices, PlannerOptions::default()).await, 31);
        let choices = [HOUR / 4, HOUR].map(|first| steps(first, false, WindowShare::Part));
        assert_eq!(search_case.assert_same_results(&choices, PlannerOptions::default()).await, 31);
    }
}

/// Pages end between traces at one time, which are ordered by their ids.
#[tokio::test]
async fn a_page_continues_among_traces_at_one_time() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let spans: Vec<_> =
        (1..=40).map(|number| (3_600 - number / 10, format!("{number:03}"), "Error", "team1")).collect();
    insert(&local, &spans).await;
    let (filter, scope) = (filter(&[("Status", "Error")]), scope(&["Team == \"team1\""]));
    for index in [false, true] {
        let binding = binding(index);
        let search_case = SearchCase {
            limit: 3,
            pages: 14,
            ..SearchCase::new(&store, &binding, &scope, &filter, window(BEGIN, BEGIN + 2 * HOUR))
        };
        for use_trace_index in [false, true] {
            let choices = [SECOND, HOUR].map(|first| steps(first, use_trace_index, WindowShare::Most));
            assert_eq!(search_case.assert_same_results(&choices, PlannerOptions::default()).await, 40);
        }
    }
}

/// Each step finds all of the traces again, and none of them matches.
#[tokio::test]
async fn long_traces_that_fill_every_step_end_the_search_soon() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let mut spans = Vec::new();
    for second in (0..7_200).step_by(2) {
        spans.push((second, format!("long{:02}", second / 2 % 13), "Error", ""));
    }
    spans.push((10, "right".to_owned(), "Error", "team1"));
    insert(&local, &spans).await;
    let (filter, scope) = (filter(&[("Status", "Error")]), scope(&["Team == \"team1\""]));
    for index in [false, true] {
        let binding = binding(index);
        let search_case = SearchCase {
            limit: 2,
            pages: 2,
            ..SearchCase::new(&store, &binding, &scope, &filter, window(BEGIN - HOUR, BEGIN + 2 * HOUR))
        };
        for use_trace_index in [false, true] {
            let choices = [60 * SECOND, HOUR].map(|first| steps(first, use_trace_index, WindowShare::Part));
            let options = PlannerOptions { min_step_limit: 1, ..PlannerOptions::default() };
            assert_eq!(search_case.assert_same_results(&choices, options).await, 1);
        }
    }
}

/// Each step finds enough candidates, and exclusions leave hardly any of them.
#[tokio::test]
async fn exclusions_do_not_exceed_the_statements_of_a_page() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let spans = format!(
        "INSERT INTO default.spans SELECT fromUnixTimestamp64Nano({BEGIN} + number * {SECOND}), \
         concat('t', toString(number)), toString(number), '', 's1', 'u1', 't1', if(number % 1000 = 7, 'Ok', 'Error'), 'team1' \
         FROM numbers(6000)"
    );
    execute(&local, spans).await;
    let entries =
        "INSERT INTO default.ends SELECT TraceId, min(At), max(At) FROM default.spans GROUP BY TraceId";
    execute(&local, entries.to_owned()).await;
    let mut filter = filter(&[("Service", "s1"), ("Tenant", "t1"), ("Status", "Error")]);
    filter.none = filter.conditions.split_off(2);
    let (binding, scope) = (binding(true), scope(&["Team == \"team1\""]));
    let window = window(BEGIN - HOUR, BEGIN + 2 * HOUR);
    let search_case =
        SearchCase { limit: 20, pages: 2, ..SearchCase::new(&store, &binding, &scope, &filter, window) };
    for first in [SECOND, 60 * SECOND, HOUR] {
        let choices = [None, steps(first, true, WindowShare::Part), steps(first, false, WindowShare::Most)];
        assert_eq!(search_case.assert_same_results(&choices, PlannerOptions::default()).await, 6);
    }
}

/// Bounds of the index that are finer than the timestamp, end before they begin, or are at the end of their type: each trace
/// has a span outside of the window that grants access, or none.
#[tokio::test]
async fn odd_bounds_give_the_same_result_in_every_plan() {
    // Matching spans and spans that grant access, in seconds after the beginning; bounds in nanoseconds after it.
    type Trace = (&'static str, &'static [i64], &'static [i64], (i64, i64), bool);
    const HOURS_BACK: i64 = -3 * 3_600;
    let second = |second: i64| second * SECOND;
    let traces: [Trace; 4] = [
        ("finer", &[1_800], &[HOURS_BACK], (second(HOURS_BACK) + 1, second(1_800)), true),
        ("backwards", &[1_700], &[5_400], (second(600), second(-9 * 3_600)), true),
        ("inside", &[1_600], &[1_500], (second(1_500), second(1_600)), true),
        ("short", &[1_400], &[HOURS_BACK], (second(1_400), second(1_400)), false),
    ];
    let (filter, scope) = (filter(&[("Status", "Error")]), scope(&["Team == \"team1\""]));
    for begin in [BEGIN, -HOUR - 300 * SECOND] {
        for timestamp in ["DateTime64(3)", "DateTime64(0)", "DateTime64(9)"] {
            let local = LocalStore::start().unwrap();
            let store = connect(&local);
            create_with(&local, timestamp, "DateTime64(9)").await;
            for (trace, matching, opening, (start, end), _) in traces {
                let spans = matching
                    .iter()
                    .map(|at| (at, "Error", ""))
                    .chain(opening.iter().map(|at| (at, "", "team1")));
                for (at, status, team) in spans {
                    execute(
                        &local,
                        format!(
                            "INSERT INTO default.spans SELECT fromUnixTimestamp64Nano(toInt64({})), '{trace}', '{at}', '', 's', 'u', \
                             't', '{status}', '{team}'",
                            begin + at * SECOND
                        ),
                    )
                    .await;
                }
                execute(
                    &local,
                    format!(
                        "INSERT INTO default.ends SELECT '{trace}', fromUnixTimestamp64Nano(toInt64({})), \
                         fromUnixTimestamp64Nano(toInt64({}))",
                        begin + start,
                        begin + end
                    ),
                )
                .await;
            }
            let binding = binding(true);
            let search_case = SearchCase::new(&store, &binding, &scope, &filter, window(begin, begin + HOUR));
            // The first span counts where the bound is rounded down to its tick: before 1970 ClickHouse rounds up, toward zero.
            let exact = timestamp == "DateTime64(9)" || begin < 0;
            let expected: Vec<&str> = traces
                .iter()
                .filter(|trace| trace.4 && !(exact && trace.0 == "finer"))
                .map(|trace| trace.0)
                .collect();
            let found = search_case.pages(&Some(Plan::GroupByTrace), PlannerOptions::default()).await.0;
            let found: Vec<&str> = found.iter().map(|position| position.trace_id.as_str()).collect();
            assert_eq!(found, expected, "{timestamp} at {begin}");
            let choices = [
                None,
                steps(HOUR, true, WindowShare::Most),
                steps(600 * SECOND, true, WindowShare::Part),
                steps(600 * SECOND, false, WindowShare::Part),
                Some(Plan::FilteredPass(vec![])),
                Some(Plan::FilteredPass(vec![RequiredPredicate::Group(0)])),
                Some(Plan::FilteredPass(vec![RequiredPredicate::Policies])),
            ];
            search_case.assert_same_results(&choices, PlannerOptions::default()).await;
        }
    }
}

/// A span of a broken clock makes the bounds of its trace unusable. No search may read more than its window because of it.
#[tokio::test]
async fn a_trace_with_a_broken_clock_does_not_affect_other_windows() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let mut spans = vec![(-BEGIN / SECOND, "broken".to_owned(), "Error", "team1")];
    for number in 0..500 {
        spans.push((
            number * 60,
            format!("a{number:03}"),
            "Error",
            if number % 100 == 0 { "team1" } else { "" },
        ));
    }
    insert(&local, &spans).await;
    let (filter, scope, binding) =
        (filter(&[("Status", "Error")]), scope(&["Team == \"team1\""]), binding(true));
    let search_case = SearchCase::new(&store, &binding, &scope, &filter, window(BEGIN, BEGIN + 9 * HOUR));
    for share in [WindowShare::Most, WindowShare::Part] {
        assert_eq!(
            search_case.assert_same_results(&[steps(HOUR, true, share)], PlannerOptions::default()).await,
            5
        );
        let table = search_case.table().await;
        let search = search_case.search(&table, None, PlannerOptions::default()).await;
        let long = long_traces(&search, share).await.unwrap().unwrap();
        assert_eq!(long.traces().count(), 0);
        assert_eq!(search.statements_left(), MAX_STATEMENTS - 1, "unusable entries are known");
        // Nothing is known: one more statement, if there is one left for it.
        for (sent, left) in [(0, MAX_STATEMENTS - 2), (4, 2)] {
            let store = connect(&local);
            let search_case =
                SearchCase::new(&store, &binding, &scope, &filter, window(BEGIN, BEGIN + 9 * HOUR));
            let search = search_case.search(&table, None, PlannerOptions::default()).await;
            search.statements_sent.store(sent, Ordering::Relaxed);
            let long = long_traces(&search, share).await.unwrap().unwrap();
            assert_eq!((long.traces().count(), search.statements_left()), (0, left));
        }
    }
}

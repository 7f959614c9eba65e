//! Every plan must give the same answer. Tiny limits make each plan take all of its branches.

use std::sync::{Arc, Mutex};

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::{HOUR, Query, SECOND};
use crate::schema::WindowShare;
use crate::search::{Plan, PlannerOptions, Position, RequiredPredicate, RequiredPredicates, StepOptions};
use crate::{ClickHouse, ProgressCallback, SelectRequest};

/// Returns limits that are so small that everything is cut, given up or skipped that can be.
fn tiny_options(random: &mut ChaCha8Rng) -> PlannerOptions {
    let few = |random: &mut ChaCha8Rng| *[1, 2, 5, 1_000].choose(random).unwrap();
    PlannerOptions {
        statement_cost: *[0, 1, 24].choose(random).unwrap(),
        max_rare_traces: few(random),
        min_step_limit: few(random),
        undecided_per_result: *[0, 1, 8].choose(random).unwrap(),
        max_ids: few(random),
    }
}

/// Reads all pages of a query with some of the plans, and sometimes with another plan for each page.
pub(super) async fn check_plans(
    store: &ClickHouse,
    query: &Query<'_>,
    expected: &[String],
    random: &mut ChaCha8Rng,
    coverage: &mut PlanCoverage,
) {
    // For some queries, nothing is known from earlier ones.
    let without_history = ClickHouse { search_history: Arc::default(), ..store.clone() };
    let store = if random.random_bool(0.3) { &without_history } else { store };
    let table = store.bound_table(query.binding).await.unwrap();
    let predicates = RequiredPredicates::new(query.scope, query.filter, &table).unwrap().all();
    let steps = [SECOND, 600 * SECOND, HOUR, 3 * HOUR, i64::MAX];
    let shares = [WindowShare::Most, WindowShare::Part];
    let steps = steps.map(|first| StepOptions {
        first,
        statement: *[0, 600 * SECOND].choose(random).unwrap(),
        use_trace_index: random.random_bool(0.5),
        window_share: *shares.choose(random).unwrap(),
        expects_few_matches: random.random_bool(0.5),
        selects_traces: random.random_bool(0.5),
    });
    let steps = steps.map(|step_options| Some(Plan::Steps(step_options)));
    let filters: Vec<RequiredPredicate> = predicates.iter().copied().filter(|_| random.random()).collect();
    let rare = |first: RequiredPredicate| {
        let others = filters.iter().copied().filter(|other| *other != first);
        Some(Plan::FilteredPass([first].into_iter().chain(others).collect()))
    };
    let one_pass = Some(Plan::FilteredPass(Vec::new()));
    let one_pass = predicates.iter().map(|&predicate| rare(predicate)).chain([one_pass]);
    let mut choices: Vec<Option<Plan>> = vec![None, Some(Plan::GroupByTrace)];
    choices.extend(one_pass);
    choices.extend(steps.choose(random).cloned());
    choices.shuffle(random);
    // Prefer the plans that have found something least often: with many predicates, most choices are filtered passes.
    choices.sort_by_key(|choice| *coverage.counter(choice));
    for choice in choices.iter().take(2) {
        let options = tiny_options(random);
        let options = match choice {
            // Whatever the number of traces.
            Some(Plan::FilteredPass(_)) if random.random_bool(0.8) => {
                PlannerOptions { max_rare_traces: 1_000, ..options }
            }
            _ => options,
        };
        let limit = *[2, 5, 200].choose(random).unwrap();
        let found = read_pages(store, query, limit, |_| (choice.clone(), options)).await;
        assert_eq!(found, expected, "{choice:?}, pages of {limit}, {options:?}");
        *coverage.counter(choice) += usize::from(!expected.is_empty());
    }
    // Steps that exclude traces by the trace index.
    if query.binding.trace_index.is_some() && predicates.len() > 1 {
        let first = *[60 * SECOND, 600 * SECOND, HOUR].choose(random).unwrap();
        let options = PlannerOptions { min_step_limit: 1_000, max_ids: 1_000, ..tiny_options(random) };
        let step_options = StepOptions {
            first,
            statement: 0,
            use_trace_index: true,
            window_share: *shares.choose(random).unwrap(),
            expects_few_matches: false,
            selects_traces: true,
        };
        // With a large page, few traces are expected, and a pass follows sooner.
        let limit = *[2, 5, 200].choose(random).unwrap();
        let found = read_pages(store, query, limit, |_| (Some(Plan::Steps(step_options)), options)).await;
        assert_eq!(found, expected, "steps of {first} ns with the trace index");
        coverage.with_trace_index += usize::from(!expected.is_empty());
    }
    if random.random_bool(0.3) {
        let found = read_pages(store, query, 3, |page| {
            let choice = choices.get(page % choices.len()).cloned().unwrap_or(None);
            (choice, PlannerOptions::default())
        });
        assert_eq!(found.await, expected, "another plan on each page");
    }
}

/// How often each plan found something. A plan may not even run where no trace matches.
#[derive(Debug, Default)]
pub(super) struct PlanCoverage {
    best: usize,
    steps: usize,
    one_pass: usize,
    grouped: usize,
    with_trace_index: usize,
}

impl PlanCoverage {
    fn counter(&mut self, choice: &Option<Plan>) -> &mut usize {
        match choice {
            None => &mut self.best,
            Some(Plan::Steps(_)) => &mut self.steps,
            Some(Plan::FilteredPass(_)) => &mut self.one_pass,
            Some(Plan::GroupByTrace) => &mut self.grouped,
        }
    }

    /// Returns the count of the plan that found something least often.
    pub(super) fn least(&self) -> usize {
        [self.best, self.steps, self.one_pass, self.grouped, self.with_trace_index]
            .into_iter()
            .min()
            .unwrap_or(0)
    }
}

async fn read_pages(
    store: &ClickHouse,
    query: &Query<'_>,
    limit: u32,
    mut choose_plan: impl FnMut(usize) -> (Option<Plan>, PlannerOptions),
) -> Vec<String> {
    let table = store.bound_table(query.binding).await.unwrap();
    let mut ids = Vec::new();
    let mut after: Option<Position> = None;
    for number in 0.. {
        let Query { binding, scope, window, .. } = *query;
        // Progress depends on spans that the caller may not see. So it reveals only the 64th of the window that was reached,
        // and never fractions of a second.
        let (from, to) = (window.from().as_nanos(), window.to().as_nanos());
        let reported = Arc::new(Mutex::new(Vec::new()));
        let reporter = Arc::clone(&reported);
        let progress: ProgressCallback =
            Arc::new(move |progress| reporter.lock().unwrap().push(progress.searched_to.as_nanos()));
        let request = SelectRequest { progress: Some(progress), ..query.request(limit, after) };
        let (choice, options) = choose_plan(number);
        if scope.is_empty() {
            break;
        }
        let index = store.read_tables(binding).await.unwrap().index;
        let search = store.prepare(&request, &table, index, options).unwrap();
        let found = search.run(choice.as_ref()).await.unwrap();
        // Ids that do not fit into one statement are sent in several.
        assert!(
            search.statements_sent.into_inner() <= 7 || options.max_ids < 1_000,
            "{choice:?} sent too many statements, {options:?}"
        );
        let part = (to - from).max(1).unsigned_abs().div_ceil(64).max(SECOND as u64) as i64;
        let reported = reported.lock().unwrap().clone();
        assert!(
            reported.iter().all(|reported| *reported == from || (to - reported) % part == 0),
            "{reported:?} of {from} to {to}"
        );
        let page: Vec<_> = found.iter().take(limit as usize).collect();
        ids.extend(page.iter().map(|found| found.position.trace_id.clone()));
        after = page.last().map(|found| found.position.clone());
        if found.len() <= limit as usize {
            break;
        }
    }
    ids
}

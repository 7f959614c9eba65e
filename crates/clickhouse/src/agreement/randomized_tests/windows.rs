//! Random windows, limits and pages, while spans are being written: every trace of a page is complete.
//!
//! The table has few columns and the policies are short. Other tests check their meaning, and ClickHouse takes longer to plan
//! a statement over many columns than to run it, which would leave time for few windows only.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use tracewarden_testkit::repetitions::{self, Repetitions};

use tracewarden_policy::check;

use super::*;

/// Columns of the table, among them those of [`INDEXES`](super::data_sets::INDEXES) and of [`binding`].
static TABLE_COLUMNS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let few = ["ServiceName", "SpanName", "Kind", "Tags", "SpanAttributes", "ResourceAttributes"];
    COLUMNS.iter().filter(|(name, _)| few.contains(name)).copied().collect()
});
/// Maximum length of a policy, in bytes.
const MAX_POLICY_LENGTH: usize = 80;
/// Number of windows in an ordinary run.
const WINDOWS: Repetitions = Repetitions::always(200);
/// Number of windows of one data set.
const WINDOWS_PER_DATA_SET: usize = 50;
/// Number of windows that one caller requests.
const WINDOWS_PER_CALLER: usize = 10;
/// Maximum number of pages of one window.
const MAX_PAGES: usize = 3;
/// Number of spans that are written to one data set, so that it stays small.
const WRITTEN_SPANS: usize = 480;

/// Number of traces that they belong to: few, so that traces that a caller may read keep growing.
const GROWING_TRACES: usize = 8;

/// Spans that are written during reads.
struct ArrivingSpans {
    /// In the order in which they are sent.
    spans: RefCell<Vec<StoredSpan>>,
    /// Number of spans that ClickHouse has acknowledged.
    acknowledged: Cell<usize>,
    /// Number of windows that were requested.
    windows: Cell<usize>,
    done: Cell<bool>,
    /// Seed of the data set. With it, and the same number of windows, the data set can be created again.
    seed: u64,
}

/// Counts of what was seen, so that a run that proves nothing fails.
#[derive(Debug, Default)]
struct ReadCounts {
    windows: usize,
    pages: usize,
    traces: usize,
    /// Traces of which some spans had been written, and others were written later.
    growing: usize,
}

impl AddAssign for ReadCounts {
    fn add_assign(&mut self, other: Self) {
        self.windows += other.windows;
        self.pages += other.pages;
        self.traces += other.traces;
        self.growing += other.growing;
    }
}

/// Returns a short policy on the few columns.
fn random_policy(generator: &mut Generator, model: &AccessModel) -> String {
    loop {
        let text = generator.expression();
        if text.len() <= MAX_POLICY_LENGTH
            && check(&text, model).is_ok_and(|checked| !checked.fields().is_empty())
        {
            return text;
        }
    }
}

fn is_growing(trace: &str) -> bool {
    trace.starts_with("feed")
}

/// Writes spans, several with one statement, until the reads are over.
async fn write(
    local: &LocalStore,
    insert_table: &str,
    shape: TableShape,
    seed: u64,
    arriving: &ArrivingSpans,
) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut generator = Generator::new(seed);
    let mut number = 0;
    while !arriving.done.get() && number < WRITTEN_SPANS {
        // The same number in each window: spans that arrive before or after do not arrive during a read.
        if number * WINDOWS_PER_DATA_SET > arriving.windows.get() * WRITTEN_SPANS {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            continue;
        }
        // Each statement is expensive and creates a part that later statements read: so it inserts many spans of all the
        // traces.
        let several = random.random_range(16..49);
        let first = arriving.spans.borrow().len();
        for _ in 0..several {
            number += 1;
            let trace = format!("feed{:028x}", random.random_range(0..GROWING_TRACES));
            let at = NOON + random.random_range(-900..900) * SECOND;
            let span = StoredSpan {
                trace: trace.into_bytes(),
                id: format!("{number:016x}"),
                parent: "",
                at: at.div_euclid(shape.nanos_per_tick) * shape.nanos_per_tick,
                status: "Ok",
                duration: 5,
                values: generator.span(),
            };
            arriving.spans.borrow_mut().push(span);
        }
        let statement = insert_statement(insert_table, shape, &arriving.spans.borrow()[first..]);
        execute(local, statement).await;
        arriving.acknowledged.set(first + several);
    }
}

/// Results of a caller's policies for spans. Each span is evaluated once: spans are only added.
struct CallerVerdicts {
    expressions: Vec<String>,
    caller: Caller,
    granted: RefCell<Vec<bool>>,
}

impl CallerVerdicts {
    fn verdicts(&self, spans: &[StoredSpan]) -> Verdicts {
        let mut granted = self.granted.borrow_mut();
        if let Some(further) = spans.get(granted.len()..).filter(|further| !further.is_empty()) {
            let values: Vec<Span> = further.iter().map(|span| span.values.clone()).collect();
            granted.extend(Verdicts::evaluate(&self.expressions, None, &self.caller, &values).granted);
        }
        Verdicts { granted: granted[..spans.len()].to_vec(), within: None }
    }
}

/// Returns a window that begins or ends at a span, or anywhere.
fn random_window(random: &mut ChaCha8Rng, data_set: &DataSet) -> Window {
    let tick = data_set.shape.nanos_per_tick;
    let edge = data_set.spans.choose(random).unwrap().at + tick * random.random_range(-1..=1);
    let length = *[1, tick, SECOND, 600 * SECOND, HOUR, 3 * HOUR, 24 * HOUR].choose(random).unwrap();
    let from = match random.random_range(0..3) {
        0 => edge,
        1 => edge - length,
        _ => NOON + random.random_range(-4 * HOUR..4 * HOUR) - length / 2,
    };
    Window::new(Timestamp::from_nanos(from), Timestamp::from_nanos(from + length)).unwrap()
}

/// Reads the spans of a page's traces.
async fn read(
    store: &ClickHouse,
    binding: &Binding,
    page: &crate::Selection,
) -> BTreeMap<String, Vec<String>> {
    let mut stream = store.read(binding, page, None).await.unwrap();
    let mut traces: BTreeMap<String, Vec<String>> = BTreeMap::new();
    while let Some(chunk) = stream.next().await {
        for line in chunk.unwrap().lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let span: serde_json::Value = serde_json::from_slice(line).unwrap();
            let text = |name: &str| span[name].as_str().unwrap().to_owned();
            traces.entry(text("TraceId")).or_default().push(text("SpanId"));
        }
    }
    traces.values_mut().for_each(|spans| spans.sort());
    traces
}

fn ids_of(spans: &[StoredSpan], trace: &str) -> Vec<String> {
    let found = spans.iter().filter(|span| span.trace == trace.as_bytes());
    let mut ids: Vec<String> = found.map(|span| span.id.clone()).collect();
    ids.sort();
    ids
}

/// Compares a caller's pages of a window with the spans that had been acknowledged when it sent the request, and those that
/// had been sent when it got the answer.
async fn check_pages(
    store: &ClickHouse,
    data_set: &DataSet,
    arriving: &ArrivingSpans,
    query: &Query<'_>,
    caller_verdicts: &CallerVerdicts,
    limit: u32,
    seen: &mut ReadCounts,
) {
    let Query { binding, scope, filter, window } = *query;
    let context = format!("the world of seed {}: {window:?}, {filter:?}, limit {limit}", arriving.seed);
    let data_set_with = |count: usize| -> DataSet {
        let spans = data_set.spans.iter().chain(&arriving.spans.borrow()[..count]).cloned().collect();
        DataSet { shape: data_set.shape, spans, index: data_set.index.clone() }
    };
    let before = data_set_with(arriving.acknowledged.get());
    let expected_before = expected(&before, &caller_verdicts.verdicts(&before.spans), filter, window);
    arriving.windows.set(arriving.windows.get() + 1);
    let (mut after, mut returned, mut pages) = (None, Vec::new(), 0);
    let all_pages_read = loop {
        let acknowledged = arriving.acknowledged.get();
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
        let page = store.select(request).await.unwrap();
        let page_traces = read(store, binding, &page).await;
        let sent = arriving.spans.borrow().len();
        let (read, chosen): (Vec<_>, Vec<_>) = (page_traces.keys().collect(), page.trace_ids().collect());
        assert_eq!(read.len(), chosen.len(), "{read:?} of {chosen:?}: {context}");
        for id in page.trace_ids() {
            let spans = &page_traces[id];
            if !is_growing(id) {
                assert_eq!(*spans, ids_of(&data_set.spans, id), "{id:?} is not whole: {context}");
                continue;
            }
            let arriving = arriving.spans.borrow();
            let (required, allowed) = (ids_of(&arriving[..acknowledged], id), ids_of(&arriving[..sent], id));
            let found: BTreeSet<&String> = spans.iter().collect();
            assert_eq!(found.len(), spans.len(), "a span occurs twice: {context}");
            assert!(required.iter().all(|span| found.contains(span)), "{id:?} lacks spans: {context}");
            assert!(spans.iter().all(|span| allowed.contains(span)), "{id:?}: {context}");
            seen.growing += usize::from(required.len() < allowed.len());
        }
        pages += 1;
        returned.extend(page.trace_ids().map(str::to_owned));
        after = page.next().cloned();
        if after.is_none() || pages == MAX_PAGES {
            break after.is_none();
        }
    };
    let distinct: BTreeSet<&String> = returned.iter().collect();
    assert_eq!(distinct.len(), returned.len(), "a trace occurs twice: {context}");
    // Traces without new spans: in order, and complete.
    let without_growing =
        |ids: &[String]| -> Vec<String> { ids.iter().filter(|id| !is_growing(id)).cloned().collect() };
    let (returned_unchanged, mut expected_unchanged) =
        (without_growing(&returned), without_growing(&expected_before));
    if !all_pages_read {
        expected_unchanged.truncate(returned_unchanged.len());
    }
    assert_eq!(returned_unchanged, expected_unchanged, "{context}");
    // A growing trace may move to a page that was already read, but not out of an only page.
    if all_pages_read && pages == 1 {
        let missing: Vec<&String> = expected_before.iter().filter(|id| !distinct.contains(id)).collect();
        assert!(missing.is_empty(), "{missing:?} are missing: {context}");
    }
    let after = data_set_with(arriving.spans.borrow().len());
    let verdicts_after = caller_verdicts.verdicts(&after.spans);
    for id in returned.iter().filter(|id| is_growing(id)) {
        let spans: Vec<usize> =
            (0..after.spans.len()).filter(|at| after.spans[*at].trace == id.as_bytes()).collect();
        assert!(verdicts_after.is_accessible(&spans), "{id:?} is outside the access scope: {context}");
    }
    seen.windows += 1;
    seen.pages += pages;
    seen.traces += returned.len();
}

/// Requests windows of a data set until their number is reached.
async fn check_windows(
    store: &ClickHouse,
    data_set: &DataSet,
    arriving: &ArrivingSpans,
    random: &mut ChaCha8Rng,
    generator: &mut Generator,
) -> ReadCounts {
    let (binding, model) = (binding(data_set.index.is_some()), model(data_set.shape));
    let mut seen = ReadCounts::default();
    for _ in 0..WINDOWS_PER_DATA_SET / WINDOWS_PER_CALLER {
        let caller = generator.caller();
        let mut expressions: Vec<String> =
            (0..random.random_range(1..5)).map(|_| random_policy(generator, &model)).collect();
        // A caller with access to everything sees all growing traces.
        if random.random_bool(0.4) {
            expressions.push("true".to_owned());
        }
        let policies = expressions.iter().map(|expression| RolePolicy { role: "r", title: "t", expression });
        let scope = authorise(policies, None, &caller, &model, &CompiledPolicies::new()).unwrap();
        let caller_verdicts = CallerVerdicts { expressions, caller, granted: RefCell::default() };
        for _ in 0..WINDOWS_PER_CALLER {
            let several = *[0, 0, 0, 1, 2].choose(random).unwrap();
            let conditions =
                (0..several).map(|_| super::conditions::random_condition(random, &model)).collect();
            let (filter, window) = (Filter::of(conditions), random_window(random, data_set));
            let query = Query { binding: &binding, scope: &scope, filter: &filter, window };
            let limit = *[1, 2, 3, 5, 8, 200].choose(random).unwrap();
            check_pages(store, data_set, arriving, &query, &caller_verdicts, limit, &mut seen).await;
        }
    }
    arriving.done.set(true);
    seen
}

/// When one reader fails, the others stop.
struct StopOnPanic<'a> {
    started: &'a AtomicUsize,
    data_sets: usize,
}

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.started.store(self.data_sets, Ordering::Relaxed);
        }
    }
}

/// Tests the data set of this seed.
async fn check_data_set(local: &LocalStore, store: &ClickHouse, seed: u64) -> ReadCounts {
    let (mut random, mut generator) = (ChaCha8Rng::seed_from_u64(seed), Generator::new(seed));
    let data_set = make_data_set(&mut random, &mut generator, &TABLE_COLUMNS);
    let insert_table = load(local, Storage::OneTable, &data_set).await;
    let arriving = ArrivingSpans {
        spans: RefCell::default(),
        acknowledged: Cell::default(),
        windows: Cell::default(),
        done: Cell::default(),
        seed,
    };
    let writing = write(local, &insert_table, data_set.shape, random.random(), &arriving);
    let reading = check_windows(store, &data_set, &arriving, &mut random, &mut generator);
    futures::join!(writing, reading).1
}

#[test]
fn every_trace_of_a_page_is_whole_while_spans_arrive() {
    let (seed, windows) = (repetitions::seed(20_261_123), WINDOWS.get("TRACEWARDEN_TEST_WINDOWS"));
    println!(
        "seed {seed}, {windows} windows; the seed of each data set is one more than that of the one before"
    );
    let (started, data_sets) = (AtomicUsize::new(0), windows.div_ceil(WINDOWS_PER_DATA_SET));
    let (seen, progress) = (Mutex::new(ReadCounts::default()), Progress::of(windows, "windows"));
    // An engine has one database, and a reader mostly waits for it: so each processor gets one engine and one reader.
    let check_data_sets = || {
        let _end = StopOnPanic { started: &started, data_sets };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let local = LocalStore::start().unwrap();
            let store = connect(&local);
            loop {
                let data_set = started.fetch_add(1, Ordering::Relaxed);
                if data_set >= data_sets {
                    break;
                }
                let found = check_data_set(&local, &store, seed + data_set as u64).await;
                let mut seen = seen.lock().unwrap();
                *seen += found;
                progress.at(seen.windows);
            }
        });
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..processors.min(data_sets) {
            scope.spawn(check_data_sets);
        }
    });
    let seen = seen.into_inner().unwrap();
    println!("{seen:?}");
    assert!(seen.windows >= windows, "{seen:?}");
    assert!(seen.traces > windows, "the pages are too sparse to test anything: {seen:?}");
    assert!(seen.growing > windows / 25, "hardly any trace grew while it was read: {seen:?}");
}

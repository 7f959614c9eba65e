//! Random windows, limits and pages, while spans are being written: every trace of a page is complete.
//!
//! The table has few columns and the policies are short. Other tests check their meaning, and ClickHouse takes longer to plan
//! a statement over many columns than to run it, which would leave time for few windows only.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use tracewarden_policy::check;

use super::*;

/// Columns of the table, among them those of [`INDEXES`] and of [`binding`].
static FEW: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let few = ["ServiceName", "SpanName", "Kind", "Tags", "SpanAttributes", "ResourceAttributes"];
    COLUMNS.iter().filter(|(name, _)| few.contains(name)).copied().collect()
});
/// Maximum length of a policy, in bytes.
const LENGTH_MAX: usize = 80;
/// Number of windows in an ordinary run.
const WINDOWS: usize = 200;
/// Number of windows of one data set.
const OF_A_WORLD: usize = 50;
/// Number of windows that one caller requests.
const OF_A_CALLER: usize = 10;
/// Maximum number of pages of one window.
const PAGES: usize = 3;
/// Number of spans that are written to one data set, so that it stays small.
const ARRIVALS: usize = 480;

/// Number of traces that they belong to: few, so that traces that a caller may read keep growing.
const FEEDS: usize = 8;

/// Spans that are written during reads.
struct Arriving {
    /// In the order in which they are sent.
    spans: RefCell<Vec<StoredSpan>>,
    /// Number of spans that ClickHouse has acknowledged.
    acknowledged: Cell<usize>,
    /// Number of windows that were requested.
    windows: Cell<usize>,
    over: Cell<bool>,
    /// Seed of the data set. With it, and the same number of windows, the data set can be created again.
    seed: u64,
}

/// Counts of what was seen, so that a run that proves nothing fails.
#[derive(Debug, Default)]
struct Seen {
    windows: usize,
    pages: usize,
    traces: usize,
    /// Traces of which some spans had been written, and others were written later.
    growing: usize,
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.windows += other.windows;
        self.pages += other.pages;
        self.traces += other.traces;
        self.growing += other.growing;
    }
}

/// Returns a short policy on the few columns.
fn some_policy(generator: &mut Generator, model: &AccessModel) -> String {
    loop {
        let text = generator.expression();
        if text.len() <= LENGTH_MAX && check(&text, model).is_ok_and(|checked| !checked.fields().is_empty()) {
            return text;
        }
    }
}

fn is_arriving(trace: &str) -> bool {
    trace.starts_with("feed")
}

/// Writes spans, several with one statement, until the reads are over.
async fn write(local: &LocalStore, rows_of: &str, shape: Shape, seed: u64, arriving: &Arriving) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut generator = Generator::new(seed);
    let mut number = 0;
    while !arriving.over.get() && number < ARRIVALS {
        // The same number in each window: spans that arrive before or after do not arrive during a read.
        if number * OF_A_WORLD > arriving.windows.get() * ARRIVALS {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            continue;
        }
        // Each statement is expensive and creates a part that later statements read: so it inserts many spans of all the
        // traces.
        let several = random.random_range(16..49);
        let first = arriving.spans.borrow().len();
        for _ in 0..several {
            number += 1;
            let trace = format!("feed{:028x}", random.random_range(0..FEEDS));
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
        let statement = insertion(rows_of, shape, &arriving.spans.borrow()[first..]);
        execute(local, statement).await;
        arriving.acknowledged.set(first + several);
    }
}

/// Results of a caller's policies for spans. Each span is evaluated once: spans are only added.
struct CoveredTraces {
    expressions: Vec<String>,
    caller: Caller,
    granted: RefCell<Vec<bool>>,
}

impl CoveredTraces {
    fn of(&self, spans: &[StoredSpan]) -> Verdicts {
        let mut granted = self.granted.borrow_mut();
        if let Some(further) = spans.get(granted.len()..).filter(|further| !further.is_empty()) {
            let values: Vec<Span> = further.iter().map(|span| span.values.clone()).collect();
            granted.extend(Verdicts::of(&self.expressions, None, &self.caller, &values).granted);
        }
        Verdicts { granted: granted[..spans.len()].to_vec(), within: None }
    }
}

/// Returns a window that begins or ends at a span, or anywhere.
fn some_window(random: &mut ChaCha8Rng, world: &World) -> Window {
    let tick = world.shape.nanos_per_tick;
    let edge = world.spans.choose(random).unwrap().at + tick * random.random_range(-1..=1);
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
    store: &TraceStore,
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
    let of_it = spans.iter().filter(|span| span.trace == trace.as_bytes());
    let mut ids: Vec<String> = of_it.map(|span| span.id.clone()).collect();
    ids.sort();
    ids
}

/// Compares a caller's pages of a window with the spans that had been acknowledged when it sent the request, and those that
/// had been sent when it got the answer.
async fn look(
    store: &TraceStore,
    world: &World,
    arriving: &Arriving,
    query: &Query<'_>,
    opened: &CoveredTraces,
    limit: u32,
    seen: &mut Seen,
) {
    let Query { binding, scope, filter, window } = *query;
    let told = format!("the world of seed {}: {window:?}, {filter:?}, limit {limit}", arriving.seed);
    let written = |count: usize| -> World {
        let spans = world.spans.iter().chain(&arriving.spans.borrow()[..count]).cloned().collect();
        World { shape: world.shape, spans, index: world.index.clone() }
    };
    let before = written(arriving.acknowledged.get());
    let must = expected(&before, &opened.of(&before.spans), filter, window);
    arriving.windows.set(arriving.windows.get() + 1);
    let (mut after, mut given, mut pages) = (None, Vec::new(), 0);
    let whole = loop {
        let acknowledged = arriving.acknowledged.get();
        let request = SelectRequest { binding, scope, filter, window, limit, after, progress: None };
        let page = store.select(request).await.unwrap();
        let shown = read(store, binding, &page).await;
        let sent = arriving.spans.borrow().len();
        let (read, chosen): (Vec<_>, Vec<_>) = (shown.keys().collect(), page.trace_ids().collect());
        assert_eq!(read.len(), chosen.len(), "{read:?} of {chosen:?}: {told}");
        for id in page.trace_ids() {
            let spans = &shown[id];
            if !is_arriving(id) {
                assert_eq!(*spans, ids_of(&world.spans, id), "{id:?} is not whole: {told}");
                continue;
            }
            let arriving = arriving.spans.borrow();
            let (had_to, could) = (ids_of(&arriving[..acknowledged], id), ids_of(&arriving[..sent], id));
            let of_it: BTreeSet<&String> = spans.iter().collect();
            assert_eq!(of_it.len(), spans.len(), "a span occurs twice: {told}");
            assert!(had_to.iter().all(|span| of_it.contains(span)), "{id:?} lacks spans: {told}");
            assert!(spans.iter().all(|span| could.contains(span)), "{id:?}: {told}");
            seen.growing += usize::from(had_to.len() < could.len());
        }
        pages += 1;
        given.extend(page.trace_ids().map(str::to_owned));
        after = page.next().cloned();
        if after.is_none() || pages == PAGES {
            break after.is_none();
        }
    };
    let distinct: BTreeSet<&String> = given.iter().collect();
    assert_eq!(distinct.len(), given.len(), "a trace occurs twice: {told}");
    // Traces without new spans: in order, and complete.
    let settled =
        |ids: &[String]| -> Vec<String> { ids.iter().filter(|id| !is_arriving(id)).cloned().collect() };
    let (settled_given, mut settled_must) = (settled(&given), settled(&must));
    if !whole {
        settled_must.truncate(settled_given.len());
    }
    assert_eq!(settled_given, settled_must, "{told}");
    // A growing trace may move to a page that was already read, but not out of an only page.
    if whole && pages == 1 {
        let missing: Vec<&String> = must.iter().filter(|id| !distinct.contains(id)).collect();
        assert!(missing.is_empty(), "{missing:?} are missing: {told}");
    }
    let after = written(arriving.spans.borrow().len());
    let may = opened.of(&after.spans);
    for id in given.iter().filter(|id| is_arriving(id)) {
        let spans: Vec<usize> =
            (0..after.spans.len()).filter(|at| after.spans[*at].trace == id.as_bytes()).collect();
        assert!(may.open(&spans), "{id:?} is outside the access scope: {told}");
    }
    seen.windows += 1;
    seen.pages += pages;
    seen.traces += given.len();
}

/// Requests windows of a data set until their number is reached.
async fn look_around(
    store: &TraceStore,
    world: &World,
    arriving: &Arriving,
    random: &mut ChaCha8Rng,
    generator: &mut Generator,
) -> Seen {
    let (binding, model) = (binding(world.index.is_some()), model(world.shape));
    let mut seen = Seen::default();
    for _ in 0..OF_A_WORLD / OF_A_CALLER {
        let caller = generator.caller();
        let mut expressions: Vec<String> =
            (0..random.random_range(1..5)).map(|_| some_policy(generator, &model)).collect();
        // A caller with access to everything sees all growing traces.
        if random.random_bool(0.4) {
            expressions.push("true".to_owned());
        }
        let policies = expressions.iter().map(|expression| RolePolicy { role: "r", title: "t", expression });
        let scope = authorise(policies, None, &caller, &model, &CompiledPolicies::new()).unwrap();
        let opened = CoveredTraces { expressions, caller, granted: RefCell::default() };
        for _ in 0..OF_A_CALLER {
            let several = *[0, 0, 0, 1, 2].choose(random).unwrap();
            let conditions = (0..several).map(|_| some_condition(random, &model)).collect();
            let (filter, window) = (Filter { conditions }, some_window(random, world));
            let query = Query { binding: &binding, scope: &scope, filter: &filter, window };
            let limit = *[1, 2, 3, 5, 8, 200].choose(random).unwrap();
            look(store, world, arriving, &query, &opened, limit, &mut seen).await;
        }
    }
    arriving.over.set(true);
    seen
}

/// When one reader fails, the others stop.
struct EndOnFailure<'a> {
    begun: &'a AtomicUsize,
    worlds: usize,
}

impl Drop for EndOnFailure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.begun.store(self.worlds, Ordering::Relaxed);
        }
    }
}

/// Tests the data set of this seed.
async fn look_at_world(local: &LocalStore, store: &TraceStore, seed: u64) -> Seen {
    let (mut random, mut generator) = (ChaCha8Rng::seed_from_u64(seed), Generator::new(seed));
    let world = make_world(&mut random, &mut generator, &FEW);
    let rows_of = load(local, Storage::OneTable, &world).await;
    let arriving = Arriving {
        spans: RefCell::default(),
        acknowledged: Cell::default(),
        windows: Cell::default(),
        over: Cell::default(),
        seed,
    };
    let writing = write(local, &rows_of, world.shape, random.random(), &arriving);
    let reading = look_around(store, &world, &arriving, &mut random, &mut generator);
    futures::join!(writing, reading).1
}

#[test]
fn every_trace_of_a_page_is_whole_while_spans_arrive() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("TRACEWARDEN_TEST_SEED").unwrap_or(20_261_123);
    let windows = number("TRACEWARDEN_TEST_WINDOWS").map_or(WINDOWS, |count| count as usize);
    println!(
        "seed {seed}, {windows} windows; the seed of each world is one more than that of the world before"
    );
    let (begun, worlds) = (AtomicUsize::new(0), windows.div_ceil(OF_A_WORLD));
    let (seen, progress) = (Mutex::new(Seen::default()), Progress::of(windows, "windows"));
    // An engine has one database, and a reader mostly waits for it: so each processor gets one engine and one reader.
    let look_at_worlds = || {
        let _end = EndOnFailure { begun: &begun, worlds };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let local = LocalStore::start().unwrap();
            let store = connect(&local);
            loop {
                let world = begun.fetch_add(1, Ordering::Relaxed);
                if world >= worlds {
                    break;
                }
                let of_it = look_at_world(&local, &store, seed + world as u64).await;
                let mut seen = seen.lock().unwrap();
                *seen += of_it;
                progress.at(seen.windows);
            }
        });
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..processors.min(worlds) {
            scope.spawn(look_at_worlds);
        }
    });
    let seen = seen.into_inner().unwrap();
    println!("{seen:?}");
    assert!(seen.windows >= windows, "{seen:?}");
    assert!(seen.traces > windows, "the pages are too sparse to test anything: {seen:?}");
    assert!(seen.growing > windows / 25, "hardly any trace grew while it was read: {seen:?}");
}

//! Generated searches with every plan, most of them with two to four conditions, on the engine and on a real server of the
//! oldest supported version.

use futures::{StreamExt as _, stream};
use rand::seq::{IndexedRandom as _, IteratorRandom as _};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tracewarden_testkit::clickhouse::{Options, PASSWORD, Server};
use tracewarden_testkit::repetitions::Repetitions;

use super::*;
use crate::agreement::{connect_at, seed};

/// Number of concurrent searches.
const AT_ONCE: usize = 4;

/// Creates traces of three days, most of them short, some of hours. The index has an entry for each minute of a trace, like
/// the exporter's batches, and lacks some traces and some batches.
fn spans() -> [String; 2] {
    let spans = format!(
        "INSERT INTO default.spans SELECT fromUnixTimestamp64Nano({BEGIN} + start + intDiv(cityHash64(t, i) % 1000 * long, 1000)) AS At, \
         lower(hex(sipHash128(t))), lower(hex(cityHash64(t, i))), '', concat('s', toString(cityHash64(t, i, 4) % 12)), \
         concat('u', toString(cityHash64(t, 7) % 400)), concat('t', toString(cityHash64(t, i, 8) % 20)), \
         if(cityHash64(t, i, 9) % 40 = 0, 'Error', 'Ok'), concat('team', toString(cityHash64(t, i, 4) % 12 % 5)) \
         FROM (SELECT number AS t, toInt64(cityHash64(t, 1) % 72000) * 3600 * 1000000 AS start, \
         multiIf(t % 50 = 0, {long}, t % 12 = 0, {middle}, {short}) AS long, range(1 + cityHash64(t, 2) % 14) AS spans FROM numbers(9000)) \
         ARRAY JOIN spans AS i",
        long = 6 * HOUR,
        middle = HOUR / 3,
        short = 2 * SECOND,
    );
    let index = "INSERT INTO default.ends SELECT TraceId, min(At), max(At) FROM default.spans WHERE cityHash64(TraceId) % 25 > 0 \
         GROUP BY TraceId, toStartOfMinute(At) HAVING cityHash64(TraceId, min(At)) % 50 > 0"
            .to_owned();
    [spans, index]
}

/// Numbers of searches.
const ON_ENGINE: Repetitions = Repetitions { test: 20, verify: 60 };
const ON_SERVER: Repetitions = Repetitions { test: 8, verify: 30 };

#[tokio::test]
async fn plans_agree_on_the_engine() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    for statement in tables("DateTime64(9)", "DateTime").into_iter().chain(spans()) {
        execute(&local, statement).await;
    }
    agree(&store, ON_ENGINE.get("TRACEWARDEN_TEST_SEARCHES")).await;
}

#[tokio::test]
async fn plans_agree_on_a_real_server() {
    let server = Server::start(&Options::default()).unwrap_or_else(|error| panic!("{error}"));
    for statement in tables("DateTime64(9)", "DateTime").into_iter().chain(spans()) {
        server.run(&statement).unwrap_or_else(|error| panic!("{error}\n{statement}"));
    }
    agree(&connect_at(&server.url, PASSWORD), ON_SERVER.get("TRACEWARDEN_TEST_SEARCHES")).await;
}

/// Runs this number of searches, each with four plans, some concurrently.
async fn agree(store: &ClickHouse, searches: usize) {
    let seed = seed();
    println!("TRACEWARDEN_TEST_SEED={seed}");
    let mut done = stream::iter(0..searches)
        .map(|number| search(store, ChaCha8Rng::seed_from_u64(seed.wrapping_add(number as u64))))
        .buffer_unordered(AT_ONCE)
        .enumerate();
    let (mut found, mut not_full) = (0, 0);
    while let Some((number, (traces, limit))) = done.next().await {
        found += traces;
        not_full += usize::from(traces > 0 && traces < limit);
        if number % 500 == 499 {
            println!("{} of {searches} searches, {found} traces, {not_full} pages not full", number + 1);
        }
    }
    assert!(
        found > searches * 10 && not_full > searches / 15,
        "{found} traces of {searches} searches, {not_full} pages not full"
    );
}

/// Generates a search with up to four conditions, some in a group or as exclusions, and reads its first pages with four plans.
/// Returns the number of traces, and the limit.
async fn search(store: &ClickHouse, mut random: ChaCha8Rng) -> (usize, usize) {
    let value = |random: &mut ChaCha8Rng, column: &str| match column {
        "Service" => format!("s{}", random.random_range(0..12)),
        "User" => format!("u{}", random.random_range(0..400)),
        "Tenant" => format!("t{}", random.random_range(0..20)),
        "Status" => "Error".to_owned(),
        _ => format!("team{}", random.random_range(0..5)),
    };
    let count = *[0, 1, 2, 2, 3, 3, 4].choose(&mut random).unwrap();
    let columns: Vec<&str> = COLUMNS.into_iter().sample(&mut random, count);
    let values: Vec<(&str, String)> =
        columns.into_iter().map(|column| (column, value(&mut random, column))).collect();
    let conditions: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let policies: &[&str] = match random.random_range(0..4) {
        0 => &["true"],
        1 => &["Team == \"team3\" && Status == \"Ok\""],
        2 => &["Team == \"team1\" && Status == \"Error\"", "User == \"u7\"", "Tenant == \"t4\""],
        _ => &["User == \"u11\""],
    };
    let (mut filter, scope, binding) =
        (filter(&conditions), scope(policies), binding(random.random_bool(0.7)));
    match random.random_range(0..6) {
        0 | 1 => filter.none = filter.conditions.split_off(count / 2),
        2 if count > 1 => filter.same_span = vec![filter.conditions.split_off(count - 2)],
        _ => {}
    }
    let from = BEGIN + random.random_range(-1..60) * HOUR;
    let length = *[HOUR / 10, HOUR, 12 * HOUR, 24 * HOUR, 80 * HOUR].choose(&mut random).unwrap();
    let search_case = SearchCase {
        limit: *[1, 20, 20, 200].choose(&mut random).unwrap(),
        pages: 4,
        ..SearchCase::new(store, &binding, &scope, &filter, window(from, from + length))
    };
    let required_predicates =
        RequiredPredicates::new(&scope, &filter, &search_case.table().await).unwrap().all();
    let mut choices = vec![None];
    let count = random.random_range(0..=3);
    let rare = required_predicates.sample(&mut random, count).copied().collect();
    choices.push(Some(Plan::FilteredPass(rare)));
    let first = *[length / 64, length / 7, length].choose(&mut random).unwrap();
    let share = *[WindowShare::Most, WindowShare::Part].choose(&mut random).unwrap();
    choices.push(steps(first, random.random_bool(0.7), share));
    (search_case.assert_same_results(&choices, PlannerOptions::default()).await, search_case.limit as usize)
}

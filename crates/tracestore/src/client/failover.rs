//! Statements against endpoints with injected faults of every kind, on the real engine behind proxies.

use std::time::{Duration, Instant};

use futures::StreamExt;
use tracewarden_testkit::chaos_proxy::{ChaosProxy, Fault};
use tracewarden_testkit::local_store::LocalStore;

use super::*;
use crate::TraceStore;
use crate::differential::{connect_at, execute};

/// Two proxies in front of one ClickHouse.
struct World {
    store: TraceStore,
    first: ChaosProxy,
    second: ChaosProxy,
    /// Without a proxy, to read `system.processes`.
    direct: TraceStore,
    local: LocalStore,
}

const ONE: &str = "SELECT number FROM numbers(3)";

/// A view whose rows take a tenth of a second each: silent for a block, then a block of rows.
const SLOW: &str = "CREATE VIEW default.slow AS SELECT number, sleepEachRow(0.1) AS slept, repeat('x', 100000) AS text \
    FROM numbers(1000) SETTINGS max_block_size = 1";

fn world() -> World {
    let local = LocalStore::start().unwrap();
    let address = local.url.trim_start_matches("http://").parse().unwrap();
    let [first, second] = [(), ()].map(|()| ChaosProxy::start(address).unwrap());
    let store = connect_at(&format!("{},{}", first.url(), second.url()), &local.password);
    let direct = connect_at(&local.url, &local.password);
    World { store, first, second, direct, local }
}

impl World {
    async fn ask(&self) -> Result<usize, StoreError> {
        let rows: Vec<(u64,)> = self.store.client.rows(Statement::new(ONE)).await?;
        Ok(rows.len())
    }

    /// Returns which endpoints work.
    fn working(&self) -> Vec<bool> {
        let pool = &self.store.client.shared.pool;
        (0..2).map(|at| pool.get(at).unwrap().is_healthy()).collect()
    }

    async fn wait_until_working(&self, wanted: [bool; 2]) {
        let begun = Instant::now();
        while self.working() != wanted {
            assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", self.working());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn counted(&self, sample: &str) -> u64 {
        let mut registry = Registry::default();
        self.store.client.register_metrics(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let sample = sample.replace("FIRST", self.first.url().trim_start_matches("http://"));
        let line = text.lines().find_map(|line| line.strip_prefix(&sample)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{sample} in {text}")).parse().unwrap()
    }

    /// Returns how many statements run in ClickHouse, this one excluded.
    async fn running(&self) -> i64 {
        let ask = "SELECT count() - 1 FROM system.processes WHERE query_id LIKE 'tracewarden-%'";
        self.direct.client.rows::<(i64,)>(Statement::new(ask)).await.unwrap()[0].0
    }
}

const BUSY: &str = "HTTP/1.1 500 Internal Server Error\r\nX-ClickHouse-Exception-Code: 202\r\nContent-Length: 9\r\n\
    Connection: close\r\n\r\ntoo many\n";
const LEAVING: &str = "HTTP/1.1 500 Internal Server Error\r\nX-ClickHouse-Exception-Code: 236\r\nContent-Length: 8\r\n\
    Connection: close\r\n\r\naborted\n";
const GATEWAY: &str = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn statements_fail_over_and_the_first_endpoint_recovers() {
    let world = world();
    assert_eq!(world.ask().await, Ok(3));
    let faults = [
        (Fault::Refuse, "cut"),
        (Fault::CutAfter(0), "cut"),
        (Fault::CutAfter(40), "cut"),
        (Fault::Answer(GATEWAY), "cut"),
        (Fault::Answer(LEAVING), "cannot"),
        (Fault::Silence, "silent"),
    ];
    let mut failures = std::collections::BTreeMap::new();
    for (round, (fault, reason)) in faults.into_iter().enumerate() {
        world.first.set(fault);
        // Until the client has seen that its idle connections are closed: a statement over one of them would count as another
        // cut.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let begun = Instant::now();
        assert_eq!(world.ask().await, Ok(3), "{fault:?}");
        // Only silence takes time to detect.
        let limit = Duration::from_secs(if fault == Fault::Silence { 12 } else { 1 });
        assert!(begun.elapsed() < limit, "{fault:?}: {:?}", begun.elapsed());
        assert_eq!(world.working(), [false, true], "{fault:?}");
        assert_eq!(world.counted("tracewarden_store_endpoint_up{endpoint=\"FIRST\"}"), 0);
        assert_eq!(world.counted("tracewarden_store_failovers_total"), round as u64 + 1);
        // At once, without a statement to the first.
        let begun = Instant::now();
        assert_eq!(world.ask().await, Ok(3));
        assert!(begun.elapsed() < Duration::from_secs(1), "{fault:?}: {:?}", begun.elapsed());
        let name =
            format!("tracewarden_store_endpoint_failures_total{{endpoint=\"FIRST\",reason=\"{reason}\"}}");
        let failed = world.counted(&name);
        assert!(failed > failures.insert(reason, failed).unwrap_or_default(), "{fault:?}");
        world.first.set(Fault::None);
        world.wait_until_working([true, true]).await;
        assert_eq!(world.counted("tracewarden_store_endpoint_up{endpoint=\"FIRST\"}"), 1);
        let passed = world.second.passed();
        assert_eq!(world.ask().await, Ok(3));
        assert_eq!(world.second.passed(), passed, "the first endpoint is queried again");
        failures.insert(reason, world.counted(&name));
    }
    // No abandoned attempt left a statement running in ClickHouse.
    assert_eq!(world.running().await, 0);
}

/// A refused statement goes to another endpoint. Statements about traces that were selected at the full one still go there.
#[tokio::test]
async fn an_overloaded_server_is_not_marked_unhealthy() {
    let world = world();
    world.first.set(Fault::Answer(BUSY));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(world.ask().await, Ok(3));
    assert_eq!(world.working(), [true, true]);
    let of_first = world.store.client.at(Some(0)).within(Bounds { seconds: 1, rows: 0 });
    let failed = of_first.rows::<(u64,)>(Statement::new(ONE)).await.unwrap_err();
    assert!(matches!(failed, StoreError::Unavailable { retry_after_seconds: 1, .. }), "{failed}");
    let failures = "tracewarden_store_endpoint_failures_total{endpoint=\"FIRST\",reason=\"cannot\"}";
    // The statement was retried there until its time was over.
    assert!(world.counted(failures) > 3, "{}", world.counted(failures));
    let waiting = world.store.client.at(Some(0));
    let (waiting, ()) = tokio::join!(waiting.rows::<(u64,)>(Statement::new(ONE)), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.first.set(Fault::None);
    });
    assert_eq!(waiting.map(|rows| rows.len()), Ok(3));
    // When all are full, the one that gets a free slot first is used.
    for proxy in [&world.first, &world.second] {
        proxy.set(Fault::Answer(BUSY));
    }
    let (waiting, ()) = tokio::join!(world.ask(), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.second.set(Fault::None);
    });
    assert_eq!(waiting, Ok(3));
}

#[tokio::test]
async fn failing_statements_are_not_sent_to_other_endpoints() {
    let world = world();
    let begun = world.counted("tracewarden_store_endpoint_requests_total{endpoint=\"FIRST\"}");
    for (text, code) in
        [("SELECT nothing_here", Some(47)), ("SELEKT 1", Some(62)), ("SELECT throwIf(1)", Some(395))]
    {
        let failed = world.store.client.rows::<(u64,)>(Statement::new(text)).await.unwrap_err();
        assert!(matches!(&failed, StoreError::Store { code: c, .. } if *c == code), "{text}: {failed}");
    }
    let short = world.store.client.within(Bounds { seconds: 1, rows: 0 });
    execute(&world.local, SLOW.to_owned()).await;
    let slow = Statement::new("SELECT sum(slept) FROM default.slow");
    let failed = short.rows::<(u8,)>(slow).await.unwrap_err();
    assert!(matches!(failed, StoreError::Timeout(_)), "{failed}");
    assert_eq!(world.second.passed(), 0);
    assert_eq!(world.working(), [true, true]);
    let asked = world.counted("tracewarden_store_endpoint_requests_total{endpoint=\"FIRST\"}") - begun;
    assert_eq!(asked, 4);
    // A wrong password is reported, not retried at every endpoint.
    let wrong = connect_at(&format!("{},{}", world.first.url(), world.second.url()), "wrong");
    let failed = wrong.client.rows::<(u64,)>(Statement::new(ONE)).await.unwrap_err();
    assert!(matches!(failed, StoreError::Store { code: Some(516), .. }), "{failed}");
    assert_eq!(world.second.passed(), 0);
}

#[tokio::test]
async fn a_slow_statement_does_not_mark_a_server_unhealthy() {
    let world = world();
    // Silent for longer than it takes to give up a server that fails its health checks.
    execute(&world.local, SLOW.to_owned()).await;
    let slow = Statement::new("SELECT sum(number < 90) FROM default.slow WHERE number < 90 AND slept = 0");
    let begun = Instant::now();
    let rows: Vec<(u64,)> = world.store.client.rows(slow).await.unwrap();
    assert!(begun.elapsed() > SILENCE + PING_TIMEOUT * PINGS, "{:?}", begun.elapsed());
    assert_eq!(rows, [(90,)]);
    assert_eq!(world.second.passed(), 0);
}

#[tokio::test]
async fn without_endpoints_statements_fail_fast_with_a_retry_time() {
    let world = world();
    for proxy in [&world.first, &world.second] {
        proxy.set(Fault::Refuse);
    }
    let failed = world.ask().await.unwrap_err();
    assert!(matches!(failed, StoreError::Unavailable { .. }), "{failed}");
    // Long enough for the pauses to grow.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let begun = Instant::now();
    let failed = world.ask().await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let StoreError::Unavailable { retry_after_seconds, .. } = failed else { panic!("{failed}") };
    assert!((1..=11).contains(&retry_after_seconds), "{retry_after_seconds}");
    world.second.set(Fault::None);
    world.wait_until_working([false, true]).await;
    assert_eq!(world.ask().await, Ok(3));
}

#[tokio::test]
async fn statements_of_one_request_use_one_endpoint() {
    let world = world();
    let client = world.store.client.session();
    world.first.set(Fault::Refuse);
    let rows: Vec<(u64,)> = client.rows(Statement::new(ONE)).await.unwrap();
    assert_eq!(rows.len(), 3);
    world.first.set(Fault::None);
    world.wait_until_working([true, true]).await;
    let passed = world.first.passed();
    client.rows::<(u64,)>(Statement::new(ONE)).await.unwrap();
    assert_eq!(world.first.passed(), passed, "the first endpoint was queried");
    // Another request uses the first.
    world.store.client.session().rows::<(u64,)>(Statement::new(ONE)).await.unwrap();
    assert!(world.first.passed() > passed);
}

#[tokio::test]
async fn streamed_answers_are_not_restarted() {
    let world = world();
    let wide = Statement::new("SELECT number, repeat('x', 1000) FROM numbers(20000)");
    world.first.set(Fault::CutAfter(3_000_000));
    let mut stream = Box::pin(world.store.client.send(wide.clone(), COLLECTED).await.unwrap().into_stream());
    let mut bytes = 0;
    let failed = loop {
        match stream.next().await.unwrap() {
            Ok(chunk) => bytes += chunk.len(),
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, StoreError::Short(_)), "{failed}");
    assert!(bytes > 0 && stream.next().await.is_none());
    assert_eq!(world.second.passed(), 0);
    // No caller has seen collected rows, so the statement is retried.
    world.first.set(Fault::CutAfter(3_000_000));
    let rows: Vec<(u64, String)> = world.store.client.rows(wide).await.unwrap();
    assert_eq!(rows.len(), 20_000);
    assert!(world.second.passed() > 20_000_000);
}

#[tokio::test]
async fn reader_time_does_not_count_as_clickhouse_time() {
    let world = world();
    let client = world.direct.client.within(Bounds { seconds: 2, rows: 0 });
    let wide = Statement::new("SELECT number, repeat('x', 1000) FROM numbers(60000)");
    let mut stream = Box::pin(client.send(wide, COLLECTED).await.unwrap().into_stream());
    let mut bytes = stream.next().await.unwrap().unwrap().len();
    // The reader delays ClickHouse for longer than the time limit.
    tokio::time::sleep(Duration::from_secs(4)).await;
    while let Some(chunk) = stream.next().await {
        bytes += chunk.unwrap().len();
    }
    assert!(bytes > 60_000_000, "{bytes}");
    // ClickHouse's own work is bounded, also after the first byte.
    execute(&world.local, SLOW.to_owned()).await;
    let slow = "SELECT number, slept, text FROM default.slow";
    let begun = Instant::now();
    let mut stream = Box::pin(client.send(Statement::new(slow), COLLECTED).await.unwrap().into_stream());
    let failed = loop {
        if let Err(error) = stream.next().await.unwrap() {
            break error;
        }
    };
    assert!(matches!(failed, StoreError::Timeout(_)), "{failed}");
    wait_until_nothing_runs(&world).await;
    // Within a second of its limit of two.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn stalled_readers_are_disconnected() {
    let world = world();
    let limit = Duration::from_secs(3);
    let mut config = world.direct.config.as_ref().clone();
    config.answer_timeout_seconds = 3;
    config.max_execution_time_seconds = 1;
    let entropy = world.direct.client.shared.entropy.clone();
    let store = TraceStore::new(config, entropy).unwrap();
    let wide = Statement::new("SELECT number, repeat('x', 1000) FROM numbers(100000)");
    let begun = Instant::now();
    let mut stream = Box::pin(store.client.send(wide, COLLECTED).await.unwrap().into_stream());
    stream.next().await.unwrap().unwrap();
    wait_until_so_many_run(&world, 1).await;
    // For longer than its time limit. On a slow machine a check may end after the deadline.
    while begun.elapsed() < Duration::from_secs(2) {
        let running = world.running().await;
        assert!(running == 1 || begun.elapsed() >= limit, "{running} after {:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep_until((begun + limit + Duration::from_millis(500)).into()).await;
    // Although the reader has not polled again.
    wait_until_nothing_runs(&world).await;
    let failed = loop {
        if let Err(error) = stream.next().await.unwrap() {
            break error;
        }
    };
    assert!(failed.to_string().contains("answer_timeout"), "{failed}");
}

async fn wait_until_nothing_runs(world: &World) {
    wait_until_so_many_run(world, 0).await;
}

async fn wait_until_so_many_run(world: &World, wanted: i64) {
    let begun = Instant::now();
    loop {
        let running = world.running().await;
        if running == wanted {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{running} statements run, and not {wanted}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn silent_endpoints_get_no_statements_while_another_works() {
    let world = world();
    assert_eq!(world.ask().await, Ok(3));
    world.first.set(Fault::Silence);
    let begun = Instant::now();
    // No statement goes to it meanwhile.
    world.wait_until_working([false, true]).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    // If the first had been used, the client would have waited out its silence.
    let begun = Instant::now();
    assert_eq!(world.ask().await, Ok(3));
    assert!(begun.elapsed() < SILENCE, "{:?}", begun.elapsed());
    // The last working endpoint is not marked unhealthy by a health check: a statement finds out itself.
    world.second.set(Fault::Silence);
    assert!(WATCH_PAUSE + WATCH_TIMEOUT <= Duration::from_secs(1), "silence is detected too late");
    tokio::time::sleep(4 * (WATCH_PAUSE + WATCH_TIMEOUT)).await;
    assert_eq!(world.working(), [false, true]);
    world.first.set(Fault::None);
    world.wait_until_working([true, false]).await;
    assert_eq!(world.ask().await, Ok(3));
}

#[tokio::test]
async fn statements_past_their_time_limit_are_abandoned() {
    let world = world();
    // Not a slow statement, which the engine would end in time, but a server that passes health checks and does not answer
    // the statement.
    world.first.set(Fault::PauseAfter(0, Duration::from_secs(20)));
    let client = world.store.client.within(Bounds { seconds: 1, rows: 0 });
    let begun = Instant::now();
    let refused = client.rows::<(u8,)>(Statement::new("SELECT 1")).await;
    let took = begun.elapsed();
    // Not ClickHouse's own message.
    assert!(
        matches!(&refused, Err(StoreError::Timeout(message)) if message == "no response in time"),
        "{refused:?}"
    );
    // ClickHouse has its second, and one more to report the time-out.
    assert!((Duration::from_secs(2)..Duration::from_millis(2_800)).contains(&took), "{took:?}");
    assert_eq!(world.second.passed(), 0);
}

/// The list of a server's settings is read for a statement and counts towards its time limit.
#[tokio::test]
async fn the_settings_of_a_server_are_not_waited_for_longer_than_the_statement() {
    let world = world();
    let client = &world.store.client;
    let sent = names(&client.shared.config);
    let until = |seconds| Instant::now() + Duration::from_secs(seconds);
    // A fresh engine may be slow with its first answer; the second is as long as the third.
    let mut whole = 0;
    for _ in 0..2 {
        let before = world.first.passed();
        let known = client.known_settings(0, &sent, until(30)).await.ok().unwrap();
        assert!(sent.iter().all(|name| known.contains(*name)), "{known:?}");
        whole = world.first.passed() - before;
    }
    assert!(whole > 1_000, "{whole}");
    // Shortly before its end, when the head and most of the body have arrived. The elapsed time in the answer varies in its
    // number of digits.
    world.first.set(Fault::PauseAfter(whole - 32, Duration::from_secs(20)));
    // As above: until the client has seen that its idle connection is closed.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    let refused = client.known_settings(0, &sent, until(1)).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let Err(AttemptError::Final(StoreError::Timeout(message))) = refused else { panic!("it was answered") };
    assert!(message.contains("settings"), "{message}");
}

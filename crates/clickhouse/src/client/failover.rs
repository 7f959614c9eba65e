//! Statements against endpoints with injected faults of every kind, on the real engine behind proxies.

use std::time::{Duration, Instant};

use futures::StreamExt;
use tracewarden_testkit::chaos_proxy::{ChaosProxy, Fault};
use tracewarden_testkit::local_store::LocalStore;

use super::endpoints::{
    HEALTH_CHECK_DELAY, HEALTH_CHECK_INTERVAL, HEALTH_CHECK_TIMEOUT, MAX_FAILED_PINGS, PING_TIMEOUT,
};
use super::pool::Endpoint;
use super::request::COLLECTED_FORMAT;
use super::*;
use crate::ClickHouse;
use crate::agreement::{connect_at, execute};

/// Two proxies in front of one ClickHouse.
struct FailoverFixture {
    store: ClickHouse,
    first: ChaosProxy,
    second: ChaosProxy,
    /// Without a proxy, to read `system.processes`.
    direct: ClickHouse,
    local: LocalStore,
}

const ONE: &str = "SELECT number FROM numbers(3)";

/// A view whose rows take a tenth of a second each: silent for a block, then a block of rows.
const SLOW: &str = "CREATE VIEW default.slow AS SELECT number, sleepEachRow(0.1) AS slept, repeat('x', 100000) AS text \
    FROM numbers(1000) SETTINGS max_block_size = 1";

fn fixture() -> FailoverFixture {
    let local = LocalStore::start().unwrap();
    let address = local.url.trim_start_matches("http://").parse().unwrap();
    let [first, second] = [(), ()].map(|()| ChaosProxy::start(address).unwrap());
    let store = connect_at(&format!("{},{}", first.url(), second.url()), &local.password);
    let direct = connect_at(&local.url, &local.password);
    FailoverFixture { store, first, second, direct, local }
}

impl FailoverFixture {
    async fn run_statement(&self) -> Result<usize> {
        let rows: Vec<(u64,)> = self.store.client.rows(Statement::new(ONE)).await?;
        Ok(rows.len())
    }

    /// Returns which endpoints work.
    fn healthy_endpoints(&self) -> Vec<bool> {
        self.store.client.endpoints.pool.endpoints.iter().map(Endpoint::is_healthy).collect()
    }

    async fn wait_until_healthy(&self, wanted: [bool; 2]) {
        let begun = Instant::now();
        while self.healthy_endpoints() != wanted {
            assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", self.healthy_endpoints());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn metric_value(&self, sample: &str) -> u64 {
        let mut registry = Registry::default();
        self.store.client.register_metrics(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let sample = sample.replace("FIRST", self.first.url().trim_start_matches("http://"));
        let line = text.lines().find_map(|line| line.strip_prefix(&sample)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{sample} in {text}")).parse().unwrap()
    }

    /// Returns how many statements run in ClickHouse, this one excluded.
    async fn running_statements(&self) -> i64 {
        let sql = "SELECT count() - 1 FROM system.processes WHERE query_id LIKE 'tracewarden-%'";
        self.direct.client.rows::<(i64,)>(Statement::new(sql)).await.unwrap()[0].0
    }
}

const BUSY: &str = "HTTP/1.1 500 Internal Server Error\r\nX-ClickHouse-Exception-Code: 202\r\nContent-Length: 9\r\n\
    Connection: close\r\n\r\ntoo many\n";
const SHUTTING_DOWN: &str = "HTTP/1.1 500 Internal Server Error\r\nX-ClickHouse-Exception-Code: 236\r\nContent-Length: 8\r\n\
    Connection: close\r\n\r\naborted\n";
const BAD_GATEWAY: &str = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn statements_fail_over_and_the_first_endpoint_recovers() {
    let fixture = fixture();
    assert_eq!(fixture.run_statement().await, Ok(3));
    let faults = [
        (Fault::Refuse, "cut"),
        (Fault::CutAfter(0), "cut"),
        (Fault::CutAfter(40), "cut"),
        (Fault::Answer(BAD_GATEWAY), "cut"),
        (Fault::Answer(SHUTTING_DOWN), "cannot"),
        (Fault::Silence, "silent"),
    ];
    let mut failures = std::collections::BTreeMap::new();
    for (round, (fault, reason)) in faults.into_iter().enumerate() {
        fixture.first.set(fault);
        // Until the client has seen that its idle connections are closed: a statement over one of them would count as another
        // cut.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let begun = Instant::now();
        assert_eq!(fixture.run_statement().await, Ok(3), "{fault:?}");
        // Only silence takes time to detect.
        let limit = Duration::from_secs(if fault == Fault::Silence { 12 } else { 1 });
        assert!(begun.elapsed() < limit, "{fault:?}: {:?}", begun.elapsed());
        assert_eq!(fixture.healthy_endpoints(), [false, true], "{fault:?}");
        assert_eq!(fixture.metric_value("tracewarden_clickhouse_endpoint_up{endpoint=\"FIRST\"}"), 0);
        assert_eq!(fixture.metric_value("tracewarden_clickhouse_failovers_total"), round as u64 + 1);
        // At once, without a statement to the first.
        let begun = Instant::now();
        assert_eq!(fixture.run_statement().await, Ok(3));
        assert!(begun.elapsed() < Duration::from_secs(1), "{fault:?}: {:?}", begun.elapsed());
        let name = format!(
            "tracewarden_clickhouse_endpoint_failures_total{{endpoint=\"FIRST\",reason=\"{reason}\"}}"
        );
        let failed = fixture.metric_value(&name);
        assert!(failed > failures.insert(reason, failed).unwrap_or_default(), "{fault:?}");
        fixture.first.set(Fault::None);
        fixture.wait_until_healthy([true, true]).await;
        assert_eq!(fixture.metric_value("tracewarden_clickhouse_endpoint_up{endpoint=\"FIRST\"}"), 1);
        let forwarded_bytes = fixture.second.forwarded_bytes();
        assert_eq!(fixture.run_statement().await, Ok(3));
        assert_eq!(fixture.second.forwarded_bytes(), forwarded_bytes, "the first endpoint is queried again");
        failures.insert(reason, fixture.metric_value(&name));
    }
    // No abandoned attempt left a statement running in ClickHouse.
    assert_eq!(fixture.running_statements().await, 0);
}

/// A refused statement goes to another endpoint. Statements about traces that were selected at the full one still go there.
#[tokio::test]
async fn an_overloaded_server_is_not_marked_unhealthy() {
    let fixture = fixture();
    fixture.first.set(Fault::Answer(BUSY));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(fixture.run_statement().await, Ok(3));
    assert_eq!(fixture.healthy_endpoints(), [true, true]);
    let of_first = fixture.store.client.pinned_to(Some(0)).with_limits(QueryLimits { seconds: 1, rows: 0 });
    let failed = of_first.rows::<(u64,)>(Statement::new(ONE)).await.unwrap_err();
    assert!(matches!(failed, ClickHouseError::Unavailable { retry_after_seconds: 1, .. }), "{failed}");
    let failures = "tracewarden_clickhouse_endpoint_failures_total{endpoint=\"FIRST\",reason=\"cannot\"}";
    // The statement was retried there until its time was over.
    assert!(fixture.metric_value(failures) > 3, "{}", fixture.metric_value(failures));
    let waiting = fixture.store.client.pinned_to(Some(0));
    let (waiting, ()) = tokio::join!(waiting.rows::<(u64,)>(Statement::new(ONE)), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        fixture.first.set(Fault::None);
    });
    assert_eq!(waiting.map(|rows| rows.len()), Ok(3));
    // When all are full, the one that gets a free slot first is used.
    for proxy in [&fixture.first, &fixture.second] {
        proxy.set(Fault::Answer(BUSY));
    }
    let (waiting, ()) = tokio::join!(fixture.run_statement(), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        fixture.second.set(Fault::None);
    });
    assert_eq!(waiting, Ok(3));
}

#[tokio::test]
async fn failing_statements_are_not_sent_to_other_endpoints() {
    let fixture = fixture();
    let begun = fixture.metric_value("tracewarden_clickhouse_endpoint_requests_total{endpoint=\"FIRST\"}");
    for (text, code) in
        [("SELECT nothing_here", Some(47)), ("SELEKT 1", Some(62)), ("SELECT throwIf(1)", Some(395))]
    {
        let failed = fixture.store.client.rows::<(u64,)>(Statement::new(text)).await.unwrap_err();
        assert!(
            matches!(&failed, ClickHouseError::Exception { code: c, .. } if *c == code),
            "{text}: {failed}"
        );
    }
    let short = fixture.store.client.with_limits(QueryLimits { seconds: 1, rows: 0 });
    execute(&fixture.local, SLOW.to_owned()).await;
    let slow = Statement::new("SELECT sum(slept) FROM default.slow");
    let failed = short.rows::<(u8,)>(slow).await.unwrap_err();
    assert!(matches!(failed, ClickHouseError::Timeout(_)), "{failed}");
    assert_eq!(fixture.second.forwarded_bytes(), 0);
    assert_eq!(fixture.healthy_endpoints(), [true, true]);
    let requests =
        fixture.metric_value("tracewarden_clickhouse_endpoint_requests_total{endpoint=\"FIRST\"}") - begun;
    assert_eq!(requests, 4);
    // A wrong password is reported, not retried at every endpoint.
    let wrong = connect_at(&format!("{},{}", fixture.first.url(), fixture.second.url()), "wrong");
    let failed = wrong.client.rows::<(u64,)>(Statement::new(ONE)).await.unwrap_err();
    assert!(matches!(failed, ClickHouseError::Exception { code: Some(516), .. }), "{failed}");
    assert_eq!(fixture.second.forwarded_bytes(), 0);
}

#[tokio::test]
async fn a_slow_statement_does_not_mark_a_server_unhealthy() {
    let fixture = fixture();
    // Silent for longer than it takes to give up a server that fails its health checks.
    execute(&fixture.local, SLOW.to_owned()).await;
    let slow = Statement::new("SELECT sum(number < 90) FROM default.slow WHERE number < 90 AND slept = 0");
    let begun = Instant::now();
    let rows: Vec<(u64,)> = fixture.store.client.rows(slow).await.unwrap();
    assert!(begun.elapsed() > HEALTH_CHECK_DELAY + PING_TIMEOUT * MAX_FAILED_PINGS, "{:?}", begun.elapsed());
    assert_eq!(rows, [(90,)]);
    assert_eq!(fixture.second.forwarded_bytes(), 0);
}

#[tokio::test]
async fn without_endpoints_statements_fail_fast_with_a_retry_time() {
    let fixture = fixture();
    for proxy in [&fixture.first, &fixture.second] {
        proxy.set(Fault::Refuse);
    }
    let failed = fixture.run_statement().await.unwrap_err();
    assert!(matches!(failed, ClickHouseError::Unavailable { .. }), "{failed}");
    // Long enough for the pauses to grow.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let begun = Instant::now();
    let failed = fixture.run_statement().await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let ClickHouseError::Unavailable { retry_after_seconds, .. } = failed else { panic!("{failed}") };
    assert!((1..=11).contains(&retry_after_seconds), "{retry_after_seconds}");
    fixture.second.set(Fault::None);
    fixture.wait_until_healthy([false, true]).await;
    assert_eq!(fixture.run_statement().await, Ok(3));
}

#[tokio::test]
async fn statements_of_one_request_use_one_endpoint() {
    let fixture = fixture();
    let client = fixture.store.client.session();
    fixture.first.set(Fault::Refuse);
    let rows: Vec<(u64,)> = client.rows(Statement::new(ONE)).await.unwrap();
    assert_eq!(rows.len(), 3);
    fixture.first.set(Fault::None);
    fixture.wait_until_healthy([true, true]).await;
    let forwarded_bytes = fixture.first.forwarded_bytes();
    client.rows::<(u64,)>(Statement::new(ONE)).await.unwrap();
    assert_eq!(fixture.first.forwarded_bytes(), forwarded_bytes, "the first endpoint was queried");
    // Another request uses the first.
    fixture.store.client.session().rows::<(u64,)>(Statement::new(ONE)).await.unwrap();
    assert!(fixture.first.forwarded_bytes() > forwarded_bytes);
}

#[tokio::test]
async fn streamed_answers_are_not_restarted() {
    let fixture = fixture();
    let wide = Statement::new("SELECT number, repeat('x', 1000) FROM numbers(20000)");
    fixture.first.set(Fault::CutAfter(3_000_000));
    let mut stream =
        Box::pin(fixture.store.client.send(wide.clone(), COLLECTED_FORMAT).await.unwrap().into_stream());
    let mut bytes = 0;
    let failed = loop {
        match stream.next().await.unwrap() {
            Ok(chunk) => bytes += chunk.len(),
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, ClickHouseError::IncompleteResponse(_)), "{failed}");
    assert!(bytes > 0 && stream.next().await.is_none());
    assert_eq!(fixture.second.forwarded_bytes(), 0);
    // No caller has seen collected rows, so the statement is retried.
    fixture.first.set(Fault::CutAfter(3_000_000));
    let rows: Vec<(u64, String)> = fixture.store.client.rows(wide).await.unwrap();
    assert_eq!(rows.len(), 20_000);
    assert!(fixture.second.forwarded_bytes() > 20_000_000);
}

#[tokio::test]
async fn an_answer_whose_task_ends_early_is_an_error() {
    let fixture = fixture();
    let wide = Statement::new("SELECT number, repeat('x', 1000) FROM numbers(60000)");
    let response = fixture.direct.client.send(wide, COLLECTED_FORMAT).await.unwrap();
    let other = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut stream = {
        let _entered = other.enter();
        Box::pin(response.into_stream())
    };
    stream.next().await.unwrap().unwrap();
    other.shutdown_background();
    let failed = loop {
        if let Err(error) = stream.next().await.expect("not the end of the answer") {
            break error;
        }
    };
    assert!(matches!(failed, ClickHouseError::Internal(_)), "{failed}");
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn reader_time_does_not_count_as_clickhouse_time() {
    let fixture = fixture();
    let client = fixture.direct.client.with_limits(QueryLimits { seconds: 2, rows: 0 });
    let wide = Statement::new("SELECT number, repeat('x', 1000) FROM numbers(60000)");
    let mut stream = Box::pin(client.send(wide, COLLECTED_FORMAT).await.unwrap().into_stream());
    let mut bytes = stream.next().await.unwrap().unwrap().len();
    // The reader delays ClickHouse for longer than the time limit.
    tokio::time::sleep(Duration::from_secs(4)).await;
    while let Some(chunk) = stream.next().await {
        bytes += chunk.unwrap().len();
    }
    assert!(bytes > 60_000_000, "{bytes}");
    // ClickHouse's own work is bounded, also after the first byte.
    execute(&fixture.local, SLOW.to_owned()).await;
    let slow = "SELECT number, slept, text FROM default.slow";
    let begun = Instant::now();
    let mut stream =
        Box::pin(client.send(Statement::new(slow), COLLECTED_FORMAT).await.unwrap().into_stream());
    let failed = loop {
        if let Err(error) = stream.next().await.unwrap() {
            break error;
        }
    };
    assert!(matches!(failed, ClickHouseError::Timeout(_)), "{failed}");
    wait_until_idle(&fixture).await;
    // Within a second of its limit of two.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn stalled_readers_are_disconnected() {
    let fixture = fixture();
    let limit = Duration::from_secs(3);
    let mut config = fixture.direct.config.as_ref().clone();
    config.answer_timeout_seconds = 3;
    config.max_execution_time_seconds = 1;
    let entropy = fixture.direct.client.endpoints.entropy.clone();
    let store = ClickHouse::new(config, entropy).unwrap();
    let wide = Statement::new("SELECT number, repeat('x', 1000) FROM numbers(100000)");
    let begun = Instant::now();
    let mut stream = Box::pin(store.client.send(wide, COLLECTED_FORMAT).await.unwrap().into_stream());
    stream.next().await.unwrap().unwrap();
    wait_until_running(&fixture, 1).await;
    // For longer than its time limit. On a slow machine a check may end after the deadline.
    while begun.elapsed() < Duration::from_secs(2) {
        let running_statements = fixture.running_statements().await;
        assert!(
            running_statements == 1 || begun.elapsed() >= limit,
            "{running_statements} after {:?}",
            begun.elapsed()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep_until((begun + limit + Duration::from_millis(500)).into()).await;
    // Although the reader has not polled again.
    wait_until_idle(&fixture).await;
    let failed = loop {
        if let Err(error) = stream.next().await.unwrap() {
            break error;
        }
    };
    assert!(failed.to_string().contains("answer_timeout"), "{failed}");
}

async fn wait_until_idle(fixture: &FailoverFixture) {
    wait_until_running(fixture, 0).await;
}

async fn wait_until_running(fixture: &FailoverFixture, wanted: i64) {
    let begun = Instant::now();
    loop {
        let running_statements = fixture.running_statements().await;
        if running_statements == wanted {
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{running_statements} statements run, and not {wanted}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn silent_endpoints_get_no_statements_while_another_works() {
    let fixture = fixture();
    assert_eq!(fixture.run_statement().await, Ok(3));
    fixture.first.set(Fault::Silence);
    let begun = Instant::now();
    // No statement goes to it meanwhile.
    fixture.wait_until_healthy([false, true]).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    // If the first had been used, the client would have waited out its silence.
    let begun = Instant::now();
    assert_eq!(fixture.run_statement().await, Ok(3));
    assert!(begun.elapsed() < HEALTH_CHECK_DELAY, "{:?}", begun.elapsed());
    // The last working endpoint is not marked unhealthy by a health check: a statement finds out itself.
    fixture.second.set(Fault::Silence);
    assert!(
        HEALTH_CHECK_INTERVAL + HEALTH_CHECK_TIMEOUT <= Duration::from_secs(1),
        "silence is detected too late"
    );
    tokio::time::sleep(4 * (HEALTH_CHECK_INTERVAL + HEALTH_CHECK_TIMEOUT)).await;
    assert_eq!(fixture.healthy_endpoints(), [false, true]);
    fixture.first.set(Fault::None);
    fixture.wait_until_healthy([true, false]).await;
    assert_eq!(fixture.run_statement().await, Ok(3));
}

#[tokio::test]
async fn statements_past_their_time_limit_are_abandoned() {
    let fixture = fixture();
    // Not a slow statement, which the engine would end in time, but a server that passes health checks and does not answer
    // the statement.
    fixture.first.set(Fault::PauseAfter(0, Duration::from_secs(20)));
    let client = fixture.store.client.with_limits(QueryLimits { seconds: 1, rows: 0 });
    let begun = Instant::now();
    let refused = client.rows::<(u8,)>(Statement::new("SELECT 1")).await;
    let took = begun.elapsed();
    // Not ClickHouse's own message.
    assert!(
        matches!(&refused, Err(ClickHouseError::Timeout(message)) if message == "no response in time"),
        "{refused:?}"
    );
    // ClickHouse has its second, and one more to report the time-out.
    assert!((Duration::from_secs(2)..Duration::from_millis(2_800)).contains(&took), "{took:?}");
    assert_eq!(fixture.second.forwarded_bytes(), 0);
}

/// The list of a server's settings is read for a statement and counts towards its time limit.
#[tokio::test]
async fn the_settings_of_a_server_are_not_waited_for_longer_than_the_statement() {
    let fixture = fixture();
    let client = &fixture.store.client;
    let settings = setting_names(&client.endpoints.config);
    let until = |seconds| Instant::now() + Duration::from_secs(seconds);
    // A fresh engine may be slow with its first answer; the second is as long as the third.
    let mut whole = 0;
    for _ in 0..2 {
        let before = fixture.first.forwarded_bytes();
        let known = client
            .endpoints
            .known_settings(&client.endpoints.pool.endpoints[0], &settings, until(30))
            .await
            .ok()
            .unwrap();
        assert!(settings.iter().all(|name| known.contains(*name)), "{known:?}");
        whole = fixture.first.forwarded_bytes() - before;
    }
    assert!(whole > 1_000, "{whole}");
    // Shortly before its end, when the head and most of the body have arrived. The elapsed time in the answer varies in its
    // number of digits.
    fixture.first.set(Fault::PauseAfter(whole - 32, Duration::from_secs(20)));
    // As above: until the client has seen that its idle connection is closed.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    let refused =
        client.endpoints.known_settings(&client.endpoints.pool.endpoints[0], &settings, until(1)).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let Err(AttemptError::Final(ClickHouseError::Timeout(message))) = refused else {
        panic!("it was answered")
    };
    assert!(message.contains("settings"), "{message}");
}

//! Queries that end early: by an error, by a limit, by `KILL QUERY`, or because the client disconnected.

use std::time::{Duration, Instant};

use crate::support::Store;
use crate::support::raw::{encode, read, request, send};
use tracewarden_testkit::memory;

const TWO_SECONDS: Duration = Duration::from_secs(2);
/// Time-out until a query is running, which these tests do not measure.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Long-running statements that differ in when they return rows: never, at the end, continuously.
const LONG_QUERIES: [&str; 4] = [
    "SELECT sum(cityHash64(number)) FROM numbers(1000000000000)",
    "SELECT number FROM numbers(3000000000) ORDER BY cityHash64(number) LIMIT 3 SETTINGS max_bytes_before_external_sort = 0",
    "SELECT number, sleepEachRow(0.01) FROM numbers(1000000) SETTINGS max_block_size = 1",
    "SELECT number FROM numbers(100000000000)",
];

fn running(id: &str) -> String {
    format!("SELECT count() FROM system.processes WHERE query_id = '{id}'")
}

#[test]
fn a_late_error_breaks_the_answer_in_clickhouses_way() {
    let store = Store::start();
    let statement = "SELECT number, throwIf(number = 5000000, 'late') FROM numbers(10000000) FORMAT TSV";
    let answer = store.post("", statement);
    assert_eq!((answer.status, answer.complete), (200, false), "the last chunk must be missing");
    let tag = answer.header("x-clickhouse-exception-tag").expect("a tag").to_owned();
    let begin = format!("\r\n__exception__\r\n{tag}\r\n");
    let end = format!(" {tag}\r\n__exception__\r\n");
    let text = answer.text();
    let start = text.rfind(&begin).expect("the exception block");
    let block = text[start + begin.len()..].strip_suffix(end.as_str()).expect("its end");
    let (message, length) = block.rsplit_once('\n').expect("the length");
    assert_eq!(length.parse::<usize>().expect("a number"), message.len() + 1);
    assert!(message.starts_with("Code: 395. DB::Exception: late"), "{message}");

    // Data that looks like an exception remains data.
    let imitation = "SELECT '\\r\\n__exception__\\r\\naaaaaaaaaaaaaaaa\\r\\nCode: 1. DB::Exception: no\\n29 aaaaaaaaaaaaaaaa\\r\\n__exception__\\r\\n' FORMAT TSVRaw";
    let answer = store.post("", imitation);
    assert!(answer.status == 200 && answer.complete);

    let waited = store.post("wait_end_of_query=1", statement);
    assert_eq!((waited.status, waited.code(), waited.complete), (500, Some(395), true));
    let whole = store.post("wait_end_of_query=1", "SELECT number FROM numbers(10000000) FORMAT TSV");
    assert_eq!((whole.status, whole.complete, whole.body.len()), (200, true, 78_888_890));
    assert!(
        whole
            .header("x-clickhouse-summary")
            .is_some_and(|summary| summary.contains("\"result_rows\":\"10000000\""))
    );
}

#[test]
fn limits_are_errors() {
    let store = Store::start();
    for statement in LONG_QUERIES {
        let start = Instant::now();
        let answer = store.post("max_execution_time=1", statement);
        let took = start.elapsed();
        assert!(took > Duration::from_millis(900) && took < TWO_SECONDS, "{statement}: {took:?}");
        assert!(
            answer.text().contains("Code: 159. DB::Exception: Timeout exceeded"),
            "{statement}: {}",
            answer.text().len()
        );
        assert!(!answer.complete || (answer.status == 408 && answer.code() == Some(159)), "{statement}");
    }
    for (parameters, code) in [
        ("max_rows_to_read=10", 158),
        ("max_result_rows=10&result_overflow_mode=throw", 396),
        ("max_memory_usage=1000000", 241),
        ("max_bytes_to_read=10", 307),
    ] {
        let answer = store.post(
            parameters,
            "SELECT groupArray(toString(number)) FROM numbers(10000000) GROUP BY number % 100000",
        );
        assert_eq!(answer.code(), Some(code), "{parameters}: {}", answer.text());
    }
}

#[test]
fn kill_query_stops_by_the_clients_id() {
    let store = Store::start();
    for (index, statement) in LONG_QUERIES.iter().enumerate() {
        let id = format!("victim '{index}");
        let victim =
            send(&store.address, "POST", &format!("/?query_id={}", encode(&id)), &[], statement.as_bytes());
        let quoted = id.replace('\'', "\\'");
        store.wait_for(&running(&quoted), "1", START_TIMEOUT);
        let twin = store.post(&format!("query_id={}", encode(&id)), "SELECT 1");
        assert_eq!((twin.status, twin.code()), (500, Some(216)));
        let reader = std::thread::spawn(move || read(victim));
        assert_eq!(
            store
                .text(&format!("KILL QUERY WHERE query_id = '{quoted}' TEST FORMAT TSVRaw"))
                .split('\t')
                .nth(1),
            Some(id.as_str())
        );
        assert_eq!(store.text(&running(&quoted)), "1", "TEST only shows");
        let start = Instant::now();
        let killed = store.text(&format!("KILL QUERY WHERE query_id = '{quoted}' ASYNC FORMAT TSVRaw"));
        assert_eq!(killed.split('\t').take(3).collect::<Vec<_>>(), ["waiting", &id, "default"]);
        let shown = killed.split('\t').nth(3).expect("the text");
        assert!(shown.starts_with(statement) && !shown.contains("OUTFILE"), "{shown}");
        let answer = reader.join().expect("the reader");
        assert!(start.elapsed() < TWO_SECONDS, "{statement}: {:?}", start.elapsed());
        assert!(answer.text().contains("Code: 394. DB::Exception: Query was cancelled"), "{statement}");
        assert!(!answer.complete || answer.code() == Some(394));
    }
    assert_eq!(store.text("KILL QUERY WHERE query_id = 'unknown-user'"), "");
    assert_eq!(store.post("", "KILL QUERY WHERE nosuch = 1").code(), Some(47));
}

const CANCEL_ON_DISCONNECT: &str = "readonly=2&cancel_http_readonly_queries_on_client_close=1";

#[test]
fn a_client_disconnect_stops_its_query() {
    let store = Store::start();
    for (index, statement) in LONG_QUERIES.iter().cycle().take(20).enumerate() {
        let id = format!("left-{index}");
        let target = format!("/?query_id={id}&{CANCEL_ON_DISCONNECT}");
        let client = send(&store.address, "POST", &target, &[], statement.as_bytes());
        store.wait_for(&running(&id), "1", START_TIMEOUT);
        drop(client);
        store.wait_for(&running(&id), "0", TWO_SECONDS);
        // The query id is free again.
        assert_eq!(store.post(&format!("query_id={id}"), "SELECT 1").status, 200);
    }
    // A query continues if its client did not request cancellation, or if it may change data.
    for (index, settings) in
        ["readonly=2", "cancel_http_readonly_queries_on_client_close=1"].iter().enumerate()
    {
        let id = format!("goes-on-{index}");
        let target = format!("/?query_id={id}&{settings}");
        let client = send(&store.address, "POST", &target, &[], LONG_QUERIES[0].as_bytes());
        store.wait_for(&running(&id), "1", START_TIMEOUT);
        drop(client);
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(store.text(&running(&id)), "1", "{settings}");
        store.text(&format!("KILL QUERY WHERE query_id = '{id}' SYNC"));
        store.wait_for(&running(&id), "0", TWO_SECONDS);
    }
}

#[test]
fn a_slow_reader_holds_the_query_back_and_not_the_memory() {
    let store = Store::start();
    let before = memory::resident(store.pid()).unwrap();
    let reader = send(
        &store.address,
        "POST",
        "/?query_id=slow",
        &[],
        b"SELECT number, repeat('x', 100) FROM numbers(10000000)",
    );
    store.wait_for(&running("slow"), "1", START_TIMEOUT);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(store.text(&running("slow")), "1");
    let answer = read(reader);
    assert!(answer.complete && answer.body.len() > 1_000_000_000);
    let grown = memory::peak(store.pid()).unwrap().saturating_sub(before) >> 20;
    println!("1 GB streamed, {grown} MB more than before");
    assert!(grown < 512, "{grown} MB");
}

#[test]
fn too_many_queries_are_refused() {
    let store = Store::start_with(&["--max-queries", "2"]);
    let begun = Instant::now();
    let mut busy = Vec::new();
    // The query that checks whether both run also takes a place, so the second one may be rejected; then the loop
    // starts another one.
    let refused = loop {
        let target = format!("/?query_id=b{}&{CANCEL_ON_DISCONNECT}", busy.len());
        busy.push(send(&store.address, "POST", &target, &[], LONG_QUERIES[0].as_bytes()));
        let answer = request(&store.address, "POST", "/", &[], b"SELECT 1");
        if answer.status != 200 {
            break answer;
        }
        assert!(begun.elapsed() < START_TIMEOUT, "no query was refused with {} running queries", busy.len());
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!((refused.status, refused.code()), (500, Some(202)));
    assert!(busy.len() >= 2, "a single query must not be refused");
    drop(busy);
    let start = Instant::now();
    while request(&store.address, "POST", "/", &[], b"SELECT 1").status != 200 {
        assert!(start.elapsed() < TWO_SECONDS);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_waiting_insert_can_be_killed() {
    let store = Store::start();
    store.text("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a");
    let target = format!("/?query_id=ins&query={}", encode("INSERT INTO t FORMAT TSV"));
    let client = send(&store.address, "POST", &target, &[("Transfer-Encoding", "chunked")], b"2\r\n1\n\r\n");
    store.wait_for(&running("ins"), "1", START_TIMEOUT);
    store.text("KILL QUERY WHERE query_id = 'ins' SYNC");
    assert!(read(client).text().contains("Code: 394"));
    assert_eq!(store.text("SELECT count() FROM t"), "0");
}

//! Settings, sessions and credentials of a request, and their isolation from other requests.

use crate::support::Store;
use crate::support::raw::{encode, request};

#[test]
fn settings_hold_for_one_request_and_cannot_smuggle_statements() {
    let store = Store::start();
    let default = store.text("SELECT getSetting('max_threads')");
    assert_eq!(store.post("max_threads=7", "SELECT getSetting('max_threads')").text(), "7\n");
    assert_eq!(store.text("SELECT getSetting('max_threads')"), default);
    store.text("SET max_threads = 9");
    assert_eq!(store.text("SELECT getSetting('max_threads')"), default);

    // Settings in the URL are applied first; then `readonly` restricts the statement's own clause.
    let answer =
        store.post("readonly=1&max_threads=3&max_execution_time=5", "SELECT getSetting('max_threads')");
    assert_eq!((answer.status, answer.text().as_str()), (200, "3\n"), "{}", answer.text());
    for (readonly, statement) in [
        (1, "SELECT 1 SETTINGS max_threads = 11"),
        (1, "SELECT 1 SETTINGS readonly = 0"),
        (2, "SELECT 1 SETTINGS readonly = 0"),
        (1, "SET readonly = 0"),
        (2, "SET readonly = 0"),
        (1, "CREATE TABLE t (a UInt8) ENGINE = Memory"),
        (2, "CREATE TABLE t (a UInt8) ENGINE = Memory"),
        (1, "CREATE TEMPORARY TABLE t (a UInt8)"),
        (1, "INSERT INTO FUNCTION file('/tmp/x.csv', 'CSV', 'a UInt8') VALUES (1)"),
        (1, "SELECT * FROM file('/etc/passwd', 'LineAsString')"),
        (1, "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')"),
    ] {
        let answer = store.post(&format!("readonly={readonly}"), statement);
        assert_eq!(
            answer.code(),
            Some(164),
            "readonly={readonly} {statement}: {} {}",
            answer.status,
            answer.text()
        );
    }
    store.text("CREATE TABLE kept (a UInt8) ENGINE = MergeTree ORDER BY a");
    for statement in [
        "INSERT INTO kept VALUES (1)",
        "INSERT INTO kept SELECT 1",
        "DROP TABLE kept",
        "TRUNCATE TABLE kept",
        "ALTER TABLE kept DELETE WHERE 1",
    ] {
        for readonly in [1, 2] {
            assert_eq!(
                store.post(&format!("readonly={readonly}"), statement).code(),
                Some(164),
                "{statement}"
            );
        }
    }
    assert_eq!(store.text("SELECT count() FROM kept"), "0");

    for name in [
        "nosuch",
        "max_threads%20%3D%202%2C%20readonly",
        "a%3B%20DROP%20TABLE%20kept",
        "%60max_threads%60",
        "max_threads%00",
        "--",
        "'",
    ] {
        let answer = store.post(&format!("{name}=1"), "SELECT 1");
        assert_eq!((answer.status, answer.code()), (404, Some(115)), "{name}: {}", answer.text());
    }
    for value in ["1', readonly = '0", "x\\', readonly = 0 --", "'; DROP TABLE kept; --", "\0", "a\nb"] {
        let answer = store.post(
            &format!("log_comment={}&readonly=1", encode(value)),
            "SELECT hex(getSetting('log_comment')), getSetting('readonly')",
        );
        let text = answer.text();
        let expected: String = value.bytes().map(|byte| format!("{byte:02X}")).collect();
        assert!(text.trim_end().ends_with(&format!("{expected}\t1")), "{value:?}: {text}");
        assert_eq!(
            store.post(&format!("max_threads={}", encode(value)), "SELECT 1").status,
            400,
            "{value:?}"
        );
    }
    assert_eq!(store.text("EXISTS TABLE kept"), "1");
    let hostile = store.post(&format!("database={}", encode("`; DROP TABLE kept; --")), "SELECT 1");
    assert_eq!(hostile.code(), Some(81), "{}", hostile.text());
}

#[test]
fn settings_compose_with_the_statements_own_clauses() {
    let store = Store::start();
    store.text("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a SETTINGS index_granularity = 1024");
    for statement in [
        "SELECT getSetting('max_threads'), getSetting('max_block_size') SETTINGS max_block_size = 11",
        "SELECT getSetting('max_threads'), getSetting('max_block_size') SETTINGS max_block_size = 11 FORMAT TSV",
        "SELECT getSetting('max_threads'), getSetting('max_block_size') FORMAT TSV SETTINGS max_block_size = 11",
    ] {
        assert_eq!(store.post("max_threads=3", statement).text(), "3\t11\n", "{statement}");
    }
    for insert in [
        "INSERT INTO t VALUES (1), (2)",
        "INSERT INTO t SETTINGS async_insert = 0 FORMAT CSV 3\n4\n",
        "INSERT INTO t FORMAT TSV\n5\n6\n",
        "INSERT INTO t SELECT 7 SETTINGS max_threads = 1",
    ] {
        let answer = store.post("max_threads=3&max_insert_block_size=100", insert);
        assert_eq!(answer.status, 200, "{insert}: {}", answer.text());
    }
    assert_eq!(store.text("SELECT count(), sum(a) FROM t"), "7\t28");
    assert!(store.text("SHOW CREATE TABLE t").contains("index_granularity = 1024"));
}

#[test]
fn a_request_leaves_nothing_to_the_next_one() {
    let store = Store::start();
    let query =
        "SELECT getSetting('max_threads'), currentDatabase(), endsWith(getSetting('log_comment'), ':x')";
    let answer = store.post("session_id=s&max_threads=5&readonly=1&database=system&log_comment=x", query);
    assert_eq!(answer.text(), "5\tsystem\t1\n");
    // The id of a session is accepted, but each request is on its own.
    for statement in ["SET max_threads = 3", "USE system", "CREATE TEMPORARY TABLE mine AS SELECT 5 AS x"] {
        assert_eq!(store.post("session_id=s", statement).status, 200, "{statement}");
    }
    // The store's own mark ends with the colon that precedes a client's comment.
    let after = "SELECT toString(getSetting('max_threads')) IN ('3', '5'), getSetting('readonly'), currentDatabase(), \
                 endsWith(getSetting('log_comment'), ':')";
    assert_eq!(store.post("session_id=s&session_timeout=9", after).text(), "0\t0\tdefault\t1\n");
    assert_eq!(store.post("session_id=s", "SELECT x FROM mine").code(), Some(60));
}

#[test]
fn only_the_configured_user_gets_in() {
    let store = Store::start_with(&["--user", "u", "--password", "p:q"]);
    let query = |headers: &[(&str, &str)], parameters: &str| {
        request(&store.address, "POST", &format!("/?{parameters}"), headers, b"SELECT 1")
    };
    for (headers, parameters) in [
        (vec![("X-ClickHouse-User", "u"), ("X-ClickHouse-Key", "p:q")], ""),
        (vec![("Authorization", "Basic dTpwOnE=")], ""),
        (vec![], "user=u&password=p%3Aq"),
    ] {
        assert_eq!(query(&headers, parameters).text(), "1\n", "{headers:?}");
    }
    for (headers, parameters) in [
        (vec![], ""),
        (vec![("X-ClickHouse-User", "u")], ""),
        (vec![("X-ClickHouse-User", "default")], ""),
        (vec![("Authorization", "Basic dTpwOnE="), ("X-ClickHouse-User", "u")], ""),
        (vec![], "user=u&password=p"),
    ] {
        let answer = query(&headers, parameters);
        assert_eq!((answer.status, answer.code()), (403, Some(516)), "{headers:?}");
    }
    assert_eq!(request(&store.address, "GET", "/ping", &[], b"").status, 200);
}

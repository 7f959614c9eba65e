//! Start and end of the process.

use std::time::Duration;

use crate::support::raw::request;
use crate::support::{PASSWORD_VARIABLE, Store, binary};

const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

fn fails_with(arguments: &[&str], expected: &str) {
    let output = binary().args(arguments).output().expect("the binary starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains(expected), "{arguments:?}: {text}");
    assert!(output.stdout.is_empty());
}

#[test]
fn mistakes_are_explained() {
    let empty = tempfile::tempdir().expect("a directory");
    let never_made = empty.path().join("never-made");
    let data = never_made.to_str().expect("UTF-8");
    fails_with(&[], "--data <DIR>");
    fails_with(&["--data", data, "--engine", "/nonexistent/libchdb.so"], "cargo xtask engine");
    fails_with(&["--data", "/proc/none", "--listen", "127.0.0.1:0"], "cannot create the data directory");
    fails_with(&["--data", "x", "--listen", "nowhere"], "--listen");
    assert!(!never_made.exists());
    let output = binary()
        .args(["--data", data])
        .env_remove("TRACEWARDEN_LIBCHDB")
        .env("XDG_CACHE_HOME", empty.path())
        .output()
        .expect("starts");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("tracewarden/engine/26.7.3-stable.1/libchdb.so")
    );
}

#[test]
fn one_process_per_data_directory_and_data_survive() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = Store::start_on(directory.path(), &[]);
    let data = directory.path().to_str().expect("UTF-8");
    fails_with(&["--data", data, "--listen", "127.0.0.1:0"], "is in use by another");
    let busy = store.address.clone();
    let other = tempfile::tempdir().expect("a directory");
    fails_with(&["--data", other.path().to_str().expect("UTF-8"), "--listen", &busy], "cannot listen on");
    store.text("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a");
    store.text("INSERT INTO t VALUES (1), (2)");
    store.signal("TERM");
    assert!(store.wait(EXIT_TIMEOUT).success());
    let store = Store::start_on(directory.path(), &[]);
    assert_eq!(store.text("SELECT sum(a) FROM t"), "3");
}

#[test]
fn the_data_directory_may_be_relative() {
    let directory = tempfile::tempdir().expect("a directory");
    for path in ["./spans", "spans", "spans/../others"] {
        let store = Store::start_in(directory.path(), path.as_ref(), &["--otlp", "127.0.0.1:0"]);
        // This table syncs its directories, using their paths.
        let answer =
            store.post("", "INSERT INTO otel.otel_traces (Timestamp, TraceId) VALUES (now64(9), 'a')");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    assert!(directory.path().join("spans/clickhouse").is_dir());
    assert!(directory.path().join("others/clickhouse").is_dir());
}

#[test]
fn it_ends_on_signals() {
    let mut by_signal = Store::start();
    // A running query must not delay the end.
    let _client = crate::support::raw::send(
        &by_signal.address,
        "POST",
        "/",
        &[],
        b"SELECT sum(number) FROM numbers(1000000000000)",
    );
    std::thread::sleep(Duration::from_millis(200));
    by_signal.signal("INT");
    assert!(by_signal.wait(Duration::from_secs(20)).success());

    let mut by_stdin = Store::start();
    by_stdin.close_stdin();
    assert!(by_stdin.wait(EXIT_TIMEOUT).success());
}

#[test]
fn the_password_may_come_from_the_environment() {
    let store = Store::start_with_password("canary-secret");
    let query = |headers: &[(&str, &str)]| request(&store.address, "POST", "/", headers, b"SELECT 1");
    for headers in [vec![], vec![("X-ClickHouse-Key", "")], vec![("X-ClickHouse-Key", "canary")]] {
        let answer = query(&headers);
        assert_eq!((answer.status, answer.code()), (403, Some(516)), "{headers:?}");
    }
    let answer = query(&[("X-ClickHouse-Key", "canary-secret")]);
    assert_eq!((answer.status, answer.text().as_str()), (200, "1\n"));

    let output = binary().arg("--help").env(PASSWORD_VARIABLE, "canary-secret").output().expect("starts");
    let help = String::from_utf8_lossy(&output.stdout);
    assert!(help.contains(PASSWORD_VARIABLE) && !help.contains("canary-secret"));
}

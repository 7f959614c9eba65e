//! `tracewarden audit verify`, beside a running service on either database.

use std::sync::Arc;

use serde_json::json;
use sqlx::Connection as _;
use tracewarden_testkit::postgres;

use crate::support::{Service, program};

/// The status and what was printed on both outputs.
fn verify(service: &Service, arguments: &[&str]) -> (Option<i32>, String) {
    let output = service.command().args(["audit", "verify"]).args(arguments).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(printed).unwrap())
}

fn head(printed: &str) -> String {
    printed.lines().find_map(|line| line.strip_prefix("head ")).unwrap().to_owned()
}

async fn run(service: &Service, statement: &str) {
    sqlx::any::install_default_drivers();
    let mut connection = sqlx::AnyConnection::connect(&service.database_url()).await.unwrap();
    let done = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
    assert_eq!(done.rows_affected(), 1, "{statement}");
}

async fn tampering_shows(service: Service) {
    let admin = service.admin().await;
    let (status, early) = verify(&service, &[]);
    assert_eq!(status, Some(0), "{early}");
    assert!(early.starts_with("intact: 2 records\nfrom 1 ("), "{early}");
    for name in ["ada", "bo"] {
        admin.post("/users", json!({"username": name})).await.expect(201);
    }
    let (status, printed) = verify(&service, &["--head", &head(&early)]);
    assert_eq!(status, Some(0), "{printed}");
    assert!(printed.contains("intact: 4 records") && printed.contains("noted head 2: fits"), "{printed}");

    // Whoever rewrites everything makes a chain that is intact in itself, but not the one whose head was noted.
    let noted = head(&early);
    let digits = &noted[noted.len() - 8..];
    let other = noted.replace(digits, if digits == "00000000" { "11111111" } else { "00000000" });
    let (status, printed) = verify(&service, &["--head", &noted, "--head", &other]);
    assert_eq!(status, Some(1), "{printed}");
    assert!(printed.contains("broken at record 2: it is not the record whose hash was noted"), "{printed}");
    let beyond = noted.replacen('2', "9", 1);
    let (status, printed) = verify(&service, &["--head", &beyond]);
    assert_eq!(status, Some(1), "{printed}");
    assert!(printed.contains("broken at record 9: the log ends before"), "{printed}");

    run(&service, "UPDATE audit SET target = 'eve' WHERE sequence = 3").await;
    let (status, printed) = verify(&service, &[]);
    assert_eq!(status, Some(1), "{printed}");
    assert!(printed.starts_with("broken at record 3: its content is not what was written"), "{printed}");
    run(&service, "UPDATE audit SET target = 'ada' WHERE sequence = 3").await;
    assert_eq!(verify(&service, &[]).0, Some(0));

    run(&service, "DELETE FROM audit WHERE sequence = 4").await;
    let (status, printed) = verify(&service, &[]);
    assert_eq!(status, Some(1), "{printed}");
    assert!(printed.starts_with("broken at record 4: the log does not end"), "{printed}");
}

#[tokio::test]
async fn tampering_shows_on_sqlite() {
    tampering_shows(Service::start()).await;
}

#[tokio::test]
async fn tampering_shows_on_postgresql() {
    tampering_shows(Service::start_on(&Arc::new(postgres::database().unwrap()), &[])).await;
}

#[test]
fn what_cannot_be_checked_is_not_intact() {
    let directory = tempfile::tempdir().unwrap();
    let run = |url: &str, arguments: &[&str]| {
        let mut command = program();
        command.current_dir(directory.path()).env("TRACEWARDEN_DATABASE_URL", url);
        let output = command.args(["audit", "verify"]).args(arguments).output().unwrap();
        assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, error) = run("sqlite:absent.db", &[]);
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("absent.db") && !directory.path().join("absent.db").exists(), "{error}");
    std::fs::write(directory.path().join("empty.db"), "").unwrap();
    let (status, error) = run("sqlite:empty.db", &[]);
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("holds no data of this service"), "{error}");
    // Discard: nothing listens there.
    let (status, error) = run("postgres://tracewarden:hunter2@127.0.0.1:9/tracewarden", &[]);
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("unavailable") && !error.contains("hunter2"), "{error}");
    let (status, error) = run("mysql://tracewarden:hunter2@127.0.0.1/x", &[]);
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("`TRACEWARDEN_DATABASE_URL`") && !error.contains("hunter2"), "{error}");
    let (status, error) = run("sqlite:empty.db", &["--head", "5"]);
    assert_eq!(status, Some(2), "{error}");
}

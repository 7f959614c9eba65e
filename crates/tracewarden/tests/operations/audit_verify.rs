//! `tracewarden audit verify` while the service runs, with either database.

use std::sync::Arc;

use serde_json::{Value, json};
use sqlx::Connection as _;
use tracewarden_testkit::postgres;
use tracewarden_testkit::wait::until;

use crate::support::{Service, program};

/// Returns the exit status and the output on both streams.
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

    // An attacker who rewrites the whole log makes a chain that is intact in itself, but does not contain the noted head.
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
    assert!(printed.starts_with("broken at record 3: its content has been changed"), "{printed}");
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

async fn removals_show(mut service: Service) {
    let admin = service.admin().await;
    let (status, printed) = verify(&service, &[]);
    assert!(status == Some(0) && !printed.contains("removal"), "{printed}");
    let early = head(&printed);
    service.restart_with(&[("TRACEWARDEN_AUDIT_RETENTION", "1s")]);
    let admin = admin.at(&service);
    let removed =
        async || admin.get("/audit?action=audit.prune&limit=1").await.expect(200).body["records"][0].clone();
    until(removed, Value::is_object).await;
    // Stop further removals for the rest of the test.
    service.restart_with(&[("TRACEWARDEN_AUDIT_RETENTION", "unlimited")]);
    let newest =
        admin.at(&service).get("/audit?action=audit.prune&limit=1").await.expect(200).body["records"][0]
            .clone();
    let newest_removal = format!(
        "{} ({}): {} from before {}, through {}",
        newest["id"].as_str().unwrap(),
        newest["at"].as_str().unwrap(),
        newest["detail"]["removed"],
        newest["detail"]["before"].as_str().unwrap(),
        newest["detail"]["through"]
    );
    let (status, printed) = verify(&service, &[]);
    assert_eq!(status, Some(0), "{printed}");
    assert!(
        printed.contains(&format!("of the records report a removal, the newest is {newest_removal}\n")),
        "{printed}"
    );
    let late = head(&printed);
    // The removal may be legitimate; it is printed for operators who know how old the records were.
    let (status, printed) = verify(&service, &["--head", &early, "--head", &late]);
    let since = format!("noted head 2: older records were removed since, see {newest_removal}\n");
    assert!(printed.contains(&since) && matches!(status, Some(0 | 2)), "{status:?} {printed}");
    let (number, _) = late.split_once(':').unwrap();
    assert!(printed.contains(&format!("noted head {number}: fits\n")), "{printed}");
    assert_eq!(printed.matches("removed since").count(), 1, "{printed}");

    // A tampered record is not removed, however old its time is, and the refusal is logged and counted.
    admin.at(&service).post("/users", json!({"username": "ada"})).await.expect(201);
    run(&service, "UPDATE audit SET at = 0, target = 'eve' WHERE action = 'user.create'").await;
    service.restart_with(&[
        ("TRACEWARDEN_AUDIT_RETENTION", "1s"),
        ("TRACEWARDEN_METRICS_LISTEN", "127.0.0.1:0"),
    ]);
    let refused = |log: &String| log.contains("its content has been changed");
    let log = until(async || service.log(), refused).await;
    let line = log.lines().find(|line| line.contains("its content has been changed")).unwrap();
    assert!(line.contains("ERROR") && line.contains("old audit records were not removed"), "{line}");
    let metrics = crate::operations::metrics::scrape(&service).await;
    assert!(
        crate::operations::metrics::value(&metrics, "tracewarden_audit_prune_refusals_total") >= 1.0,
        "{metrics}"
    );
    let (status, printed) = verify(&service, &[]);
    assert_eq!(status, Some(1), "{printed}");
    assert!(printed.contains("its content has been changed"), "{printed}");
}

#[tokio::test]
async fn removals_show_on_sqlite() {
    removals_show(Service::start()).await;
}

#[tokio::test]
async fn removals_show_on_postgresql() {
    removals_show(Service::start_on(&Arc::new(postgres::database().unwrap()), &[])).await;
}

/// Missing parts count as broken, not as unavailable.
#[tokio::test]
async fn a_log_without_its_end_or_its_table_is_broken() {
    for (statement, missing) in [
        ("DELETE FROM audit_head", "the one row of `audit_head` is missing"),
        ("DROP TABLE audit_head", "the table `audit_head` is missing"),
        ("DROP TABLE audit", "the table `audit` is missing"),
    ] {
        // A new service for each: if several are missing, only the first one is reported.
        for service in [Service::start(), Service::start_on(&Arc::new(postgres::database().unwrap()), &[])] {
            service.admin().await;
            sqlx::any::install_default_drivers();
            let mut connection = sqlx::AnyConnection::connect(&service.database_url()).await.unwrap();
            sqlx::query(statement).execute(&mut connection).await.unwrap();
            let (status, printed) = verify(&service, &[]);
            assert_eq!(status, Some(1), "{statement}: {printed}");
            let expected = format!("broken: the log cannot be read in full: {missing}");
            assert!(printed.contains(&expected), "{statement}: {printed}");
        }
    }
}

#[test]
fn a_log_that_cannot_be_checked_is_not_intact() {
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
    assert!(error.contains("contains no data of this service"), "{error}");
    // The discard port: no program listens on it.
    let (status, error) = run("postgres://tracewarden:hunter2@127.0.0.1:9/tracewarden", &[]);
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("unavailable") && !error.contains("hunter2"), "{error}");
    let (status, error) = run("mysql://tracewarden:hunter2@127.0.0.1/x", &[]);
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("`TRACEWARDEN_DATABASE_URL`") && !error.contains("hunter2"), "{error}");
    let (status, error) = run("sqlite:empty.db", &["--head", "5"]);
    assert_eq!(status, Some(2), "{error}");
}

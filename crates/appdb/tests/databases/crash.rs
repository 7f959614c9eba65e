//! A process that is killed while it writes. Acknowledged changes must exist, no change may be partial, and every
//! change must have its audit record.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use tracewarden_appdb::{AppDb, AuditFilter, NewAuditRecord, Policy};
use tracewarden_model::Timestamp;

use crate::fixture::{Fixture, on_both};

const URL: &str = "APPDB_CRASH_URL";
const KILLS: usize = 20;

fn now() -> Timestamp {
    Timestamp::from_micros(0)
}

fn change(number: u64) -> String {
    format!("role{number:06}")
}

/// The process to kill: this same test program. The test does nothing unless the environment variable names a database.
#[tokio::test]
async fn writer() {
    let Ok(url) = std::env::var(URL) else { return };
    let db = AppDb::open(&url, now()).await.unwrap();
    let first = db.begin_read().await.unwrap().audit_head().await.unwrap().0;
    for number in first.. {
        let name = change(number);
        let policy = Policy { title: name.clone(), expression: "true".to_owned(), description: None };
        let mut tx = db.begin_write().await.unwrap();
        tx.put_role(&name, &[policy], now()).await.unwrap();
        tx.append_audit(&NewAuditRecord {
            completes: None,
            at: now(),
            actor_id: None,
            actor_name: None,
            credential_id: None,
            via: "service",
            action: "role.put",
            outcome: "success",
            request_id: "",
            client_ip: None,
            user_agent: None,
            target: Some(&name),
            detail: "{}",
        })
        .await
        .unwrap();
        tx.commit().await.unwrap();
        println!("done {name}");
        std::io::stdout().flush().unwrap();
    }
}

on_both!(killed_while_writing);

async fn killed_while_writing(fixture: &Fixture) {
    let url = fixture.url();
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::writer", "--nocapture"])
            .env(URL, &url)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let done = lines.map_while(Result::ok).filter_map(|line| {
            // The test program's own output precedes the first message on its line.
            line.split_once("done ").map(|(_, name)| name.to_owned())
        });
        let before = acknowledged.len();
        // A different number of changes in each round, and a short delay that is no multiple of the time of one change.
        for name in done {
            acknowledged.push(name);
            if acknowledged.len() - before > round % 7 {
                break;
            }
        }
        assert!(acknowledged.len() > before, "the writer died by itself");
        std::thread::sleep(std::time::Duration::from_micros(370 * round as u64));
        child.kill().unwrap();
        child.wait().unwrap();

        let db = AppDb::open(&url, now()).await.unwrap();
        let mut tx = db.begin_read().await.unwrap();
        assert_eq!(tx.verify_audit(|_, _| ()).await.unwrap().err(), None, "round {round}");
        let roles = tx.roles().await.unwrap();
        let records = tx.audit_records(&AuditFilter::default(), u32::MAX).await.unwrap();
        let mut recorded: Vec<_> = records.into_iter().filter_map(|record| record.target).collect();
        recorded.sort_unstable();
        let made: Vec<_> =
            roles.iter().map(|role| role.name.clone()).filter(|name| name != "admin").collect();
        assert_eq!(
            made, recorded,
            "round {round}: a change without a record, or a record without its change"
        );
        let whole = roles.iter().all(|role| role.name == "admin" || role.policies.len() == 1);
        assert!(whole, "round {round}: a role without its policy");
        let lost: Vec<_> = acknowledged.iter().filter(|name| !made.contains(name)).collect();
        assert!(lost.is_empty(), "round {round}: acknowledged and lost: {lost:?}");
        drop(tx);
        db.close().await;
    }
}

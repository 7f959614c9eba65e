//! `kill -9` of the service while it removes old audit records and writes a role concurrently. Afterwards, the chain is
//! intact, the old records are removed together with a record of it or all exist, no newer record is removed, and each
//! write has its record.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use reqwest::Method;
use serde_json::{Value, json};
use tracewarden_appdb::{AUDIT_PRUNE, AppDb, AuditFilter, NewAuditRecord, ReadTx};
use tracewarden_model::Timestamp;
use tracewarden_testkit::postgres;
use tracewarden_testkit::progress::Progress;
use tracewarden_testkit::repetitions::Repetitions;
use tracewarden_testkit::wait::until;

use super::kill_timing::KillTiming;
use super::{VICTIM, wait_until_the_last_statement_ended};
use crate::replicas::audit_log;
use crate::replicas::random;
use crate::support::{Client, Service};

/// Fewer than the service removes in one transaction, so they are removed together or not at all.
const OLD_RECORDS: usize = 400;

/// Records that a run writes never become that old.
const RETENTION: (&str, &str) = ("TRACEWARDEN_AUDIT_RETENTION", "1d");

const LONG_AGO: Timestamp = Timestamp::from_micros(0);

const ROLE: &str = "beside";

/// Every n-th kill waits until a write is acknowledged, however long that takes. The removal runs first and blocks writes,
/// so there might otherwise never be one before its end.
const WRITTEN_BEFORE: usize = 5;

const TIMEOUT: Duration = Duration::from_secs(60);

/// The old records, which are the whole log.
#[derive(Clone, Copy)]
struct OldRecords {
    /// Sequence number of the last record removed before.
    anchor: u64,
    /// Sequence number of the last old record.
    last: u64,
}

async fn open(service: &Service) -> AppDb {
    AppDb::open(&service.database_url(), LONG_AGO).await.unwrap()
}

fn old_record<'a>(action: &'a str, detail: &'a str) -> NewAuditRecord<'a> {
    NewAuditRecord {
        completes: None,
        at: LONG_AGO,
        actor_id: None,
        actor_name: None,
        credential_id: None,
        via: "service",
        action,
        outcome: "success",
        request_id: "",
        client_ip: None,
        user_agent: None,
        target: None,
        detail,
    }
}

/// Replaces the log by old records. The existing ones are removed as the service does it; the record of that removal is
/// old, too, since records after a newer one are never removed.
async fn insert_old_records(service: &Service) -> OldRecords {
    let db = open(service).await;
    let mut tx = db.begin_write().await.unwrap();
    let pruned = tx.prune_audit(Timestamp::MAX, u32::MAX).await.unwrap().unwrap();
    let detail = json!({"through": pruned.through, "hash": pruned.hash, "removed": pruned.removed});
    tx.append_audit(&old_record(AUDIT_PRUNE, &detail.to_string())).await.unwrap();
    for _ in 1..OLD_RECORDS {
        tx.append_audit(&old_record("login", "{}")).await.unwrap();
    }
    let last = tx.audit_head().await.unwrap().0;
    tx.commit().await.unwrap();
    db.close().await;
    OldRecords { anchor: pruned.through, last }
}

/// Writes the role until a write is not answered, and counts the acknowledged writes.
async fn write_until_interrupted(admin: Client, round: usize, acknowledged: Arc<AtomicUsize>) {
    for number in 1.. {
        let policies = json!({"policies": [{"title": title(round, number), "expression": "true"}]});
        let request = admin.request(Method::PUT, &format!("/roles/{ROLE}")).json(&policies);
        let Ok(response) = request.send().await else { return };
        let status = response.status();
        assert!(status.is_success(), "{status}");
        acknowledged.store(number, Ordering::SeqCst);
    }
}

async fn wait_for_a_write(acknowledged: &AtomicUsize) {
    until(async || acknowledged.load(Ordering::SeqCst), |acknowledged| *acknowledged > 0).await;
}

fn title(round: usize, write: usize) -> String {
    format!("{round}.{write}")
}

/// Kills the process, and waits until the database has finished its statements.
async fn kill(victim: &mut Service) {
    victim.kill();
    if let Some(database) = &victim.database {
        wait_until_the_last_statement_ended(database).await;
    }
}

/// Returns the time from the start of the service until the old records are removed, without a kill.
async fn measure_without_kills(victim: &mut Service, admin: &Client) -> Duration {
    kill(victim).await;
    let old = insert_old_records(victim).await;
    let db = open(victim).await;
    victim.restart_with(&[]);
    let begun = Instant::now();
    // Not the titles of a round: a write that changes nothing is acknowledged, and is no change.
    let writing = tokio::spawn(write_until_interrupted(admin.at(victim), usize::MAX, Arc::default()));
    while db.begin_read().await.unwrap().audit_anchor().await.unwrap().0 != old.last {
        assert!(begun.elapsed() < TIMEOUT, "old records stay");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let taken = begun.elapsed();
    db.close().await;
    kill(victim).await;
    writing.await.unwrap();
    taken
}

/// Whether the old records are removed. They must be removed with a record of it, or all exist without one; the chain after
/// them must be intact.
async fn old_records_are_removed(tx: &mut ReadTx, old: OldRecords, round: usize) -> bool {
    let log = tx.verify_audit(|_, _| ()).await.unwrap().unwrap();
    let newest = log.newest_removal.unwrap();
    let gone = newest.record.sequence > old.last;
    let through = if gone { old.last } else { old.anchor };
    assert_eq!(
        (log.anchor.0, newest.removed.through, log.removals),
        (through, through, 1),
        "round {round}: anchor, last removal and number of removals"
    );
    assert_eq!(log.records, log.head.0 - through, "round {round}: other records are missing");
    assert!(!gone || newest.removed.removed == old.last - old.anchor, "round {round}: {newest:?}");
    gone
}

/// Checks that each change since this one has its record and each record its change, and that the role has the state of the
/// last change. Returns the number of changes.
async fn check_writes(tx: &mut ReadTx, since: u64, round: usize, acknowledged: usize) -> usize {
    let changes = tx.changes(None, 1_000).await.unwrap();
    let made: Vec<u64> =
        changes.iter().map(|change| change.number).filter(|number| *number > since).collect();
    let filter = AuditFilter { action: Some("role.put"), outcome: Some("success"), ..AuditFilter::default() };
    let records = tx.audit_records(&filter, 1_000).await.unwrap();
    let number = |detail: &str| serde_json::from_str::<Value>(detail).unwrap()["version"].as_u64().unwrap();
    let recorded = records.iter().map(|record| number(&record.detail)).filter(|number| *number > since);
    let recorded: Vec<u64> = recorded.collect();
    assert_eq!(recorded, made, "round {round}: a change without a record, or a record without its change");
    assert!(
        made.len() == acknowledged || made.len() == acknowledged + 1,
        "round {round}: {acknowledged} acknowledged, {} made",
        made.len()
    );
    if !made.is_empty() {
        let role = tx.role(ROLE).await.unwrap().unwrap();
        assert_eq!(role.policies[0].title, title(round, made.len()));
    }
    made.len()
}

async fn kills(mut victim: Service, mut random: ChaCha8Rng, database: &str) {
    let rounds = Repetitions::always(20).get("TRACEWARDEN_TEST_KILLS");
    let begun = Instant::now();
    let admin = victim.admin().await;
    let taken = measure_without_kills(&mut victim, &admin).await;
    let mut kill_timing = KillTiming::at(taken);
    let mut left = None;
    let (mut near_commit, mut removed, mut written, mut made) = (0, 0, 0, 0);
    let progress = Progress::of(rounds, format!("kills of removals on {database}"));
    for round in 0..rounds {
        progress.at(round);
        let old = match left.take() {
            Some(old) => old,
            None => insert_old_records(&victim).await,
        };
        let db = open(&victim).await;
        let since = db.begin_read().await.unwrap().change_number().await.unwrap();
        victim.restart_with(&[]);
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let writing =
            tokio::spawn(write_until_interrupted(admin.at(&victim), round, Arc::clone(&acknowledged)));
        let is_near_commit = round % WRITTEN_BEFORE != 1;
        if is_near_commit {
            tokio::time::sleep(kill_timing.next(&mut random)).await;
        } else {
            wait_for_a_write(&acknowledged).await;
            tokio::time::sleep(Duration::from_micros(random.random_range(0..30_000))).await;
        }
        kill(&mut victim).await;
        writing.await.unwrap();
        let acknowledged = acknowledged.load(Ordering::SeqCst);
        let mut tx = db.begin_read().await.unwrap();
        let gone = old_records_are_removed(&mut tx, old, round).await;
        made += check_writes(&mut tx, since, round, acknowledged).await;
        drop(tx);
        db.close().await;
        if is_near_commit {
            kill_timing.update_estimate(gone);
            near_commit += 1;
            removed += usize::from(gone);
        }
        written += acknowledged;
        left = (!gone).then_some(old);
    }
    audit_log::verify_by_command(&victim);
    println!(
        "{database}: {rounds} kills in {:.0} s of removals that take {taken:.1?}: of {near_commit} at it, {removed} after the commit, \
         the others before it; beside them {written} writes acknowledged, {made} made",
        begun.elapsed().as_secs_f64(),
    );
    assert!(removed < near_commit, "no kill came before the commit of a removal");
    assert!(removed > 0, "no old records were removed");
    assert!(written > 0, "no write was acknowledged before a kill");
}

/// Tests both databases concurrently: the service is starting most of the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn removals_of_old_records_are_recorded_or_rolled_back() {
    let seed = random::seed();
    let on_sqlite = Service::start_with(&[RETENTION]);
    let database = Arc::new(postgres::database().unwrap());
    let url = format!("{}?application_name={VICTIM}", database.url());
    let on_postgresql =
        Service::start_on(&database, &[("TRACEWARDEN_DATABASE_URL", url.as_str()), RETENTION]);
    let runs = [
        tokio::spawn(kills(on_sqlite, random::source(seed, 0), "SQLite")),
        tokio::spawn(kills(on_postgresql, random::source(seed, 1), "PostgreSQL")),
    ];
    for run in runs {
        run.await.unwrap();
    }
}

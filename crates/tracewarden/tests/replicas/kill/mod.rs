//! `kill -9` of the service at random moments of administrative writes, on both databases. Afterwards, every acknowledged
//! change is stored, no change is partially applied, each change has its audit record and each record its change.

mod accounts;
mod imports;
mod kill_timing;
mod objects;
mod observer;
mod reads;
mod removals;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tracewarden_appdb::{AppDb, AuditFilter, AuditRecord};
use tracewarden_model::Timestamp;
use tracewarden_testkit::postgres::{self, Database};
use tracewarden_testkit::progress::Progress;
use tracewarden_testkit::repetitions::Repetitions;
use tracewarden_testkit::wait::until;

use crate::replicas::audit_log;
use crate::replicas::random;
use crate::support::store::{self, Store};
use crate::support::{Client, Service};
use objects::{ACTIONS, TABLES};
use observer::Observer;
use writers::{Attempt, Writer};

const WRITERS: usize = 4;

/// Trusts the forwarded addresses that the writers send.
const PROXY: (&str, &str) = ("TRACEWARDEN_TRUSTED_PROXIES", "127.0.0.1/32");

/// Application name of the killed process in PostgreSQL.
const VICTIM: &str = "victim";

/// User agent of the second replica's own writes.
const OTHER_REPLICA: &str = "bystander";

/// With fewer rounds, rare actions may never be in progress at a kill.
const MIN_ROUNDS_FOR_ALL_ACTIONS: usize = 500;

/// Returns an address to send requests from. A failed or interrupted sign-in still counts against its address, so hundreds
/// from one address would exceed the rate limit.
fn address(block: usize, number: usize) -> String {
    let [.., high, low] = number.to_be_bytes();
    format!("10.{block}.{high}.{low}")
}

/// The application database, read independently of the service.
struct Log {
    db: AppDb,
    /// Sequence number of the last record that was read.
    last_read: u64,
}

impl Log {
    async fn open(service: &Service) -> Self {
        let db = AppDb::open(&service.database_url(), Timestamp::from_micros(0)).await.unwrap();
        let last_read = db.begin_read().await.unwrap().audit_head().await.unwrap().0;
        Self { db, last_read }
    }

    /// Returns the audit records since the last call, newest first.
    async fn new_records(&mut self) -> Vec<AuditRecord> {
        let mut tx = self.db.begin_read().await.unwrap();
        let last_read = std::mem::replace(&mut self.last_read, tx.audit_head().await.unwrap().0);
        let records = tx.audit_records(&AuditFilter::default(), 10_000).await.unwrap();
        records.into_iter().filter(|record| record.sequence > last_read).collect()
    }

    /// Checks that the history contains the current access model.
    async fn check_history(&self) {
        let mut tx = self.db.begin_read().await.unwrap();
        let last = tx.change_number().await.unwrap();
        let recorded_state = tx.model_state(Some(last)).await.unwrap();
        assert!(recorded_state == tx.model_state(None).await.unwrap(), "the history contains another model");
    }
}

/// Summary of a run.
#[derive(Default)]
struct Summary {
    rounds: usize,
    /// For each action, the number of acknowledged and of interrupted changes.
    actions: BTreeMap<&'static str, [usize; 2]>,
    applied_without_answer: usize,
    other_replica: usize,
}

impl Summary {
    /// Checks that every success in the log matches an observed change, and vice versa.
    fn check(&mut self, round: usize, attempts: &[Attempt], new_records: &[AuditRecord]) {
        check_outcomes_are_consistent(round, new_records);
        let mut records: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for record in new_records.iter().filter(|record| record.outcome == "success") {
            records.entry(record.user_agent.as_deref().unwrap_or("")).or_default().push(&record.action);
        }
        self.other_replica += records.remove(OTHER_REPLICA).map_or(0, |written| written.len());
        for attempt in attempts {
            let written = records.remove(attempt.mark.as_str()).unwrap_or_default();
            let expected = if attempt.applied { vec![attempt.action] } else { Vec::new() };
            assert_eq!(written, expected, "round {round}: change and record differ: {attempt:?}");
            self.actions.entry(attempt.action).or_default()[usize::from(!attempt.acknowledged)] += 1;
            self.applied_without_answer += usize::from(attempt.applied && !attempt.acknowledged);
        }
        // Records of the service itself, and of sign-ins by tests without a user agent.
        records.remove("");
        assert!(records.is_empty(), "round {round}: records without a change: {records:?}");
    }

    fn acknowledged(&self) -> usize {
        self.actions.values().map(|[acknowledged, _]| acknowledged).sum()
    }

    fn interrupted(&self) -> usize {
        self.actions.values().map(|[_, interrupted]| interrupted).sum()
    }

    /// Prints a summary, and checks that enough changes were made.
    fn print_and_check(&self, database: &str, begun: Instant) {
        println!(
            "{database}: {} rounds in {:.0} s: {} changes acknowledged and kept, {} without an answer, {} of \
             these made; none lost, none partial, each with its audit record",
            self.rounds,
            begun.elapsed().as_secs_f64(),
            self.acknowledged(),
            self.interrupted(),
            self.applied_without_answer
        );
        println!("acknowledged and without an answer: {:?}", self.actions);
        assert!(
            self.acknowledged() >= self.rounds && self.interrupted() >= self.rounds,
            "too few changes to test anything"
        );
        let is_cut_off =
            |action: &&str| self.actions.get(*action).is_some_and(|[_, interrupted]| *interrupted > 0);
        let never_interrupted: Vec<&str> = ACTIONS.into_iter().filter(|action| !is_cut_off(action)).collect();
        assert!(
            self.rounds < MIN_ROUNDS_FOR_ALL_ACTIONS || never_interrupted.is_empty(),
            "never running at a kill: {never_interrupted:?}"
        );
    }
}

fn check_outcomes_are_consistent(round: usize, new_records: &[AuditRecord]) {
    let mut outcomes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for record in new_records {
        outcomes.entry(&record.request_id).or_default().insert(&record.outcome);
    }
    // Records of the service itself have no request id.
    outcomes.remove("");
    for (request, outcomes) in outcomes {
        assert!(
            outcomes.len() == 1 || !outcomes.contains("success"),
            "round {round}: the audit log has contradicting outcomes of the request {request}: {outcomes:?}"
        );
    }
}

/// Runs all writers, and kills the victim at a random moment.
async fn write_until_killed(
    round: usize,
    writers: Vec<Writer>,
    victim: &mut Service,
    admin: &Client,
    random: &mut ChaCha8Rng,
) -> Vec<Writer> {
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for writer in writers {
        let (admin, acknowledged) = (admin.at(victim), Arc::clone(&acknowledged));
        tasks.push(tokio::spawn(writer.write_until_interrupted(round, admin, acknowledged)));
    }
    // A random number of changes per round, and a short time that is not a multiple of one change.
    let wanted = random.random_range(1..20);
    while acknowledged.load(Ordering::SeqCst) < wanted {
        assert!(!tasks.iter().any(tokio::task::JoinHandle::is_finished), "the service ended by itself");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_micros(random.random_range(0..30_000))).await;
    victim.kill();
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

async fn rounds(mut victim: Service, other_replica: Option<Service>, database: &str) {
    let rounds = Repetitions::always(50).get("TRACEWARDEN_TEST_KILLS");
    let seed = random::seed();
    let mut random = random::source(seed, u64::MAX);
    let begun = Instant::now();
    let admin = victim.admin().await;
    store::bind(&admin).await;
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        writers.push(Writer::prepare(number, &victim, &admin, random::source(seed, number as u64)).await);
    }
    let mut log = Log::open(&victim).await;
    let stop = Arc::new(AtomicBool::new(false));
    let bystanding =
        other_replica.as_ref().map(|service| tokio::spawn(go_on(admin.at(service), Arc::clone(&stop))));
    let mut sum = Summary { rounds, ..Summary::default() };
    let progress = Progress::of(rounds, format!("kills on {database}"));
    for round in 0..rounds {
        progress.at(round);
        writers = write_until_killed(round, writers, &mut victim, &admin, &mut random).await;
        // The other replica, if there is one, can be queried at once; otherwise a new process on the same database is
        // queried.
        match &other_replica {
            Some(other_replica) => {
                wait_until_the_last_statement_ended(other_replica.database.as_ref().unwrap()).await
            }
            None => victim.restart_with(&[]),
        }
        let observer = Observer::new(admin.at(other_replica.as_ref().unwrap_or(&victim)), round);
        let settled = join_all(writers.iter_mut().map(|writer| writer.settle(&observer))).await;
        observer.check_consistency().await;
        log.check_history().await;
        let attempts: Vec<Attempt> = settled.into_iter().flatten().collect();
        sum.check(round, &attempts, &log.new_records().await);
        if other_replica.is_some() {
            victim.restart_with(&[]);
        }
        if round % 10 == 9 {
            audit_log::verified(&victim).await;
        }
    }
    stop.store(true, Ordering::SeqCst);
    if let Some(bystanding) = bystanding {
        let answers = bystanding.await.unwrap();
        println!("the other replica answered {answers} requests in the meantime");
        assert!(answers > rounds, "{answers}");
    }
    audit_log::verified(&victim).await;
    audit_log::verify_by_command(&victim);
    let marks: BTreeSet<usize> = writers.iter().map(Writer::written).collect();
    assert!(!marks.contains(&0), "a writer wrote nothing: {marks:?}");
    sum.print_and_check(database, begun);
}

/// PostgreSQL still executes statements that the killed process had sent: a COMMIT in transit takes effect after the kill.
async fn wait_until_the_last_statement_ended(database: &Database) {
    // Other tests have victims on the same server.
    let left = format!(
        "SELECT count(*) FROM pg_stat_activity \
         WHERE application_name = '{VICTIM}' AND datname = current_database()"
    );
    until(async || database.run(&[&left]).unwrap(), |left| left == "0").await;
}

/// The second replica continues to work, whatever lock the killed one held.
async fn go_on(admin: Client, stop: Arc<AtomicBool>) -> usize {
    let mut answers = 0;
    while !stop.load(Ordering::SeqCst) {
        let policies = json!({"policies": [{"title": format!("{answers}"), "expression": "true"}]});
        let put = admin.with("user-agent", OTHER_REPLICA).put("/roles/bystander", policies).await;
        assert!(matches!(put.status, 200 | 201), "{}: {}", put.status, put.body);
        admin.get("/me").await.expect(200);
        answers += 2;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    answers
}

/// Starts ClickHouse with two tables that can be bound.
async fn store_with_two_tables() -> Store {
    let store = Store::start();
    store.run(&format!("CREATE TABLE otel.{} AS otel.{}", TABLES[1], TABLES[0])).await;
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_half_done_on_sqlite() {
    let store = store_with_two_tables().await;
    let service = Service::start_with(&[&store.settings()[..], &[PROXY]].concat());
    rounds(service, None, "SQLite").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_half_done_on_postgresql() {
    let store = store_with_two_tables().await;
    let database = Arc::new(postgres::database().unwrap());
    let url = format!("{}?application_name={VICTIM}", database.url());
    let named = [("TRACEWARDEN_DATABASE_URL", url.as_str()), PROXY];
    let victim = Service::start_on(&database, &[&store.settings()[..], &named].concat());
    let other_replica = Service::start_on(&database, &[&store.settings()[..], &[PROXY]].concat());
    rounds(victim, Some(other_replica), "PostgreSQL").await;
}

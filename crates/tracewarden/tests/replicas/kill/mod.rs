//! `kill -9` of the service at random moments of administrative writes, on both databases. Afterwards: what was
//! acknowledged is there, nothing is half done, each change has its record and each record its change.

mod imports;
mod objects;
mod reads;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::RngExt as _;
use serde_json::json;
use tracewarden_appdb::{AppDb, AuditFilter, AuditRecord};
use tracewarden_model::Timestamp;
use tracewarden_testkit::postgres::{self, Database};

use crate::audit_log;
use crate::chance;
use crate::fleet::count;
use crate::support::store::{self, Store};
use crate::support::{Client, Service};
use objects::Observer;
use writers::{Attempt, Writer};

const WRITERS: usize = 4;

/// Writers say which addresses they come from.
const PROXY: (&str, &str) = ("TRACEWARDEN_TRUSTED_PROXIES", "127.0.0.1/32");

/// What the killed process calls itself at PostgreSQL.
const VICTIM: &str = "victim";

/// What the second replica's own writes call themselves.
const BYSTANDER: &str = "bystander";

/// The audit log, beside the service.
struct Log {
    db: AppDb,
    /// The last record that was looked at.
    seen: u64,
}

impl Log {
    async fn open(service: &Service) -> Self {
        let db = AppDb::open(&service.database_url(), Timestamp::from_micros(0)).await.unwrap();
        let seen = db.begin_read().await.unwrap().audit_head().await.unwrap().0;
        Self { db, seen }
    }

    /// Entries since the last time, newest first.
    async fn news(&mut self) -> Vec<AuditRecord> {
        let mut tx = self.db.begin_read().await.unwrap();
        let seen = std::mem::replace(&mut self.seen, tx.audit_head().await.unwrap().0);
        let records = tx.audit_records(&AuditFilter::default(), 10_000).await.unwrap();
        records.into_iter().filter(|record| record.sequence > seen).collect()
    }
}

/// What a run came to.
#[derive(Default)]
struct Sum {
    rounds: usize,
    acknowledged: usize,
    unanswered: usize,
    applied_without_answer: usize,
    bystander: usize,
}

impl Sum {
    /// Every success in the log is a change that was seen, and the other way round.
    fn check(&mut self, round: usize, attempts: &[Attempt], news: &[AuditRecord]) {
        let mut outcomes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for record in news {
            outcomes.entry(&record.request_id).or_default().insert(&record.outcome);
        }
        // What the service does by itself has no request.
        outcomes.remove("");
        for (request, outcomes) in outcomes {
            assert!(
                outcomes.len() == 1 || !outcomes.contains("success"),
                "round {round}: of the request {request} the log says that it was done and that it was not: {outcomes:?}"
            );
        }
        let mut records: BTreeMap<&str, usize> = BTreeMap::new();
        for record in news.iter().filter(|record| record.outcome == "success") {
            *records.entry(record.user_agent.as_deref().unwrap_or("")).or_default() += 1;
        }
        self.bystander += records.remove(BYSTANDER).unwrap_or(0);
        for attempt in attempts {
            let written = records.remove(attempt.mark.as_str()).unwrap_or(0);
            match (attempt.acknowledged, attempt.applied) {
                (true, _) => {
                    self.acknowledged += 1;
                    assert_eq!(written, 1, "round {round}: acknowledged without its record: {attempt:?}");
                }
                (false, Some(applied)) => {
                    self.unanswered += 1;
                    self.applied_without_answer += usize::from(applied);
                    assert_eq!(
                        written,
                        usize::from(applied),
                        "round {round}: change and record differ: {attempt:?}"
                    );
                }
                // A log-in whose answer was lost: nobody knows its session.
                (false, None) => {
                    self.unanswered += 1;
                    assert!(written <= 1, "round {round}: {attempt:?}");
                }
            }
        }
        // The service itself has none, and tests sign in without a name.
        records.remove("");
        assert!(records.is_empty(), "round {round}: records without a change: {records:?}");
    }
}

async fn rounds(mut victim: Service, bystander: Option<Service>, database: &str) {
    let rounds = count("TRACEWARDEN_TEST_KILLS", 50);
    let seed = chance::seed();
    let mut chance = chance::source(seed, u64::MAX);
    let begun = Instant::now();
    let admin = victim.admin().await;
    store::bind(&admin).await;
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        writers.push(Writer::prepare(number, &victim, &admin, chance::source(seed, number as u64)).await);
    }
    let mut log = Log::open(&victim).await;
    let stop = Arc::new(AtomicBool::new(false));
    let bystanding =
        bystander.as_ref().map(|service| tokio::spawn(go_on(admin.at(service), Arc::clone(&stop))));
    let mut sum = Sum { rounds, ..Sum::default() };
    for round in 0..rounds {
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = writers
            .drain(..)
            .map(|writer| {
                let (admin, acknowledged) = (admin.at(&victim), Arc::clone(&acknowledged));
                tokio::spawn(writer.write_until_cut_off(round, admin, acknowledged))
            })
            .collect();
        // Another number of changes in each round, and a little time that is no multiple of one change.
        let wanted = chance.random_range(1..20);
        while acknowledged.load(Ordering::SeqCst) < wanted {
            assert!(
                !tasks.iter().any(tokio::task::JoinHandle::is_finished),
                "the service went away by itself"
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_micros(chance.random_range(0..30_000))).await;
        victim.kill();
        for task in tasks {
            writers.push(task.await.unwrap());
        }
        // The other replica, where there is one, tells at once; else the same database under a new process does.
        match &bystander {
            Some(bystander) => {
                wait_until_the_last_statement_ended(bystander.database.as_ref().unwrap()).await
            }
            None => victim.restart_with(&[]),
        }
        let observer = Observer::new(admin.at(bystander.as_ref().unwrap_or(&victim))).await;
        let mut attempts = Vec::new();
        for writer in &mut writers {
            attempts.extend(writer.settle(&observer).await);
        }
        observer.nothing_is_half_done().await;
        sum.check(round, &attempts, &log.news().await);
        if bystander.is_some() {
            victim.restart_with(&[]);
        }
        if round % 10 == 9 {
            audit_log::verified(&victim).await;
        }
    }
    stop.store(true, Ordering::SeqCst);
    if let Some(bystanding) = bystanding {
        let answers = bystanding.await.unwrap();
        println!("the other replica answered {answers} requests meanwhile");
        assert!(answers > rounds, "{answers}");
    }
    audit_log::verified(&victim).await;
    audit_log::verified_by_command(&victim);
    let marks: BTreeSet<usize> = writers.iter().map(Writer::written).collect();
    assert!(!marks.contains(&0), "a writer wrote nothing: {marks:?}");
    println!(
        "{database}: {} rounds in {:.0} s: {} changes acknowledged and kept, {} cut off, {} of them done; nothing lost, \
         nothing half done, each with its record",
        sum.rounds,
        begun.elapsed().as_secs_f64(),
        sum.acknowledged,
        sum.unanswered,
        sum.applied_without_answer
    );
    assert!(
        sum.acknowledged >= rounds && sum.unanswered >= rounds,
        "too little was written to mean anything"
    );
}

/// What the killed process had sent, the server still does: a COMMIT that was on its way takes effect after the kill.
async fn wait_until_the_last_statement_ended(database: &Database) {
    let left = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{VICTIM}'");
    while database.run(&[&left]).unwrap() != "0" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The second replica goes on, whatever lock the killed one held.
async fn go_on(admin: Client, stop: Arc<AtomicBool>) -> usize {
    let mut answers = 0;
    while !stop.load(Ordering::SeqCst) {
        let policies = json!({"policies": [{"title": format!("{answers}"), "expression": "true"}]});
        let put = admin.with("user-agent", BYSTANDER).put("/roles/bystander", policies).await;
        assert!(matches!(put.status, 200 | 201), "{}: {}", put.status, put.body);
        admin.get("/me").await.expect(200);
        answers += 2;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_half_done_on_sqlite() {
    let store = Store::start();
    let service = Service::start_with(&[&store.settings()[..], &[PROXY]].concat());
    rounds(service, None, "SQLite").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_half_done_on_postgresql() {
    let store = Store::start();
    let database = Arc::new(postgres::database().unwrap());
    let url = format!("{}?application_name={VICTIM}", database.url());
    let named = [("TRACEWARDEN_DATABASE_URL", url.as_str()), PROXY];
    let victim = Service::start_on(&database, &[&store.settings()[..], &named].concat());
    let bystander = Service::start_on(&database, &store.settings());
    rounds(victim, Some(bystander), "PostgreSQL").await;
}

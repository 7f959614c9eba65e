//! `kill -9` of the service while it replaces the whole access model, by an import or a restore: 200 roles with 1,000
//! policies, other fields, other tests. Afterwards, the old or the new model is current, in full, and the history and the
//! audit log agree.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use reqwest::Method;
use serde_json::{Value, json};
use tracewarden_appdb::{AppDb, AuditFilter};
use tracewarden_model::Timestamp;
use tracewarden_testkit::postgres;
use tracewarden_testkit::progress::Progress;
use tracewarden_testkit::repetitions::Repetitions;

use super::kill_timing::KillTiming;
use super::{VICTIM, wait_until_the_last_statement_ended};
use crate::replicas::audit_log;
use crate::replicas::random;
use crate::support::store::{self, Store};
use crate::support::{Client, Service};

const ROLES: usize = 200;
const POLICIES_OF_A_ROLE: usize = 5;

/// Returns a model file with 200 roles from number `first` on. Two models share some roles, all with different policies,
/// and have different fields and tests.
fn file(stored: &Value, first: usize) -> Value {
    let policy = |role: usize, number: usize| {
        let expression = match number {
            0 => format!("SpanAttributes[\"team\"] == \"team {role} of {first}\""),
            1 => format!("ServiceName in [\"a{role}\", \"b{first}\"]"),
            _ => format!("ServiceName == \"service {role}.{number}.{first}\""),
        };
        json!({"title": format!("policy {number}"), "expression": expression, "description": format!("of {first}")})
    };
    let roles: Vec<Value> = (first..first + ROLES)
        .map(|role| {
            let policies: Vec<Value> = (0..POLICIES_OF_A_ROLE).map(|number| policy(role, number)).collect();
            json!({"name": format!("role{role:03}"), "policies": policies})
        })
        .collect();
    let mut fields = stored["fields"].as_array().unwrap().clone();
    if first > 0 {
        fields.retain(|field| field["name"] != "Duration");
    }
    json!({
        "binding": stored["binding"],
        "fields": fields,
        "roles": roles,
        "users": [{"username": "ada", "roles": [format!("role{first:03}")]}],
        "traces": [{"name": "one", "spans": [{"ServiceName": format!("b{first}")}]}],
        "tests": [{"name": "sees it", "user": "ada", "trace": "one", "visible": true}],
    })
}

/// Returns the current model: its version, and the exported file.
async fn export(admin: &Client) -> (u64, Vec<u8>) {
    let answer = admin.get("/schema/export").await.expect(200);
    let tag = answer.headers["etag"].to_str().unwrap().trim_matches('"').to_owned();
    (tag.parse().unwrap(), answer.bytes)
}

/// A model that is made current.
#[derive(Clone)]
struct Model {
    file: Value,
    /// The version that it had first.
    change: u64,
    /// The exported file.
    text: Vec<u8>,
}

/// How a model is made current.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Import,
    Restore,
}

impl Operation {
    const ALL: [Self; 2] = [Self::Import, Self::Restore];

    /// Name of the action in the history and the audit log.
    fn action(self) -> &'static str {
        match self {
            Self::Import => "model.import",
            Self::Restore => "model.restore",
        }
    }

    /// Replaces the model of the version `last`; `None` if there was no answer.
    async fn put(self, admin: &Client, last: u64, model: &Model) -> Option<()> {
        let admin = admin.with("if-match", &format!("\"{last}\""));
        let request = match self {
            Self::Import => admin.request(Method::PUT, "/schema/import").json(&model.file),
            Self::Restore => {
                admin.request(Method::POST, &format!("/schema/history/{}/restore", model.change))
            }
        };
        let response = request.send().await.ok()?;
        let status = response.status();
        let body = response.bytes().await.ok()?;
        assert!(status.is_success(), "{self:?}: {status}: {}", String::from_utf8_lossy(&body));
        Some(())
    }
}

/// Returns two models, and the time of the commit of each way to replace one, measured without kills: both are imported,
/// then the first is restored.
async fn measure_without_kills(admin: &Client) -> ([Model; 2], [KillTiming; 2]) {
    let (before, stored) = export(admin).await;
    let stored: Value = serde_json::from_slice(&stored).unwrap();
    let model = |first: usize, change: u64| Model { file: file(&stored, first), change, text: Vec::new() };
    let mut models = [model(0, before + 1), model(ROLES / 2, before + 2)];
    let mut longest = Duration::ZERO;
    for model in &mut models {
        let started = Instant::now();
        assert!(Operation::Import.put(admin, model.change - 1, model).await.is_some());
        longest = longest.max(started.elapsed());
        let (change, text) = export(admin).await;
        assert_eq!(change, model.change);
        model.text = text;
    }
    assert!(models[0].text != models[1].text, "the two models are equal");
    let started = Instant::now();
    assert!(Operation::Restore.put(admin, before + 2, &models[0]).await.is_some());
    let kill_timings = [KillTiming::at(longest), KillTiming::at(started.elapsed())];
    assert!(export(admin).await == (before + 3, models[0].text.clone()), "the restored model differs");
    (models, kill_timings)
}

/// Checks in the database that the history agrees with the tables, and the audit records with the history.
async fn history_and_records_agree(service: &Service, change: u64) {
    let db = AppDb::open(&service.database_url(), Timestamp::from_micros(0)).await.unwrap();
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.change_number().await.unwrap(), change);
    let now = tx.model_state(None).await.unwrap().unwrap();
    assert!(
        tx.model_state(Some(change)).await.unwrap().unwrap() == now,
        "the history contains another model"
    );
    let changes = tx.changes(None, u32::MAX).await.unwrap();
    for operation in Operation::ALL {
        let filter = AuditFilter {
            action: Some(operation.action()),
            outcome: Some("success"),
            ..AuditFilter::default()
        };
        let records = tx.audit_records(&filter, u32::MAX).await.unwrap();
        let recorded: Vec<(u64, Option<&str>)> = records
            .iter()
            .map(|record| {
                let detail: Value = serde_json::from_str(&record.detail).unwrap();
                (detail["version"].as_u64().unwrap(), record.target.as_deref())
            })
            .collect();
        let made: Vec<(u64, Option<&str>)> = changes
            .iter()
            .filter(|change| change.action == operation.action())
            .map(|change| (change.number, change.target.as_deref()))
            .collect();
        assert_eq!(
            recorded, made,
            "{operation:?}: a change without its audit record, or a record without its change"
        );
    }
    drop(tx);
    db.close().await;
}

/// When the kills occurred.
#[derive(Default)]
struct KillCounts {
    before: usize,
    unanswered: usize,
    answered: usize,
}

impl KillCounts {
    fn add(&mut self, committed: bool, acknowledged: bool) {
        match (committed, acknowledged) {
            (false, _) => self.before += 1,
            (true, false) => self.unanswered += 1,
            (true, true) => self.answered += 1,
        }
    }

    fn describe(&self) -> String {
        let Self { before, unanswered, answered } = self;
        format!(
            "{before} before the commit, {unanswered} after it and before the answer, {answered} after the answer"
        )
    }
}

async fn kills(mut victim: Service, mut random: ChaCha8Rng, database: &str) {
    let rounds = Repetitions::always(25).get("TRACEWARDEN_TEST_KILLS");
    let begun = Instant::now();
    let admin = victim.admin().await;
    store::bind(&admin).await;
    let (models, mut kill_timings) = measure_without_kills(&admin).await;
    let (mut last, mut current) = (models[1].change + 1, 0);
    let mut kill_counts = [KillCounts::default(), KillCounts::default()];
    let progress = Progress::of(rounds, format!("kills of imports and restores on {database}"));
    for round in 0..rounds {
        progress.at(round);
        let (kind, next) = (round % 2, 1 - current);
        let (operation, kill_timing) = (Operation::ALL[kind], &mut kill_timings[kind]);
        let asking = {
            let (admin, model) = (admin.at(&victim), models[next].clone());
            tokio::spawn(async move { operation.put(&admin, last, &model).await })
        };
        tokio::time::sleep(kill_timing.next(&mut random)).await;
        victim.kill();
        let acknowledged = asking.await.unwrap().is_some();
        if let Some(database) = &victim.database {
            wait_until_the_last_statement_ended(database).await;
        }
        victim.restart_with(&[]);
        let admin = admin.at(&victim);
        let (change, text) = export(&admin).await;
        let committed = text == models[next].text;
        assert!(
            committed || text == models[current].text,
            "round {round}, {operation:?}: neither the old model nor the new one"
        );
        assert_eq!(change, last + u64::from(committed), "round {round}: the model and its number differ");
        assert!(committed || !acknowledged, "round {round}, {operation:?}: acknowledged but lost");
        let newest = admin.get("/schema/history?limit=1").await.expect(200).body;
        assert_eq!(newest["changes"][0]["version"], change, "round {round}: {newest}");
        history_and_records_agree(&victim, change).await;
        kill_counts[kind].add(committed, acknowledged);
        kill_timing.update_estimate(committed);
        last = change;
        if committed {
            current = next;
        }
    }
    audit_log::verified(&victim).await;
    audit_log::verify_by_command(&victim);
    println!(
        "{database}: {rounds} kills in {:.0} s; of imports {}; of restores {}; always the old or the new \
         model",
        begun.elapsed().as_secs_f64(),
        kill_counts[0].describe(),
        kill_counts[1].describe(),
    );
    let before: usize = kill_counts.iter().map(|sum| sum.before).sum();
    assert!(before > 0, "no kill came before the commit of a model");
    assert!(before < rounds, "no model was committed");
}

/// Tests both databases concurrently: an import mostly uses one core.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_killed_import_leaves_the_old_or_the_new_model() {
    let store = Store::start();
    let seed = random::seed();
    let on_sqlite = store.service();
    let database = Arc::new(postgres::database().unwrap());
    let url = format!("{}?application_name={VICTIM}", database.url());
    let named = [("TRACEWARDEN_DATABASE_URL", url.as_str())];
    let on_postgresql = Service::start_on(&database, &[&store.settings()[..], &named].concat());
    let runs = [
        tokio::spawn(kills(on_sqlite, random::source(seed, 0), "SQLite")),
        tokio::spawn(kills(on_postgresql, random::source(seed, 1), "PostgreSQL")),
    ];
    for run in runs {
        run.await.unwrap();
    }
}

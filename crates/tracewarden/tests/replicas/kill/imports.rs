//! `kill -9` of the service while it puts a whole access model in force: 200 roles with 1,000 policies, other fields, other
//! tests. Afterwards the old model is in force or the new one, in full; the history and the audit log tell which.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tracewarden_appdb::{AppDb, AuditFilter};
use tracewarden_model::Timestamp;
use tracewarden_testkit::postgres;

use super::{VICTIM, wait_until_the_last_statement_ended};
use crate::audit_log;
use crate::chance;
use crate::fleet::count;
use crate::support::store::{self, Store};
use crate::support::{Client, Service};

const ROLES: usize = 200;
const POLICIES_OF_A_ROLE: usize = 5;

/// The model to put in force: 200 roles from number `first` on. Each model has another share of roles in common with the
/// other, all of them with other policies, and other fields and tests.
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

/// The model in force: the number of its change, and the file as it came.
async fn export(admin: &Client) -> (u64, Vec<u8>) {
    let answer = admin.get("/schema/export").await.expect(200);
    let tag = answer.headers["etag"].to_str().unwrap().trim_matches('"').to_owned();
    (tag.parse().unwrap(), answer.bytes)
}

/// Whether it was answered, which is `None` when it was not.
async fn import(admin: &Client, change: u64, file: &Value) -> Option<()> {
    let request = admin.with("if-match", &format!("\"{change}\""));
    let request = request.request(reqwest::Method::PUT, "/schema/import").json(file);
    let response = request.send().await.ok()?;
    let status = response.status();
    let body = response.bytes().await.ok()?;
    assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    Some(())
}

/// When to kill. Half of the kills are anywhere in the time that an import takes; the others look for the moment of the
/// commit: later when the last of them was before it, earlier when it was after.
struct Aim {
    commit: Duration,
    chance: ChaCha8Rng,
    aimed: bool,
}

impl Aim {
    fn next(&mut self) -> Duration {
        self.aimed = !self.aimed;
        if self.aimed {
            self.commit + Duration::from_micros(self.chance.random_range(0..5_000))
        } else {
            self.commit.mul_f64(self.chance.random_range(0.0..1.2))
        }
    }

    fn learn(&mut self, committed: bool) {
        if self.aimed {
            self.commit = self.commit.mul_f64(if committed { 0.94 } else { 1.06 });
        }
    }
}

/// What the database itself says: the history agrees with the tables and the records with the history.
async fn history_and_records_agree(service: &Service, change: u64) {
    let db = AppDb::open(&service.database_url(), Timestamp::from_micros(0)).await.unwrap();
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.change_number().await.unwrap(), change);
    let now = tx.model_state(None).await.unwrap().unwrap();
    assert!(tx.model_state(Some(change)).await.unwrap().unwrap() == now, "the history tells another model");
    let filter =
        AuditFilter { action: Some("model.import"), outcome: Some("success"), ..AuditFilter::default() };
    let records = tx.audit_records(&filter, u32::MAX).await.unwrap();
    let mut recorded: Vec<u64> = records
        .iter()
        .map(|record| serde_json::from_str::<Value>(&record.detail).unwrap()["change"].as_u64().unwrap())
        .collect();
    recorded.reverse();
    let changes = tx.changes(None, u32::MAX).await.unwrap();
    let mut made: Vec<u64> =
        changes.iter().filter(|change| change.action == "model.import").map(|change| change.number).collect();
    made.reverse();
    assert_eq!(recorded, made, "a change without a record, or a record without its change");
    drop(tx);
    db.close().await;
}

async fn kills(mut victim: Service, chance: ChaCha8Rng, database: &str) {
    let rounds = count("TRACEWARDEN_TEST_KILLS", 25);
    let begun = Instant::now();
    let admin = victim.admin().await;
    store::bind(&admin).await;
    let (mut change, stored) = export(&admin).await;
    let stored: Value = serde_json::from_slice(&stored).unwrap();
    let files = [file(&stored, 0), file(&stored, ROLES / 2)];
    // Once each, undisturbed: how long it takes, and what the model then is.
    let mut models: Vec<Vec<u8>> = Vec::new();
    let mut longest = Duration::ZERO;
    for file in &files {
        let asked = Instant::now();
        assert!(import(&admin, change, file).await.is_some());
        longest = longest.max(asked.elapsed());
        let (number, model) = export(&admin).await;
        assert_eq!(number, change + 1);
        change = number;
        models.push(model);
    }
    assert_ne!(models[0], models[1]);
    let mut aim = Aim { commit: longest, chance, aimed: false };
    let mut in_force = 1;
    let (mut before, mut unanswered, mut answered) = (0, 0, 0);
    for round in 0..rounds {
        let next = 1 - in_force;
        let asking = {
            let (admin, file) = (admin.at(&victim), files[next].clone());
            tokio::spawn(async move { import(&admin, change, &file).await })
        };
        tokio::time::sleep(aim.next()).await;
        victim.kill();
        let acknowledged = asking.await.unwrap().is_some();
        if let Some(database) = &victim.database {
            wait_until_the_last_statement_ended(database).await;
        }
        victim.restart_with(&[]);
        let admin = admin.at(&victim);
        let (number, model) = export(&admin).await;
        let committed = model == models[next];
        assert!(
            committed || model == models[in_force],
            "round {round}: neither the old model nor the new one"
        );
        assert_eq!(number, change + u64::from(committed), "round {round}: the model and its number differ");
        assert!(committed || !acknowledged, "round {round}: acknowledged and not kept");
        let newest = admin.get("/schema/history?limit=1").await.expect(200).body;
        assert_eq!(newest["changes"][0]["change"], number, "round {round}: {newest}");
        history_and_records_agree(&victim, number).await;
        match (committed, acknowledged) {
            (false, _) => before += 1,
            (true, false) => unanswered += 1,
            (true, true) => answered += 1,
        }
        aim.learn(committed);
        change = number;
        if committed {
            in_force = next;
        }
    }
    audit_log::verified(&victim).await;
    audit_log::verified_by_command(&victim);
    println!(
        "{database}: {rounds} kills in {:.0} s of imports that take {longest:.1?}: {before} before the commit, {unanswered} after it \
         and before the answer, {answered} after the answer; always the old model or the new one",
        begun.elapsed().as_secs_f64(),
    );
    assert!(before > 0, "no kill was in time to keep an import from its commit");
    assert!(unanswered + answered > 0, "no import was committed");
}

/// Both databases at once: an import is mostly the work of one core.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_model_is_the_old_or_the_new_one() {
    let store = Store::start();
    let seed = chance::seed();
    let on_sqlite = store.service();
    let database = Arc::new(postgres::database().unwrap());
    let url = format!("{}?application_name={VICTIM}", database.url());
    let named = [("TRACEWARDEN_DATABASE_URL", url.as_str())];
    let on_postgresql = Service::start_on(&database, &[&store.settings()[..], &named].concat());
    let runs = [
        tokio::spawn(kills(on_sqlite, chance::source(seed, 0), "SQLite")),
        tokio::spawn(kills(on_postgresql, chance::source(seed, 1), "PostgreSQL")),
    ];
    for run in runs {
        run.await.unwrap();
    }
}

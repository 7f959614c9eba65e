//! Revocations raced against reads: no request that begins after a revocation was acknowledged by any replica shows a span
//! on any replica, by any kind of read; and no read that showed spans is recorded in the audit log after the revocation.

mod read_operations;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use futures::future::join_all;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::RwLock;
use tracewarden_model::Timestamp;
use tracewarden_testkit::progress::Progress;
use tracewarden_testkit::repetitions::Repetitions;

use crate::replicas::audit_log;
use crate::replicas::fleet::{Fleet, add_user, new_key, new_key_until, other_admin, session_id};
use crate::replicas::random;
use crate::support::store::Store;
use crate::support::{Answer, Client, Service, USER_PASSWORD};
use read_operations::ReadOperation;

const WORKERS: usize = 3;

/// Maximum time between the beginnings of reads and revocation.
const SPREAD_MICROS: u64 = 15_000;

/// Ways to revoke access. Those that compute password hashes, which are slow, or that exclude concurrent races are used
/// less often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    KeyByOwner,
    KeyByAdministrator,
    KeyExpires,
    AllKeys,
    RoleUnassigned,
    RolePoliciesChanged,
    RoleDeleted,
    AttributeChanged,
    PreviewEnded,
    SessionByOwner,
    SessionByAdministrator,
    AllSessions,
    Logout,
    Disabled,
    Deleted,
    PasswordChanged,
    PasswordRotated,
    BindingChanged,
    ModelImported,
    ModelRestored,
}

impl Kind {
    fn of(race: usize) -> Self {
        const RARE: [Kind; 12] = [
            Kind::KeyExpires,
            Kind::SessionByOwner,
            Kind::SessionByAdministrator,
            Kind::AllSessions,
            Kind::Logout,
            Kind::Disabled,
            Kind::Deleted,
            Kind::PasswordChanged,
            Kind::PasswordRotated,
            Kind::BindingChanged,
            Kind::ModelImported,
            Kind::ModelRestored,
        ];
        match race % 20 {
            0..=4 => Self::KeyByOwner,
            5..=8 => Self::KeyByAdministrator,
            9..=11 => Self::AllKeys,
            12 => Self::RoleUnassigned,
            13 => Self::RolePoliciesChanged,
            14 => Self::RoleDeleted,
            15 => Self::AttributeChanged,
            16 => Self::PreviewEnded,
            // Three of twenty, in turn.
            rest => RARE[(race / 20 * 3 + rest - 17) % RARE.len()],
        }
    }

    /// Whether it changes the access of all readers.
    fn affects_all_readers(self) -> bool {
        matches!(self, Self::BindingChanged | Self::ModelImported | Self::ModelRestored)
    }

    /// Whether the reader uses an API key instead of a session.
    fn uses_api_key(self) -> bool {
        !matches!(
            self,
            Self::PreviewEnded
                | Self::SessionByOwner
                | Self::SessionByAdministrator
                | Self::AllSessions
                | Self::Logout
                | Self::PasswordChanged
        )
    }
}

/// A worker with its own user and role, so that races do not affect each other.
struct Worker {
    number: usize,
    fleet: Arc<Fleet>,
    admin: Client,
    owner: Client,
    /// Locked exclusively by races that change the access of all readers.
    others: Arc<RwLock<()>>,
}

/// Lifetime of an expiring API key: as long as one read may take on a busy machine.
const KEY_LIFETIME_NANOS: i64 = 3_000_000_000;

/// Returns the time in nanoseconds since 1970; the replicas use the same clock.
fn now() -> i64 {
    i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos()).unwrap()
}

async fn sleep_until(nanos: i64) {
    tokio::time::sleep(Duration::from_nanos(u64::try_from(nanos - now()).unwrap_or(0))).await;
}

/// Stages of a race.
const BEFORE_REVOCATION: u8 = 0;
const SENT: u8 = 1;
const ACKNOWLEDGED: u8 = 2;

/// Results of the readers of one race.
#[derive(Default)]
struct ReadResults {
    /// Number of answers with spans to requests that began before the revocation was sent.
    before: usize,
    /// Number of answers with spans to requests that began after the revocation was sent and before it was acknowledged.
    /// They are allowed, and show that the requests are close enough to the revocation to detect a fault.
    during: usize,
    /// Number of answers without spans to requests that began after the acknowledgement.
    refused: usize,
    /// Answers with spans to such requests; there must be none.
    shown_after_acknowledgement: Vec<String>,
    /// Requests that showed spans.
    shown: Vec<String>,
    /// For each kind of read, how often it was rejected after the acknowledgement.
    read_operations: BTreeMap<ReadOperation, usize>,
}

impl ReadResults {
    fn add(&mut self, begun: u8, operation: ReadOperation, answer: &Answer) {
        let request = answer.headers["x-request-id"].to_str().unwrap().to_owned();
        let shown = operation.shows_trace(answer);
        match (shown, begun) {
            (true, ACKNOWLEDGED) => {
                self.shown_after_acknowledgement.push(format!("{operation:?}: {request}"))
            }
            (true, SENT) => self.during += 1,
            (true, _) => self.before += 1,
            (false, ACKNOWLEDGED) => {
                self.refused += 1;
                *self.read_operations.entry(operation).or_default() += 1;
            }
            (false, _) => {}
        }
        if shown {
            self.shown.push(request);
        }
    }

    fn merge(&mut self, other: Self) {
        self.before += other.before;
        self.during += other.during;
        self.refused += other.refused;
        self.shown_after_acknowledgement.extend(other.shown_after_acknowledgement);
        self.shown.extend(other.shown);
        for (operation, refused) in other.read_operations {
            *self.read_operations.entry(operation).or_default() += refused;
        }
    }
}

/// Reads once, after a delay.
async fn read_after(
    delay: Duration,
    operation: ReadOperation,
    client: Client,
    stage: Arc<AtomicU8>,
) -> (u8, ReadOperation, Answer) {
    tokio::time::sleep(delay).await;
    let begun = stage.load(Ordering::SeqCst);
    (begun, operation, operation.read(&client).await)
}

fn policies(expression: &str) -> Value {
    json!({"policies": [{"title": "Race", "expression": expression}]})
}

impl Worker {
    fn user(&self, rest: &str) -> String {
        format!("/users/racer{}{rest}", self.number)
    }

    fn role(&self) -> String {
        format!("/roles/team{}", self.number)
    }

    async fn add_user(&mut self) {
        let (name, role) = (format!("racer{}", self.number), format!("team{}", self.number));
        add_user(self.fleet.a(), &self.admin, &name, &[&role], json!({"team": "blue"})).await;
        self.sign_in().await;
    }

    async fn sign_in(&mut self) {
        self.owner = self.another_session().await;
    }

    async fn another_session(&self) -> Client {
        self.fleet.a().sign_in(&format!("racer{}", self.number), USER_PASSWORD).await
    }

    /// Runs one race; returns the results and the id of the revoking request.
    async fn race(&mut self, kind: Kind, random: &mut ChaCha8Rng) -> (ReadResults, String) {
        let others = Arc::clone(&self.others);
        let (_exclusive, _shared) = if kind.affects_all_readers() {
            (Some(others.write().await), None)
        } else {
            (None, Some(others.read().await))
        };
        let expires = (kind == Kind::KeyExpires).then(|| Timestamp::from_nanos(now() + KEY_LIFETIME_NANOS));
        let (key_id, key) = match expires {
            None => new_key(&self.owner).await,
            Some(at) => new_key_until(&self.owner, &at.to_string()).await,
        };
        let client = match kind {
            Kind::PreviewEnded => {
                let preview =
                    json!({"roles": [format!("team{}", self.number)], "attributes": {"team": "blue"}});
                self.admin.put("/me/preview", preview).await.expect(200);
                self.admin.clone()
            }
            _ if kind.uses_api_key() => key,
            _ => self.another_session().await,
        };
        // The object that the revoking request names.
        let object_id = match kind {
            Kind::SessionByOwner | Kind::SessionByAdministrator => session_id(&client).await,
            Kind::ModelRestored => self.model_version_without_access().await,
            _ => key_id,
        };
        let at = |replica: usize| client.at(&self.fleet.replicas[replica]);
        let mut results = ReadResults::default();
        let operation = ReadOperation::any(random, kind.uses_api_key());
        results.add(BEFORE_REVOCATION, operation, &operation.read(&at(random.random_range(0..2))).await);
        assert_eq!(results.before, 1, "{kind:?}: no spans before the revocation");
        if let Some(at) = expires {
            sleep_until(at.as_nanos() - 2_000 * i64::try_from(SPREAD_MICROS).unwrap()).await;
        }
        let stage = Arc::new(AtomicU8::new(BEFORE_REVOCATION));
        let any = |random: &mut ChaCha8Rng| Duration::from_micros(random.random_range(0..SPREAD_MICROS));
        let readers: Vec<_> = (0..2)
            .map(|replica| {
                let operation = ReadOperation::any(random, kind.uses_api_key());
                tokio::spawn(read_after(any(random), operation, at(replica), Arc::clone(&stage)))
            })
            .collect();
        // A change is faster than a read: with a longer delay, it falls among all steps of the read.
        tokio::time::sleep(any(random) * 2).await;
        stage.store(SENT, Ordering::SeqCst);
        let replica = &self.fleet.replicas[random.random_range(0..2)];
        if let Some(at) = expires {
            sleep_until(at.as_nanos()).await;
        }
        let answer = self.revoke(kind, replica, &client, &object_id).await;
        assert!(matches!(answer.status, 200 | 204), "{kind:?}: {}: {}", answer.status, answer.body);
        stage.store(ACKNOWLEDGED, Ordering::SeqCst);
        // One request on each replica begins right now.
        let at_once = [0, 1].map(|replica| (ReadOperation::any(random, kind.uses_api_key()), at(replica)));
        let answers = join_all(at_once.iter().map(|(operation, client)| operation.read(client))).await;
        at_once
            .iter()
            .zip(&answers)
            .for_each(|((operation, _), answer)| results.add(ACKNOWLEDGED, *operation, answer));
        for reader in readers {
            let (begun, operation, answer) = reader.await.unwrap();
            results.add(begun, operation, &answer);
        }
        self.restore(kind, &answer).await;
        (results, answer.headers["x-request-id"].to_str().unwrap().to_owned())
    }

    /// Revokes the access and restores it; returns the version of the model between the two.
    async fn model_version_without_access(&self) -> String {
        self.admin.put(&self.role(), policies("false")).await.expect(200);
        let file = self.admin.get("/schema/export").await.expect(200);
        self.put_role().await;
        file.headers["etag"].to_str().unwrap().trim_matches('"').to_owned()
    }

    async fn bind(&self, admin: &Client, table: &str) -> Answer {
        let model = self.admin.get("/schema").await.expect(200);
        let mut binding = model.body["binding"].clone();
        binding["table"] = json!(table);
        let tagged = admin.with("if-match", model.headers["etag"].to_str().unwrap());
        tagged.put("/schema/binding", binding).await
    }

    async fn revoke(&self, kind: Kind, replica: &Service, client: &Client, object_id: &str) -> Answer {
        let (admin, owner) = (self.admin.at(replica), self.owner.at(replica));
        match kind {
            Kind::KeyByOwner => owner.delete(&format!("/me/api-keys/{object_id}")).await,
            Kind::KeyByAdministrator => admin.delete(&self.user(&format!("/api-keys/{object_id}"))).await,
            // The API key has expired.
            Kind::KeyExpires => admin.get("/me").await,
            Kind::AllKeys => admin.delete(&self.user("/api-keys")).await,
            Kind::RoleUnassigned => admin.patch(&self.user(""), json!({"roles": []})).await,
            Kind::RolePoliciesChanged => admin.put(&self.role(), policies("false")).await,
            Kind::RoleDeleted => admin.delete(&self.role()).await,
            Kind::AttributeChanged => {
                admin.patch(&self.user(""), json!({"attributes": {"team": "none"}})).await
            }
            Kind::PreviewEnded => admin.delete("/me/preview").await,
            Kind::SessionByOwner => owner.delete(&format!("/me/sessions/{object_id}")).await,
            Kind::SessionByAdministrator => admin.delete(&self.user(&format!("/sessions/{object_id}"))).await,
            Kind::AllSessions => admin.delete(&self.user("/sessions")).await,
            Kind::Logout => client.at(replica).send(Method::POST, "/logout", None).await,
            Kind::Disabled => admin.patch(&self.user(""), json!({"disabled": true})).await,
            Kind::Deleted => admin.delete(&self.user("")).await,
            Kind::PasswordChanged => {
                let change =
                    json!({"current_password": USER_PASSWORD, "new_password": "another long sentence"});
                owner.post("/me/password", change).await
            }
            Kind::PasswordRotated => admin.send(Method::POST, &self.user("/password"), None).await,
            Kind::BindingChanged => self.bind(&admin, "otel_traces_empty").await,
            Kind::ModelImported => {
                let mut file = admin.get("/schema/export").await.expect(200).body;
                let own = format!("team{}", self.number);
                file["roles"].as_array_mut().unwrap().retain(|role| role["name"] != own);
                admin.with("if-match", "*").put("/schema/import", file).await
            }
            Kind::ModelRestored => {
                let restore = format!("/schema/history/{object_id}/restore");
                admin.with("if-match", "*").send(Method::POST, &restore, None).await
            }
        }
    }

    /// Restores the access that this answer revoked.
    async fn restore(&mut self, kind: Kind, revoked: &Answer) {
        let role = format!("team{}", self.number);
        match kind {
            Kind::RoleUnassigned => {
                self.admin.patch(&self.user(""), json!({"roles": [role]})).await.expect(200);
            }
            Kind::RolePoliciesChanged | Kind::ModelRestored => self.put_role().await,
            Kind::RoleDeleted | Kind::ModelImported => {
                self.put_role().await;
                self.admin.patch(&self.user(""), json!({"roles": [role]})).await.expect(200);
            }
            Kind::AttributeChanged => {
                self.admin.patch(&self.user(""), json!({"attributes": {"team": "blue"}})).await.expect(200);
            }
            Kind::Disabled => {
                self.admin.patch(&self.user(""), json!({"disabled": false})).await.expect(200);
                self.sign_in().await;
            }
            Kind::Deleted => self.add_user().await,
            Kind::AllSessions => self.sign_in().await,
            Kind::BindingChanged => {
                self.bind(&self.admin, "otel_traces").await.expect(200);
            }
            Kind::PasswordRotated => {
                let initial = revoked.body["initial_password"].as_str().unwrap();
                let session = self.fleet.a().sign_in(&format!("racer{}", self.number), initial).await;
                let change = json!({"current_password": initial, "new_password": USER_PASSWORD});
                session.post("/me/password", change).await.expect(204);
                self.sign_in().await;
            }
            Kind::PasswordChanged => {
                let change =
                    json!({"current_password": "another long sentence", "new_password": USER_PASSWORD});
                self.owner.post("/me/password", change).await.expect(204);
            }
            _ => {}
        }
    }

    async fn put_role(&self) {
        let answer =
            self.admin.put(&self.role(), policies("SpanAttributes[\"team\"] == user.attributes.team")).await;
        assert!(matches!(answer.status, 200 | 201), "{}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_span_is_shown_after_a_revocation_was_acknowledged() {
    let races = Repetitions { test: 40, verify: 200 }.get("TRACEWARDEN_TEST_RACES");
    let seed = random::seed();
    let store = Store::start();
    let (fleet, admin) = Fleet::reading(&store, &[]).await;
    store.run("CREATE TABLE otel.otel_traces_empty AS otel.otel_traces").await;
    let (fleet, others) = (Arc::new(fleet), Arc::default());
    let next = Arc::new(AtomicUsize::new(0));
    let progress = Arc::new(Progress::of(races, "races"));
    let begun = Instant::now();
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        let mut worker = Worker {
            number,
            fleet: Arc::clone(&fleet),
            admin: other_admin(fleet.a()).await,
            owner: admin.clone(),
            others: Arc::clone(&others),
        };
        worker.put_role().await;
        worker.add_user().await;
        let (next, progress) = (Arc::clone(&next), Arc::clone(&progress));
        let mut random = random::source(seed, number as u64);
        workers.push(tokio::spawn(async move {
            let mut results = ReadResults::default();
            let mut revocations = Vec::new();
            loop {
                let race = next.fetch_add(1, Ordering::SeqCst);
                if race >= races {
                    return (results, revocations);
                }
                progress.at(race);
                let (mut one, revocation) = worker.race(Kind::of(race), &mut random).await;
                revocations.push((Kind::of(race), revocation, std::mem::take(&mut one.shown)));
                results.merge(one);
            }
        }));
    }
    let mut results = ReadResults::default();
    let mut revocations = Vec::new();
    for worker in workers {
        let (one, some) = worker.await.unwrap();
        results.merge(one);
        revocations.extend(some);
    }
    println!(
        "{} races in {:.0} s; with spans: {} before, {} during the revocation; without: {} after; stale: {}",
        revocations.len(),
        begun.elapsed().as_secs_f64(),
        results.before,
        results.during,
        results.refused,
        results.shown_after_acknowledgement.len()
    );
    println!("refused after it: {:?}", results.read_operations);
    assert_eq!(revocations.len(), races);
    assert!(results.shown_after_acknowledgement.is_empty(), "{:?}", results.shown_after_acknowledgement);
    assert!(results.refused >= races * 2, "{}", results.refused);
    assert!(
        races < 100 || results.during > 0,
        "no request ran during a revocation, so the races test nothing"
    );
    check_log(&fleet, &revocations).await;
}

/// Checks that the order of the audit log agrees.
async fn check_log(fleet: &Fleet, revocations: &[(Kind, String, Vec<String>)]) {
    let records = audit_log::verified(fleet.a()).await;
    let mut places: HashMap<&str, u64> = HashMap::new();
    for record in &records {
        // If a request has several records, the first one counts.
        places.entry(&record.request_id).or_insert(record.sequence);
    }
    for (kind, revocation, shown) in revocations {
        if *kind == Kind::KeyExpires {
            assert!(shown.iter().all(|request| places.contains_key(request.as_str())), "{shown:?}");
            continue;
        }
        let revoked = places[revocation.as_str()];
        for request in shown {
            let read = places.get(request.as_str());
            let read = read.unwrap_or_else(|| panic!("the read {request} has no record"));
            assert!(
                *read < revoked,
                "{kind:?}: the read {request} ({read}) after its revocation ({revoked})"
            );
        }
    }
}

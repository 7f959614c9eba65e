//! Revocations raced against reads: no request that begins after a revocation was acknowledged, by whichever replica,
//! shows a span at any replica; and in the audit log no read that showed spans stands after the revocation.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use reqwest::Method;
use serde_json::{Value, json};

use crate::audit_log;
use crate::chance;
use crate::fleet::{Fleet, add_user, count, new_key, other_admin, read_traces, session_id, spans};
use crate::support::store::Store;
use crate::support::{Answer, Client, Service, USER_PASSWORD};

const WORKERS: usize = 3;

/// Reads and the revocation begin within this time of one another.
const SPREAD_MICROS: u64 = 15_000;

/// How a right ends. Those with password hashes, which take their time, are rarer.
#[derive(Debug, Clone, Copy)]
enum Kind {
    KeyByOwner,
    KeyByAdministrator,
    AllKeys,
    RoleTaken,
    RoleNarrowed,
    RoleDeleted,
    AttributeChanged,
    PreviewEnded,
    SessionByAdministrator,
    Logout,
    Disabled,
    Deleted,
    PasswordChanged,
}

impl Kind {
    fn of(race: usize) -> Self {
        const RARE: [Kind; 5] = [
            Kind::SessionByAdministrator,
            Kind::Logout,
            Kind::Disabled,
            Kind::Deleted,
            Kind::PasswordChanged,
        ];
        match race % 20 {
            0..=4 => Self::KeyByOwner,
            5..=9 => Self::KeyByAdministrator,
            10..=12 => Self::AllKeys,
            13 => Self::RoleTaken,
            14 => Self::RoleNarrowed,
            15 => Self::RoleDeleted,
            16 => Self::AttributeChanged,
            17 | 18 => Self::PreviewEnded,
            _ => RARE[(race / 20) % RARE.len()],
        }
    }
}

/// A worker's own user and role, so that races do not disturb one another.
struct Worker {
    number: usize,
    fleet: Arc<Fleet>,
    admin: Client,
    owner: Client,
}

/// Where a race stands.
const GOING: u8 = 0;
const SENT: u8 = 1;
const ACKNOWLEDGED: u8 = 2;

/// What the readers of one race met.
#[derive(Default)]
struct Met {
    /// Answers with spans to requests that began before the revocation was sent.
    before: usize,
    /// Answers with spans to requests that began after it was sent and before it was acknowledged. They may be; that
    /// there are some shows that requests are close enough to the edge to fall over it.
    during: usize,
    /// Answers without spans to requests that began after the acknowledgement.
    refused: usize,
    /// Answers with spans to those: none may be.
    stale: Vec<String>,
    /// Requests that showed spans.
    shown: Vec<String>,
}

impl Met {
    fn add(&mut self, begun: u8, answer: &Answer) {
        let request = answer.headers["x-request-id"].to_str().unwrap().to_owned();
        let shown = spans(answer) > 0;
        // Anything else than these two would be a refusal for another reason, and prove nothing.
        assert!(matches!(answer.status, 200 | 401), "{}: {}", answer.status, answer.body);
        match (shown, begun) {
            (true, ACKNOWLEDGED) => self.stale.push(request.clone()),
            (true, SENT) => self.during += 1,
            (true, _) => self.before += 1,
            (false, ACKNOWLEDGED) => self.refused += 1,
            (false, _) => {}
        }
        if shown {
            self.shown.push(request);
        }
    }

    fn absorb(&mut self, other: Self) {
        self.before += other.before;
        self.during += other.during;
        self.refused += other.refused;
        self.stale.extend(other.stale);
        self.shown.extend(other.shown);
    }
}

/// Reads once, after a while.
async fn read_after(delay: Duration, client: Client, stage: Arc<AtomicU8>) -> (u8, Answer) {
    tokio::time::sleep(delay).await;
    let begun = stage.load(Ordering::SeqCst);
    (begun, read_traces(&client).await)
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

    /// Runs one race; returns what was met and the request that revoked.
    async fn race(&mut self, kind: Kind, chance: &mut ChaCha8Rng) -> (Met, String) {
        let (key_id, key) = new_key(&self.owner).await;
        let client = match kind {
            Kind::PreviewEnded => {
                let preview =
                    json!({"roles": [format!("team{}", self.number)], "attributes": {"team": "blue"}});
                self.admin.put("/me/preview", preview).await.expect(200);
                self.admin.clone()
            }
            Kind::SessionByAdministrator | Kind::Logout | Kind::PasswordChanged => {
                self.another_session().await
            }
            _ => key,
        };
        let session = match kind {
            Kind::SessionByAdministrator => session_id(&client).await,
            _ => String::new(),
        };
        let at = |replica: usize| client.at(&self.fleet.replicas[replica]);
        let mut met = Met::default();
        met.add(GOING, &read_traces(&at(chance.random_range(0..2))).await);
        assert_eq!(met.before, 1, "{kind:?}: no spans before the revocation");
        let stage = Arc::new(AtomicU8::new(GOING));
        let mut any = || Duration::from_micros(chance.random_range(0..SPREAD_MICROS));
        let readers: Vec<_> =
            (0..2).map(|replica| tokio::spawn(read_after(any(), at(replica), Arc::clone(&stage)))).collect();
        // A change is quicker than a read: a little later, it falls among all of a read's steps.
        tokio::time::sleep(any() * 2).await;
        stage.store(SENT, Ordering::SeqCst);
        let replica = &self.fleet.replicas[chance.random_range(0..2)];
        let answer = self.revoke(kind, replica, &client, &key_id, &session).await;
        assert!(matches!(answer.status, 200 | 204), "{kind:?}: {}: {}", answer.status, answer.body);
        stage.store(ACKNOWLEDGED, Ordering::SeqCst);
        // One request at each replica begins this moment.
        let clients = [at(0), at(1)];
        let at_once = join_all(clients.iter().map(read_traces)).await;
        at_once.iter().for_each(|answer| met.add(ACKNOWLEDGED, answer));
        for reader in readers {
            let (begun, answer) = reader.await.unwrap();
            met.add(begun, &answer);
        }
        self.restore(kind).await;
        (met, answer.headers["x-request-id"].to_str().unwrap().to_owned())
    }

    async fn revoke(
        &self,
        kind: Kind,
        replica: &Service,
        client: &Client,
        key: &str,
        session: &str,
    ) -> Answer {
        let (admin, owner) = (self.admin.at(replica), self.owner.at(replica));
        match kind {
            Kind::KeyByOwner => owner.delete(&format!("/me/api-keys/{key}")).await,
            Kind::KeyByAdministrator => admin.delete(&self.user(&format!("/api-keys/{key}"))).await,
            Kind::AllKeys => admin.delete(&self.user("/api-keys")).await,
            Kind::RoleTaken => admin.patch(&self.user(""), json!({"roles": []})).await,
            Kind::RoleNarrowed => admin.put(&self.role(), policies("false")).await,
            Kind::RoleDeleted => admin.delete(&self.role()).await,
            Kind::AttributeChanged => {
                admin.patch(&self.user(""), json!({"attributes": {"team": "none"}})).await
            }
            Kind::PreviewEnded => admin.delete("/me/preview").await,
            Kind::SessionByAdministrator => admin.delete(&self.user(&format!("/sessions/{session}"))).await,
            Kind::Logout => client.at(replica).send(Method::POST, "/logout", None).await,
            Kind::Disabled => admin.patch(&self.user(""), json!({"disabled": true})).await,
            Kind::Deleted => admin.delete(&self.user("")).await,
            Kind::PasswordChanged => {
                let change =
                    json!({"current_password": USER_PASSWORD, "new_password": "another long sentence"});
                owner.post("/me/password", change).await
            }
        }
    }

    async fn restore(&mut self, kind: Kind) {
        let role = format!("team{}", self.number);
        match kind {
            Kind::RoleTaken => {
                self.admin.patch(&self.user(""), json!({"roles": [role]})).await.expect(200);
            }
            Kind::RoleNarrowed => self.put_role().await,
            Kind::RoleDeleted => {
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
    let races = count("TRACEWARDEN_TEST_RACES", 2_000);
    let seed = chance::seed();
    let store = Store::start();
    let (fleet, admin) = Fleet::reading(&store, &[]).await;
    let fleet = Arc::new(fleet);
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        let mut worker = Worker {
            number,
            fleet: Arc::clone(&fleet),
            admin: other_admin(fleet.a()).await,
            owner: admin.clone(),
        };
        worker.put_role().await;
        worker.add_user().await;
        let next = Arc::clone(&next);
        let mut chance = chance::source(seed, number as u64);
        workers.push(tokio::spawn(async move {
            let mut met = Met::default();
            let mut revocations = Vec::new();
            loop {
                let race = next.fetch_add(1, Ordering::SeqCst);
                if race >= races {
                    return (met, revocations);
                }
                let (mut one, revocation) = worker.race(Kind::of(race), &mut chance).await;
                revocations.push((Kind::of(race), revocation, std::mem::take(&mut one.shown)));
                met.absorb(one);
            }
        }));
    }
    let mut met = Met::default();
    let mut revocations = Vec::new();
    for worker in workers {
        let (one, some) = worker.await.unwrap();
        met.absorb(one);
        revocations.extend(some);
    }
    println!(
        "{} races in {:.0} s; with spans: {} before, {} while the revocation was under way; without: {} after; stale: {}",
        revocations.len(),
        begun.elapsed().as_secs_f64(),
        met.before,
        met.during,
        met.refused,
        met.stale.len()
    );
    assert_eq!(revocations.len(), races);
    assert!(met.stale.is_empty(), "{:?}", met.stale);
    assert!(met.refused >= races * 2, "{}", met.refused);
    assert!(races < 100 || met.during > 0, "no request came near a revocation: the races prove nothing");
    check_log(&fleet, &revocations).await;
}

/// The order of the audit log says the same.
async fn check_log(fleet: &Fleet, revocations: &[(Kind, String, Vec<String>)]) {
    let records = audit_log::verified(fleet.a()).await;
    let mut places: HashMap<&str, u64> = HashMap::new();
    for record in &records {
        // Of several records of one request, the first.
        places.entry(&record.request_id).or_insert(record.sequence);
    }
    for (kind, revocation, shown) in revocations {
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

//! Clients that change one object after another until the service is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::address;
use super::objects::{BASE_ROLES, Change, Object};
use super::observer::Observer;
use crate::replicas::fleet::add_user;
use crate::support::{Client, Service, USER_PASSWORD};

/// A requested change.
#[derive(Debug)]
pub struct Attempt {
    /// User agent in its audit record.
    pub mark: String,
    /// Action in its audit record.
    pub action: &'static str,
    pub acknowledged: bool,
    /// Whether the change was found to be applied.
    pub applied: bool,
}

/// A change without an answer.
struct InFlight {
    mark: String,
    action: &'static str,
    /// The state that it would lead to.
    to: Option<Value>,
}

/// An object with its state as the writer knows it.
struct Slot {
    object: Object,
    state: Option<Value>,
    /// Whether a change was requested since the last check.
    written: bool,
    in_flight: Option<InFlight>,
}

impl Slot {
    /// Compares the actual state with the acknowledged and the attempted one.
    async fn settle(&mut self, observer: &Observer) -> Option<Attempt> {
        let in_flight = self.in_flight.take();
        let mut found = observer.state(&self.object, self.state.as_ref()).await;
        // A sign-in computes a hash, so passwords are only tried if they may have changed.
        if let (Object::Account(name), Some(found)) = (&self.object, &mut found)
            && std::mem::take(&mut self.written)
        {
            let to = in_flight.as_ref().and_then(|in_flight| in_flight.to.as_ref());
            found["password"] = observer.password(name, [self.state.as_ref(), to]).await;
        }
        let (current, previous) =
            (self.object.observable_state(found.as_ref()), self.object.observable_state(self.state.as_ref()));
        let attempt = match in_flight {
            None => {
                assert_eq!(current, previous, "{:?}: acknowledged but lost", self.object);
                None
            }
            Some(InFlight { mark, action, to }) => {
                let to = self.object.observable_state(to.as_ref());
                assert!(
                    current == previous || current == to,
                    "{:?}: partial change: it was {previous:?}, should be {to:?}, and is {current:?}",
                    self.object
                );
                Some(Attempt { mark, action, acknowledged: false, applied: current != previous })
            }
        };
        self.state = found;
        if let (Object::Account(name), Some(state)) = (&self.object, &mut self.state)
            && state["password"].is_null()
        {
            state["password"] = observer.new_password(name).await;
        }
        attempt
    }
}

/// A client with its own objects.
pub struct Writer {
    number: usize,
    slots: Vec<Slot>,
    random: ChaCha8Rng,
    /// Acknowledged changes of this round.
    acknowledged: Vec<Attempt>,
    changes: usize,
    written: usize,
}

impl Writer {
    pub async fn prepare(number: usize, service: &Service, admin: &Client, random: ChaCha8Rng) -> Self {
        for role in BASE_ROLES {
            let policies = json!({"policies": [{"title": role, "expression": "true"}]});
            let answer = admin.put(&format!("/roles/{role}"), policies).await;
            assert!(matches!(answer.status, 200 | 201), "{}", answer.body);
        }
        let observer = Observer::new(admin.clone(), 0);
        let mut slots = Vec::new();
        for object in objects(number, service, admin).await {
            let known = json!({"password": USER_PASSWORD});
            let state = observer.state(&object, Some(&known)).await;
            slots.push(Slot { object, state, written: false, in_flight: None });
        }
        Self { number, slots, random, acknowledged: Vec::new(), changes: 0, written: 0 }
    }

    /// Returns the number of changes acknowledged so far.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Changes objects until a request is not answered.
    pub async fn write_until_interrupted(
        mut self,
        round: usize,
        admin: Client,
        acknowledged: Arc<AtomicUsize>,
    ) -> Self {
        loop {
            self.changes += 1;
            let mark = format!("kill-{round}-{}-{}", self.number, self.changes);
            let from = address(self.number, self.changes);
            let client = admin.with("user-agent", &mark).with("x-forwarded-for", &from);
            let index = self.random.random_range(0..self.slots.len());
            let choice = self.random.random();
            let slot = &mut self.slots[index];
            slot.written = true;
            let change = slot.object.change(slot.state.as_ref(), choice, &mark);
            let generated_values = send(&client, &change).await;
            let Change { action, to, .. } = change;
            let Some(generated_values) = generated_values else {
                slot.in_flight = Some(InFlight { mark, action, to });
                return self;
            };
            slot.state = slot.object.with_generated_values(to, &mark, &generated_values);
            self.acknowledged.push(Attempt { mark, action, acknowledged: true, applied: true });
            self.written += 1;
            acknowledged.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Returns the results of all requests of this round.
    pub async fn settle(&mut self, observer: &Observer) -> Vec<Attempt> {
        let mut attempts = std::mem::take(&mut self.acknowledged);
        for slot in &mut self.slots {
            attempts.extend(slot.settle(observer).await);
        }
        attempts
    }
}

/// Returns the objects of one writer. Of its two permanent users, one has its password and sessions changed, and the other
/// has a session that never ends.
async fn objects(number: usize, service: &Service, admin: &Client) -> Vec<Object> {
    let (account_user, key_owner) = (format!("sitter{number}"), format!("deputy{number}"));
    add_user(service, admin, &account_user, &[], json!({})).await;
    // The sessions from its creation have no marker.
    admin.delete(&format!("/users/{account_user}/sessions")).await.expect(204);
    let cookie = service.user(admin, &key_owner, &["admin"]).await.cookie().to_owned();
    let mut objects: Vec<Object> = (0..2)
        .flat_map(|index| {
            let name = |kind: &str| format!("{kind}{number}-{index}");
            [Object::User(name("user")), Object::Role(name("role"))]
        })
        .collect();
    objects.push(Object::Account(account_user));
    objects.push(Object::Keys { owner: key_owner, cookie: cookie.clone() });
    objects.push(Object::Preview { cookie });
    // There is only one access model, so the second of two concurrent changes would be rejected.
    if number == 0 {
        objects.push(Object::Source);
    }
    objects
}

/// Sends a change and returns the values in its answer: the id of an API key, the cookie of a session, a password. `None`
/// if there was no answer.
async fn send(client: &Client, change: &Change) -> Option<Value> {
    let mut client = client.clone();
    if let Some(tag) = &change.if_match {
        client = client.with("if-match", tag);
    }
    if let Some(cookie) = &change.cookie {
        client = client.with("cookie", cookie);
    }
    let mut request = client.request(change.method.clone(), &change.path);
    if let Some(body) = &change.body {
        request = request.json(body);
    }
    let response = request.send().await.ok()?;
    let status = response.status();
    let cookie = response.headers().get("set-cookie").map(|cookie| cookie.to_str().unwrap().to_owned());
    // The status is the acknowledgement, but later changes may need the body.
    let body: Value = match response.bytes().await {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        Err(_) => return None,
    };
    assert!(status.is_success(), "{} {}: {status}: {body}", change.method, change.path);
    let cookie = cookie.map(|cookie| cookie.split(';').next().unwrap().to_owned());
    Some(json!({"id": body["id"], "cookie": cookie, "initial_password": body["initial_password"]}))
}

//! Clients that change one object after another until the service is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::objects::{BASE_ROLES, Change, Object, Observer};
use crate::fleet::add_user;
use crate::support::{Client, Service};

/// A change that was asked for.
#[derive(Debug)]
pub struct Attempt {
    /// The user agent that its record bears.
    pub mark: String,
    pub acknowledged: bool,
    /// Whether it was found done; `None` when that cannot be told.
    pub applied: Option<bool>,
}

/// An object as far as its writer knows.
struct Slot {
    object: Object,
    state: Option<Value>,
    /// Where a change that was not answered would lead.
    in_flight: Option<(String, Option<Value>)>,
}

/// One client with objects of its own.
pub struct Writer {
    number: usize,
    slots: Vec<Slot>,
    chance: ChaCha8Rng,
    /// Acknowledged in this round.
    acknowledged: Vec<String>,
    changes: usize,
    written: usize,
}

impl Writer {
    pub async fn prepare(number: usize, service: &Service, admin: &Client, chance: ChaCha8Rng) -> Self {
        for role in BASE_ROLES {
            let policies = json!({"policies": [{"title": role, "expression": "true"}]});
            let answer = admin.put(&format!("/roles/{role}"), policies).await;
            assert!(matches!(answer.status, 200 | 201), "{}", answer.body);
        }
        let sitter = format!("sitter{number}");
        add_user(service, admin, &sitter, &[], json!({})).await;
        let mut objects: Vec<Object> = (0..2)
            .flat_map(|index| {
                let name = |kind: &str| format!("{kind}{number}-{index}");
                [Object::User(name("user")), Object::Role(name("role")), Object::Key(name("key"))]
            })
            .collect();
        objects.push(Object::Session(sitter));
        // The access model is one: whoever changed it second would be refused.
        if number == 0 {
            objects.push(Object::Fields);
        }
        let observer = Observer::new(admin.clone()).await;
        let mut slots = Vec::new();
        for object in objects {
            let state = observer.state(&object, None).await;
            slots.push(Slot { object, state, in_flight: None });
        }
        Self { number, slots, chance, acknowledged: Vec::new(), changes: 0, written: 0 }
    }

    /// How many changes were acknowledged so far.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Changes objects until a request is not answered.
    pub async fn write_until_cut_off(
        mut self,
        round: usize,
        admin: Client,
        acknowledged: Arc<AtomicUsize>,
    ) -> Self {
        loop {
            self.changes += 1;
            let mark = format!("kill-{round}-{}-{}", self.number, self.changes);
            let index = self.chance.random_range(0..self.slots.len());
            let choice = self.chance.random();
            let slot = &mut self.slots[index];
            let mut change = slot.object.change(slot.state.as_ref(), choice, &mark);
            if let (Object::Key(_), Some(state)) = (&slot.object, &slot.state) {
                change.path.push_str(state["id"].as_str().unwrap());
            }
            // A log-in that is cut off stays counted as failed; from one address, hundreds of them would be too many.
            let [.., high, low] = self.changes.to_be_bytes();
            let address = format!("10.{}.{high}.{low}", self.number);
            let client = admin.with("user-agent", &mark).with("x-forwarded-for", &address);
            match send(&client, &change).await {
                Some(found) => {
                    slot.state = match slot.object {
                        Object::Key(_) | Object::Session(_) => change.to.map(|_| found),
                        _ => change.to,
                    };
                    self.acknowledged.push(mark);
                    self.written += 1;
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                None => {
                    slot.in_flight = Some((mark, change.to));
                    return self;
                }
            }
        }
    }

    /// Compares what is there with what was acknowledged and attempted.
    pub async fn settle(&mut self, observer: &Observer) -> Vec<Attempt> {
        let mut attempts: Vec<Attempt> = self
            .acknowledged
            .drain(..)
            .map(|mark| Attempt { mark, acknowledged: true, applied: Some(true) })
            .collect();
        for slot in &mut self.slots {
            let found = observer.state(&slot.object, slot.state.as_ref()).await;
            // Ids are for whoever has them.
            let shown = |state: &Option<Value>| match slot.object {
                Object::Key(_) | Object::Session(_) => state.as_ref().map(|_| json!({})),
                _ => state.clone(),
            };
            let (is, was) = (shown(&found), shown(&slot.state));
            match slot.in_flight.take() {
                None => assert_eq!(is, was, "{:?}: acknowledged and not kept", slot.object),
                Some((mark, to)) => {
                    assert!(
                        is == was || is == shown(&to),
                        "{:?}: half done: it was {was:?}, was to be {to:?}, and is {is:?}",
                        slot.object
                    );
                    let lost_login = matches!(slot.object, Object::Session(_)) && to.is_some();
                    let applied = (!lost_login).then(|| is != was);
                    attempts.push(Attempt { mark, acknowledged: false, applied });
                }
            }
            slot.state = match &slot.object {
                Object::Key(name) => observer.key(name).map(|id| json!({"id": id})),
                _ => found,
            };
        }
        attempts
    }
}

/// What the answer gave to go on with: the id of a key, the cookie of a session. `None` when there was no answer.
async fn send(admin: &Client, change: &Change) -> Option<Value> {
    let client = match &change.if_match {
        Some(tag) => admin.with("if-match", tag),
        None => admin.clone(),
    };
    let mut request = client.request(change.method.clone(), &change.path);
    if let Some(body) = &change.body {
        request = request.json(body);
    }
    let response = request.send().await.ok()?;
    let status = response.status();
    let cookie = response.headers().get("set-cookie").map(|cookie| cookie.to_str().unwrap().to_owned());
    // The status is the acknowledgement, but what comes after it may be needed.
    let body: Value = match response.bytes().await {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        Err(_) => return None,
    };
    assert!(status.is_success(), "{} {}: {status}: {body}", change.method, change.path);
    let cookie = cookie.map(|cookie| cookie.split(';').next().unwrap().to_owned());
    Some(json!({"id": body["id"], "cookie": cookie}))
}

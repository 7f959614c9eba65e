//! Simulates an administrator: changes users and roles, revokes sessions and keys, runs previews, and checks that each change has
//! taken effect when it is acknowledged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::caller::{Answer, Ask, Caller};
use super::policies::{self, Attributes, Policy};
use super::rights::{Credential, ENDED, Grant};
use super::user::{Page, compare, traces_of};
use crate::stack::api::rfc_3339;

/// Time limit for retrying a change without acknowledgement.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum time that a user stays disabled.
const DISABLED: Duration = Duration::from_secs(15);

pub struct Administrator<'a> {
    pub caller: Caller<'a>,
    pub session: Arc<Credential>,
    /// Users that only this administrator changes, so that their state is known.
    pub users: Vec<usize>,
    /// Roles that only this administrator changes.
    pub roles: Vec<usize>,
    /// Total number of roles.
    pub all_roles: usize,
    /// Disabled users, and since when they are disabled.
    pub disabled: Vec<(usize, Instant)>,
}

/// Returns the name of a role.
pub fn role_name(role: usize) -> String {
    format!("soak-{role}")
}

impl Administrator<'_> {
    /// Runs until the soak ends.
    pub fn go_on(mut self) {
        while !self.caller.shared.is_over() {
            let overdue = self.disabled.iter().position(|(_, since)| since.elapsed() > DISABLED);
            match overdue {
                Some(place) => {
                    let (user, _) = self.disabled.swap_remove(place);
                    self.enable(user);
                }
                None => self.act(),
            }
            let pause = 500 + self.caller.chance.below(2_500) as u64;
            self.caller.shared.sleep(Duration::from_millis(pause));
        }
    }

    fn act(&mut self) {
        match self.caller.chance.below(100) {
            0..20 => self.change_roles_of_user(),
            20..35 => self.change_attributes(),
            35..55 => self.change_role(),
            55..58 => self.disable(),
            58..65 => self.end_sessions(),
            65..72 => self.revoke_keys(),
            72..83 => self.preview_as(),
            83..89 => self.preview_role(),
            89..95 => self.explain(),
            _ => self.read_audit(),
        }
    }

    fn user(&mut self) -> Option<(usize, String)> {
        let user = self.caller.chance.one_of(&self.users).copied()?;
        Some((user, self.caller.shared.usernames.get(user)?.clone()))
    }

    fn ask(
        &mut self,
        kind: &'static str,
        action: Option<&'static str>,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
        user: Option<usize>,
    ) -> Option<Answer> {
        let session = Arc::clone(&self.session);
        let credential = Some(&*session);
        self.send(&Ask { kind, action, again: false, method, path, body, credential, user })
    }

    /// Sends a request. Any response except unavailability must be a success.
    fn send(&mut self, ask: &Ask<'_>) -> Option<Answer> {
        let answer = self.caller.ask(ask)?;
        let done = (200..300).contains(&answer.status);
        self.caller.shared.check(done, || {
            let Ask { kind, method, path, .. } = ask;
            format!("{kind} ({method} {path}): {} for an administrator: {}", answer.status, answer.body)
        });
        done.then_some(answer)
    }

    /// Retries an idempotent change until it is acknowledged. Until then it is unknown which state is in effect.
    fn change(
        &mut self,
        kind: &'static str,
        action: &'static str,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> bool {
        let begun = Instant::now();
        let session = Arc::clone(&self.session);
        let mut ask = Ask {
            kind,
            action: Some(action),
            again: false,
            method,
            path,
            body,
            credential: Some(&session),
            user: None,
        };
        loop {
            if self.send(&ask).is_some() {
                self.caller.shared.checked(kind);
                return true;
            }
            if self.caller.shared.is_over() || begun.elapsed() > TIMEOUT {
                return false;
            }
            // Only a retried end of a preview may find no preview to end.
            ask.again = action == "preview.end";
            self.caller.shared.sleep(Duration::from_millis(300));
        }
    }

    fn change_user(&mut self, kind: &'static str, user: usize, name: &str, body: &Value, grant: Grant) {
        let rights = &self.caller.shared.rights;
        let before = rights.now(user);
        rights.user_sent(user, grant.clone());
        if self.change(kind, "user.update", "PATCH", &format!("/users/{name}"), Some(body)) {
            rights.user_settled(user, grant);
            self.probe(user, before.upper);
        }
    }

    /// Fetches, at every replica, a trace that this user could see before and no longer can.
    fn probe(&mut self, user: usize, before: policies::Mask) {
        let shared = self.caller.shared;
        let now = shared.rights.now(user);
        let closed = {
            let facts = shared.written.facts();
            let first = self.caller.chance.below(facts.sample);
            let mut later = (first..facts.sample).chain(0..first).filter_map(|place| facts.at(place));
            later
                .find(|fact| fact.satisfied & before != 0 && !now.may_show(fact.satisfied, None))
                .map(|fact| (fact.id.clone(), fact.satisfied))
        };
        let (Some((id, satisfied)), Some(key)) = (closed, shared.rights.live_key(user)) else { return };
        let path = format!("/traces/{id}");
        for place in 0..shared.places.len() {
            let ask = Ask {
                kind: "closed trace",
                action: Some("traces.get"),
                again: false,
                method: "GET",
                path: &path,
                body: None,
                credential: Some(&key),
                user: Some(user),
            };
            let Ok(Some(answer)) = self.caller.ask_at(&ask, place) else { continue };
            let range = answer.range;
            shared.check(answer.status != 200 || range.may_show(satisfied, key.restriction), || {
                format!("{id} was shown after the change that closed it was acknowledged ({range:?})")
            });
            shared.checked("closed trace");
        }
    }

    fn change_roles_of_user(&mut self) {
        let Some((user, name)) = self.user() else { return };
        let Some(mut grant) = self.caller.shared.rights.grant(user) else { return };
        let count = self.caller.chance.below(4);
        grant.roles = self.caller.chance.some(count, self.all_roles);
        let roles: Vec<String> = grant.roles.iter().map(|role| role_name(*role)).collect();
        self.change_user("roles of a user", user, &name, &json!({ "roles": roles }), grant);
    }

    fn change_attributes(&mut self) {
        let Some((user, name)) = self.user() else { return };
        let Some(mut grant) = self.caller.shared.rights.grant(user) else { return };
        grant.attributes = Attributes::any(&mut self.caller.chance);
        let body = json!({"attributes": grant.attributes.wire()});
        self.change_user("attributes of a user", user, &name, &body, grant);
    }

    fn change_role(&mut self) {
        let Some(role) = self.caller.chance.one_of(&self.roles).copied() else { return };
        let count = 1 + self.caller.chance.below(2);
        let contents: Vec<Policy> = (0..count).map(|_| Policy::any(&mut self.caller.chance)).collect();
        let rights = &self.caller.shared.rights;
        // A user who may lose access through the change.
        let user = self.caller.chance.below(self.caller.shared.usernames.len());
        let before = rights.now(user);
        rights.role_sent(role, contents.clone());
        let path = format!("/roles/{}", role_name(role));
        if self.change("policies of a role", "role.put", "PUT", &path, Some(&policies::wire(&contents))) {
            rights.role_settled(role, contents);
            self.probe(user, before.upper);
        }
    }

    fn disable(&mut self) {
        let Some((user, name)) = self.user() else { return };
        let rights = &self.caller.shared.rights;
        let Some(mut grant) = rights.grant(user).filter(|grant| grant.enabled) else { return };
        grant.enabled = false;
        // This check does not cover whether credentials work again when their user is enabled.
        rights.ending(user, |_| true);
        self.change_user("user disabled", user, &name, &json!({"disabled": true}), grant);
        rights.ended(user);
        self.disabled.push((user, Instant::now()));
    }

    fn enable(&mut self, user: usize) {
        let Some(name) = self.caller.shared.usernames.get(user).cloned() else { return };
        let Some(mut grant) = self.caller.shared.rights.grant(user) else { return };
        grant.enabled = true;
        self.change_user("user enabled", user, &name, &json!({"disabled": false}), grant);
    }

    fn end_sessions(&mut self) {
        let Some((user, name)) = self.user() else { return };
        let path = format!("/users/{name}/sessions");
        self.end(user, "sessions ended", "user.end_sessions", &path, |credential| !credential.is_key());
    }

    fn revoke_keys(&mut self) {
        let Some((user, name)) = self.user() else { return };
        let path = format!("/users/{name}/api-keys");
        self.end(user, "keys revoked", "user.revoke_api_keys", &path, Credential::is_key);
    }

    fn end(
        &mut self,
        user: usize,
        kind: &'static str,
        action: &'static str,
        path: &str,
        which: fn(&Credential) -> bool,
    ) {
        let rights = &self.caller.shared.rights;
        let chosen = rights.ending(user, which);
        let done = self.change(kind, action, "DELETE", path, None);
        if done {
            chosen.iter().for_each(|credential| credential.set(ENDED));
        }
        rights.ended(user);
        let shown = json!({"view": "ids", "limit": 1});
        for credential in chosen.iter().rev().take(1).filter(|_| done) {
            for place in 0..self.caller.shared.places.len() {
                let ask = Ask {
                    kind: "ended credential",
                    action: Some("traces.query"),
                    again: false,
                    method: "POST",
                    path: "/traces/query",
                    body: Some(&shown),
                    credential: Some(credential),
                    user: Some(user),
                };
                // `ask_at` has already checked the response.
                let _ = self.caller.ask_at(&ask, place);
            }
        }
    }

    fn window(&mut self, seconds: u64) -> (u64, u64) {
        const SECOND: u64 = 1_000_000_000;
        let (from, to) = self.caller.shared.written.window;
        let room = ((to - from) / SECOND).saturating_sub(seconds) as usize;
        let from = from + self.caller.chance.below(room) as u64 * SECOND;
        (from, from + seconds * SECOND)
    }

    /// Views as another user, runs a search, and ends the preview.
    fn preview_as(&mut self) {
        let Some((user, name)) = self.user() else { return };
        let body = json!({ "username": name });
        if !self.change("preview begun", "preview.begin", "PUT", "/me/preview", Some(&body)) {
            return;
        }
        let window = self.window(600);
        let query =
            json!({"from": rfc_3339(window.0), "to": rfc_3339(window.1), "view": "ids", "limit": 200});
        // The preview of a disabled user grants no access, but a response is not an error.
        let enabled = self.caller.shared.rights.now(user).surely_enabled;
        let kind = "search in a preview";
        if enabled
            && let Some(answer) =
                self.ask(kind, Some("traces.query"), "POST", "/traces/query", Some(&query), Some(user))
        {
            let last = answer.body.get("next_cursor").is_none_or(Value::is_null);
            let page = Page { window: Some(window), service: None, restriction: None };
            let found = traces_of(&answer.body, "ids");
            compare(&self.caller, &page, &answer, answer.range, found, last);
            self.caller.shared.checked(kind);
        }
        self.change("preview ended", "preview.end", "DELETE", "/me/preview", None);
    }

    /// Previews a role change, which changes nothing.
    fn preview_role(&mut self) {
        let role = role_name(self.caller.chance.below(self.all_roles));
        let policy =
            json!({"title": "Would be", "expression": Policy::any(&mut self.caller.chance).expression()});
        let window = self.window(3_600);
        let body = json!({"role": role, "policies": [policy], "from": rfc_3339(window.0), "to": rfc_3339(window.1), "seconds": 30});
        let kind = "preview of a role";
        if self.ask(kind, Some("policy.preview"), "POST", "/policies/preview", Some(&body), None).is_some() {
            self.caller.shared.checked(kind);
        }
    }

    /// Explains the access to another user's trace.
    fn explain(&mut self) {
        let Some((user, name)) = self.user() else { return };
        let shared = self.caller.shared;
        if !shared.rights.now(user).surely_enabled {
            return;
        }
        let place = self.caller.chance.below(shared.written.facts().sample);
        let fact = shared.written.facts().at(place).map(|fact| (fact.id.clone(), fact.satisfied));
        let Some((id, satisfied)) = fact else { return };
        let path = format!("/traces/{id}/explain?user={name}");
        let kind = "explanation for another";
        let Some(answer) = self.ask(kind, Some("traces.explain"), "GET", &path, None, Some(user)) else {
            return;
        };
        let visible = answer.body.get("visible").and_then(Value::as_bool);
        let range = answer.range;
        let right = match visible {
            Some(true) => range.may_show(satisfied, None),
            Some(false) => !range.must_show(satisfied, None),
            None => false,
        };
        shared.check(right, || {
            format!("{kind}: {id} is visible to {name}: {visible:?} ({range:?}, {satisfied:x})")
        });
        shared.checked(kind);
    }

    fn read_audit(&mut self) {
        let answer = self.ask("audit log read", None, "GET", "/audit?limit=200", None, None);
        let Some(answer) = answer else { return };
        let records = answer.body.get("records").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
        self.caller.shared.check(records, || format!("the audit log is empty: {}", answer.body));
        self.caller.shared.checked("audit log read");
    }
}

//! Simulates an administrator: changes users and roles, revokes sessions and keys, runs previews, and checks that each change has
//! taken effect when it is acknowledged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::caller::{Answer, Caller, RequestSpec};
use super::expected_access::{Credential, REVOKED, UserState};
use super::policies::{self, Attributes, Policy};
use super::user::{SearchParameters, check_page, traces_in_page};
use crate::stack::api::rfc_3339;

/// Time limit for retrying a change without acknowledgement.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum time that a user stays disabled.
const MAX_DISABLED_TIME: Duration = Duration::from_secs(15);

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
    pub fn run_until_end(mut self) {
        while !self.caller.shared.is_over() {
            let overdue = self.disabled.iter().position(|(_, since)| since.elapsed() > MAX_DISABLED_TIME);
            match overdue {
                Some(index) => {
                    let (user, _) = self.disabled.swap_remove(index);
                    self.enable(user);
                }
                None => self.act(),
            }
            let pause = 500 + self.caller.random.below(2_500) as u64;
            self.caller.shared.sleep(Duration::from_millis(pause));
        }
    }

    fn act(&mut self) {
        match self.caller.random.below(100) {
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
        let user = self.caller.random.one_of(&self.users).copied()?;
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
        self.send(&RequestSpec { kind, action, again: false, method, path, body, credential, user })
    }

    /// Sends a request. Any response except unavailability must be a success.
    fn send(&mut self, ask: &RequestSpec<'_>) -> Option<Answer> {
        let answer = self.caller.ask(ask)?;
        let done = (200..300).contains(&answer.status);
        self.caller.shared.check(done, || {
            let RequestSpec { kind, method, path, .. } = ask;
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
        let mut ask = RequestSpec {
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

    fn change_user(
        &mut self,
        kind: &'static str,
        user: usize,
        name: &str,
        body: &Value,
        user_state: UserState,
    ) {
        let expected_access = &self.caller.shared.expected_access;
        let before = expected_access.now(user);
        expected_access.user_change_sent(user, user_state.clone());
        if self.change(kind, "user.update", "PATCH", &format!("/users/{name}"), Some(body)) {
            expected_access.user_change_acknowledged(user, user_state);
            self.check_access_is_revoked(user, before.upper);
        }
    }

    /// Fetches, at every replica, a trace that this user could see before and no longer can.
    fn check_access_is_revoked(&mut self, user: usize, before: policies::Mask) {
        let shared = self.caller.shared;
        let now = shared.expected_access.now(user);
        let revoked_trace = {
            let expected_traces = shared.written.expected_traces();
            let first = self.caller.random.below(expected_traces.sample);
            let mut later =
                (first..expected_traces.sample).chain(0..first).filter_map(|index| expected_traces.at(index));
            later
                .find(|expected_trace| {
                    expected_trace.satisfied & before != 0 && !now.may_show(expected_trace.satisfied, None)
                })
                .map(|expected_trace| (expected_trace.id.clone(), expected_trace.satisfied))
        };
        let (Some((id, satisfied)), Some(key)) = (revoked_trace, shared.expected_access.valid_key(user))
        else {
            return;
        };
        let path = format!("/traces/{id}");
        for index in 0..shared.replica_states.len() {
            let ask = RequestSpec {
                kind: "closed trace",
                action: Some("traces.get"),
                again: false,
                method: "GET",
                path: &path,
                body: None,
                credential: Some(&key),
                user: Some(user),
            };
            let Ok(Some(answer)) = self.caller.ask_replica(&ask, index) else { continue };
            let range = answer.range;
            shared.check(answer.status != 200 || range.may_show(satisfied, key.restriction), || {
                format!("{id} was shown after the change that closed it was acknowledged ({range:?})")
            });
            shared.checked("closed trace");
        }
    }

    fn change_roles_of_user(&mut self) {
        let Some((user, name)) = self.user() else { return };
        let Some(mut user_state) = self.caller.shared.expected_access.user_state(user) else { return };
        let count = self.caller.random.below(4);
        user_state.roles = self.caller.random.some(count, self.all_roles);
        let roles: Vec<String> = user_state.roles.iter().map(|role| role_name(*role)).collect();
        self.change_user("roles of a user", user, &name, &json!({ "roles": roles }), user_state);
    }

    fn change_attributes(&mut self) {
        let Some((user, name)) = self.user() else { return };
        let Some(mut user_state) = self.caller.shared.expected_access.user_state(user) else { return };
        user_state.attributes = Attributes::any(&mut self.caller.random);
        let body = json!({"attributes": user_state.attributes.wire()});
        self.change_user("attributes of a user", user, &name, &body, user_state);
    }

    fn change_role(&mut self) {
        let Some(role) = self.caller.random.one_of(&self.roles).copied() else { return };
        let count = 1 + self.caller.random.below(2);
        let contents: Vec<Policy> = (0..count).map(|_| Policy::any(&mut self.caller.random)).collect();
        let expected_access = &self.caller.shared.expected_access;
        // A user who may lose access through the change.
        let user = self.caller.random.below(self.caller.shared.usernames.len());
        let before = expected_access.now(user);
        expected_access.role_change_sent(role, contents.clone());
        let path = format!("/roles/{}", role_name(role));
        if self.change("policies of a role", "role.put", "PUT", &path, Some(&policies::wire(&contents))) {
            expected_access.role_change_acknowledged(role, contents);
            self.check_access_is_revoked(user, before.upper);
        }
    }

    fn disable(&mut self) {
        let Some((user, name)) = self.user() else { return };
        let expected_access = &self.caller.shared.expected_access;
        let Some(mut user_state) = expected_access.user_state(user).filter(|user_state| user_state.enabled)
        else {
            return;
        };
        user_state.enabled = false;
        // This check does not cover whether credentials work again when their user is enabled.
        expected_access.revocation_sent(user, |_| true);
        self.change_user("user disabled", user, &name, &json!({"disabled": true}), user_state);
        expected_access.revocation_finished(user);
        self.disabled.push((user, Instant::now()));
    }

    fn enable(&mut self, user: usize) {
        let Some(name) = self.caller.shared.usernames.get(user).cloned() else { return };
        let Some(mut user_state) = self.caller.shared.expected_access.user_state(user) else { return };
        user_state.enabled = true;
        self.change_user("user enabled", user, &name, &json!({"disabled": false}), user_state);
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
        let expected_access = &self.caller.shared.expected_access;
        let chosen = expected_access.revocation_sent(user, which);
        let done = self.change(kind, action, "DELETE", path, None);
        if done {
            chosen.iter().for_each(|credential| credential.set(REVOKED));
        }
        expected_access.revocation_finished(user);
        let shown = json!({"view": "ids", "limit": 1});
        for credential in chosen.iter().rev().take(1).filter(|_| done) {
            for index in 0..self.caller.shared.replica_states.len() {
                let ask = RequestSpec {
                    kind: "ended credential",
                    action: Some("traces.query"),
                    again: false,
                    method: "POST",
                    path: "/traces/query",
                    body: Some(&shown),
                    credential: Some(credential),
                    user: Some(user),
                };
                // `ask_replica` has already checked the response.
                let _ = self.caller.ask_replica(&ask, index);
            }
        }
    }

    fn window(&mut self, seconds: u64) -> (u64, u64) {
        const SECOND: u64 = 1_000_000_000;
        let (from, to) = self.caller.shared.written.window;
        let range_seconds = ((to - from) / SECOND).saturating_sub(seconds) as usize;
        let from = from + self.caller.random.below(range_seconds) as u64 * SECOND;
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
        let enabled = self.caller.shared.expected_access.now(user).surely_enabled;
        let kind = "search in a preview";
        if enabled
            && let Some(answer) =
                self.ask(kind, Some("traces.query"), "POST", "/traces/query", Some(&query), Some(user))
        {
            let last = answer.body.get("next_cursor").is_none_or(Value::is_null);
            let page = SearchParameters { window: Some(window), service: None, restriction: None };
            let found = traces_in_page(&answer.body, "ids");
            check_page(&self.caller, &page, &answer, answer.range, found, last);
            self.caller.shared.checked(kind);
        }
        self.change("preview ended", "preview.end", "DELETE", "/me/preview", None);
    }

    /// Previews a role change, which changes nothing.
    fn preview_role(&mut self) {
        let role = role_name(self.caller.random.below(self.all_roles));
        let policy =
            json!({"title": "Would be", "expression": Policy::any(&mut self.caller.random).expression()});
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
        if !shared.expected_access.now(user).surely_enabled {
            return;
        }
        let index = self.caller.random.below(shared.written.expected_traces().sample);
        let expected_trace = shared
            .written
            .expected_traces()
            .at(index)
            .map(|expected_trace| (expected_trace.id.clone(), expected_trace.satisfied));
        let Some((id, satisfied)) = expected_trace else { return };
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

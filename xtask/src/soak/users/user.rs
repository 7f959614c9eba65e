//! Simulates a user: searches, traces, values, explanations, tools, sessions and keys. Checks that each response shows what it
//! must and nothing else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracewarden_sample_data::Service;

use super::caller::{Answer, Caller, RequestSpec, tool_failure};
use super::expected_access::{BEING_REVOKED, Credential, REVOKED, Range, VALID};
use super::policies::{Mask, Policy, has_service};
use super::spans::ExpectedTrace;
use crate::demo::now;
use crate::stack::api::rfc_3339;

const SECOND: u64 = 1_000_000_000;

/// Maximum number of traces on a page.
const PAGE: usize = 200;

/// Type of client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum UserKind {
    /// A browser with a session, occasionally an API key.
    Session,
    /// A program with an API key.
    Key,
    /// An MCP client, which mostly calls tools.
    Agent,
}

pub struct User<'a> {
    pub caller: Caller<'a>,
    pub index: usize,
    pub user_kind: UserKind,
    pub password: String,
    pub session: Option<Arc<Credential>>,
    pub key: Option<Arc<Credential>>,
}

impl User<'_> {
    /// Runs until the soak ends.
    pub fn run_until_end(mut self) {
        while !self.caller.shared.is_over() {
            let pause =
                500 + self.caller.random.below((self.caller.shared.pause * 2_000 - 1_000) as usize) as u64;
            self.caller.shared.sleep(Duration::from_millis(pause));
            self.act();
        }
    }

    fn act(&mut self) {
        if self.session.as_ref().is_none_or(|session| session.validity() == REVOKED) && !self.sign_in() {
            // The user is disabled, or too many users sign in concurrently: retry later.
            self.caller.shared.sleep(Duration::from_secs(3));
            return;
        }
        if self.key.as_ref().is_none_or(|key| key.validity() != VALID) && !self.make_key() {
            return;
        }
        let share = self.caller.random.below(100);
        match (self.user_kind, share) {
            (UserKind::Agent, 0..70) => self.call_tool(),
            (_, 0..48) => self.search(),
            (_, 48..70) => self.fetch(),
            (_, 70..76) => self.values(),
            (_, 76..82) => self.explain(),
            (_, 82..92) => self.call_tool(),
            (_, 92..96) => self.who_am_i(),
            (_, 96..98) => self.log_out(),
            _ => self.revoke_key(),
        }
    }

    fn credential(&mut self) -> Option<Arc<Credential>> {
        let by_key = self.user_kind != UserKind::Session || self.caller.random.percent(10);
        if by_key { self.key.clone() } else { self.session.clone() }
    }

    fn ask(
        &mut self,
        kind: &'static str,
        action: Option<&'static str>,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
        credential: &Arc<Credential>,
    ) -> Option<Answer> {
        let user = Some(self.index);
        let credential_of = Some(&**credential);
        let ask =
            RequestSpec { kind, action, again: false, method, path, body, credential: credential_of, user };
        let answer = self.caller.ask(&ask)?;
        if answer.status == 401 {
            // The credential was revoked or the user was disabled, so that a new credential is needed.
            credential.set(REVOKED);
            return None;
        }
        Some(answer)
    }

    fn sign_in(&mut self) -> bool {
        let shared = self.caller.shared;
        // Failed sign-ins are counted per address, which all users here share. More than a few would block all of them.
        if !shared.expected_access.now(self.index).maybe_enabled && !self.caller.random.percent(10) {
            return false;
        }
        let Some(username) = shared.usernames.get(self.index) else { return false };
        let body = json!({"username": username, "password": self.password});
        let revocation_events = shared.expected_access.revocation_events(self.index);
        let ask = RequestSpec {
            kind: "sign-in",
            action: Some("login"),
            again: false,
            method: "POST",
            path: "/login",
            body: Some(&body),
            credential: None,
            user: Some(self.index),
        };
        let Some(answer) = self.caller.ask(&ask) else { return false };
        match (answer.status, answer.cookie.as_ref()) {
            (200, Some(cookie)) => {
                let session = Arc::new(Credential::new(("cookie", cookie.clone()), String::new(), None));
                shared.expected_access.add_credential(self.index, &session, revocation_events);
                shared.checked("sign-in");
                self.session = Some(session);
                true
            }
            (401, _) => {
                shared.check(!answer.range.surely_enabled, || {
                    format!("a sign-in was refused: {}", answer.body)
                });
                self.caller.require_denial_record(&answer);
                false
            }
            _ => {
                shared.wrong(format!("a sign-in was answered with {}: {}", answer.status, answer.body));
                false
            }
        }
    }

    fn log_out(&mut self) {
        let Some(session) = self.session.take() else { return };
        session.set(BEING_REVOKED);
        let body = json!({});
        if self.ask("sign-out", Some("logout"), "POST", "/logout", Some(&body), &session).is_some() {
            session.set(REVOKED);
            self.caller.shared.checked("sign-out");
            self.check_rejected(&session);
        }
    }

    /// After an acknowledged revocation, no replica may return traces.
    fn check_rejected(&mut self, credential: &Arc<Credential>) {
        let body = json!({"view": "ids", "limit": 1});
        let _ = self.ask("search", Some("traces.query"), "POST", "/traces/query", Some(&body), credential);
    }

    /// Creates an API key, sometimes a scoped one.
    fn make_key(&mut self) -> bool {
        let Some(session) = self.session.clone() else { return false };
        let own = Policy::Fixed(self.caller.random.below(Service::ALL.len()));
        let narrowed = self.caller.random.percent(20);
        let mut body = json!({"name": "soak"});
        if let (true, Some(body)) = (narrowed, body.as_object_mut()) {
            body.insert("policy".to_owned(), json!(own.expression()));
        }
        // This policy does not depend on user attributes.
        let restriction = narrowed.then(|| own.fixed_mask());
        let revocation_events = self.caller.shared.expected_access.revocation_events(self.index);
        let kind = "key made";
        let made = self.ask(kind, Some("api_key.create"), "POST", "/me/api-keys", Some(&body), &session);
        let Some(answer) = made else { return false };
        let text = |name: &str| answer.body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let header = ("authorization", format!("Bearer {}", text("token")));
        let key = Arc::new(Credential::new(header, text("id"), restriction));
        self.caller.shared.expected_access.add_credential(self.index, &key, revocation_events);
        self.caller.shared.checked(kind);
        self.key = Some(key);
        true
    }

    fn revoke_key(&mut self) {
        let (Some(session), Some(key)) = (self.session.clone(), self.key.clone()) else { return };
        key.set(BEING_REVOKED);
        let path = format!("/me/api-keys/{}", key.id);
        let kind = "key revoked";
        let answer = self.ask(kind, Some("api_key.revoke"), "DELETE", &path, None, &session);
        // Another client may have revoked the key at the same time.
        if answer.is_some() {
            key.set(REVOKED);
            self.caller.shared.checked(kind);
            self.check_rejected(&key);
        }
    }

    fn who_am_i(&mut self) {
        let Some(credential) = self.credential() else { return };
        let Some(answer) = self.ask("who am I", None, "GET", "/me", None, &credential) else { return };
        let shared = self.caller.shared;
        let own = shared.usernames.get(self.index).map(String::as_str);
        shared.check(answer.body.get("username").and_then(Value::as_str) == own, || {
            format!("/me is {} to {own:?}", answer.body)
        });
        shared.checked("who am I");
    }

    /// Returns a random window in the previous day of up to `seconds` seconds.
    fn window(&mut self, seconds: usize) -> (u64, u64) {
        let (from, to) = self.caller.shared.written.window;
        let length = (1 + self.caller.random.below(seconds) as u64) * SECOND;
        let range_seconds = ((to - from).saturating_sub(length) / SECOND) as usize;
        let from = from + self.caller.random.below(range_seconds) as u64 * SECOND;
        (from, from + length)
    }

    fn search(&mut self) {
        let Some(credential) = self.credential() else { return };
        let recent = self.caller.random.percent(15);
        let view = ["ids", "summary", "spans"].get(self.caller.random.below(3)).copied().unwrap_or("ids");
        let limit = if view == "spans" { 10 } else { PAGE };
        let window = match (recent, view) {
            (true, _) => {
                let now = now().unwrap_or_default();
                (now.saturating_sub(60 * SECOND), now)
            }
            (false, "spans") => self.window(120),
            (false, _) => self.window(1_200),
        };
        let service = self.caller.random.percent(40).then(|| self.caller.random.below(Service::ALL.len()));
        let mut body =
            json!({"from": rfc_3339(window.0), "to": rfc_3339(window.1), "view": view, "limit": limit});
        if let (Some(service), Some(body)) =
            (service.and_then(|trace_index| Service::ALL.get(trace_index)), body.as_object_mut())
        {
            let condition = json!({"name": "ServiceName", "op": "eq", "value": service.name()});
            body.insert("filter".to_owned(), json!({"conditions": [condition]}));
        }
        let path = "/traces/query";
        let Some(answer) = self.ask("search", Some("traces.query"), "POST", path, Some(&body), &credential)
        else {
            return;
        };
        let page = SearchParameters {
            window: (!recent).then_some(window),
            service,
            restriction: credential.restriction,
        };
        let found = traces_in_page(&answer.body, view);
        let last = answer.body.get("next_cursor").is_none_or(Value::is_null);
        self.check_page(&page, &answer, found, last);
        self.caller.shared.checked("search");
    }

    /// Checks the found traces against the traces that must and may be shown.
    fn check_page(&self, page: &SearchParameters, answer: &Answer, found: FoundTraces, last: bool) {
        check_page(&self.caller, page, answer, answer.range, found, last);
    }

    fn any_trace(&mut self) -> Option<RequestedTrace> {
        let expected_traces = self.caller.shared.written.expected_traces();
        // Select traces of the current day about as often as those of the previous day.
        let recent = expected_traces.len() - expected_traces.sample;
        let trace_index = match self.caller.random.percent(40) && recent > 0 {
            true => expected_traces.sample + self.caller.random.below(recent),
            false => self.caller.random.below(expected_traces.sample),
        };
        let expected_trace = expected_traces.at(trace_index)?;
        let written = expected_trace.was_written(Instant::now());
        Some(RequestedTrace {
            id: expected_trace.id.clone(),
            satisfied: expected_trace.satisfied,
            spans: expected_trace.spans,
            written,
        })
    }

    fn fetch(&mut self) {
        let Some(credential) = self.credential() else { return };
        let Some(trace) = self.any_trace() else { return };
        let path = format!("/traces/{}", trace.id);
        let answer = self.ask("trace", Some("traces.get"), "GET", &path, None, &credential);
        let Some(answer) = answer else { return };
        let found = (answer.status == 200).then(|| list(&answer.body, "spans").len());
        self.check_trace("trace", &answer, &trace, found, credential.restriction);
    }

    /// Checks the response for a trace that was requested by id: present with all its spans, or absent.
    fn check_trace(
        &self,
        kind: &'static str,
        answer: &Answer,
        trace: &RequestedTrace,
        found: Option<usize>,
        restriction: Option<Mask>,
    ) {
        let (shared, range) = (self.caller.shared, answer.range);
        let RequestedTrace { id, satisfied, spans, written } = trace;
        let who = shared.usernames.get(self.index).map(String::as_str).unwrap_or_default();
        match found {
            Some(found) => {
                shared.check(range.may_show(*satisfied, restriction), || {
                    format!(
                        "{kind}: {who} was shown {id}, although no policy grants access ({range:?}, {satisfied:x})"
                    )
                });
                let whole = if *written { found == *spans } else { found <= *spans };
                shared.check(whole, || format!("{kind}: {who} got {found} of {spans} spans of {id}"));
            }
            None => shared.check(!(*written && range.must_show(*satisfied, restriction)), || {
                format!(
                    "{kind}: {who} was not shown {id}, although a policy grants access ({range:?}, {satisfied:x})"
                )
            }),
        }
        shared.checked(kind);
    }

    fn values(&mut self) {
        let Some(credential) = self.credential() else { return };
        let window = self.window(3_600);
        let path = format!(
            "/filter/values?ref=ServiceName&limit=50&from={}&to={}",
            rfc_3339(window.0),
            rfc_3339(window.1)
        );
        let answer = self.ask("values", Some("traces.values"), "GET", &path, None, &credential);
        let Some(answer) = answer else { return };
        let shared = self.caller.shared;
        let expected_traces = shared.written.expected_traces();
        let complete = answer.body.get("complete") == Some(&json!(true));
        let mut listed: HashMap<&str, usize> = HashMap::new();
        for value in list(&answer.body, "values") {
            let name = value.get("value").and_then(Value::as_str).unwrap_or_default();
            shared.check(Service::ALL.iter().any(|service| service.name() == name), || {
                format!("values: {name} is not a service")
            });
            listed.insert(name, number(value, "/traces"));
        }
        for (index, service) in Service::ALL.iter().enumerate() {
            let count = |open: &dyn Fn(&ExpectedTrace) -> bool| {
                expected_traces
                    .within(window)
                    .filter(|expected_trace| {
                        has_service(expected_trace.satisfied, index) && open(expected_trace)
                    })
                    .count()
            };
            // If there are many traces, the service evaluates only the newest.
            let least = match complete {
                true => count(&|expected_trace| {
                    answer.range.must_show(expected_trace.satisfied, credential.restriction)
                }),
                false => 0,
            };
            let most = count(&|expected_trace| {
                answer.range.may_show(expected_trace.satisfied, credential.restriction)
            });
            let (name, traces) = (service.name(), listed.get(service.name()).copied().unwrap_or_default());
            shared.check((least..=most).contains(&traces), || {
                format!("values: {name} in {traces} traces, must be {least} to {most}")
            });
        }
        shared.checked("values");
    }

    fn explain(&mut self) {
        let Some(credential) = self.credential() else { return };
        let Some(trace) = self.any_trace() else { return };
        let path = format!("/traces/{}/explain", trace.id);
        let answer = self.ask("explanation", Some("traces.explain"), "GET", &path, None, &credential);
        let Some(answer) = answer else { return };
        let found = (answer.status == 200).then(|| number(&answer.body, "/spans"));
        self.check_trace("explanation", &answer, &trace, found, credential.restriction);
    }

    fn call_tool(&mut self) {
        let Some(key) = self.key.clone() else { return };
        match self.caller.random.below(4) {
            0 => self.tool_stats(&key),
            1 => self.tool_search(&key),
            _ => self.tool_trace(&key),
        }
    }

    /// Calls a tool. Returns the response with the structured content, or without it if the trace was not found, or `None` for
    /// any other failure.
    fn tool(
        &mut self,
        kind: &'static str,
        action: &'static str,
        name: &str,
        arguments: &Value,
        key: &Arc<Credential>,
    ) -> Option<(Answer, Option<Value>)> {
        let params = json!({"name": name, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answer = self.ask(kind, Some(action), "POST", "/mcp", Some(&message), key)?;
        let shared = self.caller.shared;
        match tool_failure(&answer.body) {
            None => {
                let content = answer.body.pointer("/result/structuredContent").cloned();
                shared.check(content.is_some(), || format!("{kind}: no structured content: {}", answer.body));
                content.map(|content| (answer, Some(content)))
            }
            Some("trace_not_found") => Some((answer, None)),
            Some(code) => {
                shared.check(shared.fault_since(answer.begun), || {
                    format!("{kind}: the tool returned {code}, although no program was down: {}", answer.body)
                });
                shared.refused(kind);
                None
            }
        }
    }

    fn tool_trace(&mut self, key: &Arc<Credential>) {
        let Some(trace) = self.any_trace() else { return };
        let (kind, arguments) = ("tool: trace", json!({"trace_id": trace.id}));
        let called = self.tool(kind, "traces.get", "svc_get_trace", &arguments, key);
        let Some((answer, content)) = called else { return };
        let found = content.map(|content| number(&content, "/trace/spans"));
        self.check_trace(kind, &answer, &trace, found, key.restriction);
    }

    fn tool_stats(&mut self, key: &Arc<Credential>) {
        let window = self.window(3_600);
        let arguments = json!({"from": rfc_3339(window.0), "to": rfc_3339(window.1), "per": "trace"});
        let kind = "tool: statistics";
        let called = self.tool(kind, "traces.stats", "svc_trace_stats", &arguments, key);
        let Some((answer, Some(content))) = called else { return };
        let shared = self.caller.shared;
        let counted = number(&content, "/all/traces");
        let (least, most) = {
            let expected_traces = shared.written.expected_traces();
            let count = |open: &dyn Fn(&ExpectedTrace) -> bool| {
                expected_traces.within(window).filter(|expected_trace| open(expected_trace)).count()
            };
            (
                count(&|expected_trace| answer.range.must_show(expected_trace.satisfied, key.restriction)),
                count(&|expected_trace| answer.range.may_show(expected_trace.satisfied, key.restriction)),
            )
        };
        shared.check((least..=most).contains(&counted), || {
            format!("{kind}: {counted} traces, must be {least} to {most}")
        });
        shared.checked(kind);
    }

    fn tool_search(&mut self, key: &Arc<Credential>) {
        let window = self.window(600);
        let (from, to) = (rfc_3339(window.0), rfc_3339(window.1));
        let arguments = json!({"from": from, "to": to, "limit": 20});
        let kind = "tool: search";
        let called = self.tool(kind, "traces.query", "svc_query_traces", &arguments, key);
        let Some((answer, Some(content))) = called else { return };
        let page = SearchParameters { window: Some(window), service: None, restriction: key.restriction };
        let found = list(&content, "traces").iter().map(|trace| {
            let id = trace.get("trace_id").and_then(Value::as_str).unwrap_or_default();
            (id.to_owned(), Some(number(trace, "/spans")))
        });
        let all = content.get("total").is_some_and(Value::is_u64)
            && content.get("truncated") == Some(&json!(false));
        self.check_page(&page, &answer, found.collect(), all);
        self.caller.shared.checked(kind);
    }
}

/// A trace to request.
struct RequestedTrace {
    id: String,
    satisfied: Mask,
    spans: usize,
    /// Whether all its spans were written before the request.
    written: bool,
}

/// Trace ids of a response, with the reported number of spans.
pub type FoundTraces = HashMap<String, Option<usize>>;

/// Parameters of a search.
pub struct SearchParameters {
    /// Window in the previous day. `None` is the last minute, in which traces arrive during the search.
    pub window: Option<(u64, u64)>,
    pub service: Option<usize>,
    pub restriction: Option<Mask>,
}

/// Checks the found traces against the traces that must and may be shown in `range`.
pub fn check_page(
    caller: &Caller<'_>,
    page: &SearchParameters,
    answer: &Answer,
    range: Range,
    found: FoundTraces,
    last: bool,
) {
    let shared = caller.shared;
    let expected_traces = shared.written.expected_traces();
    for (id, spans) in &found {
        let Some(expected_trace) = expected_traces.get(id) else {
            shared.wrong(format!("search: {id} was never written"));
            continue;
        };
        shared.check(range.may_show(expected_trace.satisfied, page.restriction), || {
            format!(
                "search: {id} was shown, although no policy grants access ({range:?}, {:x})",
                expected_trace.satisfied
            )
        });
        let matches = page.window.is_none_or(|window| expected_trace.is_in(window))
            && page.service.is_none_or(|service| has_service(expected_trace.satisfied, service));
        shared.check(matches, || format!("search: {id} does not match the conditions"));
        let whole = match (spans, expected_trace.was_written(answer.begun)) {
            (None, _) => true,
            (Some(spans), true) => *spans == expected_trace.spans,
            (Some(spans), false) => *spans <= expected_trace.spans,
        };
        shared.check(whole, || format!("search: {spans:?} of {} spans of {id}", expected_trace.spans));
    }
    // Only the last page is checked for missing traces, because other pages hold only the newest.
    let Some(window) = page.window.filter(|_| last) else { return };
    let missing = expected_traces.within(window).find(|expected_trace| {
        page.service.is_none_or(|service| has_service(expected_trace.satisfied, service))
            && range.must_show(expected_trace.satisfied, page.restriction)
            && !found.contains_key(&expected_trace.id)
    });
    shared.check(missing.is_none(), || {
        let id = missing.map(|expected_trace| expected_trace.id.as_str()).unwrap_or_default();
        format!(
            "search: {id} is missing among {} traces, although a policy grants access to it ({range:?})",
            found.len()
        )
    });
}

/// Returns the traces of a page.
pub fn traces_in_page(body: &Value, view: &str) -> FoundTraces {
    let text =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match view {
        "ids" => {
            let ids = list(body, "trace_ids").iter().filter_map(Value::as_str);
            ids.map(|id| (id.to_owned(), None)).collect()
        }
        "summary" => list(body, "traces")
            .iter()
            .map(|trace| (text(trace, "trace_id"), Some(number(trace, "/span_count"))))
            .collect(),
        _ => {
            let mut found = FoundTraces::new();
            for span in list(body, "spans") {
                *found.entry(text(span, "TraceId")).or_default().get_or_insert(0) += 1;
            }
            found
        }
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn number(value: &Value, pointer: &str) -> usize {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_tells_its_traces() {
        let ids = traces_in_page(&json!({"trace_ids": ["a", "b"]}), "ids");
        assert_eq!(ids, FoundTraces::from([("a".to_owned(), None), ("b".to_owned(), None)]));
        let summaries = json!({"traces": [{"trace_id": "a", "span_count": 3}]});
        assert_eq!(traces_in_page(&summaries, "summary"), FoundTraces::from([("a".to_owned(), Some(3))]));
        let spans = json!({"spans": [{"TraceId": "a"}, {"TraceId": "b"}, {"TraceId": "a"}]});
        let expected = FoundTraces::from([("a".to_owned(), Some(2)), ("b".to_owned(), Some(1))]);
        assert_eq!(traces_in_page(&spans, "spans"), expected);
    }
}

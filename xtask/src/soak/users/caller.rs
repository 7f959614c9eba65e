//! An HTTP client with a credential. It sends each request to a given replica and checks the status of the response.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::Agent;
use ureq::http::Request;

use super::expected_access::{Credential, REVOKED, Range, VALID};
use super::random::Random;
use super::shared::{SharedState, lock};

/// Time-out, which exceeds every time limit of the service.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A request.
pub struct RequestSpec<'a> {
    /// Kind of request in the statistics.
    pub kind: &'static str,
    /// Action of its audit record, if it leaves one.
    pub action: Option<&'static str>,
    /// Whether the request is a retry, which may find the change already done and then leaves no record.
    pub again: bool,
    pub method: &'static str,
    pub path: &'a str,
    pub body: Option<&'a Value>,
    pub credential: Option<&'a Credential>,
    /// User whose access determines the response.
    pub user: Option<usize>,
}

/// A complete response.
pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub cookie: Option<String>,
    /// Time at which the request was sent.
    pub begun: Instant,
    /// What its user may have been able to see while the request ran.
    pub range: Range,
    /// Request id in the audit log.
    request: String,
}

/// A client.
pub struct Caller<'a> {
    pub shared: &'a SharedState,
    pub random: Random,
    /// HTTP agent of each replica, with the generation of the replica's process.
    agents: Vec<(u64, Agent)>,
}

/// Outcome of sending a request.
enum SendOutcome {
    Complete { status: u16, text: String, cookie: Option<String>, request: String },
    NotConnected,
    Interrupted(String),
}

impl<'a> Caller<'a> {
    pub fn new(shared: &'a SharedState, stream: u64) -> Self {
        let agents = shared.replica_states.iter().map(|_| (0, agent())).collect();
        Self { shared, random: Random::new(shared.seed, stream), agents }
    }

    /// Sends a request to a replica that is up.
    pub fn ask(&mut self, ask: &RequestSpec<'_>) -> Option<Answer> {
        loop {
            let up: Vec<usize> =
                (0..self.agents.len()).filter(|replica| self.replica_is_up(*replica)).collect();
            let replica = self.random.one_of(&up).copied().unwrap_or_default();
            match self.ask_replica(ask, replica) {
                Ok(answer) => return answer,
                // The request was not sent, so that another replica is tried, as a load balancer does.
                Err(NotConnected) if self.shared.is_over() => return None,
                Err(NotConnected) => self.shared.sleep(Duration::from_millis(100)),
            }
        }
    }

    fn replica_is_up(&self, replica: usize) -> bool {
        self.shared.replica_states.get(replica).is_some_and(|replica| replica.up.load(Ordering::SeqCst))
    }

    /// Sends a request to this replica. Returns `None` if the response is incomplete or reports unavailability; both are counted
    /// and checked here.
    pub fn ask_replica(
        &mut self,
        ask: &RequestSpec<'_>,
        replica: usize,
    ) -> Result<Option<Answer>, NotConnected> {
        let shared = self.shared;
        let validity_before = ask.credential.map(Credential::validity);
        let ticket = ask.user.map(|user| shared.expected_access.begin(user));
        let begun = Instant::now();
        let sent = self.send(ask, replica);
        let time = begun.elapsed();
        let range = ticket.and_then(|ticket| shared.expected_access.end(ticket)).unwrap_or(Range {
            upper: 0,
            lower: 0,
            maybe_enabled: true,
            surely_enabled: true,
        });
        let during_fault = shared.fault_since(begun);
        let what = || format!("{} ({} {})", ask.kind, ask.method, ask.path);
        let (status, text, cookie, request) = match sent {
            SendOutcome::NotConnected => {
                shared.check(during_fault, || {
                    format!("{}: no connection, although no program was down", what())
                });
                return Err(NotConnected);
            }
            SendOutcome::Interrupted(why) => {
                shared.check(during_fault, || {
                    format!("{}: connection lost, although no program was down: {why}", what())
                });
                shared.cut_off(ask.kind, ask.action);
                return Ok(None);
            }
            SendOutcome::Complete { status, text, cookie, request } => (status, text, cookie, request),
        };
        shared.record_response_time(ask.kind, time, during_fault);
        let body = if text.is_empty() { Ok(Value::Null) } else { serde_json::from_str(&text) };
        let Ok(body) = body else {
            shared.wrong(format!("{}: {status} with a body that is not JSON", what()));
            return Ok(None);
        };
        let answer = Answer { status, body, cookie, begun, range, request };
        match status {
            200..=299 | 404 => {
                shared.check(validity_before != Some(REVOKED), || {
                    format!("{}: {status} with a credential whose revocation was acknowledged", what())
                });
                shared.check(range.maybe_enabled, || format!("{}: {status} for a disabled user", what()));
                self.require_record(&answer, ask);
                Ok(Some(answer))
            }
            401 => {
                let is_valid = ask.credential.is_some_and(|credential| credential.validity() == VALID);
                shared.check(!(is_valid && range.surely_enabled), || {
                    format!("{}: 401 with a credential that was not revoked: {}", what(), answer.body)
                });
                // If the credential was revoked while the request ran, the request may have a `denied` record.
                if validity_before.is_some_and(|validity| validity != REVOKED) {
                    lock(&shared.expected_records).denied.insert(answer.request.clone());
                }
                Ok(Some(answer))
            }
            429 | 502..=504 => {
                // Concurrent sign-ins are limited, and a preview has a time limit that the client sets.
                let bounded =
                    matches!((ask.kind, status), ("sign-in", 429 | 503) | ("preview of a role", 504));
                shared.check(during_fault || bounded, || {
                    format!("{}: {status}, although no program was down: {}", what(), answer.body)
                });
                shared.refused(ask.kind);
                lock(&shared.expected_records).permitted.insert(answer.request);
                Ok(None)
            }
            _ => {
                shared.wrong(format!("{}: {status}: {}", what(), answer.body));
                lock(&shared.expected_records).permitted.insert(answer.request);
                Ok(None)
            }
        }
    }

    /// Records the audit record that a response must have. Other tool failures mean that a component was unavailable, and an
    /// absent object may or may not leave a record.
    fn require_record(&self, answer: &Answer, ask: &RequestSpec<'_>) {
        let Some(action) = ask.action else { return };
        let outcome = match (answer.status, tool_failure(&answer.body)) {
            (404, _) if action.starts_with("traces.") => Some("not_found"),
            (404, _) => None,
            (_, Some("trace_not_found")) => Some("not_found"),
            (_, Some(_)) => None,
            (_, None) => Some("success").filter(|_| !ask.again),
        };
        let mut expected_records = lock(&self.shared.expected_records);
        match outcome {
            Some(outcome) => expected_records.required.push((answer.request.clone(), action, outcome)),
            None => {
                expected_records.permitted.insert(answer.request.clone());
            }
        }
    }

    /// Records the audit record of a denied sign-in.
    pub fn require_denial_record(&self, answer: &Answer) {
        lock(&self.shared.expected_records).required.push((answer.request.clone(), "login", "denied"));
    }

    fn send(&mut self, ask: &RequestSpec<'_>, replica: usize) -> SendOutcome {
        let Some(at) = self.shared.replica_states.get(replica) else { return SendOutcome::NotConnected };
        let Some((generation, agent)) = self.agents.get_mut(replica) else {
            return SendOutcome::NotConnected;
        };
        let current = at.generation.load(Ordering::SeqCst);
        if *generation != current {
            (*generation, *agent) = (current, self::agent());
        }
        let mut request = Request::builder().method(ask.method).uri(format!("{}{}", at.base, ask.path));
        // MCP requires clients to accept both media types.
        request = request.header("accept", "application/json, text/event-stream");
        if let Some(credential) = ask.credential {
            request = request.header(credential.header.0, &credential.header.1);
        }
        let body = ask.body.map(Value::to_string);
        let response = match body {
            Some(body) => {
                let request = request.header("content-type", "application/json").body(body);
                request.map_err(ureq::Error::from).and_then(|request| agent.run(request))
            }
            None => request.body(()).map_err(ureq::Error::from).and_then(|request| agent.run(request)),
        };
        let mut response = match response {
            Ok(response) => response,
            Err(ureq::Error::ConnectionFailed) => return SendOutcome::NotConnected,
            Err(ureq::Error::Io(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                return SendOutcome::NotConnected;
            }
            Err(error) => return SendOutcome::Interrupted(error.to_string()),
        };
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let request = header("x-request-id").unwrap_or_default().to_owned();
        let cookie = header("set-cookie").and_then(|cookie| cookie.split(';').next()).map(str::to_owned);
        let status = response.status().as_u16();
        match response.body_mut().with_config().limit(256 << 20).read_to_string() {
            Ok(text) => SendOutcome::Complete { status, text, cookie, request },
            Err(error) => SendOutcome::Interrupted(error.to_string()),
        }
    }
}

/// No process listens at the address.
pub struct NotConnected;

fn agent() -> Agent {
    let config = Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false);
    // The client sends one request at a time.
    config.max_idle_connections_per_host(1).build().into()
}

/// Returns the error code at the start of a failed tool result.
pub fn tool_failure(body: &Value) -> Option<&str> {
    let result = body.get("result")?;
    if result.get("isError") != Some(&Value::Bool(true)) {
        return None;
    }
    let text = result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default();
    Some(text.strip_prefix("error ").and_then(|rest| rest.split(':').next()).unwrap_or("unknown"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_fails_with_a_code() {
        let failed = json!({"result": {"isError": true, "content": [{"text": "error trace_not_found: no"}]}});
        assert_eq!(tool_failure(&failed), Some("trace_not_found"));
        assert_eq!(tool_failure(&json!({"result": {"isError": false}})), None);
        assert_eq!(tool_failure(&json!({"trace_ids": []})), None);
    }
}

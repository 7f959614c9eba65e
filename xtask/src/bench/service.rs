//! The service as benchmarks of searches use it: users with a key each, who ask over one kept connection.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Request;

use super::store::{Reply, agent, answer};
use crate::stack::api::{Client, text};
use crate::stack::{Service, trace_source};

/// What is slow is to show as slow, not as an error.
const SETTINGS: [(&str, &str); 1] = [("TRACEWARDEN_QUERY_TIMEOUT", "5m")];

/// A user with the rights to some traces.
pub struct Caller {
    pub name: &'static str,
    /// Names of roles, and the policy of each.
    pub roles: &'static [(&'static str, &'static str)],
    /// The user's attribute `tenants`.
    pub tenants: &'static [&'static str],
}

/// The table that the service reads.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub database: &'a str,
    pub table: &'a str,
    /// The fields to mark, as the API takes them.
    pub fields: &'a Value,
}

/// The service with everything set up.
pub struct Prepared {
    running: Service,
    pub administrator: Client,
    agent: Agent,
    /// By the caller's name.
    keys: HashMap<&'static str, String>,
}

/// A page.
pub struct Page {
    pub reply: Reply,
}

impl Prepared {
    /// Starts the service in front of this store, with a table bound, fields marked, and a user for each caller.
    pub fn start(
        binaries: &Path,
        directory: &Path,
        (store_url, store_password): (&str, &str),
        source: Source<'_>,
        callers: impl Iterator<Item = &'static Caller>,
    ) -> Result<Self> {
        let mut running = Service::start(binaries, directory, store_url, store_password, &SETTINGS)?;
        let anonymous = Client::anonymous(&running.base);
        running.wait_until_ready(&anonymous, || Ok(()))?;
        let (administrator, _) = anonymous.take_account("admin", &running.admin_password)?;
        let mut service = Self { running, administrator, agent: agent(), keys: HashMap::new() };
        service.bind(source)?;
        for caller in callers {
            let key = account(&anonymous, &service.administrator, caller)?;
            service.keys.insert(caller.name, key);
        }
        Ok(service)
    }

    /// Another table instead.
    pub fn bind(&self, source: Source<'_>) -> Result<()> {
        trace_source::bind(&self.administrator, source.database, source.table)?;
        trace_source::mark(&self.administrator, source.fields)
    }

    /// What `POST /traces/query` answers to a caller.
    pub fn query(&self, caller: &Caller, body: &Value) -> Result<Page> {
        Ok(Page { reply: self.post(caller, "/traces/query", body)? })
    }

    /// Sends a request of a caller that must succeed.
    pub fn post(&self, caller: &Caller, path: &str, body: &Value) -> Result<Reply> {
        self.send(caller, "POST", path, body.to_string())
    }

    /// Reads what is at a path, as a caller who must succeed.
    pub fn get(&self, caller: &Caller, path: &str) -> Result<Reply> {
        self.send(caller, "GET", path, String::new())
    }

    fn send(&self, caller: &Caller, method: &str, path: &str, body: String) -> Result<Reply> {
        let key = self.keys.get(caller.name).context("the user has no key")?;
        let what = || format!("{method} {path} of {}: {body}", caller.name);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.running.base))
            .header("authorization", format!("Bearer {key}"))
            .header("accept", "application/json, text/event-stream");
        if method == "GET" {
            return answer(&self.agent, request.body(())?).with_context(what);
        }
        request = request.header("content-type", "application/json");
        answer(&self.agent, request.body(body.clone())?).with_context(what)
    }

    /// An error when the service has ended.
    pub fn check(&mut self) -> Result<()> {
        self.running.check()
    }

    /// The most memory that it ever held, in bytes.
    pub fn peak_memory(&self) -> Result<u64> {
        self.running.peak_memory()
    }

    pub fn stop(&mut self) -> Result<()> {
        self.running.stop()
    }
}

impl Page {
    /// The whole answer.
    pub fn document(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&self.reply.body)?)
    }

    /// Of a page of ids.
    pub fn trace_ids(&self) -> Result<Vec<String>> {
        let document = self.document()?;
        let ids = document.get("trace_ids").and_then(Value::as_array);
        let ids = ids.context("the page holds no ids of traces")?;
        Ok(ids.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    pub fn next_cursor(&self) -> Result<Option<String>> {
        Ok(self.document()?.get("next_cursor").and_then(Value::as_str).map(str::to_owned))
    }
}

/// A user with the caller's roles and attributes; returns a key.
fn account(anonymous: &Client, administrator: &Client, caller: &Caller) -> Result<String> {
    for (role, expression) in caller.roles {
        let policies = json!({"policies": [{"title": role, "expression": expression}]});
        administrator.call("PUT", &format!("/roles/{role}"), Some(&policies))?;
    }
    let roles: Vec<&str> = caller.roles.iter().map(|(role, _)| *role).collect();
    let username: String =
        caller.name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let user = json!({"username": username, "roles": roles, "attributes": {"tenants": caller.tenants}});
    let created = administrator.call("POST", "/users", Some(&user))?;
    let (client, _) = anonymous.take_account(&username, text(&created, "/initial_password")?)?;
    let key = client.call("POST", "/me/api-keys", Some(&json!({"name": "bench"})))?;
    Ok(text(&key, "/token")?.to_owned())
}

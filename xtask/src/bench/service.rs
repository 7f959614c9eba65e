//! A service for search benchmarks: each user has an API key and sends requests over one keep-alive connection.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Request;

use super::store::{Reply, agent, answer};
use crate::stack::api::{Client, text};
use crate::stack::{Service, trace_source};

/// A long query time-out, so that slow queries are measured instead of failing.
const SETTINGS: [(&str, &str); 1] = [("TRACEWARDEN_QUERY_TIMEOUT", "5m")];

/// A user with access to some traces.
pub struct Caller {
    pub name: &'static str,
    /// Names of the user's roles, with the policy of each.
    pub roles: &'static [(&'static str, &'static str)],
    /// The user attribute `tenants`.
    pub tenants: &'static [&'static str],
}

/// The table that the service reads.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub database: &'a str,
    pub table: &'a str,
    /// The field definitions, in the API's format.
    pub fields: &'a Value,
}

/// A configured, running service.
pub struct BenchService {
    running: Service,
    pub administrator: Client,
    agent: Agent,
    /// API keys by caller name.
    keys: HashMap<&'static str, String>,
}

/// A page of results.
pub struct Page {
    pub reply: Reply,
}

impl BenchService {
    /// Starts the service in front of this ClickHouse, binds a table, defines fields, and creates a user for each caller.
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
        let (administrator, _) = anonymous.activate_account("admin", &running.admin_password)?;
        let mut service = Self { running, administrator, agent: agent(), keys: HashMap::new() };
        service.bind(source)?;
        for caller in callers {
            let key = account(&anonymous, &service.administrator, caller)?;
            service.keys.insert(caller.name, key);
        }
        Ok(service)
    }

    /// Binds another table.
    pub fn bind(&self, source: Source<'_>) -> Result<()> {
        trace_source::bind(&self.administrator, source.database, source.table)?;
        trace_source::mark(&self.administrator, source.fields)
    }

    /// Sends `POST /traces/query` as this caller.
    pub fn query(&self, caller: &Caller, body: &Value) -> Result<Page> {
        Ok(Page { reply: self.post(caller, "/traces/query", body)? })
    }

    /// Sends a POST request as this caller; it must succeed.
    pub fn post(&self, caller: &Caller, path: &str, body: &Value) -> Result<Reply> {
        self.send(caller, "POST", path, body.to_string())
    }

    /// Sends a GET request as this caller; it must succeed.
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

    /// Returns an error if the service has exited.
    pub fn check(&mut self) -> Result<()> {
        self.running.check()
    }

    /// Peak memory of the service in bytes.
    pub fn peak_memory(&self) -> Result<u64> {
        self.running.peak_memory()
    }

    pub fn stop(&mut self) -> Result<()> {
        self.running.stop()
    }
}

impl Page {
    /// Returns the whole response.
    pub fn document(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&self.reply.body)?)
    }

    /// Returns the trace ids of a page of ids.
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

/// Creates a user with the caller's roles and attributes. Returns an API key.
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
    let (client, _) = anonymous.activate_account(&username, text(&created, "/initial_password")?)?;
    let key = client.call("POST", "/me/api-keys", Some(&json!({"name": "bench"})))?;
    Ok(text(&key, "/token")?.to_owned())
}

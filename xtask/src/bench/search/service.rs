//! The service as the benchmark uses it: four users with a key each, who ask over one kept connection.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Request;

use super::data::{DATABASE, Table};
use super::questions::{ASKERS, Asker, Cell, Layout, fields};
use crate::bench::store::{Reply, agent, answer};
use crate::stack::api::{Client, rfc_3339, text};
use crate::stack::{Service, trace_source};

/// What is slow is to show as slow, not as an error.
const SETTINGS: [(&str, &str); 1] = [("TRACEWARDEN_QUERY_TIMEOUT", "5m")];

/// Traces of a page.
pub const PAGE: u64 = 50;

/// The service with everything set up.
pub struct Prepared {
    running: Service,
    pub administrator: Client,
    agent: Agent,
    /// By the asker's name.
    keys: HashMap<&'static str, String>,
}

/// A page.
pub struct Page {
    pub reply: Reply,
    /// What came, but for spans: those are not taken apart.
    document: Value,
}

impl Prepared {
    /// Starts the service in front of this store, with the day's table bound, fields marked, and users.
    pub fn start(
        binaries: &Path,
        directory: &Path,
        store_url: &str,
        store_password: &str,
        table: Table,
    ) -> Result<Self> {
        let mut running = Service::start(binaries, directory, store_url, store_password, &SETTINGS)?;
        let anonymous = Client::anonymous(&running.base);
        running.wait_until_ready(&anonymous, || Ok(()))?;
        let (administrator, _) = anonymous.take_account("admin", &running.admin_password)?;
        trace_source::bind(&administrator, DATABASE, table.name)?;
        trace_source::mark(&administrator, &Value::Array(fields(&[])))?;
        let mut keys = HashMap::new();
        for asker in &ASKERS {
            keys.insert(asker.name, account(&anonymous, &administrator, asker)?);
        }
        Ok(Self { running, administrator, agent: agent(), keys })
    }

    /// Another table instead, with the same fields marked.
    pub fn bind(&self, table: Table) -> Result<()> {
        trace_source::bind(&self.administrator, DATABASE, table.name)?;
        trace_source::mark(&self.administrator, &Value::Array(fields(&[])))
    }

    /// A page of a cell over the layout's window, as `view`; the first one without a cursor.
    pub fn page(&self, cell: Cell, layout: &Layout<'_>, view: &str, cursor: Option<&str>) -> Result<Page> {
        let key = self.keys.get(cell.asker.name).context("the user has no key")?;
        let mut body = json!({
            "from": rfc_3339(layout.range.from), "to": rfc_3339(layout.range.to), "limit": PAGE, "view": view,
            "filter": cell.filter(layout.traces),
        });
        if let (Some(cursor), Some(body)) = (cursor, body.as_object_mut()) {
            body.insert("cursor".to_owned(), json!(cursor));
        }
        let request = Request::post(format!("{}/traces/query", self.running.base))
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json")
            .body(body.to_string())?;
        let reply = answer(&self.agent, request)
            .with_context(|| format!("the service was asked for {}: {body}", cell.name()))?;
        let document = if view == "spans" { Value::Null } else { serde_json::from_slice(&reply.body)? };
        Ok(Page { reply, document })
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
    pub fn trace_ids(&self) -> Result<Vec<String>> {
        let ids = self.document.get("trace_ids").and_then(Value::as_array);
        let ids = ids.context("the page holds no ids of traces")?;
        Ok(ids.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    pub fn next_cursor(&self) -> Option<String> {
        self.document.get("next_cursor").and_then(Value::as_str).map(str::to_owned)
    }
}

/// A user with the asker's role and attributes; returns a key.
fn account(anonymous: &Client, administrator: &Client, asker: &Asker) -> Result<String> {
    let policies = json!({"policies": [{"title": asker.name, "expression": asker.expression}]});
    administrator.call("PUT", &format!("/roles/{}", asker.role), Some(&policies))?;
    let username: String =
        asker.name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let user = json!({"username": username, "roles": [asker.role], "attributes": {"tenants": asker.tenants}});
    let created = administrator.call("POST", "/users", Some(&user))?;
    let (client, _) = anonymous.take_account(&username, text(&created, "/initial_password")?)?;
    let key = client.call("POST", "/me/api-keys", Some(&json!({"name": "bench"})))?;
    Ok(text(&key, "/token")?.to_owned())
}

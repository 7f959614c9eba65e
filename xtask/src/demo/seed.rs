//! Sets the service up as an administrator would, through the public API and nothing else.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::cast::{ADMINISTRATOR, AGENTS_OWNER, PEOPLE, Person, ROLES, fields};
use crate::stack::api::{Client, expect, list, text};
use crate::stack::secret;

const DATABASE: &str = "otel";
const TABLE: &str = "otel_traces";

/// A user who has signed in.
pub struct Account {
    pub person: &'static Person,
    pub password: String,
    pub client: Client,
}

/// All users, in the order of [`PEOPLE`], and a key.
pub struct Accounts {
    pub all: Vec<Account>,
    pub key: String,
}

impl Accounts {
    pub fn of(&self, username: &str) -> Result<&Account> {
        let found = self.all.iter().find(|account| account.person.username == username);
        found.with_context(|| format!("the demo has no user `{username}`"))
    }
}

/// Everything, from the log-in of the administrator to the key for an agent.
pub fn set_up(anonymous: &Client, admin_password: &str) -> Result<Accounts> {
    let (administrator, admin_password) = sign_in(anonymous, ADMINISTRATOR, admin_password)?;
    bind(&administrator)?;
    mark(&administrator)?;
    for role in ROLES {
        let policies: Vec<Value> = role
            .policies
            .iter()
            .map(|policy| json!({"title": policy.title, "expression": policy.expression}))
            .collect();
        let path = format!("/roles/{}", role.name);
        administrator.call("PUT", &path, Some(&json!({ "policies": policies })))?;
    }
    let mut all = Vec::new();
    for person in &PEOPLE {
        let (client, password) = match person.role {
            None => (administrator.clone(), admin_password.clone()),
            Some(role) => {
                let user = json!({"username": person.username, "roles": [role.name], "attributes": (person.attributes)()});
                let created = administrator.call("POST", "/users", Some(&user))?;
                sign_in(anonymous, person.username, text(&created, "/initial_password")?)?
            }
        };
        all.push(Account { person, password, client });
    }
    let mut accounts = Accounts { all, key: String::new() };
    let created = accounts.of(AGENTS_OWNER)?.client.call(
        "POST",
        "/me/api-keys",
        Some(&json!({"name": "coding agent"})),
    )?;
    accounts.key = text(&created, "/token")?.to_owned();
    Ok(accounts)
}

/// Signs in, and takes a new password when the first one must be changed.
fn sign_in(anonymous: &Client, username: &str, password: &str) -> Result<(Client, String)> {
    let (client, must_change) = anonymous.sign_in(username, password)?;
    if !must_change {
        return Ok((client, password.to_owned()));
    }
    let new = secret::password()?;
    client.call("POST", "/me/password", Some(&json!({"current_password": password, "new_password": new})))?;
    Ok((client, new))
}

/// Takes the structural columns that the service proposes for the exporter's table.
fn bind(administrator: &Client) -> Result<()> {
    let tables = administrator.get("/schema/tables")?;
    let table = list(&tables, "/tables")?
        .iter()
        .find(|table| {
            table.get("database") == Some(&json!(DATABASE)) && table.get("name") == Some(&json!(TABLE))
        })
        .with_context(|| format!("the service does not see the table {DATABASE}.{TABLE}: {tables}"))?;
    let proposal = table.get("proposal").filter(|proposal| proposal.is_object());
    let binding = proposal.cloned().context("the service proposes no binding for the exporter's table")?;
    for pointer in
        ["/trace_index", "/display/name", "/display/service", "/display/duration", "/display/status"]
    {
        text(&binding, pointer).context("the proposed binding lacks a part that the exporter's table has")?;
    }
    administrator.call("PUT", "/schema/binding", Some(&binding))?;
    Ok(())
}

fn mark(administrator: &Client) -> Result<()> {
    let (path, body) = ("/schema/fields", json!({ "fields": fields() }));
    let current = administrator.send("GET", "/schema", None, None)?;
    expect(&current, "GET", "/schema", &[200])?;
    let version = current.etag.context("GET /schema came without an ETag")?;
    expect(&administrator.send("PUT", path, Some(&version), Some(&body))?, "PUT", path, &[200])?;
    Ok(())
}

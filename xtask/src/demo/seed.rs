//! Sets the service up as an administrator would, through the public API and nothing else.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::cast::{ADMINISTRATOR, AGENTS_OWNER, PEOPLE, Person, ROLES, fields};
use crate::stack::api::{Client, text};
use crate::stack::trace_source;

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
    let (administrator, admin_password) = anonymous.take_account(ADMINISTRATOR, admin_password)?;
    let binding = trace_source::bind(&administrator, DATABASE, TABLE)?;
    for pointer in
        ["/trace_index", "/display/name", "/display/service", "/display/duration", "/display/status"]
    {
        text(&binding, pointer).context("the proposed binding lacks a part that the exporter's table has")?;
    }
    trace_source::mark(&administrator, &fields())?;
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
                anonymous.take_account(person.username, text(&created, "/initial_password")?)?
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

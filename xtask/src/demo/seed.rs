//! Configures the service as an administrator does, only through the public API.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::demo_users::{ADMINISTRATOR, AGENT_OWNER, DEMO_USERS, DemoUser, ROLES, fields, tests};
use crate::stack::api::{Client, expect, text};
use crate::stack::{secret, trace_source};

/// Name of the file with the administrator's API key, in the demo's directory.
pub const KEY_FILE: &str = "administrator-key";

/// The database of the local store's spans.
pub const LOCAL_DATABASE: &str = "otel";
const TABLE: &str = "otel_traces";

/// A signed-in user.
pub struct Account {
    pub demo_user: &'static DemoUser,
    pub password: String,
    pub client: Client,
}

/// All users, in the order of [`DEMO_USERS`], and an API key for an agent.
pub struct Accounts {
    pub all: Vec<Account>,
    pub key: String,
    /// The administrator's API key, for commands that read or change the access model as a file.
    pub administrator_key: String,
}

impl Accounts {
    pub fn of(&self, username: &str) -> Result<&Account> {
        let found = self.all.iter().find(|account| account.demo_user.username == username);
        found.with_context(|| format!("the demo has no user `{username}`"))
    }
}

/// Performs the whole setup, from the administrator's first sign-in to the API key for an agent.
pub fn set_up(anonymous: &Client, admin_password: &str, database: &str) -> Result<Accounts> {
    let (administrator, admin_password) = anonymous.activate_account(ADMINISTRATOR, admin_password)?;
    let binding = trace_source::bind(&administrator, database, TABLE)?;
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
    for demo_user in &DEMO_USERS {
        let (client, password) = match demo_user.role {
            None => (administrator.clone(), admin_password.clone()),
            Some(role) => {
                let user = json!({"username": demo_user.username, "roles": [role.name], "attributes": (demo_user.attributes)()});
                let created = administrator.call("POST", "/users", Some(&user))?;
                anonymous.activate_account(demo_user.username, text(&created, "/initial_password")?)?
            }
        };
        all.push(Account { demo_user, password, client });
    }
    add_tests(&administrator)?;
    let mut accounts = Accounts { all, key: String::new(), administrator_key: String::new() };
    accounts.key = create_key(&accounts.of(AGENT_OWNER)?.client, "coding agent")?;
    accounts.administrator_key = create_key(&administrator, "access model as a file")?;
    Ok(accounts)
}

fn create_key(owner: &Client, name: &str) -> Result<String> {
    let created = owner.call("POST", "/me/api-keys", Some(&json!({ "name": name })))?;
    Ok(text(&created, "/token")?.to_owned())
}

/// Adds tests to the stored access model.
fn add_tests(administrator: &Client) -> Result<()> {
    let exported = administrator.send("GET", "/schema/export", None, None)?;
    let mut model = expect(&exported, "GET", "/schema/export", &[200])?;
    if let (Some(model), Value::Object(tests)) = (model.as_object_mut(), tests()) {
        model.extend(tests);
    }
    let imported = administrator.send("PUT", "/schema/import", exported.etag.as_deref(), Some(&model))?;
    expect(&imported, "PUT", "/schema/import", &[200]).map(|_| ())
}

/// Writes the administrator's API key to a file that only the current user can read.
pub fn write_key_file(directory: &Path, accounts: &Accounts) -> Result<()> {
    secret::write(&directory.join(KEY_FILE), &accounts.administrator_key)
}

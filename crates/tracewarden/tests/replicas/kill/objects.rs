//! The changed objects, and the requests that change them.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::accounts;

/// Roles that are never deleted, for users and previews.
pub const BASE_ROLES: [&str; 3] = ["base0", "base1", "base2"];

/// Tables that are bound in turn.
pub const TABLES: [&str; 2] = ["otel_traces", "otel_traces_other"];

/// All actions of these tests, as in audit records.
pub const ACTIONS: [&str; 18] = [
    "login",
    "logout",
    "session.end",
    "password.change",
    "api_key.create",
    "api_key.revoke",
    "preview.begin",
    "preview.end",
    "user.create",
    "user.update",
    "user.delete",
    "user.rotate_password",
    "user.end_sessions",
    "user.revoke_api_keys",
    "role.put",
    "role.delete",
    "schema.put_binding",
    "schema.put_fields",
];

/// An object that only one writer changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    User(String),
    Role(String),
    /// All API keys of a user; the state is their ids by name. The cookie belongs to a session of the user that never ends.
    Keys {
        owner: String,
        cookie: String,
    },
    /// The password and all sessions of a user.
    Account(String),
    /// The preview of an administrator's session that never ends.
    Preview {
        cookie: String,
    },
    /// The bound table and the marked fields.
    Source,
}

/// A request that changes an object, and the resulting state.
pub struct Change {
    /// The action in its audit record.
    pub action: &'static str,
    pub method: Method,
    pub path: String,
    pub body: Option<Value>,
    pub if_match: Option<String>,
    /// Cookie of the session for the request; `None` for the writer's session.
    pub cookie: Option<String>,
    pub to: Option<Value>,
}

impl Change {
    pub fn new(
        action: &'static str,
        method: Method,
        path: String,
        body: Option<Value>,
        to: Option<Value>,
    ) -> Self {
        Self { action, method, path, body, if_match: None, cookie: None, to }
    }

    /// Returns the same change for another session.
    pub fn by(self, cookie: &str) -> Self {
        Self { cookie: Some(cookie.to_owned()), ..self }
    }
}

impl Object {
    /// Returns the next change from this state. `choice` is random; `mark` makes the new state differ from all others.
    pub fn change(&self, state: Option<&Value>, choice: u32, mark: &str) -> Change {
        match self {
            Self::User(name) => change_user(name, state, choice, mark),
            Self::Role(name) => change_role(name, state, choice, mark),
            Self::Keys { owner, cookie } => change_keys(owner, cookie, state.unwrap(), choice, mark),
            Self::Account(name) => accounts::change(name, state.unwrap(), choice, mark),
            Self::Preview { cookie } => change_preview(state, choice, mark).by(cookie),
            Self::Source => change_source(state.unwrap(), choice),
        }
    }

    /// Returns the state after an acknowledged change, with the values in its answer.
    pub fn with_generated_values(
        &self,
        to: Option<Value>,
        mark: &str,
        generated_values: &Value,
    ) -> Option<Value> {
        let mut to = to?;
        match self {
            Self::Keys { .. } => {
                if let Some(id) = to.get_mut(mark) {
                    *id = generated_values["id"].clone();
                }
            }
            Self::Account(_) => accounts::insert_generated_values(&mut to, mark, generated_values),
            _ => {}
        }
        Some(to)
    }

    /// Returns the part of a state that is compared: ids and cookies are known only to clients that received them.
    pub fn observable_state(&self, state: Option<&Value>) -> Option<Value> {
        let state = state?;
        Some(match self {
            Self::Keys { .. } => names(state),
            Self::Account(_) => accounts::observable_state(state),
            _ => state.clone(),
        })
    }
}

/// Returns the names of members, in order.
pub fn names(object: &Value) -> Value {
    let names: BTreeSet<&String> = object.as_object().unwrap().keys().collect();
    json!(names)
}

fn some_roles(choice: u32) -> Vec<&'static str> {
    let chosen = BASE_ROLES.iter().enumerate().filter(|(number, _)| choice >> (number + 3) & 1 == 1);
    chosen.map(|(_, role)| *role).collect()
}

fn attributes(choice: u32, mark: &str) -> Value {
    json!({"mark": mark, "list": [mark, "x"], "flag": choice.is_multiple_of(2)})
}

fn change_user(name: &str, state: Option<&Value>, choice: u32, mark: &str) -> Change {
    let path = format!("/users/{name}");
    if state.is_some() && choice.is_multiple_of(4) {
        return Change::new("user.delete", Method::DELETE, path, None, None);
    }
    let (roles, attributes) = (some_roles(choice), attributes(choice, mark));
    let disabled = state.is_some() && choice.is_multiple_of(5);
    let mut body = json!({"roles": roles, "attributes": attributes});
    let to = json!({"roles": roles, "attributes": attributes, "disabled": disabled});
    if state.is_some() {
        body["disabled"] = json!(disabled);
        return Change::new("user.update", Method::PATCH, path, Some(body), Some(to));
    }
    body["username"] = json!(name);
    Change::new("user.create", Method::POST, "/users".to_owned(), Some(body), Some(to))
}

fn change_role(name: &str, state: Option<&Value>, choice: u32, mark: &str) -> Change {
    let path = format!("/roles/{name}");
    if state.is_some() && choice.is_multiple_of(3) {
        return Change::new("role.delete", Method::DELETE, path, None, None);
    }
    let policies: Vec<Value> = (0..=choice % 4)
        .map(|number| json!({"title": format!("{mark}.{number}"), "expression": "true"}))
        .collect();
    let policies = json!(policies);
    let body = json!({"policies": policies});
    Change::new("role.put", Method::PUT, path, Some(body), Some(policies))
}

fn change_keys(owner: &str, cookie: &str, state: &Value, choice: u32, mark: &str) -> Change {
    let all = format!("/users/{owner}/api-keys");
    let mut to = state.clone();
    let first = state.as_object().unwrap().iter().next();
    match (choice % 6, first) {
        (0, Some(_)) => Change::new("user.revoke_api_keys", Method::DELETE, all, None, Some(json!({}))),
        (by @ (1 | 2), Some((name, id))) => {
            to.as_object_mut().unwrap().remove(name);
            let id = id.as_str().unwrap();
            if by == 1 {
                let path = format!("/me/api-keys/{id}");
                return Change::new("api_key.revoke", Method::DELETE, path, None, Some(to)).by(cookie);
            }
            Change::new("user.revoke_api_keys", Method::DELETE, format!("{all}/{id}"), None, Some(to))
        }
        _ => {
            to[mark] = Value::Null;
            let (path, body) = ("/me/api-keys".to_owned(), json!({"name": mark}));
            Change::new("api_key.create", Method::POST, path, Some(body), Some(to)).by(cookie)
        }
    }
}

fn change_preview(state: Option<&Value>, choice: u32, mark: &str) -> Change {
    let path = "/me/preview".to_owned();
    if state.is_some() && choice.is_multiple_of(3) {
        return Change::new("preview.end", Method::DELETE, path, None, None);
    }
    let preview = json!({"roles": some_roles(choice), "attributes": attributes(choice, mark)});
    Change::new("preview.begin", Method::PUT, path, Some(preview.clone()), Some(preview))
}

/// Each change makes a new entity tag, so its state differs from all others. Marking the same fields again would make none,
/// so in that case another table is bound.
fn change_source(state: &Value, choice: u32) -> Change {
    let tag = state["tag"].as_str().unwrap().to_owned();
    let mut to = state.clone();
    let next = tag.trim_matches('"').parse::<u64>().unwrap() + 1;
    to["tag"] = json!(format!("\"{next}\""));
    let (marks, fields) = some_fields(choice);
    let (action, path, body) = if choice.is_multiple_of(2) || state["fields"] == fields {
        let other = TABLES[usize::from(to["binding"]["table"] == TABLES[0])];
        to["binding"]["table"] = json!(other);
        ("schema.put_binding", "/schema/binding", to["binding"].clone())
    } else {
        to["fields"] = fields;
        ("schema.put_fields", "/schema/fields", json!({"fields": marks}))
    };
    let change = Change::new(action, Method::PUT, path.to_owned(), Some(body), Some(to));
    Change { if_match: Some(tag), ..change }
}

/// Returns fields as they are sent, and by name for comparison.
fn some_fields(choice: u32) -> (Vec<Value>, Value) {
    let (mut marks, mut fields) = (Vec::new(), json!({}));
    for (number, name) in ["ServiceName", "SpanName", "StatusCode", "SpanKind"].into_iter().enumerate() {
        let bits = choice >> (2 * number + 1);
        let (filterable, policy) = (bits & 1 == 1, bits & 2 == 2);
        if filterable || policy {
            marks.push(json!({"name": name, "filterable": filterable, "policy": policy}));
            fields[name] = json!({"filterable": filterable, "policy": policy});
        }
    }
    (marks, fields)
}

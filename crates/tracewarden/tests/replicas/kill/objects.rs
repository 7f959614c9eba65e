//! What is changed, and what of it can be seen from outside.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Client, USER_PASSWORD};

/// Roles that stay, for users to hold.
pub const BASE_ROLES: [&str; 3] = ["base0", "base1", "base2"];

/// Something that one writer alone changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    User(String),
    Role(String),
    /// An API key of the administrator, by its name.
    Key(String),
    /// All sessions of this user; the state is the cookie of the one that is known.
    Session(String),
    /// The marked fields.
    Fields,
}

/// A request that changes an object, and the state that it leads to.
pub struct Change {
    pub method: Method,
    pub path: String,
    pub body: Option<Value>,
    pub if_match: Option<String>,
    pub to: Option<Value>,
}

impl Change {
    fn new(method: Method, path: String, body: Option<Value>, to: Option<Value>) -> Self {
        Self { method, path, body, if_match: None, to }
    }
}

impl Object {
    /// The next change from this state. `choice` is random; `mark` makes the new state differ from every other.
    pub fn change(&self, state: Option<&Value>, choice: u32, mark: &str) -> Change {
        match self {
            Self::User(name) => change_user(name, state, choice, mark),
            Self::Role(name) => {
                let path = format!("/roles/{name}");
                if state.is_some() && choice.is_multiple_of(3) {
                    return Change::new(Method::DELETE, path, None, None);
                }
                let policies: Vec<Value> = (0..=choice % 4)
                    .map(|number| json!({"title": format!("{mark}.{number}"), "expression": "true"}))
                    .collect();
                let policies = json!(policies);
                let body = json!({"policies": policies});
                Change::new(Method::PUT, path, Some(body), Some(policies))
            }
            Self::Key(name) => match state {
                None => {
                    let body = json!({"name": name});
                    Change::new(Method::POST, "/me/api-keys".to_owned(), Some(body), Some(json!({})))
                }
                // The caller puts the id in.
                Some(_) => Change::new(Method::DELETE, "/me/api-keys/".to_owned(), None, None),
            },
            Self::Session(user) => match state {
                None => {
                    let body = json!({"username": user, "password": USER_PASSWORD});
                    Change::new(Method::POST, "/login".to_owned(), Some(body), Some(json!({})))
                }
                Some(_) => Change::new(Method::DELETE, format!("/users/{user}/sessions"), None, None),
            },
            Self::Fields => {
                let version = state.unwrap()["version"].as_u64().unwrap();
                // The first of them differs from what the version before had.
                let mut names = vec![["ServiceName", "SpanName"][(version % 2) as usize]];
                names.extend(["StatusCode", "SpanKind"].into_iter().take((choice % 3) as usize));
                let marked: Vec<Value> = names
                    .iter()
                    .map(|name| json!({"name": name, "filterable": true, "policy": true}))
                    .collect();
                names.sort_unstable();
                let to = json!({"version": version + 1, "fields": names});
                let body = json!({"fields": marked});
                let change = Change::new(Method::PUT, "/schema/fields".to_owned(), Some(body), Some(to));
                Change { if_match: Some(format!("\"{version}\"")), ..change }
            }
        }
    }
}

fn change_user(name: &str, state: Option<&Value>, choice: u32, mark: &str) -> Change {
    let path = format!("/users/{name}");
    if state.is_some() && choice.is_multiple_of(4) {
        return Change::new(Method::DELETE, path, None, None);
    }
    let chosen = BASE_ROLES.iter().enumerate().filter(|(number, _)| choice >> (number + 3) & 1 == 1);
    let roles: Vec<&str> = chosen.map(|(_, role)| *role).collect();
    let attributes = json!({"mark": mark, "list": [mark, "x"], "flag": choice.is_multiple_of(2)});
    let disabled = state.is_some() && choice.is_multiple_of(5);
    let mut body = json!({"roles": roles, "attributes": attributes});
    let to = json!({"roles": roles, "attributes": attributes, "disabled": disabled});
    if state.is_some() {
        body["disabled"] = json!(disabled);
        return Change::new(Method::PATCH, path, Some(body), Some(to));
    }
    body["username"] = json!(name);
    Change::new(Method::POST, "/users".to_owned(), Some(body), Some(to))
}

/// Reads through the API what is there.
pub struct Observer {
    admin: Client,
    /// Ids of the administrator's keys, by name.
    keys: BTreeMap<String, String>,
}

impl Observer {
    pub async fn new(admin: Client) -> Self {
        let list = admin.get("/me/api-keys").await.expect(200).body;
        let keys =
            list["api_keys"].as_array().unwrap().iter().map(|key| {
                (key["name"].as_str().unwrap().to_owned(), key["id"].as_str().unwrap().to_owned())
            });
        let keys: Vec<_> = keys.collect();
        let count = keys.len();
        let keys: BTreeMap<_, _> = keys.into_iter().collect();
        assert_eq!(keys.len(), count, "a key was made twice");
        Self { admin, keys }
    }

    /// The id of a key.
    pub fn key(&self, name: &str) -> Option<&str> {
        self.keys.get(name).map(String::as_str)
    }

    /// The state of an object. Of a session only whether the known one is alive.
    pub async fn state(&self, object: &Object, known: Option<&Value>) -> Option<Value> {
        match object {
            Object::User(name) => {
                let answer = self.admin.get(&format!("/users/{name}")).await;
                (answer.status != 404).then(|| {
                    let user = answer.expect(200).body;
                    json!({"roles": user["roles"], "attributes": user["attributes"], "disabled": user["disabled"]})
                })
            }
            Object::Role(name) => {
                let answer = self.admin.get(&format!("/roles/{name}")).await;
                (answer.status != 404).then(|| {
                    let role = answer.expect(200).body;
                    let policies =
                        role["policies"].as_array().unwrap().iter().map(
                            |policy| json!({"title": policy["title"], "expression": policy["expression"]}),
                        );
                    policies.collect()
                })
            }
            Object::Key(name) => self.key(name).map(|_| json!({})),
            Object::Session(_) => {
                let cookie = known?["cookie"].as_str().unwrap().to_owned();
                let answer = self.admin.with("cookie", &cookie).get("/me").await;
                assert!(matches!(answer.status, 200 | 401), "{}", answer.body);
                (answer.status == 200).then(|| json!({"cookie": cookie}))
            }
            Object::Fields => {
                let model = self.admin.get("/schema").await.expect(200).body;
                let mut names: Vec<&str> = model["fields"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|field| field["name"].as_str().unwrap())
                    .collect();
                names.sort_unstable();
                Some(json!({"version": model["version"], "fields": names}))
            }
        }
    }

    /// Users and roles agree about who holds what.
    pub async fn nothing_is_half_done(&self) {
        let mut held: BTreeSet<(String, String)> = BTreeSet::new();
        let users = self.admin.get("/users?limit=200").await.expect(200).body;
        assert!(users.get("next_cursor").is_none());
        for user in users["users"].as_array().unwrap() {
            let name = user["username"].as_str().unwrap();
            for role in user["roles"].as_array().unwrap() {
                held.insert((role.as_str().unwrap().to_owned(), name.to_owned()));
            }
            assert!(
                name == "admin" || name.starts_with("sitter") || user["attributes"]["mark"].is_string(),
                "{user}"
            );
        }
        let mut members: BTreeSet<(String, String)> = BTreeSet::new();
        let roles = self.admin.get("/roles").await.expect(200).body;
        for role in roles["roles"].as_array().unwrap() {
            let name = role["name"].as_str().unwrap();
            let whole = self.admin.get(&format!("/roles/{name}")).await.expect(200).body;
            assert!(name == "admin" || !whole["policies"].as_array().unwrap().is_empty(), "{whole}");
            for member in whole["members"].as_array().unwrap() {
                members.insert((name.to_owned(), member.as_str().unwrap().to_owned()));
            }
        }
        assert_eq!(held, members);
    }
}

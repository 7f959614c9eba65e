//! The state of the changed objects, as seen through the API.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::objects::Object;
use super::{accounts, address};
use crate::support::Client;

/// Block of addresses for trying passwords; writers use lower ones.
const ANONYMOUS_ADDRESS_BLOCK: usize = 255;

/// Reads objects through the API.
pub struct Observer {
    admin: Client,
    anonymous: Client,
}

impl Observer {
    pub fn new(admin: Client, round: usize) -> Self {
        let anonymous =
            admin.without("cookie").with("x-forwarded-for", &address(ANONYMOUS_ADDRESS_BLOCK, round));
        Self { admin, anonymous }
    }

    /// Returns the state of an object. For an account, password and cookies are taken from the known state.
    pub async fn state(&self, object: &Object, known: Option<&Value>) -> Option<Value> {
        match object {
            Object::User(name) => self.user(name).await,
            Object::Role(name) => self.role(name).await,
            Object::Keys { owner, .. } => Some(self.keys(owner).await),
            Object::Account(name) => Some(accounts::state(&self.admin, name, known.unwrap()).await),
            Object::Preview { cookie } => {
                let me = self.admin.with("cookie", cookie).get("/me").await.expect(200).body;
                (!me["preview"].is_null()).then(|| me["preview"].clone())
            }
            Object::Source => Some(self.source().await),
        }
    }

    async fn user(&self, name: &str) -> Option<Value> {
        let answer = self.admin.get(&format!("/users/{name}")).await;
        (answer.status != 404).then(|| {
            let user = answer.expect(200).body;
            json!({"roles": user["roles"], "attributes": user["attributes"], "disabled": user["disabled"]})
        })
    }

    async fn role(&self, name: &str) -> Option<Value> {
        let answer = self.admin.get(&format!("/roles/{name}")).await;
        (answer.status != 404).then(|| {
            let role = answer.expect(200).body;
            let policies = role["policies"]
                .as_array()
                .unwrap()
                .iter()
                .map(|policy| json!({"title": policy["title"], "expression": policy["expression"]}));
            policies.collect()
        })
    }

    async fn keys(&self, owner: &str) -> Value {
        let list = self.admin.get(&format!("/users/{owner}/api-keys")).await.expect(200).body;
        let mut keys = json!({});
        for key in list["api_keys"].as_array().unwrap() {
            let name = key["name"].as_str().unwrap();
            assert!(keys[name].is_null(), "a key was created twice: {list}");
            keys[name] = key["id"].clone();
        }
        keys
    }

    async fn source(&self) -> Value {
        let answer = self.admin.get("/schema").await.expect(200);
        let model = &answer.body;
        let mut fields = json!({});
        for field in model["fields"].as_array().unwrap() {
            let name = field["name"].as_str().unwrap();
            fields[name] = json!({"filterable": field["filterable"], "policy": field["policy"]});
        }
        json!({"tag": answer.headers["etag"].to_str().unwrap(), "binding": model["binding"], "fields": fields})
    }

    /// Returns the one valid password of an account among those in these states; null if none of them is valid.
    pub async fn password(&self, name: &str, states: [Option<&Value>; 2]) -> Value {
        accounts::password(&self.anonymous, name, states).await
    }

    /// Resets the password and returns the new one.
    pub async fn new_password(&self, name: &str) -> Value {
        accounts::new_password(&self.admin, name).await
    }

    /// Checks that users and roles agree on the assignments.
    pub async fn check_consistency(&self) {
        let mut memberships: BTreeSet<(String, String)> = BTreeSet::new();
        let users = self.admin.get("/users?limit=200").await.expect(200).body;
        assert!(users.get("next_cursor").is_none());
        for user in users["users"].as_array().unwrap() {
            let name = user["username"].as_str().unwrap();
            for role in user["roles"].as_array().unwrap() {
                memberships.insert((role.as_str().unwrap().to_owned(), name.to_owned()));
            }
            let stays = ["admin", "sitter", "deputy"].iter().any(|start| name.starts_with(start));
            assert!(stays || user["attributes"]["mark"].is_string(), "{user}");
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
        assert_eq!(memberships, members);
    }
}

//! Service processes that share a database.

use std::sync::Arc;

use serde_json::{Value, json};
use tracewarden_testkit::postgres::{self, Database};

use crate::support::store::{self, Store, blue_policies};
use crate::support::{ADMIN_PASSWORD, Answer, Client, Service, USER_PASSWORD};

/// Replicas on one application database.
pub struct Fleet {
    /// The processes; each listens on its own port.
    pub replicas: Vec<Service>,
    /// The shared database.
    _database: Arc<Database>,
}

impl Fleet {
    /// Starts this number of replicas on a new database of the common server.
    pub fn start(count: usize, environment: &[(&str, &str)]) -> Self {
        Self::start_on(Arc::new(postgres::database().unwrap()), count, environment)
    }

    /// The same on a given database.
    pub fn start_on(database: Arc<Database>, count: usize, environment: &[(&str, &str)]) -> Self {
        let replicas = (0..count).map(|_| Service::start_on(&database, environment)).collect();
        Self { replicas, _database: database }
    }

    /// Starts two replicas with this ClickHouse, with its table bound, two traces in it, the role `blue` with access to one
    /// of them, and a session of the administrator.
    pub async fn reading(store: &Store, environment: &[(&str, &str)]) -> (Self, Client) {
        store.insert_two_traces().await;
        let fleet = Self::start(2, &[&store.settings(), environment].concat());
        let admin = fleet.replicas[0].admin().await;
        store::bind(&admin).await;
        admin.put("/roles/blue", blue_policies()).await.expect(201);
        (fleet, admin)
    }

    /// Returns the first replica, on which changes are made.
    pub fn a(&self) -> &Service {
        &self.replicas[0]
    }

    /// Returns the second replica.
    pub fn b(&self) -> &Service {
        &self.replicas[1]
    }
}

/// Creates a user with these roles and attributes; the password is [`USER_PASSWORD`] and need not be changed.
pub async fn add_user(service: &Service, admin: &Client, name: &str, roles: &[&str], attributes: Value) {
    let user = json!({"username": name, "roles": roles, "attributes": attributes});
    let created = admin.post("/users", user).await.expect(201);
    let initial = created.body["initial_password"].as_str().unwrap().to_owned();
    let client = service.sign_in(name, &initial).await;
    let change = json!({"current_password": initial, "new_password": USER_PASSWORD});
    client.post("/me/password", change).await.expect(204);
}

/// Creates an API key for the session's user; returns its id and a client that uses it.
pub async fn new_key(session: &Client) -> (String, Client) {
    created_key(session, json!({"name": "test"})).await
}

/// The same with an expiry.
pub async fn new_key_until(session: &Client, expires_at: &str) -> (String, Client) {
    created_key(session, json!({"name": "test", "expires_at": expires_at})).await
}

async fn created_key(session: &Client, new: Value) -> (String, Client) {
    let created = session.post("/me/api-keys", new).await.expect(201).body;
    let key = session.with_key(created["token"].as_str().unwrap());
    (created["id"].as_str().unwrap().to_owned(), key)
}

/// Returns the id of the client's session.
pub async fn session_id(session: &Client) -> String {
    let list = session.get("/me/sessions").await.expect(200).body;
    let own = list["sessions"].as_array().unwrap().iter().find(|session| session["current"] == true);
    own.unwrap()["id"].as_str().unwrap().to_owned()
}

/// Opens a second session of the administrator.
pub async fn other_admin(service: &Service) -> Client {
    service.sign_in("admin", ADMIN_PASSWORD).await
}

/// Requests all spans of all traces that the client may see.
pub async fn read_traces(client: &Client) -> Answer {
    client.post("/traces/query", json!({"columns": ["ServiceName"]})).await
}

/// Returns the number of spans in an answer.
pub fn spans(answer: &Answer) -> usize {
    match answer.status {
        200 => answer.body["spans"].as_array().unwrap().len(),
        _ => {
            assert!(answer.body.get("spans").is_none(), "{}", answer.body);
            0
        }
    }
}

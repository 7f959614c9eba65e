//! Performs every operation of the OpenAPI document once with success: checks its audit record, and that read operations
//! change nothing. A new operation fails here until this file says how to perform it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Column as _, Connection as _, Row as _};

use crate::support::database_outage::OtherWriter;
use crate::support::identity::absent_provider;
use crate::support::rejected_records::RejectedRecords;
use crate::support::store::{BLUE, Store, binding, blue_policies, bound_service};
use crate::support::{ADMIN_PASSWORD, Answer, Client, Service, USER_PASSWORD};

/// An operation of the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub method: Method,
    /// The path, with parameters in braces.
    pub path: String,
    /// `x-access` in the document.
    pub access: String,
    /// Whether the document describes a request body.
    pub reads_body: bool,
}

impl Operation {
    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Returns a matching path of resources that do not exist.
    pub fn path_of_missing_object(&self) -> String {
        self.path.replace(['{', '}'], "")
    }

    pub fn changes(&self) -> bool {
        self.method != Method::GET
    }
}

/// Returns all operations, in the order of the document.
pub async fn operations(service: &Service) -> Vec<Operation> {
    let document = service.anonymous().get("/openapi.json").await.expect(200).body;
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations.push(Operation {
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                access: operation["x-access"].as_str().unwrap().to_owned(),
                reads_body: operation["requestBody"].is_object(),
            });
        }
    }
    assert!(operations.len() >= 50, "{operations:?}");
    operations
}

/// Returns the action of the audit record that a success leaves, as docs/api.md lists it.
pub fn record(operation: &str) -> Option<&'static str> {
    Some(match operation {
        "POST /login" | "POST /identity/break-glass" => "login",
        "POST /logout" => "logout",
        "POST /me/password" => "password.change",
        "POST /me/api-keys" => "api_key.create",
        "DELETE /me/api-keys/{id}" => "api_key.revoke",
        "DELETE /me/sessions/{id}" => "session.end",
        "PUT /me/preview" => "preview.begin",
        "DELETE /me/preview" => "preview.end",
        "POST /traces/query" => "traces.query",
        "POST /traces/stats" => "traces.stats",
        "GET /traces/{id}" => "traces.get",
        "GET /filter/values" => "traces.values",
        "GET /traces/{id}/explain" | "GET /traces/{id}/viewers" => "traces.explain",
        "POST /policies/check" => "policy.check",
        "POST /policies/preview" => "policy.preview",
        "POST /policies/collateral-access" => "policy.collateral_access",
        "POST /users" => "user.create",
        "PATCH /users/{username}" => "user.update",
        "DELETE /users/{username}" => "user.delete",
        "POST /users/{username}/password" => "user.rotate_password",
        "DELETE /users/{username}/sessions" | "DELETE /users/{username}/sessions/{id}" => "user.end_sessions",
        "PUT /users/{username}/provider" => "user.link",
        "DELETE /users/{username}/provider" => "user.unlink",
        "POST /users/{username}/api-keys" => "user.create_api_key",
        "DELETE /users/{username}/api-keys" | "DELETE /users/{username}/api-keys/{id}" => {
            "user.revoke_api_keys"
        }
        "PUT /identity/providers/{provider}/mapping" => "mapping.put",
        "PUT /roles/{name}" => "role.put",
        "DELETE /roles/{name}" => "role.delete",
        "GET /schema/tables/{database}/{table}" => "schema.discover",
        "PUT /schema/binding" => "schema.put_binding",
        "PUT /schema/fields" => "schema.put_fields",
        "PUT /schema/import" => "model.import",
        "POST /schema/history/{version}/restore" => "model.restore",
        "POST /schema/plan" => "model.plan",
        // Reads of the configuration, of the caller's own account and of public resources are not recorded. An expression
        // is evaluated on the spans in the request.
        "GET /api-keys"
        | "GET /audit"
        | "GET /filter/schema"
        | "GET /healthz"
        | "GET /identity/providers"
        | "GET /identity/providers/{provider}/mapping"
        | "POST /identity/providers/{provider}/evaluate"
        | "GET /identity/methods"
        | "GET /me"
        | "GET /me/api-keys"
        | "GET /me/sessions"
        | "GET /openapi.json"
        | "GET /readyz"
        | "GET /roles"
        | "GET /roles/{name}"
        | "GET /schema"
        | "GET /schema/ddl"
        | "GET /schema/export"
        | "GET /schema/history"
        | "GET /schema/history/{version}"
        | "GET /schema/tables"
        | "GET /users"
        | "GET /users/{username}"
        | "GET /users/{username}/access"
        | "GET /users/{username}/api-keys"
        | "GET /users/{username}/sessions"
        | "POST /policies/evaluate" => return None,
        other => panic!("{other}: add the record that it writes, and a request for it"),
    })
}

/// Operations that do not use the application database: the liveness check, the ways to sign in, and the static document.
pub const WITHOUT_DATABASE: [&str; 3] = ["GET /healthz", "GET /identity/methods", "GET /openapi.json"];

/// A service with traces, users, roles and credentials; each operation has its own target.
pub struct Fixture {
    pub service: Service,
    pub admin: Client,
    /// Another session of the administrator, which no operation ends.
    pub watcher: Client,
    /// A user with the role `blue`.
    pub ada: Client,
    /// Values of the path parameters.
    ids: BTreeMap<&'static str, String>,
    file: Value,
    /// A link that signs in `admin` once.
    link: String,
    _store: Store,
    _directory: tempfile::TempDir,
}

impl Fixture {
    pub async fn make(environment: &[(&str, &str)]) -> Self {
        let store = Store::start();
        store.insert_two_traces().await;
        let directory = tempfile::tempdir().unwrap();
        let providers = absent_provider(directory.path());
        let environment = [&[("TRACEWARDEN_IDENTITY_PROVIDERS", providers.as_str())], environment].concat();
        let (service, admin) = bound_service(&store, &environment).await;
        let first_id = |answer: Value, member: &str| answer[member][0]["id"].as_str().unwrap().to_owned();
        for role in ["blue", "spare"] {
            admin.put(&format!("/roles/{role}"), blue_policies()).await.expect(201);
        }
        admin.patch("/users/admin", json!({"roles": ["admin", "blue"]})).await.expect(200);
        let ada = service.user(&admin, "ada", &["blue"]).await;
        admin.post("/users", json!({"username": "gone"})).await.expect(201);
        for (name, subject) in [("zoe", "1"), ("kim", "2")] {
            admin.post("/users", json!({"username": name})).await.expect(201);
            let person = json!({"name": "company", "subject": subject});
            admin.put(&format!("/users/{name}/provider"), person).await.expect(200);
        }
        let program = json!({"username": "robot", "service": {"owner": "ada"}});
        admin.post("/users", program).await.expect(201);
        let key = json!({"name": "first", "expires_at": "2100-01-01T00:00:00Z"});
        admin.post("/users/robot/api-keys", key).await.expect(201);
        for name in ["bob", "ida"] {
            service
                .user(&admin, name, &[])
                .await
                .post("/me/api-keys", json!({"name": "x"}))
                .await
                .expect(201);
        }
        let link = service.break_glass("admin").unwrap();
        let mut ids = BTreeMap::new();
        ids.insert(
            "version",
            admin.get("/schema/history").await.expect(200).body["changes"][0]["version"].to_string(),
        );
        admin.put("/roles/late", blue_policies()).await.expect(201);
        let mut file = admin.get("/schema/export").await.expect(200).body;
        let imported = json!({"name": "imported", "policies": blue_policies()["policies"]});
        file["roles"].as_array_mut().unwrap().push(imported);
        ids.insert(
            "own key",
            admin.post("/me/api-keys", json!({"name": "x"})).await.expect(201).body["id"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
        ids.insert(
            "ida's key",
            first_id(admin.get("/users/ida/api-keys").await.expect(200).body, "api_keys"),
        );
        ids.insert(
            "ida's session",
            first_id(admin.get("/users/ida/sessions").await.expect(200).body, "sessions"),
        );
        let watcher = service.sign_in("admin", ADMIN_PASSWORD).await;
        let known = |list: &Value| -> Vec<String> {
            list["sessions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|each| each["id"].as_str().unwrap().to_owned())
                .collect()
        };
        let before = known(&watcher.get("/me/sessions").await.expect(200).body);
        service.sign_in("admin", ADMIN_PASSWORD).await;
        let mut after = known(&watcher.get("/me/sessions").await.expect(200).body);
        after.retain(|id| !before.contains(id));
        ids.insert("own session", after.remove(0));
        Self { service, admin, watcher, ada, ids, file, link, _store: store, _directory: directory }
    }

    /// Returns the path with its parameters, and the body, if there is one.
    pub fn request_info(&self, operation: &Operation) -> (String, Option<Value>) {
        let name = operation.name();
        let username = match name.as_str() {
            "DELETE /users/{username}" => "gone",
            "POST /users/{username}/api-keys" => "robot",
            // The second one is where a round trip reads what it puts.
            "PUT /users/{username}/provider" | "PUT /users/{username}" => "zoe",
            "DELETE /users/{username}/provider" => "kim",
            "PATCH /users/{username}" | "POST /users/{username}/password" => "bob",
            "DELETE /users/{username}/sessions" | "DELETE /users/{username}/api-keys" => "bob",
            _ => "ida",
        };
        let id = match name.as_str() {
            "DELETE /me/api-keys/{id}" => &self.ids["own key"],
            "DELETE /me/sessions/{id}" => &self.ids["own session"],
            "DELETE /users/{username}/api-keys/{id}" => &self.ids["ida's key"],
            "DELETE /users/{username}/sessions/{id}" => &self.ids["ida's session"],
            _ => BLUE,
        };
        let role = if name.starts_with("DELETE") { "spare" } else { "blue" };
        let mut path = operation.path.clone();
        for (parameter, value) in [
            ("username", username),
            ("id", id),
            ("name", role),
            ("provider", "company"),
            ("version", &self.ids["version"]),
            ("database", "otel"),
            ("table", "otel_traces"),
        ] {
            path = path.replace(&format!("{{{parameter}}}"), value);
        }
        if name == "GET /filter/values" {
            path += "?ref=SpanAttributes%5B%22team%22%5D";
        } else if name == "GET /api-keys" {
            path += "?prefix=twk_0000";
        }
        let mut proposal = json!({"role": "blue", "policies": blue_policies()["policies"]});
        let body = match name.as_str() {
            "POST /login" => json!({"username": "ada", "password": USER_PASSWORD}),
            "POST /identity/break-glass" => json!({"token": self.link}),
            "POST /me/password" => {
                json!({"current_password": USER_PASSWORD, "new_password": "another rather long sentence"})
            }
            "POST /me/api-keys" => json!({"name": "second"}),
            "POST /users/{username}/api-keys" => {
                json!({"name": "nightly", "expires_at": "2100-01-01T00:00:00Z"})
            }
            "PUT /users/{username}/provider" => json!({"name": "company", "subject": "1"}),
            "PUT /me/preview" => json!({"roles": ["blue"]}),
            "POST /policies/check" => json!({"expression": "true", "recent_traces": true}),
            "POST /policies/evaluate" => {
                json!({"expression": "true", "user": {"username": "x"}, "spans": [{}]})
            }
            "POST /policies/preview" => proposal,
            "POST /policies/collateral-access" => {
                proposal["by"] = json!("SpanAttributes[\"team\"]");
                proposal
            }
            "PUT /identity/providers/{provider}/mapping" => {
                json!({"roles": [{"role": "blue", "when": "\"blue\" in claims.groups"}]})
            }
            "POST /identity/providers/{provider}/evaluate" => json!({"claims": {"groups": ["blue"]}}),
            "PUT /roles/{name}" => blue_policies(),
            "POST /traces/query" => json!({"view": "ids"}),
            "POST /traces/stats" => json!({"buckets": 10}),
            "POST /users" => json!({"username": "new"}),
            "PATCH /users/{username}" => json!({"attributes": {"team": "blue"}}),
            "PUT /schema/binding" => binding(),
            "PUT /schema/fields" => {
                json!({"fields": [{"map": "SpanAttributes", "name": "team", "filterable": true, "policy": true}]})
            }
            "PUT /schema/import" => self.file.clone(),
            "POST /schema/plan" => {
                let mut file = self.file.clone();
                // Widen a policy: users would gain traces, so the plan counts them, which is recorded.
                let roles = file["roles"].as_array_mut().unwrap();
                let blue = roles.iter_mut().find(|role| role["name"] == "blue").unwrap();
                blue["policies"][0]["expression"] = json!("true");
                file
            }
            _ => return (path, None),
        };
        (path, Some(body))
    }

    /// Returns the client that performs the operation.
    pub async fn client(&self, operation: &Operation) -> Client {
        match operation.name().as_str() {
            "POST /login" | "POST /identity/break-glass" => self.service.anonymous(),
            "POST /logout" => self.service.sign_in("admin", ADMIN_PASSWORD).await,
            "POST /me/password" => self.ada.clone(),
            _ => self.admin.with("if-match", "*"),
        }
    }

    /// Sends a request that succeeds if this client is authorised.
    pub async fn ask(&self, client: &Client, operation: &Operation) -> Answer {
        let (path, body) = self.request_info(operation);
        client.send(operation.method.clone(), &path, body).await
    }

    /// Performs the operation and checks that it succeeds.
    pub async fn perform(&self, operation: &Operation) -> Answer {
        let answer = self.ask(&self.client(operation).await, operation).await;
        assert!((200..300).contains(&answer.status), "{}: {}", operation.name(), answer.body);
        answer
    }

    /// Returns the operations with their clients. It is called while everything works, and begins a preview, so that ending
    /// one can succeed.
    pub async fn prepared_requests(&self, operations: Vec<Operation>) -> Vec<(Client, Operation)> {
        self.admin.put("/me/preview", json!({"roles": ["blue"]})).await.expect(200);
        let mut prepared_requests = Vec::new();
        for operation in operations {
            prepared_requests.push((self.client(&operation).await, operation));
        }
        prepared_requests
    }

    /// Sends all requests at once, since each waits for the application database, and checks that the answers reveal
    /// nothing but its unavailability.
    pub async fn assert_unavailable(&self, prepared_requests: &[(Client, Operation)]) {
        let answers = prepared_requests.iter().map(|(client, operation)| async move {
            // Operations that count password attempts write one at a time. The change of a password goes first, since it
            // waits a second time, to record its rejection.
            if operation.path == "/login" {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            self.ask(client, operation).await
        });
        for answer in join_all(answers).await {
            let answer = answer.problem(503, "unavailable");
            let text = String::from_utf8_lossy(&answer.bytes);
            assert!(!text.contains(BLUE) && !text.contains("blue"), "{}: {text}", answer.request_info);
        }
    }

    /// Performs the operations one after the other and checks that they succeed.
    pub async fn assert_successful(&self, prepared_requests: &[(Client, Operation)]) {
        for (client, operation) in prepared_requests {
            let answer = self.ask(client, operation).await;
            assert!((200..300).contains(&answer.status), "{}: {}", operation.name(), answer.body);
        }
    }

    /// Returns all stored data: [`stored_tables`], and the newest audit record.
    pub async fn stored_data(&self) -> (BTreeMap<String, Vec<String>>, Value) {
        let newest = self.watcher.get("/audit?limit=1").await.expect(200).body["records"].clone();
        (stored_tables(&self.service).await, newest)
    }

    /// Returns the actions of the audit records of a request.
    async fn records(&self, answer: &Answer) -> Vec<String> {
        let all = self.watcher.get("/audit?limit=20").await.expect(200).body;
        let own = all["records"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|record| record["request_id"] == answer.headers["x-request-id"].to_str().unwrap());
        own.map(|record| record["action"].as_str().unwrap().to_owned()).collect()
    }
}

/// Opens the application database, independently of the service.
async fn application_database(service: &Service) -> sqlx::AnyConnection {
    sqlx::any::install_default_drivers();
    sqlx::AnyConnection::connect(&service.database_url()).await.unwrap()
}

/// Returns every row of the audit log as stored, in order.
async fn audit_rows(database: &mut sqlx::AnyConnection) -> Vec<String> {
    let rows = sqlx::query("SELECT * FROM audit ORDER BY sequence").fetch_all(database).await.unwrap();
    rows.iter().map(column_values).collect()
}

/// Returns the rows of each table, without audit records and times of use.
pub async fn stored_tables(service: &Service) -> BTreeMap<String, Vec<String>> {
    let mut connection = application_database(service).await;
    let list = match service.database {
        None => "SELECT name FROM sqlite_master WHERE type = 'table'",
        Some(_) => "SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = 'public'",
    };
    let tables: Vec<(String,)> = sqlx::query_as(list).fetch_all(&mut connection).await.unwrap();
    assert!(tables.len() >= 15, "{tables:?}");
    let mut data = BTreeMap::new();
    for (table,) in tables.into_iter().filter(|(table,)| !["audit", "audit_head"].contains(&table.as_str())) {
        let all = AssertSqlSafe(format!("SELECT * FROM {table}"));
        let rows = sqlx::query(all).fetch_all(&mut connection).await.unwrap();
        let mut rows: Vec<String> = rows.iter().map(column_values).collect();
        rows.sort_unstable();
        data.insert(table, rows);
    }
    data
}

fn column_values(row: &sqlx::any::AnyRow) -> String {
    let stored_data =
        row.columns().iter().filter(|column| !["last_used_at", "last_seen_at"].contains(&column.name()));
    let values = stored_data.map(|column| {
        let at = column.ordinal();
        let value = row.try_get::<Option<i64>, _>(at).map(|number| format!("{number:?}"));
        let value = value.unwrap_or_else(|_| format!("{:?}", row.get::<Option<String>, _>(at)));
        format!("{}={value}", column.name())
    });
    values.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn each_operation_writes_its_documented_audit_record() {
    let fixture = Fixture::make(&[]).await;
    let mut database = application_database(&fixture.service).await;
    let mut log = audit_rows(&mut database).await;
    assert!(log.len() >= 10, "{log:?}");
    for operation in operations(&fixture.service).await {
        let answer = fixture.perform(&operation).await;
        let expected: Vec<&str> = record(&operation.name()).into_iter().collect();
        assert_eq!(fixture.records(&answer).await, expected, "{}", operation.name());
        // The log is append-only: a completed record is a new row after the first one, and no existing row changes or
        // disappears.
        let longer = audit_rows(&mut database).await;
        assert_eq!(longer.get(..log.len()), Some(log.as_slice()), "{}", operation.name());
        log = longer;
    }
}

#[tokio::test]
async fn reads_change_nothing() {
    let fixture = Fixture::make(&[]).await;
    let before = stored_tables(&fixture.service).await;
    let (mut reads, mut trials) = (0, 0);
    for operation in operations(&fixture.service).await {
        // Read operations with a request body.
        let asks = ["/traces/query", "/policies/", "/schema/plan"]
            .iter()
            .any(|path| operation.path.starts_with(path));
        if operation.changes() && !asks {
            continue;
        }
        fixture.perform(&operation).await;
        let (path, _) = fixture.request_info(&operation);
        if operation.changes() {
            trials += 1;
        } else {
            reads += 1;
            let headed = fixture.admin.send(Method::HEAD, &path, None).await;
            assert!(headed.bytes.is_empty(), "{}", operation.name());
        }
        assert_eq!(stored_tables(&fixture.service).await, before, "{}", operation.name());
    }
    assert!(reads >= 25 && trials >= 5, "{reads} {trials}");
    // To check the check: a state-changing operation is detected.
    fixture.admin.put("/me/preview", json!({"roles": ["blue"]})).await.expect(200);
    assert_ne!(stored_tables(&fixture.service).await, before);
}

#[tokio::test]
async fn without_its_record_nothing_is_shown_or_changed() {
    let fixture = Fixture::make(&[]).await;
    let mut recorded = operations(&fixture.service).await;
    recorded.retain(|operation| record(&operation.name()).is_some());
    let prepared_requests = fixture.prepared_requests(recorded).await;
    // An attempt to sign in is counted before its password is checked.
    let stored_data = || async {
        let mut stored_data = stored_tables(&fixture.service).await;
        assert!(stored_data.remove("login_throttles").is_some());
        stored_data
    };
    let before = stored_data().await;
    fixture.service.reject_records(RejectedRecords::All).await;
    for (client, operation) in &prepared_requests {
        let answer = fixture.ask(client, operation).await;
        assert!([500, 503].contains(&answer.status), "{}: {}", operation.name(), answer.body);
        let text = String::from_utf8_lossy(&answer.bytes);
        assert!(!text.contains(BLUE) && !text.contains("blue"), "{}: {text}", operation.name());
        assert_eq!(stored_data().await, before, "{}", operation.name());
    }
    assert!(prepared_requests.len() >= 30, "{}", prepared_requests.len());
    fixture.service.accept_records().await;
    fixture.assert_successful(&prepared_requests).await;
}

/// As if the application database became unavailable between authentication and the operation.
#[tokio::test]
async fn while_another_program_writes_nothing_is_shown_or_changed() {
    // The user's limit must allow all requests for traces at the same time.
    let fixture = Fixture::make(&[("TRACEWARDEN_MAX_QUERIES_PER_USER", "100")]).await;
    let all = operations(&fixture.service).await.into_iter();
    let (recorded, others): (Vec<_>, Vec<_>) = all.partition(|each| record(&each.name()).is_some());
    let prepared_requests = fixture.prepared_requests(recorded).await;
    assert!(
        prepared_requests.len() >= 30 && others.len() >= 20,
        "{} {}",
        prepared_requests.len(),
        others.len()
    );
    let before = fixture.stored_data().await;
    let writer = OtherWriter::begin(&fixture.service).await;
    // Reads do not wait for the writer.
    for operation in &others {
        let answer = fixture.perform(operation).await;
        let text = String::from_utf8_lossy(&answer.bytes);
        assert!(!text.contains(BLUE), "{}: {text}", operation.name());
    }
    fixture.assert_unavailable(&prepared_requests).await;
    writer.end().await;
    assert_eq!(fixture.stored_data().await, before);
    fixture.assert_successful(&prepared_requests).await;
}

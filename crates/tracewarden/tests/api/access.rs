//! Which caller may call which operation: the OpenAPI document, the committed table in `docs/access.md` and the service's
//! behaviour must agree for every operation.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::document::committed_part;
use crate::every_operation::record;
use crate::support::{Client, Service};

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Caller {
    title: &'static str,
    credential: Credential,
    administrator: bool,
    /// Whether the user must first change the password.
    pending: bool,
    constraint: Option<KeyConstraint>,
}

/// Constraint of a scoped API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyConstraint {
    Policy,
    Tool(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Credential {
    None,
    Session,
    Key,
}

const fn caller(title: &'static str, credential: Credential, administrator: bool) -> Caller {
    Caller { title, credential, administrator, pending: false, constraint: None }
}

impl Caller {
    /// Whether the caller's API key may call a route with this tool.
    fn allows_tool(&self, tool: Option<&str>) -> bool {
        match self.constraint {
            None => true,
            Some(KeyConstraint::Policy) => tool.is_some(),
            Some(KeyConstraint::Tool(only)) => tool == Some(only),
        }
    }
}

const CALLERS: &[Caller] = &[
    caller("no credential", Credential::None, false),
    caller("user, session", Credential::Session, false),
    caller("user, key", Credential::Key, false),
    // An administrator, since administration requires a password that the user has chosen.
    Caller { pending: true, ..caller("password pending, session", Credential::Session, true) },
    Caller { pending: true, ..caller("password pending, key", Credential::Key, false) },
    caller("administrator, session", Credential::Session, true),
    caller("administrator, key", Credential::Key, true),
    Caller {
        constraint: Some(KeyConstraint::Policy),
        ..caller("administrator, key with policy", Credential::Key, true)
    },
    Caller {
        constraint: Some(KeyConstraint::Tool("svc_get_trace")),
        ..caller("user, key with tool `svc_get_trace`", Credential::Key, false)
    },
];

const YES: &str = "yes";

/// Error codes that depend only on the caller.
const REFUSALS: &[&str] = &["unauthenticated", "forbidden", "session_required", "password_change_required"];

/// An operation as described in the document.
#[derive(Debug, Clone)]
struct Operation {
    method: Method,
    path: String,
    access: String,
    by_key: bool,
    tool: Option<String>,
}

impl Operation {
    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Returns the expected result for this caller, according to the document.
    fn cell(&self, caller: &Caller) -> &'static str {
        let administration = self.access == "administrator";
        match self.access.as_str() {
            "public" => YES,
            _ if caller.credential == Credential::None => "401 unauthenticated",
            "user" | "administrator" if caller.pending => "403 password_change_required",
            _ if administration && (!caller.administrator || caller.constraint.is_some()) => "403 forbidden",
            // A scoped API key may call its tools and `/me`, and nothing else.
            "account" | "user" if self.name() != "GET /me" && !caller.allows_tool(self.tool.as_deref()) => {
                "403 forbidden"
            }
            "account" | "user" | "administrator" => match caller.credential {
                Credential::Key if !self.by_key => "403 session_required",
                _ => YES,
            },
            other => panic!("{}: unknown access `{other}`", self.name()),
        }
    }
}

/// Returns all operations, and checks that `security` and `x-access` agree.
async fn operations(service: &Service) -> Vec<Operation> {
    let document = service.anonymous().get("/openapi.json").await.expect(200).body;
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let access = operation["x-access"].as_str().unwrap().to_owned();
            let security = &operation["security"];
            let by_key = *security == json!([{"session": []}, {"api_key": []}]);
            assert!(by_key || *security == json!([{"session": []}]) || *security == json!([]), "{security}");
            assert_eq!(access == "public", *security == json!([]), "{method} {path}");
            let method = method.to_uppercase().parse().unwrap();
            let tool = operation["x-tool"].as_str().map(str::to_owned);
            operations.push(Operation { method, path: path.clone(), access, by_key, tool });
        }
    }
    assert!(operations.len() >= 35, "{operations:?}");
    operations
}

fn table(operations: &[Operation]) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let titles = CALLERS.iter().map(|caller| caller.title.to_owned());
    let mut table = row(std::iter::once("operation".to_owned())
        .chain(titles)
        .chain(["recorded as".to_owned()])
        .collect());
    table += &format!("|{}\n", "---|".repeat(CALLERS.len() + 2));
    for operation in operations {
        let cells = CALLERS.iter().map(|caller| match operation.cell(caller) {
            YES => YES.to_owned(),
            refusal => format!("`{refusal}`"),
        });
        let action = record(&operation.name()).map_or(String::new(), |action| format!("`{action}`"));
        table +=
            &row(std::iter::once(format!("`{}`", operation.name())).chain(cells).chain([action]).collect());
    }
    table
}

#[tokio::test]
async fn the_committed_table_is_current() {
    let service = Service::start();
    let table = table(&operations(&service).await);
    committed_part("access.md", &table);
}

/// Creates a client for each column.
async fn clients(service: &Service) -> BTreeMap<&'static str, Client> {
    let admin = service.admin().await;
    let ada = service.user(&admin, "ada", &[]).await;
    let created = admin.post("/users", json!({"username": "eve", "roles": ["admin"]})).await.expect(201);
    let eve = service.sign_in("eve", created.body["initial_password"].as_str().unwrap()).await;
    let max = service.user(&admin, "max", &[]).await;
    let mut clients = BTreeMap::new();
    for caller in CALLERS {
        let owner = match caller {
            Caller { pending: true, .. } => &max,
            Caller { administrator: true, .. } => &admin,
            _ => &ada,
        };
        let client = match caller.credential {
            Credential::None => service.anonymous(),
            Credential::Session if caller.pending => eve.clone(),
            Credential::Session => owner.clone(),
            Credential::Key => {
                let new = match caller.constraint {
                    None => json!({"name": "table"}),
                    Some(KeyConstraint::Policy) => json!({"name": "table", "policy": "true"}),
                    Some(KeyConstraint::Tool(tool)) => json!({"name": "table", "tools": [tool]}),
                };
                let created = owner.post("/me/api-keys", new).await.expect(201).body;
                service.anonymous().with_key(created["token"].as_str().unwrap())
            }
        };
        clients.insert(caller.title, client);
    }
    // A password reset ends sessions and keeps API keys.
    admin.send(Method::POST, "/users/max/password", None).await.expect(200);
    clients
}

#[tokio::test]
async fn every_caller_gets_what_the_table_says() {
    let service = Service::start();
    let mut operations = operations(&service).await;
    // The operation that ends the tested session comes last.
    operations.sort_by_key(|operation| operation.path == "/logout");
    let clients = clients(&service).await;
    let watcher = service.admin().await;
    let mut refused = Vec::new();
    for caller in CALLERS {
        for operation in &operations {
            // The resources do not exist and there is no body: an authorised caller gets a different error.
            let path = operation.path.replace(['{', '}'], "");
            let answer = clients[caller.title].send(operation.method.clone(), &path, None).await;
            let code = answer.body["code"].as_str().unwrap_or_default();
            let actual =
                if REFUSALS.contains(&code) { format!("{} {code}", answer.status) } else { YES.to_owned() };
            assert_ne!(answer.status, 500, "{}: {:?}", operation.name(), answer.body);
            assert_eq!(actual, operation.cell(caller), "{}, {}", operation.name(), caller.title);
            if actual != YES {
                let answer = answer.expect(operation.cell(caller)[..3].parse().unwrap());
                let challenge = answer.headers.get("www-authenticate");
                assert_eq!(challenge.is_some(), answer.status == 401, "{}", operation.name());
                assert_eq!(answer.headers["content-type"], "application/problem+json");
                if operation.access == "administrator" && answer.status == 403 {
                    let request_id = answer.headers["x-request-id"].to_str().unwrap().to_owned();
                    let method = operation.method.as_str();
                    let detail =
                        json!({"code": answer.body["code"], "method": method, "route": operation.path});
                    refused.push((request_id, json!({"outcome": "denied", "detail": detail})));
                }
            }
        }
    }
    // Each denied administration request of an authenticated caller leaves exactly one audit record.
    let mut recorded = records_by_request(&watcher).await;
    assert!(refused.len() >= 200, "{}", refused.len());
    for (request_id, expected) in refused {
        let records = recorded.remove(&request_id);
        assert_eq!(records, Some(vec![expected]), "{request_id}");
    }
}

/// Returns outcome and details of every audit record, by request id.
async fn records_by_request(admin: &Client) -> BTreeMap<String, Vec<Value>> {
    let (mut records, mut path) = (BTreeMap::<String, Vec<Value>>::new(), "/audit?limit=500".to_owned());
    loop {
        let page = admin.get(&path).await.expect(200).body;
        for record in page["records"].as_array().unwrap() {
            let request_id = record["request_id"].as_str().unwrap().to_owned();
            let summary = json!({"outcome": record["outcome"], "detail": record["detail"]});
            records.entry(request_id).or_default().push(summary);
        }
        match page.get("next_cursor") {
            None => return records,
            Some(cursor) => path = format!("/audit?limit=500&cursor={}", cursor.as_str().unwrap()),
        }
    }
}

#[tokio::test]
async fn refusals_by_access_rules_are_recorded() {
    let service = Service::start();
    let clients = clients(&service).await;
    let admin = service.admin().await;
    for (caller, method, path, action, code) in [
        ("user, session", Method::GET, "/users", "administration", "forbidden"),
        ("user, key", Method::PUT, "/me/preview", "administration", "forbidden"),
        ("password pending, session", Method::GET, "/audit", "administration", "password_change_required"),
        (
            "password pending, session",
            Method::POST,
            "/traces/query",
            "traces.query",
            "password_change_required",
        ),
        ("administrator, key", Method::POST, "/logout", "logout", "session_required"),
        ("administrator, key", Method::POST, "/me/password", "password.change", "session_required"),
        ("administrator, key", Method::POST, "/me/api-keys", "api_key.create", "session_required"),
        ("administrator, key", Method::PUT, "/me/preview", "preview.begin", "session_required"),
        ("administrator, key", Method::DELETE, "/me/preview", "preview.end", "session_required"),
    ] {
        let rejected = clients[caller].send(method.clone(), path, None).await.problem(403, code);
        let record = admin.get("/audit?limit=1").await.expect(200).body["records"][0].clone();
        assert_eq!((&record["action"], &record["outcome"]), (&json!(action), &json!("denied")), "{record}");
        assert_eq!(record["detail"], json!({"code": code, "method": method.as_str(), "route": path}));
        assert_eq!(record["request_id"], rejected.headers["x-request-id"].to_str().unwrap(), "{record}");
    }
    let pending = &clients["password pending, session"];
    pending.get("/traces/abc").await.problem(403, "password_change_required");
    let record = admin.get("/audit?limit=1").await.expect(200).body["records"][0].clone();
    assert_eq!(
        (&record["action"], &record["target"]),
        (&json!("traces.get"), &json!("/traces/abc")),
        "{record}"
    );
    assert_eq!((&record["outcome"], &record["actor"]["username"]), (&json!("denied"), &json!("eve")));
    // Not recorded: the request concerned neither administration nor traces, and the user only has to change the password.
    let before = admin.get("/audit?limit=1").await.expect(200).body;
    pending.get("/filter/schema").await.problem(403, "password_change_required");
    assert_eq!(admin.get("/audit?limit=1").await.expect(200).body, before);
}

/// Rules that depend on more than the caller: the notes below the table.
#[tokio::test]
async fn a_key_cannot_grant_administration() {
    let service = Service::start();
    let clients = clients(&service).await;
    let (admin, key) = (&clients["administrator, session"], &clients["administrator, key"]);
    let refused = |answer: crate::support::Answer| answer.problem(403, "session_required");
    refused(key.post("/users", json!({"username": "bob", "roles": ["admin"]})).await);
    refused(key.patch("/users/ada", json!({"roles": ["admin"]})).await);
    admin.get("/users/bob").await.problem(404, "not_found");
    assert_eq!(admin.get("/users/ada").await.expect(200).body["roles"], json!([]));
    refused(key.send(Method::POST, "/users/eve/password", None).await);
    admin.patch("/users/eve", json!({"disabled": true})).await.expect(200);
    refused(key.patch("/users/eve", json!({"disabled": false})).await);
    assert_eq!(admin.get("/users/eve").await.expect(200).body["disabled"], true);
    // With an API key, an administrator can revoke access and provision users who are not administrators.
    key.patch("/users/ada", json!({"roles": [], "disabled": true})).await.expect(200);
    key.patch("/users/ada", json!({"disabled": false})).await.expect(200);
    key.patch("/users/eve", json!({"roles": []})).await.expect(200);
    let rotated = key.send(Method::POST, "/users/ada/password", None).await.expect(200).body;
    assert!(rotated["initial_password"].is_string());
}

#[tokio::test]
async fn invalid_credentials_count_as_no_credentials() {
    let service = Service::start();
    let admin = service.admin().await;
    let anonymous = service.anonymous();
    let clients = [
        anonymous
            .with("cookie", "tracewarden=0000000000000000000000000000000000000000000000000000000000000000"),
        anonymous.with("cookie", "tracewarden=\u{e4}"),
        anonymous.with("authorization", "Bearer twk_0000000000000000000000000000000000"),
        anonymous.with("authorization", "Bearer "),
        anonymous.with("authorization", "Bearer"),
        anonymous.with("authorization", "Basic YWRtaW46YWRtaW4="),
        // A valid cookie does not make up for an invalid API key in the same request.
        admin.with("authorization", "Bearer twk_nonsense"),
        // The cookie name of an installation with HTTPS.
        anonymous.with("cookie", &admin.cookie().replace("tracewarden=", "__Host-tracewarden=")),
        // A cookie that an attacker planted next to the real one.
        anonymous.with("cookie", &format!("{}; tracewarden=planted", admin.cookie())),
    ];
    for (at, client) in clients.iter().enumerate() {
        let answer = client.get("/me").await;
        assert_eq!(answer.status, 401, "client {at}");
        answer.problem(401, "unauthenticated");
    }
    admin.get("/me").await.expect(200);
    // A valid API key under another scheme, and next to a second `Authorization` header, which another parser might use.
    let created = admin.post("/me/api-keys", json!({"name": "valid"})).await.expect(201).body;
    let token = created["token"].as_str().unwrap();
    let valid = anonymous.with_key(token);
    valid.get("/me").await.expect(200);
    anonymous
        .with("authorization", &format!("Basic {token}"))
        .get("/me")
        .await
        .problem(401, "unauthenticated");
    for second in [&format!("Bearer {token}"), "Bearer twk_nonsense", "Basic YWRtaW46YWRtaW4="] {
        let sent = valid.request(Method::GET, "/me").header("authorization", second).send().await.unwrap();
        assert_eq!(sent.status(), 401, "{second}");
    }
    // Basic credentials for a proxy in front of the service neither authenticate a request nor replace its session cookie;
    // the protection against cross-site requests still applies.
    let behind = admin.with("authorization", "Basic YWRtaW46YWRtaW4=");
    behind.get("/me").await.expect(200);
    behind.with("sec-fetch-site", "cross-site").post("/logout", json!({})).await.problem(403, "cross_site");
    behind.get("/me").await.expect(200);
    // Requests of anonymous clients do not fill the log with errors.
    assert!(!service.log().contains("ERROR"), "{}", service.log());
}

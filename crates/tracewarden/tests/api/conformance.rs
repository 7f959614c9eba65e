//! Requests that schemathesis generates from the OpenAPI document: no server errors, and no answers that the document does
//! not describe.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tracewarden_testkit::python::prepared_python;
use tracewarden_testkit::repetitions::{self, Repetitions};

use crate::support::identity::{PROVIDER, absent_provider};
use crate::support::store::{BLUE, RED, Store, two_teams_with};
use crate::support::{Client, Service, USER_PASSWORD};

/// Requests per operation and phase, unless the environment overrides it.
const EXAMPLES: Repetitions = Repetitions { test: 3, verify: 30 };
/// Fewer on the second database, to find differences between the two.
const EXAMPLES_ON_POSTGRESQL: Repetitions = Repetitions { test: 3, verify: 10 };
const SEED: u64 = 20_261_121;

/// Operations on which generated requests cannot succeed: they would have to guess a password or a token. The document itself is
/// fetched before the run begins.
const NOT_GENERATED: &[&str] =
    &["POST /identity/break-glass", "POST /login", "POST /me/password", "GET /openapi.json"];

#[tokio::test]
async fn generated_requests_get_documented_answers() {
    let store = Store::start();
    let directory = tempfile::tempdir().unwrap();
    let providers = absent_provider(directory.path());
    let (service, admin, _) = two_teams_with(&store, &[("TRACEWARDEN_IDENTITY_PROVIDERS", &providers)]).await;
    // A separate administrator for the run, so that the administrators found in answers can be disabled, demoted and
    // deleted.
    let everything = json!({"policies": [{"title": "Everything", "expression": "true"}]});
    admin.put("/roles/wardens", everything).await.expect(201);
    let warden = service.user(&admin, "warden", &["admin", "wardens"]).await;
    let created = warden.post("/me/api-keys", json!({"name": "conformance"})).await.expect(201).body;
    let token = created["token"].as_str().unwrap();
    let key = service.anonymous().with_key(token);
    let mut spare_sessions = Vec::new();
    for _ in 0..5 {
        spare_sessions.push(token_of(&service.sign_in("warden", USER_PASSWORD).await));
    }
    let mut own = ids(&warden, "/me/sessions", "sessions").await;
    own.extend(["warden", "wardens", created["id"].as_str().unwrap()].map(str::to_owned));
    let successes = service.directory.path().join("successes");
    let exported = admin.get("/schema/export").await.expect(200);
    let change = admin.get("/schema/history").await.expect(200).body["changes"][0]["version"].clone();
    let proposal = json!({"role": "admin", "policies": [{"title": "all", "expression": "true"}]});
    let mut shared = proposal.clone();
    shared["by"] = json!("SpanAttributes[\"team\"]");
    let mapping = json!({"roles": [{"role": "blue", "when": "\"blue\" in claims.groups"}]});
    let claims = json!({"claims": {"groups": ["blue"]}, "mapping": mapping});
    let key_of_program = json!({"name": "nightly", "expires_at": "2100-01-01T00:00:00Z"});
    let link = json!({"name": PROVIDER, "subject": "a person at the provider"});
    let mut once = single_use_objects(&service, &admin, &warden).await;
    once["POST /schema/history/{version}/restore"] = json!([{"version": change}]);
    let known = json!({
        "successes": successes,
        "bodies": {
            "PUT /schema/import": [exported.body],
            "POST /schema/history/{version}/restore": [null],
            "POST /policies/preview": [proposal, proposal],
            "POST /policies/collateral-access": [shared, shared, shared, shared],
            "PUT /identity/providers/{provider}/mapping": [mapping],
            "POST /identity/providers/{provider}/evaluate": [claims],
            "POST /users/{username}/api-keys": [key_of_program, key_of_program],
            "PUT /users/{username}/provider": [link, link],
        },
        "own": own,
        "session": token_of(&warden),
        "spare sessions": spare_sessions,
        "once": once,
    });

    let hooks = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api/conformance");
    let seed = repetitions::seed(SEED).to_string();
    let usual = if service.database.is_some() { EXAMPLES_ON_POSTGRESQL } else { EXAMPLES };
    let examples = usual.get("TRACEWARDEN_TEST_EXAMPLES").to_string();
    println!("seed {seed}, {examples} examples");
    let settings = include_str!("conformance/schemathesis.toml");
    let run = |credential: &str, token: &str, operations: &[String]| {
        let configuration = service.directory.path().join("schemathesis.toml");
        std::fs::write(&configuration, format!("{settings}\n[auth.openapi]\n{credential}\n")).unwrap();
        let mut schemathesis = Command::new(prepared_python().unwrap());
        schemathesis
            .args(["-m", "schemathesis.cli", "--no-color", "--config-file"])
            .arg(configuration)
            .args(["run", &format!("{}/openapi.json", service.base)])
            .args(["--seed", &seed, "--max-examples", &examples])
            .args(operations.iter().flat_map(|operation| ["--include-operation-id", operation.as_str()]))
            .current_dir(service.directory.path())
            .envs([("PYTHONPATH", hooks), ("SCHEMATHESIS_HOOKS", "hooks"), ("PYTHONDONTWRITEBYTECODE", "1")])
            .envs([("KNOWN", known.to_string().as_str()), ("TOKEN", token)]);
        let output = schemathesis.output().unwrap();
        println!("{}", String::from_utf8_lossy(&output.stdout));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(r#"api_key = { bearer = "${TOKEN}" }"#, token, &[]);
    // The operations that API keys may not call.
    run(r#"session = { api_key = "${TOKEN}" }"#, &token_of(&warden), &session_only(&key).await);

    // The run kept its authorisation to the end. Otherwise it would only have tested rejections.
    key.get("/users").await.expect(200);
    warden.get("/me").await.expect(200);
    assert_eq!(operations_without_success(&key, &successes).await, NOT_GENERATED);
    assert!(!service.log().contains("ERROR"), "{}", service.log());
}

/// Returns the ids in a list.
async fn ids(client: &Client, path: &str, member: &str) -> Vec<String> {
    let list = client.get(path).await.expect(200).body;
    list[member].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

fn token_of(client: &Client) -> String {
    client.cookie().strip_prefix("tracewarden=").unwrap().to_owned()
}

/// Returns path parameters by operation. With arbitrary ones, all requests would end in 404.
async fn single_use_objects(service: &Service, admin: &Client, warden: &Client) -> Value {
    let mut once: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    let mut add = |operation, parameters| once.entry(operation).or_default().push(parameters);
    for number in 0..12 {
        // Half of the users are for revoking single sessions and API keys, the others for revoking all at once.
        let in_sequence = number % 2 == 0;
        let username = format!("spare-{number}");
        let user = service.user(admin, &username, &[]).await;
        service.sign_in(&username, USER_PASSWORD).await;
        let key = user.post("/me/api-keys", json!({"name": "spare"})).await.expect(201).body;
        let session = ids(&user, "/me/sessions", "sessions").await.remove(0);
        if in_sequence {
            add("DELETE /users/{username}/sessions/{id}", json!({"username": username, "id": session}));
            add("DELETE /users/{username}/api-keys/{id}", json!({"username": username, "id": key["id"]}));
            continue;
        }
        for operation in [
            "GET /users/{username}",
            "GET /users/{username}/access",
            "GET /users/{username}/sessions",
            "GET /users/{username}/api-keys",
            "DELETE /users/{username}/sessions",
            "DELETE /users/{username}/api-keys",
            "PATCH /users/{username}",
            "POST /users/{username}/password",
        ] {
            add(operation, json!({"username": username}));
        }
        let own = warden.post("/me/api-keys", json!({"name": "spare"})).await.expect(201).body;
        add("DELETE /me/api-keys/{id}", json!({"id": own["id"]}));
        service.sign_in("warden", USER_PASSWORD).await;
        let session = ids(warden, "/me/sessions", "sessions").await.remove(0);
        add("DELETE /me/sessions/{id}", json!({"id": session}));
    }
    for number in 0..4 {
        let (program, linked) = (format!("program-{number}"), format!("linked-{number}"));
        let service_account = json!({"username": program, "service": {"owner": "warden"}});
        admin.post("/users", service_account).await.expect(201);
        add("POST /users/{username}/api-keys", json!({"username": program}));
        admin.post("/users", json!({"username": linked})).await.expect(201);
        let link = json!({"name": PROVIDER, "subject": number.to_string()});
        admin.put(&format!("/users/{linked}/provider"), link).await.expect(200);
        add("DELETE /users/{username}/provider", json!({"username": linked}));
        let to_link = format!("person-{number}");
        admin.post("/users", json!({"username": to_link})).await.expect(201);
        add("PUT /users/{username}/provider", json!({"username": to_link}));
    }
    add("GET /traces/{id}", json!({"id": BLUE}));
    add("GET /traces/{id}", json!({"id": RED}));
    for operation in [
        "GET /identity/providers/{provider}/mapping",
        "PUT /identity/providers/{provider}/mapping",
        "POST /identity/providers/{provider}/evaluate",
    ] {
        add(operation, json!({"provider": PROVIDER}));
    }
    for operation in ["GET /traces/{id}/explain", "GET /traces/{id}/viewers"] {
        add(operation, json!({"id": BLUE}));
        add(operation, json!({"id": RED}));
    }
    json!(once)
}

/// Returns the ids of the operations that require a session.
async fn session_only(client: &Client) -> Vec<String> {
    let document = client.get("/openapi.json").await.expect(200).body;
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
    let ids = operations
        .filter(|operation| operation["security"] == json!([{"session": []}]))
        .map(|operation| operation["operationId"].as_str().unwrap().to_owned());
    let ids: Vec<String> = ids.collect();
    assert!(ids.len() >= 5, "{ids:?}");
    ids
}

/// Returns the operations of the document that never succeeded.
async fn operations_without_success(client: &Client, successes: &Path) -> Vec<String> {
    let document = client.get("/openapi.json").await.expect(200).body;
    let done = std::fs::read_to_string(successes).unwrap();
    let done: BTreeSet<&str> = done.lines().collect();
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flat_map(serde_json::Map::<String, Value>::keys);
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    operations.filter(|operation| !done.contains(operation.as_str())).collect()
}

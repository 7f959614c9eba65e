//! Logs: one line per request, in both formats, and no secrets.

use std::path::Path;
use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tracewarden_testkit::postgres;

use crate::support::store::{Store, bound_service};
use crate::support::{Service, USER_PASSWORD, program, secrets};

fn lines(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

/// Returns the log lines about the answer to a request.
fn answer_line<'a>(lines: &'a [Value], request_id: &str) -> Vec<&'a Value> {
    let of = |line: &&Value| line["span"]["request_id"] == request_id && line["message"] == "answered";
    lines.iter().filter(of).collect()
}

/// Checks that the search for secrets at the end of every test with a service finds a secret.
#[test]
fn the_search_for_secrets_finds_them() {
    secrets::keep("planted-9f2c71");
    secrets::keep_setting("TRACEWARDEN_CLICKHOUSE_PASSWORD", "planted-03ab55");
    secrets::keep_setting("TRACEWARDEN_DATABASE_URL", "postgres://u:planted-77d1e0@127.0.0.1:1/d");
    secrets::assert_no_secrets("nothing", b"planted-9f2c7 planted-03ab5 planted-77d1e");
    for planted in ["planted-9f2c71", "planted-03ab55", "planted-77d1e0"] {
        let planted_log = format!("a line\n {planted}\n");
        assert!(
            std::panic::catch_unwind(|| secrets::assert_no_secrets("a log", planted_log.as_bytes())).is_err(),
            "{planted}"
        );
    }
    assert!(
        std::panic::catch_unwind(|| secrets::assert_no_secrets_or_hashes("a log", b"$argon2id$v=19"))
            .is_err()
    );
}

#[tokio::test]
async fn each_request_leaves_one_line_and_no_secret() {
    let mut store = Store::start();
    store.insert_two_traces().await;
    let environment = [("TRACEWARDEN_LOG_FORMAT", "json"), ("TRACEWARDEN_LOG", "debug")];
    let (mut service, admin) = bound_service(&store, &environment).await;
    let policies =
        json!({"policies": [{"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""}]});
    admin.put("/roles/blue", policies).await.expect(201);
    let ada = service.user(&admin, "ada", &["blue"]).await;
    let key = ada.post("/me/api-keys", json!({"name": "script"})).await.expect(201).body;
    let token = key["token"].as_str().unwrap().to_owned();
    let by_key = service.anonymous().with_key(&token);
    let id = ada.get("/me").await.expect(200).body["id"].as_str().unwrap().to_owned();

    let trace = "1".repeat(32);
    let mut sent_requests = Vec::new();
    let path = format!("/traces/{trace}");
    for (client, method, path, route, status, user) in [
        (&by_key, Method::POST, "/traces/query", "/traces/query", 200, Some(&id)),
        (&by_key, Method::GET, path.as_str(), "/traces/{id}", 200, Some(&id)),
        (&ada, Method::GET, "/users/ada?token=hunter2", "/users/{username}", 403, Some(&id)),
        (&ada, Method::GET, "/nothing/hunter2", "unmatched", 404, None),
        (&service.anonymous(), Method::GET, "/me", "/me", 401, None),
    ] {
        let body = (method == Method::POST).then(|| json!({}));
        let answer = client.send(method.clone(), path, body).await.expect(status);
        let request = answer.headers["x-request-id"].to_str().unwrap().to_owned();
        sent_requests.push((request, method, route, status, user));
    }
    let parsed = lines(&service.log());
    for (request, method, route, status, user) in &sent_requests {
        let of_request = answer_line(&parsed, request);
        assert_eq!(of_request.len(), 1, "{route}: {of_request:?}");
        let line = of_request[0];
        assert_eq!(line["method"], method.as_str());
        assert_eq!(line["route"], *route);
        assert_eq!(line["status"], *status);
        assert!(line["milliseconds"].is_u64(), "{line}");
        assert_eq!(line["span"]["user_id"].as_str(), user.map(String::as_str), "{line}");
    }

    // Failing requests must not log more than successful ones.
    let wrong = json!({"username": "wrong-username-canary", "password": "wrong-password-canary"});
    service.anonymous().post("/login", wrong).await.expect(401);
    service.anonymous().with_key(&token.replace("twk_", "twk_x")).get("/me").await.expect(401);
    let weak = json!({"current_password": USER_PASSWORD, "new_password": "password-canary-123456"});
    ada.post("/me/password", weak).await;
    let unreadable = ada.request(Method::POST, "/login").header("content-type", "application/json");
    unreadable.body("{\"password\": \"body-canary\", ").send().await.unwrap();
    let rotated = admin.post("/users/ada/password", json!({})).await.expect(200).body;
    let generated = rotated["initial_password"].as_str().unwrap().to_owned();
    let ada = service.sign_in("ada", &generated).await;
    store.kill();
    admin.post("/traces/query", json!({})).await;
    service.restart_with(&[]);
    let log = service.log();
    lines(&log);
    let sessions = [admin.cookie(), ada.cookie()].map(|cookie| cookie.split('=').nth(1).unwrap().to_owned());
    for secret in [
        "hunter2",
        "canary",
        &token,
        &token[4..],
        &generated,
        USER_PASSWORD,
        "seven quiet lighthouses",
        "a password, with 'quotes'",
        "$argon2id",
        &sessions[0],
        &sessions[1],
        &trace,
    ] {
        assert!(!log.contains(secret), "{secret}\n{log}");
    }
}

#[tokio::test]
async fn doubtful_settings_and_unknown_proxies_are_named_once() {
    let service = Service::start_with(&[("TRACEWARDEN_AUDIT_RETENTION", "90s")]);
    let count = |text: &str| service.log().matches(text).count();
    assert_eq!(count("`audit_retention` removes audit records older than 90s"), 1, "{}", service.log());
    service.anonymous().get("/healthz").await.expect(200);
    assert_eq!(count("X-Forwarded-For"), 0);
    for address in ["198.51.100.1", "198.51.100.2"] {
        service.anonymous().with("x-forwarded-for", address).get("/healthz").await.expect(200);
    }
    let line = "`X-Forwarded-For` from an address that is not in `trusted_proxies`";
    assert_eq!(count(line), 1, "{}", service.log());
    assert!(service.log().contains("peer=127.0.0.1") && !service.log().contains("198.51.100"));
    let trusting = Service::start_with(&[("TRACEWARDEN_TRUSTED_PROXIES", "127.0.0.1")]);
    trusting.anonymous().with("x-forwarded-for", "198.51.100.1").get("/healthz").await.expect(200);
    assert!(!trusting.log().contains("X-Forwarded-For"), "{}", trusting.log());
}

#[tokio::test]
async fn a_start_on_postgresql_says_nothing_of_tables_that_are_there() {
    let database = Arc::new(postgres::database().unwrap());
    for _ in 0..2 {
        let service = Service::start_on(&database, &[]);
        service.anonymous().get("/healthz").await.expect(200);
        let log = service.log();
        assert!(log.contains("answered") && !log.contains("schema_migrations"), "{log}");
    }
}

#[tokio::test]
async fn text_logs_have_the_same_content() {
    let service = Service::start();
    let answer = service.admin().await.get("/me?token=hunter2").await.problem(400, "invalid_request");
    let request = answer.headers["x-request-id"].to_str().unwrap();
    let log = service.log();
    let line = log.lines().find(|line| line.contains(request)).unwrap();
    for part in ["method=GET", "route=\"/me\"", "status=400", "milliseconds=", "user_id=\"usr_"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!log.contains("hunter2") && !log.contains('\u{1b}'), "{log}");
}

/// The password in the URL of a PostgreSQL database is not shown, neither on success nor on failure.
#[tokio::test]
async fn the_database_password_is_not_logged() {
    let directory = tempfile::tempdir().unwrap();
    let attempt = |url: &str| {
        let mut command = program();
        command.current_dir(directory.path()).env("TRACEWARDEN_LISTEN", "127.0.0.1:0");
        command.env("TRACEWARDEN_LOG", "trace").env("TRACEWARDEN_DATABASE_URL", url);
        let output = command.arg("serve").output().unwrap();
        assert!(!output.status.success(), "{url}");
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!printed.contains("hunter2"), "{printed}");
        printed
    };
    attempt("postgres://tracewarden:hunter2@127.0.0.1:9/tracewarden?sslmode=nonsense");
    let error = attempt("postgres://tracewarden:hunter2@[::1/tracewarden");
    assert!(error.contains("`TRACEWARDEN_DATABASE_URL`"), "{error}");

    // The URL `postgres://USER:PASSWORD@…` with the right and with a wrong password.
    let database = Arc::new(postgres::database().unwrap());
    let url = database.url();
    let (user, server) = url.split_once('@').unwrap();
    let (user, password) = user.rsplit_once(':').unwrap();
    let error = attempt(&format!("{user}:hunter2@{server}"));
    assert!(error.contains("password authentication failed"), "{error}");
    let service = Service::start_on(&database, &[("TRACEWARDEN_LOG", "trace")]);
    service.admin().await.get("/users").await.expect(200);
    assert!(password.len() > 7, "too short to be searched for");
    assert!(service.log().contains("answered") && !service.log().contains(password), "{}", service.log());
}

#[tokio::test]
async fn the_initial_password_file_with_a_database_server() {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap().trim().to_owned();
    let none = [("TRACEWARDEN_ADMIN_PASSWORD_HASH", "")];
    let service = Service::start_on(&Arc::new(postgres::database().unwrap()), &none);
    let path = service.directory.path().join("tracewarden.initial-password");
    service.sign_in("admin", &read(&path)).await;
    assert!(service.log().contains("tracewarden.initial-password"));
    assert!(!service.log().contains(&read(&path)));

    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("first");
    let chosen = [none[0], ("TRACEWARDEN_INITIAL_PASSWORD_FILE", path.to_str().unwrap())];
    let service = Service::start_with(&chosen);
    service.sign_in("admin", &read(&path)).await;
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!service.directory.path().join("tracewarden.db.initial-password").exists());
}

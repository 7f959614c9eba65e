//! Starting, stopping, the first administrator, and the other commands.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::support::{ADMIN_PASSWORD, Service, hash_password, program};

fn run(arguments: &[&str], environment: &[(&str, &str)], input: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let mut child = program()
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that rejects its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[tokio::test]
async fn without_a_hash_the_first_administrator_gets_a_password_in_a_private_file() {
    let service = Service::start_with(&[("TRACEWARDEN_ADMIN_PASSWORD_HASH", "")]);
    let path = service.directory.path().join("tracewarden.db.initial-password");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let password = std::fs::read_to_string(&path).unwrap().trim().to_owned();
    let admin = service.sign_in("admin", &password).await;
    assert_eq!(admin.get("/me").await.expect(200).body["must_change_password"], true);
    assert!(service.log().contains("tracewarden.db.initial-password"));
    assert!(!service.log().contains(&password));
    let database = service.directory.path().join("tracewarden.db");
    assert_eq!(database.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_new_hash_replaces_a_lost_password_once() {
    let mut service = Service::start();
    let admin = service.admin().await;
    let hash = hash_password("a recovered password");
    service.restart_with(&[("TRACEWARDEN_ADMIN_PASSWORD_HASH", &hash)]);
    service.anonymous().with("cookie", admin.cookie()).get("/me").await.problem(401, "unauthenticated");
    let old = json!({"username": "admin", "password": ADMIN_PASSWORD});
    service.anonymous().post("/login", old).await.problem(401, "invalid_credentials");
    let admin = service.sign_in("admin", "a recovered password").await;
    let change = json!({"current_password": "a recovered password", "new_password": "a changed password"});
    admin.post("/me/password", change).await.expect(204);
    // The same value again has no effect.
    service.restart_with(&[]);
    service.sign_in("admin", "a changed password").await;
}

#[tokio::test]
async fn sessions_and_keys_survive_a_restart() {
    let mut service = Service::start();
    let admin = service.admin().await;
    let key = admin.post("/me/api-keys", json!({"name": "x"})).await.expect(201).body;
    service.restart_with(&[]);
    service.anonymous().with("cookie", admin.cookie()).get("/me").await.expect(200);
    service.anonymous().with_key(key["token"].as_str().unwrap()).get("/me").await.expect(200);
}

#[test]
fn the_service_stops_on_a_signal() {
    for signal in ["-TERM", "-INT"] {
        let mut service = Service::start();
        assert!(Command::new("kill").args([signal, &service.id().to_string()]).status().unwrap().success());
        assert!(service.wait().success(), "{}", service.log());
        assert!(service.log().contains("stopped"));
    }
}

#[test]
fn wrong_settings_stop_the_start_with_their_names() {
    for command in ["serve", "check-config"] {
        let environment = [
            ("TRACEWARDEN_QUERY_TIMOUT", "1s"),
            ("TRACEWARDEN_MAX_VALUES", "many"),
            ("TRACEWARDEN_ADMIN_USERNAME", "a/b"),
            ("TRACEWARDEN_ADMIN_PASSWORD_HASH", "$argon2id$v=19$m=4096,t=1,p=1$hunter2"),
        ];
        let output = run(&[command], &environment, "");
        assert!(!output.status.success());
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("`TRACEWARDEN_QUERY_TIMOUT`: no such environment variable"), "{error}");
        assert!(error.contains("did you mean `TRACEWARDEN_QUERY_TIMEOUT`?"), "{error}");
        assert!(error.contains("`TRACEWARDEN_MAX_VALUES`"), "{error}");
        assert!(error.contains("`TRACEWARDEN_ADMIN_USERNAME`: must"), "{error}");
        assert!(error.contains("`TRACEWARDEN_ADMIN_PASSWORD_HASH`: must"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let output = run(&["serve", "--config", "/nonexistent.toml"], &[], "");
    assert!(String::from_utf8(output.stderr).unwrap().contains("/nonexistent.toml"));
}

#[test]
fn check_config_shows_effective_settings_and_no_secret() {
    let environment = [
        // The discard port: no program listens on it.
        ("TRACEWARDEN_CLICKHOUSE_URL", "http://127.0.0.1:9"),
        ("TRACEWARDEN_CLICKHOUSE_PASSWORD", "hunter2"),
        ("TRACEWARDEN_LIBCHDB", "/x"),
        ("TRACEWARDEN_LOCALSTORE_PASSWORD", "x"),
        // Another program may listen on the default port.
        ("TRACEWARDEN_LISTEN", "127.0.0.1:0"),
    ];
    let output = run(&["check-config"], &environment, "");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let [set, default] = ["\nclickhouse_url = http://127.0.0.1:9 (`", "\nquery_timeout = 30s (default)\n"];
    assert!(text.contains(set) && text.contains(default) && !text.contains("hunter2"), "{text}");
    // Whether the address can be bound does not matter here.
    let text = String::from_utf8(run(&["check-config"], &environment[..1], "").stdout).unwrap();
    assert!(text.starts_with("listen = 127.0.0.1:8080 (default)\n"), "{text}");
}

#[test]
fn hash_password_prints_a_hash_of_good_passwords_only() {
    let output = run(&["hash-password"], &[], "a rather long sentence\n");
    let hash = String::from_utf8(output.stdout).unwrap();
    assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
    assert_eq!(hash.lines().count(), 1);
    for weak in ["", "\n", "short\n", "passwordpassword\n"] {
        let output = run(&["hash-password"], &[], weak);
        assert!(!output.status.success(), "{weak:?}");
        assert!(output.stdout.is_empty());
        assert!(!String::from_utf8(output.stderr).unwrap().contains("passwordpassword"));
    }
}

#[test]
fn a_hash_is_not_of_a_password_with_the_administrators_name() {
    let accepted = |arguments: &[&str], environment: &[(&str, &str)], password: &str| {
        let output = run(&[&["hash-password"], arguments].concat(), environment, password);
        output.status.success()
    };
    let named = [("TRACEWARDEN_ADMIN_USERNAME", "overlord")];
    assert!(!accepted(&[], &[], "here is my Admin now\n"));
    assert!(!accepted(&[], &[("TRACEWARDEN_ADMIN_USERNAME", "")], "here is my Admin now\n"));
    assert!(accepted(&[], &named, "here is my Admin now\n"));
    assert!(!accepted(&[], &named, "here is my overlord now\n"));
    assert!(!accepted(&["--username", "marvin"], &named, "here is marvin now\n"));
    assert!(accepted(&["--username", "marvin"], &named, "here is my overlord now\n"));
}

#[test]
fn an_address_in_use_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&["serve"], &[("TRACEWARDEN_LISTEN", &address)], "");
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains(&address));
}

//! `tracewarden check-config` and its checks.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use tracewarden_testkit::postgres;

use crate::support::operations_page::examples;
use crate::support::store::{Store, bound_service};
use crate::support::{Service, program};

/// A `users.xml` as the operations page recommends, in this form of ClickHouse's configuration. A test below compares its
/// profile with the page's.
const LIMITED: &str = "<clickhouse><profiles><default/><tracewarden><readonly>2</readonly>\
    <max_execution_time>60</max_execution_time><max_memory_usage>8000000000</max_memory_usage>\
    <constraints><max_execution_time><min>1</min><max>600</max></max_execution_time>\
    <max_memory_usage><min>1</min><max>8000000000</max></max_memory_usage></constraints></tracewarden></profiles>\
    <quotas><default/></quotas><users><default><password/><networks><ip>::/0</ip></networks>\
    <profile>tracewarden</profile><quota>default</quota><grants>\
    <query>GRANT SELECT ON otel.otel_traces</query></grants></default></users></clickhouse>";

/// Returns whether it succeeded, and the findings.
fn check(service: &Service, environment: &[(&str, &str)], arguments: &[&str]) -> (bool, Vec<String>) {
    let mut command = service.command();
    let output =
        command.envs(environment.iter().copied()).arg("check-config").args(arguments).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let (settings, findings) = printed.split_once("the configuration is valid\n").unwrap_or_else(|| {
        panic!("{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    });
    for secret in ["a password, with", "hunter2"] {
        assert!(!settings.contains(secret) && !findings.contains(secret), "{printed}");
    }
    (output.status.success(), findings.lines().map(str::to_owned).collect())
}

#[track_caller]
fn has(findings: &[String], level: &str, text: &str) {
    let found = findings.iter().any(|line| line.starts_with(level) && line.contains(text));
    assert!(found, "no {level} with {text:?}:\n{}", findings.join("\n"));
}

#[track_caller]
fn expect_worst_level(findings: &[String], level: &str) {
    let of = |level: &str| findings.iter().filter(|line| line.starts_with(level)).count();
    let expected = match level {
        "ok" => of("warning") + of("error") == 0,
        "warning" => of("warning") > 0 && of("error") == 0,
        _ => of("error") > 0,
    };
    assert!(expected && !findings.is_empty(), "{}", findings.join("\n"));
}

#[tokio::test]
async fn checks_the_clickhouse_user() {
    let store = Store::start();
    let (service, _admin) = bound_service(&store, &[]).await;

    // The default user of the test server has all privileges.
    let (success, findings) = check(&service, &[], &[]);
    expect_worst_level(&findings, "warning");
    assert!(success);
    for (level, text) in [
        ("ok", "accepts `default`"),
        ("ok", "accepts the settings"),
        ("warning", "may do more than read: "),
        ("warning", "can reach files and other systems: "),
        ("warning", "reads more than the trace source: *.*"),
        ("warning", "`max_execution_time`"),
        ("warning", "`max_memory_usage`"),
    ] {
        has(&findings, level, text);
    }
    assert!(!check(&service, &[], &["--strict"]).0);

    // With the recommended limits, the only remaining warning is that this server shows all users' statements, which cannot
    // be turned off in it.
    let store = store.restart_as(LIMITED);
    let limited = [("TRACEWARDEN_CLICKHOUSE_URL", store.url.as_str())];
    let (success, findings) = check(&service, &limited, &[]);
    has(&findings, "warning", "sees the queries of other users");
    let others: Vec<String> =
        findings.into_iter().filter(|finding| !finding.contains("sees the queries of other users")).collect();
    expect_worst_level(&others, "ok");
    assert!(success && !check(&service, &limited, &["--strict"]).0);
    let findings = others;
    has(&findings, "ok", "can change nothing");
    has(&findings, "ok", "reads otel.otel_traces");
    has(&findings, "ok", "`max_execution_time` is limited to 600");

    // Limits with a maximum only, and a `compatibility` setting of an older version.
    let loose = LIMITED
        .replace("<min>1</min>", "")
        .replace("<readonly>", "<compatibility>25.8</compatibility><readonly>");
    let loosely = Store::start().restart_as(&loose);
    let (success, findings) = check(&service, &[("TRACEWARDEN_CLICKHOUSE_URL", &loosely.url)], &[]);
    assert!(success);
    has(&findings, "warning", "only the service limits `max_execution_time`");
    has(&findings, "warning", "`compatibility` is 25.8");

    let longer = [limited[0], ("TRACEWARDEN_ANSWER_TIMEOUT", "11m")];
    let (success, findings) = check(&service, &longer, &[]);
    assert!(!success);
    has(&findings, "error", "lower `query_timeout`, `answer_timeout`");

    let wrong = [limited[0], ("TRACEWARDEN_CLICKHOUSE_PASSWORD", "hunter2")];
    let (success, findings) = check(&service, &wrong, &[]);
    assert!(!success);
    has(&findings, "error", "rejects the sign-in of `default`");

    let store = store.restart_as(&LIMITED.replace("otel.otel_traces", "other.*"));
    let (success, findings) = check(&service, &[("TRACEWARDEN_CLICKHOUSE_URL", &store.url)], &[]);
    assert!(!success);
    has(&findings, "error", "cannot read the bound table `otel.otel_traces`");
    has(&findings, "warning", "reads more than the trace source: other.*");

    // A whole database contains more than traces, and `system` contains all users' queries.
    let more = "otel.otel_traces</query><query>GRANT SELECT ON otel.*</query><query>GRANT SELECT ON system.parts</query>\
        <query>GRANT SELECT ON system.query_log";
    let store = store.restart_as(&LIMITED.replace("otel.otel_traces", more));
    let (success, findings) = check(&service, &[("TRACEWARDEN_CLICKHOUSE_URL", &store.url)], &[]);
    assert!(success);
    has(&findings, "warning", "reads more than the trace source: otel.*, system.query_log;");

    let store = store.restart_as(&LIMITED.replace("<readonly>2", "<readonly>1"));
    let (success, findings) = check(&service, &[("TRACEWARDEN_CLICKHOUSE_URL", &store.url)], &[]);
    assert!(!success);
    has(&findings, "error", "set `readonly = 2`");
}

#[tokio::test]
async fn an_absent_store_is_a_warning_and_an_absent_database_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let run = |url: &str, arguments: &[&str]| {
        let mut command = program();
        // The discard port: no program listens on it.
        command.env("TRACEWARDEN_CLICKHOUSE_URL", "http://127.0.0.1:9").env("TRACEWARDEN_DATABASE_URL", url);
        // Another program may listen on the default port.
        command.env("TRACEWARDEN_LISTEN", "127.0.0.1:0");
        let output =
            command.current_dir(directory.path()).arg("check-config").args(arguments).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(!printed.contains("hunter2"), "{printed}");
        (output.status.success(), printed.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let (success, findings) = run("sqlite:new.db", &[]);
    assert!(success);
    has(&findings, "ok", "the next start creates it");
    has(&findings, "ok", "no trace source is bound yet");
    has(&findings, "warning", "http://127.0.0.1:9: does not answer");
    assert!(!directory.path().join("new.db").exists());
    assert!(!run("sqlite:new.db", &["--strict"]).0);
    let (success, findings) = run("sqlite:missing/new.db", &[]);
    assert!(!success);
    has(&findings, "error", "does not exist: create it");
    let (success, findings) = run("postgres://tracewarden:hunter2@127.0.0.1:9/tracewarden", &[]);
    assert!(!success);
    has(&findings, "error", "application database unavailable");
    has(&findings, "warning", "the bound trace source is not known");
    assert!(!findings.iter().any(|line| line.contains("no trace source is bound yet")), "{findings:?}");
    let database = postgres::database().unwrap();
    let absent = format!("{}_absent", database.url());
    let (success, findings) = run(&absent, &[]);
    assert!(!success);
    has(&findings, "error", "_absent\" does not exist; correct `database_url`");
}

#[tokio::test]
async fn checks_the_application_database() {
    let service = Service::start();
    has(&check(&service, &[], &[]).1, "ok", "schema current");
    let file = service.directory.path().join("tracewarden.db");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    has(&check(&service, &[], &[]).1, "warning", "accessible to other users (mode 644)");
    std::fs::write(&file, "no database").unwrap();
    for side in ["tracewarden.db-wal", "tracewarden.db-shm"] {
        let _ = std::fs::remove_file(service.directory.path().join(side));
    }
    let (success, findings) = check(&service, &[], &[]);
    assert!(!success);
    has(&findings, "error", "is not a SQLite database");

    let service = Service::start_on(&Arc::new(postgres::database().unwrap()), &[]);
    has(&check(&service, &[], &[]).1, "ok", "application database: PostgreSQL");
    has(&check(&service, &[], &[]).1, "ok", "schema current");
    sqlx::any::install_default_drivers();
    let database = service.database.as_ref().unwrap();
    database
        .run(&["DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)"])
        .unwrap();
    has(&check(&service, &[], &[]).1, "warning", "schema 1 step(s) behind");
    database.run(&["INSERT INTO schema_migrations VALUES (99, 'later', 'x', 1)"]).unwrap();
    let (success, findings) = check(&service, &[], &[]);
    assert!(!success);
    has(&findings, "error", "not usable by this version");
}

#[test]
fn files_with_secrets_are_private() {
    let service = Service::start();
    let write = |name: &str, text: &str, mode: u32| {
        let path = service.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let variable = "TRACEWARDEN_CLICKHOUSE_PASSWORD_FILE";
    let password = write("password", "hunter2\n", 0o600);
    let (_, findings) = check(&service, &[(variable, &password)], &[]);
    has(&findings, "ok", "password` holds a secret and is private");
    write("password", "hunter2\n", 0o644);
    let (_, findings) = check(&service, &[(variable, &password)], &[]);
    has(&findings, "warning", "password` holds a secret and is accessible to other users (mode 644)");
    // A configuration file is checked if it contains a secret.
    let harmless = write("harmless.toml", "max_values = 7\n", 0o644);
    let (_, findings) = check(&service, &[], &["--config", &harmless]);
    assert!(!findings.iter().any(|line| line.contains("harmless.toml")), "{findings:?}");
    let telling = write("telling.toml", "clickhouse_password = \"hunter2\"\n", 0o644);
    let (_, findings) = check(&service, &[], &["--config", &telling]);
    has(&findings, "warning", "telling.toml` holds a secret");
    assert!(Path::new(&telling).exists());
}

#[tokio::test]
async fn shows_settings_and_warnings() {
    let service = Service::start();
    let environment =
        [("TRACEWARDEN_PUBLIC_URL", "https://traces.example.com"), ("TRACEWARDEN_AUDIT_RETENTION", "90s")];
    let mut command = service.command();
    let output = command.envs(environment).arg("check-config").output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("\naudit_retention = 90s (`TRACEWARDEN_AUDIT_RETENTION`)\n"), "{printed}");
    assert!(!printed.contains("Some(") && !printed.contains("None"), "{printed}");
    let (success, findings) = check(&service, &environment, &[]);
    assert!(success);
    has(&findings, "warning", "`trusted_proxies` is empty");
    has(&findings, "warning", "`audit_retention` removes audit records older than 90s");
}

#[tokio::test]
async fn addresses_to_listen_on() {
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let service = Service::start_with(&[("TRACEWARDEN_METRICS_LISTEN", &free())]);
    let metrics = service.log();
    let metrics = metrics.split("metrics on http://").nth(1).unwrap().split('/').next().unwrap();
    let listen = service.base.strip_prefix("http://").unwrap();
    let running = [("TRACEWARDEN_LISTEN", listen), ("TRACEWARDEN_METRICS_LISTEN", metrics)];
    let (success, findings) = check(&service, &running, &[]);
    assert!(success);
    has(&findings, "ok", &format!("`listen`: this service already runs on {listen}"));
    has(&findings, "ok", &format!("`metrics_listen`: this service already runs on {metrics}"));
    let swapped = [("TRACEWARDEN_LISTEN", metrics), ("TRACEWARDEN_METRICS_LISTEN", listen)];
    let (success, findings) = check(&service, &swapped, &[]);
    assert!(!success);
    has(&findings, "error", &format!("`metrics_listen`: another program listens on {listen}"));

    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let (success, findings) = check(&service, &[("TRACEWARDEN_LISTEN", &taken)], &[]);
    assert!(!success);
    has(&findings, "error", &format!("`listen`: another program listens on {taken}"));
    drop(other);
    has(&check(&service, &[("TRACEWARDEN_LISTEN", &free())], &[]).1, "ok", "is free");
    // An address from a documentation range, which no machine has.
    let elsewhere =
        [("TRACEWARDEN_LISTEN", "192.0.2.1:8080"), ("TRACEWARDEN_PUBLIC_URL", "https://traces.example.com")];
    has(&check(&service, &elsewhere, &[]).1, "error", "192.0.2.1:8080 is not an address of this machine");
}

#[tokio::test]
async fn checks_the_initial_password_file() {
    let service = Service::start_on(&Arc::new(postgres::database().unwrap()), &[]);
    let directory = service.directory.path();
    let taken = directory.join("taken");
    std::fs::write(&taken, "notes\n").unwrap();
    let hashed = ("TRACEWARDEN_INITIAL_PASSWORD_FILE", "/missing/password");
    let unhashed = ("TRACEWARDEN_ADMIN_PASSWORD_HASH", "");
    let database = postgres::database().unwrap();
    let (fresh_server, fresh_file) =
        (database.url(), format!("sqlite:{}", directory.join("new.db").display()));
    for fresh in [&fresh_server, &fresh_file] {
        let fresh = ("TRACEWARDEN_DATABASE_URL", fresh.as_str());
        let (success, findings) = check(&service, &[fresh, unhashed], &[]);
        assert!(success, "{findings:?}");
        has(&findings, "ok", ".initial-password`");
        for (location, why) in
            [("/missing/password", "No such file"), (taken.to_str().unwrap(), "no earlier start created")]
        {
            let location = ("TRACEWARDEN_INITIAL_PASSWORD_FILE", location);
            let (success, findings) = check(&service, &[fresh, unhashed, location], &[]);
            assert!(!success);
            has(&findings, "error", why);
            has(&findings, "error", "give another path as `initial_password_file`");
        }
        let (_, findings) = check(&service, &[fresh, hashed], &[]);
        assert!(!findings.iter().any(|line| line.contains("first administrator")), "{findings:?}");
    }
    // If an administrator exists, no password will be written.
    let (success, findings) = check(&service, &[unhashed, hashed], &[]);
    assert!(success);
    assert!(!findings.iter().any(|line| line.contains("first administrator")), "{findings:?}");
}

/// Missing privileges are reported with the statement that grants them, and the statement does grant them.
#[tokio::test]
async fn privileges_on_postgresql() {
    let database = Arc::new(postgres::database().unwrap());
    let role = format!("Rights-{}", std::process::id());
    let server = database.url();
    let (_, location) = server.split_once('@').unwrap();
    let url = format!("postgres://{role}:secret@{location}");
    database.run(&[&format!("CREATE ROLE \"{role}\" LOGIN PASSWORD 'secret'")]).unwrap();
    let service = Service::start_with(&[]);
    let given = |findings: &[String]| {
        let statements = findings.iter().filter_map(|line| line.split_once("run `")?.1.split_once('`'));
        let statements: Vec<String> = statements.map(|(statement, _)| statement.to_owned()).collect();
        assert!(!statements.is_empty(), "{findings:?}");
        for statement in &statements {
            database.run(&[statement]).unwrap();
        }
    };
    let look = || check(&service, &[("TRACEWARDEN_DATABASE_URL", &url)], &[]);

    // A role that may not connect gets no other finding.
    let name = location.rsplit('/').next().unwrap();
    database.run(&[&format!("REVOKE CONNECT ON DATABASE \"{name}\" FROM PUBLIC")]).unwrap();
    let (success, findings) = look();
    assert!(!success);
    has(&findings, "error", &format!("run `GRANT CONNECT ON DATABASE \"{name}\" TO \"{role}\"`"));
    given(&findings);

    let (success, findings) = look();
    assert!(!success);
    has(&findings, "error", &format!("run `GRANT USAGE, CREATE ON SCHEMA public TO \"{role}\"`"));
    given(&findings);
    assert!(look().0);

    // Tables of another role: first without privileges, then with `SELECT` only.
    database.run(&[&format!("REVOKE CREATE ON SCHEMA public FROM \"{role}\"")]).unwrap();
    drop(Service::start_on(&database, &[]));
    let (success, findings) = look();
    assert!(!success);
    has(&findings, "error", "cannot read its tables");
    has(&findings, "error", "run `GRANT SELECT, INSERT, UPDATE, DELETE ON access_models, ");
    database.run(&[&format!("GRANT SELECT ON ALL TABLES IN SCHEMA public TO \"{role}\"")]).unwrap();
    let (success, findings) = look();
    assert!(!success);
    has(&findings, "ok", "schema current");
    has(&findings, "error", "run `GRANT INSERT, UPDATE, DELETE ON access_models, ");
    given(&findings);
    let (success, findings) = look();
    assert!(success, "{findings:?}");
    // These privileges suffice to run the service.
    let running = Service::start_on(&database, &[("TRACEWARDEN_DATABASE_URL", &url)]);
    running.admin().await.get("/users").await.expect(200);
    drop(running);
    // A schema migration needs more privileges.
    database
        .run(&["DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)"])
        .unwrap();
    let (success, findings) = look();
    assert!(!success);
    has(&findings, "error", "run `ALTER TABLE users OWNER TO ");
    given(&findings);
    assert!(look().0);
    database.run(&[&format!("DROP OWNED BY \"{role}\""), &format!("DROP ROLE \"{role}\"")]).unwrap();
}

/// The local ClickHouse reads users from its configuration only, so the tested profile must match the page's.
#[test]
fn the_tested_profile_is_the_documented_one() {
    let statements = examples("The ClickHouse user").swap_remove(0);
    let settings = statements[0].strip_prefix("CREATE SETTINGS PROFILE tracewarden SETTINGS").unwrap();
    let (mut values, mut constraints) = (String::new(), String::new());
    for setting in settings.split(',') {
        let words: Vec<&str> = setting.split_whitespace().collect();
        let [name, "=", value, limits @ ..] = words.as_slice() else { panic!("{setting}") };
        values += &format!("<{name}>{value}</{name}>");
        match limits {
            [] => {}
            ["MIN", least, "MAX", most] => {
                constraints += &format!("<{name}><min>{least}</min><max>{most}</max></{name}>");
            }
            other => panic!("{other:?}"),
        }
    }
    let profile = format!("<tracewarden>{values}<constraints>{constraints}</constraints></tracewarden>");
    assert!(LIMITED.contains(&profile), "the page says {profile}");
}

#[tokio::test]
async fn postgresql_accepts_the_statements_for_its_role() {
    let database = Arc::new(postgres::database().unwrap());
    let name = format!("operations_{}", std::process::id());
    let examples = examples("The application database").into_iter().map(|example| -> Vec<String> {
        example.iter().map(|statement| statement.replace("tracewarden", &name)).collect()
    });
    let [owner, schema, other] = examples.collect::<Vec<_>>().try_into().unwrap();
    assert_eq!((owner.len(), schema.len(), other.len()), (3, 2, 2));
    for statement in &owner {
        database.run(&[statement]).unwrap();
    }
    let url = database.url();
    let server = url.split_once('@').unwrap().1.split('/').next().unwrap();
    let url = format!("postgres://{name}:a%20long%20random%20password@{server}/{name}");
    let made = Arc::new(database.sibling(&name));
    for statement in &schema {
        made.run(&[statement]).unwrap();
    }
    let service = Service::start_on(&made, &[("TRACEWARDEN_DATABASE_URL", &url)]);
    service.admin().await.get("/me").await.expect(200);
    let (_, findings) = check(&service, &[], &[]);
    has(&findings, "ok", "schema current");
    assert!(!findings.iter().any(|line| line.contains("superuser")), "{findings:?}");

    for statement in &other {
        database.run(&[statement]).unwrap();
    }
    let url = format!("postgres://{name}_service:another%20long%20random%20password@{server}/{name}");
    let (success, findings) = check(&service, &[("TRACEWARDEN_DATABASE_URL", &url)], &[]);
    assert!(!success);
    has(&findings, "error", "run `GRANT ");
    drop(service);
    drop(made);
    database.run(&[&format!("DROP ROLE {name}"), &format!("DROP ROLE {name}_service")]).unwrap();
}

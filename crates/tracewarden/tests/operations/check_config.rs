//! `tracewarden check-config` and the surroundings that it finds.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use tracewarden_testkit::postgres;

use crate::support::store::{Store, bound_service};
use crate::support::{Service, program};

/// A `users.xml` as the page on operation advises, in this form of ClickHouse's configuration.
const LIMITED: &str = "<clickhouse><profiles><default/><tracewarden><readonly>2</readonly>\
    <max_execution_time>60</max_execution_time><max_memory_usage>8000000000</max_memory_usage>\
    <constraints><max_execution_time><max>60</max></max_execution_time>\
    <max_memory_usage><max>8000000000</max></max_memory_usage></constraints></tracewarden></profiles>\
    <quotas><default/></quotas><users><default><password/><networks><ip>::/0</ip></networks>\
    <profile>tracewarden</profile><quota>default</quota><grants>\
    <query>GRANT SELECT ON otel.otel_traces</query></grants></default></users></clickhouse>";

/// Whether it succeeded, and the lines of findings.
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
fn worst(findings: &[String], level: &str) {
    let of = |level: &str| findings.iter().filter(|line| line.starts_with(level)).count();
    let expected = match level {
        "ok" => of("warning") + of("error") == 0,
        "warning" => of("warning") > 0 && of("error") == 0,
        _ => of("error") > 0,
    };
    assert!(expected && !findings.is_empty(), "{}", findings.join("\n"));
}

#[tokio::test]
async fn the_user_of_the_trace_store() {
    let store = Store::start();
    let (service, _admin) = bound_service(&store, &[]).await;

    // The engine's own user may do everything.
    let (success, findings) = check(&service, &[], &[]);
    worst(&findings, "warning");
    assert!(success);
    for (level, text) in [
        ("ok", "`default` in"),
        ("ok", "takes the settings"),
        ("warning", "may do more than read: "),
        ("warning", "can reach files and other systems: "),
        ("warning", "reads more than the trace source: *.*"),
        ("warning", "`max_execution_time`"),
        ("warning", "`max_memory_usage`"),
    ] {
        has(&findings, level, text);
    }
    assert!(!check(&service, &[], &["--strict"]).0);

    // Limited as advised, it is served and nothing is left to say.
    let store = store.restart_as(LIMITED);
    let limited = [("TRACEWARDEN_CLICKHOUSE_URL", store.url.as_str())];
    let (success, findings) = check(&service, &limited, &["--strict"]);
    worst(&findings, "ok");
    assert!(success);
    has(&findings, "ok", "can change nothing");
    has(&findings, "ok", "reads otel.otel_traces");
    has(&findings, "ok", "`max_execution_time` is limited to 60");

    let longer = [limited[0], ("TRACEWARDEN_QUERY_TIMEOUT", "61s")];
    let (success, findings) = check(&service, &longer, &[]);
    assert!(!success);
    has(&findings, "error", "lower `query_timeout`");

    let wrong = [limited[0], ("TRACEWARDEN_CLICKHOUSE_PASSWORD", "hunter2")];
    let (success, findings) = check(&service, &wrong, &[]);
    assert!(!success);
    has(&findings, "error", "does not let `default` in");

    let store = store.restart_as(&LIMITED.replace("otel.otel_traces", "other.*"));
    let (success, findings) = check(&service, &[("TRACEWARDEN_CLICKHOUSE_URL", &store.url)], &[]);
    assert!(!success);
    has(&findings, "error", "cannot read the bound table `otel.otel_traces`");
    has(&findings, "warning", "reads more than the trace source: other.*");

    let store = store.restart_as(&LIMITED.replace("<readonly>2", "<readonly>1"));
    let (success, findings) = check(&service, &[("TRACEWARDEN_CLICKHOUSE_URL", &store.url)], &[]);
    assert!(!success);
    has(&findings, "error", "give it `readonly = 2`");
}

#[tokio::test]
async fn an_absent_store_is_a_warning_and_an_absent_database_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let run = |url: &str, arguments: &[&str]| {
        let mut command = program();
        // Discard: nothing listens there.
        command.env("TRACEWARDEN_CLICKHOUSE_URL", "http://127.0.0.1:9").env("TRACEWARDEN_DATABASE_URL", url);
        let output =
            command.current_dir(directory.path()).arg("check-config").args(arguments).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(!printed.contains("hunter2"), "{printed}");
        (output.status.success(), printed.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let (success, findings) = run("sqlite:new.db", &[]);
    assert!(success);
    has(&findings, "ok", "the next start makes it");
    has(&findings, "ok", "no trace source is bound yet");
    has(&findings, "warning", "http://127.0.0.1:9: does not answer");
    assert!(!directory.path().join("new.db").exists());
    assert!(!run("sqlite:new.db", &["--strict"]).0);
    let (success, findings) = run("sqlite:missing/new.db", &[]);
    assert!(!success);
    has(&findings, "error", "there is no directory");
    let (success, findings) = run("postgres://tracewarden:hunter2@127.0.0.1:9/tracewarden", &[]);
    assert!(!success);
    has(&findings, "error", "own database unavailable");
    has(&findings, "warning", "which trace source is bound is not known");
    assert!(!findings.iter().any(|line| line.contains("no trace source is bound yet")), "{findings:?}");
    let database = postgres::database().unwrap();
    let absent = format!("{}_absent", database.url());
    let (success, findings) = run(&absent, &[]);
    assert!(!success);
    has(&findings, "error", "_absent\" does not exist; mend `database_url`");
}

#[tokio::test]
async fn the_own_database() {
    let service = Service::start();
    has(&check(&service, &[], &[]).1, "ok", "schema current");
    let file = service.directory.path().join("tracewarden.db");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    has(&check(&service, &[], &[]).1, "warning", "open to others (mode 644)");
    std::fs::write(&file, "no database").unwrap();
    for side in ["tracewarden.db-wal", "tracewarden.db-shm"] {
        let _ = std::fs::remove_file(service.directory.path().join(side));
    }
    let (success, findings) = check(&service, &[], &[]);
    assert!(!success);
    has(&findings, "error", "is no SQLite database");

    let service = Service::start_on(&Arc::new(postgres::database().unwrap()), &[]);
    has(&check(&service, &[], &[]).1, "ok", "own database: PostgreSQL");
    has(&check(&service, &[], &[]).1, "ok", "schema current");
    sqlx::any::install_default_drivers();
    let database = service.database.as_ref().unwrap();
    database
        .run(&["DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)"])
        .unwrap();
    has(&check(&service, &[], &[]).1, "warning", "schema older by 1 step");
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
    has(&findings, "warning", "password` holds a secret and is open to others (mode 644)");
    // A configuration file counts when it holds one.
    let harmless = write("harmless.toml", "max_values = 7\n", 0o644);
    let (_, findings) = check(&service, &[], &["--config", &harmless]);
    assert!(!findings.iter().any(|line| line.contains("harmless.toml")), "{findings:?}");
    let telling = write("telling.toml", "clickhouse_password = \"hunter2\"\n", 0o644);
    let (_, findings) = check(&service, &[], &["--config", &telling]);
    has(&findings, "warning", "telling.toml` holds a secret");
    assert!(Path::new(&telling).exists());
}

/// The statements of a section of the page on operation.
fn statements(section: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = std::fs::read_to_string(path).unwrap();
    let text = page.split_once(&format!("## {section}\n")).unwrap().1;
    let text = text.split_once("```sql\n").unwrap().1.split_once("```").unwrap().0;
    text.split(';').map(str::trim).filter(|statement| !statement.is_empty()).map(str::to_owned).collect()
}

/// The local engine makes no users, but reads the statements before it says so.
#[tokio::test]
async fn clickhouse_understands_the_statements_for_its_user() {
    let store = Store::start();
    let statements = statements("The ClickHouse user");
    assert_eq!(statements.len(), 4);
    for statement in statements {
        let error = store.refused(&statement).await;
        // ACCESS_DENIED or UNKNOWN_ROLE; a statement with a mistake would be a SYNTAX_ERROR.
        let understood = ["Code: 497.", "Code: 511."].iter().any(|code| error.starts_with(code));
        assert!(understood, "{statement}\n{error}");
    }
    assert!(store.refused("GRANT SELECT OVER x TO y").await.starts_with("Code: 62."));
}

#[tokio::test]
async fn postgresql_takes_the_statements_for_its_role() {
    let database = Arc::new(postgres::database().unwrap());
    let name = format!("operations_{}", std::process::id());
    let statements: Vec<String> =
        statements("The own database").iter().map(|text| text.replace("tracewarden", &name)).collect();
    assert_eq!(statements.len(), 3);
    for statement in &statements {
        database.run(&[statement]).unwrap();
    }
    let (_, place) = database.url().split_once('@').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let server = place.split('/').next().unwrap();
    let url = format!("postgres://{name}:a%20long%20random%20password@{server}/{name}");
    let service = Service::start_with(&[("TRACEWARDEN_DATABASE_URL", &url)]);
    service.admin().await.get("/me").await.expect(200);
    let (_, findings) = check(&service, &[], &[]);
    has(&findings, "ok", "schema current");
    assert!(!findings.iter().any(|line| line.contains("superuser")), "{findings:?}");
    drop(service);
    database.run(&[&format!("DROP DATABASE {name} WITH (FORCE)")]).unwrap();
    database.run(&[&format!("DROP ROLE {name}")]).unwrap();
}

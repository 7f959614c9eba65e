//! Start: the first administrator's password, an application database that is not up yet, and error messages.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tracewarden_testkit::postgres;

use crate::support::terminal::TerminalProgram;
use crate::support::{Service, program, secrets};

const GENERATED: (&str, &str) = ("TRACEWARDEN_ADMIN_PASSWORD_HASH", "");
const PASSWORD_FILE_SETTING: &str = "TRACEWARDEN_INITIAL_PASSWORD_FILE";

fn serve(directory: &Path, environment: &[(&str, &str)]) -> Command {
    let mut command = program();
    command.current_dir(directory).arg("serve").stdin(Stdio::null());
    command.env("TRACEWARDEN_LISTEN", "127.0.0.1:0").env("TRACEWARDEN_CLICKHOUSE_URL", "http://127.0.0.1:9");
    command.envs(environment.iter().copied());
    command
}

/// Returns the error output of a start that fails.
fn refused(directory: &Path, environment: &[(&str, &str)]) -> String {
    let output = serve(directory, environment).output().unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

async fn users(url: &str) -> i64 {
    sqlx::any::install_default_drivers();
    let pool = sqlx::AnyPool::connect(url).await.unwrap();
    let (count,) = sqlx::query_as("SELECT count(*) FROM users").fetch_one(&pool).await.unwrap();
    pool.close().await;
    count
}

#[tokio::test]
async fn without_a_writable_password_file_no_administrator_is_created() {
    for database in [None, Some(Arc::new(postgres::database().unwrap()))] {
        let directory = tempfile::tempdir().unwrap();
        let url = match &database {
            Some(database) => database.url(),
            None => format!("sqlite:{}", directory.path().join("own.db").display()),
        };
        let nowhere = directory.path().join("missing/password");
        let taken = directory.path().join("taken");
        std::fs::write(&taken, "the operator's notes\n").unwrap();
        for password_file in [&nowhere, &taken] {
            let password_file = password_file.to_str().unwrap();
            let error = refused(
                directory.path(),
                &[("TRACEWARDEN_DATABASE_URL", &url), (PASSWORD_FILE_SETTING, password_file)],
            );
            assert!(error.contains(password_file) && error.contains("`initial_password_file`"), "{error}");
            assert_eq!(users(&url).await, 0);
        }
        assert!(!nowhere.exists());
        assert_eq!(std::fs::read_to_string(&taken).unwrap(), "the operator's notes\n");
        // The file of a start that was killed before its administrator existed.
        let password_file = directory.path().join("password");
        std::fs::write(&password_file, "abcd-efgh-jkmn-pqrs-tuvw\n").unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&password_file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let settings = [
            GENERATED,
            ("TRACEWARDEN_DATABASE_URL", url.as_str()),
            (PASSWORD_FILE_SETTING, password_file.to_str().unwrap()),
        ];
        let service = match &database {
            Some(database) => Service::start_on(database, &settings),
            None => Service::start_with(&settings),
        };
        service.sign_in("admin", std::fs::read_to_string(&password_file).unwrap().trim()).await;
        assert_eq!(users(&url).await, 1);
    }
}

#[tokio::test]
async fn the_log_has_the_full_path_of_the_password_file() {
    let service = Service::start_with(&[GENERATED, (PASSWORD_FILE_SETTING, "here")]);
    let path = service.directory.path().canonicalize().unwrap().join("here");
    assert!(path.exists() && service.log().contains(path.to_str().unwrap()), "{}", service.log());
}

#[test]
fn the_password_is_shown_on_terminals_only() {
    for typed_at in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let command = serve(directory.path(), &[]);
        let mut program = if typed_at {
            TerminalProgram::start(command)
        } else {
            TerminalProgram::start_without_input(command)
        };
        let shown = program.wait_for("listening ");
        assert_eq!(shown.contains("with the password\r\n\r\n    "), typed_at, "{shown}");
        let kept = std::fs::read_to_string(directory.path().join("tracewarden.db.initial-password")).ok();
        let kept_and_not_shown = kept.as_ref().is_some_and(|password| !shown.contains(password.trim()));
        assert_eq!(kept_and_not_shown, !typed_at, "{shown}");
        // Programs that are not started as a `Service` are not searched for secrets automatically.
        let shown_password = shown
            .split_once("with the password\r\n\r\n")
            .map(|(_, shown_password)| shown_password.to_owned());
        let password = kept.or(shown_password).unwrap();
        secrets::keep(password.split_whitespace().next().unwrap());
        secrets::assert_no_secrets_in_file(&directory.path().join("tracewarden.db"));
    }
}

#[tokio::test]
async fn the_password_file_is_removed_if_no_administrator_was_created() {
    let database = Arc::new(postgres::database().unwrap());
    drop(Service::start_on(&database, &[]));
    database
        .run(&[
            "DELETE FROM user_roles",
            "DELETE FROM users",
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '23514'; END $$",
            "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON users DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION refuse()",
        ])
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let url = database.url();
    let error = refused(directory.path(), &[("TRACEWARDEN_DATABASE_URL", &url)]);
    assert!(error.contains("cannot set up the administrator"), "{error}");
    assert_eq!(users(&url).await, 0);
    assert!(!directory.path().join("tracewarden.initial-password").exists());
    database.run(&["DROP TRIGGER refuse ON users"]).unwrap();
    let service = Service::start_on(&database, &[GENERATED]);
    let path = service.directory.path().join("tracewarden.initial-password");
    service.sign_in("admin", std::fs::read_to_string(path).unwrap().trim()).await;
}

/// A database server that is starting: it closes connections until it is up, and then forwards them.
struct DatabaseServer {
    url: String,
    up: Arc<AtomicBool>,
}

fn start_later(database: &postgres::Database) -> DatabaseServer {
    let url = database.url();
    let server = url.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = url.replace(&server, &listener.local_addr().unwrap().to_string());
    let up = Arc::new(AtomicBool::new(false));
    let ready = Arc::clone(&up);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            if !ready.load(Ordering::SeqCst) {
                continue;
            }
            let upstream = std::net::TcpStream::connect(&server).unwrap();
            for (mut from, mut to) in
                [(client.try_clone().unwrap(), upstream.try_clone().unwrap()), (upstream, client)]
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    DatabaseServer { url, up }
}

/// Starts the program and returns once its log says that it waits.
fn start_waiting_service(directory: &Path, url: &str) -> Child {
    let log = std::fs::File::create(directory.join("log")).unwrap();
    let environment = [("TRACEWARDEN_DATABASE_URL", url)];
    let child = serve(directory, &environment).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    while !std::fs::read_to_string(directory.join("log"))
        .unwrap()
        .contains("waiting for the application database")
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[tokio::test]
async fn the_service_waits_for_the_database_server() {
    let database = postgres::database().unwrap();
    let start_later = start_later(&database);
    let directory = tempfile::tempdir().unwrap();
    let mut child = start_waiting_service(directory.path(), &start_later.url);
    start_later.up.store(true, Ordering::SeqCst);
    let mut line = String::new();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(line.starts_with("listening "), "{log}");
    // Programs that are not started as a `Service` are not searched for secrets automatically.
    let password = std::fs::read_to_string(directory.path().join("tracewarden.initial-password")).unwrap();
    secrets::keep(password.trim());
    secrets::keep_setting("TRACEWARDEN_DATABASE_URL", &start_later.url);
    secrets::assert_no_secrets_or_hashes("the log", log.as_bytes());
    secrets::assert_no_secrets_in_database(&database);
}

#[tokio::test]
async fn the_service_stops_while_it_waits_for_the_database() {
    let database = postgres::database().unwrap();
    let start_later = start_later(&database);
    let directory = tempfile::tempdir().unwrap();
    let mut child = start_waiting_service(directory.path(), &start_later.url);
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert!(child.wait().unwrap().success());
}

/// Includes the maximum wait at start, half a minute.
#[tokio::test]
async fn a_failed_start_names_the_setting_in_the_form_of_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let away = "postgres://tracewarden:hunter2@127.0.0.1:9/tracewarden";
    let last = |environment: &[(&str, &str)]| -> Value {
        let printed =
            refused(directory.path(), &[environment, &[("TRACEWARDEN_LOG_FORMAT", "json")]].concat());
        assert!(!printed.contains("hunter2"), "{printed}");
        let objects: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        objects.last().unwrap().clone()
    };
    let line = last(&[("TRACEWARDEN_DATABASE_URL", away)]);
    assert_eq!((&line["level"], &line["message"]), (&"ERROR".into(), &"the service could not start".into()));
    let error = line["error"].as_str().unwrap();
    assert!(error.contains("`database_url`") && error.contains("waited 30 s"), "{error}");

    // Waiting would not resolve these errors.
    let database = postgres::database().unwrap();
    let absent = format!("{}_absent", database.url());
    let line = last(&[("TRACEWARDEN_DATABASE_URL", &absent)]);
    let error = line["error"].as_str().unwrap();
    assert!(error.contains("`database_url`") && !error.contains("waited"), "{error}");
    assert!(error.ends_with("does not exist"), "{error}");
    for statements in ["GRANT USAGE ON SCHEMA public TO PUBLIC", "REVOKE ALL ON SCHEMA public FROM PUBLIC"] {
        let closed = postgres::database().unwrap();
        closed
            .run(&[
                "ALTER SCHEMA public OWNER TO postgres",
                "REVOKE ALL ON SCHEMA public FROM PUBLIC",
                statements,
            ])
            .unwrap();
        let line = last(&[("TRACEWARDEN_DATABASE_URL", &closed.url())]);
        let error = line["error"].as_str().unwrap();
        assert!(error.contains("check-config") && !error.contains("waited"), "{error}");
    }
    let line = last(&[("TRACEWARDEN_DATABASE_URL", "sqlite:/missing/x")]);
    assert!(line["error"].as_str().unwrap().contains("/missing/x"), "{line}");
    // The error is printed even if the directives filter out errors.
    let plain = refused(
        directory.path(),
        &[
            ("TRACEWARDEN_LOG_FORMAT", "json"),
            ("TRACEWARDEN_LOG", "off"),
            ("TRACEWARDEN_DATABASE_URL", "sqlite:/missing/x"),
        ],
    );
    assert!(plain.starts_with("tracewarden: ") && plain.contains("`database_url`"), "{plain}");
}

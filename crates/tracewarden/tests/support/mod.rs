//! Starts the service as a process with its own application database on a free port, and sends HTTP requests to it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tracewarden_testkit::postgres::{self, Database};

pub mod canaille;
pub mod database_outage;
pub mod identity;
pub mod openapi_check;
pub mod operations_page;
pub mod rejected_records;
pub mod replayed_provider;
pub mod secrets;
pub mod store;
pub mod terminal;

/// The administrator's password in every test.
pub const ADMIN_PASSWORD: &str = "seven quiet lighthouses";

/// A password that is acceptable for a user.
pub const USER_PASSWORD: &str = "a rather long sentence";

/// Setting with the URL of the application database.
const DATABASE_URL: &str = "TRACEWARDEN_DATABASE_URL";

/// Number of services of this process on each database of a server, by the address of its `Arc`.
static SERVICES_BY_DATABASE: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

fn count_service(database: &Arc<Database>) {
    let mut all = SERVICES_BY_DATABASE.lock().unwrap_or_else(PoisonError::into_inner);
    *all.entry(Arc::as_ptr(database).addr()).or_default() += 1;
}

/// Whether no other service uses the database any more.
fn is_last_service(database: &Arc<Database>) -> bool {
    let mut all = SERVICES_BY_DATABASE.lock().unwrap_or_else(PoisonError::into_inner);
    let address = Arc::as_ptr(database).addr();
    let left = all.remove(&address).unwrap_or_default().saturating_sub(1);
    if left > 0 {
        all.insert(address, left);
    }
    left == 0
}

/// A running service. When dropped, it is killed, and everything that it has written is searched for secrets: its log and
/// its database file, or, for the last service on it, its database on a server.
pub struct Service {
    child: Child,
    /// URL of the service.
    pub base: String,
    /// Working directory, with the log `log` and, for SQLite, the database `tracewarden.db` unless a setting names another.
    pub directory: tempfile::TempDir,
    environment: Vec<(String, String)>,
    /// The database, if it is on PostgreSQL. It is dropped with its last user, service or test.
    pub database: Option<Arc<Database>>,
}

impl Service {
    /// Starts a service whose ClickHouse does not answer.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a service with further settings. It uses SQLite, except in test binaries whose names request the same tests
    /// on PostgreSQL.
    pub fn start_with(environment: &[(&str, &str)]) -> Self {
        if env!("CARGO_CRATE_NAME").ends_with("_on_postgresql") {
            return Self::start_on(&Arc::new(postgres::database().unwrap()), environment);
        }
        Self::begin(None, environment)
    }

    /// Starts a service on this PostgreSQL database, possibly as one of several replicas.
    pub fn start_on(database: &Arc<Database>, environment: &[(&str, &str)]) -> Self {
        let url = database.url();
        let mut all = vec![(DATABASE_URL, url.as_str())];
        all.extend_from_slice(environment);
        Self::begin(Some(Arc::clone(database)), &all)
    }

    fn begin(database: Option<Arc<Database>>, environment: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut all = vec![
            ("TRACEWARDEN_LISTEN".to_owned(), "127.0.0.1:0".to_owned()),
            // The discard port: no program listens on it.
            ("TRACEWARDEN_CLICKHOUSE_URL".to_owned(), "http://127.0.0.1:9".to_owned()),
            ("TRACEWARDEN_ADMIN_PASSWORD_HASH".to_owned(), admin_password_hash().to_owned()),
        ];
        for (name, value) in environment {
            all.retain(|(known, _)| known != name);
            all.push(((*name).to_owned(), (*value).to_owned()));
        }
        all.iter().for_each(|(name, value)| secrets::keep_setting(name, value));
        let (child, base) = launch(directory.path(), &all);
        database.iter().for_each(count_service);
        Self { child, base, directory, environment: all, database }
    }

    /// Kills the process and starts another one on the same database.
    pub fn restart_with(&mut self, environment: &[(&str, &str)]) {
        self.kill();
        for (name, value) in environment {
            self.environment.retain(|(known, _)| known != name);
            self.environment.push(((*name).to_owned(), (*value).to_owned()));
        }
        (self.child, self.base) = launch(self.directory.path(), &self.environment);
    }

    /// Kills the process, as `kill -9` does.
    pub fn kill(&mut self) -> ExitStatus {
        self.child.kill().unwrap();
        self.child.wait().unwrap()
    }

    /// Returns the database URL, for reading the database directly.
    pub fn database_url(&self) -> String {
        match &self.database {
            Some(database) => database.url(),
            None => format!("sqlite:{}", self.file().unwrap().display()),
        }
    }

    /// Returns the database file, if there is one.
    fn file(&self) -> Option<PathBuf> {
        let mut settings = settings(&self.environment);
        let path = match settings.find(|(name, _)| *name == DATABASE_URL) {
            None => "tracewarden.db",
            Some((_, url)) => url.strip_prefix("sqlite:")?,
        };
        Some(self.directory.path().join(path))
    }

    /// Returns a command of the program, with the settings of this service.
    pub fn command(&self) -> Command {
        let mut command = program();
        command.current_dir(self.directory.path()).envs(settings(&self.environment));
        command
    }

    /// Creates a link with `tracewarden break-glass`. Returns its token, or what the command wrote instead.
    pub fn break_glass(&self, username: &str) -> Result<String, String> {
        let output = self.command().args(["break-glass", username]).output().unwrap();
        let (link, text) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        if !output.status.success() {
            assert_eq!(link, "");
            return Err(text);
        }
        let (page, token) = link.trim_end().split_once("#link=").unwrap();
        assert!(page.ends_with("/ui/login"), "{page}");
        secrets::keep(token);
        Ok(token.to_owned())
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// Returns a client without credentials.
    pub fn anonymous(&self) -> Client {
        Client::new(&self.base)
    }

    /// Returns a client with a session of this user.
    pub async fn sign_in(&self, username: &str, password: &str) -> Client {
        let client = self.anonymous();
        let answer =
            client.post("/login", json!({"username": username, "password": password})).await.expect(200);
        secrets::keep(password);
        client.with_session_of(&answer)
    }

    /// Returns a client with a session of the administrator.
    pub async fn admin(&self) -> Client {
        self.sign_in("admin", ADMIN_PASSWORD).await
    }

    /// Creates a user with these roles and signs in with a changed password.
    pub async fn user(&self, admin: &Client, username: &str, roles: &[&str]) -> Client {
        let created = admin.post("/users", json!({"username": username, "roles": roles})).await.expect(201);
        let initial = created.body["initial_password"].as_str().unwrap().to_owned();
        let client = self.sign_in(username, &initial).await;
        let change = json!({"current_password": initial, "new_password": USER_PASSWORD});
        client.post("/me/password", change).await.expect(204);
        secrets::keep(USER_PASSWORD);
        client
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let arguments = std::fs::read(format!("/proc/{}/cmdline", self.child.id())).unwrap_or_default();
        let _ = self.child.kill();
        let _ = self.child.wait();
        let is_last_service = self.database.as_ref().filter(|database| is_last_service(database));
        if std::thread::panicking() {
            eprintln!("--- log of the service ---\n{}", self.log());
            return;
        }
        secrets::assert_no_secrets_or_hashes("its arguments", &arguments);
        let log = std::fs::read(self.directory.path().join("log")).unwrap();
        secrets::assert_no_secrets_or_hashes("the log", &log);
        if let Some(file) = self.file() {
            secrets::assert_no_secrets_in_file(&file);
        }
        if let Some(database) = is_last_service {
            secrets::assert_no_secrets_in_database(database);
        }
    }
}

/// Returns a command for the program under test.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracewarden"));
    // Settings in the environment of the test run must not reach the program.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TRACEWARDEN_")) {
        command.env_remove(name);
    }
    command
}

/// An empty value removes a setting.
fn settings(environment: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    let given = environment.iter().filter(|(_, value)| !value.is_empty());
    given.map(|(name, value)| (name.as_str(), value.as_str()))
}

fn launch(directory: &Path, environment: &[(String, String)]) -> (Child, String) {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(directory.join("log")).unwrap();
    let mut child = program()
        .arg("serve")
        .current_dir(directory)
        .envs(settings(environment))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let base = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("listening ").map(str::to_owned));
    let Some(base) = base else {
        let log = std::fs::read_to_string(directory.join("log")).unwrap();
        panic!("the service did not start: {:?}\n{log}", child.wait());
    };
    (child, base)
}

/// Returns the hash of the administrator's password; computed once per test process, since hashing is slow on purpose.
pub fn admin_password_hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| hash_password(ADMIN_PASSWORD))
}

/// Runs `tracewarden hash-password`.
pub fn hash_password(password: &str) -> String {
    let mut child =
        program().arg("hash-password").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{password}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// An HTTP client with fixed headers.
#[derive(Clone)]
pub struct Client {
    base: String,
    http: reqwest::Client,
    headers: HeaderMap,
}

/// An answer, read completely.
#[derive(Debug)]
pub struct Answer {
    /// Method and path of the request, for messages.
    pub request_info: String,
    /// Status.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The body as received.
    pub bytes: Vec<u8>,
    /// The body as JSON; null if it is not JSON.
    pub body: Value,
}

impl Client {
    /// Creates a client without credentials.
    pub fn new(base: &str) -> Self {
        // The client has no default provider. A second installation in the same process fails, which is ignored.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Redirects are not followed: tests check the answer itself.
        let redirects = reqwest::redirect::Policy::none();
        let http = reqwest::Client::builder().no_proxy().redirect(redirects).build().unwrap();
        Self { base: base.to_owned(), http, headers: HeaderMap::new() }
    }

    /// Returns the same client with a further header.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.insert(HeaderName::try_from(name).unwrap(), HeaderValue::from_str(value).unwrap());
        client
    }

    /// Returns the same client for another or restarted service.
    pub fn at(&self, service: &Service) -> Self {
        Self { base: service.base.clone(), ..self.clone() }
    }

    /// Returns the same client without a header.
    pub fn without(&self, name: &str) -> Self {
        let mut client = self.clone();
        client.headers.remove(name);
        client
    }

    /// Returns the same client with an API key instead of its session.
    pub fn with_key(&self, token: &str) -> Self {
        secrets::keep(token);
        self.without("cookie").with("authorization", &format!("Bearer {token}"))
    }

    /// Returns the client with the session that an answer began.
    pub fn with_session_of(&self, answer: &Answer) -> Self {
        let cookie = answer.headers.get("set-cookie").unwrap().to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap();
        secrets::keep(cookie.split_once('=').unwrap().1);
        self.with("cookie", cookie)
    }

    /// Returns the client's session cookie.
    pub fn cookie(&self) -> &str {
        self.headers.get("cookie").unwrap().to_str().unwrap()
    }

    /// Returns a request that the caller completes.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).headers(self.headers.clone())
    }

    /// Sends a request with or without a JSON body.
    pub async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let mut request = self.request(method.clone(), path);
        if let Some(body) = body {
            secrets::keep_passwords(&body);
            request = request.json(&body);
        }
        Answer::read(format!("{method} {path}"), request).await
    }

    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    /// Sends a POST request with a JSON body.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Sends a PUT request with a JSON body.
    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PUT, path, Some(body)).await
    }

    /// Sends a PATCH request with a JSON body.
    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PATCH, path, Some(body)).await
    }

    /// Sends a DELETE request.
    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None).await
    }
}

impl Answer {
    /// Sends the request and reads the whole answer.
    pub async fn read(request_info: String, request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        openapi_check::check(&request_info, status);
        let bytes = response.bytes().await.unwrap().to_vec();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        secrets::check_answer(&request_info, &headers, &bytes, &body);
        Self { request_info, status, headers, bytes, body }
    }

    /// Returns the answer, which must have this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}: {}", self.request_info, String::from_utf8_lossy(&self.bytes));
        self
    }

    /// Returns the answer, which must be problem details with this status and code and all common members.
    #[track_caller]
    pub fn problem(self, status: u16, code: &str) -> Self {
        let answer = self.expect(status);
        assert_eq!(answer.body["code"], code, "{}: {}", answer.request_info, answer.body);
        assert_eq!(answer.body["status"], status);
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        for member in ["type", "title", "detail", "request_id"] {
            assert!(answer.body[member].is_string(), "{}: {}", answer.request_info, answer.body);
        }
        assert_eq!(answer.headers["x-request-id"].to_str().unwrap(), answer.body["request_id"]);
        let retry = answer.body["retry"].as_str().unwrap();
        assert!(["never", "safe", "unknown"].contains(&retry), "{}: {}", answer.request_info, answer.body);
        assert!(answer.bytes.len() <= 160 * 1024, "{}: {} bytes", answer.request_info, answer.bytes.len());
        answer
    }

    /// Returns the first invalid member that the problem names.
    #[track_caller]
    pub fn first_error(&self) -> &Value {
        let error = &self.body["errors"][0];
        assert!(error.is_object(), "{}: {}", self.request_info, self.body);
        error
    }
}

/// Returns the directory of the workspace's compiled programs.
pub fn target_directory() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_tracewarden")).parent().unwrap().to_owned()
}

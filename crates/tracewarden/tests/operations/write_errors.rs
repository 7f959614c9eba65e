//! Fault injection: the disk of the SQLite database fails at the n-th write or sync, or the connection to PostgreSQL at the
//! n-th message, for every n. Acknowledged changes are stored, rejected ones are not, and the service recovers with the
//! database.

mod removals;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tracewarden_testkit::commit_proxy::CommitProxy;
use tracewarden_testkit::postgres::{self, Database};
use tracewarden_testkit::progress::Progress;
use tracewarden_testkit::repetitions;
use tracewarden_testkit::write_errors::{Disk, FAILURE_MESSAGE, Kind, WriteErrors};

use crate::support::store::{Store, blue_policies, bound_service};
use crate::support::{Answer, Client, program, secrets};

/// Distance between the failing writes, syncs or messages of two runs, unless the environment overrides it.
const WRITES: u64 = 101;
const SYNCS: u64 = 2;
const MESSAGES: u64 = 151;
/// Number of concurrent runs if the environment sets the distance.
const LANES: usize = 5;
/// More than the script needs.
const MAX_OPERATIONS: u64 = 2_000;

/// How the application database fails.
enum FaultKind<'a> {
    Disk(&'a WriteErrors, Kind),
    Connection,
}

/// The operation that fails.
#[derive(Debug, Clone, Copy)]
struct FaultPosition {
    number: u64,
    /// Whether only this operation fails, or all from this one on.
    once: bool,
    /// The cause, for a disk.
    disk: Disk,
}

/// The application database of one run, with its failure.
enum FaultTarget {
    Disk(Vec<(&'static str, String)>),
    Connection(Database, CommitProxy),
}

impl FaultTarget {
    fn new(fault_kind: &FaultKind<'_>, fault_position: FaultPosition) -> Self {
        let FaultPosition { number, once, disk } = fault_position;
        match fault_kind {
            FaultKind::Disk(errors, kind) => Self::Disk(errors.environment(*kind, disk, number, once)),
            FaultKind::Connection => {
                let database = postgres::database().unwrap();
                let proxy = CommitProxy::start(&database).unwrap();
                proxy.lose_message(number, once);
                Self::Connection(database, proxy)
            }
        }
    }

    fn faulty(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Disk(environment) => environment.clone(),
            Self::Connection(_, proxy) => vec![("TRACEWARDEN_DATABASE_URL", proxy.url().to_owned())],
        }
    }

    fn healthy(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Disk(_) => Vec::new(),
            Self::Connection(database, _) => vec![("TRACEWARDEN_DATABASE_URL", database.url())],
        }
    }

    fn has_failed(&self, directory: &Path) -> bool {
        match self {
            Self::Disk(_) => log(directory).contains(FAILURE_MESSAGE),
            Self::Connection(_, proxy) => proxy.has_lost(),
        }
    }
}

/// A started program, or one that failed to start. When dropped, it is killed, and its log is searched for secrets.
struct StartedProgram {
    child: Child,
    client: Option<Client>,
    directory: PathBuf,
}

impl Drop for StartedProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            return;
        }
        secrets::keep(NEW_PASSWORD);
        // A start that creates no administrator writes no password; a partially written one is not a secret.
        let generated = std::fs::read_to_string(self.directory.join("password")).unwrap_or_default();
        generated.strip_suffix('\n').into_iter().for_each(secrets::keep);
        secrets::assert_no_secrets_or_hashes("the log", log(&self.directory).as_bytes());
    }
}

fn start(
    directory: &Path,
    settings: &[(&str, &str)],
    environment: &[(&'static str, String)],
) -> StartedProgram {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(directory.join("log")).unwrap();
    let mut command = program();
    command.arg("serve").current_dir(directory).envs(environment.iter().cloned());
    command.env("TRACEWARDEN_LISTEN", "127.0.0.1:0").envs(settings.iter().copied());
    command.env("TRACEWARDEN_INITIAL_PASSWORD_FILE", directory.join("password"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let base = lines.find_map(|line| line.strip_prefix("listening ").map(str::to_owned));
    StartedProgram { child, client: base.map(|base| Client::new(&base)), directory: directory.to_owned() }
}

fn log(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("log")).unwrap()
}

/// The result of a change, according to the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReportedResult {
    Done,
    NotDone,
    Unknown,
}

fn reported(answer: &Answer) -> ReportedResult {
    match answer.status {
        200..=299 => ReportedResult::Done,
        503 if answer.body["detail"].as_str().unwrap().contains("may have been made or not") => {
            ReportedResult::Unknown
        }
        503 => ReportedResult::NotDone,
        _ => panic!("{answer:?}"),
    }
}

const NEW_PASSWORD: &str = "a longer passphrase of the tests";

/// Signs in as the administrator, with the generated password or the one that replaced it.
async fn sign_in(client: &Client, directory: &Path) -> Option<Client> {
    let generated = std::fs::read_to_string(directory.join("password")).unwrap_or_default();
    for password in [NEW_PASSWORD, generated.trim()].into_iter().filter(|password| !password.is_empty()) {
        let answer = client.post("/login", json!({"username": "admin", "password": password})).await;
        match answer.status {
            200 => {
                let cookie =
                    answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
                return Some(client.with("cookie", &cookie));
            }
            401 => {}
            503 => return None,
            _ => panic!("{answer:?}"),
        }
    }
    panic!("no user can sign in: {}", log(directory));
}

/// Traces, and a model file that binds them and has the role `blue` with access to some of them.
struct Fixture {
    store: Store,
    file: Value,
}

impl Fixture {
    async fn new() -> Self {
        let store = Store::start();
        store.insert_two_traces().await;
        let (_service, admin) = bound_service(&store, &[]).await;
        admin.put("/roles/blue", blue_policies()).await.expect(201);
        let file = admin.get("/schema/export").await.expect(200).body;
        Self { store, file }
    }
}

/// Number of searches.
const SEARCHES: usize = 3;

/// Searches, and returns the ids of the requests whose page was complete.
async fn searches(admin: &Client) -> Vec<String> {
    let preview = admin.put("/me/preview", json!({"roles": ["blue"]})).await;
    // Without the model, the role does not exist.
    if preview.status == 422 || reported(&preview) != ReportedResult::Done {
        return Vec::new();
    }
    let mut whole = Vec::new();
    for _ in 0..SEARCHES {
        let sent = admin.request(Method::POST, "/traces/query").json(&json!({})).send().await;
        let Ok(answer) = sent else { continue };
        let (status, request) =
            (answer.status(), answer.headers()["x-request-id"].to_str().unwrap().to_owned());
        let Ok(body) = answer.bytes().await else { continue };
        assert!(status == 200 || status == 503, "{status}");
        if status == 200 {
            let page: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(page["spans"].as_array().unwrap().len(), 3, "{page}");
            whole.push(request);
        }
    }
    whole
}

/// Number of changes.
const CHANGES: usize = 6;

/// Makes changes that each create an object, which is named like the target of its audit record or like the role in the
/// model file.
async fn changes(admin: &Client, file: &Value) -> Vec<(&'static str, ReportedResult)> {
    let policy = json!({"policies": [{"title": "t", "expression": "true"}]});
    let mut done = Vec::new();
    for role in ["one", "two"] {
        done.push((role, reported(&admin.put(&format!("/roles/{role}"), policy.clone()).await)));
    }
    done.push(("ada", reported(&admin.post("/users", json!({"username": "ada", "roles": ["admin"]})).await)));
    for role in ["three", "four"] {
        done.push((role, reported(&admin.put(&format!("/roles/{role}"), policy.clone()).await)));
    }
    // A file replaces the whole model, so it must contain the existing roles.
    let export = admin.get("/schema/export").await;
    if export.status == 200 {
        let mut whole = file.clone();
        let mut existing = export.body["roles"].as_array().unwrap().clone();
        existing.retain(|role| role["name"] != "admin");
        whole["roles"].as_array_mut().unwrap().extend(existing);
        done.push(("blue", reported(&admin.with("if-match", "*").put("/schema/import", whole).await)));
    }
    done
}

/// Returns the names of all objects, and of all objects whose creation is recorded.
async fn stored_and_recorded(admin: &Client) -> (BTreeSet<String>, BTreeSet<String>) {
    let names = |body: &Value, list: &str, member: &str| -> Vec<String> {
        let items = body[list].as_array().unwrap().iter();
        items.map(|item| item[member].as_str().unwrap().to_owned()).collect()
    };
    let roles = admin.get("/roles").await.expect(200).body;
    let users = admin.get("/users").await.expect(200).body;
    let existing = [names(&roles, "roles", "name"), names(&users, "users", "username")].concat();
    let records = admin.get("/audit?limit=100").await.expect(200).body;
    let recorded = records["records"].as_array().unwrap().iter().filter(|record| {
        let action = record["action"].as_str().unwrap();
        let makes = action.starts_with("role.") || action == "user.create" || action == "model.import";
        record["outcome"] == "success" && makes
    });
    let recorded = recorded.map(|record| match record["action"].as_str() {
        Some("model.import") => "blue".to_owned(),
        _ => record["target"].as_str().unwrap().to_owned(),
    });
    let built_in = ["admin".to_owned()];
    (
        existing.into_iter().filter(|name| !built_in.contains(name)).collect(),
        recorded.filter(|name| !built_in.contains(name)).collect(),
    )
}

/// Result of a run.
struct Outcome {
    /// Whether an operation failed.
    has_failed_operation: bool,
    /// Results of the changes, or of the removals according to the log.
    reported: Vec<ReportedResult>,
}

/// Runs the script with a failure, unless the script ends before it.
async fn run(fixture: &Fixture, fault_kind: &FaultKind<'_>, fault_position: FaultPosition) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let target = FaultTarget::new(fault_kind, fault_position);
    let faulty = start(directory, &fixture.store.settings(), &target.faulty());
    let (mut changed, mut shown, mut all_reported) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(client) = &faulty.client {
        if let Some(admin) = sign_in(client, directory).await {
            let generated = std::fs::read_to_string(directory.join("password")).unwrap();
            let own = json!({"current_password": generated.trim(), "new_password": NEW_PASSWORD});
            let replaced = reported(&admin.post("/me/password", own).await);
            all_reported.push(replaced);
            if replaced == ReportedResult::Done {
                changed = changes(&admin, &fixture.file).await;
                shown = searches(&admin).await;
            }
        }
        let begun = Instant::now();
        let recovered = || async {
            let admin = sign_in(client, directory).await?;
            let answer = admin.get("/me").await;
            (answer.status == 200).then_some(())
        };
        while fault_position.once && recovered().await.is_none() {
            assert!(
                begun.elapsed() < Duration::from_secs(5),
                "the service does not recover: {}",
                log(directory)
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    drop(faulty);
    let has_failed_operation = target.has_failed(directory);
    all_reported.extend(changed.iter().map(|(_, reported)| *reported));

    let healthy = start(directory, &fixture.store.settings(), &target.healthy());
    let context = format!("{fault_position:?}: {changed:?}\n{}", log(directory));
    let is_whole = changed.len() == CHANGES
        && shown.len() == SEARCHES
        && all_reported.iter().all(|reported| *reported == ReportedResult::Done);
    assert!(
        has_failed_operation || is_whole,
        "no operation failed, but not all changes were made: {context}"
    );
    let client =
        healthy.client.as_ref().unwrap_or_else(|| panic!("the service does not start again: {context}"));
    let admin = sign_in(client, directory).await.unwrap_or_else(|| panic!("{context}"));
    if admin.get("/roles").await.status == 403 {
        let generated = std::fs::read_to_string(directory.join("password")).unwrap();
        let own = json!({"current_password": generated.trim(), "new_password": NEW_PASSWORD});
        admin.post("/me/password", own).await;
    }
    let (existing, recorded) = stored_and_recorded(&admin).await;
    assert_eq!(existing, recorded, "{context}");
    for (name, reported) in changed {
        match reported {
            ReportedResult::Done => assert!(existing.contains(name), "{name} is lost: {context}"),
            ReportedResult::NotDone => {
                assert!(!existing.contains(name), "{name} was refused but exists: {context}")
            }
            ReportedResult::Unknown => {}
        }
    }
    let reads = admin.get("/audit?action=traces.query&limit=20").await.expect(200).body;
    for request in shown {
        let record =
            reads["records"].as_array().unwrap().iter().find(|record| record["request_id"] == request);
        let record = record.unwrap_or_else(|| panic!("{request} has no record: {context}"));
        assert_eq!(record["outcome"], "success", "{record}: {context}");
    }
    require_chain(directory, &target, &context);
    Outcome { has_failed_operation, reported: all_reported }
}

/// Checks with the command line that the audit log is intact.
fn require_chain(directory: &Path, target: &FaultTarget, context: &str) {
    let mut verify = program();
    verify.args(["audit", "verify"]).current_dir(directory).envs(target.healthy());
    let verified = verify.output().unwrap();
    assert!(verified.status.success(), "{}{context}", String::from_utf8_lossy(&verified.stdout));
}

/// Summary of the runs.
#[derive(Default)]
struct Summary {
    runs: usize,
    /// The first number at which nothing failed any more, for single and for lasting failures.
    ends: [Option<u64>; 2],
    reported: BTreeMap<ReportedResult, usize>,
}

/// Runs the script with a failure at each number, until nothing fails any more. A run mostly waits, so a long test runs
/// several concurrently.
fn run_each(default_step: u64, run: impl AsyncFn(FaultPosition) -> Outcome + Sync) {
    let step = repetitions::from_environment("TRACEWARDEN_TEST_WRITE_ERROR_STEP");
    let lanes = if step.is_some() { LANES } else { 1 };
    let step: u64 = step.unwrap_or(default_step);
    let progress = Progress::endless("failed operations");
    let sum = Mutex::new(Summary::default());
    for (round, once) in [true, false].into_iter().enumerate() {
        let places = Mutex::new((step.div_ceil(2)..MAX_OPERATIONS).step_by(step as usize).enumerate());
        let next = || {
            let (target, number) = places.lock().unwrap().next()?;
            // Alternate between the two causes, in opposite order for lasting failures: so both occur, whatever the
            // distance.
            let disk = if target.is_multiple_of(2) == once { Disk::Broken } else { Disk::Full };
            let is_over = sum.lock().unwrap().ends[round].is_some();
            (!is_over).then_some(FaultPosition { number, once, disk })
        };
        let lane = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            while let Some(fault_position) = next() {
                let outcome = runtime.block_on(run(fault_position));
                let mut sum = sum.lock().unwrap();
                sum.runs += 1;
                progress.at(sum.runs);
                outcome.reported.into_iter().for_each(|one| *sum.reported.entry(one).or_default() += 1);
                if !outcome.has_failed_operation {
                    let end = sum.ends[round].get_or_insert(fault_position.number);
                    *end = fault_position.number.min(*end);
                }
            }
        };
        std::thread::scope(|scope| (0..lanes).for_each(|_| drop(scope.spawn(lane))));
        let end = sum.lock().unwrap().ends[round];
        let end = end.unwrap_or_else(|| {
            panic!("once: {once}: each of the tested operations failed, so the last one is not known")
        });
        println!("once: {once}: fewer than {end} operations");
    }
    let Summary { runs, reported, .. } = sum.into_inner().unwrap();
    println!("{runs} runs, outcomes of the changes: {reported:?}");
    assert!(runs > 4, "nothing failed");
    // Otherwise the test would only show that nothing fails, or that everything does.
    let of = |one: ReportedResult| reported.get(&one).copied().unwrap_or_default();
    assert!(
        of(ReportedResult::Done) > 0 && of(ReportedResult::NotDone) + of(ReportedResult::Unknown) > 0,
        "{reported:?}"
    );
}

async fn run_script_for_each(fault_kind: FaultKind<'_>, default_step: u64) {
    let fixture = Fixture::new().await;
    run_each(default_step, async |fault_position: FaultPosition| {
        run(&fixture, &fault_kind, fault_position).await
    });
}

#[tokio::test]
async fn a_write_that_fails_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let errors = WriteErrors::compile(directory.path()).unwrap();
    run_script_for_each(FaultKind::Disk(&errors, Kind::Write), WRITES).await;
}

#[tokio::test]
async fn a_sync_that_fails_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let errors = WriteErrors::compile(directory.path()).unwrap();
    run_script_for_each(FaultKind::Disk(&errors, Kind::Sync), SYNCS).await;
}

#[tokio::test]
async fn a_connection_that_is_lost_loses_nothing_else() {
    run_script_for_each(FaultKind::Connection, MESSAGES).await;
}

/// A failed start reports that no administrator was created, or that this is unknown. The password of an existing
/// administrator is never withdrawn, whatever fails after the creation.
#[tokio::test]
async fn a_connection_lost_while_creating_the_administrator_keeps_sign_in_possible() {
    let store = Store::start();
    let mut failed = 0;
    loop {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let database = postgres::database().unwrap();
        let proxy = CommitProxy::start(&database).unwrap();
        // While its record is written, shortly before the commit.
        proxy.lose_message_after("admin.create", failed + 1, true);
        let target = FaultTarget::Connection(database, proxy);
        let is_up = start(directory, &store.settings(), &target.faulty()).client.is_some();
        assert!(is_up || target.has_failed(directory), "{}", log(directory));
        let healthy = start(directory, &store.settings(), &target.healthy());
        let client = healthy.client.as_ref().unwrap_or_else(|| panic!("{}", log(directory)));
        assert!(sign_in(client, directory).await.is_some(), "{}", log(directory));
        if is_up {
            break;
        }
        failed += 1;
    }
    println!("{failed} starts failed");
    assert!(failed > 3, "{failed}");
}

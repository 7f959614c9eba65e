//! Searches on a cluster, compared with a plain evaluation of the generated spans, while its servers fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tracewarden_testkit::clickhouse::{Cluster, Options, Stop};
use tracewarden_testkit::repetitions::Repetitions;
use tracewarden_testkit::trace_tables::{BASE, Bound, Fixture, Generated, SECOND, Window, all, selected};

use crate::real_server::cluster::CLAMPING;
use crate::real_server::{READER, settings};
use crate::support::{Client, Service};

/// Searches while all servers run, and while servers fail.
const SEARCHES: Repetitions = Repetitions::always(200);
const TRIES: Repetitions = Repetitions::always(250);
const HOUR: i64 = 3_600 * SECOND;
/// Roles of the users; a role has the policy of the same number.
const USERS: [&[usize]; 5] = [&[0], &[1], &[2], &[0, 1], &[1, 2]];
const FILTERS: usize = 40;
/// For searches on paused servers, which wait for the end of these times. Searches on servers that run have the usual times, because
/// a busy machine may be slow.
const SHORT_TIMES: [(&str, &str); 2] =
    [("TRACEWARDEN_QUERY_TIMEOUT", "8s"), ("TRACEWARDEN_ANSWER_TIMEOUT", "8s")];
/// Distributed tables over those of the servers.
const DATABASE: &str = "spread";

/// A search with its expected answer.
struct Question {
    user: usize,
    query: Value,
    /// Number of spans of each trace.
    expected: BTreeMap<String, usize>,
}

impl Question {
    /// Asks, and returns whether ClickHouse answered.
    ///
    /// # Panics
    /// When the answer is neither right nor a failure of ClickHouse.
    async fn ask(&self, users: &[Client]) -> bool {
        let answer = users[self.user].post("/traces/query", self.query.clone()).await;
        match answer.status {
            200 => {}
            502..=504 => return false,
            other => panic!("{other}: {}\n{}", self.query, answer.body),
        }
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for span in answer.body["spans"].as_array().unwrap() {
            *found.entry(span["TraceId"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        assert_eq!(found, self.expected, "user {}: {}", self.user, self.query);
        true
    }
}

/// Creates the tables of the layout on every server, as replicated ones, and distributed tables over them.
fn start(fixture: &Fixture, bound: &Bound, generated: &Generated) -> Cluster {
    let cluster = Cluster::start(|_, _| Options::default().user(READER, "<readonly>2</readonly>")).unwrap();
    for statement in fixture.statements((25, 8)) {
        let table = statement
            .split_once("TABLE otel.")
            .map_or("", |(_, rest)| rest.split_whitespace().next().unwrap());
        let engine = format!("ReplicatedMergeTree('/tables/{{shard}}/{table}', '{{replica}}')");
        cluster.run_on_all(&statement.replace("ENGINE = MergeTree", &format!("ENGINE = {engine}"))).unwrap();
    }
    cluster.run_on_all(&format!("CREATE DATABASE {DATABASE}")).unwrap();
    for table in ["otel_traces", "otel_traces_trace_id_ts"] {
        // Spans are on any shard.
        let engine = format!("Distributed({}, otel, {table}, rand())", Cluster::NAME);
        cluster.run_on_all(&format!("CREATE TABLE {DATABASE}.{table} ENGINE = {engine}")).unwrap();
    }
    let first = cluster.server(0, 0);
    for insert in bound.inserts(&generated.rows) {
        first.run(&insert.replace("INSERT INTO otel.", &format!("INSERT INTO {DATABASE}."))).unwrap();
    }
    first.run(&format!("SYSTEM FLUSH DISTRIBUTED {DATABASE}.otel_traces")).unwrap();
    for table in ["otel_traces", "otel_traces_trace_id_ts"] {
        cluster.run_on_all(&format!("SYSTEM SYNC REPLICA otel.{table}")).unwrap();
    }
    cluster
}

/// Binds the table, and creates the users.
async fn serve(url: &str, bound: &Bound) -> (Service, Vec<Client>) {
    let service = Service::start_with(&settings(url));
    let admin = service.admin().await;
    let mut binding = bound.binding();
    binding["database"] = DATABASE.into();
    admin.put("/schema/binding", binding).await.expect(200);
    let marks: Vec<Value> = bound.marks.fields().iter().map(|field| field.mark()).collect();
    admin.with("if-match", "*").put("/schema/fields", json!({ "fields": marks })).await.expect(200);
    for (at, policy) in bound.questions().policies.iter().enumerate() {
        let policies = json!({"policies": [{"title": "Policy", "expression": policy.text}]});
        admin.put(&format!("/roles/r{at}"), policies).await.expect(201);
    }
    let mut users = Vec::new();
    for (at, roles) in USERS.iter().enumerate() {
        let name = format!("u{at}");
        let roles: Vec<String> = roles.iter().map(|role| format!("r{role}")).collect();
        let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
        users.push(service.user(&admin, &name, &roles).await);
        let attributes = json!({"attributes": {"tenants": bound.marks.tenants}});
        admin.patch(&format!("/users/{name}"), attributes).await.expect(200);
    }
    (service, users)
}

/// All filters with one, two and three of the layout's filters combined, for every user.
fn questions(bound: &Bound, generated: &Generated) -> Vec<Question> {
    let count = bound.questions().filters.len();
    let combinations = (0..1_usize << count).filter(|set| (1..=3).contains(&set.count_ones()));
    let window = Window { from: BASE - HOUR, to: BASE + 96 * HOUR, around: None };
    let mut questions = Vec::new();
    for set in combinations.take(FILTERS) {
        for (user, policies) in USERS.iter().enumerate() {
            let asked = bound.questions();
            let parts = asked.filters.into_iter().enumerate().filter(|(at, _)| set & (1 << at) != 0);
            let filter: Vec<_> = parts.flat_map(|(_, conditions)| conditions).collect();
            let traces: BTreeSet<u128> = policies
                .iter()
                .flat_map(|policy| selected(&generated.spans, window, &asked.policies[*policy], &filter))
                .collect();
            let conditions: Vec<&Value> = filter.iter().map(|condition| &condition.json).collect();
            let query = json!({
                "limit": 200, "from": "2026-03-14T08:00:00Z", "to": "2026-03-18T08:00:00Z",
                "filter": {"conditions": conditions},
            });
            let spans = |trace| generated.trace(trace).iter().map(|span| bound.rows_of(span)).sum();
            let expected = traces.iter().map(|trace| ((bound.trace_id)(*trace), spans(*trace))).collect();
            questions.push(Question { user, query, expected });
        }
    }
    questions
}

/// Asks until so many further searches were answered, from all users at once; returns the numbers of right answers and of
/// failures.
async fn ask_all(questions: &Arc<Vec<Question>>, users: &[Client], tries: usize) -> (usize, usize) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let left = Arc::new(AtomicUsize::new(tries));
    let mut tasks = JoinSet::new();
    for _ in 0..USERS.len() {
        let (questions, users, left) = (Arc::clone(questions), users.to_vec(), Arc::clone(&left));
        tasks.spawn(async move {
            let (mut right, mut failed) = (0, 0);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                // A step that has no factor in common with the number of questions: all are asked in turn.
                let at = NEXT.fetch_add(67, Ordering::Relaxed) % questions.len();
                if questions[at].ask(&users).await { right += 1 } else { failed += 1 }
            }
            (right, failed)
        });
    }
    let results = tasks.join_all().await;
    results.into_iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
}

/// Changes a server while searches run; returns the numbers of right answers and of failures.
async fn ask_during(
    questions: &Arc<Vec<Question>>,
    users: &[Client],
    tries: usize,
    change: impl FnOnce() + Send,
) -> (usize, usize) {
    let asking = ask_all(questions, users, tries);
    tokio::pin!(asking);
    tokio::select! {
        done = &mut asking => panic!("all searches ended before the change: {done:?}"),
        () = tokio::time::sleep(Duration::from_millis(300)) => tokio::task::block_in_place(change),
    }
    asking.await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_gives_whole_traces_or_errors() {
    let fixture = all().into_iter().find(|fixture| fixture.name == "exporter_2024").unwrap();
    let bound = fixture.bound().unwrap();
    let generated = bound.generate();
    let cluster = start(&fixture, bound, &generated);
    let (mut service, users) = serve(&cluster.server(0, 0).url, bound).await;
    let questions = Arc::new(questions(bound, &generated));
    assert_eq!(questions.len(), FILTERS * USERS.len());
    let found = questions.iter().filter(|question| !question.expected.is_empty()).count();
    assert!(found > questions.len() / 3, "{found} searches find something");
    let searches = SEARCHES.get("TRACEWARDEN_TEST_SEARCHES");
    assert_eq!(ask_all(&questions, &users, searches).await, (searches, 0));

    let tries = TRIES.get("TRACEWARDEN_TEST_TRIES") / 5;
    let [one, other] = [cluster.server(1, 0), cluster.server(1, 1)];
    let mut results = Vec::new();
    // A replica that does not follow is not asked while the other one runs.
    other.run("SYSTEM STOP FETCHES").unwrap();
    results.push(("a replica behind", ask_all(&questions, &users, tries).await));
    other.run("SYSTEM START FETCHES").unwrap();
    assert_eq!(results[0].1.1, 0, "{results:?}");

    // The statements that run on it may fail, later ones use the other replica.
    results.push(("a replica killed", ask_during(&questions, &users, tries, || one.stop(Stop::Kill)).await));
    assert_eq!(ask_all(&questions, &users, 10).await, (10, 0), "one replica suffices");

    results.push(("a shard killed", ask_during(&questions, &users, tries, || other.stop(Stop::Kill)).await));
    assert_eq!(ask_all(&questions, &users, 10).await, (0, 10), "a shard is missing");
    for server in [one, other] {
        server.resume().unwrap();
    }
    wait_until_ready(&service).await;

    service.restart_with(&SHORT_TIMES);
    let reconnected: Vec<Client> = users.iter().map(|user| user.at(&service)).collect();
    wait_until_ready(&service).await;
    // Paused, so that connections stay open without an answer.
    let pause = || [one, other].into_iter().for_each(|server| server.pause().unwrap());
    results.push(("a shard without answers", ask_during(&questions, &reconnected, tries, pause).await));
    for server in [one, other] {
        server.unpause().unwrap();
    }
    wait_until_ready(&service).await;
    let (right, _) = ask_all(&questions, &reconnected, 10).await;
    assert!(right > 0, "the shard is used again");

    for server in [one, other] {
        server.stop(Stop::Graceful);
        let few_rows = CLAMPING.replace("3000", "30");
        server.configure(&Options::default().user(READER, &few_rows)).unwrap();
        server.resume().unwrap();
    }
    // The service caches the settings of the servers for some seconds.
    service.restart_with(&[]);
    let reconnected: Vec<Client> = users.iter().map(|user| user.at(&service)).collect();
    results.push(("clamped limits", ask_all(&questions, &reconnected, tries).await));
    println!("right answers and failures: {results:?}");
    let unready = service.anonymous().get("/readyz").await.expect(503);
    let detail = unready.body["detail"].as_str().unwrap();
    assert!(detail.contains("changes settings that are sent"), "{unready:?}");
}

async fn wait_until_ready(service: &Service) {
    let begun = std::time::Instant::now();
    while service.anonymous().get("/readyz").await.status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", service.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

//! PostgreSQL stops and restarts, or a SQLite file is locked, while the service is busy: meanwhile, it shows no span and
//! answers 503 only; afterwards, everything works again at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::Method;
use serde_json::json;
use sqlx::{Connection as _, Executor as _, SqliteConnection};
use tracewarden_testkit::postgres::{Server, Stop};
use tracewarden_testkit::wait::until;

use crate::replicas::audit_log::{self, sequence_of};
use crate::replicas::fleet::{Fleet, add_user, new_key, read_traces, spans};
use crate::support::store::{self, Store, blue_policies};
use crate::support::{Client, Service, USER_PASSWORD};

const MAX_RECOVERY_TIME: Duration = Duration::from_secs(2);

const UP: u8 = 0;
const DOWN: u8 = 1;
const OVER: u8 = 2;

/// Results of a busy client.
#[derive(Default)]
struct ClientResults {
    /// Requests whose answers showed spans and were complete.
    shown: Vec<String>,
    /// Number of 503 answers to requests that began during the outage.
    unavailable: usize,
}

/// Reads until the test is over. During the outage, every answer must be a 503.
async fn stay_busy(client: Client, stage: Arc<AtomicU8>, unavailable: Arc<AtomicUsize>) -> ClientResults {
    let mut results = ClientResults::default();
    loop {
        let before = stage.load(Ordering::SeqCst);
        let body = json!({"columns": ["ServiceName"]});
        let response = client.request(Method::POST, "/traces/query").json(&body).send().await.unwrap();
        let status = response.status().as_u16();
        let request = response.headers()["x-request-id"].to_str().unwrap().to_owned();
        let body = response.bytes().await;
        let after = stage.load(Ordering::SeqCst);
        match (status, body) {
            (200, Ok(bytes)) => {
                let page: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(page["spans"].as_array().unwrap().len(), 3, "{page}");
                assert!(before != DOWN || after != DOWN, "a page without the database: {page}");
                results.shown.push(request);
            }
            // Aborted: the record of its end could not be written.
            (200, Err(_)) => {
                assert!(before != DOWN || after != DOWN, "a page was started without the database")
            }
            (503, Ok(bytes)) => {
                let problem: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(problem["code"], "unavailable", "{problem}");
                if before == DOWN && after == DOWN {
                    results.unavailable += 1;
                    unavailable.fetch_add(1, Ordering::SeqCst);
                }
            }
            (status, body) => panic!("{status}: {body:?}"),
        }
        if after == OVER {
            return results;
        }
    }
}

/// Checks that operations that need the database are unavailable, and others work. The requests run concurrently, since
/// each first waits a little for the database.
async fn assert_unavailable(service: &Service, client: &Client, admin: &Client) {
    let (client, admin, anonymous) = (client.at(service), admin.at(service), service.anonymous());
    let trace = format!("/traces/{}", store::BLUE);
    let (explanation, values) =
        (format!("{trace}/explain"), "/filter/values?ref=SpanAttributes%5B%22team%22%5D");
    let call = |tool: &str, arguments: serde_json::Value| {
        let params = json!({"name": tool, "arguments": arguments});
        Some(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
    };
    let agent = client
        .with("accept", "application/json, text/event-stream")
        .with("mcp-protocol-version", "2025-11-25");
    let login = json!({"username": "ada", "password": USER_PASSWORD});
    let requests = [
        (&client, Method::POST, "/traces/query", Some(json!({}))),
        (&client, Method::GET, trace.as_str(), None),
        (&client, Method::GET, explanation.as_str(), None),
        (&client, Method::GET, values, None),
        (&agent, Method::POST, "/mcp", call("svc_query_traces", json!({}))),
        (&agent, Method::POST, "/mcp", call("svc_get_trace", json!({"trace_id": store::BLUE}))),
        (&agent, Method::POST, "/mcp", call("svc_trace_stats", json!({}))),
        (&client, Method::GET, "/me", None),
        (&admin, Method::GET, "/users", None),
        (&admin, Method::PUT, "/roles/blue", Some(blue_policies())),
        (&anonymous, Method::POST, "/login", Some(login)),
        (&anonymous, Method::GET, "/readyz", None),
    ];
    let answers = requests.map(|(client, method, path, body)| client.send(method, path, body));
    for answer in join_all(answers).await {
        answer.problem(503, "unavailable");
    }
    anonymous.get("/healthz").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_database_the_service_shows_nothing_and_recovers_at_once() {
    let store = Store::start();
    store.insert_two_traces().await;
    let mut server = Server::start().unwrap();
    let database = Arc::new(server.database().unwrap());
    let fleet = Fleet::start_on(database, 2, &store.settings());
    let admin = fleet.a().admin().await;
    store::bind(&admin).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    add_user(fleet.a(), &admin, "ada", &["blue"], json!({})).await;
    let ada = fleet.a().sign_in("ada", USER_PASSWORD).await;
    let (_, key) = new_key(&ada).await;

    let stage = Arc::new(AtomicU8::new(UP));
    let unavailable = [0, 1].map(|_| Arc::new(AtomicUsize::new(0)));
    let busy: Vec<_> = fleet
        .replicas
        .iter()
        .zip(&unavailable)
        .map(|(service, unavailable)| {
            tokio::spawn(stay_busy(key.at(service), Arc::clone(&stage), Arc::clone(unavailable)))
        })
        .collect();
    let mut slowest = Duration::ZERO;
    for how in [Stop::Fast, Stop::Immediate, Stop::Fast] {
        tokio::time::sleep(Duration::from_millis(300)).await;
        server = tokio::task::spawn_blocking(move || {
            server.stop(how);
            server
        })
        .await
        .unwrap();
        let counts_before = unavailable.each_ref().map(|count| count.load(Ordering::SeqCst));
        stage.store(DOWN, Ordering::SeqCst);
        join_all(fleet.replicas.iter().map(|service| assert_unavailable(service, &key, &admin))).await;
        // Wait until each busy client has begun a request during this outage and received its error.
        let now = async || unavailable.each_ref().map(|count| count.load(Ordering::SeqCst));
        until(now, |now| now.iter().zip(counts_before).all(|(now, counts_before)| *now > counts_before))
            .await;
        stage.store(UP, Ordering::SeqCst);
        server = tokio::task::spawn_blocking(move || {
            server.resume().unwrap();
            server
        })
        .await
        .unwrap();
        let back = Instant::now();
        for service in &fleet.replicas {
            loop {
                let answer = read_traces(&key.at(service)).await;
                if spans(&answer) == 3 {
                    break;
                }
                answer.problem(503, "unavailable");
                assert!(back.elapsed() < MAX_RECOVERY_TIME * 5, "no answer after {:?}", back.elapsed());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            service.anonymous().get("/readyz").await.expect(200);
        }
        let took = back.elapsed();
        println!("after {how:?}: both replicas answered with spans {} ms after its return", took.as_millis());
        slowest = slowest.max(took);
    }
    stage.store(OVER, Ordering::SeqCst);
    assert!(slowest < MAX_RECOVERY_TIME, "{slowest:?}");
    let results = join_all(busy).await;
    let records = audit_log::verified(fleet.a()).await;
    for results in results.into_iter().map(Result::unwrap) {
        println!("{} pages, {} answers during the outage", results.shown.len(), results.unavailable);
        assert!(!results.shown.is_empty() && results.unavailable > 0);
        for request in &results.shown {
            let record = &records[index(&records, sequence_of(&records, request, "traces.query"))];
            assert_eq!(record.outcome, "success", "{record:?}");
        }
    }
    audit_log::verify_by_command(fleet.a());
    drop(fleet);
    drop(server);
}

fn index(records: &[tracewarden_appdb::AuditRecord], sequence: u64) -> usize {
    records.iter().position(|record| record.sequence == sequence).unwrap()
}

#[tokio::test]
async fn a_file_that_another_program_has_locked_shows_nothing_until_it_is_free() {
    let store = Store::start();
    store.insert_two_traces().await;
    let service = Service::start_with(&store.settings());
    let admin = service.admin().await;
    store::bind(&admin).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    add_user(&service, &admin, "ada", &["blue"], json!({})).await;
    let (_, key) = new_key(&service.sign_in("ada", USER_PASSWORD).await).await;
    assert_eq!(spans(&read_traces(&key).await), 3);
    let mut other = SqliteConnection::connect(&service.database_url()).await.unwrap();
    other.execute("BEGIN EXCLUSIVE").await.unwrap();
    let answers = join_all((0..3).map(|_| read_traces(&key))).await;
    for answer in answers {
        answer.problem(503, "unavailable");
    }
    admin.put("/roles/red", blue_policies()).await.problem(503, "unavailable");
    other.execute("ROLLBACK").await.unwrap();
    let back = Instant::now();
    while read_traces(&key).await.status != 200 {
        assert!(back.elapsed() < MAX_RECOVERY_TIME, "the service does not recover");
    }
    // The answer itself may have taken longer.
    assert!(back.elapsed() < MAX_RECOVERY_TIME, "the service recovered after {:?}", back.elapsed());
    admin.put("/roles/red", blue_policies()).await.expect(201);
    audit_log::verified(&service).await;
}

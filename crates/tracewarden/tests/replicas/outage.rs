//! PostgreSQL stops and comes back while the service is busy: without it there is no span and no answer but 503, and
//! after its return everything goes on at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tracewarden_testkit::postgres::{Server, Stop};

use crate::audit_log::{self, place};
use crate::fleet::{Fleet, add_user, new_key, spans};
use crate::support::store::{self, Store, blue_policies};
use crate::support::{Client, Service, USER_PASSWORD};

const BACK_WITHIN: Duration = Duration::from_secs(2);

const UP: u8 = 0;
const DOWN: u8 = 1;
const OVER: u8 = 2;

/// What a busy client met.
#[derive(Default)]
struct Met {
    /// Requests whose answers showed spans and were whole.
    shown: Vec<String>,
    /// Answers 503 to requests that began while the database was away.
    away: usize,
}

/// Reads until it is over. Between the database's going and coming every answer must be the one that says so.
async fn stay_busy(client: Client, stage: Arc<AtomicU8>) -> Met {
    let mut met = Met::default();
    loop {
        let before = stage.load(Ordering::SeqCst);
        let body = json!({"columns": ["ServiceName"]});
        let response =
            client.request(reqwest::Method::POST, "/traces/query").json(&body).send().await.unwrap();
        let status = response.status().as_u16();
        let request = response.headers()["x-request-id"].to_str().unwrap().to_owned();
        let body = response.bytes().await;
        let after = stage.load(Ordering::SeqCst);
        match (status, body) {
            (200, Ok(bytes)) => {
                let page: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(page["spans"].as_array().unwrap().len(), 3, "{page}");
                assert!(before != DOWN || after != DOWN, "a page without the database: {page}");
                met.shown.push(request);
            }
            // Broken off: the record of its end could not be written.
            (200, Err(_)) => {
                assert!(before != DOWN || after != DOWN, "a page was begun without the database")
            }
            (503, Ok(bytes)) => {
                let problem: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(problem["code"], "unavailable", "{problem}");
                met.away += usize::from(before == DOWN && after == DOWN);
            }
            (status, body) => panic!("{status}: {body:?}"),
        }
        if after == OVER {
            return met;
        }
    }
}

/// Everything that needs the database says that it is not there; what does not, answers.
async fn is_away(service: &Service, client: &Client, admin: &Client) {
    let (client, admin, anonymous) = (client.at(service), admin.at(service), service.anonymous());
    client.post("/traces/query", json!({})).await.problem(503, "unavailable");
    client.get(&format!("/traces/{}", store::BLUE)).await.problem(503, "unavailable");
    client.get("/me").await.problem(503, "unavailable");
    admin.get("/users").await.problem(503, "unavailable");
    admin.put("/roles/blue", json!({"policies": []})).await.problem(503, "unavailable");
    let login = json!({"username": "ada", "password": USER_PASSWORD});
    anonymous.post("/login", login).await.problem(503, "unavailable");
    anonymous.get("/readyz").await.problem(503, "unavailable");
    anonymous.get("/healthz").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_database_the_service_shows_nothing_and_comes_back_at_once() {
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
    let busy: Vec<_> = fleet
        .replicas
        .iter()
        .map(|service| tokio::spawn(stay_busy(key.at(service), Arc::clone(&stage))))
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
        stage.store(DOWN, Ordering::SeqCst);
        for service in &fleet.replicas {
            is_away(service, &key, &admin).await;
        }
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
                let answer = crate::fleet::read_traces(&key.at(service)).await;
                if spans(&answer) == 3 {
                    break;
                }
                answer.problem(503, "unavailable");
                assert!(back.elapsed() < BACK_WITHIN * 5, "no answer after {:?}", back.elapsed());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            service.anonymous().get("/readyz").await.expect(200);
        }
        let took = back.elapsed();
        println!("after {how:?}: both replicas answered with spans {} ms after its return", took.as_millis());
        slowest = slowest.max(took);
    }
    stage.store(OVER, Ordering::SeqCst);
    assert!(slowest < BACK_WITHIN, "{slowest:?}");
    let records = audit_log::verified(fleet.a()).await;
    for task in busy {
        let met = task.await.unwrap();
        println!("{} pages, {} answers while it was away", met.shown.len(), met.away);
        assert!(!met.shown.is_empty() && met.away > 0);
        for request in &met.shown {
            let record = &records[index(&records, place(&records, request, "traces.query"))];
            assert_eq!(record.outcome, "success", "{record:?}");
        }
    }
    drop(fleet);
    drop(server);
}

fn index(records: &[tracewarden_appdb::AuditRecord], sequence: u64) -> usize {
    records.iter().position(|record| record.sequence == sequence).unwrap()
}

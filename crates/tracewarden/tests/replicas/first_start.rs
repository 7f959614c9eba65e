//! Replicas that start concurrently, and the counters that they share.

use std::sync::Arc;

use serde_json::{Value, json};
use tracewarden_testkit::postgres;

use crate::replicas::audit_log;
use crate::replicas::fleet::Fleet;
use crate::support::{ADMIN_PASSWORD, Answer, Service};

#[tokio::test]
async fn replicas_that_start_together_create_one_administrator() {
    const REPLICAS: usize = 4;
    let database = Arc::new(postgres::database().unwrap());
    let starting: Vec<_> = (0..REPLICAS)
        .map(|_| {
            let database = Arc::clone(&database);
            std::thread::spawn(move || {
                Service::start_on(&database, &[("TRACEWARDEN_ADMIN_PASSWORD_HASH", "")])
            })
        })
        .collect();
    let replicas: Vec<Service> = starting.into_iter().map(|thread| thread.join().unwrap()).collect();
    let passwords: Vec<String> = replicas
        .iter()
        .filter_map(|service| {
            let path = service.directory.path().join("tracewarden.initial-password");
            let text = std::fs::read_to_string(path).ok()?;
            Some(text.trim().to_owned())
        })
        .collect();
    let [password] = passwords.as_slice() else { panic!("{} passwords were generated", passwords.len()) };
    for service in &replicas {
        let me = service.sign_in("admin", password).await.get("/me").await.expect(200).body;
        assert_eq!((&me["is_admin"], &me["must_change_password"]), (&json!(true), &json!(true)));
        assert!(!service.log().contains(password.as_str()));
    }
    let records = audit_log::verified(&replicas[0]).await;
    assert_eq!(records.iter().filter(|record| record.action == "admin.create").count(), 1);
}

/// Fails to sign in on alternating replicas, until the rate limit rejects an attempt.
async fn fail_until_refused(fleet: &Fleet) -> (usize, Answer) {
    let wrong = json!({"username": "admin", "password": "not the password"});
    for tries in 0..100 {
        let replica = &fleet.replicas[tries % fleet.replicas.len()];
        let answer = replica.anonymous().post("/login", wrong.clone()).await;
        if answer.status == 429 {
            return (tries, answer.problem(429, "too_many_attempts"));
        }
        answer.problem(401, "invalid_credentials");
    }
    panic!("a hundred failures are too many");
}

#[tokio::test]
async fn failed_sign_ins_are_counted_together() {
    let (alone, _) = fail_until_refused(&Fleet::start(1, &[])).await;
    let fleet = Fleet::start(2, &[]);
    let (together, refused) = fail_until_refused(&fleet).await;
    assert_eq!(together, alone, "two replicas must admit as many failures as one");
    let seconds: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!(seconds >= 1);
    // On both, and for the right password, too: another answer would reveal that it is right.
    for service in &fleet.replicas {
        let right = json!({"username": "admin", "password": ADMIN_PASSWORD});
        service.anonymous().post("/login", right).await.problem(429, "too_many_attempts");
    }
}

#[tokio::test]
async fn key_use_is_recorded_at_most_once_a_minute() {
    let fleet = Fleet::start(2, &[]);
    let admin = fleet.a().admin().await;
    let (id, key) = crate::replicas::fleet::new_key(&admin).await;
    let used = async || {
        let list = admin.get("/me/api-keys").await.expect(200).body;
        let found = list["api_keys"].as_array().unwrap().iter().find(|key| key["id"] == id.as_str()).cloned();
        found.unwrap()["last_used_at"].clone()
    };
    assert_eq!(used().await, Value::Null);
    key.get("/me").await.expect(200);
    let first = used().await;
    assert!(first.is_string());
    for service in &fleet.replicas {
        key.at(service).get("/me").await.expect(200);
    }
    assert_eq!(used().await, first);
}

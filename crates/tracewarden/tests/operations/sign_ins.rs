//! A flood of sign-in attempts from any number of addresses.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tracewarden_testkit::wait::until;

use crate::operations::metrics::{scrape, value};
use crate::support::store::{Store, blue_policies, bound_service};

#[tokio::test]
async fn a_flood_of_sign_ins_is_refused_and_searches_continue() {
    const CONNECTIONS: u32 = 100;
    let store = Store::start();
    let environment =
        [("TRACEWARDEN_TRUSTED_PROXIES", "127.0.0.1/32"), ("TRACEWARDEN_METRICS_LISTEN", "127.0.0.1:0")];
    store.insert_two_traces().await;
    let (service, admin) = bound_service(&store, &environment).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    let ada = service.user(&admin, "ada", &["blue"]).await;
    let search = async || {
        let begun = Instant::now();
        let page = ada.post("/traces/query", json!({"view": "ids"})).await.expect(200);
        assert_eq!(page.body["trace_ids"].as_array().unwrap().len(), 1, "{}", page.body);
        begun.elapsed()
    };
    let mut alone = Duration::ZERO;
    for _ in 0..5 {
        alone = alone.max(search().await);
    }
    let timeout = (20 * alone).max(Duration::from_secs(3));
    let [stop, refused] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let flood: Vec<_> = (0..CONNECTIONS)
        .map(|connection| {
            let (anonymous, stop, refused) = (service.anonymous(), Arc::clone(&stop), Arc::clone(&refused));
            tokio::spawn(async move {
                let mut answers = BTreeMap::new();
                for round in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let number = round * CONNECTIONS + connection;
                    let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + number);
                    let wrong = json!({"username": format!("user{number}"), "password": "not the password"});
                    let client = anonymous.with("x-forwarded-for", &address.to_string());
                    let answer = client.post("/login", wrong).await;
                    *answers.entry(answer.status).or_insert(0.0) += 1.0;
                    if answer.status == 401 {
                        answer.problem(401, "invalid_credentials");
                        continue;
                    }
                    let answer = answer.problem(503, "overloaded");
                    assert_eq!(answer.headers["retry-after"], "1");
                    refused.store(true, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                answers
            })
        })
        .collect();
    // The flood has begun once an attempt is rejected.
    until(async || refused.load(Ordering::SeqCst), |refused| *refused).await;
    let mut slowest = Duration::ZERO;
    for _ in 0..10 {
        slowest = slowest.max(search().await);
    }
    println!("searches take up to {alone:.1?} alone, and {slowest:.1?} in the flood");
    assert!(slowest < timeout, "{slowest:?}, and {alone:?} alone");
    stop.store(true, Ordering::SeqCst);
    let mut answers = BTreeMap::new();
    for connection in flood {
        for (status, count) in connection.await.unwrap() {
            *answers.entry(status).or_insert(0.0) += count;
        }
    }
    let text = scrape(&service).await;
    for (status, outcome) in [(401, "invalid"), (503, "over_limit")] {
        let counted = value(&text, &format!("tracewarden_logins_total{{outcome=\"{outcome}\"}}"));
        assert_eq!(Some(&counted), answers.get(&status), "{answers:?}");
    }
    ada.post("/logout", json!({})).await.expect(204);
    service.sign_in("ada", crate::support::USER_PASSWORD).await;
}

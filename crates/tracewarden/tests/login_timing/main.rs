//! A log-in that is refused takes as long whether the user is unknown, the password wrong, or the user disabled, and
//! says the same. A binary of its own, so that nothing else runs beside it: it is the one test that measures time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../replicas/chance.rs"]
mod chance;
#[path = "../support/mod.rs"]
mod support;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::seq::SliceRandom as _;
use serde_json::{Value, json};
use support::{Service, USER_PASSWORD};
use tracewarden_testkit::postgres;

const TRIES: usize = 200;

/// Medians may differ by so much of the smallest.
const TOLERANCE: f64 = 0.10;

const KINDS: [(&str, &str, &str); 3] = [
    ("unknown user", "nobody-of-that-name", USER_PASSWORD),
    ("wrong password", "ada", "not the password at all"),
    ("disabled user", "bob", USER_PASSWORD),
];

async fn measure(service: &Service, database: &str) {
    let admin = service.admin().await;
    service.user(&admin, "ada", &[]).await;
    service.user(&admin, "bob", &[]).await;
    admin.patch("/users/bob", json!({"disabled": true})).await.expect(200);

    let seed = chance::seed();
    let mut chance = chance::source(seed, 0);
    // One of each kind, in another order each time: whatever else slows the machine down for a while meets all alike.
    let order: Vec<usize> = (0..TRIES)
        .flat_map(|_| {
            let mut kinds = [0, 1, 2];
            kinds.shuffle(&mut chance);
            kinds
        })
        .collect();
    let mut times: [Vec<Duration>; 3] = Default::default();
    let mut bodies: Vec<Value> = Vec::new();
    let anonymous = service.anonymous();
    // The first connection is slower than all others.
    anonymous.get("/healthz").await.expect(200);
    for (number, kind) in order.into_iter().enumerate() {
        let (_, username, password) = KINDS[kind];
        // Each from another address, or the throttle would answer instead.
        let address =
            Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + u32::try_from(number).unwrap());
        let client = anonymous.with("x-forwarded-for", &address.to_string());
        let body = json!({"username": username, "password": password});
        let begun = Instant::now();
        let mut answer = client.post("/login", body).await.problem(401, "invalid_credentials");
        times[kind].push(begun.elapsed());
        answer.body["request_id"] = Value::Null;
        let mut headers: Vec<&str> = answer.headers.keys().map(reqwest::header::HeaderName::as_str).collect();
        headers.sort_unstable();
        let said = json!({"body": answer.body, "headers": headers});
        if !bodies.contains(&said) {
            bodies.push(said);
        }
    }
    assert_eq!(bodies.len(), 1, "{bodies:#?}");
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            assert_eq!(times.len(), TRIES);
            times.sort_unstable();
            times[TRIES / 2].as_secs_f64() * 1_000.0
        })
        .collect();
    for ((name, ..), median) in KINDS.iter().zip(&medians) {
        println!("{database}: {name}: median {median:.2} ms");
    }
    let (least, most) = medians
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), median| (least.min(*median), most.max(*median)));
    println!("{database}: medians differ by {:.1} %", (most / least - 1.0) * 100.0);
    assert!(most <= least * (1.0 + TOLERANCE), "{medians:?}");
    // A hash was computed each time: it alone takes longer than everything else together.
    let quick = Instant::now();
    anonymous.get("/me").await.problem(401, "unauthenticated");
    assert!(least > quick.elapsed().as_secs_f64() * 1_000.0, "refused without computing a hash");
}

#[tokio::test]
async fn refusals_take_the_same_time() {
    let proxy = [("TRACEWARDEN_TRUSTED_PROXIES", "127.0.0.1/32")];
    measure(&Service::start_with(&proxy), "SQLite").await;
    let database = Arc::new(postgres::database().unwrap());
    measure(&Service::start_on(&database, &proxy), "PostgreSQL").await;
}

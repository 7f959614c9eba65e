//! A rejected sign-in takes equally long and returns the same answer, whether the user is unknown, the password wrong or
//! the user disabled. `.config/nextest.toml` runs these tests alone, so that no other disturbs the measurement.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Service, USER_PASSWORD};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use rand::seq::SliceRandom as _;
use serde_json::{Value, json};
use sqlx::Connection as _;
use tracewarden_service::{PasswordCost, Settings};
use tracewarden_testkit::postgres;

const ATTEMPTS: usize = 200;
/// Number of attempts if a sign-in costs several hashes.
const FEWER_ATTEMPTS: usize = 120;

/// After this number of answers, this process computes a hash itself.
const BETWEEN_HASHES: usize = 16;

/// Maximum relative difference between the medians.
const TOLERANCE: f64 = 0.10;

const KINDS: [(&str, &str, &str); 3] = [
    ("unknown user", "unknown-user", USER_PASSWORD),
    ("wrong password", "ada", "not the password at all"),
    ("disabled user", "bob", USER_PASSWORD),
];

/// Users whose hashes have other costs than the configured one, which is 19 MiB and two passes.
const OTHER_COSTS: [(&str, &str); 2] = [("cheap", "m=8192,t=1,p=1"), ("dear", "m=19456,t=4,p=1")];

const OTHER_KINDS: [(&str, &str, &str); 4] = [
    ("unknown user", "unknown-user", USER_PASSWORD),
    ("wrong password", "ada", "not the password at all"),
    ("cheaper hash", "cheap", "not the password at all"),
    ("dearer hash", "dear", "not the password at all"),
];

/// Checks that rejections of each kind take the same time and return the same answer.
async fn measure<const N: usize>(
    service: &Service,
    database: &str,
    tries: usize,
    kinds: [(&str, &str, &str); N],
) {
    let seed = crate::replicas::random::seed();
    let mut random = crate::replicas::random::source(seed, 0);
    // One attempt of each kind per round, in random order, so that temporary slowness of the machine affects all kinds
    // alike.
    let order: Vec<usize> = (0..tries)
        .flat_map(|_| {
            let mut kinds = std::array::from_fn::<_, N, _>(|kind| kind);
            kinds.shuffle(&mut random);
            kinds
        })
        .collect();
    let mut times = [const { Vec::<Duration>::new() }; N];
    let mut bodies: Vec<Value> = Vec::new();
    let anonymous = service.anonymous();
    // The first connection is slower than all others.
    anonymous.get("/healthz").await.expect(200);
    // The minimum of many hashes, measured between the answers: temporary slowness of the machine affects only some of
    // both.
    let mut timer = HashTimer::new();
    let mut hash = f64::MAX;
    for (number, kind) in order.into_iter().enumerate() {
        if number % BETWEEN_HASHES == 0 {
            hash = hash.min(timer.millis());
        }
        let (_, username, password) = kinds[kind];
        // Each from another address, since the rate limit would reject them otherwise.
        let address = Ipv4Addr::from(
            u32::from(Ipv4Addr::new(198, 18 + u8::from(N > 3), 0, 0)) + u32::try_from(number).unwrap(),
        );
        let client = anonymous.with("x-forwarded-for", &address.to_string());
        let body = json!({"username": username, "password": password});
        let begun = Instant::now();
        let mut answer = client.post("/login", body).await.problem(401, "invalid_credentials");
        times[kind].push(begun.elapsed());
        answer.body["request_id"] = Value::Null;
        let mut headers: Vec<&str> = answer.headers.keys().map(reqwest::header::HeaderName::as_str).collect();
        headers.sort_unstable();
        let content = json!({"body": answer.body, "headers": headers});
        if !bodies.contains(&content) {
            bodies.push(content);
        }
    }
    assert_eq!(bodies.len(), 1, "{bodies:#?}");
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            assert_eq!(times.len(), tries);
            times.sort_unstable();
            times[tries / 2].as_secs_f64() * 1_000.0
        })
        .collect();
    for ((name, ..), median) in kinds.iter().zip(&medians) {
        println!("{database}: {name}: median {median:.2} ms");
    }
    let (least, most) = medians
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), median| (least.min(*median), most.max(*median)));
    println!("{database}: medians differ by {:.1} %", (most / least - 1.0) * 100.0);
    assert!(most <= least * (1.0 + TOLERANCE), "{medians:?}");
    println!("{database}: a hash alone: {hash:.2} ms");
    assert!(least > hash, "refused without computing a hash");
}

/// Measures hashes of the configured cost in this process, which is built with the same profile as the service. Their memory is reused, as the service does: new memory would add
/// its page faults, which cost as much as the hash on some machines.
struct HashTimer {
    argon2: Argon2<'static>,
    memory: Vec<Block>,
}

impl HashTimer {
    fn new() -> Self {
        let PasswordCost { memory_kib, iterations, parallelism } = Settings::default().password;
        let params = Params::new(memory_kib, iterations, parallelism, None).unwrap();
        let memory = vec![Block::default(); params.block_count()];
        let mut timer = Self { argon2: Argon2::new(Algorithm::Argon2id, Version::V0x13, params), memory };
        // Touches the memory, so that no measured hash has page faults.
        timer.millis();
        timer
    }

    fn millis(&mut self) -> f64 {
        let begun = Instant::now();
        let mut output = [0; Params::DEFAULT_OUTPUT_LEN];
        self.argon2
            .hash_password_into_with_memory(USER_PASSWORD.as_bytes(), &[0; 16], &mut output, &mut self.memory)
            .unwrap();
        begun.elapsed().as_secs_f64() * 1_000.0
    }
}

#[tokio::test]
async fn refusals_take_the_same_time() {
    let proxy = [("TRACEWARDEN_TRUSTED_PROXIES", "127.0.0.1/32")];
    let database = Arc::new(postgres::database().unwrap());
    for (mut service, name) in
        [(Service::start_with(&proxy), "SQLite"), (Service::start_on(&database, &proxy), "PostgreSQL")]
    {
        let admin = service.admin().await;
        for username in ["ada", "bob"] {
            service.user(&admin, username, &[]).await;
        }
        admin.patch("/users/bob", json!({"disabled": true})).await.expect(200);
        measure(&service, name, ATTEMPTS, KINDS).await;
        // The cost of a hash does not depend on the database.
        if name == "PostgreSQL" {
            continue;
        }
        // The service knows the costs of the stored hashes from its start, so the first attempt counts as well.
        for (username, cost) in OTHER_COSTS {
            admin.post("/users", json!({"username": username})).await.expect(201);
            make_hash_cost(&service, username, cost).await;
        }
        service.restart_with(&[]);
        measure(&service, name, FEWER_ATTEMPTS, OTHER_KINDS).await;
    }
}

/// Gives a user a hash of another cost, which matches no password.
async fn make_hash_cost(service: &Service, username: &str, cost: &str) {
    sqlx::any::install_default_drivers();
    let mut database = sqlx::AnyConnection::connect(&service.database_url()).await.unwrap();
    let hash = format!("$argon2id$v=19${cost}${}${}", "c2FsdHNhbHRzYWx0c2FsdA", "A".repeat(43));
    let change =
        sqlx::query("UPDATE users SET password_hash = $1 WHERE username = $2").bind(hash).bind(username);
    assert_eq!(change.execute(&mut database).await.unwrap().rows_affected(), 1);
}

//! Memory use of the service.

use std::net::Ipv4Addr;

use futures::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Connection as _;
use tracewarden_appdb::{AppDb, NewAuditRecord};
use tracewarden_model::Timestamp;
use tracewarden_testkit::memory;

use crate::support::Service;
use crate::support::store::{BLUE, Store, blue_policies, bound_service};

const MIB: u64 = 1 << 20;

/// Default number of concurrent password hashes.
const PARALLEL: u64 = 4;

#[tokio::test]
async fn a_burst_of_sign_ins_keeps_only_the_memory_of_allowed_hashes() {
    let service = Service::start_with(&[("TRACEWARDEN_TRUSTED_PROXIES", "127.0.0.1/32")]);
    let anonymous = service.anonymous();
    anonymous.get("/healthz").await.expect(200);
    let before = memory::resident(service.id()).unwrap();
    let attempts = (0..250_u32).map(|number| {
        // Each from another address, since the rate limit would reject them otherwise.
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + number);
        let client = anonymous.with("x-forwarded-for", &address.to_string());
        async move {
            let wrong = json!({"username": "admin", "password": "not the password at all"});
            client.post("/login", wrong).await.problem(401, "invalid_credentials");
        }
    });
    // As many concurrent attempts as the service accepts; more would be rejected without computing a hash.
    futures::stream::iter(attempts).buffer_unordered(16).collect::<()>().await;
    let after = memory::resident(service.id()).unwrap();
    let most = before + PARALLEL * 19 * MIB + 40 * MIB;
    assert!(after <= most, "{} MiB before, {} MiB after", before / MIB, after / MIB);
}

/// Arguments from agents are recorded as received. Parsed into values, a nested list of five bytes would take forty times
/// that.
#[tokio::test]
async fn a_page_of_the_audit_log_takes_a_few_times_its_text() {
    const RECORDS: usize = 20;
    let service = Service::start();
    let admin = service.admin().await;
    let detail = format!("{{\"arguments\":[{}]}}", vec!["[[]]"; 200_000].join(","));
    let db = AppDb::open_existing(&service.database_url()).await.unwrap();
    let mut tx = db.begin_write().await.unwrap();
    for _ in 0..RECORDS {
        let record = NewAuditRecord {
            completes: None,
            at: Timestamp::from_micros(1_790_000_000_000_000),
            actor_id: None,
            actor_name: None,
            credential_id: None,
            via: "mcp",
            action: "traces.query",
            outcome: "success",
            request_id: "r1",
            client_ip: None,
            user_agent: None,
            target: None,
            detail: &detail,
        };
        tx.append_audit(&record).await.unwrap();
    }
    tx.commit().await.unwrap();
    db.close().await;
    let before = memory::peak(service.id()).unwrap();
    let answer = admin.request(Method::GET, "/audit?action=traces.query&limit=20").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let (bytes, text) = (answer.bytes().await.unwrap().len() as u64, (RECORDS * detail.len()) as u64);
    assert!(bytes > text, "{bytes}");
    let grown = memory::peak(service.id()).unwrap() - before;
    println!("a page of {} MiB takes {} MiB", bytes / MIB, grown / MIB);
    assert!(grown < 8 * text, "{} MiB for {} MiB", grown / MIB, text / MIB);
}

/// Ten thousand users may have 2.5 GB of attributes. Operations on all users keep only a few in memory at a time.
#[tokio::test]
async fn the_attributes_of_all_users_are_not_held_at_once() {
    const USERS: u64 = 1_200;
    let store = Store::start();
    store.insert_two_traces().await;
    let (service, admin) = bound_service(&store, &[]).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    let teams: Vec<String> = (0..250).map(|number| format!("{number:0>1000}")).collect();
    let teams = serde_json::to_string(&teams).unwrap();
    let mut database = sqlx::SqliteConnection::connect(&service.database_url()).await.unwrap();
    sqlx::query(
        "INSERT INTO users (id, username, username_folded, password_hash, must_change_password, disabled, created_at, \
         attributes) WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < $1) \
         SELECT 'usr_many' || i, 'many' || i, 'many' || i, password_hash, 0, 0, created_at, \
         '{\"own\":\"t' || i || '\",\"teams\":' || $2 || '}' FROM users, numbers WHERE username_folded = 'admin'",
    )
    .bind(i64::try_from(USERS).unwrap())
    .bind(&teams)
    .execute(&mut database)
    .await
    .unwrap();
    let assigned =
        "INSERT INTO user_roles (user_id, role) SELECT id, 'blue' FROM users WHERE id LIKE 'usr_many%'";
    sqlx::query(assigned).execute(&mut database).await.unwrap();
    database.close().await.unwrap();

    let before = memory::peak(service.id()).unwrap();
    let viewers = admin.get(&format!("/traces/{BLUE}/viewers")).await.expect(200).body;
    assert_eq!((&viewers["users"], &viewers["changed_meanwhile"]), (&(USERS + 1).into(), &false.into()));
    assert_eq!(viewers["viewers"].as_array().unwrap().len() as u64, USERS);
    let policies = json!([{"title": "Own", "expression":
        "SpanAttributes[\"team\"] == \"blue\" || \"nothing\" in user.attributes.teams"}]);
    let by = "SpanAttributes[\"team\"]";
    let proposal = json!({"role": "blue", "policies": policies, "seconds": 30, "by": by});
    for question in ["/policies/preview", "/policies/collateral-access"] {
        let answer = admin.post(question, proposal.clone()).await.expect(200).body;
        assert_eq!(answer["members"], USERS, "{question}: {answer}");
    }
    let mut file: Value = admin.get("/schema/export").await.expect(200).body;
    let roles = file["roles"].as_array_mut().unwrap();
    roles.iter_mut().find(|role| role["name"] == "blue").unwrap()["policies"] = policies.clone();
    admin.post("/schema/plan?seconds=30", file).await.expect(200);
    admin.put("/roles/blue", json!({ "policies": policies })).await.expect(200);
    let (grown, attribute_bytes) = (memory::peak(service.id()).unwrap() - before, USERS * teams.len() as u64);
    println!("{} MiB of attributes take {} MiB", attribute_bytes / MIB, grown / MIB);
    assert!(
        grown < attribute_bytes / 2,
        "{} MiB for {} MiB of attributes",
        grown / MIB,
        attribute_bytes / MIB
    );
}

//! How much memory the service keeps.

use std::net::Ipv4Addr;

use futures::StreamExt as _;
use reqwest::Method;
use serde_json::json;
use tracewarden_appdb::{AppDb, NewAuditRecord};
use tracewarden_model::Timestamp;
use tracewarden_testkit::memory;

use crate::support::Service;

const MIB: u64 = 1 << 20;

/// Password hashes at the same time, as is the default.
const PARALLEL: u64 = 4;

#[tokio::test]
async fn a_burst_of_log_ins_leaves_no_more_than_the_hashes_that_may_run() {
    let service = Service::start_with(&[("TRACEWARDEN_TRUSTED_PROXIES", "127.0.0.1/32")]);
    let anonymous = service.anonymous();
    anonymous.get("/healthz").await.expect(200);
    let before = memory::resident(service.id()).unwrap();
    let attempts = (0..250_u32).map(|number| {
        // Each from another address, or the throttle would answer instead.
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + number);
        let client = anonymous.with("x-forwarded-for", &address.to_string());
        async move {
            let wrong = json!({"username": "admin", "password": "not the password at all"});
            client.post("/login", wrong).await.problem(401, "invalid_credentials");
        }
    });
    // As many as are worked on; with more, some would be refused without a hash.
    futures::stream::iter(attempts).buffer_unordered(16).collect::<()>().await;
    let after = memory::resident(service.id()).unwrap();
    let most = before + PARALLEL * 19 * MIB + 40 * MIB;
    assert!(after <= most, "{} MiB before, {} MiB after", before / MIB, after / MIB);
}

/// What agents send is recorded as it came. Read into values, a list in a list of five bytes would take forty times that.
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

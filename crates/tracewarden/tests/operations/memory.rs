//! How much memory the service keeps.

use std::net::Ipv4Addr;

use futures::StreamExt as _;
use serde_json::json;

use crate::support::Service;

const MIB: u64 = 1 << 20;

/// Password hashes at the same time, as is the default.
const PARALLEL: u64 = 4;

/// Bytes of memory that the process has.
fn resident(service: &Service) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn a_burst_of_log_ins_leaves_no_more_than_the_hashes_that_may_run() {
    let service = Service::start_with(&[("TRACEWARDEN_TRUSTED_PROXIES", "127.0.0.1/32")]);
    let anonymous = service.anonymous();
    anonymous.get("/healthz").await.expect(200);
    let before = resident(&service);
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
    let after = resident(&service);
    let most = before + PARALLEL * 19 * MIB + 40 * MIB;
    assert!(after <= most, "{} MiB before, {} MiB after", before / MIB, after / MIB);
}

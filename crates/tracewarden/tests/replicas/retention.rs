//! Replicas that remove old audit records concurrently.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::replicas::audit_log;
use crate::replicas::fleet::Fleet;

const RETENTION: Duration = Duration::from_secs(4);

#[tokio::test]
async fn replicas_prune_only_expired_records() {
    let fleet = Fleet::start(3, &[("TRACEWARDEN_AUDIT_RETENTION", "4s")]);
    let admin = fleet.a().admin().await;
    let first = audit_log::verified(fleet.a()).await[0].sequence;
    let mut written: Vec<(tokio::time::Instant, String)> = Vec::new();
    let begun = tokio::time::Instant::now();
    let mut number = 0;
    while begun.elapsed() < RETENTION * 3 {
        for service in &fleet.replicas {
            let policies = json!({"policies": [{"title": format!("{number}"), "expression": "true"}]});
            let at = tokio::time::Instant::now();
            let answer = admin.at(service).put(&format!("/roles/role{}", number % 5), policies).await;
            assert!(matches!(answer.status, 200 | 201), "{}", answer.body);
            written.push((at, answer.headers["x-request-id"].to_str().unwrap().to_owned()));
            number += 1;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        // The chain is intact at all times.
        if number % 60 == 0 {
            audit_log::verified(fleet.a()).await;
        }
    }
    let (snapshot_time, records) = audit_log::verified_records_with_time(fleet.a()).await;
    let pruned: Vec<_> = records.iter().filter(|record| record.action == "audit.prune").collect();
    assert!(records[0].sequence > first && !pruned.is_empty(), "nothing was removed");
    assert!(pruned.iter().all(|record| record.via == "service" && record.outcome == "success"));
    // The sequence numbers have no gaps: only a prefix was removed.
    let sequences: Vec<u64> = records.iter().map(|record| record.sequence).collect();
    let expected: Vec<u64> = (0..).take(sequences.len()).map(|offset| sequences[0] + offset).collect();
    assert_eq!(sequences, expected);
    let present: BTreeSet<&str> = records.iter().map(|record| record.request_id.as_str()).collect();
    let mut young = 0;
    for (at, request) in &written {
        if snapshot_time.duration_since(*at) < RETENTION - Duration::from_millis(500) {
            young += 1;
            assert!(present.contains(request.as_str()), "a record was removed before its retention ended");
        }
    }
    // These are the last three and a half of twelve seconds, however many changes a slow machine makes in them.
    assert!(young > 10 && young > written.len() / 10, "{young} of {}", written.len());
    println!("{} changes, {} records kept, {} removals", written.len(), records.len(), pruned.len());
}

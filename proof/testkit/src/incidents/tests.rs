use std::collections::{BTreeMap, BTreeSet};

use super::*;

const NOON: u64 = 1_790_000_000_000_000_000;

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap()
}

#[test]
fn requests_of_one_tenant_fail_far_below_and_for_their_callers() {
    for seed in 0..20 {
        let incident = Incident::new(seed, NOON);
        let Incident { cause, rows, .. } = &incident;
        let mut traces: BTreeMap<&str, BTreeMap<&str, &Value>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row["ResourceAttributes"].to_string().contains("production")) {
            traces.entry(text(row, "TraceId")).or_default().insert(text(row, "SpanId"), row);
        }
        assert_eq!(traces.len(), incident.requests, "seed {seed}");
        let failed = |row: &Value| row["StatusCode"] == "Error";
        let affected = traces.values().filter(|spans| spans.values().any(|row| failed(row)));
        assert_eq!(affected.clone().count(), incident.failed, "seed {seed}");
        assert!(incident.failed * 5 < incident.requests, "seed {seed}: most traces are healthy");
        for spans in affected {
            let origins: BTreeSet<&str> = spans
                .values()
                .filter(|row| failed(row))
                .filter(|row| {
                    !spans.values().any(|other| failed(other) && other["ParentSpanId"] == row["SpanId"])
                })
                .map(|row| text(row, "SpanId"))
                .collect();
            assert!(!origins.is_empty() && spans.values().any(|row| !failed(row)), "seed {seed}");
            for id in origins {
                let row = spans[id];
                assert!(
                    cause.spans.contains(&(text(row, "TraceId").to_owned(), id.to_owned())),
                    "seed {seed}"
                );
                assert!(
                    row.to_string().contains(&cause.kind) || !row["StatusMessage"].is_null(),
                    "seed {seed}"
                );
                assert_eq!(text(row, "ServiceName"), cause.service, "seed {seed}");
                let above =
                    std::iter::successors(Some(row), |row| spans.get(text(row, "ParentSpanId")).copied());
                assert!(above.clone().all(failed) && above.count() >= 4, "seed {seed}: all callers fail");
            }
            let tenant =
                spans.values().filter(|row| row["SpanAttributes"].to_string().contains(&cause.tenant));
            assert!(tenant.count() > 0, "seed {seed}");
        }
        let said = |row: &&Value| !failed(row) && row.to_string().contains(&cause.message);
        assert_eq!(rows.iter().filter(said).count(), 0, "seed {seed}: only failed spans contain it");
        assert!((10..=15).contains(&incident.fields.len()), "seed {seed}");
    }
}

#[test]
fn the_same_seed_makes_the_same_hour() {
    let once = Incident::new(7, NOON);
    assert_eq!(once.rows, Incident::new(7, NOON).rows);
    assert_ne!(once.rows.len(), Incident::new(8, NOON).rows.len());
}

//! Tests of pruning the audit log.

use tracewarden_appdb::{AUDIT_PRUNE, AppDb, AuditFilter, DbError, NewAuditRecord, PrunedAudit};

use crate::fixture::{Fixture, at, on_both, record};

const HOUR: i64 = 3_600_000_000;

on_both!(
    only_a_complete_prefix_is_removed,
    a_completion_may_be_left_behind,
    a_limit_bounds_each_removal,
    large_records_are_removed_in_batches,
    overlapping_reads_are_removed_in_batches,
    reads_that_may_be_running_are_kept,
    a_broken_chain_is_kept,
    tampered_records_are_not_removed,
    two_replicas_prune_at_once,
);

async fn append(db: &AppDb, record: NewAuditRecord<'_>) -> u64 {
    let mut tx = db.begin_write().await.unwrap();
    let sequence = tx.append_audit(&record).await.unwrap();
    tx.commit().await.unwrap();
    sequence
}

/// Prunes as the service does. Returns the removed records.
async fn prune(db: &AppDb, before: i64, limit: u32) -> Result<Option<PrunedAudit>, DbError> {
    let mut tx = db.begin_write().await?;
    let Some(pruned) = tx.prune_audit(at(before), limit).await? else { return Ok(None) };
    let detail = format!(
        "{{\"through\": {}, \"hash\": \"{}\", \"removed\": {}}}",
        pruned.through, pruned.hash, pruned.removed
    );
    tx.append_audit(&NewAuditRecord { detail: &detail, ..record(AUDIT_PRUNE, 100 * HOUR, None, "success") })
        .await?;
    tx.commit().await?;
    Ok(Some(pruned))
}

/// Returns the numbers of the entries still in the log, oldest first, without removals. Also checks the chain.
async fn remaining_entries(db: &AppDb) -> Vec<u64> {
    let mut tx = db.begin_read().await.unwrap();
    let verified = tx.verify_audit(|_, _| ()).await.unwrap().unwrap();
    let entries = tx.audit_records(&AuditFilter::default(), 10_000).await.unwrap();
    let first = verified.first.map_or(u64::MAX, |position| position.sequence);
    assert_eq!(verified.anchor.0 + 1, first);
    assert_eq!(verified.last.unwrap().sequence, verified.head.0);
    assert_eq!(verified.records, verified.head.0 - verified.anchor.0);
    let mut shown: Vec<u64> =
        entries.into_iter().filter(|entry| entry.action != AUDIT_PRUNE).map(|entry| entry.sequence).collect();
    shown.reverse();
    shown
}

async fn only_a_complete_prefix_is_removed(fixture: &Fixture) {
    let db = fixture.open().await;
    assert_eq!(prune(&db, 10, 100).await.unwrap(), None, "nothing in an empty log");
    // The clocks of replicas differ: a newer record may precede an older one.
    for time in [1, 2, 9, 3, 10] {
        append(&db, record("done", time, None, "success")).await;
    }
    assert_eq!(prune(&db, 1, 100).await.unwrap(), None);
    let pruned = prune(&db, 5, 100).await.unwrap().unwrap();
    assert_eq!((pruned.through, pruned.removed), (2, 2));
    assert_eq!(remaining_entries(&db).await, [3, 4, 5], "the fourth is old, but newer ones precede it");
    assert_eq!(prune(&db, 5, 100).await.unwrap(), None);
    assert_eq!(prune(&db, 10, 100).await.unwrap().unwrap().through, 4);
    assert_eq!(remaining_entries(&db).await, [5]);
    // All records may be removed except that of this very removal.
    assert_eq!(prune(&db, 200 * HOUR, 100).await.unwrap().unwrap().through, 7);
    assert_eq!(remaining_entries(&db).await, [0_u64; 0]);
    append(&db, record("done", 11, None, "success")).await;
    assert_eq!(remaining_entries(&db).await, [9], "numbers go on");
    let mut tx = db.begin_read().await.unwrap();
    let (sequence, hash) = tx.audit_head().await.unwrap();
    assert_eq!(tx.audit_hash(sequence).await.unwrap(), Some(hash));
    assert_eq!(tx.audit_hash(1).await.unwrap(), None);
}

async fn a_completion_may_be_left_behind(fixture: &Fixture) {
    let db = fixture.open().await;
    append(&db, record("done", 1, None, "success")).await;
    let slow = append(&db, record("traces.query", 2, None, "unknown")).await;
    let quick = append(&db, record("traces.query", 3, None, "unknown")).await;
    append(&db, record("traces.query", 4, Some(quick), "success")).await;
    append(&db, record("traces.query", 20, Some(slow), "success")).await;
    append(&db, record("done", 21, None, "success")).await;
    assert_eq!(prune(&db, 10, 100).await.unwrap().unwrap().through, 4);
    assert_eq!(remaining_entries(&db).await, [6], "the completion of `slow` is no entry");
    assert_eq!(prune(&db, 21, 100).await.unwrap().unwrap().through, 5);
    assert_eq!(remaining_entries(&db).await, [6]);
}

async fn a_limit_bounds_each_removal(fixture: &Fixture) {
    let db = fixture.open().await;
    for time in 1..=5 {
        append(&db, record("done", time, None, "success")).await;
    }
    let long = append(&db, record("traces.query", 6, None, "unknown")).await;
    for time in 7..=10 {
        append(&db, record("done", time, None, "success")).await;
    }
    append(&db, record("traces.query", 11, Some(long), "success")).await;
    append(&db, record("done", 12, None, "success")).await;
    let mut removed = Vec::new();
    while let Some(pruned) = prune(&db, 12, 3).await.unwrap() {
        removed.push(pruned.removed);
        remaining_entries(&db).await;
    }
    assert_eq!(removed, [3, 3, 3, 2]);
    assert_eq!(remaining_entries(&db).await, [12]);
}

async fn large_records_are_removed_in_batches(fixture: &Fixture) {
    let db = fixture.open().await;
    let detail = format!("{{\"text\": \"{}\"}}", "x".repeat(9 * 1024 * 1024));
    for time in 1..=3 {
        append(&db, NewAuditRecord { detail: &detail, ..record("done", time, None, "success") }).await;
    }
    let mut removed = Vec::new();
    while let Some(pruned) = prune(&db, 10, 100).await.unwrap() {
        removed.push(pruned.removed);
    }
    assert_eq!(removed, [2, 1]);
}

/// A reader that always has two requests running, one begun before the other ends, must not prevent pruning.
async fn overlapping_reads_are_removed_in_batches(fixture: &Fixture) {
    let db = fixture.open().await;
    let mut open = append(&db, record("traces.query", 1, None, "unknown")).await;
    for time in 1..=20 {
        let next = append(&db, record("traces.query", time, None, "unknown")).await;
        append(&db, record("traces.query", time, Some(open), "success")).await;
        open = next;
    }
    append(&db, record("traces.query", 20, Some(open), "success")).await;
    let mut shown = remaining_entries(&db).await;
    assert_eq!(shown.len(), 21);
    while let Some(pruned) = prune(&db, 21, 4).await.unwrap() {
        assert!(pruned.removed <= 4, "{pruned:?}");
        shown.retain(|entry| *entry > pruned.through);
        assert_eq!(remaining_entries(&db).await, shown);
        let mut tx = db.begin_read().await.unwrap();
        let entries = tx.audit_records(&AuditFilter::default(), 100).await.unwrap();
        assert!(
            entries.iter().all(|entry| entry.outcome == "success"),
            "the remaining records are unchanged"
        );
    }
    assert_eq!(shown, [0_u64; 0]);
}

async fn reads_that_may_be_running_are_kept(fixture: &Fixture) {
    let db = fixture.open().await;
    let running = append(&db, record("traces.query", 2, None, "unknown")).await;
    append(&db, record("done", 3, None, "success")).await;
    assert_eq!(prune(&db, HOUR, 100).await.unwrap(), None);
    append(&db, record("traces.query", HOUR, Some(running), "success")).await;
    let crashed = append(&db, record("traces.query", HOUR, None, "unknown")).await;
    let pruned = prune(&db, HOUR + 1, 100).await.unwrap().unwrap();
    assert_eq!(pruned.through, 3, "complete now, and so old enough");
    assert_eq!(remaining_entries(&db).await, [crashed]);
    assert_eq!(prune(&db, 2 * HOUR, 100).await.unwrap(), None);
    let pruned = prune(&db, 2 * HOUR + 1, 100).await.unwrap().unwrap();
    assert_eq!(pruned.through, crashed, "a record that a crash left incomplete is removed eventually");
}

async fn a_broken_chain_is_kept(fixture: &Fixture) {
    let db = fixture.open().await;
    for time in 1..=4 {
        append(&db, record("done", time, None, "success")).await;
    }
    for statement in
        ["UPDATE audit SET sequence = 5 WHERE sequence = 4", "DELETE FROM audit WHERE sequence = 2"]
    {
        fixture.run(&[statement]).await;
        let refused = prune(&db, 5, 100).await;
        assert!(matches!(refused, Err(DbError::Corrupt(_))), "{statement}: {refused:?}");
    }
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.verify_audit(|_, _| ()).await.unwrap().unwrap_err().sequence, 3, "the trace of it remains");
}

/// An attacker who bypasses the service must not get rid of tampered records by making them look old.
async fn tampered_records_are_not_removed(fixture: &Fixture) {
    let db = fixture.open().await;
    for time in 1..=6 {
        append(&db, record("done", 10 * HOUR + time, None, "success")).await;
    }
    fixture.run(&["CREATE TABLE kept AS SELECT * FROM audit"]).await;
    for (statement, broken) in [
        ("UPDATE audit SET at = 0", 1),
        ("UPDATE audit SET at = 0, target = 'eve' WHERE sequence = 1", 1),
        ("UPDATE audit SET actor_name = 'eve' WHERE sequence = 3", 3),
        ("UPDATE audit SET outcome = 'unknown' WHERE sequence = 2", 2),
        // The first record that would be kept, at which the removal would end.
        ("UPDATE audit SET at = at + 1 WHERE sequence = 5", 5),
    ] {
        fixture.run(&[statement]).await;
        let refused = prune(&db, 10 * HOUR + 5, 100).await;
        let Err(DbError::Corrupt(reason)) = refused else { panic!("{statement}: {refused:?}") };
        assert!(reason.contains(&format!("broken at record {broken}:")), "{statement}: {reason}");
        let fault = db.begin_read().await.unwrap().verify_audit(|_, _| ()).await.unwrap().unwrap_err();
        assert_eq!(fault.sequence, broken, "{statement}: it still shows");
        fixture.run(&["DELETE FROM audit", "INSERT INTO audit SELECT * FROM kept"]).await;
    }
    let pruned = prune(&db, 10 * HOUR + 5, 100).await.unwrap().unwrap();
    assert_eq!(pruned.through, 4);
    let verified = db.begin_read().await.unwrap().verify_audit(|_, _| ()).await.unwrap().unwrap();
    let newest = verified.newest_removal.unwrap();
    assert_eq!((verified.removals, newest.record.sequence, newest.removed), (1, 7, pruned));
}

async fn two_replicas_prune_at_once(fixture: &Fixture) {
    let db = fixture.open().await;
    for time in 1..=60 {
        append(&db, record("done", time, None, "success")).await;
    }
    let url = fixture.url();
    let replicas: Vec<_> = (0..2)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move {
                let db = AppDb::open(&url, at(0)).await.unwrap();
                let mut removed = 0;
                while let Some(pruned) = prune(&db, 41, 7).await.unwrap() {
                    removed += pruned.removed;
                    append(&db, record("done", 70, None, "success")).await;
                }
                removed
            })
        })
        .collect();
    let mut removed = 0;
    for replica in replicas {
        removed += replica.await.unwrap();
    }
    assert_eq!(removed, 40, "each record once");
    let kept = remaining_entries(&db).await;
    assert_eq!(kept[..20], (41..=60).collect::<Vec<u64>>(), "nothing that is newer went");
}

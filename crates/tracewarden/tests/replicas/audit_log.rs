//! Reads the audit log directly from the database.

use tokio::time::Instant;
use tracewarden_appdb::{AppDb, AuditFilter, AuditRecord};
use tracewarden_model::Timestamp;

use crate::support::Service;

/// Returns all records, oldest first, after verifying the whole chain.
pub async fn verified(service: &Service) -> Vec<AuditRecord> {
    verified_records_with_time(service).await.1
}

/// The same, with a time just after the snapshot of the records. On a busy machine, opening and reading both may take a
/// while.
pub async fn verified_records_with_time(service: &Service) -> (Instant, Vec<AuditRecord>) {
    let db = AppDb::open(&service.database_url(), Timestamp::from_micros(0)).await.unwrap();
    let mut tx = db.begin_read().await.unwrap();
    // The first statement takes the snapshot.
    tx.audit_head().await.unwrap();
    let snapshot_time = Instant::now();
    assert_eq!(tx.verify_audit(|_, _| ()).await.unwrap().err(), None);
    let mut records = tx.audit_records(&AuditFilter::default(), u32::MAX).await.unwrap();
    records.reverse();
    drop(tx);
    db.close().await;
    (snapshot_time, records)
}

/// Returns the sequence number of a request's record.
pub fn sequence_of(records: &[AuditRecord], request_id: &str, action: &str) -> u64 {
    let mut found =
        records.iter().filter(|record| record.request_id == request_id && record.action == action);
    let record = found.next().unwrap_or_else(|| panic!("no record `{action}` of the request {request_id}"));
    assert!(found.next().is_none(), "two records `{action}` of the request {request_id}");
    record.sequence
}

/// Checks that the operator's command also finds the log intact.
pub fn verify_by_command(service: &Service) {
    let output = service.command().args(["audit", "verify"]).output().unwrap();
    let output_text = String::from_utf8_lossy(&output.stdout);
    let error_text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {output_text}{error_text}", output.status);
}

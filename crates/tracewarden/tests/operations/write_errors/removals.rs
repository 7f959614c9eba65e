//! The same while the service removes old audit records: they are removed together with a record of it, or all stay and are
//! removed later; records within the retention stay, and the chain is always intact.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tracewarden_appdb::{ADMIN_ROLE, AppDb, NewAuditRecord, PasswordHash, User};
use tracewarden_model::Timestamp;
use tracewarden_testkit::wait::until;
use tracewarden_testkit::write_errors::{Kind, WriteErrors};

use super::{
    FaultKind, FaultPosition, FaultTarget, Outcome, ReportedResult, log, require_chain, run_each, start,
};
use crate::support::admin_password_hash;

/// As in the other script, but with fewer writes.
const WRITES: u64 = 13;
const SYNCS: u64 = 1;
const MESSAGES: u64 = 11;

/// Number of old records, and of newer records after them. The service removes that many in one transaction.
const OLD_RECORDS: u64 = 200;
const NEW_RECORDS: u64 = 3;

const LONG_AGO: Timestamp = Timestamp::from_micros(0);

/// In the year 2100. Records after these are never removed, however long a run takes.
const NOT_YET: Timestamp = Timestamp::from_micros(4_102_444_800_000_000);

/// No server listens there.
const WITHOUT_CLICKHOUSE: (&str, &str) = ("TRACEWARDEN_CLICKHOUSE_URL", "http://127.0.0.1:9");

/// So short that the service searches for old records every second.
const RETENTION: (&str, &str) = ("TRACEWARDEN_AUDIT_RETENTION", "1s");

const FILE: &str = "tracewarden.db";

/// The first table that a removal reads, and a start does not.
const ANCHOR_TABLE: &str = "audit_anchor";

/// Creates a database with an administrator, so that the start creates none, and with old records.
async fn fill(url: &str) {
    let db = AppDb::open(url, LONG_AGO).await.unwrap();
    let mut tx = db.begin_write().await.unwrap();
    tx.insert_user(&User {
        id: "u1".to_owned(),
        username: "ada".to_owned(),
        password_hash: PasswordHash(admin_password_hash().to_owned()),
        must_change_password: false,
        disabled: false,
        created_at: LONG_AGO,
        last_login_at: None,
        attributes: BTreeMap::new(),
        roles: BTreeSet::from([ADMIN_ROLE.to_owned()]),
        identity: None,
        service: None,
    })
    .await
    .unwrap();
    for sequence in 1..=OLD_RECORDS + NEW_RECORDS {
        let record = NewAuditRecord {
            completes: None,
            at: if sequence <= OLD_RECORDS { LONG_AGO } else { NOT_YET },
            actor_id: Some("u1"),
            actor_name: Some("ada"),
            credential_id: None,
            via: "session",
            action: "login",
            outcome: "success",
            request_id: "r1",
            client_ip: None,
            user_agent: None,
            target: None,
            detail: "{}",
        };
        assert_eq!(tx.append_audit(&record).await.unwrap(), sequence);
    }
    tx.commit().await.unwrap();
    db.close().await;
}

fn address(directory: &Path) -> String {
    format!("sqlite:{}", directory.join(FILE).display())
}

/// Creates the database file, with everything that a first start writes.
async fn template(directory: &Path) -> PathBuf {
    let url = address(directory);
    fill(&url).await;
    assert!(start(directory, &[WITHOUT_CLICKHOUSE], &[]).client.is_some(), "{}", log(directory));
    // Closing copies the write-ahead log into the file.
    AppDb::open_existing(&url).await.unwrap().close().await;
    directory.join(FILE)
}

/// Returns the result of each attempt to remove old records, according to the service's log.
fn removal_results(directory: &Path) -> Vec<ReportedResult> {
    let reported = |line: &str| {
        if line.contains("old audit records removed") {
            return Some(ReportedResult::Done);
        }
        let failed = line.contains("old audit records were not removed");
        let unknown = line.contains("it is unknown whether the change was made");
        failed.then_some(if unknown { ReportedResult::Unknown } else { ReportedResult::NotDone })
    };
    log(directory).lines().filter_map(reported).collect()
}

/// Whether the old records are removed. They must be removed with a record of it, or all exist without one; all others must
/// exist.
async fn old_records_are_removed(url: &str, context: &str) -> bool {
    let db = AppDb::open_existing(url).await.unwrap();
    let mut tx = db.begin_read().await.unwrap();
    let chain = tx.verify_audit(|_, _| ()).await.unwrap();
    drop(tx);
    db.close().await;
    let chain = chain.unwrap_or_else(|fault| panic!("{fault:?}: {context}"));
    let gone = chain.newest_removal.is_some();
    let (removed, added) = if gone { (OLD_RECORDS, 1) } else { (0, 0) };
    assert_eq!(
        (chain.removals, chain.anchor.0, chain.head.0, chain.records),
        (added, removed, OLD_RECORDS + NEW_RECORDS + added, OLD_RECORDS + NEW_RECORDS + added - removed),
        "removals, anchor, head and number of records: {context}"
    );
    if let Some(reported) = chain.newest_removal {
        assert_eq!(
            (reported.removed.through, reported.removed.removed),
            (OLD_RECORDS, OLD_RECORDS),
            "{context}"
        );
    }
    gone
}

/// Runs the removal with a failure, unless the removal ends before it.
async fn run(fault_kind: &FaultKind<'_>, template: Option<&Path>, fault_position: FaultPosition) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let target = FaultTarget::new(fault_kind, fault_position);
    let url = match &target {
        FaultTarget::Disk(_) => {
            std::fs::copy(template.unwrap(), directory.join(FILE)).unwrap();
            address(directory)
        }
        FaultTarget::Connection(database, proxy) => {
            fill(&database.url()).await;
            // Not during the start, which waits long for its server.
            proxy.lose_message_after(ANCHOR_TABLE, fault_position.number, fault_position.once);
            database.url()
        }
    };
    let context = || format!("{fault_position:?}\n{}", log(directory));
    let faulty = start(directory, &[WITHOUT_CLICKHOUSE, RETENTION], &target.faulty());
    // The same process retries soon after a single failure.
    let is_through = || {
        let reported = removal_results(directory);
        if fault_position.once { reported.contains(&ReportedResult::Done) } else { !reported.is_empty() }
    };
    if faulty.client.is_some() {
        until(async || (is_through(), context()), |(is_through, _)| *is_through).await;
    }
    drop(faulty);
    let has_failed_operation = target.has_failed(directory);
    let reported = removal_results(directory);
    assert!(
        has_failed_operation || reported == [ReportedResult::Done],
        "no operation failed, but the removal was not made: {}",
        context()
    );
    let gone = old_records_are_removed(&url, &context()).await;
    if reported.contains(&ReportedResult::Done) {
        assert!(gone, "removed records exist again: {}", context());
    } else if !reported.contains(&ReportedResult::Unknown) {
        assert!(!gone, "records are missing although the removal failed: {}", context());
    }

    let healthy = start(directory, &[WITHOUT_CLICKHOUSE, RETENTION], &target.healthy());
    assert!(healthy.client.is_some(), "the service does not start again: {}", context());
    until(
        async || (old_records_are_removed(&url, &context()).await, context()),
        |(old_records_are_removed, _)| *old_records_are_removed,
    )
    .await;
    drop(healthy);
    require_chain(directory, &target, &context());
    Outcome { has_failed_operation, reported }
}

async fn run_on_disk(kind: Kind, default_step: u64) {
    let directory = tempfile::tempdir().unwrap();
    let errors = WriteErrors::compile(directory.path()).unwrap();
    let file = template(directory.path()).await;
    let fault_kind = FaultKind::Disk(&errors, kind);
    run_each(default_step, async |fault_position: FaultPosition| {
        run(&fault_kind, Some(file.as_path()), fault_position).await
    });
}

#[tokio::test]
async fn a_write_that_fails_leaves_the_log_whole() {
    run_on_disk(Kind::Write, WRITES).await;
}

#[tokio::test]
async fn a_sync_that_fails_leaves_the_log_whole() {
    run_on_disk(Kind::Sync, SYNCS).await;
}

#[tokio::test]
async fn a_connection_that_is_lost_leaves_the_log_whole() {
    run_each(MESSAGES, async |fault_position: FaultPosition| {
        run(&FaultKind::Connection, None, fault_position).await
    });
}

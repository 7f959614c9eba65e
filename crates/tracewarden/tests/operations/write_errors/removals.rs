//! The same while the service removes old audit records: they are removed together with a record of it, or all stay and are
//! removed later; records within the retention stay, and the chain is always intact.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tracewarden_appdb::{ADMIN_ROLE, AppDb, NewAuditRecord, NewUser, PasswordHash};
use tracewarden_model::Timestamp;
use tracewarden_testkit::wait::until;
use tracewarden_testkit::write_errors::{Kind, WriteErrors};

use super::{Failing, Failure, Outcome, Place, Told, each, log, require_chain, start};
use crate::support::admin_password_hash;

/// As in the other script, but with fewer writes.
const WRITES: u64 = 13;
const SYNCS: u64 = 1;
const SENDINGS: u64 = 11;

/// Number of old records, and of newer records after them. The service removes that many in one transaction.
const OLD: u64 = 200;
const YOUNG: u64 = 3;

const LONG_AGO: Timestamp = Timestamp::from_micros(0);

/// In the year 2100. Records after these are never removed, however long a run takes.
const NOT_YET: Timestamp = Timestamp::from_micros(4_102_444_800_000_000);

/// No server listens there.
const NO_STORE: (&str, &str) = ("TRACEWARDEN_CLICKHOUSE_URL", "http://127.0.0.1:9");

/// So short that the service searches for old records every second.
const RETENTION: (&str, &str) = ("TRACEWARDEN_AUDIT_RETENTION", "1s");

const FILE: &str = "tracewarden.db";

/// The first table that a removal reads, and a start does not.
const BEGINNING: &str = "audit_anchor";

/// Creates a database with an administrator, so that the start creates none, and with old records.
async fn fill(url: &str) {
    let db = AppDb::open(url, LONG_AGO).await.unwrap();
    let mut tx = db.begin_write().await.unwrap();
    tx.insert_user(&NewUser {
        id: "u1",
        username: "ada",
        password_hash: &PasswordHash(admin_password_hash().to_owned()),
        must_change_password: false,
        created_at: LONG_AGO,
        attributes: &BTreeMap::new(),
        roles: &BTreeSet::from([ADMIN_ROLE.to_owned()]),
    })
    .await
    .unwrap();
    for sequence in 1..=OLD + YOUNG {
        let record = NewAuditRecord {
            completes: None,
            at: if sequence <= OLD { LONG_AGO } else { NOT_YET },
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
    assert!(start(directory, &[NO_STORE], &[]).client.is_some(), "{}", log(directory));
    // Closing copies the write-ahead log into the file.
    AppDb::open_existing(&url).await.unwrap().close().await;
    directory.join(FILE)
}

/// Returns the result of each attempt to remove old records, according to the service's log.
fn attempts(directory: &Path) -> Vec<Told> {
    let told = |line: &str| {
        if line.contains("old audit records removed") {
            return Some(Told::Done);
        }
        let failed = line.contains("old audit records were not removed");
        let unknown = line.contains("it is unknown whether the change was made");
        failed.then_some(if unknown { Told::Unknown } else { Told::NotDone })
    };
    log(directory).lines().filter_map(told).collect()
}

/// Whether the old records are removed. They must be removed with a record of it, or all exist without one; all others must
/// exist.
async fn are_gone(url: &str, context: &str) -> bool {
    let db = AppDb::open_existing(url).await.unwrap();
    let mut tx = db.begin_read().await.unwrap();
    let chain = tx.verify_audit(|_, _| ()).await.unwrap();
    drop(tx);
    db.close().await;
    let chain = chain.unwrap_or_else(|fault| panic!("{fault:?}: {context}"));
    let gone = chain.newest_removal.is_some();
    let (removed, added) = if gone { (OLD, 1) } else { (0, 0) };
    assert_eq!(
        (chain.removals, chain.anchor.0, chain.head.0, chain.records),
        (added, removed, OLD + YOUNG + added, OLD + YOUNG + added - removed),
        "removals, anchor, head and number of records: {context}"
    );
    if let Some(told) = chain.newest_removal {
        assert_eq!((told.removed.through, told.removed.removed), (OLD, OLD), "{context}");
    }
    gone
}

/// Runs the removal with a failure, unless the removal ends before it.
async fn run(failing: &Failing<'_>, template: Option<&Path>, failure: Failure) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let place = Place::new(failing, failure);
    let url = match &place {
        Place::Disk(_) => {
            std::fs::copy(template.unwrap(), directory.join(FILE)).unwrap();
            address(directory)
        }
        Place::Connection(database, proxy) => {
            fill(&database.url()).await;
            // Not during the start, which waits long for its server.
            proxy.lose_message_after(BEGINNING, failure.number, failure.once);
            database.url()
        }
    };
    let context = || format!("{failure:?}\n{}", log(directory));
    let disturbed = start(directory, &[NO_STORE, RETENTION], &place.disturbed());
    // The same process retries soon after a single failure.
    let is_through = || {
        let told = attempts(directory);
        if failure.once { told.contains(&Told::Done) } else { !told.is_empty() }
    };
    if disturbed.client.is_some() {
        until(async || (is_through(), context()), |(is_through, _)| *is_through).await;
    }
    drop(disturbed);
    let is_disturbed = place.has_failed(directory);
    let told = attempts(directory);
    assert!(
        is_disturbed || told == [Told::Done],
        "no operation failed, but the removal was not made: {}",
        context()
    );
    let gone = are_gone(&url, &context()).await;
    if told.contains(&Told::Done) {
        assert!(gone, "removed records exist again: {}", context());
    } else if !told.contains(&Told::Unknown) {
        assert!(!gone, "records are missing although the removal failed: {}", context());
    }

    let healthy = start(directory, &[NO_STORE, RETENTION], &place.healthy());
    assert!(healthy.client.is_some(), "the service does not start again: {}", context());
    until(async || (are_gone(&url, &context()).await, context()), |(are_gone, _)| *are_gone).await;
    drop(healthy);
    require_chain(directory, &place, &context());
    Outcome { is_disturbed, told }
}

async fn on_a_disk(kind: Kind, usual: u64) {
    let directory = tempfile::tempdir().unwrap();
    let errors = WriteErrors::compile(directory.path()).unwrap();
    let file = template(directory.path()).await;
    let failing = Failing::Disk(&errors, kind);
    each(usual, async |failure: Failure| run(&failing, Some(file.as_path()), failure).await);
}

#[tokio::test]
async fn a_write_that_fails_leaves_the_log_whole() {
    on_a_disk(Kind::Write, WRITES).await;
}

#[tokio::test]
async fn a_sync_that_fails_leaves_the_log_whole() {
    on_a_disk(Kind::Sync, SYNCS).await;
}

#[tokio::test]
async fn a_connection_that_is_lost_leaves_the_log_whole() {
    each(SENDINGS, async |failure: Failure| run(&Failing::Connection, None, failure).await);
}

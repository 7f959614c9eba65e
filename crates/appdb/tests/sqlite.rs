//! What holds for the SQLite file alone: its mode, and rows that somebody else changed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use sqlx::{Connection as _, Executor as _};
use tracewarden_appdb::{AppDb, DbError, NewAuditRecord, NewUser, PasswordHash};
use tracewarden_model::Timestamp;

struct Fixture {
    _directory: tempfile::TempDir,
    path: std::path::PathBuf,
    db: AppDb,
}

async fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("own.db");
    let db = AppDb::open(&format!("sqlite:{}", path.display()), Timestamp::from_micros(0)).await.unwrap();
    let mut tx = db.begin_write().await.unwrap();
    tx.insert_user(&NewUser {
        id: "u1",
        username: "ada",
        password_hash: &PasswordHash("x".to_owned()),
        must_change_password: false,
        created_at: Timestamp::from_micros(0),
        attributes: &BTreeMap::new(),
        roles: &BTreeSet::new(),
    })
    .await
    .unwrap();
    for action in ["one", "two", "three"] {
        tx.append_audit(&NewAuditRecord {
            completes: None,
            at: Timestamp::from_micros(1),
            actor_id: None,
            actor_name: None,
            credential_id: None,
            via: "service",
            action,
            outcome: "success",
            request_id: "r",
            client_ip: None,
            user_agent: None,
            target: None,
            detail: "{}",
        })
        .await
        .unwrap();
    }
    tx.commit().await.unwrap();
    Fixture { _directory: directory, path, db }
}

impl Fixture {
    async fn tamper(&self, statement: &'static str) {
        sqlx::any::install_default_drivers();
        let mut other =
            sqlx::AnyConnection::connect(&format!("sqlite:{}", self.path.display())).await.unwrap();
        other.execute(statement).await.unwrap();
        other.close().await.unwrap();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = fixture().await;
    let mut seen = 0;
    for entry in std::fs::read_dir(fixture.path.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
        seen += 1;
    }
    assert!(seen >= 2, "the database and its log");
}

#[tokio::test]
async fn an_unreadable_row_is_an_error() {
    let fixture = fixture().await;
    for statement in [
        "UPDATE users SET disabled = 2",
        "UPDATE users SET disabled = 0, attributes = '{\"a\": 1}'",
        "UPDATE users SET attributes = 'not json'",
        "UPDATE users SET attributes = '{}', created_at = 'yesterday'",
    ] {
        fixture.tamper(statement).await;
        let found = fixture.db.begin_read().await.unwrap().user_by_id("u1").await;
        assert!(matches!(found, Err(DbError::Corrupt(_))), "{statement}: {found:?}");
    }
    fixture.tamper("INSERT INTO access_models VALUES (1, '{\"fields\": []}', 0, '', '')").await;
    assert_eq!(fixture.db.begin_read().await.unwrap().access_model().await.unwrap().version, 1);
    fixture.tamper("INSERT INTO access_models VALUES (2, '{\"fields\": [], \"more\": 1}', 0, '', '')").await;
    let found = fixture.db.begin_read().await.unwrap().access_model().await;
    assert!(matches!(found, Err(DbError::Corrupt(_))), "a document of a newer kind");
}

#[tokio::test]
async fn tampering_breaks_the_chain() {
    for (statement, sequence) in [
        ("UPDATE audit SET outcome = 'failed' WHERE sequence = 2", 2),
        ("UPDATE audit SET actor_id = '' WHERE sequence = 1", 1),
        ("UPDATE audit SET completes = 1 WHERE sequence = 3", 3),
        ("DELETE FROM audit WHERE sequence = 2", 3),
        ("DELETE FROM audit WHERE sequence = 3", 3),
        ("UPDATE audit SET hash = previous_hash WHERE sequence = 1", 1),
        ("UPDATE audit SET at = at + 1 WHERE sequence = 3", 3),
    ] {
        let fixture = fixture().await;
        let mut tx = fixture.db.begin_read().await.unwrap();
        assert_eq!(tx.verify_audit(|_, _| ()).await.unwrap().err(), None);
        drop(tx);
        fixture.tamper(statement).await;
        let fault = fixture.db.begin_read().await.unwrap().verify_audit(|_, _| ()).await.unwrap().err();
        assert_eq!(fault.map(|fault| fault.sequence), Some(sequence), "{statement}");
    }
}

#[tokio::test]
async fn other_addresses_are_refused() {
    for url in ["postgre://localhost/x", "sqlite:", "sqlite::memory:", "own.db", "mysql://x"] {
        let error = AppDb::open(url, Timestamp::from_micros(0)).await.err();
        assert!(matches!(error, Some(DbError::Configuration(_))), "{url}: {error:?}");
    }
}

//! Tests for the SQLite file only: its mode, its address, and a file of another format.

use tracewarden_appdb::{AppDb, DbError};
use tracewarden_model::Timestamp;

use crate::fixture::{Fixture, add_user};

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::sqlite();
    let db = fixture.open().await;
    add_user(&db, "u1", "ada", &[]).await.unwrap();
    let Fixture::Sqlite { path, .. } = &fixture else { panic!() };
    let mut seen = 0;
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
        seen += 1;
    }
    assert!(seen >= 2, "the database and its log");
}

#[tokio::test]
async fn other_addresses_are_refused() {
    for url in ["postgre://localhost/x", "sqlite:", "sqlite::memory:", "own.db", "mysql://x"] {
        let error = AppDb::open(url, Timestamp::from_micros(0)).await.err();
        assert!(matches!(error, Some(DbError::Configuration(_))), "{url}: {error:?}");
    }
}

#[tokio::test]
async fn other_files_are_refused_and_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    let url = format!("sqlite:{}", path.display());
    let error = AppDb::open_existing(&url).await.err();
    assert!(matches!(error, Some(DbError::Configuration(_))), "{error:?}");
    assert!(!path.exists());
    std::fs::write(&path, "no database, but long enough to be taken for one".repeat(40)).unwrap();
    for opened in [AppDb::open_existing(&url).await, AppDb::open(&url, Timestamp::from_micros(0)).await] {
        let error = opened.err().unwrap();
        assert!(error.to_string().contains("is not a SQLite database"), "{error}");
    }
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("no database"));
}

#[tokio::test]
async fn a_number_column_that_holds_a_text_is_an_error() {
    let fixture = Fixture::sqlite();
    let db = fixture.open().await;
    add_user(&db, "u1", "ada", &[]).await.unwrap();
    fixture.run(&["UPDATE users SET created_at = 'yesterday'"]).await;
    let found = db.begin_read().await.unwrap().user_by_id("u1").await;
    assert!(matches!(found, Err(DbError::Corrupt(_))), "{found:?}");
}

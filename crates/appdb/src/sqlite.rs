//! A database in one SQLite file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::any::AnyPoolOptions;
use sqlx::{AnyConnection, AnyPool, Connection as _, Executor as _};
use tokio::time::{Instant, sleep};
use url::Url;

use crate::error::{DbError, sqlite_code};

/// Time-out for a statement that waits for another process's lock, and for acquiring a connection.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
const CONNECTIONS_MAX: u32 = 8;

/// Pause between two attempts to change the journal mode.
const PAUSE: Duration = Duration::from_millis(10);

/// Settings of each connection. They do not include the journal mode, which the file stores: a file that belongs to
/// another program must not be changed.
const SETUP: &str = "PRAGMA busy_timeout = 5000; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; \
                     PRAGMA trusted_schema = OFF";

/// Opens the file. It must exist, unless `create` is set: then it is created with mode 0600.
pub(crate) async fn connect(path: &Path, create: bool) -> Result<AnyPool, DbError> {
    if create {
        create_private(path)?;
    } else if !path.is_file() {
        return Err(DbError::Configuration(format!("there is no file `{}`", path.display())));
    }
    let url = file_url(path)?;
    // The pool retries until its time-out and then does not report the cause.
    let mut first = AnyConnection::connect(&url).await?;
    first.execute(SETUP).await.map_err(|error| open_error(path, error))?;
    if create {
        enable_wal(&mut first).await.map_err(|error| open_error(path, error))?;
    }
    first.close().await?;
    let pool = AnyPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(TIMEOUT)
        // A file connection fails only while it runs a statement, and `after_release` checks it when it is returned.
        .test_before_acquire(false)
        .after_connect(|connection, _| Box::pin(async move { connection.execute(SETUP).await.map(drop) }))
        // When the disk is full or fails, SQLite rolls the transaction back by itself. The driver's own rollback then
        // fails, and the driver considers the transaction open for ever: this connection could no longer write, and
        // readers on it would stay at one snapshot and could get access that has long been revoked.
        .after_release(|connection, _| {
            Box::pin(async move {
                if !connection.is_in_transaction() {
                    return Ok(true);
                }
                // The response arrives after the rollback of a dropped transaction.
                connection.ping().await?;
                Ok(!connection.is_in_transaction())
            })
        })
        .connect(&url)
        .await?;
    Ok(pool)
}

/// Switches to WAL mode, in which readers never wait for the writer. Several processes that start together may all do
/// this. Changing the mode takes an exclusive lock without waiting, regardless of `busy_timeout`.
async fn enable_wal(connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
    /// `SQLITE_BUSY`.
    const BUSY: u32 = 5;
    let begun = Instant::now();
    loop {
        match connection.execute("PRAGMA journal_mode = WAL").await {
            Err(error) if sqlite_code(&error) == Some(BUSY) && begun.elapsed() < TIMEOUT => {
                sleep(PAUSE).await
            }
            done => return done.map(drop),
        }
    }
}

fn open_error(path: &Path, error: sqlx::Error) -> DbError {
    /// `SQLITE_NOTADB`.
    const NO_DATABASE: u32 = 26;
    if sqlite_code(&error) == Some(NO_DATABASE) {
        return DbError::Configuration(format!("`{}` is not a SQLite database", path.display()));
    }
    DbError::from(error)
}

/// Returns the path in `sqlite:PATH`, made absolute.
pub(crate) fn path(rest: &str) -> Result<PathBuf, DbError> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() || path.starts_with(":memory:") {
        return Err(DbError::Configuration("the address `sqlite:PATH` needs the path of a file".to_owned()));
    }
    if path.contains('?') {
        return Err(DbError::Configuration(
            "the address `sqlite:PATH` takes a path without parameters, so without `?`".to_owned(),
        ));
    }
    std::path::absolute(path).map_err(|error| DbError::Configuration(error.to_string()))
}

/// Creates the file with mode 0600. It holds password and token hashes, so other users must never be able to read it;
/// SQLite gives its side files the same mode. The file gets its name only after it is closed: closing a file releases
/// all locks that the process holds on it, so opening a file that other connections of this process use would release
/// their locks.
fn create_private(path: &Path) -> Result<(), DbError> {
    let refuse = |error: std::io::Error| DbError::Configuration(format!("{}: {error}", path.display()));
    if !path.try_exists().map_err(refuse)? {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let new = tempfile::Builder::new().prefix(".tracewarden-").tempfile_in(directory).map_err(refuse)?;
        match new.into_temp_path().persist_noclobber(path) {
            Ok(()) => {}
            Err(persist_error) if persist_error.error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(persist_error) => return Err(refuse(persist_error.error)),
        }
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(refuse)?;
    }
    Ok(())
}

fn file_url(path: &Path) -> Result<String, DbError> {
    let url = Url::from_file_path(path).ok().filter(|_| path.to_str().is_some());
    let url = url.ok_or_else(|| DbError::Configuration("the path is not UTF-8".to_owned()))?;
    Ok(format!("sqlite://{}?mode=rw", url.path()))
}

#[cfg(test)]
mod tests {
    use sqlx::{AnyPool, Row as _};

    use super::*;

    async fn new_database() -> (tempfile::TempDir, PathBuf, AnyPool) {
        sqlx::any::install_default_drivers();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.db");
        let pool = connect(&path, true).await.unwrap();
        sqlx::query("CREATE TABLE t (a TEXT)").execute(&pool).await.unwrap();
        wait_until_returned(&pool).await;
        (directory, path, pool)
    }

    /// Waits until all connections are back in the pool, so that the next one acquired is not new.
    async fn wait_until_returned(pool: &AnyPool) {
        while pool.num_idle() < pool.size() as usize {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Makes the database full, as far as the connection knows. SQLite then rolls the transaction back by itself.
    async fn fill(pool: &AnyPool) {
        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        sqlx::query("PRAGMA max_page_count = 3").execute(&mut *tx).await.unwrap();
        let insert = "INSERT INTO t VALUES (hex(randomblob(100000)))";
        let error = sqlx::query(insert).execute(&mut *tx).await.unwrap_err();
        assert!(error.to_string().contains("database or disk is full"), "{error}");
        drop(tx);
        wait_until_returned(pool).await;
    }

    async fn rows(pool: &AnyPool) -> i64 {
        let mut tx = pool.begin().await.unwrap();
        let row = sqlx::query("SELECT count(*) FROM t").fetch_one(&mut *tx).await.unwrap();
        drop(tx);
        wait_until_returned(pool).await;
        row.try_get(0).unwrap()
    }

    #[tokio::test]
    async fn writes_continue_after_a_full_disk() {
        let (_directory, _, pool) = new_database().await;
        fill(&pool).await;
        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        sqlx::query("INSERT INTO t VALUES ('a')").execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(rows(&pool).await, 1);
    }

    #[tokio::test]
    async fn reads_are_current_after_a_full_disk() {
        let (_directory, path, pool) = new_database().await;
        fill(&pool).await;
        let other = connect(&path, false).await.unwrap();
        for count in 0..3 {
            assert_eq!(rows(&pool).await, count);
            sqlx::query("INSERT INTO t VALUES ('a')").execute(&other).await.unwrap();
        }
    }

    /// As replicas and tests do. Each task holds its locks and writes while others still open the file.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_new_file_can_be_opened_concurrently() {
        sqlx::any::install_default_drivers();
        let directory = tempfile::tempdir().unwrap();
        for round in 0..30 {
            let path = directory.path().join(format!("{round}.db"));
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let path = path.clone();
                    tokio::spawn(async move {
                        let pool = connect(&path, true).await.unwrap();
                        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
                        sqlx::query("CREATE TABLE IF NOT EXISTS t (a BIGINT)")
                            .execute(&mut *tx)
                            .await
                            .unwrap();
                        let next = "INSERT INTO t SELECT count(*) FROM t";
                        sqlx::query(next).execute(&mut *tx).await.unwrap();
                        tx.commit().await.unwrap();
                    })
                })
                .collect();
            for thread in threads {
                thread.await.unwrap();
            }
            let pool = connect(&path, false).await.unwrap();
            let found = sqlx::query("SELECT count(DISTINCT a) FROM t").fetch_one(&pool).await.unwrap();
            assert_eq!(found.try_get::<i64, _>(0).unwrap(), 8, "each read the writes of those before it");
        }
        let left = std::fs::read_dir(directory.path()).unwrap();
        let stray = left
            .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with(".tracewarden-"));
        assert_eq!(stray.count(), 0, "no write of a late transaction remains");
    }

    #[test]
    fn special_characters_in_paths_are_literal() {
        for wrong in ["", "//", ":memory:", "own.db?mode=ro", "///tmp/own.db?cache=shared"] {
            assert!(matches!(path(wrong), Err(DbError::Configuration(_))), "{wrong}");
        }
        assert_eq!(path("///tmp/own #1.db").unwrap(), Path::new("/tmp/own #1.db"));
        let error = path("own.db?key=hunter2").unwrap_err().to_string();
        assert!(error.contains("without parameters") && !error.contains("hunter2"), "{error}");
    }
}

//! A database in one SQLite file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::any::AnyPoolOptions;
use sqlx::{AnyConnection, AnyPool, Connection as _, Executor as _};
use tokio::time::{Instant, sleep};

use crate::error::DbError;

/// How long a statement waits for another process's lock, and a caller for a connection.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
const CONNECTIONS_MAX: u32 = 8;

/// Between two looks at whether the file is free.
const PAUSE: Duration = Duration::from_millis(10);

/// Without the journal's mode, which the file keeps: one that turns out to be somebody else's must stay as it is.
const SETUP: &str = "PRAGMA busy_timeout = 5000; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; \
                     PRAGMA trusted_schema = OFF";

/// Opens the file, which exists, or is created with mode 0600 when `create`.
pub(crate) async fn connect(path: &Path, create: bool) -> Result<AnyPool, DbError> {
    if create {
        create_private(path)?;
    } else if !path.is_file() {
        return Err(DbError::Configuration(format!("there is no file `{}`", path.display())));
    }
    let url = file_url(path)?;
    // The pool tries until its time is over and then does not say what was wrong.
    let mut first = AnyConnection::connect(&url).await?;
    first.execute(SETUP).await.map_err(|error| unusable(path, error))?;
    if create {
        keep_a_log_ahead(&mut first).await.map_err(|error| unusable(path, error))?;
    }
    first.close().await?;
    let pool = AnyPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(PATIENCE)
        // What ends a connection to a file ends it while it works, and it is looked at when it comes back.
        .test_before_acquire(false)
        .after_connect(|connection, _| {
            Box::pin(async move {
                connection.execute(SETUP).await?;
                Ok(())
            })
        })
        // When the disk is full or fails, SQLite gives a transaction up by itself. The rollback that follows then fails, and
        // the driver believes in the transaction for ever: nobody could write with this connection any more, and who reads
        // with it would stay at one snapshot and so be let in by what has long been taken away.
        .after_release(|connection, _| {
            Box::pin(async move {
                if !connection.is_in_transaction() {
                    return Ok(true);
                }
                // The answer comes after the rollback that a dropped transaction left behind.
                connection.ping().await?;
                Ok(!connection.is_in_transaction())
            })
        })
        .connect(&url)
        .await?;
    Ok(pool)
}

/// Readers then never wait for the writer. Of several processes that start together each asks for it, and changing the
/// mode takes the file for itself without waiting, whatever `busy_timeout` says.
async fn keep_a_log_ahead(connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
    let begun = Instant::now();
    loop {
        match connection.execute("PRAGMA journal_mode = WAL").await {
            Err(error) if is_busy(&error) && begun.elapsed() < PATIENCE => sleep(PAUSE).await,
            done => return done.map(drop),
        }
    }
}

fn is_busy(error: &sqlx::Error) -> bool {
    /// `SQLITE_BUSY`, in the lowest byte of each of its kinds.
    const BUSY: u32 = 5;
    let code = error.as_database_error().and_then(|inner| inner.code());
    code.and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xFF == BUSY)
}

fn unusable(path: &Path, error: sqlx::Error) -> DbError {
    /// `SQLITE_NOTADB`.
    const NO_DATABASE: &str = "26";
    let code = error.as_database_error().and_then(|inner| inner.code());
    if code.as_deref() == Some(NO_DATABASE) {
        return DbError::Configuration(format!("`{}` is no SQLite database", path.display()));
    }
    DbError::from(error)
}

/// The path in `sqlite:PATH`, absolute.
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

/// The file holds password and token hashes: it must not be readable by others even for a moment, and SQLite gives its
/// side files the same mode. It appears under its name only after it is closed: closing a file gives up all locks that the
/// process holds on it, so opening one that other connections of this process have open already would take theirs away.
fn create_private(path: &Path) -> Result<(), DbError> {
    let refuse = |error: std::io::Error| DbError::Configuration(format!("{}: {error}", path.display()));
    if !path.try_exists().map_err(refuse)? {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let new = tempfile::Builder::new().prefix(".tracewarden-").tempfile_in(directory).map_err(refuse)?;
        match new.into_temp_path().persist_noclobber(path) {
            Ok(()) => {}
            Err(lost) if lost.error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(lost) => return Err(refuse(lost.error)),
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
    let text = path.to_str().ok_or_else(|| DbError::Configuration("the path is not UTF-8".to_owned()))?;
    let mut url = String::from("sqlite://");
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url.push_str("?mode=rw");
    Ok(url)
}

#[cfg(test)]
mod tests {
    use sqlx::{AnyPool, Row as _};

    use super::*;

    async fn fresh() -> (tempfile::TempDir, PathBuf, AnyPool) {
        sqlx::any::install_default_drivers();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.db");
        let pool = connect(&path, true).await.unwrap();
        sqlx::query("CREATE TABLE t (a TEXT)").execute(&pool).await.unwrap();
        returned(&pool).await;
        (directory, path, pool)
    }

    /// Waits until all connections are back, so that the next one to be taken is not a new one.
    async fn returned(pool: &AnyPool) {
        while pool.num_idle() < pool.size() as usize {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Fills the database, as far as the connection knows. SQLite then gives the transaction up by itself.
    async fn fill(pool: &AnyPool) {
        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        sqlx::query("PRAGMA max_page_count = 3").execute(&mut *tx).await.unwrap();
        let insert = "INSERT INTO t VALUES (hex(randomblob(100000)))";
        let error = sqlx::query(insert).execute(&mut *tx).await.unwrap_err();
        assert!(error.to_string().contains("database or disk is full"), "{error}");
        drop(tx);
        returned(pool).await;
    }

    async fn rows(pool: &AnyPool) -> i64 {
        let mut tx = pool.begin().await.unwrap();
        let row = sqlx::query("SELECT count(*) FROM t").fetch_one(&mut *tx).await.unwrap();
        drop(tx);
        returned(pool).await;
        row.try_get(0).unwrap()
    }

    #[tokio::test]
    async fn after_a_full_disk_writing_goes_on() {
        let (_directory, _, pool) = fresh().await;
        fill(&pool).await;
        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        sqlx::query("INSERT INTO t VALUES ('a')").execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(rows(&pool).await, 1);
    }

    #[tokio::test]
    async fn after_a_full_disk_reading_is_not_of_the_past() {
        let (_directory, path, pool) = fresh().await;
        fill(&pool).await;
        let other = connect(&path, false).await.unwrap();
        for count in 0..3 {
            assert_eq!(rows(&pool).await, count);
            sqlx::query("INSERT INTO t VALUES ('a')").execute(&other).await.unwrap();
        }
    }

    /// As replicas and tests do. Each holds its locks and writes while others still arrive.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn many_may_open_a_new_file_at_once() {
        sqlx::any::install_default_drivers();
        let directory = tempfile::tempdir().unwrap();
        for round in 0..30 {
            let path = directory.path().join(format!("{round}.db"));
            let openers: Vec<_> = (0..8)
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
            for opener in openers {
                opener.await.unwrap();
            }
            let pool = connect(&path, false).await.unwrap();
            let found = sqlx::query("SELECT count(DISTINCT a) FROM t").fetch_one(&pool).await.unwrap();
            assert_eq!(found.try_get::<i64, _>(0).unwrap(), 8, "each saw what those before it wrote");
        }
        let left = std::fs::read_dir(directory.path()).unwrap();
        let stray = left
            .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with(".tracewarden-"));
        assert_eq!(stray.count(), 0, "nothing is left of those who came too late");
    }

    #[test]
    fn a_path_is_nothing_but_a_path() {
        for wrong in ["", "//", ":memory:", "own.db?mode=ro", "///tmp/own.db?cache=shared"] {
            assert!(matches!(path(wrong), Err(DbError::Configuration(_))), "{wrong}");
        }
        assert_eq!(path("///tmp/own #1.db").unwrap(), Path::new("/tmp/own #1.db"));
        let error = path("own.db?key=hunter2").unwrap_err().to_string();
        assert!(error.contains("without parameters") && !error.contains("hunter2"), "{error}");
    }
}

//! A database in one SQLite file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::any::AnyPoolOptions;
use sqlx::{AnyConnection, AnyPool, Connection as _, Executor as _};

use crate::error::DbError;

/// How long a statement waits for another process's lock, and a caller for a connection.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
const CONNECTIONS_MAX: u32 = 8;

const NEW: &str = "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                   PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF";
/// Without the journal's mode: a file that turns out to be somebody else's must stay as it is.
const EXISTING: &str = "PRAGMA busy_timeout = 5000; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; \
                        PRAGMA trusted_schema = OFF";

/// Opens the file, which exists, or is created with mode 0600 when `create`.
pub(crate) async fn connect(path: &Path, create: bool) -> Result<AnyPool, DbError> {
    if create {
        create_private(path)?;
    } else if !path.is_file() {
        return Err(DbError::Configuration(format!("there is no file `{}`", path.display())));
    }
    let setup = if create { NEW } else { EXISTING };
    let url = file_url(path)?;
    // The pool tries until its time is over and then does not say what was wrong.
    let mut first = AnyConnection::connect(&url).await?;
    first.execute(setup).await.map_err(|error| unusable(path, error))?;
    first.close().await?;
    let pool = AnyPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(PATIENCE)
        // What ends a connection to a file ends it while it works, and it is looked at when it comes back.
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            Box::pin(async move {
                connection.execute(setup).await?;
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
/// side files the same mode.
fn create_private(path: &Path) -> Result<(), DbError> {
    let refuse = |error: std::io::Error| DbError::Configuration(format!("{}: {error}", path.display()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let file = options.open(path).map_err(refuse)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(refuse)?;
    }
    drop(file);
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

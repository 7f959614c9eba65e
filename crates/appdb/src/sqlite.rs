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
        .after_connect(move |connection, _| {
            Box::pin(async move {
                connection.execute(setup).await?;
                Ok(())
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

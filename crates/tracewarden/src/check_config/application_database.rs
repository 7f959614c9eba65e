//! Checks the application database without changing it.

use std::path::Path;

use rustix::fs::Access;
use tracewarden_model::Binding;
use tracewarden_service::{AppDb, DbError, DbInspection, SchemaState};

use super::{Finding, GUIDE, private};
use crate::configuration::Configuration;
use crate::first_start::InitialPassword;

/// The trace source, as far as the application database shows it.
#[derive(Debug)]
pub(super) enum Bound {
    To(Box<Binding>),
    Nothing,
    /// The database could not be read.
    Unknown,
}

impl Bound {
    pub(super) fn binding(&self) -> Option<&Binding> {
        match self {
            Self::To(binding) => Some(binding),
            Self::Nothing | Self::Unknown => None,
        }
    }
}

/// Contents of the application database that other checks need.
struct Contents {
    bound: Bound,
    /// Whether the next start creates the first administrator.
    without_users: bool,
}

impl Contents {
    const NONE: Self = Self { bound: Bound::Nothing, without_users: true };
    const UNKNOWN: Self = Self { bound: Bound::Unknown, without_users: false };
}

/// Adds the findings on the application database.
pub(super) async fn look(configuration: &Configuration, findings: &mut Vec<Finding>) -> Bound {
    let contents = contents(configuration, findings).await;
    if contents.without_users && configuration.admin_password_hash.is_none() {
        findings.push(first_password(configuration));
    }
    contents.bound
}

/// Checks that the first administrator's password can be written to a file. `check-config` itself usually runs on a
/// terminal, but the service usually runs without one.
fn first_password(configuration: &Configuration) -> Finding {
    match InitialPassword::look(configuration) {
        Ok(path) => Finding::ok(format!(
            "first administrator: without a terminal, the generated password goes into `{}`",
            path.display()
        )),
        Err(why) => Finding::error(format!("first administrator: {why}")),
    }
}

async fn contents(configuration: &Configuration, findings: &mut Vec<Finding>) -> Contents {
    let url = configuration.database_url.expose();
    if let Some(path) = AppDb::file(url) {
        if !path.exists() {
            findings.push(absent(&path));
            return Contents::NONE;
        }
        findings.push(private(&path, "is the application database"));
        if rustix::fs::access(&path, Access::WRITE_OK).is_err() {
            findings.push(Finding::error(format!(
                "application database: the user who runs this check cannot write `{}`: run it as the \
                 service's user, or make the file writable for that user",
                path.display()
            )));
        }
    }
    let inspection = match AppDb::inspect(url).await {
        Ok(inspection) => inspection,
        // The server may be up again when the service starts.
        Err(error @ DbError::Unavailable(_)) => {
            findings.push(Finding::error(format!("{error}; start the server, or correct `database_url`")));
            return Contents::UNKNOWN;
        }
        Err(error) => {
            findings.push(Finding::error(format!("{error}; correct `database_url`")));
            return Contents::UNKNOWN;
        }
    };
    findings.extend(say(&inspection));
    match inspection.schema {
        SchemaState::Current => {}
        SchemaState::Absent => return Contents::NONE,
        SchemaState::Older(_) | SchemaState::Foreign(_) | SchemaState::Hidden => return Contents::UNKNOWN,
    }
    if !inspection.missing_rights.is_empty() {
        return Contents::UNKNOWN;
    }
    match read(url).await {
        Ok(contents) => contents,
        Err(error) => {
            findings.push(Finding::error(format!(
                "application database: the trace source cannot be read: {error}"
            )));
            Contents::UNKNOWN
        }
    }
}

/// Describes the result of an inspection for the operator.
fn say(inspection: &DbInspection) -> Vec<Finding> {
    let mut findings = Vec::new();
    let product = &inspection.product;
    findings.push(match &inspection.schema {
        SchemaState::Current => Finding::ok(format!("application database: {product}, schema current")),
        SchemaState::Absent => {
            Finding::ok(format!("application database: {product}, empty; the next start creates its tables"))
        }
        SchemaState::Older(steps) => Finding::warning(format!(
            "application database: {product}, schema {steps} step(s) behind; the next start applies them: \
             make a backup, and stop older versions of the service first"
        )),
        SchemaState::Foreign(reason) => {
            Finding::error(format!("application database: {product}, not usable by this version: {reason}"))
        }
        SchemaState::Hidden => Finding::error(format!(
            "application database: {product}, but the role of `database_url` cannot read its tables"
        )),
    });
    findings.extend(inspection.missing_rights.iter().map(|statement| {
        Finding::error(format!(
            "application database: the role of `database_url` lacks rights; as the owner, run `{statement}`"
        ))
    }));
    match inspection.encrypted {
        Some(false) => findings.push(Finding::warning(
            "application database: the connection to another machine is not encrypted: add \
             `sslmode=verify-full` to `database_url`",
        )),
        Some(true) => findings.push(Finding::ok("application database: the connection is encrypted")),
        None => {}
    }
    if inspection.superuser {
        findings.push(Finding::warning(format!(
            "application database: the service connects as a superuser of the server: use a role that owns \
             only this database ({GUIDE})"
        )));
    }
    findings
}

fn absent(path: &Path) -> Finding {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if directory.is_dir() && rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        Finding::error(format!(
            "application database: the user who runs this check cannot write into `{}`: run it as the \
             service's user, or make the directory writable for that user",
            directory.display()
        ))
    } else if directory.is_dir() {
        Finding::ok(format!(
            "application database: `{}` does not exist yet; the next start creates it",
            path.display()
        ))
    } else {
        Finding::error(format!(
            "application database: the directory `{}` does not exist: create it",
            directory.display()
        ))
    }
}

async fn read(url: &str) -> Result<Contents, DbError> {
    let db = AppDb::open_existing(url).await?;
    let mut tx = db.begin_read().await?;
    let model = tx.access_model().await?;
    let without_users = tx.users("", 1).await?.is_empty();
    drop(tx);
    db.close().await;
    let bound = model.binding.map_or(Bound::Nothing, |binding| Bound::To(Box::new(binding)));
    Ok(Contents { bound, without_users })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(schema: SchemaState, encrypted: Option<bool>, superuser: bool) -> Vec<String> {
        let product = "PostgreSQL 15".to_owned();
        let findings =
            say(&DbInspection { product, schema, encrypted, superuser, missing_rights: Vec::new() });
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn warns_about_unencrypted_remote_connections() {
        assert_eq!(
            lines(SchemaState::Current, None, false),
            ["ok       application database: PostgreSQL 15, schema current"]
        );
        let open = lines(SchemaState::Current, Some(false), false);
        assert!(
            open.iter().any(|line| line.starts_with("warning") && line.contains("sslmode=verify-full")),
            "{open:?}"
        );
        let encrypted = lines(SchemaState::Current, Some(true), false);
        assert!(encrypted.iter().all(|line| line.starts_with("ok")), "{encrypted:?}");
    }

    #[test]
    fn warns_about_superusers() {
        let lines = lines(SchemaState::Absent, None, true);
        assert!(
            lines.iter().any(|line| line.starts_with("warning") && line.contains("superuser")),
            "{lines:?}"
        );
    }
}

//! Checks the application database without changing it.

use std::path::Path;

use rustix::fs::Access;
use secrecy::ExposeSecret as _;
use tracewarden_model::Binding;
use tracewarden_service::{AppDb, DbError, DbInspection, SchemaState};

use super::file_permissions::check_permissions;
use super::finding::{Finding, GUIDE};
use crate::configuration::Configuration;
use crate::first_start::InitialPassword;

/// Contents of the application database that other checks need.
pub(super) struct Contents {
    /// The trace source, if one is bound.
    pub(super) binding: Option<Binding>,
    /// Whether the next start creates the first administrator.
    without_users: bool,
}

impl Contents {
    /// Contents of a database that does not exist yet.
    const NONE: Self = Self { binding: None, without_users: true };
}

/// Adds the findings on the application database. Returns `None` if it could not be read.
pub(super) async fn check(configuration: &Configuration, findings: &mut Vec<Finding>) -> Option<Contents> {
    let contents = contents(configuration, findings).await;
    let creates_administrator = contents.as_ref().is_some_and(|contents| contents.without_users);
    if creates_administrator && configuration.admin_password_hash.is_none() {
        findings.push(check_initial_password(configuration));
    }
    contents
}

/// Checks that the first administrator's password can be written to a file. `check-config` itself usually runs on a
/// terminal, but the service usually runs without one.
fn check_initial_password(configuration: &Configuration) -> Finding {
    match InitialPassword::check(configuration) {
        Ok(path) => Finding::ok(format!(
            "first administrator: without a terminal, the generated password goes into `{}`",
            path.display()
        )),
        Err(reason) => Finding::error(format!("first administrator: {reason}")),
    }
}

async fn contents(configuration: &Configuration, findings: &mut Vec<Finding>) -> Option<Contents> {
    let url = configuration.database_url.expose_secret();
    if let Some(path) = AppDb::file(url) {
        if !path.exists() {
            findings.push(missing_file(&path));
            return Some(Contents::NONE);
        }
        findings.push(check_permissions(&path, "is the application database"));
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
        Err(error) => {
            // The server may be up again when the service starts.
            let is_down = matches!(error, DbError::Unavailable(_));
            let start = if is_down { "start the server, or " } else { "" };
            findings.push(Finding::error(format!("{error}; {start}correct `database_url`")));
            return None;
        }
    };
    findings.extend(describe(&inspection));
    match inspection.schema {
        SchemaState::Current if inspection.missing_privileges.is_empty() => {}
        SchemaState::Absent => return Some(Contents::NONE),
        _ => return None,
    }
    match read(url).await {
        Ok(contents) => Some(contents),
        Err(error) => {
            findings.push(Finding::error(format!(
                "application database: the trace source cannot be read: {error}"
            )));
            None
        }
    }
}

/// Describes the result of an inspection for the operator.
fn describe(inspection: &DbInspection) -> Vec<Finding> {
    let mut findings = Vec::new();
    let product = &inspection.product;
    findings.push(match &inspection.schema {
        SchemaState::Current => Finding::ok(format!("application database: {product}, schema current")),
        SchemaState::Absent => {
            Finding::ok(format!("application database: {product}, empty; the next start creates its tables"))
        }
        SchemaState::Outdated(steps) => Finding::warning(format!(
            "application database: {product}, schema {steps} step(s) behind; the next start applies them: \
             make a backup, and stop older versions of the service first"
        )),
        SchemaState::Incompatible(reason) => {
            Finding::error(format!("application database: {product}, not usable by this version: {reason}"))
        }
        SchemaState::PermissionDenied => Finding::error(format!(
            "application database: {product}, but the role of `database_url` cannot read its tables"
        )),
    });
    findings.extend(inspection.missing_privileges.iter().map(|statement| {
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

fn missing_file(path: &Path) -> Finding {
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
    let without_users = tx.users(None, "", 1).await?.is_empty();
    drop(tx);
    db.close().await;
    Ok(Contents { binding: model.binding, without_users })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(schema: SchemaState, encrypted: Option<bool>, superuser: bool) -> Vec<String> {
        let product = "PostgreSQL 15".to_owned();
        let findings =
            describe(&DbInspection { product, schema, encrypted, superuser, missing_privileges: Vec::new() });
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

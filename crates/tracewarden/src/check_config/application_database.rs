//! Checks the application database without changing it.

use std::path::Path;

use rustix::fs::Access;
use tracewarden_model::Binding;
use tracewarden_service::{AppDb, DbError, DbInspection, SchemaState};

use super::file_permissions::check_permissions;
use super::finding::{Finding, GUIDE};
use crate::configuration::Configuration;
use crate::first_start::InitialPassword;

/// The trace source, as far as the application database shows it.
#[derive(Debug)]
pub(super) enum TraceSource {
    Bound(Box<Binding>),
    Unbound,
    /// The database could not be read.
    Unknown,
}

impl TraceSource {
    pub(super) fn binding(&self) -> Option<&Binding> {
        match self {
            Self::Bound(binding) => Some(binding),
            Self::Unbound | Self::Unknown => None,
        }
    }
}

/// Contents of the application database that other checks need.
struct Contents {
    trace_source: TraceSource,
    /// Whether the next start creates the first administrator.
    without_users: bool,
}

impl Contents {
    const NONE: Self = Self { trace_source: TraceSource::Unbound, without_users: true };
    const UNKNOWN: Self = Self { trace_source: TraceSource::Unknown, without_users: false };
}

/// Adds the findings on the application database.
pub(super) async fn check(configuration: &Configuration, findings: &mut Vec<Finding>) -> TraceSource {
    let contents = contents(configuration, findings).await;
    if contents.without_users && configuration.admin_password_hash.is_none() {
        findings.push(check_initial_password(configuration));
    }
    contents.trace_source
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

async fn contents(configuration: &Configuration, findings: &mut Vec<Finding>) -> Contents {
    let url = configuration.database_url.expose();
    if let Some(path) = AppDb::file(url) {
        if !path.exists() {
            findings.push(missing_file(&path));
            return Contents::NONE;
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
    findings.extend(describe(&inspection));
    match inspection.schema {
        SchemaState::Current => {}
        SchemaState::Absent => return Contents::NONE,
        SchemaState::Outdated(_) | SchemaState::Incompatible(_) | SchemaState::PermissionDenied => {
            return Contents::UNKNOWN;
        }
    }
    if !inspection.missing_privileges.is_empty() {
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
    let without_users = tx.users("", 1).await?.is_empty();
    drop(tx);
    db.close().await;
    let trace_source =
        model.binding.map_or(TraceSource::Unbound, |binding| TraceSource::Bound(Box::new(binding)));
    Ok(Contents { trace_source, without_users })
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

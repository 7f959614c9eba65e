//! The service's own database, looked at without changing anything.

use std::path::Path;

use tracewarden_model::Binding;
use tracewarden_service::{AppDb, DbError, DbInspection, SchemaState};

use super::{Finding, GUIDE, private};
use crate::configuration::Configuration;

/// The trace source, as far as the own database tells.
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

/// Adds what there is to say.
pub(super) async fn look(configuration: &Configuration, findings: &mut Vec<Finding>) -> Bound {
    let url = configuration.database_url.expose();
    if let Some(path) = AppDb::file(url) {
        if !path.exists() {
            findings.push(absent(&path));
            return Bound::Nothing;
        }
        findings.push(private(&path, "is the own database"));
    }
    let inspection = match AppDb::inspect(url).await {
        Ok(inspection) => inspection,
        // A server that is away may be back when the service starts.
        Err(error @ DbError::Unavailable(_)) => {
            findings.push(Finding::error(format!("{error}; start the server, or mend `database_url`")));
            return Bound::Unknown;
        }
        Err(error) => {
            findings.push(Finding::error(format!("{error}; mend `database_url`")));
            return Bound::Unknown;
        }
    };
    findings.extend(say(&inspection));
    match inspection.schema {
        SchemaState::Current => {}
        SchemaState::Absent => return Bound::Nothing,
        SchemaState::Older(_) | SchemaState::Foreign(_) => return Bound::Unknown,
    }
    match binding(url).await {
        Ok(Some(binding)) => Bound::To(Box::new(binding)),
        Ok(None) => Bound::Nothing,
        Err(error) => {
            findings.push(Finding::error(format!("own database: the trace source cannot be read: {error}")));
            Bound::Unknown
        }
    }
}

/// What an inspection means for whoever operates the service.
fn say(inspection: &DbInspection) -> Vec<Finding> {
    let mut findings = Vec::new();
    let product = &inspection.product;
    findings.push(match &inspection.schema {
        SchemaState::Current => Finding::ok(format!("own database: {product}, schema current")),
        SchemaState::Absent => {
            Finding::ok(format!("own database: {product}, empty; the next start makes its tables"))
        }
        SchemaState::Older(steps) => Finding::warning(format!(
            "own database: {product}, schema older by {steps} step(s) that the next start applies: keep a backup, and stop \
             older versions of the service first"
        )),
        SchemaState::Foreign(reason) => {
            Finding::error(format!("own database: {product}, not usable by this version: {reason}"))
        }
    });
    match inspection.encrypted {
        Some(false) => findings.push(Finding::warning(
            "own database: the connection to another machine is not encrypted: add `sslmode=verify-full` to `database_url`",
        )),
        Some(true) => findings.push(Finding::ok("own database: the connection is encrypted")),
        None => {}
    }
    if inspection.superuser {
        findings.push(Finding::warning(format!(
            "own database: the service connects as a superuser of the server: use a role that owns this one database ({GUIDE})"
        )));
    }
    findings
}

fn absent(path: &Path) -> Finding {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if directory.is_dir() {
        Finding::ok(format!("own database: there is no `{}` yet; the next start makes it", path.display()))
    } else {
        Finding::error(format!("own database: there is no directory `{}`: make it", directory.display()))
    }
}

async fn binding(url: &str) -> Result<Option<Binding>, DbError> {
    let db = AppDb::open_existing(url).await?;
    let model = db.begin_read().await?.access_model().await?;
    db.close().await;
    Ok(model.binding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(schema: SchemaState, encrypted: Option<bool>, superuser: bool) -> Vec<String> {
        let product = "PostgreSQL 15".to_owned();
        let findings = say(&DbInspection { product, schema, encrypted, superuser });
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn only_what_leaves_the_machine_must_be_encrypted() {
        assert_eq!(
            lines(SchemaState::Current, None, false),
            ["ok       own database: PostgreSQL 15, schema current"]
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
    fn a_superuser_is_too_much() {
        let lines = lines(SchemaState::Absent, None, true);
        assert!(
            lines.iter().any(|line| line.starts_with("warning") && line.contains("superuser")),
            "{lines:?}"
        );
    }
}

//! `tracewarden check-config`: prints the effective settings without secrets, and checks files, listeners, the application
//! database, and the ClickHouse user, which should be able to read traces and nothing else.

mod application_database;
mod listeners;
mod trace_store;

use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitCode;

use crate::configuration::Configuration;
use crate::configuration::warnings::warnings;
use crate::serve;

/// Document that explains the advice in the findings.
const GUIDE: &str = "docs/operations.md";

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Ok,
    Warning,
    Error,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    level: Level,
    text: String,
}

impl Finding {
    fn ok(text: impl Into<String>) -> Self {
        Self { level: Level::Ok, text: text.into() }
    }

    fn warning(text: impl Into<String>) -> Self {
        Self { level: Level::Warning, text: text.into() }
    }

    fn error(text: impl Into<String>) -> Self {
        Self { level: Level::Error, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Error => "error",
        };
        // A server's message may have several lines; a finding is one line.
        let text: Vec<&str> = self.text.split_whitespace().collect();
        write!(f, "{level:<8} {}", text.join(" "))
    }
}

/// Prints every setting as it was parsed, and one line per check. The check fails on errors, and with `strict` also on
/// warnings.
///
/// # Errors
/// When the checks cannot be run.
pub fn run(configuration: &Configuration, strict: bool) -> anyhow::Result<ExitCode> {
    for line in &configuration.lines {
        println!("{line}");
    }
    println!("the configuration is valid");
    let findings = serve::runtime()?.block_on(check_environment(configuration));
    for finding in &findings {
        println!("{finding}");
    }
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
    let fails = worst == Level::Error || (strict && worst == Level::Warning);
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn check_environment(configuration: &Configuration) -> Vec<Finding> {
    let mut findings: Vec<Finding> = warnings(configuration).into_iter().map(Finding::warning).collect();
    findings.extend(configuration.secret_files.iter().map(|path| check_permissions(path, "holds a secret")));
    listeners::check(configuration, &mut findings).await;
    let trace_source = application_database::check(configuration, &mut findings).await;
    trace_store::check(configuration, &trace_source, &mut findings).await;
    findings
}

/// Checks that only the owner and the group can read a file, and only the owner can write it.
fn check_permissions(path: &Path, what: &str) -> Finding {
    const OTHERS: u32 = 0o007;
    const GROUP_WRITES: u32 = 0o020;
    match path.metadata() {
        Ok(metadata) if metadata.permissions().mode() & (OTHERS | GROUP_WRITES) == 0 => {
            Finding::ok(format!("`{}` {what} and is private", path.display()))
        }
        Ok(metadata) => Finding::warning(format!(
            "`{}` {what} and is accessible to other users (mode {:03o}): run `chmod 600` on it",
            path.display(),
            metadata.permissions().mode() & 0o777
        )),
        Err(error) => Finding::error(format!("`{}` {what} and cannot be checked: {error}", path.display())),
    }
}

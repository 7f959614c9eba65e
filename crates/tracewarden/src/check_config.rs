//! `tracewarden check-config`: prints the effective settings without secrets, and checks files, listeners, the application
//! database, and the ClickHouse user, which should be able to read traces and nothing else.

mod application_database;
mod clickhouse;
mod file_permissions;
mod finding;
mod listeners;

use std::process::ExitCode;

use crate::configuration::Configuration;
use crate::configuration::warnings::warnings;
use crate::serve;

use file_permissions::check_permissions;
use finding::{Finding, Level};

/// Prints every setting as it was parsed, and one line per check. The check fails on errors, and with `strict` also on
/// warnings.
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
    let contents = application_database::check(configuration, &mut findings).await;
    clickhouse::check(configuration, contents.as_ref(), &mut findings).await;
    findings
}

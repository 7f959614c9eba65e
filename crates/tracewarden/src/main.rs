//! The binary: parses the command line, loads the configuration and runs the command.

mod ambient;
mod application_database;
mod audit_verify;
mod break_glass;
mod check_config;
mod command_line;
mod configuration;
mod connections;
mod ddl;
mod first_start;
#[cfg(test)]
mod fuzz;
mod logging;
mod metrics;
mod model;
mod policy;
mod process_metrics;
mod prompt;
mod serve;
mod server;
mod unreadable_heads;

use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Parser;
use tracewarden_service::Settings;

use crate::command_line::{Audit, Command, CommandLine};
use crate::configuration::Configuration;
use crate::configuration::settings;

fn main() -> ExitCode {
    match run(CommandLine::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tracewarden: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(file) => serve::run(&load(file.config.as_deref())?),
        Command::HashPassword { username } => {
            // An empty variable counts as not set, as in the configuration.
            let username = username.filter(|name| !name.is_empty());
            hash_password(username.as_deref().or(settings::default("admin_username")))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::CheckConfig { file, strict } => check_config::run(&load(file.config.as_deref())?, strict),
        Command::BreakGlass { username, file } => {
            break_glass::run(&load(file.config.as_deref())?, &username)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Audit(Audit::Verify { file, head }) => {
            let verified = load(file.config.as_deref())
                .and_then(|configuration| audit_verify::run(&configuration, &head));
            Ok(verified.unwrap_or_else(|error| {
                eprintln!("tracewarden: the audit log could not be checked: {error:#}");
                audit_verify::EXIT_NOT_CHECKED.into()
            }))
        }
        Command::Ddl { file, format } => {
            ddl::run(&load(file.config.as_deref())?, format)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Policy(command) => Ok(policy::run(&command)),
        Command::Model(command) => Ok(model::run(&command)),
    }
}

fn load(file: Option<&Path>) -> anyhow::Result<Configuration> {
    // A name or value that is not Unicode is never valid. With replacement characters it is rejected like any other invalid
    // one.
    let environment = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
    Configuration::load(file, environment)
        .map_err(|errors| anyhow!("the configuration is not valid\n  {}", errors.join("\n  ")))
}

fn hash_password(username: Option<&str>) -> anyhow::Result<()> {
    let password = prompt::password()?;
    let hash = tracewarden_service::hash_password_phc(
        &password,
        username,
        &Settings::default(),
        &ambient::SystemEntropy,
    )
    .map_err(|error| anyhow!(error.detail()))?;
    println!("{hash}");
    Ok(())
}

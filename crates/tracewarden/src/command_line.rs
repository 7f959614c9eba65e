//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Policy-controlled read access to OpenTelemetry traces in ClickHouse.
#[derive(Debug, Parser)]
#[command(name = "tracewarden", version)]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service.
    Serve(ConfigurationFile),
    /// Read a password and print its Argon2id hash, for `admin_password_hash`.
    HashPassword,
    /// Say whether the configuration is valid, what applies, and whether databases and files fit it.
    CheckConfig(CheckConfig),
}

/// How to check the configuration.
#[derive(Debug, Args)]
pub struct CheckConfig {
    /// Where it is.
    #[command(flatten)]
    pub file: ConfigurationFile,
    /// Fail on warnings, too.
    #[arg(long)]
    pub strict: bool,
}

/// Where the configuration file is.
#[derive(Debug, Args)]
pub struct ConfigurationFile {
    /// TOML file with settings; environment variables win over it.
    #[arg(long, value_name = "FILE", env = "TRACEWARDEN_CONFIG")]
    pub config: Option<PathBuf>,
}

//! The command line.

mod model;
mod policy;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};

pub use model::{
    Connection, FileFormat, Model, ModelApply, ModelExport, ModelHistory, ModelPlan, ModelRestore,
};
pub use policy::{Format, Policy, PolicyCheck, PolicyEvaluate, PolicyTest};

/// Policy-controlled read access to OpenTelemetry traces in ClickHouse.
#[derive(Debug, Parser)]
#[command(name = "tracewarden", version)]
pub struct CommandLine {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service.
    Serve(ConfigurationFile),
    /// Read a password and print its Argon2id hash, for `admin_password_hash`.
    HashPassword {
        /// The administrator's name, which the password must not contain; default: `admin`.
        #[arg(long, value_name = "NAME", env = "TRACEWARDEN_ADMIN_USERNAME")]
        username: Option<String>,
    },
    /// Check the configuration: validate it, print the settings in effect, and test databases and files against it.
    CheckConfig {
        #[command(flatten)]
        file: ConfigurationFile,
        /// Fail on warnings, too.
        #[arg(long)]
        strict: bool,
    },
    /// Print a link that signs in a user once, within ten minutes, whatever `password_login` says. The audit log records it.
    BreakGlass {
        /// Name of a user with a password.
        username: String,
        #[command(flatten)]
        file: ConfigurationFile,
    },
    /// Print the SQL statements that would make searches on the bound table cheaper; runs none of them.
    #[command(after_help = DDL_EXAMPLES)]
    Ddl {
        #[command(flatten)]
        file: ConfigurationFile,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// The audit log.
    #[command(subcommand)]
    Audit(Audit),
    /// Check, evaluate and test policies, without a service or ClickHouse.
    #[command(subcommand)]
    Policy(Policy),
    /// The access model of a running service as one file: binding, fields, roles with their policies, and tests.
    #[command(subcommand, after_help = model::EXAMPLES)]
    Model(Model),
}

/// Commands for the audit log.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Check that nothing but the service has changed, added or removed a record. Exit status: 0 if the log is intact, 1 if
    /// it is not, 2 if the check could not be completed.
    Verify {
        #[command(flatten)]
        file: ConfigurationFile,
        /// A head that an earlier check printed and that was kept elsewhere: an attacker who rewrites the whole log cannot
        /// reproduce it. May be given several times.
        #[arg(long, value_name = "SEQUENCE:HASH")]
        head: Vec<NotedHead>,
    },
}

/// Sequence number and hash of a record, noted earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedHead {
    /// Sequence number of the record.
    pub sequence: u64,
    /// Hash of the record, in lower case.
    pub hash: String,
}

impl FromStr for NotedHead {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const HASH_DIGITS: usize = 64;
        let parsed = text.split_once(':').and_then(|(sequence, hash)| {
            let whole = hash.len() == HASH_DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
            Some(Self { sequence: sequence.parse().ok().filter(|_| whole)?, hash: hash.to_ascii_lowercase() })
        });
        parsed.ok_or_else(|| {
            "must be a number, a colon and 64 hexadecimal digits, as `audit verify` prints them".to_owned()
        })
    }
}

const DDL_EXAMPLES: &str = "\
Examples:
  tracewarden ddl --config tracewarden.toml
  tracewarden ddl --config tracewarden.toml | clickhouse-client --user operator --password

All other text is in comments. The service's ClickHouse user cannot run these statements, and must not be able to.";

/// Path of the configuration file.
#[derive(Debug, Args)]
pub struct ConfigurationFile {
    /// TOML file with settings; environment variables override it.
    #[arg(long, value_name = "FILE", env = "TRACEWARDEN_CONFIG")]
    pub config: Option<PathBuf>,
}

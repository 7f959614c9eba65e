//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

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
    HashPassword(HashPassword),
    /// Say whether the configuration is valid, what applies, and whether databases and files fit it.
    CheckConfig(CheckConfig),
    /// The audit log.
    #[command(subcommand)]
    Audit(Audit),
}

/// Whose password it is.
#[derive(Debug, Args)]
pub struct HashPassword {
    /// The administrator's name, which the password must not contain; `admin` where it is not given.
    #[arg(long, value_name = "NAME", env = "TRACEWARDEN_ADMIN_USERNAME")]
    pub username: Option<String>,
}

/// What to do with the audit log.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Check that no record was changed, added or removed by others than the service. Ends with 0 when the log is intact, 1
    /// when it is not, 2 when that could not be found out.
    Verify(AuditVerify),
}

/// How to check the audit log.
#[derive(Debug, Args)]
pub struct AuditVerify {
    /// Where the configuration is.
    #[command(flatten)]
    pub file: ConfigurationFile,
    /// A head that an earlier check printed and that was kept elsewhere: whoever rewrites the whole log cannot make it fit.
    /// May be given several times.
    #[arg(long, value_name = "SEQUENCE:HASH")]
    pub head: Vec<NotedHead>,
}

/// The number and the hash of a record, noted earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedHead {
    /// Its number.
    pub sequence: u64,
    /// Its hash, in lower case.
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
            "takes a number, a colon and 64 hexadecimal digits, as `audit verify` prints".to_owned()
        })
    }
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

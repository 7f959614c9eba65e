//! The command line.

mod model;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use model::{
    Connection, FileFormat, Model, ModelApply, ModelExport, ModelHistory, ModelPlan, ModelRestore,
};

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
    HashPassword(HashPassword),
    /// Check the configuration: validate it, print the settings in effect, and test databases and files against it.
    CheckConfig(CheckConfig),
    /// Print the SQL statements that would make searches on the bound table cheaper; runs none of them.
    #[command(after_help = DDL_EXAMPLES)]
    Ddl(Ddl),
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

/// Options of `hash-password`.
#[derive(Debug, Args)]
pub struct HashPassword {
    /// The administrator's name, which the password must not contain; default: `admin`.
    #[arg(long, value_name = "NAME", env = "TRACEWARDEN_ADMIN_USERNAME")]
    pub username: Option<String>,
}

/// Commands for the audit log.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Check that nothing but the service has changed, added or removed a record. Exit status: 0 if the log is intact, 1 if
    /// it is not, 2 if the check could not be completed.
    Verify(AuditVerify),
}

/// Options of `audit verify`.
#[derive(Debug, Args)]
pub struct AuditVerify {
    /// Configuration file.
    #[command(flatten)]
    pub file: ConfigurationFile,
    /// A head that an earlier check printed and that was kept elsewhere: an attacker who rewrites the whole log cannot
    /// reproduce it. May be given several times.
    #[arg(long, value_name = "SEQUENCE:HASH")]
    pub head: Vec<NotedHead>,
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

/// Commands for policies. The files are YAML or JSON; the model can be the unmodified answer of `GET /schema`.
#[derive(Debug, Subcommand)]
pub enum Policy {
    /// Check policies against an access model: print errors, the fields that they read, and warnings.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(PolicyCheck),
    /// Evaluate a policy on spans and show which of its parts decided.
    #[command(after_help = EVALUATE_EXAMPLES)]
    Evaluate(PolicyEvaluate),
    /// Run the tests in files with roles, users, traces and expected results.
    #[command(after_help = TEST_EXAMPLES)]
    Test(PolicyTest),
}

const DDL_EXAMPLES: &str = "\
Examples:
  tracewarden ddl --config tracewarden.toml
  tracewarden ddl --config tracewarden.toml | clickhouse-client --user operator --password

All other text is in comments. The service's ClickHouse user cannot run these statements, and must not be able to.";

const CHECK_EXAMPLES: &str = "\
Examples:
  curl -s https://traces.example.com/schema -H \"Authorization: Bearer $KEY\" > model.json
  tracewarden policy check --model model.json own-team.cel
  tracewarden policy check --model model.json --sql --expression 'ServiceName == \"checkout\"'
  tracewarden policy check --strict roles.yaml

Exit status: 0 all are valid, 1 one is not (with --strict: or has warnings), 2 they could not be checked.";

const EVALUATE_EXAMPLES: &str = "\
Examples:
  tracewarden policy evaluate --model model.json --user ada.yaml --spans spans.json own-team.cel
  curl -s https://traces.example.com/traces/$ID -H \"Authorization: Bearer $KEY\" |
    tracewarden policy evaluate --model model.json --user ada.yaml --spans - --expression 'ServiceName == \"checkout\"'

The user: {username: ada, roles: [payments], attributes: {team: payments}}
The spans: a list of spans, or the unmodified answer of a query or of GET /traces/{id}.

Exit status: 0 evaluated, 1 the policy is not valid, 2 it could not be evaluated.";

const TEST_EXAMPLES: &str = "\
Examples:
  tracewarden policy test policies/*.yaml
  tracewarden policy test --model model.json roles.yaml

A file:
  fields: [{name: ServiceName}, {map: ResourceAttributes, name: team}]    # or  model: model.json
  roles:
    - name: payments
      policies:
        - {title: Own team, expression: 'ResourceAttributes[\"team\"] == user.attributes.team'}
  users:
    - {username: ada, roles: [payments], attributes: {team: payments}}
  traces:
    - {name: checkout, spans: [{ServiceName: cart}, {ResourceAttributes: {team: payments}}]}
  tests:
    - {name: her team, user: ada, trace: checkout, visible: true, policies: {Own team: [error, true]}}

Exit status: 0 all passed, 1 one failed, 2 they could not be run.";

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people.
    Text,
    /// JSON for programs, as the API returns it.
    Json,
}

/// Options of `policy check`.
#[derive(Debug, Args)]
pub struct PolicyCheck {
    /// Files: with the extension `.yaml`, `.yml` or `.json`, the roles and policies in it are checked; any other file is
    /// read as the text of one policy; `-` reads such a text from the standard input.
    #[arg(value_name = "FILE", required_unless_present = "expression", conflicts_with = "expression")]
    pub files: Vec<PathBuf>,
    /// Text of a policy.
    #[arg(long, value_name = "TEXT")]
    pub expression: Option<String>,
    /// File with the access model; overrides the one in files with roles.
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Show the SQL that ClickHouse runs.
    #[arg(long)]
    pub sql: bool,
    /// File with the user that `--sql` compiles for; default: a user without roles and attributes.
    #[arg(long, value_name = "FILE")]
    pub user: Option<PathBuf>,
    /// Fail on warnings, too.
    #[arg(long)]
    pub strict: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Options of `policy evaluate`.
#[derive(Debug, Args)]
pub struct PolicyEvaluate {
    /// File with the text of the policy; `-` is the standard input.
    #[arg(value_name = "FILE", required_unless_present = "expression", conflicts_with = "expression")]
    pub file: Option<PathBuf>,
    /// Text of the policy.
    #[arg(long, value_name = "TEXT")]
    pub expression: Option<String>,
    /// File with the access model.
    #[arg(long, value_name = "FILE")]
    pub model: PathBuf,
    /// File with the user; `-` is the standard input.
    #[arg(long, value_name = "FILE")]
    pub user: PathBuf,
    /// File with the spans; `-` is the standard input.
    #[arg(long, value_name = "FILE")]
    pub spans: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Options of `policy test`.
#[derive(Debug, Args)]
pub struct PolicyTest {
    /// Files with tests.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// File with the access model; overrides the one in the files.
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Options of `check-config`.
#[derive(Debug, Args)]
pub struct CheckConfig {
    /// Configuration file.
    #[command(flatten)]
    pub file: ConfigurationFile,
    /// Fail on warnings, too.
    #[arg(long)]
    pub strict: bool,
}

/// Options of `ddl`.
#[derive(Debug, Args)]
pub struct Ddl {
    /// Configuration file.
    #[command(flatten)]
    pub file: ConfigurationFile,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Path of the configuration file.
#[derive(Debug, Args)]
pub struct ConfigurationFile {
    /// TOML file with settings; environment variables override it.
    #[arg(long, value_name = "FILE", env = "TRACEWARDEN_CONFIG")]
    pub config: Option<PathBuf>,
}

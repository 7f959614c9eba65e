//! The command line.

mod model;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use model::{
    Connection, Model, ModelApply, ModelExport, ModelHistory, ModelPlan, ModelRestore, Notation,
};

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
    /// Say what to add to the bound table so that searching costs less, as SQL; runs none of it.
    #[command(after_help = DDL_EXAMPLES)]
    Ddl(Ddl),
    /// The audit log.
    #[command(subcommand)]
    Audit(Audit),
    /// Policies: check, try and test them, without a service or a trace store.
    #[command(subcommand)]
    Policy(Policy),
    /// The access model of a running service as one file: binding, fields, roles with their policies, and tests.
    #[command(subcommand, after_help = model::EXAMPLES)]
    Model(Model),
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

/// What to do with policies. The files are YAML or JSON; the model can be the answer of `GET /schema` as it is.
#[derive(Debug, Subcommand)]
pub enum Policy {
    /// Say whether policies are valid under an access model, what they read, and what is doubtful about them.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(PolicyCheck),
    /// Say what a policy is on spans, and which of its parts decided.
    #[command(after_help = EVALUATE_EXAMPLES)]
    Evaluate(PolicyEvaluate),
    /// Run the tests of files with roles, users, traces and what is expected of them.
    #[command(after_help = TEST_EXAMPLES)]
    Test(PolicyTest),
}

const DDL_EXAMPLES: &str = "\
Examples:
  tracewarden ddl --config tracewarden.toml
  tracewarden ddl --config tracewarden.toml | clickhouse-client --user operator --password

Everything but the statements is in comments. The service's own user in the trace store cannot run them, and should not.";

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
The spans: a list of them, or the answer of a query or of GET /traces/{id} as it is.

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

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs, as the API answers.
    Json,
}

/// How to check policies.
#[derive(Debug, Args)]
pub struct PolicyCheck {
    /// Files: with the ending `.yaml`, `.yml` or `.json` roles and policies are checked, any other holds the text of one
    /// policy; `-` reads such a text from the standard input.
    #[arg(value_name = "FILE", required_unless_present = "expression", conflicts_with = "expression")]
    pub files: Vec<PathBuf>,
    /// The text of a policy.
    #[arg(long, value_name = "TEXT")]
    pub expression: Option<String>,
    /// File with the access model; wins over what files with roles say.
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Show what ClickHouse is asked.
    #[arg(long)]
    pub sql: bool,
    /// File with the user for whom `--sql` shows it; without one, somebody without roles and attributes.
    #[arg(long, value_name = "FILE")]
    pub user: Option<PathBuf>,
    /// Fail on warnings, too.
    #[arg(long)]
    pub strict: bool,
    /// How results are written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// What to evaluate.
#[derive(Debug, Args)]
pub struct PolicyEvaluate {
    /// File with the text of the policy; `-` is the standard input.
    #[arg(value_name = "FILE", required_unless_present = "expression", conflicts_with = "expression")]
    pub file: Option<PathBuf>,
    /// The text of the policy.
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
    /// How results are written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Which tests to run.
#[derive(Debug, Args)]
pub struct PolicyTest {
    /// Files with tests.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// File with the access model; wins over what the files say.
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// How results are written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
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

/// What to say of the bound table.
#[derive(Debug, Args)]
pub struct Ddl {
    /// Where the configuration is.
    #[command(flatten)]
    pub file: ConfigurationFile,
    /// How results are written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Where the configuration file is.
#[derive(Debug, Args)]
pub struct ConfigurationFile {
    /// TOML file with settings; environment variables win over it.
    #[arg(long, value_name = "FILE", env = "TRACEWARDEN_CONFIG")]
    pub config: Option<PathBuf>,
}

//! The options of `tracewarden policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people.
    Text,
    /// JSON for programs, as the API returns it.
    Json,
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

pub(super) const TEST_EXAMPLES: &str = "\
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

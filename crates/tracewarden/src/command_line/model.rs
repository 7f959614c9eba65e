//! The options of `tracewarden model`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::policy::{Format, PolicyTest, TEST_EXAMPLES};

/// Commands for the access model.
#[derive(Debug, Subcommand)]
pub enum Model {
    /// Write a service's access model to a file or to the standard output.
    Export(ModelExport),
    /// Show what applying a file would change, whether its tests pass, and which users would see more or fewer traces.
    /// Changes nothing.
    #[command(after_help = PLAN_STATUS)]
    Plan(ModelPlan),
    /// Replace a service's access model by a file: show the plan, ask for confirmation, and apply exactly the plan shown.
    #[command(after_help = APPLY_STATUS)]
    Apply(ModelApply),
    /// Run the tests in files, without a service; the same as `tracewarden policy test`.
    #[command(after_help = TEST_EXAMPLES)]
    Test(PolicyTest),
    /// List the changes of the access model, newest first, or show one of them.
    History(ModelHistory),
    /// Restore the access model of an earlier version: show the plan, ask for confirmation, and apply exactly the plan
    /// shown.
    #[command(after_help = APPLY_STATUS)]
    Restore(ModelRestore),
}

pub(super) const EXAMPLES: &str = "\
Examples:
  export TRACEWARDEN_URL=https://traces.example.com TRACEWARDEN_API_KEY_FILE=~/.tracewarden-key
  tracewarden model export --output access.yaml
  tracewarden model test access.yaml
  tracewarden model plan access.yaml
  tracewarden model apply access.yaml
  tracewarden model history
  tracewarden model restore 12

The key is an administrator's API key that is not scoped: in TRACEWARDEN_API_KEY, or in a file that
TRACEWARDEN_API_KEY_FILE or --api-key-file names. It cannot be an argument, which other users of the machine could read.";

const PLAN_STATUS: &str = "\
Exit status: 0 the file can be applied (with --detailed-exitcode: and changes nothing), 1 it is refused or one of its tests
failed, 2 the plan could not be made, 3 with --detailed-exitcode: it can be applied and changes something.";

const APPLY_STATUS: &str = "\
Exit status: 0 applied, or nothing to change; 1 refused, or not confirmed; 2 it could not be done.";

/// Address of the service and API key.
#[derive(Debug, Args)]
pub struct Connection {
    /// Address of the service: `https`, or `http` on a loopback name.
    #[arg(long, value_name = "URL", env = "TRACEWARDEN_URL")]
    pub url: Option<String>,
    /// File with an administrator's API key; overrides TRACEWARDEN_API_KEY and TRACEWARDEN_API_KEY_FILE.
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// File with the CA certificates (PEM) to verify the service with, instead of the system's.
    #[arg(long, value_name = "FILE", env = "TRACEWARDEN_CA_FILE")]
    pub ca_file: Option<PathBuf>,
}

/// File formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// YAML, for people.
    Yaml,
    /// JSON, for programs.
    Json,
}

/// Options of `model export`.
#[derive(Debug, Args)]
pub struct ModelExport {
    #[command(flatten)]
    pub connection: Connection,
    /// File to write; an existing file is replaced.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// File format; default: JSON if the file name ends with `.json`, otherwise YAML.
    #[arg(long, value_enum)]
    pub format: Option<FileFormat>,
}

/// Options of the commands that make a plan.
#[derive(Debug, Args)]
pub struct PlanRequest {
    #[command(flatten)]
    pub connection: Connection,
    /// Maximum time, at most 60, for which the service may read traces to find out which users would see more or fewer of
    /// them; 0 skips this.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=60))]
    pub seconds: u8,
}

/// Options of `model plan`.
#[derive(Debug, Args)]
pub struct ModelPlan {
    #[command(flatten)]
    pub request: PlanRequest,
    /// File with the access model; `-` is the standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Exit with status 3 if there are changes.
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Options of `model apply`.
#[derive(Debug, Args)]
pub struct ModelApply {
    #[command(flatten)]
    pub request: PlanRequest,
    /// File with the access model; `-` is the standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    pub yes: bool,
}

/// Options of `model history`.
#[derive(Debug, Args)]
pub struct ModelHistory {
    #[command(flatten)]
    pub connection: Connection,
    /// Version of the access model: show only the change that made it.
    #[arg(value_name = "VERSION", conflicts_with = "limit")]
    pub version: Option<u64>,
    /// Maximum number of changes to list.
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Options of `model restore`.
#[derive(Debug, Args)]
pub struct ModelRestore {
    #[command(flatten)]
    pub request: PlanRequest,
    /// Version of the access model to restore.
    #[arg(value_name = "VERSION")]
    pub version: u64,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    pub yes: bool,
}

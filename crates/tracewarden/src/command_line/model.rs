//! `tracewarden model`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Format, PolicyTest, TEST_EXAMPLES};

/// What to do with the access model.
#[derive(Debug, Subcommand)]
pub enum Model {
    /// Write the access model of a service to a file, or to the standard output.
    Export(ModelExport),
    /// Say what applying a file would change, whether its tests pass, and who would see more or less. Changes nothing.
    #[command(after_help = PLAN_STATUS)]
    Plan(ModelPlan),
    /// Make a service's access model what a file says: shows the plan, asks, and applies exactly what was shown.
    #[command(after_help = APPLY_STATUS)]
    Apply(ModelApply),
    /// Run the tests of files, without a service; the same as `tracewarden policy test`.
    #[command(after_help = TEST_EXAMPLES)]
    Test(PolicyTest),
    /// List the changes of the access model, newest first, or show one of them.
    History(ModelHistory),
    /// Make the access model what it was after an earlier change: shows the plan, asks, and applies what was shown.
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

The key is an administrator's API key, not narrowed: in TRACEWARDEN_API_KEY, or in a file that TRACEWARDEN_API_KEY_FILE or
--api-key-file names. It is never an argument, which other users of the machine could read.";

const PLAN_STATUS: &str = "\
Exit status: 0 the file can be applied (with --detailed-exitcode: and changes nothing), 1 it is refused or one of its tests
failed, 2 that could not be found out, 3 with --detailed-exitcode: it can be applied and changes something.";

const APPLY_STATUS: &str = "\
Exit status: 0 applied, or nothing to change; 1 refused, or the answer was no; 2 it could not be done.";

/// Which service, and by what key.
#[derive(Debug, Args)]
pub struct Connection {
    /// Address of the service: `https`, or `http` on a loopback name.
    #[arg(long, value_name = "URL", env = "TRACEWARDEN_URL")]
    pub url: Option<String>,
    /// File with the API key of an administrator; wins over TRACEWARDEN_API_KEY and TRACEWARDEN_API_KEY_FILE.
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// File with the certificates (PEM) of the authority that vouches for the service, in place of those of the system.
    #[arg(long, value_name = "FILE", env = "TRACEWARDEN_CA_FILE")]
    pub ca_file: Option<PathBuf>,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Notation {
    /// For people.
    Yaml,
    /// For programs.
    Json,
}

/// What to export.
#[derive(Debug, Args)]
pub struct ModelExport {
    /// Where the service is.
    #[command(flatten)]
    pub connection: Connection,
    /// The file to write; it is replaced.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// How it is written; JSON where the file's name ends so, otherwise YAML.
    #[arg(long, value_enum)]
    pub format: Option<Notation>,
}

/// What to plan.
#[derive(Debug, Args)]
pub struct ModelPlan {
    /// Where the service is.
    #[command(flatten)]
    pub connection: Connection,
    /// The file; `-` is the standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// For how long the service may look at traces to say who would see more or less of them, at most 60; with 0 it does
    /// not.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=60))]
    pub seconds: u8,
    /// End with 3 when there are changes.
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// How results are written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// What to apply.
#[derive(Debug, Args)]
pub struct ModelApply {
    /// Where the service is.
    #[command(flatten)]
    pub connection: Connection,
    /// The file; `-` is the standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// For how long the service may look at traces to say who would see more or less of them, at most 60; with 0 it does
    /// not.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=60))]
    pub seconds: u8,
    /// Do not ask.
    #[arg(long, short)]
    pub yes: bool,
}

/// Which changes to list.
#[derive(Debug, Args)]
pub struct ModelHistory {
    /// Where the service is.
    #[command(flatten)]
    pub connection: Connection,
    /// A version of the access model: what the change to it changed.
    #[arg(value_name = "VERSION", conflicts_with = "limit")]
    pub version: Option<u64>,
    /// How many are listed.
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// How results are written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// What to go back to.
#[derive(Debug, Args)]
pub struct ModelRestore {
    /// Where the service is.
    #[command(flatten)]
    pub connection: Connection,
    /// The version of the access model.
    #[arg(value_name = "VERSION")]
    pub version: u64,
    /// For how long the service may look at traces to say who would see more or less of them, at most 60; with 0 it does
    /// not.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=60))]
    pub seconds: u8,
    /// Do not ask.
    #[arg(long, short)]
    pub yes: bool,
}

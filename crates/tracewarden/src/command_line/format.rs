//! The option for the output format.

use clap::ValueEnum;

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people.
    Text,
    /// JSON for programs, as the API returns it.
    Json,
}

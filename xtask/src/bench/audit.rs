//! Measures how many reads a second begin and complete their audit records, in the release profile.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result};

use super::Section;
use super::targets::{self, Target};
use crate::{process, workspace};

pub const TITLE: &str = "Audit";

const TEXT: &str = "A read of traces has one audit record that is durable before its first span is sent, and one that completes \
it. Here\n64 callers begin and complete reads in process. They have no roles, so that no statement is sent to ClickHouse. A look-up \
reads the\ninputs of the decision only. Rates are medians of three rounds; commits are those of a single writer in one \
second. Both\ndatabases write to the disk at each commit.";

/// Runs the benchmark of the service crate, which prints a table.
pub fn section() -> Result<Section> {
    let mut cargo = Command::new("cargo");
    cargo.args(["bench", "-p", "tracewarden-service", "--bench", "audit"]).current_dir(workspace::root());
    let table = process::capture_output(&mut cargo)?;
    let cell = |database: &str, replicas: &str, column: usize| -> Result<f64> {
        let row = table.lines().find(|row| row.starts_with(&format!("| {database} | {replicas} |")));
        let cell = row.and_then(|row| row.split('|').nth(column)).context("the table lacks a row")?;
        let number = cell.trim().trim_end_matches(" ms");
        number.parse().with_context(|| format!("`{cell}` is no number"))
    };
    let targets = vec![
        Target::at_least("reads a second on SQLite", 2_000.0, cell("SQLite", "1", 4)?),
        Target::at_most("their 99th percentile, ms", 50.0, cell("SQLite", "1", 6)?),
        Target::at_least("reads to look-ups, two replicas on PostgreSQL", 0.7, cell("PostgreSQL", "2", 8)?),
        Target::at_most("99th percentile of these reads, ms", 50.0, cell("PostgreSQL", "2", 6)?),
    ];
    let mut text = format!("## {TITLE}\n\n{TEXT}\n\n{}\n\n", table.trim());
    let _ = write!(text, "{}", targets::table(&targets));
    Ok(Section { title: TITLE, text, targets })
}

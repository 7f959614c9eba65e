//! `cargo xtask bench`: what the service costs on top of the trace store, measured on this machine and never in tests.

mod streaming;

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use crate::stack::{self, Stack};
use crate::{engine, workspace};

/// Runs every benchmark and writes what it measured.
pub fn run() -> Result<()> {
    stack::interrupt::install()?;
    let engine = engine::ensure()?;
    let binaries = stack::build()?;
    let directory = tempfile::Builder::new().prefix("tracewarden-bench-").tempdir()?;
    let mut stack = Stack::start(&binaries, &engine, directory.path())?;
    let measured = streaming::run(&mut stack);
    stack.check()?;
    let section = measured?.markdown();
    stack.stop()?;

    let mut document = String::from(
        "# Benchmarks\n\n`cargo xtask bench` measures on the machine that it runs on and writes this page. The trace store, the service \
         and the client\nshare that machine, so that ratios say more than times.\n\n",
    );
    let _ = writeln!(document, "Cores: {}.\n", std::thread::available_parallelism().map_or(0, usize::from));
    document.push_str(&section);
    let path = workspace::root().join("docs/benchmarks.md");
    fs::write(&path, &document).with_context(|| format!("cannot write `{}`", path.display()))?;
    print!("{section}");
    Ok(())
}

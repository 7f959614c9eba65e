//! Handles Ctrl-C, so that the programs stop in order at any time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Error of a step that was interrupted by the user.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Installs the handler: Ctrl-C, SIGTERM and a closed terminal set a flag instead of ending the process.
pub fn install() -> Result<()> {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    // Several commands in one process may install the handler.
    if INSTALLED.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst)).context("cannot listen for Ctrl-C")
}

pub fn requested() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Returns an error if the user has interrupted the command.
pub fn check() -> Result<()> {
    if requested() { Err(Interrupted.into()) } else { Ok(()) }
}

/// Calls `ask` repeatedly until it returns a value, the time limit is reached, or the user interrupts.
pub fn poll<T>(limit: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let begun = Instant::now();
    loop {
        check()?;
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        if begun.elapsed() > limit {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

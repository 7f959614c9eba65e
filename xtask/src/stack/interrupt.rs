//! Ctrl-C ends the demo in order, whatever it is doing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What a step returns when the user has had enough.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// From now on Ctrl-C, SIGTERM and a closed terminal are noted instead of ending the process.
pub fn install() -> Result<()> {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    // Several commands in one process may ask for it.
    if INSTALLED.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst)).context("cannot listen for Ctrl-C")
}

pub fn requested() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// An error when the user has asked for the end.
pub fn check() -> Result<()> {
    if requested() { Err(Interrupted.into()) } else { Ok(()) }
}

/// Asks again and again, for a limited time, and not beyond an interruption.
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

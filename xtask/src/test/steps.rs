//! Parts of a run, with their results and times.

use std::fmt::Display;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Runs parts, also from several threads, and continues after a failure, so that one run reports all failures.
pub struct Steps {
    started: Instant,
    failed: Mutex<Vec<String>>,
}

impl Steps {
    pub fn start() -> Self {
        Self { started: Instant::now(), failed: Mutex::default() }
    }

    /// Runs a part, and prints its result and time. Returns whether it succeeded.
    pub fn run(&self, name: &str, step: impl FnOnce() -> Result<()>) -> bool {
        let started = Instant::now();
        let outcome = step();
        let error = outcome.as_ref().err().map(|error| format!("{error:#}"));
        println!("{}", line(name, error.as_ref(), started.elapsed()));
        if error.is_some() {
            self.failed().push(name.to_owned());
        }
        outcome.is_ok()
    }

    /// Prints the time of the whole run.
    ///
    /// # Errors
    /// When a part failed; the error names all of them.
    pub fn finish(&self, command: &str) -> Result<()> {
        let failed = self.failed().join(", ");
        let seconds = self.started.elapsed().as_secs();
        let summary = format!("cargo xtask {command}: {} min {:02} s in all", seconds / 60, seconds % 60);
        if !failed.is_empty() {
            bail!("failed: {failed}; {summary}");
        }
        println!("ok      {summary}");
        Ok(())
    }

    /// Returns an error if a part has failed.
    pub fn check(&self) -> Result<()> {
        let failed = self.failed();
        if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
    }

    fn failed(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn line(name: &str, error: Option<impl Display>, duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match error {
        None => format!("ok      {name:<12} {seconds:>7.1} s"),
        Some(error) => format!("FAILED  {name:<12} {seconds:>7.1} s  {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_fails_the_run_and_the_others_still_run() {
        let steps = Steps::start();
        let mut ran = false;
        assert!(!steps.run("first", || bail!("broken")));
        assert!(steps.run("second", || {
            ran = true;
            Ok(())
        }));
        assert!(ran);
        assert_eq!(steps.check().unwrap_err().to_string(), "failed: first");
        assert!(
            steps.finish("test").unwrap_err().to_string().starts_with("failed: first; cargo xtask test: ")
        );
    }

    #[test]
    fn lines_name_step_duration_and_error() {
        let second = Duration::from_secs(1);
        assert_eq!(line("tidy", None::<&str>, second), "ok      tidy             1.0 s");
        assert_eq!(line("tidy", Some("why"), second), "FAILED  tidy             1.0 s  why");
    }
}

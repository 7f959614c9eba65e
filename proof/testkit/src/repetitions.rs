//! Sizes of tests with generated input. `cargo xtask test` runs them at a size that developers wait for, `cargo xtask verify` with
//! many more repetitions, `cargo xtask soak` with as many as its arguments say.

use std::str::FromStr;

/// Environment variable that `cargo xtask verify` sets.
pub const VERIFY: &str = "TRACEWARDEN_TEST_VERIFY";

/// Numbers of repetitions of one test.
#[derive(Clone, Copy)]
pub struct Repetitions {
    /// In `cargo xtask test`.
    pub test: u64,
    /// In `cargo xtask verify`.
    pub verify: u64,
}

impl Repetitions {
    /// The same number in both commands, for a test that proves nothing in fewer repetitions or is short.
    pub const fn always(number: u64) -> Self {
        Self { test: number, verify: number }
    }

    /// Returns the number for this run: that of the environment variable, if it is set.
    ///
    /// # Panics
    /// When the variable is no number: a test with another size than intended would prove something else.
    pub fn get(self, variable: &str) -> usize {
        let usual = if is_verify() { self.verify } else { self.test };
        let count = from_environment(variable).unwrap_or(usual);
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}

/// Whether this run is `cargo xtask verify`.
pub fn is_verify() -> bool {
    std::env::var_os(VERIFY).is_some_and(|value| !value.is_empty())
}

/// Returns the seed of generated input: `TRACEWARDEN_TEST_SEED`, or the test's own.
///
/// # Panics
/// When the variable is no number.
pub fn seed(default: u64) -> u64 {
    from_environment("TRACEWARDEN_TEST_SEED").unwrap_or(default)
}

/// Returns the number in an environment variable, or `None` if it is not set.
///
/// # Panics
/// When its value is no number.
#[expect(clippy::panic, reason = "a test of another size than intended must fail")]
pub fn from_environment<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    let Ok(number) = text.parse() else { panic!("`{variable}` is no number: `{text}`") };
    Some(number)
}

//! `cargo xtask keep-database`: keeps the application database of this version, for the upgrade tests of later versions.

use anyhow::{Result, bail};

use crate::test::{self, Environment};
use crate::{process, workspace};

/// Environment variable of the test that writes the database.
const VARIABLE: &str = "TRACEWARDEN_TEST_KEEP_DATABASE";

const DATABASES: &str = "crates/tracewarden/tests/upgrade";

/// Exercises every feature that stores data in the application database, on SQLite and PostgreSQL, and keeps both databases with
/// the tests. Existing ones are not replaced, because a database must be written by the version that it is named for.
pub fn run() -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    if workspace::root().join(DATABASES).join(version).exists() {
        bail!(
            "`{DATABASES}/{version}` already exists; remove it if {version} has not been released, or raise the version"
        );
    }
    let mut environment = Environment::new();
    let _prepared = test::prepare(&mut environment, test::build)?;
    let mut command = workspace::cargo();
    command.args(["test", "--quiet", "--package", "tracewarden", "--test", "suite"]);
    command.args(["--", "--test-threads=1", "databases_of_this_version_are_complete"]);
    command.env(VARIABLE, "1");
    process::run(command.envs(environment.iter().map(|(name, value)| (name, value))))?;
    println!("kept in `{DATABASES}/{version}`");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_the_one_that_the_test_reads() {
        let test = std::fs::read_to_string(workspace::root().join(DATABASES).join("mod.rs")).unwrap();
        assert!(test.contains(VARIABLE) && test.contains("fn databases_of_this_version_are_complete_on_"));
    }
}

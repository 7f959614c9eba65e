//! `cargo xtask test fast`: the inner loop. Tests the crates that a change touches and the crates that use them, without
//! PostgreSQL, Node and a browser.

use anyhow::Result;

use super::prerequisite::{Engine, Prerequisite};
use super::steps::Steps;
use super::suite::{Profile, Tests};
use super::{Environment, changes};
use crate::tidy;

/// Runs the repository's rules and the fast tests of the changed crates; with arguments, the fast tests that they select.
pub fn run(filters: &[String]) -> Result<()> {
    let steps = Steps::start();
    let mut environment = Environment::new();
    let mut selection = filters.to_vec();
    if filters.is_empty() {
        let changes = changes::since_main()?;
        println!("{changes}");
        selection = changes.packages.iter().flat_map(|name| ["--package".to_owned(), name.clone()]).collect();
        steps.run("tidy", tidy::run);
    }
    if selection.is_empty() {
        println!("no crate has changed: no tests to run");
        return steps.finish("test fast");
    }
    steps.run("engine", || Engine.prepare(&mut environment));
    steps.check()?;
    let tests = Tests { profile: Profile::Fast, filters: &selection, environment: &environment };
    steps.run("tests", || tests.run());
    steps.finish("test fast")
}

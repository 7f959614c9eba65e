//! What must be there before tests can run. A new kind of test adds its need here, and nowhere else.

use anyhow::Result;

use super::{Environment, python};
use crate::engine;

/// Something that is fetched, installed or started for the tests.
pub trait Prerequisite {
    /// As the step is called.
    fn name(&self) -> &'static str;

    /// Provides it, and tells the tests where it is.
    fn prepare(&self, environment: &mut Environment) -> Result<()>;
}

/// The ClickHouse engine of the local trace store.
pub struct Engine;

impl Prerequisite for Engine {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn prepare(&self, environment: &mut Environment) -> Result<()> {
        environment.push((engine::OVERRIDE, engine::ensure()?.display().to_string()));
        Ok(())
    }
}

/// A Python with the official clients that are tested against.
pub struct Python;

impl Prerequisite for Python {
    fn name(&self) -> &'static str {
        "python"
    }

    fn prepare(&self, environment: &mut Environment) -> Result<()> {
        environment.push(("TRACEWARDEN_PYTHON", python::ensure()?.display().to_string()));
        Ok(())
    }
}

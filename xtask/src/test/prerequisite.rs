//! Prerequisites of the tests. A new kind of test adds its prerequisites only here.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, anyhow};
use tracewarden_testkit::{clickhouse, postgres};

use super::{Environment, clickhouse_server, python};
use crate::browser::chromium;
use crate::cargo_tool::NEXTEST;
use crate::stack::identity_provider;
use crate::{debian, engine, npm, process};

/// Something that is downloaded, installed or started for the tests.
pub trait Prerequisite: Send {
    /// Name of the step.
    fn name(&self) -> &'static str;

    /// Provides the prerequisite, and adds its location to the tests' environment.
    fn prepare(&mut self, environment: &mut Environment) -> Result<()>;
}

/// The ClickHouse engine of the local store.
pub struct Engine;

impl Prerequisite for Engine {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn prepare(&mut self, environment: &mut Environment) -> Result<()> {
        environment.push((engine::OVERRIDE, engine::ensure()?.display().to_string()));
        Ok(())
    }
}

/// A ClickHouse server, and the ZooKeeper that a cluster of servers needs. Tests start their own instances.
pub struct ClickHouseServer;

impl Prerequisite for ClickHouseServer {
    fn name(&self) -> &'static str {
        "clickhouse"
    }

    fn prepare(&mut self, environment: &mut Environment) -> Result<()> {
        let pip =
            || process::capture_output(Command::new("python3").args(["-m", "pip", "--version"])).is_ok();
        debian::ensure("python3 has no `pip` module", "python3-pip", pip)?;
        let present = || Path::new(clickhouse::JAR).is_file() && process::is_installed("java");
        debian::ensure("ZooKeeper is not installed", "zookeeper", present)?;
        environment.push((clickhouse::LIBRARY, clickhouse_server::ensure()?.display().to_string()));
        Ok(())
    }
}

/// A Python with the official clients that the tests use.
pub struct Python;

impl Prerequisite for Python {
    fn name(&self) -> &'static str {
        "python"
    }

    fn prepare(&mut self, environment: &mut Environment) -> Result<()> {
        environment.push(("TRACEWARDEN_PYTHON", python::ensure()?.display().to_string()));
        Ok(())
    }
}

/// Programs for Node that the tests start: the official MCP client for TypeScript, and an identity provider. Their packages are
/// installed next to them. The step that builds the web application reports a missing Node.
pub struct NodePrograms;

const NODE_PROGRAMS: [&str; 2] = [npm::MCP_CLIENTS, identity_provider::PROGRAM];

impl Prerequisite for NodePrograms {
    fn name(&self) -> &'static str {
        "node"
    }

    fn prepare(&mut self, _: &mut Environment) -> Result<()> {
        for program in NODE_PROGRAMS {
            npm::ensure_packages(program)?;
        }
        Ok(())
    }
}

/// A PostgreSQL server for all tests of the run. It stops when this value is dropped or the command is killed.
#[derive(Default)]
pub struct PostgreSql(Option<postgres::Server>);

impl Prerequisite for PostgreSql {
    fn name(&self) -> &'static str {
        "postgresql"
    }

    fn prepare(&mut self, environment: &mut Environment) -> Result<()> {
        let present = || postgres::Programs::find().is_ok();
        debian::ensure("PostgreSQL is not installed", "postgresql", present)?;
        let server = postgres::Server::start().map_err(|error| anyhow!(error))?;
        environment.push((postgres::SERVER_URL, server.url()));
        self.0 = Some(server);
        Ok(())
    }
}

/// The test runner.
pub struct Nextest;

impl Prerequisite for Nextest {
    fn name(&self) -> &'static str {
        "nextest"
    }

    fn prepare(&mut self, _: &mut Environment) -> Result<()> {
        NEXTEST.installed_or_ensure().map(drop)
    }
}

/// The browser for the tests of the web application.
pub struct Chromium;

impl Prerequisite for Chromium {
    fn name(&self) -> &'static str {
        "chromium"
    }

    fn prepare(&mut self, _: &mut Environment) -> Result<()> {
        chromium::ensure().map(drop)
    }
}

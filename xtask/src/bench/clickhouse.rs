//! Starts the kinds of ClickHouse that a benchmark can run against, with empty data.

use std::path::Path;

use anyhow::{Result, anyhow};
use tracewarden_testkit::clickhouse::{Options, PASSWORD, Server};

use super::store::Store;
use crate::engine;
use crate::stack::LocalStore;
use crate::test::clickhouse_server;

/// Memory limit for all concurrent queries of the local store, in bytes.
const MEMORY: u64 = 12 << 30;

/// Kind of ClickHouse that the service reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ClickHouseKind {
    /// The local store, with the newest engine.
    Engine,
    /// A ClickHouse server of the oldest supported version.
    Server,
}

/// A running ClickHouse. Dropping it deletes its data.
pub enum ClickHouse {
    Engine(Box<LocalStore>),
    Server(Box<Server>),
}

impl ClickHouseKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Server => "server",
        }
    }
}

impl ClickHouse {
    /// Starts a ClickHouse of this kind. Its log and the data of a local store are in `directory`.
    pub fn start(kind: ClickHouseKind, programs: &Path, directory: &Path) -> Result<Self> {
        match kind {
            ClickHouseKind::Engine => {
                let (engine, data) = (engine::ensure()?, directory.join("store"));
                let running = LocalStore::start(programs, &engine, &data, directory, Some(MEMORY))?;
                Ok(Self::Engine(Box::new(running)))
            }
            ClickHouseKind::Server => {
                clickhouse_server::ensure()?;
                let options = Options { default_sizes: true, ..Options::default() };
                let server = Server::start(&options).map_err(|error| anyhow!(error))?;
                Ok(Self::Server(Box::new(server)))
            }
        }
    }

    /// Returns its URL and the password of its user `default`.
    pub fn access(&self) -> (&str, &str) {
        match self {
            Self::Engine(running) => (&running.url, &running.password),
            Self::Server(server) => (&server.url, PASSWORD),
        }
    }

    pub fn client(&self) -> Store {
        let (url, password) = self.access();
        Store::new(url, password)
    }

    /// Returns an error if it has exited.
    pub fn check(&mut self) -> Result<()> {
        match self {
            Self::Engine(running) => running.check(),
            Self::Server(server) => {
                server.run("SELECT 1").map_err(|error| anyhow!("the ClickHouse server: {error}"))?;
                Ok(())
            }
        }
    }

    /// Stops it. Returns an error if it did not exit cleanly.
    pub fn stop(self) -> Result<()> {
        match self {
            Self::Engine(mut running) => running.stop(),
            Self::Server(server) => {
                drop(server);
                Ok(())
            }
        }
    }
}

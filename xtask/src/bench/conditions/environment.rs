//! Starts each kind of ClickHouse in turn, fills it with each data set, and starts a service in front of it.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Result, bail};
use serde_json::Value;

use super::cells::{CALLERS, fields};
use super::data::{self, DATABASE, Size, TABLE};
use crate::bench::clickhouse::{ClickHouse, ClickHouseKind};
use crate::bench::numbers::grouped;
use crate::bench::service::{BenchService, Source};
use crate::bench::store::Store;
use crate::stack::api::list;
use crate::stack::interrupt::{self, Interrupted};

/// Maximum time in which ClickHouse builds the trace projection.
const PROJECTION_TIMEOUT: Duration = Duration::from_secs(600);

/// A data set in one kind of ClickHouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSet {
    pub store: ClickHouseKind,
    pub spans: u64,
    /// Whether each partition is merged into one part.
    pub merged: bool,
    /// Whether the table has the trace projection that the service suggests.
    pub trace_projection: bool,
}

/// A data set in ClickHouse with a freshly started service, whose caches are empty.
pub struct Environment {
    pub data: DataSet,
    pub size: Size,
    pub store: Store,
    pub service: BenchService,
}

/// The kinds of ClickHouse and the data sets to measure.
pub struct Plan<'a> {
    /// Kinds of ClickHouse; empty means both.
    pub stores: &'a [ClickHouseKind],
    pub sizes: &'a [u64],
    /// Whether to also measure with unmerged parts, before merging them.
    pub unmerged: bool,
    pub programs: &'a Path,
}

impl DataSet {
    pub fn name(self) -> String {
        let parts = if self.merged { "merged" } else { "unmerged" };
        let projection = if self.trace_projection { ", with a trace projection" } else { "" };
        format!("{}, {} spans, {parts}{projection}", self.store.name(), grouped(self.spans))
    }
}

impl Environment {
    /// Adds the trace projection that the service suggests, with the columns that it needs.
    pub fn add_trace_projection(&self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < PROJECTION_TIMEOUT {
            let advice = self.service.administrator.get("/schema/ddl")?;
            let suggestions = list(&advice, "/suggestions")?;
            let is_projection =
                |suggestion: &&Value| suggestion.get("kind").is_some_and(|kind| kind == "trace_projection");
            let Some(projection) = suggestions.iter().find(is_projection) else { return Ok(()) };
            let needs = list(projection, "/needs")?;
            let needed = suggestions.iter().filter(|one| one.get("id").is_some_and(|id| needs.contains(id)));
            for suggestion in needed.chain([projection]) {
                // Empty while ClickHouse builds it.
                for statement in list(suggestion, "/statements")?.iter().filter_map(Value::as_str) {
                    self.store.run(statement)?;
                }
            }
            interrupt::check()?;
            thread::sleep(Duration::from_secs(1));
        }
        bail!("ClickHouse takes more than {} s to build the trace projection", PROJECTION_TIMEOUT.as_secs())
    }
}

impl Plan<'_> {
    /// Runs the measurements on each data set. Returns the ClickHouse versions.
    pub fn run(&self, mut measure: impl FnMut(&Environment) -> Result<()>) -> Result<Vec<String>> {
        let stores = if self.stores.is_empty() {
            &[ClickHouseKind::Engine, ClickHouseKind::Server]
        } else {
            self.stores
        };
        let mut versions = Vec::new();
        for kind in stores {
            let mut directory = tempfile::Builder::new().prefix("tracewarden-bench-").tempdir()?;
            let mut store = ClickHouse::start(*kind, self.programs, directory.path())?;
            let outcome = self
                .sizes
                .iter()
                .try_for_each(|spans| self.data_set(*kind, &store, directory.path(), *spans, &mut measure));
            // If ClickHouse has exited, that error explains the failure better.
            store.check().and(outcome).inspect_err(|error| {
                if !error.is::<Interrupted>() {
                    directory.disable_cleanup(true);
                    eprintln!("the programs' logs are kept in `{}`", directory.path().display());
                }
            })?;
            let version = store.client().run("SELECT version()")?;
            versions.push(format!("ClickHouse {} ({})", version.trim(), kind.name()));
            store.stop()?;
        }
        Ok(versions)
    }

    /// Fills ClickHouse, measures, and drops the data.
    fn data_set(
        &self,
        kind: ClickHouseKind,
        store: &ClickHouse,
        directory: &Path,
        spans: u64,
        measure: &mut impl FnMut(&Environment) -> Result<()>,
    ) -> Result<()> {
        let client = store.client();
        let span_count = data::fill(&client, spans)?;
        eprintln!("{}: {} spans", kind.name(), grouped(span_count));
        let data = DataSet { store: kind, spans, merged: true, trace_projection: false };
        if self.unmerged {
            self.environment(store, directory, DataSet { merged: false, ..data }, measure)?;
        }
        data::merge(&client)?;
        self.environment(store, directory, data, measure)?;
        data::drop_all(&client)
    }

    fn environment(
        &self,
        store: &ClickHouse,
        directory: &Path,
        data: DataSet,
        measure: &mut impl FnMut(&Environment) -> Result<()>,
    ) -> Result<()> {
        let (own, fields) = (directory.join(format!("service-{}-{}", data.spans, data.merged)), fields());
        fs::create_dir(&own)?;
        let service = BenchService::start(
            self.programs,
            &own,
            store.access(),
            Source { database: DATABASE, table: TABLE, fields: &fields },
            CALLERS.iter().map(|access| &access.caller),
        )?;
        let mut environment =
            Environment { data, size: Size::of(data.spans), store: store.client(), service };
        let outcome = measure(&environment);
        environment.service.check().and(outcome)?;
        environment.service.stop()
    }
}

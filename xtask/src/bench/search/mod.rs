//! `cargo xtask bench search`: what finding traces costs through the service, against statements by hand.

mod cells;
mod data;
mod questions;
mod report;
mod service;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::Section;
use super::store::Store;
use crate::engine;
use crate::stack::{self, LocalStore};
use cells::{Effort, Measured};
use data::{DAY_TABLE, Place, SPANS_A_TRACE};
use questions::{Cell, Layout, Range};
use service::Prepared;

/// Memory of all the store's queries together. Statements by hand that group a day need more than the local store's own
/// limit leaves.
const STORE_MEMORY: u64 = 12 << 30;

/// How much is measured, and on what.
#[derive(clap::Args)]
pub struct Options {
    /// Spans of the data set, in each of its two tables.
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000_000)]
    spans: u64,
    /// Where the data set is kept; `tracewarden/bench` in the user's cache directory unless given.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Make the data set anew.
    #[arg(long)]
    fresh: bool,
    /// Rounds that are measured, after one that warms up; slow statements get fewer.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: usize,
    /// Seconds after which a contestant is not asked again in the same cell.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    cap: u64,
    /// Only these cells, `POLICY/CONDITION`, of which parts suffice (`two tenants/status`, `rare`, `/user`); prints the figures
    /// and writes nothing.
    #[arg(long, value_name = "CELL")]
    cell: Vec<String>,
    /// Address of a store that runs already and holds the data set; nothing is written to it.
    #[arg(long, value_name = "URL", requires = "cell", conflicts_with_all = ["data", "fresh", "spans"])]
    store: Option<String>,
    /// Directory of `tracewarden` and `tracewarden-localstore`, instead of building them.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            spans: 20_000_000,
            data: None,
            fresh: false,
            rounds: 5,
            cap: 20,
            cell: Vec::new(),
            store: None,
            programs: None,
        }
    }
}

impl Options {
    fn effort(&self) -> Effort {
        Effort { rounds: self.rounds.max(1), cap: Duration::from_secs(self.cap) }
    }

    fn cells(&self) -> Result<Vec<Cell>> {
        for text in &self.cell {
            let known = || Cell::all().map(Cell::name).collect::<Vec<_>>().join("; ");
            ensure!(
                Cell::all().any(|cell| cell.is_meant_by(text)),
                "no cell is called `{text}`; there are: {}",
                known()
            );
        }
        let wanted =
            |cell: &Cell| self.cell.is_empty() || self.cell.iter().any(|text| cell.is_meant_by(text));
        Ok(Cell::all().filter(wanted).collect())
    }
}

/// What runs, in the order in which it must end.
struct Bench {
    service: Prepared,
    /// None when it is somebody else's.
    local_store: Option<LocalStore>,
    store: Store,
    traces: u64,
    _place: Option<Place>,
    _directory: TempDir,
}

/// Measures; nothing comes back when only some cells were asked for.
pub fn run(options: &Options) -> Result<Option<Section>> {
    let cells = options.cells()?;
    let programs = match &options.programs {
        // They are started in another directory.
        Some(programs) => programs
            .canonicalize()
            .with_context(|| format!("cannot find the directory `{}`", programs.display()))?,
        None => stack::build()?,
    };
    let mut bench = Bench::start(options, &programs)?;
    let outcome = bench.measure(&cells, options);
    // A program that died is the better explanation.
    bench.service.check()?;
    if let Some(store) = &mut bench.local_store {
        store.check()?;
    }
    let measured = outcome?;
    bench.service.stop()?;
    if let Some(store) = &mut bench.local_store {
        store.stop()?;
    }
    print!("{}", report::cells(&measured));
    Ok(None)
}

impl Bench {
    fn start(options: &Options, programs: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("tracewarden-bench-").tempdir()?;
        let (place, local_store, url, password) = match &options.store {
            Some(url) => (None, None, url.clone(), String::new()),
            None => {
                let mut place = Place::prepare(options.data.as_deref(), options.spans, options.fresh)?;
                let engine = engine::ensure()?;
                let running = LocalStore::start(
                    programs,
                    &engine,
                    &place.store(),
                    directory.path(),
                    Some(STORE_MEMORY),
                )?;
                let (url, password) = (running.url.clone(), running.password.clone());
                place.fill(&Store::new(&url, &password))?;
                (Some(place), Some(running), url, password)
            }
        };
        let store = Store::new(&url, &password);
        let spans: u64 = store.run(&format!("SELECT count() FROM {}", DAY_TABLE.quoted()))?.trim().parse()?;
        let service = Prepared::start(programs, directory.path(), &url, &password, DAY_TABLE)?;
        let traces = spans.div_ceil(SPANS_A_TRACE);
        Ok(Self { service, local_store, store, traces, _place: place, _directory: directory })
    }

    fn measure(&self, cells: &[Cell], options: &Options) -> Result<Vec<Measured>> {
        let table = DAY_TABLE.quoted();
        let layout =
            Layout { table: &table, range: Range::last_seconds(86_400), traces: self.traces, columns: &[] };
        let mut measured = Vec::new();
        for cell in cells {
            let figures = cells::measure(&self.service, &self.store, &layout, *cell, options.effort())?;
            eprintln!("{}", report::line(&figures));
            measured.push(figures);
        }
        Ok(measured)
    }
}

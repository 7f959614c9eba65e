//! `cargo xtask bench search`: what finding traces costs through the service, against statements by hand.

mod cells;
mod data;
mod pages;
mod previews;
mod questions;
mod report;
mod suggestions;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::Section;
use super::service::{Prepared, Source};
use super::store::Store;
use super::turns::{Effort, Failures};
use crate::engine;
use crate::stack::LocalStore;
use crate::stack::interrupt::Interrupted;
use cells::Measured;
use data::{DATABASE, DAY_TABLE, Place, SPANS_A_TRACE, Table, WEEK_TABLE};
use pages::Whole;
use questions::{ASKERS, Cell, Layout, Range, fields};
use report::Results;

/// Memory of all the store's queries together. Statements by hand that group a day need more than the local store's own
/// limit leaves.
const STORE_MEMORY: u64 = 12 << 30;

/// What there is to measure.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The first page of every cell, and page 20.
    Cells,
    /// The first page with whole spans.
    Whole,
    /// A walk through 1,000 pages.
    Pages,
    /// Windows of an hour, a day, and seven days.
    Windows,
    /// Cells and whole pages once more, with the suggested DDL in place.
    Suggestions,
}

/// How much is measured, and on what.
#[derive(clap::Args)]
#[group(skip)]
#[command(group(clap::ArgGroup::new("only").args(["part", "cell"]).multiple(true)))]
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
    /// Only these parts; prints the figures and writes nothing.
    #[arg(long, value_enum, value_name = "PART")]
    part: Vec<Part>,
    /// Only these cells, `POLICY/CONDITION`, of which parts suffice (`two tenants/status`, `rare`, `/user`); prints the figures
    /// and writes nothing.
    #[arg(long, value_name = "CELL")]
    cell: Vec<String>,
    /// Address of a store that runs already and holds the data set; nothing is written to it.
    #[arg(long, value_name = "URL", requires = "only", conflicts_with_all = ["data", "fresh", "spans"])]
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
            part: Vec::new(),
            cell: Vec::new(),
            store: None,
            programs: None,
        }
    }
}

impl Options {
    /// Whether figures are missing for the page.
    fn is_partial(&self) -> bool {
        !self.part.is_empty() || !self.cell.is_empty()
    }

    /// Cells alone are the first page of these; in somebody else's store nothing may be written.
    fn wants(&self, part: Part) -> bool {
        let asked = if self.part.is_empty() {
            self.cell.is_empty() || part == Part::Cells
        } else {
            self.part.contains(&part)
        };
        asked && (self.store.is_none() || !matches!(part, Part::Suggestions | Part::Windows))
    }

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
    engine: String,
    _place: Option<Place>,
    directory: TempDir,
}

/// Measures; nothing comes back when only a part was asked for, which is then printed.
pub fn run(options: &Options) -> Result<Option<Section>> {
    let cells = options.cells()?;
    let programs = super::programs(options.programs.as_deref())?;
    let mut bench = Bench::start(options, &programs)?;
    let outcome = bench.measure(&cells, options);
    // A program that died is the better explanation.
    let results = bench.check().and(outcome).inspect_err(|error| bench.keep_logs(error))?;
    bench.stop()?;
    let (text, bars) = results.markdown();
    if options.is_partial() {
        println!("{}", text.trim_end());
        return Ok(None);
    }
    Ok(Some(Section { title: "Searching", text, bars }))
}

/// Measures previews of changes of roles, on the same data.
pub fn previews(options: &Options) -> Result<Section> {
    let programs = super::programs(options.programs.as_deref())?;
    let mut bench = Bench::start(options, &programs)?;
    let table = DAY_TABLE.quoted();
    let layout =
        Layout { table: &table, range: Range::last_seconds(86_400), traces: bench.traces, columns: &[] };
    let outcome = previews::measure(&bench, &layout, options.effort());
    let measured = bench.check().and(outcome).inspect_err(|error| bench.keep_logs(error))?;
    let memory = bench.service.peak_memory()?;
    bench.stop()?;
    let (text, bars) = previews::markdown(bench.traces * SPANS_A_TRACE, &bench.engine, &measured, memory);
    Ok(Section { title: "Previews", text, bars })
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
                let store = Store::new(&url, &password);
                place.fill(&store)?;
                // An earlier run may have been ended in the middle.
                suggestions::take_away(&store, DAY_TABLE)?;
                (Some(place), Some(running), url, password)
            }
        };
        let store = Store::new(&url, &password);
        let spans: u64 = store.run(&format!("SELECT count() FROM {}", DAY_TABLE.quoted()))?.trim().parse()?;
        let engine = store.run("SELECT version()")?.trim().to_owned();
        let service = Prepared::start(
            programs,
            directory.path(),
            (&url, &password),
            Source { database: DATABASE, table: DAY_TABLE.name, fields: &fields(&[]) },
            ASKERS.iter().map(|asker| &asker.caller),
        )?;
        let traces = spans.div_ceil(SPANS_A_TRACE);
        Ok(Self { service, local_store, store, traces, engine, _place: place, directory })
    }

    /// Has the service read another table.
    fn bind(&self, table: Table) -> Result<()> {
        self.service.bind(Source { database: DATABASE, table: table.name, fields: &fields(&[]) })
    }

    /// An error when one of the programs has ended.
    fn check(&mut self) -> Result<()> {
        self.service.check()?;
        self.local_store.as_mut().map_or(Ok(()), LocalStore::check)
    }

    fn stop(&mut self) -> Result<()> {
        let service = self.service.stop();
        service.and(self.local_store.as_mut().map_or(Ok(()), LocalStore::stop))
    }

    /// What the programs said about it is wanted after an error that nobody asked for.
    fn keep_logs(&mut self, error: &anyhow::Error) {
        if !error.is::<Interrupted>() {
            self.directory.disable_cleanup(true);
            eprintln!("the logs of both programs are kept in `{}`", self.directory.path().display());
        }
    }

    fn measure(&self, cells: &[Cell], options: &Options) -> Result<Results> {
        let mut results =
            Results { spans: self.traces * SPANS_A_TRACE, engine: self.engine.clone(), ..Results::default() };
        let (table, effort) = (DAY_TABLE.quoted(), options.effort());
        let range = Range::last_seconds(86_400);
        let layout = Layout { table: &table, range, traces: self.traces, columns: &[] };
        if options.wants(Part::Cells) {
            results.cells = self.cells(cells, &layout, options)?;
        }
        if options.wants(Part::Whole) {
            results.whole = self.whole(cells, &layout, effort)?;
        }
        if options.wants(Part::Pages) {
            results.walk = Some(pages::walk(&self.service, &self.store, &layout, effort)?);
        }
        if options.wants(Part::Windows) {
            self.bind(WEEK_TABLE)?;
            results.windows = pages::windows(&self.service, &self.store, WEEK_TABLE, self.traces, effort)?;
            self.bind(DAY_TABLE)?;
        }
        if options.wants(Part::Suggestions) {
            let applied = suggestions::apply(&self.service, &self.store, DAY_TABLE)?;
            let layout = Layout { columns: &applied.columns, ..layout };
            results.cells_with_columns = self.cells(cells, &layout, options)?;
            results.whole_with_columns = self.whole(cells, &layout, effort)?;
            results.applied = Some(applied);
            suggestions::take_away(&self.store, DAY_TABLE)?;
        }
        Ok(results)
    }

    fn cells(&self, cells: &[Cell], layout: &Layout<'_>, options: &Options) -> Result<Vec<Measured>> {
        let later = !options.is_partial();
        let (mut measured, failures) = (Vec::new(), Failures::default());
        for cell in cells {
            // The others may tell what is wrong with one that fails.
            let outcome = cells::measure(&self.service, &self.store, layout, *cell, options.effort(), later)
                .with_context(|| cell.name());
            if let Some(figures) = failures.tolerate(outcome)? {
                eprintln!("{}", report::line(&figures));
                measured.push(figures);
            }
        }
        failures.check()?;
        Ok(measured)
    }

    fn whole(&self, cells: &[Cell], layout: &Layout<'_>, effort: Effort) -> Result<Vec<Whole>> {
        let mut measured = Vec::new();
        for cell in cells {
            measured.extend(pages::whole(&self.service, &self.store, layout, *cell, effort)?);
        }
        Ok(measured)
    }
}

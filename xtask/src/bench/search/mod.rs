//! `cargo xtask bench search`: the cost of finding traces through the service, compared with hand-written statements.

mod cells;
mod data;
mod pages;
mod previews;
mod queries;
mod report;
mod suggestions;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::Section;
use super::interleaved::{Effort, Failures};
use super::service::{BenchService, Source};
use super::store::Store;
use crate::engine;
use crate::stack::LocalStore;
use crate::stack::interrupt::Interrupted;
use cells::Measured;
use data::{DATABASE, DAY_TABLE, DataDirectory, SPANS_A_TRACE, Table, WEEK_TABLE};
use pages::Whole;
use queries::{Cell, Layout, Range, SEARCH_CALLERS, fields};
use report::Results;

/// Memory limit for all concurrent queries of the local store. Hand-written statements that group a day need more than its
/// default limit.
const STORE_MEMORY: u64 = 12 << 30;

/// Part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The first page of every cell, and page 20.
    Cells,
    /// The first page with whole spans.
    Whole,
    /// Paging through 1,000 pages.
    Pages,
    /// Windows of one hour, one day, and seven days.
    Windows,
    /// Cells and whole pages again, with the suggested DDL applied.
    Suggestions,
}

/// Scope of the benchmark.
#[derive(clap::Args)]
#[group(skip)]
#[command(group(clap::ArgGroup::new("only").args(["part", "cell"]).multiple(true)))]
pub struct Options {
    /// Number of spans of the data set, in each of its two tables.
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000_000)]
    spans: u64,
    /// Directory of the data set. Default: `tracewarden/bench` in the user's cache directory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Regenerate the data set.
    #[arg(long)]
    fresh: bool,
    /// Number of measured rounds, after one warm-up round. Slow statements get fewer rounds.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: usize,
    /// Seconds that the service or a statement may use per cell before its remaining rounds are skipped.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    cap: u64,
    /// Measure only these parts. The figures are printed and not written to the document.
    #[arg(long, value_enum, value_name = "PART")]
    part: Vec<Part>,
    /// Measure only these cells, given as `POLICY/CONDITION` or parts of it (`two tenants/status`, `rare`, `/user`). The figures
    /// are printed and not written to the document.
    #[arg(long, value_name = "CELL")]
    cell: Vec<String>,
    /// URL of a running ClickHouse that holds the data set. The benchmark does not write to it.
    #[arg(long, value_name = "URL", requires = "only", conflicts_with_all = ["data", "fresh", "spans"])]
    store: Option<String>,
    /// Directory of already built `tracewarden` and `tracewarden-localstore` programs.
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
    /// Whether this is a partial run, which lacks figures for the document.
    fn is_partial(&self) -> bool {
        !self.part.is_empty() || !self.cell.is_empty()
    }

    /// Whether to measure this part. With `--cell` alone, only [`Part::Cells`] is measured. Parts that write are skipped on an
    /// external ClickHouse.
    fn wants(&self, part: Part) -> bool {
        let is_selected = if self.part.is_empty() {
            self.cell.is_empty() || part == Part::Cells
        } else {
            self.part.contains(&part)
        };
        is_selected && (self.store.is_none() || !matches!(part, Part::Suggestions | Part::Windows))
    }

    fn effort(&self) -> Effort {
        Effort { rounds: self.rounds.max(1), cap: Duration::from_secs(self.cap) }
    }

    fn cells(&self) -> Result<Vec<Cell>> {
        for text in &self.cell {
            let known = || Cell::all().map(Cell::name).collect::<Vec<_>>().join("; ");
            ensure!(
                Cell::all().any(|cell| cell.matches_name(text)),
                "there is no cell `{text}`; the cells are: {}",
                known()
            );
        }
        let wanted =
            |cell: &Cell| self.cell.is_empty() || self.cell.iter().any(|text| cell.matches_name(text));
        Ok(Cell::all().filter(wanted).collect())
    }
}

/// The running programs, in the order in which they must stop.
struct Bench {
    service: BenchService,
    /// `None` with an external ClickHouse.
    local_store: Option<LocalStore>,
    store: Store,
    traces: u64,
    engine: String,
    _data_directory: Option<DataDirectory>,
    directory: TempDir,
}

/// Runs the measurements. Returns `None` after a partial run, whose results are printed.
pub fn run(options: &Options) -> Result<Option<Section>> {
    let cells = options.cells()?;
    let programs = super::programs(options.programs.as_deref())?;
    let mut bench = Bench::start(options, &programs)?;
    let outcome = bench.measure(&cells, options);
    // If a program has exited, that error explains the failure better.
    let results = bench.check().and(outcome).inspect_err(|error| bench.keep_logs(error))?;
    bench.stop()?;
    let (text, targets) = results.markdown();
    if options.is_partial() {
        println!("{}", text.trim_end());
        return Ok(None);
    }
    Ok(Some(Section { title: "Searching", text, targets }))
}

/// Measures previews of role changes, with the same data.
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
    let (text, targets) = previews::markdown(bench.traces * SPANS_A_TRACE, &bench.engine, &measured, memory);
    Ok(Section { title: "Previews", text, targets })
}

impl Bench {
    fn start(options: &Options, programs: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("tracewarden-bench-").tempdir()?;
        let (data_directory, local_store, url, password) = match &options.store {
            Some(url) => (None, None, url.clone(), String::new()),
            None => {
                let mut data_directory =
                    DataDirectory::prepare(options.data.as_deref(), options.spans, options.fresh)?;
                let engine = engine::ensure()?;
                let running = LocalStore::start(
                    programs,
                    &engine,
                    &data_directory.store(),
                    directory.path(),
                    Some(STORE_MEMORY),
                )?;
                let (url, password) = (running.url.clone(), running.password.clone());
                let store = Store::new(&url, &password);
                data_directory.fill(&store)?;
                // An earlier run may have been interrupted while the suggestions were applied.
                suggestions::remove_suggestions(&store, DAY_TABLE)?;
                (Some(data_directory), Some(running), url, password)
            }
        };
        let store = Store::new(&url, &password);
        let spans: u64 = store.run(&format!("SELECT count() FROM {}", DAY_TABLE.quoted()))?.trim().parse()?;
        let engine = store.run("SELECT version()")?.trim().to_owned();
        let service = BenchService::start(
            programs,
            directory.path(),
            (&url, &password),
            Source { database: DATABASE, table: DAY_TABLE.name, fields: &fields(&[]) },
            SEARCH_CALLERS.iter().map(|search_caller| &search_caller.caller),
        )?;
        let traces = spans.div_ceil(SPANS_A_TRACE);
        Ok(Self { service, local_store, store, traces, engine, _data_directory: data_directory, directory })
    }

    /// Binds another table to the service.
    fn bind(&self, table: Table) -> Result<()> {
        self.service.bind(Source { database: DATABASE, table: table.name, fields: &fields(&[]) })
    }

    /// Returns an error if one of the programs has exited.
    fn check(&mut self) -> Result<()> {
        self.service.check()?;
        self.local_store.as_mut().map_or(Ok(()), LocalStore::check)
    }

    fn stop(&mut self) -> Result<()> {
        let service = self.service.stop();
        service.and(self.local_store.as_mut().map_or(Ok(()), LocalStore::stop))
    }

    /// Keeps the programs' logs after an error, unless the run was interrupted.
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
            results.pagination = Some(pages::pagination(&self.service, &self.store, &layout, effort)?);
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
            suggestions::remove_suggestions(&self.store, DAY_TABLE)?;
        }
        Ok(results)
    }

    fn cells(&self, cells: &[Cell], layout: &Layout<'_>, options: &Options) -> Result<Vec<Measured>> {
        let later = !options.is_partial();
        let (mut measured, failures) = (Vec::new(), Failures::default());
        for cell in cells {
            // After a failed cell, measure the others: their results may help to explain it.
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

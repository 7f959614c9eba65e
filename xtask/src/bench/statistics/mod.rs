//! `cargo xtask bench statistics`: counts, field values, whole pages and role previews, compared with equivalent hand-written
//! statements.

mod agent;
mod collateral;
mod histogram;
mod page;
mod previews;
mod report;
mod stats;
mod summaries;
mod values;

use std::cell::Cell as SharedCell;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

pub use report::TITLE;

use super::Section;
use super::clickhouse::ClickHouseKind;
use super::conditions::cells::Access;
use super::conditions::environment::{DataSet, Environment, Plan};
use super::interleaved::{self, Effort, Failures, Figures, Sample, Variant};
use super::log::Log;
use previews::Previewed;

/// Minimum number of rounds for results that are written to the document.
const FEWEST_ROUNDS: usize = 7;
/// Seconds by which the window moves back in each round.
const STEP: u64 = 7;

/// Part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The MCP tool `svc_trace_stats`.
    Stats,
    /// Histogram and facets of `POST /traces/stats`.
    Histogram,
    /// `GET /filter/values`.
    Values,
    /// A page of 50 whole traces.
    Page,
    /// The MCP tool `svc_query_traces`.
    Summaries,
    /// `POST /policies/collateral-access`.
    Collateral,
    /// `POST /policies/preview` with 300 roles and 300 users.
    Previews,
}

/// Scope of the benchmark.
#[derive(clap::Args)]
#[group(skip)]
pub struct Options {
    /// Number of spans of a data set; several values are separated by commas.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_values_t = [5_000_000])]
    spans: Vec<u64>,
    /// Kinds of ClickHouse to measure, separated by commas. Default: both.
    #[arg(long, value_enum, value_name = "STORE", value_delimiter = ',')]
    store: Vec<ClickHouseKind>,
    /// Measure only these parts, separated by commas. The figures are printed and not written to the document.
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    part: Vec<Part>,
    /// Number of measured rounds, after one warm-up round. With fewer than 7, the figures are printed and not written to the
    /// document.
    #[arg(long, value_name = "NUMBER", default_value_t = FEWEST_ROUNDS)]
    rounds: usize,
    /// Seconds that the service or a statement may use per measurement before its remaining rounds are skipped.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    cap: u64,
    /// Write every single measurement to this file, as one JSON object per line.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Directory of already built `tracewarden` and `tracewarden-localstore` programs.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            spans: vec![5_000_000],
            store: Vec::new(),
            part: Vec::new(),
            rounds: FEWEST_ROUNDS,
            cap: 600,
            log: None,
            programs: None,
        }
    }
}

impl Options {
    fn wants(&self, part: Part) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }
}

/// Measurements of the service and of the hand-written statement.
pub struct Measured {
    pub data: DataSet,
    pub part: Part,
    pub what: String,
    pub handwritten: Figures,
    pub service: Figures,
    /// Maximum number of statements that the service sent for an answer.
    pub statements: u64,
}

/// A data set with the service and the ClickHouse instance that serve it.
pub struct Bench<'a> {
    environment: &'a Environment,
    log: &'a Log,
    effort: Effort,
    failures: &'a Failures,
}

/// An answer as lines, which are equal if both ways give the same answer.
type Answer = Vec<String>;

impl Measured {
    /// Time of the service divided by the time of the hand-written statement.
    pub fn ratio(&self) -> f64 {
        self.service.milliseconds / self.handwritten.milliseconds
    }
}

/// Runs the measurements. Returns `None` after a partial run, whose results are printed.
pub fn run(options: &Options) -> Result<Option<Section>> {
    let log = Log::create(options.log.as_deref())?;
    let programs = super::programs(options.programs.as_deref())?;
    let plan = Plan { stores: &options.store, sizes: &options.spans, unmerged: false, programs: &programs };
    let effort = Effort { rounds: options.rounds.max(1), cap: Duration::from_secs(options.cap) };
    let failures = Failures::default();
    let (mut measured, mut previewed): (Vec<Measured>, Vec<Previewed>) = (Vec::new(), Vec::new());
    let versions = plan.run(|environment| {
        let bench = Bench { environment, log: &log, effort, failures: &failures };
        if options.wants(Part::Stats) {
            stats::measure(&bench, &mut measured)?;
        }
        if options.wants(Part::Histogram) {
            histogram::measure(&bench, &mut measured)?;
        }
        if options.wants(Part::Values) {
            values::measure(&bench, &mut measured)?;
        }
        if options.wants(Part::Page) {
            page::measure(&bench, &mut measured)?;
        }
        if options.wants(Part::Summaries) {
            summaries::measure(&bench, &mut measured)?;
        }
        if options.wants(Part::Collateral) {
            collateral::measure(&bench, &mut measured)?;
        }
        // Previews run last, because they create hundreds of users in the service.
        if options.wants(Part::Previews) {
            previews::measure(&bench, &mut previewed)?;
        }
        Ok(())
    })?;
    let section = report::section(&measured, &previewed, &versions, options.rounds);
    let complete = failures.check();
    if complete.is_err() || !options.part.is_empty() || options.rounds < FEWEST_ROUNDS {
        println!("{}", section.text.trim_end());
        return complete.map(|()| None);
    }
    Ok(Some(section))
}

impl Bench<'_> {
    /// Runs the service and the hand-written statement in turn, the service first. Both get the round number and must give the
    /// same answer. Returns `None` if a measurement failed.
    fn compare(
        &self,
        part: Part,
        access: &Access,
        what: &str,
        handwritten: impl Fn(usize) -> Result<Sample<Answer>>,
        service: impl Fn(usize) -> Result<(Answer, Duration)>,
    ) -> Result<Option<Measured>> {
        let (store, most_statements) = (&self.environment.store, SharedCell::new(0));
        let what = format!("{}: {what}", access.caller.name);
        // Amount by which reading the counters increases them.
        let own = {
            let before = store.counters()?;
            store.counters()?.since(before)
        };
        let log = |variant: &str, round: usize, sample: &Sample<Answer>| {
            let DataSet { store, spans, .. } = self.environment.data;
            self.log.write(&json!({
                "store": store.name(), "spans": spans, "what": what, "contestant": variant, "round": round,
                "milliseconds": sample.elapsed.as_secs_f64() * 1e3, "rows": sample.rows, "bytes": sample.bytes,
            }))
        };
        let mut variants = [
            Variant::with_round("the service", |round| {
                let before = store.counters()?;
                let (answer, elapsed) = service(round)?;
                let spent = store.counters()?.since(before).since(own);
                most_statements.set(spent.statements.max(most_statements.get()));
                let sample = Sample { answer, elapsed, rows: spent.rows, bytes: spent.bytes };
                log("service", round, &sample)?;
                Ok(sample)
            }),
            Variant::with_round("by hand", |round| {
                let sample = handwritten(round)?;
                log("by hand", round, &sample)?;
                Ok(sample)
            }),
        ];
        let outcome = interleaved::measure_agreeing(&mut variants, self.effort).with_context(|| what.clone());
        drop(variants);
        let Some((_, figures)) = self.failures.tolerate(outcome)? else { return Ok(None) };
        let [service, handwritten] = figures.as_slice() else { anyhow::bail!("figures are missing") };
        let measured = Measured {
            data: self.environment.data,
            part,
            what,
            handwritten: *handwritten,
            service: *service,
            statements: most_statements.get(),
        };
        eprintln!("{}", report::line(&measured));
        Ok(Some(measured))
    }
}

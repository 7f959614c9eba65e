//! `cargo xtask bench layouts`: searches in tables of other products, compared with hand-written statements.

mod tables;

use std::cell::Cell;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Section;
use super::clickhouse::{ClickHouse, ClickHouseKind};
use super::conditions::data;
use super::conditions::handwritten::{SHAPES, Search, Window};
use super::interleaved::{self, Effort, Failures, Figures, SETTINGS, Sample, Variant};
use super::log::Log;
use super::numbers::{grouped, time};
use super::service::{BenchService, Caller, Source};
use super::store::Store;
use super::targets::{self, Target};
use tables::{Filter, JAEGER, SIGNOZ, Table};

pub const TITLE: &str = "Tables of other products";

/// Traces of a page.
const LIMIT: u64 = 20;
/// Length of the window in seconds.
const WINDOW: u64 = 24 * 3_600;
/// Maximum time of the service, relative to the fastest hand-written statement.
const MAX_RATIO: f64 = 1.2;

/// Scope of the benchmark.
#[derive(clap::Args)]
#[group(skip)]
pub struct Options {
    /// Number of spans. The target applies to 5,000,000.
    #[arg(long, value_name = "NUMBER", default_value_t = 5_000_000)]
    spans: u64,
    /// Kind of ClickHouse to measure.
    #[arg(long, value_enum, value_name = "STORE", default_value = "engine")]
    store: ClickHouseKind,
    /// Number of measured rounds, after one warm-up round.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    rounds: usize,
    /// Write every single measurement to this file, as one JSON object per line.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Directory of already built `tracewarden` and `tracewarden-localstore` programs.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { spans: 5_000_000, store: ClickHouseKind::Engine, rounds: 7, log: None, programs: None }
    }
}

/// The users: one who sees every trace, and one for each layout with the policy of a team.
static ALL: Caller = Caller { name: "all", roles: &[("everything", "true")], tenants: &[] };
static JAEGER_TEAM: Caller = Caller { name: "team policy", roles: &[("team", JAEGER.team.0)], tenants: &[] };
static SIGNOZ_TEAM: Caller = Caller { name: "team policy", roles: &[("team", SIGNOZ.team.0)], tenants: &[] };

/// Figures of a filter.
struct Measured {
    table: &'static Table,
    caller: &'static str,
    filter: &'static str,
    found: usize,
    handwritten: Vec<Figures>,
    service: Figures,
    statements: u64,
}

impl Measured {
    fn fastest_handwritten(&self) -> f64 {
        self.handwritten.iter().map(|figures| figures.milliseconds).fold(f64::NAN, f64::min)
    }

    fn ratio(&self) -> f64 {
        self.service.milliseconds / self.fastest_handwritten()
    }
}

/// Runs the measurements.
pub fn run(options: &Options) -> Result<Option<Section>> {
    let log = Log::create(options.log.as_deref())?;
    let programs = super::programs(options.programs.as_deref())?;
    let directory = tempfile::Builder::new().prefix("tracewarden-bench-").tempdir()?;
    let clickhouse = ClickHouse::start(options.store, &programs, directory.path())?;
    let store = clickhouse.client();
    let version = store.run("SELECT version()")?.trim().to_owned();
    let spans = data::fill(&store, options.spans)?;
    eprintln!("{}: {} spans", options.store.name(), grouped(spans));
    let (failures, mut measured) = (Failures::default(), Vec::new());
    for (table, team) in [(&JAEGER, &JAEGER_TEAM), (&SIGNOZ, &SIGNOZ_TEAM)] {
        table.fill(&store, version_numbers(&version)?)?;
        let (own, fields) = (directory.path().join(table.name), table.fields());
        fs::create_dir(&own)?;
        let source = Source { database: table.layout.database, table: table.layout.table, fields: &fields };
        let mut service =
            BenchService::start(&programs, &own, clickhouse.access(), source, [&ALL, team].into_iter())?;
        let effort = Effort { rounds: options.rounds.max(1), cap: Duration::from_secs(600) };
        let bench = Bench { table, store: &store, service: &service, log: &log, effort, next: Cell::new(0) };
        for (caller, policy) in [(&ALL, None), (team, Some(table.team.1))] {
            for filter in &table.filters {
                let Some(one) = failures.tolerate(bench.measure(caller, policy, filter))? else { continue };
                eprintln!("{}", line(&one));
                measured.push(one);
            }
        }
        service.stop()?;
        table.drop(&store)?;
    }
    clickhouse.stop()?;
    let kind = options.store.name();
    let section = section(&measured, &format!("ClickHouse {version} ({kind})"), spans, options.rounds);
    failures.check()?;
    Ok(Some(section))
}

fn version_numbers(version: &str) -> Result<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        anyhow::bail!("`{version}` is not a version");
    };
    Ok((major, minor))
}

/// A table with the service in front of it.
struct Bench<'a> {
    table: &'static Table,
    store: &'a Store,
    service: &'a BenchService,
    log: &'a Log,
    effort: Effort,
    /// Number of searches so far; each uses other values.
    next: Cell<u64>,
}

impl Bench<'_> {
    fn measure(
        &self,
        caller: &'static Caller,
        policy: Option<&'static str>,
        filter: &'static Filter,
    ) -> Result<Measured> {
        let first = self.next.get();
        self.next.set(first + self.effort.rounds as u64 + 1);
        let window = Window { layout: &self.table.layout, ..Window::last(WINDOW, 0) };
        let most_statements = Cell::new(0);
        let own = {
            let before = self.store.counters()?;
            self.store.counters()?.since(before)
        };
        let conditions = |round: usize| -> Result<(Vec<Value>, Vec<String>)> {
            let number = first + round as u64;
            let written = filter.conditions.iter().map(|condition| condition.of_round(number));
            Ok(written.collect::<Result<Vec<_>>>()?.into_iter().unzip())
        };
        let log = |variant: &str, round: usize, sample: &Sample<Vec<String>>| {
            self.log.write(&json!({
                "table": self.table.name, "caller": caller.name, "filter": filter.name, "contestant": variant, "round": round,
                "milliseconds": sample.elapsed.as_secs_f64() * 1e3, "rows": sample.rows, "found": sample.answer.len(),
            }))
        };
        let mut variants: Vec<Variant<'_, Vec<String>>> = SHAPES
            .into_iter()
            .map(|shape| {
                Variant::with_round(shape, move |round| {
                    let (_, conditions) = conditions(round)?;
                    // The condition on an attribute is the rarer one.
                    let rarest = conditions.last().cloned();
                    let search = Search { window, conditions, rarest, policy, limit: LIMIT };
                    let reply = self.store.ask(&search.statement(shape), SETTINGS)?;
                    let (rows, bytes) = reply.read()?;
                    let sample = Sample { answer: reply.lines()?, elapsed: reply.elapsed, rows, bytes };
                    log(shape, round, &sample)?;
                    Ok(sample)
                })
            })
            .collect();
        variants.push(Variant::with_round("the service", |round| {
            let ([from, to], (conditions, _)) = (window.rfc_3339(), conditions(round)?);
            let body = json!({
                "from": from, "to": to, "limit": LIMIT, "view": "ids", "filter": {"conditions": conditions},
            });
            let before = self.store.counters()?;
            let page = self.service.query(caller, &body)?;
            let spent = self.store.counters()?.since(before).since(own);
            most_statements.set(spent.statements.max(most_statements.get()));
            let (answer, elapsed) = (page.trace_ids()?, page.reply.elapsed);
            let sample = Sample { answer, elapsed, rows: spent.rows, bytes: spent.bytes };
            log("service", round, &sample)?;
            Ok(sample)
        }));
        let (answer, mut handwritten) = interleaved::measure_agreeing(&mut variants, self.effort)
            .with_context(|| format!("{}: {}: {}", self.table.name, caller.name, filter.name))?;
        drop(variants);
        Ok(Measured {
            table: self.table,
            caller: caller.name,
            filter: filter.name,
            found: answer.map_or(0, |answer| answer.len()),
            service: handwritten.pop().unwrap_or_default(),
            handwritten,
            statements: most_statements.get(),
        })
    }
}

fn line(one: &Measured) -> String {
    let by_hand: Vec<String> = one.handwritten.iter().map(|figures| time(figures.milliseconds)).collect();
    format!(
        "{}: {} · {}: by hand {} ms, service {} ms (slowest {}) in {} statements: {:.2} times",
        one.table.name,
        one.caller,
        one.filter,
        by_hand.join(" / "),
        time(one.service.milliseconds),
        time(one.service.slowest),
        one.statements,
        one.ratio()
    )
}

fn section(measured: &[Measured], version: &str, spans: u64, rounds: usize) -> Section {
    let targets: Vec<Target> = measured
        .iter()
        .map(|one| {
            let what =
                format!("{}, {}, {}: times the fastest by hand", one.table.name, one.caller, one.filter);
            Target::at_most(&what, MAX_RATIO, one.ratio())
        })
        .collect();
    let mut text = format!(
        "## {TITLE}\n\nThe {} spans of *Searches with several conditions* in the layouts of Jaeger 2 and SigNoz, merged, on \
         {version}.\nFirst pages of {LIMIT} ids of the last 24 hours; medians of {rounds} rounds, each with other values. The hand-written \
         statements have\nthe same forms as there; for SigNoz, they have a condition on the time bucket, too.\n\n{}\n",
        grouped(spans),
        targets::table(&targets)
    );
    let _ = writeln!(
        text,
        "| table · caller · filter | found | {}, ms | service, ms | slowest, ms | times | rows of one pass | of the service | statements |\n\
         |---|---|---|---|---|---|---|---|---|---|---|",
        SHAPES.join(", ms | ")
    );
    for one in measured {
        let by_hand: Vec<String> = one.handwritten.iter().map(|figures| time(figures.milliseconds)).collect();
        let rows_of_one_pass = one.handwritten.get(1).map_or(0, |figures| figures.rows);
        let _ = writeln!(
            text,
            "| {} · {} · {} | {} | {} | {} | {} | {:.2} | {} | {} | {} |",
            one.table.name,
            one.caller,
            one.filter,
            one.found,
            by_hand.join(" | "),
            time(one.service.milliseconds),
            time(one.service.slowest),
            one.ratio(),
            grouped(rows_of_one_pass),
            grouped(one.service.rows),
            one.statements
        );
    }
    Section { title: TITLE, text, targets }
}

//! `cargo xtask bench conditions`: searches with one to four conditions through the service, compared with hand-written
//! statements.

pub mod cells;
mod curve;
pub mod data;
pub mod environment;
pub mod handwritten;
pub mod measure;
mod report;

pub use report::{CURVE_TITLE, TITLE};

use std::cell::Cell as SharedCell;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Section;
use super::clickhouse::ClickHouseKind;
use super::interleaved::{Effort, Failures};
use super::log::Log;
use cells::{Access, CALLERS, CELLS, CURVE, Cell};
use environment::Plan;
use measure::{Bench, Measured, Page, View};

/// Minimum number of rounds for results that are written to the document.
const FEWEST_ROUNDS: usize = 7;
/// Number of spans in the largest data set of the curve.
const LARGEST: u64 = 20_000_000;

/// Scope of the benchmark.
#[derive(clap::Args)]
#[group(skip)]
pub struct Options {
    /// Number of spans of a data set; several values are separated by commas. With `--curve`, size of the largest data set.
    /// Default: 1,000,000. The targets apply to 1,000,000, 5,000,000 and 20,000,000.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    spans: Vec<u64>,
    /// Kinds of ClickHouse to measure, separated by commas. Default: both.
    #[arg(long, value_enum, value_name = "STORE", value_delimiter = ',')]
    store: Vec<ClickHouseKind>,
    /// Number of traces of a page; several values are separated by commas.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_values_t = [20])]
    limit: Vec<u64>,
    /// Content of a page; both values are separated by a comma.
    #[arg(long, value_enum, value_name = "VIEW", value_delimiter = ',', default_values_t = [View::Ids])]
    view: Vec<View>,
    /// Measure only these cells, given as `CALLER/CONDITIONS` or parts of it (`team/service, user`, `/alone`). The figures are
    /// printed and not written to the document.
    #[arg(long, value_name = "CELL")]
    cells: Vec<String>,
    /// Number of measured rounds, after one warm-up round. With fewer than 7, the figures are printed and not written to the
    /// document.
    #[arg(long, value_name = "NUMBER", default_value_t = FEWEST_ROUNDS)]
    rounds: usize,
    /// Seconds that the service or a statement may use per cell before its remaining rounds are skipped.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    cap: u64,
    /// Also measure with unmerged parts, before merging them.
    #[arg(long)]
    unmerged: bool,
    /// Measure the time against the number of spans instead, from 10,000 to 20 million.
    #[arg(long, conflicts_with_all = ["limit", "view", "cells", "unmerged"])]
    curve: bool,
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
            spans: Vec::new(),
            store: Vec::new(),
            limit: vec![20],
            view: vec![View::Ids],
            cells: Vec::new(),
            rounds: FEWEST_ROUNDS,
            cap: 600,
            unmerged: false,
            curve: false,
            log: None,
            programs: None,
        }
    }
}

impl Options {
    fn sizes(&self) -> Vec<u64> {
        match (self.curve, self.spans.iter().max()) {
            (true, largest) => curve::sizes(largest.copied().unwrap_or(LARGEST)),
            (false, None) => vec![1_000_000],
            (false, Some(_)) => self.spans.clone(),
        }
    }

    fn effort(&self) -> Effort {
        Effort { rounds: self.rounds.max(1), cap: Duration::from_secs(self.cap) }
    }

    /// Returns the pages to measure with each data set.
    fn pages(&self) -> Result<Vec<Page>> {
        let all = CALLERS.iter().flat_map(|access| CELLS.iter().map(move |cell| (access, *cell)));
        if self.curve {
            let wanted = |(access, cell): &(&Access, Cell)| {
                access.caller.name == "team policy" && CURVE.contains(&cell.name)
            };
            let page = |(access, cell)| Page { cell, access, limit: 20, view: View::Ids };
            return Ok(all.filter(wanted).map(page).collect());
        }
        for text in &self.cells {
            let names = || all.clone().map(name).collect::<Vec<_>>().join("; ");
            ensure!(
                all.clone().any(|cell| matches_name(cell, text)),
                "there is no cell `{text}`; the cells are: {}",
                names()
            );
        }
        let wanted =
            |cell: &(_, _)| self.cells.is_empty() || self.cells.iter().any(|text| matches_name(*cell, text));
        let pages = self.view.iter().flat_map(|view| self.limit.iter().map(move |limit| (*view, *limit)));
        let pages = pages.flat_map(|(view, limit)| {
            all.clone().filter(wanted).map(move |(access, cell)| Page { cell, access, limit, view })
        });
        Ok(pages.collect())
    }

    fn is_partial(&self) -> bool {
        !self.cells.is_empty() || self.rounds < FEWEST_ROUNDS
    }
}

fn name((access, cell): (&Access, Cell)) -> String {
    format!("{}/{}", access.caller.name, cell.name)
}

/// Whether `text`, which is `caller/conditions` or a part of either, selects this cell.
fn matches_name((access, cell): (&Access, Cell), text: &str) -> bool {
    let (caller, conditions) = text.split_once('/').unwrap_or((text, ""));
    let has = |name: &str, part: &str| name.to_lowercase().contains(&part.trim().to_lowercase());
    has(access.caller.name, caller) && has(cell.name, conditions)
}

/// Runs the measurements. Returns `None` after a partial run, whose results are printed.
pub fn run(options: &Options) -> Result<Option<Section>> {
    let (pages, log) = (options.pages()?, Log::create(options.log.as_deref())?);
    let programs = super::programs(options.programs.as_deref())?;
    let plan = Plan {
        stores: &options.store,
        sizes: &options.sizes(),
        unmerged: options.unmerged,
        programs: &programs,
    };
    let (failures, mut measured) = (Failures::default(), Vec::<Measured>::new());
    let versions = plan.run(|environment| {
        let data = environment.data;
        let (effort, next_condition) = (options.effort(), SharedCell::new(0));
        let mut bench = Bench { environment, data, log: &log, effort, next_condition };
        let mut measure = |bench: &Bench<'_>, page: &Page| -> Result<()> {
            if let Some(one) = failures.tolerate(bench.measure(*page))? {
                eprintln!("{}", report::line(&one));
                measured.push(one);
            }
            Ok(())
        };
        pages.iter().try_for_each(|page| measure(&bench, page))?;
        // The exporter's table is not sorted by trace: a page's few traces lie in most of its granules.
        let mut whole = pages.iter().filter(|page| report::has_target_for_whole_pages(page, data)).peekable();
        if whole.peek().is_some() {
            environment.add_trace_projection()?;
            bench.data.trace_projection = true;
        }
        whole.try_for_each(|page| measure(&bench, page))
    })?;
    let section = if options.curve {
        report::curve_section(&curve::curves(&measured), &versions, options.rounds)
    } else {
        report::section(&measured, &versions, options.rounds)
    };
    let complete = failures.check();
    if complete.is_err() || options.is_partial() {
        println!("{}", section.text.trim_end());
        return complete.map(|()| None);
    }
    Ok(Some(section))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_parts_of_their_names() {
        let pages = |cells: &[&str]| {
            let cells = cells.iter().map(|text| (*text).to_owned()).collect();
            Options { cells, limit: vec![20, 50], ..Options::default() }.pages().map(|pages| pages.len())
        };
        assert_eq!(pages(&[]).unwrap(), 84);
        assert_eq!(pages(&["team/service, user"]).unwrap(), 2);
        assert_eq!(pages(&["five"]).unwrap(), 28);
        assert_eq!(pages(&["/alone"]).unwrap(), 24);
        assert!(pages(&["no such cell"]).unwrap_err().to_string().contains("all/service, user"));
        let curve = Options { curve: true, ..Options::default() };
        assert_eq!(curve.pages().unwrap().len(), 4);
    }
}

//! `cargo xtask bench conditions`: searches with one to four conditions through the service, against statements by hand.

pub mod by_hand;
pub mod cells;
mod curve;
pub mod data;
pub mod measure;
mod report;
pub mod stage;

pub use report::{CURVE_TITLE, TITLE};

use std::cell::Cell as Shared;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Section;
use super::log::Log;
use super::trace_store::Kind;
use super::turns::{Effort, Failures};
use cells::{Access, CALLERS, CELLS, CURVE, Cell};
use measure::{Bench, Measured, Page, View};
use stage::Plan;

/// Fewer rounds are not written to the page.
const FEWEST_ROUNDS: usize = 7;
/// The largest data set of the curve.
const LARGEST: u64 = 20_000_000;

/// How much is measured, and on what.
#[derive(clap::Args)]
#[group(skip)]
pub struct Options {
    /// Spans of a data set, several with commas; with `--curve` the largest. 1,000,000 unless given; the bars are meant for
    /// 1,000,000, 5,000,000 and 20,000,000.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    spans: Vec<u64>,
    /// Stores, with commas; both unless given.
    #[arg(long, value_enum, value_name = "STORE", value_delimiter = ',')]
    store: Vec<Kind>,
    /// Traces of a page, several with commas.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_values_t = [20])]
    limit: Vec<u64>,
    /// What a page holds, both with a comma.
    #[arg(long, value_enum, value_name = "VIEW", value_delimiter = ',', default_values_t = [View::Ids])]
    view: Vec<View>,
    /// Only these cells, `CALLER/CONDITIONS`, of which parts suffice (`team/service, user`, `/alone`); prints the figures and
    /// writes nothing.
    #[arg(long, value_name = "CELL")]
    cells: Vec<String>,
    /// Rounds that are measured, after one that warms up; with fewer than 7 the figures are printed and not written.
    #[arg(long, value_name = "NUMBER", default_value_t = FEWEST_ROUNDS)]
    rounds: usize,
    /// Seconds after which a contestant is asked no more in the same cell.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    cap: u64,
    /// Measure with unmerged parts too, before they are merged.
    #[arg(long)]
    unmerged: bool,
    /// Measure the time against the number of spans, from 10,000 to 20 million, instead.
    #[arg(long, conflicts_with_all = ["limit", "view", "cells", "unmerged"])]
    curve: bool,
    /// Write every single measurement to this file, as a line of JSON.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Directory of `tracewarden` and `tracewarden-localstore`, instead of building them.
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

    /// What is measured of each data set.
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
                all.clone().any(|cell| is_meant(cell, text)),
                "no cell is called `{text}`; there are: {}",
                names()
            );
        }
        let wanted =
            |cell: &(_, _)| self.cells.is_empty() || self.cells.iter().any(|text| is_meant(*cell, text));
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

/// Whether `caller/conditions`, or a part of either, selects this cell.
fn is_meant((access, cell): (&Access, Cell), text: &str) -> bool {
    let (caller, conditions) = text.split_once('/').unwrap_or((text, ""));
    let has = |name: &str, part: &str| name.to_lowercase().contains(&part.trim().to_lowercase());
    has(access.caller.name, caller) && has(cell.name, conditions)
}

/// Measures; nothing comes back when only a part was asked for, which is then printed.
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
    let versions = plan.run(|stage| {
        let bench = Bench { stage, log: &log, effort: options.effort(), asked: Shared::new(0) };
        for page in &pages {
            let Some(one) = failures.tolerate(bench.measure(*page))? else { continue };
            eprintln!("{}", report::line(&one));
            measured.push(one);
        }
        Ok(())
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

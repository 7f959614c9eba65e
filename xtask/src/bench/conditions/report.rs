//! Formats the figures as tables, with their performance targets.

use std::fmt::Write as _;

use super::curve::Curve;
use super::environment::DataSet;
use super::handwritten::SHAPES;
use super::measure::{Measured, Page, View};
use crate::bench::Section;
use crate::bench::interleaved::geometric_mean;
use crate::bench::numbers::{grouped, time};
use crate::bench::targets::{self, Target};

pub const TITLE: &str = "Searches with several conditions";
pub const CURVE_TITLE: &str = "Time against rows";

/// Allowed fixed overhead per page in milliseconds, in addition to the allowed ratio to the hand-written statement.
const GRACE: f64 = 30.0;

/// Maximum time of whole pages of cells, relative to the fastest hand-written statement for their ids.
const WHOLE_PAGES: [(&str, f64); 2] = [("service, tenant", 1.3), ("service, user", 2.0)];

/// Maximum geometric mean, relative to the fastest hand-written statement, for this many spans.
fn mean_asked(spans: u64) -> f64 {
    match spans {
        0..2_500_000 => 1.0,
        2_500_000..10_000_000 => 0.8,
        _ => 0.6,
    }
}

/// Formats one page as a progress line.
pub fn line(measured: &Measured) -> String {
    let handwritten: Vec<String> =
        measured.handwritten.iter().map(|figures| time(figures.milliseconds)).collect();
    let page = &measured.page;
    format!(
        "{} {}, {}: {} · {}: by hand {} ms, service {} ms (slowest {}) in {} statements: {:.2} times",
        page.view.name(),
        page.limit,
        measured.data.name(),
        page.access.caller.name,
        page.cell.name,
        handwritten.join(" / "),
        time(measured.service.milliseconds),
        time(measured.service.slowest),
        measured.statements,
        measured.ratio()
    )
}

/// Returns the section of the benchmark document.
pub fn section(measured: &[Measured], versions: &[String], rounds: usize) -> Section {
    let targets = targets(measured);
    let mut text = format!(
        "## {TITLE}\n\nTraces of 3 to 20 spans over 72 hours in the layout that version 0.165.1 of the \
         OpenTelemetry exporter creates, on {}.\nEach round searches for other values, after one that fills \
         caches; medians of {rounds} rounds. \"By hand\" means three statements, sent\ndirectly to \
         ClickHouse in turn with the service and checked to give the same answer: *semi-joins* (`TraceId IN \
         (SELECT …)` for each condition and the\npolicy), *one pass* (`WHERE` any of them `GROUP BY TraceId \
         HAVING` all of them), and *rarest first* (all spans of the traces that match\nthe rarest \
         condition). Each decides traces that cross an edge of the window by the trace index. The fastest is \
         in bold; `times` is\nthe service's time divided by that of the fastest. `statements` is the maximum \
         for one page.\n\n",
        versions.join(" and ")
    );
    let _ = writeln!(text, "{}", targets::table(&targets));
    let mut done: Vec<(DataSet, View, u64)> = Vec::new();
    for one in measured {
        let group = (one.data, one.page.view, one.page.limit);
        if done.contains(&group) {
            continue;
        }
        done.push(group);
        let _ = writeln!(
            text,
            "### {}: {}, limit {}\n\n{}",
            one.data.name(),
            match one.page.view {
                View::Ids => "ids",
                View::Whole => "whole traces",
            },
            one.page.limit,
            table(measured.iter().filter(|other| (other.data, other.page.view, other.page.limit) == group))
        );
    }
    Section { title: TITLE, text, targets }
}

fn table<'a>(measured: impl Iterator<Item = &'a Measured>) -> String {
    let mut out = format!(
        "| caller · conditions | found | {}, ms | service, ms | slowest, ms | times | rows of one pass | of the service | statements |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
        SHAPES.join(", ms | ")
    );
    for one in measured {
        let shape = |milliseconds: f64| {
            if milliseconds == one.fastest_handwritten() {
                format!("**{}**", time(milliseconds))
            } else {
                time(milliseconds)
            }
        };
        let shapes: Vec<String> = one.handwritten.iter().map(|figures| shape(figures.milliseconds)).collect();
        let _ = writeln!(
            out,
            "| {} · {} | {} | {} | {} | {} | {:.2} | {} | {} | {} |",
            one.page.access.caller.name,
            one.page.cell.name,
            one.found,
            shapes.join(" | "),
            time(one.service.milliseconds),
            time(one.service.slowest),
            one.ratio(),
            grouped(one.rows_of_one_pass()),
            grouped(one.service.rows),
            one.statements
        );
    }
    out
}

fn targets(measured: &[Measured]) -> Vec<Target> {
    let mut targets = Vec::new();
    let mut done: Vec<DataSet> = Vec::new();
    for data in measured.iter().map(|one| one.data) {
        if done.contains(&data) {
            continue;
        }
        done.push(data);
        let selected: Vec<&Measured> = measured.iter().filter(|one| one.data == data).collect();
        if !data.trace_projection {
            targets.extend(targets_of(&data.name(), data, &selected));
        }
        let is_same =
            |one: &&Measured| DataSet { trace_projection: data.trace_projection, ..one.data } == data;
        let same: Vec<&Measured> = measured.iter().filter(is_same).collect();
        let whole = WHOLE_PAGES.iter();
        targets.extend(whole.filter_map(|(cell, required)| whole_pages(data, &same, cell, *required)));
    }
    targets
}

/// Whether the time of this page, as a whole, has a target with this data set.
pub fn has_target_for_whole_pages(page: &Page, data: DataSet) -> bool {
    let is_listed = WHOLE_PAGES.iter().any(|(cell, _)| *cell == page.cell.name);
    data.merged && data.spans < 2_500_000 && page.view == View::Whole && page.limit == 20 && is_listed
}

fn targets_of(name: &str, data: DataSet, selected: &[&Measured]) -> Vec<Target> {
    let worst = |of: &dyn Fn(&Measured) -> f64| selected.iter().map(|one| of(one)).fold(f64::NAN, f64::max);
    let several = selected.iter().filter(|one| one.page.cell.terms.len() > 1);
    vec![
        Target::at_most(
            &format!("{name}: worst cell, of 1.2 times by hand plus 30 ms"),
            1.0,
            worst(&|one| one.service.milliseconds / (1.2 * one.fastest_handwritten() + GRACE)),
        ),
        Target::at_most(
            &format!("{name}: several conditions, times by hand, geometric mean"),
            mean_asked(data.spans),
            geometric_mean(several.map(|one| one.ratio())),
        ),
        Target::at_most(
            &format!("{name}: slowest answer, of 2 times by hand plus 30 ms"),
            1.0,
            worst(&|one| one.service.slowest / (2.0 * one.fastest_handwritten() + GRACE)),
        ),
        Target::at_most(&format!("{name}: statements of a page"), 8.0, worst(&|one| one.statements as f64)),
        Target::at_most(
            &format!("{name}: rows of a page, times those of one pass"),
            2.0,
            worst(&|one| one.service.rows as f64 / one.rows_of_one_pass().max(1) as f64),
        ),
    ]
}

/// Compares whole pages of 20 traces with the hand-written statement that returns only their ids from the table without a trace
/// projection, if both were measured.
fn whole_pages(data: DataSet, selected: &[&Measured], cell: &str, required: f64) -> Option<Target> {
    let of_cell = |one: &&&Measured| one.page.limit == 20 && one.page.cell.name == cell;
    let ids = || selected.iter().filter(of_cell).filter(|one| one.page.view == View::Ids);
    let whole = selected.iter().filter(of_cell).filter(|one| one.data == data);
    let ratios: Vec<f64> = whole
        .filter(|one| has_target_for_whole_pages(&one.page, data))
        .filter_map(|whole| {
            let same = |ids: &&&Measured| ids.page.access.caller.name == whole.page.access.caller.name;
            Some(whole.service.milliseconds / ids().find(same)?.fastest_handwritten())
        })
        .collect();
    let worst = ratios.iter().copied().reduce(f64::max)?;
    let what = format!("{}: whole page of {cell}, times its ids by hand", data.name());
    Some(Target::at_most(&what, required, worst))
}

/// Returns the section about search time against the number of spans.
pub fn curve_section(curves: &[Curve], versions: &[String], rounds: usize) -> Section {
    let targets: Vec<Target> = curves
        .iter()
        .map(|curve| {
            let what =
                format!("{}, {}: costliest doubling of the spans, times", curve.store.name(), curve.cell);
            Target::at_most(&what, 2.3, curve.growth())
        })
        .collect();
    let mut text = format!(
        "## {CURVE_TITLE}\n\nThe same searches, team policy, first page of 20 ids, on {}; medians of \
         {rounds} rounds, parts merged. \"One pass\" is the statement by hand.\n\n{}",
        versions.join(" and "),
        targets::table(&targets)
    );
    for curve in curves {
        let _ = write!(
            text,
            "\n### {}: {}\n\n| spans | service, ms | one pass, ms | rows of the service | statements |\n|---|---|---|---|---|\n",
            curve.store.name(),
            curve.cell
        );
        for point in &curve.points {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                grouped(point.spans),
                time(point.service.milliseconds),
                time(point.one_pass.milliseconds),
                grouped(point.service.rows),
                point.statements
            );
        }
    }
    Section { title: CURVE_TITLE, text, targets }
}

//! Formats the figures as tables, with their performance targets.

use std::fmt::Write as _;

use super::cells::Measured;
use super::pages::{PAGE_COUNT, Pagination, Whole};
use super::queries::SHAPES;
use super::suggestions::Applied;
use crate::bench::interleaved::{Figures, geometric_mean};
use crate::bench::numbers::{grouped, megabytes, time};
use crate::bench::targets::{self, Target};

/// All measurements. Fields of skipped parts are empty.
#[derive(Default)]
pub struct Results {
    pub spans: u64,
    pub engine: String,
    pub cells: Vec<Measured>,
    pub whole: Vec<Whole>,
    pub pagination: Option<Pagination>,
    pub windows: Vec<(&'static str, Figures)>,
    pub applied: Option<Applied>,
    pub cells_with_columns: Vec<Measured>,
    pub whole_with_columns: Vec<Whole>,
}

impl Results {
    /// Returns the section of the document and its targets.
    pub fn markdown(&self) -> (String, Vec<Target>) {
        let targets = self.targets();
        let mut out = format!(
            "## Searching\n\n{} spans in {} traces of the OpenTelemetry exporter's default table, ClickHouse \
             {}; the first 50 traces,\n`\"view\": \"ids\"`, over HTTP with an API key. \"By hand\" means \
             three forms of one statement, sent directly to ClickHouse in turn\nwith the service and checked \
             to give the same ids in the same order: *naive* groups the window by trace id (`HAVING \
             countIf(policy) > 0\nAND countIf(condition) > 0`), *pre* does it `WHERE policy OR condition`, \
             *semi* is `WHERE condition AND TraceId IN (SELECT …\nWHERE policy)`. The fastest is in bold, \
             and the service is compared with it. All times are medians after a round that\nfills \
             caches.\n\n",
            grouped(self.spans),
            grouped(self.spans / super::data::SPANS_A_TRACE),
            self.engine
        );
        if !targets.is_empty() {
            let _ = writeln!(out, "{}", targets::table(&targets));
        }
        let mut part = |title: &str, text: Option<String>| {
            if let Some(text) = text {
                let _ = writeln!(out, "### {title}\n\n{}\n", text.trim_end());
            }
        };
        let some = |list: &[Measured]| (!list.is_empty()).then(|| cells(list));
        let some_whole = |list: &[Whole]| (!list.is_empty()).then(|| whole(list));
        part("The exporter's table as it is", some(&self.cells));
        part("With the service's suggestions in place", some(&self.cells_with_columns));
        part("Suggestions", self.applied.as_ref().map(applied));
        part("Whole pages, the exporter's table as it is", some_whole(&self.whole));
        part("Whole pages with the service's suggestions in place", some_whole(&self.whole_with_columns));
        part("Pages", self.pagination.as_ref().map(pagination));
        part("Windows", (!self.windows.is_empty()).then(|| windows(&self.windows)));
        (out, targets)
    }

    fn targets(&self) -> Vec<Target> {
        let mut targets = Vec::new();
        if !self.cells.is_empty() {
            let slowest = self.cells.iter().map(|cell| 1.0 / cell.gain()).fold(f64::NAN, f64::max);
            targets.push(Target::at_most("table as it is: worst cell, times the time by hand", 1.2, slowest));
            let mean = geometric_mean(self.cells.iter().map(Measured::gain));
            targets.push(Target::at_least(
                "table as it is: times faster than by hand, geometric mean",
                3.0,
                mean,
            ));
        }
        if !self.cells_with_columns.is_empty() {
            let slowest =
                self.cells_with_columns.iter().map(|cell| 1.0 / cell.gain()).fold(f64::NAN, f64::max);
            targets.push(Target::at_most(
                "with suggestions: worst cell, times the time by hand with them",
                1.0,
                slowest,
            ));
            let mean = geometric_mean(self.cells_with_columns.iter().map(Measured::gain));
            targets.push(Target::at_least(
                "with suggestions: times faster than by hand with them, geometric mean",
                3.0,
                mean,
            ));
            if !self.cells.is_empty() {
                let pairs = self.cells.iter().zip(&self.cells_with_columns);
                let gains = pairs.map(|(without, with)| {
                    without.handwritten().1.milliseconds / with.service.milliseconds.max(1e-6)
                });
                targets.push(Target::at_least(
                    "with suggestions: times faster than by hand without them, geometric mean",
                    10.0,
                    geometric_mean(gains),
                ));
            }
        }
        for (what, list) in [
            ("whole page, times the time of its parts, geometric mean", &self.whole),
            (
                "whole page with suggestions, times the time of its parts, geometric mean",
                &self.whole_with_columns,
            ),
        ] {
            if !list.is_empty() {
                targets.push(Target::at_most(what, 1.15, geometric_mean(list.iter().map(Whole::overhead))));
            }
        }
        if let Some(pagination) = &self.pagination {
            targets.push(Target::at_least(
                "pages of a walk in which each trace came exactly once",
                PAGE_COUNT as f64,
                pagination.pages as f64,
            ));
            targets.push(Target::at_most("page 500, times the time of page 1", 1.3, pagination.growth(500)));
        }
        if let Some((_, first)) = self.windows.first() {
            let longest =
                self.windows.iter().map(|(_, figures)| figures.milliseconds).fold(f64::NAN, f64::max);
            targets.push(Target::at_most(
                "windows up to 7 days, times the time of 1 hour",
                1.5,
                longest / first.milliseconds,
            ));
        }
        targets
    }
}

/// Formats one cell as a progress line.
pub fn line(measured: &Measured) -> String {
    let shapes: Vec<String> = measured.shapes.iter().map(|figures| time(figures.milliseconds)).collect();
    format!(
        "{:<26} by hand {:>20} ms, service {:>7} ms in {} statements: {:.2} times faster",
        measured.cell.name(),
        shapes.join(" / "),
        time(measured.service.milliseconds),
        measured.statements,
        measured.gain()
    )
}

/// Formats the cells as a Markdown table.
fn cells(measured: &[Measured]) -> String {
    let mut out = String::from(
        "| policy, condition | traces | naive, ms | pre, ms | semi, ms | service, ms | page 20, ms | times faster \
         | rows read by hand | by the service | MB read by hand | by the service | statements |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for one in measured {
        let (best, handwritten) = one.handwritten();
        let shape = |(name, figures): (&str, &Figures)| {
            let text = time(figures.milliseconds);
            if name == best { format!("**{text}**") } else { text }
        };
        let shapes: Vec<String> = SHAPES.into_iter().zip(&one.shapes).map(shape).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {:.2} | {} | {} | {} | {} | {} |",
            one.cell.name(),
            one.found,
            shapes.join(" | "),
            time(one.service.milliseconds),
            one.later.map_or_else(String::new, |later| time(later.milliseconds)),
            one.gain(),
            grouped(handwritten.rows),
            grouped(one.service.rows),
            megabytes(handwritten.bytes),
            megabytes(one.service.bytes),
            one.statements
        );
    }
    if let Some(worst) = measured.iter().min_by(|one, other| one.gain().total_cmp(&other.gain())) {
        let _ = writeln!(
            out,
            "\nGeometric mean: {:.2} times faster than the fastest of the three by hand. Worst: {}, {:.2} \
             times. Rows, bytes and statements\nof the service are everything that ClickHouse did in the \
             meantime.",
            geometric_mean(measured.iter().map(Measured::gain)),
            worst.cell.name(),
            worst.gain()
        );
    }
    out
}

/// Formats the whole pages as a Markdown table.
fn whole(measured: &[Whole]) -> String {
    let mut out = String::from(
        "The first page with all columns as JSON, compared with the ids of the same page through the service \
         and a statement that reads the\nspans of these ids directly from ClickHouse.\n\n| policy, condition \
         | spans | page, ms | ids, ms | spans by hand, ms | page against its parts \
         |\n|---|---|---|---|---|---|\n",
    );
    for one in measured {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {:.2} |",
            one.cell.name(),
            grouped(one.spans),
            time(one.page.milliseconds),
            time(one.selection.milliseconds),
            time(one.reading.milliseconds),
            one.overhead()
        );
    }
    out
}

fn applied(applied: &Applied) -> String {
    let (before, after) = applied.bytes;
    let mut out = format!(
        "Statements of `GET /schema/ddl`, run unchanged; the table grew from {} MB to {} MB.\n\n| suggestion \
         | seconds to run |\n|---|---|\n",
        megabytes(before),
        megabytes(after)
    );
    for (what, elapsed) in &applied.suggestions {
        let _ = writeln!(out, "| `{what}` | {:.1} |", elapsed.as_secs_f64());
    }
    out
}

fn pagination(pagination: &Pagination) -> String {
    let mut out = format!(
        "Policy of 70 % of spans, no condition. A walk through {} pages took {:.0} s and found {} traces, each exactly once and in \
         the order\nof the statement by hand.\n\n| page | ms | times page 1 |\n|---|---|---|\n",
        pagination.pages,
        pagination.elapsed.as_secs_f64(),
        grouped(pagination.traces as u64)
    );
    for (number, figures) in &pagination.timed {
        let _ = writeln!(
            out,
            "| {} | {} | {:.2} |",
            grouped(*number as u64),
            time(figures.milliseconds),
            pagination.growth(*number)
        );
    }
    out
}

fn windows(windows: &[(&'static str, Figures)]) -> String {
    let mut out = String::from(
        "The same number of spans over eight days; policy of 70 % of spans, no condition; windows that end with the data.\n\n\
         | window | first page, ms |\n|---|---|\n",
    );
    for (name, figures) in windows {
        let _ = writeln!(out, "| {name} | {} |", time(figures.milliseconds));
    }
    out
}

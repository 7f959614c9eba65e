//! Formats the figures as tables, with their performance targets.

use std::fmt::Write as _;

use super::previews::Previewed;
use super::{Measured, Part};
use crate::bench::Section;
use crate::bench::conditions::environment::DataSet;
use crate::bench::numbers::{grouped, time};
use crate::bench::targets::{self, Target};

pub const TITLE: &str = "Statistics";

/// Maximum time of each part, relative to the hand-written statement.
const REQUIRED: [(Part, &str, f64); 6] = [
    (Part::Stats, "statistics", 2.0),
    (Part::Histogram, "histogram and facets", 1.2),
    (Part::Values, "values of a field", 1.5),
    (Part::Page, "page of 50 whole traces", 1.2),
    (Part::Summaries, "`svc_query_traces`", 2.0),
    (Part::Collateral, "collateral access", 2.0),
];

/// Formats one measurement as a progress line.
pub fn line(measured: &Measured) -> String {
    format!(
        "{}: {}: by hand {} ms, service {} ms in {} statements: {:.2} times",
        measured.data.name(),
        measured.what,
        time(measured.handwritten.milliseconds),
        time(measured.service.milliseconds),
        measured.statements,
        measured.ratio()
    )
}

/// Returns the section of the document.
pub fn section(
    measured: &[Measured],
    previewed: &[Previewed],
    versions: &[String],
    rounds: usize,
) -> Section {
    let mut data_sets: Vec<DataSet> = Vec::new();
    for data in measured.iter().map(|one| one.data).chain(previewed.iter().map(|one| one.data)) {
        if !data_sets.contains(&data) {
            data_sets.push(data);
        }
    }
    let targets: Vec<Target> =
        data_sets.iter().flat_map(|data| targets(*data, measured, previewed)).collect();
    let mut text = format!(
        "## {TITLE}\n\nThe data of searches with several conditions, on {}; medians of {rounds} rounds after \
         one that fills caches, each over\nanother window. \"By hand\" means one equivalent statement, in \
         turn with the service (two for pages and lists: ids, rows); both\nmust give the same answer, except \
         for percentiles, which are estimates.\n\n{}",
        versions.join(" and "),
        targets::table(&targets)
    );
    for data in data_sets {
        let of: Vec<&Measured> = measured.iter().filter(|one| one.data == data).collect();
        if !of.is_empty() {
            let _ = write!(text, "\n### {}: statistics\n\n{}", data.name(), table(&of));
        }
        let of: Vec<&Previewed> = previewed.iter().filter(|one| one.data == data).collect();
        if !of.is_empty() {
            let _ = write!(text, "\n### {}: previews\n\n{}", data.name(), previews(&of));
        }
    }
    Section { title: TITLE, text, targets }
}

fn targets(data: DataSet, measured: &[Measured], previewed: &[Previewed]) -> Vec<Target> {
    let worst = |part: Part| {
        let of = measured.iter().filter(|one| one.data == data && one.part == part);
        of.map(Measured::ratio).reduce(f64::max)
    };
    let mut targets: Vec<Target> = REQUIRED
        .into_iter()
        .filter_map(|(part, what, required)| {
            Some(Target::at_most(
                &format!("{}: {what}, times by hand, worst", data.name()),
                required,
                worst(part)?,
            ))
        })
        .collect();
    for one in previewed.iter().filter(|one| one.data == data) {
        let what = format!("{}: preview with `seconds` {}, seconds", data.name(), one.seconds);
        targets.push(Target::at_most(&what, one.seconds as f64, one.took));
        if !one.equal {
            targets.push(Target::at_most(&format!("{what}: numbers other than by hand"), 0.0, 1.0));
        }
    }
    targets
}

fn table(measured: &[&Measured]) -> String {
    let mut out = String::from(
        "| caller: work | by hand, ms | service, ms | slowest, ms | times | rows by hand | of the service | statements |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for one in measured {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.2} | {} | {} | {} |",
            one.what,
            time(one.handwritten.milliseconds),
            time(one.service.milliseconds),
            time(one.service.slowest),
            one.ratio(),
            grouped(one.handwritten.rows),
            grouped(one.service.rows),
            one.statements
        );
    }
    out
}

fn previews(previewed: &[&Previewed]) -> String {
    let mut out = String::from(
        "A changed role over 24 hours, with 300 roles and 300 users, all of whom have the changed one. \"By \
         hand\" means one pass that counts the\nsame for the role alone, the fastest round; for previews it \
         is the slowest round.\n\n| seconds allowed | taken | share of the traces | members compared | one \
         pass by hand, ms | |\n|---|---|---|---|---|---|\n",
    );
    for one in previewed {
        let taken = if one.took.is_finite() { format!("{:.1}", one.took) } else { "not answered".to_owned() };
        let compared = if one.compared == u64::MAX { String::new() } else { one.compared.to_string() };
        let share = if one.took.is_finite() { format!("{:.3}", one.fraction) } else { String::new() };
        let remark: String = one.failure.as_deref().unwrap_or_default().chars().take(200).collect();
        let _ = writeln!(
            out,
            "| {} | {taken} | {share} | {compared} | {} | {} |",
            one.seconds,
            time(one.handwritten),
            remark.replace(['|', '\n'], " ")
        );
    }
    out
}

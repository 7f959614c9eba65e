//! Measures later pages, pages with whole spans, and windows of different lengths.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use super::cells::{PAGE, page};
use super::data::Table;
use super::queries::{Cell, Layout, Range};
use crate::bench::interleaved::{self, Effort, Figures, SETTINGS, Sample, Variant};
use crate::bench::rows;
use crate::bench::service::BenchService;
use crate::bench::store::Store;

/// Number of pages to read in sequence, and the page numbers that are measured.
pub const PAGE_COUNT: usize = 1_000;
const TIMED: [usize; 4] = [1, 20, 500, PAGE_COUNT];
/// Time limit for reading all pages. Beyond it, a page is too slow to be usable.
const PAGINATION_TIMEOUT: Duration = Duration::from_secs(1_800);

/// Window lengths in seconds. Each window ends at the end of the data.
const WINDOWS: [(&str, u64); 3] = [("1 hour", 3_600), ("24 hours", 86_400), ("7 days", 604_800)];

/// Result of paging through the results.
pub struct Pagination {
    pub pages: usize,
    pub traces: usize,
    pub elapsed: Duration,
    /// Figures by page number, measured afterwards in turn.
    pub timed: Vec<(usize, Figures)>,
}

impl Pagination {
    /// Time of page `number` divided by the time of the first page, or NaN if the page was not reached.
    pub fn growth(&self, number: usize) -> f64 {
        let of = |number| {
            let found = self.timed.iter().find(|(page, _)| *page == number);
            found.map_or(f64::NAN, |(_, figures)| figures.milliseconds)
        };
        of(number) / of(1)
    }
}

/// Returns a cell with many matches.
pub fn dense() -> Result<Cell> {
    Cell::all().next().context("there are no cells")
}

/// Pages through the results of the dense cell. Every trace must appear exactly once, in the order of the hand-written statement.
pub fn pagination(
    service: &BenchService,
    store: &Store,
    layout: &Layout<'_>,
    effort: Effort,
) -> Result<Pagination> {
    let cell = dense()?;
    let ask = |cursor: Option<&str>| page(service, cell, layout, "ids", cursor);
    let bar = ProgressBar::new(PAGE_COUNT as u64);
    bar.set_style(ProgressStyle::with_template("walking {wide_bar} page {human_pos}, {eta} remain")?);
    let begun = Instant::now();
    let (mut ids, mut cursors) = (Vec::new(), vec![None::<String>]);
    while let Some(cursor) = cursors.get(bar.position() as usize) {
        let page = ask(cursor.as_deref())?;
        ids.extend(page.trace_ids()?);
        bar.inc(1);
        match page.next_cursor()? {
            Some(next) if begun.elapsed() < PAGINATION_TIMEOUT && cursors.len() < PAGE_COUNT => {
                cursors.push(Some(next))
            }
            _ => break,
        }
    }
    let (pages, elapsed) = (cursors.len(), begun.elapsed());
    bar.finish_and_clear();
    let expected = store.ask(&cell.handwritten("pre", layout, PAGE * pages as u64), SETTINGS)?.lines()?;
    let distinct = ids.iter().collect::<HashSet<_>>().len();
    ensure!(
        distinct == ids.len(),
        "of {} traces of a walk, {} were returned twice",
        ids.len(),
        ids.len() - distinct
    );
    ensure!(ids == expected, "a walk through {pages} pages found other traces than the statement by hand");

    let mut variants = Vec::new();
    for number in TIMED {
        if let Some(cursor) = cursors.get(number - 1) {
            variants.push(Variant::new(format!("page {number}"), move || {
                let page = ask(cursor.as_deref())?;
                Ok(Sample { answer: page.trace_ids()?, elapsed: page.reply.elapsed, rows: 0, bytes: 0 })
            }));
        }
    }
    let (_, figures) = interleaved::measure(&mut variants, effort)?;
    drop(variants);
    Ok(Pagination { pages, traces: ids.len(), elapsed, timed: TIMED.into_iter().zip(figures).collect() })
}

/// Measurements of a first page with whole spans, and of its parts.
pub struct Whole {
    pub cell: Cell,
    pub spans: u64,
    /// The whole page through the service.
    pub page: Figures,
    /// The trace ids only, through the service.
    pub selection: Figures,
    /// The spans of these ids, by a hand-written statement.
    pub reading: Figures,
}

impl Whole {
    /// Time of the page divided by the sum of its parts.
    pub fn overhead(&self) -> f64 {
        self.page.milliseconds / (self.selection.milliseconds + self.reading.milliseconds).max(1e-6)
    }
}

/// Measures the first page of a cell with all columns. Returns `None` if the page is empty.
pub fn whole(
    service: &BenchService,
    store: &Store,
    layout: &Layout<'_>,
    cell: Cell,
    effort: Effort,
) -> Result<Option<Whole>> {
    let ids = page(service, cell, layout, "ids", None)?.trace_ids()?;
    if ids.is_empty() {
        return Ok(None);
    }
    let count = format!("SELECT count() FROM {} WHERE TraceId IN ({})", layout.table, rows::listed(&ids));
    let spans: u64 = store.run(&count)?.trim().parse()?;
    let through = |view: &'static str| {
        let page = page(service, cell, layout, view, None)?;
        // This key occurs once per row and nowhere else.
        let answer = match view {
            "spans" => rows::occurrences(&page.reply.body, b"\"SpanId\":"),
            _ => spans,
        };
        Ok(Sample { answer, elapsed: page.reply.elapsed, rows: 0, bytes: 0 })
    };
    let statement = rows::statement(store, layout.table, &ids, "")?;
    let mut variants = vec![
        Variant::new("the page", || through("spans")),
        Variant::new("its ids", || through("ids")),
        Variant::new("its spans by hand", || {
            let reply = store.ask(&statement, "enable_http_compression=0&use_query_cache=0")?;
            let answer = rows::occurrences(&reply.body, b"\"SpanId\":");
            Ok(Sample { answer, elapsed: reply.elapsed, rows: 0, bytes: 0 })
        }),
    ];
    let (_, figures) = interleaved::measure_agreeing(&mut variants, effort)?;
    drop(variants);
    let [page, selection, reading] = figures.as_slice() else { bail!("figures are missing") };
    Ok(Some(Whole { cell, spans, page: *page, selection: *selection, reading: *reading }))
}

/// Measures the first page for each window, by window name.
pub fn windows(
    service: &BenchService,
    store: &Store,
    table: Table,
    traces: u64,
    effort: Effort,
) -> Result<Vec<(&'static str, Figures)>> {
    let (cell, quoted) = (dense()?, table.quoted());
    let layout =
        |seconds| Layout { table: &quoted, range: Range::last_seconds(seconds), traces, columns: &[] };
    let mut variants = Vec::new();
    for (name, seconds) in WINDOWS {
        variants.push(Variant::new(name, move || {
            let page = page(service, cell, &layout(seconds), "ids", None)?;
            Ok(Sample { answer: page.trace_ids()?, elapsed: page.reply.elapsed, rows: 0, bytes: 0 })
        }));
    }
    // All windows end at the same time, so that their newest traces are the same.
    let (answer, figures) = interleaved::measure_agreeing(&mut variants, effort)?;
    drop(variants);
    let expected = store.ask(&cell.handwritten("pre", &layout(3_600), PAGE), SETTINGS)?.lines()?;
    ensure!(answer == Some(expected), "the statement by hand finds other traces in the window");
    Ok(WINDOWS.into_iter().map(|(name, _)| name).zip(figures).collect())
}

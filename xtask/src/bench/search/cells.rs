//! Measures policies combined with conditions: pages through the service, and the first page by three shapes of hand-written
//! statements, in turn. All must return the same answer.

use std::cell::Cell as SharedCell;

use anyhow::{Result, ensure};
use serde_json::json;

use super::queries::{Cell, Layout, SHAPES};
use crate::bench::interleaved::{self, Effort, Figures, SETTINGS, Sample, Variant};
use crate::bench::service::{BenchService, Page};
use crate::bench::store::{Counters, Store};
use crate::stack::api::rfc_3339;

/// Traces per page.
pub const PAGE: u64 = 50;

/// Number of the later page that is measured.
const LATER_PAGE: usize = 20;

/// Measurements of one cell.
pub struct Measured {
    pub cell: Cell,
    /// Number of traces on the page.
    pub found: usize,
    /// Figures in the order of [`SHAPES`].
    pub shapes: Vec<Figures>,
    pub service: Figures,
    /// Figures of page 20, if there are that many pages.
    pub later: Option<Figures>,
    /// Number of statements that the service sent for the first page.
    pub statements: u64,
}

impl Measured {
    /// Returns the name and figures of the fastest statement shape.
    pub fn handwritten(&self) -> (&'static str, Figures) {
        let all = SHAPES.into_iter().zip(self.shapes.iter().copied());
        all.min_by(|(_, one), (_, other)| one.milliseconds.total_cmp(&other.milliseconds)).unwrap_or_default()
    }

    /// Time of the fastest shape divided by the time of the service.
    pub fn gain(&self) -> f64 {
        self.handwritten().1.milliseconds / self.service.milliseconds.max(1e-6)
    }
}

/// Requests a page of a cell over the layout's window, as `view`. Without a cursor, it is the first page.
pub fn page(
    service: &BenchService,
    cell: Cell,
    layout: &Layout<'_>,
    view: &str,
    cursor: Option<&str>,
) -> Result<Page> {
    let mut body = json!({
        "from": rfc_3339(layout.range.from), "to": rfc_3339(layout.range.to), "limit": PAGE, "view": view,
        "filter": cell.filter(layout.traces),
    });
    if let (Some(cursor), Some(body)) = (cursor, body.as_object_mut()) {
        body.insert("cursor".to_owned(), json!(cursor));
    }
    service.query(&cell.search_caller.caller, &body)
}

/// Measures one cell. Page 20 is measured only on request, because reaching it takes long.
pub fn measure(
    service: &BenchService,
    store: &Store,
    layout: &Layout<'_>,
    cell: Cell,
    effort: Effort,
    later: bool,
) -> Result<Measured> {
    let statements = SharedCell::new(0);
    // Amount by which reading the counters increases them.
    let own = {
        let before = store.counters()?;
        store.counters()?.since(before)
    };
    let ask = |cursor: Option<&str>| -> Result<Sample<Vec<String>>> {
        let before = store.counters()?;
        let page = page(service, cell, layout, "ids", cursor)?;
        let Counters { rows, bytes, statements: sent } = store.counters()?.since(before).since(own);
        statements.set(sent);
        Ok(Sample { answer: page.trace_ids()?, elapsed: page.reply.elapsed, rows, bytes })
    };
    let handwritten =
        |shape| Variant::handwritten(shape, store, cell.handwritten(shape, layout, PAGE), |ids| ids);
    let mut variants: Vec<Variant<'_, Vec<String>>> = SHAPES.into_iter().map(handwritten).collect();
    variants.push(Variant::new("the service", || ask(None)));
    let (answer, mut figures) = interleaved::measure_agreeing(&mut variants, effort)?;
    drop(variants);
    let (found, sent) = (answer.map_or(0, |ids| ids.len()), statements.get());
    let of_service = figures.pop().unwrap_or_default();

    let later = match later {
        true => cursor_of_later_page(service, store, layout, cell)?,
        false => None,
    };
    let later = match later {
        None => None,
        Some(cursor) => {
            let mut later = [Variant::new("page 20", || ask(Some(&cursor)))];
            interleaved::measure(&mut later, effort)?.1.pop()
        }
    };
    Ok(Measured { cell, found, shapes: figures, service: of_service, later, statements: sent })
}

/// Pages forward to the later page and compares every id on the way. Returns `None` if there are fewer pages.
fn cursor_of_later_page(
    service: &BenchService,
    store: &Store,
    layout: &Layout<'_>,
    cell: Cell,
) -> Result<Option<String>> {
    let (mut ids, mut cursor) = (Vec::new(), None::<String>);
    for _ in 1..LATER_PAGE {
        let page = page(service, cell, layout, "ids", cursor.as_deref())?;
        ids.extend(page.trace_ids()?);
        cursor = page.next_cursor()?;
        if cursor.is_none() {
            break;
        }
    }
    let before = PAGE * (LATER_PAGE as u64 - 1);
    let expected = store.ask(&cell.handwritten("pre", layout, before), SETTINGS)?.lines()?;
    ensure!(ids == expected, "{}: the pages before page {LATER_PAGE} hold other traces", cell.name());
    Ok(cursor)
}

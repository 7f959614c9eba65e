//! Measures a page of whole traces without conditions, as the search page requests it first.

use anyhow::Result;
use serde_json::json;

use super::{Bench, Measured, Part, STEP};
use crate::bench::conditions::cells::CALLERS;
use crate::bench::conditions::handwritten::{Search, Window};
use crate::bench::conditions::measure::{rows_by_hand, rows_of_page};
use crate::bench::interleaved::{SETTINGS, Sample};

/// Traces per page.
const PAGE: u64 = 50;

pub fn measure(bench: &Bench<'_>, measured: &mut Vec<Measured>) -> Result<()> {
    for access in &CALLERS {
        let window = |round: usize| Window::last(3_600, round as u64 * STEP);
        measured.extend(bench.compare(
            Part::Page,
            access,
            &format!("page of {PAGE} whole traces, 1 h"),
            |round| {
                let search = Search {
                    window: window(round),
                    conditions: Vec::new(),
                    rarest: None,
                    policy: access.sql,
                    limit: PAGE,
                };
                let reply = bench.environment.store.ask(&search.one_pass(), SETTINGS)?;
                let ((rows, bytes), ids) = (reply.read()?, reply.lines()?);
                let sample = Sample { answer: Vec::new(), elapsed: reply.elapsed, rows, bytes };
                if ids.is_empty() {
                    return Ok(sample);
                }
                let (answer, reply) = rows_by_hand(&bench.environment.store, &ids)?;
                let (rows, bytes) = reply.read()?;
                Ok(Sample {
                    answer,
                    elapsed: sample.elapsed + reply.elapsed,
                    rows: sample.rows + rows,
                    bytes: sample.bytes + bytes,
                })
            },
            |round| {
                let [from, to] = window(round).rfc_3339();
                let body = json!({"from": from, "to": to, "limit": PAGE, "view": "spans"});
                let page = bench.environment.service.query(&access.caller, &body)?;
                Ok((rows_of_page(&page.document()?)?, page.reply.elapsed))
            },
        )?);
    }
    Ok(())
}

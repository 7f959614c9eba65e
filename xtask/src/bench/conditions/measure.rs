//! Measures one cell: a page through the service and by three hand-written statements, in turn. The values differ in each round;
//! all four must return the same answer.

use std::cell::Cell as SharedCell;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::cells::{Access, Cell, Condition};
use super::data::{TABLE, quoted};
use super::environment::{DataSet, Environment};
use super::handwritten::{ONE_PASS, SHAPES, Search, Window, bounds};
use crate::bench::interleaved::{self, Effort, Figures, SETTINGS, Sample, Variant};
use crate::bench::log::Log;
use crate::bench::rows;
use crate::bench::store::{Reply, Store};

/// Content of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum View {
    /// Trace ids.
    Ids,
    /// All spans of the traces, with all columns.
    Whole,
}

impl View {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ids => "ids",
            Self::Whole => "whole",
        }
    }
}

/// A page to measure.
#[derive(Clone, Copy)]
pub struct Page {
    pub cell: Cell,
    pub access: &'static Access,
    pub limit: u64,
    pub view: View,
}

/// The measurements of a page.
pub struct Measured {
    pub data: DataSet,
    pub page: Page,
    /// Number of traces or spans on the page of the first round.
    pub found: usize,
    /// Figures of the hand-written statements, in the order of [`SHAPES`].
    pub handwritten: Vec<Figures>,
    pub service: Figures,
    /// Maximum number of statements that the service sent for a page.
    pub statements: u64,
}

/// A data set with the service and the ClickHouse instance that serve it.
pub struct Bench<'a> {
    pub environment: &'a Environment,
    pub data: DataSet,
    pub log: &'a Log,
    pub effort: Effort,
    /// Number of searches so far. Each search uses values that no earlier search used.
    pub next_condition: SharedCell<u64>,
}

/// An answer: trace ids, or `trace id/span id` of each row.
type Answer = Vec<String>;

impl Measured {
    /// Time of the fastest hand-written statement in milliseconds.
    pub fn fastest_handwritten(&self) -> f64 {
        self.handwritten.iter().map(|figures| figures.milliseconds).fold(f64::NAN, f64::min)
    }

    /// Time of the service divided by the time of the fastest hand-written statement.
    pub fn ratio(&self) -> f64 {
        self.service.milliseconds / self.fastest_handwritten()
    }

    /// Number of rows that the grouped single pass reads.
    pub fn rows_of_one_pass(&self) -> u64 {
        self.handwritten.get(ONE_PASS).map_or(0, |figures| figures.rows)
    }
}

impl Bench<'_> {
    pub fn measure(&self, page: Page) -> Result<Measured> {
        let first = self.next_condition.get();
        self.next_condition.set(first + self.effort.rounds as u64 + 1);
        let conditions = |round: usize| page.cell.conditions(self.environment.size, first + round as u64);
        let most_statements = SharedCell::new(0);
        // Amount by which reading the counters increases them.
        let own = {
            let before = self.environment.store.counters()?;
            self.environment.store.counters()?.since(before)
        };
        let mut variants: Vec<Variant<'_, Answer>> = SHAPES
            .into_iter()
            .map(|shape| {
                Variant::with_round(shape, move |round| {
                    let sample = self.handwritten(shape, page, &conditions(round))?;
                    self.log(page, shape, round, &sample, None)?;
                    Ok(sample)
                })
            })
            .collect();
        variants.push(Variant::with_round("the service", |round| {
            let before = self.environment.store.counters()?;
            let (answer, elapsed) = self.through_service(page, &conditions(round))?;
            let spent = self.environment.store.counters()?.since(before).since(own);
            most_statements.set(spent.statements.max(most_statements.get()));
            let sample = Sample { answer, elapsed, rows: spent.rows, bytes: spent.bytes };
            self.log(page, "service", round, &sample, Some(spent.statements))?;
            Ok(sample)
        }));
        let (answer, mut handwritten) = interleaved::measure_agreeing(&mut variants, self.effort)
            .with_context(|| format!("{}: {}", page.access.caller.name, page.cell.name))?;
        drop(variants);
        let service = handwritten.pop().unwrap_or_default();
        let (found, statements) = (answer.map_or(0, |answer| answer.len()), most_statements.get());
        Ok(Measured { data: self.data, page, found, handwritten, service, statements })
    }

    fn through_service(&self, page: Page, conditions: &[Condition]) -> Result<(Answer, Duration)> {
        let view = match page.view {
            View::Ids => "ids",
            View::Whole => "spans",
        };
        let conditions: Vec<Value> = conditions.iter().map(Condition::json).collect();
        let [from, to] = Window::whole().rfc_3339();
        let body = json!({
            "from": from, "to": to, "limit": page.limit, "view": view, "filter": {"conditions": conditions},
        });
        let page_reply = self.environment.service.query(&page.access.caller, &body)?;
        let answer = match page.view {
            View::Ids => page_reply.trace_ids()?,
            View::Whole => rows_of_page(&page_reply.document()?)?,
        };
        Ok((answer, page_reply.reply.elapsed))
    }

    fn handwritten(&self, shape: &str, page: Page, conditions: &[Condition]) -> Result<Sample<Answer>> {
        let search = Search {
            window: Window::whole(),
            conditions: conditions.iter().map(Condition::sql).collect(),
            rarest: Condition::rarest(conditions).map(Condition::sql),
            policy: page.access.sql,
            limit: page.limit,
        };
        let reply = self.environment.store.ask(&search.statement(shape), SETTINGS)?;
        let (rows, bytes) = reply.read()?;
        let ids = reply.lines()?;
        let sample = Sample { answer: ids, elapsed: reply.elapsed, rows, bytes };
        if page.view == View::Ids || sample.answer.is_empty() {
            return Ok(sample);
        }
        let (answer, reply) = rows_by_hand(&self.environment.store, &sample.answer)?;
        let (rows, bytes) = reply.read()?;
        Ok(Sample {
            answer,
            elapsed: sample.elapsed + reply.elapsed,
            rows: sample.rows + rows,
            bytes: sample.bytes + bytes,
        })
    }

    fn log(
        &self,
        page: Page,
        variant: &str,
        round: usize,
        sample: &Sample<Answer>,
        statements: Option<u64>,
    ) -> Result<()> {
        let DataSet { store, spans, merged, trace_projection } = self.data;
        self.log.write(&json!({
            "store": store.name(), "spans": spans, "merged": merged, "trace_projection": trace_projection,
            "caller": page.access.caller.name, "cell": page.cell.name, "limit": page.limit, "view": page.view.name(), "contestant": variant,
            "round": round, "milliseconds": sample.elapsed.as_secs_f64() * 1e3, "rows": sample.rows,
            "bytes": sample.bytes, "statements": statements, "found": sample.answer.len(),
        }))
    }
}

/// Reads all rows of these traces with a hand-written statement, as `trace id/span id`.
pub fn rows_by_hand(store: &Store, ids: &[String]) -> Result<(Vec<String>, Reply)> {
    let statement = rows::statement(store, &quoted(TABLE), ids, &bounds(&rows::listed(ids)))?;
    let reply = store.ask(&statement, SETTINGS)?;
    let answer =
        reply.lines()?.iter().map(|line| row(&serde_json::from_str(line)?)).collect::<Result<_>>()?;
    Ok((answer, reply))
}

/// Returns all rows of a page as `trace id/span id`.
pub fn rows_of_page(document: &Value) -> Result<Vec<String>> {
    let spans = document.get("spans").and_then(Value::as_array);
    spans.context("the page holds no spans")?.iter().map(row).collect()
}

/// Returns `trace id/span id` of a row.
fn row(span: &Value) -> Result<String> {
    let of = |name: &str| span.get(name).and_then(Value::as_str);
    let (trace, span) = of("TraceId").zip(of("SpanId")).context("a row names no span")?;
    Ok(format!("{trace}/{span}"))
}

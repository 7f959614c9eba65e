//! Measures summaries of the newest traces, as an MCP client lists them.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Answer, Bench, Measured, Part, STEP, agent};
use crate::bench::conditions::cells::{CALLERS, CELLS};
use crate::bench::conditions::data::{TABLE, quoted};
use crate::bench::conditions::handwritten::{Search, Window, bounds};
use crate::bench::interleaved::{SETTINGS, Sample};
use crate::bench::rows;

/// Number of listed traces.
const LISTED: u64 = 10;
/// Name of the cell with the search conditions.
const CELL: &str = "service, error, tenant";

pub fn measure(bench: &Bench<'_>, measured: &mut Vec<Measured>) -> Result<()> {
    let cell = CELLS.iter().find(|cell| cell.name == CELL).context("the cell is missing")?;
    for access in &CALLERS {
        for conditions in [false, true] {
            let window = |round: usize| Window::last(86_400, round as u64 * STEP);
            let conditions_of_round = |round: usize| {
                if conditions { cell.conditions(bench.environment.size, round as u64) } else { Vec::new() }
            };
            let what = if conditions { CELL } else { "no condition" };
            measured.extend(bench.compare(
                Part::Summaries,
                access,
                &format!("`svc_query_traces`, {what}, 24 h"),
                |round| {
                    let search = Search {
                        window: window(round),
                        conditions: conditions_of_round(round).iter().map(|condition| condition.sql()).collect(),
                        rarest: None,
                        policy: access.sql,
                        limit: LISTED,
                    };
                    let ids = bench.environment.store.ask(&search.one_pass(), SETTINGS)?;
                    let ((rows, bytes), listed) = (ids.read()?, ids.lines()?);
                    if listed.is_empty() {
                        return Ok(Sample { answer: Vec::new(), elapsed: ids.elapsed, rows, bytes });
                    }
                    let reply = bench.environment.store.ask(&summaries(&listed), SETTINGS)?;
                    let (more_rows, more_bytes) = reply.read()?;
                    // The statement also reads the other columns of the list, but the tool formats them differently, so that they
                    // are not compared.
                    let answer = reply.lines()?.iter().map(|line| first_columns(line)).collect();
                    Ok(Sample {
                        answer,
                        elapsed: ids.elapsed + reply.elapsed,
                        rows: rows + more_rows,
                        bytes: bytes + more_bytes,
                    })
                },
                |round| {
                    let [from, to] = window(round).rfc_3339();
                    let conditions: Vec<Value> = conditions_of_round(round).iter().map(|condition| condition.json()).collect();
                    let arguments = json!({
                        "conditions": conditions, "from": from, "to": to, "limit": LISTED, "max_tokens": 20_000,
                    });
                    let (content, elapsed) = agent::call(bench, access, "svc_query_traces", &arguments)?;
                    Ok((answer(&content)?, elapsed))
                },
            )?);
        }
    }
    Ok(())
}

/// Returns the statement that summarises these traces, in the order of the ids.
fn summaries(ids: &[String]) -> String {
    let listed = rows::listed(ids);
    format!(
        "SELECT TraceId, count(), countIf(StatusCode = 'Error'), uniqExact(ServiceName), min(Timestamp), \
         argMin((ServiceName, SpanName), Timestamp), max(toUnixTimestamp64Nano(Timestamp) + Duration) FROM {} \
         WHERE TraceId IN ({listed}) {} GROUP BY TraceId ORDER BY indexOf([{listed}], TraceId) \
         FORMAT TSV",
        quoted(TABLE),
        bounds(&listed)
    )
}

fn answer(content: &Value) -> Result<Answer> {
    let traces = content.get("traces").and_then(Value::as_array).context("the tool gave no traces")?;
    let lines = traces.iter().map(|trace| {
        let number = |name: &str| trace.get(name).and_then(Value::as_u64);
        let id = trace.get("trace_id").and_then(Value::as_str)?;
        Some(line(id, [number("spans")?, number("errors")?, number("service_count")?]))
    });
    lines.collect::<Option<Answer>>().context("a summary is incomplete")
}

/// Returns the columns id, spans, errors and services.
fn first_columns(line: &str) -> String {
    line.split('\t').take(4).collect::<Vec<_>>().join("\t")
}

fn line(id: &str, [spans, errors, services]: [u64; 3]) -> String {
    format!("{id}\t{spans}\t{errors}\t{services}")
}

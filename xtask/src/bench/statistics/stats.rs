//! Measures counts, errors and percentiles by service, as an MCP client requests them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Bench, Measured, Part, STEP, agent};
use crate::bench::conditions::cells::{Access, CALLERS};
use crate::bench::conditions::data::{TABLE, quoted};
use crate::bench::conditions::handwritten::Window;
use crate::bench::interleaved::{SETTINGS, Sample};

/// Window lengths in hours.
const WINDOWS: [u64; 3] = [1, 24, 72];
/// Measures that groups are ordered by, with the equivalent expression in the hand-written statement.
const MEASURES: [(&str, &str); 3] =
    [("count", "spans"), ("duration", "percentiles[2]"), ("errors", "errors")];
/// Number of callers that are measured.
const MEASURED: usize = 2;
/// Maximum number of groups; more than there are services.
const GROUPS: u64 = 100;

pub fn measure(bench: &Bench<'_>, measured: &mut Vec<Measured>) -> Result<()> {
    for access in CALLERS.iter().take(MEASURED) {
        for (measure, order) in MEASURES {
            for hours in WINDOWS {
                let window = |round: usize| Window::last(hours * 3_600, round as u64 * STEP);
                measured.extend(bench.compare(
                    Part::Stats,
                    access,
                    &format!("`svc_trace_stats` by service, measure {measure}, {hours} h"),
                    |round| {
                        let reply = bench.environment.store.ask(&handwritten(access, order, window(round)), SETTINGS)?;
                        let (rows, bytes) = reply.read()?;
                        let mut answer: Vec<String> = reply.lines()?.iter().filter_map(|line| group(line)).collect();
                        answer.sort();
                        Ok(Sample { answer, elapsed: reply.elapsed, rows, bytes })
                    },
                    |round| {
                        let [from, to] = window(round).rfc_3339();
                        let arguments = json!({
                            "group_by": ["ServiceName"], "measure": measure, "from": from, "to": to, "limit": GROUPS,
                            "max_tokens": 20_000,
                        });
                        let (content, elapsed) = agent::call(bench, access, "svc_trace_stats", &arguments)?;
                        Ok((answer(&content)?, elapsed))
                    },
                )?);
            }
        }
    }
    Ok(())
}

/// Returns the statement over all spans of the visible traces in the window, by service and in total.
fn handwritten(access: &Access, order: &str, window: Window) -> String {
    let (table, in_window, around_window, crossing_traces) =
        (quoted(TABLE), window.in_window(), window.around_window(), window.crossing_traces());
    let columns = "TraceId, ServiceName, StatusCode, Duration";
    let visible = access.sql.map_or_else(String::new, |policy| {
        format!("WHERE TraceId IN (SELECT TraceId FROM {table} WHERE {around_window} AND ({policy}))")
    });
    format!(
        "SELECT ServiceName, uniqExact(TraceId) AS traces, count() AS spans, countIf(StatusCode = 'Error') AS errors, \
         quantiles(0.5, 0.95, 0.99)(Duration) AS percentiles FROM (\
         SELECT {columns} FROM {table} WHERE {in_window} \
         UNION ALL SELECT {columns} FROM {table} WHERE NOT ({in_window}) AND {crossing_traces}) {visible} \
         GROUP BY ServiceName WITH TOTALS ORDER BY {order} DESC, ServiceName LIMIT {GROUPS}"
    )
}

/// Returns a group of the statement's answer without its percentiles, which are estimates. The total has an empty name. Returns
/// `None` for the empty line before the total.
fn group(line: &str) -> Option<String> {
    let mut columns = line.split('\t');
    let (name, traces, spans, errors) = (columns.next()?, columns.next()?, columns.next()?, columns.next()?);
    Some(format!("{name}: {traces} traces, {spans} spans, {errors} errors"))
}

/// Returns the groups of the tool's answer in the same format.
fn answer(content: &Value) -> Result<Vec<String>> {
    let numbers = |name: &str, of: &Value| -> Result<String> {
        let number = |member: &str| of.get(member).and_then(Value::as_u64);
        let (traces, spans) = number("traces").zip(number("spans")).context("a group has no numbers")?;
        let errors = number("errors").context("a group has no errors")?;
        Ok(format!("{name}: {traces} traces, {spans} spans, {errors} errors"))
    };
    let groups = content.get("groups").and_then(Value::as_array).context("the tool gave no groups")?;
    ensure!(
        content.get("truncated") == Some(&json!(false)) && content.get("complete") == Some(&json!(true)),
        "the tool's answer is incomplete"
    );
    let mut answer = vec![numbers("", content.get("all").context("the tool gave no total")?)?];
    for group in groups {
        let name = group.pointer("/values/0").and_then(Value::as_str).context("a group has no value")?;
        answer.push(numbers(name, group)?);
    }
    answer.sort();
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_answers_are_written_alike() {
        let group = |line| group(line).unwrap();
        assert_eq!(super::group(""), None);
        let content = json!({
            "all": {"traces": 2, "spans": 5, "errors": 1}, "truncated": false, "complete": true,
            "groups": [{"values": ["a"], "traces": 2, "spans": 4, "errors": 0}],
        });
        let expected = [group("\t2\t5\t1\t[1,2,3]"), group("a\t2\t4\t0\t[1,2,3]")];
        assert_eq!(answer(&content).unwrap(), expected);
    }
}

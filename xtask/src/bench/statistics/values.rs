//! Measures the values of a field, as the search page suggests them.

use std::cell::Cell as SharedCell;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Answer, Bench, Measured, Part, STEP};
use crate::bench::conditions::cells::{Access, CALLERS};
use crate::bench::conditions::data::{TABLE, quoted};
use crate::bench::conditions::handwritten::{Search, Window};
use crate::bench::interleaved::{SETTINGS, Sample};

const WINDOWS: [u64; 2] = [1, 24];
/// Fields to measure: one with many values, one with few.
const FIELDS: [(&str, &str); 2] = [("SpanAttributes", "tenant.id"), ("ResourceAttributes", "cloud.region")];
/// Maximum number of newest traces whose values are counted.
const SAMPLED: u64 = 500;
/// Number of listed values.
const LISTED: usize = 20;
const MEASURED: usize = 2;

/// A value with the numbers of traces and spans that have it.
type Counted = (String, u64, u64);

pub fn measure(bench: &Bench<'_>, measured: &mut Vec<Measured>) -> Result<()> {
    for access in CALLERS.iter().take(MEASURED) {
        for (map, key) in FIELDS {
            for hours in WINDOWS {
                let window = |round: usize| Window::last(hours * 3_600, round as u64 * STEP);
                // The service samples fewer traces if they are far apart. The hand-written statement then samples as many.
                let sampled = SharedCell::new(SAMPLED);
                measured.extend(bench.compare(
                    Part::Values,
                    access,
                    &format!("values of `{key}`, {hours} h"),
                    |round| {
                        let statement = handwritten(access, map, key, window(round), sampled.get());
                        let reply = bench.environment.store.ask(&statement, SETTINGS)?;
                        let (rows, bytes) = reply.read()?;
                        let counted =
                            reply.lines()?.iter().map(|line| counted(line)).collect::<Result<_>>()?;
                        Ok(Sample { answer: listing(counted), elapsed: reply.elapsed, rows, bytes })
                    },
                    |round| {
                        let [from, to] = window(round).rfc_3339();
                        let path = format!(
                            "/filter/values?ref={map}%5B%22{key}%22%5D&from={from}&to={to}&limit={LISTED}"
                        );
                        let reply = bench.environment.service.get(&access.caller, &path)?;
                        let document: Value = serde_json::from_slice(&reply.body)?;
                        let traces = document.get("sampled_traces").and_then(Value::as_u64);
                        let complete = document.get("complete") == Some(&Value::Bool(true));
                        let traces =
                            traces.context("the answer does not contain the number of sampled traces")?;
                        sampled.set(if complete { SAMPLED } else { traces });
                        Ok((answer(&document)?, reply.elapsed))
                    },
                )?);
            }
        }
    }
    Ok(())
}

/// Returns the statement that counts the spans of the newest visible traces with a value, by value.
fn handwritten(access: &Access, map: &str, key: &str, window: Window, traces: u64) -> String {
    let has = format!("mapContains({map}, '{key}')");
    let newest =
        Search { window, conditions: vec![has.clone()], rarest: None, policy: access.sql, limit: traces };
    format!(
        "SELECT {map}['{key}'] AS value, uniqExact(TraceId) AS traces, count() AS spans FROM {} \
         WHERE {} AND {has} AND TraceId IN ({}) GROUP BY value ORDER BY traces DESC, value",
        quoted(TABLE),
        window.around_window(),
        newest.one_pass()
    )
}

fn counted(line: &str) -> Result<Counted> {
    let mut columns = line.split('\t');
    let mut next = || columns.next().context("a column is missing");
    Ok((next()?.to_owned(), next()?.parse()?, next()?.parse()?))
}

fn answer(document: &Value) -> Result<Answer> {
    let values = document.get("values").and_then(Value::as_array).context("the answer has no values")?;
    let counted = values.iter().map(|value| {
        let number = |name: &str| value.get(name).and_then(Value::as_u64);
        let text = value.get("value").and_then(Value::as_str)?;
        Some((text.to_owned(), number("traces")?, number("spans")?))
    });
    let counted = counted.collect::<Option<Vec<Counted>>>().context("a value has no numbers")?;
    let more = document
        .get("more")
        .and_then(Value::as_bool)
        .context("the answer does not show whether there are more values")?;
    Ok(if more { most(&counted) } else { listing(counted) })
}

/// Returns all values. If there are more than are listed, returns only the highest trace counts, because the choice among values
/// with equal counts is not defined.
fn listing(mut counted: Vec<Counted>) -> Answer {
    if counted.len() > LISTED {
        return most(&counted);
    }
    counted.sort();
    counted
        .into_iter()
        .map(|(value, traces, spans)| format!("{value}: {traces} traces, {spans} spans"))
        .collect()
}

fn most(counted: &[Counted]) -> Answer {
    let mut traces: Vec<u64> = counted.iter().map(|(_, traces, _)| *traces).collect();
    traces.sort_unstable_by(|one, other| other.cmp(one));
    traces.into_iter().take(LISTED).map(|traces| format!("{traces} traces")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_at_the_end_of_a_list_do_not_matter() {
        let many =
            |first: u64| (first..first + 30).map(|at| (format!("v{at}"), 2, at)).collect::<Vec<Counted>>();
        assert_eq!(listing(many(0)), listing(many(100)));
        assert_ne!(listing(many(0)[..5].to_vec()), listing(many(100)[..5].to_vec()));
    }
}

//! Measures the histogram and the facets of all matching traces, as the search page requests them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Answer, Bench, Measured, Part, STEP};
use crate::bench::conditions::cells::{Access, CALLERS};
use crate::bench::conditions::data::{TABLE, quoted};
use crate::bench::conditions::handwritten::Window;
use crate::bench::interleaved::{SETTINGS, Sample};

/// Window lengths in hours, each with the width of a bucket in seconds.
const WINDOWS: [(u64, u64); 2] = [(1, 30), (24, 900)];
/// Maximum number of buckets: as the search page requests, and one more, so that windows of one length have buckets of one width
/// wherever they begin.
const BUCKETS: u64 = 121;
/// Fields of facets: columns and keys with few values.
const FACETS: [(&str, &str); 2] = [
    ("StatusCode", "StatusCode"),
    ("ResourceAttributes[\"cloud.region\"]", "ResourceAttributes['cloud.region']"),
];
/// Number of callers that are measured.
const MEASURED: usize = 2;

pub fn measure(bench: &Bench<'_>, measured: &mut Vec<Measured>) -> Result<()> {
    for access in CALLERS.iter().take(MEASURED) {
        for (hours, width) in WINDOWS {
            for condition in [None, Some("Error")] {
                let window = |round: usize| Window::last(hours * 3_600, round as u64 * STEP);
                let filter = condition.map_or_else(
                    || json!({}),
                    |status| json!({"conditions": [{"ref": "StatusCode", "op": "eq", "value": status}]}),
                );
                let suffix = condition.map_or("", |_| ", errors only");
                measured.extend(bench.compare(
                    Part::Histogram,
                    access,
                    &format!("histogram and {} facets, {hours} h{suffix}", FACETS.len()),
                    |round| {
                        let statement = handwritten(access, condition, window(round), width);
                        let reply = bench.environment.store.ask(&statement, SETTINGS)?;
                        let (rows, bytes) = reply.read()?;
                        let mut answer: Answer = reply.lines()?.iter().map(|line| row(line)).collect();
                        answer.sort();
                        Ok(Sample { answer, elapsed: reply.elapsed, rows, bytes })
                    },
                    |round| {
                        let [from, to] = window(round).rfc_3339();
                        let facets = FACETS.map(|(reference, _)| reference);
                        let body = json!({
                            "from": from, "to": to, "filter": filter, "per": "trace", "buckets": BUCKETS, "facets": facets,
                        });
                        let reply = bench.environment.service.post(&access.caller, "/traces/stats", &body)?;
                        Ok((answer(&serde_json::from_slice(&reply.body)?, window(round), width)?, reply.elapsed))
                    },
                )?);
            }
        }
    }
    Ok(())
}

/// Returns the statement that groups the spans of the visible matching traces by trace, and counts the traces in each bucket, by
/// the latest match in the window, and with each value.
fn handwritten(access: &Access, status: Option<&str>, window: Window, width: u64) -> String {
    let (table, in_window, around_window) = (quoted(TABLE), window.in_window(), window.around_window());
    let crossing_traces = window.crossing_traces();
    let columns = "TraceId, Timestamp, ServiceName, StatusCode, ResourceAttributes";
    let sets = [access.sql.map(str::to_owned), status.map(|status| format!("StatusCode = '{status}'"))];
    let visible: Vec<String> = sets
        .iter()
        .flatten()
        .map(|required| {
            format!("TraceId IN (SELECT TraceId FROM {table} WHERE {around_window} AND ({required}))")
        })
        .collect();
    let visible = if visible.is_empty() { String::new() } else { format!("WHERE {}", visible.join(" AND ")) };
    let matched = match (status, access.sql) {
        (Some(status), _) => format!("StatusCode = '{status}'"),
        (None, Some(policy)) => format!("({policy})"),
        (None, None) => "1".to_owned(),
    };
    let columns = match (status, access.sql) {
        (None, Some(_)) => format!("{columns}, SpanAttributes"),
        _ => columns.to_owned(),
    };
    let values = FACETS.map(|(_, sql)| format!("groupUniqArray({sql})"));
    format!(
        "SELECT arrayJoin(arrayConcat([('bucket', toString(intDiv(toUnixTimestamp(latest), {width})))], \
         arrayMap(value -> ('0', value), first), arrayMap(value -> ('1', value), second))) AS group, count(), countIf(failed) FROM (\
         SELECT if(countIf({in_window} AND {matched}) > 0, maxIf(Timestamp, {in_window} AND {matched}), maxIf(Timestamp, {in_window})) AS latest, \
         countIf(StatusCode = 'Error') > 0 AS failed, {first} AS first, {second} AS second FROM (\
         SELECT {columns} FROM {table} WHERE {in_window} \
         UNION ALL SELECT {columns} FROM {table} WHERE NOT ({in_window}) AND {crossing_traces}) {visible} \
         GROUP BY TraceId HAVING countIf({in_window}) > 0) \
         GROUP BY group",
        first = values[0],
        second = values[1],
    )
}

/// Returns a row of the statement: facets count traces only.
fn row(line: &str) -> String {
    match line.rsplit_once('\t') {
        Some((value, _)) if !line.starts_with("('bucket'") => value.to_owned(),
        _ => line.to_owned(),
    }
}

/// Returns buckets and values of the service's answer as the statement writes them.
fn answer(content: &Value, window: Window, width: u64) -> Result<Answer> {
    ensure!(content.get("complete") == Some(&json!(true)), "the answer is incomplete");
    let list = |value: &Value, member: &str| value.get(member).and_then(Value::as_array).cloned();
    let number = |value: &Value, member: &str| value.get(member).and_then(Value::as_u64);
    let mut answer = Vec::new();
    let first = window.from / width;
    for (index, bucket) in list(content, "buckets").context("the answer has no buckets")?.iter().enumerate() {
        let (traces, errors) =
            number(bucket, "traces").zip(number(bucket, "errors")).context("a bucket has no numbers")?;
        if traces > 0 {
            answer.push(format!("('bucket','{}')\t{traces}\t{errors}", first + index as u64));
        }
    }
    for (index, facet) in list(content, "facets").context("the answer has no facets")?.iter().enumerate() {
        for value in list(facet, "values").context("a facet has no values")? {
            let text = value.get("value").and_then(Value::as_str).context("a value has no text")?;
            let traces = number(&value, "traces").context("a value has no number")?;
            answer.push(format!("('{index}','{text}')\t{traces}"));
        }
    }
    answer.sort();
    Ok(answer)
}

//! Checks traces by id, by query, and whole.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{DemoUnderTest, Findings};
use crate::demo::expectations::filter;
use crate::demo::queries::SearchQuery;
use crate::stack::api::{Client, expect, list, rfc_3339, text};

/// Fetches each landmark as each user: all its spans, or the same response as for a trace that does not exist.
pub fn traces_by_id(subject: &DemoUnderTest<'_>, findings: &mut Findings) -> Result<()> {
    for (index, account) in subject.accounts.all.iter().enumerate() {
        let username = account.demo_user.username;
        let absent = account.client.send("GET", &format!("/traces/{}", subject.absent), None, None)?;
        findings.assert(absent.status == 404, || {
            format!("{username} got {} for a trace that does not exist", absent.status)
        });
        for landmark in &subject.expectations.landmarks {
            let path = format!("/traces/{}", landmark.id);
            let answer = account.client.send("GET", &path, None, None)?;
            let what = || format!("{username}, GET {path} (`{}`)", landmark.name);
            if !landmark.visible.get(index).copied().unwrap_or_default() {
                findings.assert(answer.status == 404, || {
                    format!("{}: got {}, must get 404", what(), answer.status)
                });
                let same = without_request_id(&answer.text) == without_request_id(&absent.text);
                findings.assert(same, || {
                    format!(
                        "{}: forbidden and absent differ:\n  {}\n  {}",
                        what(),
                        beginning(&answer.text),
                        beginning(&absent.text)
                    )
                });
                continue;
            }
            let body = expect(&answer, "GET", &path, &[200]);
            let spans = body.and_then(|body| span_ids(&body, &landmark.id.to_string()));
            if let Some(spans) = findings.take(spans, what)? {
                compare_spans(findings, &spans, &landmark.spans, what);
            }
        }
    }
    Ok(())
}

/// Runs each query as each user: exactly the visible traces that match, in order, for any page size.
pub fn traces_by_query(subject: &DemoUnderTest<'_>, findings: &mut Findings) -> Result<()> {
    for (demo_user, account) in subject.accounts.all.iter().enumerate() {
        for (number, search_query) in subject.expectations.queries.iter().enumerate() {
            let expected = subject.expectations.answer(number, demo_user);
            let what = || format!("{}, query `{}`", account.demo_user.username, search_query.name);
            let mut took = Vec::new();
            let got = all_pages(&account.client, search_query, expected.len(), &mut took);
            findings.pages.extend(took.into_iter().map(|duration| (duration, what())));
            if let Some(got) = findings.take(got, what)? {
                compare_ids(findings, &got, &expected, what);
            }
        }
    }
    Ok(())
}

/// Queries each visible landmark with a window of one instant: the response has all its spans, and its summary.
pub fn complete_traces(subject: &DemoUnderTest<'_>, findings: &mut Findings) -> Result<()> {
    for (index, account) in subject.accounts.all.iter().enumerate() {
        for landmark in &subject.expectations.landmarks {
            let id = landmark.id.to_string();
            let query = |view: &str| {
                json!({
                    "from": rfc_3339(landmark.start_unix_nanos),
                    "to": rfc_3339(landmark.start_unix_nanos + 1),
                    "filter": {"conditions": [{"name": "TraceId", "op": "eq", "value": id}]},
                    "view": view,
                })
            };
            let what = || format!("{}, query of `{}` by its id", account.demo_user.username, landmark.name);
            let visible = landmark.visible.get(index).copied().unwrap_or_default();
            let answer = account.client.call("POST", "/traces/query", Some(&query("spans")));
            let spans = answer.and_then(|answer| span_ids(&answer, &id));
            if let Some(spans) = findings.take(spans, what)? {
                let expected: &[String] = if visible { &landmark.spans } else { &[] };
                compare_spans(findings, &spans, expected, what);
            }
            let answer = account.client.call("POST", "/traces/query", Some(&query("summary")));
            let summaries = answer.and_then(|answer| Ok(list(&answer, "/traces")?.to_vec()));
            if let Some(summaries) = findings.take(summaries, what)? {
                let counts: Vec<Option<u64>> = summaries
                    .iter()
                    .map(|summary| summary.get("span_count").and_then(Value::as_u64))
                    .collect();
                let expected: Vec<Option<u64>> =
                    visible.then_some(Some(landmark.spans.len() as u64)).into_iter().collect();
                findings.assert(counts == expected, || {
                    format!("{}: the summaries count {counts:?} spans, must be {expected:?}", what())
                });
            }
        }
    }
    Ok(())
}

/// Follows the cursor to the last page. More pages than the expected ids can fill mean that the cursor does not advance.
fn all_pages(
    client: &Client,
    search_query: &SearchQuery,
    expected: usize,
    took: &mut Vec<Duration>,
) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..=expected / search_query.limit + 1 {
        let mut query = json!({
            "from": rfc_3339(search_query.from),
            "to": rfc_3339(search_query.to),
            "filter": filter(search_query),
            "limit": search_query.limit,
            "view": "ids",
        });
        if let (Some(cursor), Some(query)) = (&cursor, query.as_object_mut()) {
            query.insert("cursor".to_owned(), json!(cursor));
        }
        let begun = Instant::now();
        let page = client.call("POST", "/traces/query", Some(&query))?;
        took.push(begun.elapsed());
        ids.extend(list(&page, "/trace_ids")?.iter().filter_map(Value::as_str).map(str::to_owned));
        cursor = page.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() {
            return Ok(ids);
        }
    }
    anyhow::bail!("the pages do not end: {} ids so far, {expected} expected", ids.len())
}

/// Returns the ids of all spans of a response, which must all belong to one trace.
fn span_ids(body: &Value, trace_id: &str) -> Result<Vec<String>> {
    let column = |name: &str| text(body, &format!("/schema/{name}"));
    let (trace_column, span_column) = (column("trace_id")?, column("span_id")?);
    list(body, "/spans")?
        .iter()
        .map(|span| {
            let text = |column: &str| span.get(column).and_then(Value::as_str);
            anyhow::ensure!(text(trace_column) == Some(trace_id), "a span of another trace: {span}");
            text(span_column).map(str::to_owned).with_context(|| format!("a span without an id: {span}"))
        })
        .collect()
}

fn compare_spans(findings: &mut Findings, got: &[String], expected: &[String], what: impl Fn() -> String) {
    let same = got.len() == expected.len() && got.iter().collect::<HashSet<_>>() == expected.iter().collect();
    findings.assert(same, || {
        format!(
            "{}: got {} spans, the generated trace has {} for this user",
            what(),
            got.len(),
            expected.len()
        )
    });
}

fn compare_ids(findings: &mut Findings, got: &[String], expected: &[&str], what: impl Fn() -> String) {
    let (have, want): (BTreeSet<&str>, BTreeSet<&str>) =
        (got.iter().map(String::as_str).collect(), expected.iter().copied().collect());
    let some = |ids: BTreeSet<&str>| ids.into_iter().take(3).collect::<Vec<_>>().join(", ");
    let (missing, extra) = (&want - &have, &have - &want);
    findings.assert(missing.is_empty() && extra.is_empty(), || {
        format!(
            "{}: {} traces expected, {} missing ({}), {} too many ({})",
            what(),
            want.len(),
            missing.len(),
            some(missing.clone()),
            extra.len(),
            some(extra.clone())
        )
    });
    findings.assert(got.len() == have.len(), || {
        format!("{}: {} ids were returned twice", what(), got.len() - have.len())
    });
    if have == want {
        let first = got.iter().zip(expected).position(|(got, expected)| got != expected);
        findings.assert(first.is_none(), || {
            let first = first.unwrap_or_default();
            format!(
                "{}: the right traces in the wrong order, from position {first} of {}",
                what(),
                want.len()
            )
        });
    }
}

/// Returns the beginning of a text, long enough to recognise it.
fn beginning(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Removes the request id, which is the only permitted difference between two responses.
fn without_request_id(body: &str) -> Option<Value> {
    let mut body: Value = serde_json::from_str(body).ok()?;
    body.as_object_mut()?.remove("request_id");
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(got: &[&str], expected: &[&str]) -> usize {
        let mut findings = Findings::default();
        let got: Vec<String> = got.iter().map(|id| (*id).to_owned()).collect();
        compare_ids(&mut findings, &got, expected, String::new);
        findings.failures.len()
    }

    #[test]
    fn missing_extra_twice_and_out_of_order_are_found() {
        assert_eq!(failures(&["a", "b"], &["a", "b"]), 0);
        assert_eq!(failures(&["a"], &["a", "b"]), 1);
        assert_eq!(failures(&["a", "b"], &["a"]), 1);
        assert_eq!(failures(&["b", "a"], &["a", "b"]), 1);
        assert!(failures(&["a", "a"], &["a"]) > 0);
    }

    #[test]
    fn spans_of_another_trace_are_found() {
        let schema = json!({"trace_id": "TraceId", "span_id": "SpanId"});
        let body = |trace: &str| json!({"schema": schema, "spans": [{"TraceId": trace, "SpanId": "1"}]});
        assert_eq!(span_ids(&body("a"), "a").unwrap(), ["1"]);
        assert!(span_ids(&body("b"), "a").is_err());
    }

    #[test]
    fn only_the_request_id_may_differ() {
        let same = |a: &str, b: &str| without_request_id(a) == without_request_id(b);
        assert!(same(r#"{"code":"x","request_id":"1"}"#, r#"{"code":"x","request_id":"2"}"#));
        assert!(!same(r#"{"code":"x","request_id":"1"}"#, r#"{"code":"y","request_id":"1"}"#));
    }
}

//! Compares the tools' answers to a caller with the REST API's answers to the same caller.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::generated_data::{DataSet, TextField};
use crate::mcp::answers::{list, number, suggested, text};
use crate::mcp::rpc::{ToolResult, call};
use crate::support::Client;

/// Number of concurrent requests of a caller: answers for absent traces are delayed on purpose.
const CONCURRENT_REQUESTS: usize = 8;
/// More pages than any of these data sets has.
const MANY_PAGES: usize = 100;
/// Token limit that holds a whole data set.
const LARGE_TOKEN_LIMIT: u64 = 20_000;

/// Number of ways to read a trace: views, spans, the critical path, a comparison.
const READ_KINDS: usize = 7;
const VIEWS: [&str; 4] = ["outline", "errors", "slowest", "full"];
/// All span ids of these data sets, and one that does not occur.
const SPAN_IDS: [&str; 5] =
    ["0000000000000000", "0000000000000001", "0000000000000002", "0000000000000003", "ffff"];

/// A caller, with both clients.
pub struct Caller {
    /// Name for messages.
    pub name: String,
    pub rest: Client,
    pub agent: Client,
}

/// How much was compared.
#[derive(Debug, Default)]
pub struct Comparison {
    pub visible_traces: usize,
    pub hidden_traces: usize,
    /// Number of traces that match a condition, and of those that do not.
    pub matched: usize,
    pub unmatched: usize,
    pub groups: usize,
    pub values: usize,
}

impl Comparison {
    pub fn add(&mut self, other: &Self) {
        self.visible_traces += other.visible_traces;
        self.hidden_traces += other.hidden_traces;
        self.matched += other.matched;
        self.unmatched += other.unmatched;
        self.groups += other.groups;
        self.values += other.values;
    }
}

/// The visible traces of a data set: ids in the order of the list, and spans.
struct Visible {
    ids: Vec<String>,
    spans: BTreeMap<String, Vec<Value>>,
}

/// Runs all comparisons.
pub async fn compare(
    caller: &Caller,
    data_set: &DataSet,
    fields: &[TextField],
    mut random: ChaCha8Rng,
) -> Comparison {
    let all = json!({"from": data_set.from, "to": data_set.to});
    let visible =
        Visible { ids: ids_from_rest(caller, &all, &json!([])).await, spans: spans(caller, &all).await };
    let ids: BTreeSet<&String> = visible.ids.iter().collect();
    assert_eq!(ids, visible.spans.keys().collect::<BTreeSet<_>>());
    assert!(ids.iter().all(|id| data_set.ids.contains(id)), "{ids:?}");
    let mut comparison = Comparison {
        visible_traces: ids.len(),
        hidden_traces: data_set.ids.len() - ids.len(),
        ..Comparison::default()
    };

    let mut first = all.clone();
    first["limit"] = random.random_range(1..6).into();
    first["max_tokens"] = (*[1_000, 3_000, LARGE_TOKEN_LIMIT].choose(&mut random).unwrap()).into();
    assert_eq!(ids_from_tool(caller, first).await, visible.ids, "{}", caller.name);
    if random.random_bool(0.5) {
        compare_condition(caller, &all, fields, &visible, &mut random, &mut comparison).await;
    } else {
        compare_values(caller, &all, fields, &mut random, &mut comparison).await;
    }
    compare_statistics(caller, &all, fields, &visible, &mut random, &mut comparison).await;

    let first_kind: usize = random.random_range(0..READ_KINDS);
    let each = data_set.ids.iter().enumerate().map(|(at, id)| {
        let random = ChaCha8Rng::seed_from_u64(random.random());
        compare_trace(caller, data_set, &visible, first_kind + at, id, random)
    });
    let each: Vec<_> = each.collect();
    futures::stream::iter(each).buffer_unordered(CONCURRENT_REQUESTS).collect::<Vec<()>>().await;
    comparison
}

/// Returns the ids of all pages, in order.
async fn ids_from_rest(caller: &Caller, window: &Value, conditions: &Value) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    let mut query = json!({"view": "ids", "limit": 4, "filter": {"conditions": conditions}});
    for name in ["from", "to"] {
        query[name] = window[name].clone();
    }
    for _ in 0..MANY_PAGES {
        let page = caller.rest.post("/traces/query", query.clone()).await.expect(200).body;
        ids.extend(list(&page, "trace_ids").iter().map(|id| id.as_str().unwrap().to_owned()));
        match page.get("next_cursor") {
            None => return ids,
            Some(cursor) => {
                query = json!({"view": "ids", "limit": 4, "filter": {"conditions": conditions}, "cursor": cursor});
            }
        }
    }
    panic!("the pages do not end");
}

async fn spans(caller: &Caller, window: &Value) -> BTreeMap<String, Vec<Value>> {
    let mut query = window.clone();
    query["limit"] = 200.into();
    let page = caller.rest.post("/traces/query", query).await.expect(200).body;
    let mut spans: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for span in list(&page, "spans") {
        spans.entry(text(span, "TraceId").to_owned()).or_default().push(span.clone());
    }
    spans
}

/// Returns the ids of all pages, each requested as the previous page suggests.
async fn ids_from_tool(caller: &Caller, first: Value) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    let mut arguments = first;
    for _ in 0..MANY_PAGES {
        let page = call(&caller.agent, "svc_query_traces", arguments.clone()).await.expect().body;
        for trace in list(&page, "traces") {
            let id = text(trace, "trace_id").to_owned();
            // A page that did not fit is requested again, in smaller parts.
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        match suggested(&page, "svc_query_traces").next() {
            Some(next) => arguments = next.clone(),
            None => {
                assert_eq!(page["truncated"], false, "{page}");
                return ids;
            }
        }
    }
    panic!("the pages do not end: {arguments}");
}

/// Checks that a condition finds and counts the same traces as in the REST API.
async fn compare_condition(
    caller: &Caller,
    window: &Value,
    fields: &[TextField],
    visible: &Visible,
    random: &mut ChaCha8Rng,
    comparison: &mut Comparison,
) {
    let (field, value) = random_value(fields, visible, random);
    let operators: &[&str] = if field.is_list { &["has"] } else { &["eq", "ne", "prefix"] };
    let operator = *operators.choose(random).unwrap();
    let mut condition = json!({"op": operator, "value": value});
    for (name, value) in field.named() {
        condition[name] = value.into();
    }
    let by_rest = ids_from_rest(caller, window, &json!([condition])).await;
    // The reference takes the place of map and name.
    let condition = json!({"ref": field.reference, "op": operator, "value": value});
    let mut arguments = window.clone();
    arguments["conditions"] = json!([condition]);
    let stats = call(&caller.agent, "svc_trace_stats", arguments.clone()).await.expect().body;
    assert_eq!(number(&stats["all"], "traces"), by_rest.len() as u64, "{}: {arguments}", caller.name);
    assert_eq!(ids_from_tool(caller, arguments.clone()).await, by_rest, "{}: {arguments}", caller.name);
    comparison.matched += by_rest.len();
    comparison.unmatched += visible.ids.len() - by_rest.len();
}

/// Returns a field and a value that some span has.
fn random_value<'a>(
    fields: &'a [TextField],
    visible: &Visible,
    random: &mut ChaCha8Rng,
) -> (&'a TextField, String) {
    let field = fields.choose(random).unwrap();
    let spans: Vec<&Value> = visible.spans.values().flatten().collect();
    let values = spans.choose(random).map(|span| field.values(span)).unwrap_or_default();
    let value = values.into_iter().find(|value| !value.contains('\u{fffd}'));
    (field, value.unwrap_or_else(|| "prod".to_owned()))
}

/// Computes traces, spans and errors of each group from the REST API's spans.
fn groups(fields: &[&TextField], per: &str, visible: &Visible) -> BTreeMap<Vec<String>, [u64; 3]> {
    let mut groups: BTreeMap<Vec<String>, BTreeMap<&String, [u64; 2]>> = BTreeMap::new();
    for (id, spans) in &visible.spans {
        for span in spans {
            for values in value_combinations(fields, span) {
                let [count, errors] = groups.entry(values).or_default().entry(id).or_default();
                *count += 1;
                *errors += u64::from(failed(span));
            }
        }
    }
    let whole = |id: &String| {
        let spans = &visible.spans[id];
        [spans.len() as u64, u64::from(spans.iter().any(failed))]
    };
    let numbers = |traces: BTreeMap<&String, [u64; 2]>| {
        let each = traces.iter().map(|(id, own)| if per == "trace" { whole(id) } else { *own });
        let sum = each.fold([0, 0], |[spans, errors], [more, failed]| [spans + more, errors + failed]);
        [traces.len() as u64, sum[0], sum[1]]
    };
    // Values that are not valid text are counted but not listed; the REST API shows them with this character.
    let listable = |values: &Vec<String>| !values.iter().any(|value| value.contains('\u{fffd}'));
    groups
        .into_iter()
        .filter(|(values, _)| listable(values))
        .map(|(values, of)| (values, numbers(of)))
        .collect()
}

fn value_combinations(fields: &[&TextField], span: &Value) -> Vec<Vec<String>> {
    fields.iter().fold(vec![Vec::new()], |value_combinations, field| {
        let values = field.values(span);
        let with =
            |known: &Vec<String>, value: &String| [known.as_slice(), std::slice::from_ref(value)].concat();
        value_combinations
            .iter()
            .flat_map(|known| values.iter().map(move |value| with(known, value)))
            .collect()
    })
}

fn failed(span: &Value) -> bool {
    ["Error", "STATUS_CODE_ERROR", "ERROR"].contains(&text(span, "StatusCode"))
}

/// Checks that the numbers, overall and grouped by one or two fields, match the REST API's spans.
async fn compare_statistics(
    caller: &Caller,
    window: &Value,
    fields: &[TextField],
    visible: &Visible,
    random: &mut ChaCha8Rng,
    comparison: &mut Comparison,
) {
    const MAX_GROUPS: usize = 40;
    let number_of_fields = random.random_range(1..=2);
    let chosen: Vec<&TextField> = fields.sample(random, number_of_fields).collect();
    let per = *["span", "trace"].choose(random).unwrap();
    let mut arguments = window.clone();
    arguments["group_by"] = chosen.iter().map(|field| field.reference.as_str()).collect();
    arguments["per"] = per.into();
    arguments["measure"] = (*["count", "errors", "error_rate", "duration"].choose(random).unwrap()).into();
    arguments["limit"] = MAX_GROUPS.into();
    arguments["max_tokens"] = LARGE_TOKEN_LIMIT.into();
    let stats = call(&caller.agent, "svc_trace_stats", arguments.clone()).await.expect().body;
    let of = |numbers: &Value| ["traces", "spans", "errors"].map(|name| number(numbers, name));
    let spans = || visible.spans.values().flatten();
    let errors = match per {
        "span" => spans().filter(|span| failed(span)).count(),
        _ => visible.spans.values().filter(|spans| spans.iter().any(failed)).count(),
    };
    let all = [visible.ids.len(), spans().count(), errors].map(|number| number as u64);
    assert_eq!(of(&stats["all"]), all, "{}: {arguments}", caller.name);
    let expected = groups(&chosen, per, visible);
    let found: BTreeMap<Vec<String>, [u64; 3]> = list(&stats, "groups")
        .iter()
        .map(|group| (serde_json::from_value(group["values"].clone()).unwrap(), of(group)))
        .collect();
    assert_eq!(
        found.len(),
        expected.len().min(MAX_GROUPS),
        "{}: {arguments}: {found:?} {expected:?}",
        caller.name
    );
    for (values, numbers) in &found {
        assert_eq!(expected.get(values), Some(numbers), "{}: {arguments}: {values:?}", caller.name);
    }
    comparison.groups += found.len();
}

/// Checks that a field's values are listed as in the REST API.
async fn compare_values(
    caller: &Caller,
    window: &Value,
    fields: &[TextField],
    random: &mut ChaCha8Rng,
    comparison: &mut Comparison,
) {
    let field = fields.choose(random).unwrap();
    let prefix = *["", "", "a", "pro", "日"].choose(random).unwrap();
    let (from, to) = (text(window, "from"), text(window, "to"));
    let path = format!(
        "/filter/values?ref={}&prefix={}&from={from}&to={to}&limit=100",
        percent_encoded(&field.reference),
        percent_encoded(prefix)
    );
    let by_rest = caller.rest.get(&path).await.expect(200).body;
    let arguments = json!({"ref": field.reference, "prefix": prefix, "from": from, "to": to, "limit": 100, "max_tokens": LARGE_TOKEN_LIMIT});
    let by_tool = call(&caller.agent, "svc_field_values", arguments).await.expect().body;
    for name in ["ref", "values", "sampled_traces", "complete", "unlisted"] {
        assert_eq!(by_tool[name], by_rest[name], "{}: {path}: {name}", caller.name);
    }
    comparison.values += list(&by_tool, "values").len();
}

/// Checks that a caller gets the same fields with the same types.
pub async fn compare_schema(caller: &Caller) {
    let by_rest = caller.rest.get("/filter/schema").await.expect(200).body;
    let by_tool = call(&caller.agent, "svc_filter_schema", json!({"max_tokens": LARGE_TOKEN_LIMIT}))
        .await
        .expect()
        .body;
    let named = |body: &Value| -> Vec<Value> {
        let fields = list(body, "fields").iter();
        fields.map(|field| json!([field["ref"], field["type"], field["filterable"] != false])).collect()
    };
    assert_eq!(named(&by_tool), named(&by_rest));
    for field in list(&by_rest, "fields").iter().filter(|field| field["operators"].is_array()) {
        assert_eq!(by_tool["types"][text(field, "type")]["operators"], field["operators"], "{field}");
    }
    for name in ["version", "limits"] {
        assert_eq!(by_tool[name], by_rest[name]);
    }
}

/// Checks that the REST API and one of the tools in turn agree on a trace, or reveal nothing of it.
async fn compare_trace(
    caller: &Caller,
    data_set: &DataSet,
    visible: &Visible,
    kind: usize,
    id: &str,
    mut random: ChaCha8Rng,
) {
    let agent = &caller.agent;
    let other = visible.ids.choose(&mut random).or(data_set.ids.choose(&mut random)).unwrap();
    let (first, second) = if random.random_bool(0.5) { (id, other.as_str()) } else { (other.as_str(), id) };
    let (tool, arguments) = match kind % READ_KINDS {
        kind @ 0..4 => {
            ("svc_get_trace", json!({"trace_id": id, "view": VIEWS[kind], "max_tokens": LARGE_TOKEN_LIMIT}))
        }
        4 => {
            let columns = json!(["SpanName", "ServiceName", "StatusCode"]);
            (
                "svc_get_spans",
                json!({"trace_id": id, "span_ids": SPAN_IDS, "columns": columns, "max_tokens": LARGE_TOKEN_LIMIT}),
            )
        }
        5 => ("svc_critical_path", json!({"trace_id": id, "max_tokens": LARGE_TOKEN_LIMIT})),
        _ => (
            "svc_compare_traces",
            json!({"first_trace_id": first, "second_trace_id": second, "max_tokens": LARGE_TOKEN_LIMIT}),
        ),
    };
    let path = format!("/traces/{}", percent_encoded(id));
    let explain = json!({"trace_id": id, "max_tokens": LARGE_TOKEN_LIMIT});
    let (by_rest, answer, explained) = futures::join!(
        caller.rest.get(&path),
        call(agent, tool, arguments),
        call(agent, "svc_explain_access", explain)
    );
    let Some(spans) = visible.spans.get(id) else {
        by_rest.problem(404, "trace_not_found");
        // If both traces are absent, the error names the first.
        let argument = match tool {
            "svc_compare_traces" if visible.spans.contains_key(first) => "second_trace_id: ",
            "svc_compare_traces" => "first_trace_id: ",
            _ => "",
        };
        expect_not_found(answer, argument, id);
        expect_not_found(explained, "", id);
        return;
    };
    assert_eq!(by_rest.expect(200).body["spans"], json!(spans));
    let context = format!("{} {tool} {id:?}", caller.name);
    let body = answer.expect().body;
    let ids: BTreeSet<&str> = spans.iter().map(|span| text(span, "SpanId")).collect();
    check_granted_access(&explained.expect().body, spans, &ids, &context);
    match tool {
        "svc_get_trace" => {
            assert_eq!(totals_of_summary(&body["trace"]), totals_of_spans(spans, id), "{context}");
            check_view(agent, &body, spans, &context).await;
        }
        "svc_get_spans" => {
            assert_eq!(span_ids(list(&body, "spans")), span_ids(spans), "{context}");
            let missing: BTreeSet<&str> =
                list(&body, "missing").iter().map(|id| id.as_str().unwrap()).collect();
            assert!(missing.is_disjoint(&ids) && missing.contains("ffff"), "{context}: {body}");
            assert_eq!(missing.len() + ids.len(), SPAN_IDS.len(), "{context}: {body}");
        }
        "svc_critical_path" => {
            assert_eq!(totals_of_summary(&body["trace"]), totals_of_spans(spans, id), "{context}");
            assert!(
                list(&body, "steps").iter().all(|step| ids.contains(text(step, "span_id"))),
                "{context}: {body}"
            );
        }
        _ => {
            assert_eq!(
                totals_of_summary(&body["first"]),
                totals_of_spans(&visible.spans[first], first),
                "{context}"
            );
            assert_eq!(
                totals_of_summary(&body["second"]),
                totals_of_spans(&visible.spans[second], second),
                "{context}"
            );
        }
    }
}

/// Checks the reason for access to a trace: a policy of one of the caller's roles, and spans of the trace.
#[track_caller]
fn check_granted_access(body: &Value, spans: &[Value], ids: &BTreeSet<&str>, context: &str) {
    let (trace, roles) = (&body["trace"], list(&body["user"], "roles"));
    assert_eq!(number(trace, "spans"), spans.len() as u64, "{context}: {body}");
    let by = list(trace, "granted_by");
    assert!(by.iter().any(|policy| policy["role"].is_string()), "{context}: {body}");
    for policy in by {
        assert!(policy["role"].is_null() || roles.contains(&policy["role"]), "{context}: {body}");
        let first = list(policy, "first");
        let known = first.iter().all(|span| ids.contains(text(span, "span_id")));
        let count = number(policy, "count");
        assert!(known && !first.is_empty() && count <= spans.len() as u64, "{context}: {body}");
    }
    // The constraint of a scoped API key is always named.
    let restricted = body["key"].get("must_satisfy").is_some();
    assert_eq!(by.iter().any(|policy| policy["role"].is_null()), restricted, "{context}: {body}");
}

/// Checks that the error reveals neither the trace nor whether it exists.
#[track_caller]
fn expect_not_found(answer: ToolResult, argument: &str, id: &str) {
    let text = answer.failure("trace_not_found");
    assert!(text.starts_with(&format!("error trace_not_found: {argument}")), "{text}");
    assert!(!text.contains(id) || id.len() < 8, "{text}");
}

/// Returns id, number of spans and number of errors.
fn totals_of_spans(spans: &[Value], id: &str) -> (String, u64, u64) {
    (id.to_owned(), spans.len() as u64, spans.iter().filter(|span| failed(span)).count() as u64)
}

#[track_caller]
fn totals_of_summary(trace: &Value) -> (String, u64, u64) {
    (text(trace, "trace_id").to_owned(), number(trace, "spans"), number(trace, "errors"))
}

fn span_ids(spans: &[Value]) -> Vec<&str> {
    let mut ids: Vec<&str> = spans.iter().map(|span| text(span, "SpanId")).collect();
    ids.sort_unstable();
    ids
}

/// Checks that a view consists of this trace's spans, and covers all of them.
async fn check_view(agent: &Client, body: &Value, spans: &[Value], context: &str) {
    let represented_spans =
        |entries: &[Value]| entries.iter().map(|entry| entry["count"].as_u64().unwrap_or(1)).sum::<u64>();
    let named = |entries: &[Value], of: &dyn Fn(&Value) -> bool| {
        let ids: BTreeSet<&str> =
            spans.iter().filter(|span| of(span)).map(|span| text(span, "SpanId")).collect();
        assert!(entries.iter().all(|entry| ids.contains(text(entry, "span_id"))), "{context}: {body}");
    };
    match text(body, "view") {
        "outline" => {
            named(list(body, "lines"), &|_| true);
            assert_eq!(represented_spans(list(body, "lines")), spans.len() as u64, "{context}: {body}");
        }
        "slowest" => {
            named(list(body, "slowest"), &|_| true);
            assert_eq!(represented_spans(list(body, "slowest")), spans.len() as u64, "{context}: {body}");
        }
        "errors" => {
            named(list(body, "errors"), &failed);
            assert_eq!(list(body, "errors").is_empty(), !spans.iter().any(failed), "{context}: {body}");
        }
        _ => {
            let mut given = list(body, "spans").clone();
            let mut next = suggested(body, "svc_get_trace").next().cloned();
            for _ in 0..MANY_PAGES {
                let Some(arguments) = next else { break };
                let page = call(agent, "svc_get_trace", arguments).await.expect().body;
                given.extend(list(&page, "spans").iter().cloned());
                next = suggested(&page, "svc_get_trace").next().cloned();
            }
            assert_eq!(span_ids(&given), span_ids(spans), "{context}");
        }
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}

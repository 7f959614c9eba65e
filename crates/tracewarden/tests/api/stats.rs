//! `POST /traces/stats`, compared with counts of the traces that the caller can read.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tracewarden_model::Timestamp;

use crate::support::Client;
use crate::support::store::{Store, binding, bound_service, two_teams};

const MINUTE: i64 = 60_000_000_000;

/// Marks the columns and keys that the test uses, and binds the columns for durations and errors.
async fn mark_fields(admin: &Client) {
    let admin = admin.with("if-match", "*");
    let mut shown = binding();
    shown["display"] = json!({"duration": "Duration", "status": "StatusCode"});
    admin.put("/schema/binding", shown).await.expect(200);
    let key = |name: &str| json!({"map": "SpanAttributes", "name": name, "filterable": true, "policy": true});
    let column = |name: &str| json!({"name": name, "filterable": true, "policy": false});
    let fields = [key("team"), key("tenant"), column("ServiceName"), column("StatusCode")];
    admin.put("/schema/fields", json!({ "fields": fields })).await.expect(200);
}

/// Inserts 60 traces of three teams in the last hour, each with one to five spans of several services.
async fn insert_traces(store: &Store) {
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, ServiceName, Duration, StatusCode, SpanAttributes) \
             SELECT now64(9) - 3500 + trace * 55 + span * 40, leftPad(hex(trace + 1), 32, '0'), leftPad(hex(trace * 100 + span), 16, '0'), \
             '', concat('op-', toString((trace + span * 7) % 9)), ['shop', 'billing', 'search', ''][1 + (trace * 3 + span) % 4], \
             (trace * 17 % 40 + span) * 1000000, if(span < trace * 7 % 5, 'Error', 'Ok'), \
             if(trace % 11 = 10, map('team', ['blue', 'red', 'green'][1 + trace % 3]), \
             map('team', ['blue', 'red', 'green'][1 + trace % 3], 'tenant', toString(trace % 25))) \
             FROM (SELECT number AS trace, arrayJoin(range(1 + number * 11 % 5)) AS span FROM numbers(60))",
        )
        .await;
}

/// Twenty filters, from none to exclusions.
fn filters() -> Vec<Value> {
    let service = |value: &str| json!({"ref": "ServiceName", "op": "eq", "value": value});
    let is = |field: &str, value: &str| json!({"ref": field, "op": "eq", "value": value});
    let (tenant, status) = ("SpanAttributes[\"tenant\"]", "StatusCode");
    let mut filters = vec![json!({}), json!({"conditions": []})];
    for name in ["shop", "billing", "search", "", "unknown"] {
        filters.push(json!({"conditions": [service(name)]}));
        filters.push(json!({"same_span": [[service(name), is(status, "Error")]]}));
        filters.push(json!({"conditions": [is(status, "Error")], "none": [service(name)]}));
    }
    filters.push(json!({"conditions": [is(tenant, "7"), service("shop")]}));
    filters.push(json!({"conditions": [{"ref": tenant, "op": "exists"}]}));
    filters.push(json!({"none": [{"ref": tenant, "op": "exists"}]}));
    filters
}

/// A span as the API returns it.
struct Span {
    trace: usize,
    at: i64,
    duration: i64,
    failed: bool,
    service: String,
    tenant: Option<String>,
}

/// All traces that match, with all their spans and the time of each trace in the order of pages.
async fn read_traces(client: &Client, query: &Value) -> (Vec<Span>, Vec<i64>) {
    let request = |view: &str| {
        let mut request = query.clone();
        request["view"] = json!(view);
        request["limit"] = json!(200);
        request
    };
    let whole = client.post("/traces/query", request("spans")).await.expect(200).body;
    let summaries = client.post("/traces/query", request("summary")).await.expect(200).body;
    let is_filtered = ["conditions", "same_span"]
        .iter()
        .any(|part| query["filter"][part].as_array().is_some_and(|part| !part.is_empty()));
    let (mut spans, mut order_times) = (Vec::new(), Vec::new());
    for (number, summary) in summaries["traces"].as_array().unwrap().iter().enumerate() {
        let matched: BTreeSet<&str> =
            summary["matched_span_ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
        let mut newest = i64::MIN;
        for span in
            whole["spans"].as_array().unwrap().iter().filter(|span| span["TraceId"] == summary["trace_id"])
        {
            let text = |member: &str| span[member].as_str().unwrap();
            let at = Timestamp::parse(text("Timestamp")).unwrap().as_nanos();
            if !is_filtered || matched.contains(text("SpanId")) {
                newest = newest.max(at);
            }
            spans.push(Span {
                trace: number,
                at,
                duration: span["Duration"].to_string().trim_matches('"').parse().unwrap(),
                failed: text("StatusCode") == "Error",
                service: text("ServiceName").to_owned(),
                tenant: span["SpanAttributes"]["tenant"].as_str().map(str::to_owned),
            });
        }
        order_times.push(newest);
    }
    (spans, order_times)
}

/// Traces, spans, errors and the maximum of the duration of some spans, or of whole traces.
fn numbers(chosen: &[&Span], all: &[Span], per_trace: bool) -> Value {
    let traces: BTreeSet<usize> = chosen.iter().map(|span| span.trace).collect();
    let (spans, errors, longest) = if per_trace {
        let of = |id: &usize| all.iter().filter(move |span| span.trace == *id).collect::<Vec<_>>();
        let whole: Vec<Vec<&Span>> = traces.iter().map(of).collect();
        let duration = |spans: &Vec<&Span>| {
            spans.iter().map(|span| span.at + span.duration).max().unwrap()
                - spans.iter().map(|span| span.at).min().unwrap()
        };
        (
            whole.iter().map(Vec::len).sum(),
            whole.iter().filter(|spans| spans.iter().any(|span| span.failed)).count(),
            whole.iter().map(duration).max(),
        )
    } else {
        (
            chosen.len(),
            chosen.iter().filter(|span| span.failed).count(),
            chosen.iter().map(|span| span.duration).max(),
        )
    };
    json!([traces.len(), spans, errors, longest])
}

fn answered(numbers: &Value) -> Value {
    json!([numbers["traces"], numbers["spans"], numbers["errors"], numbers["max_nanos"]])
}

#[tokio::test]
async fn statistics_are_those_of_the_traces_that_the_caller_can_read() {
    let store = Store::start();
    insert_traces(&store).await;
    let (service, admin) = bound_service(&store, &[]).await;
    mark_fields(&admin).await;
    for team in ["blue", "red", "green"] {
        let policy = json!({"title": team, "expression": format!("SpanAttributes[\"team\"] == \"{team}\"")});
        admin.put(&format!("/roles/{team}"), json!({"policies": [policy]})).await.expect(201);
    }
    let now = admin.post("/traces/stats", json!({})).await.expect(200).body["to"].clone();
    // At full minutes, so that the number of buckets is known.
    let to = (Timestamp::parse(now.as_str().unwrap()).unwrap().as_nanos() / MINUTE + 1) * MINUTE;
    let from = to - 3 * 60 * MINUTE;
    let at = |nanos: i64| Timestamp::from_nanos(nanos).to_string();
    let users: [&[&str]; 5] = [&["blue"], &["red"], &["blue", "green"], &["blue", "red", "green"], &[]];
    let mut counted = 0;
    for (number, roles) in users.into_iter().enumerate() {
        let user = service.user(&admin, &format!("user-{number}"), roles).await;
        for (filter, per_trace) in filters().into_iter().zip([true, false].into_iter().cycle()) {
            let query = json!({"from": at(from), "to": at(to), "filter": filter});
            let (spans, order_times) = read_traces(&user, &query).await;
            let mut request = query.clone();
            request["per"] = json!(if per_trace { "trace" } else { "span" });
            request["group_by"] = json!(["ServiceName"]);
            request["buckets"] = json!(50);
            request["facets"] = json!(["SpanAttributes[\"tenant\"]", "ServiceName"]);
            let stats = user.post("/traces/stats", request).await.expect(200).body;
            let all: Vec<&Span> = spans.iter().collect();
            let context = format!("{roles:?}: {filter}, per trace: {per_trace}");
            if spans.is_empty() {
                assert_eq!(stats["total"]["traces"], 0, "{context}");
            } else {
                assert_eq!(answered(&stats["total"]), numbers(&all, &spans, per_trace), "{context}");
            }
            let mut groups: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
            for span in &spans {
                groups.entry(&span.service).or_default().push(span);
            }
            assert_eq!(stats["distinct_groups"], groups.len(), "{context}");
            for group in stats["groups"].as_array().unwrap() {
                let chosen = groups.remove(group["values"][0].as_str().unwrap()).unwrap();
                assert_eq!(answered(group), numbers(&chosen, &spans, per_trace), "{context}");
            }
            assert!(groups.is_empty(), "{context}");

            let buckets = stats["buckets"].as_array().unwrap();
            assert!((36..=37).contains(&buckets.len()), "a width of 5 minutes");
            for bucket in buckets {
                let time =
                    |member: &str| Timestamp::parse(bucket[member].as_str().unwrap()).unwrap().as_nanos();
                let range = time("from")..time("to");
                let is_in = |span: &&Span| {
                    range.contains(if per_trace { &order_times[span.trace] } else { &span.at })
                };
                let chosen: Vec<&Span> = spans.iter().filter(is_in).collect();
                if chosen.is_empty() {
                    assert_eq!(bucket["traces"], 0, "{context}");
                } else {
                    assert_eq!(answered(bucket), numbers(&chosen, &spans, per_trace), "{context}");
                    counted += 1;
                }
            }

            let facets: [fn(&Span) -> Option<&str>; 2] =
                [|span| span.tenant.as_deref(), |span| Some(span.service.as_str())];
            for (facet, value) in stats["facets"].as_array().unwrap().iter().zip(facets) {
                let mut traces: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
                for span in &spans {
                    if let Some(value) = value(span) {
                        traces.entry(value).or_default().insert(span.trace);
                    }
                }
                assert_eq!(facet["distinct"], traces.len(), "{context}");
                let mut expected: Vec<(std::cmp::Reverse<usize>, &str)> =
                    traces.iter().map(|(value, traces)| (std::cmp::Reverse(traces.len()), *value)).collect();
                expected.sort();
                expected.truncate(20);
                let expected: Vec<Value> = expected
                    .into_iter()
                    .map(|(traces, value)| json!({"value": value, "traces": traces.0}))
                    .collect();
                assert_eq!(facet["values"], json!(expected), "{context}");
            }
        }
    }
    assert!(counted > 100, "{counted} buckets with spans");
}

#[tokio::test]
async fn fields_and_numbers_are_checked() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let tenant = "SpanAttributes[\"team\"]";
    for (request, status, code, pointer) in [
        (json!({"buckets": 0}), 400, "invalid_request", "/buckets"),
        (json!({"limit": -1}), 400, "invalid_request", "/limit"),
        (json!({"facets": ["unknown"]}), 422, "unknown_field", "/facets/0"),
        (json!({"facets": vec![tenant; 11]}), 422, "too_many_values", "/facets"),
        (json!({"group_by": vec![tenant; 3]}), 422, "too_many_values", "/group_by"),
        (json!({"group_by": [tenant, "x"]}), 422, "unknown_field", "/group_by/1"),
        (json!({"filter": {"conditions": [{"ref": "x", "op": "exists"}]}}), 422, "unknown_field", "/filter"),
    ] {
        let problem = ada.post("/traces/stats", request).await.problem(status, code).body;
        assert!(problem["errors"][0]["pointer"].as_str().unwrap().starts_with(pointer), "{problem}");
    }
    for (request, member) in [(json!({"per": "second"}), "per"), (json!({"order": "count"}), "order")] {
        let problem = ada.post("/traces/stats", request).await.problem(400, "invalid_request").body;
        assert!(problem.to_string().contains(member), "{problem}");
    }
    // As many as are allowed; each is reduced to the maximum.
    let most =
        json!({"buckets": 1e18, "limit": 1_000_000, "facets": vec![tenant; 10], "group_by": vec![tenant; 2]});
    let stats = ada.post("/traces/stats", most).await.expect(200).body;
    assert_eq!(stats["total"]["traces"], 1);
    assert!((100..=200).contains(&stats["buckets"].as_array().unwrap().len()));
    assert_eq!(stats["facets"][9]["values"], json!([{"value": "blue", "traces": 1}]));
    // The record says what was disclosed, and nothing of the answer but its size.
    let record = admin.get("/audit?limit=1").await.expect(200).body["records"][0].clone();
    assert_eq!((&record["action"], &record["outcome"]), (&json!("traces.stats"), &json!("success")));
    let detail = &record["detail"];
    assert_eq!((&detail["traces"], &detail["facets"]), (&json!(1), &json!(vec![tenant; 10])));
    assert!(detail["buckets"].is_number() && detail["from"] == stats["from"], "{detail}");
    let plain = ada.post("/traces/stats", json!({})).await.expect(200).body;
    let detail = admin.get("/audit?limit=1").await.expect(200).body["records"][0]["detail"].clone();
    assert!(detail["traces"] == 1 && detail.get("buckets").or(detail.get("facets")).is_none(), "{detail}");
    assert_eq!((&plain["buckets"], &plain["facets"], &plain["groups"]), (&json!([]), &json!([]), &json!([])));
}

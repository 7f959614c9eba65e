//! Durations that wrapped around below zero, in tools and in summaries.

use serde_json::json;

use crate::mcp::rpc::{call, key};
use crate::support::store::{Store, binding, two_teams};

const ID: &str = "0000000000000000000000000000000d";

#[tokio::test]
async fn negative_durations_count_as_missing_everywhere() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    // The span ends 191,305 ns before it begins; exporters store this in an unsigned column.
    store
        .run(&format!(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, ServiceName, Duration, SpanAttributes) \
             SELECT now64(9) - 30, '{ID}', leftPad(toString(number + 1), 16, '0'), if(number = 0, '', '0000000000000001'), 'GET', 'api', \
             if(number = 3, 18446744073709360311, 5000000), map('team', 'blue') FROM numbers(10)"
        ))
        .await;
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let mut shown = binding();
    shown["display"] = json!({"service": "ServiceName", "name": "SpanName", "duration": "Duration"});
    admin.with("if-match", &version).put("/schema/binding", shown).await.expect(200);

    let page = ada.post("/traces/query", json!({"view": "summary"})).await.expect(200).body;
    let duration_and_validity = |at: usize| {
        (page["traces"][at]["duration_nanos"].clone(), page["traces"][at]["duration_invalid"].clone())
    };
    assert_eq!(duration_and_validity(0), (json!(5_000_000), json!(true)));
    assert_eq!(duration_and_validity(1), (json!(1_000), json!(false)));
    // The column itself, and conditions on it, are unchanged.
    let spans = ada.get(&format!("/traces/{ID}")).await.expect(200);
    assert!(String::from_utf8_lossy(&spans.bytes).contains("\"Duration\":18446744073709360311"));
    let large =
        json!({"conditions": [{"name": "Duration", "op": "gt", "value": 9_223_372_036_854_775_807_u64}]});
    let found = ada.post("/traces/query", json!({"view": "ids", "filter": large})).await.expect(200).body;
    assert_eq!(found["trace_ids"], json!([ID]));

    let agent = key(&ada, json!({})).await;
    for view in ["outline", "errors", "slowest", "full"] {
        let answer = call(&agent, "svc_get_trace", json!({"trace_id": ID, "view": view})).await.expect();
        let trace = &answer.body["trace"];
        assert_eq!(
            (&trace["duration_ms"], &trace["duration_invalid"]),
            (&json!(5.0), &json!(true)),
            "{view}"
        );
    }
    let answer = call(&agent, "svc_get_trace", json!({"trace_id": ID})).await.expect();
    assert!(
        answer.body["lines"].as_array().unwrap().iter().all(|line| line["duration_ms"] == 5.0),
        "{}",
        answer.body
    );
    let marked = |answer: &crate::mcp::rpc::ToolResult, name: &str| {
        let list = answer.body[name].as_array().unwrap();
        list.iter().filter(|entry| entry["duration_invalid"] == true).count()
    };
    // The child spans are grouped into one line, which includes that span.
    assert_eq!(marked(&answer, "lines"), 1, "{}", answer.body);
    assert!(answer.text.contains("(duration below zero or no number of nanoseconds)"), "{}", answer.text);
    let spans = json!({"trace_id": ID, "span_ids": ["0000000000000003", "0000000000000004"]});
    let answer = call(&agent, "svc_get_spans", spans).await.expect();
    assert_eq!(marked(&answer, "spans"), 1, "{}", answer.body);
    assert_eq!(answer.body["spans"][1]["Duration"], "18446744073709360311", "{}", answer.body);
    for per in ["span", "trace"] {
        let query = json!({"measure": "duration", "group_by": ["ServiceName"], "per": per});
        let answer = call(&agent, "svc_trace_stats", query).await.expect();
        let groups = answer.body["groups"].as_array().unwrap();
        let api = groups.iter().find(|group| group.to_string().contains("api")).unwrap();
        assert!(api["p99_ms"].as_f64().unwrap() <= 5.0, "{}", answer.body);
        assert_eq!(api["duration_invalid"], true, "{}", answer.body);
        let shop = groups.iter().find(|group| group.to_string().contains("shop")).unwrap();
        assert!(shop.get("duration_invalid").is_none(), "{}", answer.body);
    }
}

#[tokio::test]
async fn invalid_durations_are_treated_the_same_everywhere() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    // A float column, in addition to the integer one.
    store.run("ALTER TABLE otel.otel_traces ADD COLUMN Took Float64").await;
    // 2^63 is the smallest float that is not a valid number of nanoseconds.
    let stored =
        ["-5", "nan", "inf", "-inf", "1e300", "9223372036854775808", "-0.5", "7", "9223372036854774784"];
    let invalid = 6;
    for (at, took) in stored.iter().enumerate() {
        store
            .run(&format!(
                "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, ServiceName, Duration, Took, SpanAttributes) \
                 SELECT now64(9) - 30, leftPad('{at}', 32, 'f'), leftPad('{at}', 16, 'f'), '', 'GET', 'api', 1, {took}, map('team', 'blue')"
            ))
            .await;
    }
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let mut shown = binding();
    shown["display"] =
        json!({"service": "ServiceName", "name": "SpanName", "duration": "Took", "status": "StatusCode"});
    admin.with("if-match", &version).put("/schema/binding", shown).await.expect(200);
    let agent = key(&ada, json!({})).await;
    for (at, took) in stored.iter().enumerate() {
        let expected = if at < invalid { json!(true) } else { json!(null) };
        let id = format!("{at:f>32}");
        let query = json!({"trace_id": id, "span_ids": [format!("{at:f>16}")]});
        let answer = call(&agent, "svc_get_spans", query.clone()).await.expect();
        assert_eq!(answer.body["spans"][0]["duration_invalid"], expected, "{took}: {}", answer.body);
        assert_eq!(answer.text.contains("duration_invalid"), at < invalid, "{took}: {}", answer.text);
        for view in ["full", "outline"] {
            let answer = call(&agent, "svc_get_trace", json!({"trace_id": id, "view": view})).await.expect();
            let one = if view == "full" { &answer.body["spans"][0] } else { &answer.body["lines"][0] };
            assert_eq!(one["duration_invalid"], expected, "{took} {view}: {}", answer.body);
            assert_eq!(answer.body["trace"]["duration_invalid"], expected, "{took} {view}: {}", answer.body);
            assert_eq!(
                answer.text.contains("no number of nanoseconds"),
                at < invalid,
                "{took} {view}: {}",
                answer.text
            );
        }
        // There is no statement on a column that is not returned.
        let mut named = query;
        named["columns"] = json!(["ServiceName"]);
        let answer = call(&agent, "svc_get_spans", named).await.expect();
        assert_eq!(answer.body["spans"][0]["duration_invalid"], json!(null), "{took}: {}", answer.body);
    }
}

//! `/traces`: request and response format, errors and framing. Matching and authorisation have separate tests.

use std::io::Read as _;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::store::{BLUE, RED, Store, bound_service, two_teams};
use crate::support::{Answer, Service};

#[tokio::test]
async fn a_page_has_schema_spans_and_cursor() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let page = ada.post("/traces/query", json!({})).await.expect(200);
    assert_eq!(page.headers["content-type"], "application/json");
    let schema = &page.body["schema"];
    assert_eq!(schema["table"], "otel_traces");
    assert_eq!(schema["version"], admin.get("/schema").await.expect(200).body["version"]);
    let spans = page.body["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 3);
    assert!(spans.iter().all(|span| span["TraceId"] == BLUE), "{spans:?}");
    assert!(page.body.get("next_cursor").is_none());
    // Being an administrator grants no access to traces.
    assert_eq!(admin.post("/traces/query", json!({})).await.expect(200).body["spans"], json!([]));

    let columns = json!({"columns": ["ServiceName"]});
    let page = ada.post("/traces/query", columns).await.expect(200).body;
    let mut names: Vec<_> = page["spans"][0].as_object().unwrap().keys().cloned().collect();
    names.sort();
    assert_eq!(names, ["ParentSpanId", "ServiceName", "SpanId", "Timestamp", "TraceId"]);
}

#[tokio::test]
async fn the_same_page_is_available_as_ndjson() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    let lines = ada.with("accept", "application/x-ndjson");
    let page = lines.post("/traces/query", json!({})).await.expect(200);
    assert_eq!(page.headers["content-type"], "application/x-ndjson");
    let text = String::from_utf8(page.bytes).unwrap();
    assert!(text.ends_with('\n'));
    let values: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.first().unwrap()["schema"]["trace_id"], "TraceId");
    assert_eq!(values.last().unwrap(), &json!({"end": {"next_cursor": null, "traces": 1, "spans": 3}}));
    let spans = values.iter().filter(|value| value.get("span").is_some()).count();
    assert_eq!(spans, 3);
    lines.post("/traces/query", json!({"limit": 0})).await.problem(400, "invalid_request");
}

#[tokio::test]
async fn the_ids_and_summary_views_omit_spans() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    let ids = ada.post("/traces/query", json!({"view": "ids"})).await.expect(200).body;
    assert_eq!(ids["trace_ids"], json!([BLUE]));
    let summary = ada.post("/traces/query", json!({"view": "summary"})).await.expect(200).body;
    assert_eq!(summary["traces"][0]["trace_id"], BLUE);
    assert_eq!(summary["traces"][0]["span_count"], 3);
    let wrong = ada.post("/traces/query", json!({"view": "spam"})).await.problem(400, "invalid_request");
    assert_eq!(wrong.first_error()["pointer"], "/view");
}

#[tokio::test]
async fn compressed_pages_are_the_same_pages() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    // A fixed time range, which the answers repeat.
    let query = json!({"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"});
    let plain = ada.post("/traces/query", query.clone()).await.expect(200);
    assert!(!plain.headers.contains_key("content-encoding"), "{:?}", plain.headers);
    for encoding in ["gzip", "zstd"] {
        let page =
            ada.with("accept-encoding", encoding).post("/traces/query", query.clone()).await.expect(200);
        assert_eq!(page.headers["content-encoding"], encoding);
        let mut bytes = Vec::new();
        match encoding {
            "gzip" => {
                flate2::read::GzDecoder::new(page.bytes.as_slice()).read_to_end(&mut bytes).unwrap();
            }
            _ => bytes = zstd::decode_all(page.bytes.as_slice()).unwrap(),
        }
        assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&plain.bytes), "{encoding}");
    }
}

#[tokio::test]
async fn absent_and_forbidden_get_the_same_answer() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    assert_eq!(
        ada.get(&format!("/traces/{BLUE}")).await.expect(200).body["spans"].as_array().unwrap().len(),
        3
    );
    let hinted = format!("/traces/{BLUE}?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z");
    ada.get(&hinted).await.expect(200);
    let mut answers = Vec::new();
    for id in [RED, "33333333333333333333333333333333", "nonsense", "%27%20OR%201=1", &"x".repeat(5000)] {
        let mut answer = ada.get(&format!("/traces/{id}")).await.problem(404, "trace_not_found");
        answer.body["request_id"] = Value::Null;
        for name in ["x-request-id", "date"] {
            answer.headers.remove(name);
        }
        answers.push(format!("{:?} {}", answer.headers, answer.body));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:#?}");
}

#[tokio::test]
async fn filters_that_are_not_allowed_say_why() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let condition = |condition: Value| json!({"filter": {"conditions": [condition]}});
    let team = |op: &str, value: Value| {
        condition(json!({"map": "SpanAttributes", "name": "team", "op": op, "value": value}))
    };
    let cases = [
        (condition(json!({"name": "Servicename", "op": "eq", "value": "x"})), "unknown_field", "/name"),
        (team("gt", json!("x")), "operator_not_allowed", "/op"),
        (team("equals", json!("x")), "operator_not_allowed", "/op"),
        (team("eq", json!(1)), "value_type", "/value"),
        (
            condition(json!({"name": "ServiceName", "op": "in", "values": ["a", 1]})),
            "value_type",
            "/values/1",
        ),
        (condition(json!({"name": "ServiceName", "op": "eq"})), "value_count", "/value"),
        (condition(json!({"name": "ServiceName", "op": "exists", "value": "x"})), "value_count", "/value"),
        (
            condition(json!({"name": "Duration", "op": "between", "values": [1, 2, 3]})),
            "value_count",
            "/values",
        ),
        (
            condition(json!({"name": "ServiceName", "op": "in", "values": vec!["x"; 101]})),
            "too_many_values",
            "/values",
        ),
    ];
    for (body, code, member) in cases {
        let answer = ada.post("/traces/query", body.clone()).await.problem(422, code);
        assert_eq!(answer.first_error()["pointer"], format!("/filter/conditions/0{member}"), "{body}");
        assert_eq!(answer.first_error()["code"], code);
    }
    let many = vec![json!({"name": "ServiceName", "op": "exists"}); 21];
    let answer = ada
        .post("/traces/query", json!({"filter": {"conditions": many}}))
        .await
        .problem(422, "too_many_conditions");
    assert_eq!(answer.first_error()["pointer"], "/filter/conditions");
    // A field that is only usable in policies is visible to administrators only.
    let hidden =
        condition(json!({"map": "SpanAttributes", "name": "secret.label", "op": "eq", "value": "x"}));
    ada.post("/traces/query", hidden.clone()).await.problem(422, "unknown_field");
    admin.post("/traces/query", hidden).await.problem(422, "not_filterable");
    let near = condition(json!({"name": "Servicename", "op": "eq", "value": "x"}));
    let answer = ada.post("/traces/query", near).await.problem(422, "unknown_field");
    assert!(answer.body.to_string().contains("ServiceName"), "{}", answer.body);
    assert!(!answer.body.to_string().contains("secret.label"), "{}", answer.body);
    let columns = json!({"columns": ["ServiceNam"]});
    let answer = ada.post("/traces/query", columns).await.problem(422, "unknown_field");
    assert!(answer.body.to_string().contains("ServiceName"), "{}", answer.body);
}

/// As the specification of `ref` says: it can be used in filters.
#[tokio::test]
async fn fields_are_named_by_reference_or_by_map_and_name() {
    let store = Store::start();
    let (service, admin, _ada) = two_teams(&store).await;
    let policies = json!({"policies": [{"title": "All", "expression": "true"}]});
    admin.put("/roles/all", policies).await.expect(201);
    let eve = service.user(&admin, "eve", &["all"]).await;
    let ask = |condition: Value| json!({"filter": {"conditions": [condition]}, "limit": 1, "view": "ids"});
    let by_ref = ask(json!({"ref": "SpanAttributes[\"team\"]", "op": "exists"}));
    let by_name = ask(json!({"map": "SpanAttributes", "name": "team", "op": "exists"}));
    let first = eve.post("/traces/query", by_ref.clone()).await.expect(200).body;
    assert_eq!(
        eve.post("/traces/query", by_name.clone()).await.expect(200).body["trace_ids"],
        first["trace_ids"]
    );
    // A cursor from one form of the query continues the other.
    let mut pages = Vec::new();
    for mut ask in [by_ref, by_name] {
        ask["cursor"] = first["next_cursor"].clone();
        pages.push(eve.post("/traces/query", ask).await.expect(200).body);
    }
    assert_eq!(pages[0], pages[1]);
    assert_ne!(pages[0]["trace_ids"], first["trace_ids"]);
    // An error on a field name in the wrong form suggests the right form.
    for (wrong, member) in [
        (json!({"name": "team", "op": "exists"}), "name"),
        (json!({"name": "SpanAttributes[\"team\"]", "op": "exists"}), "name"),
        (json!({"map": "SpanAttributes", "name": "SpanAttributes['team']", "op": "exists"}), "name"),
        (json!({"name": "SpanAttributes.team", "op": "exists"}), "name"),
        (json!({"ref": "team", "op": "exists"}), "ref"),
    ] {
        let answer = eve.post("/traces/query", ask(wrong)).await.problem(422, "unknown_field");
        let error = answer.first_error();
        assert_eq!(error["pointer"], format!("/filter/conditions/0/{member}"));
        let detail = error["detail"].as_str().unwrap();
        assert!(
            detail.contains(
                r#"write {"ref":"SpanAttributes[\"team\"]"} or {"map":"SpanAttributes","name":"team"}"#
            ),
            "{detail}"
        );
        assert!(!detail.contains("did you mean"), "{detail}");
    }
    for wrong in [
        json!({"op": "exists"}),
        json!({"map": "SpanAttributes", "op": "exists"}),
        json!({"ref": "ServiceName", "name": "ServiceName", "op": "exists"}),
        json!({"ref": "SpanAttributes[\"team\"]", "map": "SpanAttributes", "op": "exists"}),
    ] {
        let answer = eve.post("/traces/query", ask(wrong)).await.problem(422, "invalid_value");
        assert_eq!(answer.first_error()["pointer"], "/filter/conditions/0/ref");
    }
    // A field that is only usable in policies stays unknown to other users.
    let hidden = ask(json!({"name": "secret.label", "op": "exists"}));
    let answer = eve.post("/traces/query", hidden).await.problem(422, "unknown_field");
    assert!(!answer.body.to_string().contains("SpanAttributes"), "{}", answer.body);
}

#[tokio::test]
async fn numbers_are_exact_and_finite() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    // The first integer that a float cannot represent.
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, Duration, SpanAttributes) \
             SELECT now64(9) - 60, repeat('3', 32), '0000000000000001', 'GET /', 'shop', 9007199254740993, map('team', 'blue')",
        )
        .await;
    let raw = async |op: &str, value: &str| {
        let body = format!(
            r#"{{"view": "ids", "filter": {{"conditions": [{{"name": "Duration", "op": "{op}", "value": {value}}}]}}}}"#
        );
        let request =
            ada.request(Method::POST, "/traces/query").header("content-type", "application/json").body(body);
        Answer::read(value.to_owned(), request).await
    };
    let equal = async |value: &str| raw("eq", value).await.expect(200).body["trace_ids"].clone();
    assert_eq!(equal("9007199254740993").await, json!(["3".repeat(32)]));
    for near in ["9007199254740992", "9007199254740994"] {
        assert_eq!(equal(near).await, json!([]), "{near}");
    }
    let answer = raw("lt", "1e999").await.problem(422, "value_type");
    assert_eq!(answer.first_error()["pointer"], "/filter/conditions/0/value");
    for wrong in ["NaN", "Infinity", "01", "null,", "{}", "[1]"] {
        raw("lt", wrong).await.problem(400, "invalid_request");
    }
    assert_eq!(equal("9007199254740993.0").await, json!(["3".repeat(32)]));
    for near in ["9007199254740993.0000000000000000001", "9007199254740992.9999999999999999999"] {
        assert_eq!(equal(near).await, json!([]), "{near}");
    }
    for fine in ["18446744073709551616", "-9223372036854775808", "1e3", "1000.5", "1e300"] {
        raw("lt", fine).await.expect(200);
    }
}

#[tokio::test]
async fn windows_limits_and_cursors_are_checked() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    let window = json!({"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"});
    ada.post("/traces/query", window).await.problem(422, "invalid_window");
    let wrong = ada.post("/traces/query", json!({"from": "yesterday"})).await.problem(400, "invalid_request");
    assert_eq!(wrong.first_error()["pointer"], "/from");
    for limit in [json!(0), json!(-1), json!("5"), json!(1.5)] {
        let answer = ada.post("/traces/query", json!({"limit": limit})).await.problem(400, "invalid_request");
        assert_eq!(answer.first_error()["pointer"], "/limit");
    }
    ada.post("/traces/query", json!({"limit": 1_000_000})).await.expect(200);
    for limit in ["9223372036854775808", "99999999999999999999", &"9".repeat(400)] {
        let body = format!(r#"{{"limit": {limit}, "view": "ids"}}"#);
        let request =
            ada.request(Method::POST, "/traces/query").header("content-type", "application/json").body(body);
        Answer::read(limit.to_owned(), request).await.expect(200);
    }
    ada.post("/traces/query", json!({"cursor": "nonsense"})).await.problem(400, "invalid_cursor");
    ada.post("/traces/query", json!({"cursor": ""})).await.problem(400, "invalid_cursor");
}

#[tokio::test]
async fn a_cursor_belongs_to_filter_and_caller() {
    let store = Store::start();
    let (service, admin, _ada) = two_teams(&store).await;
    let policies = json!({"policies": [{"title": "All", "expression": "true"}]});
    admin.put("/roles/all", policies).await.expect(201);
    let (eve, bob) =
        (service.user(&admin, "eve", &["all"]).await, service.user(&admin, "bob", &["all"]).await);
    let first = eve.post("/traces/query", json!({"limit": 1, "view": "ids"})).await.expect(200).body;
    let cursor = first["next_cursor"].as_str().unwrap();
    let next = json!({"limit": 1, "view": "ids", "cursor": cursor});
    let second = eve.post("/traces/query", next.clone()).await.expect(200).body;
    assert_ne!(first["trace_ids"], second["trace_ids"]);
    assert!(second.get("next_cursor").is_none(), "{second}");
    bob.post("/traces/query", next).await.problem(400, "invalid_cursor");
    let other =
        json!({"cursor": cursor, "filter": {"conditions": [{"name": "ServiceName", "op": "exists"}]}});
    eve.post("/traces/query", other).await.problem(400, "cursor_filter_mismatch");
    let (kept, last) = cursor.split_at(cursor.len() - 1);
    let tampered = format!("{kept}{}", if last == "A" { "Q" } else { "A" });
    eve.post("/traces/query", json!({"cursor": tampered})).await.problem(400, "invalid_cursor");
}

#[tokio::test]
async fn without_a_trace_source_there_is_nothing_to_query() {
    let service = Service::start();
    let admin = service.admin().await;
    admin.post("/traces/query", json!({})).await.problem(409, "not_bound");
    admin.get(&format!("/traces/{BLUE}")).await.problem(409, "not_bound");
}

#[tokio::test]
async fn a_store_that_fails_is_an_error_and_not_an_empty_page() {
    let mut store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    // Without the bound table, ClickHouse answers with an error.
    store.run("RENAME TABLE otel.otel_traces TO otel.gone").await;
    let answer = ada.post("/traces/query", json!({})).await.problem(502, "clickhouse_error");
    assert!(!answer.body.to_string().contains("otel"), "{}", answer.body);
    ada.get(&format!("/traces/{BLUE}")).await.problem(502, "clickhouse_error");
    store.kill();
    ada.post("/traces/query", json!({})).await.problem(503, "unavailable");
    ada.get(&format!("/traces/{BLUE}")).await.problem(503, "unavailable");
}

#[tokio::test]
async fn slow_queries_are_reported() {
    let store = Store::start();
    store.insert_two_traces().await;
    let (service, admin) = bound_service(&store, &[("TRACEWARDEN_QUERY_TIMEOUT", "1s")]).await;
    let policies = json!({"policies": [{"title": "All", "expression": "true"}]});
    admin.put("/roles/all", policies).await.expect(201);
    let ada = service.user(&admin, "ada", &["all"]).await;
    ada.post("/traces/query", json!({})).await.expect(200);
    // The same table, with more seconds of sleep per block than ClickHouse allows: rejected because of its estimated time.
    // A query that actually runs too long is tested in `slow_searches`.
    store.run("RENAME TABLE otel.otel_traces TO otel.fast").await;
    store.run("CREATE VIEW otel.otel_traces AS SELECT * FROM otel.fast WHERE sleepEachRow(1) = 0").await;
    let answer = ada.post("/traces/query", json!({})).await.problem(504, "query_timeout");
    assert!(!answer.body.to_string().contains("sleep"), "{}", answer.body);
}

#[tokio::test]
async fn a_stored_policy_that_no_longer_compiles_gives_no_spans_at_all() {
    let store = Store::start();
    let (service, admin, ada) = two_teams(&store).await;
    // The API rejects such a policy; a restored backup or a later version of the policy language may contain one.
    let url = format!("sqlite:{}", service.directory.path().join("tracewarden.db").display());
    let now = tracewarden_model::Timestamp::from_nanos(1_800_000_000_000_000_000);
    let db = tracewarden_service::AppDb::open(&url, now).await.unwrap();
    let policy = |title: &str, expression: &str| tracewarden_service::Policy {
        title: title.to_owned(),
        expression: expression.to_owned(),
        description: None,
    };
    let mut tx = db.begin_write().await.unwrap();
    tx.put_role("blue", &[policy("All", "true"), policy("Broken", "SpanName ==")], now).await.unwrap();
    tx.commit().await.unwrap();
    ada.post("/traces/query", json!({})).await.problem(500, "policy_broken");
    let answer = ada.get(&format!("/traces/{BLUE}")).await.problem(500, "policy_broken");
    assert!(!answer.body.to_string().contains("SpanName"), "{}", answer.body);
    assert!(service.log().contains("Broken"), "{}", service.log());
    // Once it is corrected, the next request succeeds.
    admin.put("/roles/blue", json!({"policies": [{"title": "All", "expression": "true"}]})).await.expect(200);
    assert_eq!(
        ada.post("/traces/query", json!({})).await.expect(200).body["spans"].as_array().unwrap().len(),
        6
    );
}

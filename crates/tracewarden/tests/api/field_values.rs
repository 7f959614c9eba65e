//! `/filter/values`: a field's values in traces that the caller may read, and in no others.

use serde_json::{Value, json};

use crate::support::store::{BLUE, Store, two_teams};
use crate::support::{Client, Service};

const TEAM: &str = "SpanAttributes%5B%22team%22%5D";
const SIZE: &str = "SpanAttributes%5B%22size%22%5D";
const SECRET: &str = "SpanAttributes%5B%22secret.label%22%5D";

/// Inserts the two teams' traces, and one that the team `blue` may read as a whole because of its first span.
async fn three_traces(store: &Store) -> (Service, Client, Client) {
    let all = two_teams(store).await;
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 30, repeat('3', 32), leftPad(toString(number), 16, '0'), 'GET /', if(number = 0, 'shop', 'billing'), \
             map('team', if(number = 0, 'blue', 'red')) FROM numbers(3)",
        )
        .await;
    // Traces that ada may not read. Counts or samples that included them would reveal them.
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 10, lower(hex(MD5(toString(number)))), '0000000000000001', 'GET /', 'hidden', \
             map('team', 'black') FROM numbers(600)",
        )
        .await;
    all
}

fn listed_values(body: &Value) -> Vec<(String, u64, u64)> {
    let of = |count: &Value| {
        let number = |name: &str| count[name].as_u64().unwrap();
        (count["value"].as_str().unwrap().to_owned(), number("traces"), number("spans"))
    };
    body["values"].as_array().unwrap().iter().map(of).collect()
}

async fn values(client: &Client, query: &str) -> Value {
    client.get(&format!("/filter/values?{query}")).await.expect(200).body
}

fn count(value: &str, traces: u64, spans: u64) -> (String, u64, u64) {
    (value.to_owned(), traces, spans)
}

#[tokio::test]
async fn values_are_those_of_traces_that_the_caller_may_read() {
    let store = Store::start();
    let (service, admin, ada) = three_traces(&store).await;
    let team = values(&ada, &format!("ref={TEAM}")).await;
    // Values come from whole traces: `red` is the team of spans that match no policy.
    assert_eq!(listed_values(&team), [count("blue", 2, 4), count("red", 1, 2)], "{team}");
    assert_eq!(team["ref"], "SpanAttributes[\"team\"]");
    assert_eq!(
        (&team["complete"], &team["sampled_traces"], &team["more"], &team["unlisted"]),
        (&json!(true), &json!(2), &json!(false), &json!(0))
    );
    let services = values(&ada, "ref=ServiceName").await;
    assert_eq!(listed_values(&services), [count("shop", 2, 4), count("billing", 1, 2)]);

    // A user with access to other traces sees other values.
    let black =
        json!({"policies": [{"title": "Black", "expression": "SpanAttributes[\"team\"] == \"black\""}]});
    admin.put("/roles/black", black).await.expect(201);
    let eve = service.user(&admin, "eve", &["black"]).await;
    let team = values(&eve, &format!("ref={TEAM}")).await;
    // How many of the 600 traces are sampled depends on how fast they are found.
    let sampled = |answer: &Value| {
        answer["sampled_traces"].as_u64().filter(|traces| [50, 500].contains(traces)).unwrap()
    };
    let seen = sampled(&team);
    assert_eq!(listed_values(&team), [count("black", seen, seen)]);
    assert_eq!(team["complete"], false);
    let both = service.user(&admin, "bob", &["black", "blue"]).await;
    let early = values(&both, &format!("ref={TEAM}&prefix=b&limit=1")).await;
    let seen = sampled(&early);
    assert_eq!((listed_values(&early), &early["more"]), (vec![count("black", seen, seen)], &json!(false)));
    let blue = values(&both, &format!("ref={TEAM}&prefix=blu")).await;
    assert_eq!((listed_values(&blue), &blue["complete"]), (vec![count("blue", 2, 4)], &json!(true)));

    let contained = values(&both, &format!("ref={TEAM}&contains=LU")).await;
    assert_eq!((listed_values(&contained), &contained["unlisted"]), (vec![count("blue", 2, 4)], &json!(0)));
    assert_eq!(listed_values(&values(&eve, &format!("ref={TEAM}&contains=lu")).await), []);
    assert_eq!(listed_values(&values(&ada, "ref=ServiceName&contains=").await).len(), 2);

    // Being an administrator gives no access to values; during a preview, the previewed user's values are shown.
    let nothing = values(&admin, "ref=ServiceName").await;
    assert_eq!((listed_values(&nothing), &nothing["complete"]), (vec![], &json!(true)));
    admin.put("/me/preview", json!({"roles": ["blue"]})).await.expect(200);
    assert_eq!(listed_values(&values(&admin, "ref=ServiceName").await).len(), 2);
    admin.delete("/me/preview").await.expect(204);

    // The policy of an API key reduces the access further.
    let new = json!({"name": "narrow", "policy": "ServiceName == \"billing\""});
    let created = ada.post("/me/api-keys", new).await.expect(201).body;
    let scoped = ada.with_key(created["token"].as_str().unwrap());
    assert_eq!(
        listed_values(&values(&scoped, "ref=ServiceName").await),
        [count("billing", 1, 2), count("shop", 1, 1)]
    );
}

#[tokio::test]
async fn values_are_recorded_like_a_read() {
    let store = Store::start();
    let (_service, admin, ada) = three_traces(&store).await;
    let record = async || {
        let records = admin.get("/audit?limit=1").await.expect(200).body;
        records["records"][0].clone()
    };
    let found =
        values(&ada, &format!("ref={TEAM}&prefix=b&contains=B&from=2020-01-01T00:00:00Z&limit=7")).await;
    assert_eq!(found["from"], "2020-01-01T00:00:00Z");
    let read = record().await;
    assert_eq!(
        (&read["action"], &read["outcome"], &read["actor"]["username"]),
        (&json!("traces.values"), &json!("success"), &json!("ada"))
    );
    let detail = &read["detail"];
    assert_eq!(detail["contains"], "B");
    assert_eq!((&detail["field"], &detail["prefix"]), (&json!("SpanAttributes[\"team\"]"), &json!("b")));
    assert_eq!((&detail["traces"], &detail["limit"], &detail["to"]), (&json!(2), &json!(7), &found["to"]));
    assert!(detail["roles"]["blue"].is_number(), "{detail}");
    // The record contains the request and the number of results, but no values.
    let services = values(&ada, "ref=ServiceName").await;
    assert!(listed_values(&services).contains(&count("billing", 1, 2)), "{services}");
    let read = record().await;
    assert_eq!(read["detail"]["field"], "ServiceName", "{read}");
    assert!(!read.to_string().contains("billing"), "{read}");

    ada.get("/filter/values?ref=Nothing").await.problem(422, "unknown_field");
    let refused = record().await;
    assert_eq!((&refused["action"], &refused["outcome"]), (&json!("traces.values"), &json!("failed")));
    assert_eq!(refused["detail"]["code"], "unknown_field");
    let unread = ada.get("/filter/values").await.problem(400, "invalid_request");
    let refused = record().await;
    assert_eq!(refused["request_id"], unread.body["request_id"], "{refused}");
    assert_eq!((&refused["action"], &refused["outcome"]), (&json!("traces.values"), &json!("failed")));
    assert_eq!(refused["detail"]["code"], "invalid_request");
}

#[tokio::test]
async fn values_that_cannot_be_listed_give_a_reason() {
    let store = Store::start();
    let (service, admin, ada) = two_teams(&store).await;
    for (client, query, status, code, pointer) in [
        (&ada, "ref=Servicename", 422, "unknown_field", "/ref"),
        (&ada, "ref=", 422, "unknown_field", "/ref"),
        (&ada, "ref=SpanName", 422, "unknown_field", "/ref"),
        (&ada, "ref=Duration", 422, "value_type", "/ref"),
        (&ada, &format!("ref={SIZE}"), 422, "value_type", "/ref"),
        (&ada, &format!("ref={SECRET}"), 422, "unknown_field", "/ref"),
        (&admin, &format!("ref={SECRET}"), 422, "not_filterable", "/ref"),
        (&ada, "ref=ServiceName&limit=0", 400, "invalid_request", "/limit"),
        (&ada, "ref=ServiceName&limit=many", 400, "invalid_request", "/limit"),
        (&ada, "ref=ServiceName&from=yesterday", 400, "invalid_request", "/from"),
        (&ada, "ref=ServiceName&form=2026-01-01T00:00:00Z", 400, "invalid_request", "/form"),
        (
            &ada,
            "ref=ServiceName&from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
            422,
            "invalid_window",
            "/from",
        ),
    ] {
        let answer = client.get(&format!("/filter/values?{query}")).await.problem(status, code);
        assert_eq!(answer.first_error()["pointer"], pointer, "{query}: {}", answer.body);
    }
    let near = ada.get("/filter/values?ref=Servicename").await.body;
    assert!(near["detail"].as_str().unwrap().contains("`ServiceName`"), "{near}");
    let hidden = ada.get("/filter/values?ref=SpanAttributes%5B%22secret.labels%22%5D").await.body;
    assert!(!hidden.to_string().contains("secret.label\\"), "{hidden}");
    // A limit above the maximum counts as the maximum.
    let all = values(&ada, "ref=ServiceName&limit=99999999999999999999").await;
    assert_eq!(listed_values(&all), [count("shop", 1, 3)]);
    let unbound = Service::start();
    unbound.admin().await.get("/filter/values?ref=ServiceName").await.problem(409, "not_bound");
    service.anonymous().get("/filter/values?ref=ServiceName").await.problem(401, "unauthenticated");
    ada.get(&format!("/traces/{BLUE}")).await.expect(200);
}

//! `/policies/collateral-access`.

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::store::{Store, bind, binding, bound_service};

const TEAM: &str = "SpanAttributes[\"team\"]";

fn policies(expression: &str) -> Value {
    json!([{"title": "t", "expression": expression}])
}

/// Inserts ten traces of a minute ago, each with a span of `web` and one of a service of its own; in the first four traces,
/// the `web` span is of the team `blue`.
async fn insert(store: &Store) {
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 60, lower(hex(MD5(toString(number % 10)))), leftPad(toString(number), 16, '0'), '', 'GET', \
             if(number < 10, 'web', concat('service-', toString(number % 10))), \
             map('team', if(number < 4, 'blue', 'red')) FROM numbers(20)",
        )
        .await;
}

async fn display(admin: &Client) {
    let mut shown = binding();
    shown["display"] = json!({"service": "ServiceName"});
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    admin.with("if-match", &version).put("/schema/binding", shown).await.expect(200);
}

#[tokio::test]
async fn counts_values_visible_only_through_collateral_access() {
    let store = Store::start();
    insert(&store).await;
    let service = store.service();
    let admin = service.admin().await;
    bind(&admin).await;
    let blue = policies(&format!("{TEAM} == \"blue\""));
    let ask = async |body: Value| admin.post("/policies/collateral-access", body).await;
    ask(json!({"role": "blue", "policies": blue})).await.problem(422, "invalid_value");
    display(&admin).await;
    ask(json!({"role": "blue"})).await.problem(404, "not_found");
    ask(json!({"role": "blue", "policies": policies("nothing")})).await.problem(422, "policy_invalid");
    ask(json!({"role": "blue", "policies": blue, "by": "SpanAttributes[\"size\"]"}))
        .await
        .problem(422, "value_type");

    // The administrator may read none of the traces: counts without values.
    let found = ask(json!({"role": "blue", "policies": blue})).await.expect(200).body;
    let numbers = |found: &Value| {
        ["traces", "distinct", "only_shared", "hidden_values"].map(|name| found[name].as_u64().unwrap())
    };
    assert_eq!((numbers(&found), &found["values"]), ([4, 5, 4, 5], &json!([])));
    assert_eq!(
        (&found["by"], &found["sampled"], &found["counted_traces"]),
        (&json!("ServiceName"), &json!(false), &json!("all"))
    );
    // Values of the two traces that the administrator may read are included.
    let first = policies("ServiceName in ['service-0', 'service-1']");
    admin.put("/roles/few", json!({ "policies": first })).await.expect(201);
    admin.patch("/users/admin", json!({"roles": ["admin", "few"]})).await.expect(200);
    admin.put("/roles/blue", json!({"policies": blue})).await.expect(201);
    let found = ask(json!({"role": "blue"})).await.expect(200).body;
    assert_eq!(numbers(&found), [4, 5, 4, 2]);
    let value = |value: &str, traces: u64, matching: u64| json!({"value": value, "traces": traces, "matching_traces": matching, "only_shared": matching == 0});
    assert_eq!(
        found["values"],
        json!([value("web", 4, 4), value("service-0", 1, 0), value("service-1", 1, 0)])
    );
    // Grouped by another field.
    let found = ask(json!({"role": "blue", "by": TEAM})).await.expect(200).body;
    assert_eq!(found["values"], json!([value("red", 4, 0), value("blue", 4, 4)]));

    let records =
        admin.get("/audit?action=policy.collateral_access").await.expect(200).body["records"].clone();
    let success: Vec<&Value> =
        records.as_array().unwrap().iter().filter(|record| record["outcome"] == "success").collect();
    assert_eq!(success.len(), 3, "{records}");
    assert_eq!(success[0]["detail"]["by"], TEAM);
    assert_eq!(
        (&success[0]["target"], &success[0]["detail"]["policies"][0]["expression"]),
        (&json!("blue"), &blue[0]["expression"])
    );
}

#[tokio::test]
async fn collateral_access_is_counted_per_member() {
    let store = Store::start();
    insert(&store).await;
    let service = store.service_with(&[("TRACEWARDEN_COLLATERAL_ACCESS_WARNING", "3")]);
    let admin = service.admin().await;
    bind(&admin).await;
    display(&admin).await;
    let own = policies(&format!("{TEAM} == user.attributes.team"));
    admin.put("/roles/own", json!({ "policies": own })).await.expect(201);
    let user = async |name: &str, attributes: Value| {
        let new = json!({"username": name, "roles": ["own"], "attributes": attributes});
        admin.post("/users", new).await.expect(201);
    };
    let members = |found: &Value| {
        ["members", "members_counted", "members_listed", "members_with_collateral_access"]
            .map(|name| found[name].as_u64().unwrap())
    };
    let numbers =
        |found: &Value| ["traces", "distinct", "only_shared"].map(|name| found[name].as_u64().unwrap());
    let count =
        async || admin.post("/policies/collateral-access", json!({"role": "own"})).await.expect(200).body;

    let found = count().await;
    assert_eq!((members(&found), numbers(&found)), ([0, 0, 0, 0], [0, 0, 0]), "{found}");
    for name in ["bob", "cid"] {
        user(name, json!({"team": "red"})).await;
    }
    // Every service has spans of the team, so there is no collateral access.
    let found = count().await;
    assert_eq!((members(&found), numbers(&found)), ([2, 2, 2, 0], [10, 11, 0]));
    assert_eq!(found["notes"], json!([]), "all are asked the same");

    // In the first four traces, the `web` span is of the team `blue`: bob's policies match the other spans, and ada's do
    // not.
    user("ada", json!({"team": "blue"})).await;
    user("dan", json!({})).await;
    let found = count().await;
    assert_eq!((members(&found), numbers(&found)), ([4, 4, 1, 1], [4, 5, 4]), "{found}");
    let note = found["notes"][0].as_str().unwrap();
    assert!(note.contains("counted for 4 of 4 members") && note.contains("the 1 with the most"), "{note}");
    assert_eq!(found["notes"].as_array().unwrap().len(), 1, "{found}");
    // The preview and the warning agree.
    let preview = json!({"role": "own", "policies": own, "seconds": 60});
    let preview = admin.post("/policies/preview", preview).await.expect(200).body;
    assert_eq!(numbers(&preview["collateral_access"]), [4, 5, 4]);
    assert!(preview["notes"].to_string().contains(note), "{preview}");
    let stored = admin.put("/roles/own", json!({ "policies": own })).await.expect(200).body;
    let warnings = stored["policies"][0]["warnings"].as_array().unwrap();
    let far: Vec<&Value> = warnings.iter().filter(|warning| warning["code"] == "broad_policy").collect();
    assert_eq!(far.len(), 1, "{stored}");
    assert_eq!(
        far[0]["message"],
        "its matching spans are of 1 service, but the traces that it grants for one of the 4 users with this \
         role contain spans of 5 services: 4 are visible only via whole traces"
    );

    // More distinct policies than fit one statement.
    for number in 0..40 {
        user(&format!("u{number}"), json!({"team": format!("team {number}")})).await;
    }
    let found = count().await;
    assert_eq!((members(&found), numbers(&found)), ([44, 44, 1, 1], [4, 5, 4]), "{found}");
}

#[tokio::test]
async fn collateral_access_needs_an_administrator_and_respects_discovery_samples() {
    let store = Store::start();
    insert(&store).await;
    let (service, admin) = bound_service(&store, &[("TRACEWARDEN_DISCOVERY_SAMPLES", "false")]).await;
    display(&admin).await;
    let body = json!({"role": "all", "policies": policies("true")});
    let ada = service.user(&admin, "ada", &[]).await;
    ada.post("/policies/collateral-access", body.clone()).await.problem(403, "forbidden");
    let found = admin.post("/policies/collateral-access", body.clone()).await.expect(200).body;
    assert_eq!(
        (&found["counted_traces"], &found["traces"], &found["distinct"]),
        (&json!("readable"), &json!(0), &json!(0))
    );
    admin.put("/roles/few", json!({"policies": policies("ServiceName == 'service-7'")})).await.expect(201);
    admin.patch("/users/admin", json!({"roles": ["admin", "few"]})).await.expect(200);
    let found = admin.post("/policies/collateral-access", body).await.expect(200).body;
    assert_eq!(
        (&found["traces"], &found["distinct"], &found["hidden_values"]),
        (&json!(1), &json!(2), &json!(0))
    );
}

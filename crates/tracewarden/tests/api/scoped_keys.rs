//! `/me/api-keys` with `policy` and `tools`: API keys that grant less access than their owner's roles.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::store::{BLUE, RED, Store, two_teams};
use crate::support::{Client, Service};

/// A trace that the team `blue` may read because of its first span; its second span belongs to another service.
const MIXED: &str = "33333333333333333333333333333333";

const BILLING: &str = "ServiceName == \"billing\"";

/// Creates an API key and returns a client that uses it.
async fn key(owner: &Client, constraint: Value) -> Client {
    let mut new = json!({"name": "narrowed"});
    new.as_object_mut().unwrap().extend(constraint.as_object().unwrap().clone());
    let created = owner.post("/me/api-keys", new).await.expect(201).body;
    owner.with_key(created["token"].as_str().unwrap())
}

async fn key_with_policy(owner: &Client, policy: &str) -> Client {
    key(owner, json!({ "policy": policy })).await
}

/// Returns the sorted ids of all traces that the caller may see, and checks that fetching each by id agrees.
async fn visible(client: &Client) -> Vec<String> {
    let page = client.post("/traces/query", json!({"view": "ids"})).await.expect(200).body;
    let mut ids: Vec<String> = serde_json::from_value(page["trace_ids"].clone()).unwrap();
    ids.sort();
    for id in [BLUE, RED, MIXED] {
        let fetched = client.get(&format!("/traces/{id}")).await;
        if ids.iter().any(|seen| seen == id) {
            fetched.expect(200);
        } else {
            fetched.problem(404, "trace_not_found");
        }
    }
    ids
}

/// Inserts the two teams' traces and the mixed one; `ada` may read the traces of the team `blue`.
async fn three_traces(store: &Store) -> (Service, Client, Client) {
    let all = two_teams(store).await;
    store
        .run(&format!(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, ServiceName, Duration, StatusCode, SpanAttributes) \
             SELECT now64(9) - 30, '{MIXED}', leftPad(toString(number), 16, '0'), '', 'GET /', if(number = 0, 'shop', 'billing'), 1000, 'Ok', \
             map('team', if(number = 0, 'blue', 'red')) FROM numbers(2)"
        ))
        .await;
    all
}

#[tokio::test]
async fn a_trace_must_also_satisfy_the_keys_policy_with_any_span() {
    let store = Store::start();
    let (_service, admin, ada) = three_traces(&store).await;
    assert_eq!(visible(&ada).await, [BLUE, MIXED]);
    assert_eq!(visible(&key(&ada, json!({})).await).await, [BLUE, MIXED]);

    let billing = key_with_policy(&ada, BILLING).await;
    assert_eq!(visible(&billing).await, [MIXED]);
    let page = billing.post("/traces/query", json!({})).await.expect(200).body;
    assert_eq!(page["spans"].as_array().unwrap().len(), 2, "a trace is whole: {page}");
    let fetched = billing.get(&format!("/traces/{MIXED}")).await.expect(200).body;
    assert_eq!(fetched["spans"].as_array().unwrap().len(), 2);
    let conditions = |service: &str| json!({"view": "ids", "filter": {"conditions": [{"name": "ServiceName", "op": "eq", "value": service}]}});
    for (service, found) in [("shop", json!([MIXED])), ("billing", json!([MIXED])), ("x", json!([]))] {
        let page = billing.post("/traces/query", conditions(service)).await.expect(200).body;
        assert_eq!(page["trace_ids"], found, "{service}");
    }

    // The policy only restricts: the owner's roles do not grant access to the red trace, nor the administrator's to any
    // trace.
    assert_eq!(visible(&key_with_policy(&ada, "SpanAttributes[\"team\"] == \"red\"").await).await, [MIXED]);
    assert_eq!(visible(&key_with_policy(&ada, "true").await).await, [BLUE, MIXED]);
    assert_eq!(visible(&key_with_policy(&ada, "false").await).await, [""; 0]);
    assert_eq!(visible(&key_with_policy(&admin, "true").await).await, [""; 0]);
}

#[tokio::test]
async fn the_key_policy_uses_the_owners_current_attributes() {
    let store = Store::start();
    let (_service, admin, ada) = three_traces(&store).await;
    let own = key_with_policy(&ada, "ServiceName in user.attributes.services").await;
    assert_eq!(visible(&own).await, [""; 0]);
    admin.patch("/users/ada", json!({"attributes": {"services": ["billing"]}})).await.expect(200);
    assert_eq!(visible(&own).await, [MIXED]);
    admin.patch("/users/ada", json!({"attributes": {"services": ["billing", "shop"]}})).await.expect(200);
    assert_eq!(visible(&own).await, [BLUE, MIXED]);
    admin.patch("/users/ada", json!({"roles": []})).await.expect(200);
    assert_eq!(visible(&own).await, [""; 0]);
}

#[tokio::test]
async fn a_policy_that_no_longer_compiles_grants_nothing() {
    let store = Store::start();
    let (_service, admin, ada) = three_traces(&store).await;
    let (billing, whole) = (key_with_policy(&ada, BILLING).await, key(&ada, json!({})).await);
    let unmarked =
        json!({"fields": [{"map": "SpanAttributes", "name": "team", "filterable": true, "policy": true}]});
    let before = admin.get("/schema").await.expect(200);
    let version = before.headers["etag"].to_str().unwrap();
    let after = admin.with("if-match", version).put("/schema/fields", unmarked).await.expect(200);
    for answer in [
        billing.post("/traces/query", json!({})).await,
        billing.post("/traces/query", json!({"view": "ids"})).await,
        billing.get(&format!("/traces/{MIXED}")).await,
        billing.get("/traces/nothing").await,
    ] {
        answer.problem(500, "policy_broken");
    }
    assert_eq!(visible(&whole).await, [BLUE, MIXED]);
    billing.get("/me").await.expect(200);
    let fields: Vec<Value> = before.body["fields"].as_array().unwrap().clone();
    let again = fields.iter().map(|field| {
        json!({"map": field["map"], "name": field["name"], "type": field["type"],
            "filterable": field["filterable"], "policy": field["policy"]})
    });
    let again = json!({"fields": again.collect::<Vec<_>>()});
    let version = after.headers["etag"].to_str().unwrap();
    admin.with("if-match", version).put("/schema/fields", again).await.expect(200);
    assert_eq!(visible(&billing).await, [MIXED]);
}

#[tokio::test]
async fn hidden_fields_cannot_be_probed_with_a_policy() {
    let store = Store::start();
    let (_service, admin, ada) = three_traces(&store).await;
    let refused = async |owner: &Client, policy: &str| {
        let new = json!({"name": "x", "policy": policy});
        let answer = owner.post("/me/api-keys", new).await.problem(422, "policy_invalid");
        answer.first_error().clone()
    };
    let error = refused(&ada, "true &&\n  ServiceNam == \"x\"").await;
    assert_eq!(
        error,
        json!({"pointer": "/policy", "code": "policy_invalid", "line": 2, "column": 3, "length": 10,
            "detail": "`ServiceNam` is not a field that policies can name",
            "hint": "did you mean `ServiceName`?"})
    );
    assert_eq!(refused(&ada, "Duration > 5").await["line"], 1);
    refused(&ada, "").await;
    refused(&ada, "ServiceName").await;

    // `secret.label` is usable in policies but not searchable, so for ada it does not exist.
    let (hidden, absent) =
        ("SpanAttributes[\"secret.label\"] == \"x\"", "SpanAttributes[\"secret.labol\"] == \"x\"");
    let detail = refused(&ada, hidden).await.to_string();
    assert_eq!(detail.replace("label", "labol"), refused(&ada, absent).await.to_string());
    assert!(refused(&admin, absent).await["hint"].as_str().unwrap().contains("secret.label"));
    let eve_policy = key_with_policy(&admin, hidden).await;
    assert_eq!(visible(&eve_policy).await, [""; 0]);

    // It does not exist either for a user who was an administrator when the key was created.
    admin.patch("/users/ada", json!({"roles": ["admin", "blue"]})).await.expect(200);
    let of_ada = key_with_policy(&ada, &format!("{hidden} || true")).await;
    assert_eq!(visible(&of_ada).await, [BLUE, MIXED]);
    admin.patch("/users/ada", json!({"roles": ["blue"]})).await.expect(200);
    of_ada.post("/traces/query", json!({})).await.problem(500, "policy_broken");
}

#[tokio::test]
async fn a_scoped_key_never_administers() {
    let store = Store::start();
    let (_service, admin, ada) = three_traces(&store).await;
    let tools = json!({"tools": ["svc_filter_schema", "svc_query_traces", "svc_get_trace"]});
    for constraint in [json!({"policy": "true"}), tools] {
        let scoped = key(&admin, constraint).await;
        let me = scoped.get("/me").await.expect(200).body;
        assert_eq!(
            (&me["is_admin"], &me["roles"], &me["auth"]),
            (&json!(false), &json!(["admin"]), &json!("api_key"))
        );
        for (method, path, body) in [
            (Method::GET, "/users", None),
            (Method::GET, "/audit", None),
            (Method::POST, "/users", Some(json!({"username": "bob"}))),
            (Method::DELETE, "/users/ada", None),
            (Method::PUT, "/roles/blue", Some(json!({"policies": []}))),
        ] {
            let answer = scoped.send(method.clone(), path, body).await.problem(403, "forbidden");
            assert!(answer.body["detail"].as_str().unwrap().contains("scoped API key"), "{}", answer.body);
            let record = admin.get("/audit?limit=1").await.expect(200).body["records"][0].clone();
            assert_eq!((&record["action"], &record["outcome"]), (&json!("administration"), &json!("denied")));
            assert_eq!(record["target"], path, "{record}");
        }
        // Information that only administrators get.
        let schema = scoped.get("/filter/schema").await.expect(200).body;
        assert!(schema["fields"][0].get("policy").is_none(), "{schema}");
        assert!(!schema.to_string().contains("secret.label"), "{schema}");
        let hidden = json!({"filter": {"conditions": [{"map": "SpanAttributes", "name": "secret.label", "op": "exists"}]}});
        scoped.post("/traces/query", hidden).await.problem(422, "unknown_field");
    }
    ada.get("/me").await.expect(200);
    // An API key of the same administrator without constraints may.
    key(&admin, json!({})).await.get("/users").await.expect(200);
}

#[tokio::test]
async fn tools_allow_their_routes_and_no_others() {
    let store = Store::start();
    let (service, admin, ada) = three_traces(&store).await;
    let document = service.anonymous().get("/openapi.json").await.expect(200).body;
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if operation["x-access"] == "user" && operation["security"].as_array().unwrap().len() == 2 {
                let method: Method = method.to_uppercase().parse().unwrap();
                routes.push((method, path.clone(), operation["x-tool"].as_str().map(str::to_owned)));
            }
        }
    }
    let named = |path: &str| {
        let route = routes.iter().find(|(_, known, _)| known == path);
        route.unwrap_or_else(|| panic!("no {path}: {routes:?}")).2.clone().unwrap_or_default()
    };
    assert_eq!(named("/traces/query"), "svc_query_traces");
    assert_eq!(named("/traces/{id}"), "svc_get_trace");
    assert_eq!(named("/filter/schema"), "svc_filter_schema");
    assert_eq!(named("/filter/values"), "svc_field_values");
    assert_eq!(named("/me/api-keys/{id}"), "");

    let tools = ["svc_filter_schema", "svc_field_values", "svc_query_traces", "svc_get_trace"];
    for tool in tools {
        let only = key(&ada, json!({"tools": [tool]})).await;
        for (method, path, of) in &routes {
            let mut path = path.replace("{id}", MIXED);
            if path == "/filter/values" {
                path.push_str("?ref=ServiceName");
            }
            let body = (*method == Method::POST).then(|| json!({}));
            let answer = only.send(method.clone(), &path, body).await;
            if of.as_deref() == Some(tool) {
                answer.expect(200);
            } else {
                let answer = answer.problem(403, "forbidden");
                assert!(answer.body["detail"].as_str().unwrap().contains("tools"), "{}", answer.body);
                let record = admin.get("/audit?limit=1").await.expect(200).body["records"][0].clone();
                assert_eq!(
                    (&record["action"], &record["outcome"]),
                    (&json!("api_key.use"), &json!("denied"))
                );
                let target = path.split('?').next();
                assert_eq!(
                    (record["target"].as_str(), &record["actor"]["username"]),
                    (target, &json!("ada"))
                );
            }
        }
        only.get("/me").await.expect(200);
        only.get("/users").await.problem(403, "forbidden");
    }
    // Both constraints together.
    let both = key(&ada, json!({"tools": ["svc_query_traces", "svc_get_trace"], "policy": BILLING})).await;
    assert_eq!(visible(&both).await, [MIXED]);
    both.get("/filter/schema").await.problem(403, "forbidden");
    both.get("/me/sessions").await.problem(403, "forbidden");
}

#[tokio::test]
async fn a_policy_constraint_allows_all_tools_but_no_sessions_and_keys() {
    let store = Store::start();
    let (_service, admin, ada) = three_traces(&store).await;
    let whole = ada.post("/me/api-keys", json!({"name": "whole"})).await.expect(201).body;
    let session = ada.get("/me/sessions").await.expect(200).body["sessions"][0].clone();
    let policy = key_with_policy(&ada, BILLING).await;
    policy.get("/me").await.expect(200);
    policy.get("/filter/schema").await.expect(200);
    assert_eq!(visible(&policy).await, [MIXED]);
    let of = |list: &str, of: &Value| format!("/me/{list}/{}", of["id"].as_str().unwrap());
    for (method, path) in [
        (Method::GET, "/me/sessions".to_owned()),
        (Method::DELETE, of("sessions", &session)),
        (Method::GET, "/me/api-keys".to_owned()),
        (Method::DELETE, of("api-keys", &whole)),
        (Method::POST, "/me/api-keys".to_owned()),
        (Method::POST, "/me/password".to_owned()),
        (Method::POST, "/logout".to_owned()),
    ] {
        let answer = policy.send(method.clone(), &path, None).await.problem(403, "forbidden");
        assert!(answer.body["detail"].as_str().unwrap().contains("scoped API key"), "{}", answer.body);
        let record = admin.get("/audit?limit=1").await.expect(200).body["records"][0].clone();
        assert_eq!((&record["action"], &record["outcome"]), (&json!("api_key.use"), &json!("denied")));
        assert_eq!(
            (&record["target"], &record["detail"]["method"], &record["actor"]["username"]),
            (&json!(path), &json!(method.as_str()), &json!("ada"))
        );
    }
    ada.get("/me").await.expect(200);
    ada.with_key(whole["token"].as_str().unwrap()).get("/me/sessions").await.expect(200);
}

#[tokio::test]
async fn key_constraints_are_validated() {
    let service = Service::start();
    let admin = service.admin().await;
    let many: Vec<String> = (0..10_000).map(|number| format!("svc_{number}")).collect();
    for (constraint, status, pointer) in [
        (json!({"tools": []}), 422, "/tools"),
        (json!({"tools": ["svc_query_traces", "svc_query_trace"]}), 422, "/tools/1"),
        (json!({"tools": ["svc_get_trace", "svc_query_traces", "svc_get_trace"]}), 422, "/tools/2"),
        (json!({"tools": ["SVC_GET_TRACE"]}), 422, "/tools/0"),
        (json!({"tools": many}), 422, "/tools/0"),
        (json!({"tools": "svc_get_trace"}), 400, "/tools"),
        (json!({"tools": [1]}), 400, "/tools/0"),
        (json!({"policy": "Nothing == \"is marked\""}), 422, "/policy"),
        (json!({"policy": "true // \0"}), 422, "/policy"),
        (json!({"policy": "x".repeat(10_000)}), 422, "/policy"),
        (json!({"policy": true}), 400, "/policy"),
        (json!({"polices": "true"}), 400, "/polices"),
    ] {
        let mut new = json!({"name": "x"});
        new.as_object_mut().unwrap().extend(constraint.as_object().unwrap().clone());
        let answer = admin.post("/me/api-keys", new).await.expect(status);
        assert_eq!(answer.first_error()["pointer"], pointer, "{}", answer.body);
        assert!(answer.bytes.len() < 10_000);
    }
    let unknown = json!({"name": "x", "tools": ["svc_get_traces"]});
    let detail =
        admin.post("/me/api-keys", unknown).await.problem(422, "invalid_value").body["detail"].to_string();
    for tool in ["did you mean `svc_get_trace`", "svc_filter_schema", "svc_query_traces"] {
        assert!(detail.contains(tool), "{detail}");
    }
    assert_eq!(admin.get("/me/api-keys").await.expect(200).body["api_keys"], json!([]));
}

#[tokio::test]
async fn key_constraints_are_shown_and_recorded() {
    let store = Store::start();
    let (_service, admin, ada) = three_traces(&store).await;
    let new = json!({"name": "agent", "policy": BILLING, "tools": ["svc_query_traces"]});
    let created = ada.post("/me/api-keys", new).await.expect(201).body;
    let whole = ada.post("/me/api-keys", json!({"name": "whole"})).await.expect(201).body;
    let (policy, tools) = (json!(BILLING), json!(["svc_query_traces"]));
    assert_eq!((&created["policy"], &created["tools"]), (&policy, &tools));
    assert_eq!((&whole["policy"], &whole["tools"]), (&Value::Null, &Value::Null));
    for list in [ada.get("/me/api-keys").await, admin.get("/users/ada/api-keys").await] {
        let keys = list.expect(200).body["api_keys"].as_array().unwrap().clone();
        let shown = keys.iter().find(|key| key["id"] == created["id"]).unwrap();
        assert_eq!((&shown["policy"], &shown["tools"]), (&policy, &tools), "{shown}");
        let shown = keys.iter().find(|key| key["id"] == whole["id"]).unwrap();
        assert_eq!((&shown["policy"], &shown["tools"]), (&Value::Null, &Value::Null), "{shown}");
    }
    let records = async |action: &str| {
        let audit = admin.get(&format!("/audit?action={action}")).await.expect(200).body;
        audit["records"].as_array().unwrap().clone()
    };
    let made = records("api_key.create").await;
    let made = made.iter().find(|record| record["target"] == created["id"]).unwrap();
    assert_eq!((&made["detail"]["policy"], &made["detail"]["tools"]), (&policy, &tools), "{made}");

    let scoped = ada.with_key(created["token"].as_str().unwrap());
    scoped.post("/traces/query", json!({})).await.expect(200);
    let read = records("traces.query").await[0].clone();
    assert_eq!(read["detail"]["key_policy"], policy, "{read}");
    let policy_alone = key_with_policy(&ada, "true").await;
    policy_alone.get(&format!("/traces/{BLUE}")).await.expect(200);
    assert_eq!(records("traces.get").await[0]["detail"]["key_policy"], "true");
    ada.get(&format!("/traces/{BLUE}")).await.expect(200);
    assert!(records("traces.get").await[0]["detail"].get("key_policy").is_none());
}

#[tokio::test]
async fn a_cursor_is_bound_to_the_key_policy() {
    let store = Store::start();
    let (_service, _admin, ada) = three_traces(&store).await;
    let (all, other) = (key_with_policy(&ada, "true").await, key_with_policy(&ada, BILLING).await);
    let same = key_with_policy(&ada, "true").await;
    let first = json!({"view": "ids", "limit": 1});
    let cursor = all.post("/traces/query", first.clone()).await.expect(200).body["next_cursor"].clone();
    let later = json!({"view": "ids", "limit": 1, "cursor": cursor});
    other.post("/traces/query", later.clone()).await.problem(400, "invalid_cursor");
    ada.post("/traces/query", later.clone()).await.problem(400, "invalid_cursor");
    assert_eq!(same.post("/traces/query", later.clone()).await.expect(200).body["trace_ids"], json!([BLUE]));
    let cursor = ada.post("/traces/query", first).await.expect(200).body["next_cursor"].clone();
    let later = json!({"view": "ids", "limit": 1, "cursor": cursor});
    all.post("/traces/query", later.clone()).await.problem(400, "invalid_cursor");
    ada.post("/traces/query", later).await.expect(200);
}

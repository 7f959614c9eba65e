//! `/traces/{id}/explain` and `/traces/{id}/viewers`.

use serde_json::{Value, json};
use sqlx::Connection as _;

use crate::support::store::{BLUE, RED, Store, bind, binding, blue_policies, bound_service, two_teams};
use crate::support::{Answer, Client, Service};

const ABSENT: &str = "99999999999999999999999999999999";

async fn explain(client: &Client, trace: &str, user: Option<&str>) -> Value {
    send_explain(client, trace, user).await.expect(200).body
}

async fn send_explain(client: &Client, trace: &str, user: Option<&str>) -> Answer {
    let query = user.map(|user| format!("?user={user}")).unwrap_or_default();
    client.get(&format!("/traces/{trace}/explain{query}")).await
}

async fn role(admin: &Client, name: &str, expressions: &[&str]) {
    let policies: Vec<Value> = expressions
        .iter()
        .enumerate()
        .map(|(at, expression)| json!({"title": format!("P{at}"), "expression": expression, "description": "why"}))
        .collect();
    let answer = admin.put(&format!("/roles/{name}"), json!({ "policies": policies })).await;
    assert!([200, 201].contains(&answer.status), "{}", answer.body);
}

/// Marks the columns for the names and services of spans.
async fn display(admin: &Client) {
    let mut shown = binding();
    shown["display"] = json!({"service": "ServiceName", "name": "SpanName"});
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    admin.with("if-match", &version).put("/schema/binding", shown).await.expect(200);
}

/// Returns status, body and headers without the parts that differ in every answer.
fn comparable(answer: &Answer) -> (u16, Value, Vec<String>) {
    let mut body = answer.body.clone();
    body["request_id"] = Value::Null;
    let headers = answer.headers.iter().filter(|(name, _)| *name != "x-request-id" && *name != "date");
    let headers = headers.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
    let mut headers: Vec<String> = headers.collect();
    headers.sort();
    (answer.status, body, headers)
}

#[tokio::test]
async fn readers_get_only_their_own_reasons() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    display(&admin).await;
    role(
        &admin,
        "blue",
        &[
            "SpanAttributes[\"team\"] == \"blue\"",
            "SpanAttributes[\"secret.label\"] == \"x\" || ServiceName == \"shop\"",
            "ServiceName == \"bank\" && SpanAttributes[\"team\"] == user.username",
        ],
    )
    .await;

    let explanation = explain(&ada, BLUE, None).await;
    assert_eq!(explanation["visible"], true);
    assert_eq!(explanation["verdict"], "granted");
    assert_eq!(explanation["details"], true);
    assert_eq!(explanation["spans"], 3);
    assert_eq!(explanation["user"]["username"], "ada");
    assert_eq!(explanation["user"]["roles"], json!(["blue"]));
    assert_eq!(
        explanation["summary"],
        "you see this trace: the policy `P0` of the role `blue` grants access"
    );
    let policies = explanation["policies"].as_array().unwrap();
    assert_eq!(policies.len(), 3);
    assert_eq!(policies[0]["role"], "blue");
    assert_eq!(policies[0]["title"], "P0");
    assert_eq!(policies[0]["description"], "why");
    assert_eq!(policies[0]["requirement"], "SpanAttributes[\"team\"] is \"blue\"");
    assert_eq!(policies[0]["satisfied_by"], 3);
    let start = policies[0]["spans"][0]["start"].clone();
    assert!(start.as_str().is_some_and(|start| start.ends_with('Z')), "{explanation}");
    let span = |id: &str| json!({"span_id": id, "start": start, "name": "GET /", "service": "shop"});
    let all = json!([span("0000000000000000"), span("0000000000000002"), span("0000000000000004")]);
    assert_eq!(policies[0]["spans"], all);
    // The policy grants access to the trace, but its field is for policies only, so the user does not see it.
    assert_eq!(policies[1]["outcome"], "satisfied");
    assert!(policies[1].get("requirement").is_none(), "{explanation}");
    // A policy that is not satisfied shows its nearest span: here, neither service nor team match.
    assert_eq!((&policies[2]["outcome"], &policies[2]["satisfied_by"]), (&json!("not_satisfied"), &json!(0)));
    assert_eq!(policies[2]["nearest"]["span_id"], "0000000000000000");
    assert!(policies[2]["nearest"]["score"].as_f64().unwrap() < 1.0, "{explanation}");
    let text = explanation.to_string();
    for hidden in ["secret", "expression", "decided_by", "errors"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }

    // A forbidden and an absent trace give the same answer, that of a read.
    role(&admin, "blue", &["SpanAttributes[\"team\"] == \"blue\""]).await;
    let expected = comparable(&ada.get(&format!("/traces/{RED}")).await.problem(404, "trace_not_found"));
    for trace in [RED, ABSENT, "0", "no-such-thing"] {
        assert_eq!(comparable(&send_explain(&ada, trace, None).await), expected, "{trace}");
    }
    // Only administrators may ask about another user, about themselves by name, or about an unknown user.
    for user in ["ada", "admin", "unknown-user"] {
        send_explain(&ada, BLUE, Some(user)).await.problem(403, "forbidden");
    }
    ada.get(&format!("/traces/{BLUE}/viewers")).await.problem(403, "forbidden");

    let records = admin.get("/audit?action=traces.explain").await.expect(200).body["records"].clone();
    let outcomes: Vec<&str> =
        records.as_array().unwrap().iter().map(|record| record["outcome"].as_str().unwrap()).collect();
    let count = |outcome: &str| outcomes.iter().filter(|known| **known == outcome).count();
    assert_eq!((count("denied"), count("not_found"), count("success")), (3, 4, 1), "{records}");
}

#[tokio::test]
async fn administrators_get_the_reasons_of_any_user() {
    let store = Store::start();
    let (service, admin, _ada) = two_teams(&store).await;
    display(&admin).await;
    let text = "ServiceName == \"shop\" &&\n  SpanAttributes[\"team\"] == user.attributes.team";
    role(&admin, "own", &[text, "SpanAttributes[\"secret.label\"] == \"x\""]).await;
    service.user(&admin, "bob", &["own"]).await;
    admin.patch("/users/bob", json!({"attributes": {"team": "blue"}})).await.expect(200);

    // The administrator may read neither trace, and sees counts without details of spans.
    let explanation = explain(&admin, RED, Some("bob")).await;
    assert_eq!(
        (&explanation["visible"], &explanation["verdict"], &explanation["details"]),
        (&json!(false), &json!("not_satisfied"), &json!(false))
    );
    assert_eq!(
        explanation["user"],
        json!({"username": "bob", "roles": ["own"], "attributes": {"team": "blue"}, "disabled": false})
    );
    assert_eq!(
        explanation["summary"],
        "`bob` does not see this trace: none of the 2 policies of their roles is satisfied by any of its 3 spans"
    );
    let policy = &explanation["policies"][0];
    assert_eq!(
        (&policy["outcome"], &policy["satisfied_by"], &policy["spans"]),
        (&json!("not_satisfied"), &json!(0), &json!([]))
    );
    assert_eq!(policy["expression"], text);
    assert_eq!(policy["requirement"], "ServiceName is \"shop\" and SpanAttributes[\"team\"] is \"blue\"");
    assert!(policy.get("nearest").is_none() && policy.get("decided_by").is_none(), "{explanation}");
    assert_eq!(explanation["policies"][1]["requirement"], "SpanAttributes[\"secret.label\"] is \"x\"");
    let seen = explain(&admin, BLUE, Some("BOB")).await;
    assert_eq!((&seen["visible"], &seen["policies"][0]["satisfied_by"]), (&json!(true), &json!(3)));
    assert_eq!(seen["policies"][0]["spans"], json!([]));
    assert!(!seen.to_string().contains("0000000000000000"), "{seen}");
    // The administrator's own access is unchanged: none.
    send_explain(&admin, BLUE, None).await.problem(404, "trace_not_found");
    send_explain(&admin, ABSENT, Some("bob")).await.problem(404, "trace_not_found");
    send_explain(&admin, BLUE, Some("unknown-user")).await.problem(404, "not_found");

    // An administrator who may read the trace also sees which part of the policy decided.
    role(&admin, "all", &["ServiceName == 'shop'"]).await;
    admin.patch("/users/admin", json!({"roles": ["admin", "all"]})).await.expect(200);
    let explanation = explain(&admin, RED, Some("bob")).await;
    assert_eq!((&explanation["visible"], &explanation["details"]), (&json!(false), &json!(true)));
    let policy = &explanation["policies"][0];
    let nearest = &policy["nearest"];
    assert_eq!(
        (&nearest["span_id"], &nearest["service"], &nearest["name"]),
        (&json!("0000000000000001"), &json!("shop"), &json!("GET /"))
    );
    // The service matches; the team is set but does not match.
    assert!((nearest["score"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9, "{nearest}");
    assert_eq!(
        policy["decided_by"],
        json!({"span_id": "0000000000000001", "start": nearest["start"], "outcome": "false", "parts": [{"line": 2, "column": 3, "length": 46,
            "text": "SpanAttributes[\"team\"] == user.attributes.team", "outcome": "false",
            "detail": "`SpanAttributes[\"team\"]` is \"red\", `user.attributes[\"team\"]` is \"blue\""}]})
    );
    let absent = &explanation["policies"][1]["decided_by"];
    assert_eq!(absent["outcome"], "error", "{explanation}");
    let explanation = explain(&admin, BLUE, Some("bob")).await;
    let policy = &explanation["policies"][0];
    assert_eq!(
        (&policy["decided_by"]["span_id"], &policy["decided_by"]["outcome"]),
        (&json!("0000000000000000"), &json!("true"))
    );
    assert_eq!(policy["spans"].as_array().unwrap().len(), 3);
    // The same for the administrator's own access.
    let own = explain(&admin, RED, None).await;
    assert_eq!(own["policies"][0]["expression"], "ServiceName == 'shop'");
    assert_eq!(own["policies"][0]["decided_by"]["outcome"], "true");
    let records = admin.get("/audit?action=traces.explain").await.expect(200).body["records"].clone();
    let about = records
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| record["detail"]["explained"]["username"] == "bob");
    let about: Vec<&Value> = about.collect();
    assert!(
        about.len() >= 4
            && about.iter().all(|record| record["detail"]["explained"]["attributes"]["team"] == "blue"),
        "{records}"
    );

    // During a preview, the access of the previewed user counts.
    admin.put("/me/preview", json!({"username": "bob"})).await.expect(200);
    let own = explain(&admin, BLUE, None).await;
    assert_eq!((&own["user"]["username"], &own["visible"]), (&json!("bob"), &json!(true)));
    send_explain(&admin, RED, None).await.problem(404, "trace_not_found");
    assert_eq!(explain(&admin, RED, Some("bob")).await["details"], false);
    admin.delete("/me/preview").await.expect(204);

    // A disabled user, and a user without roles.
    admin.patch("/users/bob", json!({"disabled": true})).await.expect(200);
    let explanation = explain(&admin, BLUE, Some("bob")).await;
    assert_eq!(
        (&explanation["visible"], &explanation["verdict"], &explanation["user"]["disabled"]),
        (&json!(false), &json!("disabled"), &json!(true))
    );
    assert_eq!(explanation["summary"], "`bob` is disabled and can read no trace");
    service.user(&admin, "eve", &[]).await;
    let explanation = explain(&admin, BLUE, Some("eve")).await;
    assert_eq!(
        (&explanation["visible"], &explanation["verdict"], &explanation["policies"]),
        (&json!(false), &json!("no_policy"), &json!([]))
    );
    drop(service);
}

#[tokio::test]
async fn a_broken_policy_is_named_to_administrators_and_refuses_its_users() {
    let store = Store::start();
    let (service, admin, ada) = two_teams(&store).await;
    role(&admin, "blue", &["SpanAttributes[\"team\"] == \"blue\"", "ServiceName == \"shop\""]).await;
    admin.patch("/users/admin", json!({"roles": ["admin", "blue"]})).await.expect(200);
    // The API rejects such a policy, so the test writes it directly to the database.
    let url = service.database_url();
    let mut database = sqlx::SqliteConnection::connect(&url).await.unwrap();
    let changed = sqlx::query(
        "UPDATE role_policies SET expression = 'SpanAttributes[\"gone\"] == 1' WHERE title = 'P1'",
    );
    assert_eq!(changed.execute(&mut database).await.unwrap().rows_affected(), 1);

    let refused = send_explain(&ada, BLUE, None).await.problem(500, "policy_broken");
    assert!(!refused.body.to_string().contains("gone"), "{}", refused.body);
    // The administrator has the same broken policy and can still ask for the explanation.
    send_explain(&admin, BLUE, None).await.problem(500, "policy_broken");
    let explanation = explain(&admin, BLUE, Some("ada")).await;
    assert_eq!(
        (&explanation["visible"], &explanation["verdict"], &explanation["details"]),
        (&json!(false), &json!("broken"), &json!(false))
    );
    assert_eq!(explanation["policies"][0]["outcome"], "satisfied");
    let broken = &explanation["policies"][1];
    assert_eq!(broken["outcome"], "broken");
    assert!(
        broken.get("satisfied_by").is_none()
            && broken["errors"][0]["message"].as_str().unwrap().contains("gone"),
        "{explanation}"
    );
    assert!(
        explanation["summary"].as_str().unwrap().contains("the policy `P1` of the role `blue`"),
        "{explanation}"
    );
    let viewers = admin.get(&format!("/traces/{BLUE}/viewers")).await.expect(200).body;
    assert_eq!(viewers["viewers"], json!([]));
    let broken_policy = |name: &str| {
        json!({"username": name, "role": "blue", "title": "P1",
        "reason": "references a field that is no longer usable in policies"})
    };
    assert_eq!(viewers["broken"], json!([broken_policy("ada"), broken_policy("admin")]));
}

#[tokio::test]
async fn without_discovery_samples_trace_counts_are_hidden() {
    let store = Store::start();
    store.insert_two_traces().await;
    let (service, admin) = bound_service(&store, &[("TRACEWARDEN_DISCOVERY_SAMPLES", "false")]).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    service.user(&admin, "ada", &["blue"]).await;
    let expected = comparable(&admin.get(&format!("/traces/{ABSENT}")).await.problem(404, "trace_not_found"));
    for trace in [BLUE, RED, ABSENT] {
        assert_eq!(comparable(&send_explain(&admin, trace, Some("ada")).await), expected);
        assert_eq!(comparable(&admin.get(&format!("/traces/{trace}/viewers")).await), expected);
    }
    // Administrators may ask about traces that they may read themselves.
    admin.patch("/users/admin", json!({"roles": ["admin", "blue"]})).await.expect(200);
    assert_eq!(explain(&admin, BLUE, Some("ada")).await["visible"], true);
    send_explain(&admin, RED, Some("ada")).await.problem(404, "trace_not_found");
    let viewers = admin.get(&format!("/traces/{BLUE}/viewers")).await.expect(200).body;
    assert_eq!(viewers["viewers"].as_array().unwrap().len(), 2, "{viewers}");
}

#[tokio::test]
async fn a_key_constraint_is_explained_and_its_tools_apply() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    role(&admin, "blue", &["ServiceName == \"shop\""]).await;
    let key = async |with: Value| {
        let mut body = json!({"name": "k"});
        body.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
        let made = ada.post("/me/api-keys", body).await.expect(201).body;
        ada.with_key(made["token"].as_str().unwrap())
    };
    let scoped = key(json!({"policy": "SpanAttributes[\"team\"] == \"blue\""})).await;
    let explanation = explain(&scoped, BLUE, None).await;
    assert_eq!(explanation["key_constraint"]["outcome"], "satisfied");
    assert_eq!(explanation["key_constraint"]["requirement"], "SpanAttributes[\"team\"] is \"blue\"");
    assert_eq!(explanation["key_constraint"]["satisfied_by"], 3);
    assert_eq!(explanation["policies"].as_array().unwrap().len(), 1);
    send_explain(&scoped, RED, None).await.problem(404, "trace_not_found");
    assert_eq!(explain(&ada, RED, None).await.get("key_constraint"), None);

    let others = key(json!({"tools": ["svc_get_trace"]})).await;
    send_explain(&others, BLUE, None).await.problem(403, "forbidden");
    let this = key(json!({"tools": ["svc_explain_access"]})).await;
    assert_eq!(explain(&this, BLUE, None).await["visible"], true);
    this.get(&format!("/traces/{BLUE}")).await.problem(403, "forbidden");
    // An administrator's scoped API key may not ask about other users.
    let made = admin
        .post("/me/api-keys", json!({"name": "k", "tools": ["svc_explain_access"]}))
        .await
        .expect(201)
        .body;
    let scoped = admin.with_key(made["token"].as_str().unwrap());
    send_explain(&scoped, BLUE, Some("ada")).await.problem(403, "forbidden");
    scoped.get(&format!("/traces/{BLUE}/viewers")).await.problem(403, "forbidden");
}

#[tokio::test]
async fn who_can_see_a_trace() {
    let store = Store::start();
    let (service, admin, _ada) = two_teams(&store).await;
    role(
        &admin,
        "own",
        &[
            "SpanAttributes[\"team\"] == user.attributes.team",
            "ServiceName == \"shop\" && user.username == \"eve\"",
        ],
    )
    .await;
    let user = async |name: &str, roles: Value, attributes: Value| {
        service.user(&admin, name, &[]).await;
        admin
            .patch(&format!("/users/{name}"), json!({"roles": roles, "attributes": attributes}))
            .await
            .expect(200);
    };
    user("bob", json!(["own"]), json!({"team": "red"})).await;
    user("eve", json!(["own", "blue"]), json!({"team": "blue"})).await;
    user("kim", json!(["own"]), json!({"team": "blue"})).await;
    admin.patch("/users/kim", json!({"disabled": true})).await.expect(200);

    let explanation = admin.get(&format!("/traces/{BLUE}/viewers")).await.expect(200).body;
    let by = |role: &str, title: &str| json!({"role": role, "title": title});
    assert_eq!(
        explanation["viewers"],
        json!([
            {"username": "ada", "policies": [by("blue", "Blue")]},
            {"username": "eve", "policies": [by("blue", "Blue"), by("own", "P0"), by("own", "P1")]},
        ])
    );
    assert_eq!(
        (&explanation["users"], &explanation["total_users"]),
        (&json!(4), &json!(4)),
        "admin, ada, bob and eve"
    );
    assert_eq!(
        (&explanation["spans"], &explanation["details"], &explanation["broken"]),
        (&json!(3), &json!(false), &json!([]))
    );
    let explanation = admin.get(&format!("/traces/{RED}/viewers")).await.expect(200).body;
    let names: Vec<&str> = explanation["viewers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|viewer| viewer["username"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["bob", "eve"]);
    admin.get(&format!("/traces/{ABSENT}/viewers")).await.problem(404, "trace_not_found");
    let records = admin.get("/audit?action=traces.explain").await.expect(200).body["records"].clone();
    assert!(records.to_string().contains("viewers"), "{records}");
    drop(service);
}

#[tokio::test]
async fn a_pending_password_change_is_explained_as_no_access() {
    let store = Store::start();
    let (service, admin, ada) = two_teams(&store).await;
    let made = ada.post("/me/api-keys", json!({"name": "k"})).await.expect(201).body;
    let key = ada.with_key(made["token"].as_str().unwrap());
    key.get(&format!("/traces/{BLUE}")).await.expect(200);
    // One user has an API key from before the reset, the other never signed in.
    let password = admin.post("/users/ada/password", json!({})).await.expect(200).body;
    let initial = json!({"username": "bob", "roles": ["blue"]});
    admin.post("/users", initial).await.expect(201);
    service.user(&admin, "eve", &["blue"]).await;

    key.get(&format!("/traces/{BLUE}")).await.problem(403, "password_change_required");
    for user in ["ada", "bob"] {
        let explanation = explain(&admin, BLUE, Some(user)).await;
        assert_eq!(
            (&explanation["visible"], &explanation["verdict"]),
            (&json!(false), &json!("password_change_required")),
            "{explanation}"
        );
        assert_eq!(
            explanation["summary"],
            format!("`{user}` can read no trace before the password is changed")
        );
        assert_eq!(explanation["policies"][0]["outcome"], "satisfied");
    }
    let viewers = admin.get(&format!("/traces/{BLUE}/viewers")).await.expect(200).body;
    assert_eq!(viewers["viewers"].as_array().unwrap().len(), 1, "{viewers}");
    assert_eq!(viewers["viewers"][0]["username"], "eve");
    assert_eq!(viewers["must_change_password"], json!(["ada", "bob"]));
    let viewers = admin.get(&format!("/traces/{RED}/viewers")).await.expect(200).body;
    assert_eq!((&viewers["viewers"], &viewers["must_change_password"]), (&json!([]), &json!([])));
    // `disabled` takes precedence over a pending password change.
    admin.patch("/users/bob", json!({"disabled": true})).await.expect(200);
    assert_eq!(explain(&admin, BLUE, Some("bob")).await["verdict"], "disabled");

    let initial = password["initial_password"].as_str().unwrap();
    let ada = service.sign_in("ada", initial).await;
    let change = json!({"current_password": initial, "new_password": "quite another long secret"});
    ada.post("/me/password", change).await.expect(204);
    key.get(&format!("/traces/{BLUE}")).await.expect(200);
    assert_eq!(explain(&admin, BLUE, Some("ada")).await["verdict"], "granted");
}

#[tokio::test]
async fn nothing_is_explained_without_a_trace_source() {
    let service = Service::start();
    let admin = service.admin().await;
    send_explain(&admin, BLUE, None).await.problem(409, "not_bound");
    send_explain(&admin, BLUE, Some("admin")).await.problem(409, "not_bound");
    admin.get(&format!("/traces/{BLUE}/viewers")).await.problem(409, "not_bound");
}

#[tokio::test]
async fn a_changed_column_breaks_the_policies_that_use_it() {
    let store = Store::start();
    store.insert_two_traces().await;
    let service = store.service();
    let admin = service.admin().await;
    store.run("ALTER TABLE otel.otel_traces ADD COLUMN Team String DEFAULT SpanAttributes['team']").await;
    bind(&admin).await;
    let schema = admin.get("/schema").await.expect(200);
    let version = schema.headers["etag"].to_str().unwrap().to_owned();
    let fields = json!({"fields": [
        {"name": "ServiceName", "filterable": true, "policy": true},
        {"name": "Team", "filterable": true, "policy": true},
    ]});
    admin.with("if-match", &version).put("/schema/fields", fields).await.expect(200);
    role(&admin, "team", &["Team == 'blue'"]).await;
    role(&admin, "shop", &["ServiceName == 'shop'"]).await;
    service.user(&admin, "ada", &["team"]).await;
    service.user(&admin, "bob", &["shop"]).await;
    assert_eq!(explain(&admin, BLUE, Some("ada")).await["visible"], true);
    store.run("ALTER TABLE otel.otel_traces DROP COLUMN Team").await;
    store.run("ALTER TABLE otel.otel_traces ADD COLUMN Team Nullable(String) DEFAULT 'blue'").await;
    let explanation = explain(&admin, BLUE, Some("ada")).await;
    assert_eq!(
        (&explanation["visible"], &explanation["verdict"], &explanation["policies"][0]["outcome"]),
        (&json!(false), &json!("broken"), &json!("broken"))
    );
    let explanation = explain(&admin, BLUE, Some("bob")).await;
    assert_eq!(
        (&explanation["visible"], &explanation["policies"][0]["outcome"]),
        (&json!(true), &json!("satisfied"))
    );
    let viewers = admin.get(&format!("/traces/{BLUE}/viewers")).await.expect(200).body;
    assert_eq!(viewers["viewers"][0]["username"], "bob");
    let reason = "names a field whose column in ClickHouse has changed; the field has to be marked again";
    assert_eq!(
        viewers["broken"],
        json!([{"username": "ada", "role": "team", "title": "P0", "reason": reason}])
    );
}

//! Advice on policies, from users' attributes and from recent traces.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracewarden_testkit::wait::until;

use crate::support::store::{Store, bind, binding};
use crate::support::{Client, Service};

/// Returns code, message and hint of each warning on a role's first policy.
async fn warnings(admin: &Client, role: &str, expression: &str) -> Vec<(String, String, String)> {
    let policies = json!({"policies": [{"title": "t", "expression": expression}]});
    let answer = admin.put(&format!("/roles/{role}"), policies).await;
    assert!([200, 201].contains(&answer.status), "{}", answer.body);
    parse_warnings(&answer.body["policies"][0]["warnings"])
}

fn parse_warnings(warnings: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let warnings = warnings.as_array().unwrap().iter();
    warnings.map(|each| (text(&each["code"]), text(&each["message"]), text(&each["hint"]))).collect()
}

/// Maximum number of requests for advice. Advice is missing when it exceeds its time limit, as on a busy machine.
const MAX_ATTEMPTS: usize = 5;

fn codes(warnings: &[(String, String, String)]) -> Vec<&str> {
    warnings.iter().map(|(code, ..)| code.as_str()).collect()
}

/// Keeps the warnings on attributes and roles. Other kinds have their own tests.
fn attribute_and_role_warnings(warnings: Vec<(String, String, String)>) -> Vec<(String, String, String)> {
    let known = ["unknown_attribute", "attribute_kind", "unknown_role"];
    warnings.into_iter().filter(|(code, ..)| known.contains(&code.as_str())).collect()
}

fn trace_warnings(warnings: Vec<(String, String, String)>) -> Vec<(String, String, String)> {
    let known = ["opens_no_recent_trace", "opens_every_recent_trace", "broad_policy"];
    warnings.into_iter().filter(|(code, ..)| known.contains(&code.as_str())).collect()
}

#[tokio::test]
async fn attributes_that_no_user_has() {
    let service = Service::start();
    let admin = service.admin().await;
    let user = |name: &str, attributes: Value| {
        admin.post("/users", json!({"username": name, "attributes": attributes}))
    };
    user("ada", json!({"team": "blue", "on_call": true})).await.expect(201);
    user("bob", json!({"team": "red", "regions": ["eu", "us"]})).await.expect(201);

    for valid in [
        "user.attributes.team == 'blue'",
        "'eu' in user.attributes.regions && user.attributes.on_call",
        "user.attributes.regions.exists(region, region == 'eu')",
        "has(user.attributes.team) && size(user.attributes.regions) > 1",
        "user.attributes.team == user.attributes.regions",
    ] {
        assert_eq!(attribute_and_role_warnings(warnings(&admin, "readers", valid).await), [], "{valid}");
    }

    let text = "true &&\n  user.attributes.tem == 'blue' || user.attributes.tem == 'red'";
    let policies =
        json!({"policies": [{"title": "t", "expression": "true"}, {"title": "t", "expression": text}]});
    let answer = admin.put("/roles/readers", policies).await.expect(200);
    let found: Vec<&Value> = answer.body["policies"][1]["warnings"].as_array().unwrap().iter().collect();
    let found: Vec<&&Value> = found.iter().filter(|warning| warning["code"] == "unknown_attribute").collect();
    assert_eq!(found.len(), 1, "must be reported once: {}", answer.body);
    assert_eq!(
        *found[0],
        &json!({"line": 2, "column": 3, "length": 19, "code": "unknown_attribute",
            "message": "no user has the attribute `tem`", "hint": "did you mean `user.attributes[\"team\"]`?"})
    );
    let probe = attribute_and_role_warnings(warnings(&admin, "readers", "has(user.attributes.zzz)").await);
    assert_eq!(codes(&probe), ["unknown_attribute"]);

    let list =
        attribute_and_role_warnings(warnings(&admin, "readers", "user.attributes.regions == 'eu'").await);
    assert_eq!(
        list,
        [(
            "attribute_kind".to_owned(),
            "`regions` is a list for every user who has it, but this needs a string".to_owned(),
            "to look for a value in the list, write `x in user.attributes[\"regions\"]`".to_owned()
        )]
    );
    for wrong in
        ["'blue' in user.attributes.team", "user.attributes.team", "user.attributes.on_call == 'yes'"]
    {
        let found = attribute_and_role_warnings(warnings(&admin, "readers", wrong).await);
        assert_eq!(codes(&found), ["attribute_kind"], "{wrong}: {found:?}");
    }

    // Once users have the role, only their attributes count.
    let membership = json!({"roles": ["readers"]});
    admin.patch("/users/ada", membership.clone()).await.expect(200);
    let found =
        attribute_and_role_warnings(warnings(&admin, "readers", "'eu' in user.attributes.regions").await);
    assert_eq!(found[0].1, "the one user with this role has no attribute `regions`");
    assert_eq!(
        attribute_and_role_warnings(warnings(&admin, "others", "'eu' in user.attributes.regions").await),
        []
    );
    admin.patch("/users/bob", membership).await.expect(200);
    assert_eq!(
        attribute_and_role_warnings(warnings(&admin, "readers", "'eu' in user.attributes.regions").await),
        []
    );
    let found =
        attribute_and_role_warnings(warnings(&admin, "readers", "user.attributes.regions == 'eu'").await);
    assert_eq!(
        found[0].1,
        "`regions` is a list for every user with this role who has it, but this needs a string"
    );
    user("eve", json!({"color": "blue"})).await.expect(201);
    let found =
        attribute_and_role_warnings(warnings(&admin, "readers", "user.attributes.color == 'blue'").await);
    assert_eq!(found[0].1, "none of the 2 users with this role has the attribute `color`");

    // `check` does not store the policy, so all users count.
    let check = json!({"expression": "user.attributes.colour == 'blue'"});
    let answer = admin.post("/policies/check", check).await.expect(200).body;
    assert_eq!(answer["valid"], true);
    let found = attribute_and_role_warnings(parse_warnings(&answer["warnings"]));
    assert_eq!(found[0].2, "did you mean `user.attributes[\"color\"]`?");
    assert!(answer.get("recent_traces").is_none(), "{answer}");
}

#[tokio::test]
async fn roles_that_do_not_exist() {
    let service = Service::start();
    let admin = service.admin().await;
    // A policy may name its own role.
    assert_eq!(attribute_and_role_warnings(warnings(&admin, "oncall", "'oncall' in user.roles").await), []);
    let found = attribute_and_role_warnings(
        warnings(&admin, "oncall", "'admin' in user.roles && 'on-call' in user.roles").await,
    );
    let expected = ("unknown_role", "there is no role `on-call`", "did you mean `oncall`?");
    assert_eq!(found, [(expected.0.to_owned(), expected.1.to_owned(), expected.2.to_owned())]);
}

/// Inserts 20 traces of the last minutes, 2 of the team `blue`; each has spans of `web` and of seven more services.
async fn insert_traces(store: &Store) {
    store
        .run(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, ServiceName, SpanAttributes) \
             SELECT now64(9) - 60, lower(hex(MD5(toString(number % 20)))), leftPad(toString(number), 16, '0'), '', 'GET', \
             if(number < 20, 'web', concat('service-', toString(intDiv(number, 20)))), \
             map('team', if(number % 20 < 2 AND number < 20, 'blue', 'red')) FROM numbers(160)",
        )
        .await;
}

async fn with_binding(service: &Service) -> Client {
    let admin = service.admin().await;
    bind(&admin).await;
    let mut shown = binding();
    shown["display"] = json!({"service": "ServiceName"});
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    admin.with("if-match", &version).put("/schema/binding", shown).await.expect(200);
    admin
}

#[tokio::test]
async fn advice_from_recent_traces() {
    let store = Store::start();
    insert_traces(&store).await;
    let service = store.service();
    let admin = with_binding(&service).await;
    let about = async |expression: &str| trace_warnings(warnings(&admin, "readers", expression).await);
    let team = |value: &str| format!("SpanAttributes['team'] == {value}");

    let found = about(&team("'blu'")).await;
    assert_eq!(codes(&found), ["opens_no_recent_trace"]);
    assert_eq!(found[0].1, "it grants access to none of 20 traces of the last 24 hours");
    let found = about("ServiceName in ['web', 'mail']").await;
    assert_eq!(codes(&found), ["opens_every_recent_trace"]);
    assert_eq!(found[0].1, "it grants access to all of 20 traces of the last 24 hours");
    let found = about("ServiceName == 'web' && SpanAttributes['team'] == 'blue'").await;
    assert_eq!(codes(&found), ["broad_policy"]);
    assert_eq!(
        found[0].1,
        "it names 1 service (`web`), but the traces that it grants contain spans of 8 services: 7 are \
         visible only via whole traces"
    );
    let found = about(&team("'blue'")).await;
    assert_eq!(
        found[0].1,
        "its matching spans are of 1 service, but the traces that it grants contain spans of 8 services: 7 \
         are visible only via whole traces"
    );
    // Constant policies have a separate warning.
    for valid in ["true", "false", "ServiceName == 'web' || true"] {
        assert_eq!(about(valid).await, [], "{valid}");
    }

    // For a policy that depends on the user, the users with the role count; without such users there is no warning.
    let own = team("user.attributes.team");
    assert_eq!(about(&own).await, []);
    let user = |name: &str, team: &str| {
        admin.post("/users", json!({"username": name, "roles": ["readers"], "attributes": {"team": team}}))
    };
    user("ada", "green").await.expect(201);
    assert_eq!(
        about(&own).await[0].1,
        "it grants access to none of 20 traces of the last 24 hours for the one user with this role"
    );
    user("bob", "yellow").await.expect(201);
    let found = about(&own).await;
    assert_eq!(
        found[0].1,
        "it grants access to none of 20 traces of the last 24 hours for any of the 2 users with this role"
    );
    user("eve", "red").await.expect(201);
    assert_eq!(about(&own).await, []);
    // A disabled user cannot read traces, so does not count.
    admin.patch("/users/eve", json!({"disabled": true})).await.expect(200);
    assert_eq!(codes(&about(&own).await), ["opens_no_recent_trace"]);

    // `check` reads recent traces only on request, and records this in the audit log.
    let expression = team("'blu'");
    let answer = admin.post("/policies/check", json!({"expression": expression})).await.expect(200).body;
    assert_eq!(
        (trace_warnings(parse_warnings(&answer["warnings"])), answer.get("recent_traces")),
        (vec![], None)
    );
    let records = async || {
        let records = admin.get("/audit?action=policy.check").await.expect(200).body;
        records["records"].as_array().unwrap().clone()
    };
    assert_eq!(records().await, [] as [Value; 0]);
    let probe = json!({"expression": expression, "recent_traces": true});
    let (mut answer, mut times) = (Value::Null, 0);
    while answer.get("recent_traces").is_none() && times < MAX_ATTEMPTS {
        answer = admin.post("/policies/check", probe.clone()).await.expect(200).body;
        times += 1;
    }
    assert_eq!(codes(&trace_warnings(parse_warnings(&answer["warnings"]))), ["opens_no_recent_trace"]);
    assert_eq!(answer["recent_traces"], 20);
    let invalid = json!({"expression": "nothing", "recent_traces": true});
    assert_eq!(admin.post("/policies/check", invalid).await.expect(200).body["valid"], false);
    let records = records().await;
    assert_eq!(records.len(), times, "an invalid policy must not run a query: {records:?}");
    assert_eq!(records[0]["detail"]["expression"], expression.as_str());
}

#[tokio::test]
async fn the_collateral_access_warning_has_a_threshold() {
    let store = Store::start();
    insert_traces(&store).await;
    for (most, expected) in [("6", &["broad_policy"] as &[&str]), ("7", &[])] {
        let service = store.service_with(&[("TRACEWARDEN_COLLATERAL_ACCESS_WARNING", most)]);
        let admin = with_binding(&service).await;
        let found = trace_warnings(warnings(&admin, "readers", "SpanAttributes['team'] == 'blue'").await);
        assert_eq!(codes(&found), expected, "{most}");
    }
}

#[tokio::test]
async fn without_discovery_samples_counts_are_hidden() {
    let store = Store::start();
    insert_traces(&store).await;
    let service = store.service_with(&[("TRACEWARDEN_DISCOVERY_SAMPLES", "false")]);
    let admin = with_binding(&service).await;
    let expression = "SpanAttributes['team'] == 'blu'";
    assert_eq!(trace_warnings(warnings(&admin, "readers", expression).await), []);
    let probe = json!({"expression": expression, "recent_traces": true});
    let answer = admin.post("/policies/check", probe).await.expect(200).body;
    assert_eq!(
        (trace_warnings(parse_warnings(&answer["warnings"])), answer.get("recent_traces")),
        (vec![], None)
    );
}

#[tokio::test]
async fn a_role_is_stored_while_clickhouse_hangs() {
    let mut store = Store::start();
    let mut service = store.service();
    let admin = with_binding(&service).await;
    // There are no traces yet.
    let expression = "SpanAttributes['team'] == 'blu'";
    assert_eq!(trace_warnings(warnings(&admin, "readers", expression).await), []);
    insert_traces(&store).await;
    assert_eq!(trace_warnings(warnings(&admin, "readers", expression).await).len(), 1);
    let revision = admin.get("/roles/readers").await.expect(200).body["revision"].as_u64().unwrap();

    store.kill();
    assert_eq!(trace_warnings(warnings(&admin, "readers", expression).await), []);

    // A server that accepts connections and never answers.
    let hanging = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", hanging.local_addr().unwrap());
    service.restart_with(&[("TRACEWARDEN_CLICKHOUSE_URL", &url)]);
    let admin = admin.at(&service);
    let begun = Instant::now();
    let answered = AtomicBool::new(false);
    let put = async {
        let found = warnings(&admin, "readers", "SpanAttributes['team'] == 'bluu'").await;
        answered.store(true, Ordering::SeqCst);
        found
    };
    let membership = async {
        let now = async || admin.get("/roles/readers").await.expect(200).body["revision"].as_u64().unwrap();
        until(now, |now| *now > revision).await;
        // The role was stored before the advice was ready.
        assert!(!answered.load(Ordering::SeqCst));
    };
    let (found, ()) = tokio::join!(put, membership);
    assert_eq!(trace_warnings(found), []);
    assert!(begun.elapsed() >= Duration::from_secs(3), "ClickHouse was not queried");
    assert!(begun.elapsed() < Duration::from_secs(15), "advice must be limited in time");
    let probe = json!({"expression": expression, "recent_traces": true});
    let answer = admin.post("/policies/check", probe).await.expect(200).body;
    assert_eq!((&answer["valid"], answer.get("recent_traces")), (&json!(true), None));
}

#[tokio::test]
async fn many_policies_have_their_advice_in_time() {
    let store = Store::start();
    insert_traces(&store).await;
    let service = store.service();
    let admin = with_binding(&service).await;
    let policy = |number: usize| {
        let expression =
            format!("SpanAttributes['team'] == 'blue {number}' || ServiceName.startsWith('x{number}')");
        json!({"title": "t", "expression": expression})
    };
    let policies: Vec<Value> = (0..100).map(policy).collect();
    let role = json!({ "policies": policies });
    let put = async |status: u16| {
        let answer = admin.put("/roles/readers", role.clone()).await.expect(status).body;
        answer["policies"].as_array().unwrap().clone()
    };
    let mut answered = put(201).await;
    let advised = |policy: &Value| !trace_warnings(parse_warnings(&policy["warnings"])).is_empty();
    for _ in 1..MAX_ATTEMPTS {
        if answered.iter().any(advised) {
            break;
        }
        answered = put(200).await;
    }
    assert_eq!(answered.len(), 100);
    for policy in &answered {
        assert_eq!(
            codes(&trace_warnings(parse_warnings(&policy["warnings"]))),
            ["opens_no_recent_trace"],
            "{policy}"
        );
    }
}

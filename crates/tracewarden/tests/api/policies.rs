//! `/policies/evaluate`, and the access model as a file for `tracewarden policy`.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::store::{Store, binding, bound_service};
use crate::support::{Service, program};

#[tokio::test]
async fn a_policy_is_evaluated_on_spans_that_are_sent() {
    let store = Store::start();
    let (_service, admin) = bound_service(&store, &[]).await;
    let user =
        json!({"username": "hypothetical user", "roles": ["dev"], "attributes": {"teams": ["blue", "red"]}});
    let request = json!({
        "expression": "SpanAttributes[\"team\"] in user.attributes.teams\n  && \"dev\" in user.roles",
        "user": user,
        "spans": [
            {"SpanAttributes": {"team": "blue"}, "Duration": "no matter", "Unmarked": {}},
            {"SpanAttributes": {"team": "green"}},
            {"SpanAttributes": {}},
        ],
    });
    let answer = admin.post("/policies/evaluate", request.clone()).await.expect(200).body;
    let outcomes: Vec<&Value> =
        answer["results"].as_array().unwrap().iter().map(|result| &result["outcome"]).collect();
    assert_eq!(outcomes, ["true", "false", "error"]);
    let decided: Vec<usize> = answer["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["decided_by"].as_array().unwrap().len())
        .collect();
    assert_eq!(decided, [2, 1, 1], "{answer}");
    let error = &answer["results"][2];
    assert_eq!(error["detail"], "`SpanAttributes[\"team\"]` is absent on this span");
    assert_eq!(
        error["decided_by"][0],
        json!({"line": 1, "column": 1, "length": 22, "outcome": "error", "detail": error["detail"]})
    );

    let mut wrong = request.clone();
    wrong["expression"] = json!("SpanAttributes[\"taem\"] == \"blue\"");
    let refused = admin.post("/policies/evaluate", wrong).await.problem(422, "policy_invalid");
    let error = refused.first_error();
    assert_eq!(
        (&error["pointer"], &error["line"], &error["column"]),
        (&json!("/expression"), &json!(1), &json!(1))
    );

    let mut wrong = request.clone();
    wrong["spans"][1]["SpanAttributes"]["team"] = json!(["green"]);
    let refused = admin.post("/policies/evaluate", wrong).await.problem(422, "value_type");
    assert_eq!(refused.first_error()["pointer"], "/spans/1/SpanAttributes/team");
    assert_eq!(refused.first_error()["detail"], "expected a string, this is an array");

    let mut wrong = request.clone();
    wrong["spans"] = vec![json!({}); 1_001].into();
    let refused = admin.post("/policies/evaluate", wrong).await.problem(422, "invalid_value");
    assert_eq!(refused.first_error()["pointer"], "/spans");

    let mut wrong = request.clone();
    wrong["user"]["attributes"]["long"] = json!("x".repeat(1_025));
    let refused = admin.post("/policies/evaluate", wrong).await.problem(422, "invalid_value");
    assert_eq!(refused.first_error()["pointer"], "/user/attributes/long");

    for (wrong, pointer) in [
        (json!({"expression": "true", "user": {"username": "a", "role": []}, "spans": []}), "/user/role"),
        (json!({"expression": "true", "user": {"username": "a"}, "spans": {}}), "/spans"),
    ] {
        let refused = admin.post("/policies/evaluate", wrong).await.problem(400, "invalid_request");
        assert_eq!(refused.first_error()["pointer"], pointer);
    }
}

/// Nested macros multiply the work, and the caller chooses the lists.
#[tokio::test]
async fn evaluations_that_take_too_long_are_refused() {
    let service = Service::start();
    let admin = service.admin().await;
    let many: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
    let list = "user.attributes.many";
    let request = json!({
        "expression": format!("{list}.all(a, {list}.all(b, {list}.all(c, a != \"x\" && b != \"x\" && c != \"x\")))"),
        "user": {"username": "a", "attributes": {"many": many}},
        "spans": [{}],
    });
    let started = std::time::Instant::now();
    let refused = admin.post("/policies/evaluate", request).await.problem(422, "policy_invalid");
    assert!(refused.first_error()["detail"].as_str().unwrap().contains("takes too long"), "{}", refused.body);
    assert!(started.elapsed().as_secs() < 5);
}

/// Runs `tracewarden policy` with a file on the standard input.
fn policy(arguments: &[&str], input: &str) -> (i32, String) {
    let mut child = program()
        .arg("policy")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn the_command_line_reads_the_access_model_of_the_api() {
    let store = Store::start();
    let columns = "Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, Host FixedString(8), \
        Kind Enum8('Server' = 1, 'Client' = 2), Run UUID, Nick LowCardinality(Nullable(String)), Sampled Bool, \
        Events Nested(Name LowCardinality(String)), Attributes JSON(tenant String), Flags Map(String, Bool), \
        Labels Map(LowCardinality(String), String), Duration UInt64";
    store.run(&format!("CREATE TABLE otel.wide ({columns}) ENGINE = MergeTree ORDER BY Timestamp")).await;
    store
        .run(
            "INSERT INTO otel.wide SELECT now64(9) - 60, repeat('a', 32), repeat('b', 16), '', 'web-1', 'Server', \
             '61F0C404-5CB3-11E7-907B-A6006AD3DBA0', NULL, true, ['exception'], \
             '{\"tenant\": \"acme\", \"user\": {\"id\": \"7\"}}', map('beta', true), map('team', 'blue', 'on', 'true'), 5",
        )
        .await;
    let service = store.service();
    let admin = service.admin().await;
    let mut wide = binding();
    wide["table"] = json!("wide");
    let version = admin.put("/schema/binding", wide).await.expect(200).headers["etag"].clone();
    let mark =
        |map: Option<&str>, name: &str| json!({"map": map, "name": name, "filterable": true, "policy": true});
    let mut flag = mark(Some("Labels"), "on");
    flag["type"] = json!("boolean");
    let fields = json!({"fields": [
        mark(None, "Host"), mark(None, "Kind"), mark(None, "Run"), mark(None, "Nick"), mark(None, "Sampled"),
        mark(None, "Events.Name"), mark(Some("Attributes"), "tenant"), mark(Some("Attributes"), "user.id"),
        mark(Some("Flags"), "beta"), mark(Some("Labels"), "team"), flag,
        {"name": "Duration", "filterable": true, "policy": false},
    ]});
    admin.with("if-match", version.to_str().unwrap()).put("/schema/fields", fields).await.expect(200);
    let expression = "Host == \"web-1\" && Kind == \"Server\" && Run == \"61f0c404-5cb3-11e7-907b-a6006ad3dba0\" && Sampled \
        && Events.Name.exists(n, n == \"exception\") && Attributes.tenant == \"acme\" && Attributes.user.id == \"7\" \
        && Flags.beta && Labels[\"team\"] == \"blue\" && Labels.on";
    admin
        .put("/roles/wide", json!({"policies": [{"title": "Wide", "expression": expression}]}))
        .await
        .expect(201);
    let ada = service.user(&admin, "ada", &["wide"]).await;

    let model = admin.get("/schema").await.expect(200).body.to_string();
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (model, user) = (write("model.json", &model), write("user.json", "{\"username\": \"ada\"}"));
    let checked = policy(&["check", "--model", &model, "-"], expression);
    assert_eq!(checked.0, 0, "{}", checked.1);

    // ClickHouse returned the span as matching; the command line must agree when it evaluates the span in the answer.
    let answer = ada.post("/traces/query", json!({})).await.expect(200).body;
    assert_eq!(answer["spans"].as_array().unwrap().len(), 1, "{answer}");
    let arguments =
        ["evaluate", "--model", &model, "--user", &user, "--spans", "-", "--expression", expression];
    let evaluated = policy(&arguments, &answer.to_string());
    assert!(
        evaluated.0 == 0 && evaluated.1.ends_with("1 span: 1 true, 0 false, 0 error\n"),
        "{}\n{answer}",
        evaluated.1
    );
    let request =
        json!({"expression": "Nick == \"x\"", "user": {"username": "ada"}, "spans": answer["spans"]});
    let absent = admin.post("/policies/evaluate", request).await.expect(200).body;
    assert_eq!(absent["results"][0]["detail"], "`Nick` is NULL on this span");
}

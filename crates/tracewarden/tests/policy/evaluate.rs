//! `tracewarden policy evaluate`.

use serde_json::{Value, json};

use crate::policy::{CommandOutput, MODEL, Workspace};

const ADA: &str = "{username: ada, roles: [dev], attributes: {team: payments, lead: true, tenants: [acme]}}";

fn evaluate(expression: &str, spans: &str, more: &[&str]) -> CommandOutput {
    let workspace = Workspace::new(&[
        ("model.yaml", MODEL),
        ("ada.yaml", ADA),
        ("spans.json", spans),
        ("policy.cel", expression),
    ]);
    let arguments =
        ["evaluate", "--model", "model.yaml", "--user", "ada.yaml", "--spans", "spans.json", "policy.cel"];
    workspace.run(&[&arguments, more].concat())
}

#[test]
fn each_span_has_a_verdict_with_its_reasons() {
    let spans = json!([
        {"ServiceName": "checkout", "SpanAttributes": {"env": "prod"}, "Unmarked": 1},
        {"ServiceName": "cart", "SpanAttributes": {}},
    ]);
    let expression = "ServiceName == \"checkout\"\n  || SpanAttributes.env != \"prod\"";
    let ran = evaluate(expression, &spans.to_string(), &[]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(
        ran.output,
        r#"true: on span 1
 --> policy.cel:1:1
  |
1 | ServiceName == "checkout"
  | ^^^^^^^^^^^^^^^^^^^^^^^^^ true: `ServiceName` is "checkout"

error: on span 2
 --> policy.cel:2:6
  |
2 |   || SpanAttributes.env != "prod"
  |      ^^^^^^^^^^^^^^^^^^ error: `SpanAttributes["env"]` is absent on this span

2 spans: 1 true, 0 false, 1 error
"#
    );
}

#[test]
fn json_output_equals_the_answer_of_the_api() {
    let ran = evaluate("!(Nick == \"x\")", "[{\"Nick\": \"x\"}, {\"Nick\": null}]", &["--format", "json"]);
    let answer: Value = serde_json::from_str(&ran.output).unwrap();
    let workspace = json!({"line": 1, "column": 3, "length": 11});
    let decision = &answer["results"][0]["decided_by"][0];
    assert_eq!(answer["results"][0]["outcome"], "false");
    assert_eq!(decision["outcome"], "true");
    assert_eq!(decision["detail"], "`Nick` is \"x\"");
    for member in ["line", "column", "length"] {
        assert_eq!(decision[member], workspace[member]);
    }
    assert_eq!(answer["results"][1]["detail"], "`Nick` is NULL on this span");
}

#[test]
fn answers_of_queries_are_read_unchanged() {
    let answer = json!({
        "schema": {"database": "otel", "table": "otel_traces", "version": 7},
        "spans": [{"Events": [{"Name": "exception"}], "Kind": "Server", "Hash": "abc\0\0\0\0\0", "Attrs": {"user": {"id": "7"}}}],
        "next_cursor": "x",
    });
    let expression =
        "Events.Name == [\"exception\"] && Kind == \"Server\" && Hash == \"abc\" && Attrs.user.id == \"7\"";
    let ran = evaluate(expression, &answer.to_string(), &[]);
    assert!(ran.output.ends_with("1 span: 1 true, 0 false, 0 error\n"), "{ran:?}");
}

#[test]
fn evaluation_errors_have_a_position() {
    let ran = evaluate("ServiceName ==", "[]", &[]);
    assert!(ran.status == 1 && ran.output.contains("error[syntax]"), "{ran:?}");
    let ran = evaluate("ServiceName == \"a\"", "[\n  {\"ServiceName\": 1}\n]", &[]);
    assert_eq!((ran.status, ran.output.as_str()), (2, ""));
    assert_eq!(ran.errors, "tracewarden: spans.json:2:19: expected a string, this is a number\n");
    let ran = evaluate("Kind == \"Server\"", "- Kind: server\n", &[]);
    assert_eq!(
        ran.errors,
        "tracewarden: spans.json:1:3: `server` is not one of the names of the enumeration; did you mean `Server`?\n"
    );
    let workspace = Workspace::new(&[("model.yaml", MODEL), ("user.yaml", "username: ada\nrole: [dev]\n")]);
    let arguments =
        ["evaluate", "--model", "model.yaml", "--user", "user.yaml", "--spans", "-", "--expression", "true"];
    let ran = workspace.run_with(&arguments, "[]");
    assert_eq!(ran.status, 2);
    assert_eq!(ran.errors, "tracewarden: user.yaml:2:1: unknown member `role`; did you mean `roles`?\n");
    let both = ["evaluate", "--model", "model.yaml", "--user", "-", "--spans", "-", "--expression", "true"];
    assert!(workspace.run(&both).errors.contains("only one file"));
}

#[test]
fn misspelt_columns_are_reported() {
    let spans = "[{\"Nick\": \"x\", \"SpanId\": \"1\"}, {\"Nikc\": \"x\"}]";
    let ran = evaluate("Nick == \"x\"", spans, &[]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let note = "span 2 has a column `Nikc` that no field of the access model uses; did you mean `Nick`?";
    assert!(ran.errors.contains(note), "{ran:?}");
    assert_eq!(ran.errors.matches("note").count(), 1, "{ran:?}");
}

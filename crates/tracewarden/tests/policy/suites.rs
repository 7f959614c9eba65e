//! `tracewarden policy test`.

use serde_json::{Value, json};

use crate::policy::{CommandOutput, MODEL, Workspace, documentation, run_in};

/// Returns a file in which every test passes, for tests that change one part of it.
fn suite() -> String {
    format!(
        "{MODEL}roles:
  - name: dev
    policies:
      - title: Own service
        expression: ServiceName == user.attributes.team
      - title: Staging
        expression: SpanAttributes[\"env\"] == \"staging\"
  - name: support
    policies: [{{title: Staging, expression: 'SpanAttributes[\"env\"] == \"staging\"'}}]
policies:
  - {{title: Flagged, expression: SpanAttributes.flag}}
users:
  - {{username: ada, roles: [dev], attributes: {{team: payments}}}}
  - {{username: ben}}
traces:
  - name: two services
    spans:
      - {{ServiceName: cart, SpanAttributes: {{env: prod}}}}
      - {{ServiceName: payments, SpanAttributes: {{flag: 'true'}}}}
tests:
  - {{name: own service, user: ada, trace: two services, visible: true, policies: {{Own service: [false, true]}}}}
  - {{name: no roles, user: ben, trace: two services, visible: false, policies: {{Own service: error}}}}
  - {{name: a flag, user: ben, trace: two services, policies: {{Flagged: [error, true], dev/Staging: [false, error]}}}}
"
    )
}

#[track_caller]
fn changed(from: &str, to: &str) -> CommandOutput {
    let text = suite();
    assert!(text.contains(from), "{from}");
    Workspace::new(&[("cases.yaml", &text.replacen(from, to, 1))]).run(&["test", "cases.yaml"])
}

#[test]
fn the_documented_example_passes() {
    let ran = run_in(&documentation().join("examples"), &["test", "policies.yaml"], "");
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.output.ends_with("\n5 tests passed, 0 failed\n"), "{}", ran.output);
    let page = std::fs::read_to_string(documentation().join("policy-tests.md")).unwrap();
    assert!(
        page.contains(&ran.output.replace("policies.yaml", "docs/examples/policies.yaml")),
        "{}",
        ran.output
    );
}

#[test]
fn expected_results_pass() {
    let ran = Workspace::new(&[("cases.yaml", &suite())]).run(&["test", "cases.yaml"]);
    assert_eq!((ran.status, ran.errors.as_str()), (0, ""));
    assert_eq!(
        ran.output,
        "cases.yaml\n  ok   own service\n  ok   no roles\n  ok   a flag\n3 tests passed, 0 failed\n"
    );
}

#[test]
fn an_unexpectedly_visible_trace_fails_with_the_reason() {
    let ran = changed("visible: true", "visible: false");
    assert_eq!(ran.status, 1);
    assert_eq!(
        ran.output,
        r#"cases.yaml
  FAIL own service

       the trace, for `ada`: expected hidden, got visible

         true: on span 2
          --> cases.yaml:15, policy `dev/Own service`:1:1
           |
         1 | ServiceName == user.attributes.team
           | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ true: `ServiceName` is "payments", `user.attributes["team"]` is "payments"

  ok   no roles
  ok   a flag
2 tests passed, 1 failed
"#
    );
}

#[test]
fn an_unexpectedly_hidden_trace_fails_with_the_reason() {
    let ran = changed("team: payments", "team: payment");
    assert_eq!(ran.status, 1);
    for part in [
        "the trace, for `ada`: expected visible, got hidden",
        "`user.attributes[\"team\"]` is \"payment\"",
        "policy `dev/Staging`:1:1",
        "policy `dev/Own service` on span 2: expected true, got false",
    ] {
        assert!(ran.output.contains(part), "{part}: {}", ran.output);
    }
}

#[test]
fn an_evaluation_error_is_not_false() {
    let ran = changed("Own service: error", "Own service: false");
    assert_eq!(ran.status, 1);
    let expected = "policy `dev/Own service` on span 1: expected false, got error";
    assert!(ran.output.contains(expected), "{}", ran.output);
    assert!(ran.output.contains("the caller has no attribute `team`"), "{}", ran.output);
}

#[test]
fn roles_of_other_users_grant_nothing() {
    let ran = changed("roles: [dev]", "roles: [support]");
    assert!(ran.output.contains("expected visible, got hidden"), "{}", ran.output);
    assert!(!ran.output.contains("dev/Staging"), "{}", ran.output);
}

#[test]
fn users_without_policies_are_reported() {
    let ran = changed("visible: false", "visible: true");
    assert_eq!(ran.status, 1);
    let expected_text = "the trace, for `ben`: expected visible, got hidden\n\n         `ben` has no roles, and so no policy\n";
    assert!(ran.output.contains(expected_text), "{}", ran.output);
    let ran = changed("attributes: {team: payments}", "attributes: {}").output;
    assert!(!ran.contains("no policy"), "{ran}");
    let ran = changed("roles: [dev]", "roles: [admin]").output;
    assert!(ran.contains("\n         `ada` has no policy: there is none in `admin`\n"), "{ran}");
}

/// The service accepts such a role.
#[test]
fn policies_of_a_role_may_have_one_title() {
    let ran = changed("title: Staging", "title: Own service");
    assert!(ran.status == 2 && ran.errors.contains("several policies are called `Own service`"), "{ran:?}");
    assert!(!ran.errors.contains("twice"), "{ran:?}");
    let text = format!(
        "{MODEL}roles: [{{name: r, policies: [{{title: A, expression: 'Nick == \"a\"'}}, {{title: A, expression: 'Nick == \
         \"b\"'}}]}}]\nusers: [{{username: u, roles: [r]}}]\ntests: [{{name: b, user: u, spans: [{{Nick: b}}], visible: true}}]\n"
    );
    let ran = Workspace::new(&[("cases.yaml", &text)]).run(&["test", "cases.yaml"]);
    assert_eq!(ran.status, 0, "{ran:?}");
}

#[test]
fn decisions_are_shown_with_their_line_of_the_file() {
    let expression =
        "|\n          ServiceName == user.attributes.team\n            && ServiceName == \"cart\"\n";
    let ran = changed("ServiceName == user.attributes.team\n", expression);
    assert_eq!(ran.status, 1);
    assert!(ran.output.contains("--> cases.yaml:17, policy `dev/Own service`:2:6"), "{}", ran.output);
}

#[test]
fn results_are_available_as_json() {
    let text = suite().replacen("visible: true", "visible: false", 1);
    let ran = Workspace::new(&[("a.yaml", &text), ("b.yaml", &suite())])
        .run(&["test", "--format", "json", "a.yaml", "b.yaml"]);
    assert_eq!(ran.status, 1);
    let results: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!((&results["passed"], &results["failed"]), (&json!(5), &json!(1)));
    assert_eq!(results["files"][1]["file"], "b.yaml");
    let failure = &results["files"][0]["tests"][0]["failures"][0];
    assert_eq!((&failure["expected"], &failure["got"]), (&json!("hidden"), &json!("visible")));
}

#[test]
fn the_model_may_be_another_file() {
    let without = suite().replacen(MODEL, "model: ../model.yaml\n", 1);
    let workspace = Workspace::new(&[("model.yaml", MODEL), ("tests/cases.yaml", &without)]);
    let ran = workspace.run(&["test", "tests/cases.yaml"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let workspace = Workspace::new(&[("model.yaml", MODEL), ("cases.yaml", &without)]);
    assert_eq!(workspace.run(&["test", "--model", "model.yaml", "cases.yaml"]).status, 0);
    let ran = workspace.run(&["test", "cases.yaml"]);
    assert!(ran.status == 2 && ran.errors.contains("../model.yaml: cannot be read"), "{ran:?}");
}

#[test]
fn tests_that_cannot_be_run_do_not_pass() {
    let troubled = |from: &str, to: &str, message: &str| {
        let ran = changed(from, to);
        assert_eq!((ran.status, ran.output.as_str()), (2, ""), "{to}: {ran:?}");
        assert!(ran.errors.contains(message), "{to}: {}", ran.errors);
    };
    troubled(
        "user: ada, trace",
        "user: adda, trace",
        "cases.yaml:31:25: no user `adda`; did you mean `ada`?",
    );
    troubled(
        "trace: two services",
        "trace: two service",
        ":31:36: no trace `two service`; did you mean `two services`?",
    );
    troubled("{Own service: error}", "{Own servic: error}", "no policy `Own servic`; did you mean");
    troubled(
        "dev/Staging",
        "Staging",
        "several roles have a policy `Staging`: write `dev/Staging` or `support/Staging`",
    );
    troubled("title: Flagged", "title: dev/Staging", "several policies are called `dev/Staging`: to test");
    troubled("name: support", "name: dev", "cases.yaml:18:5: a role with this name is already listed");
    troubled("{Own service: error}", "{}", ":32:70: no policy is listed, so nothing would be tested");
    troubled("[false, true]", "[true]", "the test has 2 spans, but this list has 1 outcome");
    troubled("[false, true]", "[false, perhaps]", "expected `true`, `false`, `error`");
    troubled("roles: [dev]", "roles: [deb]", "no role `deb`; did you mean `dev`?");
    troubled("visible: false, policies: {Own service: error}", "visible: 'no'", "expected a boolean");
    troubled(", visible: false, policies: {Own service: error}", "", "`visible` or `policies`");
    troubled("ServiceName: cart", "ServiceName: [cart]", ":28:10: expected a string, this is an array");
    troubled("visible: true", "visibel: true", "unknown member `visibel`; did you mean `visible`?");
    troubled("ServiceName == user", "ServiceNam == user", "error[unmarked_field]");
    troubled("name: no roles", "name: own service", ":32:6: `own service` appears twice");
    troubled("username: ben", "username: ada", "`ada` appears twice");
    troubled("tests:\n", "test: []\ntests:\n", "unknown member `test`; did you mean `tests`?");
    for (test, workspace) in [
        ("trace: t", ":12:20"),
        ("spans: [], visible: false", ":14:30"),
        ("spans: [], policies: {Loose: true}", ":14:30"),
    ] {
        let text = format!(
            "{MODEL}policies: [{{title: Loose, expression: 'true'}}]\ntraces: [{{name: t, spans: []}}]\nusers: [{{username: \
             eve}}]\ntests: [{{name: a, user: eve, {test}}}]\n"
        );
        let ran = Workspace::new(&[("cases.yaml", &text)]).run(&["test", "cases.yaml"]);
        let expected_text = format!("cases.yaml{workspace}: a trace needs at least one span");
        assert!(
            ran.status == 2 && ran.output.is_empty() && ran.errors.contains(&expected_text),
            "{expected_text}: {ran:?}"
        );
    }
    let empty = format!("{MODEL}tests: []\n");
    let ran = Workspace::new(&[("cases.yaml", &empty)]).run(&["test", "cases.yaml"]);
    assert!(ran.status == 2 && ran.errors.contains("there are no `tests`"), "{ran:?}");
}

#[test]
fn a_policy_that_the_service_could_not_apply_grants_nothing() {
    let many: Vec<String> = (0..900).map(|number| format!("t{number}")).collect();
    let expression =
        "user.attributes.many.exists_one(a, ServiceName.startsWith(a) || SpanAttributes.env == a)";
    let text = suite()
        .replacen("team: payments", &format!("team: payments, many: [{}]", many.join(", ")), 1)
        .replacen("ServiceName == user.attributes.team", expression, 1);
    let ran = Workspace::new(&[("cases.yaml", &text)]).run(&["test", "cases.yaml"]);
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.output.contains("got refused: policy `dev/Own service` is too large"), "{}", ran.output);
}

#[test]
fn the_example_of_the_help_passes() {
    let workspace = Workspace::new(&[]);
    let help = workspace.run(&["test", "--help"]).output;
    let (_, rest) = help.split_once("\nA file:\n").unwrap();
    let (example, _) = rest.split_once("\nExit status").unwrap();
    let text: String =
        example.lines().map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line))).collect();
    let ran = Workspace::new(&[("cases.yaml", &text)]).run(&["test", "cases.yaml"]);
    assert!(ran.status == 0 && ran.output.ends_with("1 test passed, 0 failed\n"), "{ran:?}\n{text}");
}

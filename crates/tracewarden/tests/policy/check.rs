//! `tracewarden policy check`.

use serde_json::{Value, json};

use crate::policy::{MODEL, Workspace};

#[test]
fn valid_policies_are_reported_with_their_fields() {
    let workspace = Workspace::new(&[("model.yaml", MODEL), ("own.cel", "ServiceName == \"checkout\"\n")]);
    let ran = workspace.run(&["check", "--model", "model.yaml", "own.cel"]);
    assert_eq!((ran.status, ran.output.as_str()), (0, "own.cel: valid, reads ServiceName\n"), "{ran:?}");
    let ran = workspace.run_with(&["check", "--model", "model.yaml", "-"], "Attrs.user.id == \"a\"");
    assert_eq!((ran.status, ran.output.as_str()), (0, "standard input: valid, reads Attrs[\"user.id\"]\n"));
}

#[test]
fn errors_are_shown_at_their_position() {
    let workspace = Workspace::new(&[("model.yaml", MODEL)]);
    let ran = workspace.run(&["check", "--model", "model.yaml", "--expression", "ServiceNam == \"a\""]);
    assert_eq!(ran.status, 1);
    let output = &ran.output;
    assert!(output.starts_with("error[unmarked_field]: `ServiceNam` is not a field"), "{output}");
    assert!(output.contains("\n --> expression:1:1\n"), "{output}");
    assert!(output.contains("\n1 | ServiceNam == \"a\"\n  | ^^^^^^^^^^\n"), "{output}");
    assert!(output.contains("`ServiceName`"), "{output}");
    assert!(output.ends_with("expression: not valid\n"), "{output}");
    let ran = workspace.run(&["check", "--model", "model.yaml", "--expression", "Duration > 5"]);
    assert!(ran.status == 1 && ran.output.contains("error[number_field]"), "{ran:?}");
}

#[test]
fn warnings_fail_only_if_requested() {
    let workspace = Workspace::new(&[("model.yaml", MODEL), ("all.cel", "true")]);
    let ran = workspace.run(&["check", "--model", "model.yaml", "all.cel"]);
    assert_eq!(ran.status, 0);
    assert!(ran.output.starts_with("warning[constant]: "), "{}", ran.output);
    assert!(ran.output.ends_with("all.cel: valid\n"), "{}", ran.output);
    assert_eq!(workspace.run(&["check", "--strict", "--model", "model.yaml", "all.cel"]).status, 1);
}

#[test]
fn sql_is_compiled_for_the_given_user() {
    let user = "{\"username\": \"ada\", \"attributes\": {\"team\": \"it's\"}}";
    let workspace = Workspace::new(&[("model.yaml", MODEL), ("ada.json", user)]);
    let expression = "ServiceName == user.attributes.team";
    let sql = |more: &[&str]| {
        let arguments = ["check", "--model", "model.yaml", "--sql", "--expression", expression];
        let ran = workspace.run(&[&arguments, more].concat());
        assert_eq!(ran.status, 0, "{ran:?}");
        ran.output.lines().last().unwrap().to_owned()
    };
    assert_eq!(sql(&["--user", "ada.json"]), "  in ClickHouse: (`ServiceName` = 'it\\'s')");
    assert_eq!(sql(&[]), "  in ClickHouse: 0");
}

#[test]
fn all_policies_of_a_file_are_checked() {
    let roles = format!(
        "{MODEL}roles:\n  - name: dev\n    policies:\n      - {{title: One, expression: 'ServiceName == \"a\"'}}\n      \
         - {{title: Two, expression: 'Nope == \"a\"'}}\npolicies:\n  - {{title: Loose, expression: 'Nick != \"x\"'}}\n"
    );
    let workspace =
        Workspace::new(&[("roles.yaml", &roles), ("other.json", "{\"fields\": [{\"name\": \"Nope\"}]}")]);
    let ran = workspace.run(&["check", "roles.yaml"]);
    assert_eq!(ran.status, 1);
    let lines: Vec<&str> = ran.output.lines().filter(|line| line.starts_with("roles.yaml")).collect();
    assert_eq!(
        lines,
        [
            "roles.yaml, role `dev`, policy `One`: valid, reads ServiceName",
            "roles.yaml, role `dev`, policy `Two`: not valid",
            "roles.yaml, policy `Loose`: valid, reads Nick",
        ]
    );
    // The given model takes precedence.
    let ran = workspace.run(&["check", "--model", "other.json", "--format", "json", "roles.yaml"]);
    let results: Value = serde_json::from_str(&ran.output).unwrap();
    let valid: Vec<&Value> = results.as_array().unwrap().iter().map(|result| &result["valid"]).collect();
    assert_eq!(valid, [&json!(false), &json!(true), &json!(false)]);
    assert_eq!(results[1]["fields"], json!(["Nope"]));
    let error = &results[0]["errors"][0];
    assert_eq!((&error["line"], &error["column"], &error["length"]), (&json!(1), &json!(1), &json!(11)));
}

#[test]
fn results_are_reported_despite_errors_in_other_files() {
    let roles = format!("{MODEL}policies: [{{title: One, expression: 'Nope == \"a\"'}}]\n");
    let workspace = Workspace::new(&[("a.yaml", &roles), ("b.yaml", "roles: [\n"), ("c.yaml", &roles)]);
    let ran = workspace.run(&["check", "a.yaml", "b.yaml", "nothing.yaml", "c.yaml"]);
    assert_eq!(ran.status, 2);
    for name in ["a", "c"] {
        assert!(ran.output.contains(&format!("{name}.yaml, policy `One`: not valid\n")), "{}", ran.output);
        assert!(ran.output.contains(&format!("--> {name}.yaml:11, policy `One`:1:1\n")), "{}", ran.output);
    }
    assert!(ran.errors.starts_with("tracewarden: b.yaml:2:1: not YAML"), "{}", ran.errors);
    assert!(ran.errors.contains("\ntracewarden: nothing.yaml: cannot be read"), "{}", ran.errors);
    let ran = workspace.run(&["check", "--format", "json", "a.yaml", "b.yaml"]);
    let results: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!((ran.status, &results[0]["valid"]), (2, &json!(false)));
}

#[test]
fn an_error_is_shown_with_its_line_of_the_file() {
    let origin = |expression: &str| {
        let text = format!("{MODEL}policies:\n  - title: One\n    expression: {expression}\n");
        let ran = Workspace::new(&[("a.yaml", &text)]).run(&["check", "a.yaml"]);
        assert_eq!(ran.status, 1, "{ran:?}");
        let origin = ran.output.lines().find(|line| line.starts_with(" --> ")).unwrap();
        origin.strip_prefix(" --> a.yaml").unwrap().to_owned()
    };
    assert_eq!(origin("Nope == 'a'"), ":13, policy `One`:1:1");
    assert_eq!(origin("'true && Nope == \"a\"'"), ":13, policy `One`:1:9");
    assert_eq!(origin("|-\n\n      true\n        && Nope == \"a\""), ":16, policy `One`:3:6");
    // The lines of these texts are not lines of the file.
    assert_eq!(origin("true &&\n      Nope == 'a'"), ", policy `One`:1:9");
    assert_eq!(origin("\"true &&\\nNope == 'a'\""), ", policy `One`:2:1");
}

#[test]
fn names_of_roles_and_policies_are_unique_in_a_file() {
    let text = format!("{MODEL}roles:\n  - {{name: a, policies: []}}\n  - {{name: a, policies: []}}\n");
    let ran = Workspace::new(&[("a.yaml", &text)]).run(&["check", "a.yaml"]);
    let expected_text = "tracewarden: a.yaml:13:6: a role with this name is already listed\n";
    assert_eq!((ran.status, ran.errors.as_str()), (2, expected_text));
    let policy = "{title: A, expression: 'Nick == \"a\"'}";
    let text = format!("{MODEL}policies: [{policy}, {policy}]\n");
    let ran = Workspace::new(&[("a.yaml", &text)]).run(&["check", "a.yaml"]);
    assert!(ran.status == 2 && ran.errors.contains("a policy with this title is already listed"), "{ran:?}");
    // As in the service.
    let text = format!("{MODEL}roles: [{{name: a, policies: [{policy}, {policy}]}}]\n");
    assert_eq!(Workspace::new(&[("a.yaml", &text)]).run(&["check", "a.yaml"]).status, 0);
}

#[test]
fn policies_that_cannot_be_checked_are_neither_valid_nor_invalid() {
    let workspace =
        Workspace::new(&[("model.yaml", MODEL), ("empty.yaml", "fields: []\n"), ("a.cel", "true")]);
    let troubled = |arguments: &[&str], part: &str| {
        let ran = workspace.run(&[&["check"], arguments].concat());
        assert_eq!(ran.status, 2, "{ran:?}");
        assert!(ran.output.is_empty() && ran.errors.contains(part), "{ran:?}");
    };
    troubled(&["a.cel"], "--model");
    troubled(&["--model", "nothing.yaml", "a.cel"], "nothing.yaml: cannot be read");
    troubled(&["--model", "model.yaml", "nothing.cel"], "nothing.cel: cannot be read");
    troubled(&["empty.yaml"], "neither roles nor policies");
    troubled(&["--model", "model.yaml"], "<FILE>");
    troubled(&["--model", "model.yaml", "--expression", "true", "a.cel"], "cannot be used with");
}

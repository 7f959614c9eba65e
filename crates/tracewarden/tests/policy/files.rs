//! Rules for all input files.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::policy::{MODEL, Workspace};

fn refused(name: &str, text: &str) -> String {
    let ran = Workspace::new(&[(name, text)]).run(&["check", "--model", name, "--expression", "true"]);
    assert_eq!((ran.status, ran.output.as_str()), (2, ""), "{text:?}: {ran:?}");
    ran.errors
}

#[test]
fn ambiguous_documents_are_rejected() {
    for (text, message) in [
        (
            "fields: &all [{name: a}]\n",
            "tracewarden: m.yaml:1:9: anchors are not supported: write the value out\n",
        ),
        ("fields: []\nfields: []\n", "tracewarden: m.yaml:2:1: `fields` appears twice\n"),
        (
            "fields: !!seq []\n",
            "tracewarden: m.yaml:1:9: tags are not supported: write the value without a tag\n",
        ),
        (
            "fields:\n  - {name: a, policy: yes}\n",
            "tracewarden: m.yaml:2:23: YAML parsers interpret `yes` in different ways",
        ),
        ("fields: [\n", "tracewarden: m.yaml:2:1: not YAML: "),
        ("", "tracewarden: m.yaml:1:1: the document is empty\n"),
        ("roles: []\n", "tracewarden: m.yaml: contains no access model: `fields` is missing\n"),
    ] {
        let errors = refused("m.yaml", text);
        assert!(errors.starts_with(message), "{text:?}: {errors}");
    }
    let errors = refused("m.json", "{\"fields\": [\n  {\"name\": \"a\"]\n}");
    assert!(errors.starts_with("tracewarden: m.json:2:15: not JSON: "), "{errors}");
}

#[test]
fn names_are_sanitized_for_the_terminal() {
    let text = "fields: []\nroles:\n  - name: \"\\e[2J\\u202e\"\n    policies: [{title: \"\\e[31m\", expression: 'nope'}]\n";
    let ran = Workspace::new(&[("roles.yaml", text)]).run(&["check", "roles.yaml"]);
    assert_eq!(ran.status, 1);
    assert!(!ran.output.contains(['\u{1b}', '\u{202e}']), "{:?}", ran.output);
}

#[test]
fn values_are_sanitized_for_the_terminal() {
    let model = "fields: [{name: ServiceName}, {map: M, name: \"k\\u202e\"}]\n";
    let spans = r#"[{"ServiceName": "a\u202eb\u001b[2J", "M": {}}]"#;
    let files = [("m.yaml", model), ("u.yaml", "{username: \"a\\u200b\"}"), ("s.json", spans)];
    let expression = "ServiceName == \"x\" || user.username == \"y\" || M[\"k\\u202e\"] == \"z\"";
    let arguments = [
        "evaluate",
        "--model",
        "m.yaml",
        "--user",
        "u.yaml",
        "--spans",
        "s.json",
        "--expression",
        expression,
    ];
    let ran = Workspace::new(&files).run(&arguments);
    assert!(ran.output.contains("M[\"k\\u202e\"]` is absent"), "{ran:?}");
    assert!(!ran.output.contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{:?}", ran.output);
    let expression = expression.replace(" || M[\"k\\u202e\"] == \"z\"", "");
    let ran = Workspace::new(&files).run(&[&arguments[..8], &[&expression]].concat());
    assert!(ran.output.contains("`ServiceName` is \"a\\u202eb\\u001b[2J\""), "{ran:?}");
    assert!(!ran.output.contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{:?}", ran.output);
}

#[test]
fn expressions_that_yaml_misreads_get_advice() {
    let expected_text = "put an expression in single quotes, or on the lines after `|`\n";
    for (expression, message) in [
        ("!(ServiceName == \"a\")", "5:21: tags are not supported: "),
        ("\"x\" in user.roles", "5:25: not YAML: invalid trailing content after double-quoted scalar; "),
        (
            "SpanAttributes[\"env\"] == \"b: c\"",
            "5:48: not YAML: mapping values are not allowed in this context; ",
        ),
    ] {
        let policies = |text: &str| {
            format!("roles:\n  - name: r\n    policies:\n      - title: t\n        expression: {text}\n")
        };
        let workspace = Workspace::new(&[
            ("model.yaml", MODEL),
            ("plain.yaml", &policies(expression)),
            ("quoted.yaml", &policies(&format!("'{expression}'"))),
            ("lines.yaml", &policies(&format!("|\n          {expression}"))),
        ]);
        let ran = workspace.run(&["check", "--model", "model.yaml", "plain.yaml"]);
        assert_eq!(
            (ran.status, ran.errors),
            (2, format!("tracewarden: plain.yaml:{message}{expected_text}")),
            "{expression}"
        );
        assert_eq!(workspace.run(&["check", "--model", "model.yaml", "quoted.yaml", "lines.yaml"]).status, 0);
    }
}

/// In YAML, each of these is folded into one line, so CEL would ignore everything after the comment.
#[test]
fn a_comment_cannot_hide_the_rest_of_an_expression() {
    let text = |sign: &str| {
        format!(
            "{MODEL}policies:\n  - title: t\n    expression: {sign}ServiceName == \"a\" // ours\n      && Nick == \"b\"\n"
        )
    };
    let check = |text: &str| Workspace::new(&[("a.yaml", text)]).run(&["check", "a.yaml"]);
    for sign in ["", ">\n      "] {
        let ran = check(&text(sign));
        let expected_text = "tracewarden: a.yaml:13:5: YAML joins the lines of this expression";
        assert!(ran.status == 2 && ran.errors.starts_with(expected_text), "{ran:?}");
    }
    let ran = check(&text("|\n      "));
    assert_eq!(
        (ran.status, ran.output.as_str()),
        (0, "a.yaml, policy `t`: valid, reads Nick, ServiceName\n")
    );
}

#[test]
fn the_standard_input_is_read_once() {
    let workspace = Workspace::new(&[("model.yaml", MODEL), ("u.yaml", "{username: a}"), ("a.cel", "true")]);
    for arguments in [
        &["check", "--model", "-", "-"][..],
        &["check", "--model", "model.yaml", "--user", "-", "-"],
        &["check", "--model", "model.yaml", "-", "-"],
        &["check", "--model", "-", "--user", "-", "a.cel"],
        &["test", "-", "-"],
        &["test", "--model", "-", "-"],
        &["evaluate", "--model", "-", "--user", "u.yaml", "--spans", "-", "a.cel"],
    ] {
        let ran = workspace.run_with(arguments, MODEL);
        let expected_text = "tracewarden: only one file can be read from the standard input\n";
        assert_eq!((ran.status, ran.errors.as_str()), (2, expected_text), "{arguments:?}");
    }
    assert_eq!(workspace.run_with(&["check", "--model", "-", "a.cel"], MODEL).status, 0);
    // `-` in a file names a file.
    let workspace =
        Workspace::new(&[("r.yaml", "model: '-'\npolicies: [{title: a, expression: 'Nick == \"a\"'}]\n")]);
    let ran = workspace.run_with(&["check", "r.yaml"], MODEL);
    assert!(ran.status == 2 && ran.errors.contains("./-: cannot be read"), "{ran:?}");
}

#[test]
fn a_byte_order_mark_is_not_part_of_a_policy() {
    let workspace = Workspace::new(&[("model.yaml", MODEL), ("a.cel", "\u{feff}Nick == \"a\"")]);
    let ran = workspace.run(&["check", "--model", "model.yaml", "a.cel"]);
    assert_eq!((ran.status, ran.output.as_str()), (0, "a.cel: valid, reads Nick\n"), "{ran:?}");
}

/// A lost report would look like an empty one.
#[test]
fn unwritable_output_is_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("model.yaml"), MODEL).unwrap();
    let run = |output: Stdio, errors: Stdio| {
        Command::new(env!("CARGO_BIN_EXE_tracewarden"))
            .args(["policy", "check", "--model", "model.yaml", "--expression", "Nick == 'a'"])
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap()
    };
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let ended = run(full(), Stdio::piped()).wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert!(errors.starts_with("tracewarden: the results cannot be written: "), "{errors}");
    // There is no panic either if the errors cannot be written.
    assert_eq!(run(full(), full()).wait().unwrap().code(), Some(2));
    // A reader may close the pipe early.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = run(Stdio::from(writer), Stdio::piped());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(errors, "");
}

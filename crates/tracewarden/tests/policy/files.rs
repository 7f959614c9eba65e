//! What holds for all files.

use crate::Place;

fn refused(name: &str, text: &str) -> String {
    let ran = Place::new(&[(name, text)]).run(&["check", "--model", name, "--expression", "true"]);
    assert_eq!((ran.status, ran.output.as_str()), (2, ""), "{text:?}: {ran:?}");
    ran.errors
}

#[test]
fn a_document_that_can_be_read_in_two_ways_is_not_read() {
    for (text, message) in [
        (
            "fields: &all [{name: a}]\n",
            "tracewarden: m.yaml:1:9: anchors are not read: write the value out\n",
        ),
        ("fields: []\nfields: []\n", "tracewarden: m.yaml:2:1: `fields` is there twice\n"),
        ("fields: !!seq []\n", "tracewarden: m.yaml:1:9: tags are not read: write the value without\n"),
        (
            "fields:\n  - {name: a, policy: yes}\n",
            "tracewarden: m.yaml:2:23: readers of YAML take `yes` for different things",
        ),
        ("fields: [\n", "tracewarden: m.yaml:2:1: not YAML: "),
        ("", "tracewarden: m.yaml:1:1: the document is empty\n"),
        ("roles: []\n", "tracewarden: m.yaml: holds no access model: there are no `fields`\n"),
    ] {
        let errors = refused("m.yaml", text);
        assert!(errors.starts_with(message), "{text:?}: {errors}");
    }
    let errors = refused("m.json", "{\"fields\": [\n  {\"name\": \"a\"]\n}");
    assert!(errors.starts_with("tracewarden: m.json:2:15: not JSON: "), "{errors}");
}

#[test]
fn a_terminal_is_not_deceived_by_names() {
    let text = "fields: []\nroles:\n  - name: \"\\e[2J\\u202e\"\n    policies: [{title: \"\\e[31m\", expression: 'nope'}]\n";
    let ran = Place::new(&[("roles.yaml", text)]).run(&["check", "roles.yaml"]);
    assert_eq!(ran.status, 1);
    assert!(!ran.output.contains(['\u{1b}', '\u{202e}']), "{:?}", ran.output);
}

#[test]
fn a_terminal_is_not_deceived_by_values() {
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
    let ran = Place::new(&files).run(&arguments);
    assert!(ran.output.contains("M[\"k\\u202e\"]` is absent"), "{ran:?}");
    assert!(!ran.output.contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{:?}", ran.output);
    let expression = expression.replace(" || M[\"k\\u202e\"] == \"z\"", "");
    let ran = Place::new(&files).run(&[&arguments[..8], &[&expression]].concat());
    assert!(ran.output.contains("`ServiceName` is \"a\\u202eb\\u001b[2J\""), "{ran:?}");
    assert!(!ran.output.contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{:?}", ran.output);
}

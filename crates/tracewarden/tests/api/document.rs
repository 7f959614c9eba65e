//! `/openapi.json`.

use std::path::Path;

use tracewarden_model::{LogicalType, Operands, Operator};
use tracewarden_testkit::policies::column_types::{
    NUMBER_TYPES, TypeDescription, describe_number, describe_text, text_types,
};

use crate::support::Service;

/// Checks that a committed document equals the result of `current`; with `UPDATE_DOCS` in the environment, writes it
/// instead.
#[track_caller]
pub fn committed(name: &str, current: impl FnOnce(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let current = current(&committed);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&path, current).unwrap();
    }
    assert!(
        committed == current,
        "docs/{name}: run `UPDATE_DOCS=1 cargo test -p tracewarden --test api the_committed`"
    );
}

/// As [`committed`], for the part of a document between the marks of generated text.
#[track_caller]
pub fn committed_part(name: &str, part: &str) {
    committed(name, |text| {
        let (begin, end) = ("<!-- generated -->\n\n", "\n<!-- end of generated part -->");
        let (head, rest) = text.split_once(begin).unwrap();
        let (_, tail) = rest.split_once(end).unwrap();
        format!("{head}{begin}{part}{end}{tail}")
    });
}

#[test]
fn the_committed_table_of_operators_is_current() {
    let mut table = "| operator | types | operands in | meaning |\n|---|---|---|---|\n".to_owned();
    for operator in Operator::ALL {
        let types: Vec<&str> = operator.types().iter().map(|logical| logical.as_str()).collect();
        let operands = match operator.operands() {
            Operands::None => "",
            Operands::One => "`value`",
            Operands::List => "`values`",
            Operands::Range => "`values`, two numbers",
        };
        let (types, meaning) = (types.join(", "), operator.meaning());
        table.push_str(&format!("| `{operator}` | {types} | {operands} | {meaning} |\n"));
    }
    committed_part("searching.md", &table);
}

#[test]
fn the_committed_table_of_types_is_current() {
    let texts = text_types().map(|text_type| (describe_text(&text_type), LogicalType::String));
    let numbers = NUMBER_TYPES.map(|number_type| (describe_number(number_type), LogicalType::Number));
    let mut table =
        "| ClickHouse type | logical type | the value | an error |\n|---|---|---|---|\n".to_owned();
    for (TypeDescription { names, value, error }, logical) in texts.into_iter().chain(numbers) {
        table.push_str(&format!("| {names} | {logical} | {value} | {error} |\n"));
    }
    committed_part("fields.md", &table);
}

#[tokio::test]
async fn the_committed_document_is_current() {
    // With a public URL, as outside of a laptop.
    let service = Service::start_with(&[("TRACEWARDEN_PUBLIC_URL", "https://traces.example.com")]);
    let answer = service.anonymous().get("/openapi.json").await.expect(200);
    committed("openapi.json", |_| String::from_utf8(answer.bytes).unwrap() + "\n");
}

#[tokio::test]
async fn references_resolve_and_operations_state_their_access() {
    let service = Service::start();
    let document = service.anonymous().get("/openapi.json").await.expect(200).body;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
    let mut names = std::collections::BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(operation["security"].is_array(), "{method} {path}");
            assert!(names.insert(operation["operationId"].as_str().unwrap()), "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path}");
            let responses = operation["responses"].as_object().unwrap();
            // Each status is listed: a catch-all would make the list worthless.
            assert!(responses.keys().all(|status| status.parse::<u16>().is_ok()), "{method} {path}");
            for (status, response) in responses.iter().filter(|(status, _)| ***status >= *"400") {
                let content = response["content"].as_object().unwrap();
                assert!(content.keys().eq(["application/problem+json"]), "{method} {path} {status}");
            }
        }
    }
}

/// Such a schema would accept no value: the closed part rejects the members of the others.
#[tokio::test]
async fn no_combined_schema_has_a_closed_part() {
    let service = Service::start();
    let document = service.anonymous().get("/openapi.json").await.expect(200).body;
    let mut combined = 0;
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for part in schema["allOf"].as_array().into_iter().flatten() {
            let part = part["$ref"].as_str().map_or(part, |at| document.pointer(&at[1..]).unwrap());
            assert!(part["additionalProperties"] != false, "{name}");
            combined += 1;
        }
    }
    assert!(combined > 0);
}

#[test]
fn answers_that_are_not_in_the_document_are_found() {
    use crate::support::openapi_check::check;
    let found = |asked: &'static str, status| std::panic::catch_unwind(|| check(asked, status)).is_err();
    assert!(!found("DELETE /users/ada", 409) && !found("GET /users?limit=1", 200));
    assert!(found("DELETE /users/ada", 200) && found("GET /users?limit=1", 404) && found("GET /me", 409));
    // Requests to unknown routes have no operation in the document.
    assert!(!found("PUT /users", 405) && !found("GET /nothing", 404) && !found("GET /users/", 404));
}

//! Tests the examples in the documentation: each line of CEL is accepted without a warning, or has the error or
//! warning that its comment states. Every kind of diagnostic is documented.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{field, model};
use tracewarden_model::{AccessModel, FieldRef, LogicalType};
use tracewarden_policy::{ERRORS, WARNINGS, check};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The test model with the fields used in the examples.
fn documented_model() -> AccessModel {
    let mut model = model();
    for reference in [
        FieldRef::column("SpanName"),
        FieldRef::key("ResourceAttributes", "service.namespace"),
        FieldRef::key("SpanAttributes", "deployment.environment"),
        FieldRef::key("SpanAttributes", "team"),
    ] {
        model.fields.push(field(reference, LogicalType::String, "String"));
    }
    model
}

/// Returns the lines of CEL in a document.
fn examples(text: &str) -> Vec<&str> {
    let blocks = text.split("```cel\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("```").next().unwrap_or_default().lines());
    lines.filter(|line| !line.trim().is_empty()).collect()
}

#[test]
fn documented_examples_are_correct() {
    let model = documented_model();
    let mut seen = 0;
    for entry in fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        for line in examples(&fs::read_to_string(&path).unwrap()) {
            seen += 1;
            let (expression, said) = line.split_once(" // ").unwrap_or((line, ""));
            let found = match check(expression, &model) {
                Err(errors) => format!("refused: {}", errors[0].code),
                Ok(checked) => match checked.warnings().first() {
                    Some(warning) => format!("warned: {}", warning.code),
                    None => String::new(),
                },
            };
            assert_eq!(found, said.trim(), "{}: {expression}", path.display());
        }
    }
    assert!(seen > 45, "{seen}");
}

#[test]
fn every_kind_of_diagnostic_is_explained() {
    let text = fs::read_to_string(directory().join("policies.md")).unwrap();
    let explained: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |").map(|(code, _)| code))
        .filter(|code| code.chars().all(|character| character == '_' || character.is_ascii_lowercase()))
        .collect();
    for code in ERRORS.iter().chain(WARNINGS) {
        assert_eq!(explained.iter().filter(|known| *known == code).count(), 1, "{code}");
    }
    for code in explained {
        assert!(ERRORS.contains(&code) || WARNINGS.contains(&code), "{code}");
    }
}

/// An unlisted code would count as an error, even if it is a warning.
#[test]
fn every_code_that_is_used_is_in_the_list() {
    let mut pending = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics")];
    let mut seen = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        for line in fs::read_to_string(path).unwrap().lines() {
            let rest = line.strip_prefix("error[").or_else(|| line.strip_prefix("warning["));
            if let Some((code, _)) = rest.and_then(|rest| rest.split_once("]: ")) {
                assert!(ERRORS.contains(&code) || WARNINGS.contains(&code), "{code}");
                seen.push(code.to_owned());
            }
        }
    }
    assert!(seen.len() > 200, "{}", seen.len());
}

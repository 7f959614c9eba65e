//! Tests the messages about policies that are wrong or probably not intended. Each file in `diagnostics/` contains
//! expressions and their diagnostics. `UPDATE_DOCS=1 cargo test -p tracewarden-policy --test suite diagnostics::` updates the
//! files; then read them as a user who writes a first policy would.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{field, model};
use tracewarden_model::{AccessModel, FieldRef, FieldSource, LogicalType};
use tracewarden_policy::{check, role_warnings};

const EXPRESSION: &str = ">>> ";
const ANOTHER: &str = "+++ ";
const CONTINUED: &str = "||| ";

fn wide_model() -> AccessModel {
    let mut model = model();
    let key = |map: &str, key: &str| field(FieldRef::key(map, key), LogicalType::String, "String");
    model.fields.extend([
        field(FieldRef::column("SpanName"), LogicalType::String, "LowCardinality(String)"),
        key("ResourceAttributes", "service.namespace"),
        key("ResourceAttributes", "host.name"),
    ]);
    for (path, column_type, logical) in [
        ("http.request.method", "LowCardinality(String)", LogicalType::String),
        ("user.id", "Dynamic", LogicalType::String),
        ("region", "Dynamic", LogicalType::String),
    ] {
        let mut field = field(FieldRef::key("Attrs", path), logical, column_type);
        field.source = FieldSource::JsonPath;
        model.fields.push(field);
    }
    model
}

fn files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics");
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Returns the cases of a file: a single expression each, or several policies of one role.
fn cases(text: &str) -> Vec<Vec<String>> {
    let mut cases: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        if let Some(expression) = line.strip_prefix(EXPRESSION) {
            cases.push(vec![expression.to_owned()]);
        } else if let Some(expression) = line.strip_prefix(ANOTHER) {
            cases.last_mut().unwrap().push(expression.to_owned());
        } else if let Some(more) = line.strip_prefix(CONTINUED) {
            let expression = cases.last_mut().unwrap().last_mut().unwrap();
            expression.push('\n');
            expression.push_str(more);
        }
    }
    cases
}

fn render_results(cases: &[Vec<String>], model: &AccessModel) -> String {
    let mut written = String::new();
    for case in cases {
        for (number, expression) in case.iter().enumerate() {
            let marked = expression.replace('\n', &format!("\n{CONTINUED}"));
            writeln!(written, "{}{marked}", if number == 0 { EXPRESSION } else { ANOTHER }).unwrap();
        }
        let checked: Result<Vec<_>, _> = case.iter().map(|expression| check(expression, model)).collect();
        match checked {
            Err(errors) => {
                let expression = case.iter().find(|text| check(text, model).is_err()).unwrap();
                for error in errors {
                    writeln!(written, "{}\n", error.render(expression, None)).unwrap();
                }
            }
            Ok(checked) => {
                let titles: Vec<String> =
                    (1..=checked.len()).map(|number| format!("policy {number}")).collect();
                let policies: Vec<_> = titles.iter().map(String::as_str).zip(&checked).collect();
                let warnings = role_warnings(&policies);
                if warnings.iter().all(Vec::is_empty) {
                    written.push_str("ok\n\n");
                }
                for (expression, warnings) in case.iter().zip(warnings) {
                    for warning in warnings {
                        writeln!(written, "{}\n", warning.render(expression, None)).unwrap();
                    }
                }
            }
        }
    }
    written
}

#[test]
fn diagnostics_match_the_files() {
    let model = wide_model();
    let mut all = 0;
    for file in files() {
        let expected = fs::read_to_string(&file).unwrap();
        let cases = cases(&expected);
        all += cases.len();
        let current = render_results(&cases, &model);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&file, current).unwrap();
            continue;
        }
        let differing =
            expected.lines().zip(current.lines()).position(|(expected, current)| expected != current);
        let from = differing
            .unwrap_or_else(|| expected.lines().count().min(current.lines().count()))
            .saturating_sub(6);
        let part = |text: &str| text.lines().skip(from).take(18).collect::<Vec<_>>().join("\n");
        assert!(
            expected == current,
            "{}, from line {}: run `UPDATE_DOCS=1 cargo test -p tracewarden-policy --test suite diagnostics::`\n\
             ── the file ──\n{}\n── now ──\n{}\n",
            file.display(),
            from + 1,
            part(&expected),
            part(&current),
        );
    }
    // The files contain the cases. Detect lost cases.
    assert!(all >= 350, "only {all} cases are left");
}

/// Returns the suggestions in backticks in a hint.
fn suggestions(hint: &str) -> Vec<&str> {
    hint.split('`').skip(1).step_by(2).collect()
}

/// Tokens that replace a single token, not an expression.
const TOKENS: [&str; 27] = [
    "==", "!=", ">=", "&&", "||", "!", "!(…)", "in", ".", "=", ",", "-", ")", "]", "}", "(", "\"", "'",
    "\\\\", "//", "^", "$", "\\", "has", "size", "policy", "_",
];

/// Whether the text only shows a form, such as `list.exists(v, …)`.
fn is_placeholder(written: &str) -> bool {
    let quoted = written.replace("\"…\"", "");
    quoted.contains('…')
        || quoted.contains("condition ?")
        || quoted.contains("x ==")
        || quoted.contains("x in")
        || quoted.contains("(x)")
        || quoted.contains("[\"key\"]")
}

/// Whether this is only the name of a function.
fn is_function(written: &str) -> bool {
    let functions =
        ["startsWith", "endsWith", "contains", "matches", "size", "has", "exists", "all", "exists_one"];
    functions.contains(&written)
}

fn is_unmarked(written: &str, model: &AccessModel) -> bool {
    check(written, model).is_err_and(|errors| errors.iter().all(|error| error.code == "unmarked_field"))
}

/// Whether the text is an accepted value but not a condition. It need not fit the value that it is compared with.
fn is_value(written: &str, model: &AccessModel) -> bool {
    check(written, model).is_err_and(|errors| {
        errors.iter().all(|error| error.message.starts_with("a policy must be a boolean"))
            || (written.starts_with('[') && errors.len() == 1)
    })
}

/// Returns the text with the range of a diagnostic replaced.
fn replace_range(text: &str, line: u32, column: u32, length: u32, by: &str) -> String {
    let lines: usize =
        text.split_inclusive('\n').take(line as usize - 1).map(|line| line.chars().count()).sum();
    let at = lines + column as usize - 1;
    let before: String = text.chars().take(at).collect();
    let after: String = text.chars().skip(at + length as usize).collect();
    format!("{before}{by}{after}")
}

/// Every suggestion in a hint is accepted when pasted: as the whole policy, or in place of the underlined text, where
/// it must reduce the number of errors.
#[test]
fn suggestions_in_hints_are_accepted() {
    let model = wide_model();
    let errors = |text: &str| check(text, &model).map_or_else(|errors| errors.len(), |_| 0);
    let (mut tried, mut refused) = (0, Vec::new());
    for file in files() {
        for expression in cases(&fs::read_to_string(&file).unwrap()).concat() {
            let found = match check(&expression, &model) {
                Ok(checked) => checked.warnings().to_vec(),
                Err(errors) => errors,
            };
            let before = found.iter().filter(|found| !found.is_warning()).count();
            for diagnostic in found {
                let hint = diagnostic.hint.clone().unwrap_or_default();
                // Parts of a pattern are not expressions, and a list of usable fields is not a suggestion for this
                // place.
                if diagnostic.code == "invalid_pattern" || hint.starts_with("policies can name") {
                    continue;
                }
                for written in suggestions(&hint) {
                    if TOKENS.contains(&written) || is_placeholder(written) {
                        continue;
                    }
                    if is_function(written) || is_value(written, &model) {
                        continue;
                    }
                    // The suggestion is an unmarked field. The checker can report that only after the syntax is
                    // corrected.
                    if diagnostic.code == "syntax" && is_unmarked(written, &model) {
                        continue;
                    }
                    tried += 1;
                    let (line, column, length) = (diagnostic.line, diagnostic.column, diagnostic.length);
                    let there = errors(&replace_range(&expression, line, column, length, written));
                    if errors(written) > 0 && there > before.saturating_sub(1) {
                        refused.push(format!(
                            "{expression}\n    {}\n    {hint}\n    {written}",
                            diagnostic.message
                        ));
                    }
                }
            }
        }
    }
    assert!(refused.is_empty(), "{} of {tried}:\n{}", refused.len(), refused.join("\n"));
    assert!(tried > 180, "{tried}");
}

//! `docs/trace-tables.md`, generated from the list of layouts.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use tracewarden_testkit::trace_tables::{Bound, Fixture, Outcome, all};

const INTRODUCTION: &str = "\
# Trace tables

Layouts of trace tables in ClickHouse that the tests bind, each as the product creates it, with generated spans: discovery,
policies, filters, and traces by id. The engine of the local store runs all of them, a server of the oldest supported version
too. Terms are in the [glossary](glossary.md), types of ids and times in [fields](fields.md).

A table that is not listed can be bound as well if its columns have these types. `GET /schema/tables` proposes a binding for
tables whose columns have common names. A view can give other columns the form that a trace source needs.

## Binding

| | columns and values |
|---|---|
| ids | `String`, `FixedString` of text, `UUID`, integers of 32, 64 and 128 bits; `FixedString(16)` of trace ids and `FixedString(8)` of span ids are bytes. A response has one text for each: bytes as lower-case hexadecimal digits, a UUID with hyphens, an integer in decimal |
| no parent | NULL, nothing, zeros, a zero UUID, 0, zeros in base64 |
| `timestamp` | `DateTime`, `DateTime64`, or an integer with `timestamp_unit` (`s`, `ms`, `us`, `ns`) |
| `display.duration` | a number; `display.duration_unit` if it is not nanoseconds. In its place, `display.end` names a column with the end of the span; a span without an end, or that ends at the epoch, has the duration 0 |
| `display.status` | text, integer or boolean; `display.error_values` lists the values that mean an error, as text |
| maps | `Map`, `JSON`, or two arrays: `X.key` and `X.value`, `X.keys` or `X.names` and `X.values`, `X_keys` or `X_names` and `X_values`. Two arrays are a map named `X` in filters and policies, unless there is a column `X`. A key without a value is absent; of equal keys the first counts |
| `read_as` | required if the engine replaces, collapses or aggregates rows. `final` reads as after all merges, so that replaced and deleted rows are never shown; `as_is` reads what is stored. Before ClickHouse 26.3, `final` needs the columns of the partition key in the sorting key; the refusal names a view that does without. Behind a distributed table, all versions of a row must be on one shard |
| `only` | columns and values that every row must have, such as `project_id` and `7`. Rows with other values are never read, in no statement |
| `time_bucket` | a column with the start of the span's bucket of time, if it is in the sorting key, and the length of a bucket in seconds. Binding compares every row; only searches use it |
| `trace_index` | a table with columns `TraceId`, `Start`, `End`, or `trace_id`, `start`, `end`, also of `SimpleAggregateFunction` |

`GET /schema/tables/{database}/{table}` proposes units and status values by a sample of rows, unless `discovery_samples` is off.
";

/// Maximum length of a line.
const WIDTH: usize = 120;

/// Returns the part of a model file that binds a table and marks fields.
pub fn model_file(bound: &Bound) -> String {
    let marks = bound.marks.fields().into_iter().map(|field| {
        let map = field.map.map(|map| format!("map: {}, ", scalar(&map.into()))).unwrap_or_default();
        let logical = field.logical.map(|logical| format!(", type: {logical}")).unwrap_or_default();
        format!("{{{map}name: {}{logical}}}", scalar(&field.name.into()))
    });
    let marks = format!("fields: [{}]", marks.collect::<Vec<_>>().join(", "));
    binding(&bound.binding()) + &wrapped(&marks, ", ", "  ")
}

fn binding(binding: &Value) -> String {
    wrapped(&format!("binding: {}", flow(binding)), ", ", "  ")
}

/// Writes YAML in flow style.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| format!("{name}: {}", flow(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(elements) => {
            format!("[{}]", elements.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        scalar_value => scalar(scalar_value),
    }
}

/// Writes a scalar: words that every YAML reader takes for text are not quoted.
fn scalar(value: &Value) -> String {
    let Some(text) = value.as_str() else { return value.to_string() };
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
    let begins = text.starts_with(|first: char| first.is_ascii_alphabetic());
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if begins && text.bytes().all(is_word) && !reserved.contains(&text.to_lowercase().as_str()) {
        text.to_owned()
    } else {
        value.to_string()
    }
}

/// What works with a layout beyond the basic operations.
fn works(bound: &Bound) -> Vec<&'static str> {
    let binding = bound.binding();
    let has = |name: &str| !binding[name].is_null();
    let mut works = Vec::new();
    if bound.marks.tenant.map.is_some() {
        works.push("attributes by key");
    }
    if has("trace_index") {
        works.push("trace index");
    }
    if !bound.index.is_empty() {
        works.push("look-up by id with an index");
    }
    if has("time_bucket") {
        works.push("time bucket");
    }
    if has("only") {
        works.push("one project");
    }
    if binding["read_as"] == "final" {
        works.push("newest rows only");
    }
    works
}

fn table_row(fixture: &Fixture) -> String {
    let Fixture { number, product, version, .. } = fixture;
    let works = match &fixture.outcome {
        Outcome::Bound(bound) if bound.chosen == serde_json::json!({}) => {
            ("as proposed", works(bound).join(", "))
        }
        Outcome::Bound(bound) => ("with changes", works(bound).join(", ")),
        Outcome::Rejected(_) => ("with a view", String::new()),
    };
    format!("| [{number}](#{number}) | {product} | {version} | {} | {} |\n", works.0, works.1)
}

fn section(fixture: &Fixture) -> String {
    let Fixture { number, product, version, .. } = fixture;
    let mut text = format!("\n### {number}\n\n{product}: {version}.\n");
    if !fixture.limits.is_empty() {
        text.push('\n');
        fixture.limits.iter().for_each(|limit| text.push_str(&wrapped(&format!("- {limit}"), " ", "  ")));
    }
    match &fixture.outcome {
        Outcome::Bound(bound) => write!(text, "\n```yaml\n{}```\n", model_file(bound)).unwrap(),
        Outcome::Rejected(rejection) => {
            let (head, rest) = rejection.view.split_once(" AS SELECT ").unwrap();
            let (columns, source) = rest.rsplit_once(" FROM ").unwrap();
            let columns = wrapped(&format!("  {columns}"), ", ", "  ");
            let view = format!("{head} AS SELECT\n{columns}FROM {source}");
            let bound = binding(&rejection.view_binding);
            write!(text, "\n```sql\n{view};\n```\n\n```yaml\n{bound}```\n").unwrap();
        }
    }
    text
}

/// Breaks a text into lines at separators, of which the blank is left out.
fn wrapped(text: &str, separator: &str, indent: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for part in text.split_inclusive(separator) {
        if !line.is_empty() && line.len() + part.trim_end().len() > WIDTH {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = indent.to_owned();
        }
        line.push_str(part);
    }
    lines + line.trim_end() + "\n"
}

fn document() -> String {
    let all = all();
    let mut text = INTRODUCTION.to_owned();
    text.push_str("\n## List\n\n| | product | version | binds | works |\n|---|---|---|---|---|\n");
    all.iter().for_each(|fixture| text.push_str(&table_row(fixture)));
    text.push_str(
        "\nAs proposed: the proposal of discovery is complete. With changes: an administrator completes it, as the\n\
         configuration below shows. Values of `only` are examples. With a view: the table itself is refused.\n\n\
         ## Configuration\n\nParts of [model files](model-file.md). `PUT /schema/binding` takes the member `binding` as JSON. \
         The marked fields are\nexamples.\n",
    );
    all.iter().for_each(|fixture| text.push_str(&section(fixture)));
    text
}

#[test]
fn the_committed_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/trace-tables.md");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let current = document();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&path, current).unwrap();
    }
    assert!(
        committed == current,
        "docs/trace-tables.md: run `UPDATE_DOCS=1 cargo test -p tracewarden --test suite trace_tables::document::the_committed`"
    );
}

#[test]
fn words_are_quoted_where_readers_differ() {
    for (text, written) in
        [("otel", "otel"), ("7", "\"7\""), ("no", "\"no\""), ("a$$b", "\"a$$b\""), ("", "\"\"")]
    {
        assert_eq!(scalar(&Value::from(text)), written);
    }
}

//! Differences between two access models, grouped by kind, each with its old and new value.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::Value;
use similar::{Algorithm, ChangeTag, DiffOp, capture_diff_slices_deadline, group_diff_ops};
use tracewarden_documents::{Json, json_of, yaml};

use crate::model::answers::Difference;
use crate::model::paint::{Paint, sanitize};

/// Unchanged lines shown before and after a changed one.
const CONTEXT_LINES: usize = 2;
/// Time limit for all comparisons of lines. For files of megabytes with little in common, the shortest difference takes
/// minutes; a longer, equally correct one is found quickly.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Below this number of lines on both sides together, the comparison needs little stack.
const SMALL_DIFF_LINES: usize = 1_000;
/// Stack size for larger comparisons: the recursion is as deep as the number of places at which the two sides match.
const STACK_BYTES: usize = 256 << 20;

/// Kinds of differences with their headings, in the order of output.
const KINDS: [(&str, &str); 5] = [
    ("binding", "Binding"),
    ("field", "Fields"),
    ("role", "Roles"),
    ("policy", "Policies"),
    ("tests", "Tests in the file"),
];

pub(in crate::model) fn differences(changes: &[Difference], paint: Paint) -> String {
    let mut text = String::new();
    let deadline = Instant::now() + TIMEOUT;
    let mut others: Vec<&str> = changes.iter().map(|found| found.kind.as_str()).collect();
    others.retain(|kind| KINDS.iter().all(|(known, _)| known != kind));
    others.dedup();
    for (kind, heading) in KINDS.into_iter().chain(others.into_iter().map(|kind| (kind, kind))) {
        let mut matching = changes.iter().filter(|found| found.kind == kind).peekable();
        if matching.peek().is_some() {
            let _ = writeln!(text, "\n{}", paint.heading(sanitize(heading)));
        }
        for found in matching {
            show(&mut text, found, paint, deadline);
        }
    }
    text
}

fn show(text: &mut String, found: &Difference, paint: Paint, deadline: Instant) {
    let Difference { kind, name, change, before, after } = found;
    let name = sanitize(name);
    let (before, after) = (lines(before, kind), lines(after, kind));
    let mut whole = |sign: &str, painted: fn(Paint, String) -> String, lines: Vec<String>| {
        if kind == "field" {
            let _ = writeln!(text, "  {}", painted(paint, format!("{sign} {name}  {}", lines.join(", "))));
            return;
        }
        let _ = writeln!(text, "  {}", painted(paint, format!("{sign} {name}")));
        for line in lines {
            let _ = writeln!(text, "      {}", painted(paint, format!("{sign} {line}")));
        }
    };
    match change.as_str() {
        "added" => whole("+", Paint::added, after),
        "removed" => whole("-", Paint::removed, before),
        change => {
            let suffix =
                if change == "changed" { String::new() } else { format!("  ({})", sanitize(change)) };
            let _ = writeln!(text, "  {}{suffix}", paint.changed(format!("~ {name}")));
            show_lines(text, &before, &after, paint, deadline);
        }
    }
}

/// Formats the differing lines with some context. After the deadline, lines not yet compared are shown as replaced.
fn show_lines(text: &mut String, before: &[String], after: &[String], paint: Paint, deadline: Instant) {
    let operations = diff_operations(before, after, deadline);
    for (index, group) in group_diff_ops(operations, CONTEXT_LINES).iter().enumerate() {
        if index > 0 {
            text.push_str("        …\n");
        }
        for change in group.iter().flat_map(|operation| operation.iter_changes(before, after)) {
            let line = change.value();
            let _ = match change.tag() {
                ChangeTag::Equal => writeln!(text, "        {line}"),
                ChangeTag::Delete => writeln!(text, "      {}", paint.removed(format!("- {line}"))),
                ChangeTag::Insert => writeln!(text, "      {}", paint.added(format!("+ {line}"))),
            };
        }
    }
}

fn diff_operations(before: &[String], after: &[String], deadline: Instant) -> Vec<DiffOp> {
    let compare = || capture_diff_slices_deadline(Algorithm::Myers, before, after, Some(deadline));
    if before.len() + after.len() < SMALL_DIFF_LINES {
        return compare();
    }
    let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
    let diff_operations = std::thread::scope(|scope| builder.spawn_scoped(scope, compare).ok()?.join().ok());
    // If the thread cannot be started, everything is shown as replaced.
    let replaced =
        DiffOp::Replace { old_index: 0, old_len: before.len(), new_index: 0, new_len: after.len() };
    diff_operations.unwrap_or_else(|| vec![replaced])
}

/// Writes a value as the lines of a model file. Members that are part of the object's name are left out, since the heading shows
/// them.
fn lines(value: &Value, kind: &str) -> Vec<String> {
    let omitted: &[&str] = match kind {
        "field" => &["map", "name", "ref"],
        "policy" => &["title"],
        "role" => &["name"],
        _ => &[],
    };
    let mut shown = value.clone();
    if let Value::Object(members) = &mut shown {
        members.retain(|name, value| !value.is_null() && !omitted.contains(&name.as_str()));
    }
    match json_of(&shown) {
        Some(Json::Null) => Vec::new(),
        // Deeper than files may be.
        None => vec![sanitize(&shown.to_string())],
        Some(shown) => yaml(&shown).lines().map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tracewarden_model::invisible::is_invisible_or_bidi_control;

    use super::*;

    fn rendered(changes: Value) -> String {
        let changes: Vec<Difference> = serde_json::from_value(changes).unwrap();
        differences(&changes, Paint::none())
    }

    #[test]
    fn groups_differences_with_old_and_new_values() {
        let before = "// ours\nServiceName in [\n  \"a\",\n  \"b\"\n]\n";
        let text = rendered(json!([
            {"kind": "policy", "name": "dev / Own", "change": "changed",
             "before": {"title": "Own", "expression": before, "description": "x"},
             "after": {"title": "Own", "expression": before.replace("\"b\"", "\"c\""), "description": "x"}},
            {"kind": "policy", "name": "dev / Two", "change": "moved", "before": {"position": 2}, "after": {"position": 1}},
            {"kind": "role", "name": "support", "change": "added", "before": null, "after": {"policies": [
                {"title": "Tenants", "expression": "a in b"}, {"title": "Crashes", "expression": "a &&\n  b"}]}},
            {"kind": "field", "name": "SpanAttributes[\"team\"]", "change": "removed", "after": null,
             "before": {"map": "SpanAttributes", "name": "team", "ref": "x", "type": "string", "policy": true}},
            {"kind": "binding", "name": "binding", "change": "changed",
             "before": {"table": "a", "trace_index": null, "display": {"name": "One"}, "tags": ["x", ""]},
             "after": {"table": "a", "trace_index": "t", "display": {"name": "Two"}, "tags": ["x", "y"]}},
            {"kind": "weather", "name": "rain", "change": "turned", "before": 1, "after": 2},
        ]));
        let expected = "
Binding
  ~ binding
        table: a
      + trace_index: t
        display:
      -   name: One
      +   name: Two
        tags:
          - x
      -   - ''
      +   - 'y'

Fields
  - SpanAttributes[\"team\"]  type: string, policy: true

Roles
  + support
      + policies:
      +   - title: Tenants
      +     expression: a in b
      +   - title: Crashes
      +     expression: |-
      +       a &&
      +         b

Policies
  ~ dev / Own
          ServiceName in [
            \"a\",
      -     \"b\"
      +     \"c\"
          ]
        description: x
  ~ dev / Two  (moved)
      - position: 2
      + position: 1

weather
  ~ rain  (turned)
      - 1
      + 2
";
        assert_eq!(text, expected);
    }

    #[test]
    fn large_files_with_little_in_common_are_compared_in_seconds() {
        // Every line occurs many times in the other file, always at other positions; each file has about 8 MiB.
        let lines = |seed: u64| -> Vec<String> {
            let mut state = seed;
            let mut line = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                format!("{:019}", (state >> 33) % 5_000)
            };
            (0..400_000).map(|_| line()).collect()
        };
        let (before, after) = (lines(1), lines(2));
        let begun = Instant::now();
        let text = rendered(json!([{"kind": "tests", "name": "t", "change": "changed",
            "before": {"text": before.join("\n")}, "after": {"text": after.join("\n")}}]));
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        // The difference may be longer than the shortest one, but it must be correct.
        let lines_with = |sign: &str| -> Vec<&str> {
            let line = |line: &'_ str| line.trim_start().starts_with(sign);
            text.lines().filter(|text| line(text)).filter_map(|line| line.split(' ').next_back()).collect()
        };
        let (removed, added) = (lines_with("- "), lines_with("+ "));
        assert!(!removed.is_empty() && removed.len() <= before.len() && added.len() == removed.len());
    }

    #[test]
    fn sanitizes_text_for_the_terminal() {
        let hostile = "a\u{1b}[2J\u{202e}\u{e0041}b\rc";
        let text = rendered(json!([
            {"kind": hostile, "name": hostile, "change": hostile, "before": {hostile: hostile}, "after": [hostile, {hostile: [hostile]}]},
            {"kind": "role", "name": hostile, "change": "added", "after": {hostile: format!("{hostile}\n{hostile}")}},
            {"kind": "field", "name": hostile, "change": "removed", "before": {"type": format!(" {hostile}")}},
        ]));
        assert!(!text.replace('\n', "").contains(is_invisible_or_bidi_control), "{text:?}");
        // Deeper than files may be.
        let deep = (0..100).fold(json!(hostile), |inner, _| json!([inner]));
        let text = rendered(json!([{"kind": "weather", "name": "rain", "change": "added", "after": deep}]));
        assert!(text.contains(&"[".repeat(100)), "{text:?}");
        assert!(!text.replace('\n', "").contains(is_invisible_or_bidi_control), "{text:?}");
    }
}

//! Writes JSON values as YAML in a canonical form: the same value always gives the same text, and the reader in this crate, like
//! other YAML readers, parses the same value from it.
//!
//! Strings of several lines are written as literal blocks, so that the lines of policies stay lines; invisible characters are
//! escaped.

use std::fmt::Write as _;

use tracewarden_model::invisible::is_invisible_or_bidi_control;

use crate::json::Json;

/// Longer names are written after a `?`, because readers limit how far they look ahead for the colon of a name.
const MAX_PLAIN_NAME_BYTES: usize = 256;

/// Writes a value and a line end.
pub fn yaml(value: &Json) -> String {
    let mut writer = Writer { text: String::new() };
    writer.value(value, 0);
    writer.text
}

struct Writer {
    text: String,
}

impl Writer {
    fn indent(&mut self, level: usize) {
        for _ in 0..level {
            self.text.push_str("  ");
        }
    }

    /// Writes a value and a line end: its first line on the current one, the others on lines of their own.
    fn value(&mut self, value: &Json, level: usize) {
        match value {
            Json::Object(members) if !members.is_empty() => self.members(members, level),
            Json::List(list) if !list.is_empty() => self.list(list, level),
            other => {
                self.scalar(other, level);
                self.text.push('\n');
            }
        }
    }

    fn members(&mut self, members: &[(String, Json)], level: usize) {
        for (at, (name, value)) in members.iter().enumerate() {
            if at > 0 {
                self.indent(level);
            }
            let quoted = inline_text(name);
            if quoted.len() > MAX_PLAIN_NAME_BYTES {
                self.text.push_str("? ");
                self.text.push_str(&quoted);
                self.text.push('\n');
                self.indent(level);
            } else {
                self.text.push_str(&quoted);
            }
            self.text.push(':');
            let has_parts = match value {
                Json::Object(members) => !members.is_empty(),
                Json::List(list) => !list.is_empty(),
                _ => false,
            };
            if has_parts {
                self.text.push('\n');
                self.indent(level + 1);
            } else {
                self.text.push(' ');
            }
            self.value(value, level + 1);
        }
    }

    fn list(&mut self, list: &[Json], level: usize) {
        for (at, value) in list.iter().enumerate() {
            if at > 0 {
                self.indent(level);
            }
            self.text.push_str("- ");
            self.value(value, level + 1);
        }
    }

    /// Writes a value without parts and without a line end. Lines of a block are indented by `level`.
    fn scalar(&mut self, value: &Json, level: usize) {
        match value {
            Json::Text(text) => match block(text) {
                Some((sign, lines)) => {
                    self.text.push_str(sign);
                    for line in lines.split('\n') {
                        self.text.push('\n');
                        // Empty lines are not indented: the indentation would be invisible, and editors remove it.
                        if !line.is_empty() {
                            self.indent(level.max(1));
                            self.text.push_str(line);
                        }
                    }
                }
                None => self.text.push_str(&inline_text(text)),
            },
            Json::Object(_) => self.text.push_str("{}"),
            Json::List(_) => self.text.push_str("[]"),
            // These have the same form in both notations.
            Json::Number(number) => self.text.push_str(number.as_str()),
            Json::Bool(value) => self.text.push_str(if *value { "true" } else { "false" }),
            Json::Null => self.text.push_str("null"),
        }
    }
}

/// Returns the indicator and the lines of a string as a literal block; `None` if a block would not preserve the string.
fn block(text: &str) -> Option<(&'static str, &str)> {
    let (sign, lines) = match text.strip_suffix('\n') {
        Some(lines) => ("|", lines),
        None => ("|-", text),
    };
    // The first line determines the block's indentation, so it must not start with white space or be empty. A block cannot
    // represent several line ends at the end.
    let has_block_shape =
        text.contains('\n') && !lines.ends_with('\n') && !lines.starts_with([' ', '\t', '\n']);
    let kept = |line: &str| {
        line.chars().all(|character| is_visible(character) || character == '\t')
            && !line.ends_with([' ', '\t'])
            && !line.starts_with('\t')
    };
    (has_block_shape && !lines.is_empty() && lines.split('\n').all(kept)).then_some((sign, lines))
}

/// Writes a string on one line: plain if it is unambiguous, in single quotes if no character needs escaping, otherwise in double
/// quotes.
fn inline_text(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    if text.chars().all(is_visible) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            visible if is_visible(visible) => quoted.push(visible),
            hidden if u32::from(hidden) <= 0xFFFF => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(hidden));
            }
            hidden => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(hidden));
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Whether every reader parses the unquoted text as this string: it begins with a letter or `_`, is not a word that some readers
/// parse as a boolean, a number or null, and contains no YAML indicator.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 11] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"];
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./()+@ ".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(inside)
        && !text.ends_with(' ')
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether the character is visible and every YAML reader preserves it.
fn is_visible(character: char) -> bool {
    // Private use areas, noncharacters, and characters that change the display of the previous one.
    let special =
        matches!(u32::from(character), 0xE000..=0xF8FF | 0xFE00..=0xFE0F | 0xFFFE..=0xFFFF | 0xE_0000..);
    !special && !is_invisible_or_bidi_control(character) && (character == ' ' || !character.is_whitespace())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use crate::document::{Document, json_of};

    fn yaml(value: &Value) -> String {
        super::yaml(&json_of(value).unwrap())
    }

    #[track_caller]
    fn written(value: &Value, text: &str) {
        assert_eq!(yaml(value), text);
        assert_eq!(Document::read_yaml(text).unwrap().value(), *value);
    }

    #[test]
    fn files_look_like_handwritten_yaml() {
        let value = json!({
            "binding": {"database": "otel", "trace_index": null, "display": {}},
            "fields": [{"name": "ServiceName", "column_type": "LowCardinality(String)", "policy": true}, "x", []],
            "roles": [{"name": "payments", "policies": [
                {"title": "Own team", "expression": "SpanAttributes[\"team\"] == user.attributes.team"},
                {"title": "it's", "expression": "a ||\n  b // why\n", "description": "two\n\nparts"},
            ]}],
            "traces": [{"spans": [{"n": 1.5, "k v": [[1, 2], [{"a": ""}]], "yes": "no"}]}],
        });
        let text = r#"binding:
  database: otel
  trace_index: null
  display: {}
fields:
  - name: ServiceName
    column_type: LowCardinality(String)
    policy: true
  - x
  - []
roles:
  - name: payments
    policies:
      - title: Own team
        expression: 'SpanAttributes["team"] == user.attributes.team'
      - title: 'it''s'
        expression: |
          a ||
            b // why
        description: |-
          two

          parts
traces:
  - spans:
      - 'n': 1.5
        k v:
          - - 1
            - 2
          - - a: ''
        'yes': 'no'
"#;
        written(&value, text);
    }

    #[test]
    fn ambiguous_texts_are_quoted() {
        for (text, line) in [
            ("yes", "'yes'"),
            ("Null", "'Null'"),
            ("1_000", "'1_000'"),
            ("0x10", "'0x10'"),
            ("1:20", "'1:20'"),
            ("2026-11-21", "'2026-11-21'"),
            ("<<", "'<<'"),
            ("a: b", "'a: b'"),
            ("a #b", "'a #b'"),
            ("- a", "'- a'"),
            (" a", "' a'"),
            ("a ", "'a '"),
            ("&a", "'&a'"),
            ("!a", "'!a'"),
            ("%a", "'%a'"),
            ("\u{e9}", "'\u{e9}'"),
            ("a\tb", "\"a\\tb\""),
            ("\u{1f600}", "'\u{1f600}'"),
            ("a\u{202e}b", "\"a\\u202Eb\""),
            ("\u{e0041}", "\"\\U000E0041\""),
            ("\u{feff}", "\"\\uFEFF\""),
            (" a\nb", "\" a\\nb\""),
            ("a\n\n", "\"a\\n\\n\""),
            ("a \nb", "\"a \\nb\""),
            ("a\r\nb", "\"a\\r\\nb\""),
            ("\n", "\"\\n\""),
        ] {
            written(&json!({ "a": text }), &format!("a: {line}\n"));
        }
        let long = "k".repeat(2_000);
        written(&json!([{ long.as_str(): {"a": 1} }]), &format!("- ? {long}\n  :\n    a: 1\n"));
    }

    /// Generates strings of parts that YAML readers easily misinterpret.
    fn texts() -> impl Strategy<Value = String> {
        let parts = prop_oneof![
            8 => "[a-z]{1,4}",
            8 => prop::sample::select(vec![
                "\n", " ", "  ", "\t", "\r", "'", "\"", "\\", "#", ": ", ":", "- ", "-", "? ", "|", ">", "&", "*", "!", "%", "@",
                "`", "{", "}", "[", "]", ",", "~", "<<", "=", "yes", "no", "null", "true", "0x1", "1_000", "010", "1e3", ".5",
                ".inf", "---", "...", "\u{0}", "\u{7f}", "\u{85}", "\u{a0}", "\u{2028}", "\u{feff}", "\u{202e}", "\u{fffd}",
                "\u{e000}", "\u{ffff}", "\u{1f600}", "\u{e0041}", "\u{10ffff}", "//", "\u{e9}", "e\u{301}",
            ]).prop_map(str::to_owned),
            1 => any::<char>().prop_map(String::from),
        ];
        prop::collection::vec(parts, 0..10).prop_map(|parts| parts.concat())
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            6 => texts().prop_map(Value::from),
            1 => Just(Value::Null),
            1 => any::<bool>().prop_map(Value::from),
            1 => any::<i64>().prop_map(Value::from),
            1 => any::<u64>().prop_map(Value::from),
            1 => any::<f64>().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((texts(), inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn written_documents_round_trip(value in values()) {
            let text = yaml(&value);
            let read = Document::read_yaml(&text);
            prop_assert!(read.is_ok(), "{:?}\n{}", read, text);
            let read = read.unwrap().value();
            prop_assert_eq!(&read, &value, "{}", text);
            prop_assert_eq!(yaml(&read), text);
        }
    }
}

//! Parses hand-written documents, YAML or JSON, into one tree with source positions.
//!
//! Only the subset of YAML that JSON can express is accepted. Anchors, aliases, tags and merge keys are rejected, because with
//! them the meaning of a part depends on other parts. Unquoted words that YAML parsers interpret differently (`yes`, `0o17`,
//! `1_000`) are rejected too, and so are duplicate names.

mod content;
mod fault;
mod json;
mod limits;
mod node;
mod write;
mod yaml;

use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use tracewarden_model::nearest::nearest;

use crate::json::Json;
use crate::json_pointer::{escape, pointer};
use crate::strict_objects::StrictDeserializer;

use limits::ValueBudget;
use node::{Node, NodeContent};

pub use fault::{Fault, SourcePosition};
pub use limits::MAX_VALUES;
pub use node::Lines;
pub use write::yaml;

/// Maximum size of a document in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A parsed document.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    root: Node,
}

impl Document {
    /// Parses a document: JSON if it is valid JSON, otherwise YAML.
    ///
    /// # Errors
    /// The first position that cannot be parsed.
    pub fn read(text: &str) -> Result<Self, Fault> {
        // No limit on values: the text is a local file of the user who runs the program.
        Self::read_by(text, |text| root(text, ValueBudget::new(usize::MAX)))
    }

    /// Parses a document that is declared as JSON, of at most 500,000 values.
    ///
    /// # Errors
    /// The first position that cannot be parsed.
    pub fn read_json(text: &str) -> Result<Self, Fault> {
        Self::read_by(text, |text| json::read(text, ValueBudget::new(MAX_VALUES)))
    }

    /// Parses a document that is declared as YAML, of at most 500,000 values.
    ///
    /// # Errors
    /// The first position that cannot be parsed.
    pub fn read_yaml(text: &str) -> Result<Self, Fault> {
        Self::read_by(text, |text| yaml::read(text, ValueBudget::new(MAX_VALUES)))
    }

    fn read_by(text: &str, reader: impl FnOnce(&str) -> Result<Node, Fault>) -> Result<Self, Fault> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let start = SourcePosition { line: 1, column: 1 };
        if text.len() > MAX_BYTES {
            return Err(Fault::new(start, format!("documents are limited to {MAX_BYTES} bytes")));
        }
        Ok(Self { root: reader(text)? })
    }

    /// Deserialises the document's content; unknown members are rejected.
    ///
    /// # Errors
    /// The first position that does not fit, with the nearest known name for an unknown member.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        serde_path_to_error::deserialize(StrictDeserializer(content::NodeDeserializer(&self.root))).map_err(
            |error| {
                let pointer = pointer(error.path());
                let position = self.position(&pointer);
                let message = error.into_inner().to_string();
                Fault { position, pointer, message: with_nearest(&message).unwrap_or(message) }
            },
        )
    }

    /// Returns the position of the member at a JSON Pointer, or of the innermost existing member around it.
    pub fn position(&self, pointer: &str) -> SourcePosition {
        self.found(pointer).0
    }

    /// Returns how the lines of the text at a JSON Pointer are written; `None` where there is no text.
    pub fn lines(&self, pointer: &str) -> Option<Lines> {
        self.found(pointer).1.lines
    }

    fn found(&self, pointer: &str) -> (SourcePosition, &Node) {
        let mut node = &self.root;
        let mut position = node.position;
        for token in pointer.split('/').skip(1) {
            let next = match &node.content {
                NodeContent::List(list) => token
                    .parse()
                    .ok()
                    .and_then(|index: usize| list.get(index))
                    .map(|node| (node.position, node)),
                NodeContent::Object(members) => members
                    .iter()
                    .find(|(name, ..)| escape(name) == token)
                    .map(|(_, position, node)| (*position, node)),
                _ => None,
            };
            let Some((at, inner)) = next else { break };
            (position, node) = (at, inner);
        }
        (position, node)
    }

    /// Whether the document is an object with this member.
    pub fn has(&self, name: &str) -> bool {
        matches!(&self.root.content, NodeContent::Object(members) if members.iter().any(|(known, ..)| known == name))
    }

    /// Whether the document is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.root.content, NodeContent::List(_))
    }

    /// Returns the document as JSON with 64-bit numbers; a number that does not fit becomes null.
    pub fn value(&self) -> Value {
        Value::deserialize(content::NodeDeserializer(&self.root)).unwrap_or_default()
    }

    /// Returns the document as JSON with all digits of its numbers.
    #[cfg(test)]
    pub(crate) fn json(&self) -> Json {
        Json::deserialize(content::NodeDeserializer(&self.root)).unwrap()
    }
}

/// Converts a value to JSON with all digits of its numbers; `None` if it cannot be JSON.
pub fn json_of(value: &impl Serialize) -> Option<Json> {
    let text = serde_json::to_string(value).ok()?;
    let root = json::read(&text, ValueBudget::new(usize::MAX)).ok()?;
    Json::deserialize(content::NodeDeserializer(&root)).ok()
}

fn root(text: &str, values: ValueBudget) -> Result<Node, Fault> {
    let mut characters = text.chars().filter(|character| !character.is_whitespace());
    if !matches!(characters.next(), Some('{' | '[')) {
        return yaml::read(text, values);
    }
    // JSON permits keys of any length, escapes and tabs that YAML does not, and YAML documents may begin with braces too.
    json::read(text, values.clone()).or_else(|fault| match (characters.next(), yaml::read(text, values)) {
        (_, Ok(root)) => Ok(root),
        (Some('"' | '{' | '[') | None, Err(_)) => Err(fault),
        (Some(_), Err(fault)) => Err(fault),
    })
}

/// Rewords "unknown field `polices`, expected one of …" with the nearest known name.
fn with_nearest(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown field `")?;
    let (wrong, rest) = rest.split_once('`')?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let close = nearest(wrong, known.iter().copied());
    Some(match close.first() {
        Some(name) => format!("unknown member `{wrong}`; did you mean `{name}`?"),
        None => format!("unknown member `{wrong}`; known here are {}", known.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Value {
        Document::read(text).unwrap().value()
    }

    #[track_caller]
    fn refused(text: &str, at: &str, part: &str) {
        let fault = Document::read(text).unwrap_err();
        assert_eq!(fault.position.to_string(), at, "{text:?}: {}", fault.message);
        assert!(fault.message.contains(part), "{text:?}: {}", fault.message);
    }

    #[test]
    fn yaml_and_json_give_the_same_content() {
        let yaml = "fields:\n  - {name: ServiceName, policy: true}\n  - name: 'it''s'\n    n: -1.5e3\nempty:\n\
                    text: |\n  a ||\n    b\nfolded: \"\\u00e9\\n\"\nlist: []\nbig: 18446744073709551615\n";
        let json = json!({
            "fields": [{"name": "ServiceName", "policy": true}, {"name": "it's", "n": -1500.0}],
            "empty": null, "text": "a ||\n  b\n", "folded": "\u{e9}\n", "list": [], "big": u64::MAX,
        });
        assert_eq!(read(yaml), json);
        assert_eq!(read(&serde_json::to_string_pretty(&json).unwrap()), json);
        assert_eq!(read("{\"a\\/\": \"\\ud83d\\ude00\"}"), json!({"a/": "\u{1f600}"}));
        let long = "k".repeat(5_000);
        assert_eq!(read(&json!({ long.as_str(): 1 }).to_string())[long], 1);
    }

    #[test]
    fn ambiguous_documents_are_refused() {
        refused("a: 1\nb: 2\na: 3", "3:1", "twice");
        refused("{\"a\": 1,\n \"a\": 2}", "2:7", "twice");
        refused("a: &x 1\nb: *x", "1:4", "anchor");
        refused("a: [1]\nb: *x", "2:4", "");
        refused("a: !!str 1", "1:4", "tag");
        refused("a: !x {}", "1:4", "tag");
        refused("a: {b: 1}\n<<: {c: 2}", "2:1", "merge");
        refused("a: yes", "1:4", "quotes");
        refused("a: 0x10", "1:4", "quotes");
        refused("a: 010", "1:4", "quotes");
        refused("a: 1_000", "1:4", "quotes");
        refused("a: .inf", "1:4", "quotes");
        refused("--- 1\n--- 2", "2:1", "one document");
        refused("? [a]\n: 1", "1:3", "name");
        refused("a: 1\n b: 2", "2:3", "");
        refused("{\"a\": 1,\n  \"b\": }x", "2:8", "not JSON");
        refused("{\"größe\": }x", "1:11", "not JSON");
        refused("{a: 1,\n  b", "3:1", "not YAML");
        refused("", "1:1", "empty");
        assert_eq!(read("{a: [b, 1,], \"c\": d}"), json!({"a": ["b", 1], "c": "d"}));
        assert_eq!(read("a: 'yes'\nb: no way\nc: 2026-11-21\n1: x")["1"], "x");
    }

    #[test]
    fn hostile_documents_are_refused_quickly() {
        let refused_quickly = |text: &str, read: fn(&str) -> Result<Document, Fault>| {
            let begun = Instant::now();
            assert!(read(text).is_err(), "{text:.20}…");
            // Ample even for a slow machine. Quadratic work in bytes or names takes longer on any machine.
            assert!(begun.elapsed() < Duration::from_secs(5), "{text:.20}…: {:?}", begun.elapsed());
        };
        for part in ["[", "{\"a\":", "- ", "a: "] {
            refused_quickly(&part.repeat(500_000 / part.len()), Document::read);
        }
        // Only the last member of a long line is wrong.
        let members: String = (0..100_000).map(|name| format!("\"{name}\":0,")).collect();
        refused_quickly(&format!("{{{members}\"0\":0}}"), Document::read_json);
        let deep = format!("x: {}{}", "[".repeat(65), "]".repeat(65));
        refused(&deep, "1:67", "deeper");
    }

    #[test]
    fn values_of_a_document_are_limited() {
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 2));
        let nested = |count: usize| format!("{{\"a\":[{}0]}}", "{\"b\":[]},".repeat((count - 3) / 2));
        for (text, found) in [(list(99), 99), (list(100), 100), (nested(99), 99), (nested(101), 101)] {
            assert_eq!(Document::read(&text).unwrap().json().values(), found);
            for read in [json::read, yaml::read] {
                match read(&text, ValueBudget::new(99)) {
                    Ok(_) => assert_eq!(found, 99),
                    Err(fault) => {
                        assert_eq!(fault.message, "documents have at most 99 values, this has more");
                        assert!(found > 99 && fault.position.column > 99, "{fault:?}");
                    }
                }
            }
        }
        let list = list(MAX_VALUES + 1);
        for read in [Document::read_json, Document::read_yaml] {
            let message = read(&list).unwrap_err().message;
            assert_eq!(message, "documents have at most 500000 values, this has more");
        }
        assert!(Document::read_json(&list.replacen("0,", "", 1)).is_ok());
    }

    #[test]
    fn members_are_found_by_pointer() {
        let text = "a:\n  - b: 1\n    c/d:\n      - x\n";
        let document = Document::read(text).unwrap();
        let at = |pointer: &str| document.position(pointer).to_string();
        assert_eq!((at(""), at("/a"), at("/a/0")), ("1:1".into(), "1:1".into(), "2:5".into()));
        assert_eq!(
            (at("/a/0/c~1d"), at("/a/0/c~1d/0"), at("/a/0/zz")),
            ("3:5".into(), "4:9".into(), "2:5".into())
        );
    }

    #[test]
    fn lines_of_a_text_map_to_lines_of_the_document() {
        let text = "plain: a == b\nquoted: 'a\n  b'\nliteral: |- # kept\n\n  a\n    b\nfolded: >\n  a\n  b\nmany: a\n  b\n\
                    escaped: \"a\\nb\"\nlist:\n  - |\n    a\nnumber: 1\nshort: >\n  a\n";
        let document = Document::read(text).unwrap();
        let lines = |name: &str| document.lines(&format!("/{name}"));
        assert_eq!((lines("plain"), lines("quoted")), (Some(Lines::Preserved(1)), Some(Lines::Joined)));
        assert_eq!((lines("literal"), lines("folded")), (Some(Lines::Preserved(5)), Some(Lines::Joined)));
        assert_eq!((lines("many"), lines("escaped")), (Some(Lines::Joined), Some(Lines::Escaped)));
        assert_eq!(
            (lines("list/0"), lines("number"), lines("short")),
            (Some(Lines::Preserved(16)), None, Some(Lines::Joined))
        );
        let document = Document::read("{\"a\":\n \"x\\u0020\",\n \"b\": \"x\\ny\"}").unwrap();
        assert_eq!(
            (document.lines("/a"), document.lines("/b")),
            (Some(Lines::Preserved(2)), Some(Lines::Escaped))
        );
    }

    #[test]
    fn expressions_that_yaml_misreads_get_quoting_advice() {
        let advice = "put an expression in single quotes, or on the lines after `|`";
        for text in [
            "!(a == b)",
            "!a && b",
            "\"x\" in a",
            "'x' in a",
            "a == \"b: c\"",
            "[a] == b",
            "[\"a\"].exists(x, x == a)",
            "&& a",
            "*a",
            "@a",
            "a ==\n      \"b: c\"",
        ] {
            for document in [
                format!("- title: t\n  expression: {text}\n- title: u\n"),
                format!("- {{expression: {text}}}\n"),
            ] {
                if let Err(fault) = Document::read(&document) {
                    assert!(fault.message.ends_with(advice), "{document}: {}", fault.message);
                    assert!(!fault.message.contains("write the value"), "{document}: {}", fault.message);
                } else {
                    assert!(document.starts_with("- {"), "{document}");
                }
            }
        }
        assert_eq!(
            Document::read("- a: !x b").unwrap_err().message,
            "tags are not supported: write the value without a tag"
        );
    }

    #[test]
    fn unknown_members_are_refused_with_the_nearest_name() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code, reason = "only the errors matter")]
        struct Role {
            name: String,
            policies: Vec<u8>,
        }
        let fault = |text: &str| Document::read(text).unwrap().parse::<Vec<Role>>().unwrap_err();
        let misspelt = fault("- name: a\n  polices: []\n");
        assert_eq!(misspelt.message, "unknown member `polices`; did you mean `policies`?");
        assert_eq!(misspelt.position, SourcePosition { line: 2, column: 3 });
        let strange = fault("[{\"zzz\": 1}]");
        assert_eq!(strange.message, "unknown member `zzz`; known here are name, policies");
        assert_eq!(fault("- name: a\n  policies: [1, x]").position, SourcePosition { line: 2, column: 17 });
    }
}

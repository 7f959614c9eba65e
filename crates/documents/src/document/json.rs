//! JSON reader. Each value is kept as raw text until it is parsed, so that its position is known.

use std::cell::Cell;
use std::{fmt, iter};

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::fault::{Fault, SourcePosition};
use super::limits::ValueBudget;
use super::node::{Lines as TextLines, Node, NodeContent};
use crate::json::JsonNumber;

/// Parses a document.
///
/// # Errors
/// When the text is not JSON, a name occurs twice, or the document is too deep or has too many values.
pub(super) fn read(text: &str, values: ValueBudget) -> Result<Node, Fault> {
    let raw: &RawValue = serde_json::from_str(text)
        .map_err(|error| at(text, &error, SourcePosition { line: 1, column: 1 }))?;
    let lines = Lines { text, last: Cell::new((0, SourcePosition { line: 1, column: 1 })), values };
    node(raw.get(), &lines, 1)
}

/// The text and the last requested position. Values are visited in order and positions are counted from the previous one, so the
/// document is scanned only once, however long its lines are.
struct Lines<'a> {
    text: &'a str,
    last: Cell<(usize, SourcePosition)>,
    values: ValueBudget,
}

impl Lines<'_> {
    /// Returns the position where a part of the text begins.
    fn position(&self, part: &str) -> SourcePosition {
        let offset = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let (from, mut position) = match self.last.get() {
            (last, position) if last <= offset => (last, position),
            _ => (0, SourcePosition { line: 1, column: 1 }),
        };
        let passed = self.text.get(from..offset).unwrap_or_default();
        let ends = passed.matches('\n').count();
        let in_line = passed.rsplit('\n').next().unwrap_or_default().chars().count();
        position.line += ends;
        position.column = if ends == 0 { position.column + in_line } else { in_line + 1 };
        self.last.set((offset, position));
        position
    }
}

fn node(raw: &str, lines: &Lines<'_>, depth: usize) -> Result<Node, Fault> {
    let position = lines.position(raw);
    lines.values.take(position, depth)?;
    let failed = |error: serde_json::Error| at(raw, &error, position);
    let content = match raw.as_bytes().first() {
        Some(b'{') => {
            let Members(members) = serde_json::from_str(raw).map_err(failed)?;
            let mut object: Vec<(String, SourcePosition, Node)> = Vec::with_capacity(members.len());
            let mut names = std::collections::BTreeSet::new();
            for (name, value) in members {
                let position = lines.position(value.get());
                if !names.insert(name.clone()) {
                    return Err(Fault::new(position, format!("`{name}` appears twice")));
                }
                object.push((name, position, node(value.get(), lines, depth + 1)?));
            }
            NodeContent::Object(object)
        }
        Some(b'[') => {
            let list: Vec<&RawValue> = serde_json::from_str(raw).map_err(failed)?;
            let list = list.into_iter().map(|value| node(value.get(), lines, depth + 1));
            NodeContent::List(list.collect::<Result<_, _>>()?)
        }
        Some(b'"') => NodeContent::Text(serde_json::from_str(raw).map_err(failed)?),
        Some(b't' | b'f') => NodeContent::Bool(serde_json::from_str(raw).map_err(failed)?),
        Some(b'n') => NodeContent::Null,
        _ => {
            let number =
                JsonNumber::parse(raw).ok_or_else(|| Fault::new(position, "not JSON: invalid number"))?;
            NodeContent::Number(number)
        }
    };
    let text_lines = match &content {
        NodeContent::Text(text) if text.contains('\n') => Some(TextLines::Escaped),
        NodeContent::Text(_) => Some(TextLines::Preserved(position.line)),
        _ => None,
    };
    Ok(Node { position, content, lines: text_lines })
}

/// Returns a fault for an error in a part of the text that begins at `from`. The parser counts bytes from the beginning of its
/// input.
fn at(part: &str, error: &serde_json::Error, from: SourcePosition) -> Fault {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let line = from.line + error.line().saturating_sub(1);
    let before = part.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default().bytes();
    let before = before.take(error.column().saturating_sub(1)).filter(|byte| byte & 0xc0 != 0x80).count();
    let column = if error.line() > 1 { before + 1 } else { from.column + before };
    Fault::new(SourcePosition { line, column: column.max(1) }, format!("not JSON: {message}"))
}

/// Members of an object in their order, each as raw text.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Members<'de>, A::Error> {
                iter::from_fn(|| access.next_entry().transpose()).collect::<Result<_, _>>().map(Members)
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

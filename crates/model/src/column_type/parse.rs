//! Parser for type names: nested lists of arguments, in which quoted names may contain any character.

use super::ColumnType;
use super::number_type::NumberType;
use super::quoting::{split, unquote};
use super::text_type::TextType;

/// Maximum nesting. Names come from ClickHouse; a hostile one must not exhaust the stack.
const MAX_DEPTH: u8 = 16;
/// Arguments of a JSON type that are not paths, besides `SKIP`.
const LIMITS: [&str; 2] = ["max_dynamic_paths=", "max_dynamic_types="];

impl ColumnType {
    /// Parses a type name. Never fails: an unknown type is [`ColumnType::Other`].
    pub fn parse(text: &str) -> Self {
        column_type(text, 0)
    }
}

fn column_type(text: &str, depth: u8) -> ColumnType {
    let text = text.trim();
    known(text, depth).unwrap_or_else(|| ColumnType::Other(text.to_owned()))
}

fn known(text: &str, depth: u8) -> Option<ColumnType> {
    if depth > MAX_DEPTH {
        return None;
    }
    let (head, arguments) = match text.split_once('(') {
        Some((head, rest)) => (head, Some(rest.strip_suffix(')')?)),
        None => (text, None),
    };
    let inner = |arguments: &str| Box::new(column_type(arguments, depth + 1));
    let found = match (head, arguments) {
        ("LowCardinality", Some(arguments)) => ColumnType::LowCardinality(inner(arguments)),
        ("Nullable", Some(arguments)) => ColumnType::Nullable(inner(arguments)),
        ("Array", Some(arguments)) => {
            match arguments.strip_prefix("Tuple(").and_then(|rest| rest.strip_suffix(')')) {
                Some(tuple) => ColumnType::Nested(members(tuple, depth)?),
                None => ColumnType::Array(inner(arguments)),
            }
        }
        ("Nested", Some(arguments)) => ColumnType::Nested(members(arguments, depth)?),
        // Its values are those of the inner type; only merges of parts differ.
        ("SimpleAggregateFunction", Some(arguments)) => match split(arguments)?.as_slice() {
            [_, inner] => return known(inner.trim(), depth + 1),
            _ => return None,
        },
        ("Map", Some(arguments)) => match split(arguments)?.as_slice() {
            [key, value] => ColumnType::Map(inner(key), inner(value)),
            _ => return None,
        },
        ("JSON", None) => ColumnType::Json { typed: Vec::new() },
        ("JSON", Some(arguments)) => {
            let is_path = |part: &&str| {
                !LIMITS.iter().any(|limit| part.starts_with(limit)) && !part.starts_with("SKIP ")
            };
            let paths = split(arguments)?;
            let typed = paths.iter().map(|part| part.trim()).filter(is_path).map(|part| member(part, depth));
            ColumnType::Json { typed: typed.collect::<Option<_>>()? }
        }
        ("Dynamic", _) => ColumnType::Dynamic,
        ("Bool", None) => ColumnType::Bool,
        _ => {
            let text = TextType::parse(head, arguments).map(ColumnType::Text);
            return text.or_else(|| NumberType::parse(head, arguments).map(ColumnType::Number));
        }
    };
    Some(found)
}

fn members(arguments: &str, depth: u8) -> Option<Vec<(String, ColumnType)>> {
    let members: Option<Vec<_>> =
        split(arguments)?.into_iter().map(|part| member(part.trim(), depth)).collect();
    members.filter(|members| !members.is_empty())
}

/// Parses `name Type`; the name may consist of several names joined by dots, each possibly in backquotes.
fn member(text: &str, depth: u8) -> Option<(String, ColumnType)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        if rest.starts_with('`') {
            let (part, after) = unquote(rest, '`')?;
            name.push_str(&part);
            rest = after;
        } else {
            let end = rest.find([' ', '.', '`'])?;
            name.push_str(rest.get(..end)?);
            rest = rest.get(end..)?;
        }
        match rest.strip_prefix('.') {
            Some(after) => {
                name.push('.');
                rest = after;
            }
            None => break,
        }
    }
    let type_text = rest.strip_prefix(' ')?;
    // Without a name, as in `Array(String)` or `DateTime64(9, 'UTC')`, it is not a member.
    let named = !name.is_empty() && !name.contains(['(', ')', '\'']);
    named.then(|| (name, column_type(type_text, depth + 1)))
}

//! Parser for type names: nested lists of arguments, in which quoted names may contain any character.

use super::ColumnType;

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
        ("String", None) => ColumnType::String,
        ("Bool", None) => ColumnType::Bool,
        ("UUID", None) => ColumnType::Uuid,
        ("Float32", None) => ColumnType::Float { bits: 32 },
        ("Float64", None) => ColumnType::Float { bits: 64 },
        ("DateTime", _) => ColumnType::DateTime,
        ("DateTime64", Some(arguments)) => {
            let precision = arguments.split(',').next()?.trim().parse().ok()?;
            return (precision <= 9).then_some(ColumnType::DateTime64 { precision });
        }
        ("Decimal", Some(arguments)) => {
            let (precision, scale) = arguments.split_once(',')?;
            let (precision, scale): (u8, u8) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
            let valid = (1..=76).contains(&precision) && scale <= precision;
            return valid.then_some(ColumnType::Decimal { precision, scale });
        }
        ("FixedString", Some(arguments)) => ColumnType::FixedString { bytes: arguments.trim().parse().ok()? },
        ("Enum" | "Enum8" | "Enum16", Some(arguments)) => ColumnType::Enum { names: enum_names(arguments)? },
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
        (name, None) => integer(name)?,
        _ => return None,
    };
    Some(found)
}

fn integer(name: &str) -> Option<ColumnType> {
    let (signed, digits) = match name.strip_prefix("UInt") {
        Some(digits) => (false, digits),
        None => (true, name.strip_prefix("Int")?),
    };
    let bits: u16 = digits.parse().ok()?;
    [8, 16, 32, 64, 128, 256].contains(&bits).then_some(ColumnType::Integer { bits, signed })
}

/// Parses `'a' = 1, 'b' = 2`; the numbers may be omitted.
fn enum_names(arguments: &str) -> Option<Vec<String>> {
    let name = |part: &str| {
        let (name, rest) = unquote(part.trim(), '\'')?;
        let number = rest.trim();
        let valid = number.is_empty() || number.strip_prefix('=')?.trim().parse::<i16>().is_ok();
        valid.then_some(name)
    };
    split(arguments)?.into_iter().map(name).collect()
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

/// Splits at commas outside parentheses and quotes; `None` if these are unbalanced.
fn split(arguments: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let (mut depth, mut quote, mut start) = (0_u32, None, 0);
    let mut characters = arguments.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') => {
                characters.next()?;
            }
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '`') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.checked_sub(1)?,
            (None, ',') if depth == 0 => {
                parts.push(arguments.get(start..at)?);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(arguments.get(start..)?);
    (depth == 0 && quote.is_none()).then_some(parts)
}

/// Parses a quoted name and returns it with the rest of the text.
fn unquote(text: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.strip_prefix(quote)?.chars();
    loop {
        match characters.next()? {
            '\\' => name.push(match characters.next()? {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                same @ ('\\' | '\'' | '`' | '"') => same,
                // Possibly bytes that are not UTF-8: names that cannot be read exactly are rejected.
                _ => return None,
            }),
            end if end == quote => return Some((name, characters.as_str())),
            other => name.push(other),
        }
    }
}

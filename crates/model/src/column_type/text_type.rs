//! Types whose values are strings for filters and policies.

use std::borrow::Cow;
use std::fmt;

use super::quoting::{quoted, split, unquote};
use crate::nearest::nearest;

/// A type whose values are strings. SQL makes them strings with `toString`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TextType {
    /// `String`.
    String,
    /// `FixedString(N)`: a string of at most `N` bytes, padded with zero bytes.
    FixedString {
        /// Length in bytes.
        bytes: u32,
    },
    /// `Enum8` or `Enum16`.
    Enum {
        /// The names, in the order of the type.
        names: Vec<String>,
    },
    /// `UUID`.
    Uuid,
}

impl TextType {
    pub(super) fn parse(head: &str, arguments: Option<&str>) -> Option<Self> {
        Some(match (head, arguments) {
            ("String", None) => Self::String,
            ("FixedString", Some(arguments)) => Self::FixedString { bytes: arguments.trim().parse().ok()? },
            ("Enum" | "Enum8" | "Enum16", Some(arguments)) => Self::Enum { names: enum_names(arguments)? },
            ("UUID", None) => Self::Uuid,
            _ => return None,
        })
    }

    /// Returns a stored string as `toString` writes it.
    pub fn normalize<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match self {
            Self::String | Self::Enum { .. } => Cow::Borrowed(bytes),
            Self::FixedString { .. } => {
                let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                Cow::Borrowed(bytes.get(..end).unwrap_or_default())
            }
            Self::Uuid => Cow::Owned(bytes.to_ascii_lowercase()),
        }
    }

    /// Returns the default, which ClickHouse returns for a path that a document lacks.
    pub fn default_value(&self) -> Option<&str> {
        match self {
            Self::String | Self::FixedString { .. } => Some(""),
            Self::Enum { names } => names.first().map(String::as_str),
            Self::Uuid => Some("00000000-0000-0000-0000-000000000000"),
        }
    }

    /// Returns the reason why a column of this type cannot store the text.
    pub fn mismatch(&self, text: &str) -> Option<String> {
        match self {
            Self::String => None,
            Self::FixedString { bytes } => (text.len() > *bytes as usize)
                .then(|| format!("the column holds {bytes} bytes, these are {}", text.len())),
            Self::Enum { names } => (!names.iter().any(|name| name == text)).then(|| {
                let near = nearest(text, names.iter().map(String::as_str));
                let hint = near.first().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
                format!("`{text}` is not one of the names of the enumeration{hint}")
            }),
            Self::Uuid => (!is_uuid(text)).then(|| format!("`{text}` is not a UUID with hyphens")),
        }
    }

    /// Whether `toString` writes this text for some value of the type.
    pub fn is_normal(&self, text: &str) -> bool {
        self.mismatch(text).is_none() && *self.normalize(text.as_bytes()) == *text.as_bytes()
    }
}

impl fmt::Display for TextType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String => f.write_str("String"),
            Self::FixedString { bytes } => write!(f, "FixedString({bytes})"),
            Self::Enum { names } => {
                let names: Vec<String> = names.iter().map(|name| quoted(name, '\'')).collect();
                write!(f, "Enum({})", names.join(", "))
            }
            Self::Uuid => f.write_str("UUID"),
        }
    }
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

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

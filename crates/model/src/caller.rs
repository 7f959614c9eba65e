//! The caller: the part of a user that policies can read.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The value of a user's attribute.
// Stored in this form, too: another form needs a migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a string, a boolean or a list of strings")]
#[schema(as = Attribute)]
pub enum AttributeValue {
    /// A string.
    String(String),
    /// A boolean.
    Bool(bool),
    /// A list of strings.
    Strings(Vec<String>),
}

/// Kind of an attribute value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AttributeKind {
    /// A string.
    String,
    /// A boolean.
    Bool,
    /// A list of strings.
    Strings,
}

impl AttributeKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::String, Self::Bool, Self::Strings];

    /// Returns the name shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Bool => "a boolean",
            Self::Strings => "a list",
        }
    }
}

impl AttributeValue {
    /// Returns the kind of the value.
    pub fn kind(&self) -> AttributeKind {
        match self {
            Self::String(_) => AttributeKind::String,
            Self::Bool(_) => AttributeKind::Bool,
            Self::Strings(_) => AttributeKind::Strings,
        }
    }
}

/// The caller as policies see it: `user.username`, `user.roles`, `user.attributes`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// `user.username`.
    pub username: String,
    /// `user.roles`.
    pub roles: BTreeSet<String>,
    /// `user.attributes`.
    pub attributes: BTreeMap<String, AttributeValue>,
}

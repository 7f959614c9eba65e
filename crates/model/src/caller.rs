//! Who asks: the part of a user that policies can see.

use std::collections::{BTreeMap, BTreeSet};

/// The value of a user's attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// A string.
    String(String),
    /// A boolean.
    Bool(bool),
    /// A list of strings.
    Strings(Vec<String>),
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

//! The caller: the part of a user that policies can read.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use strum::EnumDiscriminants;
use utoipa::ToSchema;

/// The value of a user's attribute.
// Stored in this form, too: another form needs a migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, EnumDiscriminants)]
#[strum_discriminants(
    name(AttributeKind),
    derive(Hash, PartialOrd, Ord, strum::Display, strum::VariantArray)
)]
#[strum_discriminants(doc = "Kind of an attribute value. `Display` writes the name shown to users.")]
#[serde(untagged, expecting = "expected a string, a boolean or a list of strings")]
#[schema(as = Attribute)]
pub enum AttributeValue {
    /// A string.
    #[strum_discriminants(strum(to_string = "a string"))]
    String(String),
    /// A boolean.
    #[strum_discriminants(strum(to_string = "a boolean"))]
    Bool(bool),
    /// A list of strings.
    #[strum_discriminants(strum(to_string = "a list"))]
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

//! Claims of an identity provider about a person, and the mapping of claims to roles and attributes.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::caller::AttributeValue;
use crate::field::escape;

/// Maximum number of elements of a list. A longer list counts as absent: nothing is decided by a part of it.
const LIST_MAX: usize = 2_000;

/// The claims that a mapping can read, by their reference, such as `claims.groups` or `claims["https://example.com/team"]`.
/// These are strings, booleans and lists of strings, at any depth. Claims of other types are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims(pub BTreeMap<String, AttributeValue>);

/// The roles and attributes that people get from claims.
// Stored in this form, too: another form needs a migration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct ClaimsMapping {
    // In the administrator's order.
    /// Roles. Each rule gives its role independently of the others.
    #[serde(default)]
    #[schema(required = false)]
    pub roles: Vec<RoleRule>,
    /// Attributes: the name, and a CEL expression whose value the attribute gets.
    #[serde(default, deserialize_with = "unique_names")]
    #[schema(required = false, example = json!({ "team": "claims.department" }))]
    pub attributes: BTreeMap<String, String>,
}

/// A role for the people whose claims satisfy a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct RoleRule {
    /// Name of the role.
    #[schema(examples("payments"))]
    pub role: String,
    /// CEL condition over `claims`. If its result depends on an absent claim, the rule gives no role.
    #[schema(examples("\"/payments\" in claims.groups"))]
    pub when: String,
}

/// The mappings of all identity providers, by the provider's name.
pub type ClaimsMappings = BTreeMap<String, ClaimsMapping>;

/// Reads an object without duplicate names: different parsers would use different ones of the two values.
///
/// # Errors
/// If a name occurs twice, or the value is not an object of strings.
fn unique_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    struct UniqueNames;
    impl<'de> Visitor<'de> for UniqueNames {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
            let mut found = BTreeMap::new();
            while let Some((name, value)) = members.next_entry::<String, String>()? {
                if let Some(name) = found.insert(name.clone(), value).map(|_| name) {
                    return Err(A::Error::custom(format!("`{name}` appears twice")));
                }
            }
            Ok(found)
        }
    }
    deserializer.deserialize_map(UniqueNames)
}

impl Claims {
    /// Reads the claims of a JSON object.
    pub fn from_json(claims: &Map<String, Value>) -> Self {
        let mut found = BTreeMap::new();
        collect(claims, "claims", &mut found);
        Self(found)
    }
}

fn collect(object: &Map<String, Value>, prefix: &str, found: &mut BTreeMap<String, AttributeValue>) {
    for (name, value) in object {
        let reference = member(prefix, name);
        let value = match value {
            Value::Object(inner) => {
                collect(inner, &reference, found);
                continue;
            }
            Value::String(text) => AttributeValue::String(text.clone()),
            Value::Bool(value) => AttributeValue::Bool(*value),
            Value::Array(elements) if elements.len() <= LIST_MAX => {
                let texts = elements.iter().map(|element| element.as_str().map(str::to_owned));
                match texts.collect() {
                    Some(texts) => AttributeValue::Strings(texts),
                    None => continue,
                }
            }
            _ => continue,
        };
        found.insert(reference, value);
    }
}

/// Returns the reference to a claim by its path. Different paths have different references.
pub fn claim_reference<'a>(path: impl IntoIterator<Item = &'a str>) -> String {
    path.into_iter().fold("claims".to_owned(), |prefix, name| member(&prefix, name))
}

fn member(prefix: &str, name: &str) -> String {
    let is_first = |first: char| first.is_ascii_alphabetic() || first == '_';
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.starts_with(is_first) && name.bytes().all(is_name) {
        format!("{prefix}.{name}")
    } else {
        format!("{prefix}[\"{}\"]", escape(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(text: &str) -> Vec<(String, AttributeValue)> {
        Claims::from_json(&serde_json::from_str(text).unwrap()).0.into_iter().collect()
    }

    #[test]
    fn only_strings_booleans_and_lists_of_strings_are_claims() {
        let text = r#"{"sub": "1", "admin": false, "groups": ["a", "b"], "none": [], "exp": 7, "null": null,
            "mixed": ["a", 1], "lists": [["a"]], "objects": [{}], "realm": {"roles": ["x"], "deep": {"y": "z"}}}"#;
        let string = |text: &str| AttributeValue::String(text.to_owned());
        let list =
            |texts: &[&str]| AttributeValue::Strings(texts.iter().map(|&text| text.to_owned()).collect());
        let expected = [
            ("claims.admin", AttributeValue::Bool(false)),
            ("claims.groups", list(&["a", "b"])),
            ("claims.none", list(&[])),
            ("claims.realm.deep.y", string("z")),
            ("claims.realm.roles", list(&["x"])),
            ("claims.sub", string("1")),
        ];
        assert_eq!(claims(text), expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn different_paths_have_different_references() {
        let text =
            r#"{"a.b": "1", "a": {"b": "2"}, "a\"]": {"[\"b": "3"}, "a\"][\"b": "4", "": "5", "1": "6"}"#;
        let expected = [
            ("claims.a.b", "2"),
            (r#"claims["1"]"#, "6"),
            (r#"claims[""]"#, "5"),
            (r#"claims["a.b"]"#, "1"),
            (r#"claims["a\"]"]["[\"b"]"#, "3"),
            (r#"claims["a\"][\"b"]"#, "4"),
        ];
        let mut expected =
            expected.map(|(name, text)| (name.to_owned(), AttributeValue::String(text.to_owned())));
        expected.sort_by(|one, other| one.0.cmp(&other.0));
        assert_eq!(claims(text), expected);
        assert_eq!(claim_reference(["a", "b.c"]), r#"claims.a["b.c"]"#);
    }

    #[test]
    fn a_list_beyond_the_limit_is_absent() {
        let list =
            |count: usize| format!("{{\"groups\": {}}}", serde_json::to_string(&vec!["g"; count]).unwrap());
        assert_eq!(claims(&list(LIST_MAX)).len(), 1);
        assert_eq!(claims(&list(LIST_MAX + 1)).len(), 0);
    }
}

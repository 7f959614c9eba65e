//! Details of a change in audit records: enough to tell the state before and after, in bounded size.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tracewarden_model::AttributeValue;

/// Maximum size of a member of a record's detail; a larger one is left out. A request body has at most one MiB and a detail
/// has few members, but a caller must not be able to fill the disk one MiB at a time.
const MEMBER_MAX_BYTES: usize = 64 * 1024;

/// Returns the detail with each member within bounds. The length and the digest of a larger member replace it, by which a
/// copy can still be recognised.
pub(crate) fn bounded(mut detail: Value) -> Value {
    if let Value::Object(members) = &mut detail {
        for value in members.values_mut() {
            *value = bounded_member(value.take());
        }
    }
    detail
}

/// Returns the detail with those of these members in addition that have a value.
pub(crate) fn with_members<'a>(
    mut detail: Value,
    members: impl IntoIterator<Item = (&'a str, impl Into<Option<Value>>)>,
) -> Value {
    if let Value::Object(all) = &mut detail {
        all.extend(members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.into()?))));
    }
    detail
}

/// Returns one member of a detail, within bounds.
pub(crate) fn bounded_member(value: Value) -> Value {
    let text = value.to_string();
    if text.len() <= MEMBER_MAX_BYTES {
        return value;
    }
    json!({ "omitted_bytes": text.len(), "sha256": hex::encode(Sha256::digest(text.as_bytes())) })
}

/// Returns the entries that differ: `added` and `removed` with their value, `changed` with both values.
pub(crate) fn difference(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Value {
    let only = |one: &BTreeMap<String, Value>, other: &BTreeMap<String, Value>| -> Map<String, Value> {
        let only = one.iter().filter(|(name, _)| !other.contains_key(*name));
        only.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let changed: Map<String, Value> = before
        .iter()
        .filter_map(|(name, before)| {
            let after = after.get(name).filter(|after| *after != before)?;
            Some((name.clone(), json!({ "before": before, "after": after })))
        })
        .collect();
    json!({ "added": only(after, before), "removed": only(before, after), "changed": changed })
}

/// Converts a user's attributes. Attributes decide about access as roles do, so the log must contain them.
pub(crate) fn attributes(attributes: &BTreeMap<String, AttributeValue>) -> BTreeMap<String, Value> {
    attributes.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_members_are_replaced_by_a_digest() {
        // The limit includes the quotation marks.
        let (small, large) = ("x".repeat(65_534), "x".repeat(65_535));
        let detail = bounded(json!({ "small": small, "large": large }));
        assert_eq!(detail["small"], small);
        let digest = hex::encode(Sha256::digest(format!("\"{large}\"").as_bytes()));
        assert_eq!(detail["large"], json!({ "omitted_bytes": 65_537, "sha256": digest }));
    }

    #[test]
    fn differences_contain_only_changed_members() {
        let map = |entries: &[(&str, i64)]| -> BTreeMap<String, Value> {
            entries.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
        };
        let (before, after) = (map(&[("a", 1), ("b", 2), ("c", 3)]), map(&[("b", 2), ("c", 4), ("d", 5)]));
        let expected = json!({
            "added": { "d": 5 },
            "removed": { "a": 1 },
            "changed": { "c": { "before": 3, "after": 4 } },
        });
        assert_eq!(difference(&before, &after), expected);
    }
}

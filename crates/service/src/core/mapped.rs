//! Evaluation of a mapping: the roles and attributes that it gives a person.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tracewarden_appdb::MappedAttributes;
use tracewarden_model::{Claims, ClaimsMapping};
use tracewarden_policy::{CheckedMapping, MappedAccess, check_mapping};

use crate::core::error::{Result, ServiceError};
use crate::core::{audit_detail, blocking, validate};

/// The mapped roles and attributes of a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) roles: BTreeSet<String>,
    /// All attributes of the mapping; `None` for those without a value.
    pub(crate) attributes: MappedAttributes,
}

impl Mapped {
    /// Returns what can be stored of a result: roles that exist, and attributes within their limits.
    pub(crate) fn new(access: MappedAccess, existing_roles: &BTreeSet<String>) -> Self {
        let roles = access.roles.intersection(existing_roles).cloned().collect();
        let mut attributes = access.attributes;
        for (name, value) in &mut attributes {
            let mut errors = Vec::new();
            if let Some(found) = value.as_ref() {
                validate::attributes(&BTreeMap::from([(name.clone(), found.clone())]), &mut errors);
            }
            if !errors.is_empty() {
                *value = None;
            }
        }
        let valid =
            attributes.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect();
        let mut errors = Vec::new();
        validate::attributes(&valid, &mut errors);
        if !errors.is_empty() {
            // Together they are too large: some of them would not be all that the mapping means.
            attributes.values_mut().for_each(|value| *value = None);
        }
        Self { roles, attributes }
    }

    /// Detail for an audit record of what differs from a user's present mapped access.
    pub(crate) fn difference(&self, before: &Self) -> Value {
        let values = |mapped: &Self| -> BTreeMap<String, Value> {
            mapped.attributes.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
        };
        json!({
            "roles": { "before": before.roles, "after": self.roles },
            "attributes": audit_detail::difference(&values(before), &values(self)),
        })
    }
}

/// Evaluates a mapping that was valid when it was stored.
pub(crate) async fn evaluate_mapping(
    mapping: ClaimsMapping,
    people: Vec<Claims>,
) -> Result<Vec<MappedAccess>> {
    blocking(move || {
        let checked = check_mapping(&mapping).map_err(|errors| {
            let first = errors.into_iter().next().map(|error| error.diagnostic.message);
            ServiceError::failed("a stored mapping", first.unwrap_or_default())
        })?;
        evaluate_checked(&checked, &people)
    })
    .await?
}

pub(crate) fn evaluate_checked(checked: &CheckedMapping, people: &[Claims]) -> Result<Vec<MappedAccess>> {
    checked.evaluate(people).map_err(|errors| {
        let first = errors.into_iter().next().map(|error| error.message);
        ServiceError::unavailable(first.unwrap_or_default())
    })
}

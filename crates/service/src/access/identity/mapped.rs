//! Roles and attributes that people have by the mappings. They are computed from the stored claims when the claims or the mapping
//! change, in the transaction of that change, and not when a request reads the user.

use std::collections::BTreeSet;

use serde::Serialize;
use tracewarden_appdb::{AppDb, MappedAttributes, StoredClaims, User, WriteTx};
use tracewarden_model::{Claims, ClaimsMapping, ClaimsMappings};
use utoipa::ToSchema;

use crate::core::{Mapped, Result, ServiceError, evaluate_mapping};

/// Number of people whose claims are read together.
const BATCH_PEOPLE: u32 = 500;

/// Reads stored claims.
pub(super) fn parse_claims(text: &str) -> Result<Claims> {
    let claims = serde_json::from_str(text).map_err(|error| ServiceError::failed("stored claims", error))?;
    Ok(Claims::from_json(&claims))
}

/// Applies a provider's new mapping to all people who have signed in with it. Returns the number of people whose mapped access
/// changed.
pub(crate) async fn remap(tx: &mut WriteTx, provider: &str, mapping: &ClaimsMapping) -> Result<u64> {
    let existing: BTreeSet<String> = tx.role_names().await?.into_iter().collect();
    let (mut after, mut changed) = (String::new(), 0_u64);
    loop {
        let batch = tx.identities().claims(provider, &after, BATCH_PEOPLE).await?;
        let Some(last) = batch.last() else { return Ok(changed) };
        after.clone_from(&last.user_id);
        let claims = batch.iter().map(|stored| parse_claims(&stored.claims)).collect::<Result<_>>()?;
        let evaluated = evaluate_mapping(mapping.clone(), claims).await?;
        let mut written = Vec::new();
        for (StoredClaims { user_id, roles, attributes, .. }, access) in batch.iter().zip(evaluated) {
            let mapped = Mapped::new(access, &existing);
            if (&mapped.roles, &mapped.attributes) != (roles, attributes) {
                written.push((user_id.as_str(), mapped.roles, mapped.attributes));
            }
        }
        changed = changed.saturating_add(written.len() as u64);
        if !written.is_empty() {
            tx.identities_mut().put_mapped(&written).await?;
        }
    }
}

/// A person whose access a changed mapping changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct MappedPerson {
    /// Name of the user.
    pub username: String,
    /// The identity provider.
    pub provider: String,
    /// Roles that the person would get.
    pub roles_gained: Vec<String>,
    /// Roles that the person would lose.
    pub roles_lost: Vec<String>,
    /// Names of attributes that would change.
    pub attributes_changed: Vec<String>,
}

/// Returns the people whose mapped access would differ after a change of these mappings to a model with these roles: the first
/// `limit`, and the number of all. Changes nothing.
pub(crate) async fn changed_people(
    db: &AppDb,
    mappings: &ClaimsMappings,
    existing_roles: &BTreeSet<String>,
    limit: usize,
) -> Result<(Vec<MappedPerson>, u64)> {
    let (mut people, mut changed) = (Vec::new(), 0_u64);
    for (provider, mapping) in mappings {
        let mut after = String::new();
        loop {
            // Each batch in a snapshot of its own: to evaluate all may take long.
            let batch = db.begin_read().await?.identities().claims(provider, &after, BATCH_PEOPLE).await?;
            let Some(last) = batch.last() else { break };
            after.clone_from(&last.user_id);
            let claims = batch.iter().map(|stored| parse_claims(&stored.claims)).collect::<Result<_>>()?;
            for (stored, access) in batch.into_iter().zip(evaluate_mapping(mapping.clone(), claims).await?) {
                let mapped = Mapped::new(access, existing_roles);
                let difference = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
                    one.difference(other).cloned().collect()
                };
                let person = MappedPerson {
                    roles_gained: difference(&mapped.roles, &stored.roles),
                    roles_lost: difference(&stored.roles, &mapped.roles),
                    attributes_changed: changed_values(&mapped.attributes, &stored.attributes),
                    username: stored.username,
                    provider: provider.clone(),
                };
                let MappedPerson { roles_gained, roles_lost, attributes_changed, .. } = &person;
                if roles_gained.is_empty() && roles_lost.is_empty() && attributes_changed.is_empty() {
                    continue;
                }
                changed = changed.saturating_add(1);
                if people.len() < limit {
                    people.push(person);
                }
            }
        }
    }
    Ok((people, changed))
}

/// Returns the names under which the values differ.
fn changed_values(one: &MappedAttributes, other: &MappedAttributes) -> Vec<String> {
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let value = |side: &MappedAttributes, name: &String| side.get(name).cloned().flatten();
    names.into_iter().filter(|name| value(one, name) != value(other, name)).cloned().collect()
}

/// Returns a user's present mapped access.
pub(super) fn present(user: &User) -> Mapped {
    let Some(identity) = &user.identity else { return Mapped::default() };
    let value = |name: &String| (name.clone(), user.attributes.get(name).cloned());
    Mapped {
        roles: user.roles.difference(&identity.assigned_roles).cloned().collect(),
        attributes: identity.mapped_attributes.iter().map(value).collect(),
    }
}

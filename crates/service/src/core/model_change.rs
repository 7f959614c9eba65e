//! Changes of the binding or the marked fields.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tracewarden_appdb::{CurrentModel, DbError, NewChange, Policy, Role, WriteTx};
use tracewarden_clickhouse::{Column, FieldLookupError, PhysicalField, physical_field};
use tracewarden_model::{AccessModel, ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};
use tracewarden_policy as policy;

use crate::core::Core;
use crate::core::audit_detail::{difference, with_members};
use crate::core::error::{Result, ServiceError};
use crate::core::field_error::{FieldError, unknown};
use crate::core::precondition::IfMatch;
use crate::core::principal::Administrator;
use crate::core::tasks::blocking;

/// Checks that the precondition names the current binding and fields, or the current access model. Before a table is bound, a
/// version exists, but no binding that `*` could refer to.
pub(crate) fn check_version(if_match: Option<IfMatch>, current: &CurrentModel) -> Result<()> {
    match if_match {
        None => Err(ServiceError::PreconditionRequired),
        Some(IfMatch::Existing) if current.model.binding.is_none() => Err(ServiceError::PreconditionFailed),
        Some(IfMatch::AtVersion { version, tags }) => {
            check_model_version(version, current)?;
            tags.map_or(Ok(()), |tags| IfMatch::Versions(tags).check(Some(current.model.version)))
        }
        Some(if_match) => if_match.check(Some(current.model.version)),
    }
}

fn check_model_version(version: u64, current: &CurrentModel) -> Result<()> {
    if version == current.version { Ok(()) } else { Err(ServiceError::PreconditionFailed) }
}

impl Core {
    /// Creates the history entry for a change of the access model: every writer of roles or models records one in its
    /// transaction, and puts its number into the audit record.
    pub(crate) fn new_change<'a>(
        &self,
        admin: &'a Administrator<'_>,
        action: &'a str,
        target: Option<&'a str>,
        model_version: u64,
    ) -> NewChange<'a> {
        NewChange { at: self.now(), by: (admin.user_id(), admin.username()), action, target, model_version }
    }

    /// Begins a change of the model from `current`, and finds the policies that it would break: none must break unnoticed.
    /// They are checked before the transaction, because all other writers wait for its end, and again within it only if roles
    /// have changed since.
    async fn begin_with_broken_policies(
        &self,
        admin: &Administrator<'_>,
        current: &AccessModel,
        next: &AccessModel,
    ) -> Result<(WriteTx, Vec<FieldError>)> {
        let seen = self.db.begin_read().await?.roles().await?;
        let find = |roles: Vec<Role>| {
            let (current, next) = (current.clone(), next.clone());
            move || broken_policies(&roles, &current, &next)
        };
        let broken = self.permits.model_checks.run(find(seen.clone())).await?;
        let mut tx = self.begin_change(admin).await?;
        if tx.access_model().await? != *current {
            return Err(ServiceError::PreconditionFailed);
        }
        let roles = tx.roles().await?;
        if roles == seen {
            return Ok((tx, broken));
        }
        // Bypasses the queue: only one change at a time gets here, and queued tasks may wait for it.
        let broken = blocking(find(roles)).await?;
        Ok((tx, broken))
    }

    /// Stores a model; its version must be new.
    pub(crate) async fn insert_model(
        &self,
        tx: &mut WriteTx,
        admin: &Administrator<'_>,
        model: &AccessModel,
    ) -> Result<()> {
        let by = (admin.user_id(), admin.username());
        tx.insert_access_model(model, self.now(), by).await.map_err(|error| match error {
            DbError::Conflict(_) => ServiceError::PreconditionFailed,
            other => other.into(),
        })
    }

    /// Stores `next` in place of `current`, with its audit record. An identical model makes no change.
    ///
    /// # Errors
    /// [`ServiceError::PreconditionFailed`] when `current` is no longer the current model, or the access model is no longer
    /// at the version that `if_match` names; [`ServiceError::Conflict`] naming the stored policies that would no longer
    /// compile.
    pub(crate) async fn put_model(
        &self,
        admin: &Administrator<'_>,
        action: &'static str,
        current: &AccessModel,
        mut next: AccessModel,
        if_match: Option<IfMatch>,
    ) -> Result<CurrentModel> {
        let check_if_match = |stored: &CurrentModel| match &if_match {
            Some(IfMatch::AtVersion { version, .. }) => check_model_version(*version, stored),
            // Checked earlier: an entity tag refers to `current`.
            _ => Ok(()),
        };
        if (&next.binding, &next.fields) == (&current.binding, &current.fields) {
            let mut tx = self.begin_change(admin).await?;
            let stored = tx.current_model().await?;
            check_if_match(&stored)?;
            if stored.model != *current {
                return Err(ServiceError::PreconditionFailed);
            }
            self.commit_change(tx, admin, action, None, no_change_detail(stored.version)).await?;
            return Ok(stored);
        }
        next.version = current.version.saturating_add(1);
        let (mut tx, broken) = self.begin_with_broken_policies(admin, current, &next).await?;
        if !broken.is_empty() {
            let names: Vec<&str> = broken.iter().map(|error| error.detail.as_str()).collect();
            let detail = format!("the change would break stored policies: {}", names.join("; "));
            return Err(ServiceError::Conflict { detail, errors: broken });
        }
        check_if_match(&tx.current_model().await?)?;
        self.insert_model(&mut tx, admin, &next).await?;
        let change = self.new_change(admin, action, None, next.version);
        let version = tx.record_change(&change, &[], None).await?;
        self.commit_change(tx, admin, action, None, change_detail(version, current, &next)).await?;
        Ok(CurrentModel { version, model: next })
    }
}

/// Detail of the audit record if the request makes no change.
pub(crate) fn no_change_detail(version: u64) -> Value {
    json!({ "version": version, "changes": 0 })
}

/// Returns the errors of stored policies that compile under `current` but not under `next`. Policies that are already broken
/// are ignored: they must not prevent a correction of the model.
fn broken_policies(roles: &[Role], current: &AccessModel, next: &AccessModel) -> Vec<FieldError> {
    let broken = |role: &str, stored: &Policy| {
        let diagnostics = policy::check(&stored.expression, next).err()?;
        policy::check(&stored.expression, current).ok()?;
        let reason = diagnostics.into_iter().next()?;
        let detail = format!("role `{role}`, policy `{}`: {}", stored.title, reason.message);
        let (pointer, diagnostic) = (String::new(), Some(reason));
        Some(FieldError { pointer, code: "policy_invalid", detail, diagnostic })
    };
    let policies = roles.iter().flat_map(|role| role.policies.iter().map(|policy| (&role.name, policy)));
    policies.filter_map(|(role, policy)| broken(role, policy)).collect()
}

/// Detail of the audit record: the new version of the access model, both bindings if they differ, and each field that was
/// added, removed or changed.
pub(crate) fn change_detail(version: u64, current: &AccessModel, next: &AccessModel) -> Value {
    let mut changed = Vec::new();
    if current.binding != next.binding {
        changed.push(("binding", json!({ "before": current.binding, "after": next.binding })));
    }
    let [before, after] = [current, next].map(|model| -> BTreeMap<String, Value> {
        model.fields.iter().map(|field| (field.field.to_string(), field_detail(field))).collect()
    });
    if before != after {
        changed.push(("fields", difference(&before, &after)));
    }
    with_members(json!({ "version": version }), changed)
}

fn field_detail(field: &MarkedField) -> Value {
    let detail = json!({ "type": field.logical, "filterable": field.filterable, "policy": field.policy });
    with_members(detail, [("column", field.column.as_deref().map(Value::from))])
}

/// Reason why a field cannot be marked: the invalid member, a code and a message.
pub(crate) type ResolveError = (&'static str, &'static str, String);

/// Resolves a field in the bound table, and its logical type: the requested one, or the natural one.
pub(crate) fn resolve(
    field: &FieldRef,
    requested: Option<LogicalType>,
    columns: &[Column],
) -> Result<(FieldSource, LogicalType, ColumnType), ResolveError> {
    let member = if field.map.is_some() { "map" } else { "name" };
    let physical = physical_field(field, columns).map_err(|no_field| match no_field {
        FieldLookupError::UnknownColumn { name, nearest } => {
            (member, "unknown_field", unknown("column", &name, &nearest))
        }
        FieldLookupError::UnknownMember { column, name, nearest } => {
            let what = format!("column `{column}` has {}", unknown("member", &name, &nearest));
            (member, "unknown_field", what)
        }
        FieldLookupError::UnsupportedColumn(reason) => {
            (member, "invalid_value", format!("no field can be made of `{field}`: {reason}"))
        }
        FieldLookupError::UnsupportedName(reason) => {
            ("name", "invalid_value", format!("no field can be made of `{field}`: {reason}"))
        }
    })?;
    let PhysicalField { source, column_type, logical_types } = physical;
    let logical = match requested {
        Some(requested) if !logical_types.contains(&requested) => {
            let names: Vec<&str> = logical_types.iter().map(|logical| logical.as_str()).collect();
            let detail = format!(
                "`{field}` cannot be {requested}: it is of type {column_type}, which can be {}",
                names.join(" or ")
            );
            return Err(("type", "invalid_value", detail));
        }
        Some(requested) => requested,
        None => match logical_types.first() {
            Some(natural) => *natural,
            None => return Err((member, "invalid_value", format!("no field can be made of `{field}`"))),
        },
    };
    Ok((source, logical, column_type))
}

//! Putting a new version of the access model in force.

use serde_json::Value;
use tracewarden_appdb::{DbError, Policy, WriteTx};
use tracewarden_model::{AccessModel, ColumnType, FieldRef, LogicalType, nearest::nearest};
use tracewarden_policy as policy;
use tracewarden_tracestore::Column;

use crate::error::{FieldError, ServiceError, unknown};
use crate::precondition::IfMatch;
use crate::principal::Administrator;
use crate::service::{Service, blocking};

/// Whether the caller means the version that is in force. Before a table is bound there is a version to name, yet
/// nothing of which somebody could say that it exists.
pub(crate) fn check_version(if_match: Option<IfMatch>, current: &AccessModel) -> Result<(), ServiceError> {
    match if_match {
        None => Err(ServiceError::PreconditionRequired),
        Some(IfMatch::Existing) if current.binding.is_none() => Err(ServiceError::PreconditionFailed),
        Some(if_match) => if_match.check(Some(current.version)),
    }
}

impl Service {
    /// Stores `next` as the version after `current`, with its audit record.
    ///
    /// # Errors
    /// [`ServiceError::PreconditionFailed`] when `current` is no longer in force, [`ServiceError::Conflict`] naming the
    /// stored policies that would no longer compile.
    pub(crate) async fn put_model(
        &self,
        admin: &Administrator<'_>,
        action: &'static str,
        current: &AccessModel,
        mut next: AccessModel,
        detail: impl FnOnce(&AccessModel) -> Value,
    ) -> Result<AccessModel, ServiceError> {
        let mut tx = self.db().begin_write().await?;
        if tx.access_model().await? != *current {
            return Err(ServiceError::PreconditionFailed);
        }
        next.version = current.version.saturating_add(1);
        self.refuse_broken_policies(&mut tx, current, &next).await?;
        let by = (admin.user_id(), admin.username());
        tx.insert_access_model(&next, self.now(), by).await.map_err(|error| match error {
            DbError::Conflict(_) => ServiceError::PreconditionFailed,
            other => other.into(),
        })?;
        self.record(&mut tx, admin, action, None, detail(&next)).await?;
        tx.commit().await?;
        Ok(next)
    }

    async fn refuse_broken_policies(
        &self,
        tx: &mut WriteTx,
        current: &AccessModel,
        next: &AccessModel,
    ) -> Result<(), ServiceError> {
        let policies: Vec<(String, Policy)> = tx
            .roles()
            .await?
            .into_iter()
            .flat_map(|role| {
                let name = role.name;
                role.policies.into_iter().map(move |policy| (name.clone(), policy))
            })
            .collect();
        let (current, next) = (current.clone(), next.clone());
        let errors = blocking(move || {
            let broken = policies.iter().filter_map(|(role, stored)| {
                let diagnostics = policy::check(&stored.expression, &next).err()?;
                // What is broken already does not get worse, and must not keep the model from being mended.
                policy::check(&stored.expression, &current).ok()?;
                let reason = diagnostics.into_iter().next()?;
                let detail = format!("role `{role}`, policy `{}`: {}", stored.title, reason.message);
                Some(FieldError {
                    pointer: String::new(),
                    code: "policy_invalid",
                    detail,
                    diagnostic: Some(reason),
                })
            });
            broken.collect::<Vec<_>>()
        })
        .await?;
        if errors.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = errors.iter().map(|error| error.detail.as_str()).collect();
        let detail = format!("the change would break stored policies: {}", names.join("; "));
        Err(ServiceError::Conflict { detail, errors })
    }
}

/// Why a field cannot be marked: the offending member, a code and a text.
pub(crate) type Unresolved = (&'static str, &'static str, String);

/// Finds what a field is made of in the bound table, and its logical type: the wanted one, or the natural one.
pub(crate) fn resolve(
    field: &FieldRef,
    wanted: Option<LogicalType>,
    columns: &[Column],
) -> Result<(LogicalType, ColumnType), Unresolved> {
    let holder = field.map.as_ref().unwrap_or(&field.name);
    let member = if field.map.is_some() { "map" } else { "name" };
    let Some(column) = columns.iter().find(|column| column.name == *holder) else {
        let near = nearest(holder, columns.iter().map(|column| column.name.as_str()));
        return Err((member, "unknown_field", unknown("column", holder, &near)));
    };
    let (possible, column_type) = match &field.map {
        None => (column.column_type.logical_types(), Some(&column.column_type)),
        Some(_) => (column.column_type.map_key_logical_types(), column.column_type.map_value()),
    };
    let (Some(natural), Some(column_type)) = (possible.first(), column_type) else {
        let what = match field.map {
            None => "no field can be made of",
            Some(_) => "no field can be made of keys of",
        };
        let detail = format!("{what} column `{holder}` of type {}", column.type_text);
        return Err((member, "invalid_value", detail));
    };
    let logical = wanted.unwrap_or(*natural);
    if !possible.contains(&logical) {
        let names: Vec<&str> = possible.iter().map(|logical| logical.as_str()).collect();
        let detail = format!("`{field}` cannot be {logical}, only {}", names.join(" or "));
        return Err(("type", "invalid_value", detail));
    }
    Ok((logical, column_type.clone()))
}

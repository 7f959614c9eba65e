//! Check of a file against the current access model, before it is planned or applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use tracewarden_appdb::{ADMIN_ROLE, ModelState, Policy};
use tracewarden_model::{AccessModel, Binding, ClaimsMapping, ClaimsMappings, MarkedField};
use tracewarden_policy::Diagnostic;
use utoipa::ToSchema;

use super::{ExportedModel, FileField, ModelChange, ModelFile, changes};
use crate::access::{case_conflict, check_mappings, check_role_input, compile_policies};
use crate::core::{FieldError, Result, ServiceError};
use crate::model_file::ModelFiles;
use crate::source::{
    FieldMark, Source, adopted, check_field_count, is_other_table, resolve_marks, without_column,
};

/// A warning about a policy of a model file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ModelWarning)]
pub struct PolicyWarning {
    /// The role.
    pub role: String,
    /// The policy's title.
    pub title: String,
    /// The possible mistake.
    #[serde(flatten)]
    pub diagnostic: Diagnostic,
}

/// Handling of the columns that a file adopts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Apply: compare them with the data.
    Apply,
    /// Plan: only mention them, because a comparison can take minutes.
    Plan,
}

/// File that was checked against the current state, ready to be applied.
pub(super) struct PreparedImport {
    pub(super) version: u64,
    pub(super) before: ModelState,
    pub(super) after: ModelState,
    pub(super) changes: Vec<ModelChange>,
    pub(super) warnings: Vec<PolicyWarning>,
    pub(super) notes: Vec<String>,
}

impl ModelFiles {
    /// Checks a file like the requests that change a part of the model.
    pub(super) async fn prepare_model(
        &self,
        current: ExportedModel,
        file: ModelFile,
        mode: Mode,
    ) -> Result<PreparedImport> {
        let ExportedModel { version, state: before } = current;
        let ModelFile { binding, fields, roles, mappings, tests } = file;
        let roles = all_roles(roles)?;
        let mappings = next_mappings(&before.mappings, mappings)?;
        let mut notes = Vec::new();
        let model = self.next_model(&before.model, binding, fields, mode, &mut notes).await?;
        let after = ModelState { model, roles: roles.iter().cloned().collect(), mappings, tests };
        let work = move || {
            check_mappings(&after.mappings, after.roles.keys())
                .map_err(|error| error.map_pointers(|pointer| pointer.insert_str(0, "/identity")))?;
            let (warnings, broken) = check_policies(&roles, &before, &after)?;
            notes.extend(broken);
            let changes = changes::between(&before, &after);
            Ok(PreparedImport { version, before, after, changes, warnings, notes })
        };
        let pool = match mode {
            Mode::Apply => &self.core.permits.model_checks,
            Mode::Plan => &self.core.permits.analysis,
        };
        pool.run(work).await?
    }

    /// Resolves the binding and fields of a file. ClickHouse is not queried if they equal the current ones, so that a file of
    /// roles can be applied while ClickHouse is unavailable.
    async fn next_model(
        &self,
        current: &AccessModel,
        binding: Option<Binding>,
        fields: Vec<FileField>,
        mode: Mode,
        notes: &mut Vec<String>,
    ) -> Result<AccessModel> {
        let same_fields = fields.len() == current.fields.len()
            && fields.iter().zip(&current.fields).all(|(field, stored)| field.equals(stored));
        if same_fields && binding == current.binding {
            return Ok(current.clone());
        }
        let version = current.version.saturating_add(1);
        let Some(binding) = binding else {
            if fields.is_empty() {
                return Ok(AccessModel { version, binding: None, fields: Vec::new() });
            }
            let detail = "fields need a bound table: add the `binding`, or leave the fields out";
            return Err(ServiceError::invalid("/binding", detail));
        };
        let marks: Vec<FieldMark> = fields.into_iter().map(|field| field.mark).collect();
        check_field_count(&marks)?;
        let source = Source { core: Arc::clone(&self.core) };
        let of_binding =
            |error: ServiceError| error.map_pointers(|pointer| pointer.insert_str(0, "/binding"));
        notes.extend(source.check_binding(&binding).await.map_err(of_binding)?);
        let columns = self.core.clickhouse.catalogue().columns(&binding.database, &binding.table).await?;
        let fields = resolve_marks(marks, &columns)?;
        let mut known = current.clone();
        if is_other_table(current, &binding) {
            // The comparison was made with the rows of the other table.
            known.fields = known.fields.into_iter().map(without_column).collect();
        }
        match mode {
            Mode::Apply => {
                source.check_time_bucket(current, &binding).await.map_err(of_binding)?;
                source.compare_adopted(&binding, &known, &fields).await?;
            }
            // A plan does not compare the whole table, which can take long.
            Mode::Plan => notes.extend(skipped_comparisons(&known, &binding, &fields)),
        }
        let next = AccessModel { version, binding: Some(binding), fields };
        let unchanged = (&next.binding, &next.fields) == (&current.binding, &current.fields);
        Ok(if unchanged { current.clone() } else { next })
    }
}

impl PreparedImport {
    pub(super) fn removed_roles(&self) -> impl Iterator<Item = &str> {
        self.before.roles.keys().filter(|name| !self.after.roles.contains_key(*name)).map(String::as_str)
    }

    /// Returns the roles that are new or whose policies change.
    pub(super) fn written_roles(&self) -> impl Iterator<Item = (&str, &[Policy])> {
        let other = self
            .after
            .roles
            .iter()
            .filter(|(name, policies)| self.before.roles.get(*name) != Some(*policies));
        other.map(|(name, policies)| (name.as_str(), policies.as_slice()))
    }
}

/// Returns a note about comparisons that are made when the file is applied.
fn skipped_comparisons(known: &AccessModel, next: &Binding, fields: &[MarkedField]) -> Option<String> {
    let columns = adopted(known, fields).filter_map(|(_, field)| field.column.as_ref());
    let mut compared: Vec<String> = columns.map(|column| format!("`{column}` with the map")).collect();
    let rows = |binding: &Binding| {
        (binding.timestamp_unit, binding.read_as, binding.only.clone(), binding.time_bucket.clone())
    };
    if known.binding.as_ref().map(rows) != Some(rows(next)) {
        compared.extend(next.time_bucket.iter().map(|_| "the time bucket with the timestamp".to_owned()));
    }
    (!compared.is_empty()).then(|| {
        format!(
            "importing the file compares {} over the whole table, which can take long; a plan skips this",
            compared.join(", ")
        )
    })
}

/// Returns the mappings after an import. A file that was written before there were mappings must not remove them unnoticed.
fn next_mappings(before: &ClaimsMappings, mappings: Option<ClaimsMappings>) -> Result<ClaimsMappings> {
    match mappings {
        Some(mut mappings) => {
            mappings.retain(|_, mapping| *mapping != ClaimsMapping::default());
            Ok(mappings)
        }
        None if before.is_empty() => Ok(ClaimsMappings::new()),
        None => {
            let detail = "the file does not mention the mappings of identity providers, which exist: add `identity`, as an export \
                          has it, or `identity: {}` to remove them";
            Err(ServiceError::invalid("/identity", detail))
        }
    }
}

/// Returns the roles of a file by name, including the built-in one.
fn all_roles(mut roles: Vec<(String, Vec<Policy>)>) -> Result<Vec<(String, Vec<Policy>)>> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    let mut folded: BTreeMap<String, &str> = BTreeMap::from([(ADMIN_ROLE.to_owned(), ADMIN_ROLE)]);
    let mut conflict = None;
    for (at, (name, policies)) in roles.iter().enumerate() {
        if let Err(ServiceError::Refused(found)) = check_role_input(name, policies) {
            errors.extend(found.into_iter().map(|mut error| {
                let below = if error.pointer.is_empty() { "/name" } else { &error.pointer };
                error.pointer = format!("/roles/{at}{below}");
                error
            }));
        }
        if !seen.insert(name.as_str()) {
            let detail = format!("the role `{name}` is listed twice");
            errors.push(FieldError::invalid(format!("/roles/{at}/name"), detail));
        }
        let other = *folded.entry(name.to_ascii_lowercase()).or_insert(name);
        if other != name {
            let found = case_conflict(name, other);
            conflict.get_or_insert_with(|| {
                found.map_pointers(|pointer| pointer.insert_str(0, &format!("/roles/{at}")))
            });
        }
    }
    let is_admin = seen.contains(ADMIN_ROLE);
    if !errors.is_empty() {
        return Err(ServiceError::Refused(errors));
    }
    if let Some(conflict) = conflict {
        return Err(conflict);
    }
    if !is_admin {
        roles.push((ADMIN_ROLE.to_owned(), Vec::new()));
    }
    Ok(roles)
}

/// Compiles all policies under their new model; returns advice, and notes on unchanged policies that are already broken,
/// which must not prevent a correction of the rest of the model.
///
/// # Errors
/// [`ServiceError::Refused`] with `policy_invalid`, and pointers into `/roles`.
fn check_policies(
    roles: &[(String, Vec<Policy>)],
    before: &ModelState,
    after: &ModelState,
) -> Result<(Vec<PolicyWarning>, Vec<String>)> {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    let mut notes = Vec::new();
    let other_model = before.model != after.model;
    for (at, (name, policies)) in roles.iter().enumerate() {
        match compile_policies(policies, &after.model) {
            Err(ServiceError::Refused(mut found)) => {
                if before.roles.get(name) == Some(policies) {
                    notes.extend(already_broken_notes(name, policies, &before.model, &mut found));
                }
                for error in &mut found {
                    error.pointer.insert_str(0, &format!("/roles/{at}"));
                }
                errors.extend(found);
            }
            Err(other) => return Err(other),
            Ok((_, found)) if other_model || before.roles.get(name) != Some(policies) => {
                for (policy, diagnostics) in policies.iter().zip(found) {
                    warnings.extend(diagnostics.into_iter().map(|diagnostic| PolicyWarning {
                        role: name.clone(),
                        title: policy.title.clone(),
                        diagnostic,
                    }));
                }
            }
            Ok(_) => {}
        }
    }
    if errors.is_empty() { Ok((warnings, notes)) } else { Err(ServiceError::Refused(errors)) }
}

/// Removes the errors of policies that are also broken under the current model, and returns a note for each of these
/// policies.
fn already_broken_notes(
    role: &str,
    policies: &[Policy],
    current: &AccessModel,
    found: &mut Vec<FieldError>,
) -> Vec<String> {
    let mut notes = Vec::new();
    for (at, policy) in policies.iter().enumerate() {
        let pointer = format!("/policies/{at}/expression");
        let reason = found.iter().find(|error| error.pointer == pointer).map(|error| error.detail.clone());
        if let Some(reason) = reason
            && compile_policies(std::slice::from_ref(policy), current).is_err()
        {
            found.retain(|error| error.pointer != pointer);
            notes.push(format!(
                "the policy `{}` of the unchanged role `{role}` is broken: it grants no access, and users \
                 with the role can read no trace: {reason}",
                policy.title
            ));
        }
    }
    notes
}

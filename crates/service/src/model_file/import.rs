//! Import of an access model from a file.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use tracewarden_appdb::{ModelState, Policy, WriteTx};
use tracewarden_model::{ClaimsMapping, ClaimsMappings};
use utoipa::ToSchema;

use super::prepare::{Mode, PreparedImport};
use super::{ModelChange, ModelFile, PolicyWarning, RunTests};
use crate::access::{grants_admin, policies_detail, remap};
use crate::core::{
    Administrator, IfMatch, Result, ServiceError, blocking, bounded_member, change_detail, difference,
    no_change_detail, with_members,
};
use crate::model_file::ModelFiles;

/// The result of an import.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ImportedModel {
    /// The current version of the access model: one more than before, or the same when nothing changed.
    pub version: u64,
    /// The parts that changed.
    pub changes: Vec<ModelChange>,
    /// Warnings about the policies of roles that changed.
    pub warnings: Vec<PolicyWarning>,
    /// More information, as readable text.
    pub notes: Vec<String>,
}

impl ModelFiles {
    /// Applies a file as a whole: parts that it does not contain are removed. Roles that do not change are not written.
    ///
    /// # Errors
    /// [`ServiceError::PreconditionRequired`] without `if_match`, [`ServiceError::PreconditionFailed`] when it does not name
    /// the current version, or another change is made in the meantime; [`ServiceError::Refused`] with pointers into the file,
    /// as from the requests that change a part, and with `tests_failed`; or a failure of ClickHouse or the application
    /// database. Newly adopted columns are compared with the data, which can take long.
    pub async fn import_model(
        &self,
        admin: &Administrator<'_>,
        file: ModelFile,
        if_match: Option<IfMatch>,
        tests: RunTests,
    ) -> Result<ImportedModel> {
        let result = async {
            let prepared = self.prepare_import(admin, file, if_match).await?;
            self.run_tests(prepared.after.clone(), tests).await?.require_passed()?;
            self.apply_import(admin, "model.import", None, prepared).await
        };
        self.core.audit_denial(admin, "model.import", None, result.await).await
    }

    /// Restores the model of an earlier change. Its tests may fail, as they may have at that time; a note says so.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`] when there is no such change, otherwise as for [`Self::import_model`], with pointers
    /// into the file of that change.
    pub async fn restore_model(
        &self,
        admin: &Administrator<'_>,
        number: u64,
        if_match: Option<IfMatch>,
        tests: RunTests,
    ) -> Result<ImportedModel> {
        let target = number.to_string();
        let result = async {
            let state = self.core.db.begin_read().await?.model_state(Some(number)).await?;
            let state = state.ok_or(ServiceError::NotFound { what: "change" })?;
            let mut prepared = self.prepare_import(admin, ModelFile::from(state), if_match).await?;
            let without_members = prepared.added_roles();
            if !without_members.is_empty() {
                prepared.notes.push(format!(
                    "no user has {}: role assignments are not part of the model and are not restored",
                    without_members.join(", ")
                ));
            }
            match self.run_tests(prepared.after.clone(), tests).await {
                Ok(run) if run.failed.is_empty() => {}
                Ok(run) => {
                    let names: Vec<String> =
                        run.failed.iter().map(|test| format!("`{}`", test.name)).collect();
                    prepared.notes.push(format!("tests that fail: {}", names.join(", ")));
                }
                Err(error) => prepared.notes.push(format!("its tests cannot be run: {}", error.detail())),
            }
            self.apply_import(admin, "model.restore", Some(&target), prepared).await
        };
        self.core.audit_denial(admin, "model.restore", Some(&target), result.await).await
    }

    async fn prepare_import(
        &self,
        admin: &Administrator<'_>,
        file: ModelFile,
        if_match: Option<IfMatch>,
    ) -> Result<PreparedImport> {
        let if_match = if_match.ok_or(ServiceError::PreconditionRequired)?;
        let current = self.export_model(admin).await?;
        // Checked first, so that a caller with an outdated version gets this error and not its consequences.
        if_match.check(Some(current.version))?;
        self.prepare_model(current, file, Mode::Apply).await
    }

    async fn apply_import(
        &self,
        admin: &Administrator<'_>,
        action: &'static str,
        target: Option<&str>,
        prepared: PreparedImport,
    ) -> Result<ImportedModel> {
        let (prepared, roles_detail) = blocking(move || {
            let roles_detail = prepared.changed_roles_detail();
            (prepared, roles_detail)
        })
        .await?;
        // Checked again within the transaction, which excludes other changes. Every change has a number, except for those of
        // replicas of an earlier version while replicas are being replaced; therefore the state is compared, too.
        let after = &prepared.after.mappings;
        let grants = |(name, mapping): (&String, &ClaimsMapping)| {
            grants_admin(prepared.before.mappings.get(name).unwrap_or(&ClaimsMapping::default()), mapping)
        };
        if after.iter().any(grants) {
            // A leaked key must not create administrators who remain after its revocation.
            admin.require_session()?;
        }
        let mut tx = self.core.begin_change(admin).await?;
        if tx.change_number().await? != prepared.version
            || tx.model_state(None).await?.as_ref() != Some(&prepared.before)
        {
            return Err(ServiceError::PreconditionFailed);
        }
        let (version, detail) = if prepared.changes.is_empty() {
            (prepared.version, no_change_detail(prepared.version))
        } else {
            self.write(&mut tx, admin, action, target, &prepared, roles_detail).await?
        };
        self.core.commit_change(tx, admin, action, target, detail).await?;
        let PreparedImport { changes, warnings, notes, .. } = prepared;
        Ok(ImportedModel { version, changes, warnings, notes })
    }

    /// Writes the changes; returns the new version and the detail of the audit record.
    async fn write(
        &self,
        tx: &mut WriteTx,
        admin: &Administrator<'_>,
        action: &'static str,
        target: Option<&str>,
        prepared: &PreparedImport,
        roles_detail: Option<Value>,
    ) -> Result<(u64, Value)> {
        let PreparedImport { before, after, .. } = prepared;
        if before.model != after.model {
            self.core.insert_model(tx, admin, &after.model).await?;
        }
        let removed: Vec<&str> = prepared.removed_roles().collect();
        let written: Vec<(&str, &[Policy])> = prepared.written_roles().collect();
        let mut members: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        if !removed.is_empty() {
            let mut role_members = tx.members_of_roles(&removed).await?;
            members =
                removed.iter().map(|role| (*role, role_members.remove(*role).unwrap_or_default())).collect();
            tx.delete_roles(&removed).await?;
        }
        if !written.is_empty() {
            tx.put_roles(&written, self.core.now()).await?;
        }
        let roles: Vec<(&str, Option<&[Policy]>)> = removed
            .iter()
            .map(|role| (*role, None))
            .chain(written.iter().map(|(role, policies)| (*role, Some(*policies))))
            .collect();
        let tests = (before.tests != after.tests).then_some(after.tests.as_str());
        let change = self.core.new_change(admin, action, target, after.model.version);
        let version = tx.record_change(&change, &roles, tests).await?;
        let mappings = changed_mappings(before, after);
        let mut people_changed = 0_u64;
        if !mappings.is_empty() {
            tx.identities_mut().record_mappings(version, &after.mappings).await?;
            for (provider, mapping) in &mappings {
                people_changed = people_changed.saturating_add(remap(tx, provider, mapping).await?);
            }
        }
        let changed = |name: &String| {
            bounded_member(json!({
                "before": before.mappings.get(name), "after": after.mappings.get(name),
            }))
        };
        let mappings_detail: BTreeMap<&String, Value> =
            mappings.keys().map(|name| (name, changed(name))).collect();
        let more = [
            ("roles", roles_detail),
            ("members", (!members.is_empty()).then(|| json!(members))),
            ("mappings", (!mappings.is_empty()).then(|| json!(mappings_detail))),
            ("people_changed", (!mappings.is_empty()).then(|| json!(people_changed))),
            ("tests", tests.map(|document| json!({ "bytes": document.len() }))),
        ];
        Ok((version, with_members(change_detail(version, &before.model, &after.model), more)))
    }
}

/// Returns the mappings that differ, as they are afterwards: empty if they are removed.
pub(super) fn changed_mappings(before: &ModelState, after: &ModelState) -> ClaimsMappings {
    let names = before.mappings.keys().chain(after.mappings.keys());
    let differ = names.filter(|name| before.mappings.get(*name) != after.mappings.get(*name));
    differ.map(|name| (name.clone(), after.mappings.get(name).cloned().unwrap_or_default())).collect()
}

impl PreparedImport {
    /// Returns the names of the new roles, each in quotes.
    fn added_roles(&self) -> Vec<String> {
        let added = self.after.roles.keys().filter(|name| !self.before.roles.contains_key(*name));
        added.map(|name| format!("`{name}`")).collect()
    }

    /// Formats the policies of the changed roles before and after for the audit log, in bounded size; `None` if no role
    /// changes. The input can be as large as a file, so this runs before the transaction, for which other writers wait.
    fn changed_roles_detail(&self) -> Option<Value> {
        let roles_detail = |one: &ModelState, other: &ModelState| -> BTreeMap<String, Value> {
            let differ =
                one.roles.iter().filter(|(name, policies)| other.roles.get(*name) != Some(*policies));
            differ.map(|(name, policies)| (name.clone(), policies_detail(policies))).collect()
        };
        let (before, after) =
            (roles_detail(&self.before, &self.after), roles_detail(&self.after, &self.before));
        let differ = !before.is_empty() || !after.is_empty();
        differ.then(|| bounded_member(difference(&before, &after)))
    }
}

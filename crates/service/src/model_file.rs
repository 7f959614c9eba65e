//! The whole access model as one file: binding, marked fields, roles with their policies, and tests of them. An import makes
//! the same checks as the requests that change a part, and takes effect as a whole or not at all.

mod changes;
mod history;
mod import;
mod tests;

use std::sync::Arc;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;
use tracewarden_appdb::{ADMIN_ROLE, ModelState, Policy};
use tracewarden_model::{AccessModel, Binding, ColumnType, FieldSource, MarkedField};
use tracewarden_policy::Diagnostic;

use crate::access::{case_conflict, check_role_input, compile_policies};
use crate::analysis::{Analysis, ImpactAnswer, ImpactInput, ModelSide, timeout};
use crate::core::{Administrator, Core, FieldError, ServiceError, query_input};
use crate::source::{
    FieldMark, Source, check_field_count, is_usable_in_policies, resolve_marks, without_column,
};

pub use changes::{ChangeKind, ModelChange, ModelPart, PartKind};
pub use history::{HistoryEntry, HistoryPage, ModelAt};
pub use import::ImportedModel;
pub use tests::{FailedTest, RunTests, TestRun};

/// Default time that ClickHouse may take to compute the impact of a plan, in seconds.
const IMPACT_SECONDS: i64 = 1;
/// Maximum number of names of users who lose a role in a plan.
const MAX_LISTED_MEMBERS: usize = 100;

/// Access model in the form of a file.
#[derive(Debug, Clone, Default)]
pub struct ModelFile {
    /// Bound table, if any.
    pub binding: Option<Binding>,
    /// All marked fields.
    pub fields: Vec<FileField>,
    /// All roles with their policies. If the role `admin` is missing, it has no policies.
    pub roles: Vec<(String, Vec<Policy>)>,
    /// Tests, as a document that [`RunTests`] parses; empty for none.
    pub tests: String,
}

/// Marked field of a file.
#[derive(Debug, Clone)]
pub struct FileField {
    /// The field and its marks.
    pub mark: FieldMark,
    /// Source of the field according to the file. If it differs from the stored one, the table is inspected, and the table
    /// decides.
    pub source: Option<FieldSource>,
    /// Column type according to the file; handled like `source`.
    pub column_type: Option<ColumnType>,
}

impl From<MarkedField> for FileField {
    fn from(field: MarkedField) -> Self {
        Self {
            mark: FieldMark {
                map: field.field.map,
                name: field.field.name,
                logical: Some(field.logical),
                filterable: field.filterable,
                policy: Some(field.policy),
                column: field.column,
            },
            source: Some(field.source),
            column_type: Some(field.column_type),
        }
    }
}

impl From<ModelState> for ModelFile {
    fn from(state: ModelState) -> Self {
        Self {
            binding: state.model.binding,
            fields: state.model.fields.into_iter().map(FileField::from).collect(),
            roles: state.roles.into_iter().collect(),
            tests: state.tests,
        }
    }
}

impl FileField {
    /// Whether this equals the stored marked field.
    fn equals(&self, stored: &MarkedField) -> bool {
        let FieldMark { map, name, logical, filterable, policy, column } = &self.mark;
        (map, name) == (&stored.field.map, &stored.field.name)
            && *logical == Some(stored.logical)
            && *filterable == stored.filterable
            && is_usable_in_policies(*policy, stored.logical) == stored.policy
            && *column == stored.column
            && self.source.is_none_or(|source| source == stored.source)
            && self.column_type.as_ref().is_none_or(|column_type| *column_type == stored.column_type)
    }
}

/// Current model and its version.
#[derive(Debug, Clone)]
pub struct ExportedModel {
    /// Version: the number of the last change.
    pub version: u64,
    /// State of the model.
    pub state: ModelState,
}

/// Advice on a policy of a file.
#[derive(Debug, Clone)]
pub struct PolicyWarning {
    /// Name of the role.
    pub role: String,
    /// Title of the policy.
    pub title: String,
    /// The advice.
    pub diagnostic: Diagnostic,
}

/// Users who lose a role because it is removed.
#[derive(Debug, Clone)]
pub struct LostRole {
    /// Name of the role.
    pub role: String,
    /// Number of users who have it.
    pub users: usize,
    /// Names of the first users.
    pub usernames: Vec<String>,
}

/// Effect of importing a file.
#[derive(Debug, Clone)]
pub struct ModelPlan {
    /// Version of the access model that the file was compared with.
    pub version: u64,
    /// Differences.
    pub changes: Vec<ModelChange>,
    /// Advice on the policies of roles that would change.
    pub warnings: Vec<PolicyWarning>,
    /// Results of the file's tests.
    pub tests: TestRun,
    /// Users who would lose a role.
    pub members: Vec<LostRole>,
    /// Traces that users would gain and lose; `None` if this was not requested, or could not be computed.
    pub impact: Option<ImpactAnswer>,
    /// Further notes in words.
    pub notes: Vec<String>,
}

/// Handling of the columns that a file adopts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Apply: compare them with the data.
    Apply,
    /// Plan: only mention them, because a comparison can take minutes.
    Plan,
}

/// File that was checked against the current state, ready to be applied.
struct PreparedImport {
    version: u64,
    before: ModelState,
    after: ModelState,
    changes: Vec<ModelChange>,
    warnings: Vec<PolicyWarning>,
    notes: Vec<String>,
}

/// The access model as a file, and its history.
#[derive(Clone)]
pub struct ModelFiles {
    pub(crate) core: Arc<Core>,
}

impl ModelFiles {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }

    /// Returns the whole current access model.
    ///
    /// # Errors
    /// When the application database fails.
    pub async fn export_model(&self, _admin: &Administrator<'_>) -> Result<ExportedModel, ServiceError> {
        let mut tx = self.core.db.begin_read().await?;
        let version = tx.change_number().await?;
        let state = tx.model_state(None).await?;
        let state = state.ok_or_else(|| ServiceError::internal("there is no access model"))?;
        Ok(ExportedModel { version, state })
    }

    /// Returns the effect of importing a file. Changes nothing. `seconds` is the time that ClickHouse may take to compute the
    /// traces that users would gain and lose: 1 when absent, 60 at most; with 0 they are not computed.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] for `seconds`, otherwise as for [`Service::import_model`], except for tests that fail or
    /// cannot be run: the plan contains them.
    pub async fn plan_model(
        &self,
        admin: &Administrator<'_>,
        file: ModelFile,
        tests: RunTests,
        seconds: Option<i64>,
    ) -> Result<ModelPlan, ServiceError> {
        let seconds = seconds.unwrap_or(IMPACT_SECONDS);
        let timeout = if seconds == 0 { None } else { Some(timeout(Some(seconds))?) };
        let current = self.export_model(admin).await?;
        let mut prepared = self.prepare_model(current, file, Mode::Plan).await?;
        let tests = match self.run_tests(prepared.after.clone(), tests).await {
            // A plan lists the changes even if its tests cannot be run.
            Err(ServiceError::Refused(faults)) => TestRun::impossible(faults),
            run => run?,
        };
        let members = self.users_losing_role(&prepared).await?;
        let impact = match timeout {
            Some(timeout) => self.plan_impact(admin, &mut prepared, timeout).await?,
            None => None,
        };
        let PreparedImport { version, changes, warnings, notes, .. } = prepared;
        Ok(ModelPlan { version, changes, warnings, tests, members, impact, notes })
    }

    /// Computes the traces that users gain and lose. If ClickHouse fails, the plan contains the rest.
    async fn plan_impact(
        &self,
        admin: &Administrator<'_>,
        prepared: &mut PreparedImport,
        timeout: Duration,
    ) -> Result<Option<ImpactAnswer>, ServiceError> {
        let PreparedImport { before, after, notes, changes, .. } = prepared;
        if (&before.model, &before.roles) == (&after.model, &after.roles) {
            return Ok(None);
        }
        if before.model.binding.is_none() || after.model.binding.is_none() {
            notes.push("no table is bound before or after: there are no traces to compare".to_owned());
            return Ok(None);
        }
        let side = |state: &ModelState| ModelSide { roles: state.roles.clone(), model: state.model.clone() };
        let descriptions: Vec<&str> = changes.iter().map(|change| change.description.as_str()).collect();
        let input = ImpactInput {
            action: "model.plan",
            target: None,
            detail: json!({ "changes": descriptions }),
            before: &side(before),
            after: &side(after),
            role: None,
            window: query_input::first_window(None, None, self.core.now())?,
            timeout,
        };
        match Analysis::new(&self.core).compute_impact(admin, input).await {
            Ok(impact) => Ok(Some(impact)),
            Err(
                error @ (ServiceError::ClickHouse { .. }
                | ServiceError::ClickHouseUnavailable { .. }
                | ServiceError::OverLimit { .. }
                | ServiceError::SchemaChanged { .. }
                | ServiceError::NotBound
                | ServiceError::TooManyQueries),
            ) => {
                notes.push(format!(
                    "the access that users gain and lose could not be counted: {}",
                    error.detail()
                ));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the users who lose a role that is removed.
    async fn users_losing_role(&self, prepared: &PreparedImport) -> Result<Vec<LostRole>, ServiceError> {
        let removed: Vec<&str> = prepared.removed_roles().collect();
        if removed.is_empty() {
            return Ok(Vec::new());
        }
        let members = self.core.db.begin_read().await?.members_of_roles(&removed).await?;
        let lost = members.into_iter().map(|(role, mut usernames)| {
            let users = usernames.len();
            usernames.truncate(MAX_LISTED_MEMBERS);
            LostRole { role, users, usernames }
        });
        Ok(lost.collect())
    }

    /// Checks a file like the requests that change a part of the model.
    async fn prepare_model(
        &self,
        current: ExportedModel,
        file: ModelFile,
        mode: Mode,
    ) -> Result<PreparedImport, ServiceError> {
        let ExportedModel { version, state: before } = current;
        let ModelFile { binding, fields, roles, tests } = file;
        let roles = all_roles(roles)?;
        let mut notes = Vec::new();
        let model = self.next_model(&before.model, binding, fields, mode, &mut notes).await?;
        let after = ModelState { model, roles: roles.iter().cloned().collect(), tests };
        let work = move || {
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
    ) -> Result<AccessModel, ServiceError> {
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
            return Err(ServiceError::refused("/binding", "invalid_value", detail));
        };
        let marks: Vec<FieldMark> = fields.into_iter().map(|field| field.mark).collect();
        check_field_count(&marks)?;
        notes.extend(
            Source::new(&self.core)
                .check_binding(&binding)
                .await
                .map_err(|error| with_pointer_prefix("/binding", error))?,
        );
        let columns = self.core.clickhouse.columns(&binding.database, &binding.table).await?;
        let fields = resolve_marks(marks, &columns)?;
        let other_table = current
            .binding
            .as_ref()
            .is_none_or(|bound| (&bound.database, &bound.table) != (&binding.database, &binding.table));
        let mut known = current.clone();
        if other_table {
            // The comparison was made with the rows of the other table.
            known.fields = known.fields.into_iter().map(without_column).collect();
        }
        match mode {
            Mode::Apply => Source::new(&self.core).compare_adopted(&binding, &known, &fields).await?,
            Mode::Plan => notes.extend(newly_adopted(&known, &fields)),
        }
        let next = AccessModel { version, binding: Some(binding), fields };
        let unchanged = (&next.binding, &next.fields) == (&current.binding, &current.fields);
        Ok(if unchanged { current.clone() } else { next })
    }
}

impl PreparedImport {
    fn removed_roles(&self) -> impl Iterator<Item = &str> {
        self.before.roles.keys().filter(|name| !self.after.roles.contains_key(*name)).map(String::as_str)
    }

    /// Returns the roles that are new or whose policies change.
    fn written_roles(&self) -> impl Iterator<Item = (&str, &[Policy])> {
        let other = self
            .after
            .roles
            .iter()
            .filter(|(name, policies)| self.before.roles.get(*name) != Some(*policies));
        other.map(|(name, policies)| (name.as_str(), policies.as_slice()))
    }
}

/// Returns a note about columns that will be adopted when the file is applied.
fn newly_adopted(known: &AccessModel, fields: &[MarkedField]) -> Option<String> {
    let is_unchanged =
        |field: &&MarkedField| known.field(&field.field).is_some_and(|before| before.column == field.column);
    let columns: Vec<String> = fields
        .iter()
        .filter(|field| !is_unchanged(field))
        .filter_map(|field| field.column.as_ref().map(|column| format!("`{column}`")))
        .collect();
    (!columns.is_empty()).then(|| {
        format!(
            "importing the file compares {} with the map over the whole table, which can take long; a plan \
             skips this comparison",
            columns.join(", ")
        )
    })
}

/// Returns the roles of a file by name, including the built-in one.
fn all_roles(mut roles: Vec<(String, Vec<Policy>)>) -> Result<Vec<(String, Vec<Policy>)>, ServiceError> {
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
            errors.push(FieldError::new(format!("/roles/{at}/name"), "invalid_value", detail));
        }
        let other = *folded.entry(name.to_ascii_lowercase()).or_insert(name);
        if other != name {
            let found = case_conflict(name, other);
            conflict.get_or_insert_with(|| with_pointer_prefix(&format!("/roles/{at}"), found));
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
) -> Result<(Vec<PolicyWarning>, Vec<String>), ServiceError> {
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

/// Converts an error about a part of a larger document.
fn with_pointer_prefix(prefix: &str, error: ServiceError) -> ServiceError {
    let below = |mut errors: Vec<FieldError>| {
        for error in &mut errors {
            error.pointer.insert_str(0, prefix);
        }
        errors
    };
    match error {
        ServiceError::Refused(errors) => ServiceError::Refused(below(errors)),
        ServiceError::Conflict { detail, errors } => ServiceError::Conflict { detail, errors: below(errors) },
        other => other,
    }
}

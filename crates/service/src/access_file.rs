//! The whole access model as one file: binding, marked fields, roles with their policies, and tests of them. What one
//! request puts in force is checked as the requests that change a part of it, and takes effect as a whole or not at all.

mod changes;
mod history;
mod import;
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;
use tracewarden_appdb::{ADMIN_ROLE, ModelState, Policy};
use tracewarden_model::{AccessModel, Binding, ColumnType, FieldSource, MarkedField};
use tracewarden_policy::Diagnostic;

use crate::adoption::without_column;
use crate::error::{FieldError, ServiceError};
use crate::fields::{FieldMark, marked, policy_by, within_bounds};
use crate::impact::{ImpactAnswer, ImpactQuestion, ModelSide, patience};
use crate::principal::Administrator;
use crate::query_input;
use crate::roles::{case_conflict, check_each, check_members};
use crate::service::Service;

pub use changes::{ChangeKind, ModelChange, ModelPart, PartKind};
pub use history::{HistoryEntry, HistoryPage, ModelAt};
pub use import::ImportedModel;
pub use tests::{FailedTest, RunTests, TestRun};

/// How long the trace store looks at what a plan opens and closes, where nothing is said.
const IMPACT_SECONDS: i64 = 1;
/// Names of users who lose a role that a plan tells.
const MEMBERS_TOLD: usize = 100;

/// An access model as a file says it.
#[derive(Debug, Clone, Default)]
pub struct AccessFile {
    /// The bound table; `None` for none.
    pub binding: Option<Binding>,
    /// All marked fields.
    pub fields: Vec<FileField>,
    /// All roles with their policies. Without the role `admin`, that one has no policies.
    pub roles: Vec<(String, Vec<Policy>)>,
    /// Tests, as a document that [`RunTests`] reads; empty for none.
    pub tests: String,
}

/// A field of a file.
#[derive(Debug, Clone)]
pub struct FileField {
    /// What is marked.
    pub mark: FieldMark,
    /// What the file says about the table. The table is asked where this is not what is known of it; what it says counts.
    pub source: Option<FieldSource>,
    /// As `source`.
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

impl From<ModelState> for AccessFile {
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
    /// Whether this is what is marked already.
    fn says(&self, marked: &MarkedField) -> bool {
        let FieldMark { map, name, logical, filterable, policy, column } = &self.mark;
        (map, name) == (&marked.field.map, &marked.field.name)
            && *logical == Some(marked.logical)
            && *filterable == marked.filterable
            && policy_by(*policy, marked.logical) == marked.policy
            && *column == marked.column
            && self.source.is_none_or(|source| source == marked.source)
            && self.column_type.as_ref().is_none_or(|column_type| *column_type == marked.column_type)
    }
}

/// The model in force, and its version.
#[derive(Debug, Clone)]
pub struct ExportedModel {
    /// Its version: the number of its last change.
    pub version: u64,
    /// The model.
    pub state: ModelState,
}

/// Advice about a policy of a file.
#[derive(Debug, Clone)]
pub struct PolicyWarning {
    /// The role.
    pub role: String,
    /// The policy's title.
    pub title: String,
    /// What is perhaps not meant.
    pub diagnostic: Diagnostic,
}

/// Users who lose a role, since it is removed.
#[derive(Debug, Clone)]
pub struct LostRole {
    /// The role.
    pub role: String,
    /// How many users hold it.
    pub users: usize,
    /// The first of them by name.
    pub usernames: Vec<String>,
}

/// What putting a file in force would do.
#[derive(Debug, Clone)]
pub struct ModelPlan {
    /// The version of the access model that it was compared with.
    pub version: u64,
    /// What would change.
    pub changes: Vec<ModelChange>,
    /// Advice about the policies of roles that would change.
    pub warnings: Vec<PolicyWarning>,
    /// What the tests of the file come to.
    pub tests: TestRun,
    /// Who would lose a role.
    pub members: Vec<LostRole>,
    /// Which traces users would gain and lose; `None` when that was not asked for, or could not be told.
    pub impact: Option<ImpactAnswer>,
    /// More, in words.
    pub notes: Vec<String>,
}

/// What is done with the columns that a file adopts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Adoption {
    /// To put the file in force.
    Compared,
    /// For a plan: comparing can take minutes.
    Told,
}

/// A file that was checked against a state, ready to take its place.
struct Prepared {
    version: u64,
    before: ModelState,
    after: ModelState,
    changes: Vec<ModelChange>,
    warnings: Vec<PolicyWarning>,
    notes: Vec<String>,
}

impl Service {
    /// The whole access model in force.
    ///
    /// # Errors
    /// When the own database fails.
    pub async fn export_model(&self, _admin: &Administrator<'_>) -> Result<ExportedModel, ServiceError> {
        let mut tx = self.db().begin_read().await?;
        let version = tx.change_number().await?;
        let state = tx.model_state(None).await?;
        let state = state.ok_or_else(|| ServiceError::internal("there is no access model"))?;
        Ok(ExportedModel { version, state })
    }

    /// What putting a file in force would do. Changes nothing. `seconds` is how long the trace store may look at what users
    /// would gain and lose: 1 when absent, 60 at most; with 0 it does not look.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] for `seconds`, otherwise as [`Service::import_model`], but for tests that fail or cannot be run: the plan tells of them.
    pub async fn plan_model(
        &self,
        admin: &Administrator<'_>,
        file: AccessFile,
        tests: RunTests,
        seconds: Option<i64>,
    ) -> Result<ModelPlan, ServiceError> {
        let seconds = seconds.unwrap_or(IMPACT_SECONDS);
        let patience = if seconds == 0 { None } else { Some(patience(Some(seconds))?) };
        let current = self.export_model(admin).await?;
        let mut prepared = self.prepare_model(current, file, Adoption::Told).await?;
        let tests = match self.run_tests(prepared.after.clone(), tests).await {
            // A plan says what would change all the same.
            Err(ServiceError::Refused(faults)) => TestRun::impossible(faults),
            run => run?,
        };
        let members = self.losers(&prepared).await?;
        let impact = match patience {
            Some(patience) => self.plan_impact(admin, &mut prepared, patience).await?,
            None => None,
        };
        let Prepared { version, changes, warnings, notes, .. } = prepared;
        Ok(ModelPlan { version, changes, warnings, tests, members, impact, notes })
    }

    /// What users gain and lose. A plan says the rest also when the trace store cannot tell.
    async fn plan_impact(
        &self,
        admin: &Administrator<'_>,
        prepared: &mut Prepared,
        patience: Duration,
    ) -> Result<Option<ImpactAnswer>, ServiceError> {
        let Prepared { before, after, notes, changes, .. } = prepared;
        if (&before.model, &before.roles) == (&after.model, &after.roles) {
            return Ok(None);
        }
        if before.model.binding.is_none() || after.model.binding.is_none() {
            notes.push("no table is bound before or after: there are no traces to compare".to_owned());
            return Ok(None);
        }
        let side = |state: &ModelState| ModelSide { roles: state.roles.clone(), model: state.model.clone() };
        let words: Vec<&str> = changes.iter().map(|change| change.words.as_str()).collect();
        let question = ImpactQuestion {
            action: "model.plan",
            target: None,
            detail: json!({ "changes": words }),
            before: &side(before),
            after: &side(after),
            role: None,
            window: query_input::first_window(None, None, self.now())?,
            patience,
        };
        match self.impact_of(admin, question).await {
            Ok(impact) => Ok(Some(impact)),
            Err(
                error @ (ServiceError::TraceStore { .. }
                | ServiceError::TraceStoreAway { .. }
                | ServiceError::OverLimit { .. }
                | ServiceError::SchemaChanged { .. }
                | ServiceError::NotBound
                | ServiceError::TooManyQueries),
            ) => {
                notes.push(format!("what users gain and lose is not known: {}", error.detail()));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Who loses a role that is removed.
    async fn losers(&self, prepared: &Prepared) -> Result<Vec<LostRole>, ServiceError> {
        let removed: Vec<&str> = prepared.removed_roles().collect();
        if removed.is_empty() {
            return Ok(Vec::new());
        }
        let members = self.db().begin_read().await?.members_of_roles(&removed).await?;
        let lost = members.into_iter().map(|(role, mut usernames)| {
            let users = usernames.len();
            usernames.truncate(MEMBERS_TOLD);
            LostRole { role, users, usernames }
        });
        Ok(lost.collect())
    }

    /// Checks a file as the requests that change a part of the model check theirs.
    async fn prepare_model(
        &self,
        current: ExportedModel,
        file: AccessFile,
        adoption: Adoption,
    ) -> Result<Prepared, ServiceError> {
        let ExportedModel { version, state: before } = current;
        let AccessFile { binding, fields, roles, tests } = file;
        let roles = all_roles(roles)?;
        let mut notes = Vec::new();
        let model = self.next_model(&before.model, binding, fields, adoption, &mut notes).await?;
        let after = ModelState { model, roles: roles.iter().cloned().collect(), tests };
        let work = move || {
            let (warnings, broken) = check_policies(&roles, &before, &after)?;
            notes.extend(broken);
            let changes = changes::between(&before, &after);
            Ok(Prepared { version, before, after, changes, warnings, notes })
        };
        let pool = match adoption {
            Adoption::Compared => self.storing(),
            Adoption::Told => self.examining(),
        };
        pool.run(work).await?
    }

    /// The binding and fields that a file stands for. The trace store is not asked when they are in force already: then a
    /// file of roles can be applied while it is away.
    async fn next_model(
        &self,
        current: &AccessModel,
        binding: Option<Binding>,
        fields: Vec<FileField>,
        adoption: Adoption,
        notes: &mut Vec<String>,
    ) -> Result<AccessModel, ServiceError> {
        let same_fields = fields.len() == current.fields.len()
            && fields.iter().zip(&current.fields).all(|(field, marked)| field.says(marked));
        if same_fields && binding == current.binding {
            return Ok(current.clone());
        }
        let version = current.version.saturating_add(1);
        let Some(binding) = binding else {
            if fields.is_empty() {
                return Ok(AccessModel { version, binding: None, fields: Vec::new() });
            }
            let detail = "fields are those of a bound table: give the `binding`, or no fields";
            return Err(ServiceError::refused("/binding", "invalid_value", detail));
        };
        let marks: Vec<FieldMark> = fields.into_iter().map(|field| field.mark).collect();
        within_bounds(&marks)?;
        notes.extend(self.check_binding(&binding).await.map_err(|error| under("/binding", error))?);
        let columns = self.store().columns(&binding.database, &binding.table).await?;
        let fields = marked(marks, &columns)?;
        let other_table = current
            .binding
            .as_ref()
            .is_none_or(|bound| (&bound.database, &bound.table) != (&binding.database, &binding.table));
        let mut known = current.clone();
        if other_table {
            // What was compared were the rows of the other table.
            known.fields = known.fields.into_iter().map(without_column).collect();
        }
        match adoption {
            Adoption::Compared => self.compare_adopted(&binding, &known, &fields).await?,
            Adoption::Told => notes.extend(newly_adopted(&known, &fields)),
        }
        let next = AccessModel { version, binding: Some(binding), fields };
        let unchanged = (&next.binding, &next.fields) == (&current.binding, &current.fields);
        Ok(if unchanged { current.clone() } else { next })
    }
}

impl Prepared {
    fn removed_roles(&self) -> impl Iterator<Item = &str> {
        self.before.roles.keys().filter(|name| !self.after.roles.contains_key(*name)).map(String::as_str)
    }

    /// Roles that are new or have other policies than before.
    fn written_roles(&self) -> impl Iterator<Item = (&str, &[Policy])> {
        let other = self
            .after
            .roles
            .iter()
            .filter(|(name, policies)| self.before.roles.get(*name) != Some(*policies));
        other.map(|(name, policies)| (name.as_str(), policies.as_slice()))
    }
}

/// What is said of columns that are adopted once the file is put in force.
fn newly_adopted(known: &AccessModel, fields: &[MarkedField]) -> Option<String> {
    let kept =
        |field: &&MarkedField| known.field(&field.field).is_some_and(|before| before.column == field.column);
    let columns: Vec<String> = fields
        .iter()
        .filter(|field| !kept(field))
        .filter_map(|field| field.column.as_ref().map(|column| format!("`{column}`")))
        .collect();
    (!columns.is_empty()).then(|| {
        format!(
            "before {} is adopted, it is compared with the map over the whole table, which can take long and is not done for a plan",
            columns.join(", ")
        )
    })
}

/// The roles of a file by name, with the one that is built in.
fn all_roles(mut roles: Vec<(String, Vec<Policy>)>) -> Result<Vec<(String, Vec<Policy>)>, ServiceError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    let mut folded: BTreeMap<String, &str> = BTreeMap::from([(ADMIN_ROLE.to_owned(), ADMIN_ROLE)]);
    let mut conflict = None;
    for (at, (name, policies)) in roles.iter().enumerate() {
        if let Err(ServiceError::Refused(found)) = check_members(name, policies) {
            errors.extend(found.into_iter().map(|mut error| {
                let below = if error.pointer.is_empty() { "/name" } else { &error.pointer };
                error.pointer = format!("/roles/{at}{below}");
                error
            }));
        }
        if !seen.insert(name.as_str()) {
            let detail = format!("the role `{name}` is there twice");
            errors.push(FieldError::new(format!("/roles/{at}/name"), "invalid_value", detail));
        }
        let other = *folded.entry(name.to_ascii_lowercase()).or_insert(name);
        if other != name {
            let found = case_conflict(name, other);
            conflict.get_or_insert_with(|| under(&format!("/roles/{at}"), found));
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

/// Compiles all policies under the model that they are to be in force with: advice about them, and notes of those that are
/// broken already and left as they are, which must not keep the rest of the model from being mended.
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
        match check_each(policies, &after.model) {
            Err(ServiceError::Refused(mut found)) => {
                if before.roles.get(name) == Some(policies) {
                    notes.extend(broken_already(name, policies, &before.model, &mut found));
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

/// Takes out of what was found of a role's policies what is so under the model in force, too, with a note for each policy.
fn broken_already(
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
            && check_each(std::slice::from_ref(policy), current).is_err()
        {
            found.retain(|error| error.pointer != pointer);
            notes.push(format!(
                "the policy `{}` of the role `{role}`, which stays as it is, is broken: it opens nothing, and whoever has the role \
                 can read nothing: {reason}",
                policy.title
            ));
        }
    }
    notes
}

/// The same error about a part of a larger document.
fn under(prefix: &str, error: ServiceError) -> ServiceError {
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

//! Wire format of plans, changes and history of the access model.

use serde::Serialize;
use serde_json::{Value, json};
use tracewarden_service::{
    ChangeKind, FailedTest, HistoryEntry, HistoryPage, ImportedModel, LostRole, ModelChange, ModelPart,
    ModelPlan, PartKind, PolicyWarning, TestRun,
};
use utoipa::ToSchema;

use crate::impact::WireImpact;
use crate::policies::WireDiagnostic;
use crate::policy_file::{PolicyFile, TestsDocument};
use crate::roles::WirePolicy;
use crate::schema_wire::{WireBinding, WireMarkedField};
use crate::wire::Time;

/// A part of the access model.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ModelPartKind)]
pub(crate) enum WirePartKind {
    /// The bound table.
    Binding,
    /// A marked field.
    Field,
    /// A role that exists on one side only, with all its policies.
    Role,
    /// A policy of a role that exists on both sides.
    Policy,
    /// The tests.
    Tests,
}

impl From<PartKind> for WirePartKind {
    fn from(kind: PartKind) -> Self {
        match kind {
            PartKind::Binding => Self::Binding,
            PartKind::Field => Self::Field,
            PartKind::Role => Self::Role,
            PartKind::Policy => Self::Policy,
            PartKind::Tests => Self::Tests,
        }
    }
}

/// Kind of a change.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ModelChangeKind)]
pub(crate) enum WireChangeKind {
    /// The part is new.
    Added,
    /// The part was removed.
    Removed,
    /// The content of the part changed.
    Changed,
    /// The part is unchanged but has another position in its list.
    Moved,
}

impl From<ChangeKind> for WireChangeKind {
    fn from(change: ChangeKind) -> Self {
        match change {
            ChangeKind::Added => Self::Added,
            ChangeKind::Removed => Self::Removed,
            ChangeKind::Changed => Self::Changed,
            ChangeKind::Moved => Self::Moved,
        }
    }
}

/// A part of the access model that differs before and after.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModelChange)]
pub(crate) struct WireModelChange {
    /// Kind of the part.
    kind: WirePartKind,
    /// The reference of the field, the name of the role, or role and title of a policy with ` / ` between them.
    #[schema(examples("payments / Own team"))]
    name: String,
    /// Kind of the change.
    change: WireChangeKind,
    /// The previous content: a binding, a marked field, a policy, `{"policies": […]}` of a role, numbers of `users`, `traces` and
    /// `tests`, or the `position` of a moved part, from 1. Null for an added part.
    #[schema(value_type = Option<Object>, required = true)]
    before: Option<Value>,
    /// The new content, in the same form. Null for a removed part.
    #[schema(value_type = Option<Object>, required = true)]
    after: Option<Value>,
}

impl From<ModelChange> for WireModelChange {
    fn from(change: ModelChange) -> Self {
        Self {
            kind: change.kind.into(),
            name: change.name,
            change: change.change.into(),
            before: change.before.map(part),
            after: change.after.map(part),
        }
    }
}

/// Converts changes to their wire format.
pub(crate) fn changes(changes: Vec<ModelChange>) -> Vec<WireModelChange> {
    changes.into_iter().map(WireModelChange::from).collect()
}

fn part(part: ModelPart) -> Value {
    // These are structs of strings, booleans and lists, so serialising cannot fail.
    let json_or_null = |value: Result<Value, serde_json::Error>| value.unwrap_or_default();
    match part {
        ModelPart::Binding(binding) => json_or_null(serde_json::to_value(WireBinding::from(binding))),
        ModelPart::Field(field) => json_or_null(serde_json::to_value(WireMarkedField::from(&field))),
        ModelPart::Policy(policy) => json_or_null(serde_json::to_value(WirePolicy::from(policy))),
        ModelPart::Role(policies) => {
            let policies: Vec<WirePolicy> = policies.into_iter().map(WirePolicy::from).collect();
            json!({ "policies": policies })
        }
        ModelPart::Tests(document) => {
            let document = TestsDocument::read(&document).unwrap_or_default();
            let TestsDocument { users, traces, tests } = &document;
            json!({ "users": users.len(), "traces": traces.len(), "tests": tests.len() })
        }
        ModelPart::Position(position) => json!({ "position": position }),
    }
}

/// A warning about a policy of a model file.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelWarning {
    /// The role.
    role: String,
    /// The policy's title.
    title: String,
    /// The possible mistake.
    #[serde(flatten)]
    diagnostic: WireDiagnostic,
}

impl From<PolicyWarning> for ModelWarning {
    fn from(PolicyWarning { role, title, diagnostic }: PolicyWarning) -> Self {
        Self { role, title, diagnostic: diagnostic.into() }
    }
}

/// A test of a model file that failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FailedTest)]
pub(crate) struct WireFailedTest {
    /// Name of the test.
    name: String,
    /// The difference from the expected result.
    message: String,
}

/// Results of the tests of a model file.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModelTests)]
pub(crate) struct WireTestRun {
    /// Number of tests that passed.
    passed: usize,
    /// The tests that failed.
    failed: Vec<WireFailedTest>,
}

impl From<TestRun> for WireTestRun {
    fn from(TestRun { passed, failed }: TestRun) -> Self {
        let failed = failed.into_iter();
        let failed = failed.map(|FailedTest { name, message, .. }| WireFailedTest { name, message });
        Self { passed, failed: failed.collect() }
    }
}

/// Users who lose a role that is removed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LostRole)]
pub(crate) struct WireLostRole {
    /// The role.
    role: String,
    /// Number of users who have the role.
    users: usize,
    /// The first of these users by name, at most 100.
    usernames: Vec<String>,
}

impl From<LostRole> for WireLostRole {
    fn from(LostRole { role, users, usernames }: LostRole) -> Self {
        Self { role, users, usernames }
    }
}

/// The effect of importing a model file.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModelPlan)]
pub(crate) struct WireModelPlan {
    /// The version of the access model that the file was compared with: send it as `If-Match` of an import, in quotes.
    version: u64,
    /// Whether the import would change nothing.
    empty: bool,
    /// The parts that would change.
    changes: Vec<WireModelChange>,
    /// Warnings about the policies of roles that would change.
    warnings: Vec<ModelWarning>,
    /// Results of the file's tests. An import rejects a file with failing tests.
    tests: WireTestRun,
    /// Users who would lose a role.
    members: Vec<WireLostRole>,
    /// The traces that users would gain and lose, for the last 24 hours; null when this was skipped or could not be determined,
    /// for the reason in `notes`.
    #[schema(required = true)]
    impact: Option<WireImpact>,
    /// More information, as readable text.
    notes: Vec<String>,
}

impl From<ModelPlan> for WireModelPlan {
    fn from(plan: ModelPlan) -> Self {
        Self {
            version: plan.version,
            empty: plan.changes.is_empty(),
            changes: changes(plan.changes),
            warnings: plan.warnings.into_iter().map(ModelWarning::from).collect(),
            tests: plan.tests.into(),
            members: plan.members.into_iter().map(WireLostRole::from).collect(),
            impact: plan.impact.map(WireImpact::from),
            notes: plan.notes,
        }
    }
}

/// The result of an import.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ImportedModel)]
pub(crate) struct WireImportedModel {
    /// The current version of the access model: one more than before, or the same when nothing changed.
    pub(crate) version: u64,
    /// The parts that changed.
    changes: Vec<WireModelChange>,
    /// Warnings about the policies of roles that changed.
    warnings: Vec<ModelWarning>,
    /// More information, as readable text.
    notes: Vec<String>,
}

impl From<ImportedModel> for WireImportedModel {
    fn from(imported: ImportedModel) -> Self {
        Self {
            version: imported.version,
            changes: changes(imported.changes),
            warnings: imported.warnings.into_iter().map(ModelWarning::from).collect(),
            notes: imported.notes,
        }
    }
}

/// The author of a change.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChangedBy {
    /// Id of the user; empty for the service itself.
    id: String,
    /// Name of the user at the time of the change; empty for the service itself.
    username: String,
}

/// A change of the access model.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HistoryEntry)]
pub(crate) struct WireHistoryEntry {
    /// The version of the access model after the change. Versions start at 1 and increase by one.
    version: u64,
    /// When the change was made.
    at: Time,
    /// The author.
    by: ChangedBy,
    /// Name of the action, as in the audit log; `upgrade` for the model that existed when the history began.
    #[schema(examples("role.put"))]
    action: String,
    /// Object of the action: a role, or the change that was restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    target: Option<String>,
    /// Readable descriptions of the changed parts; if there are many, of the first ones.
    #[schema(examples(json!(["role `payments`: policy `Own team` changed"])))]
    summary: Vec<String>,
}

impl From<HistoryEntry> for WireHistoryEntry {
    fn from(HistoryEntry { change, summary }: HistoryEntry) -> Self {
        Self {
            version: change.number,
            at: change.at.into(),
            by: ChangedBy { id: change.by_id, username: change.by_name },
            action: change.action,
            target: change.target,
            summary,
        }
    }
}

/// A page of the access model's history.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HistoryPage)]
pub(crate) struct WireHistoryPage {
    /// Newest first.
    changes: Vec<WireHistoryEntry>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

impl From<HistoryPage> for WireHistoryPage {
    fn from(page: HistoryPage) -> Self {
        Self {
            changes: page.changes.into_iter().map(WireHistoryEntry::from).collect(),
            next_cursor: page.next_cursor,
        }
    }
}

/// The access model after a change.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModelAtChange)]
pub(crate) struct WireModelAt {
    /// The change.
    #[serde(flatten)]
    pub(crate) entry: WireHistoryEntry,
    /// The parts that the change affected.
    pub(crate) changes: Vec<WireModelChange>,
    /// The whole model after the change.
    pub(crate) file: PolicyFile,
}

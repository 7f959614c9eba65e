//! Plans, changes and history of the access model as they are answered.

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
    /// A role that is there on one side only, with all its policies.
    Role,
    /// A policy of a role that is there on both sides.
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

/// What happened to a part.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ModelChangeKind)]
pub(crate) enum WireChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It says something else.
    Changed,
    /// It is the same, in another place among its kind.
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

/// A part of the access model that is not the same before and after.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModelChange)]
pub(crate) struct WireModelChange {
    /// What it is.
    kind: WirePartKind,
    /// The field as policies name it, the role, or role and title of a policy with ` / ` between them.
    #[schema(examples("payments / Own team"))]
    name: String,
    /// What happened.
    change: WireChangeKind,
    /// How it was: a binding, a marked field, a policy, `{"policies": […]}` of a role, numbers of `users`, `traces` and
    /// `tests`, or the `position` of what has moved, from 1. Null for what is new.
    #[schema(value_type = Option<Object>, required = true)]
    before: Option<Value>,
    /// How it is, likewise. Null for what is gone.
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

/// Changes for the wire.
pub(crate) fn changes(changes: Vec<ModelChange>) -> Vec<WireModelChange> {
    changes.into_iter().map(WireModelChange::from).collect()
}

fn part(part: ModelPart) -> Value {
    // Structs of strings, booleans and lists: serialising cannot fail.
    let of = |value: Result<Value, serde_json::Error>| value.unwrap_or_default();
    match part {
        ModelPart::Binding(binding) => of(serde_json::to_value(WireBinding::from(binding))),
        ModelPart::Field(field) => of(serde_json::to_value(WireMarkedField::from(&field))),
        ModelPart::Policy(policy) => of(serde_json::to_value(WirePolicy::from(policy))),
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

/// Advice about a policy of a model file.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelWarning {
    /// The role.
    role: String,
    /// The policy's title.
    title: String,
    /// What is perhaps not meant.
    #[serde(flatten)]
    diagnostic: WireDiagnostic,
}

impl From<PolicyWarning> for ModelWarning {
    fn from(PolicyWarning { role, title, diagnostic }: PolicyWarning) -> Self {
        Self { role, title, diagnostic: diagnostic.into() }
    }
}

/// A test of a model file that did not pass.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FailedTest)]
pub(crate) struct WireFailedTest {
    /// What it shows.
    name: String,
    /// What is otherwise than expected.
    message: String,
}

/// What the tests of a model file come to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModelTests)]
pub(crate) struct WireTestRun {
    /// Tests that passed.
    passed: usize,
    /// Those that did not.
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
    /// How many users hold it.
    users: usize,
    /// The first of them by name, at most 100.
    usernames: Vec<String>,
}

impl From<LostRole> for WireLostRole {
    fn from(LostRole { role, users, usernames }: LostRole) -> Self {
        Self { role, users, usernames }
    }
}

/// What putting a model file in force would do.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModelPlan)]
pub(crate) struct WireModelPlan {
    /// The version of the access model that the file was compared with: what to send as `If-Match` of an import, in quotes.
    version: u64,
    /// Whether nothing would change.
    empty: bool,
    /// What would change.
    changes: Vec<WireModelChange>,
    /// Advice about the policies of roles that would change.
    warnings: Vec<ModelWarning>,
    /// What the tests of the file come to. An import refuses a file with tests that fail.
    tests: WireTestRun,
    /// Users who would lose a role.
    members: Vec<WireLostRole>,
    /// Which traces users would gain and lose, in the last 24 hours; null when it was not looked at or could not be told, of
    /// which `notes` say why.
    #[schema(required = true)]
    impact: Option<WireImpact>,
    /// More, in words.
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

/// What putting a model in force did.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ImportedModel)]
pub(crate) struct WireImportedModel {
    /// The version of the access model now: one more than before, or the same when nothing changed.
    pub(crate) version: u64,
    /// What changed.
    changes: Vec<WireModelChange>,
    /// Advice about the policies of roles that changed.
    warnings: Vec<ModelWarning>,
    /// More, in words.
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

/// Who made a change.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChangedBy {
    /// Id of the user; empty for the service itself.
    id: String,
    /// Name of the user at that time; empty for the service itself.
    username: String,
}

/// A change of the access model.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HistoryEntry)]
pub(crate) struct WireHistoryEntry {
    /// The version of the access model that it made, from 1, each one more than the one before.
    version: u64,
    /// When it was made.
    at: Time,
    /// Who made it.
    by: ChangedBy,
    /// What was done, as in the audit log; `upgrade` for what was there when the history began.
    #[schema(examples("role.put"))]
    action: String,
    /// What it was done to: a role, or the change that was restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    target: Option<String>,
    /// What it changed, in words; of many parts, the first.
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

/// The access model as of a change.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModelAtChange)]
pub(crate) struct WireModelAt {
    /// The change.
    #[serde(flatten)]
    pub(crate) entry: WireHistoryEntry,
    /// What is not the same as before it.
    pub(crate) changes: Vec<WireModelChange>,
    /// The whole model after it.
    pub(crate) file: PolicyFile,
}

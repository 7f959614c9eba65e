//! History of the access model: earlier versions, and the users who changed it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt as _;
use serde::Serialize;
use tracewarden_appdb::{Change, ModelState, ReadTx, WrittenRoles};
use tracewarden_model::{AccessModel, Timestamp};
use utoipa::ToSchema;

use super::{ModelChange, changes};
use crate::core::{Administrator, Result, ServiceError, blocking, query_input};
use crate::model_file::ModelFiles;

const PAGE_DEFAULT: u32 = 20;
const PAGE_MAX: u32 = 100;
/// Maximum number of parts that the list shows for one change.
const MAX_SUMMARY_LINES: usize = 10;
/// Number of the first change, which contains the initial state.
const FIRST_CHANGE: u64 = 1;

/// The author of a change.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ChangedBy {
    /// Id of the user; empty for the service itself.
    pub id: String,
    /// Name of the user at the time of the change; empty for the service itself.
    pub username: String,
}

/// A change of the access model.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct HistoryEntry {
    /// The version of the access model after the change. Versions start at 1 and increase by one.
    pub version: u64,
    /// When the change was made.
    pub at: Timestamp,
    /// The author.
    pub by: ChangedBy,
    /// Name of the action, as in the audit log; `upgrade` for the model that existed when the history began.
    #[schema(examples("role.put"))]
    pub action: String,
    /// Object of the action: a role, or the change that was restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub target: Option<String>,
    /// Readable descriptions of the changed parts; if there are many, of the first ones.
    // Empty for the first change of the history.
    #[schema(examples(json!(["role `payments`: policy `Own team` changed"])))]
    pub summary: Vec<String>,
}

impl HistoryEntry {
    fn new(change: Change, summary: ChangeSummary) -> Self {
        Self {
            version: change.number,
            at: change.at,
            by: ChangedBy { id: change.by_id, username: change.by_name },
            action: change.action,
            target: change.target,
            summary: summary.summary(),
        }
    }
}

/// A page of the access model's history.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct HistoryPage {
    /// Newest first.
    pub changes: Vec<HistoryEntry>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// The model as of a change.
#[derive(Debug, Clone)]
pub struct ModelAt {
    /// The change.
    pub entry: HistoryEntry,
    /// Differences from the preceding state.
    pub changes: Vec<ModelChange>,
    /// The whole model after the change.
    pub state: ModelState,
}

impl ModelFiles {
    /// Returns a page of the history, newest first; 20 changes when `limit` is absent, at most 100.
    ///
    /// # Errors
    /// [`ServiceError::InvalidCursor`], [`ServiceError::InvalidRequest`], or a failure of the application database.
    pub async fn model_history(
        &self,
        _admin: &Administrator<'_>,
        cursor: Option<&str>,
        limit: Option<i64>,
    ) -> Result<HistoryPage> {
        let before = query_input::sequence_cursor(cursor, "the model's history")?;
        let limit = query_input::limit(limit, PAGE_DEFAULT, PAGE_MAX)?;
        let _scan = self.core.permits.scans.wait().await;
        let mut tx = self.core.db.begin_read().await?;
        let mut changes = tx.changes(before, limit.saturating_add(1)).await?;
        let earlier = if changes.len() > limit as usize { changes.pop() } else { None };
        let next_cursor =
            changes.last().filter(|_| earlier.is_some()).map(|change| change.number.to_string());
        let mut lines = lines(&mut tx, &changes, earlier.as_ref()).await?;
        let entry = |change: Change| {
            let summary = lines.remove(&change.number).unwrap_or_default();
            HistoryEntry::new(change, summary)
        };
        Ok(HistoryPage { changes: changes.into_iter().map(entry).collect(), next_cursor })
    }

    /// Returns the model as of a change.
    pub async fn model_at(&self, _admin: &Administrator<'_>, number: u64) -> Result<ModelAt> {
        let missing = ServiceError::NotFound { what: "change" };
        if i64::try_from(number).is_err() {
            return Err(missing);
        }
        let _scan = self.core.permits.scans.wait().await;
        let mut tx = self.core.db.begin_read().await?;
        let change = tx.change(number).await?.ok_or(missing)?;
        let state = known(tx.model_state(Some(number)).await?)?;
        let [before, after] = known(tx.states_around_change(number).await?)?;
        drop(tx);
        blocking(move || {
            let changes = if number == FIRST_CHANGE { Vec::new() } else { changes::between(&before, &after) };
            let mut lines = ChangeSummary::default();
            lines.add(changes.iter().cloned());
            ModelAt { entry: HistoryEntry::new(change, lines), changes, state }
        })
        .await
    }
}

fn known<T>(state: Option<T>) -> Result<T> {
    state.ok_or_else(|| ServiceError::internal("a change of the access model has no state"))
}

/// Description of a change: lines for the first parts, and the number of all parts.
#[derive(Default)]
struct ChangeSummary {
    lines: Vec<String>,
    parts: usize,
}

impl ChangeSummary {
    fn add(&mut self, parts: impl IntoIterator<Item = ModelChange>) {
        for part in parts {
            self.parts += 1;
            if self.lines.len() < MAX_SUMMARY_LINES {
                self.lines.push(part.description);
            }
        }
    }

    fn summary(self) -> Vec<String> {
        let Self { mut lines, parts } = self;
        if parts > lines.len() {
            lines.push(format!("and {} more", parts - lines.len()));
        }
        lines
    }
}

/// Describes each of these changes, by number; `changes` are those of a page, newest first, and `earlier` is the preceding
/// one. Uses one statement for each kind of part, and holds no more documents than one change wrote: each may be as large as
/// a file.
async fn lines(
    tx: &mut ReadTx,
    changes: &[Change],
    earlier: Option<&Change>,
) -> Result<BTreeMap<u64, ChangeSummary>> {
    let mut lines: BTreeMap<u64, ChangeSummary> = BTreeMap::new();
    let (Some(newest), Some(oldest)) = (changes.first(), changes.last()) else { return Ok(lines) };
    let (from, through) = (oldest.number, newest.number);
    let mut add_parts = |number: u64, parts: Vec<ModelChange>| {
        // The first change contains the initial state.
        if number != FIRST_CHANGE {
            lines.entry(number).or_default().add(parts);
        }
    };

    let tests = tx.written_tests(from, through).await?;
    let mut before = Arc::new(AccessModel::default());
    let mut models = tx.access_models(earlier.unwrap_or(oldest).model_version, newest.model_version);
    for change in earlier.into_iter().chain(changes.iter().rev()) {
        if change.model_version == before.version {
            continue;
        }
        let mut found = models.try_next().await?;
        while found.as_ref().is_some_and(|model| model.version < change.model_version) {
            found = models.try_next().await?;
        }
        let after = Arc::new(known(found.filter(|model| model.version == change.model_version))?);
        let sides = [std::mem::replace(&mut before, Arc::clone(&after)), after];
        if change.number < from {
            continue;
        }
        add_parts(change.number, blocking(move || changes::between_models(&sides[0], &sides[1])).await?);
    }
    // Reads to its end, like every statement: an abandoned one counts as failed.
    while models.try_next().await?.is_some() {}
    drop(models);

    let mut written = tx.written_roles(from, through);
    while let Some(WrittenRoles { change, before, after }) = written.try_next().await? {
        add_parts(change, blocking(move || changes::between_roles(&before, &after)).await?);
    }
    drop(written);
    let mut before = tx.identities().mappings(Some(from.saturating_sub(1))).await?;
    for change in tx.identities().mapping_changes(from, through).await? {
        let after = tx.identities().mappings(Some(change)).await?;
        add_parts(change, changes::between_mappings(&before, &after));
        before = after;
    }
    for (change, [before, after]) in tests {
        add_parts(change, changes::tests_by_presence(before, after).into_iter().collect());
    }
    Ok(lines)
}

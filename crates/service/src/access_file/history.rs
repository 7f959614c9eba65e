//! What the access model was, and who changed it.

use tracewarden_appdb::{Change, ChangeOutline, ModelState};

use super::{ModelChange, changes};
use crate::error::ServiceError;
use crate::principal::Administrator;
use crate::query_input;
use crate::service::{Service, blocking};

const PAGE_DEFAULT: u32 = 20;
const PAGE_MAX: u32 = 100;
/// Of a change of many parts, so many are told in the list.
const TOLD: usize = 10;
/// Where the history begins, with what was there.
const FIRST: u64 = 1;

/// A change with what it did, in words.
#[derive(Debug, Clone)]
pub struct HistoryEntry {
    /// The change.
    pub change: Change,
    /// A line for each part that it changed; of many, the first ones and how many more there are. The change that the
    /// history begins with has none.
    pub summary: Vec<String>,
}

/// A page of changes, newest first.
#[derive(Debug, Clone)]
pub struct HistoryPage {
    /// Changes.
    pub changes: Vec<HistoryEntry>,
    /// For the next page; `None` on the last.
    pub next_cursor: Option<String>,
}

/// The model as of a change.
#[derive(Debug, Clone)]
pub struct ModelAt {
    /// The change.
    pub entry: HistoryEntry,
    /// What is not the same as before it.
    pub changes: Vec<ModelChange>,
    /// The whole model after it.
    pub state: ModelState,
}

impl Service {
    /// A page of the history, newest first; 20 changes when `limit` is absent, at most 100.
    ///
    /// # Errors
    /// [`ServiceError::InvalidCursor`], [`ServiceError::InvalidRequest`], or a failure of the own database.
    pub async fn model_history(
        &self,
        _admin: &Administrator<'_>,
        cursor: Option<&str>,
        limit: Option<i64>,
    ) -> Result<HistoryPage, ServiceError> {
        let before = query_input::before(cursor, "not a cursor of the model's history")?;
        let limit = query_input::limit(limit, PAGE_DEFAULT, PAGE_MAX)?;
        let _scan = self.scans().acquire().await;
        let mut tx = self.db().begin_read().await?;
        let mut changes = tx.changes(before, limit.saturating_add(1)).await?;
        let more = changes.len() > limit as usize;
        changes.truncate(limit as usize);
        let next_cursor = changes.last().filter(|_| more).map(|change| change.number.to_string());
        let mut entries = Vec::with_capacity(changes.len());
        for change in changes {
            // One at a time: each may have written as much as a file has.
            let ChangeOutline { sides: [before, after], tests } =
                known(tx.change_outline(change.number).await?)?;
            let entry = blocking(move || {
                let mut parts =
                    if change.number == FIRST { Vec::new() } else { changes::between(&before, &after) };
                parts.extend(tests.and_then(|[before, after]| changes::tests_by_presence(before, after)));
                HistoryEntry { change, summary: summary(&parts) }
            });
            entries.push(entry.await?);
        }
        Ok(HistoryPage { changes: entries, next_cursor })
    }

    /// The model as of a change.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], or a failure of the own database.
    pub async fn model_at(&self, _admin: &Administrator<'_>, number: u64) -> Result<ModelAt, ServiceError> {
        let missing = ServiceError::NotFound { what: "change" };
        if i64::try_from(number).is_err() {
            return Err(missing);
        }
        let _scan = self.scans().acquire().await;
        let mut tx = self.db().begin_read().await?;
        let change = tx.change(number).await?.ok_or(missing)?;
        let state = known(tx.model_state(Some(number)).await?)?;
        let [before, after] = known(tx.change_sides(number).await?)?;
        drop(tx);
        blocking(move || {
            let changes = if number == FIRST { Vec::new() } else { changes::between(&before, &after) };
            ModelAt { entry: HistoryEntry { change, summary: summary(&changes) }, changes, state }
        })
        .await
    }
}

fn known<T>(state: Option<T>) -> Result<T, ServiceError> {
    state.ok_or_else(|| ServiceError::internal("a change of the access model has no state"))
}

fn summary(changes: &[ModelChange]) -> Vec<String> {
    let mut words: Vec<String> = changes.iter().take(TOLD).map(|change| change.words.clone()).collect();
    if changes.len() > TOLD {
        words.push(format!("and {} more", changes.len() - TOLD));
    }
    words
}

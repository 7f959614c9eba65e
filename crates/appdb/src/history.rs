//! The history of the whole access model: binding, marked fields, roles with their policies, and the tests stored with
//! them. A change contains everything that it wrote, in full. The state as of a change consists of the last version of
//! each part up to it.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use tracewarden_model::{AccessModel, ClaimsMappings, Timestamp};

use crate::database::AppDb;
use crate::error::DbError;
use crate::history_pages::{WrittenRole, WrittenRoles};
use crate::records::Policy;
use crate::rows::from_row;
use crate::transactions::{ReadTx, WriteTx};
use crate::values::{bound, signed, values};

/// A change before it has a number.
#[derive(Debug, Clone, Copy)]
pub struct NewChange<'a> {
    /// Current time.
    pub at: Timestamp,
    /// Id and name of the user who made the change.
    pub by: (&'a str, &'a str),
    /// The action, as in the audit log.
    pub action: &'a str,
    /// Target of the action.
    pub target: Option<&'a str>,
    /// Version of binding and fields from this change on.
    pub model_version: u64,
}

/// A stored change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Number of the change: consecutive, starting at 1.
    pub number: u64,
    /// Time of the change.
    pub at: Timestamp,
    /// Id of the user who made it; empty for the service itself.
    pub by_id: String,
    /// Name of that user at the time; empty for the service itself.
    pub by_name: String,
    /// The action, as in the audit log.
    pub action: String,
    /// Target of the action.
    pub target: Option<String>,
    /// Version of binding and fields from this change on.
    pub model_version: u64,
}

/// The whole access model at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelState {
    /// The binding and the marked fields.
    pub model: AccessModel,
    /// Policies of all roles, in order, by role name.
    pub roles: BTreeMap<String, Vec<Policy>>,
    /// The mappings of claims.
    pub mappings: ClaimsMappings,
    /// The tests stored with the model, as a JSON document; empty if there are none.
    pub tests: String,
}

/// The last version of each role up to a change.
const POLICIES_AS_OF: &str = "SELECT written.role, written.deleted, policies.title, policies.expression, \
     policies.description FROM role_changes AS written \
     JOIN (SELECT role, MAX(change) AS change FROM role_changes WHERE change <= $1 GROUP BY role) AS latest \
     ON latest.role = written.role AND latest.change = written.change \
     LEFT JOIN role_change_policies AS policies ON policies.role = written.role AND policies.change = written.change \
     ORDER BY written.role, policies.position";

from_row!(Change: number, at, by_id, by_name, action, target, model_version);

impl WriteTx {
    /// Adds a change to the history and returns its number. `roles` contains each role that the change wrote once, with
    /// all its policies; `None` marks a deleted role. `tests` is the new document of tests, if the change wrote one.
    /// Callers that write a role or a version of binding and fields must record the change in the same transaction.
    ///
    /// # Errors
    /// [`DbError::Conflict`] when a role occurs twice.
    pub async fn record_change(
        &mut self,
        change: &NewChange<'_>,
        roles: &[(&str, Option<&[Policy]>)],
        tests: Option<&str>,
    ) -> Result<u64, DbError> {
        let NewChange { at, by, action, target, model_version } = *change;
        // Writers are serialized, and changes are never removed.
        let number = self.change_number().await?.saturating_add(1);
        let change = signed(number)?;
        let statement = "INSERT INTO changes (number, at, by_id, by_name, action, target, model_version) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let values = values![change, at, by.0, by.1, action, target, signed(model_version)?];
        self.connection.execute(statement, values).await?;
        let written = roles.iter().map(|&(role, policies)| values![role, change, policies.is_none()]);
        self.insert_rows("role_changes (role, change, deleted)", written.collect(), "").await?;
        let policies = roles.iter().flat_map(|&(role, policies)| {
            (0_i64..).zip(policies.unwrap_or_default()).map(move |(position, policy)| {
                let Policy { title, expression, description } = policy;
                values![role, change, position, title, expression, description.as_ref()]
            })
        });
        let table = "role_change_policies (role, change, position, title, expression, description)";
        self.insert_rows(table, policies.collect(), "").await?;
        if let Some(document) = tests {
            let statement = "INSERT INTO test_changes (change, document) VALUES ($1, $2)";
            self.connection.execute(statement, values![change, document]).await?;
        }
        Ok(number)
    }
}

impl AppDb {
    /// Records changes that bypassed the history because an older version of the program, without history, ran
    /// alongside this one. Otherwise the history would show and restore outdated roles. Returns whether there were such
    /// changes.
    pub async fn record_missed_changes(&self, now: Timestamp) -> Result<bool, DbError> {
        if unrecorded_state(&mut self.begin_read().await?).await?.is_none() {
            return Ok(false);
        }
        let mut tx = self.begin_write().await?;
        let Some([recorded, current]) = unrecorded_state(&mut tx).await? else { return Ok(false) };
        let names: BTreeSet<&String> = recorded.roles.keys().chain(current.roles.keys()).collect();
        let roles: Vec<_> = names
            .into_iter()
            .map(|name| (name.as_str(), current.roles.get(name).map(Vec::as_slice)))
            .filter(|(name, policies)| recorded.roles.get(*name).map(Vec::as_slice) != *policies)
            .collect();
        let model_version = current.model.version;
        let change = NewChange { at: now, by: ("", ""), action: "upgrade", target: None, model_version };
        tx.record_change(&change, &roles, None).await?;
        tx.commit().await?;
        Ok(true)
    }
}

impl ReadTx {
    /// Returns the number of the last change.
    pub async fn change_number(&mut self) -> Result<u64, DbError> {
        let statement = "SELECT number FROM changes ORDER BY number DESC LIMIT 1";
        // The migration that creates the table inserts the first change, and the program never removes one.
        let missing = || DbError::Corrupt("the history has no change".to_owned());
        self.connection.optional(statement, values![]).await?.ok_or_else(missing)
    }

    /// Returns at most `limit` changes, newest first: those with numbers below `before`, or all.
    pub async fn changes(&mut self, before: Option<u64>, limit: u32) -> Result<Vec<Change>, DbError> {
        let statement = "SELECT number, at, by_id, by_name, action, target, model_version FROM changes \
             WHERE number < $1 ORDER BY number DESC LIMIT $2";
        self.connection.all(statement, values![bound(before.unwrap_or(u64::MAX)), limit]).await
    }

    /// Returns one change.
    pub async fn change(&mut self, number: u64) -> Result<Option<Change>, DbError> {
        // The number comes from the request and can have any value.
        let Ok(number) = i64::try_from(number) else { return Ok(None) };
        let statement =
            "SELECT number, at, by_id, by_name, action, target, model_version FROM changes WHERE number = $1";
        self.connection.optional(statement, values![number]).await
    }

    /// Returns the whole access model as of a change; for `None`, the current one, read from the tables that decide
    /// about access. Returns `None` if there is no such change.
    pub async fn model_state(&mut self, number: Option<u64>) -> Result<Option<ModelState>, DbError> {
        let Some(number) = number else {
            let roles = self.roles().await?.into_iter().map(|role| (role.name, role.policies)).collect();
            let model = self.access_model().await?;
            let mappings = self.identities().mappings(None).await?;
            return Ok(Some(ModelState {
                model,
                roles,
                mappings,
                tests: tests_as_of(self, i64::MAX).await?,
            }));
        };
        let Some(change) = self.change(number).await? else { return Ok(None) };
        let signed_number = signed(number)?;
        let model = model_as_of(self, &change).await?;
        let written: Vec<WrittenRole> = self.connection.all(POLICIES_AS_OF, values![signed_number]).await?;
        let mut roles = BTreeMap::new();
        written.into_iter().for_each(|written| written.add_to(&mut roles));
        let mappings = self.identities().mappings(Some(number)).await?;
        Ok(Some(ModelState { model, roles, mappings, tests: tests_as_of(self, signed_number).await? }))
    }

    /// Returns the model before and after a change, with only the roles that the change wrote, and with mappings and
    /// tests only if it wrote them. The cost does not grow with the model. Returns `None` if there is no such change. Before the
    /// first change, the model is empty.
    pub async fn states_around_change(&mut self, number: u64) -> Result<Option<[ModelState; 2]>, DbError> {
        let Some(change) = self.change(number).await? else { return Ok(None) };
        let signed_number = signed(number)?;
        let earlier = match number.checked_sub(1) {
            Some(earlier) => self.change(earlier).await?,
            None => None,
        };
        let model = model_as_of(self, &change).await?;
        let model_before = match earlier {
            Some(earlier) if earlier.model_version == change.model_version => model.clone(),
            Some(earlier) => model_as_of(self, &earlier).await?,
            None => AccessModel::default(),
        };
        let written = self.written_roles(number, number).next().await.transpose()?;
        let WrittenRoles { before, after, .. } = written.unwrap_or_default();
        let mut states = [
            ModelState {
                model: model_before,
                roles: before,
                mappings: Default::default(),
                tests: String::new(),
            },
            ModelState { model, roles: after, mappings: Default::default(), tests: String::new() },
        ];
        if !self.identities().mapping_changes(number, number).await?.is_empty() {
            let [before, after] = &mut states;
            before.mappings = self.identities().mappings(Some(number.saturating_sub(1))).await?;
            after.mappings = self.identities().mappings(Some(number)).await?;
        }
        if self.written_tests(number, number).await?.contains_key(&number) {
            let [before, after] = &mut states;
            before.tests = tests_as_of(self, signed_number.saturating_sub(1)).await?;
            after.tests = tests_as_of(self, signed_number).await?;
        }
        Ok(Some(states))
    }
}

/// Returns the state according to the history and the current state, if both can be read and differ.
async fn unrecorded_state(tx: &mut ReadTx) -> Result<Option<[ModelState; 2]>, DbError> {
    let states = async {
        let last = tx.change_number().await?;
        Ok::<_, DbError>((tx.model_state(Some(last)).await?, tx.model_state(None).await?))
    };
    match states.await {
        Ok((recorded, current)) => {
            Ok(recorded.zip(current).filter(|(recorded, current)| recorded != current).map(Into::into))
        }
        // Unreadable data denies access where it is used. It must not prevent the service from starting.
        Err(DbError::Corrupt(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns binding and fields as of a change.
async fn model_as_of(tx: &mut ReadTx, change: &Change) -> Result<AccessModel, DbError> {
    let Change { number, model_version, .. } = *change;
    if model_version == 0 {
        return Ok(AccessModel::default());
    }
    tx.model_version(model_version).await?.ok_or_else(|| {
        DbError::Corrupt(format!("change {number} names version {model_version}, which is missing"))
    })
}

async fn tests_as_of(tx: &mut ReadTx, change: i64) -> Result<String, DbError> {
    let statement = "SELECT document FROM test_changes WHERE change <= $1 ORDER BY change DESC LIMIT 1";
    Ok(tx.connection.optional(statement, values![change]).await?.unwrap_or_default())
}

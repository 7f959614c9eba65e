//! The history of the whole access model: binding, marked fields, roles with their policies, and the tests kept with them.
//! A change holds what it wrote, in full; the state as of a change is the last of everything up to it.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use sqlx::any::AnyRow;
use tracewarden_model::{AccessModel, Timestamp};

use crate::database::{AppDb, ReadTx, WriteTx};
use crate::error::DbError;
use crate::history_pages::WrittenRoles;
use crate::records::Policy;
use crate::roles;
use crate::row_batches::Value;
use crate::rows;

/// A change before it has its number.
#[derive(Debug, Clone, Copy)]
pub struct NewChange<'a> {
    /// Now.
    pub at: Timestamp,
    /// Id and name of the user who made it.
    pub by: (&'a str, &'a str),
    /// What was done, as in the audit log.
    pub action: &'a str,
    /// What it was done to.
    pub target: Option<&'a str>,
    /// The version of binding and fields from this change on.
    pub model_version: u64,
}

/// A change as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its number, from 1, each one more than the one before.
    pub number: u64,
    /// When it was made.
    pub at: Timestamp,
    /// Id of the user who made it; empty for the service itself.
    pub by_id: String,
    /// Name of that user at the time; empty for the service itself.
    pub by_name: String,
    /// What was done, as in the audit log.
    pub action: String,
    /// What it was done to.
    pub target: Option<String>,
    /// The version of binding and fields from this change on.
    pub model_version: u64,
}

/// The whole access model at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelState {
    /// Binding and marked fields.
    pub model: AccessModel,
    /// Policies of all roles, in their order, by the role's name.
    pub roles: BTreeMap<String, Vec<Policy>>,
    /// The tests kept with the model, a JSON document; empty for none.
    pub tests: String,
}

const ONE: &str =
    "SELECT number, at, by_id, by_name, action, target, model_version FROM changes WHERE number = $1";

/// The last that the history says of each role.
const POLICIES_AS_OF: &str = "SELECT written.role, written.deleted, policies.title, policies.expression, \
     policies.description FROM role_changes AS written \
     JOIN (SELECT role, MAX(change) AS change FROM role_changes WHERE change <= $1 GROUP BY role) AS latest \
     ON latest.role = written.role AND latest.change = written.change \
     LEFT JOIN role_change_policies AS policies ON policies.role = written.role AND policies.change = written.change \
     ORDER BY written.role, policies.position";

fn change(row: &AnyRow) -> Result<Change, DbError> {
    Ok(Change {
        number: rows::unsigned(row, "number")?,
        at: rows::time(row, "at")?,
        by_id: rows::text(row, "by_id")?,
        by_name: rows::text(row, "by_name")?,
        action: rows::text(row, "action")?,
        target: rows::optional_text(row, "target")?,
        model_version: rows::unsigned(row, "model_version")?,
    })
}

/// Roles from rows with their policies, or with none.
fn roles_of(found: &[AnyRow]) -> Result<BTreeMap<String, Vec<Policy>>, DbError> {
    let mut by_role: BTreeMap<String, Vec<Policy>> = BTreeMap::new();
    for row in found {
        if rows::boolean(row, "deleted")? {
            continue;
        }
        let policies = by_role.entry(rows::text(row, "role")?).or_default();
        if rows::optional_text(row, "title")?.is_some() {
            policies.push(roles::policy(row)?);
        }
    }
    Ok(by_role)
}

impl WriteTx {
    /// Adds a change to the history and gives its number. `roles` are those that it wrote, each once, with all their policies;
    /// `None` for one that it deleted. `tests` is the new document of tests where it wrote one. Whoever writes a role or a
    /// version of binding and fields records it here in the same transaction.
    ///
    /// # Errors
    /// [`DbError`] when the database fails; [`DbError::Conflict`] when a role is named twice.
    pub async fn record_change(
        &mut self,
        change: &NewChange<'_>,
        roles: &[(&str, Option<&[Policy]>)],
        tests: Option<&str>,
    ) -> Result<u64, DbError> {
        let NewChange { at, by, action, target, model_version } = *change;
        // Writers come one after another, and no change is ever removed.
        let number = self.change_number().await?.saturating_add(1);
        let signed = rows::signed(number)?;
        sqlx::query(
            "INSERT INTO changes (number, at, by_id, by_name, action, target, model_version) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(signed)
        .bind(at.as_micros())
        .bind(by.0)
        .bind(by.1)
        .bind(action)
        .bind(target)
        .bind(rows::signed(model_version)?)
        .execute(self.statements())
        .await?;
        let written: Vec<_> = roles
            .iter()
            .map(|&(role, policies)| {
                [Value::Text(role), Value::Number(signed), Value::Number(i64::from(policies.is_none()))]
            })
            .collect();
        self.insert_rows("role_changes (role, change, deleted)", &written, "").await?;
        let policies: Vec<_> = roles
            .iter()
            .flat_map(|&(role, policies)| {
                (0_i64..).zip(policies.unwrap_or_default()).map(move |(position, policy)| {
                    [
                        Value::Text(role),
                        Value::Number(signed),
                        Value::Number(position),
                        Value::Text(&policy.title),
                        Value::Text(&policy.expression),
                        Value::optional_text(policy.description.as_deref()),
                    ]
                })
            })
            .collect();
        let place = "role_change_policies (role, change, position, title, expression, description)";
        self.insert_rows(place, &policies, "").await?;
        if let Some(document) = tests {
            sqlx::query("INSERT INTO test_changes (change, document) VALUES ($1, $2)")
                .bind(signed)
                .bind(document)
                .execute(self.statements())
                .await?;
        }
        Ok(number)
    }
}

impl AppDb {
    /// Takes into the history what was written past it, by a program from before it that ran on beside this one: a role is
    /// else told and restored as it was before. Whether there was something.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn catch_up(&self, now: Timestamp) -> Result<bool, DbError> {
        // What cannot be read denies access where it is needed, and must not keep the service from being started.
        let unread = |error| if matches!(error, DbError::Corrupt(_)) { Ok(false) } else { Err(error) };
        let mut tx = self.begin_read().await?;
        match tx.past_the_history().await {
            Ok(None) => return Ok(false),
            Ok(Some(_)) => drop(tx),
            Err(error) => return unread(error),
        }
        let mut tx = self.begin_write().await?;
        match tx.past_the_history().await {
            Ok(None) => Ok(false),
            Ok(Some([told, is])) => {
                let names: BTreeSet<&String> = told.roles.keys().chain(is.roles.keys()).collect();
                let roles: Vec<_> = names
                    .into_iter()
                    .map(|name| (name.as_str(), is.roles.get(name).map(Vec::as_slice)))
                    .filter(|(name, policies)| told.roles.get(*name).map(Vec::as_slice) != *policies)
                    .collect();
                let change = NewChange {
                    at: now,
                    by: ("", ""),
                    action: "upgrade",
                    target: None,
                    model_version: is.model.version,
                };
                tx.record_change(&change, &roles, None).await?;
                tx.commit().await?;
                Ok(true)
            }
            Err(error) => unread(error),
        }
    }
}

impl ReadTx {
    /// What the history tells and what is in force, when they differ.
    async fn past_the_history(&mut self) -> Result<Option<[ModelState; 2]>, DbError> {
        let last = self.change_number().await?;
        let told = self.model_state(Some(last)).await?;
        let is = self.model_state(None).await?;
        Ok(told.zip(is).filter(|(told, is)| told != is).map(|(told, is)| [told, is]))
    }

    /// The number of the last change.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn change_number(&mut self) -> Result<u64, DbError> {
        let row = sqlx::query("SELECT number FROM changes ORDER BY number DESC LIMIT 1")
            .fetch_optional(self.statements())
            .await?
            // The step of the schema that makes the table makes the first, and nothing of ours removes one.
            .ok_or_else(|| DbError::Corrupt("the history has no change".to_owned()))?;
        rows::unsigned(&row, "number")
    }

    /// Changes with numbers below `before`, or all, the newest first, at most `limit`.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn changes(&mut self, before: Option<u64>, limit: u32) -> Result<Vec<Change>, DbError> {
        let found = sqlx::query(
            "SELECT number, at, by_id, by_name, action, target, model_version FROM changes \
             WHERE number < $1 ORDER BY number DESC LIMIT $2",
        )
        .bind(before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX))
        .bind(i64::from(limit))
        .fetch_all(self.statements())
        .await?;
        found.iter().map(change).collect()
    }

    /// One change.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn change(&mut self, number: u64) -> Result<Option<Change>, DbError> {
        // Asked for by callers, in any size.
        let Ok(number) = i64::try_from(number) else { return Ok(None) };
        let found = sqlx::query(ONE).bind(number).fetch_optional(self.statements()).await?;
        found.as_ref().map(change).transpose()
    }

    /// The whole access model as of a change; with `None` as it is now, read from where access is decided. `None` when there
    /// is no such change.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn model_state(&mut self, number: Option<u64>) -> Result<Option<ModelState>, DbError> {
        let Some(number) = number else {
            let roles = self.roles().await?.into_iter().map(|role| (role.name, role.policies)).collect();
            let state = ModelState {
                model: self.access_model().await?,
                roles,
                tests: self.tests_as_of(i64::MAX).await?,
            };
            return Ok(Some(state));
        };
        let Some(change) = self.change(number).await? else { return Ok(None) };
        let signed = rows::signed(number)?;
        let model = self.model_of(&change).await?;
        let roles = self.roles_as_of(signed).await?;
        Ok(Some(ModelState { model, roles, tests: self.tests_as_of(signed).await? }))
    }

    /// The model before and after a change, of the roles only those that it wrote, and the tests only where it wrote them:
    /// what it costs to read this does not grow with the model. `None` when there is no such change; before the first one
    /// there is nothing.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn change_sides(&mut self, number: u64) -> Result<Option<[ModelState; 2]>, DbError> {
        let Some(change) = self.change(number).await? else { return Ok(None) };
        let signed = rows::signed(number)?;
        let earlier = match number.checked_sub(1) {
            Some(earlier) => self.change(earlier).await?,
            None => None,
        };
        let model = self.model_of(&change).await?;
        let model_before = match earlier {
            Some(earlier) if earlier.model_version == change.model_version => model.clone(),
            Some(earlier) => self.model_of(&earlier).await?,
            None => AccessModel::default(),
        };
        let [roles_before, roles] = match self.written_roles(number, number).next().await.transpose()? {
            Some(WrittenRoles { before, after, .. }) => [before, after],
            None => [BTreeMap::new(), BTreeMap::new()],
        };
        let mut sides = [
            ModelState { model: model_before, roles: roles_before, tests: String::new() },
            ModelState { model, roles, tests: String::new() },
        ];
        if self.written_tests(number, number).await?.contains_key(&number) {
            let [before, after] = &mut sides;
            before.tests = self.tests_as_of(signed.saturating_sub(1)).await?;
            after.tests = self.tests_as_of(signed).await?;
        }
        Ok(Some(sides))
    }

    /// Binding and fields as of a change.
    async fn model_of(&mut self, change: &Change) -> Result<AccessModel, DbError> {
        let Change { number, model_version, .. } = *change;
        if model_version == 0 {
            return Ok(AccessModel::default());
        }
        self.access_model_version(model_version).await?.ok_or_else(|| {
            DbError::Corrupt(format!("change {number} names version {model_version}, which is missing"))
        })
    }

    async fn roles_as_of(&mut self, change: i64) -> Result<BTreeMap<String, Vec<Policy>>, DbError> {
        roles_of(&sqlx::query(POLICIES_AS_OF).bind(change).fetch_all(self.statements()).await?)
    }

    async fn tests_as_of(&mut self, change: i64) -> Result<String, DbError> {
        let found =
            sqlx::query("SELECT document FROM test_changes WHERE change <= $1 ORDER BY change DESC LIMIT 1")
                .bind(change)
                .fetch_optional(self.statements())
                .await?;
        found.map_or_else(|| Ok(String::new()), |row| rows::text(&row, "document"))
    }
}

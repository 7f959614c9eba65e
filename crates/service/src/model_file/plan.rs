//! Plan of an import: its effect, without making any change.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use super::import::changed_mappings;
use super::prepare::{Mode, PolicyWarning, PreparedImport};
use super::{ModelChange, ModelFile, RunTests, TestRun};
use crate::access::{MappedPerson, changed_people};
use crate::analysis::{Analysis, Change, ImpactAnswer, timeout};
use crate::core::{Administrator, Result, ServiceError, query_input};
use crate::model_file::ModelFiles;

/// Default time that ClickHouse may take to compute the impact of a plan, in seconds.
const IMPACT_SECONDS: i64 = 1;
/// Maximum number of names of users who lose a role in a plan.
const MAX_LISTED_MEMBERS: usize = 100;

/// Users who lose a role that is removed.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct LostRole {
    /// The role.
    pub role: String,
    /// Number of users who have the role.
    pub users: usize,
    /// The first of these users by name, at most 100.
    pub usernames: Vec<String>,
}

/// The effect of importing a model file.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ModelPlan {
    /// The version of the access model that the file was compared with: send it as `If-Match` of an import, in quotes.
    pub version: u64,
    /// Whether the import would change nothing.
    pub empty: bool,
    /// The parts that would change.
    pub changes: Vec<ModelChange>,
    /// Warnings about the policies of roles that would change.
    pub warnings: Vec<PolicyWarning>,
    /// Results of the file's tests. An import rejects a file with failing tests.
    pub tests: TestRun,
    /// Users who would lose a role.
    pub members: Vec<LostRole>,
    /// People whose roles or attributes a changed mapping would change, at most 100.
    pub people: Vec<MappedPerson>,
    /// The traces that users would gain and lose, for the last 24 hours; null when this was skipped or could not be determined,
    /// for the reason in `notes`.
    #[schema(required = true)]
    pub impact: Option<ImpactAnswer>,
    /// More information, as readable text.
    pub notes: Vec<String>,
}

impl ModelFiles {
    /// Returns the effect of importing a file. Changes nothing. `seconds` is the time that ClickHouse may take to compute the
    /// traces that users would gain and lose: 1 when absent, 60 at most; with 0 they are not computed.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] for `seconds`, otherwise as for [`Self::import_model`], except for tests that fail or
    /// cannot be run: the plan contains them.
    pub async fn plan_model(
        &self,
        admin: &Administrator<'_>,
        file: ModelFile,
        tests: RunTests,
        seconds: Option<i64>,
    ) -> Result<ModelPlan> {
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
        let people = self.changed_people(&mut prepared).await?;
        let impact = match timeout {
            Some(timeout) => self.plan_impact(admin, &mut prepared, timeout).await?,
            None => None,
        };
        let PreparedImport { version, changes, warnings, notes, .. } = prepared;
        let empty = changes.is_empty();
        Ok(ModelPlan { version, empty, changes, warnings, tests, members, people, impact, notes })
    }

    /// Computes the traces that users gain and lose. If ClickHouse fails, the plan contains the rest.
    async fn plan_impact(
        &self,
        admin: &Administrator<'_>,
        prepared: &mut PreparedImport,
        timeout: Duration,
    ) -> Result<Option<ImpactAnswer>> {
        let PreparedImport { before, after, notes, changes, .. } = prepared;
        if (&before.model, &before.roles) == (&after.model, &after.roles) {
            return Ok(None);
        }
        if before.model.binding.is_none() || after.model.binding.is_none() {
            notes.push("no table is bound before or after: there are no traces to compare".to_owned());
            return Ok(None);
        }
        let descriptions: Vec<&str> = changes.iter().map(|change| change.description.as_str()).collect();
        let window = query_input::first_window(None, None, self.core.now())?;
        let change = Change { before, after, role: None, window };
        let analysis = Analysis { core: Arc::clone(&self.core) };
        match analysis.compute_impact(admin, &change, descriptions, timeout).await {
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

    /// Returns the people whom changed mappings affect. What they would gain and lose in traces is not counted.
    async fn changed_people(&self, prepared: &mut PreparedImport) -> Result<Vec<MappedPerson>> {
        let mappings = changed_mappings(&prepared.before, &prepared.after);
        let roles = prepared.after.roles.keys().cloned().collect();
        let (people, changed) = changed_people(&self.core.db, &mappings, &roles, MAX_LISTED_MEMBERS).await?;
        if changed > 0 {
            prepared.notes.push(format!(
                "the mappings change the access of {changed} people; the traces that they would gain and lose are not counted"
            ));
        }
        Ok(people)
    }

    async fn users_losing_role(&self, prepared: &PreparedImport) -> Result<Vec<LostRole>> {
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
}

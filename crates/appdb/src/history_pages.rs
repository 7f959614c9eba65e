//! The effects of many consecutive changes: a page of the history takes a constant number of statements and holds the
//! documents of one change at a time.

use std::collections::BTreeMap;

use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use sqlx::any::AnyRow;

use crate::error::DbError;
use crate::records::Policy;
use crate::rows::{self, FromRow};
use crate::transactions::ReadTx;
use crate::values::{bound, values};

/// The roles that a change wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenRoles {
    /// The number of the change.
    pub change: u64,
    /// Policies of each role before the change. A role that did not exist is missing.
    pub before: BTreeMap<String, Vec<Policy>>,
    /// Policies of each role after the change. A role that the change deleted is missing.
    pub after: BTreeMap<String, Vec<Policy>>,
}

/// For each role that a change wrote: the policies that it wrote, and those that the previous change of the role wrote.
const ROLES: &str = "SELECT written.change, written.role, CAST(1 AS BIGINT) AS is_after, written.deleted, \
     policies.position, policies.title, policies.expression, policies.description FROM role_changes AS written \
     LEFT JOIN role_change_policies AS policies ON policies.role = written.role AND policies.change = written.change \
     WHERE written.change >= $1 AND written.change <= $2 \
     UNION ALL \
     SELECT written.change, written.role, CAST(0 AS BIGINT) AS is_after, earlier.deleted, \
     policies.position, policies.title, policies.expression, policies.description FROM role_changes AS written \
     JOIN role_changes AS earlier ON earlier.role = written.role AND earlier.change = \
     (SELECT MAX(change) FROM role_changes WHERE role = written.role AND change < written.change) \
     LEFT JOIN role_change_policies AS policies ON policies.role = earlier.role AND policies.change = earlier.change \
     WHERE written.change >= $1 AND written.change <= $2 \
     ORDER BY 1, 2, 3, 5";

/// For the test documents of these changes and the last document before them: whether they are non-empty.
const TESTS: &str = "SELECT change, CAST(CASE WHEN document = '' THEN 0 ELSE 1 END AS BIGINT) AS present FROM test_changes \
     WHERE (change >= $1 AND change <= $2) OR change = (SELECT MAX(change) FROM test_changes WHERE change < $1) ORDER BY change";

/// A policy that a change wrote.
pub(crate) struct WrittenRole {
    role: String,
    deleted: bool,
    /// Absent in the only row of a role without policies.
    policy: Option<Policy>,
}

impl WrittenRole {
    pub(crate) fn add_to(self, roles: &mut BTreeMap<String, Vec<Policy>>) {
        if !self.deleted {
            roles.entry(self.role).or_default().extend(self.policy);
        }
    }
}

impl FromRow for WrittenRole {
    fn from_row(row: &AnyRow) -> Result<Self, DbError> {
        let has_policy = rows::get::<Option<String>>(row, "title")?.is_some();
        Ok(Self {
            role: rows::get(row, "role")?,
            deleted: rows::get(row, "deleted")?,
            policy: has_policy.then(|| Policy::from_row(row)).transpose()?,
        })
    }
}

/// A row of [`ROLES`]: the change, whether the policy is one after it, and the policy.
impl FromRow for (u64, bool, WrittenRole) {
    fn from_row(row: &AnyRow) -> Result<Self, DbError> {
        Ok((rows::get(row, "change")?, rows::get(row, "is_after")?, WrittenRole::from_row(row)?))
    }
}

impl ReadTx {
    /// Streams the roles that the changes from `from` through `through` wrote, by number. Changes that wrote no role
    /// are left out.
    pub fn written_roles(&mut self, from: u64, through: u64) -> BoxStream<'_, Result<WrittenRoles, DbError>> {
        let values = values![bound(from), bound(through)];
        let found = self.connection.stream::<(u64, bool, WrittenRole)>(ROLES, values).fuse();
        let state = (found, None::<WrittenRoles>);
        let changes = stream::try_unfold(state, |(mut found, mut gathered)| async move {
            while let Some((change, is_after, written)) = found.try_next().await? {
                let complete = gathered.take_if(|roles| roles.change != change);
                let WrittenRoles { before, after, .. } =
                    gathered.get_or_insert_with(|| WrittenRoles { change, ..WrittenRoles::default() });
                written.add_to(if is_after { after } else { before });
                if let Some(complete) = complete {
                    return Ok(Some((complete, (found, gathered))));
                }
            }
            Ok(gathered.take().map(|last| (last, (found, None))))
        });
        changes.boxed()
    }

    /// Returns the changes from `from` through `through` that wrote tests, with whether tests existed before and after
    /// each.
    pub async fn written_tests(
        &mut self,
        from: u64,
        through: u64,
    ) -> Result<BTreeMap<u64, [bool; 2]>, DbError> {
        let found = self.connection.all::<(u64, bool)>(TESTS, values![bound(from), bound(through)]).await?;
        let (mut written, mut before) = (BTreeMap::new(), false);
        for (change, present) in found {
            if change >= from {
                written.insert(change, [before, present]);
            }
            before = present;
        }
        Ok(written)
    }
}

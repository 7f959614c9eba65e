//! The effects of many consecutive changes: a page of the history takes a constant number of statements and holds the
//! documents of one change at a time.

use std::collections::BTreeMap;

use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use sqlx::any::AnyRow;

use crate::error::DbError;
use crate::records::Policy;
use crate::transactions::ReadTx;
use crate::{roles, rows};

/// The roles that a change wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// No change has a number above `i64::MAX`.
fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl WrittenRoles {
    fn new(change: u64) -> Self {
        Self { change, before: BTreeMap::new(), after: BTreeMap::new() }
    }

    fn add(&mut self, row: &AnyRow) -> Result<(), DbError> {
        if rows::boolean(row, "deleted")? {
            return Ok(());
        }
        let side = if rows::boolean(row, "is_after")? { &mut self.after } else { &mut self.before };
        let policies = side.entry(rows::text(row, "role")?).or_default();
        // A role without policies has one row with NULL columns.
        if rows::optional_text(row, "title")?.is_some() {
            policies.push(roles::policy(row)?);
        }
        Ok(())
    }
}

impl ReadTx {
    /// Streams the roles that the changes from `from` through `through` wrote, by number. Changes that wrote no role
    /// are left out.
    pub fn written_roles(&mut self, from: u64, through: u64) -> BoxStream<'_, Result<WrittenRoles, DbError>> {
        let found =
            sqlx::query(ROLES).bind(bound(from)).bind(bound(through)).fetch(self.connection.statements());
        let state = (found.map_err(DbError::from).fuse(), None::<WrittenRoles>);
        let changes = stream::try_unfold(state, |(mut found, mut gathered)| async move {
            while let Some(row) = found.try_next().await? {
                let change = rows::unsigned(&row, "change")?;
                let next = match &mut gathered {
                    Some(same) if same.change == change => {
                        same.add(&row)?;
                        continue;
                    }
                    _ => {
                        let mut next = WrittenRoles::new(change);
                        next.add(&row)?;
                        next
                    }
                };
                if let Some(complete) = gathered.replace(next) {
                    return Ok(Some((complete, (found, gathered))));
                }
            }
            Ok(gathered.take().map(|last| (last, (found, None))))
        });
        changes.boxed()
    }

    /// Returns the changes from `from` through `through` that wrote tests, with whether tests existed before and after
    /// each.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn written_tests(
        &mut self,
        from: u64,
        through: u64,
    ) -> Result<BTreeMap<u64, [bool; 2]>, DbError> {
        let found = sqlx::query(TESTS)
            .bind(bound(from))
            .bind(bound(through))
            .fetch_all(self.connection.statements())
            .await?;
        let (mut written, mut before) = (BTreeMap::new(), false);
        for row in &found {
            let (change, present) = (rows::unsigned(row, "change")?, rows::boolean(row, "present")?);
            if change >= from {
                written.insert(change, [before, present]);
            }
            before = present;
        }
        Ok(written)
    }
}

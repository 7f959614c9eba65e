//! What many changes did, one after another: a constant number of statements for a page of the history, and no more than one
//! change's documents at a time.

use std::collections::BTreeMap;

use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use sqlx::any::AnyRow;

use crate::database::ReadTx;
use crate::error::DbError;
use crate::records::Policy;
use crate::{roles, rows};

/// The roles that a change wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenRoles {
    /// The number of the change.
    pub change: u64,
    /// Policies of each of them before the change; a role that was not there before is missing.
    pub before: BTreeMap<String, Vec<Policy>>,
    /// The same after the change; a role that it deleted is missing.
    pub after: BTreeMap<String, Vec<Policy>>,
}

/// Of each role that a change wrote: the policies that it wrote, and those that the last change of the role before it wrote.
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

/// Documents of tests of these changes and of the last one before them, by whether there is anything in them.
const TESTS: &str = "SELECT change, CAST(CASE WHEN document = '' THEN 0 ELSE 1 END AS BIGINT) AS present FROM test_changes \
     WHERE (change >= $1 AND change <= $2) OR change = (SELECT MAX(change) FROM test_changes WHERE change < $1) ORDER BY change";

/// What is beyond is the number of no change.
fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl WrittenRoles {
    fn of(change: u64) -> Self {
        Self { change, before: BTreeMap::new(), after: BTreeMap::new() }
    }

    fn add(&mut self, row: &AnyRow) -> Result<(), DbError> {
        if rows::boolean(row, "deleted")? {
            return Ok(());
        }
        let side = if rows::boolean(row, "is_after")? { &mut self.after } else { &mut self.before };
        let policies = side.entry(rows::text(row, "role")?).or_default();
        // A role without policies has one row without any.
        if rows::optional_text(row, "title")?.is_some() {
            policies.push(roles::policy(row)?);
        }
        Ok(())
    }
}

impl ReadTx {
    /// The roles that the changes with numbers from `from` to `through` wrote, by number; a change that wrote none is left out.
    pub fn written_roles(&mut self, from: u64, through: u64) -> BoxStream<'_, Result<WrittenRoles, DbError>> {
        let found = sqlx::query(ROLES).bind(bound(from)).bind(bound(through)).fetch(self.statements());
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
                        let mut next = WrittenRoles::of(change);
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

    /// The changes with numbers from `from` to `through` that wrote tests, with whether there were any before and after each.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn written_tests(
        &mut self,
        from: u64,
        through: u64,
    ) -> Result<BTreeMap<u64, [bool; 2]>, DbError> {
        let found =
            sqlx::query(TESTS).bind(bound(from)).bind(bound(through)).fetch_all(self.statements()).await?;
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

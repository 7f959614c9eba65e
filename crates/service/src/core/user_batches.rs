//! Iteration over all users in bounded batches: 10,000 users may have 2.5 GB of attributes together.
//!
//! Each batch is a snapshot of its own, and its connection is released before ClickHouse is queried: a connection that is
//! held until the last batch would be missing for other requests, and a server ends idle transactions.
//! [`access_changed_since`](tracewarden_appdb::ReadTx::access_changed_since) tells whether data changed in between, and the
//! answer says so.

use tracewarden_appdb::{AppDb, User, fold_username};

use crate::core::error::Result;

const BATCH_USERS: u32 = 500;
/// Approximate number of characters of attributes in a batch; exceeded by at most those of one user.
const BATCH_CHARACTERS: u32 = 8 * 1024 * 1024;
/// Maximum size in bytes of the policies of users that are evaluated together.
const BATCH_POLICY_BYTES: usize = 32 * 1024 * 1024;

/// All users, or those who have a role, by name.
pub(crate) struct UserBatches<'a> {
    role: Option<&'a str>,
    after: String,
    /// Number of users that are still to be evaluated.
    left: usize,
    /// Whether there are enabled users beyond those.
    pub(crate) has_more: bool,
    ended: bool,
}

impl<'a> UserBatches<'a> {
    /// Starts at the first user and ends after at most `max_users` enabled users.
    pub(crate) fn new(role: Option<&'a str>, max_users: usize) -> Self {
        Self { role, after: String::new(), left: max_users, has_more: false, ended: false }
    }

    /// Returns the next enabled users; `None` after the last. A batch can be empty.
    pub(crate) async fn next(&mut self, db: &AppDb) -> Result<Option<Vec<User>>> {
        if self.ended {
            return Ok(None);
        }
        let mut tx = db.begin_read().await?;
        let mut batch = tx.users_batch(self.role, &self.after, BATCH_USERS, BATCH_CHARACTERS).await?;
        drop(tx);
        let Some(last) = batch.last() else {
            self.ended = true;
            return Ok(None);
        };
        self.after = fold_username(&last.username);
        batch.retain(|user| !user.disabled);
        if batch.len() > self.left {
            batch.truncate(self.left);
            (self.has_more, self.ended) = (true, true);
        }
        self.left = self.left.saturating_sub(batch.len());
        Ok(Some(batch))
    }
}

/// Removes the first users from the list: at most `max_users`, and of a bounded total weight in bytes, but at least one.
pub(crate) fn take_batch(
    users: &mut Vec<User>,
    max_users: usize,
    weight: impl Fn(&User) -> usize,
) -> Vec<User> {
    let mut bytes = 0_usize;
    let fits = |user: &&User| {
        bytes = bytes.saturating_add(weight(user));
        bytes <= BATCH_POLICY_BYTES
    };
    let count = users.iter().take(max_users).take_while(fits).count().max(1).min(users.len());
    let rest = users.split_off(count);
    std::mem::replace(users, rest)
}

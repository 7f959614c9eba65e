//! Going through all users in bounded pieces: 10,000 users may have 2.5 GB of attributes together.
//!
//! Each piece is a snapshot of its own, given back before anything is asked of ClickHouse: a connection that was held until the
//! last piece would be missing for everybody else, and a server ends transactions that wait. Whether anything was changed in
//! between is asked with [`access_changed_since`](tracewarden_appdb::ReadTx::access_changed_since), and said.

use tracewarden_appdb::{AppDb, User, fold_username};
use tracewarden_model::AttributeValue;

use crate::error::ServiceError;

/// Most users in a piece.
const USERS: u32 = 500;
/// About as many characters of attributes are in a piece, and those of one user more.
const CHARACTERS: u32 = 8 * 1024 * 1024;
/// Bytes that the policies of some users may hold while these are decided about together.
const BUNCH_BYTES: usize = 32 * 1024 * 1024;

/// All users, or those who hold a role, by name.
pub(crate) struct UserWalk<'a> {
    role: Option<&'a str>,
    after: String,
    /// Users who are still to be evaluated.
    left: usize,
    /// Enabled users beyond those.
    has_more: bool,
    ended: bool,
}

impl<'a> UserWalk<'a> {
    /// From the first on, to at most so many who are not disabled.
    pub(crate) fn over(role: Option<&'a str>, most: usize) -> Self {
        Self { role, after: String::new(), left: most, has_more: false, ended: false }
    }

    /// Some more users who are not disabled; `None` after the last. A piece can be empty.
    ///
    /// # Errors
    /// A failure of the application database.
    pub(crate) async fn next(&mut self, db: &AppDb) -> Result<Option<Vec<User>>, ServiceError> {
        if self.ended {
            return Ok(None);
        }
        let mut tx = db.begin_read().await?;
        let mut piece = match self.role {
            None => tx.users_piece(&self.after, USERS, CHARACTERS).await?,
            Some(role) => tx.holders_piece(role, &self.after, USERS, CHARACTERS).await?,
        };
        drop(tx);
        let Some(last) = piece.last() else {
            self.ended = true;
            return Ok(None);
        };
        self.after = fold_username(&last.username);
        piece.retain(|user| !user.disabled);
        if piece.len() > self.left {
            piece.truncate(self.left);
            (self.has_more, self.ended) = (true, true);
        }
        self.left = self.left.saturating_sub(piece.len());
        Ok(Some(piece))
    }

    /// Whether there are enabled users who were left out.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }
}

/// Takes the first users off the list: at most so many, and no more than weigh a bounded number of bytes, but at least one.
pub(crate) fn bunch(users: &mut Vec<User>, most: usize, weight: impl Fn(&User) -> usize) -> Vec<User> {
    let mut bytes = 0_usize;
    let fits = |user: &&User| {
        bytes = bytes.saturating_add(weight(user));
        bytes <= BUNCH_BYTES
    };
    let count = users.iter().take(most).take_while(fits).count().max(1).min(users.len());
    let rest = users.split_off(count);
    std::mem::replace(users, rest)
}

/// Bytes of the values of all attributes.
pub(crate) fn attribute_bytes(user: &User) -> usize {
    let bytes = |value: &AttributeValue| match value {
        AttributeValue::Bool(_) => 0,
        AttributeValue::String(text) => text.len(),
        AttributeValue::Strings(texts) => texts.iter().map(String::len).fold(0, usize::saturating_add),
    };
    user.attributes.values().map(bytes).fold(0, usize::saturating_add)
}

//! Users and their roles.

use std::collections::{BTreeMap, BTreeSet};

use futures::TryStreamExt as _;
use sqlx::any::AnyRow;
use tracewarden_model::{AttributeValue, Timestamp};

use crate::documents;
use crate::error::DbError;
use crate::records::{
    ADMIN_ROLE, AttributeKinds, KnownAttributes, NewUser, PasswordHash, User, fold_username,
};
use crate::row_batches::Value;
use crate::rows;
use crate::transactions::{ReadTx, WriteTx};

macro_rules! select_users {
    ($rest:literal) => {
        concat!("SELECT users.id AS user_id, ", $crate::users::user_columns!(), " FROM users ", $rest)
    };
}

/// Columns of a user with roles, besides `user_id`. Column names that other tables share get an alias, so that a
/// credential can be in the same row. Role names consist of `a-z`, `0-9`, `.`, `_` and `-`, so they never contain the
/// separator.
macro_rules! user_columns {
    () => {
        "username, password_hash, must_change_password, disabled, users.created_at AS user_created_at, last_login_at, \
         attributes, (SELECT string_agg(role, '\n') FROM user_roles WHERE user_roles.user_id = users.id) AS roles"
    };
}
pub(crate) use user_columns;

/// Selects at most a given number of users after a name, in order, and of these only as many as have no more than a
/// given number of characters of attributes before them. To compute that, the statement reads only names and lengths.
macro_rules! select_batch {
    ($from:literal) => {
        concat!(
            "SELECT users.id AS user_id, ",
            $crate::users::user_columns!(),
            " FROM (SELECT id, SUM(characters) OVER (ORDER BY username_folded ROWS UNBOUNDED PRECEDING) - characters \
             AS before_them FROM (SELECT users.id, users.username_folded, LENGTH(users.attributes) AS characters FROM ",
            $from,
            " ORDER BY users.username_folded LIMIT $2) AS piece) AS sized JOIN users ON users.id = sized.id \
             WHERE sized.before_them < $3 ORDER BY users.username_folded"
        )
    };
}

const USERS_BATCH: &str = select_batch!("users WHERE users.username_folded > $1");
const USERS_WITH_ROLE_BATCH: &str = select_batch!(
    "users JOIN user_roles ON user_roles.user_id = users.id WHERE users.username_folded > $1 AND user_roles.role = $4"
);

pub(crate) fn user(row: &AnyRow) -> Result<User, DbError> {
    let roles = rows::optional_text(row, "roles")?;
    Ok(User {
        id: rows::text(row, "user_id")?,
        username: rows::text(row, "username")?,
        password_hash: PasswordHash(rows::text(row, "password_hash")?),
        must_change_password: rows::boolean(row, "must_change_password")?,
        disabled: rows::boolean(row, "disabled")?,
        created_at: rows::time(row, "user_created_at")?,
        last_login_at: rows::optional_time(row, "last_login_at")?,
        attributes: documents::read_attributes(&rows::text(row, "attributes")?)?,
        roles: roles.iter().flat_map(|names| names.split('\n')).map(str::to_owned).collect(),
    })
}

async fn batch(
    tx: &mut ReadTx,
    statement: &'static str,
    after: &str,
    limit: u32,
    bytes: u32,
    role: Option<&str>,
) -> Result<Vec<User>, DbError> {
    let query = sqlx::query(statement).bind(after).bind(i64::from(limit)).bind(i64::from(bytes));
    let query = match role {
        Some(role) => query.bind(role),
        None => query,
    };
    query.fetch_all(tx.connection.statements()).await?.iter().map(user).collect()
}

impl ReadTx {
    /// Returns the user with this id.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn user_by_id(&mut self, id: &str) -> Result<Option<User>, DbError> {
        let row = sqlx::query(select_users!("WHERE id = $1"))
            .bind(id)
            .fetch_optional(self.connection.statements())
            .await?;
        row.as_ref().map(user).transpose()
    }

    /// Returns the user with this name, regardless of case.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn user_by_name(&mut self, username: &str) -> Result<Option<User>, DbError> {
        let row = sqlx::query(select_users!("WHERE username_folded = $1"))
            .bind(fold_username(username))
            .fetch_optional(self.connection.statements())
            .await?;
        row.as_ref().map(user).transpose()
    }

    /// Returns at most `limit` users by folded name, after the folded name `after`.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn users(&mut self, after: &str, limit: u32) -> Result<Vec<User>, DbError> {
        let found =
            sqlx::query(select_users!("WHERE username_folded > $1 ORDER BY username_folded LIMIT $2"))
                .bind(after)
                .bind(i64::from(limit))
                .fetch_all(self.connection.statements())
                .await?;
        found.iter().map(user).collect()
    }

    /// Returns at most `limit` of the users who hold a role, ordered by name.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn users_with_role(&mut self, role: &str, limit: u32) -> Result<Vec<User>, DbError> {
        let found = sqlx::query(select_users!(
            "JOIN user_roles ON user_roles.user_id = users.id WHERE user_roles.role = $1 \
             ORDER BY username_folded LIMIT $2"
        ))
        .bind(role)
        .bind(i64::from(limit))
        .fetch_all(self.connection.statements())
        .await?;
        found.iter().map(user).collect()
    }

    /// Returns at most `limit` users by folded name, after the folded name `after`, whose attributes together have
    /// about `bytes` characters, but at least one user. Callers read all users in bounded pieces with it; an empty
    /// piece is the last.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn users_batch(&mut self, after: &str, limit: u32, bytes: u32) -> Result<Vec<User>, DbError> {
        batch(self, USERS_BATCH, after, limit, bytes, None).await
    }

    /// Like [`ReadTx::users_batch`], for the users who hold a role.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn users_with_role_batch(
        &mut self,
        role: &str,
        after: &str,
        limit: u32,
        bytes: u32,
    ) -> Result<Vec<User>, DbError> {
        batch(self, USERS_WITH_ROLE_BATCH, after, limit, bytes, Some(role)).await
    }

    /// Returns the folded names and password hashes of at most `limit` users, after the folded name `after`.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn password_hashes(
        &mut self,
        after: &str,
        limit: u32,
    ) -> Result<Vec<(String, PasswordHash)>, DbError> {
        let found = sqlx::query(
            "SELECT username_folded, password_hash FROM users WHERE username_folded > $1 ORDER BY username_folded LIMIT $2",
        )
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(self.connection.statements())
        .await?;
        let hash =
            |row| Ok((rows::text(row, "username_folded")?, PasswordHash(rows::text(row, "password_hash")?)));
        found.iter().map(hash).collect()
    }

    /// Returns the number of enabled users, of all or of those who hold a role.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn enabled_users(&mut self, role: Option<&str>) -> Result<u64, DbError> {
        const ALL: &str = "SELECT COUNT(*) AS enabled FROM users WHERE disabled = 0";
        const HOLDERS: &str = "SELECT COUNT(*) AS enabled FROM users JOIN user_roles ON user_roles.user_id = users.id \
             WHERE users.disabled = 0 AND user_roles.role = $1";
        let query = match role {
            None => sqlx::query(ALL),
            Some(role) => sqlx::query(HOLDERS).bind(role),
        };
        let row = query.fetch_one(self.connection.statements()).await?;
        rows::unsigned(&row, "enabled")
    }

    /// Returns names and kinds of the attributes of all users, and of the users with `role`; `None` if users have more
    /// than `limit` different sets of attributes. The values are read row by row and not kept.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn known_attributes(
        &mut self,
        role: &str,
        limit: u32,
    ) -> Result<Option<KnownAttributes>, DbError> {
        let mut found = sqlx::query(
            "SELECT users.attributes, COUNT(user_roles.role) AS users_holding FROM users \
             LEFT JOIN user_roles ON user_roles.user_id = users.id AND user_roles.role = $1 \
             GROUP BY users.attributes LIMIT $2",
        )
        .bind(role)
        .bind(i64::from(limit).saturating_add(1))
        .fetch(self.connection.statements());
        let (mut known, mut sets) = (KnownAttributes::default(), 0_u32);
        while let Some(row) = found.try_next().await? {
            sets = sets.saturating_add(1);
            let holders = rows::unsigned(&row, "users_holding")?;
            known.holders = known.holders.saturating_add(holders);
            for (name, value) in documents::read_attributes(&rows::text(&row, "attributes")?)? {
                let AttributeKinds { all, with_role } = known.kinds.entry(name).or_default();
                all.insert(value.kind());
                if holders > 0 {
                    with_role.insert(value.kind());
                }
            }
        }
        Ok((sets <= limit).then_some(known))
    }

    /// Whether users, roles or the access model have changed since the audit record with this number. Each such change
    /// is recorded in the transaction that makes it.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn access_changed_since(&mut self, sequence: u64) -> Result<bool, DbError> {
        let row = sqlx::query(
            "SELECT COUNT(*) AS changes FROM audit WHERE sequence > $1 AND outcome = 'success' AND action IN \
             ('user.create', 'user.update', 'user.delete', 'user.rotate_password', 'password.change', 'admin.create', \
             'admin.replace_hash', 'role.put', 'role.delete', 'schema.put_binding', 'schema.put_fields', 'model.import', \
             'model.restore')",
        )
        .bind(rows::signed(sequence)?)
        .fetch_one(self.connection.statements())
        .await?;
        Ok(rows::unsigned(&row, "changes")? > 0)
    }

    /// Returns the number of enabled users who hold the role `admin`.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn enabled_administrators(&mut self) -> Result<u64, DbError> {
        let row = sqlx::query(
            "SELECT COUNT(*) AS administrators FROM users JOIN user_roles ON user_roles.user_id = users.id \
             WHERE users.disabled = 0 AND user_roles.role = $1",
        )
        .bind(ADMIN_ROLE)
        .fetch_one(self.connection.statements())
        .await?;
        rows::unsigned(&row, "administrators")
    }
}

impl WriteTx {
    /// Creates a user with existing roles.
    ///
    /// # Errors
    /// [`DbError::Conflict`] when the name is taken.
    pub async fn insert_user(&mut self, user: &NewUser<'_>) -> Result<(), DbError> {
        sqlx::query(
            "INSERT INTO users (id, username, username_folded, password_hash, must_change_password, disabled, \
             created_at, last_login_at, attributes) VALUES ($1, $2, $3, $4, $5, 0, $6, NULL, $7)",
        )
        .bind(user.id)
        .bind(user.username)
        .bind(fold_username(user.username))
        .bind(user.password_hash.0.as_str())
        .bind(i64::from(user.must_change_password))
        .bind(user.created_at.as_micros())
        .bind(documents::write_attributes(user.attributes)?)
        .execute(self.connection.statements())
        .await?;
        self.set_user_roles(user.id, user.roles).await
    }

    /// Replaces a user's roles with existing roles.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn set_user_roles(&mut self, user_id: &str, roles: &BTreeSet<String>) -> Result<(), DbError> {
        sqlx::query("DELETE FROM user_roles WHERE user_id = $1")
            .bind(user_id)
            .execute(self.connection.statements())
            .await?;
        let rows: Vec<_> = roles.iter().map(|role| [Value::Text(user_id), Value::Text(role)]).collect();
        self.insert_rows("user_roles (user_id, role)", &rows, "").await
    }

    /// Replaces a user's attributes.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn set_user_attributes(
        &mut self,
        user_id: &str,
        attributes: &BTreeMap<String, AttributeValue>,
    ) -> Result<(), DbError> {
        sqlx::query("UPDATE users SET attributes = $2 WHERE id = $1")
            .bind(user_id)
            .bind(documents::write_attributes(attributes)?)
            .execute(self.connection.statements())
            .await?;
        Ok(())
    }

    /// Disables or enables a user.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn set_user_disabled(&mut self, user_id: &str, disabled: bool) -> Result<(), DbError> {
        sqlx::query("UPDATE users SET disabled = $2 WHERE id = $1")
            .bind(user_id)
            .bind(i64::from(disabled))
            .execute(self.connection.statements())
            .await?;
        Ok(())
    }

    /// Replaces a user's password.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn set_user_password(
        &mut self,
        user_id: &str,
        hash: &PasswordHash,
        must_change: bool,
    ) -> Result<(), DbError> {
        sqlx::query("UPDATE users SET password_hash = $2, must_change_password = $3 WHERE id = $1")
            .bind(user_id)
            .bind(hash.0.as_str())
            .bind(i64::from(must_change))
            .execute(self.connection.statements())
            .await?;
        Ok(())
    }

    /// Records a sign-in.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn set_user_last_login(&mut self, user_id: &str, at: Timestamp) -> Result<(), DbError> {
        sqlx::query("UPDATE users SET last_login_at = $2 WHERE id = $1")
            .bind(user_id)
            .bind(at.as_micros())
            .execute(self.connection.statements())
            .await?;
        Ok(())
    }

    /// Deletes a user with their sessions, API keys and role assignments.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn delete_user(&mut self, user_id: &str) -> Result<(), DbError> {
        sqlx::query("DELETE FROM users WHERE id = $1")
            .bind(user_id)
            .execute(self.connection.statements())
            .await?;
        Ok(())
    }

    /// Whether this password hash was already taken from the configuration. `digest` is its SHA-256 in hex.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn password_hash_used(&mut self, digest: &str) -> Result<bool, DbError> {
        let row = sqlx::query("SELECT sha256 FROM used_password_hashes WHERE sha256 = $1")
            .bind(digest)
            .fetch_optional(self.connection.statements())
            .await?;
        Ok(row.is_some())
    }

    /// Records a password hash that came from the configuration. `digest` is its SHA-256 in hex.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn remember_password_hash(&mut self, digest: &str, at: Timestamp) -> Result<(), DbError> {
        sqlx::query(
            "INSERT INTO used_password_hashes (sha256, used_at) VALUES ($1, $2) ON CONFLICT (sha256) DO NOTHING",
        )
        .bind(digest)
        .bind(at.as_micros())
        .execute(self.connection.statements())
        .await?;
        Ok(())
    }
}

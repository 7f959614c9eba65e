//! Users and their roles.

use std::collections::{BTreeMap, BTreeSet};

use futures::TryStreamExt as _;
use sqlx::any::AnyRow;
use tracewarden_model::{AttributeKind, AttributeValue, Timestamp};

use crate::documents;
use crate::error::DbError;
use crate::records::{
    ADMIN_ROLE, AttributeKinds, KnownAttributes, MappedAttributes, PasswordHash, ServiceAccount, User,
    UserIdentity, fold_username,
};
use crate::rows::{FromRow, get};
use crate::transactions::{ReadTx, WriteTx};
use crate::values::{Value, signed, values};

macro_rules! select_users {
    ($rest:literal) => {
        concat!(
            "SELECT users.id AS user_id, ",
            $crate::users::user_columns!(),
            " FROM users LEFT JOIN identities ON identities.user_id = users.id ",
            $rest
        )
    };
}
pub(crate) use select_users;

/// Columns of a user with roles and identity, besides `user_id`. Column names that other tables share get an alias, so that a
/// credential can be in the same row.
macro_rules! user_columns {
    () => {
        "username, password_hash, must_change_password, disabled, users.created_at AS user_created_at, last_login_at, \
         users.attributes AS assigned_attributes, identities.attributes AS mapped_attributes, identities.provider, \
         issuer, subject, confirmed_at, kind, owner_id, owner_role, \
         (SELECT owner.username FROM users AS owner WHERE owner.id = users.owner_id) AS owner, \
         (SELECT COUNT(*) FROM users AS owner JOIN user_roles ON user_roles.user_id = owner.id \
         WHERE owner.id = users.owner_id AND owner.disabled = 0 AND role = users.owner_role) AS owner_is_assigned, \
         (SELECT known.confirmed_at FROM users AS owner JOIN mapped_user_roles ON mapped_user_roles.user_id = owner.id \
         JOIN identities AS known ON known.user_id = owner.id \
         WHERE owner.id = users.owner_id AND owner.disabled = 0 AND role = users.owner_role) AS owner_confirmed_at, \
         (SELECT string_agg(role, '\n') FROM user_roles WHERE user_roles.user_id = users.id) AS assigned_roles, \
         (SELECT string_agg(role, '\n') FROM mapped_user_roles WHERE mapped_user_roles.user_id = users.id) AS mapped_roles"
    };
}
pub(crate) use user_columns;

/// Defines `role_holders` for a statement: the users with each role, assigned or mapped. It is no view of the database, which would
/// need an owner and privileges of its own.
macro_rules! with_role_holders {
    () => {
        "WITH role_holders (user_id, role) AS \
         (SELECT user_id, role FROM user_roles UNION SELECT user_id, role FROM mapped_user_roles) "
    };
}
pub(crate) use with_role_holders;

/// Selects at most a given number of users after a name, in order, and of these only as many as have no more than a
/// given number of characters of attributes before them. To compute that, the statement reads only names and lengths.
macro_rules! select_batch {
    ($from:literal) => {
        concat!(
            "SELECT users.id AS user_id, ",
            $crate::users::user_columns!(),
            " FROM (SELECT id, SUM(characters) OVER (ORDER BY username_folded ROWS UNBOUNDED PRECEDING) - characters \
             AS before_them FROM (SELECT users.id, users.username_folded, LENGTH(users.attributes) + COALESCE(LENGTH(identities.attributes), 0) AS characters FROM ",
            $from,
            " ORDER BY users.username_folded LIMIT $2) AS piece) AS sized JOIN users ON users.id = sized.id \
             LEFT JOIN identities ON identities.user_id = users.id WHERE sized.before_them < $3 ORDER BY users.username_folded"
        )
    };
}

const USERS_BATCH: &str = select_batch!(
    "users LEFT JOIN identities ON identities.user_id = users.id WHERE users.username_folded > $1"
);
const USERS_WITH_ROLE_BATCH: &str = concat!(
    with_role_holders!(),
    select_batch!(
        "users JOIN role_holders ON role_holders.user_id = users.id LEFT JOIN identities ON identities.user_id = users.id \
         WHERE users.username_folded > $1 AND role_holders.role = $4"
    )
);

/// Kinds of users.
const PERSON: &str = "person";
const SERVICE: &str = "service";

impl FromRow for User {
    fn from_row(row: &AnyRow) -> Result<Self, DbError> {
        let assigned_roles: BTreeSet<String> = get(row, "assigned_roles")?;
        let assigned_attributes: BTreeMap<String, AttributeValue> = get(row, "assigned_attributes")?;
        let mut user = Self {
            id: get(row, "user_id")?,
            username: get(row, "username")?,
            password_hash: get(row, "password_hash")?,
            must_change_password: get(row, "must_change_password")?,
            disabled: get(row, "disabled")?,
            created_at: get(row, "user_created_at")?,
            last_login_at: get(row, "last_login_at")?,
            attributes: assigned_attributes,
            roles: assigned_roles,
            identity: None,
            service: None,
        };
        if get::<String>(row, "kind")? != PERSON {
            user.service = Some(Box::new(ServiceAccount {
                owner_id: get(row, "owner_id")?,
                owner: get(row, "owner")?,
                owner_role: get(row, "owner_role")?,
                owner_is_assigned: get(row, "owner_is_assigned")?,
                owner_confirmed_at: get(row, "owner_confirmed_at")?,
            }));
        }
        let Some(provider) = get::<Option<String>>(row, "provider")? else { return Ok(user) };
        let mapped: MappedAttributes = get(row, "mapped_attributes")?;
        let assigned_roles = user.roles.clone();
        user.roles.append(&mut get(row, "mapped_roles")?);
        let assigned_attributes = user.attributes.clone();
        let mapped_attributes = mapped.keys().cloned().collect();
        for (name, value) in mapped {
            match value {
                Some(value) => user.attributes.insert(name, value),
                None => user.attributes.remove(&name),
            };
        }
        user.identity = Some(Box::new(UserIdentity {
            provider,
            issuer: get(row, "issuer")?,
            subject: get(row, "subject")?,
            confirmed_at: get(row, "confirmed_at")?,
            mapped_attributes,
            assigned_roles,
            assigned_attributes,
        }));
        Ok(user)
    }
}

impl ReadTx {
    /// Returns the user with this id.
    pub async fn user_by_id(&mut self, id: &str) -> Result<Option<User>, DbError> {
        self.connection.optional(select_users!("WHERE id = $1"), values![id]).await
    }

    /// Returns the user with this name, regardless of case.
    pub async fn user_by_name(&mut self, username: &str) -> Result<Option<User>, DbError> {
        let values = values![fold_username(username)];
        self.connection.optional(select_users!("WHERE username_folded = $1"), values).await
    }

    /// Returns at most `limit` users by folded name, after the folded name `after`: all, only service accounts, or only people.
    pub async fn users(
        &mut self,
        are_services: Option<bool>,
        after: &str,
        limit: u32,
    ) -> Result<Vec<User>, DbError> {
        let statement = select_users!(
            "WHERE username_folded > $1 AND kind = COALESCE($3, kind) ORDER BY username_folded LIMIT $2"
        );
        let kind = are_services.map(|are_services| if are_services { SERVICE } else { PERSON });
        self.connection.all(statement, values![after, limit, kind]).await
    }

    /// Returns at most `limit` users, of all or of those who hold a role, by folded name, after the folded name `after`,
    /// whose attributes together have about `bytes` characters, but at least one user. Callers read all users in bounded
    /// pieces with it; an empty piece is the last.
    pub async fn users_batch(
        &mut self,
        role: Option<&str>,
        after: &str,
        limit: u32,
        bytes: u32,
    ) -> Result<Vec<User>, DbError> {
        let statement = if role.is_some() { USERS_WITH_ROLE_BATCH } else { USERS_BATCH };
        let mut values = Vec::from(values![after, limit, bytes]);
        values.extend(role.map(Value::from));
        self.connection.all(statement, values).await
    }

    /// Returns the folded names and password hashes of at most `limit` users, after the folded name `after`.
    pub async fn password_hashes(
        &mut self,
        after: &str,
        limit: u32,
    ) -> Result<Vec<(String, PasswordHash)>, DbError> {
        let statement = "SELECT username_folded, password_hash FROM users WHERE username_folded > $1 ORDER BY username_folded LIMIT $2";
        self.connection.all(statement, values![after, limit]).await
    }

    /// Returns the number of enabled users, of all or of those who hold a role.
    pub async fn enabled_users(&mut self, role: Option<&str>) -> Result<u64, DbError> {
        const ALL: &str = "SELECT COUNT(*) AS enabled FROM users WHERE disabled = 0";
        const HOLDERS: &str = concat!(
            with_role_holders!(),
            "SELECT COUNT(*) AS enabled FROM users JOIN role_holders ON role_holders.user_id = users.id \
             WHERE users.disabled = 0 AND role_holders.role = $1"
        );
        let values = Vec::from_iter(role.map(Value::from));
        self.connection.one(if role.is_some() { HOLDERS } else { ALL }, values).await
    }

    /// Returns names and kinds of the attributes of all users, and of the users with `role`; `None` if users have more
    /// than `limit` different sets of attributes. The values are read row by row and not kept.
    pub async fn known_attributes(
        &mut self,
        role: &str,
        limit: u32,
    ) -> Result<Option<KnownAttributes>, DbError> {
        // What an administrator assigned is counted even where a mapped attribute of the same name hides it.
        let statement = concat!(
            with_role_holders!(),
            "SELECT all_users.attributes, COUNT(role_holders.role) AS users_holding FROM \
             (SELECT id, attributes FROM users UNION ALL SELECT user_id, attributes FROM identities) AS all_users \
             LEFT JOIN role_holders ON role_holders.user_id = all_users.id AND role_holders.role = $1 \
             GROUP BY all_users.attributes LIMIT $2"
        );
        let values = values![role, i64::from(limit).saturating_add(1)];
        let mut found =
            self.connection.stream::<(BTreeMap<String, Option<AttributeValue>>, u64)>(statement, values);
        let (mut known, mut sets) = (KnownAttributes::default(), 0_u32);
        while let Some((attributes, holders)) = found.try_next().await? {
            sets = sets.saturating_add(1);
            for (name, value) in attributes {
                let Some(value) = value else { continue };
                let AttributeKinds { all, with_role } = known.kinds.entry(name).or_default();
                all.insert(AttributeKind::from(&value));
                if holders > 0 {
                    with_role.insert(AttributeKind::from(&value));
                }
            }
        }
        drop(found);
        let statement =
            concat!(with_role_holders!(), "SELECT COUNT(*) AS holders FROM role_holders WHERE role = $1");
        known.holders = self.connection.one(statement, values![role]).await?;
        Ok((sets <= limit).then_some(known))
    }

    /// Whether users, roles or the access model have changed since the audit record with this number. Each such change
    /// is recorded in the transaction that makes it.
    pub async fn access_changed_since(&mut self, sequence: u64) -> Result<bool, DbError> {
        let statement = "SELECT COUNT(*) AS changes FROM audit WHERE sequence > $1 AND outcome = 'success' AND action IN \
             ('user.create', 'user.update', 'user.delete', 'user.map', 'user.link', 'user.unlink', 'user.rotate_password', 'password.change', 'admin.create', \
             'admin.replace_hash', 'role.put', 'role.delete', 'schema.put_binding', 'schema.put_fields', 'mapping.put', \
             'model.import', 'model.restore')";
        Ok(self.connection.one::<u64>(statement, values![signed(sequence)?]).await? > 0)
    }
}

impl WriteTx {
    /// Creates a user with existing roles, without an identity.
    ///
    /// # Errors
    /// [`DbError::Conflict`] when the name is taken.
    pub async fn insert_user(&mut self, user: &User) -> Result<(), DbError> {
        let statement = "INSERT INTO users (id, username, username_folded, password_hash, must_change_password, disabled, \
             created_at, last_login_at, attributes, kind, owner_id, owner_role) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        let service = user.service.as_ref();
        let values = values![
            &user.id,
            &user.username,
            fold_username(&user.username),
            &user.password_hash,
            user.must_change_password,
            user.disabled,
            user.created_at,
            user.last_login_at,
            documents::write("attributes", &user.attributes)?,
            if service.is_some() { SERVICE } else { PERSON },
            service.and_then(|service| service.owner_id.as_ref()),
            service.and_then(|service| service.owner_role.as_ref()),
        ];
        self.connection.execute(statement, values).await?;
        self.set_user_roles(&user.id, &user.roles).await
    }

    /// Replaces the assigned roles of a user with existing roles.
    pub async fn set_user_roles(&mut self, user_id: &str, roles: &BTreeSet<String>) -> Result<(), DbError> {
        self.connection.execute("DELETE FROM user_roles WHERE user_id = $1", values![user_id]).await?;
        let rows = roles.iter().map(|role| values![user_id, role]).collect();
        self.insert_rows("user_roles (user_id, role)", rows, "").await
    }

    /// Replaces the assigned attributes of a user.
    pub async fn set_user_attributes(
        &mut self,
        user_id: &str,
        attributes: &BTreeMap<String, AttributeValue>,
    ) -> Result<(), DbError> {
        let attributes = documents::write("attributes", attributes)?;
        let statement = "UPDATE users SET attributes = $2 WHERE id = $1";
        self.connection.execute(statement, values![user_id, attributes]).await.map(drop)
    }

    /// Returns the number of enabled administrators who sign in with a password. Others depend on an identity provider.
    pub async fn password_administrators(&mut self) -> Result<u64, DbError> {
        let statement = "SELECT COUNT(*) AS enabled FROM users JOIN user_roles ON user_roles.user_id = users.id \
             WHERE users.disabled = 0 AND user_roles.role = $1 \
             AND kind = 'person' AND NOT EXISTS (SELECT 1 FROM identities WHERE identities.user_id = users.id)";
        self.connection.one(statement, values![ADMIN_ROLE]).await
    }

    /// Sets who answers for a service account, and the role that this user must have.
    pub async fn set_service_owner(
        &mut self,
        user_id: &str,
        owner_id: &str,
        owner_role: Option<&str>,
    ) -> Result<(), DbError> {
        let statement = "UPDATE users SET owner_id = $2, owner_role = $3 WHERE id = $1";
        self.connection.execute(statement, values![user_id, owner_id, owner_role]).await.map(drop)
    }

    /// Disables or enables a user.
    pub async fn set_user_disabled(&mut self, user_id: &str, disabled: bool) -> Result<(), DbError> {
        let statement = "UPDATE users SET disabled = $2 WHERE id = $1";
        self.connection.execute(statement, values![user_id, disabled]).await.map(drop)
    }

    /// Replaces a user's password.
    pub async fn set_user_password(
        &mut self,
        user_id: &str,
        hash: &PasswordHash,
        must_change: bool,
    ) -> Result<(), DbError> {
        let statement = "UPDATE users SET password_hash = $2, must_change_password = $3 WHERE id = $1";
        self.connection.execute(statement, values![user_id, hash, must_change]).await.map(drop)
    }

    /// Records a sign-in.
    pub async fn set_user_last_login(&mut self, user_id: &str, at: Timestamp) -> Result<(), DbError> {
        let statement = "UPDATE users SET last_login_at = $2 WHERE id = $1";
        self.connection.execute(statement, values![user_id, at]).await.map(drop)
    }

    /// Deletes a user with their sessions, API keys and role assignments.
    pub async fn delete_user(&mut self, user_id: &str) -> Result<(), DbError> {
        self.connection.execute("DELETE FROM users WHERE id = $1", values![user_id]).await.map(drop)
    }

    /// Whether this password hash was already taken from the configuration. `digest` is its SHA-256 in hex.
    pub async fn password_hash_used(&mut self, digest: &str) -> Result<bool, DbError> {
        let statement = "SELECT sha256 FROM used_password_hashes WHERE sha256 = $1";
        Ok(self.connection.optional::<String>(statement, values![digest]).await?.is_some())
    }

    /// Records a password hash that came from the configuration. `digest` is its SHA-256 in hex.
    pub async fn remember_password_hash(&mut self, digest: &str, at: Timestamp) -> Result<(), DbError> {
        let statement = "INSERT INTO used_password_hashes (sha256, used_at) VALUES ($1, $2) ON CONFLICT (sha256) DO NOTHING";
        self.connection.execute(statement, values![digest, at]).await.map(drop)
    }
}

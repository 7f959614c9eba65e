//! Roles and their policies.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::any::AnyRow;
use tracewarden_model::Timestamp;

use crate::error::DbError;
use crate::records::{Policy, Role};
use crate::row_batches::{self, Value};
use crate::rows;
use crate::transactions::{ReadTx, WriteTx};

fn role(row: &AnyRow) -> Result<Role, DbError> {
    Ok(Role {
        name: rows::text(row, "name")?,
        policies: Vec::new(),
        revision: rows::unsigned(row, "revision")?,
        created_at: rows::time(row, "created_at")?,
        updated_at: rows::time(row, "updated_at")?,
    })
}

pub(crate) fn policy(row: &AnyRow) -> Result<Policy, DbError> {
    Ok(Policy {
        title: rows::text(row, "title")?,
        expression: rows::text(row, "expression")?,
        description: rows::optional_text(row, "description")?,
    })
}

fn assemble(roles: &[AnyRow], policies: &[AnyRow]) -> Result<Vec<Role>, DbError> {
    let mut by_role: BTreeMap<String, Vec<Policy>> = BTreeMap::new();
    for row in policies {
        by_role.entry(rows::text(row, "role")?).or_default().push(policy(row)?);
    }
    roles
        .iter()
        .map(|row| {
            let mut role = role(row)?;
            role.policies = by_role.remove(&role.name).unwrap_or_default();
            Ok(role)
        })
        .collect()
}

impl ReadTx {
    /// Returns all roles, ordered by name.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn roles(&mut self) -> Result<Vec<Role>, DbError> {
        let roles = sqlx::query("SELECT name, revision, created_at, updated_at FROM roles ORDER BY name")
            .fetch_all(self.connection.statements())
            .await?;
        let policies = sqlx::query(
            "SELECT role, title, expression, description FROM role_policies ORDER BY role, position",
        )
        .fetch_all(self.connection.statements())
        .await?;
        assemble(&roles, &policies)
    }

    /// Returns the names of all roles, in order.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn role_names(&mut self) -> Result<Vec<String>, DbError> {
        let names = sqlx::query("SELECT name FROM roles ORDER BY name")
            .fetch_all(self.connection.statements())
            .await?;
        names.iter().map(|row| rows::text(row, "name")).collect()
    }

    /// Returns the roles that a user holds, ordered by name.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn roles_of_user(&mut self, user_id: &str) -> Result<Vec<Role>, DbError> {
        let roles = sqlx::query(
            "SELECT roles.name, roles.revision, roles.created_at, roles.updated_at FROM roles \
             JOIN user_roles ON user_roles.role = roles.name WHERE user_roles.user_id = $1 ORDER BY roles.name",
        )
        .bind(user_id)
        .fetch_all(self.connection.statements())
        .await?;
        let policies = sqlx::query(
            "SELECT role_policies.role, role_policies.title, role_policies.expression, role_policies.description \
             FROM role_policies JOIN user_roles ON user_roles.role = role_policies.role \
             WHERE user_roles.user_id = $1 ORDER BY role_policies.role, role_policies.position",
        )
        .bind(user_id)
        .fetch_all(self.connection.statements())
        .await?;
        assemble(&roles, &policies)
    }

    /// Returns the stored spellings of the named roles that exist. The search ignores the case of `A` to `Z`.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn role_spellings(&mut self, names: &[&str]) -> Result<BTreeSet<String>, DbError> {
        let folded: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let folded: Vec<&str> = folded.iter().map(String::as_str).collect();
        let found =
            row_batches::select_where_in(self, "SELECT name FROM roles WHERE lower(name)", &folded, "")
                .await?;
        found.iter().map(|row| rows::text(row, "name")).collect()
    }

    /// Returns the named roles that exist, ordered by name.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn roles_named(&mut self, names: &[&str]) -> Result<Vec<Role>, DbError> {
        let query_prefix = "SELECT name, revision, created_at, updated_at FROM roles WHERE name";
        let roles = row_batches::select_where_in(self, query_prefix, names, "ORDER BY name").await?;
        let query_prefix = "SELECT role, title, expression, description FROM role_policies WHERE role";
        let policies =
            row_batches::select_where_in(self, query_prefix, names, "ORDER BY role, position").await?;
        let mut roles = assemble(&roles, &policies)?;
        roles.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(roles)
    }

    /// Returns one role.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn role(&mut self, name: &str) -> Result<Option<Role>, DbError> {
        let Some(found) =
            sqlx::query("SELECT name, revision, created_at, updated_at FROM roles WHERE name = $1")
                .bind(name)
                .fetch_optional(self.connection.statements())
                .await?
        else {
            return Ok(None);
        };
        let policies = sqlx::query(
            "SELECT role, title, expression, description FROM role_policies WHERE role = $1 ORDER BY position",
        )
        .bind(name)
        .fetch_all(self.connection.statements())
        .await?;
        let mut role = role(&found)?;
        role.policies = policies.iter().map(policy).collect::<Result<_, _>>()?;
        Ok(Some(role))
    }

    /// Returns the names of the users who hold a role, in order.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn role_members(&mut self, name: &str) -> Result<Vec<String>, DbError> {
        let members = sqlx::query(
            "SELECT users.username FROM users JOIN user_roles ON user_roles.user_id = users.id \
             WHERE user_roles.role = $1 ORDER BY users.username_folded",
        )
        .bind(name)
        .fetch_all(self.connection.statements())
        .await?;
        members.iter().map(|row| rows::text(row, "username")).collect()
    }

    /// Returns the names of the users who hold each of these roles, in order. A role without users has no entry.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn members_of_roles(
        &mut self,
        names: &[&str],
    ) -> Result<BTreeMap<String, Vec<String>>, DbError> {
        let query_prefix = "SELECT user_roles.role, users.username FROM users JOIN user_roles ON user_roles.user_id = users.id \
             WHERE user_roles.role";
        let found = row_batches::select_where_in(
            self,
            query_prefix,
            names,
            "ORDER BY user_roles.role, users.username_folded",
        )
        .await?;
        let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in &found {
            members.entry(rows::text(row, "role")?).or_default().push(rows::text(row, "username")?);
        }
        Ok(members)
    }
}

impl WriteTx {
    /// Returns the stored spelling of a role's name. The search ignores the case of `A` to `Z`.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn role_spelling(&mut self, name: &str) -> Result<Option<String>, DbError> {
        let found = sqlx::query("SELECT name FROM roles WHERE lower(name) = $1")
            .bind(name.to_ascii_lowercase())
            .fetch_optional(self.connection.statements())
            .await?;
        found.as_ref().map(|row| rows::text(row, "name")).transpose()
    }

    /// Creates or replaces a role and returns its new revision, which no role has had before.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn put_role(&mut self, name: &str, policies: &[Policy], at: Timestamp) -> Result<u64, DbError> {
        self.put_roles(&[(name, policies)], at).await
    }

    /// Creates or replaces roles, each named once, and returns the revision of the last one. The others have the
    /// preceding revisions.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a role is named twice.
    pub async fn put_roles(&mut self, roles: &[(&str, &[Policy])], at: Timestamp) -> Result<u64, DbError> {
        let count = rows::signed(u64::try_from(roles.len()).unwrap_or(u64::MAX))?;
        sqlx::query("UPDATE role_revision SET last = last + $1 WHERE id = 1")
            .bind(count)
            .execute(self.connection.statements())
            .await?;
        let row = sqlx::query("SELECT last FROM role_revision WHERE id = 1")
            .fetch_one(self.connection.statements())
            .await?;
        let last = rows::unsigned(&row, "last")?;
        let first = rows::signed(last)?.saturating_sub(count).saturating_add(1);
        let time = Value::Number(at.as_micros());
        let written: Vec<_> = (first..)
            .zip(roles)
            .map(|(revision, &(name, _))| [Value::Text(name), Value::Number(revision), time, time])
            .collect();
        let replace =
            "ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, updated_at = excluded.updated_at";
        self.insert_rows("roles (name, revision, created_at, updated_at)", &written, replace).await?;
        let names: Vec<&str> = roles.iter().map(|&(name, _)| name).collect();
        self.delete_where_in("DELETE FROM role_policies WHERE role", &names).await?;
        let policies: Vec<_> = roles
            .iter()
            .flat_map(|&(name, policies)| {
                (0_i64..).zip(policies).map(move |(position, policy)| {
                    let Policy { title, expression, description } = policy;
                    [
                        Value::Text(name),
                        Value::Number(position),
                        Value::Text(title),
                        Value::Text(expression),
                        Value::optional_text(description.as_deref()),
                    ]
                })
            })
            .collect();
        let table = "role_policies (role, position, title, expression, description)";
        self.insert_rows(table, &policies, "").await?;
        Ok(last)
    }

    /// Deletes a role with its assignments. Returns whether the role existed.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn delete_role(&mut self, name: &str) -> Result<bool, DbError> {
        Ok(self.delete_roles(&[name]).await? > 0)
    }

    /// Deletes roles with their assignments. Returns the number of roles that existed.
    ///
    /// # Errors
    /// [`DbError`] when the database fails.
    pub async fn delete_roles(&mut self, names: &[&str]) -> Result<u64, DbError> {
        self.delete_where_in("DELETE FROM roles WHERE name", names).await
    }
}

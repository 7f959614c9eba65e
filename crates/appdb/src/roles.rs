//! Roles and their policies.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::any::AnyRow;
use tracewarden_model::Timestamp;

use crate::error::DbError;
use crate::records::{Policy, Role};
use crate::rows::{self, FromRow, from_row};
use crate::transactions::{ReadTx, WriteTx};
use crate::users::with_role_holders;
use crate::values::{signed, values};

from_row!(Policy: title, expression, description);
// A role is read without its policies.
from_row!(Role: name, revision, created_at, updated_at; policies: Vec::new());

/// A policy with the name of its role.
impl FromRow for (String, Policy) {
    fn from_row(row: &AnyRow) -> Result<Self, DbError> {
        Ok((rows::get(row, "role")?, Policy::from_row(row)?))
    }
}

fn assemble(mut roles: Vec<Role>, policies: Vec<(String, Policy)>) -> Vec<Role> {
    let mut by_role: BTreeMap<String, Vec<Policy>> = BTreeMap::new();
    for (role, policy) in policies {
        by_role.entry(role).or_default().push(policy);
    }
    for role in &mut roles {
        role.policies = by_role.remove(&role.name).unwrap_or_default();
    }
    roles
}

impl ReadTx {
    /// Returns all roles, ordered by name.
    pub async fn roles(&mut self) -> Result<Vec<Role>, DbError> {
        let statement = "SELECT name, revision, created_at, updated_at FROM roles ORDER BY name";
        let roles = self.connection.all(statement, values![]).await?;
        let statement =
            "SELECT role, title, expression, description FROM role_policies ORDER BY role, position";
        Ok(assemble(roles, self.connection.all(statement, values![]).await?))
    }

    /// Returns the names of all roles, in order.
    pub async fn role_names(&mut self) -> Result<Vec<String>, DbError> {
        self.connection.all("SELECT name FROM roles ORDER BY name", values![]).await
    }

    /// Returns the stored spellings of the named roles that exist. The search ignores the case of `A` to `Z`.
    pub async fn role_spellings(&mut self, names: &[&str]) -> Result<BTreeSet<String>, DbError> {
        let folded: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let folded: Vec<&str> = folded.iter().map(String::as_str).collect();
        let found = self.select_where_in("SELECT name FROM roles WHERE lower(name)", &folded, "").await?;
        Ok(found.into_iter().collect())
    }

    /// Returns the named roles that exist, ordered by name.
    pub async fn roles_named(&mut self, names: &BTreeSet<String>) -> Result<Vec<Role>, DbError> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let query_prefix = "SELECT name, revision, created_at, updated_at FROM roles WHERE name";
        let roles = self.select_where_in(query_prefix, &names, "ORDER BY name").await?;
        let query_prefix = "SELECT role, title, expression, description FROM role_policies WHERE role";
        let policies = self.select_where_in(query_prefix, &names, "ORDER BY role, position").await?;
        let mut roles = assemble(roles, policies);
        roles.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(roles)
    }

    /// Returns one role.
    pub async fn role(&mut self, name: &str) -> Result<Option<Role>, DbError> {
        Ok(self.roles_named(&BTreeSet::from([name.to_owned()])).await?.pop())
    }

    /// Returns the names of the users who hold each of these roles, in order. A role without users has no entry.
    pub async fn members_of_roles(
        &mut self,
        names: &[&str],
    ) -> Result<BTreeMap<String, Vec<String>>, DbError> {
        let query_prefix = concat!(
            with_role_holders!(),
            "SELECT role_holders.role, users.username FROM users JOIN role_holders \
             ON role_holders.user_id = users.id WHERE role_holders.role"
        );
        let order = "ORDER BY role_holders.role, users.username_folded";
        let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (role, username) in self.select_where_in::<(String, String)>(query_prefix, names, order).await? {
            members.entry(role).or_default().push(username);
        }
        Ok(members)
    }
}

impl WriteTx {
    /// Creates or replaces a role and returns its new revision, which no role has had before.
    pub async fn put_role(&mut self, name: &str, policies: &[Policy], at: Timestamp) -> Result<u64, DbError> {
        self.put_roles(&[(name, policies)], at).await
    }

    /// Creates or replaces roles, each named once, and returns the revision of the last one. The others have the
    /// preceding revisions.
    ///
    /// # Errors
    /// Also when a role is named twice.
    pub async fn put_roles(&mut self, roles: &[(&str, &[Policy])], at: Timestamp) -> Result<u64, DbError> {
        let count = signed(u64::try_from(roles.len()).unwrap_or(u64::MAX))?;
        let statement = "UPDATE role_revision SET last = last + $1 WHERE id = 1";
        self.connection.execute(statement, values![count]).await?;
        let statement = "SELECT last FROM role_revision WHERE id = 1";
        let last: u64 = self.connection.one(statement, values![]).await?;
        let first = signed(last)?.saturating_sub(count).saturating_add(1);
        let written =
            (first..).zip(roles).map(|(revision, &(name, _))| values![name, revision, at, at]).collect();
        let replace =
            "ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, updated_at = excluded.updated_at";
        self.insert_rows("roles (name, revision, created_at, updated_at)", written, replace).await?;
        let names: Vec<&str> = roles.iter().map(|&(name, _)| name).collect();
        self.delete_where_in("DELETE FROM role_policies WHERE role", &names).await?;
        let policies = roles.iter().flat_map(|&(name, policies)| {
            (0_i64..).zip(policies).map(move |(position, Policy { title, expression, description })| {
                values![name, position, title, expression, description.as_ref()]
            })
        });
        let table = "role_policies (role, position, title, expression, description)";
        self.insert_rows(table, policies.collect(), "").await?;
        Ok(last)
    }

    /// Deletes a role with its assignments. Returns whether the role existed.
    pub async fn delete_role(&mut self, name: &str) -> Result<bool, DbError> {
        Ok(self.delete_roles(&[name]).await? > 0)
    }

    /// Deletes roles with their assignments. Returns the number of roles that existed.
    pub async fn delete_roles(&mut self, names: &[&str]) -> Result<u64, DbError> {
        self.delete_where_in("DELETE FROM roles WHERE name", names).await
    }
}

//! The first administrator, and the way back in when the password is lost.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tracewarden_appdb::{ADMIN_ROLE, NewUser, PasswordHash};

use crate::Secret;
use crate::audit::{AuditContext, Event, Outcome};
use crate::error::{FieldError, ServiceError};
use crate::passwords::check_phc;
use crate::service::Service;
use crate::tokens;
use crate::validate;

/// What the configuration says about the administrator.
#[derive(Clone)]
pub struct AdminSettings {
    /// Name of the first administrator.
    pub username: String,
    /// Argon2id PHC string.
    pub password_hash: Option<String>,
}

impl std::fmt::Debug for AdminSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminSettings").field("username", &self.username).finish_non_exhaustive()
    }
}

impl AdminSettings {
    /// What keeps this from being an administrator's name, if anything does.
    ///
    /// # Errors
    /// A message for people.
    pub fn check_username(username: &str) -> Result<(), String> {
        let mut errors = Vec::new();
        validate::username(username, &mut errors);
        errors.into_iter().next().map_or(Ok(()), |error| Err(error.detail))
    }

    /// Whether a password hash can be used: an Argon2id PHC string that is strong enough.
    ///
    /// # Errors
    /// A message for people, which does not repeat the hash.
    pub fn check_password_hash(hash: &str) -> Result<(), String> {
        check_phc(hash)
    }
}

/// What the start has done.
#[derive(Debug, Clone)]
pub enum Bootstrap {
    /// Nothing: there are users, and no new hash is configured.
    Unchanged,
    /// The first start: this administrator was created.
    Created {
        /// Name.
        username: String,
        /// The generated password, as it was given to be kept; `None` when a hash was configured.
        password: Option<Secret>,
    },
    /// The administrator has the configured hash now; their sessions have ended.
    HashReplaced {
        /// Name.
        username: String,
    },
}

impl Service {
    /// Creates the first administrator if there is no user yet; else gives the administrator the configured hash if it
    /// was never configured before. Replicas that start together do it once.
    ///
    /// A generated password is given to `keep` before the administrator is committed, since afterwards nobody could find it
    /// out: where it is not kept (an error, which says why), nobody is created. When the commit fails it was kept in vain;
    /// [`ServiceError::OutcomeUnknown`] leaves that open. `keep` is called inside a transaction that others wait for, and
    /// must not take long.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] for a name or hash that cannot be used, and when the password is not kept; a failure of the
    /// own database.
    pub async fn bootstrap(
        &self,
        admin: AdminSettings,
        keep: impl FnOnce(&Secret) -> Result<(), String>,
    ) -> Result<Bootstrap, ServiceError> {
        let mut errors = Vec::new();
        validate::username(&admin.username, &mut errors);
        if let Some(Err(reason)) = admin.password_hash.as_deref().map(check_phc) {
            let detail = format!("the configured password hash cannot be used: {reason}");
            errors.push(FieldError::new("/password_hash", "invalid_value", detail));
        }
        validate::no_errors(errors)?;
        let empty = self.db().begin_read().await?.users("", 1).await?.is_empty();
        // Nothing that may fail follows a commit: the password of an administrator who exists would be taken for nobody's.
        if empty && let Some(created) = self.create_first_administrator(&admin, keep).await? {
            return Ok(created);
        }
        self.note_password_costs().await?;
        match &admin.password_hash {
            None => Ok(Bootstrap::Unchanged),
            Some(hash) => self.replace_hash(&admin.username, hash).await,
        }
    }

    async fn create_first_administrator(
        &self,
        admin: &AdminSettings,
        keep: impl FnOnce(&Secret) -> Result<(), String>,
    ) -> Result<Option<Bootstrap>, ServiceError> {
        let (hash, password) = match &admin.password_hash {
            Some(hash) => (PasswordHash(hash.clone()), None),
            None => {
                let password = tokens::password(self.entropy())?;
                (self.passwords().hash(password.clone()).await?, Some(password))
            }
        };
        let id = tokens::id("usr", self.entropy())?;
        let mut tx = self.db().begin_write().await?;
        // Another replica may have been first while this one was hashing.
        if !tx.users("", 1).await?.is_empty() {
            return Ok(None);
        }
        let now = self.now();
        tx.insert_user(&NewUser {
            id: &id,
            username: &admin.username,
            password_hash: &hash,
            must_change_password: password.is_some(),
            created_at: now,
            attributes: &BTreeMap::new(),
            roles: &BTreeSet::from([ADMIN_ROLE.to_owned()]),
        })
        .await?;
        if password.is_none() {
            tx.remember_password_hash(&digest(&hash.0), now).await?;
        }
        let event = Event {
            action: "admin.create",
            outcome: Outcome::Success,
            target: Some(&admin.username),
            detail: json!({ "id": id, "password": if password.is_some() { "generated" } else { "configured" } }),
        };
        AuditContext::service().append(&mut tx, now, None, &event).await?;
        if let Some(password) = &password {
            let not_kept = |why| ServiceError::refused("/initial_password", "invalid_value", why);
            keep(password).map_err(not_kept)?;
        }
        self.passwords().note_cost(&hash)?;
        tx.commit().await?;
        Ok(Some(Bootstrap::Created { username: admin.username.clone(), password }))
    }

    async fn replace_hash(&self, username: &str, hash: &str) -> Result<Bootstrap, ServiceError> {
        let digest = digest(hash);
        let mut tx = self.db().begin_write().await?;
        // A hash counts once: left in the configuration, it must not undo a password change at every start, and an old
        // one put back must not revive an old password.
        if tx.password_hash_used(&digest).await? {
            return Ok(Bootstrap::Unchanged);
        }
        let user = tx.user_by_name(username).await?.filter(|user| user.roles.contains(ADMIN_ROLE));
        let Some(user) = user else {
            let detail = format!(
                "a password hash is configured for `{username}`, who is not an administrator; \
                 configure the name of one"
            );
            return Err(ServiceError::refused("/username", "invalid_value", detail));
        };
        let now = self.now();
        let hash = PasswordHash(hash.to_owned());
        self.passwords().note_cost(&hash)?;
        tx.remember_password_hash(&digest, now).await?;
        tx.set_user_password(&user.id, &hash, false).await?;
        let ended = tx.delete_sessions_of_user(&user.id, None).await?;
        let event = Event {
            action: "admin.replace_hash",
            outcome: Outcome::Success,
            target: Some(&user.username),
            detail: json!({ "sessions_ended": ended }),
        };
        AuditContext::service().append(&mut tx, now, None, &event).await?;
        tx.commit().await?;
        Ok(Bootstrap::HashReplaced { username: user.username })
    }
}

fn digest(hash: &str) -> String {
    hex::encode(Sha256::digest(hash.as_bytes()))
}

//! Creation of the first administrator, and recovery of a lost administrator password.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tracewarden_appdb::{ADMIN_ROLE, PasswordHash, User};

use crate::Secret;
use crate::core::{FieldError, Result, ServiceError, check_phc, tokens, validate};
use crate::service::Service;

/// Configuration of the administrator.
#[derive(Clone)]
pub struct AdminSettings {
    /// Name of the first administrator.
    pub username: String,
    /// Argon2id PHC string.
    pub password_hash: Option<String>,
}

impl AdminSettings {
    /// Checks that this can be an administrator's name; the error is a message for the operator.
    pub fn check_username(username: &str) -> Result<(), String> {
        let mut errors = Vec::new();
        validate::username(username, &mut errors);
        errors.into_iter().next().map_or(Ok(()), |error| Err(error.detail))
    }

    /// Checks that a password hash can be used: an Argon2id PHC string that is strong enough. The error is a message for the
    /// operator, which does not repeat the hash.
    pub fn check_password_hash(hash: &str) -> Result<(), String> {
        check_phc(hash)
    }
}

/// Result of the bootstrap at start-up.
#[derive(Debug, Clone)]
pub enum Bootstrap {
    /// No change: users exist, and no new hash is configured.
    Unchanged,
    /// First start: this administrator was created.
    Created {
        /// User name.
        username: String,
        /// Generated password, as passed to `keep`; `None` if a hash was configured.
        password: Option<Secret>,
    },
    /// The administrator now has the configured hash; their sessions have ended.
    HashReplaced {
        /// User name.
        username: String,
    },
}

impl Service {
    /// Creates the first administrator if there is no user yet; otherwise gives the administrator the configured hash if that
    /// hash was never configured before. If several replicas start together, only one does it.
    ///
    /// A generated password is passed to `keep` before the administrator is committed, because it cannot be recovered later.
    /// If `keep` returns an error, which gives the reason, no administrator is created. If the commit fails, the kept
    /// password is useless; after [`ServiceError::OutcomeUnknown`] it may be valid or not. `keep` is called inside a
    /// transaction that other writers wait for, and must not take long.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] for a name or hash that cannot be used, and if the password was not kept; a failure of the
    /// application database.
    pub async fn bootstrap(
        &self,
        admin: AdminSettings,
        keep: impl FnOnce(&Secret) -> Result<(), String>,
    ) -> Result<Bootstrap> {
        let mut errors = Vec::new();
        validate::username(&admin.username, &mut errors);
        if let Some(Err(reason)) = admin.password_hash.as_deref().map(check_phc) {
            let detail = format!("the configured password hash cannot be used: {reason}");
            errors.push(FieldError::invalid("/password_hash", detail));
        }
        validate::no_errors(errors)?;
        let empty = self.core().db.begin_read().await?.users(None, "", 1).await?.is_empty();
        // No step that can fail may follow the commit: the operator would discard the password of an administrator who
        // exists.
        if empty && let Some(created) = self.create_first_administrator(&admin, keep).await? {
            return Ok(created);
        }
        self.account().register_password_costs().await?;
        match &admin.password_hash {
            None => Ok(Bootstrap::Unchanged),
            Some(hash) => self.replace_hash(&admin.username, hash).await,
        }
    }

    async fn create_first_administrator(
        &self,
        admin: &AdminSettings,
        keep: impl FnOnce(&Secret) -> Result<(), String>,
    ) -> Result<Option<Bootstrap>> {
        let (hash, password) = match &admin.password_hash {
            Some(hash) => (PasswordHash(hash.clone()), None),
            None => {
                let password = tokens::password(self.core().entropy.as_ref())?;
                (self.core().passwords.hash(password.clone()).await?, Some(password))
            }
        };
        let id = tokens::id("usr", self.core().entropy.as_ref())?;
        let mut tx = self.core().db.begin_write().await?;
        // Another replica may have been first while this one computed the hash.
        if !tx.users(None, "", 1).await?.is_empty() {
            return Ok(None);
        }
        let now = self.core().now();
        let user = User {
            id,
            username: admin.username.clone(),
            password_hash: hash,
            must_change_password: password.is_some(),
            disabled: false,
            created_at: now,
            last_login_at: None,
            attributes: BTreeMap::new(),
            roles: BTreeSet::from([ADMIN_ROLE.to_owned()]),
            identity: None,
            service: None,
        };
        tx.insert_user(&user).await?;
        if password.is_none() {
            tx.remember_password_hash(&digest(&user.password_hash.0), now).await?;
        }
        if let Some(password) = &password {
            let not_kept = |why| ServiceError::invalid("/initial_password", why);
            keep(password).map_err(not_kept)?;
        }
        self.core().passwords.register_cost(&user.password_hash)?;
        let kind = if password.is_some() { "generated" } else { "configured" };
        let detail = json!({ "id": user.id, "password": kind });
        self.core().commit_own_change(tx, "admin.create", Some(&admin.username), detail).await?;
        Ok(Some(Bootstrap::Created { username: admin.username.clone(), password }))
    }

    async fn replace_hash(&self, username: &str, hash: &str) -> Result<Bootstrap> {
        let digest = digest(hash);
        let mut tx = self.core().db.begin_write().await?;
        // Each hash is applied once: a hash that stays in the configuration must not undo a password change at every start,
        // and an old one that is configured again must not restore an old password.
        if tx.password_hash_used(&digest).await? {
            return Ok(Bootstrap::Unchanged);
        }
        let user = tx
            .user_by_name(username)
            .await?
            .filter(|user| user.has_password() && user.roles.contains(ADMIN_ROLE));
        let Some(user) = user else {
            let detail = format!(
                "a password hash is configured for `{username}`, who is not an administrator with a password; \
                 configure the name of one"
            );
            return Err(ServiceError::invalid("/username", detail));
        };
        let hash = PasswordHash(hash.to_owned());
        self.core().passwords.register_cost(&hash)?;
        tx.remember_password_hash(&digest, self.core().now()).await?;
        tx.set_user_password(&user.id, &hash, false).await?;
        let ended = tx.delete_sessions_of_user(&user.id, None).await?;
        let detail = json!({ "sessions_ended": ended });
        self.core().commit_own_change(tx, "admin.replace_hash", Some(&user.username), detail).await?;
        Ok(Bootstrap::HashReplaced { username: user.username })
    }
}

fn digest(hash: &str) -> String {
    hex::encode(Sha256::digest(hash.as_bytes()))
}

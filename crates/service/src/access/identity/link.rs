//! Links between users and people at an identity provider, which administrators make. A name that is the same at the provider is no
//! reason to link: a person who may choose names there could take any user over.

use serde_json::{Value, json};
use tracewarden_appdb::{ADMIN_ROLE, NewIdentity, UserIdentity};

use crate::Secret;
use crate::access::Users;
use crate::access::user_info::UserInfo;
use crate::access::users::require_remaining_administrator;
use crate::core::{
    Administrator, FieldError, NEVER_CONFIRMED, Result, ServiceError, SessionOnly, find_user, sanitize,
    tokens, validate, with_members,
};

/// As long as what a provider may send.
const SUBJECT_MAX_BYTES: usize = 1_024;

fn person_detail(identity: &UserIdentity) -> Value {
    json!({ "provider": identity.provider, "subject": sanitize(&identity.subject) })
}

impl Users {
    /// Makes a user the one of a person at an identity provider: the user signs in there from now on, and no longer with a
    /// password. Sessions end, and API keys are rejected until the first sign-in. What administrators assigned stays.
    /// A link that the user has already is kept as it is.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], [`ServiceError::Refused`] for an unknown provider or no subject, [`ServiceError::Conflict`] for
    /// a service account or if the person has another user, [`ServiceError::LastAdmin`], [`ServiceError::SessionRequired`].
    pub async fn link_user(
        &self,
        admin: &Administrator<'_>,
        username: &str,
        provider: &str,
        subject: &str,
    ) -> Result<UserInfo> {
        const ACTION: &str = SessionOnly::LinkUser.action();
        let result = async {
            admin.require_session()?;
            let mut errors = Vec::new();
            let found = self.core.settings.providers.get(provider);
            if found.is_none() {
                errors.push(FieldError::invalid("/name", "no identity provider of this name is configured"));
            }
            if subject.is_empty() || subject.len() > SUBJECT_MAX_BYTES || !validate::is_storable(subject) {
                let detail = format!(
                    "must be what identifies the person at the provider: 1 to {SUBJECT_MAX_BYTES} bytes"
                );
                errors.push(FieldError::invalid("/subject", detail));
            }
            validate::no_errors(errors)?;
            let Some(provider) = found else {
                return Err(ServiceError::NotFound { what: "identity provider" });
            };

            let mut tx = self.core.begin_change(admin).await?;
            let user = find_user(&mut tx, username).await?;
            if user.service.is_some() {
                return Err(ServiceError::conflict("a service account is a program, and does not sign in"));
            }
            let other = tx.identities().user(provider.issuer(), subject).await?;
            if let Some(other) = other.filter(|other| other.id != user.id) {
                let detail = format!("this person signs in as `{}`; delete that user first", other.username);
                return Err(ServiceError::conflict(detail));
            }
            let detail = json!({
                "provider": provider.name(),
                "subject": sanitize(subject),
                "before": user.identity.as_deref().map(person_detail),
            });
            let is_same = |known: &UserIdentity| {
                (known.provider.as_str(), known.issuer.as_str(), known.subject.as_str())
                    == (provider.name(), provider.issuer(), subject)
            };
            if user.identity.as_deref().is_some_and(is_same) {
                self.core.commit_change(tx, admin, ACTION, Some(&user.username), detail).await?;
                return Ok(UserInfo::new(&self.core, user));
            }
            tx.identities_mut().delete(&user.id).await?;
            let identity = NewIdentity {
                user_id: &user.id,
                provider: provider.name(),
                issuer: provider.issuer(),
                subject,
                claims: "{}",
                confirmed_at: NEVER_CONFIRMED,
            };
            tx.identities_mut().put(&identity).await?;
            // There is no password that the user could change first.
            tx.set_user_password(&user.id, &user.password_hash, false).await?;
            let ended = tx.delete_sessions_of_user(&user.id, None).await?;
            if !user.disabled && user.has_password() && user.roles.contains(ADMIN_ROLE) {
                require_remaining_administrator(&mut tx).await?;
            }
            let detail = with_members(detail, [("sessions_ended", Some(ended.into()))]);
            let linked = find_user(&mut tx, username).await?;
            self.core.commit_change(tx, admin, ACTION, Some(&user.username), detail).await?;
            Ok(UserInfo::new(&self.core, linked))
        };
        self.core.audit_denial(admin, ACTION, Some(username), result.await).await
    }

    /// Makes a user sign in with a password again, which is generated. The roles and attributes that the provider gave are lost.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], [`ServiceError::Conflict`] if the user has no provider, [`ServiceError::SessionRequired`].
    pub async fn unlink_user(&self, admin: &Administrator<'_>, username: &str) -> Result<Secret> {
        const ACTION: &str = SessionOnly::UnlinkUser.action();
        let result = async {
            admin.require_session()?;
            let password = tokens::password(self.core.entropy.as_ref())?;
            let hash = self.core.passwords.hash(password.clone()).await?;
            let mut tx = self.core.begin_change(admin).await?;
            let user = find_user(&mut tx, username).await?;
            if !tx.identities_mut().delete(&user.id).await? {
                return Err(ServiceError::conflict("this user does not sign in with an identity provider"));
            }
            tx.set_user_password(&user.id, &hash, true).await?;
            let ended = tx.delete_sessions_of_user(&user.id, None).await?;
            let before = user.identity.as_deref().map(person_detail);
            let detail = json!({ "before": before, "sessions_ended": ended });
            self.core.commit_change(tx, admin, ACTION, Some(&user.username), detail).await?;
            Ok(password)
        };
        self.core.audit_denial(admin, ACTION, Some(username), result.await).await
    }
}

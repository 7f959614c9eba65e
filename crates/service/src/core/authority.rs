//! Inputs of a caller's permissions, re-read in the transaction in which they take effect.
//!
//! A request is authenticated in one transaction and takes effect in another. A caller who is revoked between the two must not
//! succeed. Therefore a change reads the same rows again in its own transaction, and the appender of audit records compares the
//! epoch and reads them again if it differs; since there is one writer at a time, nothing changes before the commit. The audit
//! chain proves it: no change and no started read follows the record that revokes its caller's credential.

use tracewarden_appdb::{CurrentModel, Epoch, Preview, ReadTx, Role, Session, User, WriteTx};
use tracewarden_model::AccessModel;

use crate::core::Core;
use crate::core::authentication::live_key;
use crate::core::error::Result;
use crate::core::principal::{Administrator, Identity, Principal, VerifiedCredential};

/// Permission that a caller needs for a change.
pub(crate) trait Permission {
    /// Caller as authenticated.
    fn identity(&self) -> &Identity;

    /// Checks that the same caller, as stored now, still has this permission.
    ///
    /// # Errors
    /// The error that authentication would return.
    fn check(now: Identity) -> Result<()>;
}

impl Permission for Identity {
    fn identity(&self) -> &Identity {
        self
    }

    fn check(_: Identity) -> Result<()> {
        Ok(())
    }
}

impl Permission for Principal {
    fn identity(&self) -> &Identity {
        self
    }

    fn check(now: Identity) -> Result<()> {
        now.into_principal().map(drop)
    }
}

impl Permission for Administrator<'_> {
    fn identity(&self) -> &Identity {
        self
    }

    fn check(now: Identity) -> Result<()> {
        now.into_principal()?.require_admin().map(drop)
    }
}

/// All stored inputs of a decision about traces, from one snapshot.
#[derive(Debug, Clone)]
pub(crate) struct Authority {
    pub(crate) principal: Principal,
    /// Roles whose policies apply: the user's, or the existing ones of the preview.
    pub(crate) roles: Vec<Role>,
    pub(crate) model: AccessModel,
    /// Version of the whole access model. It has no influence on decisions.
    pub(crate) version: u64,
    /// Epoch of the snapshot.
    pub(crate) epoch: Epoch,
}

impl Authority {
    /// Whether a decision made on `other` equals the one that would be made now. Times of last use have no influence on
    /// decisions.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        let user = |authority: &Self| User { last_login_at: None, ..authority.principal.user.clone() };
        user(self) == user(other)
            && self.principal.verified_credential.is_equivalent(&other.principal.verified_credential)
            && self.roles == other.roles
            && self.model == other.model
    }
}

impl VerifiedCredential {
    fn is_equivalent(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Session(one), Self::Session(other)) => {
                one.id == other.id && one.user_id == other.user_id && one.preview == other.preview
            }
            (Self::ApiKey(one), Self::ApiKey(other)) => {
                let mut one = one.clone();
                one.last_used_at = other.last_used_at;
                one == *other
            }
            // What the token gives is part of the user.
            (Self::AccessToken(one), Self::AccessToken(other)) => one.id == other.id,
            _ => false,
        }
    }
}

impl Core {
    /// Begins the transaction of a change after it has checked the permission. Use cases change data on a caller's behalf
    /// only through this method. The change and its audit record are committed together, so that after a client disconnects
    /// between the commit and the answer, either both exist or neither.
    ///
    /// # Errors
    /// `ServiceError::Unauthenticated` if the credential or the user was deleted, disabled or has expired since the request
    /// was authenticated, `ServiceError::PasswordChangeRequired`, `ServiceError::Forbidden`, or a failure of the
    /// application database.
    pub(crate) async fn begin_change<R: Permission>(&self, permission: &R) -> Result<WriteTx> {
        // Queued by user, so that a user with many changes does not delay the changes of others.
        let user = permission.identity().user_id();
        let mut tx = self.db.begin_queued_write(user, self.db.timeout()).await?;
        R::check(self.reread(&mut tx, permission.identity()).await?)?;
        Ok(tx)
    }

    /// Reads the inputs of the principal's access to traces, in the snapshot of the transaction.
    pub(crate) async fn authority(&self, tx: &mut ReadTx, principal: &Principal) -> Result<Authority> {
        let principal = self.reread(tx, principal).await?.into_principal()?;
        // A role of a preview that has been deleted since grants nothing.
        let names = principal.preview().map_or(&principal.user.roles, |preview| &preview.roles);
        let roles = tx.roles_named(names).await?;
        let (CurrentModel { version, model }, epoch) = tx.current_model_and_epoch().await?;
        Ok(Authority { principal, roles, model, version, epoch })
    }

    /// Reads the inputs of an administrator's access; rejects a caller who has lost that right since the request began.
    ///
    /// # Errors
    /// Those of [`Self::authority`], `ServiceError::Forbidden`, `ServiceError::ScopedKey`.
    pub(crate) async fn admin_authority(
        &self,
        tx: &mut ReadTx,
        admin: &Administrator<'_>,
    ) -> Result<Authority> {
        let authority = self.authority(tx, admin).await?;
        authority.principal.require_admin_role()?;
        Ok(authority)
    }

    /// Reads the same caller again, as stored now.
    pub(crate) async fn reread(&self, tx: &mut ReadTx, identity: &Identity) -> Result<Identity> {
        let now = self.now();
        let verified_credential = match &identity.verified_credential {
            VerifiedCredential::Session(session) => {
                let session = self.live_session(tx.session_by_id(&session.id).await?, now)?;
                VerifiedCredential::Session(self.refresh_preview(tx, session).await?)
            }
            VerifiedCredential::ApiKey(key) => {
                VerifiedCredential::ApiKey(live_key(tx.api_key_by_id(&key.id).await?, now)?)
            }
            VerifiedCredential::AccessToken(token) => {
                let max_age = self.settings.identity_max_age_nanos;
                VerifiedCredential::AccessToken(token.refresh(tx, max_age, now).await?)
            }
        };
        let user = self.current_user(tx.user_by_id(identity.user_id()).await?, &verified_credential, now)?;
        Ok(Identity { user, verified_credential, info: identity.info.clone() })
    }

    /// Returns a session with the current state of its preview: a preview of a user gets the roles and attributes that the user
    /// has now. A user who is deleted, disabled, or no longer confirmed by their identity provider has no access, and neither has
    /// their preview.
    pub(crate) async fn refresh_preview(&self, tx: &mut ReadTx, mut session: Session) -> Result<Session> {
        if let Some(preview) = &mut session.preview
            && let Some(id) = &preview.user_id
        {
            *preview = match tx.user_by_id(id).await? {
                Some(user) if !user.disabled && !self.settings.is_unconfirmed(&user, self.now()) => {
                    current_preview(user)
                }
                _ => Preview {
                    username: preview.username.take(),
                    user_id: preview.user_id.take(),
                    ..Preview::default()
                },
            };
        }
        Ok(session)
    }
}

fn current_preview(user: User) -> Preview {
    let User { id, username, roles, attributes, .. } = user;
    Preview { roles, attributes, username: Some(username), user_id: Some(id) }
}

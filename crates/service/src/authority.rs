//! What a caller's rights rest on, read again where it counts.
//!
//! A request is authenticated in one transaction and takes effect in another. Whoever is revoked between the two must
//! not get through: so the transaction that takes effect reads the same rows again, and since writers come one at a
//! time, nothing changes after that look and before the commit. The audit chain then proves it: no change and no
//! begun read stands after the record that its caller's credential was revoked.

use tracewarden_appdb::{CurrentModel, ReadTx, Role, User, WriteTx};
use tracewarden_model::AccessModel;

use crate::authentication::{enabled, live_key};
use crate::error::ServiceError;
use crate::preview;
use crate::principal::{Administrator, Identity, Principal, Proof};
use crate::service::Service;

/// What a caller must be to make a change.
pub(crate) trait Right {
    /// The caller as authenticated.
    fn identity(&self) -> &Identity;

    /// Whether the same caller, as stored now, still has this right.
    ///
    /// # Errors
    /// The refusal that authentication would answer with.
    fn holds(now: Identity) -> Result<(), ServiceError>;
}

impl Right for Identity {
    fn identity(&self) -> &Identity {
        self
    }

    fn holds(_: Identity) -> Result<(), ServiceError> {
        Ok(())
    }
}

impl Right for Principal {
    fn identity(&self) -> &Identity {
        self
    }

    fn holds(now: Identity) -> Result<(), ServiceError> {
        now.into_principal().map(drop)
    }
}

impl Right for Administrator<'_> {
    fn identity(&self) -> &Identity {
        self
    }

    fn holds(now: Identity) -> Result<(), ServiceError> {
        now.into_principal()?.require_admin().map(drop)
    }
}

/// Everything stored that a decision about traces rests on, as of one moment.
#[derive(Debug, Clone)]
pub(crate) struct Authority {
    pub(crate) principal: Principal,
    /// The roles whose policies apply: the user's, or those of the preview as far as they exist.
    pub(crate) roles: Vec<Role>,
    pub(crate) model: AccessModel,
    /// The version of the whole access model. By itself it decides nothing.
    pub(crate) version: u64,
}

impl Authority {
    /// Whether a decision made on `other` is the one that would be made now. When something was last used decides
    /// nothing.
    pub(crate) fn decides_like(&self, other: &Self) -> bool {
        let user = |authority: &Self| User { last_login_at: None, ..authority.principal.user.clone() };
        user(self) == user(other)
            && self.principal.proof.grants_like(&other.principal.proof)
            && self.roles == other.roles
            && self.model == other.model
    }
}

impl Proof {
    fn grants_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Session(one), Self::Session(other)) => {
                one.id == other.id && one.user_id == other.user_id && one.preview == other.preview
            }
            (Self::ApiKey(one), Self::ApiKey(other)) => {
                let mut one = one.clone();
                one.last_used_at = other.last_used_at;
                one == *other
            }
            _ => false,
        }
    }
}

impl Service {
    /// The transaction of a change, begun under the right to make it: the only way in which use cases change anything
    /// on a caller's behalf. The change and its audit record are committed together, so that a client who goes away
    /// between the commit and the answer finds the one where the other is.
    ///
    /// # Errors
    /// [`ServiceError::Unauthenticated`] when the credential or the user is gone, disabled or expired since the request
    /// was authenticated, [`ServiceError::PasswordChangeRequired`], [`ServiceError::Forbidden`], or a failure of the own
    /// database.
    pub(crate) async fn begin_change<R: Right>(&self, right: &R) -> Result<WriteTx, ServiceError> {
        // By user, so that nobody has others wait longer by asking for more changes.
        let user = right.identity().user_id();
        let mut tx = self.db().begin_write_of(user, self.db().patience()).await?;
        R::holds(self.reread(&mut tx, right.identity()).await?)?;
        Ok(tx)
    }

    /// What the principal's access to traces rests on, in the state that the transaction sees.
    ///
    /// # Errors
    /// As [`Service::begin_change`].
    pub(crate) async fn authority(
        &self,
        tx: &mut ReadTx,
        principal: &Principal,
    ) -> Result<Authority, ServiceError> {
        let principal = self.reread(tx, principal).await?.into_principal()?;
        let roles = match principal.preview() {
            None => tx.roles_of_user(principal.user_id()).await?,
            Some(preview) => {
                // A role that was deleted meanwhile grants nothing.
                let names: Vec<&str> = preview.roles.iter().map(String::as_str).collect();
                tx.roles_named(&names).await?
            }
        };
        let CurrentModel { version, model } = tx.current_model().await?;
        Ok(Authority { principal, roles, model, version })
    }

    /// The same for what administrators alone may ask: whoever lost that right since the request began is refused.
    ///
    /// # Errors
    /// Those of [`Service::authority`], [`ServiceError::Forbidden`], [`ServiceError::NarrowedKey`].
    pub(crate) async fn admin_authority(
        &self,
        tx: &mut ReadTx,
        admin: &Administrator<'_>,
    ) -> Result<Authority, ServiceError> {
        let authority = self.authority(tx, admin).await?;
        authority.principal.require_admin_role()?;
        Ok(authority)
    }

    /// The same caller, as stored now.
    ///
    /// # Errors
    /// As authentication, or a failure of the own database.
    pub(crate) async fn reread(
        &self,
        tx: &mut ReadTx,
        identity: &Identity,
    ) -> Result<Identity, ServiceError> {
        let now = self.now();
        let proof = match &identity.proof {
            Proof::Session(session) => {
                let session = self.live_session(tx.session_by_id(&session.id).await?, now)?;
                Proof::Session(preview::followed(tx, session).await?)
            }
            Proof::ApiKey(key) => Proof::ApiKey(live_key(tx.api_key_by_id(&key.id).await?, now)?),
        };
        let user = enabled(tx.user_by_id(identity.user_id()).await?)?;
        Ok(Identity { user, proof, info: identity.info.clone() })
    }
}

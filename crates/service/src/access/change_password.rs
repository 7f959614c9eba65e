//! Change of the caller's own password.

use secrecy::ExposeSecret as _;
use serde_json::json;

use crate::Secret;
use crate::access::sign_in_throttle::{self, Block, SignInAttempt, TOO_MANY_SIGN_INS};
use crate::access::{Account, refuse_without_password};
use crate::core::{
    Identity, Result, ServiceError, SessionOnly, check_strength, normal_form, run_to_completion,
};

const ACTION: &str = SessionOnly::ChangePassword.action();

impl Account {
    /// Replaces the caller's password, ends the caller's other sessions, and completes a pending password change.
    ///
    /// # Errors
    /// [`ServiceError::SessionRequired`] if the caller uses an API key, [`ServiceError::InvalidCredentials`] when `current`
    /// is wrong, [`ServiceError::Refused`] with `password_rejected`, [`ServiceError::TooManyAttempts`],
    /// [`ServiceError::Overloaded`].
    pub async fn change_password(&self, identity: &Identity, current: Secret, new: Secret) -> Result<()> {
        let (account, identity) = (self.clone(), identity.clone());
        // A stolen session must not allow to guess the password faster than sign-in does, nor to flood the queue of sign-ins.
        let attempt =
            SignInAttempt::new(identity.username(), identity.info.client_ip, &self.core.username_key);
        let permit = self.core.permits.sign_ins.try_acquire(attempt.address());
        // An attacker who guesses the password with a stolen session must not avoid the audit record by disconnecting before
        // the answer.
        run_to_completion(async move {
            let result = match permit {
                Some(_permit) => account.change_password_inner(&identity, &attempt, current, new).await,
                None => Err(TOO_MANY_SIGN_INS),
            };
            account.core.audit_denial(&identity, ACTION, None, result).await
        })
        .await
    }

    async fn change_password_inner(
        &self,
        identity: &Identity,
        attempt: &SignInAttempt,
        current: Secret,
        new: Secret,
    ) -> Result<()> {
        let session = identity.require_session()?;
        refuse_without_password(&identity.user)?;
        // Checked before the attempt is counted: a user who knows the current password and looks for a good new one is not
        // guessing. The check reveals nothing about the stored password, because it uses only what was sent.
        let pointer = "/new_password";
        check_strength(new.expose_secret(), identity.username(), &self.core.settings.service_name, pointer)?;
        if normal_form(new.expose_secret()).expose_secret()
            == normal_form(current.expose_secret()).expose_secret()
        {
            let detail = "the new password is the current one";
            return Err(ServiceError::refused(pointer, "password_rejected", detail));
        }
        // A read suffices: a client that continues during a block must not delay writers.
        let mut tx = self.core.db.begin_read().await?;
        let now = self.core.now();
        if let Some(block) = Block::active_for(attempt, &mut tx, now).await? {
            return Err(block.to_error(now));
        }
        drop(tx);
        self.reserve_attempt(attempt).await?;
        let stored = &identity.user.password_hash;
        if !self.core.passwords.verify(current.clone(), Some(stored)).await?.is_match() {
            return Err(ServiceError::InvalidCredentials);
        }
        let hash = self.core.passwords.hash(new).await?;

        let mut tx = self.core.begin_change(identity).await?;
        let user = tx.user_by_id(identity.user_id()).await?.ok_or(ServiceError::InvalidCredentials)?;
        if user.password_hash != *stored {
            // Changed or rotated while this request computed hashes: the verified password is no longer valid.
            return Err(ServiceError::InvalidCredentials);
        }
        tx.set_user_password(&user.id, &hash, false).await?;
        let ended = tx.delete_sessions_of_user(&user.id, Some(&session.id)).await?;
        sign_in_throttle::undo_attempt(&mut tx, attempt).await?;
        self.core.commit_change(tx, identity, ACTION, None, json!({ "sessions_ended": ended })).await
    }
}

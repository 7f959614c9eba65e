//! Changing one's own password.

use secrecy::ExposeSecret as _;
use serde_json::json;

use crate::Secret;
use crate::error::ServiceError;
use crate::passwords::{check_strength, normal_form};
use crate::principal::Identity;
use crate::refused_calls::SessionOnly;
use crate::service::{Service, to_its_end};
use crate::throttle::{self, Attempt, Block};

const ACTION: &str = SessionOnly::ChangePassword.action();

impl Service {
    /// Replaces the caller's password, ends the caller's other sessions, and lifts a pending password change.
    ///
    /// # Errors
    /// [`ServiceError::SessionRequired`] for a key, [`ServiceError::InvalidCredentials`] when `current` is wrong,
    /// [`ServiceError::Refused`] with `password_rejected`, [`ServiceError::TooManyAttempts`],
    /// [`ServiceError::Overloaded`].
    pub async fn change_password(
        &self,
        identity: &Identity,
        current: Secret,
        new: Secret,
    ) -> Result<(), ServiceError> {
        let (service, identity) = (self.clone(), identity.clone());
        // A stolen session must not be a way to guess the password faster than log-in allows, nor to flood what log-ins
        // stand in line for.
        let attempt = Attempt::new(identity.username(), identity.info.client_ip, self.names());
        let place = self.log_ins().admit(attempt.address());
        // Who guesses the password by somebody's session must not get around the record of it by leaving before the answer.
        to_its_end(async move {
            let result = match place {
                Ok(_place) => service.change_password_in(&identity, &attempt, current, new).await,
                Err(refusal) => Err(refusal),
            };
            service.note_refusal(&identity, ACTION, None, result).await
        })
        .await
    }

    async fn change_password_in(
        &self,
        identity: &Identity,
        attempt: &Attempt,
        current: Secret,
        new: Secret,
    ) -> Result<(), ServiceError> {
        let session = identity.require_session()?;
        // Before the attempt is counted: whoever is choosing a good password, with the right current one, is not guessing.
        // It tells nothing about the stored password, since it looks only at what was sent.
        let pointer = "/new_password";
        check_strength(new.expose_secret(), identity.username(), &self.settings().service_name, pointer)?;
        if normal_form(new.expose_secret()).expose_secret()
            == normal_form(current.expose_secret()).expose_secret()
        {
            let detail = "the new password is the current one";
            return Err(ServiceError::refused(pointer, "password_rejected", detail));
        }
        // Whoever goes on while refused must not take the turns of those who write.
        let mut tx = self.db().begin_read().await?;
        let now = self.now();
        if let Some(block) = Block::met_by(attempt, &mut tx, now).await? {
            return Err(block.refusal(now));
        }
        drop(tx);
        self.reserve_attempt(attempt).await?;
        let stored = &identity.user.password_hash;
        if !self.passwords().verify(current.clone(), Some(stored)).await?.is_right() {
            return Err(ServiceError::InvalidCredentials);
        }
        let hash = self.passwords().hash(new).await?;

        let mut tx = self.begin_change(identity).await?;
        let user = crate::authentication::enabled(tx.user_by_id(identity.user_id()).await?)?;
        if user.password_hash != *stored {
            // Changed or rotated while this request was hashing: the proof above was of a password that is none now.
            return Err(ServiceError::InvalidCredentials);
        }
        tx.set_user_password(&user.id, &hash, false).await?;
        let ended = tx.delete_sessions_of_user(&user.id, Some(&session.id)).await?;
        throttle::succeeded(&mut tx, attempt).await?;
        self.record(&mut tx, identity, ACTION, None, json!({ "sessions_ended": ended })).await?;
        Ok(tx.commit().await?)
    }
}

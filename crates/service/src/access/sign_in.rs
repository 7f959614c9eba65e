//! Sign-in and sign-out.

use serde::Deserialize;
use serde_json::json;
use tracewarden_appdb::{ADMIN_ROLE, PasswordHash, Session, User};
use utoipa::ToSchema;

use crate::Secret;
use crate::access::Account;
use crate::access::sessions::{SignIn, begin_session};
use crate::access::sign_in_throttle::{self, Block, SignInAttempt, TOO_MANY_SIGN_INS, begin_sign_in_write};
use crate::core::{
    AuditContext, Event, Identity, Me, Outcome, PasswordLogin, RequestInfo, Result, ServiceError,
    SessionOnly, SignInRefusal, VerifiedCredential, run_to_completion, validate,
};

/// User name and password.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LoginRequest)]
pub struct PasswordCredentials {
    /// User name.
    // As entered: it may be anything, also a password, so it is never logged.
    pub username: String,
    /// Password.
    #[schema(value_type = String, format = Password)]
    pub password: Secret,
}

/// Successful sign-in.
#[derive(Debug, Clone)]
pub struct SignInAnswer {
    /// Token of the session, for the cookie.
    pub token: Secret,
    /// The caller.
    pub me: Me,
}

impl SignInAnswer {
    pub(super) fn new(token: Secret, session: Session, user: User, info: &RequestInfo) -> Self {
        let verified_credential = VerifiedCredential::Session(session);
        Self { token, me: Identity { user, verified_credential, info: info.clone() }.me() }
    }
}

/// The user was deleted or has changed: the current user has another password hash or is disabled.
struct UserChanged(Option<User>);

/// Maximum number of verifications of a password if the stored hash is replaced in the meantime: two concurrent sign-ins may
/// both renew it.
const VERIFICATIONS_MAX: usize = 2;

impl Account {
    /// Creates a session.
    ///
    /// An unknown name, a wrong password and a disabled user get the same answer and take the same number of hashes.
    ///
    /// # Errors
    /// [`ServiceError::InvalidCredentials`], [`ServiceError::TooManyAttempts`], [`ServiceError::Overloaded`], or a failure of
    /// the application database.
    pub async fn sign_in(&self, credentials: PasswordCredentials, info: RequestInfo) -> Result<SignInAnswer> {
        let account = self.clone();
        // Runs in its own task, which continues after the client disconnects: an attacker who guesses passwords must not
        // avoid the audit record by disconnecting before the answer.
        let sign_in_task = async move {
            let attempt =
                SignInAttempt::new(&credentials.username, info.client_ip, &account.core.username_key);
            // Checked before the first statement: a flood of sign-ins would exhaust the application database for all users.
            let result = match account.core.permits.sign_ins.try_acquire(attempt.address()) {
                Some(_permit) => account.attempt_sign_in(credentials, attempt, info).await,
                None => Err(TOO_MANY_SIGN_INS),
            };
            account.core.metrics.sign_in(&result);
            result
        };
        run_to_completion(sign_in_task).await
    }

    async fn attempt_sign_in(
        &self,
        credentials: PasswordCredentials,
        attempt: SignInAttempt,
        info: RequestInfo,
    ) -> Result<SignInAnswer> {
        let name = credentials.username.as_str();
        let mut tx = self.core.db.begin_read().await?;
        let now = self.core.now();
        if let Some(block) =
            Block::active_for(&attempt, &mut tx, now).await?.filter(|block| block.is_recorded)
        {
            return Err(block.to_error(now));
        }
        // The answer is the same for any other input.
        let user = match validate::is_storable(name) {
            true => tx.user_by_name(name).await?,
            false => None,
        };
        drop(tx);
        let mut context = AuditContext::anonymous(&info);
        // An unknown name is not recorded: people type passwords into this field by mistake.
        context.actor_id = user.as_ref().map(|user| user.id.clone());
        context.actor_name = user.as_ref().map(|user| user.username.clone());

        if let Err(error) = self.reserve_attempt(&attempt).await {
            if matches!(error, ServiceError::TooManyAttempts { .. }) {
                self.record_block(&context, &attempt).await?;
            }
            return Err(error);
        }
        let mut user = user;
        for verification in 1..=VERIFICATIONS_MAX {
            let stored = user.as_ref().map(|user| &user.password_hash);
            let verified = self.core.passwords.verify(credentials.password.clone(), stored).await?;
            let reason = match user {
                // The password of such a user is one that no one knows, or an old one.
                Some(found) if verified.is_match() && !found.has_password() => "no_password",
                Some(found)
                    if verified.is_match() && !found.disabled && !self.accepts_password_of(&found) =>
                {
                    self.record_failure(&context, "password_login_off").await?;
                    return Err(SignInRefusal::Password.into());
                }
                Some(found) if verified.is_match() && !found.disabled => {
                    // The password is known only now: a hash with a lower cost, or not of the password's normal form, is
                    // replaced.
                    let password = credentials.password.clone();
                    let renewed = self.core.passwords.renew(password, &found.password_hash, verified).await?;
                    match self.open_session(&found, renewed, &attempt, &context, &info).await? {
                        Ok(answer) => return Ok(answer),
                        Err(UserChanged(Some(current))) if verification < VERIFICATIONS_MAX => {
                            user = Some(current);
                            continue;
                        }
                        Err(UserChanged(_)) => "changed_meanwhile",
                    }
                }
                _ if verification > 1 => "changed_meanwhile",
                None => "unknown_user",
                Some(_) if !verified.is_match() => "wrong_password",
                Some(_) => "disabled",
            };
            self.record_failure(&context, reason).await?;
            break;
        }
        Err(ServiceError::InvalidCredentials)
    }

    /// Determines the costs of all stored hashes, so that not even the first sign-in reveals which users have a hash of
    /// another cost.
    pub(crate) async fn register_password_costs(&self) -> Result<()> {
        const PAGE: u32 = 10_000;
        let mut after = String::new();
        loop {
            let hashes = self.core.db.begin_read().await?.password_hashes(&after, PAGE).await?;
            let Some((last, _)) = hashes.last() else { return Ok(()) };
            after.clone_from(last);
            for (_, hash) in &hashes {
                self.core.passwords.register_cost(hash)?;
            }
        }
    }

    async fn record_failure(&self, context: &AuditContext, reason: &'static str) -> Result<()> {
        let detail = json!({ "reason": reason });
        let event = Event { action: "login", outcome: Outcome::Denied, target: None, detail };
        self.core.record(context, None, event).await
    }

    async fn open_session(
        &self,
        verified: &User,
        renewed: Option<PasswordHash>,
        attempt: &SignInAttempt,
        context: &AuditContext,
        info: &RequestInfo,
    ) -> Result<Result<SignInAnswer, UserChanged>> {
        let mut tx = begin_sign_in_write(&self.core).await?;
        // Hashing takes a while: a user who was disabled, deleted or given another password in the meantime is not signed in.
        let mut user = match tx.user_by_id(&verified.id).await? {
            Some(user)
                if !user.disabled && user.has_password() && user.password_hash == verified.password_hash =>
            {
                user
            }
            current => return Ok(Err(UserChanged(current))),
        };
        if let Some(hash) = &renewed {
            tx.set_user_password(&user.id, hash, user.must_change_password).await?;
        }
        sign_in_throttle::undo_attempt(&mut tx, attempt).await?;
        let detail = json!({ "password_hash_renewed": renewed.is_some() });
        let sign_in = SignIn { provider: None, detail, context, info };
        let (session, token) = begin_session(&self.core, &mut tx, &mut user, sign_in).await?;
        tx.commit().await?;
        Ok(Ok(SignInAnswer::new(token, session, user, info)))
    }

    fn accepts_password_of(&self, user: &User) -> bool {
        match self.core.settings.password_login {
            PasswordLogin::Everyone => true,
            PasswordLogin::Administrators => user.assigned_roles().contains(ADMIN_ROLE),
            PasswordLogin::Off => false,
        }
    }

    /// Ends the caller's session.
    ///
    /// # Errors
    /// [`ServiceError::SessionRequired`] if the caller uses an API key, or a failure of the application database.
    pub async fn sign_out(&self, identity: &Identity) -> Result<()> {
        let result = async {
            let session = identity.require_session()?;
            let mut tx = self.core.begin_change(identity).await?;
            tx.delete_session(identity.user_id(), &session.id).await?;
            self.core.commit_change(tx, identity, SessionOnly::SignOut.action(), None, json!({})).await
        };
        self.core.audit_denial(identity, SessionOnly::SignOut.action(), None, result.await).await
    }

    /// Returns the caller's own data.
    pub fn me(&self, identity: &Identity) -> Me {
        identity.me()
    }
}

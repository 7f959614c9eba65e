//! The caller's API keys. A key acts with its owner's roles, or with less: it may be narrowed to traces that satisfy a
//! policy of its own too, and to some tools. A narrowed key never administers, so that its owner can hand it out without
//! handing out more.

use secrecy::ExposeSecret as _;
use serde_json::json;
use tracewarden_appdb::ApiKey;
use tracewarden_model::{Caller, Timestamp, nearest::nearest};
use tracewarden_policy::Diagnostic;

use crate::Secret;
use crate::access::restriction;
use crate::error::{FieldError, ServiceError, unknown};
use crate::principal::Principal;
use crate::refused_calls::SessionOnly;
use crate::service::Service;
use crate::tokens;
use crate::tools::Tool;
use crate::validate;

/// A key to create.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    /// Name, 1 to 100 characters.
    pub name: String,
    /// From when it is dead; `None` for never.
    pub expires_at: Option<Timestamp>,
    /// A policy that traces must satisfy besides those of the owner's roles, by the same span or another.
    pub policy: Option<String>,
    /// Names of the only tools that it is good for, at least one; `None` for everything that needs no session.
    pub tools: Option<Vec<String>>,
}

/// A key as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyInfo {
    /// Opaque id.
    pub id: String,
    /// Name.
    pub name: String,
    /// First characters of the token.
    pub token_hint: String,
    /// Creation.
    pub created_at: Timestamp,
    /// From when it is dead.
    pub expires_at: Option<Timestamp>,
    /// Last use, to about a minute.
    pub last_used_at: Option<Timestamp>,
    /// The policy that it is narrowed to.
    pub policy: Option<String>,
    /// The tools that it is narrowed to.
    pub tools: Option<Vec<String>>,
}

impl From<ApiKey> for ApiKeyInfo {
    fn from(key: ApiKey) -> Self {
        Self {
            id: key.id,
            name: key.name,
            token_hint: key.hint,
            created_at: key.created_at,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
            policy: key.policy,
            tools: key.tools,
        }
    }
}

/// A new key with its token, which is never shown again.
#[derive(Debug, Clone)]
pub struct CreatedApiKey {
    /// The key.
    pub key: ApiKeyInfo,
    /// Its token.
    pub token: Secret,
}

const KEYS_PER_USER_MAX: usize = 100;
/// More names than there are tools hold an unknown or a repeated one: some of them are enough to refuse the list.
const TOOLS_CHECKED_MAX: usize = 2 * Tool::ALL.len();

impl Service {
    /// Creates a key for the caller.
    ///
    /// # Errors
    /// [`ServiceError::SessionRequired`] for a key, [`ServiceError::Refused`] for a bad name, an expiry that is past, a
    /// policy that does not compile or an unknown tool, [`ServiceError::TooManyQueries`] where a policy has to be checked,
    /// [`ServiceError::Conflict`] with too many keys.
    pub async fn create_api_key(
        &self,
        principal: &Principal,
        new: NewApiKey,
    ) -> Result<CreatedApiKey, ServiceError> {
        let result = self.create_api_key_in(principal, new).await;
        self.note_refusal(principal, SessionOnly::CreateApiKey.action(), None, result).await
    }

    async fn create_api_key_in(
        &self,
        principal: &Principal,
        new: NewApiKey,
    ) -> Result<CreatedApiKey, ServiceError> {
        principal.require_session()?;
        let now = self.now();
        let mut errors = Vec::new();
        validate::title(&new.name, "/name", 100, &mut errors);
        if new.expires_at.is_some_and(|expiry| expiry <= now) {
            errors.push(FieldError::new("/expires_at", "invalid_value", "the time is past"));
        }
        // Where later times end up: what would be stored is not what was asked for.
        if new.expires_at == Some(Timestamp::MAX) {
            let detail = "the time is after the year 2262; leave it out for a key that does not expire";
            errors.push(FieldError::new("/expires_at", "invalid_value", detail));
        }
        check_tools(new.tools.as_deref(), &mut errors);
        if let Some(policy) = &new.policy {
            // Its length is the compiler's to judge.
            validate::text(policy, "/policy", usize::MAX, &mut errors);
            self.check_key_policy(principal, policy, &mut errors).await?;
        }
        validate::no_errors(errors)?;
        let token = tokens::api_key(self.entropy())?;
        // Times are stored in microseconds; what the answer says must be what the list says later.
        let stored = |at: Timestamp| Timestamp::from_micros(at.as_micros());
        let key = ApiKeyInfo {
            id: tokens::id("key", self.entropy())?,
            name: new.name,
            token_hint: tokens::hint(token.expose_secret()),
            created_at: stored(now),
            expires_at: new.expires_at.map(stored),
            last_used_at: None,
            policy: new.policy,
            tools: new.tools,
        };
        let mut tx = self.begin_change(principal).await?;
        if tx.api_keys_of_user(principal.user_id()).await?.len() >= KEYS_PER_USER_MAX {
            let detail = format!("you have {KEYS_PER_USER_MAX} keys already; revoke one first");
            return Err(ServiceError::Conflict { detail, errors: Vec::new() });
        }
        tx.insert_api_key(&tracewarden_appdb::NewApiKey {
            id: &key.id,
            token: tokens::digest(token.expose_secret()),
            hint: &key.token_hint,
            name: &key.name,
            user_id: principal.user_id(),
            created_at: key.created_at,
            expires_at: key.expires_at,
            policy: key.policy.as_deref(),
            tools: key.tools.as_deref(),
        })
        .await?;
        let detail = json!({
            "name": key.name,
            "expires_at": key.expires_at.map(|expiry| expiry.to_string()),
            "policy": key.policy,
            "tools": key.tools,
        });
        self.record(&mut tx, principal, SessionOnly::CreateApiKey.action(), Some(&key.id), detail).await?;
        tx.commit().await?;
        Ok(CreatedApiKey { key, token })
    }

    /// Checks a key's policy as a role's is checked, but for the fields that its owner may not know of. Outside the
    /// transaction that stores it: the model may change at any time, and then the key opens nothing.
    async fn check_key_policy(
        &self,
        owner: &Principal,
        expression: &str,
        errors: &mut Vec<FieldError>,
    ) -> Result<(), ServiceError> {
        let model = self.db().access_model().await?;
        let (owner, expression) = (owner.clone(), expression.to_owned());
        // As a query, of which nobody has more at a time: each compiles a policy, too.
        let permit = self.queries().admit(owner.user_id()).ok_or(ServiceError::TooManyQueries)?;
        let work = move || -> Result<bool, Vec<Diagnostic>> {
            // It ends with the work, and not with a client who leaves.
            let _permit = permit;
            let checked = restriction(&owner, &expression).check(&model)?;
            let user = owner.0.user;
            let caller = Caller { username: user.username, roles: user.roles, attributes: user.attributes };
            Ok(checked.predicate(&caller).is_some())
        };
        let checked = self.checking().run(work).await?;
        match checked {
            Ok(true) => {}
            Ok(false) => {
                let detail = "the policy is too large for your roles and attributes";
                errors.push(FieldError::new("/policy", "policy_invalid", detail));
            }
            Err(diagnostics) => errors
                .extend(diagnostics.into_iter().map(|diagnostic| FieldError::policy("/policy", diagnostic))),
        }
        Ok(())
    }

    /// The caller's keys, newest first, expired ones included.
    ///
    /// # Errors
    /// When the own database fails.
    pub async fn my_api_keys(&self, principal: &Principal) -> Result<Vec<ApiKeyInfo>, ServiceError> {
        let keys = self.db().begin_read().await?.api_keys_of_user(principal.user_id()).await?;
        Ok(keys.into_iter().map(ApiKeyInfo::from).collect())
    }

    /// Revokes one of the caller's keys; a key may revoke itself and its like.
    ///
    /// # Errors
    /// [`ServiceError::NotFound`], or a failure of the own database.
    pub async fn revoke_my_api_key(&self, principal: &Principal, id: &str) -> Result<(), ServiceError> {
        let result = self.revoke_my_api_key_in(principal, id).await;
        self.note_refusal(principal, "api_key.revoke", Some(id), result).await
    }

    async fn revoke_my_api_key_in(&self, principal: &Principal, id: &str) -> Result<(), ServiceError> {
        let mut tx = self.begin_change(principal).await?;
        if !tx.delete_api_key(principal.user_id(), validate::findable(id, "API key")?).await? {
            return Err(ServiceError::NotFound { what: "API key" });
        }
        self.record(&mut tx, principal, "api_key.revoke", Some(id), json!({})).await?;
        Ok(tx.commit().await?)
    }
}

/// The wanted tools exist, each once.
fn check_tools(tools: Option<&[String]>, errors: &mut Vec<FieldError>) {
    let Some(tools) = tools else { return };
    let known = Tool::ALL.map(Tool::name);
    if tools.is_empty() {
        let detail = "name at least one tool, or leave `tools` out";
        return errors.push(FieldError::new("/tools", "invalid_value", detail));
    }
    for (at, name) in tools.iter().enumerate().take(TOOLS_CHECKED_MAX) {
        let pointer = format!("/tools/{at}");
        if Tool::parse(name).is_none() {
            let near = nearest(name, known);
            let detail = format!("{}; there are {}", unknown("tool", name, &near), known.join(", "));
            errors.push(FieldError::new(pointer, "invalid_value", detail));
        } else if tools.iter().take(at).any(|before| before == name) {
            errors.push(FieldError::new(pointer, "invalid_value", format!("`{name}` is listed twice")));
        }
    }
}

//! The caller's API keys. A key acts with its owner's roles, or with less: a scoped API key additionally requires that traces
//! satisfy a policy of its own, is limited to some tools, or both. A scoped key never has administrator rights, so that its
//! owner can hand it out without granting more.

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tracewarden_appdb::{ApiKey, User, WriteTx};
use tracewarden_model::{Timestamp, nearest::nearest};
use tracewarden_policy::{Diagnostic, KeyConstraint};

use crate::Secret;
use crate::access::Account;
use crate::core::{
    Core, FieldError, Principal, Result, ServiceError, SessionOnly, Tool, stored_caller, tokens, unknown,
    validate,
};

/// A key to create.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    /// Name, 1 to 100 characters.
    pub name: String,
    /// Time of expiry; `None` for never.
    pub expires_at: Option<Timestamp>,
    /// Policy that traces must satisfy in addition to those of the owner's roles, by the same span or another.
    pub policy: Option<String>,
    /// Names of the only tools that the key may use, at least one; `None` for everything that needs no session.
    pub tools: Option<Vec<String>>,
}

/// New API key with its token, which is never shown again.
#[derive(Debug, Clone)]
pub struct CreatedApiKey {
    /// The key.
    pub key: ApiKey,
    /// Token of the key.
    pub token: Secret,
}

const KEYS_PER_USER_MAX: usize = 100;
/// Maximum number of tool names that are checked. A list with more names than there are tools contains an unknown or a
/// repeated name, so a part of it is enough to reject it.
const TOOLS_CHECKED_MAX: usize = 2 * Tool::ALL.len();

impl Account {
    /// Creates a key for the caller.
    ///
    /// # Errors
    /// [`ServiceError::SessionRequired`] if the caller uses an API key, [`ServiceError::Refused`] for an invalid name, an
    /// expiry in the past, a policy that does not compile or an unknown tool, [`ServiceError::TooManyQueries`] if a policy
    /// must be checked and the user runs too many queries, [`ServiceError::Conflict`] if the user has too many keys.
    pub async fn create_api_key(&self, principal: &Principal, new: NewApiKey) -> Result<CreatedApiKey> {
        const ACTION: &str = SessionOnly::CreateApiKey.action();
        let result = async {
            principal.require_session()?;
            let owner = KeyOwner { user: &principal.user, knows_policy_fields: principal.has_admin_role() };
            let created = prepare_key(&self.core, principal, owner, new, Vec::new()).await?;
            let mut tx = self.core.begin_change(principal).await?;
            let detail = insert_key(&mut tx, &created).await?;
            self.core.commit_change(tx, principal, ACTION, Some(&created.key.id), detail).await?;
            Ok(created)
        };
        self.core.audit_denial(principal, ACTION, None, result.await).await
    }

    /// Returns the caller's keys, newest first, including expired ones.
    pub async fn my_api_keys(&self, principal: &Principal) -> Result<Vec<ApiKey>> {
        Ok(self.core.db.begin_read().await?.api_keys_of_user(principal.user_id()).await?)
    }

    /// Revokes one of the caller's keys; a caller with an API key may revoke that key and the owner's other keys.
    pub async fn revoke_my_api_key(&self, principal: &Principal, id: &str) -> Result<()> {
        let result = async {
            let mut tx = self.core.begin_change(principal).await?;
            revoke_key(&mut tx, principal.user_id(), id).await?;
            self.core.commit_change(tx, principal, "api_key.revoke", Some(id), json!({})).await
        };
        self.core.audit_denial(principal, "api_key.revoke", Some(id), result.await).await
    }
}

/// The user for whom a key is made.
pub(super) struct KeyOwner<'a> {
    pub(super) user: &'a User,
    /// Whether the user may know of fields that only policies read.
    pub(super) knows_policy_fields: bool,
}

/// Checks a new key for an owner, and generates its token. Stores nothing. `errors` are further ones of the request.
pub(super) async fn prepare_key(
    core: &Core,
    creator: &Principal,
    owner: KeyOwner<'_>,
    new: NewApiKey,
    mut errors: Vec<FieldError>,
) -> Result<CreatedApiKey> {
    let now = core.now();
    validate::title(&new.name, "/name", 100, &mut errors);
    if new.expires_at.is_some_and(|expiry| expiry <= now) {
        errors.push(FieldError::invalid("/expires_at", "the time is in the past"));
    }
    // Later times saturate here: the stored expiry would differ from the requested one.
    if new.expires_at == Some(Timestamp::MAX) {
        let detail = "the time is after the year 2262; leave it out for a key that does not expire";
        errors.push(FieldError::invalid("/expires_at", detail));
    }
    check_tools(new.tools.as_deref(), &mut errors);
    let user_id = owner.user.id.clone();
    if let Some(policy) = &new.policy {
        // The policy compiler limits the length.
        validate::text(policy, "/policy", usize::MAX, &mut errors);
        check_key_policy(core, creator, owner, policy, &mut errors).await?;
    }
    validate::no_errors(errors)?;
    let token = tokens::api_key(core.entropy.as_ref())?;
    // Times are stored in microseconds; this answer and later lists must show the same time.
    let stored = |at: Timestamp| Timestamp::from_micros(at.as_micros());
    let key = ApiKey {
        id: tokens::id("key", core.entropy.as_ref())?,
        hint: tokens::hint(token.expose_secret()),
        name: new.name,
        user_id,
        created_at: stored(now),
        expires_at: new.expires_at.map(stored),
        last_used_at: None,
        last_client_ip: None,
        last_user_agent: None,
        policy: new.policy,
        tools: new.tools,
    };
    Ok(CreatedApiKey { key, token })
}

/// Stores a new key. Returns the detail for the audit record.
pub(super) async fn insert_key(tx: &mut WriteTx, created: &CreatedApiKey) -> Result<Value> {
    let CreatedApiKey { key, token } = created;
    if tx.api_keys_of_user(&key.user_id).await?.len() >= KEYS_PER_USER_MAX {
        let detail = format!("there are {KEYS_PER_USER_MAX} keys already; revoke one first");
        return Err(ServiceError::conflict(detail));
    }
    tx.insert_api_key(key, tokens::digest(token.expose_secret())).await?;
    Ok(json!({
        "name": key.name,
        "expires_at": key.expires_at.map(|expiry| expiry.to_string()),
        "policy": key.policy,
        "tools": key.tools,
    }))
}

/// Checks a key's policy like a role's, but without the fields that its owner may not know of. Runs outside the
/// transaction that stores the key: the model may change at any time, and then the key grants no access.
async fn check_key_policy(
    core: &Core,
    creator: &Principal,
    owner: KeyOwner<'_>,
    expression: &str,
    errors: &mut Vec<FieldError>,
) -> Result<()> {
    let model = core.db.access_model().await?;
    let KeyOwner { user, knows_policy_fields } = owner;
    let (caller, expression) = (stored_caller(user), expression.to_owned());
    // Counts as one of the user's queries, because each of these compiles a policy, too.
    let permit = core.permits.queries.try_acquire(creator.user_id()).ok_or(ServiceError::TooManyQueries)?;
    let work = move || -> Result<bool, Vec<Diagnostic>> {
        // Held until the work ends, also if the client disconnects.
        let _permit = permit;
        let checked = KeyConstraint { expression: &expression, knows_policy_fields }.check(&model)?;
        Ok(checked.predicate(&caller).is_some())
    };
    match core.permits.key_policy_checks.run(work).await? {
        Ok(true) => {}
        Ok(false) => {
            let detail = "the policy is too large for the user's roles and attributes";
            errors.push(FieldError::new("/policy", "policy_invalid", detail));
        }
        Err(diagnostics) => {
            errors.extend(diagnostics.into_iter().map(|diagnostic| FieldError::policy("/policy", diagnostic)))
        }
    }
    Ok(())
}

pub(crate) async fn revoke_key(tx: &mut WriteTx, user_id: &str, id: &str) -> Result<()> {
    let what = "API key";
    let found = tx.delete_api_key(user_id, validate::lookup_name(id, what)?).await?;
    if found { Ok(()) } else { Err(ServiceError::NotFound { what }) }
}

/// Checks that the tools exist and are listed once each.
fn check_tools(tools: Option<&[String]>, errors: &mut Vec<FieldError>) {
    let Some(tools) = tools else { return };
    let known = Tool::ALL.map(Tool::name);
    if tools.is_empty() {
        let detail = "name at least one tool, or leave `tools` out";
        return errors.push(FieldError::invalid("/tools", detail));
    }
    for (at, name) in tools.iter().enumerate().take(TOOLS_CHECKED_MAX) {
        let pointer = format!("/tools/{at}");
        if Tool::parse(name).is_none() {
            let suggestions = nearest(name, known);
            let detail = format!("{}; there are {}", unknown("tool", name, &suggestions), known.join(", "));
            errors.push(FieldError::invalid(pointer, detail));
        } else if tools.iter().take(at).any(|before| before == name) {
            errors.push(FieldError::invalid(pointer, format!("`{name}` is listed twice")));
        }
    }
}

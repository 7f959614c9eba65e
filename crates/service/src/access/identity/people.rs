//! Stores what an identity provider has confirmed of a person, and the user who is this person.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tracewarden_appdb::{DbError, NewIdentity, PasswordHash, ReadTx, User, WriteTx};
use tracewarden_identity::{Person, Provider};
use tracewarden_model::{Claims, ClaimsMapping, Timestamp};
use tracewarden_policy::MappedAccess;

use super::mapped::present;
use crate::access::Identities;
use crate::core::{
    AuditContext, Event, Mapped, Outcome, Result, ServiceError, SignInRefusal, evaluate_mapping, sanitize,
    tokens, validate, with_members,
};

/// What a person's claims give by the mapping as of one time. Evaluated before the transaction that stores it, for whose end all
/// other writers wait, and again within it only if the mapping has changed since.
pub(super) struct EvaluatedClaims {
    claims: Claims,
    mapping: ClaimsMapping,
    access: MappedAccess,
}

async fn evaluate(mapping: &ClaimsMapping, claims: &Claims) -> Result<MappedAccess> {
    Ok(evaluate_mapping(mapping.clone(), vec![claims.clone()]).await?.pop().unwrap_or_default())
}

impl Identities {
    /// Evaluates the mapping over a person's claims.
    pub(super) async fn evaluate_claims(
        &self,
        provider: &Provider,
        person: &Person,
    ) -> Result<EvaluatedClaims> {
        let mut tx = self.core.db.begin_read().await?;
        let mapping = tx.identities().mappings(None).await?.remove(provider.name()).unwrap_or_default();
        drop(tx);
        let claims = Claims::from_json(&person.claims);
        let access = evaluate(&mapping, &claims).await?;
        Ok(EvaluatedClaims { claims, mapping, access })
    }

    /// Returns what the claims give by the mapping as of the transaction.
    pub(super) async fn mapped(
        &self,
        tx: &mut WriteTx,
        provider: &Provider,
        evaluated: EvaluatedClaims,
    ) -> Result<Mapped> {
        let EvaluatedClaims { claims, mapping, access } = evaluated;
        let current = tx.identities().mappings(None).await?.remove(provider.name()).unwrap_or_default();
        let access = if current == mapping { access } else { evaluate(&current, &claims).await? };
        let existing: BTreeSet<String> = tx.role_names().await?.into_iter().collect();
        Ok(Mapped::new(access, &existing))
    }

    /// Checks whether a person can get a user.
    pub(super) async fn check_new_user(&self, person: &Person, mapped: &Mapped) -> Result<()> {
        check_new_user(&mut self.core.db.begin_read().await?, person, mapped).await
    }

    /// Returns the record of a new user, with a password that no one knows: hashed like all others, so that sign-ins with a
    /// password take the same time for every name.
    pub(super) async fn new_user(&self, person: &Person) -> Result<User> {
        let password = tokens::session_token(self.core.entropy.as_ref())?;
        let password_hash: PasswordHash = self.core.passwords.hash(password).await?;
        Ok(User {
            id: tokens::id("usr", self.core.entropy.as_ref())?,
            username: person.username.clone().unwrap_or_default(),
            password_hash,
            must_change_password: false,
            disabled: false,
            created_at: self.core.now(),
            last_login_at: None,
            attributes: Default::default(),
            roles: BTreeSet::new(),
            identity: None,
            service: None,
        })
    }

    /// Creates the user of a person, with its audit record.
    ///
    /// # Errors
    /// [`ServiceError::SignInRefused`] without a mapped role or a usable name.
    pub(super) async fn create(
        &self,
        tx: &mut WriteTx,
        provider: &Provider,
        person: &Person,
        user: User,
        mapped: Mapped,
        context: &mut AuditContext,
    ) -> Result<User> {
        check_new_user(tx, person, &mapped).await?;
        tx.insert_user(&user).await.map_err(|error| match error {
            DbError::Conflict(_) => SignInRefusal::NameTaken.into(),
            other => ServiceError::from(other),
        })?;
        context.actor_id = Some(user.id.clone());
        context.actor_name = Some(user.username.clone());
        self.store(tx, provider, person, &user.id, &mapped, self.core.now()).await?;
        let detail = json!({ "id": user.id, "roles": mapped.roles, "attributes": mapped.attributes });
        let identity = [("provider", json!(provider.name())), ("subject", json!(sanitize(&person.subject)))];
        let detail = with_members(detail, identity.map(|(name, value)| (name, Some(value))));
        let event =
            Event { action: "user.create", outcome: Outcome::Success, target: Some(&user.username), detail };
        context.append(tx, self.core.now(), event).await?;
        self.reread_user(tx, &user.id).await
    }

    /// Stores the claims of a person who has a user, and what they give.
    pub(super) async fn update(
        &self,
        tx: &mut WriteTx,
        provider: &Provider,
        person: &Person,
        user: User,
        mapped: Mapped,
        context: &AuditContext,
    ) -> Result<User> {
        let now = self.core.now();
        if user.identity.as_ref().is_some_and(|identity| self.core.settings.has_lapsed(identity, now)) {
            // Sessions that have ended because the provider did not confirm the claims must not come back.
            tx.delete_sessions_of_user(&user.id, None).await?;
        }
        let before = present(&user);
        let confirmed_at = match &user.identity {
            // A disabled user's sign-in confirms nothing.
            Some(identity) if user.disabled => identity.confirmed_at,
            _ => now,
        };
        self.store(tx, provider, person, &user.id, &mapped, confirmed_at).await?;
        // A role can be mapped and assigned; the assigned ones decide nothing here.
        let assigned = user.assigned_roles();
        let shown = |mapped: &Mapped| Mapped {
            roles: mapped.roles.difference(assigned).cloned().collect(),
            attributes: mapped.attributes.clone(),
        };
        let after = shown(&mapped);
        if after != before {
            let detail = after.difference(&before);
            let event =
                Event { action: "user.map", outcome: Outcome::Success, target: Some(&user.username), detail };
            context.append(tx, now, event).await?;
        }
        self.reread_user(tx, &user.id).await
    }

    async fn store(
        &self,
        tx: &mut WriteTx,
        provider: &Provider,
        person: &Person,
        user_id: &str,
        mapped: &Mapped,
        confirmed_at: Timestamp,
    ) -> Result<()> {
        let claims = Value::Object(person.claims.clone()).to_string();
        let identity = NewIdentity {
            user_id,
            provider: provider.name(),
            issuer: &person.issuer,
            subject: &person.subject,
            claims: &claims,
            confirmed_at,
        };
        tx.identities_mut().put(&identity).await?;
        let Mapped { roles, attributes } = mapped.clone();
        Ok(tx.identities_mut().put_mapped(&[(user_id, roles, attributes)]).await?)
    }

    async fn reread_user(&self, tx: &mut WriteTx, id: &str) -> Result<User> {
        tx.user_by_id(id).await?.ok_or_else(|| ServiceError::internal("the user no longer exists"))
    }
}

async fn check_new_user(tx: &mut ReadTx, person: &Person, mapped: &Mapped) -> Result<()> {
    if mapped.roles.is_empty() {
        return Err(SignInRefusal::NoRole.into());
    }
    let username = person.username.as_deref().unwrap_or_default();
    let mut errors = Vec::new();
    validate::username(username, &mut errors);
    if let Some(error) = errors.first() {
        tracing::warn!(issuer = person.issuer, reason = error.detail, "a new user has no usable name");
        return Err(SignInRefusal::NameInvalid.into());
    }
    // Never merged: the name is chosen by the provider or the person, and the account may be another's.
    if tx.user_by_name(username).await?.is_some() {
        return Err(SignInRefusal::NameTaken.into());
    }
    Ok(())
}

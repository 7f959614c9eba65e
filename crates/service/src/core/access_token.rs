//! Access tokens of identity providers as credentials. A token's own claims decide its requests, by the mapping as of each request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracewarden_appdb::{Logout, ReadTx, TokenDigest, User};
use tracewarden_identity::{AccessToken, Person};
use tracewarden_model::{Claims, ClaimsMapping, Timestamp};

use crate::core::error::{CredentialFault, Result};
use crate::core::mapped::{Mapped, evaluate_mapping};
use crate::core::tokens;
use crate::core::tools::Tool;

/// A verified access token, and what it gives by the mapping of one snapshot.
#[derive(Debug, Clone)]
pub(crate) struct TokenCredential {
    /// Id for audit records, which reveals nothing of the token.
    pub(crate) id: String,
    pub(crate) token: AccessToken,
    mapping: ClaimsMapping,
    pub(crate) mapped: Mapped,
}

impl TokenCredential {
    /// Returns the credential of a verified token, which gives nothing before [`Self::refresh`].
    pub(crate) fn new(id: String, token: AccessToken) -> Arc<Self> {
        Arc::new(Self { id, token, mapping: ClaimsMapping::default(), mapped: Mapped::default() })
    }

    /// Names of the tools that the token's scopes permit.
    pub(crate) fn tools(&self) -> Vec<String> {
        let permitted = self.token.scopes.iter().filter(|scope| Tool::parse(scope).is_some());
        permitted.cloned().collect()
    }

    /// Returns the user with the access that the token gives instead of the stored one. What administrators assigned stays.
    pub(crate) fn apply_to(&self, mut user: User) -> User {
        let (assigned_roles, assigned_attributes) = match &user.identity {
            Some(identity) => (identity.assigned_roles.clone(), identity.assigned_attributes.clone()),
            None => (BTreeSet::new(), BTreeMap::new()),
        };
        user.roles = assigned_roles;
        user.roles.extend(self.mapped.roles.iter().cloned());
        user.attributes = assigned_attributes;
        for (name, value) in &self.mapped.attributes {
            match value {
                Some(value) => drop(user.attributes.insert(name.clone(), value.clone())),
                None => drop(user.attributes.remove(name)),
            }
        }
        user
    }

    /// Whether the token has not expired at a time. One that is older than `max_age_nanos` counts as expired: logouts are remembered
    /// for that long.
    pub(crate) fn is_live(&self, max_age_nanos: i64, at: Timestamp) -> bool {
        self.token.expires_at > at && self.token.issued_at.saturating_add(max_age_nanos) > at
    }

    /// Returns the credential as of the transaction's snapshot.
    ///
    /// # Errors
    /// [`CredentialFault`] if the token has expired, or if the provider ended the person's access or session since it was issued.
    pub(crate) async fn refresh(
        self: &Arc<Self>,
        tx: &mut ReadTx,
        max_age_nanos: i64,
        now: Timestamp,
    ) -> Result<Arc<Self>> {
        let token = &self.token;
        if !self.is_live(max_age_nanos, now) {
            return Err(CredentialFault::TokenExpired.into());
        }
        // The time of issue has seconds: a token of the same second counts as issued before.
        if last_logout(tx, &token.person).await?.is_some_and(|logout| token.issued_at <= logout.tokens_until)
        {
            return Err(CredentialFault::TokenRevoked.into());
        }
        let mapping = tx.identities().mappings(None).await?.remove(&token.provider).unwrap_or_default();
        if mapping == self.mapping {
            return Ok(Arc::clone(self));
        }
        let claims = Claims::from_json(&token.person.claims);
        let access = evaluate_mapping(mapping.clone(), vec![claims]).await?.pop().unwrap_or_default();
        let existing = tx.role_names().await?.into_iter().collect();
        let mapped = Mapped::new(access, &existing);
        Ok(Arc::new(Self { mapping, mapped, ..Self::clone(self) }))
    }
}

/// What a logout ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LogoutOf<'a> {
    /// All access of a person, by subject.
    Person(&'a str),
    /// One session at the provider, by id.
    Session(&'a str),
    /// What does not name its session at the provider, and can belong to any of the person's, by subject.
    AnySession(&'a str),
}

impl LogoutOf<'_> {
    pub(crate) fn digest(self, issuer: &str) -> TokenDigest {
        let (kind, id) = match self {
            Self::Person(subject) => ("person", subject),
            Self::Session(session) => ("session", session),
            Self::AnySession(subject) => ("any session", subject),
        };
        tokens::digest(&format!("{kind}\0{issuer}\0{id}"))
    }
}

/// Returns when the access of a person or this session of theirs last ended, within `identity_max_age`.
pub(crate) async fn last_logout(tx: &mut ReadTx, person: &Person) -> Result<Option<Logout>> {
    let Person { issuer, subject, session, .. } = person;
    let session = session.as_deref().map_or(LogoutOf::AnySession(subject), LogoutOf::Session);
    let of = [LogoutOf::Person(subject), session];
    Ok(tx.identities().last_logout(of.map(|of| of.digest(issuer))).await?)
}

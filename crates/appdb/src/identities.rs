//! People authenticated by identity providers, and the mappings of their claims.

use std::collections::BTreeSet;

use tracewarden_model::{ClaimsMappings, Timestamp};

use crate::documents;
use crate::error::DbError;
use crate::records::{MappedAttributes, TokenDigest, User};
use crate::rows::from_row;
use crate::transactions::{ReadTx, WriteTx};
use crate::users::select_users;
use crate::values::{Value, bound, signed, values};

/// A person as an identity provider describes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIdentity<'a> {
    /// The user.
    pub user_id: &'a str,
    /// Name of the provider.
    pub provider: &'a str,
    /// Issuer identifier of the provider.
    pub issuer: &'a str,
    /// Immutable identifier of the person at the issuer.
    pub subject: &'a str,
    /// The claims, as a JSON object.
    pub claims: &'a str,
    /// When the provider confirmed the claims.
    pub confirmed_at: Timestamp,
}

/// When the access of a person, or a session of theirs at the provider, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logout {
    /// By the clock of this service: sign-ins that began until then are refused.
    pub ended_at: Timestamp,
    /// By the clock of the provider: access tokens that were issued until then are refused.
    pub tokens_until: Timestamp,
}

/// The stored claims of a person, and what they give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredClaims {
    /// The user.
    pub user_id: String,
    /// Name of the user.
    pub username: String,
    /// The claims, as a JSON object.
    pub claims: String,
    /// Names of the mapped roles.
    pub roles: BTreeSet<String>,
    /// The mapped attributes; `None` for those without a value.
    pub attributes: MappedAttributes,
}

from_row!(StoredClaims: user_id, username, claims, roles = "mapped_roles", attributes);

/// Reads people and mappings in the snapshot of a transaction.
pub struct Identities<'t> {
    pub(crate) tx: &'t mut ReadTx,
}

impl ReadTx {
    /// Returns the people authenticated by identity providers, and the mappings of their claims.
    pub fn identities(&mut self) -> Identities<'_> {
        Identities { tx: self }
    }
}

impl Identities<'_> {
    /// Returns the user whom this issuer knows under this subject.
    pub async fn user(&mut self, issuer: &str, subject: &str) -> Result<Option<User>, DbError> {
        let statement = select_users!("WHERE identities.issuer = $1 AND identities.subject = $2");
        self.tx.connection.optional(statement, values![issuer, subject]).await
    }

    /// Returns the stored claims of at most `limit` people of a provider, by user id, after the id `after`.
    pub async fn claims(
        &mut self,
        provider: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<StoredClaims>, DbError> {
        let statement = "SELECT user_id, username, claims, identities.attributes, (SELECT string_agg(role, '\n') FROM mapped_user_roles \
             WHERE mapped_user_roles.user_id = identities.user_id) AS mapped_roles \
             FROM identities JOIN users ON users.id = identities.user_id WHERE provider = $1 AND user_id > $2 ORDER BY user_id LIMIT $3";
        self.tx.connection.all(statement, values![provider, after, limit]).await
    }

    /// Returns the mappings as of a change, or the current ones.
    pub async fn mappings(&mut self, change: Option<u64>) -> Result<ClaimsMappings, DbError> {
        let statement =
            "SELECT document FROM mapping_changes WHERE change <= $1 ORDER BY change DESC LIMIT 1";
        let change = bound(change.unwrap_or(u64::MAX));
        let document: Option<String> = self.tx.connection.optional(statement, values![change]).await?;
        document.map_or_else(|| Ok(ClaimsMappings::new()), |document| documents::read("mappings", &document))
    }

    /// Returns the last times that are recorded for one of these.
    pub async fn last_logout(&mut self, of: [TokenDigest; 2]) -> Result<Option<Logout>, DbError> {
        let statement =
            "SELECT MAX(ended_at), MAX(tokens_until) FROM provider_logouts WHERE sha256 IN ($1, $2)";
        let found: (Option<Timestamp>, Option<Timestamp>) =
            self.tx.connection.one(statement, of.map(Value::from)).await?;
        let logout = |(ended_at, tokens_until)| Logout { ended_at, tokens_until };
        Ok(found.0.zip(found.1).map(logout))
    }

    /// Returns the user whom a link signs in, unless it has expired or does not exist.
    pub async fn break_glass_user(
        &mut self,
        digest: TokenDigest,
        now: Timestamp,
    ) -> Result<Option<String>, DbError> {
        let statement = "SELECT user_id FROM break_glass_links WHERE sha256 = $1 AND expires_at > $2";
        self.tx.connection.optional(statement, values![digest, now]).await
    }

    /// Returns the numbers of the changes from `from` through `through` that wrote mappings.
    pub async fn mapping_changes(&mut self, from: u64, through: u64) -> Result<Vec<u64>, DbError> {
        let statement =
            "SELECT change FROM mapping_changes WHERE change >= $1 AND change <= $2 ORDER BY change";
        self.tx.connection.all(statement, values![bound(from), bound(through)]).await
    }
}

/// Changes people and mappings within a transaction.
pub struct IdentitiesMut<'t> {
    pub(crate) tx: &'t mut WriteTx,
}

impl WriteTx {
    /// Returns the people authenticated by identity providers, and the mappings of their claims, to change them.
    pub fn identities_mut(&mut self) -> IdentitiesMut<'_> {
        IdentitiesMut { tx: self }
    }
}

impl IdentitiesMut<'_> {
    /// Records a sign-in cookie or a logout token as consumed until it expires. Returns `false` if it was consumed before.
    pub async fn consume_token(
        &mut self,
        digest: TokenDigest,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<bool, DbError> {
        let statement = "DELETE FROM consumed_tokens WHERE expires_at < $1";
        self.tx.connection.execute(statement, values![now]).await?;
        let statement = "INSERT INTO consumed_tokens (sha256, expires_at) VALUES ($1, $2) ON CONFLICT (sha256) DO NOTHING";
        Ok(self.tx.connection.execute(statement, values![digest, expires_at]).await? > 0)
    }

    /// Records that a person's access or a session at the provider ended. Records that concern only tokens from before `oldest` are
    /// removed.
    pub async fn put_logout(
        &mut self,
        of: TokenDigest,
        logout: Logout,
        oldest: Timestamp,
    ) -> Result<(), DbError> {
        let statement = "DELETE FROM provider_logouts WHERE tokens_until < $1";
        self.tx.connection.execute(statement, values![oldest]).await?;
        // Clocks of replicas differ: a later time stays.
        let statement = "INSERT INTO provider_logouts (sha256, ended_at, tokens_until) VALUES ($1, $2, $3) \
             ON CONFLICT (sha256) DO UPDATE SET \
             ended_at = CASE WHEN provider_logouts.ended_at > excluded.ended_at THEN provider_logouts.ended_at ELSE excluded.ended_at END, \
             tokens_until = CASE WHEN provider_logouts.tokens_until > excluded.tokens_until THEN provider_logouts.tokens_until \
             ELSE excluded.tokens_until END";
        let Logout { ended_at, tokens_until } = logout;
        self.tx.connection.execute(statement, values![of, ended_at, tokens_until]).await.map(drop)
    }

    /// Stores a link that signs in a user once before it expires. The user's other links and all expired ones are removed.
    pub async fn put_break_glass_link(
        &mut self,
        digest: TokenDigest,
        user_id: &str,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<(), DbError> {
        let statement = "DELETE FROM break_glass_links WHERE user_id = $1 OR expires_at <= $2";
        self.tx.connection.execute(statement, values![user_id, now]).await?;
        let statement = "INSERT INTO break_glass_links (sha256, user_id, expires_at) VALUES ($1, $2, $3)";
        self.tx.connection.execute(statement, values![digest, user_id, expires_at]).await.map(drop)
    }

    /// Removes a link.
    pub async fn delete_break_glass_link(&mut self, digest: TokenDigest) -> Result<(), DbError> {
        let statement = "DELETE FROM break_glass_links WHERE sha256 = $1";
        self.tx.connection.execute(statement, values![digest]).await.map(drop)
    }

    /// Records mappings with the change of this number, which must be the last one.
    pub async fn record_mappings(&mut self, change: u64, mappings: &ClaimsMappings) -> Result<(), DbError> {
        let statement = "INSERT INTO mapping_changes (change, document) VALUES ($1, $2)";
        let values = values![signed(change)?, documents::write("mappings", mappings)?];
        self.tx.connection.execute(statement, values).await.map(drop)
    }

    /// Stores the claims of a person. A new person has no mapped roles and attributes yet.
    ///
    /// # Errors
    /// [`DbError::Conflict`] when the user belongs to another person.
    pub async fn put(&mut self, identity: &NewIdentity<'_>) -> Result<(), DbError> {
        let statement = "INSERT INTO identities (issuer, subject, provider, user_id, claims, confirmed_at, attributes) \
             VALUES ($1, $2, $3, $4, $5, $6, '{}') ON CONFLICT (issuer, subject) DO UPDATE SET \
             provider = excluded.provider, claims = excluded.claims, confirmed_at = excluded.confirmed_at";
        let NewIdentity { user_id, provider, issuer, subject, claims, confirmed_at } = *identity;
        let values = values![issuer, subject, provider, user_id, claims, confirmed_at];
        self.tx.connection.execute(statement, values).await.map(drop)
    }

    /// Removes the identity of a user, with what is mapped. Returns whether there was one.
    pub async fn delete(&mut self, user_id: &str) -> Result<bool, DbError> {
        let statement = "DELETE FROM identities WHERE user_id = $1";
        Ok(self.tx.connection.execute(statement, values![user_id]).await? > 0)
    }

    /// Sets when the provider last confirmed the claims of a user. Time 0 makes the access of the user lapse.
    pub async fn set_confirmed(&mut self, user_id: &str, confirmed_at: Timestamp) -> Result<(), DbError> {
        let statement = "UPDATE identities SET confirmed_at = $2 WHERE user_id = $1";
        self.tx.connection.execute(statement, values![user_id, confirmed_at]).await.map(drop)
    }

    /// Replaces the mapped roles and attributes of users with an identity. The roles must exist. An attribute without a value
    /// is absent, whatever administrators have assigned.
    pub async fn put_mapped(
        &mut self,
        mapped: &[(&str, BTreeSet<String>, MappedAttributes)],
    ) -> Result<(), DbError> {
        let ids: Vec<&str> = mapped.iter().map(|(user_id, ..)| *user_id).collect();
        self.tx.delete_where_in("DELETE FROM mapped_user_roles WHERE user_id", &ids).await?;
        let roles =
            mapped.iter().flat_map(|(user_id, roles, _)| roles.iter().map(|role| values![*user_id, role]));
        self.tx.insert_rows("mapped_user_roles (user_id, role)", roles.collect(), "").await?;
        for (user_id, _, attributes) in mapped {
            let attributes = documents::write("mapped attributes", attributes)?;
            let statement = "UPDATE identities SET attributes = $2 WHERE user_id = $1";
            self.tx.connection.execute(statement, values![*user_id, attributes]).await?;
        }
        Ok(())
    }

    /// Ends the sessions that belong to one session at a provider: of a user, or of anyone. Returns the users and the ids of the
    /// sessions.
    pub async fn delete_sessions(
        &mut self,
        provider: &str,
        provider_session: &str,
        user_id: Option<&str>,
    ) -> Result<Vec<(String, String)>, DbError> {
        let statement = "DELETE FROM sessions WHERE provider = $1 AND provider_session = $2 AND user_id = COALESCE($3, user_id) \
             RETURNING user_id, id";
        self.tx.connection.all(statement, values![provider, provider_session, user_id]).await
    }

    /// Ends the sessions of people whose provider last confirmed their claims before `seen_before`, except those that began with
    /// a password. Returns their number.
    pub async fn delete_lapsed_sessions(&mut self, seen_before: Timestamp) -> Result<u64, DbError> {
        let statement = "DELETE FROM sessions WHERE provider IS NOT NULL AND user_id IN \
             (SELECT user_id FROM identities WHERE confirmed_at < $1)";
        self.tx.connection.execute(statement, values![seen_before]).await
    }
}

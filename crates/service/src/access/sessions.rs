//! A user's sessions: new ones, listing and ending them.

use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde_json::{Value, json};
use tracewarden_appdb::{Session, User, WriteTx};
use tracewarden_model::Timestamp;
use utoipa::ToSchema;

use crate::Secret;
use crate::access::Account;
use crate::core::{
    AuditContext, Core, Event, Identity, Outcome, Principal, RequestInfo, Result, ServiceError, sanitize,
    tokens, validate, with_members,
};

/// Maximum number of sessions of one user. Far more than the browsers of any user need, and few enough to be listed: a client
/// that signs in without ever signing out, such as a script, must not grow the database without bound.
const SESSIONS_PER_USER_MAX: u32 = 1_000;

/// A session, without its token.
#[serde_with::apply(Option => #[schema(required = true)])]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Session)]
pub struct SessionInfo {
    /// Opaque id.
    pub id: String,
    /// When the user signed in.
    pub created_at: Timestamp,
    /// When the session was last used, accurate to about a minute.
    pub last_used_at: Timestamp,
    /// Address of the client at sign-in.
    pub client_ip: Option<String>,
    /// `User-Agent` at sign-in.
    pub user_agent: Option<String>,
    /// Whether this request used the session.
    pub current: bool,
}

impl SessionInfo {
    pub(crate) fn new(session: Session, caller: &Identity) -> Self {
        let current = caller.session().is_some_and(|own| own.id == session.id);
        Self {
            id: session.id,
            created_at: session.created_at,
            last_used_at: session.last_seen_at,
            client_ip: session.client_ip,
            user_agent: session.user_agent,
            current,
        }
    }
}

impl Account {
    /// Returns the caller's sessions, newest first.
    pub async fn my_sessions(&self, principal: &Principal) -> Result<Vec<SessionInfo>> {
        let sessions = self.core.db.begin_read().await?.sessions_of_user(principal.user_id()).await?;
        Ok(sessions.into_iter().map(|session| SessionInfo::new(session, principal)).collect())
    }

    /// Ends one of the caller's sessions.
    pub async fn end_my_session(&self, principal: &Principal, id: &str) -> Result<()> {
        let result = async {
            let mut tx = self.core.begin_change(principal).await?;
            end_session(&mut tx, principal.user_id(), id).await?;
            self.core.commit_change(tx, principal, "session.end", Some(id), json!({})).await
        };
        self.core.audit_denial(principal, "session.end", Some(id), result.await).await
    }
}

pub(crate) async fn end_session(tx: &mut WriteTx, user_id: &str, id: &str) -> Result<()> {
    let what = "session";
    let found = tx.delete_session(user_id, validate::lookup_name(id, what)?).await?;
    if found { Ok(()) } else { Err(ServiceError::NotFound { what }) }
}

/// What begins a session.
pub(super) struct SignIn<'a> {
    /// Name of the provider that the person signed in with, and the id of the session there.
    pub(super) provider: Option<(&'a str, Option<&'a str>)>,
    /// Members of the audit record's detail.
    pub(super) detail: Value,
    pub(super) context: &'a AuditContext,
    pub(super) info: &'a RequestInfo,
}

/// Inserts a session of a user who has just signed in, with its audit record. The caller commits.
pub(super) async fn begin_session(
    core: &Core,
    tx: &mut WriteTx,
    user: &mut User,
    sign_in: SignIn<'_>,
) -> Result<(Session, Secret)> {
    let SignIn { provider, detail, context, info } = sign_in;
    let token = tokens::session_token(core.entropy.as_ref())?;
    let now = core.now();
    let ended = tx.delete_idlest_sessions(&user.id, SESSIONS_PER_USER_MAX - 1).await?;
    let (provider, provider_session) = provider.unzip();
    let session = Session {
        id: tokens::id("ses", core.entropy.as_ref())?,
        user_id: user.id.clone(),
        created_at: now,
        last_seen_at: now,
        client_ip: info.client_ip.map(|address| address.to_canonical().to_string()),
        user_agent: info.user_agent.as_deref().map(sanitize),
        preview: None,
        provider: provider.map(str::to_owned),
        provider_session: provider_session.flatten().map(str::to_owned),
    };
    tx.insert_session(&session, tokens::digest(token.expose_secret())).await?;
    tx.set_user_last_login(&user.id, now).await?;
    user.last_login_at = Some(now);
    let ended = (!ended.is_empty()).then(|| json!(ended));
    let detail = with_members(detail, [("session", Some(json!(session.id))), ("ended_sessions", ended)]);
    let event = Event { action: "login", outcome: Outcome::Success, target: None, detail };
    context.append(tx, now, event).await?;
    Ok((session, token))
}

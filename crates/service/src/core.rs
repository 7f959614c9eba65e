//! What all use cases share: the databases, keys, caches and permits of this replica.

pub(crate) mod access;
mod access_token;
mod argon2_memory;
mod audit;
mod audit_appender;
mod audit_context;
pub(crate) mod audit_detail;
mod audit_event;
mod audit_log;
mod authentication;
mod authority;
mod clickhouse_errors;
mod cursor;
mod error;
mod field_error;
mod limit;
mod mapped;
mod metrics;
mod model_change;
mod open_audit_record;
mod passwords;
mod permits;
mod policy_errors;
mod precondition;
mod principal;
mod query_context;
pub(crate) mod query_input;
mod rejected_calls;
mod retry;
mod sealing_key;
mod settings;
mod sign_in_key;
mod tasks;
mod text;
pub(crate) mod tokens;
mod tool_call;
mod tools;
mod user_batches;
pub(crate) mod username_characters;
mod username_key;
pub(crate) mod validate;
pub(crate) mod wire;

pub(crate) use access::{Access, role_policies, stored_caller};
pub(crate) use access_token::{LogoutOf, TokenCredential, last_logout};
pub(crate) use audit_context::AuditContext;
pub(crate) use audit_detail::{bounded_member, difference, with_members};
pub(crate) use audit_event::Event;
pub use audit_event::Outcome;
pub use audit_log::{Actor, AuditDetail, AuditEntry, AuditLog, AuditPage, AuditQuery};
pub(crate) use authentication::{LAST_USE_NANOS, NEVER_CONFIRMED};
pub(crate) use authority::Authority;
pub(crate) use cursor::{Cursor, CursorKey, Fingerprint};
#[cfg(test)]
pub(crate) use cursor::{decode, encode};
pub use error::{Cause, QueryLimit, ServiceError, SignInRefusal};
pub(crate) use error::{CredentialFault, CursorFault, NotReady, Result};
pub(crate) use field_error::unknown;
pub use field_error::{FieldError, bounded};
pub use limit::{Limit, limit_in_query};
pub(crate) use mapped::{Mapped, evaluate_checked, evaluate_mapping};
pub(crate) use metrics::PolicyCacheCollector;
pub(crate) use model_change::{change_detail, check_version, no_change_detail, resolve};
pub(crate) use open_audit_record::{OpenAuditRecord, PreparedRead};
pub use passwords::hash_password_phc;
#[cfg(test)]
pub(crate) use passwords::phc_cost;
pub(crate) use passwords::{check_phc, check_strength, normal_form};
pub use permits::{Limiter, Permit};
pub(crate) use policy_errors::{policy_name, reason_text};
pub use precondition::IfMatch;
pub(crate) use principal::VerifiedCredential;
pub use principal::{Administrator, AuthKind, Credential, Identity, Me, Principal, RequestInfo, Transport};
pub(crate) use query_input::filter_detail;
pub use rejected_calls::{RejectedCall, SessionOnly};
pub use retry::Retry;
pub(crate) use sealing_key::SealingKey;
pub use settings::{EncryptionKey, Limits, PasswordCost, PasswordLogin, Settings};
pub(crate) use sign_in_key::SignInKey;
pub(crate) use tasks::{CancelOnDrop, blocking, run_to_completion};
pub(crate) use text::sanitize;
pub use tokens::{is_generated_password, resembles_api_key};
pub use tool_call::{RecordedCall, ToolCall};
pub use tools::Tool;
pub(crate) use tools::{TRACES_EXPLAIN, TRACES_GET, TRACES_QUERY, TRACES_STATS, TRACES_VALUES};
pub(crate) use user_batches::{UserBatches, take_batch};
pub(crate) use username_key::UsernameKey;
pub(crate) use validate::{attribute_bytes, find_user};
pub use wire::{Attributes, SearchedAround, present};

use std::sync::Arc;

use secrecy::ExposeSecret as _;
use tracewarden_appdb::{AppDb, AppendTx};
use tracewarden_clickhouse::ClickHouse;
use tracewarden_model::{Clock, Entropy, Timestamp};
use tracewarden_policy::CompiledPolicies;

use self::audit_appender::AuditQueue;
use self::metrics::Metrics;
use self::passwords::Passwords;
use self::permits::Permits;

/// Authentication, authority and the audit log, and what the use cases share.
pub struct Core {
    pub(crate) db: AppDb,
    pub(crate) clickhouse: ClickHouse,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) settings: Settings,
    pub(crate) passwords: Passwords,
    pub(crate) cursors: CursorKey,
    pub(crate) username_key: UsernameKey,
    /// Present if identity providers are configured.
    pub(crate) sign_in_key: Option<SignInKey>,
    /// Key of the refresh tokens, if configured.
    pub(crate) refresh_token_key: Option<SealingKey>,
    pub(crate) permits: Permits,
    pub(crate) audit_queue: AuditQueue<AppendTx>,
    pub(crate) metrics: Metrics,
    pub(crate) compiled: Arc<CompiledPolicies>,
}

/// Names under which the application database stores the keys that all replicas share.
const CURSOR_KEY: &str = "cursor_key";
const USERNAME_KEY: &str = "login_name_key";
const SIGN_IN_KEY: &str = "provider_sign_in_key";

const KEY_BYTES: usize = 32;

impl Core {
    /// Creates the keys that replicas share if they do not exist yet.
    pub(crate) async fn new(
        db: AppDb,
        clickhouse: ClickHouse,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        settings: Settings,
    ) -> Result<Self> {
        let sign_in_key = match settings.providers.iter().next() {
            Some(_) => Some(SignInKey::new(&shared_key(&db, entropy.as_ref(), SIGN_IN_KEY).await?)?),
            None => None,
        };
        Ok(Self {
            sign_in_key,
            refresh_token_key: settings
                .refresh_token_key
                .as_ref()
                .map(|key| SealingKey::new(key.expose_secret()))
                .transpose()?,
            passwords: Passwords::new(&settings, Arc::clone(&entropy))?,
            cursors: CursorKey::new(&shared_key(&db, entropy.as_ref(), CURSOR_KEY).await?)?,
            username_key: UsernameKey::new(&shared_key(&db, entropy.as_ref(), USERNAME_KEY).await?)?,
            permits: Permits::new(&settings),
            audit_queue: AuditQueue::default(),
            metrics: Metrics::default(),
            compiled: Arc::default(),
            db,
            clickhouse,
            clock,
            entropy,
            settings,
        })
    }

    /// Current time, the default end of a time window.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Returns the key of this name; creates it if no replica has done so yet.
async fn shared_key(db: &AppDb, entropy: &dyn Entropy, name: &str) -> Result<Vec<u8>> {
    if let Some(key) = db.begin_read().await?.secret(name).await? {
        return Ok(key);
    }
    let mut candidate = [0_u8; KEY_BYTES];
    entropy.fill(&mut candidate)?;
    let mut tx = db.begin_write().await?;
    let key = tx.secret_or_insert(name, &candidate).await?;
    tx.commit().await?;
    Ok(key)
}

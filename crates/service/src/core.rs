//! What all use cases share: the databases, keys, caches and permits of this replica.

use std::sync::Arc;

use tracewarden_appdb::AppDb;
use tracewarden_model::{Clock, Entropy, Timestamp};
use tracewarden_policy::CompiledPolicies;
use tracewarden_tracestore::ClickHouse;

use crate::cursor::CursorKey;
use crate::error::ServiceError;
use crate::metrics::Metrics;
use crate::passwords::Passwords;
use crate::permits::Permits;
use crate::settings::Settings;
use crate::username_key::UsernameKey;

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
    pub(crate) permits: Permits,
    pub(crate) metrics: Metrics,
    pub(crate) compiled: Arc<CompiledPolicies>,
}

/// Names under which the application database stores the keys that all replicas share.
const CURSOR_KEY: &str = "cursor_key";
const USERNAME_KEY: &str = "login_name_key";

const KEY_BYTES: usize = 32;

impl Core {
    /// Creates the keys that replicas share if they do not exist yet.
    ///
    /// # Errors
    /// When a setting is invalid or the application database fails.
    pub(crate) async fn new(
        db: AppDb,
        clickhouse: ClickHouse,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        settings: Settings,
    ) -> Result<Self, ServiceError> {
        let passwords = Passwords::new(&settings, Arc::clone(&entropy))?;
        let cursors = CursorKey::new(&shared_key(&db, entropy.as_ref(), CURSOR_KEY).await?)?;
        let username_key = UsernameKey::new(&shared_key(&db, entropy.as_ref(), USERNAME_KEY).await?)?;
        let permits = Permits::new(&settings);
        let (metrics, compiled) = (Metrics::default(), Arc::default());
        Ok(Self {
            db,
            clickhouse,
            clock,
            entropy,
            settings,
            passwords,
            cursors,
            username_key,
            permits,
            metrics,
            compiled,
        })
    }

    /// Settings of the service.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Current time, the default end of a time window.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Returns the key of this name; creates it if no replica has done so yet.
async fn shared_key(db: &AppDb, entropy: &dyn Entropy, name: &str) -> Result<Vec<u8>, ServiceError> {
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

//! The service: its use cases by area, and its readiness.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::time::timeout;
use tracewarden_appdb::{AppDb, DbError};
use tracewarden_clickhouse::{ClickHouse, ClickHouseError, SharedWork};
use tracewarden_model::{Clock, Entropy};

use crate::access::{Account, Identities, Roles, Users};
use crate::analysis::Analysis;
use crate::core::{AuditLog, Core, NotReady, PolicyCacheCollector, Result, Settings};
use crate::maintenance::Maintenance;
use crate::model_file::ModelFiles;
use crate::policies::Policies;
use crate::source::Source;
use crate::traces::Traces;

/// The use cases. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    core: Arc<Core>,
    /// Readiness check in progress.
    readiness: Arc<SharedWork<(), NotReady>>,
}

/// ClickHouse's error codes for a rejected login.
const AUTHENTICATION_FAILED: [i32; 4] = [192, 193, 194, 516];

/// Time-out of a readiness check. Clients that ask for readiness give up after a few seconds, so a query's time-out would be
/// too long.
const READY_TIMEOUT: Duration = Duration::from_secs(3);

impl Service {
    /// Creates the service, and the keys that replicas share if they do not exist yet.
    pub async fn new(
        db: AppDb,
        clickhouse: ClickHouse,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        settings: Settings,
    ) -> Result<Self> {
        let core = Arc::new(Core::new(db, clickhouse, clock, entropy, settings).await?);
        Ok(Self { core, readiness: Arc::default() })
    }

    /// Reads of traces.
    pub fn traces(&self) -> Traces {
        Traces { core: Arc::clone(&self.core) }
    }

    /// Users and their credentials, for administrators.
    pub fn users(&self) -> Users {
        Users { core: Arc::clone(&self.core) }
    }

    /// Identity providers.
    pub fn identities(&self) -> Identities {
        Identities { core: Arc::clone(&self.core) }
    }

    /// Roles.
    pub fn roles(&self) -> Roles {
        Roles { core: Arc::clone(&self.core) }
    }

    /// Evaluation of policies and advice about them.
    pub fn policies(&self) -> Policies {
        Policies { core: Arc::clone(&self.core) }
    }

    /// The caller's own sessions, keys, password and preview.
    pub fn account(&self) -> Account {
        Account { core: Arc::clone(&self.core) }
    }

    /// The table of traces and its fields.
    pub fn source(&self) -> Source {
        Source { core: Arc::clone(&self.core) }
    }

    /// What changes of roles and policies do.
    pub fn analysis(&self) -> Analysis {
        Analysis { core: Arc::clone(&self.core) }
    }

    /// The access model as a file, and its history.
    pub fn model_files(&self) -> ModelFiles {
        ModelFiles { core: Arc::clone(&self.core) }
    }

    /// The audit log.
    pub fn audit_log(&self) -> AuditLog {
        AuditLog { core: Arc::clone(&self.core) }
    }

    /// Periodic tasks.
    pub fn maintenance(&self) -> Maintenance {
        Maintenance { core: Arc::clone(&self.core) }
    }

    /// Authentication, the audit records of calls, and settings.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Checks within [`READY_TIMEOUT`] that the application database and ClickHouse can serve requests: the server accepts
    /// the service's user and has a supported version, and every shard of the bound table answers. Calls during a check share
    /// its result, because anonymous clients may call this and each check takes several statements.
    pub async fn ready(&self) -> Result<()> {
        let service = self.clone();
        let check = Box::pin(async move {
            let checked = timeout(READY_TIMEOUT, service.check_ready()).await;
            checked.map_err(|elapsed| NotReady::new("no response in time", elapsed))?
        });
        Ok(self.readiness.run(check).await?)
    }

    async fn check_ready(&self) -> Result<(), NotReady> {
        let database_error =
            |error: DbError| NotReady::new("the application database does not answer", error);
        self.core.db.ping().await.map_err(database_error)?;
        let model = self.core.db.current_model().await.map_err(database_error)?.model;
        let ready = self.core.clickhouse.catalogue().ready(model.binding.as_ref()).await;
        ready.map_err(|error| {
            let retry_after_seconds = match &error {
                ClickHouseError::Unavailable { retry_after_seconds, .. } => Some(*retry_after_seconds),
                _ => None,
            };
            NotReady { retry_after_seconds, ..NotReady::new(not_ready_reason(&error), error) }
        })
    }

    /// Registers the metrics of the service, the application database and ClickHouse.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.core.metrics.register(registry);
        registry.register_collector(Box::new(PolicyCacheCollector(Arc::clone(&self.core.compiled))));
        self.core.db.register_metrics(registry);
        self.core.clickhouse.register_metrics(registry);
    }
}

fn not_ready_reason(error: &ClickHouseError) -> &'static str {
    match error {
        ClickHouseError::Unusable(_) => {
            "ClickHouse is not usable: it is older than 25.8, or a server of its cluster changes settings that \
             are sent with a statement; see the log"
        }
        ClickHouseError::Exception { code: Some(code), .. } if AUTHENTICATION_FAILED.contains(code) => {
            "ClickHouse rejects the sign-in of the service's user"
        }
        error if error.is_quota_exceeded() => "a quota of the service's user in ClickHouse is exhausted",
        ClickHouseError::Unavailable { .. } | ClickHouseError::Timeout(_) => {
            "ClickHouse, or a shard of the bound table, does not answer"
        }
        _ => "ClickHouse returned an unexpected response; see the log",
    }
}

//! The service: its use cases by area, and its readiness.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::time::timeout;
use tracewarden_appdb::{AppDb, ChainFault, DbError};
use tracewarden_clickhouse::{ClickHouse, ClickHouseError, SharedWork};
use tracewarden_model::{Clock, Entropy};

use crate::access::{Account, Roles, Users};
use crate::analysis::Analysis;
use crate::core::{AuditLog, Core, PolicyCacheCollector, ServiceError, Settings};
use crate::maintenance::Maintenance;
use crate::model_file::ModelFiles;
use crate::policies::Policies;
use crate::source::Source;
use crate::traces::Traces;

/// The use cases. Cheap to clone.
#[derive(Clone)]
pub struct Service(Arc<Areas>);

struct Areas {
    core: Arc<Core>,
    traces: Traces,
    users: Users,
    roles: Roles,
    policies: Policies,
    account: Account,
    source: Source,
    analysis: Analysis,
    model_files: ModelFiles,
    audit_log: AuditLog,
    maintenance: Maintenance,
    /// Readiness check in progress.
    readiness: SharedWork<(), NotReady>,
}

/// Why the service cannot serve requests.
#[derive(Debug, Clone)]
struct NotReady {
    /// Reason for all callers.
    reason: &'static str,
    /// Cause for the log.
    log_cause: String,
    /// Seconds until a ClickHouse endpoint is tried again, if known.
    retry_after_seconds: Option<u64>,
}

impl NotReady {
    fn new(reason: &'static str, log_cause: String) -> Self {
        Self { reason, log_cause, retry_after_seconds: None }
    }

    /// ClickHouse's error codes for a rejected login.
    const AUTHENTICATION_FAILED: [i32; 4] = [192, 193, 194, 516];

    fn reason(error: &ClickHouseError) -> &'static str {
        match error {
            ClickHouseError::Unusable(_) => {
                "ClickHouse is not usable: it is older than 25.8, or a server of its cluster changes \
                 settings that are sent with a statement; see the log"
            }
            ClickHouseError::Exception { code: Some(code), .. }
                if Self::AUTHENTICATION_FAILED.contains(code) =>
            {
                "ClickHouse rejects the sign-in of the service's user"
            }
            error if error.is_quota_exceeded() => "a quota of the service's user in ClickHouse is exhausted",
            ClickHouseError::Unavailable { .. } | ClickHouseError::Timeout(_) => {
                "ClickHouse, or a shard of the bound table, does not answer"
            }
            _ => "ClickHouse returned an unexpected response; see the log",
        }
    }
}

/// Time-out of a readiness check. Clients that ask for readiness give up after a few seconds, so a query's time-out would be
/// too long.
const READY_TIMEOUT: Duration = Duration::from_secs(3);

impl Service {
    /// Creates the service, and the keys that replicas share if they do not exist yet.
    ///
    /// # Errors
    /// When a setting is invalid or the application database fails.
    pub async fn new(
        db: AppDb,
        clickhouse: ClickHouse,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        settings: Settings,
    ) -> Result<Self, ServiceError> {
        let core = Arc::new(Core::new(db, clickhouse, clock, entropy, settings).await?);
        Ok(Self(Arc::new(Areas {
            traces: Traces::new(&core),
            users: Users::new(&core),
            roles: Roles::new(&core),
            policies: Policies::new(&core),
            account: Account::new(&core),
            source: Source::new(&core),
            analysis: Analysis::new(&core),
            model_files: ModelFiles::new(&core),
            audit_log: AuditLog::new(&core),
            maintenance: Maintenance::new(&core),
            readiness: SharedWork::default(),
            core,
        })))
    }

    /// Reads of traces.
    pub fn traces(&self) -> &Traces {
        &self.0.traces
    }

    /// Users and their credentials, for administrators.
    pub fn users(&self) -> &Users {
        &self.0.users
    }

    /// Roles.
    pub fn roles(&self) -> &Roles {
        &self.0.roles
    }

    /// Evaluation of policies and advice about them.
    pub fn policies(&self) -> &Policies {
        &self.0.policies
    }

    /// The caller's own sessions, keys, password and preview.
    pub fn account(&self) -> &Account {
        &self.0.account
    }

    /// The table of traces and its fields.
    pub fn source(&self) -> &Source {
        &self.0.source
    }

    /// What changes of roles and policies do.
    pub fn analysis(&self) -> &Analysis {
        &self.0.analysis
    }

    /// The access model as a file, and its history.
    pub fn model_files(&self) -> &ModelFiles {
        &self.0.model_files
    }

    /// The audit log.
    pub fn audit_log(&self) -> &AuditLog {
        &self.0.audit_log
    }

    /// Periodic tasks.
    pub fn maintenance(&self) -> &Maintenance {
        &self.0.maintenance
    }

    /// Authentication, the audit records of calls, and settings.
    pub fn core(&self) -> &Arc<Core> {
        &self.0.core
    }

    /// Checks within [`READY_TIMEOUT`] that the application database and ClickHouse can serve requests: the server accepts
    /// the service's user and has a supported version, and every shard of the bound table answers. Calls during a check share
    /// its result, because anonymous clients may call this and each check takes several statements.
    ///
    /// # Errors
    /// [`ServiceError::NotReady`].
    pub async fn ready(&self) -> Result<(), ServiceError> {
        let service = self.clone();
        let check = Box::pin(async move {
            let late = |_| NotReady::new("no response in time", "no answer in time".to_owned());
            timeout(READY_TIMEOUT, service.check_ready()).await.map_err(late)?
        });
        let checked = self.0.readiness.run(check).await;
        checked.map_err(|NotReady { reason, log_cause, retry_after_seconds }| ServiceError::NotReady {
            reason,
            log_cause: log_cause.into(),
            retry_after_seconds,
        })
    }

    async fn check_ready(&self) -> Result<(), NotReady> {
        let database_error =
            |error: DbError| NotReady::new("the application database does not answer", error.to_string());
        self.0.core.db.ping().await.map_err(database_error)?;
        let model = self.0.core.db.current_model().await.map_err(database_error)?.model;
        let ready = self.0.core.clickhouse.catalogue().ready(model.binding.as_ref()).await;
        ready.map_err(|error| NotReady {
            retry_after_seconds: match &error {
                ClickHouseError::Unavailable { retry_after_seconds, .. } => Some(*retry_after_seconds),
                _ => None,
            },
            ..NotReady::new(NotReady::reason(&error), error.to_string())
        })
    }

    /// Checks the audit log's hash chain; returns the first fault, if any.
    ///
    /// # Errors
    /// When the application database fails.
    pub async fn verify_audit(&self) -> Result<Option<ChainFault>, ServiceError> {
        Ok(self.0.core.db.begin_read().await?.verify_audit(|_, _| ()).await?.err())
    }

    /// Registers the metrics of the service, the application database and ClickHouse.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.0.core.metrics.register(registry);
        registry.register_collector(Box::new(PolicyCacheCollector(Arc::clone(&self.0.core.compiled))));
        self.0.core.db.register_metrics(registry);
        self.0.core.clickhouse.register_metrics(registry);
    }
}

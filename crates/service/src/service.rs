//! The service and its dependencies.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;
use tokio::time::timeout;
use tracewarden_appdb::{AppDb, ChainFault, DbError};
use tracewarden_model::{Clock, Entropy, Timestamp};
use tracewarden_policy::CompiledPolicies;
use tracewarden_tracestore::{ClickHouse, ClickHouseError, SharedWork};
use tracing::Instrument as _;

use crate::bounded_work::BoundedWork;
use crate::cursor::CursorKey;
use crate::error::ServiceError;
use crate::keyed_limiter::{KeyedLimiter, Permit};
use crate::metrics::{Metrics, PolicyCacheCollector};
use crate::passwords::Passwords;
use crate::settings::Settings;
use crate::sign_in_limits::SignInLimiter;
use crate::sign_in_throttle::UsernameKey;

/// The use cases. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    db: AppDb,
    store: ClickHouse,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    settings: Settings,
    passwords: Passwords,
    cursors: CursorKey,
    username_key: UsernameKey,
    queries: KeyedLimiter,
    last_use_writes: KeyedLimiter,
    waiting_records: KeyedLimiter,
    sign_in_limiter: SignInLimiter,
    metrics: Metrics,
    compiled: Arc<CompiledPolicies>,
    compilation: BoundedWork,
    key_policy_checks: BoundedWork,
    model_checks: BoundedWork,
    analysis: BoundedWork,
    scans: Semaphore,
    span_permits: Arc<Semaphore>,
    span_permits_by_user: KeyedLimiter,
    preview_permits: Semaphore,
    advice_permits: Semaphore,
    /// Readiness check in progress.
    ready: SharedWork<(), NotReady>,
}

/// Runs work to completion, even if the caller that awaits it is cancelled.
///
/// # Errors
/// The errors of the work; an internal error if it panicked.
pub(crate) async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
) -> Result<T, ServiceError> {
    tokio::spawn(work.in_current_span()).await.map_err(|error| join_error(&error))?
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

/// Names under which the application database stores the keys that all replicas share.
const CURSOR_KEY: &str = "cursor_key";
const USERNAME_KEY: &str = "login_name_key";

const KEY_BYTES: usize = 32;

/// Maximum number of change previews that this replica counts at the same time.
const PREVIEW_PERMITS: usize = 2;
/// Maximum number of samples of recent traces that this replica takes at the same time for policy advice. Separate from
/// [`PREVIEW_PERMITS`]: advice has a few seconds, and a preview may hold its permit for a minute.
const ADVICE_PERMITS: usize = 2;

/// Maximum number of concurrent calls that hold many whole spans. Building the answer takes several times the size of the
/// spans: up to some 100 MiB for each call.
const SPAN_PERMITS: usize = 8;
/// One user holds at most 1/`SHARE_OF_USER` of the permits.
const SHARE_OF_USER: usize = 2;

/// Maximum number of records of denied or failed calls of one user that wait to be written. Records wait even after the
/// client has disconnected, so the connection limit does not bound them.
const WAITING_RECORDS: usize = 100;

/// Permit to hold many spans, released when it is dropped.
pub(crate) struct SpanPermit {
    _permit: OwnedSemaphorePermit,
    _user_permit: Permit,
}

/// Maximum number of concurrent checks of new keys' policies; each may take a second. Separate from the work that readers
/// wait for.
const KEY_POLICY_CHECKS: usize = 1;

/// Maximum number of concurrent checks of policies before they, or the model, are stored.
const MODEL_CHECKS: usize = 2;
/// Maximum number of concurrent other tasks with policies for administrators: advice, test runs, viewers of a trace, impact
/// of a change. Separate from storing, because an administrator who revokes access must not wait for these tasks.
const ANALYSES: usize = 2;

/// Maximum number of concurrent scans of the audit log and of the model's history. Each may read the whole table over one of
/// the few connections to the application database, which authentication needs too.
const SCANS: usize = 2;

/// Maximum number of readers' policies that are compiled at the same time: the number of processors, but at least two, so
/// that one large policy does not block all others.
fn compilation() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).max(2)
}

impl Service {
    /// Creates the service, and the keys that replicas share if they do not exist yet.
    ///
    /// # Errors
    /// When a setting is invalid or the application database fails.
    pub async fn new(
        db: AppDb,
        store: ClickHouse,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        settings: Settings,
    ) -> Result<Self, ServiceError> {
        let passwords = Passwords::new(&settings, Arc::clone(&entropy))?;
        let cursors = CursorKey::new(&shared_key(&db, entropy.as_ref(), CURSOR_KEY).await?)?;
        let username_key = UsernameKey::new(&shared_key(&db, entropy.as_ref(), USERNAME_KEY).await?)?;
        let queries = KeyedLimiter::new(settings.max_queries_per_user);
        let last_use_writes = KeyedLimiter::new(Some(1));
        let sign_in_limiter = SignInLimiter::new(settings.max_parallel_hashes);
        let metrics = Metrics::default();
        let inner = Inner {
            db,
            store,
            clock,
            entropy,
            settings,
            passwords,
            cursors,
            username_key,
            queries,
            last_use_writes,
            waiting_records: KeyedLimiter::new(Some(WAITING_RECORDS)),
            sign_in_limiter,
            metrics,
            compiled: Arc::default(),
            compilation: BoundedWork::new(compilation()),
            key_policy_checks: BoundedWork::new(KEY_POLICY_CHECKS),
            model_checks: BoundedWork::new(MODEL_CHECKS),
            analysis: BoundedWork::new(ANALYSES),
            scans: Semaphore::new(SCANS),
            span_permits: Arc::new(Semaphore::new(SPAN_PERMITS)),
            span_permits_by_user: KeyedLimiter::new(Some(SPAN_PERMITS / SHARE_OF_USER)),
            preview_permits: Semaphore::new(PREVIEW_PERMITS),
            advice_permits: Semaphore::new(ADVICE_PERMITS),
            ready: SharedWork::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
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
        let checked = self.inner.ready.run(check).await;
        checked.map_err(|NotReady { reason, log_cause, retry_after_seconds }| ServiceError::NotReady {
            reason,
            log_cause: log_cause.into(),
            retry_after_seconds,
        })
    }

    async fn check_ready(&self) -> Result<(), NotReady> {
        let database_error =
            |error: DbError| NotReady::new("the application database does not answer", error.to_string());
        self.db().ping().await.map_err(database_error)?;
        let model = self.db().current_model().await.map_err(database_error)?.model;
        let ready = self.store().ready(model.binding.as_ref()).await;
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
        Ok(self.db().begin_read().await?.verify_audit(|_, _| ()).await?.err())
    }

    /// Registers the metrics of the service, the application database and ClickHouse.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.metrics().register(registry);
        registry.register_collector(Box::new(PolicyCacheCollector(self.compiled())));
        self.db().register_metrics(registry);
        self.store().register_metrics(registry);
    }

    /// Settings of the service.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn db(&self) -> &AppDb {
        &self.inner.db
    }

    pub(crate) fn store(&self) -> &ClickHouse {
        &self.inner.store
    }

    /// Current time, the default end of a time window.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        self.inner.entropy.as_ref()
    }

    pub(crate) fn passwords(&self) -> &Passwords {
        &self.inner.passwords
    }

    /// Running queries by user.
    pub(crate) fn queries(&self) -> &KeyedLimiter {
        &self.inner.queries
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// Cache of compiled policies.
    pub(crate) fn compiled(&self) -> Arc<CompiledPolicies> {
        Arc::clone(&self.inner.compiled)
    }

    /// Queue of the policy compilation that every read of traces needs.
    pub(crate) fn compilation(&self) -> &BoundedWork {
        &self.inner.compilation
    }

    /// Queue of policy checks that any signed-in user can request.
    pub(crate) fn key_policy_checks(&self) -> &BoundedWork {
        &self.inner.key_policy_checks
    }

    /// Queue of policy checks before something is stored.
    pub(crate) fn model_checks(&self) -> &BoundedWork {
        &self.inner.model_checks
    }

    /// Queue of other work with policies for administrators.
    pub(crate) fn analysis(&self) -> &BoundedWork {
        &self.inner.analysis
    }

    /// Permits to scan the audit log or the model's history.
    pub(crate) fn scans(&self) -> &Semaphore {
        &self.inner.scans
    }

    /// Waits for a permit to hold many whole spans. This replica has a few of them; a waiting call holds few spans yet.
    ///
    /// # Errors
    /// [`ServiceError::TooManyQueries`] if the user already holds their share.
    pub(crate) async fn acquire_span_permit(&self, user: &str) -> Result<SpanPermit, ServiceError> {
        let user_permit =
            self.inner.span_permits_by_user.try_acquire(user).ok_or(ServiceError::TooManyQueries)?;
        let permit = Arc::clone(&self.inner.span_permits).acquire_owned().await;
        let permit = permit.map_err(|error| ServiceError::internal(error.to_string()))?;
        Ok(SpanPermit { _permit: permit, _user_permit: user_permit })
    }

    /// Writes of the last use in progress, by credential.
    pub(crate) fn last_use_writes(&self) -> &KeyedLimiter {
        &self.inner.last_use_writes
    }

    /// Records of denied or failed calls that wait to be written, by user.
    pub(crate) fn waiting_records(&self) -> &KeyedLimiter {
        &self.inner.waiting_records
    }

    /// Sign-ins in progress.
    pub(crate) fn sign_in_limiter(&self) -> &SignInLimiter {
        &self.inner.sign_in_limiter
    }

    /// Permits to count for a preview of a change.
    pub(crate) fn preview_permits(&self) -> &Semaphore {
        &self.inner.preview_permits
    }

    /// Permits to sample recent traces for policy advice.
    pub(crate) fn advice_permits(&self) -> &Semaphore {
        &self.inner.advice_permits
    }

    pub(crate) fn cursors(&self) -> &CursorKey {
        &self.inner.cursors
    }

    pub(crate) fn username_key(&self) -> &UsernameKey {
        &self.inner.username_key
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

/// Runs work that blocks its thread on the blocking thread pool, off the threads that serve requests.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ServiceError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| join_error(&error))
}

/// Omits the join error itself, which quotes the panic message.
fn join_error(error: &JoinError) -> ServiceError {
    ServiceError::internal(if error.is_panic() { "a task panicked" } else { "a task was ended" })
}

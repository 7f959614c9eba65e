//! The service and what it is wired with.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;
use tokio::time::timeout;
use tracewarden_appdb::{AppDb, ChainFault, DbError};
use tracewarden_model::{Clock, Entropy, Timestamp};
use tracewarden_policy::CompiledPolicies;
use tracewarden_tracestore::{SharedWork, StoreError, TraceStore};
use tracing::Instrument as _;

use crate::bounded_work::BoundedWork;
use crate::cursor::CursorKey;
use crate::error::ServiceError;
use crate::log_in_bounds::LogIns;
use crate::metrics::{Metrics, PolicyReuse};
use crate::passwords::Passwords;
use crate::running::{Permit, Running};
use crate::settings::Settings;
use crate::throttle::NameKey;

/// The use cases. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    db: AppDb,
    store: TraceStore,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    settings: Settings,
    passwords: Passwords,
    cursors: CursorKey,
    names: NameKey,
    queries: Running,
    noting: Running,
    waiting_records: Running,
    log_ins: LogIns,
    metrics: Metrics,
    compiled: Arc<CompiledPolicies>,
    deciding: BoundedWork,
    checking: BoundedWork,
    storing: BoundedWork,
    examining: BoundedWork,
    scans: Semaphore,
    holding: Arc<Semaphore>,
    holding_by_user: Running,
    looks: Semaphore,
    advice: Semaphore,
    /// The check that is under way.
    ready: SharedWork<(), NotReady>,
}

/// Does this also when whoever waits for it goes away.
///
/// # Errors
/// Those of the work; an internal one when it panicked.
pub(crate) async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
) -> Result<T, ServiceError> {
    tokio::spawn(work.in_current_span()).await.map_err(|error| ended_early(&error))?
}

/// Why the service cannot serve requests.
#[derive(Debug, Clone)]
struct NotReady {
    /// For everybody.
    reason: &'static str,
    /// Cause for the log.
    inside: String,
    /// Seconds until an endpoint is tried again, where that is known.
    retry_after_seconds: Option<u64>,
}

impl NotReady {
    fn new(reason: &'static str, inside: String) -> Self {
        Self { reason, inside, retry_after_seconds: None }
    }

    /// ClickHouse's codes for a user who is not let in.
    const REFUSED_LOGIN: [i32; 4] = [192, 193, 194, 516];

    fn reason(error: &StoreError) -> &'static str {
        match error {
            StoreError::Unfit(_) => {
                "ClickHouse cannot be used as it is: it is older than 25.8, or a server of its cluster changes what is sent \
                 with a statement; the log says which"
            }
            StoreError::Store { code: Some(code), .. } if Self::REFUSED_LOGIN.contains(code) => {
                "ClickHouse does not let the service's user in"
            }
            error if error.is_quota_exceeded() => "a quota of the service's user in ClickHouse is exhausted",
            StoreError::Unavailable { .. } | StoreError::Timeout(_) => {
                "ClickHouse, or a shard of the bound table, does not answer"
            }
            _ => "ClickHouse does not answer as it should; the log says why",
        }
    }
}

/// Whoever asks whether the service is ready gives up after a few seconds; a query's patience is not theirs.
const READY_PATIENCE: Duration = Duration::from_secs(3);

/// Names under which the own database keeps the keys that all replicas share.
const CURSOR_KEY: &str = "cursor_key";
const LOGIN_NAME_KEY: &str = "login_name_key";

const KEY_BYTES: usize = 32;

/// Previews of a change that this replica counts at the same time.
const LOOKS: usize = 2;
/// Looks at recent traces, for advice, that it takes at the same time. They are not the same as those: advice has seconds,
/// within which a preview that may take a minute would not be over.
const ADVICE: usize = 2;

/// Calls that hold many whole spans for an answer made of them, which takes several times their size: up to some 100 MiB each.
const HOLDING: usize = 8;
/// One user has at most one of so many of them.
const SHARE_OF_USER: usize = 2;

/// Records of what was refused to one user that wait at the same time. They do also when nobody waits for the answer, so that
/// connections do not bound them.
const WAITING_RECORDS: usize = 100;

/// The leave to hold many spans, given back when it is dropped.
pub(crate) struct Leave {
    _leave: OwnedSemaphorePermit,
    _of_user: Permit,
}

/// Policies of new keys that are checked at the same time, beside what readers wait for: each may take a second.
const CHECKING: usize = 1;

/// Checks of policies before they, or the model, are stored, at the same time.
const STORING: usize = 2;
/// Other work with policies for administrators at the same time: advice, trials, who sees a trace, whom a change touches. Whoever
/// takes away a right must not wait for it.
const EXAMINING: usize = 2;

/// Reads of the audit log and of the model's history at the same time: each may look at all of it, with one of the few connections
/// to the own database, through which everybody else is authenticated.
const SCANS: usize = 2;

/// How many readers' policies are compiled at the same time: as many as there are processors, and two where there is one, so
/// that a large one does not stand before all others.
fn deciding() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).max(2)
}

impl Service {
    /// Wires the service; makes the keys that replicas share if none has yet.
    ///
    /// # Errors
    /// When a setting is not acceptable or the own database fails.
    pub async fn new(
        db: AppDb,
        store: TraceStore,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        settings: Settings,
    ) -> Result<Self, ServiceError> {
        let passwords = Passwords::new(&settings, Arc::clone(&entropy))?;
        let cursors = CursorKey::new(&shared_key(&db, entropy.as_ref(), CURSOR_KEY).await?)?;
        let names = NameKey::new(&shared_key(&db, entropy.as_ref(), LOGIN_NAME_KEY).await?)?;
        let queries = Running::new(settings.max_queries_per_user);
        let noting = Running::new(Some(1));
        let log_ins = LogIns::new(settings.max_parallel_hashes);
        let metrics = Metrics::default();
        let inner = Inner {
            db,
            store,
            clock,
            entropy,
            settings,
            passwords,
            cursors,
            names,
            queries,
            noting,
            waiting_records: Running::new(Some(WAITING_RECORDS)),
            log_ins,
            metrics,
            compiled: Arc::default(),
            deciding: BoundedWork::new(deciding()),
            checking: BoundedWork::new(CHECKING),
            storing: BoundedWork::new(STORING),
            examining: BoundedWork::new(EXAMINING),
            scans: Semaphore::new(SCANS),
            holding: Arc::new(Semaphore::new(HOLDING)),
            holding_by_user: Running::new(Some(HOLDING / SHARE_OF_USER)),
            looks: Semaphore::new(LOOKS),
            advice: Semaphore::new(ADVICE),
            ready: SharedWork::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether the application database and ClickHouse can serve requests, within [`READY_PATIENCE`]: the server lets the service's
    /// user in and is of a supported version, and every shard of the bound table answers. Everybody who asks while a check is
    /// under way gets its result: anonymous callers may ask, and each check is several statements.
    ///
    /// # Errors
    /// [`ServiceError::NotReady`].
    pub async fn ready(&self) -> Result<(), ServiceError> {
        let service = self.clone();
        let check = Box::pin(async move {
            let late = |_| NotReady::new("no answer came in time", "no answer in time".to_owned());
            timeout(READY_PATIENCE, service.check_ready()).await.map_err(late)?
        });
        let checked = self.inner.ready.run(check).await;
        checked.map_err(|NotReady { reason, inside, retry_after_seconds }| ServiceError::NotReady {
            reason,
            inside: inside.into(),
            retry_after_seconds,
        })
    }

    async fn check_ready(&self) -> Result<(), NotReady> {
        let of_database =
            |error: DbError| NotReady::new("the application database does not answer", error.to_string());
        self.db().ping().await.map_err(of_database)?;
        let model = self.db().current_model().await.map_err(of_database)?.model;
        let ready = self.store().ready(model.binding.as_ref()).await;
        ready.map_err(|error| NotReady {
            retry_after_seconds: match &error {
                StoreError::Unavailable { retry_after_seconds, .. } => Some(*retry_after_seconds),
                _ => None,
            },
            ..NotReady::new(NotReady::reason(&error), error.to_string())
        })
    }

    /// Checks the audit log's hash chain; the first fault, if any.
    ///
    /// # Errors
    /// When the own database fails.
    pub async fn verify_audit(&self) -> Result<Option<ChainFault>, ServiceError> {
        Ok(self.db().begin_read().await?.verify_audit(|_, _| ()).await?.err())
    }

    /// Names the counts of the service, its own database and its trace store in a registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.metrics().register(registry);
        registry.register_collector(Box::new(PolicyReuse(self.compiled())));
        self.db().register_metrics(registry);
        self.store().register_metrics(registry);
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn db(&self) -> &AppDb {
        &self.inner.db
    }

    pub(crate) fn store(&self) -> &TraceStore {
        &self.inner.store
    }

    /// The time, which windows end at when nothing else is said.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        self.inner.entropy.as_ref()
    }

    pub(crate) fn passwords(&self) -> &Passwords {
        &self.inner.passwords
    }

    /// Queries that run, by user.
    pub(crate) fn queries(&self) -> &Running {
        &self.inner.queries
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// Policies that were compiled before.
    pub(crate) fn compiled(&self) -> Arc<CompiledPolicies> {
        Arc::clone(&self.inner.compiled)
    }

    /// The work with policies that every read of traces begins with.
    pub(crate) fn deciding(&self) -> &BoundedWork {
        &self.inner.deciding
    }

    /// Checks of policies that anybody who may log in can send.
    pub(crate) fn checking(&self) -> &BoundedWork {
        &self.inner.checking
    }

    /// Checks of policies before something is stored.
    pub(crate) fn storing(&self) -> &BoundedWork {
        &self.inner.storing
    }

    /// Other work with policies that an administrator asked for.
    pub(crate) fn examining(&self) -> &BoundedWork {
        &self.inner.examining
    }

    /// The leave to look through the audit log or the model's history.
    pub(crate) fn scans(&self) -> &Semaphore {
        &self.inner.scans
    }

    /// The leave to hold many whole spans, of which this replica gives a few at a time; whoever waits for it holds few yet.
    ///
    /// # Errors
    /// [`ServiceError::TooManyQueries`] where the user has their share.
    pub(crate) async fn leave_to_hold_spans(&self, user: &str) -> Result<Leave, ServiceError> {
        let of_user = self.inner.holding_by_user.admit(user).ok_or(ServiceError::TooManyQueries)?;
        let leave = Arc::clone(&self.inner.holding).acquire_owned().await;
        let leave = leave.map_err(|error| ServiceError::internal(error.to_string()))?;
        Ok(Leave { _leave: leave, _of_user: of_user })
    }

    /// Last uses that are being written, by credential.
    pub(crate) fn noting(&self) -> &Running {
        &self.inner.noting
    }

    /// Records of what was refused that wait to be written, by user.
    pub(crate) fn waiting_records(&self) -> &Running {
        &self.inner.waiting_records
    }

    /// Log-ins under way.
    pub(crate) fn log_ins(&self) -> &LogIns {
        &self.inner.log_ins
    }

    /// The leave to count for a preview of a change.
    pub(crate) fn looks(&self) -> &Semaphore {
        &self.inner.looks
    }

    /// The leave to look at recent traces for advice.
    pub(crate) fn advice_looks(&self) -> &Semaphore {
        &self.inner.advice
    }

    pub(crate) fn cursors(&self) -> &CursorKey {
        &self.inner.cursors
    }

    pub(crate) fn names(&self) -> &NameKey {
        &self.inner.names
    }
}

/// The key of this name; made now if no replica has yet.
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

/// Runs work that keeps a thread busy off the threads that serve requests.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ServiceError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ended_early(&error))
}

/// Not the error itself, which quotes the panic.
fn ended_early(error: &JoinError) -> ServiceError {
    ServiceError::internal(if error.is_panic() { "a task panicked" } else { "a task was ended" })
}

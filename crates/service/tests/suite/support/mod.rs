//! Test fixture: a service on a real application database and a fake ClickHouse server with configurable answers, with
//! deterministic time and entropy.

#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use secrecy::ExposeSecret as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tracewarden_clickhouse::ClickHouseConfig;
use tracewarden_model::ambient::EntropyError;
use tracewarden_model::{AttributeValue, Binding, Clock, Display, Entropy, Timestamp};
use tracewarden_service::*;
use tracewarden_testkit::wait::until;

pub use store::{FakeStore, Gate};

pub const SECOND: i64 = 1_000_000_000;

pub struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

impl ManualClock {
    /// Returns a clock that is so many seconds ahead of this one.
    pub fn ahead(&self, seconds: i64) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(self.0.load(Ordering::SeqCst) + seconds * SECOND)))
    }

    pub fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds * SECOND, Ordering::SeqCst);
    }
}

/// SHA-256 of a counter: random enough for every use, and the same in every run.
#[derive(Default)]
struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        for chunk in bytes.chunks_mut(32) {
            let block = Sha256::digest(self.0.fetch_add(1, Ordering::SeqCst).to_be_bytes());
            chunk.copy_from_slice(&block[..chunk.len()]);
        }
        Ok(())
    }
}

/// Steps that the transports make one by one.
pub trait CoreSteps {
    async fn authenticate(
        &self,
        credential: &Credential,
        info: RequestInfo,
    ) -> Result<Principal, ServiceError>;
}

impl CoreSteps for Core {
    async fn authenticate(
        &self,
        credential: &Credential,
        info: RequestInfo,
    ) -> Result<Principal, ServiceError> {
        self.identify(credential, info).await?.into_principal()
    }
}

/// Steps that the transports make one by one.
pub trait TracesSteps {
    async fn query(&self, principal: &Principal, request: QueryRequest) -> Result<QueryAnswer, ServiceError>;
}

impl TracesSteps for Traces {
    async fn query(&self, principal: &Principal, request: QueryRequest) -> Result<QueryAnswer, ServiceError> {
        self.begin_query(principal, request).await?.run(None).await.map(|(answer, _)| answer)
    }
}

/// Accepts the generated password of the first start, for tests that do not need it.
pub fn accept_password(_: &Secret) -> Result<(), String> {
    Ok(())
}

pub struct Fixture {
    pub service: Service,
    pub db: AppDb,
    pub clock: Arc<ManualClock>,
    pub store: FakeStore,
    pub url: String,
    directory: tempfile::TempDir,
    server: Option<tracewarden_testkit::postgres::Database>,
}

/// Kind of the application database.
#[derive(Debug, Clone, Copy)]
pub enum DatabaseKind {
    Sqlite,
    Postgresql,
}

/// Runs each named test on both databases.
macro_rules! on_both_databases {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[tokio::test]
            async fn on_sqlite() {
                super::$name(super::DatabaseKind::Sqlite).await;
            }

            #[tokio::test]
            async fn on_postgresql() {
                super::$name(super::DatabaseKind::Postgresql).await;
            }
        })*
    };
}

static ENTROPY: LazyLock<Arc<CountingEntropy>> = LazyLock::new(Arc::default);

pub async fn fixture() -> Fixture {
    fixture_with(Settings::default()).await
}

pub async fn fixture_with(settings: Settings) -> Fixture {
    fixture_on(DatabaseKind::Sqlite, settings).await
}

pub async fn fixture_on(kind: DatabaseKind, settings: Settings) -> Fixture {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let server = match kind {
        DatabaseKind::Sqlite => None,
        DatabaseKind::Postgresql => Some(tracewarden_testkit::postgres::database().unwrap()),
    };
    let url = match &server {
        None => format!("sqlite:{}", directory.path().join("own.db").display()),
        Some(database) => database.url(),
    };
    let clock = Arc::new(ManualClock(AtomicI64::new(1_795_246_406 * SECOND)));
    let store = FakeStore::start().await;
    let db = AppDb::open(&url, clock.now()).await.unwrap();
    let service = replica(&db, &clock, &store, settings).await;
    Fixture { service, db, clock, store, url, directory, server }
}

pub async fn replica(db: &AppDb, clock: &Arc<ManualClock>, store: &FakeStore, settings: Settings) -> Service {
    let config = ClickHouseConfig {
        endpoints: vec![store.address.clone()],
        user: "reader".to_owned(),
        password: "".into(),
        max_execution_time_seconds: 10,
        max_memory_bytes: 1 << 30,
        max_threads: None,
        answer_timeout_seconds: 600,
        max_trace_duration_nanos: Some(3_600 * SECOND),
    };
    let entropy: Arc<dyn Entropy> = ENTROPY.clone();
    let clickhouse = ClickHouse::new(config, Arc::clone(&entropy)).unwrap();
    Service::new(db.clone(), clickhouse, clock.clone(), entropy, settings).await.unwrap()
}

pub fn from_address(address: &str) -> RequestInfo {
    RequestInfo {
        request_id: "req-1".to_owned(),
        client_ip: Some(address.parse::<IpAddr>().unwrap()),
        user_agent: Some("test\u{1b}[31m".to_owned()),
        via: Transport::Rest,
        tool_call: None,
    }
}

pub fn info() -> RequestInfo {
    from_address("192.0.2.1")
}

pub fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub fn team(team: &str) -> BTreeMap<String, AttributeValue> {
    BTreeMap::from([("team".to_owned(), AttributeValue::String(team.to_owned()))])
}

pub fn policy(expression: &str) -> Policy {
    Policy { title: "a policy".to_owned(), expression: expression.to_owned(), description: None }
}

pub fn otel_binding() -> Binding {
    Binding {
        database: "otel".to_owned(),
        table: "otel_traces".to_owned(),
        trace_id: "TraceId".to_owned(),
        span_id: "SpanId".to_owned(),
        timestamp: "Timestamp".to_owned(),
        parent_span_id: "ParentSpanId".to_owned(),
        trace_index: None,
        display: Display::default(),
        ..Binding::default()
    }
}

pub fn mark(map: Option<&str>, name: &str, filterable: bool, policy: bool) -> FieldMark {
    FieldMark {
        map: map.map(str::to_owned),
        name: name.to_owned(),
        logical: None,
        filterable,
        policy: Some(policy),
        column: None,
    }
}

pub const ADMIN_PASSWORD: &str = "quite a long secret";

/// Write transaction of another replica, which all other writers wait for.
pub struct OtherWriter<Tx = tracewarden_appdb::WriteTx> {
    pub tx: Tx,
    /// Connection that observes the waiting writers, on PostgreSQL.
    observer: Option<tokio::sync::Mutex<sqlx::AnyConnection>>,
}

impl<Tx> OtherWriter<Tx> {
    /// Returns as soon as so many writers wait for this one, each in another replica. On PostgreSQL they give up after two
    /// seconds, so a test must not wait longer than necessary. SQLite cannot show waiting writers: the method waits one of
    /// their five seconds.
    pub async fn wait_for_waiting_writers(&self, waiters: i64) {
        const WAITING: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
                               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let Some(observer) = &self.observer else { return tokio::time::sleep(Duration::from_secs(1)).await };
        let seen = async || {
            let row = sqlx::query(WAITING).fetch_one(&mut *observer.lock().await).await.unwrap();
            sqlx::Row::get::<i64, _>(&row, 0)
        };
        until(seen, |seen| *seen == waiters).await;
    }
}

impl Fixture {
    /// Opens another replica on the same database, with its own connections.
    pub async fn replica(&self, settings: Settings) -> Service {
        let db = AppDb::open(&self.url, self.clock.now()).await.unwrap();
        replica(&db, &self.clock, &self.store, settings).await
    }

    /// Begins a write transaction of another replica.
    pub async fn other_writer(&self) -> OtherWriter {
        let db = AppDb::open(&self.url, self.clock.now()).await.unwrap();
        OtherWriter { tx: db.begin_write().await.unwrap(), observer: self.observer().await }
    }

    /// Begins a transaction of another replica that only appends.
    pub async fn other_appender(&self) -> OtherWriter<tracewarden_appdb::AppendTx> {
        let db = AppDb::open(&self.url, self.clock.now()).await.unwrap();
        OtherWriter { tx: db.begin_append().await.unwrap(), observer: self.observer().await }
    }

    async fn observer(&self) -> Option<tokio::sync::Mutex<sqlx::AnyConnection>> {
        self.server.as_ref()?;
        let observer = <sqlx::AnyConnection as sqlx::Connection>::connect(&self.url).await.unwrap();
        Some(tokio::sync::Mutex::new(observer))
    }

    /// Opens another replica whose clock is ahead by so many seconds, or behind.
    pub async fn replica_ahead(&self, seconds: i64) -> Service {
        let db = AppDb::open(&self.url, self.clock.now()).await.unwrap();
        replica(&db, &self.clock.ahead(seconds), &self.store, Settings::default()).await
    }

    /// Creates another session of the administrator.
    pub async fn second_session(&self) -> (Credential, Principal) {
        let session = self.sign_in("admin", ADMIN_PASSWORD).await.unwrap();
        let principal = self.principal(&session).await;
        (session, principal)
    }

    pub async fn sign_in(&self, username: &str, password: &str) -> Result<Credential, ServiceError> {
        self.sign_in_from(username, password, "192.0.2.1").await
    }

    pub async fn sign_in_from(
        &self,
        username: &str,
        password: &str,
        address: &str,
    ) -> Result<Credential, ServiceError> {
        let credentials =
            PasswordCredentials { username: username.to_owned(), password: password.to_owned().into() };
        self.service
            .account()
            .sign_in(credentials, from_address(address))
            .await
            .map(|done| Credential::Session(done.token))
    }

    pub async fn principal(&self, credential: &Credential) -> Principal {
        self.service.core().authenticate(credential, info()).await.unwrap()
    }

    /// Creates the first administrator, with [`ADMIN_PASSWORD`].
    pub async fn admin(&self) -> Principal {
        let settings = AdminSettings { username: "admin".to_owned(), password_hash: None };
        let Bootstrap::Created { password: Some(password), .. } =
            self.service.bootstrap(settings, accept_password).await.unwrap()
        else {
            panic!("the first start creates the administrator");
        };
        self.replace_initial_password("admin", password.expose_secret(), ADMIN_PASSWORD).await
    }

    /// Signs in with a generated password and replaces it.
    pub async fn replace_initial_password(
        &self,
        username: &str,
        generated: &str,
        password: &str,
    ) -> Principal {
        let credential = self.sign_in(username, generated).await.unwrap();
        let identity = self.service.core().identify(&credential, info()).await.unwrap();
        let (old, new) = (generated.to_owned().into(), password.to_owned().into());
        self.service.account().change_password(&identity, old, new).await.unwrap();
        self.principal(&credential).await
    }

    /// Creates a user with [`USER_PASSWORD`] and no pending password change.
    pub async fn user(&self, admin: &Principal, username: &str, roles: &[&str]) -> Principal {
        let new = NewUser {
            username: username.to_owned(),
            roles: set(roles),
            attributes: team("payments"),
            ..NewUser::default()
        };
        let created = self.service.users().create_user(&admin.require_admin().unwrap(), new).await.unwrap();
        self.replace_initial_password(
            username,
            created.initial_password.as_ref().unwrap().expose_secret(),
            USER_PASSWORD,
        )
        .await
    }

    pub async fn api_key(&self, principal: &Principal) -> Credential {
        let new = NewApiKey { name: "ci".to_owned(), expires_at: None, policy: None, tools: None };
        Credential::ApiKey(self.service.account().create_api_key(principal, new).await.unwrap().token)
    }

    /// Binds the usual table and marks some of its fields.
    pub async fn bind(&self, admin: &Principal) {
        let admin = admin.require_admin().unwrap();
        self.service.source().put_binding(&admin, otel_binding(), None).await.unwrap();
        let marks = vec![
            mark(None, "ServiceName", true, true),
            mark(Some("SpanAttributes"), "tenant.id", false, true),
            mark(None, "Duration", true, false),
        ];
        self.service
            .source()
            .put_fields(&admin, marks, Some(tracewarden_service::IfMatch::Versions(vec![1])))
            .await
            .unwrap();
    }

    pub async fn audit(&self, admin: &Principal) -> Vec<Entry> {
        let query = AuditQuery { limit: Some(500), ..AuditQuery::default() };
        let page = self.service.audit_log().page(&admin.require_admin().unwrap(), query).await.unwrap();
        let mut tx = self.db.begin_read().await.unwrap();
        let verified = tx.verify_audit(|_, _| ()).await.unwrap();
        assert_eq!(verified.err(), None, "the hash chain is valid");
        page.records.into_iter().map(Entry::new).collect()
    }

    /// Waits until there are `more` entries in addition to `before`, and returns the new ones, newest first.
    pub async fn wait_for_new_records(&self, admin: &Principal, before: usize, more: usize) -> Vec<Entry> {
        let records = async || self.audit(admin).await;
        let mut records = until(records, |records| records.len() >= before + more).await;
        records.truncate(records.len() - before);
        records
    }

    pub async fn last_audit(&self, admin: &Principal) -> Entry {
        self.audit(admin).await.remove(0)
    }
}

/// Audit entry whose detail is parsed.
#[derive(Debug, Clone)]
pub struct Entry {
    entry: AuditEntry,
    pub detail: Value,
}

impl Entry {
    pub fn new(entry: AuditEntry) -> Self {
        Self { detail: serde_json::to_value(&entry.detail).unwrap(), entry }
    }
}

impl Deref for Entry {
    type Target = AuditEntry;
    fn deref(&self) -> &AuditEntry {
        &self.entry
    }
}

pub const USER_PASSWORD: &str = "another long secret";

pub fn code<T: std::fmt::Debug>(result: Result<T, ServiceError>) -> &'static str {
    result.unwrap_err().code()
}

pub fn pointers<T: std::fmt::Debug>(result: Result<T, ServiceError>) -> Vec<(String, &'static str)> {
    let error = result.unwrap_err();
    error.errors().iter().map(|error| (error.pointer.clone(), error.code)).collect()
}

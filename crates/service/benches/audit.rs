//! Measures how many reads of traces a second begin and complete their audit records: in process, without ClickHouse, by callers
//! without roles. Prints a table. Run it with `cargo xtask bench audit`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;
use tracewarden_appdb::{AppDb, AuditFilter, PasswordHash, Session, TokenDigest, User};
use tracewarden_clickhouse::{ClickHouse, ClickHouseConfig};
use tracewarden_model::ambient::EntropyError;
use tracewarden_model::{
    AccessModel, Binding, Clock, ColumnType, Entropy, FieldRef, FieldSource, LogicalType, MarkedField,
    Timestamp,
};
use tracewarden_service::{
    Credential, FieldValuesRequest, Principal, RequestInfo, Service, Settings, Transport,
};
use tracewarden_testkit::postgres::Server;

const CALLERS: usize = 64;
const ROUND_DURATION: Duration = Duration::from_secs(5);
const ROUNDS: usize = 3;

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "a benchmark runs at the real time")]
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
    }
}

/// A counter is random enough here.
#[derive(Default)]
struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        for chunk in bytes.chunks_mut(32) {
            let block = Sha256::digest(self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes());
            chunk.iter_mut().zip(block).for_each(|(byte, random)| *byte = random);
        }
        Ok(())
    }
}

/// A replica with its own connections, and the callers who send their requests to it.
struct Replica {
    db: AppDb,
    service: Service,
    callers: Vec<Principal>,
}

/// What the callers do.
#[derive(Clone, Copy)]
enum Work {
    Read,
    LookUp,
}

/// Rate and duration of one kind of work.
struct Measurement {
    per_second: f64,
    median: Duration,
    p99: Duration,
}

#[tokio::main]
async fn main() -> Result<()> {
    println!(
        "| database | replicas | callers | reads a second | median | p99 | look-ups a second | reads to look-ups | commits a second |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let directory = tempfile::tempdir()?;
    let sqlite = format!("sqlite:{}", directory.path().join("own.db").display());
    report("SQLite", &sqlite, 1).await?;
    let server = Server::start_durable().map_err(anyhow::Error::msg)?;
    for replicas in [1, 2] {
        let database = server.database().map_err(anyhow::Error::msg)?;
        report("PostgreSQL", &database.url(), replicas).await?;
    }
    Ok(())
}

async fn report(name: &str, url: &str, replicas: usize) -> Result<()> {
    fill(url).await?;
    let mut all = Vec::new();
    for number in 0..replicas {
        all.push(Replica::start(url, (number..CALLERS).step_by(replicas)).await?);
    }
    let all = Arc::new(all);
    let (mut reads, mut lookups) = (Vec::new(), Vec::new());
    let commits = commits_a_second(&all).await?;
    // Alternating, because the machine has slow and fast minutes.
    for _ in 0..ROUNDS {
        reads.push(measure(&all, Work::Read).await?);
        lookups.push(measure(&all, Work::LookUp).await?);
    }
    let (reads, lookups) = (median(reads), median(lookups));
    let mut tx = all.first().context("no replica")?.db.begin_read().await?;
    let verified = tx.verify_audit(|_, _| ()).await?;
    let records = verified.map_err(|fault| anyhow!("the audit log is broken: {fault:?}"))?.records;
    let open = AuditFilter { outcome: Some("unknown"), ..AuditFilter::default() };
    ensure!(tx.audit_records(&open, 1).await?.is_empty(), "a record of {records} was not completed");
    let ratio = reads.per_second / lookups.per_second;
    println!(
        "| {name} | {replicas} | {CALLERS} | {:.0} | {:.1} ms | {:.1} ms | {:.0} | {ratio:.2} | {commits:.0} |",
        reads.per_second,
        reads.median.as_secs_f64() * 1e3,
        reads.p99.as_secs_f64() * 1e3,
        lookups.per_second,
    );
    Ok(())
}

/// Begins and completes a read.
async fn read(replica: &Replica, caller: &Principal) -> Result<()> {
    let request = FieldValuesRequest { reference: "ServiceName".to_owned(), ..FieldValuesRequest::default() };
    let answer = replica.service.traces().field_values(caller, request).await?;
    ensure!(answer.complete && answer.values.is_empty(), "a caller without roles found traces");
    Ok(())
}

/// Reads the inputs of a decision, with the same statements as a read.
async fn look_up(replica: &Replica, caller: &Principal) -> Result<()> {
    let mut tx = replica.db.begin_read().await?;
    tx.session_by_id(caller.credential_id()).await?.context("no session")?;
    let user = tx.user_by_id(caller.user_id()).await?.context("no user")?;
    tx.roles_named(&user.roles).await?;
    tx.current_model().await?;
    Ok(())
}

/// Commits of one writer after another: the limit of what one record per transaction permits.
async fn commits_a_second(replicas: &[Replica]) -> Result<f64> {
    let db = &replicas.first().context("no replica")?.db;
    let (begun, mut count) = (Instant::now(), 0_u32);
    while begun.elapsed() < ROUND_DURATION / 5 {
        let mut tx = db.begin_append().await?;
        tx.touch_session("s0", SystemClock.now()).await?;
        tx.commit().await?;
        count += 1;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

async fn measure(replicas: &Arc<Vec<Replica>>, work: Work) -> Result<Measurement> {
    let (is_over, begun) = (Arc::new(AtomicBool::new(false)), Instant::now());
    let mut tasks = JoinSet::new();
    for (at, replica) in replicas.iter().enumerate() {
        for caller in replica.callers.clone() {
            let (replicas, is_over) = (Arc::clone(replicas), Arc::clone(&is_over));
            tasks.spawn(async move {
                let replica = replicas.get(at).context("no replica")?;
                let mut times = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let since = Instant::now();
                    match work {
                        Work::Read => read(replica, &caller).await?,
                        Work::LookUp => look_up(replica, &caller).await?,
                    }
                    times.push(since.elapsed());
                    is_over.fetch_or(begun.elapsed() > ROUND_DURATION, Ordering::Relaxed);
                }
                Ok::<_, anyhow::Error>(times)
            });
        }
    }
    let times = tasks.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    let elapsed = begun.elapsed().as_secs_f64();
    let mut times: Vec<Duration> = times.into_iter().flatten().collect();
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let per_second = times.len() as f64 / elapsed;
    Ok(Measurement { per_second, median: at(50), p99: at(99) })
}

/// Returns the round with the median rate.
fn median(mut rounds: Vec<Measurement>) -> Measurement {
    rounds.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
    rounds.swap_remove(rounds.len() / 2)
}

/// Stores a binding, and a user with a session for each caller.
async fn fill(url: &str) -> Result<()> {
    let now = SystemClock.now();
    let db = AppDb::open(url, now).await?;
    let binding = Binding {
        database: "otel".to_owned(),
        table: "otel_traces".to_owned(),
        trace_id: "TraceId".to_owned(),
        span_id: "SpanId".to_owned(),
        timestamp: "Timestamp".to_owned(),
        parent_span_id: "ParentSpanId".to_owned(),
        ..Binding::default()
    };
    let field = MarkedField {
        field: FieldRef::column("ServiceName"),
        source: FieldSource::Column,
        logical: LogicalType::String,
        column_type: ColumnType::STRING,
        filterable: true,
        policy: true,
        column: None,
    };
    let model = AccessModel { version: 1, binding: Some(binding), fields: vec![field] };
    let mut tx = db.begin_write().await?;
    tx.insert_access_model(&model, now, ("u0", "user0")).await?;
    for number in 0..CALLERS {
        let user = User {
            id: format!("u{number}"),
            username: format!("user{number}"),
            password_hash: PasswordHash("$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaA".to_owned()),
            must_change_password: false,
            disabled: false,
            created_at: now,
            last_login_at: None,
            attributes: [].into(),
            roles: [].into(),
            identity: None,
            service: None,
        };
        tx.insert_user(&user).await?;
        let session = Session {
            id: format!("s{number}"),
            user_id: user.id,
            created_at: now,
            last_seen_at: now,
            client_ip: None,
            user_agent: None,
            preview: None,
            provider: None,
            provider_session: None,
        };
        tx.insert_session(&session, TokenDigest(Sha256::digest(token(number)).into())).await?;
    }
    tx.commit().await?;
    db.close().await;
    Ok(())
}

fn token(number: usize) -> String {
    format!("token of caller {number}")
}

impl Replica {
    async fn start(url: &str, callers: impl Iterator<Item = usize>) -> Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let db = AppDb::open(url, SystemClock.now()).await?;
        let entropy: Arc<dyn Entropy> = Arc::new(CountingEntropy::default());
        let config = ClickHouseConfig {
            // Never reached.
            endpoints: vec!["http://127.0.0.1:9".to_owned()],
            user: "reader".to_owned(),
            password: "".into(),
            max_execution_time_seconds: 10,
            max_memory_bytes: 1 << 30,
            max_threads: None,
            answer_timeout_seconds: 600,
            max_trace_duration_nanos: None,
        };
        let clickhouse = ClickHouse::new(config, Arc::clone(&entropy))?;
        let service =
            Service::new(db.clone(), clickhouse, Arc::new(SystemClock), entropy, Settings::default()).await?;
        let info = RequestInfo {
            request_id: "5b3f7c0d9a1e4f62".to_owned(),
            client_ip: Some([192, 0, 2, 1].into()),
            user_agent: Some("bench".to_owned()),
            via: Transport::Rest,
            tool_call: None,
        };
        let mut principals = Vec::new();
        for number in callers {
            let credential = Credential::Session(token(number).into());
            principals.push(service.core().identify(&credential, info.clone()).await?.into_principal()?);
        }
        Ok(Self { db, service, callers: principals })
    }
}

//! ClickHouse's HTTP protocol, as far as reading needs it. A statement goes to one endpoint, and to another one when
//! the first is at fault.

pub(crate) mod answer;
pub(crate) mod answer_memory;
mod capabilities;
#[cfg(test)]
mod failover;
mod failure;
mod pool;
pub(crate) mod quota;
mod request;
mod tries;

use std::collections::BTreeSet;
use std::sync::{Arc, Once, Weak};
use std::time::{Duration, Instant};

use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use tracewarden_model::Entropy;
use url::Url;

pub(crate) use answer::Answer;
pub(crate) use failure::FailureKind;

use crate::cost::{Cost, Meter};
use crate::metrics::{Measured, Metrics};
use crate::settings::{Bounds, READONLY_OF_PROFILE, names};
use crate::sql::Statement;
use crate::{StoreConfig, StoreError};
use answer::{MAX_COLLECTED_BYTES, QueryResponse};
use failure::AttemptError;
use pool::{Pool, Session, pause};
use request::{QueryRequest, SettingsMode};
use tries::Tries;

/// Time-out for connecting. It is long enough to recover from one lost packet.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long idle connections are kept. Every version of ClickHouse keeps them longer: a statement that is sent while
/// the server closes its connection is lost.
const IDLE: Duration = Duration::from_millis(2_500);
/// How much longer than its time limit the client waits for an answer. ClickHouse enforces the limit itself and reports
/// it, but checks the clock only between blocks. When the client then disconnects, ClickHouse ends the statement.
const GRACE: Duration = Duration::from_secs(1);
/// Silence after which an endpoint gets a health check. A slow statement is silent, too: the client gives up only a
/// server that does not answer the health check either.
const SILENCE: Duration = Duration::from_secs(3);
/// Time-out of a health check of an endpoint that has a statement.
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between health checks where there are several endpoints, whether or not an endpoint has statements. An
/// endpoint that falls silent gets no new statements within a second.
const WATCH_PAUSE: Duration = Duration::from_millis(200);
/// Time-out of such a health check.
const WATCH_TIMEOUT: Duration = Duration::from_millis(750);
/// Number of consecutive health checks that have to fail.
const PINGS: u32 = 2;
/// Maximum number of endpoints that may be lost while they have one statement. With more, a statement that crashes
/// servers could take down a large cluster. Endpoints that refuse the statement before they begin it are not counted.
const ATTEMPTS_MAX: usize = 4;
/// How often a statement is sent to an endpoint that refuses the settings with it: `readonly`, and those that it lacks.
const SETTINGS_MAX: usize = 3;
/// Time limit of the statement that checks whether an endpoint is healthy again, in seconds.
const PROBE_SECONDS: u32 = 3;

/// Format of answers that are collected: one JSON document, with the rows as arrays and the number of rows after them.
const COLLECTED: &str = "JSONCompact";

/// Sends statements to the configured endpoints. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    shared: Arc<Shared>,
    bounds: Bounds,
    /// Without a session, each statement goes to the first endpoint that works.
    session: Option<Session>,
    /// The only endpoint that gets statements, even when it is unhealthy.
    only: Option<usize>,
    /// Adds up the cost of statements, if a caller wants to know it.
    meter: Option<Arc<Meter>>,
}

/// Result of a health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Lives,
    /// It answers with a gateway error, or closes the connection.
    Fails,
    Silent,
}

struct Shared {
    http: reqwest::Client,
    pool: Pool,
    metrics: Metrics,
    config: Arc<StoreConfig>,
    entropy: Arc<dyn Entropy>,
    /// Started with the first statement, when a runtime exists to run it.
    watch: Once,
}

impl Client {
    pub(crate) fn new(config: Arc<StoreConfig>, entropy: Arc<dyn Entropy>) -> Result<Self, StoreError> {
        let urls: Vec<Url> = config
            .endpoints
            .iter()
            .map(|endpoint| {
                Url::parse(endpoint)
                    .map_err(|error| StoreError::Internal(format!("`{endpoint}` is not an address: {error}")))
            })
            .collect::<Result<_, _>>()?;
        let pool = Pool::new(urls)?;
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| StoreError::Internal(format!("no HTTP client: {error}")))?;
        let metrics = Metrics::of(pool.names());
        let bounds = Bounds::of(&config);
        let shared = Arc::new(Shared { http, pool, metrics, config, entropy, watch: Once::new() });
        Ok(Self { shared, bounds, session: None, only: None, meter: None })
    }

    /// Registers the metrics in a registry.
    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        self.shared.metrics.register(registry);
    }

    /// Sends a statement whose answer is streamed. Returns when the first bytes of the answer are here.
    pub(crate) async fn send(&self, statement: Statement, format: &str) -> Result<Answer, StoreError> {
        let begun = Instant::now();
        let mut measured = self.shared.metrics.begin();
        let sent = SettingsMode::Settings(self.bounds.while_read(&self.shared.config));
        let query = QueryRequest { statement: &statement, format, sent, whole: false };
        let work = self.bounds.time();
        match Box::pin(self.deliver(&query, begun + work)).await {
            Ok((endpoint, response)) => {
                let work = work.saturating_sub(begun.elapsed());
                let longest = self.bounds.while_read(&self.shared.config).time();
                let until = begun + longest;
                Ok(Answer { response, measured, client: self.clone(), endpoint, work, until })
            }
            Err(error) => {
                measured.failed(&error);
                Err(error)
            }
        }
    }

    /// Returns all rows of a small answer, each a JSON array.
    pub(crate) async fn rows<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: Statement,
    ) -> Result<Vec<T>, StoreError> {
        self.rows_within(statement, MAX_COLLECTED_BYTES).await
    }

    /// Like [`Self::rows`], with a maximum size of the answer in bytes; [`StoreError::TooLarge`] above it.
    pub(crate) async fn rows_within<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: Statement,
        bytes: usize,
    ) -> Result<Vec<T>, StoreError> {
        self.collect(&statement, SettingsMode::Settings(self.bounds), bytes).await
    }

    /// Returns all rows of a small answer to a statement that reads the user's own profile. It sends only the settings
    /// without which the answer could be cut, and none that the statement asks the profile about. Never for span data.
    pub(crate) async fn rows_of_profile<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: &str,
    ) -> Result<Vec<T>, StoreError> {
        self.collect(&Statement::new(statement), SettingsMode::Needed, MAX_COLLECTED_BYTES).await
    }

    async fn collect<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: &Statement,
        sent: SettingsMode,
        bytes: usize,
    ) -> Result<Vec<T>, StoreError> {
        let mut measured: Measured = self.shared.metrics.begin();
        let begun = Instant::now();
        let until = begun + self.bounds.time() + GRACE;
        let query = QueryRequest { statement, format: COLLECTED, sent, whole: self.meter.is_some() };
        let mut rows = self.collect_once(&query, until, bytes).await;
        if matches!(rows, Err(StoreError::Short(_))) {
            // It was aborted midway, but no caller has seen any of it.
            rows = self.collect_once(&query, until, bytes).await;
        }
        match &rows {
            Ok(rows) => {
                // The text holds names of columns and keys. Values are user data and travel as parameters.
                let (milliseconds, rows) = (begun.elapsed().as_secs_f64() * 1e3, rows.len());
                tracing::debug!(milliseconds, rows, statement = statement.text, "ClickHouse answered");
                measured.complete();
            }
            Err(error) => measured.failed(error),
        }
        rows
    }

    async fn collect_once<T: DeserializeOwned + Send + 'static>(
        &self,
        query: &QueryRequest<'_>,
        until: Instant,
        bytes: usize,
    ) -> Result<Vec<T>, StoreError> {
        let begun = Instant::now();
        // Boxed because it is large, to keep it out of the callers' futures.
        let (endpoint, response) = Box::pin(self.deliver(query, until)).await?;
        if let Some(meter) = &self.meter
            && let Some(cost) = response.cost(begun.elapsed())
        {
            meter.add(cost);
        }
        let late = StoreError::Timeout("the rest of the response did not arrive in time".to_owned());
        let rows = tokio::time::timeout_at(until.into(), response.rows(bytes)).await.unwrap_or(Err(late));
        if matches!(rows, Err(StoreError::Short(_))) {
            self.check_endpoint(endpoint, "the response ended early").await;
        }
        rows
    }

    /// Sends a statement to one endpoint after the other, until one has begun to answer or the fault is not an
    /// endpoint's. While every working endpoint is full, the statement is retried within its time limit.
    async fn deliver(
        &self,
        query: &QueryRequest<'_>,
        until: Instant,
    ) -> Result<(usize, QueryResponse), StoreError> {
        let pool = &self.shared.pool;
        if pool.is_several() {
            self.shared.watch.call_once(|| {
                (0..pool.names().count()).for_each(|at| {
                    tokio::spawn(watch(Arc::downgrade(&self.shared), at));
                });
            });
        }
        let mut tries = Tries::default();
        while tries.lost < ATTEMPTS_MAX && Instant::now() < until {
            let Some(at) = pool.choose(self.session.as_ref(), self.only, &tries.asked) else {
                if tries.is_first() && self.only.is_none() && pool.wait_for_return().await {
                    continue;
                }
                if !tries.wait_for_place(until, self.shared.entropy.as_ref()).await {
                    break;
                }
                continue;
            };
            match self.ask(at, query, until).await {
                Ok(response) => {
                    if let Some(session) = &self.session {
                        session.stick_to(at);
                    }
                    if tries.failed_over(at) {
                        self.shared.metrics.failed_over();
                    }
                    return Ok((at, response));
                }
                Err(AttemptError::Final(error)) => return Err(error),
                Err(miss) => {
                    match &miss {
                        AttemptError::ConnectionLost(cause) => self.check_endpoint(at, cause).await,
                        AttemptError::Unreachable(cause)
                        | AttemptError::Silent(cause)
                        | AttemptError::Unsupported(cause) => {
                            self.mark_unhealthy(at, cause);
                        }
                        // The endpoint works: spans of traces that were selected there must still be read there.
                        AttemptError::Overloaded(_)
                        | AttemptError::Exhausted { .. }
                        | AttemptError::Final(_) => {}
                    }
                    tries.missed(at, miss);
                }
            }
        }
        Err(tries.failure(pool))
    }

    /// Returns one endpoint's answer. Settings that the endpoint refuses are left out where answers do not depend on
    /// them: it has not begun the statement then.
    async fn ask(
        &self,
        at: usize,
        query: &QueryRequest<'_>,
        until: Instant,
    ) -> Result<QueryResponse, AttemptError> {
        let Some(endpoint) = self.shared.pool.get(at) else {
            return Err(AttemptError::Final(StoreError::Internal("no such endpoint".to_owned())));
        };
        for _ in 1..SETTINGS_MAX {
            let readonly = endpoint.capabilities.readonly();
            match self.exchange(at, query, until).await {
                Err(AttemptError::Final(error)) if query.sent == SettingsMode::Needed => {
                    return Err(AttemptError::Final(error.of_needed_settings()));
                }
                Err(AttemptError::Final(error)) if error.refuses_readonly() => {
                    // By what was sent, not by whether it is new: several statements may find it out at the same time.
                    if readonly == READONLY_OF_PROFILE {
                        return Err(AttemptError::Final(error));
                    }
                    endpoint.capabilities.readonly_is_fixed();
                }
                Err(AttemptError::Final(error)) if error.is_unknown_setting() => {
                    let sent = names(&self.shared.config);
                    let known = self.known_settings(at, &sent, until).await?;
                    endpoint.capabilities.learn(&known, &sent).map_err(AttemptError::Final)?;
                }
                other => return other,
            }
        }
        self.exchange(at, query, until).await
    }

    /// Returns which of these settings an endpoint has.
    async fn known_settings(
        &self,
        at: usize,
        names: &[&'static str],
        until: Instant,
    ) -> Result<BTreeSet<String>, AttemptError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut statement = Statement::default();
        let list = statement.strings(&names);
        // One row, so that a limit on rows in the profile cannot cut the answer.
        statement.push(&format!("SELECT groupArray(name) FROM system.settings WHERE has({list}, name)"));
        let query = QueryRequest {
            statement: &statement,
            format: COLLECTED,
            sent: SettingsMode::Needed,
            whole: false,
        };
        let asked = self.exchange(at, &query, until).await;
        let asked = asked.map_err(|miss| match miss {
            AttemptError::Final(error) => AttemptError::Final(error.of_needed_settings()),
            other => other,
        });
        let rows = asked?.rows(MAX_COLLECTED_BYTES);
        let late = StoreError::Timeout("the settings of the server did not arrive in time".to_owned());
        let rows: Vec<(BTreeSet<String>,)> =
            match tokio::time::timeout_at(until.into(), rows).await.unwrap_or(Err(late)) {
                Err(StoreError::Short(cause)) => return Err(AttemptError::ConnectionLost(cause)),
                rows => rows.map_err(AttemptError::Final)?,
            };
        let known = rows.into_iter().next().map(|(known,)| known);
        known.ok_or_else(|| AttemptError::ConnectionLost("the server returned no settings".to_owned()))
    }

    async fn exchange(
        &self,
        at: usize,
        query: &QueryRequest<'_>,
        until: Instant,
    ) -> Result<QueryResponse, AttemptError> {
        let Some(endpoint) = self.shared.pool.get(at) else {
            return Err(AttemptError::Final(StoreError::Internal("no such endpoint".to_owned())));
        };
        let request = self.shared.request(endpoint, query).map_err(AttemptError::Final)?;
        let arriving = async {
            let response =
                request.send().await.map_err(|error| AttemptError::of_sending(&error, &endpoint.url))?;
            QueryResponse::of(response).await
        };
        let response = tokio::select! {
            response = arriving => response,
            () = self.dead(at) => Err(AttemptError::Silent("it does not respond to health checks".to_owned())),
            () = tokio::time::sleep_until(until.into()) => {
                Err(AttemptError::Final(StoreError::Timeout("no response in time".to_owned())))
            }
        };
        let failure = response.as_ref().err().and_then(AttemptError::kind);
        self.shared.metrics.asked(&endpoint.name, failure);
        response
    }

    /// Completes when an endpoint that is silent fails its health checks, too.
    async fn dead(&self, at: usize) {
        let mut missing = 0;
        while missing < PINGS {
            if missing == 0 {
                tokio::time::sleep(SILENCE).await;
            }
            missing = if self.lives(at).await { 0 } else { missing + 1 };
        }
    }

    /// Whether an endpoint passes a health check. The gateway error of a proxy whose server is away does not count.
    async fn lives(&self, at: usize) -> bool {
        self.health_check(at, PING_TIMEOUT).await == Sign::Lives
    }

    async fn health_check(&self, at: usize, timeout: Duration) -> Sign {
        let Some(endpoint) = self.shared.pool.get(at) else { return Sign::Fails };
        match self.shared.http.get(endpoint.ping_url()).timeout(timeout).send().await {
            Ok(answer) if !matches!(answer.status().as_u16(), 502..=504) => Sign::Lives,
            Err(error) if error.is_timeout() => Sign::Silent,
            _ => Sign::Fails,
        }
    }

    /// Marks an endpoint unhealthy whose connection broke, unless it passes a health check: then perhaps only this
    /// connection is at fault, and one statement that always breaks must not take every endpoint from all others.
    async fn check_endpoint(&self, at: usize, cause: &str) {
        if !self.lives(at).await {
            self.mark_unhealthy(at, cause);
        }
    }

    /// Like [`Self::check_endpoint`], in a background task.
    fn suspect(&self, at: usize) {
        let client = self.clone();
        tokio::spawn(async move { client.check_endpoint(at, "the response ended early").await });
    }

    fn mark_unhealthy(&self, at: usize, cause: &str) {
        let Some(endpoint) = self.shared.pool.get(at) else { return };
        // Only once when several statements meet the same failure.
        if !endpoint.mark_unhealthy() {
            return;
        }
        tracing::warn!(endpoint = endpoint.name, cause, "marked a ClickHouse endpoint unhealthy");
        self.shared.metrics.is_healthy(&endpoint.name, false);
        let first = pause(0, self.shared.entropy.as_ref());
        endpoint.retry_after(first);
        tokio::spawn(bring_back(Arc::downgrade(&self.shared), at, first));
    }

    /// Whether an endpoint answers statements again. An error that is the statement's own counts as an answer.
    async fn is_back(&self, at: usize) -> bool {
        let statement = Statement::new("SELECT 1");
        let sent = SettingsMode::Settings(self.bounds);
        let query = QueryRequest { statement: &statement, format: COLLECTED, sent, whole: false };
        let asked = self.ask(at, &query, Instant::now() + self.bounds.time()).await;
        match asked {
            Ok(_) | Err(AttemptError::Overloaded(_) | AttemptError::Exhausted { .. }) => true,
            Err(AttemptError::Final(error)) => !matches!(error, StoreError::Timeout(_)),
            Err(_) => false,
        }
    }

    /// Returns the configured endpoints.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Url> {
        self.shared.pool.urls()
    }

    /// Returns the same client for a statement that may take longer than others.
    pub(crate) fn lasting(&self, seconds: u32) -> Self {
        Self { bounds: Bounds { seconds, ..self.bounds }, ..self.clone() }
    }

    /// Returns the same client for statements that must cost less than others.
    pub(crate) fn within(&self, bounds: Bounds) -> Self {
        let seconds = bounds.seconds.min(self.bounds.seconds);
        Self { bounds: Bounds { seconds, ..bounds }, ..self.clone() }
    }

    /// Returns the same client for statements that belong together: they stay with one endpoint as long as it works.
    pub(crate) fn session(&self) -> Self {
        Self { session: Some(Session::default()), ..self.clone() }
    }

    /// Returns the same client for statements about traces that were selected at this endpoint: another one would
    /// answer for other data.
    pub(crate) fn at(&self, endpoint: Option<usize>) -> Self {
        Self { only: endpoint.or(self.only), ..self.clone() }
    }

    /// Returns the endpoint that last answered a statement of the session, if there is a session.
    pub(crate) fn place(&self) -> Option<usize> {
        self.session.as_ref().and_then(Session::place)
    }

    /// Returns the same client with a meter of its own, which adds up the cost of its statements. They count for the
    /// meter of this client, too.
    pub(crate) fn metered(&self) -> Self {
        Self { meter: Some(Arc::new(Meter::within(self.meter.clone()))), ..self.clone() }
    }

    /// Returns the cost of the statements that were answered.
    pub(crate) fn cost(&self) -> Cost {
        self.meter.as_ref().map_or_else(Cost::default, |meter| meter.cost())
    }

    /// Returns how often the session's endpoint changed, its first endpoint included.
    pub(crate) fn endpoint_switches(&self) -> usize {
        self.session.as_ref().map_or(0, Session::endpoint_switches)
    }

    /// Returns a client that has only this endpoint.
    ///
    /// # Errors
    /// None for a configured endpoint.
    pub(crate) fn only(&self, endpoint: &Url) -> Result<Self, StoreError> {
        let Shared { http, metrics, config, entropy, .. } = self.shared.as_ref();
        let shared = Shared {
            http: http.clone(),
            pool: Pool::new([endpoint.clone()])?,
            metrics: metrics.clone(),
            config: Arc::clone(config),
            entropy: Arc::clone(entropy),
            watch: Once::new(),
        };
        let (bounds, meter) = (self.bounds, self.meter.clone());
        Ok(Self { shared: Arc::new(shared), bounds, session: None, only: None, meter })
    }
}

/// Marks an endpoint unhealthy when it falls silent, as long as another one works: a busy server is better than none.
/// The task ends with the client. An endpoint that refuses or closes connections is found out by the next statement,
/// which loses no time.
async fn watch(shared: Weak<Shared>, at: usize) {
    loop {
        tokio::time::sleep(WATCH_PAUSE).await;
        let Some(shared) = shared.upgrade() else { return };
        if !shared.pool.get(at).is_some_and(pool::Endpoint::is_healthy) {
            continue;
        }
        let bounds = Bounds { seconds: PROBE_SECONDS, rows: 0 };
        let client = Client { shared, bounds, session: None, only: None, meter: None };
        let silent = client.health_check(at, WATCH_TIMEOUT).await == Sign::Silent;
        if silent && client.shared.pool.another_is_healthy(at) {
            client.mark_unhealthy(at, "it does not respond to health checks");
        }
    }
}

/// Retries an endpoint with growing pauses until it is healthy. The task ends with the client.
async fn bring_back(shared: Weak<Shared>, at: usize, first: Duration) {
    let mut next = first;
    for failures in 1.. {
        tokio::time::sleep(next).await;
        let Some(shared) = shared.upgrade() else { return };
        let Some(endpoint) = shared.pool.get(at) else { return };
        let bounds = Bounds { seconds: PROBE_SECONDS, rows: 0 };
        let client = Client { shared: Arc::clone(&shared), bounds, session: None, only: None, meter: None };
        // The server may have been restarted with another version.
        endpoint.capabilities.forget();
        if client.is_back(at).await {
            tracing::info!(endpoint = endpoint.name, "a ClickHouse endpoint is healthy again");
            shared.metrics.is_healthy(&endpoint.name, true);
            shared.pool.came_back(endpoint);
            return;
        }
        next = pause(failures, shared.entropy.as_ref());
        endpoint.retry_after(next);
    }
}

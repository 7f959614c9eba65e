//! ClickHouse's HTTP protocol, as far as reading needs it. A statement goes to one endpoint, and to another one when
//! the first is at fault.

mod attempts;
mod capabilities;
#[cfg(test)]
mod failover;
mod failure;
mod pool;
pub(crate) mod quota;
mod request;
pub(crate) mod response;
pub(crate) mod response_memory;

mod config;
mod cost;
mod error;
mod metrics;
mod progress;
pub(crate) mod settings;
mod shared_work;

pub use config::ClickHouseConfig;
pub use cost::Cost;
pub use error::{ChangedField, ClickHouseError};
pub use progress::{ProgressCallback, SearchProgress};
pub(crate) use settings::{
    QueryLimits, READONLY, REQUIRED_SETTINGS, StatementKind, may_differ, setting_names, settings,
};
pub use shared_work::SharedWork;
pub(crate) use shared_work::TtlCache;

use std::collections::BTreeSet;
use std::sync::{Arc, Once, Weak};
use std::time::{Duration, Instant};

use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use tracewarden_model::Entropy;
use url::Url;

pub(crate) use failure::FailureKind;
pub(crate) use response::StreamedResponse;

use crate::client::cost::Meter;
use crate::client::metrics::{InFlightStatement, Metrics};
use crate::client::settings::READONLY_FROM_PROFILE;
use crate::sql::Statement;
use attempts::Attempts;
use failure::AttemptError;
use pool::{Pool, Session, backoff};
use request::{QueryRequest, SettingsMode};
use response::{MAX_COLLECTED_BYTES, QueryResponse};

/// Time-out for connecting. It is long enough to recover from one lost packet.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long idle connections are kept. Every version of ClickHouse keeps them longer: a statement that is sent while
/// the server closes its connection is lost.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_millis(2_500);
/// How much longer than its time limit the client waits for an answer. ClickHouse enforces the limit itself and reports
/// it, but checks the clock only between blocks. When the client then disconnects, ClickHouse ends the statement.
const TIMEOUT_GRACE: Duration = Duration::from_secs(1);
/// Silence after which an endpoint gets a health check. A slow statement is silent, too: the client gives up only a
/// server that does not answer the health check either.
const HEALTH_CHECK_DELAY: Duration = Duration::from_secs(3);
/// Time-out of a health check of an endpoint that has a statement.
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between health checks where there are several endpoints, whether or not an endpoint has statements. An
/// endpoint that falls silent gets no new statements within a second.
const HEALTH_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Time-out of such a health check.
const HEALTH_CHECK_TIMEOUT: Duration = Duration::from_millis(750);
/// Number of consecutive health checks that have to fail.
const MAX_FAILED_PINGS: u32 = 2;
/// Maximum number of endpoints that may be lost while they have one statement. With more, a statement that crashes
/// servers could take down a large cluster. Endpoints that refuse the statement before they begin it are not counted.
const MAX_LOST_ENDPOINTS: usize = 4;
/// How often a statement is sent to an endpoint that refuses the settings with it: `readonly`, and those that it lacks.
const MAX_SETTINGS_ATTEMPTS: usize = 3;
/// Time limit of the statement that checks whether an endpoint is healthy again, in seconds.
const PROBE_SECONDS: u32 = 3;

/// Format of answers that are collected: one JSON document, with the rows as arrays and the number of rows after them.
const COLLECTED_FORMAT: &str = "JSONCompact";

/// Sends statements to the configured endpoints. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    shared: Arc<Shared>,
    limits: QueryLimits,
    /// Without a session, each statement goes to the first endpoint that works.
    session: Option<Session>,
    /// The only endpoint that gets statements, even when it is unhealthy.
    pinned_endpoint: Option<usize>,
    /// Adds up the cost of statements, if a caller wants to know it.
    meter: Option<Arc<Meter>>,
}

/// Result of a health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HealthStatus {
    Healthy,
    /// It answers with a gateway error, or closes the connection.
    Failing,
    Silent,
}

struct Shared {
    http: reqwest::Client,
    pool: Pool,
    metrics: Metrics,
    config: Arc<ClickHouseConfig>,
    entropy: Arc<dyn Entropy>,
    /// Started with the first statement, when a runtime exists to run it.
    watch: Once,
}

impl Client {
    pub(crate) fn new(
        config: Arc<ClickHouseConfig>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, ClickHouseError> {
        let urls: Vec<Url> = config
            .endpoints
            .iter()
            .map(|endpoint| {
                Url::parse(endpoint).map_err(|error| {
                    ClickHouseError::Internal(format!("`{endpoint}` is not an address: {error}"))
                })
            })
            .collect::<Result<_, _>>()?;
        let pool = Pool::new(urls)?;
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| ClickHouseError::Internal(format!("no HTTP client: {error}")))?;
        let metrics = Metrics::new(pool.names());
        let limits = QueryLimits::from_config(&config);
        let shared = Arc::new(Shared { http, pool, metrics, config, entropy, watch: Once::new() });
        Ok(Self { shared, limits, session: None, pinned_endpoint: None, meter: None })
    }

    /// Registers the metrics in a registry.
    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        self.shared.metrics.register(registry);
    }

    /// Sends a statement whose answer is streamed. Returns when the first bytes of the answer are here.
    pub(crate) async fn send(
        &self,
        statement: Statement,
        format: &str,
    ) -> Result<StreamedResponse, ClickHouseError> {
        let begun = Instant::now();
        let mut in_flight = self.shared.metrics.begin();
        let settings = SettingsMode::All(self.limits.for_streaming(&self.shared.config));
        let query = QueryRequest { statement: &statement, format, settings, wait_end_of_query: false };
        let server_time_left = self.limits.timeout();
        match Box::pin(self.send_with_failover(&query, begun + server_time_left)).await {
            Ok((endpoint, response)) => {
                let server_time_left = server_time_left.saturating_sub(begun.elapsed());
                let longest = self.limits.for_streaming(&self.shared.config).timeout();
                let until = begun + longest;
                Ok(StreamedResponse {
                    response,
                    in_flight,
                    client: self.clone(),
                    endpoint,
                    server_time_left,
                    until,
                })
            }
            Err(error) => {
                in_flight.record_failure(&error);
                Err(error)
            }
        }
    }

    /// Returns all rows of a small answer, each a JSON array.
    pub(crate) async fn rows<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: Statement,
    ) -> Result<Vec<T>, ClickHouseError> {
        self.rows_within(statement, MAX_COLLECTED_BYTES).await
    }

    /// Like [`Self::rows`], with a maximum size of the answer in bytes; [`ClickHouseError::TooLarge`] above it.
    pub(crate) async fn rows_within<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: Statement,
        bytes: usize,
    ) -> Result<Vec<T>, ClickHouseError> {
        self.collect(&statement, SettingsMode::All(self.limits), bytes).await
    }

    /// Returns all rows of a small answer to a statement that reads the user's own profile. It sends only the settings
    /// without which the answer could be cut, and none that the statement asks the profile about. Never for span data.
    pub(crate) async fn rows_of_profile<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: &str,
    ) -> Result<Vec<T>, ClickHouseError> {
        self.collect(&Statement::new(statement), SettingsMode::Required, MAX_COLLECTED_BYTES).await
    }

    async fn collect<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: &Statement,
        settings: SettingsMode,
        bytes: usize,
    ) -> Result<Vec<T>, ClickHouseError> {
        let mut in_flight: InFlightStatement = self.shared.metrics.begin();
        let begun = Instant::now();
        let until = begun + self.limits.timeout() + TIMEOUT_GRACE;
        let query = QueryRequest {
            statement,
            format: COLLECTED_FORMAT,
            settings,
            wait_end_of_query: self.meter.is_some(),
        };
        let mut rows = self.collect_once(&query, until, bytes).await;
        if matches!(rows, Err(ClickHouseError::IncompleteResponse(_))) {
            // It was aborted midway, but no caller has seen any of it.
            rows = self.collect_once(&query, until, bytes).await;
        }
        match &rows {
            Ok(rows) => {
                // The text holds names of columns and keys. Values are user data and travel as parameters.
                let (milliseconds, rows) = (begun.elapsed().as_secs_f64() * 1e3, rows.len());
                tracing::debug!(milliseconds, rows, statement = statement.text, "ClickHouse answered");
                in_flight.record_complete();
            }
            Err(error) => in_flight.record_failure(error),
        }
        rows
    }

    async fn collect_once<T: DeserializeOwned + Send + 'static>(
        &self,
        query: &QueryRequest<'_>,
        until: Instant,
        bytes: usize,
    ) -> Result<Vec<T>, ClickHouseError> {
        let begun = Instant::now();
        // Boxed because it is large, to keep it out of the callers' futures.
        let (endpoint, response) = Box::pin(self.send_with_failover(query, until)).await?;
        if let Some(meter) = &self.meter
            && let Some(cost) = response.cost(begun.elapsed())
        {
            meter.add(cost);
        }
        let late = ClickHouseError::Timeout("the rest of the response did not arrive in time".to_owned());
        let rows = tokio::time::timeout_at(until.into(), response.rows(bytes)).await.unwrap_or(Err(late));
        if matches!(rows, Err(ClickHouseError::IncompleteResponse(_))) {
            self.check_endpoint(endpoint, "the response ended early").await;
        }
        rows
    }

    /// Sends a statement to one endpoint after the other, until one has begun to answer or the fault is not an
    /// endpoint's. While every working endpoint is full, the statement is retried within its time limit.
    async fn send_with_failover(
        &self,
        query: &QueryRequest<'_>,
        until: Instant,
    ) -> Result<(usize, QueryResponse), ClickHouseError> {
        let pool = &self.shared.pool;
        if pool.has_several() {
            self.shared.watch.call_once(|| {
                (0..pool.names().count()).for_each(|at| {
                    tokio::spawn(watch(Arc::downgrade(&self.shared), at));
                });
            });
        }
        let mut attempts = Attempts::default();
        while attempts.lost < MAX_LOST_ENDPOINTS && Instant::now() < until {
            let Some(at) = pool.choose(self.session.as_ref(), self.pinned_endpoint, &attempts.attempted)
            else {
                if attempts.is_first() && self.pinned_endpoint.is_none() && pool.wait_for_recovery().await {
                    continue;
                }
                if !attempts.wait_for_capacity(until, self.shared.entropy.as_ref()).await {
                    break;
                }
                continue;
            };
            match self.send_to_endpoint(at, query, until).await {
                Ok(response) => {
                    if let Some(session) = &self.session {
                        session.stick_to(at);
                    }
                    if attempts.failed_over(at) {
                        self.shared.metrics.failed_over();
                    }
                    return Ok((at, response));
                }
                Err(AttemptError::Final(error)) => return Err(error),
                Err(failure) => {
                    match &failure {
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
                    attempts.record_failure(at, failure);
                }
            }
        }
        Err(attempts.into_error(pool))
    }

    /// Returns one endpoint's answer. Settings that the endpoint refuses are left out where answers do not depend on
    /// them: it has not begun the statement then.
    async fn send_to_endpoint(
        &self,
        at: usize,
        query: &QueryRequest<'_>,
        until: Instant,
    ) -> Result<QueryResponse, AttemptError> {
        let Some(endpoint) = self.shared.pool.get(at) else {
            return Err(AttemptError::Final(ClickHouseError::Internal("no such endpoint".to_owned())));
        };
        for _ in 1..MAX_SETTINGS_ATTEMPTS {
            let readonly = endpoint.capabilities.readonly();
            match self.send_once(at, query, until).await {
                Err(AttemptError::Final(error)) if query.settings == SettingsMode::Required => {
                    return Err(AttemptError::Final(error.with_old_server_hint()));
                }
                Err(AttemptError::Final(error)) if error.refuses_readonly() => {
                    // By what was sent, not by whether it is new: several statements may find it out at the same time.
                    if readonly == READONLY_FROM_PROFILE {
                        return Err(AttemptError::Final(error));
                    }
                    endpoint.capabilities.set_readonly_fixed();
                }
                Err(AttemptError::Final(error)) if error.is_unknown_setting() => {
                    let settings = setting_names(&self.shared.config);
                    let known = self.known_settings(at, &settings, until).await?;
                    endpoint.capabilities.record_settings(&known, &settings).map_err(AttemptError::Final)?;
                }
                other => return other,
            }
        }
        self.send_once(at, query, until).await
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
        let list = statement.string_array(&names);
        // One row, so that a limit on rows in the profile cannot cut the answer.
        statement.push(&format!("SELECT groupArray(name) FROM system.settings WHERE has({list}, name)"));
        let query = QueryRequest {
            statement: &statement,
            format: COLLECTED_FORMAT,
            settings: SettingsMode::Required,
            wait_end_of_query: false,
        };
        let response = self.send_once(at, &query, until).await;
        let response = response.map_err(|failure| match failure {
            AttemptError::Final(error) => AttemptError::Final(error.with_old_server_hint()),
            other => other,
        });
        let rows = response?.rows(MAX_COLLECTED_BYTES);
        let late = ClickHouseError::Timeout("the settings of the server did not arrive in time".to_owned());
        let rows: Vec<(BTreeSet<String>,)> =
            match tokio::time::timeout_at(until.into(), rows).await.unwrap_or(Err(late)) {
                Err(ClickHouseError::IncompleteResponse(cause)) => {
                    return Err(AttemptError::ConnectionLost(cause));
                }
                rows => rows.map_err(AttemptError::Final)?,
            };
        let known = rows.into_iter().next().map(|(known,)| known);
        known.ok_or_else(|| AttemptError::ConnectionLost("the server returned no settings".to_owned()))
    }

    async fn send_once(
        &self,
        at: usize,
        query: &QueryRequest<'_>,
        until: Instant,
    ) -> Result<QueryResponse, AttemptError> {
        let Some(endpoint) = self.shared.pool.get(at) else {
            return Err(AttemptError::Final(ClickHouseError::Internal("no such endpoint".to_owned())));
        };
        let request = self.shared.request(endpoint, query).map_err(AttemptError::Final)?;
        let arriving = async {
            let response =
                request.send().await.map_err(|error| AttemptError::from_send(&error, &endpoint.url))?;
            QueryResponse::from_http(response).await
        };
        let response = tokio::select! {
            response = arriving => response,
            () = self.wait_until_unresponsive(at) => Err(AttemptError::Silent("it does not respond to health checks".to_owned())),
            () = tokio::time::sleep_until(until.into()) => {
                Err(AttemptError::Final(ClickHouseError::Timeout("no response in time".to_owned())))
            }
        };
        let failure = response.as_ref().err().and_then(AttemptError::kind);
        self.shared.metrics.record_request(&endpoint.name, failure);
        response
    }

    /// Completes when an endpoint that is silent fails its health checks, too.
    async fn wait_until_unresponsive(&self, at: usize) {
        let mut missing = 0;
        while missing < MAX_FAILED_PINGS {
            if missing == 0 {
                tokio::time::sleep(HEALTH_CHECK_DELAY).await;
            }
            missing = if self.is_responsive(at).await { 0 } else { missing + 1 };
        }
    }

    /// Whether an endpoint passes a health check. The gateway error of a proxy whose server is away does not count.
    async fn is_responsive(&self, at: usize) -> bool {
        self.health_check(at, PING_TIMEOUT).await == HealthStatus::Healthy
    }

    async fn health_check(&self, at: usize, timeout: Duration) -> HealthStatus {
        let Some(endpoint) = self.shared.pool.get(at) else { return HealthStatus::Failing };
        match self.shared.http.get(endpoint.ping_url()).timeout(timeout).send().await {
            Ok(response) if !matches!(response.status().as_u16(), 502..=504) => HealthStatus::Healthy,
            Err(error) if error.is_timeout() => HealthStatus::Silent,
            _ => HealthStatus::Failing,
        }
    }

    /// Marks an endpoint unhealthy whose connection broke, unless it passes a health check: then perhaps only this
    /// connection is at fault, and one statement that always breaks must not take every endpoint from all others.
    async fn check_endpoint(&self, at: usize, cause: &str) {
        if !self.is_responsive(at).await {
            self.mark_unhealthy(at, cause);
        }
    }

    /// Like [`Self::check_endpoint`], in a background task.
    fn check_endpoint_in_background(&self, at: usize) {
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
        self.shared.metrics.set_healthy(&endpoint.name, false);
        let first = backoff(0, self.shared.entropy.as_ref());
        endpoint.retry_after(first);
        tokio::spawn(retry_until_healthy(Arc::downgrade(&self.shared), at, first));
    }

    /// Whether an endpoint answers statements again. An error that is the statement's own counts as an answer.
    async fn has_recovered(&self, at: usize) -> bool {
        let statement = Statement::new("SELECT 1");
        let settings = SettingsMode::All(self.limits);
        let query = QueryRequest {
            statement: &statement,
            format: COLLECTED_FORMAT,
            settings,
            wait_end_of_query: false,
        };
        let response = self.send_to_endpoint(at, &query, Instant::now() + self.limits.timeout()).await;
        match response {
            Ok(_) | Err(AttemptError::Overloaded(_) | AttemptError::Exhausted { .. }) => true,
            Err(AttemptError::Final(error)) => !matches!(error, ClickHouseError::Timeout(_)),
            Err(_) => false,
        }
    }

    /// Returns the configured endpoints.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Url> {
        self.shared.pool.urls()
    }

    /// Returns the same client for a statement that may take longer than others.
    pub(crate) fn with_time_limit(&self, seconds: u32) -> Self {
        Self { limits: QueryLimits { seconds, ..self.limits }, ..self.clone() }
    }

    /// Returns the same client for statements that must cost less than others.
    pub(crate) fn with_limits(&self, limits: QueryLimits) -> Self {
        let seconds = limits.seconds.min(self.limits.seconds);
        Self { limits: QueryLimits { seconds, ..limits }, ..self.clone() }
    }

    /// Returns the same client for statements that belong together: they stay with one endpoint as long as it works.
    pub(crate) fn session(&self) -> Self {
        Self { session: Some(Session::default()), ..self.clone() }
    }

    /// Returns the same client for statements about traces that were selected at this endpoint: another one would
    /// answer for other data.
    pub(crate) fn pinned_to(&self, endpoint: Option<usize>) -> Self {
        Self { pinned_endpoint: endpoint.or(self.pinned_endpoint), ..self.clone() }
    }

    /// Returns the endpoint that last answered a statement of the session, if there is a session.
    pub(crate) fn session_endpoint(&self) -> Option<usize> {
        self.session.as_ref().and_then(Session::endpoint)
    }

    /// Returns the same client with a meter of its own, which adds up the cost of its statements. They count for the
    /// meter of this client, too.
    pub(crate) fn metered(&self) -> Self {
        Self { meter: Some(Arc::new(Meter::nested(self.meter.clone()))), ..self.clone() }
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
    pub(crate) fn for_endpoint(&self, endpoint: &Url) -> Result<Self, ClickHouseError> {
        let Shared { http, metrics, config, entropy, .. } = self.shared.as_ref();
        let shared = Shared {
            http: http.clone(),
            pool: Pool::new([endpoint.clone()])?,
            metrics: metrics.clone(),
            config: Arc::clone(config),
            entropy: Arc::clone(entropy),
            watch: Once::new(),
        };
        let (limits, meter) = (self.limits, self.meter.clone());
        Ok(Self { shared: Arc::new(shared), limits, session: None, pinned_endpoint: None, meter })
    }
}

/// Marks an endpoint unhealthy when it falls silent, as long as another one works: a busy server is better than none.
/// The task ends with the client. An endpoint that refuses or closes connections is found out by the next statement,
/// which loses no time.
async fn watch(shared: Weak<Shared>, at: usize) {
    loop {
        tokio::time::sleep(HEALTH_CHECK_INTERVAL).await;
        let Some(shared) = shared.upgrade() else { return };
        if !shared.pool.get(at).is_some_and(pool::Endpoint::is_healthy) {
            continue;
        }
        let limits = QueryLimits { seconds: PROBE_SECONDS, rows: 0 };
        let client = Client { shared, limits, session: None, pinned_endpoint: None, meter: None };
        let silent = client.health_check(at, HEALTH_CHECK_TIMEOUT).await == HealthStatus::Silent;
        if silent && client.shared.pool.another_is_healthy(at) {
            client.mark_unhealthy(at, "it does not respond to health checks");
        }
    }
}

/// Retries an endpoint with growing pauses until it is healthy. The task ends with the client.
async fn retry_until_healthy(shared: Weak<Shared>, at: usize, first: Duration) {
    let mut next = first;
    for failures in 1.. {
        tokio::time::sleep(next).await;
        let Some(shared) = shared.upgrade() else { return };
        let Some(endpoint) = shared.pool.get(at) else { return };
        let limits = QueryLimits { seconds: PROBE_SECONDS, rows: 0 };
        let client =
            Client { shared: Arc::clone(&shared), limits, session: None, pinned_endpoint: None, meter: None };
        // The server may have been restarted with another version.
        endpoint.capabilities.reset();
        if client.has_recovered(at).await {
            tracing::info!(endpoint = endpoint.name, "a ClickHouse endpoint is healthy again");
            shared.metrics.set_healthy(&endpoint.name, true);
            shared.pool.mark_healthy(endpoint);
            return;
        }
        next = backoff(failures, shared.entropy.as_ref());
        endpoint.retry_after(next);
    }
}

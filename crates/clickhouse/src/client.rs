//! ClickHouse's HTTP protocol, as far as reading needs it. A statement goes to one endpoint, and to another one when
//! the first is at fault.

mod attempts;
mod capabilities;
mod endpoints;
#[cfg(test)]
mod failover;
mod failure;
mod pool;
pub(crate) mod quota;
mod request;
pub(crate) mod response;
pub(crate) mod response_memory;
mod streamed_response;

mod config;
mod cost;
mod error;
mod metrics;
pub(crate) mod settings;
mod shared_work;

pub use config::ClickHouseConfig;
pub use cost::Cost;
pub(crate) use error::Result;
pub use error::{ChangedField, ClickHouseError};
pub(crate) use settings::{
    PARTITION_PRUNING, QueryLimits, READONLY, REQUIRED_SETTINGS, may_differ, setting_names, settings,
};
pub use shared_work::SharedWork;
pub(crate) use shared_work::TtlCache;

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use tracewarden_model::Entropy;
use url::Url;

pub(crate) use response::flag;
pub(crate) use streamed_response::StreamedResponse;

use crate::client::cost::Meter;
use crate::sql::Statement;
use attempts::Attempts;
use endpoints::Endpoints;
use failure::AttemptError;
use pool::Session;
use request::{QueryRequest, SettingsMode};
use response::{MAX_COLLECTED_BYTES, QueryResponse};

/// How much longer than its time limit the client waits for an answer. ClickHouse enforces the limit itself and reports
/// it, but checks the clock only between blocks. When the client then disconnects, ClickHouse ends the statement.
const TIMEOUT_GRACE: Duration = Duration::from_secs(1);
/// Maximum number of endpoints that may be lost while they have one statement. With more, a statement that crashes
/// servers could take down a large cluster. Endpoints that refuse the statement before they begin it are not counted.
const MAX_LOST_ENDPOINTS: usize = 4;

/// Sends statements to the configured endpoints. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Client {
    endpoints: Arc<Endpoints>,
    limits: QueryLimits,
    /// Without a session, each statement goes to the first endpoint that works.
    session: Option<Arc<Session>>,
    /// The only endpoint that gets statements, even when it is unhealthy.
    pinned_endpoint: Option<usize>,
    /// Adds up the cost of statements, if a caller wants to know it.
    meter: Option<Arc<Meter>>,
}

impl Client {
    pub(crate) fn new(config: Arc<ClickHouseConfig>, entropy: Arc<dyn Entropy>) -> Result<Self> {
        let limits = QueryLimits::from_config(&config);
        let endpoints = Arc::new(Endpoints::new(config, entropy)?);
        Ok(Self { endpoints, limits, session: None, pinned_endpoint: None, meter: None })
    }

    /// Registers the metrics in a registry.
    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        self.endpoints.metrics.register(registry);
    }

    /// Sends a statement whose answer is streamed. Returns when the first bytes of the answer are here.
    pub(crate) async fn send(&self, statement: Statement, format: &str) -> Result<StreamedResponse> {
        let begun = Instant::now();
        let mut in_flight = self.endpoints.metrics.begin();
        let limits = self.limits.for_streaming(&self.endpoints.config);
        let settings = SettingsMode::All(limits);
        let query = QueryRequest { statement: &statement, format, settings, wait_end_of_query: false };
        let timeout = self.limits.timeout();
        let sent = Box::pin(self.send_with_failover(&query, begun + timeout)).await;
        let (endpoint, response) = sent.inspect_err(|error| in_flight.record_failure(error))?;
        Ok(StreamedResponse {
            response,
            in_flight,
            endpoints: Arc::clone(&self.endpoints),
            endpoint,
            server_time_left: timeout.saturating_sub(begun.elapsed()),
            until: begun + limits.timeout(),
        })
    }

    /// Returns all rows of a small answer, each a JSON array.
    pub(crate) async fn rows<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: Statement,
    ) -> Result<Vec<T>> {
        self.rows_within(statement, MAX_COLLECTED_BYTES).await
    }

    /// Returns the first row of a small answer; `None` without one, or if ClickHouse refuses this statement.
    pub(crate) async fn row_unless_refused<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: Statement,
    ) -> Result<Option<T>> {
        match self.rows(statement).await {
            Err(error) if error.is_refusal() => Ok(None),
            rows => Ok(rows?.into_iter().next()),
        }
    }

    /// Like [`Self::rows`], with a maximum size of the answer in bytes; [`ClickHouseError::TooLarge`] above it.
    pub(crate) async fn rows_within<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: Statement,
        bytes: usize,
    ) -> Result<Vec<T>> {
        self.collect(&statement, SettingsMode::All(self.limits), bytes).await
    }

    /// Returns all rows of a small answer to a statement that reads the user's own profile. It sends only the settings
    /// without which the answer could be cut, and none that the statement asks the profile about. Never for span data.
    pub(crate) async fn rows_of_profile<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: &str,
    ) -> Result<Vec<T>> {
        self.collect(&Statement::new(statement), SettingsMode::Required, MAX_COLLECTED_BYTES).await
    }

    async fn collect<T: DeserializeOwned + Send + 'static>(
        &self,
        statement: &Statement,
        settings: SettingsMode,
        bytes: usize,
    ) -> Result<Vec<T>> {
        let mut in_flight = self.endpoints.metrics.begin();
        let begun = Instant::now();
        let until = begun + self.limits.timeout() + TIMEOUT_GRACE;
        let wait_end_of_query = self.meter.is_some();
        let query = QueryRequest { wait_end_of_query, ..QueryRequest::collected(statement, settings) };
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
    ) -> Result<Vec<T>> {
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
            self.endpoints.check(endpoint, "the response ended early").await;
        }
        rows
    }

    /// Sends a statement to one endpoint after the other, until one has begun to answer or the fault is not an
    /// endpoint's. While every working endpoint is full, the statement is retried within its time limit.
    async fn send_with_failover(
        &self,
        query: &QueryRequest<'_>,
        until: Instant,
    ) -> Result<(usize, QueryResponse)> {
        self.endpoints.start_watching();
        let pool = &self.endpoints.pool;
        let mut attempts = Attempts::default();
        while attempts.lost < MAX_LOST_ENDPOINTS && Instant::now() < until {
            let Some(at) = pool.choose(self.session.as_deref(), self.pinned_endpoint, &attempts.attempted)
            else {
                if attempts.is_first() && self.pinned_endpoint.is_none() && pool.wait_for_recovery().await {
                    continue;
                }
                if !attempts.wait_for_capacity(until, self.endpoints.entropy.as_ref()).await {
                    break;
                }
                continue;
            };
            match self.endpoints.send(at, query, until).await {
                Ok(response) => {
                    if let Some(session) = &self.session {
                        session.stick_to(at);
                    }
                    if attempts.failed_over(at) {
                        self.endpoints.metrics.failovers.inc();
                    }
                    return Ok((at, response));
                }
                Err(AttemptError::Final(error)) => return Err(error),
                Err(failure) => {
                    match &failure {
                        AttemptError::ConnectionLost(cause) => self.endpoints.check(at, cause).await,
                        AttemptError::Unreachable(cause)
                        | AttemptError::Silent(cause)
                        | AttemptError::Unsupported(cause) => {
                            self.endpoints.mark_unhealthy(at, cause);
                        }
                        // The endpoint works: spans of traces that were selected there must still be read there.
                        _ => {}
                    }
                    attempts.record_failure(at, failure);
                }
            }
        }
        Err(attempts.into_error(pool))
    }

    /// Returns the configured endpoints.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Url> {
        self.endpoints.pool.endpoints.iter().map(|endpoint| &endpoint.url)
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
        Self { session: Some(Arc::default()), ..self.clone() }
    }

    /// Returns the same client for statements about traces that were selected at this endpoint: another one would
    /// answer for other data.
    pub(crate) fn pinned_to(&self, endpoint: Option<usize>) -> Self {
        Self { pinned_endpoint: endpoint.or(self.pinned_endpoint), ..self.clone() }
    }

    /// Returns the endpoint that last answered a statement of the session, if there is a session.
    pub(crate) fn session_endpoint(&self) -> Option<usize> {
        self.session.as_deref().and_then(Session::endpoint)
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
        self.session.as_deref().map_or(0, Session::endpoint_switches)
    }

    /// Returns a client that has only this endpoint.
    pub(crate) fn for_endpoint(&self, endpoint: &Url) -> Self {
        let endpoints = Arc::new(self.endpoints.only(endpoint));
        Self { endpoints, session: None, pinned_endpoint: None, ..self.clone() }
    }
}

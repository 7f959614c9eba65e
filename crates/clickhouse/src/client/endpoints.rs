//! The configured endpoints: sends a statement to one of them, checks their health, and retries unhealthy ones.

use std::collections::BTreeSet;
use std::sync::{Arc, Once, Weak};
use std::time::{Duration, Instant};

use tracewarden_model::Entropy;
use url::Url;

use super::failure::AttemptError;
use super::metrics::Metrics;
use super::pool::{Endpoint, Pool, backoff};
use super::request::{QueryRequest, SettingsMode};
use super::response::{MAX_COLLECTED_BYTES, QueryResponse};
use super::settings::{QueryLimits, READONLY_FROM_PROFILE, setting_names};
use crate::sql::Statement;
use crate::{ClickHouseConfig, ClickHouseError, Result};

/// Time-out for connecting. It is long enough to recover from one lost packet.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long idle connections are kept. Every version of ClickHouse keeps them longer: a statement that is sent while
/// the server closes its connection is lost.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_millis(2_500);
/// Silence after which an endpoint gets a health check. A slow statement is silent, too: the client gives up only a
/// server that does not answer the health check either.
pub(super) const HEALTH_CHECK_DELAY: Duration = Duration::from_secs(3);
/// Time-out of a health check of an endpoint that has a statement.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between health checks where there are several endpoints, whether or not an endpoint has statements. An
/// endpoint that falls silent gets no new statements within a second.
pub(super) const HEALTH_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Time-out of such a health check.
pub(super) const HEALTH_CHECK_TIMEOUT: Duration = Duration::from_millis(750);
/// Number of consecutive health checks that have to fail.
pub(super) const MAX_FAILED_PINGS: u32 = 2;
/// How often a statement is sent to an endpoint that refuses the settings with it: `readonly`, and those that it lacks.
const MAX_SETTINGS_ATTEMPTS: usize = 3;
/// Time limit of the statement that checks whether an endpoint is healthy again, in seconds.
const PROBE_SECONDS: u32 = 3;

/// The endpoints, and the state that statements to them share.
pub(super) struct Endpoints {
    http: reqwest::Client,
    pub(super) pool: Pool,
    pub(super) metrics: Metrics,
    pub(super) config: Arc<ClickHouseConfig>,
    pub(super) entropy: Arc<dyn Entropy>,
    /// Started with the first statement, when a runtime exists to run it.
    watch: Once,
}

/// Result of a health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HealthStatus {
    Healthy,
    /// It answers with a gateway error, or closes the connection.
    Failing,
    Silent,
}

impl Endpoints {
    /// Prepares the configured endpoints. It connects to none of them. Fails when one is not a valid address, or none exists.
    pub(super) fn new(config: Arc<ClickHouseConfig>, entropy: Arc<dyn Entropy>) -> Result<Self> {
        let url = |endpoint: &String| {
            Url::parse(endpoint).map_err(|error| {
                ClickHouseError::Internal(format!("`{endpoint}` is not an address: {error}"))
            })
        };
        let urls = config.endpoints.iter().map(url).collect::<Result<Vec<Url>, _>>()?;
        if urls.is_empty() {
            return Err(ClickHouseError::Internal("no ClickHouse endpoint is configured".to_owned()));
        }
        let pool = Pool::new(urls);
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| ClickHouseError::Internal(format!("no HTTP client: {error}")))?;
        let metrics = Metrics::new(pool.endpoints.iter().map(|endpoint| endpoint.name.as_str()));
        Ok(Self { http, pool, metrics, config, entropy, watch: Once::new() })
    }

    /// Returns a copy that has a single endpoint, with the same HTTP client and metrics.
    pub(super) fn only(&self, endpoint: &Url) -> Self {
        Self {
            http: self.http.clone(),
            pool: Pool::new([endpoint.clone()]),
            metrics: self.metrics.clone(),
            config: Arc::clone(&self.config),
            entropy: Arc::clone(&self.entropy),
            watch: Once::new(),
        }
    }

    /// Starts the health checks in the background, once, where there are several endpoints.
    pub(super) fn start_watching(self: &Arc<Self>) {
        let count = self.pool.endpoints.len();
        if count > 1 {
            self.watch.call_once(|| {
                for at in 0..count {
                    tokio::spawn(watch(Arc::downgrade(self), at));
                }
            });
        }
    }

    /// Returns one endpoint's answer. Settings that the endpoint refuses are left out where answers do not depend on
    /// them: it has not begun the statement then.
    pub(super) async fn send(
        &self,
        at: usize,
        query: &QueryRequest<'_>,
        until: Instant,
    ) -> Result<QueryResponse, AttemptError> {
        let Some(endpoint) = self.pool.endpoints.get(at) else {
            return Err(AttemptError::Final(ClickHouseError::Internal("no such endpoint".to_owned())));
        };
        for _ in 1..MAX_SETTINGS_ATTEMPTS {
            let readonly = endpoint.capabilities.readonly();
            match self.send_once(endpoint, query, until).await {
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
                    let settings = setting_names(&self.config);
                    let known = self.known_settings(endpoint, &settings, until).await?;
                    endpoint.capabilities.record_settings(&known, &settings).map_err(AttemptError::Final)?;
                }
                other => return other,
            }
        }
        self.send_once(endpoint, query, until).await
    }

    /// Returns which of these settings an endpoint has.
    pub(super) async fn known_settings(
        &self,
        endpoint: &Endpoint,
        names: &[&'static str],
        until: Instant,
    ) -> Result<BTreeSet<String>, AttemptError> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut statement = Statement::default();
        let list = statement.string_array(&names);
        // One row, so that a limit on rows in the profile cannot cut the answer.
        statement.push(&format!("SELECT groupArray(name) FROM system.settings WHERE has({list}, name)"));
        let query = QueryRequest::collected(&statement, SettingsMode::Required);
        let response = self.send_once(endpoint, &query, until).await;
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
        endpoint: &Endpoint,
        query: &QueryRequest<'_>,
        until: Instant,
    ) -> Result<QueryResponse, AttemptError> {
        let request = query
            .to_http(&self.http, &self.config, self.entropy.as_ref(), endpoint)
            .map_err(AttemptError::Final)?;
        let arriving = async {
            let response =
                request.send().await.map_err(|error| AttemptError::from_send(&error, &endpoint.url))?;
            QueryResponse::from_http(response).await
        };
        let response = tokio::select! {
            response = arriving => response,
            () = self.wait_until_unresponsive(endpoint) => Err(AttemptError::Silent("it does not respond to health checks".to_owned())),
            () = tokio::time::sleep_until(until.into()) => {
                Err(AttemptError::Final(ClickHouseError::Timeout("no response in time".to_owned())))
            }
        };
        let failure = response.as_ref().err().and_then(AttemptError::reason);
        self.metrics.record_request(&endpoint.name, failure);
        response
    }

    /// Completes when an endpoint that is silent fails its health checks, too.
    async fn wait_until_unresponsive(&self, endpoint: &Endpoint) {
        let mut missing = 0;
        while missing < MAX_FAILED_PINGS {
            if missing == 0 {
                tokio::time::sleep(HEALTH_CHECK_DELAY).await;
            }
            missing = if self.is_responsive(endpoint).await { 0 } else { missing + 1 };
        }
    }

    /// Whether an endpoint passes a health check. The gateway error of a proxy whose server is away does not count.
    async fn is_responsive(&self, endpoint: &Endpoint) -> bool {
        self.health_check(endpoint, PING_TIMEOUT).await == HealthStatus::Healthy
    }

    async fn health_check(&self, endpoint: &Endpoint, timeout: Duration) -> HealthStatus {
        match self.http.get(endpoint.ping_url()).timeout(timeout).send().await {
            Ok(response) if !matches!(response.status().as_u16(), 502..=504) => HealthStatus::Healthy,
            Err(error) if error.is_timeout() => HealthStatus::Silent,
            _ => HealthStatus::Failing,
        }
    }

    /// Marks an endpoint unhealthy whose connection broke, unless it passes a health check: then perhaps only this
    /// connection is at fault, and one statement that always breaks must not take every endpoint from all others.
    pub(super) async fn check(self: &Arc<Self>, at: usize, cause: &str) {
        let Some(endpoint) = self.pool.endpoints.get(at) else { return };
        if !self.is_responsive(endpoint).await {
            self.mark_unhealthy(at, cause);
        }
    }

    /// Like [`Self::check`], in a background task.
    pub(super) fn check_in_background(self: &Arc<Self>, at: usize) {
        let endpoints = Arc::clone(self);
        tokio::spawn(async move { endpoints.check(at, "the response ended early").await });
    }

    pub(super) fn mark_unhealthy(self: &Arc<Self>, at: usize, cause: &str) {
        let Some(endpoint) = self.pool.endpoints.get(at) else { return };
        // Only once when several statements meet the same failure.
        if !endpoint.mark_unhealthy() {
            return;
        }
        tracing::warn!(endpoint = endpoint.name, cause, "marked a ClickHouse endpoint unhealthy");
        self.metrics.set_healthy(&endpoint.name, false);
        let first = backoff(0, self.entropy.as_ref());
        endpoint.retry_after(first);
        tokio::spawn(retry_until_healthy(Arc::downgrade(self), at, first));
    }

    /// Whether an endpoint answers statements again. An error that is the statement's own counts as an answer.
    async fn has_recovered(&self, at: usize) -> bool {
        let statement = Statement::new("SELECT 1");
        let limits = QueryLimits { seconds: PROBE_SECONDS, rows: 0 };
        let query = QueryRequest::collected(&statement, SettingsMode::All(limits));
        match self.send(at, &query, Instant::now() + limits.timeout()).await {
            Ok(_) | Err(AttemptError::Overloaded(_) | AttemptError::Exhausted { .. }) => true,
            Err(AttemptError::Final(error)) => !matches!(error, ClickHouseError::Timeout(_)),
            Err(_) => false,
        }
    }
}

/// Marks an endpoint unhealthy when it falls silent, as long as another one works: a busy server is better than none.
/// The task ends with the client. An endpoint that refuses or closes connections is found out by the next statement,
/// which loses no time.
async fn watch(endpoints: Weak<Endpoints>, at: usize) {
    loop {
        tokio::time::sleep(HEALTH_CHECK_INTERVAL).await;
        let Some(endpoints) = endpoints.upgrade() else { return };
        let Some(endpoint) = endpoints.pool.endpoints.get(at).filter(|endpoint| endpoint.is_healthy()) else {
            continue;
        };
        let silent = endpoints.health_check(endpoint, HEALTH_CHECK_TIMEOUT).await == HealthStatus::Silent;
        if silent && endpoints.pool.another_is_healthy(at) {
            endpoints.mark_unhealthy(at, "it does not respond to health checks");
        }
    }
}

/// Retries an endpoint with growing pauses until it is healthy. The task ends with the client.
async fn retry_until_healthy(endpoints: Weak<Endpoints>, at: usize, first: Duration) {
    let mut next = first;
    for failures in 1.. {
        tokio::time::sleep(next).await;
        let Some(endpoints) = endpoints.upgrade() else { return };
        let Some(endpoint) = endpoints.pool.endpoints.get(at) else { return };
        // The server may have been restarted with another version.
        endpoint.capabilities.reset();
        if endpoints.has_recovered(at).await {
            tracing::info!(endpoint = endpoint.name, "a ClickHouse endpoint is healthy again");
            endpoints.metrics.set_healthy(&endpoint.name, true);
            endpoints.pool.mark_healthy(endpoint);
            return;
        }
        next = backoff(failures, endpoints.entropy.as_ref());
        endpoint.retry_after(next);
    }
}

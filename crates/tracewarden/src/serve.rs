//! `tracewarden serve`: connects the components and runs them.

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use secrecy::ExposeSecret;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tracewarden_clickhouse::{ClickHouse, ClickHouseConfig};
use tracewarden_identity::Providers;
use tracewarden_model::Clock;
use tracewarden_rest::{Middleware, NestedInterface, ShutdownFlag, UnreadableHeads};
use tracewarden_service::{AdminSettings, AppDb, Bootstrap, Limits, Service, ServiceError, Settings};

use crate::ambient::{SystemClock, SystemEntropy};
use crate::configuration::Configuration;
use crate::configuration::values::LogFormat;
use crate::configuration::warnings::warnings;
use crate::connections::{self, Connections};
use crate::first_start::InitialPassword;
use crate::server::Timeouts;
use crate::{application_database, logging, metrics, server};

/// Deadline for a request's head; it also ends idle connections.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);

/// Maximum number of connections to the metrics listener.
const METRICS_CONNECTIONS: usize = 16;

/// A client that reads none of its answer for this long is disconnected.
const CLIENT_STALL: Duration = Duration::from_secs(60);

/// Runs the service until it receives the stop signal. A returned error has not been logged.
pub fn run(configuration: &Configuration) -> anyhow::Result<ExitCode> {
    logging::start(&configuration.log, configuration.log_format);
    let runtime = runtime()?;
    let result = runtime.block_on(serve(configuration));
    // Tasks that still run have had their grace period.
    runtime.shutdown_timeout(Duration::from_secs(1));
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // With JSON logs, a final line of plain text would break the reader. If the directives filter out errors, the plain
        // line is still better than none.
        Err(error)
            if configuration.log_format == LogFormat::Json && tracing::enabled!(tracing::Level::ERROR) =>
        {
            tracing::error!(error = format!("{error:#}"), "the service could not start");
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error),
    }
}

/// Returns the Tokio runtime, and installs the cryptography provider for TLS.
pub fn runtime() -> anyhow::Result<Runtime> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow!("another cryptography provider is installed"))?;
    Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}

async fn serve(configuration: &Configuration) -> anyhow::Result<()> {
    let started = SystemClock.now();
    for warning in warnings(configuration) {
        tracing::warn!("{warning}");
    }
    connections::raise_open_files_limit(configuration.max_connections);
    let mut stop = Box::pin(server::stop_signal().context("cannot listen for the stop signal")?);
    // Bind before anything is created, so that an address in use is found first.
    let listener = TcpListener::bind(configuration.listen)
        .await
        .with_context(|| format!("cannot listen on {}", configuration.listen))?;
    let address = listener.local_addr().context("no address to listen on")?;
    let metrics_listener = metrics::bind(configuration).await?;

    let db = tokio::select! {
        db = application_database::open(configuration.database_url.expose_secret(), &SystemClock) => db?,
        () = &mut stop => {
            tracing::info!("stopped");
            return Ok(());
        }
    };
    let public_origin = configuration.public_url.clone().unwrap_or_else(|| format!("http://{address}"));
    let service = service(configuration, db.clone(), &public_origin).await?;
    bootstrap(&service, configuration).await?;

    let http_metrics = tracewarden_rest::Metrics::default();
    let shutdown = ShutdownFlag::default();
    let middleware = Middleware {
        public_origin,
        trusted_proxies: configuration.trusted_proxies.clone().into(),
        entropy: Arc::new(SystemEntropy),
        metrics: http_metrics.clone(),
        shutdown: shutdown.clone(),
    };
    announce(address, &middleware.public_origin);

    let timeout = Timeouts { grace: configuration.shutdown_grace, stall: CLIENT_STALL, head: HEAD_DEADLINE };
    let connections = Connections::new(configuration.max_connections);
    let metrics_task = metrics_listener.map(|listener| {
        let routes = metrics::routes(metrics::registry(&http_metrics, &connections, &service, started));
        // Metrics are served until the end, so that operators can watch the last requests finish.
        tokio::spawn(async move {
            let connections = Connections::new(METRICS_CONNECTIONS);
            server::serve(listener, routes, None, std::future::pending(), timeout, &connections).await;
        })
    });
    let (end_background, ended) = watch::channel(());
    let (end_refreshes, stopping) = watch::channel(());
    let background_service = service.clone();
    let background = tokio::spawn(async move {
        // Fails when the sender is dropped, which is the end.
        let stop = |mut ended: watch::Receiver<()>| async move { drop(ended.changed().await) };
        let (maintenance, identities) = (background_service.maintenance(), background_service.identities());
        // A refresh that runs when the process is asked to stop ends while the last requests do.
        tokio::join!(maintenance.maintain(stop(ended)), identities.refresh_sessions(stop(stopping)));
    });
    let stop = async move {
        stop.await;
        drop(end_refreshes);
    };
    let stop = drain(stop, shutdown, configuration.shutdown_delay);
    let mcp = tracewarden_mcp::InterfaceConfig {
        public_origin: middleware.public_origin.clone(),
        hosts: configuration.mcp_hosts.clone(),
    };
    let mcp = NestedInterface { path: "/mcp", interface: tracewarden_mcp::interface(service.clone(), mcp) };
    let heads = UnreadableHeads::new(&middleware);
    let routes = tracewarden_rest::router(service, middleware, mcp);
    server::serve(listener, routes, Some(heads), stop, timeout, &connections).await;
    drop(end_background);
    if let Err(error) = background.await {
        // The error itself is not logged: it quotes the panic's message.
        tracing::error!(panicked = error.is_panic(), "the background tasks ended unexpectedly");
    }
    if let Some(metrics_task) = metrics_task {
        metrics_task.abort();
    }
    db.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// Creates the service, which users reach at `public_origin`; connects to nothing but the application database.
pub async fn service(
    configuration: &Configuration,
    db: AppDb,
    public_origin: &str,
) -> anyhow::Result<Service> {
    let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
    let store = ClickHouse::new(store_config(configuration), entropy.clone())
        .context("cannot set up the ClickHouse client")?;
    let created = Service::new(db, store, clock, entropy, settings(configuration, public_origin)?).await;
    created.map_err(|error| explain("cannot start", &error))
}

/// Reports "not ready" to load balancers after the stop signal, and gives them time to react.
async fn drain(stop: impl Future<Output = ()>, shutdown: ShutdownFlag, delay: Duration) {
    stop.await;
    shutdown.begin();
    if !delay.is_zero() {
        tracing::info!(seconds = delay.as_secs(), "stop requested; still serving requests");
        tokio::time::sleep(delay).await;
    }
}

/// Announces the address: on the standard output for programs that started the service, in the log for people.
fn announce(address: SocketAddr, public_origin: &str) {
    let url = format!("http://{}", server::reachable(address));
    let mut output = std::io::stdout();
    if let Err(error) = writeln!(output, "listening {url}").and_then(|()| output.flush()) {
        // The announcement is optional, so a failed write is only logged.
        tracing::debug!(%error, "standard output is closed");
    }
    tracing::info!(public_origin, "listening on {url}");
}

async fn bootstrap(service: &Service, configuration: &Configuration) -> anyhow::Result<()> {
    let admin = AdminSettings {
        username: configuration.admin_username.clone(),
        password_hash: configuration.admin_password_hash.as_ref().map(|hash| hash.expose_secret().to_owned()),
    };
    let mut destination = InitialPassword::destination(configuration)?;
    let done =
        service.bootstrap(admin, |password| destination.store_password(password.expose_secret())).await;
    let done = done.map_err(|error| {
        // If it is unknown whether the administrator was created, the password may be valid, so the file stays.
        if !matches!(error, ServiceError::OutcomeUnknown { .. }) {
            destination.discard();
        }
        explain("cannot set up the administrator", &error)
    })?;
    match done {
        Bootstrap::Unchanged => {}
        Bootstrap::Created { username, password: None } => {
            tracing::info!(username, "created the administrator with the configured password hash");
        }
        Bootstrap::Created { username, password: Some(password) } => {
            destination
                .announce(&username, password.expose_secret())
                .context("cannot show the administrator's password; it is lost: set `admin_password_hash`")?;
        }
        Bootstrap::HashReplaced { username } => {
            tracing::warn!(
                username,
                "replaced the administrator's password by the configured hash; sessions ended"
            );
        }
    }
    Ok(())
}

pub fn store_config(configuration: &Configuration) -> ClickHouseConfig {
    ClickHouseConfig {
        endpoints: configuration.clickhouse_url.clone(),
        user: configuration.clickhouse_user.clone(),
        password: configuration.clickhouse_password.clone(),
        max_execution_time_seconds: u32::try_from(configuration.query_timeout.as_secs()).unwrap_or(u32::MAX),
        max_memory_bytes: configuration.query_memory,
        max_threads: configuration.query_threads,
        answer_timeout_seconds: u32::try_from(configuration.answer_timeout.as_secs()).unwrap_or(u32::MAX),
        max_trace_duration_nanos: configuration.max_trace_duration.map(nanos),
    }
}

fn settings(configuration: &Configuration, public_origin: &str) -> anyhow::Result<Settings> {
    let limits = Limits {
        max_conditions: configuration.max_conditions,
        max_values: configuration.max_values,
        ..Limits::default()
    };
    let providers = configuration.identity_providers.iter().flat_map(|file| file.providers.clone());
    Ok(Settings {
        limits,
        discovery_samples: configuration.discovery_samples,
        collateral_access_warning: configuration.collateral_access_warning,
        session_absolute_nanos: configuration.session_lifetime.map(nanos),
        session_idle_nanos: configuration.session_idle.map(nanos),
        max_queries_per_user: configuration.max_queries_per_user,
        audit_retention_nanos: configuration.audit_retention.map(nanos),
        providers: Providers::new(providers, public_origin)
            .context("cannot set up the identity providers")?,
        identity_max_age_nanos: nanos(configuration.identity_max_age),
        refresh_token_key: configuration.refresh_token_key.clone(),
        password_login: configuration.password_login,
        ..Settings::default()
    })
}

/// Converts to nanoseconds; the longest configurable duration fits.
fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Includes the cause of the error: the operator may see it, API clients may not.
pub fn explain(what: &str, error: &ServiceError) -> anyhow::Error {
    match error.log_cause() {
        Some(log_cause) => anyhow!("{what}: {}: {log_cause}", error.detail()),
        None => anyhow!("{what}: {}", error.detail()),
    }
}

//! `tracewarden serve`: puts the parts together and runs them.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use secrecy::ExposeSecret;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tracewarden_model::{Clock, Entropy};
use tracewarden_rest::{Edge, Mount, Stopping, UnreadableHeads};
use tracewarden_service::{AdminSettings, Bootstrap, Limits, Service, ServiceError, Settings};
use tracewarden_tracestore::{StoreConfig, TraceStore};

use crate::ambient::{SystemClock, SystemEntropy};
use crate::configuration::Configuration;
use crate::configuration::LogFormat;
use crate::configuration::doubts::doubts;
use crate::connections::{self, Connections};
use crate::first_start::InitialPassword;
use crate::server::Patience;
use crate::{logging, metrics, own_database, server};

/// A head must have arrived after this time; it also ends idle connections.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);

/// Connections of those who collect metrics.
const METRICS_CONNECTIONS: usize = 16;

/// A client that takes nothing of its answer for this long is let go.
const CLIENT_STALL: Duration = Duration::from_secs(60);

/// Runs the service until it is told to stop.
///
/// # Errors
/// When it cannot start, and that was not said in the log.
pub fn run(configuration: &Configuration) -> anyhow::Result<ExitCode> {
    logging::start(&configuration.log, configuration.log_format);
    let runtime = runtime()?;
    let result = runtime.block_on(serve(configuration));
    // Whatever still runs had its time.
    runtime.shutdown_timeout(Duration::from_secs(1));
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Whoever reads objects must not find a line of another kind at the end. Where the directives leave errors out, the
        // plain line is better than none.
        Err(error)
            if configuration.log_format == LogFormat::Json && tracing::enabled!(tracing::Level::ERROR) =>
        {
            tracing::error!(error = format!("{error:#}"), "the service could not start");
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error),
    }
}

/// What asynchronous work runs on, with the cryptography of its connections.
///
/// # Errors
/// When the operating system gives no threads.
pub fn runtime() -> anyhow::Result<Runtime> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow!("another cryptography provider is installed"))?;
    Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}

async fn serve(configuration: &Configuration) -> anyhow::Result<()> {
    for doubt in doubts(configuration) {
        tracing::warn!("{doubt}");
    }
    connections::make_room(configuration.max_connections);
    let mut stop = Box::pin(server::stop_signal().context("cannot watch for the signal to stop")?);
    // First, so that an address in use is found before anything is created.
    let listener = TcpListener::bind(configuration.listen)
        .await
        .with_context(|| format!("cannot listen on {}", configuration.listen))?;
    let address = listener.local_addr().context("no address to listen on")?;
    let metrics_listener = metrics::bind(configuration).await?;

    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let db = tokio::select! {
        db = own_database::open(configuration.database_url.expose(), clock.as_ref()) => db?,
        () = &mut stop => {
            tracing::info!("stopped");
            return Ok(());
        }
    };
    let store = TraceStore::new(store_config(configuration), Arc::clone(&entropy))
        .context("cannot set up the trace store's client")?;
    let service = Service::new(db.clone(), store, clock, Arc::clone(&entropy), settings(configuration))
        .await
        .map_err(|error| explain("cannot start", &error))?;
    bootstrap(&service, configuration).await?;

    let public_origin = configuration.public_origin.clone().unwrap_or_else(|| format!("http://{address}"));
    let http_metrics = tracewarden_rest::Metrics::default();
    let stopping = Stopping::default();
    let edge = Edge {
        public_origin,
        trusted_proxies: configuration.trusted_proxies.clone().into(),
        entropy,
        metrics: http_metrics.clone(),
        stopping: stopping.clone(),
    };
    announce(address, &edge.public_origin);

    let patience = Patience { grace: configuration.shutdown_grace, stall: CLIENT_STALL, head: HEAD_DEADLINE };
    let connections = Connections::new(configuration.max_connections);
    let counted = metrics_listener.map(|listener| {
        let routes = metrics::routes(metrics::registry(&http_metrics, &connections, &service));
        // Until the very end, so that it can be watched how the last answers finish.
        tokio::spawn(async move {
            let connections = Connections::new(METRICS_CONNECTIONS);
            server::serve(listener, routes, None, std::future::pending(), patience, &connections).await;
        })
    });
    let (end_maintenance, ended) = oneshot::channel::<()>();
    let maintained = service.clone();
    let maintenance = tokio::spawn(async move {
        // The other end is dropped or used; either is the end.
        maintained.maintain(async { drop(ended.await) }).await;
    });
    let stop = notice(stop, stopping, configuration.shutdown_delay);
    let mcp = tracewarden_mcp::Interface {
        public_origin: edge.public_origin.clone(),
        hosts: configuration.mcp_hosts.clone(),
    };
    let mcp = Mount { path: "/mcp", interface: tracewarden_mcp::interface(service.clone(), mcp) };
    let heads = UnreadableHeads::new(&edge);
    let routes = tracewarden_rest::router(service, edge, mcp);
    server::serve(listener, routes, Some(heads), stop, patience, &connections).await;
    drop(end_maintenance);
    if let Err(error) = maintenance.await {
        // Not the error itself, which quotes a panic.
        tracing::error!(panicked = error.is_panic(), "the maintenance ended early");
    }
    if let Some(counted) = counted {
        counted.abort();
    }
    db.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// Lets whoever balances the load know that the service is about to stop, and then gives them time to notice.
async fn notice(stop: impl Future<Output = ()>, stopping: Stopping, delay: Duration) {
    stop.await;
    stopping.begin();
    if !delay.is_zero() {
        tracing::info!(seconds = delay.as_secs(), "about to stop; requests are still served");
        tokio::time::sleep(delay).await;
    }
}

/// Says where the service listens: on standard output for programs that started it, in the log for people.
fn announce(address: SocketAddr, public_origin: &str) {
    let reachable = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let url = format!("http://{}", SocketAddr::new(reachable, address.port()));
    let mut output = std::io::stdout();
    if let Err(error) = writeln!(output, "listening {url}").and_then(|()| output.flush()) {
        // Nobody reads it, and nobody has to.
        tracing::debug!(%error, "standard output is closed");
    }
    tracing::info!(public_origin, "listening on {url}");
}

async fn bootstrap(service: &Service, configuration: &Configuration) -> anyhow::Result<()> {
    let admin = AdminSettings {
        username: configuration.admin_username.clone(),
        password_hash: configuration.admin_password_hash.as_ref().map(|hash| hash.expose().to_owned()),
    };
    let mut place = InitialPassword::place(configuration)?;
    let done = service.bootstrap(admin, |password| place.keep(password.expose_secret())).await;
    let done = done.map_err(|error| {
        // Where nobody knows whether the administrator exists, the password may be valid.
        if !matches!(error, ServiceError::OutcomeUnknown { .. }) {
            place.withdraw();
        }
        explain("cannot set up the administrator", &error)
    })?;
    match done {
        Bootstrap::Unchanged => {}
        Bootstrap::Created { username, password: None } => {
            tracing::info!(username, "created the administrator with the configured password hash");
        }
        Bootstrap::Created { username, password: Some(password) } => {
            place
                .announce(&username, password.expose_secret())
                .context("cannot show the administrator's password; it is lost: configure a hash")?;
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

/// How to reach the trace store.
pub fn store_config(configuration: &Configuration) -> StoreConfig {
    StoreConfig {
        endpoints: configuration.clickhouse_endpoints.clone(),
        user: configuration.clickhouse_user.clone(),
        password: configuration.clickhouse_password.expose().into(),
        max_execution_time_seconds: u32::try_from(configuration.query_timeout.as_secs()).unwrap_or(u32::MAX),
        max_memory_bytes: configuration.query_memory_bytes,
        max_threads: configuration.query_threads,
        answer_timeout_seconds: u32::try_from(configuration.answer_timeout.as_secs()).unwrap_or(u32::MAX),
        max_trace_duration_nanos: configuration.max_trace_duration.map(nanos),
    }
}

fn settings(configuration: &Configuration) -> Settings {
    let limits = Limits {
        max_conditions: configuration.max_conditions,
        max_values: configuration.max_values,
        ..Limits::default()
    };
    Settings {
        limits,
        discovery_samples: configuration.discovery_samples,
        overshare_warning: configuration.overshare_warning,
        session_absolute_nanos: configuration.session_lifetime.map(nanos),
        session_idle_nanos: configuration.session_idle.map(nanos),
        max_queries_per_user: configuration.max_queries_per_user,
        audit_retention_nanos: configuration.audit_retention.map(nanos),
        ..Settings::default()
    }
}

/// Nanoseconds; the longest configurable duration fits.
fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// The operator may see what no client may.
fn explain(what: &str, error: &ServiceError) -> anyhow::Error {
    match error.inside() {
        Some(inside) => anyhow!("{what}: {}: {inside}", error.detail()),
        None => anyhow!("{what}: {}", error.detail()),
    }
}

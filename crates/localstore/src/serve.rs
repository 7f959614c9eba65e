//! Runs the process: data directory, engine, ports and shutdown.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::engine::Engine;
use crate::http::connection::{Flushes, WatchedListener};
use crate::http::credentials::Credentials;
use crate::http::{self, Server};
use crate::options::Options;
use crate::otlp::{self, Receiver, commit::Committer};
use crate::running::Registry;

/// Time for requests to complete after the shutdown signal, and again after their queries were stopped.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);

/// Error that prevents the process from starting.
pub type StartError = Box<dyn std::error::Error>;

/// Runs until a signal or, depending on the options, the end of standard input.
pub fn run(options: &Options) -> Result<(), StartError> {
    let library = options.engine_path()?;
    let _lock = lock_data_directory(&options.data)?;
    // With a relative path the engine would append the path twice for some of its files.
    let data = options.data.canonicalize().map_err(|error| {
        format!("cannot determine the absolute path of {}: {error}", options.data.display())
    })?;
    let engine = Engine::start(&library, &data.join("clickhouse"), options.memory_limit)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(options.max_queries.saturating_mul(2).saturating_add(16))
        .build()?;
    let result = runtime.block_on(serve(options, &engine));
    runtime.shutdown_timeout(SHUTDOWN_GRACE);
    engine.shutdown();
    result
}

/// Locks the directory for this process. The lock ends with the process, even after a crash.
fn lock_data_directory(data: &Path) -> Result<File, StartError> {
    std::fs::create_dir_all(data)
        .map_err(|error| format!("cannot create the data directory {}: {error}", data.display()))?;
    let path = data.join("tracewarden-localstore.lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|error| format!("cannot open {}: {error}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(format!("the data directory {} is in use by another tracewarden-localstore", data.display())
                .into())
        }
        Err(std::fs::TryLockError::Error(error)) => {
            Err(format!("cannot lock {}: {error}", path.display()).into())
        }
    }
}

async fn serve(options: &Options, engine: &Arc<Engine>) -> Result<(), StartError> {
    let answer = engine.connect()?.run("SELECT version(), timezone() FORMAT TSVRaw")?;
    let answer = String::from_utf8_lossy(answer.as_ref()).into_owned();
    let (version, timezone) =
        answer.trim_end().split_once('\t').ok_or("the engine does not return its version")?;
    let registry = Registry::new(Arc::clone(engine), options.max_queries);
    let server = Arc::new(Server {
        credentials: Credentials { user: options.user.clone(), password: options.password.clone() },
        registry: Arc::clone(&registry),
        version: version.to_owned(),
        timezone: timezone.to_owned(),
    });
    let listener = bind(options.listen).await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = watch::channel(false);
    let mut ports = tokio::task::JoinSet::new();
    ports.spawn(serve_port(listener, http::router(server, address), stopped.clone()));
    let otlp_address = match options.otlp {
        None => None,
        Some(otlp) => {
            otlp::table::create(engine, &options.otlp_database)?;
            let listener = bind(otlp).await?;
            let address = listener.local_addr()?;
            let receiver = Receiver::new(Committer::start(Arc::clone(engine), &options.otlp_database));
            ports.spawn(serve_port(listener, otlp::router(receiver, address), stopped));
            Some(address)
        }
    };
    // From the first line on, a signal ends the process in order.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // The parent process reads these lines; all other output goes to standard error.
    println!("listening http://{address}");
    if let Some(address) = otlp_address {
        println!("otlp http://{address}/v1/traces");
    }
    std::io::stdout().flush()?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = stdin_closed(), if options.exit_with_stdin => {}
        Some(ended) = ports.join_next() => ended??,
    }
    let _ = stop.send(true);
    // Running requests first may complete, then are stopped, then are abandoned.
    for _ in 0..2 {
        let ended = async { while ports.join_next().await.is_some() {} };
        if tokio::time::timeout(SHUTDOWN_GRACE, ended).await.is_ok() {
            break;
        }
        registry.stop_all();
    }
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|error| format!("cannot listen on {address}: {error}").into())
}

async fn serve_port(
    listener: TcpListener,
    router: axum::Router,
    mut stopped: watch::Receiver<bool>,
) -> std::io::Result<()> {
    axum::serve(WatchedListener(listener), router.into_make_service_with_connect_info::<Flushes>())
        .with_graceful_shutdown(async move {
            let _ = stopped.wait_for(|stop| *stop).await;
        })
        .await
}

async fn stdin_closed() {
    // On its own thread: a blocking read cannot be cancelled, and the process must not wait for it.
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = sender.send(());
    });
    let _ = receiver.await;
}

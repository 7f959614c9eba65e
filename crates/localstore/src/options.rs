//! Command-line options.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Version of the engine, which is also the name of its directory in the cache.
pub const ENGINE_VERSION: &str = "26.7.3-stable.1";

/// A ClickHouse engine in its own process that speaks ClickHouse's HTTP protocol.
#[derive(Debug, clap::Parser)]
#[command(name = "tracewarden-localstore", version)]
pub struct Options {
    /// Data directory; created if missing. Only one process at a time can use it.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Address for ClickHouse's HTTP protocol. Port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8123")]
    pub listen: SocketAddr,
    /// Address for OTLP over HTTP (`/v1/traces`); off by default. Port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS")]
    pub otlp: Option<SocketAddr>,
    /// Database of the table `otel_traces` that the OTLP receiver writes.
    #[arg(long, value_name = "NAME", default_value = "otel")]
    pub otlp_database: String,
    /// Required user name.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub user: String,
    /// Required password. Other users of this machine can see it on the command line, so prefer the environment
    /// variable.
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "TRACEWARDEN_LOCALSTORE_PASSWORD",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    pub password: String,
    /// Memory limit for all queries together, in bytes; 0 leaves it to the engine (most of the machine's memory).
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 30)]
    pub memory_limit: u64,
    /// Maximum number of concurrent queries.
    #[arg(long, value_name = "NUMBER", default_value_t = 64)]
    pub max_queries: usize,
    /// Path of `libchdb.so`.
    #[arg(long, value_name = "PATH", env = "TRACEWARDEN_LIBCHDB")]
    pub engine: Option<PathBuf>,
    /// Exit when standard input is closed.
    #[arg(long)]
    pub exit_with_stdin: bool,
}

impl Options {
    /// Returns the path of the engine's library: the given path, or the one where `cargo xtask engine` stores it.
    pub fn engine_path(&self) -> Result<PathBuf, String> {
        let known = self.engine.clone().or_else(cached_engine);
        let path = known.ok_or("neither XDG_CACHE_HOME nor HOME is set; pass --engine PATH")?;
        if path.is_file() {
            return Ok(path);
        }
        Err(format!(
            "there is no ClickHouse engine at {}; run `cargo xtask engine`, or pass --engine PATH",
            path.display()
        ))
    }
}

fn cached_engine() -> Option<PathBuf> {
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(std::env::var_os("HOME").filter(|path| !path.is_empty())?).join(".cache"),
    };
    Some(cache.join("tracewarden").join("engine").join(ENGINE_VERSION).join("libchdb.so"))
}

//! The configuration: parsed and validated as a whole before anything starts.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use tracewarden_service::{AdminSettings, AppDb};

pub mod settings;
pub mod sources;
pub mod values;
pub mod warnings;

use sources::{Sources, default_value};

/// Text that is never displayed or logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Returns the text, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// All settings of the service.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Origin that browsers see; `None`: derived from the listen address.
    pub public_origin: Option<String>,
    /// Proxies whose `X-Forwarded-For` header is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Further host names under which agents reach the MCP interface.
    pub mcp_hosts: Vec<String>,
    /// URL of the application database.
    pub database_url: Secret,
    /// HTTP addresses of ClickHouse.
    pub clickhouse_endpoints: Vec<String>,
    /// ClickHouse user.
    pub clickhouse_user: String,
    /// Password of the ClickHouse user.
    pub clickhouse_password: Secret,
    /// Name of the first administrator.
    pub admin_username: String,
    /// PHC string with the first administrator's password hash.
    pub admin_password_hash: Option<Secret>,
    /// File for the first administrator's generated password when there is no terminal; `None`: next to the database.
    pub initial_password_file: Option<PathBuf>,
    /// How far a query looks outside its time range; `None`: no limit.
    pub max_trace_duration: Option<Duration>,
    /// Maximum number of conditions in a filter.
    pub max_conditions: usize,
    /// Maximum number of values in a condition.
    pub max_values: usize,
    /// Time limit of a ClickHouse query.
    pub query_timeout: Duration,
    /// Memory limit of a ClickHouse query, in bytes.
    pub query_memory_bytes: u64,
    /// Threads of a ClickHouse query; `None`: ClickHouse's default.
    pub query_threads: Option<u32>,
    /// Maximum time for reading an answer of ClickHouse.
    pub answer_timeout: Duration,
    /// Absolute lifetime of a session; `None`: no limit.
    pub session_lifetime: Option<Duration>,
    /// Idle lifetime of a session; `None`: no limit.
    pub session_idle: Option<Duration>,
    /// Maximum number of concurrent queries of one user; `None`: no limit.
    pub max_queries_per_user: Option<usize>,
    /// Maximum number of open connections.
    pub max_connections: usize,
    /// Retention of audit records; `None`: forever.
    pub audit_retention: Option<Duration>,
    /// Whether discovery shows example values.
    pub discovery_samples: bool,
    /// Number of services at which storing a policy warns that it makes them visible only by collateral access.
    pub collateral_access_warning: u64,
    /// How long after the stop signal `/readyz` reports "not ready" while all other requests are still served.
    pub shutdown_delay: Duration,
    /// How long requests in flight may take after that.
    pub shutdown_grace: Duration,
    /// Address to serve metrics on; `None`: metrics are not served.
    pub metrics_listen: Option<SocketAddr>,
    /// Log directives.
    pub log: String,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Files that secrets were read from.
    pub secret_files: Vec<PathBuf>,
    /// Every setting with its effective value, for people; secrets are not shown.
    pub lines: Vec<String>,
}

impl Configuration {
    /// Reads the file and the environment.
    ///
    /// # Errors
    /// One message per error, each naming the setting. No message repeats a secret.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Vec<String>> {
        let mut reader = Reader { sources: Sources::read(file, environment), errors: Vec::new() };
        let configuration = reader.configuration();
        let mut errors = reader.sources.into_errors();
        errors.extend(reader.errors);
        match configuration {
            Some(configuration) if errors.is_empty() => Ok(configuration),
            _ => Err(errors),
        }
    }
}

struct Reader {
    sources: Sources,
    errors: Vec<String>,
}

impl Reader {
    /// Returns the value of a setting that has a default; `None` after an error.
    fn value<T>(&mut self, name: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        match self.optional(name, parse) {
            Some(Some(value)) => Some(value),
            Some(None) => {
                self.errors.push(format!("`{name}` is required"));
                None
            }
            None => None,
        }
    }

    /// Returns the value of a setting, `Some(None)` if it was not given, or `None` after an error.
    fn optional<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Option<T>> {
        let (text, origin) = match (self.sources.get(name), default_value(name)) {
            (Some(given), _) => (given.text.as_str(), given.origin.as_str()),
            (None, Some(default)) => (default, name),
            (None, None) => return Some(None),
        };
        match parse(text) {
            Ok(value) => Some(Some(value)),
            Err(message) => {
                self.errors.push(format!("{origin}: {message}"));
                None
            }
        }
    }

    fn configuration(&mut self) -> Option<Configuration> {
        // All settings are parsed before the first `?`, so that one start reports every error.
        let listen = self.value("listen", values::address);
        let public_origin = self.optional("public_url", values::origin);
        let trusted_proxies = self.value("trusted_proxies", values::networks);
        let mcp_hosts = self.value("mcp_hosts", values::hosts);
        let database_url = self.value("database_url", database_url);
        let clickhouse_endpoints = self.value("clickhouse_url", values::endpoints);
        let clickhouse_user = self.value("clickhouse_user", any);
        let clickhouse_password = self.value("clickhouse_password", secret);
        let admin_username = self.value("admin_username", admin_username);
        let admin_password_hash = self.optional("admin_password_hash", password_hash);
        let initial_password_file = self.optional("initial_password_file", |text| Ok(PathBuf::from(text)));
        let audit_retention = self.value("audit_retention", values::duration);
        let max_trace_duration = self.value("max_trace_duration", values::duration);
        let max_conditions = self.value("max_conditions", |text| values::count(text, 1, 1_000));
        let max_values = self.value("max_values", |text| values::count(text, 2, 10_000));
        let query_timeout = self.value("query_timeout", values::limited_duration);
        let query_memory_bytes = self.value("query_memory", values::bytes);
        let query_threads = self.value("query_threads", |text| match text {
            "auto" => Ok(None),
            _ => values::count(text, 1, 1_024)
                .map(|threads| u32::try_from(threads).ok())
                .map_err(|error| format!("{error}, or `auto`")),
        });
        let answer_timeout = self.value("answer_timeout", values::limited_duration);
        let session_lifetime = self.value("session_lifetime", values::duration);
        let session_idle = self.value("session_idle", values::duration);
        let max_queries_per_user = self.value("max_queries_per_user", |text| match text {
            "unlimited" => Ok(None),
            _ => values::count(text, 1, 10_000).map(Some).map_err(|error| format!("{error}, or `unlimited`")),
        });
        let max_connections = self.value("max_connections", |text| values::count(text, 10, 100_000));
        let discovery_samples = self.value("discovery_samples", values::boolean);
        let collateral_access_warning = self.value("collateral_access_warning", |text| {
            values::count(text, 0, 100_000).map(|count| count as u64)
        });
        let shutdown_delay = self.value("shutdown_delay", values::delay);
        let shutdown_grace = self.value("shutdown_grace", values::limited_duration);
        let metrics_listen = self.optional("metrics_listen", values::address);
        let log = self.value("log", log_directives);
        let log_format = self.value("log_format", log_format);

        if let (Some(query), Some(answer)) = (query_timeout, answer_timeout)
            && answer < query
        {
            self.errors.push("`answer_timeout` must not be less than `query_timeout`".to_owned());
        }
        let (listen, public_origin) = (listen?, public_origin?);
        if public_origin.is_none() && !listen.ip().is_loopback() {
            self.errors.push("`public_url` is required when `listen` is not a loopback address".to_owned());
        }
        let metrics_listen = metrics_listen?;
        if metrics_listen.is_some_and(|metrics| same_port(listen, metrics)) {
            self.errors.push(
                "`metrics_listen` and `listen` name the same port; choose another port for metrics"
                    .to_owned(),
            );
        }
        Some(Configuration {
            listen,
            public_origin,
            trusted_proxies: trusted_proxies?,
            mcp_hosts: mcp_hosts?,
            database_url: database_url?,
            clickhouse_endpoints: clickhouse_endpoints?,
            clickhouse_user: clickhouse_user?,
            clickhouse_password: clickhouse_password?,
            admin_username: admin_username?,
            admin_password_hash: admin_password_hash?,
            initial_password_file: initial_password_file?,
            max_trace_duration: max_trace_duration?,
            max_conditions: max_conditions?,
            max_values: max_values?,
            query_timeout: query_timeout?,
            query_memory_bytes: query_memory_bytes?,
            query_threads: query_threads?,
            answer_timeout: answer_timeout?,
            session_lifetime: session_lifetime?,
            session_idle: session_idle?,
            max_queries_per_user: max_queries_per_user?,
            max_connections: max_connections?,
            audit_retention: audit_retention?,
            discovery_samples: discovery_samples?,
            collateral_access_warning: collateral_access_warning?,
            shutdown_delay: shutdown_delay?,
            shutdown_grace: shutdown_grace?,
            metrics_listen,
            log: log?,
            log_format: log_format?,
            secret_files: self.sources.secret_files().to_vec(),
            lines: self.sources.lines(),
        })
    }
}

/// Whether two addresses cannot be listened on at the same time.
fn same_port(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip(), other.ip());
    one.port() != 0 && one.port() == other.port() && (a == b || a.is_unspecified() || b.is_unspecified())
}

fn any(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret(text.to_owned()))
}

/// Checks the URL with the library that connects, so that every accepted URL can be used to connect. Its messages do not
/// show the URL, which may contain a password.
fn database_url(text: &str) -> Result<Secret, String> {
    match AppDb::check_url(text) {
        Ok(()) => Ok(Secret(text.to_owned())),
        Err(error) => Err(error.to_string()),
    }
}

fn admin_username(text: &str) -> Result<String, String> {
    AdminSettings::check_username(text).map(|()| text.to_owned())
}

fn password_hash(text: &str) -> Result<Secret, String> {
    match AdminSettings::check_password_hash(text) {
        Ok(()) => Ok(Secret(text.to_owned())),
        Err(reason) => Err(format!("must be a hash from `tracewarden hash-password`: {reason}")),
    }
}

fn log_directives(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    // The library would take a bare word for the name of a target: a misspelt level would silence the log.
    let unknown = text.split(',').map(str::trim).find(|directive| {
        !directive.contains('=') && !LEVELS.iter().any(|level| directive.eq_ignore_ascii_case(level))
    });
    if let Some(word) = unknown {
        return Err(format!("`{word}` is neither a level ({}) nor `part=level`", LEVELS.join(", ")));
    }
    match text.parse::<tracing_subscriber::filter::Targets>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("`{text}`: {error}")),
    }
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("`{text}` is neither `text` nor `json`")),
    }
}

/// Documentation of all settings as Markdown; committed as `docs/configuration.md`.
#[cfg(test)]
fn documentation() -> String {
    let mut text = String::from(include_str!("configuration/preamble.md"));
    for setting in settings::SETTINGS {
        let default = match setting.default {
            None => "no default".to_owned(),
            Some("") => "default: empty".to_owned(),
            Some(default) => format!("default: `{default}`"),
        };
        let variable = setting.variable();
        let by_file = if setting.secret { format!(", or a file: `{variable}_FILE`") } else { String::new() };
        text.push_str(&format!(
            "\n### `{}`\n\n`{variable}`{by_file}; {default}\n\n{}\n",
            setting.name,
            setting.help.split_whitespace().collect::<Vec<_>>().join(" ")
        ));
    }
    text
}

#[cfg(test)]
mod tests;

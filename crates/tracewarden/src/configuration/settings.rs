//! The list of settings: name, type, default, meaning, parser. The configuration, `check-config` and the documentation come
//! from it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use secrecy::SecretString;
use tracewarden_service::{EncryptionKey, PasswordLogin};

use super::identity::IdentityFile;
use super::sources::{Setting, Sources};
use super::values::{
    LogFormat, address, admin_username, any, bytes, database_url, delay, duration, either, encryption_key,
    endpoints, hosts, limited_duration, log_directives, networks, number, origin, password_hash,
    password_login, unless,
};

/// Defines the settings. A setting without a default is optional, and a `secret` is never shown.
macro_rules! settings {
    (@secret plain) => { false };
    (@secret secret) => { true };
    (@default) => { None };
    (@default $default:literal) => { Some($default) };
    (@parse $sources:ident, $name:ident, $parse:expr) => { $sources.optional(stringify!($name), $parse) };
    (@parse $sources:ident, $name:ident, $parse:expr, $default:literal) => {
        $sources.value(stringify!($name), $default, $parse)
    };
    ($($(#[doc = $help:literal])+ $kind:ident $name:ident: $type:ty $(= $default:literal)?, $parse:expr;)+) => {
        /// All settings.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            name: stringify!($name),
            secret: settings!(@secret $kind),
            default: settings!(@default $($default)?),
            help: concat!($($help),+),
        }),+];

        /// The values of all settings.
        #[derive(Debug, Clone)]
        pub struct Configuration {
            $($(#[doc = $help])+ pub $name: $type,)+
            /// Files that secrets were read from.
            pub secret_files: Vec<PathBuf>,
            /// Every setting with its effective value, for people; secrets are not shown.
            pub lines: Vec<String>,
        }

        impl Configuration {
            /// Parses the settings. Returns `None` and adds to the errors if a value is not valid.
            pub(super) fn parse(sources: &mut Sources) -> Option<Self> {
                // All settings are parsed before the first `?`, so that one start reports every error.
                $(let $name = settings!(@parse sources, $name, $parse $(, $default)?);)+
                Some(Self {
                    $($name: $name?,)+
                    secret_files: sources.secret_files.clone(),
                    lines: sources.lines(),
                })
            }
        }
    };
}

settings! {
    /// Address and port to listen on. Port 0 selects a free port.
    plain listen: SocketAddr = "127.0.0.1:8080", address;
    /// Scheme, host and port under which browsers reach the service, such as `https://traces.example.com`. It
    /// determines the session cookie and which requests count as same-site. Plain `http` is accepted for
    /// loopback names only. Derived from `listen` if that is a loopback address; required otherwise.
    plain public_url: Option<String>, origin;
    /// Addresses or networks (`10.0.0.0/8`) of reverse proxies whose `X-Forwarded-For` header is trusted.
    /// From other clients, the header is ignored.
    plain trusted_proxies: Vec<IpNet> = "", networks;
    /// Host names, with or without a port, that agents may use for `/mcp` in addition to that of `public_url`
    /// and loopback names, such as `tracewarden.internal:8080`. Requests with another `Host` are refused
    /// there.
    plain mcp_hosts: Vec<String> = "", hosts;
    /// The application database: `sqlite:PATH`, relative to the working directory, for one process; or
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, which several processes can share. The parameters of
    /// PostgreSQL's connection URLs are supported (`sslmode`, `sslrootcert`, `host` with the directory of a
    /// socket).
    secret database_url: SecretString = "sqlite:tracewarden.db", database_url;
    /// HTTP addresses of ClickHouse servers: replicas that hold the same data. The service uses the first
    /// healthy one; if it fails, it uses the next one until the first is healthy again.
    plain clickhouse_url: Vec<String> = "http://127.0.0.1:8123", endpoints;
    /// ClickHouse user. It needs to read the bound table and nothing else;
    /// [operations.md](operations.md#the-clickhouse-user) has the statements that create such a user, and
    /// `tracewarden check-config` reports missing rights.
    plain clickhouse_user: String = "default", any;
    /// Password of the ClickHouse user.
    secret clickhouse_password: SecretString = "", any;
    /// Name of the administrator that is created at the first start.
    plain admin_username: String = "admin", admin_username;
    /// Argon2id hash from `tracewarden hash-password`, which hashes the password in Unicode's normal form C.
    /// At the first start it is the administrator's; later, a value that was never used before replaces the
    /// administrator's password and ends the administrator's sessions.
    secret admin_password_hash: Option<SecretString>, password_hash;
    /// File for the first administrator's generated password, if there is neither a hash nor a terminal.
    /// Default: next to the SQLite file under its name with `.initial-password`, or with PostgreSQL
    /// `tracewarden.initial-password` in the working directory. The file has mode 0600, and its path is
    /// logged. If the file cannot be written, or exists and was not left by an earlier start, no
    /// administrator is created and the start fails.
    plain initial_password_file: Option<PathBuf>, any;
    /// TOML file with the identity providers that people sign in with, one table for each;
    /// [identity.md](identity.md) describes it.
    plain identity_providers: Option<IdentityFile>, IdentityFile::read;
    /// How long the roles and attributes from an identity provider hold after the provider confirmed them, which it
    /// does at each sign-in and each [refresh](identity.md#refreshing-sessions). Afterwards the sessions end, and the person's API keys are rejected until the next
    /// sign-in.
    plain identity_max_age: Duration = "24h", limited_duration;
    /// Key that encrypts the refresh tokens of identity providers in the application database: 32 bytes in base64, as
    /// `openssl rand -base64 32` prints them; the same on all processes. Required if a provider has a `refresh_interval`.
    /// Refresh tokens that were encrypted with another key are dropped.
    secret refresh_token_key: Option<EncryptionKey>, encryption_key;
    /// Who may sign in with a password: `everyone`; `administrators`, the users to whom the role `admin` was assigned (a
    /// mapped role does not count); or `off`, no one, which requires `identity_providers`. `tracewarden break-glass USER` signs in a user whatever this says.
    plain password_login: PasswordLogin = "everyone", password_login;
    /// How long audit records are kept. The service removes older ones itself, in whole ranges from the
    /// oldest on, and records each removal.
    plain audit_retention: Option<Duration> = "unlimited", duration;
    /// How far outside of the window a query searches for the other spans of a trace while it decides, if the
    /// trace source has no trace index. A query may miss a longer trace; it never cuts one.
    plain max_trace_duration: Option<Duration> = "1h", duration;
    /// Maximum number of conditions in a filter, those of `same_span` and `none` included.
    plain max_conditions: usize = "20", |text| number(text, 1, 1_000);
    /// Maximum number of values in a condition.
    plain max_values: usize = "100", |text| number(text, 2, 10_000);
    /// Maximum duration of a ClickHouse query. A longer one is stopped.
    plain query_timeout: Duration = "30s", limited_duration;
    /// Maximum memory of a query on the ClickHouse server. A query that needs more is stopped.
    plain query_memory: u64 = "4GiB", bytes;
    /// Maximum number of threads of a query on each ClickHouse server; `auto` leaves it to the server and its
    /// profile. A limit keeps searches from slowing down the server's other work.
    plain query_threads: Option<u32> = "auto", |text| unless("auto", text, |text| number(text, 1, 1_024));
    /// Maximum time in which a client must have received the whole answer, however slow its connection is.
    /// Later, the service aborts the answer, because it keeps a ClickHouse query open. Not less than
    /// `query_timeout`.
    plain answer_timeout: Duration = "10m", limited_duration;
    /// A session ends this long after the sign-in.
    plain session_lifetime: Option<Duration> = "unlimited", duration;
    /// A session ends when it was not used for this long.
    plain session_idle: Option<Duration> = "unlimited", duration;
    /// Maximum number of trace queries of one user that run at the same time, over all sessions and keys, in
    /// each process of the service; or `unlimited`. Further queries are refused with 429.
    plain max_queries_per_user: Option<usize> = "10",
        |text| unless("unlimited", text, |text| number(text, 1, 10_000));
    /// Maximum number of open client connections. Further ones wait until one ends, and one that sends
    /// nothing ends after 30 seconds. Each may need two file descriptors; the service logs a warning at its
    /// start if its limit of open files is lower.
    plain max_connections: usize = "1000", |text| number(text, 10, 100_000);
    /// Whether administrators see data that no policy protects: in discovery, example values of map keys; and
    /// counts of traces that they may not read, in advice on policies, in previews of changes, and when they
    /// explain another user's access.
    plain discovery_samples: bool = "true", |text| either(text, [("true", true), ("false", false)]);
    /// Saving a role warns of a policy that makes more services than this visible only through collateral
    /// access, that is because traces are returned whole, as far as a sample of recent traces shows.
    plain collateral_access_warning: u64 = "5", |text| number(text, 0, 100_000);
    /// How long the service continues to serve after the stop signal, with `/readyz` answering 503, so that a
    /// load balancer can react before connections are refused.
    plain shutdown_delay: Duration = "0s", delay;
    /// How long running answers may take to finish once no new requests are accepted. Answers that still run
    /// then are aborted.
    plain shutdown_grace: Duration = "30s", limited_duration;
    /// Address and port for `/metrics`, which is served only there. It needs no password: choose an address
    /// that only the monitoring system reaches. If absent, metrics are not served.
    plain metrics_listen: Option<SocketAddr>, address;
    /// Log level on standard error: `error`, `warn`, `info`, `debug`, `trace`, or directives such as
    /// `info,tracewarden_clickhouse=debug`.
    plain log: String = "info", log_directives;
    /// Format of the log: `text` or `json`.
    plain log_format: LogFormat = "text",
        |text| either(text, [("text", LogFormat::Text), ("json", LogFormat::Json)]);
}

/// Returns the default of a setting.
pub fn default(name: &str) -> Option<&'static str> {
    SETTINGS.iter().find(|setting| setting.name == name)?.default
}

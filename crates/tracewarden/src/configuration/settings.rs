//! The table of settings: name, default, meaning. Parsing, `check-config` and the documentation use it.

/// A setting. Its file key is `name`; its environment variable is `TRACEWARDEN_` and the name in capitals.
#[derive(Debug)]
pub struct Setting {
    /// Key in the configuration file.
    pub name: &'static str,
    /// Whether the value is never shown, and can also be given as the path of a file that holds it, under the name with
    /// `_file`.
    pub secret: bool,
    /// Default value, in the notation of the configuration file.
    pub default: Option<&'static str>,
    /// Description for the documentation.
    #[cfg_attr(not(test), allow(dead_code, reason = "the documentation is written by a test"))]
    pub help: &'static str,
}

impl Setting {
    /// Returns the name of the environment variable.
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_ascii_uppercase())
    }
}

/// Prefix of the names of Tracewarden's environment variables.
pub const PREFIX: &str = "TRACEWARDEN_";

/// Variables with this prefix that belong to the local ClickHouse, the development commands and the command line.
pub const FOREIGN_VARIABLES: &[&str] = &[
    "TRACEWARDEN_LIBCHDB",
    "TRACEWARDEN_PYTHON",
    "TRACEWARDEN_CONFIG",
    "TRACEWARDEN_URL",
    "TRACEWARDEN_API_KEY",
    "TRACEWARDEN_API_KEY_FILE",
    "TRACEWARDEN_CA_FILE",
];

/// Prefix of variables that belong to the local ClickHouse.
pub const FOREIGN_PREFIX: &str = "TRACEWARDEN_LOCALSTORE_";

const fn plain(name: &'static str, default: Option<&'static str>, help: &'static str) -> Setting {
    Setting { name, secret: false, default, help }
}

const fn secret(name: &'static str, default: Option<&'static str>, help: &'static str) -> Setting {
    Setting { name, secret: true, default, help }
}

/// All settings.
pub const SETTINGS: &[Setting] = &[
    plain("listen", Some("127.0.0.1:8080"), "Address and port to listen on. Port 0 selects a free port."),
    plain(
        "public_url",
        None,
        "Scheme, host and port under which browsers reach the service, such as `https://traces.example.com`. \
         It determines the session cookie and which requests count as same-site. Plain `http` is accepted \
         for loopback names only. Derived from `listen` if that is a loopback address; required otherwise.",
    ),
    plain(
        "trusted_proxies",
        Some(""),
        "Addresses or networks (`10.0.0.0/8`) of reverse proxies whose `X-Forwarded-For` header is trusted. \
         From other clients, the header is ignored.",
    ),
    plain(
        "mcp_hosts",
        Some(""),
        "Host names, with or without a port, that agents may use for `/mcp` in addition to that of \
         `public_url` and loopback names, such as `tracewarden.internal:8080`. Requests with another `Host` \
         are refused there.",
    ),
    secret(
        "database_url",
        Some("sqlite:tracewarden.db"),
        "The application database: `sqlite:PATH`, relative to the working directory, for one process; or \
         `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, which several processes can share. The parameters of \
         PostgreSQL's connection URLs are supported (`sslmode`, `sslrootcert`, `host` with the directory of \
         a socket).",
    ),
    plain(
        "clickhouse_url",
        Some("http://127.0.0.1:8123"),
        "HTTP addresses of ClickHouse servers: replicas that hold the same data. The service uses the first \
         healthy one; if it fails, it uses the next one until the first is healthy again.",
    ),
    plain(
        "clickhouse_user",
        Some("default"),
        "ClickHouse user. It needs to read the bound table and nothing else; \
         [operations.md](operations.md#the-clickhouse-user) has the statements that create such a user, and \
         `tracewarden check-config` reports missing rights.",
    ),
    secret("clickhouse_password", Some(""), "Password of the ClickHouse user."),
    plain("admin_username", Some("admin"), "Name of the administrator that is created at the first start."),
    secret(
        "admin_password_hash",
        None,
        "Argon2id hash from `tracewarden hash-password`, which hashes the password in Unicode's normal form \
         C. At the first start it is the administrator's; later, a value that was never used before replaces \
         the administrator's password and ends the administrator's sessions.",
    ),
    plain(
        "initial_password_file",
        None,
        "File for the first administrator's generated password, if there is neither a hash nor a terminal. \
         Default: next to the SQLite file under its name with `.initial-password`, or with PostgreSQL \
         `tracewarden.initial-password` in the working directory. The file has mode 0600, and its path is \
         logged. If the file cannot be written, or exists and was not left by an earlier start, no \
         administrator is created and the start fails.",
    ),
    plain(
        "audit_retention",
        Some("unlimited"),
        "How long audit records are kept. The service removes older ones itself, in whole ranges from the \
         oldest on, and records each removal.",
    ),
    plain(
        "max_trace_duration",
        Some("1h"),
        "How far outside of the window a query searches for the other spans of a trace while it decides, if \
         the trace source has no trace index. A query may miss a longer trace; it never cuts one.",
    ),
    plain("max_conditions", Some("20"), "Maximum number of conditions in a filter."),
    plain("max_values", Some("100"), "Maximum number of values in a condition."),
    plain("query_timeout", Some("30s"), "Maximum duration of a ClickHouse query. A longer one is stopped."),
    plain(
        "query_memory",
        Some("4GiB"),
        "Maximum memory of a query on the ClickHouse server. A query that needs more is stopped.",
    ),
    plain(
        "query_threads",
        Some("auto"),
        "Maximum number of threads of a query on each ClickHouse server; `auto` leaves it to the server and \
         its profile. A limit keeps searches from slowing down the server's other work.",
    ),
    plain(
        "answer_timeout",
        Some("10m"),
        "Maximum time in which a client must have received the whole answer, however slow its connection is. \
         Later, the service aborts the answer, because it keeps a ClickHouse query open. Not less than \
         `query_timeout`.",
    ),
    plain("session_lifetime", Some("unlimited"), "A session ends this long after the sign-in."),
    plain("session_idle", Some("unlimited"), "A session ends when it was not used for this long."),
    plain(
        "max_queries_per_user",
        Some("10"),
        "Maximum number of trace queries of one user that run at the same time, over all sessions and keys, \
         in each process of the service; or `unlimited`. Further queries are refused with 429.",
    ),
    plain(
        "max_connections",
        Some("1000"),
        "Maximum number of open client connections. Further ones wait until one ends, and one that sends \
         nothing ends after 30 seconds. Each may need two file descriptors; the service logs a warning at \
         its start if its limit of open files is lower.",
    ),
    plain(
        "discovery_samples",
        Some("true"),
        "Whether administrators see data that no policy protects: in discovery, example values of map keys; \
         and counts of traces that they may not read, in advice on policies, in previews of changes, and \
         when they explain another user's access.",
    ),
    plain(
        "collateral_access_warning",
        Some("5"),
        "Saving a role warns of a policy that makes more services than this visible only through collateral \
         access, that is because traces are returned whole, as far as a sample of recent traces shows.",
    ),
    plain(
        "shutdown_delay",
        Some("0s"),
        "How long the service continues to serve after the stop signal, with `/readyz` answering 503, so \
         that a load balancer can react before connections are refused.",
    ),
    plain(
        "shutdown_grace",
        Some("30s"),
        "How long running answers may take to finish once no new requests are accepted. Answers that still \
         run then are aborted.",
    ),
    plain(
        "metrics_listen",
        None,
        "Address and port for `/metrics`, which is served only there. It needs no password: choose an \
         address that only the monitoring system reaches. If absent, metrics are not served.",
    ),
    plain(
        "log",
        Some("info"),
        "Log level on standard error: `error`, `warn`, `info`, `debug`, `trace`, or directives such as \
         `info,tracewarden_clickhouse=debug`.",
    ),
    plain("log_format", Some("text"), "Format of the log: `text` or `json`."),
];

/// Returns the setting with this file key.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

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
    plain("listen", Some("127.0.0.1:8080"), "Address and port to listen on. Port 0 takes a free one."),
    plain(
        "public_url",
        None,
        "Scheme, host and port under which browsers reach the service, such as `https://traces.example.com`. \
         It decides on the session cookie and on which requests are from this site. Plain `http` is accepted for loopback \
         names only. Derived from `listen` when that is a loopback address; required otherwise.",
    ),
    plain(
        "trusted_proxies",
        Some(""),
        "Addresses or networks (`10.0.0.0/8`) of reverse proxies whose `X-Forwarded-For` is believed. From anybody \
         else the header is ignored.",
    ),
    plain(
        "mcp_hosts",
        Some(""),
        "Names, with or without a port, under which agents reach `/mcp` beside that of `public_url` and those of loopback, such \
         as `tracewarden.internal:8080`. Requests with another `Host` are refused there.",
    ),
    secret(
        "database_url",
        Some("sqlite:tracewarden.db"),
        "The service's own database: `sqlite:PATH`, relative to the working directory, for one process; or \
         `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, which several processes can share. The parameters of PostgreSQL's own \
         addresses are understood (`sslmode`, `sslrootcert`, `host` with the directory of a socket).",
    ),
    plain(
        "clickhouse_url",
        Some("http://127.0.0.1:8123"),
        "HTTP addresses of the trace store: replicas that hold the same data. The first that works is asked; when it fails, the \
         next one is, until it is back.",
    ),
    plain(
        "clickhouse_user",
        Some("default"),
        "User of the trace store. It needs to read the bound table and nothing else; the page on operation has the \
         statements that make such a user, and `tracewarden check-config` says what is missing.",
    ),
    secret("clickhouse_password", Some(""), "Password of that user."),
    plain("admin_username", Some("admin"), "Name of the administrator that is created at the first start."),
    secret(
        "admin_password_hash",
        None,
        "Argon2id hash made by `tracewarden hash-password`, which hashes the password in Unicode's normal form C. At the first start it is the administrator's; later a value \
         that was never used before replaces the administrator's password and ends the administrator's sessions.",
    ),
    plain(
        "initial_password_file",
        None,
        "Where the first administrator's generated password is written when there is neither a hash nor a terminal. Without \
         it: beside the SQLite file under its name with `.initial-password`, or `tracewarden.initial-password` in the working \
         directory with PostgreSQL. The file has mode 0600, and its path is logged. \
         Where it cannot be written, or is there already and was not left by an earlier start, nobody is created and the start \
         fails.",
    ),
    plain(
        "audit_retention",
        Some("unlimited"),
        "How long audit records are kept. Older ones are removed by the service itself, in whole ranges from the oldest on; \
         what is removed is recorded.",
    ),
    plain(
        "max_trace_duration",
        Some("1h"),
        "How far outside the window a query looks for the rest of a trace while it decides, when the trace source has no \
         trace index. A query may miss a longer trace; it never cuts one.",
    ),
    plain("max_conditions", Some("20"), "Most conditions in a filter."),
    plain("max_values", Some("100"), "Most values in a condition."),
    plain("query_timeout", Some("30s"), "A query of the trace store that takes longer is stopped."),
    plain(
        "query_memory",
        Some("4GiB"),
        "A query of the trace store that needs more memory there is stopped.",
    ),
    plain(
        "query_threads",
        Some("auto"),
        "Most threads that a query takes on each server of the trace store; `auto` leaves it to the server and its profile. A \
         bound keeps searches from slowing down whatever else the store does.",
    ),
    plain(
        "answer_timeout",
        Some("10m"),
        "How long the reader of an answer may take for it in all, on however slow a line. An answer that is not taken by then is \
         broken off, since it holds a query of the trace store. Not less than `query_timeout`.",
    ),
    plain("session_lifetime", Some("unlimited"), "A session ends this long after the log-in."),
    plain("session_idle", Some("unlimited"), "A session ends when it was not used for this long."),
    plain(
        "max_queries_per_user",
        Some("10"),
        "How many trace queries one user may have running at the same time, with all sessions and keys, in each process of the \
         service; or `unlimited`. One more is answered with 429.",
    ),
    plain(
        "max_connections",
        Some("1000"),
        "Most connections that clients may have open at the same time; others wait until one ends, and one that sends nothing ends \
         after 30 seconds. Each may need two file descriptors, and the service says at its start when it may not have so many.",
    ),
    plain(
        "discovery_samples",
        Some("true"),
        "Whether administrators see what no policy guards: in discovery example values of map keys; and counts of traces that \
         they may not read, as advice on policies, as previews of changes, and when they explain somebody's access.",
    ),
    plain(
        "overshare_warning",
        Some("5"),
        "Storing a role warns of a policy that makes more services than this visible only because traces are shown whole, as far \
         as a sample of recent traces tells.",
    ),
    plain(
        "shutdown_delay",
        Some("0s"),
        "How long the service goes on serving after the signal to stop, with `/readyz` saying 503, so that a load balancer can \
         notice before connections are refused.",
    ),
    plain(
        "shutdown_grace",
        Some("30s"),
        "How long running answers may take to finish once no new ones are accepted. What still runs then is broken off.",
    ),
    plain(
        "metrics_listen",
        None,
        "Address and port for `/metrics`, which is served there only. It asks for no password: choose an address that only the \
         monitoring system reaches. Absent, metrics are not served.",
    ),
    plain(
        "log",
        Some("info"),
        "What is logged, on standard error: `error`, `warn`, `info`, `debug`, `trace`, or directives such as \
         `info,tracewarden_tracestore=debug`.",
    ),
    plain("log_format", Some("text"), "`text` or `json`."),
];

/// Returns the setting with this file key.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

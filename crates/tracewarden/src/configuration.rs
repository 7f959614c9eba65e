//! The configuration, understood and checked as a whole before anything starts.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;
use tracewarden_service::AdminSettings;

pub mod settings;
pub mod sources;
pub mod values;

use sources::{Sources, default_of};

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Everything that the service can be told.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Origin that browsers see; `None`: derived from the address that we listen on.
    pub public_origin: Option<String>,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The service's own database.
    pub database_url: Secret,
    /// HTTP addresses of the trace store.
    pub clickhouse_endpoints: Vec<String>,
    /// User of the trace store.
    pub clickhouse_user: String,
    /// Its password.
    pub clickhouse_password: Secret,
    /// Name of the first administrator.
    pub admin_username: String,
    /// PHC string for the administrator.
    pub admin_password_hash: Option<Secret>,
    /// How far a query looks outside its window; `None`: everywhere.
    pub max_trace_duration: Option<Duration>,
    /// Most conditions in a filter.
    pub max_conditions: usize,
    /// Most values in a condition.
    pub max_values: usize,
    /// Time limit of a trace store query.
    pub query_timeout: Duration,
    /// Memory limit of a trace store query, in bytes.
    pub query_memory_bytes: u64,
    /// Absolute limit of a session; `None`: none.
    pub session_lifetime: Option<Duration>,
    /// Idle limit of a session; `None`: none.
    pub session_idle: Option<Duration>,
    /// Whether discovery shows example values.
    pub discovery_samples: bool,
    /// How long running answers may take after the signal to stop.
    pub shutdown_grace: Duration,
    /// Log directives.
    pub log: String,
    /// How log lines look.
    pub log_format: LogFormat,
}

impl Configuration {
    /// Reads file and environment.
    ///
    /// # Errors
    /// Everything that is wrong, one message each, each naming the setting. No message repeats a secret.
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
    /// The value of a setting that has a default; `None` after an error.
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

    /// The value of a setting, `Some(None)` when it was not given; `None` after an error.
    fn optional<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Option<T>> {
        let (text, origin) = match (self.sources.get(name), default_of(name)) {
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
        // Every line runs before the first `?`, so that one start names everything that is wrong.
        let listen = self.value("listen", |text| {
            text.parse::<SocketAddr>()
                .map_err(|_| format!("`{text}` is not an address with a port, such as `127.0.0.1:8080`"))
        });
        let public_origin = self.optional("public_url", values::origin);
        let trusted_proxies = self.value("trusted_proxies", values::networks);
        let database_url = self.value("database_url", database_url);
        let clickhouse_endpoints = self.value("clickhouse_url", values::endpoints);
        let clickhouse_user = self.value("clickhouse_user", any);
        let clickhouse_password = self.value("clickhouse_password", secret);
        let admin_username = self.value("admin_username", admin_username);
        let admin_password_hash = self.optional("admin_password_hash", password_hash);
        self.value("audit_retention", audit_retention);
        let max_trace_duration = self.value("max_trace_duration", values::duration);
        let max_conditions = self.value("max_conditions", |text| values::count(text, 1, 1_000));
        let max_values = self.value("max_values", |text| values::count(text, 2, 10_000));
        let query_timeout = self.value("query_timeout", values::limited_duration);
        let query_memory_bytes = self.value("query_memory", values::bytes);
        let session_lifetime = self.value("session_lifetime", values::duration);
        let session_idle = self.value("session_idle", values::duration);
        let discovery_samples = self.value("discovery_samples", values::boolean);
        let shutdown_grace = self.value("shutdown_grace", values::limited_duration);
        let log = self.value("log", log_directives);
        let log_format = self.value("log_format", log_format);

        let (listen, public_origin) = (listen?, public_origin?);
        if public_origin.is_none() && !listen.ip().is_loopback() {
            self.errors.push("`public_url` is required when `listen` is not a loopback address".to_owned());
        }
        Some(Configuration {
            listen,
            public_origin,
            trusted_proxies: trusted_proxies?,
            database_url: database_url?,
            clickhouse_endpoints: clickhouse_endpoints?,
            clickhouse_user: clickhouse_user?,
            clickhouse_password: clickhouse_password?,
            admin_username: admin_username?,
            admin_password_hash: admin_password_hash?,
            max_trace_duration: max_trace_duration?,
            max_conditions: max_conditions?,
            max_values: max_values?,
            query_timeout: query_timeout?,
            query_memory_bytes: query_memory_bytes?,
            session_lifetime: session_lifetime?,
            session_idle: session_idle?,
            discovery_samples: discovery_samples?,
            shutdown_grace: shutdown_grace?,
            log: log?,
            log_format: log_format?,
        })
    }
}

fn any(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret(text.to_owned()))
}

fn database_url(text: &str) -> Result<Secret, String> {
    match text.strip_prefix("sqlite:") {
        Some(path) if !path.is_empty() => Ok(Secret(text.to_owned())),
        _ => Err("takes `sqlite:PATH`".to_owned()),
    }
}

fn admin_username(text: &str) -> Result<String, String> {
    AdminSettings::check_username(text).map(|()| text.to_owned())
}

fn password_hash(text: &str) -> Result<Secret, String> {
    match AdminSettings::check_password_hash(text) {
        Ok(()) => Ok(Secret(text.to_owned())),
        Err(reason) => Err(format!("takes what `tracewarden hash-password` prints: {reason}")),
    }
}

/// The setting exists so that nobody believes that another value does something.
fn audit_retention(text: &str) -> Result<(), String> {
    match values::duration(text)? {
        None => Ok(()),
        Some(_) => {
            Err("only `unlimited` is supported: this version does not remove audit records".to_owned())
        }
    }
}

fn log_directives(text: &str) -> Result<String, String> {
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

/// The documentation of all settings as Markdown; committed as `docs/configuration.md`.
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
mod tests {
    use std::io::Write;

    use super::*;

    fn load(file: &str, environment: &[(&str, &str)]) -> Result<Configuration, String> {
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(file.as_bytes()).unwrap();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Configuration::load(Some(on_disk.path()), environment).map_err(|errors| errors.join("\n"))
    }

    #[track_caller]
    fn refused(file: &str, environment: &[(&str, &str)], message: &str) {
        let errors = load(file, environment).unwrap_err();
        assert!(errors.contains(message), "{errors}");
        assert!(!errors.contains("hunter2"), "{errors}");
    }

    #[test]
    fn everything_has_a_default() {
        let configuration = Configuration::load(None, []).unwrap();
        assert_eq!(configuration.listen, "127.0.0.1:8080".parse().unwrap());
        assert_eq!(configuration.max_trace_duration, Some(Duration::from_secs(3_600)));
        assert!(configuration.discovery_samples);
    }

    #[test]
    fn the_environment_wins_over_the_file() {
        let file =
            "listen = \"127.0.0.1:1\"\nmax_values = 7\nclickhouse_url = [\"http://a:1\", \"http://b:2\"]\n";
        let configuration = load(file, &[("TRACEWARDEN_LISTEN", "127.0.0.1:2"), ("HOME", "/x")]).unwrap();
        assert_eq!(configuration.listen.port(), 2);
        assert_eq!(configuration.max_values, 7);
        assert_eq!(configuration.clickhouse_endpoints, ["http://a:1", "http://b:2"]);
    }

    #[test]
    fn an_unknown_setting_is_named_with_the_nearest_known_one() {
        refused("", &[("TRACEWARDEN_QUERY_TIMOUT", "1s")], "did you mean `TRACEWARDEN_QUERY_TIMEOUT`?");
        refused("querytimeout = \"1s\"", &[], "did you mean `query_timeout`?");
        refused("", &[("TRACEWARDEN_LISTEN_FILE", "/x")], "`TRACEWARDEN_LISTEN_FILE`: no such");
        refused("[limits]\nmax = 1", &[], "`limits`");
    }

    #[test]
    fn a_wrong_value_is_named_with_its_origin() {
        refused(
            "",
            &[("TRACEWARDEN_QUERY_TIMEOUT", "soon")],
            "`TRACEWARDEN_QUERY_TIMEOUT`: `soon` is not a duration",
        );
        refused("max_values = 0", &[], "`max_values` in ");
        refused("", &[("TRACEWARDEN_LISTEN", "0.0.0.0:80")], "`public_url` is required");
        refused("", &[("TRACEWARDEN_PUBLIC_URL", "http://example.com")], "loopback names only");
        refused("", &[("TRACEWARDEN_LOG", "info,nonsense=loud")], "`TRACEWARDEN_LOG`");
        refused("", &[("TRACEWARDEN_AUDIT_RETENTION", "90d")], "does not remove audit records");
        let both = load("", &[("TRACEWARDEN_MAX_VALUES", "x"), ("TRACEWARDEN_LOG_FORMAT", "y")]).unwrap_err();
        assert_eq!(both.lines().count(), 2, "{both}");
    }

    #[test]
    fn secrets_come_from_files_and_stay_out_of_messages() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "hunter2").unwrap();
        let path = file.path().to_str().unwrap();
        let configuration = load("", &[("TRACEWARDEN_CLICKHOUSE_PASSWORD_FILE", path)]).unwrap();
        assert_eq!(configuration.clickhouse_password.expose(), "hunter2");
        assert!(!format!("{configuration:?}").contains("hunter2"));
        let both =
            [("TRACEWARDEN_CLICKHOUSE_PASSWORD_FILE", path), ("TRACEWARDEN_CLICKHOUSE_PASSWORD", "hunter2")];
        refused("", &both, "keep one");
        refused("", &[("TRACEWARDEN_ADMIN_PASSWORD_HASH", "hunter2")], "hash-password");
        refused("", &[("TRACEWARDEN_DATABASE_URL", "mysql://root:hunter2@x")], "`TRACEWARDEN_DATABASE_URL`");
        refused("clickhouse_password = \"hunter2", &[], "line 1: not TOML");
    }

    #[test]
    fn the_administrator_is_one_who_can_sign_in() {
        let salt_and_hash = "c29tZXNhbHRzb21lc2FsdA$Tz8wHrmPW8SE1qzYLkkV4GtM6wWJVWoMo2yqWw3DJ0Y";
        let good = format!("$argon2id$v=19$m=19456,t=2,p=1${salt_and_hash}");
        load("", &[("TRACEWARDEN_ADMIN_PASSWORD_HASH", &good)]).unwrap();
        for wrong in [
            "$argon2id$".to_owned(),
            "$argon2id$hunter2".to_owned(),
            "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA".to_owned(),
            good.replace("argon2id", "argon2i"),
            good.replace("m=19456", "m=4096"),
            // A shell has taken `$v` and the like for variables.
            good.replace("$argon2id$v", ""),
        ] {
            let name = "`TRACEWARDEN_ADMIN_PASSWORD_HASH`: takes what `tracewarden hash-password` prints";
            refused("", &[("TRACEWARDEN_ADMIN_PASSWORD_HASH", &wrong)], name);
        }
        for wrong in [" ", " admin", "a/b", "..", "a\u{202e}b", &"x".repeat(129)] {
            refused("", &[("TRACEWARDEN_ADMIN_USERNAME", wrong)], "`TRACEWARDEN_ADMIN_USERNAME`: must");
        }
        refused("admin_username = \"\"", &[], "`admin_username` in ");
    }

    #[test]
    fn variables_of_other_programs_are_left_alone() {
        for name in ["TRACEWARDEN_LIBCHDB", "TRACEWARDEN_PYTHON", "TRACEWARDEN_LOCALSTORE_PASSWORD"] {
            load("", &[(name, "x")]).unwrap();
        }
    }

    #[test]
    fn the_documentation_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        let expected = documentation();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &expected).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == expected,
            "run `UPDATE_DOCS=1 cargo test -p tracewarden the_documentation_is_current`"
        );
    }
}

//! Valid, invalid, unknown and secret settings.

use std::io::Write;
use std::time::Duration;

use secrecy::ExposeSecret as _;

use super::*;

fn load(file: &str, environment: &[(&str, &str)]) -> Result<Configuration, String> {
    let mut on_disk = tempfile::NamedTempFile::new().unwrap();
    on_disk.write_all(file.as_bytes()).unwrap();
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Configuration::load(Some(on_disk.path()), environment).map_err(|errors| errors.join("\n"))
}

#[track_caller]
fn assert_rejected(file: &str, environment: &[(&str, &str)], message: &str) {
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
    assert_eq!(configuration.audit_retention, None);
    assert_eq!(configuration.max_queries_per_user, Some(10));
    assert_eq!(configuration.metrics_listen, None);
    assert_eq!(configuration.shutdown_delay, Duration::ZERO);
}

#[test]
fn the_environment_wins_over_the_file() {
    let file =
        "listen = \"127.0.0.1:1\"\nmax_values = 7\nclickhouse_url = [\"http://a:1\", \"http://b:2\"]\n";
    let configuration = load(file, &[("TRACEWARDEN_LISTEN", "127.0.0.1:2"), ("HOME", "/x")]).unwrap();
    assert_eq!(configuration.listen.port(), 2);
    assert_eq!(configuration.max_values, 7);
    assert_eq!(configuration.clickhouse_url, ["http://a:1", "http://b:2"]);
}

#[test]
fn an_unknown_setting_is_named_with_the_nearest_known_one() {
    assert_rejected("", &[("TRACEWARDEN_QUERY_TIMOUT", "1s")], "did you mean `TRACEWARDEN_QUERY_TIMEOUT`?");
    assert_rejected("querytimeout = \"1s\"", &[], "did you mean `query_timeout`?");
    assert_rejected("", &[("TRACEWARDEN_LISTEN_FILE", "/x")], "`TRACEWARDEN_LISTEN_FILE`: no such");
    assert_rejected("[limits]\nmax = 1", &[], "`limits`");
}

#[test]
fn a_wrong_value_is_named_with_its_origin() {
    assert_rejected(
        "",
        &[("TRACEWARDEN_QUERY_TIMEOUT", "soon")],
        "`TRACEWARDEN_QUERY_TIMEOUT`: `soon` is not a duration",
    );
    assert_rejected("max_values = 0", &[], "`max_values` in ");
    assert_rejected("", &[("TRACEWARDEN_LISTEN", "0.0.0.0:80")], "`public_url` is required");
    assert_rejected("", &[("TRACEWARDEN_PUBLIC_URL", "http://example.com")], "loopback names only");
    assert_rejected("", &[("TRACEWARDEN_LOG", "info,nonsense=loud")], "`TRACEWARDEN_LOG`");
    for (wrong, word) in [("verbose", "verbose"), ("info,tracewarden", "tracewarden"), ("info,", "")] {
        let message = format!("`{word}` is neither a level (off, error, warn, info, debug, trace) nor");
        assert_rejected("", &[("TRACEWARDEN_LOG", wrong)], &message);
    }
    for right in ["WARN", "info, tracewarden_rest=debug", "tracewarden=off"] {
        load("", &[("TRACEWARDEN_LOG", right)]).unwrap();
    }
    for (listen, metrics) in [("127.0.0.1:80", "127.0.0.1:80"), ("0.0.0.0:80", "127.0.0.1:80")] {
        let both = [
            ("TRACEWARDEN_LISTEN", listen),
            ("TRACEWARDEN_METRICS_LISTEN", metrics),
            ("TRACEWARDEN_PUBLIC_URL", "https://x"),
        ];
        assert_rejected("", &both, "name the same port");
    }
    load("", &[("TRACEWARDEN_LISTEN", "127.0.0.1:0"), ("TRACEWARDEN_METRICS_LISTEN", "127.0.0.1:0")])
        .unwrap();
    assert_rejected(
        "",
        &[("TRACEWARDEN_AUDIT_RETENTION", "0d")],
        "`TRACEWARDEN_AUDIT_RETENTION`: `0d`: must be longer",
    );
    assert_rejected("", &[("TRACEWARDEN_MAX_QUERIES_PER_USER", "0")], "from 1 to 10000, or `unlimited`");
    assert_rejected(
        "",
        &[("TRACEWARDEN_METRICS_LISTEN", "9100")],
        "`TRACEWARDEN_METRICS_LISTEN`: `9100` is not an address",
    );
    let both = load("", &[("TRACEWARDEN_MAX_VALUES", "x"), ("TRACEWARDEN_LOG_FORMAT", "y")]).unwrap_err();
    assert_eq!(both.lines().count(), 2, "{both}");
}

#[test]
fn secrets_come_from_files_and_stay_out_of_messages() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "hunter2").unwrap();
    let path = file.path().to_str().unwrap();
    let configuration = load("", &[("TRACEWARDEN_CLICKHOUSE_PASSWORD_FILE", path)]).unwrap();
    assert_eq!(configuration.clickhouse_password.expose_secret(), "hunter2");
    assert!(!format!("{configuration:?}").contains("hunter2"));
    let both =
        [("TRACEWARDEN_CLICKHOUSE_PASSWORD_FILE", path), ("TRACEWARDEN_CLICKHOUSE_PASSWORD", "hunter2")];
    assert_rejected("", &both, "keep one");
    assert_rejected("", &[("TRACEWARDEN_ADMIN_PASSWORD_HASH", "hunter2")], "hash-password");
    assert_rejected(
        "",
        &[("TRACEWARDEN_PUBLIC_URL", "https://u:hunter2@x")],
        "must be only scheme, host and port",
    );
    let mut empty = tempfile::NamedTempFile::new().unwrap();
    writeln!(empty).unwrap();
    for name in ["TRACEWARDEN_ADMIN_PASSWORD_HASH_FILE", "TRACEWARDEN_CLICKHOUSE_PASSWORD_FILE"] {
        assert_rejected("", &[(name, empty.path().to_str().unwrap())], "is empty");
    }
    assert_rejected(
        "",
        &[("TRACEWARDEN_DATABASE_URL", "mysql://root:hunter2@x")],
        "`TRACEWARDEN_DATABASE_URL`",
    );
    for wrong in [
        "postgres://u:hunter2@[x/db",
        "postgres://u:hunter2@x:port/db",
        "postgres://u:hunter2@x/db?ssl=1",
        "sqlite:",
        "sqlite:own.db?key=hunter2",
    ] {
        assert_rejected("", &[("TRACEWARDEN_DATABASE_URL", wrong)], "`TRACEWARDEN_DATABASE_URL`");
    }
    for right in
        ["postgres://u:hunter2@x:5432/db?sslmode=verify-full", "postgresql:///db?host=/run/postgresql"]
    {
        let configuration = load("", &[("TRACEWARDEN_DATABASE_URL", right)]).unwrap();
        assert!(!format!("{configuration:?}").contains("hunter2"));
    }
    assert_rejected("clickhouse_password = \"hunter2", &[], "line 1: not TOML");
}

#[test]
fn shows_effective_settings() {
    let environment = [
        ("TRACEWARDEN_LISTEN", "127.0.0.1:2"),
        ("TRACEWARDEN_CLICKHOUSE_PASSWORD", "hunter2"),
        ("TRACEWARDEN_TRUSTED_PROXIES", "10.0.0.0/8,::1"),
    ];
    let lines = load("audit_retention = \"90d\"", &environment).unwrap().lines;
    for expected in [
        "listen = 127.0.0.1:2 (`TRACEWARDEN_LISTEN`)",
        "trusted_proxies = 10.0.0.0/8,::1 (`TRACEWARDEN_TRUSTED_PROXIES`)",
        "clickhouse_password: not shown (`TRACEWARDEN_CLICKHOUSE_PASSWORD`)",
        "database_url = sqlite:tracewarden.db (default)",
        "admin_password_hash: not set",
        "max_trace_duration = 1h (default)",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{lines:?}");
    }
    assert!(lines.iter().any(|line| line.starts_with("audit_retention = 90d (`audit_retention` in /")));
    assert_eq!(lines.len(), settings::SETTINGS.len());
    assert!(!lines.iter().any(|line| line.contains("hunter2")), "{lines:?}");
}

#[test]
fn administrator_settings_must_allow_sign_in() {
    let salt_and_hash = "c29tZXNhbHRzb21lc2FsdA$Tz8wHrmPW8SE1qzYLkkV4GtM6wWJVWoMo2yqWw3DJ0Y";
    let good = format!("$argon2id$v=19$m=19456,t=2,p=1${salt_and_hash}");
    load("", &[("TRACEWARDEN_ADMIN_PASSWORD_HASH", &good)]).unwrap();
    for wrong in [
        "$argon2id$".to_owned(),
        "$argon2id$hunter2".to_owned(),
        "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA".to_owned(),
        good.replace("argon2id", "argon2i"),
        good.replace("m=19456", "m=4096"),
        // A shell has expanded `$v` and similar parts as variables.
        good.replace("$argon2id$v", ""),
    ] {
        let name = "`TRACEWARDEN_ADMIN_PASSWORD_HASH`: must be a hash from `tracewarden hash-password`";
        assert_rejected("", &[("TRACEWARDEN_ADMIN_PASSWORD_HASH", &wrong)], name);
    }
    for wrong in [" ", " admin", "a/b", "..", "a\u{202e}b", &"x".repeat(129)] {
        assert_rejected("", &[("TRACEWARDEN_ADMIN_USERNAME", wrong)], "`TRACEWARDEN_ADMIN_USERNAME`: must");
    }
    assert_rejected("admin_username = \"\"", &[], "`admin_username` in ");
}

#[test]
fn variables_of_other_programs_are_left_alone() {
    for name in ["TRACEWARDEN_LIBCHDB", "TRACEWARDEN_PYTHON", "TRACEWARDEN_LOCALSTORE_PASSWORD"] {
        load("", &[(name, "x")]).unwrap();
    }
    // Set by Kubernetes for Services whose names are or begin with the program's name.
    for (name, value) in [
        ("TRACEWARDEN_SERVICE_HOST", "10.0.0.1"),
        ("TRACEWARDEN_SERVICE_PORT", "8080"),
        ("TRACEWARDEN_SERVICE_PORT_HTTP", "8080"),
        ("TRACEWARDEN_PORT", "tcp://10.0.0.1:8080"),
        ("TRACEWARDEN_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("TRACEWARDEN_POSTGRESQL_SERVICE_HOST", "10.0.0.2"),
        ("TRACEWARDEN_POSTGRESQL_PORT", "tcp://10.0.0.2:5432"),
        ("TRACEWARDEN_POSTGRESQL_PORT_5432_TCP", "tcp://10.0.0.2:5432"),
    ] {
        load("", &[(name, value)]).unwrap();
    }
    assert_rejected("", &[("TRACEWARDEN_PORT", "8080")], "`TRACEWARDEN_PORT`: no such environment variable");
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

#[test]
fn a_refresh_interval_needs_a_key() {
    let mut providers = tempfile::NamedTempFile::new().unwrap();
    let table = "[a]\nissuer = \"https://a.example.com\"\nclient_id = \"t\"\nrefresh_interval = \"15m\"\n";
    providers.write_all(table.as_bytes()).unwrap();
    let file = ("TRACEWARDEN_IDENTITY_PROVIDERS", providers.path().to_str().unwrap());
    assert_rejected("", &[file], "`refresh_token_key` is required");
    const KEY: &str = "TRACEWARDEN_REFRESH_TOKEN_KEY";
    for wrong in ["hunter2", "aHVudGVyMg==", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"] {
        assert_rejected("", &[file, (KEY, wrong)], "must be 32 bytes in base64");
    }
    let configuration = load("", &[file, (KEY, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")]).unwrap();
    let interval = configuration.identity_providers.unwrap().providers[0].refresh_interval;
    assert_eq!(interval, Some(Duration::from_secs(900)));
    assert!(configuration.lines.iter().all(|line| !line.contains("AAECAwQF")));
}

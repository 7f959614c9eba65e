//! Fuzz tests of settings, answers and policy files: any text is parsed or rejected, and no message contains a secret.

#[path = "../../../proof/testkit/src/fuzzing.rs"]
mod fuzzing;

use fuzzing::{target, texts, within_time_limit};

use crate::command_line::NotedHead;
use crate::configuration::settings::SETTINGS;
use crate::configuration::sources::Sources;
use crate::configuration::{Configuration, values};
use crate::policy::files;
use crate::{model, policy};

/// Does not occur in any other text.
const SECRET: &str = "kqzj8vxw";

#[test]
fn values_of_settings() {
    let check = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        if let Ok(Some(duration)) = within_time_limit(|| values::duration(text)) {
            assert_eq!(values::duration(&format!("{}s", duration.as_secs())), Ok(Some(duration)));
            // It fits nanoseconds in an `i64`.
            assert!(duration.as_nanos() < i64::MAX as u128, "{text}");
        }
        if let Ok(bytes) = within_time_limit(|| values::bytes(text)) {
            assert_eq!(values::bytes(&format!("{}KiB", bytes >> 10)), Ok(bytes));
        }
        if let Ok(address) = within_time_limit(|| values::address(text)) {
            assert_eq!(values::address(&address.to_string()), Ok(address));
        }
        if let Ok(networks) = within_time_limit(|| values::networks(text)) {
            let written: Vec<String> = networks.iter().map(ToString::to_string).collect();
            assert_eq!(values::networks(&written.join(",")), Ok(networks));
        }
        if let Ok(hosts) = within_time_limit(|| values::hosts(text)) {
            assert!(!hosts.iter().any(|host| host.contains(['@', '/', ' '])), "{hosts:?}");
        }
        if let Ok(endpoints) = within_time_limit(|| values::endpoints(text)) {
            assert!(!endpoints.is_empty());
        }
        if let Ok(origin) = within_time_limit(|| values::origin(text)) {
            assert_eq!(values::origin(&origin), Ok(origin.clone()));
            assert!(
                origin.starts_with("https://") || (origin.starts_with("http://") && !origin.ends_with('/')),
                "{origin}"
            );
        }
        // An error on a URL with a password does not repeat the password.
        let url = format!("http://u:{SECRET}@{text}");
        if !text.contains(SECRET) {
            let refusals = [values::endpoints(&url).err(), values::origin(&url).err()];
            assert!(refusals.iter().flatten().all(|refusal| !refusal.contains(SECRET)), "{refusals:?}");
        }
        if let Ok(head) = within_time_limit(|| text.parse::<NotedHead>()) {
            assert_eq!(format!("{}:{}", head.sequence, head.hash).parse::<NotedHead>(), Ok(head));
        }
    };
    let seeds = texts([
        "90d",
        "36600d",
        "unlimited",
        "4GiB",
        "1048576TiB",
        "127.0.0.1:8080",
        "[::1]:80",
        "10.0.0.0/8, ::1, 192.0.2.1",
        "traces.internal:8080, localhost",
        "http://clickhouse:8123, https://b/",
        "https://traces.example.com",
        "http://localhost:8080/",
        "17:0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF",
    ]);
    target!(seeds, check);
}

#[test]
fn environments() {
    let check = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        // The file that such a setting names would be read.
        if text.contains(SECRET) || text.to_ascii_lowercase().contains("_file") {
            return;
        }
        let named = |name: &str, value: String| (format!("TRACEWARDEN_{name}"), value);
        let lines = text.lines().filter_map(|line| line.split_once('='));
        let mut environment: Vec<(String, String)> =
            lines.map(|(name, value)| named(name, value.to_owned())).collect();
        environment.push(named("CLICKHOUSE_PASSWORD", SECRET.to_owned()));
        environment.push(named(
            "DATABASE_URL",
            format!("postgres://u:{SECRET}@{}", text.lines().next().unwrap_or_default()),
        ));
        match within_time_limit(|| Configuration::load(None, environment)) {
            Ok(configuration) => {
                assert!(!configuration.lines.is_empty());
                assert!(
                    configuration.lines.iter().all(|line| !line.contains(SECRET)),
                    "{:?}",
                    configuration.lines
                );
                assert!(!format!("{configuration:?}").contains(SECRET));
            }
            Err(errors) => {
                assert!(!errors.is_empty());
                assert!(errors.iter().all(|error| !error.contains(SECRET)), "{errors:?}");
            }
        }
    };
    let seeds = texts([
        "h/d\nLISTEN=127.0.0.1:8080\nCLICKHOUSE_URL=http://a:8123\nMAX_VALUES=20\nLOG=info,tower=debug\nLOG_FORMAT=json",
        "h:x/d\nPUBLIC_URL=https://a\nQUERY_TIMEOUT=30s\nANSWER_TIMEOUT=5m\nQUERY_THREADS=auto\nLISTEN=0.0.0.0:1",
        "[::1]/d\nMETRICS_LISTEN=127.0.0.1:9\nMAX_CONNECTION=5\nlog=info\nADMIN_USERNAME=a\u{200b}",
    ]);
    target!(seeds, check, 300);
}

#[test]
fn files() {
    let check = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        if text.to_ascii_lowercase().contains("_file") {
            return;
        }
        let mut sources = Sources::new(SETTINGS);
        within_time_limit(|| sources.add_file("t.toml", text));
        // The value of a parsed secret is never shown. The same text may be the value of another setting, too.
        if let Some(given) = sources.values.get("clickhouse_password").map(|given| given.text.clone())
            && given.contains(SECRET)
            && text.matches(SECRET).count() == 1
        {
            assert!(sources.lines().iter().all(|line| !line.contains(&given)), "{given:?}");
        }
        // Errors on an unparsable file do not quote its values; they may quote names.
        let quoted = text.parse::<toml::Table>().is_err() && text.contains(&format!("= \"{SECRET}\""));
        let errors = sources.errors;
        assert!(
            !quoted || errors.iter().all(|error| !error.contains(&format!("\"{SECRET}\""))),
            "{errors:?}"
        );
    };
    let seeds = texts([
        format!(
            "listen = \"127.0.0.1:8080\"\nclickhouse_password = \"{SECRET}\"\nmax_values = 20\ndiscovery_samples = false\n"
        ),
        format!("trusted_proxies = [\"10.0.0.0/8\"]\nclickhouse_password = \"{SECRET}\nlog = '''a'''\n"),
        "[table]\nx = 1979-05-27T07:32:00Z\ny = [1, 2.5, {a = 1}]\nlisten = 1\nLISTEN = 2".to_owned(),
    ]);
    target!(seeds, check, 300);
}

/// Asserts that the text contains no control characters and no characters that change the direction of text.
fn assert_sanitized(text: &str) {
    let lines = text.replace('\n', "");
    assert_eq!(files::sanitize(&lines), lines, "{text:?}");
}

/// Answers of a service, or of an attacker's server in its place, to the commands.
#[test]
fn answers() {
    let check = |input: &[u8]| {
        let Ok(answer) = serde_json::from_slice(input) else { return };
        within_time_limit(|| model::printed_texts(&answer)).iter().for_each(|text| assert_sanitized(text));
    };
    let seeds = texts([
        r#"{"version":3,"changes":[{"kind":"policy","name":"dev/Own","change":"changed","before":{"title":"Own","expression":"span.ServiceName == \"a\""},"after":{"title":"Own","expression":"span.ServiceName == \"b\"\n|| true"}},{"kind":"role","name":"r\u202e","change":"added","before":null,"after":{"name":"r","title":"R","policies":[]}}],"warnings":[{"role":"dev","title":"Own","code":"W101","message":"m\u001b[2J","hint":"h","line":1,"column":2,"length":3}],"tests":{"passed":1,"failed":[{"name":"n","message":"m"}]},"members":[{"role":"r","users":2,"usernames":["ada","bob"]}],"impact":{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","counted_traces":"all","sampled":true,"fraction":0.1,"members":2,"members_compared":1,"users":[{"username":"ada","gained":1,"lost":2,"unchanged":3,"gained_ids":["a"],"lost_ids":["b"]}],"notes":["n"]},"notes":["note"]}"#,
        r#"{"version":3,"at":"2026-01-01T00:00:00Z","by":{"username":"ada"},"action":"roles.update","target":"dev","differences":[{"kind":"binding","name":"table","change":"changed","before":"a","after":["b",1,null]}],"summary":["role `dev`"]}"#,
        r#"{"changes":[{"version":1,"at":"x","by":{"username":""},"action":"a\r\n","target":null,"summary":["s\u200b"]}],"next_cursor":"c"}"#,
        r#"{"code":"policy_invalid","title":"t","detail":"d","errors":[{"pointer":"/roles/0/policies/0/expression","code":"E101","detail":"d","line":4294967295,"column":0,"length":9,"hint":"h"}]}"#,
        r#"{"roles":[{"name":"dev","policies":[{"title":"Own","expression":"a\nb"}]}],"warnings":[{"role":"dev","title":"Own","code":"W101","message":"m","hint":null,"line":2,"column":9,"length":0}]}"#,
    ]);
    target!(seeds, check);
}

/// Input files of the policy commands: roles, users and spans.
#[test]
fn policy_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.yaml");
    let check = |input: &[u8]| {
        std::fs::write(&path, input).unwrap();
        // The file that `model` names would be read as well.
        if !String::from_utf8_lossy(input).contains("model") {
            within_time_limit(|| policy::printed_messages(&path))
                .iter()
                .for_each(|message| assert_sanitized(message));
        }
    };
    let seeds = texts([
        "fields:\n  - {name: env, map: SpanAttributes, type: string}\nroles:\n  - name: dev\n    policies:\n      - title: Own\n        expression: |\n          span[\"env\"] == \"prod\"\ntests:\n  - name: one\n    user: {username: ada, roles: [dev]}\n    spans: [{SpanAttributes: {env: prod}}]\n    visible: true\n",
        "username: ada\nroles: [dev]\nattributes: {team: a, lead: true, tenants: [a, b]}\n",
        "[{\"TraceId\": \"00\", \"SpanAttributes\": {\"env\": \"prod\"}, \"Duration\": 12}]",
        "{\"schema\": {\"version\": 1}, \"spans\": [{}], \"next_cursor\": null}",
        "\u{feff}a: &x [*x]\nb: !!binary aGk=\n",
    ]);
    target!(seeds, check, 300);
}

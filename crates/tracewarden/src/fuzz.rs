//! Settings of any text: understood or refused, and no secret in what is said.

#[path = "../../testkit/src/fuzzing.rs"]
mod fuzzing;

use fuzzing::{soon, target, texts};

use crate::command_line::NotedHead;
use crate::configuration::sources::Sources;
use crate::configuration::{Configuration, values};

/// In no text that anything else says.
const SECRET: &str = "kqzj8vxw";

#[test]
fn values_of_settings() {
    let check = |input: &[u8]| {
        let text = &*String::from_utf8_lossy(input);
        if let Ok(Some(duration)) = soon(|| values::duration(text)) {
            assert_eq!(values::duration(&format!("{}s", duration.as_secs())), Ok(Some(duration)));
            // It can be counted in nanoseconds from now.
            assert!(duration.as_nanos() < i64::MAX as u128, "{text}");
        }
        if let Ok(bytes) = soon(|| values::bytes(text)) {
            assert_eq!(values::bytes(&format!("{}KiB", bytes >> 10)), Ok(bytes));
        }
        if let Ok(address) = soon(|| values::address(text)) {
            assert_eq!(values::address(&address.to_string()), Ok(address));
        }
        if let Ok(networks) = soon(|| values::networks(text)) {
            let written: Vec<String> = networks.iter().map(ToString::to_string).collect();
            assert_eq!(values::networks(&written.join(",")), Ok(networks));
        }
        if let Ok(hosts) = soon(|| values::hosts(text)) {
            assert!(!hosts.iter().any(|host| host.contains(['@', '/', ' '])), "{hosts:?}");
        }
        if let Ok(endpoints) = soon(|| values::endpoints(text)) {
            assert!(!endpoints.is_empty());
        }
        if let Ok(origin) = soon(|| values::origin(text)) {
            assert_eq!(values::origin(&origin), Ok(origin.clone()));
            assert!(
                origin.starts_with("https://") || (origin.starts_with("http://") && !origin.ends_with('/')),
                "{origin}"
            );
        }
        // Whoever leaves a password in a URL is not told it back.
        let url = format!("http://u:{SECRET}@{text}");
        if !text.contains(SECRET) {
            let refusals = [values::endpoints(&url).err(), values::origin(&url).err()];
            assert!(refusals.iter().flatten().all(|refusal| !refusal.contains(SECRET)), "{refusals:?}");
        }
        if let Ok(head) = soon(|| text.parse::<NotedHead>()) {
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
        // A file that is named would be read.
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
        match soon(|| Configuration::load(None, environment)) {
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
        let mut sources = Sources::default();
        soon(|| sources.add_file("t.toml", text));
        // A secret that was understood is never shown; it may stand where another setting is.
        if let Some(given) = sources.get("clickhouse_password").map(|given| given.text.clone())
            && given.contains(SECRET)
            && text.matches(SECRET).count() == 1
        {
            assert!(sources.lines().iter().all(|line| !line.contains(&given)), "{given:?}");
        }
        // What cannot be read is not quoted, but for the names in it.
        let quoted = text.parse::<toml::Table>().is_err() && text.contains(&format!("= \"{SECRET}\""));
        let errors = sources.into_errors();
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

//! Measures small responses on one core: the cost of authenticating the caller, with the application database in an SQLite file.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Section;
use super::load::{self, RequestSpec};
use super::targets::{self, Target};
use crate::engine;
use crate::programs::Profile;
use crate::stack::api::Client;
use crate::stack::{self, Stack, interrupt, trace_source};

/// Number of concurrent connections.
const CONNECTIONS: usize = 16;
/// Durations for each request: warm-up, then measurement at the maximum rate and at half that rate.
const WARM_UP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(5);
/// Number of defined fields, as a typical installation may have.
const FIELDS: usize = 20;

struct Row {
    name: &'static str,
    rate: f64,
    /// Processor time of the service per request, in seconds.
    processor: f64,
    times: Vec<Duration>,
}

/// Starts the service on one core, sends requests from another, and returns the section of the document.
pub fn section() -> Result<Section> {
    let (engine, binaries) = (engine::ensure()?, stack::build(Profile::Release)?);
    let directory = tempfile::Builder::new().prefix("tracewarden-bench-").tempdir()?;
    let cores = load::cores()?;
    let (first, last) = cores.first().zip(cores.last()).context("there is no usable core")?;
    let rows = measure(&binaries, &engine, directory.path(), *first, *last);
    // Later benchmarks in this process use all cores again.
    load::pin_to_cores(&cores)?;
    let rows = rows?;
    let targets = targets(&rows);
    Ok(Section { title: "Small answers", text: markdown(&rows, &targets), targets })
}

fn measure(binaries: &Path, engine: &Path, directory: &Path, own: usize, other: usize) -> Result<Vec<Row>> {
    load::pin_to_cores(&[own])?;
    let mut stack = Stack::start(binaries, engine, directory, &[])?;
    load::pin_to_cores(&[other])?;
    let anonymous = Client::anonymous(&stack.base);
    stack.wait_until_ready(&anonymous)?;
    let (key, session) = set_up(&anonymous, &stack.admin_password)?;
    let address = stack.base.trim_start_matches("http://").parse().context("the service's address")?;
    let request_spec = |path, headers: String, status| RequestSpec { address, path, headers, status };
    let bearer = |key: &str| format!("authorization: Bearer {key}\r\n");
    // A well-formed key that does not exist, so that the service looks it up in the application database.
    let unknown = "twk_000000000000000000000000000000".to_owned();
    let unknown = format!("{unknown}{}", checksum(&unknown));
    let request_specs = [
        ("`/filter/schema`, key", request_spec("/filter/schema", bearer(&key), 200)),
        ("`/filter/schema`, session", request_spec("/filter/schema", format!("cookie: {session}\r\n"), 200)),
        ("`/me`, key", request_spec("/me", bearer(&key), 200)),
        ("`/roles/admin`, key", request_spec("/roles/admin", bearer(&key), 200)),
        ("`/me`, unknown key", request_spec("/me", bearer(&unknown), 401)),
        ("`/me`, nothing", request_spec("/me", String::new(), 401)),
    ];
    let mut rows = Vec::new();
    for (name, request_spec) in &request_specs {
        interrupt::check()?;
        load::count(request_spec, CONNECTIONS, other, WARM_UP)?;
        let (begun, used) = (Instant::now(), stack.service_processor_time()?);
        let count = load::count(request_spec, CONNECTIONS, other, MEASURED)? as f64;
        let rate = count / begun.elapsed().as_secs_f64();
        let processor = (stack.service_processor_time()? - used).as_secs_f64() / count;
        let times = load::times(request_spec, CONNECTIONS, other, rate / 2.0, MEASURED)?;
        rows.push(Row { name, rate, processor, times });
    }
    stack.check()?;
    stack.stop()?;
    Ok(rows)
}

/// Creates an API key and a session of an administrator, and defines fields, for the longest responses.
fn set_up(anonymous: &Client, password: &str) -> Result<(String, String)> {
    let (admin, _) = anonymous.sign_in("admin", password)?;
    trace_source::bind(&admin, "otel", "otel_traces")?;
    let field = |number: usize| json!({"map": "SpanAttributes", "name": format!("shop.field_{number}"), "filterable": true, "policy": true});
    trace_source::mark(&admin, &json!((0..FIELDS).map(field).collect::<Vec<_>>()))?;
    let policies =
        json!({"policies": [{"title": "One", "expression": "SpanAttributes[\"shop.field_1\"] == \"1\""}]});
    admin.call("PUT", "/roles/admin", Some(&policies))?;
    let key = admin.call("POST", "/me/api-keys", Some(&json!({"name": "bench"})))?;
    let key = key.get("token").and_then(Value::as_str).context("the answer contains no token for the key")?;
    let session = admin.cookie().context("the sign-in returned no session")?;
    Ok((key.to_owned(), session.to_owned()))
}

/// CRC-32 as the six characters at the end of an API key.
fn checksum(text: &str) -> String {
    let mut crc = flate2::Crc::new();
    crc.update(text.trim_start_matches("twk_").as_bytes());
    let mut rest = crc.sum();
    let mut letters = Vec::new();
    for _ in 0..6 {
        let digit = u8::try_from(rest % 62).unwrap_or_default();
        letters.push(char::from(match digit {
            0..10 => b'0' + digit,
            10..36 => b'A' + digit - 10,
            _ => b'a' + digit - 36,
        }));
        rest /= 62;
    }
    letters.iter().rev().collect()
}

/// Targets: 3,000 requests per second, and a short 99th percentile at half the maximum rate.
fn targets(rows: &[Row]) -> Vec<Target> {
    let lowest = rows.iter().map(|row| row.rate).fold(f64::INFINITY, f64::min);
    let slowest = rows.iter().map(|row| row.at(0.99)).fold(0.0, f64::max);
    vec![
        Target::at_least("small answers on one core, requests a second, the fewest", 3_000.0, lowest),
        Target::at_most("99th percentile of small answers at half that rate, ms, the longest", 20.0, slowest),
    ]
}

impl Row {
    /// Quantile of the response times, in milliseconds.
    fn at(&self, share: f64) -> f64 {
        let index = (self.times.len() as f64 * share) as usize;
        let time = self.times.get(index.min(self.times.len().saturating_sub(1)));
        time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

fn markdown(rows: &[Row], targets: &[Target]) -> String {
    let mut out = format!(
        "## Small answers\n\nThe service runs on one core, with an SQLite file as the application database \
         and {FIELDS} marked fields; the client on another core,\nwith {CONNECTIONS} persistent connections. \
         First, each connection sends a request as soon as it has the answer to the one before; \
         then\nrequests are sent at half that rate, independently of earlier ones, and measured from the \
         time at which they were due. Credential, user and roles are read in each request.\n\n"
    );
    let _ = writeln!(
        out,
        "| | requests a second | processor time each, µs | at half the rate: median, ms | 99th percentile, ms |\n\
         |---|---|---|---|---|"
    );
    for row in rows {
        let (median, late) = (row.at(0.5), row.at(0.99));
        let _ = writeln!(
            out,
            "| {} | {:.0} | {:.0} | {median:.2} | {late:.2} |",
            row.name,
            row.rate,
            row.processor * 1e6
        );
    }
    out.push('\n');
    out.push_str(&targets::table(targets));
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn checksums_are_those_of_keys() {
        assert_eq!(super::checksum("twk_123456789"), "3jZRME");
    }
}

//! Reads a page of 200 traces with 200,000 spans through the service and with the same statement directly from ClickHouse. Then
//! reads one of a million spans with a client that is slower than ClickHouse, to measure memory.

use std::fmt::Write as _;
use std::io::Read as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Request;

use super::Section;
use super::targets::{self, Target};
use crate::stack::api::Client;
use crate::stack::{Stack, trace_source};

const TRACES: u32 = 200;
const SPANS_PER_TRACE: u32 = 1_000;
const ROUNDS: usize = 7;

const LARGE_SPANS_PER_TRACE: u32 = 5_000;
/// The slow client pauses this long each time it has read `BETWEEN_PAUSES` bytes, so that every buffer on the way fills up.
const PAUSE: Duration = Duration::from_millis(100);
const BETWEEN_PAUSES: u64 = 16 << 20;

/// Output settings that the service sends, so that both sides return the same bytes.
const FORMAT: &str = "FORMAT JSONEachRow SETTINGS output_format_json_quote_64bit_integers = 0, \
    output_format_json_validate_utf8 = 1, output_format_json_escape_forward_slashes = 0, date_time_output_format = 'iso'";

/// A completely read response.
#[derive(Clone, Copy)]
struct Transfer {
    bytes: u64,
    first_byte: Duration,
    whole: Duration,
}

/// The measurements.
pub struct Streaming {
    direct: Vec<Transfer>,
    service: Vec<Transfer>,
    /// Times of the same pages with ids only: the time to select the traces, which the direct statement does not do.
    choosing: Vec<Duration>,
    peak_memory: u64,
    large: Transfer,
    peak_memory_large: u64,
}

/// Loads the data, sets up the service, and measures both sides in turn.
pub fn run(stack: &mut Stack) -> Result<Streaming> {
    let store =
        Store { agent: agent(), url: stack.store_url.clone(), password: stack.store_password.clone() };
    store.run(&spans(SPANS_PER_TRACE, 600))?;
    let anonymous = Client::anonymous(&stack.base);
    stack.wait_until_ready(&anonymous)?;
    let key = set_up(&anonymous, &stack.admin_password)?;

    let columns = store.run(
        "SELECT name FROM system.columns WHERE database = 'otel' AND table = 'otel_traces' ORDER BY position",
    )?;
    let columns: Vec<String> = columns.lines().map(|name| format!("`{name}`")).collect();
    let ids =
        store.run("SELECT TraceId FROM otel.otel_traces GROUP BY TraceId ORDER BY max(Timestamp) DESC")?;
    let ids: Vec<String> = ids.lines().map(|id| format!("'{id}'")).collect();
    let (ids, positions) =
        (ids.join(", "), (1..=TRACES).map(|position| position.to_string()).collect::<Vec<_>>().join(", "));
    let statement = format!(
        "SELECT {} FROM otel.otel_traces WHERE TraceId IN ({ids}) \
         ORDER BY transform(TraceId, [{ids}], [{positions}], 0), Timestamp, SpanId {FORMAT}",
        columns.join(", ")
    );
    let url = format!("{}/traces/query", stack.base);
    let page = |view: &str| -> Result<Request<String>> {
        let request = Request::post(&url).header("authorization", format!("Bearer {key}"));
        let body = json!({"limit": TRACES, "view": view}).to_string();
        Ok(request.header("content-type", "application/json").body(body)?)
    };
    let (mut direct, mut service, mut choosing) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let straight = store.transfer(&statement)?;
        let through = transfer(&store.agent, page("spans")?, None)?;
        let ids = transfer(&store.agent, page("ids")?, None)?;
        ensure!(through.bytes >= straight.bytes, "the service gave less than the store");
        // The first round fills caches.
        if round > 0 {
            direct.push(straight);
            service.push(through);
            choosing.push(ids.whole);
        }
    }
    let peak_memory = stack.service_peak_memory()?;
    store.run("TRUNCATE TABLE otel.otel_traces")?;
    store.run(&spans(LARGE_SPANS_PER_TRACE, 1_500))?;
    let large = transfer(&store.agent, page("spans")?, Some(PAUSE))?;
    let least = service.first().map_or(0, |page| page.bytes) / u64::from(SPANS_PER_TRACE);
    ensure!(large.bytes > least * u64::from(LARGE_SPANS_PER_TRACE) * 9 / 10, "the large page is too small");
    let peak_memory_large = stack.service_peak_memory()?;
    Ok(Streaming { direct, service, choosing, peak_memory, large, peak_memory_large })
}

/// Returns the statement that inserts the traces of a page, each with `of_each` spans, starting `seconds_ago` seconds ago.
fn spans(of_each: u32, seconds_ago: u32) -> String {
    format!(
        "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, SpanKind, ServiceName, Duration, \
         StatusCode, SpanAttributes, ResourceAttributes) \
         SELECT now64(9) - {seconds_ago} + number / 1000, lower(hex(sipHash128(intDiv(number, {of_each})))), \
         leftPad(toString(number), 16, '0'), '', 'GET /orders', 'Server', 'shop', number, 'Ok', \
         map('team', if(number % {of_each} = 500, 'blue', 'red'), 'http.route', '/orders/{{id}}', \
         'http.request.method', 'GET', 'http.response.status_code', '200', 'user.id', concat('u', toString(number % 20000)), \
         'note', repeat('x', 100)), map('host.name', concat('host-', toString(number % 50)), 'service.version', '1.2.3', \
         'deployment.environment.name', 'production') FROM numbers({})",
        TRACES * of_each
    )
}

fn set_up(anonymous: &Client, admin_password: &str) -> Result<String> {
    let (admin, _) = anonymous.sign_in("admin", admin_password)?;
    trace_source::bind(&admin, "otel", "otel_traces")?;
    trace_source::mark(
        &admin,
        &json!([{"map": "SpanAttributes", "name": "team", "filterable": true, "policy": true}]),
    )?;
    let policies =
        json!({"policies": [{"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""}]});
    admin.call("PUT", "/roles/admin", Some(&policies))?;
    let key = admin.call("POST", "/me/api-keys", Some(&json!({"name": "bench"})))?;
    key.get("token")
        .and_then(Value::as_str)
        .map(str::to_owned)
        .context("the answer contains no token for the key")
}

struct Store {
    agent: Agent,
    url: String,
    password: String,
}

impl Store {
    fn request(&self, statement: &str) -> Result<Request<String>> {
        let credentials = base64::prelude::BASE64_STANDARD.encode(format!("default:{}", self.password));
        let request = Request::post(&self.url).header("authorization", format!("Basic {credentials}"));
        Ok(request.body(statement.to_owned())?)
    }

    fn run(&self, statement: &str) -> Result<String> {
        Ok(self.agent.run(self.request(statement)?)?.body_mut().read_to_string()?)
    }

    fn transfer(&self, statement: &str) -> Result<Transfer> {
        transfer(&self.agent, self.request(statement)?, None)
    }
}

fn agent() -> Agent {
    Agent::config_builder().timeout_global(Some(Duration::from_secs(120))).build().into()
}

/// Reads a whole response; a slow client pauses at intervals.
fn transfer(agent: &Agent, request: Request<String>, pause: Option<Duration>) -> Result<Transfer> {
    let begun = Instant::now();
    let mut response = agent.run(request)?;
    let mut reader = response.body_mut().with_config().limit(4 << 30).reader();
    let mut buffer = vec![0_u8; 1 << 20];
    let (mut bytes, mut first_byte) = (0_u64, None);
    loop {
        let length = reader.read(&mut buffer)?;
        first_byte.get_or_insert_with(|| begun.elapsed());
        if length == 0 {
            break;
        }
        let pauses = |bytes: u64| bytes / BETWEEN_PAUSES;
        if let Some(pause) = pause.filter(|_| pauses(bytes + length as u64) > pauses(bytes)) {
            thread::sleep(pause);
        }
        bytes += length as u64;
    }
    Ok(Transfer { bytes, first_byte: first_byte.unwrap_or_default(), whole: begun.elapsed() })
}

/// Returns the rate of a transfer in megabytes per second.
fn rate(transfer: Transfer, time: Duration) -> f64 {
    transfer.bytes as f64 / 1e6 / time.as_secs_f64().max(1e-9)
}

/// Returns the part of a transfer's time that its rate is based on, given the time to select its traces.
type Timed = fn(Transfer, Duration) -> Duration;

const TIMED: [(&str, Timed); 3] = [
    ("MB/s from the request on", |transfer, _| transfer.whole),
    ("MB/s from the request on, without choosing the traces", |transfer, choosing| {
        transfer.whole.saturating_sub(choosing)
    }),
    ("MB/s from the first byte on", |transfer, _| transfer.whole.saturating_sub(transfer.first_byte)),
];

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl Streaming {
    /// Returns the section of the document.
    pub fn section(&self) -> Section {
        let targets = self.targets();
        Section { title: "Streaming", text: self.markdown(&targets), targets }
    }

    /// Rates of ClickHouse and of the service in each round.
    fn rates(&self, timed: Timed) -> Vec<(f64, f64)> {
        let rounds = self.direct.iter().zip(&self.service).zip(&self.choosing);
        let rates = rounds.map(|((direct, service), choosing)| {
            let straight = rate(*direct, timed(*direct, Duration::ZERO));
            (straight, rate(*service, timed(*service, *choosing)))
        });
        rates.collect()
    }

    /// Median over all rounds of the service's rate divided by that of ClickHouse.
    fn ratio(&self, timed: Timed) -> f64 {
        median(self.rates(timed).into_iter().map(|(direct, service)| service / direct).collect())
    }

    fn targets(&self) -> Vec<Target> {
        let memory = (self.peak_memory.max(self.peak_memory_large) >> 20) as f64;
        vec![
            Target::at_least(
                "rate of streaming from the request on, relative to ClickHouse",
                0.9,
                self.ratio(TIMED[0].1),
            ),
            Target::at_most("memory of the service while streaming, MB", 100.0, memory),
        ]
    }

    fn markdown(&self, targets: &[Target]) -> String {
        let mut out = String::from("## Streaming\n\n");
        let megabytes =
            |transfer: Option<&Transfer>| transfer.map_or(0.0, |transfer| transfer.bytes as f64 / 1e6);
        let _ = writeln!(
            out,
            "A page of {TRACES} traces with {} spans, all columns, {:.0} MB of JSON; medians of {ROUNDS} \
             rounds, both sides in turn. The\nservice also looks up the caller, writes two audit records, \
             and chooses the traces before it reads\nthem; that takes as long as a page of their ids, which \
             the second rate leaves out. It reads them in parts: ClickHouse\nsorts the next part while the \
             service forwards the previous one. The large page has {} spans, {:.0} MB,\nand its client \
             pauses now and then, so that ClickHouse is faster.\n",
            TRACES * SPANS_PER_TRACE,
            megabytes(self.service.first()),
            TRACES * LARGE_SPANS_PER_TRACE,
            megabytes(Some(&self.large)),
        );
        let _ =
            writeln!(out, "| | directly from ClickHouse | through the service | ratio |\n|---|---|---|---|");
        for (name, timed) in TIMED {
            let (direct, service): (Vec<f64>, Vec<f64>) = self.rates(timed).into_iter().unzip();
            let (direct, service, ratio) = (median(direct), median(service), self.ratio(timed));
            let _ = writeln!(out, "| {name} | {direct:.0} | {service:.0} | {ratio:.2} |");
        }
        let first =
            |side: &[Transfer]| median(side.iter().map(|one| one.first_byte.as_secs_f64() * 1e3).collect());
        let _ =
            writeln!(out, "| first byte, ms | {:.0} | {:.0} | |", first(&self.direct), first(&self.service));
        let choosing = median(self.choosing.iter().map(|one| one.as_secs_f64() * 1e3).collect());
        let _ = writeln!(out, "| a page of the ids, ms | | {choosing:.0} | |");
        let _ = writeln!(out, "| maximum memory of the service, MB | | {} | |", self.peak_memory >> 20);
        let _ =
            writeln!(out, "| the same after the large page, MB | | {} | |\n", self.peak_memory_large >> 20);
        out.push_str(&targets::table(targets));
        out
    }
}

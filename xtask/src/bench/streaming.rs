//! A page of 200 traces with 200,000 spans through the service, against the same statement sent straight to the store.

use std::fmt::Write as _;
use std::io::Read as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Request;

use crate::stack::Stack;
use crate::stack::api::{Client, expect};

const TRACES: u32 = 200;
const SPANS_PER_TRACE: u32 = 1_000;
const ROUNDS: usize = 7;

/// The output settings that the service sends, so that both sides write the same bytes.
const FORMAT: &str = "FORMAT JSONEachRow SETTINGS output_format_json_quote_64bit_integers = 0, \
    output_format_json_validate_utf8 = 1, output_format_json_escape_forward_slashes = 0, date_time_output_format = 'iso'";

/// One answer, read to its end.
#[derive(Clone, Copy)]
struct Transfer {
    bytes: u64,
    first_byte: Duration,
    whole: Duration,
}

/// What was measured.
pub struct Streaming {
    direct: Vec<Transfer>,
    service: Vec<Transfer>,
    peak_memory: u64,
}

/// Loads the data, sets the service up, and measures both sides in turn.
pub fn run(stack: &mut Stack) -> Result<Streaming> {
    let store =
        Store { agent: agent(), url: stack.store_url.clone(), password: stack.store_password.clone() };
    store.run(&format!(
        "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, SpanKind, ServiceName, Duration, \
         StatusCode, SpanAttributes, ResourceAttributes) \
         SELECT now64(9) - 600 + number / 1000, lower(hex(sipHash128(intDiv(number, {SPANS_PER_TRACE})))), \
         leftPad(toString(number), 16, '0'), '', 'GET /orders', 'Server', 'shop', number, 'Ok', \
         map('team', if(number % {SPANS_PER_TRACE} = 500, 'blue', 'red'), 'http.route', '/orders/{{id}}', \
         'http.request.method', 'GET', 'http.response.status_code', '200', 'user.id', concat('u', toString(number % 20000)), \
         'note', repeat('x', 100)), map('host.name', concat('host-', toString(number % 50)), 'service.version', '1.2.3', \
         'deployment.environment.name', 'production') FROM numbers({})",
        TRACES * SPANS_PER_TRACE
    ))?;
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
    let (ids, places) =
        (ids.join(", "), (1..=TRACES).map(|place| place.to_string()).collect::<Vec<_>>().join(", "));
    let statement = format!(
        "SELECT {} FROM otel.otel_traces WHERE TraceId IN ({ids}) \
         ORDER BY transform(TraceId, [{ids}], [{places}], 0), Timestamp, SpanId {FORMAT}",
        columns.join(", ")
    );
    let query = json!({"limit": TRACES}).to_string();
    let (mut direct, mut service) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let straight = store.transfer(&statement)?;
        let request = Request::post(format!("{}/traces/query", stack.base))
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json");
        let through = transfer(&store.agent, request.body(query.clone())?)?;
        ensure!(through.bytes >= straight.bytes, "the service gave less than the store");
        // The first round fills caches.
        if round > 0 {
            direct.push(straight);
            service.push(through);
        }
    }
    Ok(Streaming { direct, service, peak_memory: stack.service_peak_memory()? })
}

fn set_up(anonymous: &Client, admin_password: &str) -> Result<String> {
    let (admin, _) = anonymous.sign_in("admin", admin_password)?;
    let binding = json!({"database": "otel", "table": "otel_traces", "trace_id": "TraceId", "span_id": "SpanId",
        "timestamp": "Timestamp", "parent_span_id": "ParentSpanId"});
    let bound = admin.send("PUT", "/schema/binding", None, Some(&binding))?;
    expect(&bound, "PUT", "/schema/binding", &[200, 201])?;
    let fields =
        json!({"fields": [{"map": "SpanAttributes", "name": "team", "filterable": true, "policy": true}]});
    let marked = admin.send("PUT", "/schema/fields", bound.etag.as_deref(), Some(&fields))?;
    expect(&marked, "PUT", "/schema/fields", &[200])?;
    let policies =
        json!({"policies": [{"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""}]});
    admin.call("PUT", "/roles/admin", Some(&policies))?;
    let key = admin.call("POST", "/me/api-keys", Some(&json!({"name": "bench"})))?;
    key.get("token").and_then(Value::as_str).map(str::to_owned).context("no token came with the key")
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
        transfer(&self.agent, self.request(statement)?)
    }
}

fn agent() -> Agent {
    Agent::config_builder().timeout_global(Some(Duration::from_secs(120))).build().into()
}

fn transfer(agent: &Agent, request: Request<String>) -> Result<Transfer> {
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
        bytes += length as u64;
    }
    Ok(Transfer { bytes, first_byte: first_byte.unwrap_or_default(), whole: begun.elapsed() })
}

/// Megabytes a second of one answer, from the request or from its first byte on.
fn rate(transfer: Transfer, from_first_byte: bool) -> f64 {
    let time =
        if from_first_byte { transfer.whole.saturating_sub(transfer.first_byte) } else { transfer.whole };
    transfer.bytes as f64 / 1e6 / time.as_secs_f64().max(1e-9)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl Streaming {
    /// The figures as a section of the page.
    pub fn markdown(&self) -> String {
        let mut out = String::from("## Streaming\n\n");
        let bytes = self.service.first().map_or(0, |transfer| transfer.bytes);
        let _ = writeln!(
            out,
            "A page of {TRACES} traces with {} spans, all columns, {:.0} MB of JSON; medians of {ROUNDS} rounds, both sides in turn. \
             The\nservice also looks up the caller, writes two audit records, and chooses the traces before it reads them.\n",
            TRACES * SPANS_PER_TRACE,
            bytes as f64 / 1e6
        );
        let _ = writeln!(out, "| | straight to the store | through the service | ratio |\n|---|---|---|---|");
        for (name, from_first_byte) in
            [("MB/s from the request on", false), ("MB/s from the first byte on", true)]
        {
            let of = |side: &[Transfer]| median(side.iter().map(|one| rate(*one, from_first_byte)).collect());
            let pairs = self.direct.iter().zip(&self.service);
            let ratio =
                median(pairs.map(|(a, b)| rate(*b, from_first_byte) / rate(*a, from_first_byte)).collect());
            let _ =
                writeln!(out, "| {name} | {:.0} | {:.0} | {ratio:.2} |", of(&self.direct), of(&self.service));
        }
        let first =
            |side: &[Transfer]| median(side.iter().map(|one| one.first_byte.as_secs_f64() * 1e3).collect());
        let _ =
            writeln!(out, "| first byte, ms | {:.0} | {:.0} | |", first(&self.direct), first(&self.service));
        let _ = writeln!(out, "| most memory of the service, MB | | {} | |", self.peak_memory >> 20);
        out
    }
}

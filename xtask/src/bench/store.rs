//! Sends hand-written statements directly to ClickHouse and measures their cost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use serde_json::Value;
use ureq::Agent;
use ureq::Body;
use ureq::http::{Request, Response};

use crate::stack::interrupt;

/// A ClickHouse client with one keep-alive connection.
#[derive(Clone)]
pub struct Store {
    agent: Agent,
    url: String,
    password: String,
}

/// A completely read response.
pub struct Reply {
    pub body: Vec<u8>,
    /// Time from sending the request to the last byte.
    pub elapsed: Duration,
    summary: Option<String>,
}

/// ClickHouse event counters since its start.
#[derive(Clone, Copy, Default)]
pub struct Counters {
    pub rows: u64,
    pub bytes: u64,
    pub statements: u64,
}

impl Store {
    pub fn new(url: &str, password: &str) -> Self {
        Self { agent: agent(), url: url.trim_end_matches('/').to_owned(), password: password.to_owned() }
    }

    /// Runs a statement to completion, without a time-out and including mutations, and returns its output. An interruption ends
    /// the wait; the statement then ends together with ClickHouse.
    pub fn run(&self, statement: &str) -> Result<String> {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (store, text) = (self.clone(), statement.to_owned());
        std::thread::spawn(move || {
            // The receiver is gone after an interruption.
            let _ = sender.send(store.ask(&text, "mutations_sync=2&alter_sync=2"));
        });
        loop {
            interrupt::check()?;
            match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(reply) => return Ok(String::from_utf8(reply?.body)?),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Runs a statement with these settings, written as a URL query string, and measures its time.
    pub fn ask(&self, statement: &str, settings: &str) -> Result<Reply> {
        let credentials = base64::prelude::BASE64_STANDARD.encode(format!("default:{}", self.password));
        let request = Request::post(format!("{}/?{settings}", self.url))
            .header("authorization", format!("Basic {credentials}"))
            .body(statement.to_owned())?;
        answer(&self.agent, request).with_context(|| format!("ClickHouse statement: {statement}"))
    }

    /// Reads the counters. Reading them also increases them.
    pub fn counters(&self) -> Result<Counters> {
        let text = self.run(
            "SELECT event, value FROM system.events WHERE event IN \
             ('SelectedRows', 'SelectedBytes', 'SelectQuery')",
        )?;
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
            line.and_then(|value| value.parse().ok()).unwrap_or_default()
        };
        Ok(Counters { rows: of("SelectedRows"), bytes: of("SelectedBytes"), statements: of("SelectQuery") })
    }
}

impl Counters {
    pub fn since(self, before: Self) -> Self {
        Self {
            rows: self.rows.saturating_sub(before.rows),
            bytes: self.bytes.saturating_sub(before.bytes),
            statements: self.statements.saturating_sub(before.statements),
        }
    }
}

impl Reply {
    /// Returns the lines of the response.
    pub fn lines(&self) -> Result<Vec<String>> {
        Ok(std::str::from_utf8(&self.body)?.lines().map(str::to_owned).collect())
    }

    /// Returns the rows and bytes that the statement read, from the response's summary header.
    pub fn read(&self) -> Result<(u64, u64)> {
        let summary: Value =
            serde_json::from_str(self.summary.as_deref().context("the answer has no summary")?)?;
        let of = |name: &str| summary.get(name).and_then(Value::as_str).and_then(|text| text.parse().ok());
        of("read_rows").zip(of("read_bytes")).context("the summary does not contain the rows and bytes read")
    }
}

/// Returns an HTTP client with keep-alive connections and no time-out.
pub fn agent() -> Agent {
    Agent::config_builder().http_status_as_error(false).build().into()
}

/// Sends a request, which must succeed, and reads the whole response.
pub fn answer<B: ureq::AsSendBody>(agent: &Agent, request: Request<B>) -> Result<Reply> {
    let begun = Instant::now();
    let mut response = agent.run(request)?;
    let body = read(&mut response)?;
    let elapsed = begun.elapsed();
    let status = response.status();
    if !status.is_success() {
        let text = String::from_utf8_lossy(&body);
        bail!("answered with {status}: {}", text.chars().take(2_000).collect::<String>().trim());
    }
    let summary = response.headers().get("x-clickhouse-summary");
    let summary = summary.and_then(|value| value.to_str().ok()).map(str::to_owned);
    Ok(Reply { body, elapsed, summary })
}

fn read(response: &mut Response<Body>) -> Result<Vec<u8>> {
    Ok(response.body_mut().with_config().limit(4 << 30).read_to_vec()?)
}

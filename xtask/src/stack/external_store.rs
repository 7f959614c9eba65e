//! A ClickHouse server of the user, in place of the local store: the demo has a database of its own there.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use ureq::Agent;
use ureq::http::Uri;

use super::LocalStore;

/// The demo's database on the server.
pub const DATABASE: &str = "tracewarden_demo";
/// The database of the local store, from which tables and spans are copied.
const LOCAL_DATABASE: &str = "otel";
/// Tables and views of the OpenTelemetry exporter, in the order in which they are created.
const TABLES: [&str; 3] = ["otel_traces", "otel_traces_trace_id_ts", "otel_traces_trace_id_ts_mv"];

/// A ClickHouse server, by its HTTP interface.
pub struct ExternalStore {
    agent: Agent,
    /// URL without credentials.
    pub url: String,
    pub user: String,
    pub password: String,
}

impl ExternalStore {
    /// Connects to a server: `http://user:password@host:8123`; without a user, as `default`.
    ///
    /// # Errors
    /// When the URL is not one, the server does not answer, or it has the demo's database already.
    pub fn connect(url: &str) -> Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("`{url}` is not a URL"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            bail!("`{url}` is not the URL of ClickHouse's HTTP interface, such as http://localhost:8123");
        };
        let (credentials, host) = match authority.as_str().rsplit_once('@') {
            Some((credentials, host)) => (credentials, host),
            None => ("default", authority.as_str()),
        };
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let config = Agent::config_builder().timeout_global(Some(Duration::from_secs(300)));
        let agent = config.http_status_as_error(false).build().into();
        let store = Self {
            agent,
            url: format!("{scheme}://{host}"),
            user: user.to_owned(),
            password: password.to_owned(),
        };
        let version = store.run("SELECT version()")?;
        let existing = store.run(&format!("EXISTS DATABASE {DATABASE}"))?;
        if existing.trim() != "0" {
            bail!(
                "the server has a database `{DATABASE}` already; if it is left from an earlier demo, remove it and try again:\n  {}",
                store.removal()
            );
        }
        eprintln!("         ClickHouse {} at {}", version.trim(), store.url);
        Ok(store)
    }

    /// Creates the exporter's tables in the demo's database, and copies the spans of the local store. Returns their number.
    pub fn fill_from(&self, local: &LocalStore) -> Result<u64> {
        let source = Self {
            agent: self.agent.clone(),
            url: local.url.trim_end_matches('/').to_owned(),
            user: "default".to_owned(),
            password: local.password.clone(),
        };
        self.run(&format!("CREATE DATABASE {DATABASE}"))?;
        for table in TABLES {
            let create = source.run(&format!("SHOW CREATE TABLE {LOCAL_DATABASE}.{table} FORMAT TSVRaw"))?;
            let create = create.replace(&format!("{LOCAL_DATABASE}.otel_"), &format!("{DATABASE}.otel_"));
            self.run(create.trim_end())?;
        }
        let spans = source.read(&format!("SELECT * FROM {LOCAL_DATABASE}.otel_traces FORMAT Native"))?;
        let insert = format!("INSERT INTO {DATABASE}.otel_traces FORMAT Native");
        let mut answer = self
            .request(&format!("{}/?query={}", self.url, insert.replace(' ', "%20")))
            .send(spans)
            .context("cannot send the sample spans to ClickHouse")?;
        if answer.status() != 200 {
            bail!("ClickHouse refused the sample spans: {}", answer.body_mut().read_to_string()?.trim());
        }
        let count = self.run(&format!("SELECT count() FROM {DATABASE}.otel_traces"))?;
        count.trim().parse().with_context(|| format!("`{}` is not a number of spans", count.trim()))
    }

    /// Returns a command that removes everything that the demo created on the server.
    pub fn removal(&self) -> String {
        let user =
            if self.password.is_empty() { String::new() } else { format!(" -u {}:PASSWORD", self.user) };
        format!("curl{user} {} --data-binary 'DROP DATABASE {DATABASE} SYNC'", self.url)
    }

    fn request(&self, url: &str) -> ureq::RequestBuilder<ureq::typestate::WithBody> {
        let request = self.agent.post(url).header("x-clickhouse-user", &self.user);
        request.header("x-clickhouse-key", &self.password)
    }

    fn run(&self, statement: &str) -> Result<String> {
        let body = self.read(statement)?;
        String::from_utf8(body).context("ClickHouse's answer is not text")
    }

    fn read(&self, statement: &str) -> Result<Vec<u8>> {
        let request = self.request(&format!("{}/", self.url));
        let mut answer =
            request.send(statement).with_context(|| format!("ClickHouse does not answer at {}", self.url))?;
        // All sample spans at once: some 50 MB.
        let body = answer.body_mut().with_config().limit(2 << 30).read_to_vec()?;
        if answer.status() != 200 {
            let text = String::from_utf8_lossy(&body);
            bail!("ClickHouse at {} refused `{}`: {}", self.url, first_line(statement), text.trim());
        }
        Ok(body)
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

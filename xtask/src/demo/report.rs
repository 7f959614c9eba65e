//! Formats the report for the terminal, 100 columns wide.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::json;

use super::company::{Company, GROUP, PERSON};
use super::demo_users::{AGENT_OWNER, DEMO_USERS};
use super::expectations::Landmark;
use super::seed::{Accounts, KEY_FILE};
use crate::stack::api::Client;
use crate::stack::identity_provider::LABEL;

/// Input of the report.
pub struct Report<'a> {
    pub base: &'a str,
    /// URL for OTLP traces, if there is one.
    pub otlp: Option<&'a str>,
    /// Command that removes what the demo created on a ClickHouse server.
    pub removal: Option<String>,
    pub accounts: &'a Accounts,
    /// The identity provider, if there is one.
    pub company: Option<&'a Company>,
    pub landmarks: &'a [Landmark],
    /// Directory of the data, and whether it is kept.
    pub directory: &'a str,
    pub kept: bool,
    /// Whether the web application is available.
    pub web: bool,
    /// The program's path as the user can type it.
    pub program: &'a str,
}

impl Report<'_> {
    pub fn render(&self) -> String {
        // Writing to a string cannot fail.
        let mut out = String::new();
        let _ = self.write(&mut out);
        out
    }

    fn password_of(&self, username: &str) -> &str {
        self.accounts.of(username).map_or("", |account| &account.password)
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let Self { base, directory, .. } = self;
        writeln!(out, "\nTracewarden runs at  {base}{}\n", if self.web { "/ui/" } else { "" })?;
        writeln!(out, "Accounts. Each user sees a trace whole or not at all:\n")?;
        for account in &self.accounts.all {
            let demo_user = account.demo_user;
            writeln!(out, "  {:<8} {}   {}", demo_user.username, account.password, demo_user.title)?;
            writeln!(out, "           sees {}", demo_user.sees)?;
            let Some(role) = demo_user.role else { continue };
            let attributes = (demo_user.attributes)();
            let with =
                if attributes == json!({}) { String::new() } else { format!(" and attributes {attributes}") };
            writeln!(out, "           by role {}{with}: any span with", role.name)?;
            for policy in role.policies {
                writeln!(out, "             {}", wrapped_expression(policy.expression, "             "))?;
            }
        }
        if let Some(company) = self.company {
            writeln!(out, "\nWith the button “{LABEL}”, at the identity provider {}:\n", company.issuer())?;
            writeln!(out, "  {PERSON:<8} {}   in its group {GROUP}", company.password)?;
            writeln!(out, "           sees what paula sees: the mapping of claims at {base}/ui/identity")?;
            writeln!(out, "           gives the group the role payments-on-call")?;
        }
        writeln!(out, "\nVisibility of the notable traces of the sample:\n")?;
        out.push_str(&table(self.landmarks));
        let incident =
            self.landmarks.iter().find(|landmark| landmark.name == "incident").map(|landmark| landmark.id);
        let key = &self.accounts.key;
        writeln!(
            out,
            "\nAsk as {AGENT_OWNER}'s coding agent, with an API key. Checkouts that failed in the last 24 hours:\n"
        )?;
        let query = json!({"view": "summary", "limit": 3, "filter": {"conditions": [
            {"map": "SpanAttributes", "name": "http.response.status_code", "op": "gte", "value": 500},
            {"map": "SpanAttributes", "name": "http.route", "op": "eq", "value": "/checkout"}]}});
        writeln!(out, "  curl -s {base}/traces/query -H 'Content-Type: application/json' \\")?;
        writeln!(out, "    -H 'Authorization: Bearer {key}' \\")?;
        writeln!(out, "    -d '{}'", wrapped_json(&query.to_string()))?;
        if let Some(incident) = incident {
            writeln!(out, "\nOne of these traces, whole:\n")?;
            writeln!(out, "  curl -s {base}/traces/{incident} \\")?;
            writeln!(out, "    -H 'Authorization: Bearer {key}'")?;
        }
        let server = json!({"type": "http", "url": format!("{base}/mcp"), "headers": {"Authorization": format!("Bearer {key}")}});
        let client = json!({"mcpServers": {"tracewarden": server}});
        writeln!(out, "\nThe same for an MCP client:\n")?;
        let text = serde_json::to_string_pretty(&client).unwrap_or_default();
        for line in text.lines() {
            writeln!(out, "  {line}")?;
        }
        if self.company.is_some() {
            writeln!(out, "\nOr without a key: the client opens the browser, where {PERSON} signs in.\n")?;
            writeln!(out, "  claude mcp add --transport http tracewarden {base}/mcp")?;
        }
        if !self.web {
            writeln!(out, "\nSign in like a browser; the cookie is the session:\n")?;
            writeln!(out, "  curl -s -c cookies {base}/login -H 'Content-Type: application/json' \\")?;
            writeln!(out, "    -d '{{\"username\":\"sam\",\"password\":\"{}\"}}'", self.password_of("sam"))?;
            writeln!(out, "  curl -s -b cookies {base}/me")?;
        }
        let program = self.program;
        writeln!(
            out,
            "\nThe access model as a file, with tests; change it and see who would see which traces:\n"
        )?;
        writeln!(out, "  export TRACEWARDEN_URL={base}")?;
        writeln!(out, "  export TRACEWARDEN_API_KEY_FILE={directory}/{KEY_FILE}")?;
        writeln!(out, "  {program} model export --output access.yaml")?;
        writeln!(out, "  {program} model plan access.yaml")?;
        if let Some(otlp) = self.otlp {
            let otlp = otlp.strip_suffix("/v1/traces").unwrap_or(otlp);
            writeln!(out, "\nSend your own spans (the policies decide who sees them):\n")?;
            writeln!(
                out,
                "  export OTEL_EXPORTER_OTLP_ENDPOINT={otlp} OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
            )?;
        }
        if let Some(removal) = &self.removal {
            writeln!(
                out,
                "\nThe spans are in a database of their own on your server, which stays; to remove it:\n"
            )?;
            writeln!(out, "  {removal}")?;
        }
        let kept = if self.kept { "kept at the end" } else { "removed at the end; --keep DIR keeps them" };
        writeln!(out, "\nData and logs ({kept}): {directory}")?;
        writeln!(out, "Ctrl-C stops everything.")
    }
}

/// Wraps an expression that exceeds the line width at suitable places.
fn wrapped_expression(expression: &str, indentation: &str) -> String {
    const COLUMNS: usize = 100;
    if indentation.len() + expression.len() <= COLUMNS {
        return expression.to_owned();
    }
    expression.replace(" && ", &format!("\n{indentation}  && "))
}

/// Wraps a JSON document between members, so that it can still be pasted.
fn wrapped_json(json: &str) -> String {
    json.replace("\"filter\":", "\n      \"filter\":")
        .replace(",{\"map\"", ",\n      {\"map\"")
        .replace("[{\"map\"", "[\n      {\"map\"")
}

/// Formats a table of landmarks and users: ✓ if the user sees the landmark, otherwise –.
pub fn table(landmarks: &[Landmark]) -> String {
    let mut out = String::new();
    let width = landmarks.iter().map(|landmark| landmark.name.len()).max().unwrap_or_default();
    let mut row = |first: &str, spans: &str, id: &str, cells: &mut dyn Iterator<Item = &str>| {
        let mut line = format!("  {first:<width$} {spans:>6}");
        for cell in cells {
            let _ = write!(line, " {cell:^7}");
        }
        let _ = writeln!(out, "{}  {id}", line);
    };
    row("trace", "spans", "id", &mut DEMO_USERS.iter().map(|demo_user| demo_user.username));
    for landmark in landmarks {
        let cells = landmark.visible.iter().map(|visible| if *visible { "✓" } else { "–" });
        row(
            landmark.name,
            &landmark.spans.len().to_string(),
            &landmark.id.to_string(),
            &mut cells.into_iter(),
        );
    }
    out
}

/// Whether the service serves the web application.
pub fn web_answers(anonymous: &Client) -> Result<bool> {
    Ok(anonymous.send("GET", "/ui/", None, None)?.status == 200)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::seed::Account;
    use tracewarden_sample_data::TraceId;

    fn landmark() -> Landmark {
        Landmark {
            name: "supported tenant",
            id: TraceId([0xab; 16]),
            start_unix_nanos: 0,
            spans: vec![String::new(); 10_000],
            visible: vec![true, false, true, false, false],
            matching_spans: Vec::new(),
        }
    }

    fn report() -> String {
        let account = |demo_user| Account {
            demo_user,
            password: "aaaa-bbbb-cccc-dddd".to_owned(),
            client: Client::anonymous("http://127.0.0.1:8080"),
        };
        let all = DEMO_USERS.iter().map(account).collect();
        let key = "twk_0123456789012345678901234567890123456789".to_owned();
        let accounts = Accounts { all, administrator_key: key.clone(), key };
        let report = Report {
            base: "http://127.0.0.1:8080",
            otlp: Some("http://127.0.0.1:4318/v1/traces"),
            removal: None,
            accounts: &accounts,
            company: None,
            landmarks: &[Landmark { name: "incident", ..landmark() }],
            directory: "/tmp/tracewarden-demo-abcdef",
            kept: false,
            web: false,
            program: "target/release/tracewarden",
        };
        report.render()
    }

    #[test]
    fn everything_fits_into_100_columns() {
        for line in report().lines().chain(table(&[landmark()]).lines()) {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }

    #[test]
    fn the_query_can_be_pasted() {
        let text = report();
        let body = text.split("-d '").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok(), "{body}");
    }

    #[test]
    fn the_configuration_of_a_client_can_be_pasted() {
        let text = report();
        let lines = text.lines().skip_while(|line| *line != "  {").take_while(|line| line.starts_with("  "));
        let configuration: serde_json::Value = serde_json::from_str(&lines.collect::<String>()).unwrap();
        assert_eq!(configuration["mcpServers"]["tracewarden"]["url"], "http://127.0.0.1:8080/mcp");
    }
}

//! `docs/internals/headers.md`: the headers of every kind of answer of every operation, for people; and that every answer over HTTPS
//! has an HSTS header.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use reqwest::Method;
use serde_json::json;

use crate::document::committed;
use crate::every_operation::{Fixture, Operation, operations};
use crate::support::{Answer, Client, Service};

const HTTPS: &str = "strict-transport-security: max-age=63072000";

/// An answer, as far as its headers and status go.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    /// The request.
    request_info: String,
    /// The status, with the code of an error.
    outcome: String,
    /// Headers as `name: value`, with varying values replaced.
    headers: BTreeSet<String>,
}

impl Row {
    fn new(request_info: &str, answer: &Answer) -> Self {
        let code = answer.body["code"].as_str().filter(|_| answer.status >= 400);
        let outcome = code.map_or(answer.status.to_string(), |code| format!("{} {code}", answer.status));
        let headers = answer.headers.iter();
        let headers = headers.filter_map(|(name, value)| normalized(name.as_str(), value.to_str().unwrap()));
        Self { request_info: request_info.to_owned(), outcome, headers: headers.collect() }
    }
}

fn normalized(name: &str, value: &str) -> Option<String> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = match name {
        // These headers belong to the connection, not to the answer.
        "date" | "content-length" | "transfer-encoding" | "connection" => return None,
        "x-request-id" if value.len() == 32 && digits(value) => "…",
        "etag" if digits(value.trim_matches('"')) => "\"…\"",
        "retry-after" if value.parse::<u32>().is_ok() => "…",
        "set-cookie" => {
            let (cookie, attributes) = value.split_once(';').unwrap();
            let (cookie, token) = cookie.split_once('=').unwrap();
            let token = if token.is_empty() { "" } else { "…" };
            return Some(format!("{name}: {cookie}={token};{attributes}"));
        }
        _ => value,
    };
    Some(format!("{name}: {value}"))
}

/// Returns the headers that all answers have.
fn common(rows: &[Row]) -> BTreeSet<String> {
    let mut sets = rows.iter().map(|row| row.headers.clone());
    let first = sets.next().unwrap();
    sets.fold(first, |common, set| &common & &set)
}

/// Formats headers as a table cell.
fn cell<'a>(headers: impl Iterator<Item = &'a String>) -> String {
    headers.map(|header| format!("`{header}`")).collect::<Vec<_>>().join("<br>")
}

fn list(headers: &BTreeSet<String>) -> String {
    headers.iter().map(|header| format!("- `{header}`\n")).collect()
}

/// Returns a table with a row per answer.
fn row_per_answer(rows: &[Row], common: &BTreeSet<String>) -> String {
    let mut text = "| request | response | additional headers |\n|---|---|---|\n".to_owned();
    for row in rows {
        let additional = cell(row.headers.difference(common));
        text += &format!("| `{}` | {} | {additional} |\n", row.request_info, row.outcome);
    }
    text
}

/// Returns a table with a row per group of equal answers, which is named by a word if there is one for it.
fn rows_by_headers(rows: &[Row], common: &BTreeSet<String>, operations: &[Operation]) -> String {
    let mut groups: BTreeMap<(&str, String), BTreeSet<String>> = BTreeMap::new();
    for row in rows {
        let additional = cell(row.headers.difference(common));
        groups.entry((&row.outcome, additional)).or_default().insert(row.request_info.clone());
    }
    let named_operations = |which: fn(&Operation) -> bool| -> BTreeSet<String> {
        operations.iter().filter(|operation| which(operation)).map(Operation::name).collect()
    };
    let group_names = [
        ("every operation", named_operations(|_| true)),
        ("every operation that is not public", named_operations(|operation| operation.access != "public")),
        (
            "every operation for administrators",
            named_operations(|operation| operation.access == "administrator"),
        ),
        ("every operation except GET", named_operations(Operation::changes)),
        ("every operation that reads a body", named_operations(|operation| operation.reads_body)),
    ];
    let mut text = "| response | additional headers | for |\n|---|---|---|\n".to_owned();
    for ((outcome, additional), request_info) in groups {
        let word = group_names.iter().find(|(_, named_operations)| *named_operations == request_info);
        let to = word.map_or_else(
            || {
                request_info
                    .iter()
                    .map(|request_info| format!("`{request_info}`"))
                    .collect::<Vec<_>>()
                    .join(", ")
            },
            |(word, named_operations)| format!("{word} ({})", named_operations.len()),
        );
        text += &format!("| {outcome} | {additional} | {to} |\n");
    }
    text
}

/// Returns one successful answer of each operation.
async fn successes(fixture: &Fixture) -> Vec<Row> {
    let mut rows = Vec::new();
    for operation in operations(&fixture.service).await {
        rows.push(Row::new(&operation.name(), &fixture.perform(&operation).await));
    }
    rows
}

/// Returns each operation's answers to invalid requests.
async fn refusals(fixture: &Fixture, operations: &[Operation]) -> Vec<Row> {
    let mut rows = Vec::new();
    let methods = |path: &str| -> Vec<&Method> {
        operations
            .iter()
            .filter(|operation| operation.path == path)
            .map(|operation| &operation.method)
            .collect()
    };
    let plain = async |client: &Client, method: &Method, path: &str, kind: &str, body: &'static str| {
        let request = client.request(method.clone(), path).header("content-type", kind).body(body);
        Answer::read(format!("{method} {path}"), request).await
    };
    for operation in operations {
        let (name, path, method) = (operation.name(), operation.path_of_missing_object(), &operation.method);
        let mut add = |answer: Answer| {
            assert!(answer.status >= 400, "{}: {}", answer.request_info, answer.status);
            rows.push(Row::new(&name, &answer));
        };
        let (admin, anonymous) = (&fixture.watcher, fixture.service.anonymous());
        if operation.access != "public" {
            add(anonymous.send(method.clone(), &path, None).await);
        }
        if operation.access == "administrator" {
            add(fixture.ada.send(method.clone(), &path, None).await);
        }
        add(admin.with("accept", "application/xml").send(method.clone(), &path, None).await);
        if operation.path.contains('{') {
            let answer = admin.send(method.clone(), &path, None).await;
            // `PUT` on an unknown name creates a role.
            if answer.status >= 400 {
                add(answer);
            }
        }
        if operation.changes() {
            add(admin.with("origin", "https://evil.example").send(method.clone(), &path, None).await);
            add(plain(admin, method, &path, "text/plain", "{}").await);
            // An operation that reads no body would succeed.
            if operation.reads_body {
                add(plain(admin, method, &path, "application/json", "{").await);
            }
        }
        // Once per path.
        let served = methods(&operation.path);
        if served.first() == Some(&method) {
            let other =
                [Method::PATCH, Method::PUT].into_iter().find(|other| !served.contains(&other)).unwrap();
            // A CORS preflight request gets the same answer as an unsupported method.
            let preflight = anonymous.with("origin", "https://evil.example");
            let preflight = preflight.with("access-control-request-method", method.as_str());
            let preflight = preflight.with("access-control-request-headers", "authorization,content-type");
            for (client, method) in [(admin, other), (&preflight, Method::OPTIONS)] {
                let answer = client.send(method, &path, None).await.expect(405);
                rows.push(Row::new(&operation.path, &answer));
            }
        }
    }
    rows
}

/// Returns alternative forms of the operations' answers, and answers to requests that match no operation.
async fn other_answers(fixture: &Fixture, without_clickhouse: &Service) -> Vec<Row> {
    let (watcher, anonymous) = (&fixture.watcher, fixture.service.anonymous());
    let mut rows = Vec::new();
    let mut add = |request_info: &str, status: u16, answer: Answer| {
        rows.push(Row::new(request_info, &answer.expect(status)))
    };
    let lines = watcher.with("accept", "application/x-ndjson");
    add("POST /traces/query, as NDJSON", 200, lines.post("/traces/query", json!({})).await);
    let yaml = watcher.with("accept", "application/yaml");
    add("GET /schema/export, as YAML", 200, yaml.get("/schema/export").await);
    for encoding in ["gzip", "zstd"] {
        let answer = anonymous.with("accept-encoding", encoding).get("/openapi.json").await;
        add(&format!("GET /openapi.json, with {encoding}"), 200, answer);
    }
    add("HEAD /healthz", 200, anonymous.send(Method::HEAD, "/healthz", None).await);
    add("GET /nothing", 404, anonymous.get("/nothing").await);
    let wrong = json!({"username": "unknown-user", "password": "x"});
    add("POST /login, wrong password", 401, anonymous.post("/login", wrong).await);
    let stale = watcher.with("if-match", "\"999\"");
    add(
        "PUT /schema/fields, outdated If-Match",
        412,
        stale.put("/schema/fields", json!({"fields": []})).await,
    );
    add("PUT /schema/fields, no If-Match", 428, watcher.put("/schema/fields", json!({"fields": []})).await);
    let admin = without_clickhouse.admin().await;
    add("POST /traces/query, no table bound", 409, admin.post("/traces/query", json!({})).await);
    add("GET /schema/tables, ClickHouse unavailable", 503, admin.get("/schema/tables").await);
    add("GET /readyz, ClickHouse unavailable", 503, without_clickhouse.anonymous().get("/readyz").await);

    let key = watcher.post("/me/api-keys", json!({"name": "agent"})).await.expect(201).body;
    let agent = anonymous.with_key(key["token"].as_str().unwrap());
    let agent = agent.with("accept", "application/json, text/event-stream");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    add("POST /mcp", 200, agent.post("/mcp", call.clone()).await);
    add("POST /mcp, without a key", 401, anonymous.post("/mcp", call.clone()).await);
    add(
        "POST /mcp, from another site",
        403,
        agent.with("origin", "https://evil.example").post("/mcp", call).await,
    );
    add("GET /mcp", 405, agent.get("/mcp").await);
    rows
}

/// Returns the answers of the web application; `None` if the program was built without it.
async fn pages(service: &Service) -> Option<Vec<Row>> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist/index.html");
    if !built.exists() {
        return None;
    }
    let client = service.anonymous();
    let mut rows = Vec::new();
    let mut add = |request_info: &str, status: u16, answer: Answer| {
        rows.push(Row::new(request_info, &answer.expect(status)));
    };
    let page = client.get("/ui/").await;
    let text = String::from_utf8(page.bytes.clone()).unwrap();
    let script = text.split('"').find(|word| word.starts_with("/ui/assets/")).unwrap();
    let cached = client.with("if-none-match", page.headers["etag"].to_str().unwrap());
    add("GET /ui/", 200, page);
    add("GET /ui/, cached", 304, cached.get("/ui/").await);
    add("GET /ui/users/ada", 200, client.get("/ui/users/ada").await);
    add("GET /ui/icon.svg", 200, client.get("/ui/icon.svg").await);
    for encoding in ["identity", "gzip", "br"] {
        let answer = client.with("accept-encoding", encoding).get(script).await;
        add(&format!("GET /ui/assets/….js, {encoding}"), 200, answer);
    }
    Some(rows)
}

/// Returns the redirects to the web application, which the API answers.
async fn redirects(service: &Service) -> Vec<Row> {
    let client = service.anonymous();
    let mut rows = Vec::new();
    for (path, status) in [("/", 308), ("/ui", 308)] {
        rows.push(Row::new(&format!("GET {path}"), &client.get(path).await.expect(status)));
    }
    rows
}

/// Describes the answers over HTTPS: the headers that all have in addition, and the rows that differ otherwise.
fn https_differences(plain: &[Row], https: &[Row]) -> String {
    assert_eq!(plain.len(), https.len());
    let mut text = format!("Every response also has `{HTTPS}`.");
    let mut other_answers = Vec::new();
    for (plain, https) in plain.iter().zip(https) {
        let mut expected = plain.headers.clone();
        expected.insert(HTTPS.to_owned());
        assert_eq!((&plain.request_info, &plain.outcome), (&https.request_info, &https.outcome));
        assert!(https.headers.contains(HTTPS), "{https:?}");
        if https.headers != expected {
            other_answers.push(format!(
                "| `{}` | {} |\n",
                https.request_info,
                cell(https.headers.difference(&expected))
            ));
        }
    }
    text += &format!(
        " All else is the same, except for:\n\n| request | difference |\n|---|---|\n{}",
        other_answers.concat()
    );
    text
}

/// All answers of one service.
struct AllAnswers {
    operations: Vec<Operation>,
    successes: Vec<Row>,
    refusals: Vec<Row>,
    other_answers: Vec<Row>,
    pages: Option<Vec<Row>>,
}

impl AllAnswers {
    async fn new(environment: &[(&str, &str)]) -> Self {
        let (fixture, without_clickhouse) =
            (Fixture::make(environment).await, Service::start_with(environment));
        // Invalid requests go first: a successful one may remove the resources that they need.
        let operations = operations(&fixture.service).await;
        let refusals = refusals(&fixture, &operations).await;
        let mut other_answers = other_answers(&fixture, &without_clickhouse).await;
        other_answers.extend(redirects(&without_clickhouse).await);
        Self {
            operations,
            refusals,
            other_answers,
            pages: pages(&without_clickhouse).await,
            successes: successes(&fixture).await,
        }
    }

    fn all(&self) -> Vec<Row> {
        let api = [&self.successes, &self.refusals, &self.other_answers].into_iter();
        api.chain(&self.pages).flatten().cloned().collect()
    }
}

#[tokio::test]
async fn the_committed_headers_are_current() {
    let public = [("TRACEWARDEN_PUBLIC_URL", "https://traces.example.com")];
    let (plain, https) = tokio::join!(AllAnswers::new(&[]), AllAnswers::new(&public));
    let of_the_api = [&*plain.successes, &plain.refusals, &plain.other_answers].concat();
    let everywhere = common(&of_the_api);
    for needed in
        ["content-security-policy: default-src 'none';", "cache-control: no-store", "x-request-id: …"]
    {
        assert!(everywhere.iter().any(|header| header.starts_with(needed)), "{needed}: {everywhere:?}");
    }
    // No answer allows another site to read it.
    for row in plain.all() {
        assert!(!row.headers.iter().any(|header| header.starts_with("access-control-")), "{row:?}");
    }
    let api = format!(
        "{}\n### Over https\n\n{}\n### Successes\n\n{}\n### Rejections\n\n{}\n### Other formats, and paths \
         that are not operations\n\n{}",
        list(&everywhere),
        https_differences(&plain.all(), &https.all()),
        row_per_answer(&plain.successes, &everywhere),
        rows_by_headers(&plain.refusals, &everywhere, &plain.operations),
        row_per_answer(&plain.other_answers, &everywhere),
    );
    let pages = plain
        .pages
        .map(|rows| format!("{}\n{}", list(&common(&rows)), row_per_answer(&rows, &common(&rows))));
    committed("internals/headers.md", |text| {
        let text = replace_section(text, "of the API", &api);
        // Without a build of the web application, its part of the document is not checked.
        pages.map_or(text.clone(), |pages| replace_section(&text, "of pages", &pages))
    });
}

/// Returns the text with the part between two markers replaced.
fn replace_section(text: &str, what: &str, part: &str) -> String {
    let (begin, end) =
        (format!("<!-- generated: {what} -->\n\n"), format!("\n<!-- end of generated part: {what} -->"));
    let (head, rest) = text.split_once(&begin).unwrap();
    let (_, tail) = rest.split_once(&end).unwrap();
    format!("{head}{begin}{part}{end}{tail}")
}

//! An agent that knows the tools, but no names in the system, finds the cause of an incident with few calls and small
//! answers.

use serde_json::{Value, json};
use tracewarden_testkit::incidents::{Cause, Incident};

use crate::mcp::answers::{list, suggested, text};
use crate::mcp::rpc::{call, key};
use crate::mcp::token_count::tokens;
use crate::support::store::{Store, binding};
use crate::support::{Client, Service};

const INCIDENTS: u64 = 20;
/// Maximum number of calls to find the cause.
const CALLS: usize = 5;
/// Maximum number of tokens of all answers together.
const TOKENS: usize = 4_000;

/// Follows the suggestions of earlier answers in the order that the tool descriptions recommend, and requests small
/// answers.
struct Agent {
    client: Client,
    /// For each call, the number of tokens of the answer and of its text.
    tokens_per_call: Vec<(usize, usize)>,
}

impl Agent {
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = call(&self.client, tool, arguments).await.expect();
        self.tokens_per_call.push((tokens(&answer.result), tokens(&answer.text)));
        answer.body
    }

    /// Makes the first call to a tool that an answer suggests, with additional arguments.
    async fn follow(&mut self, answer: &Value, tool: &str, own: Value) -> Value {
        let next = suggested(answer, tool).next();
        let mut arguments = next.unwrap_or_else(|| panic!("{tool} is not suggested: {answer}")).clone();
        arguments.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        self.call(tool, arguments).await
    }

    /// Goes from no knowledge to complete spans.
    async fn investigate(&mut self) -> Value {
        let schema = self.call("svc_filter_schema", json!({"max_tokens": 1_000})).await;
        let numbers = self.follow(&schema, "svc_trace_stats", json!({"limit": 2, "max_tokens": 1_500})).await;
        let traces =
            self.follow(&numbers, "svc_query_traces", json!({"limit": 1, "max_tokens": 2_000})).await;
        let errors =
            self.follow(&traces, "svc_get_trace", json!({"view": "errors", "max_tokens": 1_800})).await;
        self.follow(&errors, "svc_get_spans", json!({"max_tokens": 1_800})).await
    }
}

/// Whether a string anywhere in a value contains this text.
fn contains_text(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text.contains(wanted),
        Value::Array(list) => list.iter().any(|value| contains_text(value, wanted)),
        Value::Object(members) => members.values().any(|value| contains_text(value, wanted)),
        _ => false,
    }
}

/// Replaces the table's rows by the incident, marks its fields, and grants access to the traces of production.
async fn prepare(store: &Store, admin: &Client, incident: &Incident) {
    store.run("TRUNCATE TABLE otel.otel_traces").await;
    let rows: Vec<String> = incident.rows.iter().map(Value::to_string).collect();
    store.run(&format!("INSERT INTO otel.otel_traces FORMAT JSONEachRow\n{}", rows.join("\n"))).await;
    // Policies must not name fields that no longer exist.
    let policy = |expression: &str| json!({"policies": [{"title": "Production", "expression": expression}]});
    admin.put("/roles/oncall", policy("true")).await;
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    admin
        .with("if-match", &version)
        .put("/schema/fields", json!({"fields": incident.fields}))
        .await
        .expect(200);
    admin.put("/roles/oncall", policy(&incident.policy)).await.expect(200);
}

async fn service(store: &Store) -> (Service, Client, Client) {
    let service = store.service();
    let admin = service.admin().await;
    // The exporter creates this table next to its own.
    store
        .run("CREATE TABLE IF NOT EXISTS otel.otel_traces_trace_id_ts (TraceId String, Start DateTime, End DateTime) ENGINE = MergeTree ORDER BY TraceId")
        .await;
    let mut bound = binding();
    bound["trace_index"] = "otel_traces_trace_id_ts".into();
    bound["display"] = json!({"name": "SpanName", "service": "ServiceName", "duration": "Duration", "status": "StatusCode",
        "kind": "SpanKind"});
    admin.put("/schema/binding", bound).await.expect(200);
    admin
        .put("/roles/oncall", json!({"policies": [{"title": "Nothing", "expression": "false"}]}))
        .await
        .expect(201);
    let ada = service.user(&admin, "ada", &["oncall"]).await;
    let client = key(&ada, json!({})).await;
    (service, admin, client)
}

fn names_cause(answer: &Value, cause: &Cause) -> bool {
    let trace = text(answer, "trace_id");
    list(answer, "spans").iter().any(|span| {
        let id = text(span, "SpanId");
        cause.spans.iter().any(|known| (known.0.as_str(), known.1.as_str()) == (trace, id))
            && contains_text(span, &cause.message)
    })
}

#[tokio::test]
async fn suggested_calls_lead_to_the_cause() {
    let base =
        std::env::var("TRACEWARDEN_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_122);
    println!("base seed {base}");
    let store = Store::start();
    let (_service, admin, client) = service(&store).await;
    let mut most = 0;
    for seed in base..base + INCIDENTS {
        let now = store.ask("SELECT toUnixTimestamp64Nano(now64(9))").await.trim().parse().unwrap();
        let incident = Incident::new(seed, now);
        prepare(&store, &admin, &incident).await;
        let mut agent = Agent { client: client.clone(), tokens_per_call: Vec::new() };
        let answer = agent.investigate().await;
        let (all, texts) =
            agent.tokens_per_call.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let each: Vec<usize> = agent.tokens_per_call.iter().map(|one| one.0).collect();
        let Incident { cause, failed, requests, .. } = &incident;
        println!(
            "seed {seed}: {} calls, {all} tokens {each:?}, of them text {texts}; {failed} of {requests} requests failed for {} in {}: {}",
            each.len(),
            cause.tenant,
            cause.service,
            cause.message
        );
        assert!(names_cause(&answer, cause), "seed {seed}: {} is not in {answer}", cause.message);
        assert!(each.len() <= CALLS, "seed {seed}: {} calls", each.len());
        assert!(all <= TOKENS, "seed {seed}: {all} tokens");
        most = most.max(all);
    }
    println!("at most {most} tokens");
}

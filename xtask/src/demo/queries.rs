//! Queries of the check: each field type with its operators, and windows with many or few traces.

use serde_json::{Value, json};
use tracewarden_sample_data::{OTHER_TENANT, SUPPORTED_TENANTS, Service, Shop, Span, Trace};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

type SpanPredicate = Box<dyn Fn(&Trace, &Span) -> bool>;

/// A condition in the API's format, and as a function on the generated spans.
pub struct Condition {
    pub request_json: Value,
    pub holds: SpanPredicate,
}

/// A query. Its window is half-open, in nanoseconds since 1970.
pub struct SearchQuery {
    pub name: String,
    pub from: u64,
    pub to: u64,
    pub conditions: Vec<Condition>,
    /// Traces per page. Small pages exercise the cursor.
    pub limit: usize,
}

pub fn queries(shop: &Shop, landmarks: &[Trace]) -> Vec<SearchQuery> {
    let (_, now) = shop.window();
    let incident = shop.incident();
    let day = (now - 24 * 60 * MINUTE, now);
    let hour = (now - 60 * MINUTE, now);
    // Long enough to contain traces that are rare at night.
    let hours = (now - 8 * 60 * MINUTE, now);
    let mut queries = vec![
        search_query("everything in the last hour", hour, 100, vec![]),
        search_query(
            "everything in ten minutes of the incident",
            (incident.0 + 10 * MINUTE, incident.0 + 20 * MINUTE),
            7,
            vec![],
        ),
        search_query(
            "answers of 500 and more during the incident",
            incident,
            11,
            vec![number("http.response.status_code", json!({"op": "gte", "value": 500}), |value| {
                value >= 500.0
            })],
        ),
        search_query(
            "failed checkouts that took 3 to 20 seconds",
            incident,
            5,
            vec![of_service("checkout"), error(), duration_between(3 * SECOND, 20 * SECOND)],
        ),
        search_query("exceptions of the day", day, 50, vec![event("exception")]),
        search_query(
            "express orders with gifts in the last hours",
            hours,
            9,
            vec![
                text("app.order.express", json!({"op": "eq", "value": true}), |value| value == "true"),
                text("app.order.categories", json!({"op": "has", "value": "gifts"}), |value| {
                    value.contains("\"gifts\"")
                }),
            ],
        ),
        search_query(
            "two tenants by list",
            day,
            200,
            vec![text("tenant.id", json!({"op": "in", "values": SUPPORTED_TENANTS}), |value| {
                SUPPORTED_TENANTS.contains(&value)
            })],
        ),
        search_query(
            "checkout pages of other tenants",
            hours,
            20,
            vec![
                text("http.route", json!({"op": "prefix", "value": "/check"}), |value| {
                    value.starts_with("/check")
                }),
                text("tenant.id", json!({"op": "ne", "value": OTHER_TENANT}), |value| value != OTHER_TENANT),
            ],
        ),
        search_query(
            "signed in and asked the assistant",
            day,
            30,
            vec![
                text("user.id", json!({"op": "exists"}), |_| true),
                text("gen_ai.operation.name", json!({"op": "eq", "value": "execute_tool"}), |value| {
                    value == "execute_tool"
                }),
            ],
        ),
        search_query(
            "nothing matches",
            day,
            50,
            vec![text("tenant.id", json!({"op": "eq", "value": "no-such-tenant"}), |value| {
                value == "no-such-tenant"
            })],
        ),
    ];
    // Finds each landmark by the name of its root span, in the minute around its start.
    for trace in landmarks {
        let Some(root) = trace.spans.first() else { continue };
        let (name, at) = (root.name.clone().into_owned(), root.start_unix_nanos);
        let request_json = json!({"name": "SpanName", "op": "eq", "value": name});
        let by_name = Condition { request_json, holds: Box::new(move |_, span| span.name == name) };
        let around = (at.saturating_sub(30 * SECOND), at + 30 * SECOND);
        let conditions = vec![by_name, of_service(root.service.name())];
        queries.push(search_query(
            &format!("by filter: {} at {}", root.name, trace.id),
            around,
            3,
            conditions,
        ));
    }
    queries
}

fn search_query(name: &str, (from, to): (u64, u64), limit: usize, conditions: Vec<Condition>) -> SearchQuery {
    SearchQuery { name: name.to_owned(), from, to, conditions, limit }
}

/// A condition on a span attribute, evaluated on the text that the exporter stores.
fn text(key: &'static str, operation: Value, holds: fn(&str) -> bool) -> Condition {
    let mut request_json = json!({"map": "SpanAttributes", "name": key});
    merge(&mut request_json, operation);
    Condition {
        request_json,
        holds: Box::new(move |_, span| span.attribute(key).is_some_and(|value| holds(&value))),
    }
}

fn number(key: &'static str, operation: Value, holds: fn(f64) -> bool) -> Condition {
    let mut request_json = json!({"map": "SpanAttributes", "name": key});
    merge(&mut request_json, operation);
    let holds =
        move |span: &Span| span.attribute(key).and_then(|value| value.parse().ok()).is_some_and(holds);
    Condition { request_json, holds: Box::new(move |_, span| holds(span)) }
}

fn of_service(name: &'static str) -> Condition {
    let request_json = json!({"name": "ServiceName", "op": "eq", "value": name});
    let service = Service::ALL.into_iter().find(|service| service.name() == name);
    Condition { request_json, holds: Box::new(move |_, span| Some(span.service) == service) }
}

fn error() -> Condition {
    let request_json = json!({"name": "StatusCode", "op": "in", "values": ["Error"]});
    Condition { request_json, holds: Box::new(|_, span| span.status.as_exported() == "Error") }
}

fn duration_between(from: u64, to: u64) -> Condition {
    let request_json = json!({"name": "Duration", "op": "between", "values": [from, to]});
    let holds = move |span: &Span| (from..=to).contains(&(span.end_unix_nanos - span.start_unix_nanos));
    Condition { request_json, holds: Box::new(move |_, span| holds(span)) }
}

fn event(name: &'static str) -> Condition {
    let request_json = json!({"name": "Events.Name", "op": "has_any", "values": [name, "no such event"]});
    Condition {
        request_json,
        holds: Box::new(move |_, span| span.events.iter().any(|event| event.name == name)),
    }
}

fn merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}

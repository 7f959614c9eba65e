//! The list of layouts.

mod agents;
mod exporter;
mod jaeger;
mod langfuse;
mod observability;
mod rejected;
mod signoz;

use serde_json::{Value as Json, json};

use super::questions::{Field, Marks};
use super::row::{hex16, hex32};
use super::{Bound, Fixture, Notation, Outcome, Row, Shape, Span, Value};

/// Half an hour after the first trace, in seconds since the Unix epoch.
const LATER: i64 = super::BASE / super::SECOND + 1_800;

/// Returns all layouts, by number.
pub fn all() -> Vec<Fixture> {
    let mut all: Vec<Fixture> = [
        exporter::all(),
        signoz::all(),
        jaeger::all(),
        langfuse::all(),
        observability::all(),
        agents::all(),
        rejected::all(),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.sort_by_key(|fixture| fixture.number);
    all
}

/// Columns of a binding.
struct Columns {
    database: &'static str,
    table: &'static str,
    trace_id: &'static str,
    span_id: &'static str,
    parent: &'static str,
    timestamp: &'static str,
}

impl Columns {
    fn binding(&self, display: Json) -> Json {
        json!({
            "database": self.database, "table": self.table, "trace_id": self.trace_id, "span_id": self.span_id,
            "parent_span_id": self.parent, "timestamp": self.timestamp, "display": display,
        })
    }

    /// A layout with text ids, times and durations in nanoseconds, and nothing to choose.
    fn bound(
        &self,
        display: Json,
        insert: &'static str,
        rows: fn(&Row) -> Vec<String>,
        marks: Marks,
    ) -> Bound {
        Bound {
            shape: Shape::NANOSECONDS,
            insert,
            rows,
            trace_id: hex32,
            span_id: hex16,
            notation: Notation::Hexadecimal,
            proposal: self.binding(display),
            chosen: json!({}),
            marks,
            rejected_marks: &[],
            also_proposed: &[],
            pairs: &[],
            index: &[],
            open_ends: false,
        }
    }
}

impl Bound {
    /// Adds members to the proposal.
    fn proposing(mut self, members: Json) -> Self {
        if let (Some(proposal), Json::Object(members)) = (self.proposal.as_object_mut(), members) {
            proposal.extend(members);
        }
        self
    }
}

fn bound(
    number: u8,
    name: &'static str,
    [product, version]: [&'static str; 2],
    create: &'static str,
    bound: Bound,
) -> Fixture {
    let outcome = Outcome::Bound(Box::new(bound));
    Fixture { number, name, product, version, create, limits: &[], unsuitable: &[], outcome }
}

fn tenant(span: &Span) -> Option<Value> {
    span.attribute("tenant.id")
}

/// The tenant in a column that is never NULL.
fn tenant_or_empty(span: &Span) -> Option<Value> {
    Some(Value::Text(span.text("tenant.id")))
}

fn status_code(span: &Span) -> Option<Value> {
    span.attribute("http.response.status_code")
}

fn cache_hit(span: &Span) -> Option<Value> {
    span.attribute("cache.hit")
}

fn service(span: &Span) -> Option<Value> {
    Some(Value::from(span.service))
}

fn operation(span: &Span) -> Option<Value> {
    Some(Value::from(span.name))
}

/// The duration in nanoseconds.
fn nanos(span: &Span) -> Option<Value> {
    Some(Value::Integer(span.duration))
}

/// The duration in nanoseconds in an unsigned column: a negative one is a very large number.
fn wrapped_nanos(span: &Span) -> Option<Value> {
    #[allow(clippy::cast_precision_loss, reason = "compared with numbers far from it")]
    Some(Value::Float(super::row::wrapped(span.duration) as f64))
}

/// The start in seconds.
fn seconds(span: &Span) -> Option<Value> {
    #[allow(clippy::cast_precision_loss, reason = "compared with a number far from it")]
    Some(Value::Float(span.start as f64 / 1e9))
}

/// Text of a status, with these values for an error and no error.
fn status(span: &Span, error: &'static str, ok: &'static str) -> Option<Value> {
    Some(Value::from(if span.error { error } else { ok }))
}

/// A parent's id, or an empty text.
fn parent_or_empty(span: &Span) -> String {
    span.parent.map(hex16).unwrap_or_default()
}

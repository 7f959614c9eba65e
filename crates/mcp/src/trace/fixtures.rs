//! Spans for tests.

use tracewarden_model::Timestamp;
use tracewarden_service::SpanSummary;

/// Returns a span of service `s`, named by its id.
pub(crate) fn span(id: &str, parent: String, start: i64, duration: i64) -> SpanSummary {
    SpanSummary {
        span_id: id.to_owned(),
        parent_span_id: parent,
        start: Timestamp::from_nanos(start),
        duration_nanos: Some(duration),
        duration_invalid: false,
        name: Some(id.to_owned()),
        service: Some("s".to_owned()),
        kind: None,
        error: false,
    }
}

/// Parses spans from `id<parent@start+duration!`. All parts except the id are optional; `!` marks a failed span. By
/// default the start is the span's position, and the duration 10 nanoseconds.
pub(crate) fn spans(text: &str) -> Vec<SpanSummary> {
    let mut spans: Vec<SpanSummary> = text
        .split_whitespace()
        .enumerate()
        .map(|(index, text)| {
            let (text, error) = text.strip_suffix('!').map_or((text, false), |text| (text, true));
            let (text, duration) = text.split_once('+').unwrap_or((text, "10"));
            let index = index.to_string();
            let (text, start) = text.split_once('@').unwrap_or((text, &index));
            let (id, parent) = text.split_once('<').unwrap_or((text, ""));
            let made = span(id, parent.to_owned(), start.parse().unwrap(), duration.parse().unwrap());
            SpanSummary { error, ..made }
        })
        .collect();
    spans.sort_by_key(|span| span.start);
    spans
}

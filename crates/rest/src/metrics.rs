//! Metrics of requests and responses. Labels are declared routes, known methods and statuses, never text from the client. So a
//! client cannot exhaust the memory of the metrics system, and metrics do not reveal the requests of users.

use std::time::Instant;

use axum::body::Body;
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Histogram buckets in seconds, from the lookup of a session to the longest query.
const SECONDS: [f64; 14] =
    [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0];

/// Route label of requests that match no route.
const UNMATCHED: &str = "unmatched";

/// Metrics of requests and responses. Cheap to clone; clones share the counts.
#[derive(Debug, Clone)]
pub struct Metrics {
    responses: Family<ResponseLabels, Counter>,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    bytes: Counter,
    cross_site: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    method: &'static str,
    route: String,
    status: String,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            responses: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            in_flight: Gauge::default(),
            bytes: Counter::default(),
            cross_site: Counter::default(),
        }
    }
}

impl Metrics {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let Self { responses, seconds, in_flight, bytes, cross_site } = self;
        registry.register(
            "tracewarden_http_requests",
            "Completed requests, by method, route and status",
            responses.clone(),
        );
        registry.register(
            "tracewarden_http_request_duration_seconds",
            "Time from the head of a request to the end of its answer",
            seconds.clone(),
        );
        registry.register("tracewarden_http_requests_in_flight", "Requests in progress", in_flight.clone());
        registry.register(
            "tracewarden_http_response_body_bytes",
            "Bytes of answers' bodies, as sent",
            bytes.clone(),
        );
        registry.register(
            "tracewarden_http_cross_site_refusals",
            "State changes refused because a browser sent them for another site",
            cross_site.clone(),
        );
    }

    /// Starts measuring a request.
    pub(crate) fn begin(&self, method: &Method, route: Option<&str>) -> RequestMeasurement {
        self.in_flight.inc();
        let route = route.unwrap_or(UNMATCHED).to_owned();
        let route = RouteLabels { method: method_label(method), route };
        RequestMeasurement { metrics: self.clone(), route, started: Instant::now(), status: None }
    }

    pub(crate) fn count_cross_site_refusal(&self) {
        self.cross_site.inc();
    }
}

/// Returns the label of a method. The client controls the method, so only standard methods have a label of their own.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// A request in progress. It is counted when it is dropped: at the end of the response or when the client disconnects.
pub(crate) struct RequestMeasurement {
    metrics: Metrics,
    route: RouteLabels,
    started: Instant,
    status: Option<StatusCode>,
}

impl RequestMeasurement {
    /// Wraps the body to count its bytes as they are sent.
    pub(crate) fn body(mut self, status: StatusCode, body: Body) -> Body {
        self.status = Some(status);
        Body::new(body.inspect_frame(move |frame| {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            self.metrics.bytes.inc_by(bytes as u64);
        }))
    }
}

impl Drop for RequestMeasurement {
    fn drop(&mut self) {
        let Metrics { responses, seconds, in_flight, .. } = &self.metrics;
        in_flight.dec();
        seconds.get_or_create(&self.route).observe(self.started.elapsed().as_secs_f64());
        // There is no status if the client disconnected before the response began.
        let status = self.status.map_or_else(|| "none".to_owned(), |status| status.as_u16().to_string());
        let RouteLabels { method, route } = self.route.clone();
        responses.get_or_create(&ResponseLabels { method, route, status }).inc();
    }
}

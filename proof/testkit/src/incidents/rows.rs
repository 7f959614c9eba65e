//! Generates requests as rows of the exporter's table.

use rand::{RngExt, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

use super::Fault;
use super::system::System;

/// In nanoseconds.
const MICROSECOND: u64 = 1_000;

/// Writes requests one after the other.
pub(super) struct Writer<'a> {
    random: ChaCha8Rng,
    system: &'a System,
    pub rows: Vec<Value>,
    pub requests: usize,
    /// Trace and span id of each span that is the origin of a failure.
    pub failed: Vec<(String, String)>,
}

/// Properties that all spans of a request share.
struct Request<'a> {
    trace: String,
    tenant: &'a str,
    environment: &'static str,
    fault: Option<&'a Fault>,
}

/// How a span failed.
enum Failure<'a> {
    /// Because of another span, with the status message that the service sets.
    Propagated(&'static str),
    Origin(&'a Fault),
}

/// One span; times in nanoseconds.
struct Span<'a> {
    id: String,
    parent: &'a str,
    service: usize,
    name: String,
    kind: &'static str,
    from: u64,
    to: u64,
    attributes: Map<String, Value>,
    failure: Option<Failure<'a>>,
}

impl<'a> Writer<'a> {
    pub fn new(random: ChaCha8Rng, system: &'a System) -> Self {
        Self { random, system, rows: Vec::new(), requests: 0, failed: Vec::new() }
    }

    /// Writes an external request. With a fault, the request fails.
    pub fn request(
        &mut self,
        entry: usize,
        tenant: &str,
        environment: &'static str,
        at: u64,
        fault: Option<&Fault>,
    ) {
        let trace = format!("{:032x}", self.random.random::<u128>() | 1);
        self.requests += 1;
        self.operation(&Request { trace, tenant, environment, fault }, entry, "", at);
    }

    fn id(&mut self) -> String {
        format!("{:016x}", self.random.random::<u64>() | 1)
    }

    /// Returns a duration around the median, occasionally much longer.
    fn duration(&mut self, median_micros: u64) -> u64 {
        let tail = if self.random.random_bool(0.03) { 12 } else { 1 };
        self.random.random_range(median_micros / 2..median_micros * 2) * tail * MICROSECOND
    }

    /// Writes the spans of a service's operation. Returns the end, and whether the operation failed.
    fn operation(&mut self, request: &Request<'_>, operation: usize, parent: &str, from: u64) -> (u64, bool) {
        let system = self.system;
        let Some(own) = system.operations.get(operation) else { return (from, false) };
        let faulty = request.fault.filter(|fault| fault.operation == operation);
        let id = self.id();
        let mut time = from + self.duration(200);
        let mut failure = None;
        if own.computes {
            let end = time + self.duration(900);
            let (span, name) = (self.id(), format!("{} {}", own.verb.to_lowercase(), own.thing));
            self.span(
                request,
                Span {
                    id: span,
                    parent: &id,
                    service: own.service,
                    name,
                    kind: "Internal",
                    from: time,
                    to: end,
                    attributes: Map::new(),
                    failure: None,
                },
            );
            time = end;
        }
        if own.statement {
            let fault = faulty.filter(|fault| fault.in_statement);
            time = self.statement(request, operation, &id, time, fault);
            failure = fault.map(|_| Failure::Propagated("could not read from the database"));
        }
        if let Some(fault) = faulty.filter(|fault| !fault.in_statement) {
            failure = Some(Failure::Origin(fault));
        }
        for call in &own.calls {
            if failure.is_some() {
                break;
            }
            let (end, failed) = self.call(request, own.service, *call, &id, time);
            time = end;
            failure = failed.then_some(Failure::Propagated("a dependency failed"));
        }
        let end = time + self.duration(100);
        let failed = failure.is_some();
        let mut attributes = self.server(own, parent.is_empty(), failed);
        attributes.insert(system.tenant_key.clone(), request.tenant.into());
        let (service, name) = (own.service, own.name.clone());
        self.span(
            request,
            Span { id, parent, service, name, kind: "Server", from, to: end, attributes, failure },
        );
        (end, failed)
    }

    /// Writes a call from one service to another, with retries if it fails.
    fn call(
        &mut self,
        request: &Request<'_>,
        service: usize,
        operation: usize,
        parent: &str,
        from: u64,
    ) -> (u64, bool) {
        let system = self.system;
        let Some(callee) = system.operations.get(operation) else { return (from, false) };
        let attempts = request.fault.map_or(1, |fault| fault.attempts);
        let mut time = from;
        for attempt in 1..=attempts {
            let id = self.id();
            let begin = time + self.duration(300);
            let (end, failed) = self.operation(request, operation, &id, begin);
            let end = end + self.duration(300);
            let name =
                if system.by_rpc { callee.name.clone() } else { callee.name.split(' ').take(1).collect() };
            let address = system.services.get(callee.service).cloned().unwrap_or_default();
            let attributes = object(
                json!({"server.address": address, "server.port": "8443", "network.peer.port": "8443"}),
            );
            self.span(
                request,
                Span {
                    id,
                    parent,
                    service,
                    name,
                    kind: "Client",
                    from: time,
                    to: end,
                    attributes,
                    failure: failed.then_some(Failure::Propagated("the call failed")),
                },
            );
            time = end;
            if !failed || attempt == attempts {
                return (time, failed);
            }
        }
        (time, false)
    }

    fn statement(
        &mut self,
        request: &Request<'_>,
        operation: usize,
        parent: &str,
        from: u64,
        fault: Option<&Fault>,
    ) -> u64 {
        let Some(own) = self.system.operations.get(operation) else { return from };
        let end = from + self.duration(2_500);
        let text = format!(
            "SELECT id, state, revision, updated_at FROM {}s WHERE tenant = $1 AND state = ANY($2) ORDER BY updated_at DESC LIMIT 50",
            own.thing
        );
        let attributes = object(json!({"db.system.name": "postgresql", "db.namespace": own.thing,
            "db.collection.name": format!("{}s", own.thing), "db.operation.name": "SELECT", "db.query.text": text,
            "server.address": format!("{}-db.internal", own.thing), "server.port": "5432"}));
        let id = self.id();
        self.span(
            request,
            Span {
                id,
                parent,
                service: own.service,
                name: format!("SELECT {}s", own.thing),
                kind: "Client",
                from,
                to: end,
                attributes,
                failure: fault.map(Failure::Origin),
            },
        );
        end
    }

    fn server(
        &mut self,
        own: &super::system::Operation,
        outermost: bool,
        failed: bool,
    ) -> Map<String, Value> {
        if self.system.by_rpc && !outermost {
            return object(json!({"rpc.system": "grpc", "rpc.method": own.verb, "rpc.service": own.thing,
                "rpc.grpc.status_code": if failed { "13" } else { "0" }}));
        }
        let (method, route) = own.name.split_once(' ').unwrap_or(("GET", own.name.as_str()));
        let status = if failed {
            "500"
        } else {
            *["200", "200", "201", "204", "404"].choose(&mut self.random).unwrap_or(&"200")
        };
        object(json!({"http.request.method": method, "http.route": route, "url.path": route,
            "http.response.status_code": status, "url.scheme": "https", "network.protocol.version": "2",
            "user_agent.original": "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0"}))
    }

    fn span(&mut self, request: &Request<'_>, span: Span<'_>) {
        let service = self.system.services.get(span.service).cloned().unwrap_or_default();
        let pod = self.random.random_range(0..4);
        let resource = json!({"service.name": service, "service.version": format!("{}.{}.0", 1 + span.service % 5, span.service),
            self.system.environment_key.as_str(): request.environment, "cloud.region": "eu-central-1",
            "k8s.namespace.name": "apps", "k8s.pod.name": format!("{service}-7d9f8b6c5-{pod}"),
            "telemetry.sdk.language": "java", "telemetry.sdk.name": "opentelemetry", "telemetry.sdk.version": "1.44.1"});
        let mut row = object(json!({
            "Timestamp": format!("{}.{:09}", span.from / 1_000_000_000, span.from % 1_000_000_000),
            "TraceId": request.trace,
            "SpanId": span.id,
            "ParentSpanId": span.parent,
            "SpanName": span.name,
            "SpanKind": span.kind,
            "ServiceName": service,
            "ResourceAttributes": resource,
            "SpanAttributes": span.attributes,
            "Duration": span.to - span.from,
            "StatusCode": if span.failure.is_some() { "Error" } else { "Unset" },
        }));
        match span.failure {
            None => {}
            Some(Failure::Propagated(message)) => {
                row.insert("StatusMessage".to_owned(), message.into());
            }
            Some(Failure::Origin(fault)) => {
                self.failed.push((request.trace.clone(), span.id));
                fail(&mut row, fault, span.to);
            }
        }
        self.rows.push(row.into());
    }
}

fn fail(row: &mut Map<String, Value>, fault: &Fault, at: u64) {
    let (by_status, by_event) = fault.reported_by;
    if by_status {
        row.insert("StatusMessage".to_owned(), fault.message.as_str().into());
    }
    if by_event {
        let frame = |line| format!("\tat internal.handler.Step{line}(handler.src:{})", line * 17);
        let frames: Vec<String> = (0..25).map(frame).collect();
        let stack = format!("{}: {}\n{}", fault.kind, fault.message, frames.join("\n"));
        let time = format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000);
        let attributes = json!({"exception.type": fault.kind, "exception.message": fault.message,
            "exception.stacktrace": stack});
        row.insert("Events.Timestamp".to_owned(), json!([time]));
        row.insert("Events.Name".to_owned(), json!(["exception"]));
        row.insert("Events.Attributes".to_owned(), json!([attributes]));
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

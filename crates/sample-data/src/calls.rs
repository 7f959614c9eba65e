//! Calls between services and to their back ends, with the attributes of the semantic conventions.

use super::attributes::Value;
use super::builder::{Builder, Exception, Node};
use super::rng::MILLISECOND;
use super::services::Service;
use super::span::Kind;
use super::visitors::Visitor;

/// A request that the shop receives.
pub(super) struct Request {
    pub method: &'static str,
    pub route: &'static str,
    pub path: String,
}

/// A statement on a database.
pub(super) struct Statement {
    pub system: &'static str,
    pub namespace: &'static str,
    pub operation: &'static str,
    pub collection: &'static str,
    pub text: &'static str,
    pub median_micros: u64,
}

/// The two ends of a remote procedure call.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub client: Node,
    pub server: Node,
}

impl Builder<'_> {
    /// Creates the server span of an external request, with the attributes of the visitor.
    pub fn visit(&mut self, service: Service, request: Request, visitor: &Visitor, at: u64) -> Node {
        let node =
            self.begin(None, service, format!("{} {}", request.method, request.route), Kind::Server, at);
        self.set(node, "http.request.method", request.method);
        self.set(node, "http.route", request.route);
        self.set(node, "url.path", request.path);
        self.set(node, "url.scheme", "https");
        self.set(node, "server.address", "shop.example.com");
        self.set(node, "server.port", 443);
        self.set(node, "network.protocol.version", "2");
        self.set(node, "client.address", visitor.address.clone());
        self.set(node, "user_agent.original", visitor.browser);
        self.set(node, "app.customer.returning", visitor.user.is_some());
        self.identify(node, visitor);
        node
    }

    /// Sets the attributes of the visitor. The tenant is known on every span that handles a tenant's request, the user only when
    /// signed in.
    pub fn identify(&mut self, node: Node, visitor: &Visitor) {
        self.set(node, "tenant.id", visitor.tenant.clone());
        if let Some(user) = &visitor.user {
            self.set(node, "user.id", user.clone());
        }
    }

    /// Ends a request. By the conventions, a server span has an error from status 500 on, and a client span from 400 on.
    pub fn respond(&mut self, node: Node, status: i64, at: u64) {
        self.set(node, "http.response.status_code", status);
        let error = match status {
            500 => Some("500"),
            502 => Some("502"),
            503 => Some("503"),
            504 => Some("504"),
            _ => None,
        };
        if let Some(error) = error {
            self.fail(node, error, "");
        }
        self.end(node, at);
    }

    /// Begins a gRPC call between two services. Returns it with the time at which the server begins.
    pub fn call(
        &mut self,
        parent: Node,
        from: Service,
        to: Service,
        method: &'static str,
        at: u64,
    ) -> (Call, u64) {
        let client = self.begin(Some(parent), from, method, Kind::Client, at);
        let network = self.rng.latency(220);
        let server = self.begin(Some(client), to, method, Kind::Server, at + network);
        for node in [client, server] {
            self.set(node, "rpc.system.name", "grpc");
            self.set(node, "rpc.method", method);
            self.set(node, "server.address", to.name());
            self.set(node, "server.port", 9090);
        }
        (Call { client, server }, at + network)
    }

    /// Ends a call whose server ends at `at`. Returns the time at which the client receives the response.
    pub fn answer(&mut self, call: Call, status: &'static str, at: u64) -> u64 {
        let at = at + self.gap();
        let arrived = at + self.rng.latency(200);
        for (node, end) in [(call.server, at), (call.client, arrived)] {
            self.set(node, "rpc.response.status_code", status);
            self.end(node, end);
        }
        match status {
            "OK" => {}
            // Client errors are errors of the client span only.
            "INVALID_ARGUMENT" | "NOT_FOUND" | "FAILED_PRECONDITION" | "RESOURCE_EXHAUSTED" => {
                self.fail(call.client, status, "");
            }
            _ => {
                self.fail(call.client, status, "");
                self.fail(call.server, status, "");
            }
        }
        arrived
    }

    /// Adds one statement and returns its end.
    pub fn query(&mut self, parent: Node, service: Service, statement: &Statement, at: u64) -> u64 {
        let at = at + self.gap();
        let node = self.statement(parent, service, statement, at);
        let end = at + self.rng.latency(statement.median_micros);
        self.end(node, end);
        end
    }

    fn statement(&mut self, parent: Node, service: Service, statement: &Statement, at: u64) -> Node {
        let summary = format!("{} {}", statement.operation, statement.collection);
        let node = self.begin(Some(parent), service, summary.clone(), Kind::Client, at);
        self.set(node, "db.system.name", statement.system);
        self.set(node, "db.namespace", statement.namespace);
        self.set(node, "db.operation.name", statement.operation);
        self.set(node, "db.collection.name", statement.collection);
        self.set(node, "db.query.summary", summary);
        self.set(node, "db.query.text", statement.text);
        self.set(node, "server.address", format!("{}.db.internal", statement.namespace));
        node
    }

    /// Adds one command to a cache and returns its end.
    pub fn cache(
        &mut self,
        parent: Node,
        service: Service,
        command: &'static str,
        hit: bool,
        at: u64,
    ) -> u64 {
        let at = at + self.gap();
        let node = self.begin(Some(parent), service, command, Kind::Client, at);
        self.set(node, "db.system.name", "redis");
        self.set(node, "db.operation.name", command);
        self.set(node, "server.address", "cache.internal");
        if command == "GET" || command == "HGETALL" {
            self.set(node, "app.cache.hit", hit);
        }
        let end = at + self.rng.latency(350);
        self.end(node, end);
        end
    }

    /// Begins a request to an external service. The caller ends it with [`Builder::respond`] or [`Builder::time_out`].
    pub fn request(
        &mut self,
        parent: Node,
        service: Service,
        method: &'static str,
        host: &'static str,
        path: &str,
        at: u64,
    ) -> Node {
        let node = self.begin(Some(parent), service, method, Kind::Client, at);
        self.set(node, "http.request.method", method);
        self.set(node, "server.address", host);
        self.set(node, "server.port", 443);
        self.set(node, "url.full", format!("https://{host}{path}"));
        node
    }

    pub fn time_out(&mut self, node: Node, exception: &Exception, at: u64) {
        self.exception(node, at, exception);
        self.fail(node, "timeout", exception.message);
        self.end(node, at);
    }

    /// Sends a message. Returns the producer's span and its end.
    pub fn publish(&mut self, parent: Node, service: Service, topic: &'static str, at: u64) -> (Node, u64) {
        let node = self.begin(Some(parent), service, format!("send {topic}"), Kind::Producer, at);
        self.messaging(node, topic, "send", "send");
        let end = at + self.rng.latency(1_800);
        self.end(node, end);
        (node, end)
    }

    pub fn messaging(
        &mut self,
        node: Node,
        topic: &'static str,
        operation: &'static str,
        kind: &'static str,
    ) {
        self.set(node, "messaging.system", "kafka");
        self.set(node, "messaging.destination.name", topic);
        self.set(node, "messaging.operation.name", operation);
        self.set(node, "messaging.operation.type", kind);
        let partition = self.rng.between(0, 12);
        self.set(node, "messaging.destination.partition.id", partition.to_string());
    }

    /// Adds a unit of work inside a service and returns its end.
    pub fn work(
        &mut self,
        parent: Node,
        service: Service,
        name: &'static str,
        median_micros: u64,
        at: u64,
    ) -> u64 {
        let at = at + self.gap();
        let node = self.begin(Some(parent), service, name, Kind::Internal, at);
        let end = at + self.rng.latency(median_micros);
        self.end(node, end);
        end
    }

    /// Returns the time between two spans of a service.
    fn gap(&mut self) -> u64 {
        self.rng.between(MILLISECOND / 60, MILLISECOND / 6)
    }

    /// Returns the time after a short pause between two steps.
    pub fn pause(&mut self, at: u64) -> u64 {
        at + self.rng.between(MILLISECOND / 20, MILLISECOND)
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::Integer(i64::from(value))
    }
}

//! Builds a trace span by span.

use std::borrow::Cow;

use super::attributes::{Attributes, Value};
use super::rng::SampleRng;
use super::services::{Environment, Service};
use super::span::{Event, Kind, Link, Span, SpanId, Status, Trace, TraceId};

/// A span under construction.
#[derive(Clone, Copy)]
pub(super) struct Node(usize);

pub(super) struct Builder<'a> {
    pub rng: &'a mut SampleRng,
    trace: Trace,
}

impl<'a> Builder<'a> {
    pub fn new(rng: &'a mut SampleRng, environment: Environment) -> Self {
        let id = rng.trace_id();
        Self { rng, trace: Trace { id, environment, spans: Vec::with_capacity(24) } }
    }

    pub fn with_id(rng: &'a mut SampleRng, environment: Environment, id: TraceId) -> Self {
        Self { rng, trace: Trace { id, environment, spans: Vec::with_capacity(24) } }
    }

    pub fn finish(self) -> Trace {
        self.trace
    }

    pub fn trace_id(&self) -> TraceId {
        self.trace.id
    }

    pub fn len(&self) -> usize {
        self.trace.spans.len()
    }

    /// Begins a span. Its end is its start until [`Builder::end`] sets another.
    pub fn begin(
        &mut self,
        parent: Option<Node>,
        service: Service,
        name: impl Into<Cow<'static, str>>,
        kind: Kind,
        at: u64,
    ) -> Node {
        let id = self.rng.span_id();
        // Spans of one service within a trace come from one instance, as with sticky connections.
        let known =
            self.trace.spans.iter().rev().find(|span| span.service == service).map(|span| span.instance);
        let instance = known.unwrap_or_else(|| self.rng.between(0, u64::from(service.instances())) as u8);
        let parent = parent.and_then(|node| self.trace.spans.get(node.0)).map(|span| span.id);
        self.trace.spans.push(Span {
            id,
            parent,
            service,
            instance,
            name: name.into(),
            kind,
            start_unix_nanos: at,
            end_unix_nanos: at,
            status: Status::Unset,
            attributes: Vec::with_capacity(8),
            events: Vec::new(),
            links: Vec::new(),
        });
        Node(self.trace.spans.len() - 1)
    }

    fn change(&mut self, node: Node, change: impl FnOnce(&mut Span)) {
        if let Some(span) = self.trace.spans.get_mut(node.0) {
            change(span);
        }
    }

    pub fn span_id(&self, node: Node) -> SpanId {
        self.trace.spans.get(node.0).map_or(SpanId([0; 8]), |span| span.id)
    }

    pub fn set(&mut self, node: Node, key: &'static str, value: impl Into<Value>) {
        let value = value.into();
        self.change(node, |span| match span.attributes.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = value,
            None => span.attributes.push((key, value)),
        });
    }

    pub fn end(&mut self, node: Node, at: u64) {
        self.change(node, |span| span.end_unix_nanos = at.max(span.start_unix_nanos));
    }

    pub fn succeed(&mut self, node: Node) {
        self.change(node, |span| span.status = Status::Ok);
    }

    pub fn fail(&mut self, node: Node, error_type: &'static str, message: impl Into<Cow<'static, str>>) {
        self.set(node, "error.type", error_type);
        self.change(node, |span| span.status = Status::Error(message.into()));
    }

    pub fn event(&mut self, node: Node, at: u64, name: &'static str, attributes: Attributes) {
        self.change(node, |span| span.events.push(Event { time_unix_nanos: at, name, attributes }));
    }

    pub fn link(&mut self, node: Node, trace_id: TraceId, span_id: SpanId) {
        self.change(node, |span| span.links.push(Link { trace_id, span_id, attributes: Vec::new() }));
    }

    pub fn exception(&mut self, node: Node, at: u64, exception: &Exception) {
        let stack: Vec<String> = exception.frames.iter().map(|frame| format!("\tat {frame}")).collect();
        let stack = format!("{}: {}\n{}", exception.kind, exception.message, stack.join("\n"));
        let attributes = vec![
            ("exception.type", Value::from(exception.kind)),
            ("exception.message", exception.message.into()),
            ("exception.stacktrace", stack.into()),
        ];
        self.event(node, at, "exception", attributes);
    }
}

/// Attributes of the event `exception`.
pub(super) struct Exception {
    pub kind: &'static str,
    pub message: &'static str,
    pub frames: &'static [&'static str],
}

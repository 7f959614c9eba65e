//! Requests in protobuf. The lists of resources, scopes and spans are split first, and each span is decoded separately:
//! a span that cannot be decoded does not affect the others.

use bytes::Bytes;
use prost::{DecodeError, Message};

use super::messages::{Batch, RequestPosition, Resource, ResourceSpans, Scope, ScopeSpans, Span};

#[derive(Clone, PartialEq, Message)]
struct RequestFrame {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    resource_spans: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceFrame {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    resource: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    scope_spans: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeFrame {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    scope: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    spans: Vec<Bytes>,
}

/// Decodes an `ExportTraceServiceRequest`. Error: the list of resources cannot be split.
pub fn read(body: Bytes) -> Result<Batch, DecodeError> {
    let mut batch = Batch::default();
    for (resource, bytes) in RequestFrame::decode(body)?.resource_spans.into_iter().enumerate() {
        read_resource(&mut batch, RequestPosition { resource, ..RequestPosition::default() }, bytes);
    }
    Ok(batch)
}

fn read_resource(batch: &mut Batch, position: RequestPosition, bytes: Bytes) {
    let frame = match ResourceFrame::decode(bytes) {
        Ok(frame) => frame,
        Err(error) => return batch.rejected.add(1, &position, &error),
    };
    let resource = merged::<Resource>(frame.resource);
    let mut scopes = Vec::with_capacity(frame.scope_spans.len());
    for (scope, bytes) in frame.scope_spans.into_iter().enumerate() {
        let position = RequestPosition { scope: Some(scope), ..position };
        let mut frame = ScopeFrame::default();
        let framed = frame.merge(bytes);
        let spans = frame.spans.len();
        let scope = framed.and_then(|()| merged::<Scope>(frame.scope));
        match (&resource, scope) {
            (Ok(_), Ok(scope)) => scopes.push(read_spans(batch, position, scope, frame.spans)),
            // The spans cannot be stored without their resource.
            (Err(error), _) => batch.rejected.add(spans, &position, error),
            (_, Err(error)) => batch.rejected.add(spans.max(1), &position, &error),
        }
    }
    batch.resources.extend(resource.ok().map(|resource| ResourceSpans { resource, scopes }));
}

fn read_spans(batch: &mut Batch, position: RequestPosition, scope: Scope, encoded: Vec<Bytes>) -> ScopeSpans {
    let mut spans = Vec::with_capacity(encoded.len());
    for (span, bytes) in encoded.into_iter().enumerate() {
        let position = RequestPosition { span: Some(span), ..position };
        spans.extend(batch.rejected.checked(Span::decode(bytes), &position));
    }
    ScopeSpans { scope, spans }
}

/// Merges a message that arrived in several parts, as protobuf defines.
fn merged<M: Message + Default>(parts: Vec<Bytes>) -> Result<M, DecodeError> {
    let mut message = M::default();
    parts.into_iter().try_for_each(|part| message.merge(part))?;
    Ok(message)
}

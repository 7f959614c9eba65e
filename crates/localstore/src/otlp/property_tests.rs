//! Property tests with random requests: all legal encodings of a request give the same rows, and an unreadable span
//! does not affect other spans.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;

use self::json_writer::Writer;
use super::messages::RejectedSpans;
use super::rows::{self, Rows};
use super::{json, protobuf};

mod json_writer;

const REQUESTS: u64 = 400;

/// Placeholder for text that is not valid Unicode; no other part of a request contains these bytes.
const MARK: &str = "BAD!";

/// Random number generator with a seed: SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn choose<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    fn several<T>(&mut self, at_most: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(at_most + 1)).map(|_| make(self)).collect()
    }
}

fn text(random: &mut Random) -> String {
    let texts =
        ["", "a", "service.name", "GET /{id}", "ä\"\\\u{1}\n", "漢字 \u{1f600}", "cut BAD!", "</script>"];
    random.choose(&texts).to_owned()
}

fn value(random: &mut Random, depth: usize) -> AnyValue {
    let integers = [0, 5, -1, 1_700_000_000_123_456_789, i64::MAX, i64::MIN];
    let doubles = [0.0, 1.5, -2.0, 1e300, 1e-7, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let value = match random.below(if depth < 3 { 8 } else { 6 }) {
        0 => None,
        1 => Some(Value::StringValue(text(random))),
        2 => Some(Value::BoolValue(random.once_in(2))),
        3 => Some(Value::IntValue(random.choose(&integers))),
        4 => Some(Value::DoubleValue(random.choose(&doubles))),
        5 => Some(Value::BytesValue(random.several(5, |random| random.choose(&[0, 62, 250, 255])))),
        6 => {
            let values = random.several(3, |random| value(random, depth + 1));
            Some(Value::ArrayValue(ArrayValue { values }))
        }
        _ => Some(Value::KvlistValue(KeyValueList { values: attributes(random, depth + 1) })),
    };
    AnyValue { value }
}

fn attributes(random: &mut Random, depth: usize) -> Vec<KeyValue> {
    random.several(3, |random| KeyValue {
        key: text(random),
        value: (!random.once_in(5)).then(|| value(random, depth)),
        ..KeyValue::default()
    })
}

fn id(random: &mut Random, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.choose(&[1, 10, 0xaf, 0xff])).collect()
}

fn span(random: &mut Random) -> Span {
    let times = [0, 1, 1_700_000_000_123_456_789, i64::MAX.unsigned_abs()];
    Span {
        trace_id: id(random, 16),
        span_id: id(random, 8),
        parent_span_id: if random.once_in(2) { id(random, 8) } else { Vec::new() },
        trace_state: text(random),
        name: text(random),
        kind: random.choose(&[0, 1, 2, 3, 4, 5, 77]),
        start_time_unix_nano: random.choose(&times),
        end_time_unix_nano: random.choose(&times),
        attributes: attributes(random, 0),
        events: random.several(2, |random| Event {
            time_unix_nano: random.choose(&times),
            name: text(random),
            attributes: attributes(random, 0),
            ..Event::default()
        }),
        links: random.several(2, |random| Link {
            trace_id: id(random, 16),
            span_id: id(random, 8),
            trace_state: text(random),
            attributes: attributes(random, 0),
            ..Link::default()
        }),
        status: (!random.once_in(3))
            .then(|| Status { message: text(random), code: random.choose(&[0, 1, 2, -5]) }),
        ..Span::default()
    }
}

fn request(random: &mut Random) -> ExportTraceServiceRequest {
    let resource_spans = random.several(2, |random| ResourceSpans {
        resource: (!random.once_in(4))
            .then(|| Resource { attributes: attributes(random, 0), ..Resource::default() }),
        scope_spans: random.several(2, |random| ScopeSpans {
            scope: (!random.once_in(4)).then(|| InstrumentationScope {
                name: text(random),
                version: text(random),
                ..InstrumentationScope::default()
            }),
            spans: random.several(3, span),
            ..ScopeSpans::default()
        }),
        ..ResourceSpans::default()
    });
    ExportTraceServiceRequest { resource_spans }
}

fn read_protobuf(body: Vec<u8>) -> (Rows, RejectedSpans) {
    let batch = protobuf::read(body.into()).unwrap();
    (rows::write(&batch), batch.rejected)
}

fn read_json(body: &[u8]) -> (Rows, RejectedSpans) {
    let batch = json::read(body).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(body)));
    (rows::write(&batch), batch.rejected)
}

/// Returns `body` with each [`MARK`] replaced by other bytes.
fn replace_mark(body: &[u8], other: &[u8]) -> Vec<u8> {
    let mut parts = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.windows(MARK.len()).position(|part| part == MARK.as_bytes()) {
        parts.extend_from_slice(&rest[..at]);
        parts.extend_from_slice(other);
        rest = &rest[at + MARK.len()..];
    }
    parts.extend_from_slice(rest);
    parts
}

/// Returns the request as plain JSON with each [`MARK`] replaced by other text.
fn with_text(request: &ExportTraceServiceRequest, other: &str) -> Vec<u8> {
    let mut writer = Writer::new(Random(0));
    writer.plain = true;
    writer.request(request).replace(MARK, other).into_bytes()
}

#[test]
fn every_legal_form_gives_the_same_rows() {
    let mut spans = 0;
    for seed in 0..REQUESTS {
        let request = request(&mut Random(seed));
        let expected = read_protobuf(request.encode_to_vec());
        assert_eq!(expected.1, RejectedSpans::default(), "seed {seed}");
        spans += expected.0.count;
        for form in 0..4 {
            let written = Writer::new(Random(seed * 4 + form)).request(&request);
            assert_eq!(read_json(written.as_bytes()), expected, "seed {seed}: {written}");
        }
    }
    assert!(spans > REQUESTS / 2, "{spans}");
}

#[test]
fn invalid_unicode_affects_only_its_own_text() {
    for seed in 0..REQUESTS {
        let request = request(&mut Random(seed));
        let written = Writer::new(Random(seed)).request(&request);
        let four = read_json(&with_text(&request, &"\u{fffd}".repeat(4)));
        assert_eq!(four.1, RejectedSpans::default());
        assert_eq!(read_protobuf(replace_mark(&request.encode_to_vec(), &[0xff; 4])), four, "seed {seed}");
        assert_eq!(read_json(&replace_mark(written.as_bytes(), &[0xff; 4])), four, "seed {seed}: {written}");
        let one = read_json(&with_text(&request, "\u{fffd}"));
        for half in [r"\ud83d", r"\uDE00"] {
            assert_eq!(
                read_json(&replace_mark(written.as_bytes(), half.as_bytes())),
                one,
                "seed {seed}: {written}"
            );
        }
    }
}

/// Members that are invalid in a span, each with a part of its error message.
const BAD_MEMBERS: [(&str, &str); 22] = [
    (r#""traceId":"xyz""#, "traceId must be hexadecimal, not \"xyz\""),
    (r#""traceId":"""#, "a trace id must be 16 bytes"),
    (r#""spanId":7"#, "spanId must be a string, not a number"),
    (r#""parentSpanId":"abcd""#, "a parent span id must be"),
    (r#""name":{}"#, "name must be a string, not an object"),
    (r#""traceState":[]"#, "traceState must be a string, not a list"),
    (r#""kind":"SPAN_KIND_NONE""#, "kind must be one of SPAN_KIND_UNSPECIFIED"),
    (r#""kind":1.5"#, "kind must be one of"),
    (r#""startTimeUnixNano":"soon""#, "startTimeUnixNano must be an integer"),
    (r#""endTimeUnixNano":-1"#, "endTimeUnixNano must be an integer"),
    (r#""end_time_unix_nano":1e19"#, "a time is after the year 2262"),
    (r#""attributes":{}"#, "attributes must be a list, not an object"),
    (r#""attributes":[null,5]"#, "attributes[1] must be an object, not a number"),
    (r#""attributes":[{"value":"x"}]"#, "attributes[0].value must be an object, not a string"),
    (r#""attributes":[{"value":{"intValue":"5.5"}}]"#, "attributes[0].value.intValue must be"),
    (r#""attributes":[{"value":{"boolValue":1}}]"#, "value.boolValue must be true or false, not a number"),
    (r#""attributes":[{"value":{"bytesValue":"*"}}]"#, "value.bytesValue must be base64"),
    (
        r#""attributes":[{"value":{"arrayValue":{"values":[{},{"doubleValue":"inf"}]}}}]"#,
        "values[1].doubleValue must",
    ),
    (r#""events":[{"timeUnixNano":true}]"#, "events[0].timeUnixNano must be an integer"),
    (r#""links":[{"spanId":"0"}]"#, "links[0].spanId must be hexadecimal"),
    (r#""status":"ok""#, "status must be an object, not a string"),
    (r#""status":{"code":"BAD"}"#, "status.code must be one of STATUS_CODE_UNSET"),
];

#[test]
fn a_bad_span_is_left_out_alone() {
    let mut random = Random(1);
    for (seed, (member, reason)) in (0..10).flat_map(|round| BAD_MEMBERS.map(|bad| (round, bad))) {
        let others = random.several(3, span);
        let position = random.below(others.len() + 1);
        let expected = read_protobuf(spans_request(&others, None));
        let mut writer = Writer::new(Random(seed));
        let mut spans: Vec<String> = others.iter().map(|span| writer.span(span)).collect();
        let good = writer.span(&span(&mut random));
        let separator = if good == "{}" { "" } else { "," };
        spans.insert(position, format!("{}{separator}{member}}}", good.strip_suffix('}').unwrap()));
        let body = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}]}}]}}]}}"#, spans.join(","));
        let (rows, rejected) = read_json(body.as_bytes());
        assert_eq!((rows, rejected.spans), (expected.0, 1), "{member}");
        let message = rejected.reason.unwrap();
        let beginning = format!("resourceSpans[0].scopeSpans[0].spans[{position}]: ");
        assert!(message.starts_with(&beginning) && message.contains(reason), "{member}: {message}");
    }
}

#[test]
fn a_bad_span_in_protobuf_is_left_out_alone() {
    let mut random = Random(2);
    // A field with another wire type, a length beyond the end, a varint without an end, field 0, a truncated list.
    let endings: [&[u8]; 5] =
        [&[0x28, 5], &[0x2a, 100, b'x'], &[0x30, 0xff], &[2, 0], &[0x4a, 4, 0x0a, 9, b'k', 0]];
    for ending in (0..10).flat_map(|_| endings) {
        let others = random.several(3, span);
        let position = random.below(others.len() + 1);
        let expected = read_protobuf(spans_request(&others, None));
        let bad = [&span(&mut random).encode_to_vec(), ending].concat();
        let (rows, rejected) = read_protobuf(spans_request(&others, Some((position, &bad))));
        assert_eq!((rows, rejected.spans), (expected.0, 1), "{ending:?}");
        let message = rejected.reason.unwrap();
        assert!(
            message.starts_with(&format!("resourceSpans[0].scopeSpans[0].spans[{position}]: ")),
            "{message}"
        );
    }
}

/// Encodes a request in protobuf with these spans and optionally other bytes as a further span.
fn spans_request(spans: &[Span], bad: Option<(usize, &[u8])>) -> Vec<u8> {
    let mut encoded: Vec<Vec<u8>> = spans.iter().map(Message::encode_to_vec).collect();
    if let Some((position, bytes)) = bad {
        encoded.insert(position, bytes.to_vec());
    }
    let spans: Vec<u8> = encoded.iter().flat_map(|span| delimited(2, span)).collect();
    delimited(1, &delimited(2, &spans))
}

/// Encodes a length-delimited protobuf field.
fn delimited(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    prost::encoding::encode_varint(bytes.len().try_into().unwrap(), &mut field);
    field.extend_from_slice(bytes);
    field
}

#[test]
fn invalid_containers_lose_only_their_own_spans() {
    let mut random = Random(3);
    let good = span(&mut random);
    let expected = read_protobuf(spans_request(std::slice::from_ref(&good), None));
    let spans = Writer::new(Random(0)).span(&good);
    let whole = format!(r#"{{"scopeSpans":[{{"spans":[{spans}]}}]}}"#);
    for (other, rejected, reason) in [
        ("5", 1, "resourceSpans[0]: must be an object, not a number"),
        ("null", 0, ""),
        (r#"{"scopeSpans":7}"#, 1, "resourceSpans[0]: scopeSpans must be a list"),
        (r#"{"scopeSpans":[null,[]]}"#, 1, "resourceSpans[0].scopeSpans[1]: must be an object, not a list"),
        (r#"{"scopeSpans":[{"spans":{}}]}"#, 1, "resourceSpans[0].scopeSpans[0]: spans must be a list"),
        (r#"{"scopeSpans":[{"spans":[SPAN,SPAN]}],"resource":[]}"#, 2, "resourceSpans[0]: resource: must be"),
        (
            r#"{"scopeSpans":[{"spans":[SPAN],"scope":{"name":1}}]}"#,
            1,
            "scopeSpans[0]: scope: name must be a string",
        ),
        (r#"{"resource":{"entityRefs":[{"type":"service"}],"schemaUrl":7},"unknown":[{}]}"#, 0, ""),
    ] {
        let body = format!(r#"{{"resourceSpans":[{},{whole}]}}"#, other.replace("SPAN", &spans));
        let (rows, left_out) = read_json(body.as_bytes());
        assert_eq!((&rows, left_out.spans), (&expected.0, rejected), "{other}");
        assert!(left_out.reason.unwrap_or_default().contains(reason), "{other}");
    }
    // The same in protobuf: a scope, a resource and a list that cannot be split.
    let span = delimited(2, &good.encode_to_vec());
    let bad = delimited(1, &[0x0a, 100]);
    for (other, rejected) in [
        (delimited(1, &delimited(2, &[bad.clone(), span.clone(), span.clone()].concat())), 2),
        (delimited(1, &[bad, delimited(2, &span)].concat()), 1),
        (delimited(1, &delimited(2, &[&span[..], &[0x12, 100]].concat())), 1),
        (delimited(1, &[0x12, 100]), 1),
    ] {
        let body = [other, spans_request(std::slice::from_ref(&good), None)].concat();
        let (rows, left_out) = read_protobuf(body);
        assert_eq!((&rows, left_out.spans), (&expected.0, rejected));
        assert!(left_out.reason.is_some());
    }
    for body in ["", "null", "[]", "5", r#"{"resourceSpans":5}"#, r#"{"resourceSpans":[}"#, "{} x"] {
        assert!(json::read(body.as_bytes()).is_err(), "{body}");
    }
    assert!(protobuf::read(Bytes::from_static(&[0x0a, 5])).is_err());
}

#[test]
fn the_nesting_limit_is_the_same_in_json_and_protobuf() {
    let nested = |depth: usize| {
        let innermost = AnyValue { value: Some(Value::BoolValue(true)) };
        let deep = (0..depth).fold(innermost, |value, _| AnyValue {
            value: Some(Value::ArrayValue(ArrayValue { values: vec![value] })),
        });
        let attribute = KeyValue { key: "k".to_owned(), value: Some(deep), ..KeyValue::default() };
        let deep = Span { attributes: vec![attribute], ..span(&mut Random(4)) };
        let body = format!(
            r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}]}}]}}]}}"#,
            Writer::new(Random(0)).span(&deep)
        );
        let (from_json, from_protobuf) =
            (read_json(body.as_bytes()), read_protobuf(spans_request(&[deep], None)));
        assert_eq!((&from_json.0, from_json.1.spans), (&from_protobuf.0, from_protobuf.1.spans), "{depth}");
        from_json.1.spans
    };
    assert_eq!((nested(49), nested(50), nested(60)), (0, 1, 1));
    let (begin, end) = (r#"{"arrayValue":{"values":["#.repeat(100_000), "]}}".repeat(100_000));
    let body = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"attributes":[{{"value":{begin}{end}}}]}}]}}]}}]}}"#
    );
    assert_eq!(read_json(body.as_bytes()).1.spans, 1);
}

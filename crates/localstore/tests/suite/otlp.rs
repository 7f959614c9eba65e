//! The OTLP receiver.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::raw::request;
use crate::support::{Answer, Store, run_python};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;

const PROTOBUF: (&str, &str) = ("Content-Type", "application/x-protobuf");
const JSON: (&str, &str) = ("Content-Type", "application/json");
const START: u64 = 1_700_000_000_123_456_789;

fn store() -> Store {
    Store::start_with(&["--otlp", "127.0.0.1:0"])
}

fn attribute(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: Some(AnyValue { value: Some(Value::StringValue(value.into())) }),
        ..KeyValue::default()
    }
}

fn span(number: u64) -> Span {
    Span {
        trace_id: u128::from(number / 10 + 1).to_be_bytes().to_vec(),
        span_id: (number + 1).to_be_bytes().to_vec(),
        name: format!("operation {}", number % 17),
        kind: 2,
        start_time_unix_nano: START + number,
        end_time_unix_nano: START + number + 1_000,
        attributes: vec![attribute("http.route", "/a/b"), attribute("user", &format!("u{}", number % 100))],
        ..Span::default()
    }
}

fn export(spans: Vec<Span>) -> Vec<u8> {
    let resource =
        Some(Resource { attributes: vec![attribute("service.name", "shop")], ..Resource::default() });
    let scope = Some(InstrumentationScope {
        name: "lib".into(),
        version: "1.2".into(),
        ..InstrumentationScope::default()
    });
    let scope_spans = vec![ScopeSpans { scope, spans, ..ScopeSpans::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }],
    }
    .encode_to_vec()
}

fn send(store: &Store, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    request(store.otlp_address(), "POST", "/v1/traces", headers, body)
}

fn count(store: &Store) -> String {
    store.text("SELECT count() FROM otel.otel_traces")
}

#[test]
fn a_span_becomes_the_exporters_row() {
    let store = store();
    let mut whole = span(0);
    whole.parent_span_id = vec![0, 0, 0, 0, 0, 0, 0, 9];
    whole.trace_state = "a=b".into();
    whole.status = Some(Status { code: 2, message: "broken".into() });
    whole.attributes =
        vec![attribute("twice", "first"), attribute("", "empty key"), attribute("twice", "last")];
    whole.events = vec![Event {
        time_unix_nano: START + 5,
        name: "exception".into(),
        attributes: vec![attribute("k", "v")],
        ..Event::default()
    }];
    whole.links = vec![Link {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        trace_state: "c=d".into(),
        ..Link::default()
    }];
    let answer = send(&store, &[PROTOBUF], &export(vec![whole]));
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-protobuf")));
    assert_eq!(
        ExportTraceServiceResponse::decode(answer.body.as_slice()).expect("a response"),
        ExportTraceServiceResponse::default()
    );
    let row = store.text(
        "SELECT toUnixTimestamp64Nano(Timestamp), TraceId, SpanId, ParentSpanId, TraceState, SpanName, SpanKind, ServiceName, ResourceAttributes, ScopeName, \
         ScopeVersion, SpanAttributes, Duration, StatusCode, StatusMessage, arrayMap(t -> toUnixTimestamp64Nano(t), Events.Timestamp), Events.Name, \
         Events.Attributes, Links.TraceId, Links.SpanId, Links.TraceState, Links.Attributes FROM otel.otel_traces FORMAT TSVRaw",
    );
    let expected = [
        "1700000000123456789",
        "00000000000000000000000000000001",
        "0000000000000001",
        "0000000000000009",
        "a=b",
        "operation 0",
        "Server",
        "shop",
        "{'service.name':'shop'}",
        "lib",
        "1.2",
        "{'twice':'last','':'empty key'}",
        "1000",
        "Error",
        "broken",
        "[1700000000123456794]",
        "['exception']",
        "[{'k':'v'}]",
        "['01010101010101010101010101010101']",
        "['0202020202020202']",
        "['c=d']",
        "[{}]",
    ];
    assert_eq!(row.split('\t').collect::<Vec<_>>(), expected);
    assert_eq!(
        store.text("SELECT TraceId, Start = End, toUnixTimestamp(Start) FROM otel.otel_traces_trace_id_ts"),
        format!("{}1\t1\t1700000000", "0".repeat(31))
    );
    let indexes = store.text("SELECT name, type FROM system.data_skipping_indices WHERE table = 'otel_traces' ORDER BY name FORMAT TSVRaw");
    assert_eq!(indexes.matches("bloom_filter").count(), 5);
    assert!(indexes.contains("idx_duration\tminmax"));
    let table = store.text("SELECT sorting_key, partition_key FROM system.tables WHERE database = 'otel' AND name = 'otel_traces'");
    assert_eq!(table, "ServiceName, SpanName, toDateTime(Timestamp)\ttoDate(Timestamp)");
}

#[test]
fn json_has_hexadecimal_ids() {
    let store = store();
    let good = r#"{"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174","parentSpanId":"","name":"js","kind":3,
        "startTimeUnixNano":"1700000000000000000","endTimeUnixNano":1700000000000000007,"status":{"code":1},
        "attributes":[{"key":"n","value":{"intValue":"5"}},{"key":"l","value":{"arrayValue":{"values":[{"boolValue":true},{"doubleValue":1.5}]}}},
        {"key":"m","value":{"kvlistValue":{"values":[{"key":"k","value":{"stringValue":"v"}}]}}},{"key":"b","value":{"bytesValue":"AAE="}}],"unknownField":1}"#;
    let bad = r#"{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"no hex","name":"bad"},{"traceId":"5b8e","spanId":"eee19b7ec3c1b174","name":"bad"}"#;
    let body = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{good},{bad}]}}]}}]}}"#);
    let answer = send(&store, &[JSON], body.as_bytes());
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert!(
        answer.text().contains(r#""rejectedSpans":"2""#) && answer.text().contains("errorMessage"),
        "{}",
        answer.text()
    );
    let row = store.text("SELECT TraceId, SpanId, ParentSpanId, SpanKind, StatusCode, Duration, SpanAttributes, ServiceName FROM otel.otel_traces FORMAT TSVRaw");
    assert_eq!(
        row,
        "5b8efff798038103d269b633813fc60c\teee19b7ec3c1b174\t\tClient\tOk\t7\t{'n':'5','l':'[true,1.5]','m':'{\"k\":\"v\"}','b':'AAE='}\t"
    );
    assert_eq!(send(&store, &[JSON], b"{}").text(), "{}");
}

#[test]
fn legal_json_and_text_that_is_not_unicode_are_stored() {
    let store = store();
    let time = r#""startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000000000000001""#;
    let good = format!(r#"{{"traceId":"{:032x}","spanId":"00000000000000a1","name":"good",{time}}}"#, 0xa0);
    let with = |resource: &str, members: &str| {
        let other = format!(
            r#"{{"traceId":"{:032x}","spanId":"00000000000000b0","name":"other",{time}{members}}}"#,
            0xb0
        );
        format!(
            r#"{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{{"spans":[{good},{other}]}}]}}]}}"#
        )
    };
    let value = |value: &str| with("{}", &format!(r#","attributes":[{{"key":"k","value":{value}}}]"#));
    let select =
        "SELECT SpanAttributes, SpanKind FROM otel.otel_traces WHERE SpanName = 'other' FORMAT TSVRaw";
    for (body, attributes, kind) in [
        (value(r#"{"arrayValue":{}}"#), "{'k':'[]'}", "Unspecified"),
        (value(r#"{"kvlistValue":{}}"#), "{'k':'{}'}", "Unspecified"),
        (value(r#"{"arrayValue":{"values":[null]}}"#), "{'k':'[null]'}", "Unspecified"),
        (value(r#"{"intValue":5.0}"#), "{'k':'5'}", "Unspecified"),
        (value(r#"{"stringValue":"cut \ud83d"}"#), "{'k':'cut \u{fffd}'}", "Unspecified"),
        (with("{}", r#","attributes":[{"value":{"stringValue":"x"}}]"#), "{'':'x'}", "Unspecified"),
        (with(r#"{"entityRefs":[{"type":"service"}]}"#, r#","kind":"SPAN_KIND_SERVER""#), "{}", "Server"),
    ] {
        let answer = send(&store, &[JSON], body.as_bytes());
        assert_eq!((answer.status, &*answer.text()), (200, "{}"), "{body}");
        assert_eq!(store.text(select), format!("{attributes}\t{kind}"), "{body}");
        assert_eq!(count(&store), "2");
        store.text("TRUNCATE TABLE otel.otel_traces");
    }
    let answer = send(&store, &[JSON], value(r#"{"intValue":"five"}"#).as_bytes());
    let expected = r#"{"partialSuccess":{"rejectedSpans":"1","errorMessage":"resourceSpans[0].scopeSpans[0].spans[1]: attributes[0].value.intValue must be an integer of 64 bits, not \"five\""}}"#;
    assert_eq!((answer.status, &*answer.text()), (200, expected));
    assert_eq!(count(&store), "1");

    // Protobuf text that is not UTF-8.
    let mut body = export(vec![span(0), Span { attributes: vec![attribute("~k", "caf~")], ..span(1) }]);
    let marks = body.iter_mut().filter(|byte| **byte == b'~').map(|byte| *byte = 0xe9).count();
    let answer = send(&store, &[PROTOBUF], &body);
    assert_eq!((marks, answer.status, answer.body.len()), (2, 200, 0));
    let stored = store
        .text("SELECT SpanAttributes FROM otel.otel_traces WHERE SpanName = 'operation 1' FORMAT TSVRaw");
    assert_eq!((&*count(&store), &*stored), ("3", "{'\u{fffd}k':'caf\u{fffd}'}"));
}

#[test]
fn bad_spans_and_bad_requests_are_reported() {
    let store = store();
    let broken = |change: fn(&mut Span)| {
        let mut broken = span(1);
        change(&mut broken);
        broken
    };
    let spans = vec![
        span(0),
        broken(|span| span.trace_id = vec![0; 16]),
        broken(|span| span.trace_id = vec![1; 15]),
        broken(|span| span.span_id = vec![0; 8]),
        broken(|span| span.span_id = vec![]),
        broken(|span| span.parent_span_id = vec![1; 7]),
        broken(|span| span.start_time_unix_nano = u64::MAX),
        span(2),
    ];
    let answer = send(&store, &[PROTOBUF], &export(spans));
    let partial = ExportTraceServiceResponse::decode(answer.body.as_slice())
        .expect("a response")
        .partial_success
        .expect("partial");
    assert_eq!((answer.status, partial.rejected_spans), (200, 6));
    assert!(partial.error_message.contains("trace id"), "{}", partial.error_message);
    assert_eq!(count(&store), "2");

    let gzip = |data: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(data).and_then(|()| encoder.finish()).expect("gzip")
    };
    let zipped = ("Content-Encoding", "gzip");
    assert_eq!(send(&store, &[PROTOBUF, zipped], &gzip(&export(vec![span(3)]))).status, 200);
    assert_eq!(count(&store), "3");
    for (headers, body, status) in [
        (vec![PROTOBUF], b"\xff\xff\xff".to_vec(), 400),
        (vec![PROTOBUF, zipped], b"no gzip".to_vec(), 400),
        (vec![JSON], b"{".to_vec(), 400),
        (vec![JSON], b"[]".to_vec(), 400),
        (vec![JSON], "[".repeat(100_000).into_bytes(), 400),
        (vec![("Content-Type", "text/plain")], vec![], 415),
        (vec![], vec![], 415),
        (vec![PROTOBUF, ("Content-Encoding", "br")], vec![], 415),
        (vec![PROTOBUF, zipped], gzip(&vec![0; 140 << 20]), 413),
        (vec![PROTOBUF], vec![0; 33 << 20], 413),
    ] {
        assert_eq!(send(&store, &headers, &body).status, status, "{headers:?}");
    }
    assert_eq!(request(store.otlp_address(), "GET", "/v1/traces", &[], b"").status, 405);
    assert_eq!(request(store.otlp_address(), "POST", "/v1/logs", &[], b"").status, 404);
    let error = send(&store, &[JSON], b"{").text();
    assert!(error.contains("\"message\"") && error.contains("\"code\":3"), "{error}");
}

#[test]
fn acknowledged_spans_survive_kill_9() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["--otlp", "127.0.0.1:0"];
    let mut expected = 0;
    for round in 0..4_u64 {
        let mut store = Store::start_on(directory.path(), &arguments);
        assert_eq!(count(&store), expected.to_string());
        for batch in 0..5 {
            let first = round * 10_000 + batch * 1_000;
            assert_eq!(
                send(&store, &[PROTOBUF], &export((first..first + 300).map(span).collect())).status,
                200
            );
            expected += 300;
        }
        store.kill();
    }
    let store = Store::start_on(directory.path(), &arguments);
    assert_eq!(count(&store), expected.to_string());
    assert_eq!(
        store.text("SELECT uniqExact(TraceId) FROM otel.otel_traces"),
        store.text("SELECT uniqExact(TraceId) FROM otel.otel_traces_trace_id_ts")
    );
    let settings = store.text("SHOW CREATE TABLE otel.otel_traces");
    assert!(
        settings.contains("fsync_after_insert = 1") && settings.contains("fsync_part_directory = 1"),
        "{settings}"
    );
}

#[test]
fn many_spans_load_fast_and_small_requests_share_an_insert() {
    let store = store();
    let bodies: Vec<Vec<u8>> =
        (0..40).map(|batch| export((batch * 5_000..(batch + 1) * 5_000).map(span).collect())).collect();
    let start = Instant::now();
    for body in &bodies {
        assert_eq!(send(&store, &[PROTOBUF], body).status, 200);
    }
    let took = start.elapsed();
    println!("200,000 spans in {took:?}, {:.0} spans/s", 200_000.0 / took.as_secs_f64());
    assert_eq!(count(&store), "200000");
    assert!(took < Duration::from_secs(30), "{took:?}");

    let parts = "SELECT value FROM system.events WHERE event = 'InsertQuery'";
    let before: u64 = store.text(parts).parse().expect("a number");
    std::thread::scope(|scope| {
        for thread in 0..16_u64 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..20 {
                    assert_eq!(
                        send(store, &[PROTOBUF], &export(vec![span(1_000_000 + thread * 100 + number)]))
                            .status,
                        200
                    );
                }
            });
        }
    });
    let inserts = store.text(parts).parse::<u64>().expect("a number") - before;
    println!("320 small requests in {inserts} inserts");
    assert_eq!(count(&store), "200320");
    assert!(inserts < 160, "{inserts}");
}

#[test]
fn the_official_python_sdk_exports() {
    let store = store();
    run_python("otlp_sdk_suite.py", &[&format!("http://{}/v1/traces", store.otlp_address())]);
    let rows = store.text(
        "SELECT SpanName, SpanKind, StatusCode, StatusMessage, SpanAttributes['text'], SpanAttributes['number'], SpanAttributes['list'], \
         ParentSpanId != '', Events.Name, length(Links.TraceId), ServiceName, ScopeName FROM otel.otel_traces ORDER BY SpanName FORMAT TSVRaw",
    );
    assert_eq!(
        rows,
        "child\tClient\tError\twent wrong\tä\\'\t1.5\t[\"a\",\"b\"]\t1\t['exception']\t1\tpython-shop\tsuite\nroot\tServer\tUnset\t\t\t7\t\t0\t[]\t0\tpython-shop\tsuite"
            .replace("\\'", "'")
    );
}

//! Fuzz targets for the input of the local store.

#[path = "../../../proof/testkit/src/fuzzing.rs"]
mod fuzzing;

use std::io::{Read as _, Write as _};
use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use bytes::Bytes;
use cityhash_rs::cityhash_102_128;
use fuzzing::{parts, target, texts, within_time_limit};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, any_value,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;

use crate::http::compression::{Encoding, native_blocks};
use crate::http::credentials::Credentials;
use crate::http::guard::refusal;
use crate::http::request::{Request, url_parameters};
use crate::lexer::Lexer;
use crate::otlp::attributes::as_text;
use crate::otlp::messages::Value;
use crate::otlp::request::{Encoding as OtlpEncoding, decode};
use crate::otlp::rows::write;
use crate::statement::{StatementKind, analyse, kill_condition, replace_processes_table, with_outfile};

/// Limit on the decoded bytes that are checked.
const MAX_UNPACKED: u64 = 8 << 20;

#[test]
fn statements() {
    let check = |text: &[u8]| {
        let mut end = 0;
        for token in within_time_limit(|| Lexer::new(text).collect::<Vec<_>>()) {
            assert!(end <= token.start && token.start < token.end && token.end <= text.len(), "{token:?}");
            end = token.end;
        }
        let analysis = within_time_limit(|| analyse(text));
        if let StatementKind::InsertData(header) = &analysis.statement_kind {
            assert!(
                header.header_length < header.data_start && header.data_start <= text.len(),
                "{header:?}"
            );
            // The data after the header must not affect the analysis of the statement.
            let again = analyse(&[&text[..header.data_start], b" FORMAT CSV INTO OUTFILE 'x'"].concat());
            let StatementKind::InsertData(same) = &again.statement_kind else { panic!("{again:?}") };
            assert_eq!((same.header_length, again.file_clause), (header.header_length, analysis.file_clause));
        }
        let out = within_time_limit(|| with_outfile(text, "/dev/null", "CSV"));
        assert!(out.windows(13).any(|part| part == b" INTO OUTFILE"));
        if let Some((condition, _)) = within_time_limit(|| kill_condition(text)) {
            assert!(condition.is_empty() || text.windows(condition.len()).any(|part| part == condition));
        }
        if let Some(replaced) = within_time_limit(|| replace_processes_table(text, "numbers")) {
            // Nothing is left to replace.
            assert_eq!(replace_processes_table(&replaced, "numbers"), None);
        }
    };
    let seeds = texts([
        "SELECT a, 'it''s \\' x', `b` FROM t -- end\nWHERE x IN (1, 2) FORMAT JSONEachRow SETTINGS a = 1;",
        "INSERT INTO db.`select` (a, b) SETTINGS async_insert = 1 FORMAT RowBinary\r\n\x01\x02",
        "insert into t values (1, 'x'), (2, $$a'b$$)",
        "INSERT INTO FUNCTION file('x') SELECT 1",
        "KILL QUERY WHERE query_id = 'a' SYNC FORMAT TSV",
        "SELECT query_id FROM system.processes AS p, `system` . `processes` JOIN system.processes USING q",
        "/* a */ (WITH 1 AS x SELECT x INTO OUTFILE 'f' FORMAT CSV) # c\n",
        "SELECT $tag$ ; FORMAT x $tag$ FROM INFILE 'y'",
    ]);
    target!(seeds, check);
}

fn headers(sent: &[(HeaderName, &[u8])]) -> HeaderMap {
    let value =
        |(name, value): &(HeaderName, &[u8])| Some((name.clone(), HeaderValue::from_bytes(value).ok()?));
    sent.iter().filter_map(value).collect()
}

#[test]
fn requests() {
    let check = |input: &[u8]| {
        let [query, one, other, host] = parts::<4>(input);
        let Ok(uri) = format!("/?{}", String::from_utf8_lossy(query)).parse::<Uri>() else { return };
        let name = HeaderName::from_static;
        let sent = headers(&[
            (header::AUTHORIZATION, one),
            (name("x-clickhouse-query-id"), one),
            (name("x-clickhouse-format"), other),
            (header::CONTENT_ENCODING, other),
        ]);
        let parameters = within_time_limit(|| url_parameters(&uri));
        let credentials = Credentials { user: "u".to_owned(), password: "secret".to_owned() };
        if credentials.check(&sent, &parameters).is_ok() {
            assert!(
                sent.contains_key(header::AUTHORIZATION)
                    || parameters.iter().any(|(_, value)| value == b"secret")
            );
        }
        if let Ok(request) = within_time_limit(|| Request::read(&Method::GET, &sent, parameters)) {
            let plain = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
            assert!(request.settings.iter().all(|(name, _)| !name.is_empty() && name.bytes().all(plain)));
            assert!(request.default_format.is_none_or(|format| format.bytes().all(plain)));
            let (last, value) = request.settings.last().unwrap();
            assert!(last == "readonly" && value != b"0", "{last} {value:?}");
            assert!(!request.query_id.is_empty() && request.query_id.len() <= 256);
        }
        let named = headers(&[(header::HOST, host)]);
        if !named.is_empty()
            && refusal(&named, &Uri::from_static("/"), IpAddr::from([127, 0, 0, 1])).is_none()
        {
            let host = String::from_utf8_lossy(host).to_ascii_lowercase();
            let bare = host.rsplit_once(':').map_or(&*host, |(before, port)| {
                if port.bytes().all(|byte| byte.is_ascii_digit()) { before } else { &host }
            });
            let bare = bare.trim_matches(['[', ']']).trim_end_matches('.');
            let is_loopback = |host: &str| host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
            let own = bare == "localhost"
                || bare.ends_with(".localhost")
                || is_loopback(bare)
                || is_loopback(&host[1..host.len() - 1]);
            assert!(own, "{host}");
        }
    };
    let seeds = texts([
        "query=SELECT+1&param_a=%00%ff&max_threads=1&readonly=0&database=d\0Basic dTpzZWNyZXQ=\0gzip\0localhost:8123",
        "user=u&password=secret&query_id=q&session_id=s&session_timeout=60&compress=1\0zstd;q=0, lz4\0TSV\0[::1]:1",
        "default_format=a%27&readonly=2&readonly=1&role=r&buffer_size=99999999999999999999\0deflate\0x\0a.localhost.",
        "wait_end_of_query=true&1a=2\0\0\x00127.0.0.1@evil.example",
    ]);
    target!(seeds, check);
}

/// Builds a ClickHouse block with these bytes and a valid checksum.
fn block(method: u8, size: u32, data: &[u8]) -> Vec<u8> {
    let compressed = u32::try_from(data.len() + 9).unwrap();
    let block = [&[method][..], &compressed.to_le_bytes(), &size.to_le_bytes(), data].concat();
    [&cityhash_102_128(&block).rotate_left(64).to_le_bytes()[..], &block].concat()
}

#[test]
fn bodies() {
    const ALL: [Encoding; 6] = [
        Encoding::Identity,
        Encoding::Gzip,
        Encoding::Deflate,
        Encoding::Zstd,
        Encoding::Lz4,
        Encoding::Native,
    ];
    fn unpacked(encoding: Encoding, body: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut out = Vec::new();
        within_time_limit(|| encoding.decode(body)?.take(MAX_UNPACKED).read_to_end(&mut out))?;
        Ok(out)
    }
    let check = |body: &[u8]| {
        for encoding in ALL {
            // The first byte selects the encoding for decoding.
            if body.first().is_some_and(|first| usize::from(*first) % ALL.len() == encoding as usize) {
                let _ = unpacked(encoding, &body[1..]);
            }
        }
        assert_eq!(unpacked(Encoding::Native, &native_blocks(body)).unwrap(), body);
        if let Some((size, data)) = body.split_first() {
            for method in [0x02, 0x82, 0x90, *size] {
                let _ = unpacked(Encoding::Native, &block(method, u32::from(*size), data));
            }
        }
    };
    let mut seeds = texts(["", "abcabcabcabc"]);
    let text = b"some text, some text";
    let (level, mut gzip, mut deflate) = (flate2::Compression::fast(), Vec::new(), Vec::new());
    flate2::read::GzEncoder::new(&text[..], level).read_to_end(&mut gzip).unwrap();
    flate2::read::ZlibEncoder::new(&text[..], level).read_to_end(&mut deflate).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(text).unwrap();
    for (encoding, packed) in ALL.into_iter().zip([
        text.to_vec(),
        gzip,
        deflate,
        zstd::encode_all(&text[..], 1).unwrap(),
        lz4.finish().unwrap(),
        native_blocks(text),
    ]) {
        seeds.push([&[encoding as u8][..], &packed].concat());
    }
    seeds.push([&[20][..], &lz4_flex::block::compress(b"some text, some text")].concat());
    target!(seeds, check, 300);
}

fn attributes() -> Vec<KeyValue> {
    let value = |value| Some(AnyValue { value: Some(value) });
    let list = ArrayValue {
        values: vec![AnyValue { value: Some(any_value::Value::BoolValue(true)) }, AnyValue { value: None }],
    };
    let key_value = |key: &str, value| KeyValue { key: key.to_owned(), value, ..KeyValue::default() };
    vec![
        key_value("service.name", value(any_value::Value::StringValue("checkout".to_owned()))),
        key_value("n", value(any_value::Value::IntValue(-1))),
        key_value("d", value(any_value::Value::DoubleValue(1e-7))),
        key_value("b", value(any_value::Value::BytesValue(vec![0, 255]))),
        key_value("l", value(any_value::Value::ArrayValue(list))),
        key_value("n", None),
    ]
}

fn export() -> ExportTraceServiceRequest {
    let span = Span {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        name: "GET /".to_owned(),
        start_time_unix_nano: 1_700_000_000_000_000_000,
        end_time_unix_nano: 1_700_000_000_000_000_001,
        attributes: attributes(),
        events: vec![Event { name: "e".to_owned(), attributes: attributes(), ..Event::default() }],
        links: vec![Link { trace_id: vec![3; 16], span_id: vec![4; 8], ..Link::default() }],
        status: Some(Status { code: 2, message: "m".to_owned() }),
        ..Span::default()
    };
    let scope = InstrumentationScope {
        name: "s".to_owned(),
        version: "1".to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_spans =
        vec![ScopeSpans { scope: Some(scope), spans: vec![span.clone(), span], ..ScopeSpans::default() }];
    let resource = Resource { attributes: attributes(), ..Resource::default() };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans,
            ..ResourceSpans::default()
        }],
    }
}

#[test]
fn exports() {
    let check = |body: &[u8]| {
        let sent = Bytes::copy_from_slice(body);
        let _ = within_time_limit(|| decode(OtlpEncoding::Protobuf, Encoding::Gzip, sent.clone()));
        for encoding in [OtlpEncoding::Protobuf, OtlpEncoding::Json] {
            let Ok(batch) = within_time_limit(|| decode(encoding, Encoding::Identity, sent.clone())) else {
                continue;
            };
            assert!(batch.rejected.spans == 0 || batch.rejected.reason.is_some());
            let rows = within_time_limit(|| write(&batch));
            let spans =
                batch.resources.iter().flat_map(|resource| &resource.scopes).flat_map(|scope| &scope.spans);
            assert_eq!(rows.count, spans.clone().count() as u64);
            assert_eq!(rows.count == 0, rows.data.is_empty());
            for attribute in spans.flat_map(|span| &span.attributes) {
                let text = as_text(attribute.value.as_ref());
                let value = attribute.value.as_ref().and_then(|value| value.value.as_ref());
                if matches!(value, Some(Value::Array(_) | Value::Map(_))) {
                    let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
                    assert!(text.is_empty() || is_json, "{text}");
                }
            }
        }
        // A request that the official types decode must also decode here, with the same number of spans.
        if let Ok(request) = ExportTraceServiceRequest::decode(body) {
            let spans = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
            let spans: usize = spans.map(|scope| scope.spans.len()).sum();
            let batch = decode(OtlpEncoding::Protobuf, Encoding::Identity, sent).unwrap();
            let stored = i64::try_from(write(&batch).count).unwrap();
            assert_eq!(stored + batch.rejected.spans, i64::try_from(spans).unwrap());
        }
    };
    let json = r#"{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "a"}}]}, "scopeSpans": [{"scope": null, "spans": [
        {"traceId": "0102030405060708090a0b0c0d0e0f10", "spanId": "0102030405060708", "parentSpanId": "x", "name": "n", "kind": 2, "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": 1,
        "attributes": [{"key": "d", "value": {"doubleValue": "-Infinity"}}, {"key": "i", "value": {"intValue": "9223372036854775807"}}, {"key": "l", "value": {"kvlistValue": {"values": [{"key": "k", "value": {"arrayValue": {"values": [{"boolValue": false}]}}}]}}}], "status": {"code": 1}}]}]}]}"#;
    let seeds =
        vec![export().encode_to_vec(), json.as_bytes().to_vec(), b"{}".to_vec(), vec![0x1f, 0x8b, 8, 0]];
    target!(seeds, check);
}

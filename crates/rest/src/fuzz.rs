//! Fuzz tests of requests made of arbitrary bytes: each is rejected or read, errors point at existing members, and no value is
//! read that was not sent.

#[path = "../../../proof/testkit/src/fuzzing.rs"]
mod fuzzing;

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts};
use futures::FutureExt as _;
use fuzzing::{parts, target, texts, within_time_limit};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tracewarden_model::Timestamp;
use tracewarden_service::{Attributes, Limit};

use crate::accept::{Representation, negotiate};
use crate::body::parse;
use crate::client::{TrustedProxies, user_agent};
use crate::cookies::HostCookie;
use crate::filter_wire::{WireFilter, raw_filter};
use crate::preconditions::{IfMatch, etag};
use crate::problem::Problem;
use crate::query::Query;
use crate::web;

/// Checks that the members in a problem's pointers exist, if the body is JSON.
fn check_problem(problem: Problem, body: Option<&Value>) {
    let details = serde_json::to_value(problem.details("id")).unwrap();
    assert!(!details["detail"].as_str().unwrap().is_empty(), "{details}");
    for error in details["errors"].as_array().into_iter().flatten() {
        let pointer = error["pointer"].as_str().unwrap();
        assert!(body.is_none_or(|body| body.pointer(pointer).is_some()), "{details}");
    }
}

fn body<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match within_time_limit(|| parse::<T>(bytes)) {
        Ok(read) => Some(read),
        Err(problem) => {
            check_problem(problem, serde_json::from_slice(bytes).ok().as_ref());
            None
        }
    }
}

/// A function that reads an input as one type, and a seed with all members of that type.
type Reader = (fn(&[u8]) -> bool, &'static str);

/// Returns the seeds of some types and further seeds. Each seed must be read as its type: an outdated seed, with a renamed
/// member, would test that name only and no other part of the type.
fn seeds(readers: &[Reader], others: &[&str]) -> Vec<Vec<u8>> {
    for (is_read, seed) in readers {
        assert!(is_read(seed.as_bytes()), "its type does not take {seed}");
    }
    texts(readers.iter().map(|(_, seed)| *seed).chain(others.iter().copied()))
}

fn is_body<T: DeserializeOwned>(bytes: &[u8]) -> bool {
    body::<T>(bytes).is_some()
}

/// Reads a filter and also checks its conditions.
fn is_filter(bytes: &[u8]) -> bool {
    let Some(filter) = body::<WireFilter>(bytes) else { return false };
    raw_filter(Some(filter)).map_err(|problem| check_problem(problem, None)).is_ok()
}

/// Every body that a route accepts.
#[rustfmt::skip]
const BODIES: [Reader; 15] = [
    (is_body::<crate::api_keys::CreateRequest>,
        r#"{"name": "key", "expires_at": "2027-01-01T00:00:00Z", "policy": "ServiceName == \"a\"", "tools": ["svc_query_traces"]}"#),
    (is_body::<crate::impact::PreviewPoliciesRequest>,
        r#"{"role": "dev", "policies": [{"title": "p", "expression": "true", "description": "d"}], "from": "2026-11-21T07:33:26Z", "to": "2026-11-22T07:33:26Z", "seconds": 10, "by": "ServiceName"}"#),
    (is_body::<crate::me::PasswordChange>, r#"{"current_password": "a", "new_password": "b"}"#),
    (is_body::<tracewarden_service::PolicyPreviewRequest>,
        r#"{"role": "dev", "policies": [{"title": "p", "expression": "true"}], "by": "ServiceName", "from": "2026-11-21T07:33:26Z", "to": "2026-11-22T07:33:26Z", "seconds": 1e1}"#),
    (is_body::<crate::policies::CheckRequest>, r#"{"expression": "true", "recent_traces": true}"#),
    (is_body::<crate::policies::EvaluateRequest>,
        r#"{"expression": "true", "user": {"username": "a", "roles": ["dev"], "attributes": {"team": "a"}}, "spans": [{"ServiceName": "a"}]}"#),
    (is_body::<crate::preview::WirePreviewRequest>,
        r#"{"roles": ["dev"], "attributes": {"team": "a"}, "username": "ada"}"#),
    (is_body::<crate::roles::PutRequest>,
        r#"{"policies": [{"title": "p", "expression": "ServiceName == \"a\"", "description": null}]}"#),
    (is_body::<tracewarden_model::Binding>,
        r#"{"database": "otel", "table": "otel_traces", "trace_id": "TraceId", "span_id": "SpanId", "timestamp": "Timestamp", "parent_span_id": "ParentSpanId", "trace_index": "otel_traces_trace_id_ts", "display": {"name": "SpanName", "service": "ServiceName", "duration": "Duration", "status": "StatusCode", "kind": null}}"#),
    (is_body::<crate::schema::FieldsRequest>,
        r#"{"fields": [{"map": "SpanAttributes", "name": "env", "type": "string", "filterable": true, "policy": true}]}"#),
    (is_body::<tracewarden_service::PasswordCredentials>, r#"{"username": "ada", "password": "correct horse"}"#),
    (is_body::<crate::traces::TraceQuery>,
        r#"{"from": "2026-11-21T07:33:26Z", "to": "2026-11-22T07:33:26.5Z", "filter": {"conditions": [{"map": "SpanAttributes", "name": "a", "op": "in", "values": ["x", 1.5, true, -9223372036854775808]}, {"name": "Duration", "op": "gt", "value": 1e3}]}, "limit": 50.0, "cursor": "abc", "columns": ["ServiceName"], "view": "summary"}"#),
    (is_body::<crate::users::CreateRequest>,
        r#"{"username": "ada", "roles": ["dev"], "attributes": {"team": "a", "lead": true, "x": ["a", "b"]}}"#),
    (is_body::<crate::users::ChangeRequest>,
        r#"{"roles": ["dev"], "attributes": {"team": "a"}, "disabled": false}"#),
    (is_filter,
        r#"{"conditions": [{"name": "a", "op": "eq", "value": "\ud83d\ude00"}, {"map": "", "name": "a", "op": "between", "values": [1, 18446744073709551615]}]}"#),
];

#[test]
fn bodies() {
    let check = |bytes: &[u8]| {
        for (is_read, _) in BODIES {
            is_read(bytes);
        }
    };
    target!(seeds(&BODIES, &["[[[[[[]]]]]]", "null"]), check, 300);
}

/// Values in bodies that keep their original text.
#[test]
fn values() {
    let check = |bytes: &[u8]| {
        if let Some(time) = body::<Timestamp>(bytes) {
            assert_eq!(body::<Timestamp>(serde_json::to_string(&time).unwrap().as_bytes()), Some(time));
        }
        if let Some(Limit(limit)) = body(bytes) {
            assert_eq!(body::<Limit>(limit.to_string().as_bytes()), Some(Limit(limit)));
        }
        if let Some(attributes) = body::<Attributes>(bytes) {
            assert_eq!(body::<Attributes>(&serde_json::to_vec(&attributes).unwrap()), Some(attributes));
        }
    };
    let seeds = texts([
        "\"2026-11-21T07:33:26.123456789Z\"",
        "-99999999999999999999",
        "1.5e30",
        "{\"a\": \"x\", \"b\": [\"y\"], \"c\": false}",
    ]);
    target!(seeds, check);
}

/// Returns the headers that can be sent; invalid header values are left out.
fn headers(name: HeaderName, values: &[&[u8]]) -> HeaderMap {
    let values = values.iter().filter_map(|value| HeaderValue::from_bytes(value).ok());
    values.map(|value| (name.clone(), value)).collect()
}

fn request(headers: &HeaderMap, uri: &str) -> Option<http::request::Parts> {
    let mut request = Request::builder().uri(uri).body(()).ok()?;
    headers.clone_into(request.headers_mut());
    Some(request.into_parts().0)
}

#[test]
fn header_values() {
    let check = |input: &[u8]| {
        let sent = parts::<3>(input);
        let text = String::from_utf8_lossy(input);
        let offered = [Representation::Json, Representation::Ndjson, Representation::Yaml];
        let accept = headers(header::ACCEPT, &sent);
        if let Ok(chosen) = within_time_limit(|| negotiate(&accept, &offered)) {
            assert!(offered.contains(&chosen));
            // A list may be one header or several.
            let joined = headers(header::ACCEPT, &[&sent.join(&b","[..])]);
            if accept.len() == sent.len() && !accept.values().any(|value| value.to_str().is_err()) {
                assert_eq!(negotiate(&joined, &offered).ok(), Some(chosen));
            }
        }
        let mut parts = request(&headers(header::IF_MATCH, &sent), "/").unwrap();
        match within_time_limit(|| IfMatch::from_request_parts(&mut parts, &()).now_or_never()).unwrap() {
            Ok(IfMatch(Some(tracewarden_service::IfMatch::Versions(versions)))) => {
                assert!(!versions.is_empty());
                for version in versions {
                    let again = HeaderMap::from_iter(etag(version));
                    assert!(again.len() == 1 && text.contains(version.to_string().as_str()), "{version}");
                }
            }
            Ok(_) => {}
            Err(problem) => check_problem(problem, None),
        }
        for secure in [false, true] {
            let cookie = HostCookie::session(secure);
            let mut cookies = headers(header::COOKIE, &sent);
            if let Some(token) = within_time_limit(|| cookie.read(&cookies)) {
                assert!(!token.is_empty() && text.contains(&format!("{}={token}", cookie.name())));
                // A second cookie of the same name was set by another site.
                let planted = HeaderValue::from_str(&format!("a=b; {}=x", cookie.name())).unwrap();
                cookies.append(header::COOKIE, planted);
                assert_eq!(cookie.read(&cookies), None);
            }
        }
        let if_none_match = headers(header::IF_NONE_MATCH, &sent);
        if within_time_limit(|| web::matches_etag(&if_none_match, "\"0af7\"")) {
            assert!(text.contains("\"0af7\"") || text.contains('*'));
        }
        let encodings = headers(header::ACCEPT_ENCODING, &sent);
        if within_time_limit(|| web::accepts_encoding(&encodings, "br")) {
            assert!(text.to_ascii_lowercase().contains("br") || text.contains('*'));
        }
        let agent = user_agent(&headers(header::USER_AGENT, &sent));
        assert!(agent.is_none_or(|agent| agent.chars().count() <= 256));
        client(&sent);
        let origin = "https://traces.example.com";
        let mut from = headers(header::ORIGIN, &sent[..1]);
        let foreign = !from.is_empty() && !sent[0].eq_ignore_ascii_case(origin.as_bytes());
        let refused =
            |headers: &HeaderMap| crate::cross_site::check(&Method::POST, "/roles", headers, origin).is_err();
        assert_eq!(refused(&from), foreign);
        from.insert("sec-fetch-site", HeaderValue::from_static("cross-site"));
        assert!(refused(&from));
    };
    let seeds = texts([
        "application/json;q=0.5, application/x-ndjson\0*/*;q=NaN\0application/*;q=1e9",
        "\"7\", W/\"9\",\"x\"\0\"18446744073709551616\"\0*",
        "a=b; tracewarden=secret\0__Host-tracewarden=secret; tracewarden=\0x",
        "1.2.3.4, 198.51.100.1:443\0[2001:db8::1]:80, ::ffff:10.0.0.1\x0010.0.0.2",
        "br;q=0.5, gzip\0W/\"0af7\", *\0br;Q=,*;q=0",
        "https://traces.example.com\0HTTPS://traces.example.com\0null",
    ]);
    target!(seeds, check);
}

/// Behind a proxy, the client is the proxy or an address that `X-Forwarded-For` contains; without a proxy it is the peer.
fn client(forwarded: &[&[u8]]) {
    let trusted = TrustedProxies::from(vec!["10.0.0.0/8".parse().unwrap()]);
    let found = |peer: [u8; 4]| {
        let mut extensions = Extensions::new();
        extensions.insert(ConnectInfo(SocketAddr::from((peer, 1))));
        let headers = headers(HeaderName::from_static("x-forwarded-for"), forwarded);
        within_time_limit(|| trusted.client(&extensions, &headers)).unwrap()
    };
    assert_eq!(found([203, 0, 113, 9]), IpAddr::from([203, 0, 113, 9]));
    let client = found([10, 0, 0, 1]);
    if client != IpAddr::from([10, 0, 0, 1]) {
        let named = forwarded.iter().flat_map(|value| value.split(|byte| *byte == b','));
        let texts: Vec<String> = named.map(|text| String::from_utf8_lossy(text).into_owned()).collect();
        let address = |text: &str| {
            let text = text.trim();
            let alone = text.parse::<IpAddr>().ok();
            let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')?.parse().ok());
            alone.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip())).or(bare)
        };
        assert!(texts.iter().any(|text| address(text).is_some_and(|found| found.to_canonical() == client)));
    }
}

fn is_query<T: DeserializeOwned>(input: &[u8]) -> bool {
    let uri = format!("/x?{}", String::from_utf8_lossy(input));
    let Some(mut parts) = request(&HeaderMap::new(), &uri) else { return false };
    let read = within_time_limit(|| Query::<T>::from_request_parts(&mut parts, &()).now_or_never()).unwrap();
    if read.is_ok() {
        assert!(!parts.uri.query().unwrap_or_default().contains("%00"));
    }
    read.map_err(|problem| check_problem(problem, None)).is_ok()
}

/// Query parameters of every route that has them.
#[rustfmt::skip]
const QUERIES: [Reader; 7] = [
    (is_query::<tracewarden_service::AuditQuery>,
        "from=2026-11-21T07%3A33%3A26Z&to=2026-11-22T07%3A33%3A26Z&actor=ada&key=key_1&target=4bf92f35&action=user.create&outcome=not_found&cursor=abc&limit=99999999999999999999"),
    (is_query::<crate::explain::ExplainQuery>, "user=ada"),
    (is_query::<tracewarden_service::FieldValuesRequest>,
        "ref=SpanAttributes%5B%22a%2Eb%22%5D&prefix=%C3%A9&from=2026-11-21T07:33:26Z&to=2026-11-22T07:33:26Z&limit=-1"),
    (is_query::<crate::model::PlanRequest>, "seconds=10"),
    (is_query::<crate::model::HistoryRequest>, "cursor=abc&limit=20"),
    (is_query::<crate::traces::Hints>, "from=2026-11-21T07:33:26Z&to=2026-11-22T07:33:26Z"),
    (is_query::<crate::users::ListRequest>, "cursor=a+b&limit=7"),
];

#[test]
fn queries() {
    let check = |input: &[u8]| {
        for (is_read, _) in QUERIES {
            is_read(input);
        }
    };
    target!(seeds(&QUERIES, &["user=ada&user=bob", "user=a+b%00&limit=true&from=yesterday"]), check);
}

//! Request bodies: JSON, and YAML for model files, with limits on size, depth and duration. Errors point at the invalid member.

use std::sync::LazyLock;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use http::{HeaderMap, Method, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use tracewarden_documents::{Document, Fault, SourcePosition, StrictDeserializer, pointer};
use tracewarden_service::Limiter;

use crate::code::Code;
use crate::problem::Problem;

/// Maximum size of a body in bytes. Larger bodies are rejected.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Maximum size in bytes of a body on routes that anonymous clients may call. It is ample for a name and a password.
const MAX_ANONYMOUS_BODY_BYTES: usize = 16 * 1024;

/// Maximum size of a model file in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 8 * MAX_BODY_BYTES;

/// Bytes of an oversized body that are read and discarded: a client whose connection is closed while it writes never reads the
/// reason.
const MAX_DISCARDED_BYTES: usize = 16 * MAX_BODY_BYTES;

/// Time-out for receiving a body, so that slow senders do not accumulate.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// Number of model files that this process reads or writes at the same time. Each can occupy a processor for seconds and use
/// hundreds of megabytes.
const MAX_CONCURRENT_DOCUMENTS: usize = 2;

static DOCUMENTS: LazyLock<Limiter> = LazyLock::new(|| Limiter::total(MAX_CONCURRENT_DOCUMENTS));

/// Size in bytes up to which a JSON body is parsed on the worker thread, in well under a millisecond. A larger one is parsed on a
/// blocking thread.
const MAX_INLINE_BYTES: usize = 32 * 1024;

/// Limits how many large JSON bodies are parsed at the same time.
static LARGE_JSON: LazyLock<Limiter> = LazyLock::new(|| Limiter::total(2));

/// The kind of body that a route accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyLimit {
    /// JSON, up to [`MAX_ANONYMOUS_BODY_BYTES`].
    AnonymousJson,
    /// JSON, up to [`MAX_BODY_BYTES`].
    Json,
    /// A model file: JSON or YAML, up to [`MAX_DOCUMENT_BYTES`].
    ModelFile,
    /// A form, up to [`MAX_ANONYMOUS_BODY_BYTES`]: only where a protocol requires it, and the form itself proves who sent it.
    Form,
}

impl BodyLimit {
    /// Maximum size of the body in bytes.
    pub(crate) fn limit(self) -> usize {
        match self {
            Self::AnonymousJson | Self::Form => MAX_ANONYMOUS_BODY_BYTES,
            Self::Json => MAX_BODY_BYTES,
            Self::ModelFile => MAX_DOCUMENT_BYTES,
        }
    }
}

/// Notation of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyFormat {
    Json,
    Yaml,
    Form,
}

/// A JSON body, deserialised into `T`. `T` rejects unknown members.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + Send + 'static, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let body_limit = request.extensions().get::<BodyLimit>().copied().unwrap_or(BodyLimit::AnonymousJson);
        body_format(request.headers(), body_limit)?;
        let bytes = read_with_deadline(request.into_body(), body_limit.limit()).await?;
        if bytes.len() <= MAX_INLINE_BYTES {
            return parse(&bytes).map(Json);
        }
        LARGE_JSON.run(move || parse(&bytes)).await?.map(Json)
    }
}

/// The text of a model file, which is JSON or YAML.
pub(crate) struct ModelDocument {
    text: String,
    is_yaml: bool,
}

impl<S: Send + Sync> FromRequest<S> for ModelDocument {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let is_yaml = body_format(request.headers(), BodyLimit::ModelFile)? == BodyFormat::Yaml;
        let bytes = read_with_deadline(request.into_body(), MAX_DOCUMENT_BYTES).await?;
        let text = String::from_utf8(bytes).map_err(|_| Problem::invalid("", "the body is not UTF-8"))?;
        Ok(Self { text, is_yaml })
    }
}

impl ModelDocument {
    /// Parses the text and passes the document to `make`, under one of the [`MAX_CONCURRENT_DOCUMENTS`] permits.
    ///
    /// # Errors
    /// If the text cannot be parsed, and every error of `make`.
    pub(crate) async fn read<T: Send + 'static>(
        self,
        make: impl FnOnce(&Document) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        with_document_permit(move || {
            let read =
                if self.is_yaml { Document::read_yaml(&self.text) } else { Document::read_json(&self.text) };
            make(&read.map_err(|fault| unreadable(&fault))?)
        })
        .await?
    }
}

/// Runs work on a model file on a blocking thread, under one of the [`MAX_CONCURRENT_DOCUMENTS`] permits. There are no more worker
/// threads than processors, and a few such files on them would delay all other requests.
///
/// # Errors
/// When the work panicked.
pub(crate) async fn with_document_permit<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    Ok(DOCUMENTS.run(work).await?)
}

/// Returns the problem for a fault in a document, with line and column, because model files are also written by hand.
pub(crate) fn unreadable(fault: &Fault) -> Problem {
    let SourcePosition { line, column } = fault.position;
    Problem::invalid(fault.pointer.as_str(), format!("line {line}, column {column}: {}", fault.message))
}

/// Reads the whole body within the size limit and the time-out.
///
/// # Errors
/// `payload_too_large`, `request_timeout`, or `invalid_request` for a body that ends prematurely.
pub(crate) async fn read_with_deadline(body: Body, limit: usize) -> Result<Vec<u8>, Problem> {
    tokio::time::timeout(BODY_DEADLINE, read(body, limit))
        .await
        .unwrap_or_else(|_| Err(Problem::new(Code::RequestTimeout, "the body did not arrive in time")))
}

/// Reads the whole body within the size limit.
async fn read(mut body: Body, limit: usize) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::new(Code::InvalidRequest, "the body ended early"))?;
        let Ok(data) = frame.into_data() else { continue };
        received += data.len();
        if received <= limit {
            bytes.extend_from_slice(&data);
        } else if received > MAX_DISCARDED_BYTES {
            break;
        } else {
            bytes = Vec::new();
        }
    }
    if received <= limit {
        return Ok(bytes);
    }
    Err(Problem::new(Code::PayloadTooLarge, format!("bodies are limited to {limit} bytes here")))
}

/// Rejects a state-changing request whose body has a media type that the route does not accept, also when the route reads no
/// body: a form submitted by another site must not succeed because the route needs no input.
pub(crate) fn check_content_type(
    method: &Method,
    headers: &HeaderMap,
    body: &Body,
    body_limit: BodyLimit,
) -> Result<(), Problem> {
    let sends_nothing = body.is_end_stream() && !headers.contains_key(header::CONTENT_TYPE);
    if method.is_safe() || sends_nothing { Ok(()) } else { body_format(headers, body_limit).map(drop) }
}

/// Returns the notation that `Content-Type` declares, if the route accepts it. Another site can send a form, or text that happens
/// to be JSON, without a CORS preflight. So the body must be declared as JSON, or as YAML, for which browsers send a preflight
/// too.
fn body_format(headers: &HeaderMap, body_limit: BodyLimit) -> Result<BodyFormat, Problem> {
    let unsupported = || {
        let detail = match body_limit {
            BodyLimit::AnonymousJson | BodyLimit::Json => "send the body as `Content-Type: application/json`",
            BodyLimit::ModelFile => "send the body as `Content-Type: application/yaml` or `application/json`",
            BodyLimit::Form => "send the body as `Content-Type: application/x-www-form-urlencoded`",
        };
        Problem::new(Code::UnsupportedMediaType, detail)
    };
    let value = headers.get(header::CONTENT_TYPE).ok_or_else(unsupported)?;
    let text = value.to_str().map_err(|_| unsupported())?;
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let charset = parameters.trim().to_ascii_lowercase().replace('"', "");
    let is = |media_type: &str| essence.trim().eq_ignore_ascii_case(media_type);
    let body_format = match body_limit {
        BodyLimit::Form if is("application/x-www-form-urlencoded") => BodyFormat::Form,
        BodyLimit::Form => return Err(unsupported()),
        _ if is("application/json") => BodyFormat::Json,
        BodyLimit::ModelFile if is("application/yaml") => BodyFormat::Yaml,
        _ => return Err(unsupported()),
    };
    if !["", "charset=utf-8"].contains(&&*charset) {
        return Err(unsupported());
    }
    match headers.get(header::CONTENT_ENCODING) {
        None => Ok(body_format),
        Some(encoding) if encoding == "identity" => Ok(body_format),
        Some(_) => Err(Problem::new(Code::UnsupportedMediaType, "send the body without `Content-Encoding`")),
    }
}

/// Parses JSON. The parser is recursive and rejects more than 128 levels. It skips a value that is kept as written (`RawValue`)
/// without recursion: such a value may have any depth, and code that uses it must not recurse into it.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(StrictDeserializer(&mut deserializer)).map_err(|error| {
        let pointer = pointer(error.path());
        let inner = error.into_inner();
        let detail = if inner.is_data() {
            without_position(&inner.to_string())
        } else {
            format!("the body is not JSON: {inner}")
        };
        Problem::invalid(pointer, detail)
    })?;
    deserializer.end().map_err(|error| Problem::invalid("", format!("the body is not JSON: {error}")))?;
    Ok(value)
}

/// Removes the position that the parser appends to its messages; the pointer already gives it.
fn without_position(message: &str) -> String {
    message.rsplit_once(" at line ").map_or(message, |(message, _)| message).to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use serde::{Deserialize, Deserializer};
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only the errors matter")]
    struct Outer {
        name: String,
        list: Option<Vec<Inner>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only the errors matter")]
    struct Inner {
        count: u32,
        value: Option<Box<RawValue>>,
    }

    fn refusal(text: &str) -> String {
        let problem = parse::<Outer>(text.as_bytes()).unwrap_err();
        format!("{problem:?}").split_once("errors: ").unwrap().1.to_owned()
    }

    #[track_caller]
    fn check(text: &str, pointer: &str, detail: &str) {
        let refusal = refusal(text);
        assert!(refusal.contains(&format!("pointer: {pointer:?}")), "{refusal}");
        assert!(refusal.contains(detail), "{refusal}");
    }

    #[test]
    fn errors_point_at_the_member() {
        check(r#"{"name": 1}"#, "/name", "invalid type: integer `1`, expected a string");
        check(r#"{"name": "a", "list": [{"count": 1}, {"count": -1}]}"#, "/list/1/count", "-1");
        check(r#"{"name": "a", "list": [{"count": 1, "x": 1}]}"#, "/list/0/x", "unknown field `x`");
        check(r#"{"nam": "a"}"#, "/nam", "unknown field `nam`, expected `name` or `list`");
        check("{}", "", "missing field `name`");
        check("{", "", "not JSON");
        check("{\"name\": \"a\"} x", "", "");
    }

    #[test]
    fn an_integer_may_be_written_with_a_fraction_or_an_exponent() {
        let count = |text: &str| {
            parse::<Outer>(format!(r#"{{"name": "", "list": [{{"count": {text}}}]}}"#).as_bytes())
        };
        for (text, number) in
            [("30", 30), ("30.0", 30), ("3e1", 30), ("0.0", 0), ("-0.0", 0), ("4294967295.0", u32::MAX)]
        {
            assert_eq!(count(text).unwrap().list.unwrap()[0].count, number, "{text}");
        }
        for text in [
            "30.5",
            "-1.0",
            "4294967296.0",
            "9007199254740993.0",
            "1e19",
            "1e300",
            "true",
            "null",
            "\"30\"",
            "[30]",
            "{}",
        ] {
            check(&format!(r#"{{"name": "", "list": [{{"count": {text}}}]}}"#), "/list/0/count", "u32");
        }
    }

    #[test]
    fn an_array_is_not_an_object() {
        let refused = |text: &str, pointer: &str| {
            check(text, pointer, "invalid type: sequence, expected an object");
            assert!(!refusal(text).contains("struct"), "{}", refusal(text));
        };
        refused(r#"["a", null]"#, "");
        refused(r#"{"name": "a", "list": [[1, null]]}"#, "/list/0");
        refused("[", "");
        check(r#""a""#, "", "invalid type: string \\\"a\\\", expected an object");
    }

    #[test]
    fn an_enum_variant_is_a_string() {
        #[derive(Debug, Deserialize, PartialEq)]
        #[serde(rename_all = "snake_case")]
        enum TestEnum {
            OneOf,
        }
        assert_eq!(parse::<Vec<TestEnum>>(br#"["one_of"]"#).unwrap(), [TestEnum::OneOf]);
        let refused = |text: &str| format!("{:?}", parse::<Vec<TestEnum>>(text.as_bytes()).unwrap_err());
        assert!(refused(r#"[{"one_of": null}]"#).contains("invalid type: map, expected a string"));
        assert!(refused("[1]").contains("invalid type: integer `1`, expected a string"));
        assert!(refused(r#"["none"]"#).contains("unknown variant `none`, expected `one_of`"));
    }

    /// The test runs on one thread: work that blocks it would stop all other tasks.
    #[tokio::test]
    async fn work_on_files_blocks_no_request_threads_and_is_queued() {
        let begin = |begun: mpsc::Sender<()>| {
            let (end, ended) = mpsc::channel::<()>();
            let work = tokio::spawn(with_document_permit(move || {
                begun.send(()).unwrap();
                ended.recv_timeout(Duration::from_secs(60)).is_ok()
            }));
            (end, work)
        };
        let (begun, beginnings) = mpsc::channel();
        let mut works: Vec<_> = (0..=MAX_CONCURRENT_DOCUMENTS).map(|_| begin(begun.clone())).collect();
        // Work that may begin has 30 seconds for it; a further 200 ms show that no more begins.
        let begun_so_far = async |expected: usize| {
            let (waiting_since, mut started) = (Instant::now(), 0);
            while started < expected && waiting_since.elapsed() < Duration::from_secs(30) {
                tokio::time::sleep(Duration::from_millis(5)).await;
                started += beginnings.try_iter().count();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            started + beginnings.try_iter().count()
        };
        assert_eq!(begun_so_far(MAX_CONCURRENT_DOCUMENTS).await, MAX_CONCURRENT_DOCUMENTS);
        // The client disconnects. The work continues and keeps its permit.
        let (left, work) = works.remove(0);
        work.abort();
        assert!(work.await.unwrap_err().is_cancelled());
        assert_eq!(begun_so_far(0).await, 0);
        left.send(()).unwrap();
        assert_eq!(begun_so_far(1).await, 1);
        for (end, work) in works {
            end.send(()).unwrap();
            assert!(work.await.unwrap().unwrap());
        }
    }

    /// With one worker thread, parsing a large body on it would delay every other request.
    #[tokio::test]
    async fn a_large_body_is_parsed_on_another_thread() {
        static WORKER: std::sync::OnceLock<std::thread::ThreadId> = std::sync::OnceLock::new();
        #[derive(Debug)]
        struct ParsedOnOtherThread(bool);
        impl<'de> Deserialize<'de> for ParsedOnOtherThread {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?;
                Ok(Self(Some(&std::thread::current().id()) != WORKER.get()))
            }
        }
        WORKER.get_or_init(|| std::thread::current().id());
        for (length, expected) in
            [(10, false), (MAX_INLINE_BYTES - 2, false), (MAX_INLINE_BYTES, true), (1 << 20, true)]
        {
            let mut request = Request::new(Body::from(format!("{:?}", "x".repeat(length))));
            request.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
            request.extensions_mut().insert(BodyLimit::ModelFile);
            let Json(ParsedOnOtherThread(on_other_thread)) = Json::from_request(request, &()).await.unwrap();
            assert_eq!(on_other_thread, expected, "{length}");
        }
    }

    #[test]
    fn only_raw_values_may_be_deeply_nested() {
        let outer: Outer = parse(br#"{"name": "a", "list": [{"count": 1, "value": 1e999}]}"#).unwrap();
        assert_eq!(outer.list.unwrap()[0].value.as_ref().unwrap().get(), "1e999");
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let refused = format!("{:?}", parse::<serde_json::Value>(deep.as_bytes()).unwrap_err());
        assert!(refused.contains("recursion limit exceeded"), "{refused}");
        let outer = format!(r#"{{"name": "a", "list": [{{"count": 1, "value": {deep}}}]}}"#);
        let outer: Outer = parse(outer.as_bytes()).unwrap();
        assert!(outer.list.unwrap()[0].value.as_ref().unwrap().get() == deep);
    }
}

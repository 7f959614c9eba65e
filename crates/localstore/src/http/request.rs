//! Parses the parameters, settings and headers of a request.

use axum::http::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode;

use super::compression::Encoding;
use crate::error::{EngineError, code};

/// A request without its body and credentials.
#[derive(Debug, Default)]
pub struct Request {
    /// `query` of the URL or of a form, to which the body is appended.
    pub query: Vec<u8>,
    pub query_id: String,
    /// `database` or `X-ClickHouse-Database`.
    pub database: Option<String>,
    /// The output format if the text of the query names none.
    pub default_format: Option<String>,
    pub params: Vec<(String, Vec<u8>)>,
    /// All other parameters: settings, with `readonly` last.
    pub settings: Vec<(String, Vec<u8>)>,
    pub wait_end_of_query: bool,
    pub content_encoding: Encoding,
    /// Whether the body contains ClickHouse's own blocks (`decompress=1`).
    pub native_blocks: bool,
    /// Whether the response consists of ClickHouse's own blocks (`compress=1`).
    pub compress: bool,
}

pub type Parameter = (String, Vec<u8>);

/// Returns the parameters of a URL, in order. Names that are not UTF-8 become unknown settings.
pub fn url_parameters(uri: &Uri) -> Vec<Parameter> {
    let decode = |text: &str| -> Vec<u8> { percent_decode(text.replace('+', " ").as_bytes()).collect() };
    uri.query()
        .unwrap_or_default()
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (String::from_utf8_lossy(&decode(name)).into_owned(), decode(value))
        })
        .collect()
}

impl Request {
    /// Assigns the parameters. Errors are those of ClickHouse.
    pub fn read(
        method: &Method,
        headers: &HeaderMap,
        parameters: Vec<Parameter>,
    ) -> Result<Self, EngineError> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut request = Self {
            database: header("x-clickhouse-database"),
            default_format: header("x-clickhouse-format"),
            ..Self::default()
        };
        for (name, value) in parameters {
            let text = || String::from_utf8_lossy(&value).into_owned();
            match name.as_str() {
                // All `query` fields of a form are concatenated, as in ClickHouse.
                "query" => request.query.extend(value),
                "query_id" => request.query_id = text(),
                "database" => request.database = Some(text()),
                "default_format" => request.default_format = Some(text()),
                "wait_end_of_query" => request.wait_end_of_query = is_on(&value),
                "compress" => request.compress = is_on(&value),
                "decompress" => request.native_blocks = is_on(&value),
                // Credentials were checked before. The protocol version only adds details of blocks that clients do not
                // need. Clients send the id of a session with every request.
                "user"
                | "password"
                | "quota_key"
                | "client_protocol_version"
                | "session_id"
                | "session_timeout"
                | "buffer_size"
                | "stacktrace"
                | "close_session"
                | "http_method" => {}
                _ => match name.strip_prefix("param_") {
                    Some(parameter) => request.params.push((parameter.to_owned(), value)),
                    None => request.settings.push((checked_setting_name(name)?, value)),
                },
            }
        }
        request.database = request.database.filter(|database| !database.is_empty());
        request.default_format = request.default_format.filter(|format| !format.is_empty());
        if let Some(format) = &request.default_format
            && !format.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            return Err(EngineError::new(code::UNKNOWN_FORMAT, format_args!("Unknown format {format}")));
        }
        if request.query_id.is_empty() {
            request.query_id = header("x-clickhouse-query-id")
                .filter(|id| !id.is_empty())
                .unwrap_or_else(crate::entropy::random_name);
        }
        if request.query_id.len() > 256 || request.query_id.chars().any(char::is_control) {
            return Err(EngineError::new(
                code::BAD_ARGUMENTS,
                "The query id is too long or holds control characters",
            ));
        }
        if *method == Method::GET && request.setting("readonly").is_none_or(|value| value == b"0") {
            request.settings.push(("readonly".to_owned(), b"2".to_vec()));
        }
        // `readonly` is last, because it forbids changing the others. If it occurs several times, the last value applies,
        // as for any other setting.
        request.settings.sort_by_key(|(name, _)| name == "readonly");
        let name = header("content-encoding").unwrap_or_default();
        request.content_encoding = Encoding::named(&name).ok_or_else(|| {
            EngineError::new(code::NOT_IMPLEMENTED, format_args!("Unknown compression method: {name}"))
        })?;
        Ok(request)
    }

    /// Returns the value of a setting of this request.
    pub fn setting(&self, name: &str) -> Option<&[u8]> {
        self.settings.iter().rev().find(|(found, _)| found == name).map(|(_, value)| value.as_slice())
    }

    /// Whether the query is cancelled when its client disconnects.
    pub fn cancels_on_disconnect(&self) -> bool {
        let reads = self.setting("readonly").is_some_and(|value| matches!(value, b"1" | b"2"));
        reads && self.setting("cancel_http_readonly_queries_on_client_close").is_some_and(is_on)
    }
}

fn is_on(value: &[u8]) -> bool {
    matches!(value, b"1" | b"true")
}

/// Checks the name of a setting. It becomes part of a statement, so it must be a plain word; ClickHouse has no others.
fn checked_setting_name(name: String) -> Result<String, EngineError> {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
        && name.len() <= 128;
    if plain {
        return Ok(name);
    }
    let shown: String = name.chars().take(128).flat_map(char::escape_default).collect();
    Err(EngineError::new(code::UNKNOWN_SETTING, format_args!("Unknown setting '{shown}'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Request, EngineError> {
        let uri: Uri = format!("http://localhost/?{query}").parse().unwrap();
        Request::read(&Method::POST, &HeaderMap::new(), url_parameters(&uri))
    }

    #[test]
    fn parameters_are_sorted_and_decoded() {
        let request =
            read("readonly=1&max_threads=2&param_a=b%27+c&query=SELECT%201&query_id=q&database=d").unwrap();
        assert_eq!(request.query, b"SELECT 1");
        assert_eq!(request.params, [("a".to_owned(), b"b' c".to_vec())]);
        assert_eq!(
            request.settings,
            [("max_threads".to_owned(), b"2".to_vec()), ("readonly".to_owned(), b"1".to_vec())]
        );
        assert_eq!((request.query_id.as_str(), request.database.as_deref()), ("q", Some("d")));
    }

    #[test]
    fn names_that_are_no_words_are_unknown_settings() {
        for name in ["a%20b", "x%3D1%2C%20readonly", "1a", "%60a%60", "", "a.b", "%27"] {
            let result = read(&format!("{name}=1"));
            assert!(result.is_err_and(|error| error.code == code::UNKNOWN_SETTING.0), "{name}");
        }
    }
}

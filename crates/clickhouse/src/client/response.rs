//! Answers: their first bytes, until which another endpoint may still get the statement, and all rows of a small one.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Version;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use tokio::task::JoinError;

use super::failure::{AttemptError, text};
use super::quota::Quota;
use super::response_memory::ResponseMemory;
use crate::client::cost::Cost;
use crate::{ClickHouseError, Result};

/// Maximum size of the kept text of an error.
const MAX_ERROR_BYTES: usize = 16 * 1024;
/// Maximum size of an answer that is collected rather than streamed, unless the caller sets another one.
pub(super) const MAX_COLLECTED_BYTES: usize = 256 * 1024 * 1024;

/// Answers above this size are parsed on a blocking thread: a worker thread would delay every other request.
const MAX_INLINE_BYTES: usize = 64 * 1024;
/// An answer that ends with the connection is refused: a truncated one would look complete. A trace that has grown since it
/// was selected could then lose as many spans as were added, unnoticed.
const UNFRAMED_RESPONSE: &str = "the response does not declare its length, so a truncated response could not be \
                      detected; a proxy in front of ClickHouse must forward responses in HTTP/1.1 chunks or \
                      by HTTP/2";

/// An answer whose first bytes have arrived.
pub(super) struct QueryResponse {
    /// `None` when it is empty.
    first: Option<Bytes>,
    response: reqwest::Response,
    /// When they arrived.
    pub(super) at: Instant,
}

impl QueryResponse {
    /// Reads up to the first bytes of rows, or all of an error.
    pub(super) async fn from_http(mut response: reqwest::Response) -> Result<Self, AttemptError> {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let code = header("X-ClickHouse-Exception-Code").and_then(|code| code.parse::<i32>().ok());
        if response.status().is_success() && code.is_none() {
            let is_framed = match header("Transfer-Encoding") {
                // With any other coding, the body ends when the connection closes, even with a `Content-Length`.
                Some(coding) => coding.trim_end().to_ascii_lowercase().ends_with("chunked"),
                None => header("Content-Length").is_some(),
            };
            if !is_framed && response.version() <= Version::HTTP_11 {
                return Err(AttemptError::Final(ClickHouseError::failed(UNFRAMED_RESPONSE)));
            }
            let first = response.chunk().await.map_err(|error| AttemptError::from_transport(&error))?;
            return Ok(Self { first, response, at: Instant::now() });
        }
        let status = response.status();
        let owned = |name: &str| header(name).map(str::to_owned);
        let (date, timezone) = (owned("Date"), owned("X-ClickHouse-Timezone"));
        let mut message = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            message.extend_from_slice(&chunk);
            if message.len() > MAX_ERROR_BYTES {
                message.truncate(MAX_ERROR_BYTES);
                break;
            }
        }
        let message = format!("status {status}: {}", String::from_utf8_lossy(&message));
        let quota = Quota { date: date.as_deref(), timezone: timezone.as_deref() };
        Err(AttemptError::from_response(status.as_u16(), code, message, quota))
    }

    /// Returns the cost of the statement when the answer began. It is the whole cost if the answer began only when it was
    /// complete.
    pub(super) fn cost(&self, waited: Duration) -> Option<Cost> {
        let summary = self.response.headers().get("X-ClickHouse-Summary")?;
        Cost::from_summary(summary.to_str().ok()?, waited)
    }

    /// Returns the next bytes. An aborted connection is an error: ClickHouse ends a failed answer without its final chunk.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => {
                self.response.chunk().await.map_err(|error| ClickHouseError::IncompleteResponse(text(&error)))
            }
        }
    }

    /// Returns all rows of an answer in the format [`COLLECTED_FORMAT`](super::request::COLLECTED_FORMAT), of at most this number of bytes.
    pub(super) async fn rows<T: DeserializeOwned + Send + 'static>(
        mut self,
        max_bytes: usize,
    ) -> Result<Vec<T>> {
        let mut body = Vec::new();
        let mut memory = ResponseMemory::default();
        let aborted = loop {
            match self.next().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break None,
                Err(aborted) => break Some(aborted),
            }
            if body.len() > max_bytes {
                return Err(ClickHouseError::TooLarge(format!(
                    "the response has more than {max_bytes} bytes"
                )));
            }
            memory.reserve(body.len())?;
        };
        let rows = if body.len() <= MAX_INLINE_BYTES {
            parse_rows(&body)
        } else {
            let parse = move || {
                let rows = parse_rows(&body);
                // Dropped here, because the blocking task goes on when its client disconnects.
                drop((body, memory));
                rows
            };
            // Without the error itself: it quotes the panic, which may quote the answer.
            let died =
                |_: JoinError| ClickHouseError::Internal("a thread that parsed a response died".to_owned());
            tokio::task::spawn_blocking(parse).await.map_err(died).flatten()
        };
        match (rows, aborted) {
            (Ok(_) | Err(ClickHouseError::IncompleteResponse(_)), Some(aborted)) => Err(aborted),
            (rows, _) => rows,
        }
    }
}

/// A whole answer. The number of rows comes after them: a proxy that truncates the answer cannot make it look complete.
#[derive(Deserialize)]
struct JsonCompactResponse<T> {
    data: Vec<T>,
    rows: u64,
    /// The error of a statement that failed, within an otherwise complete document. Versions from 23.9 write it, until
    /// `http_write_exception_in_output_format` was off by default: they ignore the settings of formats that come with a form
    /// (ClickHouse pull request 85570). The rows are those written before the failure.
    #[serde(default)]
    exception: Option<String>,
}

/// Deserializes the `UInt8` of a condition.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    u8::deserialize(deserializer).map(|flag| flag == 1)
}

pub(crate) fn parse_rows<T: DeserializeOwned>(body: &[u8]) -> Result<Vec<T>> {
    let short =
        |cause: &str| ClickHouseError::IncompleteResponse(format!("the response ended early: {cause}"));
    match serde_json::from_slice::<JsonCompactResponse<T>>(body) {
        Ok(JsonCompactResponse { exception: Some(exception), .. }) => {
            let unnamed = || ClickHouseError::failed("the statement failed");
            Err(late_exception(exception.as_bytes()).unwrap_or_else(unnamed))
        }
        Ok(JsonCompactResponse { data, rows, .. }) if data.len() as u64 == rows => Ok(data),
        Ok(JsonCompactResponse { data, rows, .. }) => Err(short(&format!("{} rows of {rows}", data.len()))),
        Err(error) if error.is_data() => Err(unexpected_format(&error)),
        Err(error) => {
            let rest = offset(body, error.line(), error.column());
            // Half a number is at the end, too, but does not parse.
            if error.is_eof() || rest + 1 >= body.len() {
                return Err(short("it is cut off"));
            }
            // Everything up to here is valid JSON, so span data cannot be mistaken for an error message.
            let rest = body.get(rest..).unwrap_or_default();
            Err(late_exception(rest).unwrap_or_else(|| unexpected_format(&error)))
        }
    }
}

/// Without the error's own text: it quotes values.
fn unexpected_format(error: &serde_json::Error) -> ClickHouseError {
    ClickHouseError::failed(format!(
        "an unexpected answer, at line {}, column {}",
        error.line(),
        error.column()
    ))
}

/// Returns the offset of a line and a column, which both count from 1.
fn offset(body: &[u8], line: usize, column: usize) -> usize {
    let begin = match line.checked_sub(2) {
        None => 0,
        Some(before) => memchr::memchr_iter(b'\n', body).nth(before).map_or(body.len(), |end| end + 1),
    };
    begin + column.saturating_sub(1)
}

/// Returns the error of a statement that failed after its answer had begun. Servers write it after the rows: in a block of
/// its own, or, in older versions, as plain text.
fn late_exception(rest: &[u8]) -> Option<ClickHouseError> {
    let at = memchr::memmem::find(rest, b"Code: ")?;
    let message: String =
        String::from_utf8_lossy(rest.get(at..)?).lines().next().unwrap_or_default().to_owned();
    let code = message.strip_prefix("Code: ")?.split('.').next()?.parse().ok()?;
    Some(ClickHouseError::from_exception(Some(code), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As ClickHouse writes it.
    const WHOLE: &str = "{\n\t\"meta\":\n\t[\n\t\t{\n\t\t\t\"name\": \"n\",\n\t\t\t\"type\": \"UInt8\"\n\t\t}\n\t],\n\n\t\"data\":\n\t[\n\
        \t\t[1, \"Code: 159. DB::Exception: }\\n\"],\n\t\t[2, \"\"]\n\t],\n\n\t\"rows\": 2,\n\n\t\"statistics\":\n\t{\n\t\t\"elapsed\": 0.1\n\t}\n}\n";

    fn rows(body: &str) -> Result<Vec<(u8, String)>> {
        parse_rows(body.as_bytes())
    }

    #[test]
    fn truncated_answers_are_refused_at_any_length() {
        assert_eq!(rows(WHOLE).unwrap().len(), 2);
        for end in 0..WHOLE.trim_end().len() {
            let rows = rows(&WHOLE[..end]);
            assert!(matches!(rows, Err(ClickHouseError::IncompleteResponse(_))), "{end}: {rows:?}");
        }
        let fewer = WHOLE.replace(",\n\t\t[2, \"\"]", "");
        assert!(matches!(rows(&fewer), Err(ClickHouseError::IncompleteResponse(_))), "{fewer}");
    }

    #[test]
    fn exceptions_after_rows_are_recognized() {
        let tagged = "\r\n__exception__\r\nabc\r\nCode: 159. DB::Exception: Timeout exceeded\n42 abc\r\n__exception__\r\n";
        let untagged = "Code: 159. DB::Exception: Timeout exceeded: elapsed 1.0 seconds (TIMEOUT_EXCEEDED) (version 24.3)\n";
        let behind = [
            WHOLE.find("\"data\"").unwrap(),
            WHOLE.find(",\n\t\t[2").unwrap(),
            WHOLE.find("\"rows\"").unwrap(),
            WHOLE.len(),
        ];
        for at in behind {
            for block in [tagged, untagged] {
                let body = format!("{}{block}", &WHOLE[..at]);
                assert!(matches!(rows(&body), Err(ClickHouseError::Timeout(_))), "{body}: {:?}", rows(&body));
            }
        }
        // Within a complete document.
        for (exception, expected) in [
            ("Code: 159. DB::Exception: Timeout exceeded", ClickHouseError::Timeout(String::new())),
            ("not an exception", ClickHouseError::Exception { code: None, message: String::new() }),
        ] {
            let body =
                WHOLE.replace("\"rows\": 2", &format!("\"rows\": 2,\n\n\t\"exception\": \"{exception}\""));
            let failed = rows(&body).unwrap_err();
            assert_eq!(
                std::mem::discriminant(&failed),
                std::mem::discriminant(&expected),
                "{body}: {failed}"
            );
        }
        // Inside of a string, it is an error of some kind, too.
        let inside = format!("{}{untagged}", &WHOLE[..WHOLE.find("DB::Exception").unwrap()]);
        rows(&inside).unwrap_err();
    }

    #[test]
    fn errors_about_unexpected_answers_hide_their_content() {
        let error = rows(&WHOLE.replace("[2, \"\"]", "[\"a secret\", \"\"]")).unwrap_err();
        assert!(
            matches!(&error, ClickHouseError::Exception { message, .. } if !message.contains("secret")),
            "{error}"
        );
    }
}

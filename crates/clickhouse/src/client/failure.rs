//! Classifies the failure of one attempt: either the statement is at fault, or the endpoint, and another endpoint may
//! succeed.
//!
//! Reads may be retried as long as no part of their answer was passed on. They are not retried where the statement is
//! at fault: after a time or memory limit, the next endpoint would work as long and fail as well, and after a failed
//! authentication, retries only lock the user out.

use url::Url;

use super::quota::Quota;
use crate::ClickHouseError;

/// Why an attempt gave no answer.
#[derive(Debug)]
pub(super) enum AttemptError {
    /// No connection: refused, no such name, no TLS, no answer to connecting.
    Unreachable(String),
    /// The connection broke, or a proxy in between gave up, before the first byte of the answer.
    ConnectionLost(String),
    /// The endpoint neither answers nor passes a health check.
    Silent(String),
    /// The server reports that it cannot answer any statement.
    Unsupported(String),
    /// The server runs its maximum number of statements, of all users or of this one, and has not begun the statement.
    /// It works: spans of traces that were selected there must still be read there.
    Overloaded(String),
    /// A quota of the user is exhausted at this server until its interval ends. The server has not begun the statement.
    Exhausted {
        /// The server's message.
        message: String,
        /// Seconds until the interval ends, at least 1.
        seconds: u64,
    },
    /// Another endpoint would fail, too.
    Final(ClickHouseError),
}

/// TOO_MANY_SIMULTANEOUS_QUERIES.
const OVERLOADED: i32 = 202;

/// ClickHouse's codes for a server that cannot answer, with the reason why another one may.
const UNSUPPORTED: [i32; 9] = [
    203, // NO_FREE_CONNECTION: to its shards, in its own pool
    209, // SOCKET_TIMEOUT: it lost a shard, which others may reach
    210, // NETWORK_ERROR: the same
    236, // ABORTED: it is shutting down. An operator's KILL QUERY is 394 and is not retried
    279, // ALL_CONNECTION_TRIES_FAILED: it reaches no replica of a shard
    289, // REPLICA_IS_NOT_IN_QUORUM: it lags too far behind
    369, // ALL_REPLICAS_ARE_STALE: the same, for all replicas that it reaches
    439, // CANNOT_SCHEDULE_TASK: it has no thread left
    999, // KEEPER_EXCEPTION: it lost its Keeper
];

impl AttemptError {
    /// Classifies an error of the HTTP client before the first byte of an answer.
    pub(super) fn from_transport(error: &reqwest::Error) -> Self {
        if error.is_connect() { Self::Unreachable(text(error)) } else { Self::ConnectionLost(text(error)) }
    }

    /// Like [`Self::from_transport`], for a statement that is sent to this address. It adds advice when the address has
    /// the wrong scheme for its port.
    pub(super) fn from_send(error: &reqwest::Error, address: &Url) -> Self {
        let cause = text(error);
        match wrong_scheme(address, &cause) {
            Some(advice) => Self::Unreachable(format!("{advice}: {cause}")),
            None => Self::from_transport(error),
        }
    }

    /// Classifies an error response.
    pub(super) fn from_response(status: u16, code: Option<i32>, message: String, quota: Quota<'_>) -> Self {
        match code {
            Some(code) if UNSUPPORTED.contains(&code) => Self::Unsupported(message),
            Some(OVERLOADED) => Self::Overloaded(message),
            Some(Quota::EXCEEDED) => {
                let seconds = quota.seconds_until_reset(&message);
                Self::Exhausted { message, seconds }
            }
            // A proxy's own error.
            None if matches!(status, 502..=504) => Self::ConnectionLost(message),
            code => Self::Final(ClickHouseError::from_exception(code, message)),
        }
    }

    /// Returns the reason in metrics; `None` where the endpoint is not at fault.
    pub(super) fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Unreachable(_) => Some("unreachable"),
            Self::ConnectionLost(_) => Some("cut"),
            Self::Silent(_) => Some("silent"),
            Self::Unsupported(_) | Self::Overloaded(_) | Self::Exhausted { .. } => Some("cannot"),
            Self::Final(_) => None,
        }
    }
}

/// Reasons in metrics: no connection; one that broke before the answer; failed health checks; a server that reports that it
/// cannot answer.
pub(super) const FAILURE_REASONS: [&str; 4] = ["unreachable", "cut", "silent", "cannot"];

/// Returns advice for a wrong scheme of an address: the failure shows that the port speaks the other one.
fn wrong_scheme(address: &Url, cause: &str) -> Option<String> {
    let port = address.port_or_known_default().unwrap_or_default();
    match address.scheme() {
        // A plain HTTP answer, read as TLS.
        "https" if cause.contains("InvalidContentType") || cause.contains("corrupt message") => {
            Some(format!(
                "port {port} speaks HTTP without TLS, and `clickhouse_url` is `https://`: use `http://`, or \
                 set the port for HTTPS (`https_port` of ClickHouse, usually 8443)"
            ))
        }
        // A TLS alert, read as an HTTP answer.
        "http" if cause.contains("invalid HTTP version") => Some(format!(
            "port {port} does not answer in HTTP, and `clickhouse_url` is `http://`: if it speaks TLS, use \
             `https://`; otherwise set the port for HTTP (`http_port` of ClickHouse, usually 8123)"
        )),
        _ => None,
    }
}

/// Returns the error's text with its causes, without the address, which holds every setting.
pub(super) fn text(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    if text.is_empty() { "the connection failed".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_errors_do_not_fail_over() {
        let from_response =
            |status, code| AttemptError::from_response(status, code, String::new(), Quota::default());
        // Time, memory, syntax, authentication, an operator's KILL QUERY.
        for code in [159, 160, 241, 62, 47, 60, 192, 193, 516, 497, 115, 164, 394, 396] {
            let failure = from_response(500, Some(code));
            assert!(matches!(failure, AttemptError::Final(_)), "{code}: {failure:?}");
        }
        for code in UNSUPPORTED {
            assert!(matches!(from_response(500, Some(code)), AttemptError::Unsupported(_)), "{code}");
        }
        assert!(matches!(from_response(500, Some(OVERLOADED)), AttemptError::Overloaded(_)));
        assert!(matches!(from_response(500, Some(Quota::EXCEEDED)), AttemptError::Exhausted { .. }));
        // ClickHouse's own code takes precedence over the status.
        assert!(matches!(from_response(503, Some(241)), AttemptError::Final(_)));
        assert!(matches!(from_response(502, None), AttemptError::ConnectionLost(_)));
        assert!(matches!(from_response(403, None), AttemptError::Final(_)));
    }
}

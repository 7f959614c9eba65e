//! What the failure of one attempt says: whether the statement is at fault, or the endpoint, so that another one may do better.
//!
//! Reads may be repeated as long as nothing of their answer was passed on. They are not where the fault is the statement's
//! own: at its limits of time and memory the next endpoint would work as long and fail as well, and where the user is
//! refused, repeating only locks the user out.

use url::Url;

use super::quota::Quota;
use crate::StoreError;

/// Why an attempt gave no answer.
#[derive(Debug)]
pub(super) enum Miss {
    /// No connection: refused, no such name, no TLS, no answer to connecting.
    Unreachable(String),
    /// The connection broke, or a proxy in between gave up, before the first byte of the answer.
    Cut(String),
    /// It neither answers nor gives a sign of life.
    Silent(String),
    /// The server says that it cannot, whatever is asked.
    Cannot(String),
    /// The server has as many statements as it takes, of all or of this user, and has not begun this one. It works: what others
    /// have chosen there must still be read there.
    Full(String),
    /// A quota of the user is exhausted at this server, which has not begun the statement, until its interval ends.
    Exhausted {
        /// What the server said.
        message: String,
        /// Until the interval ends, at least 1.
        seconds: u64,
    },
    /// Nothing that another endpoint would mend.
    Final(StoreError),
}

/// TOO_MANY_SIMULTANEOUS_QUERIES.
const FULL: i32 = 202;

/// ClickHouse's codes for a server that cannot, with the reason why another may be asked.
const CANNOT: [i32; 9] = [
    203, // NO_FREE_CONNECTION: to its shards, in its own pool
    209, // SOCKET_TIMEOUT: it lost a shard, which others may reach
    210, // NETWORK_ERROR: the same
    236, // ABORTED: it is shutting down. An operator's KILL QUERY is 394, which stands
    279, // ALL_CONNECTION_TRIES_FAILED: it reaches no replica of a shard
    289, // REPLICA_IS_NOT_IN_QUORUM: it lags too far behind
    369, // ALL_REPLICAS_ARE_STALE: the same, of the replicas that it reaches
    439, // CANNOT_SCHEDULE_TASK: it has no thread left
    999, // KEEPER_EXCEPTION: it lost its Keeper
];

impl Miss {
    /// From an error of the HTTP client before the first byte of an answer.
    pub(super) fn of_transport(error: &reqwest::Error) -> Self {
        if error.is_connect() { Self::Unreachable(text(error)) } else { Self::Cut(text(error)) }
    }

    /// The same, of a statement on its way to this address: whether it names the wrong scheme for its port is said then.
    pub(super) fn of_sending(error: &reqwest::Error, address: &Url) -> Self {
        let cause = text(error);
        match wrong_scheme(address, &cause) {
            Some(advice) => Self::Unreachable(format!("{advice}: {cause}")),
            None => Self::of_transport(error),
        }
    }

    /// From an answer that is an error.
    pub(super) fn of_answer(status: u16, code: Option<i32>, message: String, quota: Quota<'_>) -> Self {
        match code {
            Some(code) if CANNOT.contains(&code) => Self::Cannot(message),
            Some(FULL) => Self::Full(message),
            Some(Quota::EXCEEDED) => {
                let seconds = quota.ends_within(&message);
                Self::Exhausted { message, seconds }
            }
            // A proxy's own.
            None if matches!(status, 502..=504) => Self::Cut(message),
            code => Self::Final(StoreError::from_exception(code, message)),
        }
    }

    /// Its name in metrics; `None` where the endpoint is not at fault.
    pub(super) fn kind(&self) -> Option<FailureKind> {
        match self {
            Self::Unreachable(_) => Some(FailureKind::Unreachable),
            Self::Cut(_) => Some(FailureKind::Cut),
            Self::Silent(_) => Some(FailureKind::Silent),
            Self::Cannot(_) | Self::Full(_) | Self::Exhausted { .. } => Some(FailureKind::Cannot),
            Self::Final(_) => None,
        }
    }
}

/// How an endpoint failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// No connection.
    Unreachable,
    /// The connection broke before the answer.
    Cut,
    /// No sign of life.
    Silent,
    /// Its own word.
    Cannot,
}

impl FailureKind {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Unreachable, Self::Cut, Self::Silent, Self::Cannot];

    /// Its name in metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Cut => "cut",
            Self::Silent => "silent",
            Self::Cannot => "cannot",
        }
    }
}

/// What an address should say instead of its scheme, where the failure shows that its port speaks the other.
fn wrong_scheme(address: &Url, cause: &str) -> Option<String> {
    let port = address.port_or_known_default().unwrap_or_default();
    match address.scheme() {
        // A plain answer, read as TLS.
        "https" if cause.contains("InvalidContentType") || cause.contains("corrupt message") => {
            Some(format!(
                "port {port} speaks HTTP without TLS, and `clickhouse_url` says `https://`: say `http://`, or name the port \
             for HTTPS (`https_port` of ClickHouse, usually 8443)"
            ))
        }
        // A TLS alert, read as an answer.
        "http" if cause.contains("invalid HTTP version") => Some(format!(
            "port {port} does not answer in HTTP, and `clickhouse_url` says `http://`: if it speaks TLS, say `https://`; \
             else name the port for HTTP (`http_port` of ClickHouse, usually 8123)"
        )),
        _ => None,
    }
}

/// An error with its causes and without the address, which holds every setting.
pub(super) fn text(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&error.to_string());
        cause = error.source();
    }
    if text.is_empty() { "the connection failed".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_the_statement_are_not_taken_to_another_endpoint() {
        let of_answer = |status, code| Miss::of_answer(status, code, String::new(), Quota::default());
        // Time, memory, syntax, the user, an operator who killed the query.
        for code in [159, 160, 241, 62, 47, 60, 192, 193, 516, 497, 115, 164, 394, 396] {
            let miss = of_answer(500, Some(code));
            assert!(matches!(miss, Miss::Final(_)), "{code}: {miss:?}");
        }
        for code in CANNOT {
            assert!(matches!(of_answer(500, Some(code)), Miss::Cannot(_)), "{code}");
        }
        assert!(matches!(of_answer(500, Some(FULL)), Miss::Full(_)));
        assert!(matches!(of_answer(500, Some(Quota::EXCEEDED)), Miss::Exhausted { .. }));
        // ClickHouse's own word counts for more than the status.
        assert!(matches!(of_answer(503, Some(241)), Miss::Final(_)));
        assert!(matches!(of_answer(502, None), Miss::Cut(_)));
        assert!(matches!(of_answer(403, None), Miss::Final(_)));
    }
}

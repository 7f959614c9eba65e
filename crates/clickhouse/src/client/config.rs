//! How to reach ClickHouse.

/// How to reach ClickHouse, and what a statement may cost there.
#[derive(Debug, Clone)]
pub struct ClickHouseConfig {
    /// Base URLs of the replicas, such as `http://127.0.0.1:8123`. Statements go to the first that works.
    pub endpoints: Vec<String>,
    /// ClickHouse user.
    pub user: String,
    /// Password of the user.
    pub password: secrecy::SecretString,
    /// Maximum run time of a statement, in seconds.
    pub max_execution_time_seconds: u32,
    /// Maximum memory of a statement, in bytes.
    pub max_memory_bytes: u64,
    /// Maximum number of threads of a statement; `None` leaves it to the user's ClickHouse profile.
    pub max_threads: Option<u32>,
    /// Maximum time until the client has read the whole answer, in seconds, however slow its connection is.
    pub answer_timeout_seconds: u32,
    /// How far around the window a trace is read to decide about it when there is no trace index, in nanoseconds;
    /// `None` for the whole table.
    pub max_trace_duration_nanos: Option<i64>,
}

//! Every ClickHouse setting that is sent, in one place. This crate relies neither on a server's default nor on a profile: a
//! profile that lets answers end early would otherwise turn a limit into a silently shorter answer.
//!
//! Settings that are not sent are left to the operator and change no answer: the number of threads (unless configured),
//! priorities, caches, spilling to disk, limits of all the user's statements together, logging.

use std::time::Duration;

use crate::ClickHouseConfig;
use crate::sql::Statement;

mod fixed;

pub(crate) use fixed::{OPTIONAL_SETTINGS, PARTITION_PRUNING, REQUIRED_SETTINGS};

/// Values of `readonly`. `1` forbids writing, changing settings and reaching other systems. A user whose own profile has `2`
/// may not change it, not even to something stricter. Then the same `2` is sent, and writing is forbidden all the same.
pub(crate) const READONLY: &str = "1";
pub(crate) const READONLY_FROM_PROFILE: &str = "2";

/// Whether another server of a cluster may have another value of this setting without an answer being wrong. This holds for
/// limits, which are errors there too, since every `…_overflow_mode` must be as it is sent, for the format of an answer,
/// which the initiating server writes, and for how reads are distributed over threads.
pub(crate) fn may_differ(name: &str) -> bool {
    MAY_DIFFER.iter().any(|prefix| name.starts_with(prefix))
}

/// Prefixes of settings that are limits, control the output format, or distribute reads over threads.
const MAY_DIFFER: [&str; 24] = [
    "readonly",
    "max_execution_",
    "max_estimated_execution_time",
    "max_memory_usage",
    "max_threads",
    "max_rows_",
    "max_bytes_",
    "max_result_",
    "max_columns_to_read",
    "max_temporary_",
    "max_partitions_to_read",
    "merge_tree_min_",
    "min_execution_speed",
    "max_subquery_depth",
    "max_query_size",
    "max_ast_",
    "max_expanded_ast_elements",
    "max_parser_",
    "max_analyze_depth",
    "http_",
    "output_format_",
    "date_time_output_format",
    "send_progress_",
    "enable_http_",
];

/// Limits of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueryLimits {
    /// Maximum run time in seconds.
    pub(crate) seconds: u32,
    /// Maximum number of rows to read, as ClickHouse estimates before it begins; 0 for no limit.
    pub(crate) rows: u64,
}

impl QueryLimits {
    /// Returns the limits of a statement whose caller waits for it.
    pub(crate) fn from_config(config: &ClickHouseConfig) -> Self {
        Self { seconds: config.max_execution_time_seconds, rows: 0 }
    }

    /// Returns the limits of a statement whose answer is streamed. ClickHouse also counts the time in which it waits to send
    /// its answer. That is the reader's time, which has its own limit.
    pub(crate) fn for_streaming(self, config: &ClickHouseConfig) -> Self {
        Self { seconds: self.seconds.max(config.answer_timeout_seconds), ..self }
    }

    /// Returns the maximum run time.
    pub(crate) fn timeout(self) -> Duration {
        Duration::from_secs(u64::from(self.seconds))
    }
}

/// Returns the settings of a statement, as names and values.
pub(crate) fn settings(
    config: &ClickHouseConfig,
    limits: QueryLimits,
    readonly: &str,
    statement: &Statement,
) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("readonly", readonly.to_owned()),
        ("max_execution_time", limits.seconds.to_string()),
        ("max_rows_to_read", limits.rows.to_string()),
        ("max_memory_usage", config.max_memory_bytes.to_string()),
    ];
    settings.extend(config.max_threads.map(|threads| ("max_threads", threads.to_string())));
    settings.extend(REQUIRED_SETTINGS.iter().chain(OPTIONAL_SETTINGS).map(|(name, value)| {
        let value = match *name {
            PARTITION_PRUNING if statement.reads_final => "0",
            // The projection of trace ids leaves so little to read that evaluating indexes first does not pay off.
            "use_skip_indexes_on_data_read" if statement.filters_by_trace_id => "1",
            "skip_unavailable_shards" if statement.skips_unavailable_shards => "1",
            _ => *value,
        };
        (*name, value.to_owned())
    }));
    settings
}

/// Returns the names of all settings that are sent.
pub(crate) fn setting_names(config: &ClickHouseConfig) -> Vec<&'static str> {
    settings(config, QueryLimits::from_config(config), READONLY, &Statement::default())
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

#[cfg(test)]
mod hostile_profile;

//! Every ClickHouse setting that is sent, in one place. Nothing relies on a server's default: a profile that lets
//! answers end early would otherwise turn a limit into a silently shorter answer.

use crate::StoreConfig;

/// What `readonly` may be. `1` forbids writing, changing settings and reaching other systems. A user whose own profile has `2`
/// may not change it, not even to something stricter; then the same `2` is sent, and writing is forbidden all the same.
pub(crate) const READONLY: &str = "1";
pub(crate) const READONLY_OF_PROFILE: &str = "2";

/// What one statement may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Seconds that it may run.
    pub(crate) seconds: u32,
    /// Rows that it may read, as the store reckons before it begins; 0 for any number.
    pub(crate) rows: u64,
}

impl Bounds {
    /// Those of a statement that somebody waits for.
    pub(crate) fn of(config: &StoreConfig) -> Self {
        Self { seconds: config.max_execution_time_seconds, rows: 0 }
    }
}

/// Settings of every statement, as name and value.
pub(crate) fn settings(config: &StoreConfig, bounds: Bounds, readonly: &str) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("readonly", readonly.to_owned()),
        ("max_execution_time", bounds.seconds.to_string()),
        ("max_rows_to_read", bounds.rows.to_string()),
        ("max_memory_usage", config.max_memory_bytes.to_string()),
    ];
    settings.extend(FIXED.iter().map(|(name, value)| (*name, (*value).to_owned())));
    settings
}

const FIXED: [(&str, &str); 51] = [
    // Every limit is an error, never a shorter answer.
    ("timeout_overflow_mode", "throw"),
    ("read_overflow_mode", "throw"),
    ("read_overflow_mode_leaf", "throw"),
    ("result_overflow_mode", "throw"),
    ("group_by_overflow_mode", "throw"),
    ("sort_overflow_mode", "throw"),
    ("distinct_overflow_mode", "throw"),
    ("set_overflow_mode", "throw"),
    ("join_overflow_mode", "throw"),
    ("transfer_overflow_mode", "throw"),
    ("max_result_rows", "0"),
    ("max_result_bytes", "0"),
    ("max_rows_to_group_by", "0"),
    ("limit", "0"),
    ("offset", "0"),
    ("extremes", "0"),
    ("partial_result_on_first_cancel", "0"),
    // A shard or a replica that is missing or behind is an error too.
    ("skip_unavailable_shards", "0"),
    ("fallback_to_stale_replicas_for_distributed_queries", "0"),
    ("max_replica_delay_for_distributed_queries", "300"),
    ("timeout_overflow_mode_leaf", "throw"),
    // A distributed table is one table, wherever the spans of a trace are. A shard that has sub-queries see its own part
    // only, or groups of its own taken for the whole, would lose spans without a word; `deny` makes an error of a
    // sub-query that is not `GLOBAL`.
    ("distributed_product_mode", "deny"),
    ("prefer_global_in_and_join", "0"),
    ("distributed_group_by_no_merge", "0"),
    // Both trust the declared sharding key. Rows from before a shard was added, or written past the distributed table,
    // are elsewhere.
    ("optimize_skip_unused_shards", "0"),
    ("optimize_distributed_group_by_sharding_key", "0"),
    // Replicas that share a table by its sampling key must all be equally far.
    ("max_parallel_replicas", "1"),
    // Estimates are of the shards that the server asked holds itself.
    ("prefer_localhost_replica", "1"),
    ("distributed_aggregation_memory_efficient", "1"),
    ("use_query_cache", "0"),
    // A client that goes takes its query with it.
    ("cancel_http_readonly_queries_on_client_close", "1"),
    ("http_write_exception_in_output_format", "0"),
    ("send_progress_in_http_headers", "0"),
    ("enable_http_compression", "0"),
    // The meaning of statements.
    ("join_use_nulls", "0"),
    ("transform_null_in", "0"),
    ("aggregate_functions_null_for_empty", "0"),
    ("prefer_column_name_to_alias", "0"),
    ("joined_subquery_requires_alias", "1"),
    ("final", "0"),
    ("max_query_size", "4194304"),
    ("max_ast_depth", "2000"),
    ("max_ast_elements", "500000"),
    ("max_expanded_ast_elements", "2000000"),
    ("max_parser_depth", "2000"),
    // The form of answers: JSON that is always UTF-8, integers as numbers, times as RFC 3339.
    ("output_format_json_quote_64bit_integers", "0"),
    ("output_format_json_quote_decimals", "0"),
    ("output_format_json_quote_denormals", "0"),
    ("output_format_json_escape_forward_slashes", "0"),
    ("output_format_json_validate_utf8", "1"),
    ("date_time_output_format", "iso"),
];

//! Settings that are the same for every statement.

/// Settings that every version has. A server without one of them gets no statements: answers depend on it.
pub(crate) const REQUIRED_SETTINGS: &[(&str, &str)] = &[
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
    // Only the limits that this crate sets for each statement apply: time, memory, rows. Any other could fail a statement
    // that is well within those. An operator who wants a limit for this user sets a constraint on these three.
    ("max_result_rows", "0"),
    ("max_result_bytes", "0"),
    ("max_rows_to_group_by", "0"),
    ("max_bytes_to_read", "0"),
    ("max_rows_to_read_leaf", "0"),
    ("max_bytes_to_read_leaf", "0"),
    ("max_rows_to_sort", "0"),
    ("max_bytes_to_sort", "0"),
    ("max_rows_in_distinct", "0"),
    ("max_bytes_in_distinct", "0"),
    ("max_rows_in_set", "0"),
    ("max_bytes_in_set", "0"),
    ("max_rows_in_join", "0"),
    ("max_bytes_in_join", "0"),
    ("max_rows_to_transfer", "0"),
    ("max_bytes_to_transfer", "0"),
    ("max_columns_to_read", "0"),
    ("max_temporary_columns", "0"),
    ("max_temporary_non_const_columns", "0"),
    ("min_execution_speed", "0"),
    ("min_execution_speed_bytes", "0"),
    ("max_execution_speed", "0"),
    ("max_execution_speed_bytes", "0"),
    ("max_subquery_depth", "100"),
    ("max_query_size", "4194304"),
    ("max_ast_depth", "2000"),
    ("max_ast_elements", "500000"),
    ("max_expanded_ast_elements", "2000000"),
    ("max_parser_depth", "2000"),
    // These cut rows off, or add rows.
    ("limit", "0"),
    ("offset", "0"),
    ("extremes", "0"),
    // A missing or lagging shard or replica is an error too.
    ("skip_unavailable_shards", "0"),
    ("fallback_to_stale_replicas_for_distributed_queries", "0"),
    ("max_replica_delay_for_distributed_queries", "300"),
    // A distributed table is one table, wherever the spans of a trace are. If a shard ran sub-queries on its own part only,
    // or its groups were taken for the whole, spans would be lost silently. `deny` makes an error of a sub-query that is not
    // `GLOBAL`.
    ("distributed_product_mode", "deny"),
    ("distributed_group_by_no_merge", "0"),
    // Both trust the declared sharding key. Rows from before a shard was added, or rows that were not written through the
    // distributed table, are on other shards.
    ("optimize_skip_unused_shards", "0"),
    ("force_optimize_skip_unused_shards", "0"),
    ("optimize_distributed_group_by_sharding_key", "0"),
    // With more, replicas share the work by the sampling key, and must all be equally up to date.
    ("max_parallel_replicas", "1"),
    // Estimates cover the shards that the initiating server holds itself.
    ("prefer_localhost_replica", "1"),
    ("distributed_aggregation_memory_efficient", "1"),
    // Selecting traces and reading them should use the same replica of each shard: another may lag behind.
    // `select_sequential_consistency` is left to the user's profile: it makes a server look for rows that other servers have
    // acknowledged. Several servers behind one address need it; elsewhere it only costs time.
    ("load_balancing", "in_order"),
    ("use_hedged_requests", "0"),
    // A client that disconnects ends its query, and an answer is sent while it is computed.
    ("cancel_http_readonly_queries_on_client_close", "1"),
    ("send_progress_in_http_headers", "0"),
    ("enable_http_compression", "0"),
    // Longer than this service's own time-out for a reader that takes nothing, so that the service ends the answer.
    // ClickHouse uses the value of its own profile instead (issue 64731).
    ("http_send_timeout", "90"),
    // Indexes and projections are used where they help, and no statement is refused for the lack of one.
    ("force_index_by_date", "0"),
    ("force_primary_key", "0"),
    ("use_index_for_in_with_subqueries", "1"),
    ("optimize_move_to_prewhere", "1"),
    ("optimize_read_in_order", "1"),
    // With `FINAL`: a condition that excludes the newest version of a row, before or instead of the merge, would show an older
    // one. Rows with the same sorting key may be in different partitions.
    ("optimize_move_to_prewhere_if_final", "0"),
    ("do_not_merge_across_partitions_select_final", "0"),
    ("use_skip_indexes_if_final_exact_mode", "1"),
    // Semantics of statements.
    ("join_use_nulls", "0"),
    ("join_default_strictness", "ALL"),
    ("join_any_take_last_row", "0"),
    ("any_join_distinct_right_table_keys", "0"),
    ("transform_null_in", "0"),
    ("aggregate_functions_null_for_empty", "0"),
    ("empty_result_for_aggregation_by_empty_set", "0"),
    ("prefer_column_name_to_alias", "0"),
    ("enable_positional_arguments", "1"),
    ("joined_subquery_requires_alias", "1"),
    ("count_distinct_implementation", "uniqExact"),
    ("cast_keep_nullable", "0"),
    ("short_circuit_function_evaluation", "enable"),
    // Format of answers: JSON that is always UTF-8, integers as numbers, times as RFC 3339, maps as objects.
    ("output_format_json_quote_64bit_integers", "0"),
    ("output_format_json_quote_denormals", "0"),
    ("output_format_json_escape_forward_slashes", "0"),
    ("output_format_json_named_tuples_as_objects", "1"),
    ("output_format_json_array_of_rows", "0"),
    ("output_format_decimal_trailing_zeros", "0"),
    ("date_time_output_format", "iso"),
];

/// Whether parts are skipped by their partition key (ClickHouse issues 29317 and 90836).
pub(crate) const PARTITION_PRUNING: &str = "use_partition_pruning";

/// Settings that prevent a feature from changing answers, or that select the tested way to compute them. They are left out
/// for a server that does not know them: a version without the setting lacks the feature.
pub(crate) const OPTIONAL_SETTINGS: &[(&str, &str)] = &[
    // `compatibility` is not among them. Up to 26.3, a server discards settings of a statement that equal its current values,
    // and then lets `compatibility` change them (ClickHouse 99402): sent, it would undo some of these settings where a
    // profile has one.
    ("dialect", "clickhouse"),
    ("enable_analyzer", "1"),
    // Limits as above.
    ("timeout_overflow_mode_leaf", "throw"),
    ("max_execution_time_leaf", "0"),
    ("max_estimated_execution_time", "0"),
    ("max_partitions_to_read", "-1"),
    ("max_analyze_depth", "5000"),
    ("max_parser_backtracks", "1000000"),
    ("partial_result_on_first_cancel", "0"),
    ("max_skip_unavailable_shards_num", "0"),
    ("max_skip_unavailable_shards_ratio", "0"),
    // Rows that a profile filters out would be missing from traces silently. Row policies and grants are the ways to hide
    // rows from this user.
    ("additional_table_filters", "{}"),
    ("additional_result_filter", ""),
    // Rows that have arrived are read, whether or not they are cached.
    ("ignore_cold_parts_seconds", "0"),
    // Deleted rows are gone and updated values are new; a mutation counts once it is done.
    ("apply_deleted_mask", "1"),
    ("apply_patch_parts", "1"),
    ("apply_mutations_on_fly", "0"),
    ("final", "0"),
    // With `FINAL`: a part that holds the newest version of a row must not be skipped because that version does not satisfy a
    // condition; the older one would be shown. So statements with `FINAL` turn the first setting off; the second one leaves
    // parts in whose partition key is also a part of the sorting key (observed with 26.7). `check_binding` refuses `FINAL`
    // where the server lacks the first setting and needs it.
    (PARTITION_PRUNING, "1"),
    ("defer_partition_pruning_after_final", "1"),
    ("use_statistics_for_part_pruning", "0"),
    ("apply_row_policy_after_final", "1"),
    // Counts are exact, and no conclusions are drawn from constraints, which ClickHouse may not have checked.
    ("optimize_trivial_approximate_count_query", "0"),
    ("optimize_using_constraints", "0"),
    ("optimize_substitute_columns", "0"),
    ("optimize_append_index", "0"),
    ("convert_query_to_cnf", "0"),
    // No cached answers.
    ("use_query_cache", "0"),
    // The query condition cache was more than once wrong for another statement, and spans were missing silently: ClickHouse
    // issues 104781 (up to 26.5, with indexes that are used while reading), 108519, 87091 (up to 25.7).
    ("use_query_condition_cache", "0"),
    // By default each thread reads at least 20 granules (163,840 rows), so that a single one reads a small partition.
    ("merge_tree_min_rows_for_concurrent_read", "16384"),
    ("merge_tree_min_bytes_for_concurrent_read", "1048576"),
    // One server answers alone.
    ("enable_parallel_replicas", "0"),
    ("automatic_parallel_replicas_mode", "0"),
    ("make_distributed_plan", "0"),
    ("prefer_global_in_and_join", "0"),
    // It replaces contradictory comparisons by a constant, and the initiating server and the shards then name the columns around
    // it differently: an error instead of no results (observed with 26.7).
    ("optimize_redundant_comparisons", "0"),
    // Indexes and projections, as above.
    ("use_skip_indexes", "1"),
    // Indexes are evaluated before reading begins: only then does ClickHouse count what they leave when it chooses between
    // the table and a projection.
    ("use_skip_indexes_on_data_read", "0"),
    // ClickHouse more than once combined several indexes of an `OR` wrongly, and spans were missing silently: issues 94020
    // and 119528. Without it, each index is checked against the whole condition.
    ("use_skip_indexes_for_disjunctions", "0"),
    // It cannot be empty, and no index has this name. `force_data_skipping_indices` has no neutral value and is not sent: a
    // profile with it makes statements fail visibly.
    ("ignore_data_skipping_indices", "tracewarden_ignores_none"),
    ("optimize_use_projections", "1"),
    ("force_optimize_projection", "0"),
    ("force_optimize_projection_name", ""),
    ("force_aggregation_in_order", "0"),
    ("query_plan_enable_optimizations", "1"),
    // Semantics of statements.
    ("group_by_use_nulls", "0"),
    ("enable_order_by_all", "0"),
    ("rewrite_in_to_join", "0"),
    ("least_greatest_legacy_null_behavior", "0"),
    ("data_type_default_nullable", "0"),
    ("session_timezone", ""),
    ("date_time_overflow_behavior", "ignore"),
    ("variant_throw_on_type_mismatch", "1"),
    ("dynamic_throw_on_type_mismatch", "1"),
    ("use_variant_as_common_type", "1"),
    ("use_variant_default_implementation_for_comparisons", "1"),
    ("enable_named_columns_in_function_tuple", "0"),
    ("enable_extended_results_for_datetime_functions", "0"),
    // Format of answers.
    ("http_write_exception_in_output_format", "0"),
    ("http_wait_end_of_query", "0"),
    ("http_response_buffer_size", "0"),
    ("output_format_json_quote_decimals", "0"),
    ("output_format_json_quote_64bit_floats", "0"),
    ("output_format_json_validate_utf8", "1"),
    ("output_format_json_map_as_array_of_tuples", "0"),
    ("output_format_json_skip_null_value_in_named_tuples", "0"),
    ("output_format_float_precision", "0"),
    ("output_format_always_write_decimal_point_in_float_and_decimal", "0"),
    ("output_format_trim_fixed_string", "0"),
    ("date_time_64_output_format_cut_trailing_zeros_align_to_groups_of_thousands", "0"),
    ("interval_output_format", "numeric"),
    ("json_type_escape_dots_in_keys", "0"),
];

//! A user whose profile changes every setting that this crate sends gets the same answers.

use std::collections::BTreeMap;

use tracewarden_model::Window;
use tracewarden_testkit::local_store::LocalStore;

use super::*;
use crate::agreement::{binding, connect, connect_at, execute, unrestricted_scope};
use crate::sql::Statement;
use crate::{
    Buckets, ClickHouse, MAX_SPANS_BYTES, SelectRequest, StatsOrder, StatsRequest, StatsUnit, TraceOrder,
    ValuesRequest,
};
use futures::StreamExt;
use tracewarden_model::{ColumnType, FieldRef, FieldSource, Filter, LogicalType, MarkedField, Timestamp};
use tracewarden_policy::Predicate;
use url::Url;

/// Settings with which the engine does not begin a session, each with the reason. The test puts them into the URL instead,
/// before the settings of this crate.
const URL_SETTINGS: [&str; 12] = [
    // They prevent reading settings, too.
    "max_temporary_columns",
    "max_temporary_non_const_columns",
    "max_columns_to_read",
    // They remove the engine's own queries about itself.
    "offset",
    "additional_result_filter",
    // The session reads the time and the version, which must not be cached.
    "use_query_cache",
    // Works only without parallel replicas, which are tested.
    "make_distributed_plan",
    // The session's own set-up is a statement in ClickHouse's dialect and of some length.
    "dialect",
    "max_query_size",
    "max_ast_depth",
    "max_parser_depth",
    "max_subquery_depth",
];

/// Returns a valid value of a setting that differs from the one that is sent.
fn hostile_value(name: &str, ours: &str) -> String {
    let other = match (name, ours) {
        ("load_balancing", _) => "random",
        ("distributed_product_mode", _) => "local",
        ("join_default_strictness", _) => "ANY",
        ("count_distinct_implementation", _) => "uniq",
        ("short_circuit_function_evaluation", _) => "disable",
        ("date_time_output_format", _) => "unix_timestamp",
        ("dialect", _) => "kusto",
        ("max_query_size", _) => "10",
        ("max_ast_depth" | "max_parser_depth", _) => "2",
        ("max_subquery_depth", _) => "1",
        ("additional_table_filters", _) => "{'otel.otel_traces': 'SpanId = \\'0000000000000001\\''}",
        ("additional_result_filter", _) => "0",
        ("session_timezone", _) => "Asia/Tokyo",
        ("date_time_overflow_behavior", _) => "throw",
        ("interval_output_format", _) => "kusto",
        ("ignore_data_skipping_indices", _) => "idx_trace_id",
        ("force_optimize_projection_name", _) => "nowhere",
        ("max_skip_unavailable_shards_ratio", _) => "1",
        ("max_estimated_execution_time", _) => "1",
        ("min_execution_speed" | "min_execution_speed_bytes", _) => "1000000000000",
        ("max_execution_speed" | "max_execution_speed_bytes", _) => "1",
        ("max_parallel_replicas", _) => "2",
        ("max_replica_delay_for_distributed_queries", _) => "1",
        ("http_send_timeout", _) => "1",
        ("max_ast_elements" | "max_expanded_ast_elements", _) => "40",
        ("max_analyze_depth" | "max_parser_backtracks", _) => "300",
        ("max_partitions_to_read", _) => "1",
        (name, _) if name.starts_with("merge_tree_min_") => "1",
        ("max_columns_to_read", _) => "3",
        ("max_result_bytes" | "max_bytes_to_read" | "max_bytes_to_read_leaf", _) => "4000",
        ("max_rows_to_read_leaf", _) => "400",
        ("max_temporary_columns" | "max_temporary_non_const_columns", _) => "8",
        (_, "throw") => "break",
        (_, "0") => "1",
        (_, "1") => "0",
        _ => panic!("add another value for `{name}` than `{ours}`"),
    };
    other.to_owned()
}

/// Returns answers of each kind, as text.
async fn answers(store: &ClickHouse) -> BTreeMap<&'static str, String> {
    let (binding, scope, filter) = (binding("otel", "otel_traces"), unrestricted_scope(), Filter::default());
    let at = |seconds: i64| Timestamp::from_nanos(seconds * 1_000_000_000);
    let window = Window::new(at(1_789_999_000), at(1_790_001_000)).unwrap();
    let mut answers = BTreeMap::new();
    for limit in [3, 100] {
        let request = SelectRequest {
            binding: &binding,
            scope: &scope,
            filter: &filter,
            window,
            order: TraceOrder::Newest,
            limit,
            after: None,
            progress: None,
        };
        let selection = store.select(request).await.unwrap();
        let ids: Vec<&str> = selection.trace_ids().collect();
        let name = if limit == 3 { "a page" } else { "all" };
        answers.insert(name, format!("{ids:?}, {} spans, {:?}", selection.span_count(), selection.next()));
        if limit == 3 {
            let summaries = store.summarise(&binding, &selection, &filter).await.unwrap();
            answers.insert("summaries", format!("{summaries:?}"));
            let mut spans = store.read(&binding, &selection, None).await.unwrap();
            let mut lines = String::new();
            while let Some(chunk) = spans.next().await {
                lines.push_str(std::str::from_utf8(&chunk.unwrap().lines).unwrap());
            }
            answers.insert("spans", lines);
            let service = service();
            let request = ValuesRequest {
                field: &service,
                prefix: None,
                contains: None,
                selection: &selection,
                window,
                limit: 10,
            };
            answers.insert("values", format!("{:?}", store.values(request).await.unwrap()));
            answers.insert(
                "brief",
                format!("{:?}", store.span_summaries(&binding, &selection, 1_000).await.unwrap()),
            );
            // Of the page's first trace, and not the one span that the hostile table filter leaves.
            let ids = ["0000000000000010".to_owned()];
            let given = store.read_spans(MAX_SPANS_BYTES, &binding, &selection, &ids, None).await.unwrap();
            answers.insert("given spans", format!("{given:?}"));
        }
    }
    let request = StatsRequest {
        binding: &binding,
        scope: &scope,
        filter: &filter,
        window,
        group: &[service()],
        per: StatsUnit::Span,
        order: StatsOrder::Count,
        limit: 10,
        max_traces: 1_000,
        buckets: Some(Buckets::covering(window, 10)),
        facets: &[service()],
    };
    answers.insert("statistics", format!("{:?}", store.stats(request).await.unwrap()));
    let trace = "00000000000000000000000000000002";
    let satisfied = store.matching_span_counts(&binding, trace, &[Predicate::True], &[]).await.unwrap();
    answers.insert("satisfied", format!("{satisfied:?}"));
    let one = store.find(&binding, &scope, "00000000000000000000000000000002").await.unwrap().unwrap();
    answers.insert("one", format!("{} spans", one.span_count()));
    let none = store.find(&binding, &scope, "f0000000000000000000000000000002").await.unwrap();
    answers.insert("none", format!("{}", none.is_none()));
    answers.insert("tables", format!("{:?}", store.catalogue().tables().await.unwrap()));
    let columns = store.catalogue().columns("otel", "otel_traces").await.unwrap();
    answers.insert("columns", format!("{columns:?}"));
    let keys = store.catalogue().sample_keys("otel", "otel_traces", &columns, Some(&binding)).await.unwrap();
    answers.insert("keys", format!("{keys:?}"));
    answers
}

fn service() -> MarkedField {
    MarkedField {
        field: FieldRef::column("ServiceName"),
        source: FieldSource::Column,
        logical: LogicalType::String,
        column_type: ColumnType::parse("LowCardinality(String)"),
        filterable: true,
        policy: true,
        column: None,
    }
}

#[tokio::test]
async fn answers_do_not_depend_on_the_profile() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    // Several parts and partitions, so that the limits on both take effect.
    for part in 0..4 {
        let statement = format!(
            "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, ServiceName, Duration, SpanAttributes) \
             SELECT toDateTime64(1790000000 - number % 50 - {part} * 86400 * (number % 2), 9), \
             leftPad(toString(number % 9), 32, '0'), leftPad(toString(number + 1000 * {part}), 16, '0'), '', \
             'GET /', ['shop', 'cart'][number % 2 + 1], number, map('a/b', 'c/d', 'size', toString(number)) FROM numbers(500)"
        );
        execute(&local, statement).await;
    }
    let before = answers(&store).await;
    assert!(
        before["spans"].contains("\"a\\/b\"") || before["spans"].contains("\"a/b\""),
        "{}",
        before["spans"]
    );
    assert_eq!(before["none"], "true");
    assert_ne!(before["given spans"], "[]");

    // The engine itself refuses to cut answers short and to cache them at the same time.
    let (modes, others): (Vec<_>, Vec<_>) = REQUIRED_SETTINGS
        .iter()
        .chain(OPTIONAL_SETTINGS)
        .filter(|(name, _)| !URL_SETTINGS.contains(name))
        .partition(|(_, ours)| *ours == "throw");
    let url_settings =
        REQUIRED_SETTINGS.iter().chain(OPTIONAL_SETTINGS).filter(|(name, _)| URL_SETTINGS.contains(name));
    let mut address = Url::parse(&local.url).unwrap();
    let hostile_values = url_settings.map(|(name, ours)| (*name, hostile_value(name, ours)));
    address.query_pairs_mut().extend_pairs(hostile_values);
    let store = connect_at(address.as_str(), &local.password);
    assert_eq!(answers(&store).await, before);
    let bare: Result<Vec<(u8,)>, _> = store.client.rows_of_profile("SELECT 1").await;
    assert_ne!(bare, Ok(vec![(1,)]), "the address is not in force");

    let mut local = local;
    for settings in [modes, others] {
        local = local.restart_as(&users_xml(&settings)).unwrap();
        let store = connect(&local);
        assert_profile_applied(&store, &settings).await;
        let after = answers(&store).await;
        for (name, answer) in &before {
            assert_eq!(answer, &after[name], "{name}");
        }
    }
}

/// A profile with `compatibility` behaves like an older version: the settings that are sent still take precedence.
#[tokio::test]
async fn sent_settings_override_compatibility() {
    let mut local = LocalStore::start().unwrap();
    let names = REQUIRED_SETTINGS
        .iter()
        .chain(OPTIONAL_SETTINGS)
        .map(|(name, _)| format!("'{name}'"))
        .collect::<Vec<_>>();
    let ask =
        format!("SELECT name, value FROM system.settings WHERE name IN ({}) ORDER BY name", names.join(", "));
    let ours: Vec<(String, String)> = connect(&local).client.rows(Statement::new(&ask)).await.unwrap();
    assert_eq!(ours.len(), names.len());
    for version in ["21.8", "23.8", "25.3", "25.8", "26.3"] {
        local = local.restart_as(&profile_xml(&format!("<compatibility>{version}</compatibility>"))).unwrap();
        let store = connect(&local);
        let bare: Vec<(String, String)> = store.client.rows_of_profile(&ask).await.unwrap();
        assert_ne!(bare, ours, "{version}");
        let sent: Vec<(String, String)> = store.client.rows(Statement::new(&ask)).await.unwrap();
        assert_eq!(sent, ours, "{version}");
    }
}

/// The client learns from the first refusal that a profile fixes `readonly`, also when several statements are refused at the
/// same time.
#[tokio::test]
async fn concurrent_statements_succeed_when_readonly_is_fixed() {
    let local = LocalStore::start().unwrap().restart_as(&profile_xml("<readonly>2</readonly>")).unwrap();
    let store = connect(&local);
    let ask = || store.client.rows::<(u8,)>(Statement::new("SELECT 1"));
    for answer in futures::future::join_all((0..12).map(|_| ask())).await {
        assert_eq!(answer, Ok(vec![(1,)]));
    }
    // They were refused: the client now sends the value that such a profile accepts.
    let fixed = "SELECT toUInt8(value) FROM system.settings WHERE name = 'readonly'";
    assert_eq!(store.client.rows::<(u8,)>(Statement::new(fixed)).await, Ok(vec![(2,)]));
}

/// Returns a `users.xml` with one profile that changes these settings, and has an old `compatibility` for settings that are
/// not sent.
fn users_xml(settings: &[&(&str, &str)]) -> String {
    let settings: String = settings
        .iter()
        .map(|(name, ours)| {
            let value = hostile_value(name, ours);
            assert_ne!(value, *ours, "{name}");
            format!("<{name}>{value}</{name}>")
        })
        .collect();
    profile_xml(&format!("<compatibility>22.3</compatibility>{settings}"))
}

fn profile_xml(settings: &str) -> String {
    format!(
        "<clickhouse><profiles><default/><hostile>{settings}</hostile></profiles><quotas><default/></quotas><users><default>\
         <password/><networks><ip>::/0</ip></networks><profile>hostile</profile><quota>default</quota></default></users></clickhouse>"
    )
}

/// Asserts that the profile is in effect. Otherwise the comparison would prove nothing.
async fn assert_profile_applied(store: &ClickHouse, settings: &[&(&str, &str)]) {
    // The engine is in no cluster and resets the first; the needed settings are sent with this statement itself.
    let is_shown = |name: &str| {
        name != "enable_parallel_replicas"
            && !super::REQUIRED_SETTINGS.iter().any(|(needed, _)| *needed == name)
    };
    for (name, ours) in settings.iter().filter(|(name, _)| is_shown(name)) {
        let statement = format!("SELECT value FROM system.settings WHERE name = '{name}'");
        let rows: Vec<(String,)> = store.client.rows_of_profile(&statement).await.unwrap();
        assert!(rows.len() == 1 && rows[0].0 != *ours, "{name}: {rows:?}");
    }
}

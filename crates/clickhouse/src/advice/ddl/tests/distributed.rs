//! Statements for a cluster, compared with a golden file: the test engine has no cluster to run them on.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::*;
use crate::advice::ddl::drafts::{Draft, drafts};
use crate::advice::ddl::parts::Parts;
use crate::schema::Column;

const GOLDEN: &str = "golden/ddl_distributed.txt";

fn layout(engine: TableEngine, columns: &[(&str, &str)]) -> Layout {
    let column = |(name, type_text): &(&str, &str)| Column::new((*name).to_owned(), (*type_text).to_owned());
    Layout {
        engine,
        columns: columns.iter().map(column).collect(),
        indexes: Vec::new(),
        projections: Vec::new(),
        sorting_key: vec!["ServiceName".to_owned(), "toDateTime(Timestamp)".to_owned()],
        partition_key: "toDate(Timestamp)".to_owned(),
        rows: Some(1_000),
        unknown: Vec::new(),
        local: None,
    }
}

fn suggested(cluster: &str, database: &str) -> Vec<Draft> {
    let columns = [
        ("Timestamp", "DateTime64(9)"),
        ("TraceId", "String"),
        ("SpanId", "String"),
        ("ParentSpanId", "String"),
        ("ServiceName", "LowCardinality(String)"),
        ("SpanAttributes", "Map(LowCardinality(String), String)"),
    ];
    let local = layout(TableEngine::MergeTree { name: "ReplicatedMergeTree".to_owned() }, &columns);
    let engine = TableEngine::Distributed {
        cluster: cluster.to_owned(),
        database: database.to_owned(),
        table: "otel_traces_local".to_owned(),
    };
    let layout = Layout { local: Some(Arc::new(local)), ..layout(engine, &columns) };
    let binding = Binding {
        database: "otel".to_owned(),
        table: "otel_traces".to_owned(),
        trace_id: "TraceId".to_owned(),
        span_id: "SpanId".to_owned(),
        timestamp: "Timestamp".to_owned(),
        parent_span_id: "ParentSpanId".to_owned(),
        trace_index: None,
        display: Display::default(),
        ..Binding::default()
    };
    let fields = [string_key("SpanAttributes", "tenant.id")];
    let parts = Parts { projections: Some((1, BTreeMap::new())), ..Parts::default() };
    let facts = Facts {
        binding: &binding,
        fields: &fields,
        layout: &layout,
        parts: &parts,
        trace_index: TraceIndex::None,
    };
    drafts(&facts).missing
}

#[test]
fn statements_reach_every_server_of_a_cluster() {
    let mut text = String::new();
    for (cluster, database) in [("it's {cluster}", "otel_local"), ("production", "")] {
        let _ = writeln!(text, "## cluster `{cluster}`, local tables in `{database}`\n");
        for draft in suggested(cluster, database) {
            let _ = writeln!(text, "# {}", draft.suggestion.id);
            for statement in draft.suggestion.statements.iter().chain(&draft.suggestion.follow_up) {
                let _ = writeln!(text, "{statement}");
            }
            text.push('\n');
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap_or_default(),
        text,
        "run `UPDATE_DOCS=1 cargo test -p tracewarden-clickhouse ddl`"
    );
    // Every statement runs on all servers, except those that write through the distributed table once.
    for draft in suggested("c", "d") {
        for statement in &draft.suggestion.statements {
            assert!(statement.contains(" ON CLUSTER 'c'") != statement.starts_with("INSERT"), "{statement}");
        }
    }
}

#[test]
fn nothing_is_suggested_without_the_local_table() {
    let engine =
        TableEngine::Distributed { cluster: "c".to_owned(), database: "d".to_owned(), table: "t".to_owned() };
    let layout = layout(engine, &[("Timestamp", "DateTime64(9)"), ("TraceId", "String")]);
    let parts = Parts::default();
    let binding = binding();
    let facts = Facts {
        binding: &binding,
        fields: &[],
        layout: &layout,
        parts: &parts,
        trace_index: TraceIndex::None,
    };
    let drafts = drafts(&facts);
    assert!(drafts.missing.is_empty());
    let [note] = drafts.notes.as_slice() else { panic!("{:?}", drafts.notes) };
    assert!(note.contains("`d.t` is not on the server"), "{note}");
}

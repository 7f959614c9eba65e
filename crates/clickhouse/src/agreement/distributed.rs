//! Distributed tables on the real engine: two shards in one process, with the spans of a trace on both.
//!
//! The engine acts as both shards of the cluster, plans for each separately, and merges their answers, as it does over a
//! network. A row filter separates the shards, and no shard can read past it. The user's profile has every setting that makes
//! a distributed table less than one table, and the rows are not where the declared sharding key puts them: answers are right
//! only because of the settings that are sent.

mod contradictions;
mod discovery;
mod lost_shard;
mod recorder;
mod statements;

use tracewarden_testkit::local_store::LocalStore;

use crate::agreement::differential::{connect, execute};

/// The cluster of [`shards`].
pub(crate) const CLUSTER: &str = "two_shards";

/// Tables that can be sharded.
const SHARDED: [&str; 2] = ["spans", "spans_trace_id_ts"];

/// Settings of a profile that conflict with the service's, and that do not affect inserts.
const HOSTILE_PROFILE: &str = "<distributed_product_mode>local</distributed_product_mode>\
    <distributed_group_by_no_merge>1</distributed_group_by_no_merge>\
    <optimize_skip_unused_shards>1</optimize_skip_unused_shards>\
    <optimize_distributed_group_by_sharding_key>1</optimize_distributed_group_by_sharding_key>\
    <skip_unavailable_shards>1</skip_unavailable_shards>";

/// Starts ClickHouse with a cluster of two shards.
pub(crate) fn shards() -> LocalStore {
    shards_with_clusters(&[])
}

/// Like [`shards`], with further clusters, given by their names: each has these two shards and a third at a port of its own.
pub(crate) fn shards_with_clusters(extra_clusters: &[(&str, u16)]) -> LocalStore {
    let filters: String = SHARDED
        .iter()
        .map(|table| format!("<{table}_rows><filter>shardNum() IN (0, shard)</filter></{table}_rows>"))
        .collect();
    let users = format!(
        "<clickhouse><profiles><default>{HOSTILE_PROFILE}</default></profiles><quotas><default/></quotas>\
         <users><default><password/><networks><ip>::/0</ip></networks><profile>default</profile>\
         <quota>default</quota><databases><default>{filters}</default></databases></default></users></clickhouse>"
    );
    // A shard at the engine's own port is the engine itself; no other server listens there.
    let shard =
        |port: u16| format!("<shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>");
    let two = shard(9000).repeat(2);
    let mut clusters = format!("<{CLUSTER}>{two}</{CLUSTER}>");
    for (name, port) in extra_clusters {
        clusters.push_str(&format!("<{name}>{two}{}</{name}>", shard(*port)));
    }
    let config = format!("<tcp_port>9000</tcp_port><remote_servers>{clusters}</remote_servers>");
    let local = LocalStore::start().unwrap().restart_with(&users, &config).unwrap();
    // Installs the TLS provider that every client in this process needs.
    drop(connect(&local));
    local
}

/// How a table stores its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// In one MergeTree table.
    OneTable,
    /// In two shards: rows of the same trace are in both.
    Shards,
}

impl Storage {
    /// Creates or replaces a table of `default`. Its rows are distributed over the shards by `shard_expression`, not by its sharding
    /// key. Returns the table to insert into, which has the same columns.
    pub(crate) async fn create(
        self,
        local: &LocalStore,
        name: &str,
        definitions: &str,
        sorting_key: &str,
        shard_expression: &str,
    ) -> String {
        let table = format!("default.{name}");
        match self {
            Self::OneTable => {
                let engine = format!("MergeTree ORDER BY {sorting_key}");
                execute(local, format!("CREATE OR REPLACE TABLE {table} ({definitions}) ENGINE = {engine}"))
                    .await;
                table
            }
            Self::Shards => {
                assert!(SHARDED.contains(&name), "`{name}` has no filter by shard");
                let rows = format!("{table}_rows");
                execute(
                    local,
                    format!(
                        "CREATE OR REPLACE TABLE {rows} ({definitions}, shard UInt8 DEFAULT 1 + cityHash64({shard_expression}) % 2) \
                         ENGINE = MergeTree PARTITION BY shard ORDER BY {sorting_key}"
                    ),
                )
                .await;
                execute(
                    local,
                    format!(
                        "CREATE OR REPLACE TABLE {table} ({definitions}) \
                         ENGINE = Distributed({CLUSTER}, default, {name}_rows, cityHash64(ifNull(TraceId, '')))"
                    ),
                )
                .await;
                rows
            }
        }
    }
}

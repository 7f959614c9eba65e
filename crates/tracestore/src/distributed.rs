//! Distributed tables on the real engine: two shards in one process, the spans of a trace apart.
//!
//! The engine takes both shards of the cluster for itself, asks each by a plan of its own, and merges what they answer, as it
//! does over a network. What tells the shards apart is a filter on rows, which a shard cannot see past. The user's profile
//! says everything that would make a distributed table less than one table, and the declared sharding key is not where the
//! rows are: answers are right only because of the settings that are sent.

mod catalogue;
mod lost_shard;
mod recorder;
mod statements;

use tracewarden_testkit::local_store::LocalStore;

use crate::differential::{connect, execute};

/// The cluster of [`shards`].
pub(crate) const CLUSTER: &str = "two_shards";

/// Tables that can be kept in shards.
const SHARDED: [&str; 2] = ["spans", "spans_trace_id_ts"];

/// Settings of a profile that is at odds with what the service needs, and that inserting rows does not mind.
const HOSTILE_PROFILE: &str = "<distributed_product_mode>local</distributed_product_mode>\
    <distributed_group_by_no_merge>1</distributed_group_by_no_merge>\
    <optimize_skip_unused_shards>1</optimize_skip_unused_shards>\
    <optimize_distributed_group_by_sharding_key>1</optimize_distributed_group_by_sharding_key>\
    <skip_unavailable_shards>1</skip_unavailable_shards>";

/// A store with a cluster of two shards.
pub(crate) fn shards() -> LocalStore {
    shards_and(&[])
}

/// The same, and further clusters by their names, each of these two shards and of one at a port of its own.
pub(crate) fn shards_and(further: &[(&str, u16)]) -> LocalStore {
    let filters: String = SHARDED
        .iter()
        .map(|table| format!("<{table}_rows><filter>shardNum() IN (0, shard)</filter></{table}_rows>"))
        .collect();
    let users = format!(
        "<clickhouse><profiles><default>{HOSTILE_PROFILE}</default></profiles><quotas><default/></quotas>\
         <users><default><password/><networks><ip>::/0</ip></networks><profile>default</profile>\
         <quota>default</quota><databases><default>{filters}</default></databases></default></users></clickhouse>"
    );
    // A shard at the engine's own port is the engine itself; nothing listens there.
    let shard =
        |port: u16| format!("<shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>");
    let two = shard(9000).repeat(2);
    let mut clusters = format!("<{CLUSTER}>{two}</{CLUSTER}>");
    for (name, port) in further {
        clusters.push_str(&format!("<{name}>{two}{}</{name}>", shard(*port)));
    }
    let config = format!("<tcp_port>9000</tcp_port><remote_servers>{clusters}</remote_servers>");
    let local = LocalStore::start().unwrap().restart_with(&users, &config).unwrap();
    // Makes the provider of TLS that every client in this process wants.
    drop(connect(&local));
    local
}

/// How a table keeps its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Itself.
    OneTable,
    /// In two shards: rows of the same trace are in both.
    Shards,
}

impl Storage {
    /// Makes a table of `default` anew; what its rows are spread by over the shards is not its sharding key. Returns the
    /// one that takes its rows, with the same columns.
    pub(crate) async fn create(
        self,
        local: &LocalStore,
        name: &str,
        definitions: &str,
        sorting_key: &str,
        spread: &str,
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
                        "CREATE OR REPLACE TABLE {rows} ({definitions}, shard UInt8 DEFAULT 1 + cityHash64({spread}) % 2) \
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

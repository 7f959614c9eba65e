//! The other servers of a cluster, and whether what is sent with a statement holds there.
//!
//! A server that another one asks does not refuse a setting that a constraint of its own forbids: it clamps it, and says
//! nothing. A limit that is sent as 0 is then one of its own, and an overflow mode that is sent as `throw` may be `break`: its
//! part of an answer ends early, and the whole is shorter without an error. So every server says what holds on it, in a statement
//! with our settings in force, before anything is read from a distributed table; and again after [`LIFE`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::layout::TableEngine;
use crate::settings::{Bounds, Kind, NEEDED, READONLY, may_differ, settings};
use crate::shared_work::Remembered;
use crate::sql::{Statement, quote_literal};
use crate::version::{MINIMUM, is_too_old};
use crate::{StoreError, TraceStore};

/// How long what the servers said is believed: a constraint that is added later is noticed then.
const LIFE: Duration = Duration::from_secs(10);

/// Settings that the question itself has otherwise: one that is left out for servers that cannot be reached, and one that a
/// server turns off in what it sends on, where the arguments are resolved.
const SET_BY_ASKING: [&str; 2] = ["skip_unavailable_shards", "enable_positional_arguments"];

/// Settings that differ, of those that are named in a message.
const NAMED: usize = 4;

/// Clusters that were found to keep what is sent, by the endpoint that asks their servers and their names.
pub(crate) type VerifiedClusters = Remembered<(Option<usize>, String), ()>;

/// What one server says.
#[derive(Debug)]
struct Server {
    address: String,
    version: String,
    settings: Vec<(String, String)>,
}

impl TraceStore {
    /// Refuses a table whose rows come from servers that change what is sent with a statement. For one that keeps its rows
    /// itself there is nothing to ask; what a view reads is not known, and may be any distributed table.
    ///
    /// # Errors
    /// [`StoreError::Unfit`] that says which server changes what, or failures of asking.
    pub(crate) async fn verify_servers_of(&self, engine: &TableEngine) -> Result<(), StoreError> {
        match engine {
            TableEngine::MergeTree { .. } => Ok(()),
            TableEngine::Distributed { cluster, .. } => self.verify_cluster(cluster).await,
            TableEngine::Other(name) if name.is_empty() => Ok(()),
            TableEngine::Other(_) => {
                for cluster in self.clusters().await? {
                    self.verify_cluster(&cluster).await?;
                }
                Ok(())
            }
        }
    }

    async fn verify_cluster(&self, cluster: &str) -> Result<(), StoreError> {
        // Servers may be configured differently, also which servers a cluster has.
        let endpoint = self.client.place();
        let (store, name) = (Self { client: self.client.at(endpoint), ..self.clone() }, cluster.to_owned());
        let verify = Box::pin(async move { store.verify_cluster_now(&name).await });
        self.verified.get((endpoint, cluster.to_owned()), LIFE, verify).await
    }

    /// The same without what is remembered.
    ///
    /// # Errors
    /// As [`Self::verify_servers_of`].
    pub(crate) async fn verify_cluster_now(&self, cluster: &str) -> Result<(), StoreError> {
        let servers = self.servers(cluster).await?;
        let mut faults = Vec::new();
        let bounds = Bounds::of(&self.config);
        let sent: BTreeMap<&str, String> =
            settings(&self.config, bounds, READONLY, Kind::default()).into_iter().collect();
        for server in &servers {
            if is_too_old(&server.version) {
                return Err(StoreError::Unfit(format!(
                    "the server {} of the cluster `{cluster}` is ClickHouse {}, and {MINIMUM} is the oldest version that is \
                     supported: upgrade it",
                    server.address, server.version
                )));
            }
            faults.extend(differences(server, &sent));
        }
        if faults.is_empty() {
            return Ok(());
        }
        Err(StoreError::Unfit(format!(
            "servers of the cluster `{cluster}` change what is sent with a statement, without an error, so that answers could \
             be shorter: {}; on these servers, take the constraints on these settings out of the profile of the user that \
             they are asked as (with a `<secret>`, the service's own)",
            faults.join("; ")
        )))
    }

    /// What every server of a cluster says that can be reached. The others have no part in an answer: a shard without any
    /// fails it.
    async fn servers(&self, cluster: &str) -> Result<Vec<Server>, StoreError> {
        let ask = |of_reachable: bool| {
            let names = crate::settings::names(&self.config);
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            let mut statement = Statement::default();
            statement.of_reachable = of_reachable;
            let names = statement.strings(&names);
            // One row for a server, so that a limit on rows that it sets cannot cut what it says about that limit: what is missing is
            // a difference, too.
            statement.push(&format!(
                "SELECT concat(hostName(), ':', toString(tcpPort())) AS tw_server, version() AS tw_version, \
                 groupArray((name, value)) FROM clusterAllReplicas({}, system.settings) WHERE has({names}, name) \
                 GROUP BY tw_server, tw_version ORDER BY tw_server",
                quote_literal(cluster)
            ));
            statement
        };
        type Row = (String, String, Vec<(String, String)>);
        let rows = match self.client.rows::<Row>(ask(true)).await {
            // A profile that has it fixed at 0, as is sent otherwise.
            Err(StoreError::Store { code: Some(452), .. }) => self.client.rows::<Row>(ask(false)).await,
            rows => rows,
        };
        let rows = rows.map_err(|error| match error {
            StoreError::Store { code: Some(497), message } => StoreError::Unfit(format!(
                "it cannot be verified that the servers of the cluster `{cluster}` keep what is sent with a statement: \
                 `GRANT READ ON REMOTE TO` the service's user, which without `CREATE TEMPORARY TABLE` lets it ask the servers of \
                 configured clusters and no others: {message}"
            )),
            other => other,
        })?;
        if rows.is_empty() {
            return Err(StoreError::Short(format!("no server of the cluster `{cluster}` said anything")));
        }
        let server = |(address, version, settings)| Server { address, version, settings };
        Ok(rows.into_iter().map(server).collect())
    }

    /// The clusters of all distributed tables that the user can see.
    async fn clusters(&self) -> Result<BTreeSet<String>, StoreError> {
        let statement = "SELECT engine, engine_full FROM system.tables WHERE engine = 'Distributed'";
        let rows: Vec<(String, String)> = self.client.rows(Statement::new(statement)).await?;
        let clusters =
            rows.into_iter().filter_map(|(engine, full)| match TableEngine::read(&engine, &full) {
                TableEngine::Distributed { cluster, .. } => Some(cluster),
                TableEngine::MergeTree { .. } | TableEngine::Other(_) => None,
            });
        Ok(clusters.collect())
    }

    /// Asks every shard of a distributed table for a sign of life.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when no replica of one answers.
    pub(crate) async fn ping_shards(&self, engine: &TableEngine) -> Result<(), StoreError> {
        let TableEngine::Distributed { cluster, .. } = engine else { return Ok(()) };
        let statement = format!("SELECT count() FROM cluster({}, system.one)", quote_literal(cluster));
        self.client.rows::<(u64,)>(Statement::new(&statement)).await.map(|_| ())
    }
}

/// What a server has otherwise than it was sent, where an answer could be another by it.
fn differences(server: &Server, sent: &BTreeMap<&str, String>) -> Option<String> {
    let said: BTreeSet<&str> = server.settings.iter().map(|(name, _)| name.as_str()).collect();
    // A version may be without a setting that switches what it is without.
    let missing = NEEDED.iter().map(|(name, _)| *name).filter(|name| !said.contains(name));
    let missing = missing.map(|name| format!("does not say what `{name}` is"));
    let other = server.settings.iter().filter_map(|(name, value)| {
        let expected = sent.get(name.as_str())?;
        let differs = value != expected && !may_differ(name) && !SET_BY_ASKING.contains(&name.as_str());
        differs.then(|| format!("has `{name}` = {value:?} where {expected:?} is sent"))
    });
    let all: Vec<String> = other.chain(missing).collect();
    let shown = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = all.len().saturating_sub(NAMED);
    match (all.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("{} {shown}", server.address)),
        (false, more) => Some(format!("{} {shown}, and {more} more", server.address)),
    }
}

//! The other servers of a cluster, and whether they keep the settings that are sent with a statement.
//!
//! A server that gets a query from another server does not refuse a setting that its own constraints forbid: it clamps it
//! silently. A limit that is sent as 0 is then a limit of its own, and an overflow mode that is sent as `throw` may be
//! `break`: its part of an answer ends early, and the whole answer is shorter without an error. So each server reports its
//! settings, in a statement with the settings of this crate in effect, before this crate reads a distributed table, and again
//! after [`CACHE_TTL`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;

use super::Catalogue;
use crate::catalogue::version::check_version;
use crate::client::{QueryLimits, READONLY, REQUIRED_SETTINGS, may_differ, settings};
use crate::schema::TableEngine;
use crate::sql::{Statement, quote_literal};
use crate::{ClickHouseError, Result};

/// How long the servers' reports are cached: a constraint that is added later is noticed after this time.
const CACHE_TTL: Duration = Duration::from_secs(10);

/// Settings that the check itself has to change: one is left out for servers that cannot be reached, and a server turns off
/// the other one in the queries that it forwards, where the arguments are resolved.
const CHANGED_BY_THE_CHECK: [&str; 2] = ["skip_unavailable_shards", "enable_positional_arguments"];

/// Number of differing settings that a message names.
const MAX_NAMED_SETTINGS: usize = 4;

/// The report of one server.
#[derive(Deserialize)]
struct Server {
    address: String,
    version: String,
    settings: Vec<(String, String)>,
}

impl Catalogue {
    /// Refuses a table whose rows come from servers that change the settings of a statement. A table that stores its rows
    /// itself needs no check. The tables behind a view are unknown, and may be any distributed tables.
    ///
    /// # Errors
    /// [`ClickHouseError::Unusable`] that names the server and the settings, or failures of the statements.
    pub(crate) async fn verify_servers_of(&self, engine: &TableEngine) -> Result<()> {
        match engine {
            TableEngine::MergeTree { .. } => Ok(()),
            TableEngine::Distributed { cluster, .. } => self.verify_cluster(cluster).await,
            TableEngine::Other(name) if name.is_empty() => Ok(()),
            TableEngine::Other(_) => {
                for cluster in self.distributed_tables().await?.clusters() {
                    self.verify_cluster(cluster).await?;
                }
                Ok(())
            }
        }
    }

    async fn verify_cluster(&self, cluster: &str) -> Result<()> {
        // Servers may be configured differently, and may also differ in the servers of a cluster.
        let endpoint = self.client.session_endpoint();
        let (catalogue, name) =
            (Self { client: self.client.pinned_to(endpoint), ..self.clone() }, cluster.to_owned());
        let verify = Box::pin(async move { catalogue.verify_cluster_now(&name).await });
        self.verified.get((endpoint, cluster.to_owned()), CACHE_TTL, verify).await
    }

    /// Like [`Self::verify_cluster`], without the cache.
    async fn verify_cluster_now(&self, cluster: &str) -> Result<()> {
        let servers = self.servers(cluster).await?;
        let mut differing = Vec::new();
        let limits = QueryLimits::from_config(&self.config);
        let sent: BTreeMap<&str, String> =
            settings(&self.config, limits, READONLY, &Statement::default()).into_iter().collect();
        for server in &servers {
            let described = format!("the server {} of the cluster `{cluster}`", server.address);
            check_version(&described, &server.version)?;
            differing.extend(differences(server, &sent));
        }
        if differing.is_empty() {
            return Ok(());
        }
        Err(ClickHouseError::Unusable(format!(
            "servers of the cluster `{cluster}` silently change settings that are sent with a statement, \
             which could truncate results: {}; on these servers, remove the constraints on these settings \
             from the profile of the user of the connection (with a `<secret>`, the service's user)",
            differing.join("; ")
        )))
    }

    /// Reads the report of every server of a cluster that can be reached. The others have no part in an answer: a shard
    /// without any reachable server fails it.
    async fn servers(&self, cluster: &str) -> Result<Vec<Server>> {
        let settings_statement = |skips_unavailable_shards: bool| {
            let names = crate::client::setting_names(&self.config);
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            let mut statement = Statement::default();
            statement.skips_unavailable_shards = skips_unavailable_shards;
            let names = statement.string_array(&names);
            // One row for each server, so that a limit on rows that the server sets cannot hide that limit: a missing setting
            // is a difference, too.
            statement.push(&format!(
                "SELECT concat(hostName(), ':', toString(tcpPort())) AS tw_server, version() AS tw_version, \
                 groupArray((name, value)) FROM clusterAllReplicas({}, system.settings) WHERE has({names}, name) \
                 GROUP BY tw_server, tw_version ORDER BY tw_server",
                quote_literal(cluster)
            ));
            statement
        };
        let servers = match self.client.rows::<Server>(settings_statement(true)).await {
            // For a profile that fixes it at 0, which is the value that is sent otherwise.
            Err(ClickHouseError::Exception { code: Some(452), .. }) => {
                self.client.rows::<Server>(settings_statement(false)).await
            }
            servers => servers,
        };
        let servers = servers.map_err(|error| match error {
            ClickHouseError::Exception { code: Some(497), message } => ClickHouseError::Unusable(format!(
                "cannot verify that the servers of the cluster `{cluster}` keep the settings that are sent \
                 with a statement: `GRANT READ ON REMOTE TO` the service's user; without `CREATE TEMPORARY \
                 TABLE`, it can then query only the servers of configured clusters: {message}"
            )),
            other => other,
        })?;
        if servers.is_empty() {
            return Err(ClickHouseError::IncompleteResponse(format!(
                "no server of the cluster `{cluster}` returned its settings"
            )));
        }
        Ok(servers)
    }
}

/// Describes the settings of a server that differ from those that were sent, where they could change an answer.
fn differences(server: &Server, sent: &BTreeMap<&str, String>) -> Option<String> {
    let reported: BTreeSet<&str> = server.settings.iter().map(|(name, _)| name.as_str()).collect();
    // A version may lack a setting whose feature it lacks.
    let missing = REQUIRED_SETTINGS.iter().map(|(name, _)| *name).filter(|name| !reported.contains(name));
    let missing = missing.map(|name| format!("does not report `{name}`"));
    let other = server.settings.iter().filter_map(|(name, value)| {
        let expected = sent.get(name.as_str())?;
        let differs =
            value != expected && !may_differ(name) && !CHANGED_BY_THE_CHECK.contains(&name.as_str());
        differs.then(|| format!("has `{name}` = {value:?} where {expected:?} is sent"))
    });
    let all: Vec<String> = other.chain(missing).collect();
    let shown = all.iter().take(MAX_NAMED_SETTINGS).cloned().collect::<Vec<_>>().join(", ");
    let more = all.len().saturating_sub(MAX_NAMED_SETTINGS);
    match (all.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("{} {shown}", server.address)),
        (false, more) => Some(format!("{} {shown}, and {more} more", server.address)),
    }
}

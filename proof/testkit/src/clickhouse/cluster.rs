//! A cluster of real servers: two shards with two replicas each, and a ZooKeeper.

use std::thread;

use super::zookeeper::ZooKeeper;
use super::{Options, Ports, Server};
use crate::ports::ReservedPorts;

/// Number of shards in a cluster.
pub const SHARDS: usize = 2;

/// Number of replicas in a shard.
pub const REPLICAS: usize = 2;

const PORTS: usize = 3 * SHARDS * REPLICAS;

/// A running cluster with the name [`Cluster::NAME`]. Its servers have the macros `{shard}` and `{replica}` for paths of
/// replicated tables, and share a secret, so that a user has the same identity on all of them.
pub struct Cluster {
    servers: Vec<Server>,
    #[allow(dead_code, reason = "held for its process")]
    zookeeper: ZooKeeper,
    #[allow(dead_code, reason = "held for its locks")]
    reserved: ReservedPorts<PORTS>,
}

impl Cluster {
    /// Name of the cluster in statements.
    pub const NAME: &str = "test_cluster";

    /// Starts all servers in parallel. `options` gets the numbers of the shard and the replica, both counted from 0.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start(options: impl Fn(usize, usize) -> Options + Sync) -> Result<Self, String> {
        let zookeeper = ZooKeeper::start()?;
        let reserved = ReservedPorts::new()?;
        let servers = start_servers(&options, zookeeper.port, reserved.ports)?;
        Ok(Self { servers, zookeeper, reserved })
    }

    /// Returns the server of a shard and a replica, both counted from 0.
    ///
    /// # Panics
    /// When there is no such server.
    pub fn server(&self, shard: usize, replica: usize) -> &Server {
        #[allow(clippy::expect_used, reason = "a wrong test")]
        self.servers.get(shard * REPLICAS + replica).expect("no such server")
    }

    /// Returns all servers, ordered by shard and then by replica.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Runs a statement as the administrator on every server, one after the other.
    ///
    /// # Errors
    /// The first error.
    pub fn run_on_all(&self, statement: &str) -> Result<(), String> {
        self.servers.iter().try_for_each(|server| server.run(statement).map(drop))
    }
}

fn start_servers(
    options: &(impl Fn(usize, usize) -> Options + Sync),
    zookeeper: u16,
    ports: [u16; PORTS],
) -> Result<Vec<Server>, String> {
    let ports: Vec<Ports> = ports
        .chunks_exact(3)
        .filter_map(|ports| match *ports {
            [http, tcp, interserver] => Some(Ports { http, tcp, interserver }),
            _ => None,
        })
        .collect();
    let shards: String = ports
        .chunks(REPLICAS)
        .map(|replicas| {
            let replicas: String = replicas
                .iter()
                .map(|ports| format!("<replica><host>127.0.0.1</host><port>{}</port></replica>", ports.tcp))
                .collect();
            format!("<shard><internal_replication>true</internal_replication>{replicas}</shard>")
        })
        .collect();
    let name = Cluster::NAME;
    let common = format!(
        "<remote_servers><{name}><secret>canary-of-the-cluster-secret</secret>{shards}</{name}></remote_servers>\
         <zookeeper><node><host>127.0.0.1</host><port>{zookeeper}</port></node>\
         <session_timeout_ms>10000</session_timeout_ms></zookeeper>\
         <distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>"
    );
    thread::scope(|scope| {
        let starting: Vec<_> = ports
            .iter()
            .enumerate()
            .map(|(at, ports)| {
                let (shard, replica) = (at / REPLICAS, at % REPLICAS);
                let macros = format!("<macros><shard>{shard}</shard><replica>{replica}</replica></macros>");
                let options = options(shard, replica).sections(&common).sections(&macros);
                scope.spawn(move || Server::launch(&options, *ports))
            })
            .collect();
        let started = starting.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err("the thread that starts a server panicked".to_owned()))
        });
        started.collect()
    })
}

//! The engine or a real server, with a cluster of one node.

use reqwest::Method;
use tracewarden_testkit::clickhouse::{Options, PASSWORD, Server};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::trace_tables::CLUSTER;

use crate::support::{Client, Service};

/// Environment variable that selects the stores.
const SELECTION: &str = "TRACEWARDEN_TEST_CLICKHOUSE";

/// A kind of ClickHouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// The embedded engine in a process of its own.
    Engine,
    /// A server of the oldest supported version.
    Server,
}

/// Returns the kinds to test on.
pub fn selected_stores() -> Vec<StoreKind> {
    match std::env::var(SELECTION).as_deref() {
        Err(_) | Ok("" | "engine") => vec![StoreKind::Engine],
        Ok("server") => vec![StoreKind::Server],
        Ok("all") => vec![StoreKind::Engine, StoreKind::Server],
        Ok(other) => panic!("{SELECTION} is engine, server or all, and not `{other}`"),
    }
}

/// Keeps the process.
#[allow(dead_code, reason = "stops the process when dropped")]
enum Process {
    Engine(LocalStore),
    Server(Server),
}

/// A running ClickHouse.
pub struct Store {
    #[allow(dead_code, reason = "stops the process when dropped")]
    process: Process,
    /// URL of its HTTP interface.
    pub url: String,
    /// Major and minor version.
    pub version: (u32, u32),
    password: String,
}

impl Store {
    /// Starts one.
    pub fn start(kind: StoreKind) -> Self {
        // The shard is the process itself: no other server listens at the engine's port.
        let cluster = |port: &str| {
            format!(
                "<remote_servers><{CLUSTER}><shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>\
                 </{CLUSTER}></remote_servers>"
            )
        };
        match kind {
            StoreKind::Engine => {
                let users = "<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users><default>\
                    <password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>\
                    </default></users></clickhouse>";
                let sections = format!("<tcp_port>9000</tcp_port>{}", cluster("9000"));
                let local = LocalStore::start_with(users, &sections).unwrap();
                let (url, password) = (local.url.clone(), local.password.clone());
                Self { process: Process::Engine(local), url, password, version: (26, 7) }
            }
            StoreKind::Server => {
                let server = Server::start(&Options::default().sections(&cluster("{tcp_port}"))).unwrap();
                let url = server.url.clone();
                let password = PASSWORD.to_owned();
                Self { process: Process::Server(server), url, password, version: (25, 8) }
            }
        }
    }

    /// Runs a statement and returns its answer.
    pub async fn run(&self, statement: &str) -> String {
        let request = Client::new(&self.url).request(Method::POST, "/").body(statement.to_owned());
        let answer = request.basic_auth("default", Some(&self.password)).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        let begin: String = statement.chars().take(2_000).collect();
        assert!(status.is_success(), "{begin}: {text}");
        text
    }

    /// Starts a service that reads from this URL, the store's or that of a proxy in front of it.
    pub fn service_at(&self, url: &str) -> Service {
        Service::start_with(&[
            ("TRACEWARDEN_CLICKHOUSE_URL", url),
            ("TRACEWARDEN_CLICKHOUSE_PASSWORD", &self.password),
        ])
    }
}

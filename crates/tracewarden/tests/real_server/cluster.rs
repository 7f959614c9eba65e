//! Two shards with two replicas each; every trace has spans on both shards.

use std::time::Duration;

use tracewarden_testkit::clickhouse::{Cluster, Options, PASSWORD, Stop};

use crate::real_server::{COLUMNS, READER, counted, insert, page, serve, settings};
use crate::support::store::binding;
use crate::support::{Client, Service};

const SPANS: u64 = 40_000;
const TRACES: usize = 100;

/// Limits on another shard's server that silently override the settings of a query.
pub const CLAMPING: &str = "<readonly>2</readonly><max_rows_to_read>3000</max_rows_to_read>\
    <read_overflow_mode>break</read_overflow_mode><constraints><max_rows_to_read><min>1</min><max>3000</max></max_rows_to_read>\
    <read_overflow_mode><readonly/></read_overflow_mode></constraints>";

fn cluster(profile: impl Fn(usize, usize) -> &'static str + Sync) -> Cluster {
    let cluster =
        Cluster::start(|shard, replica| Options::default().user(READER, profile(shard, replica))).unwrap();
    let name = Cluster::NAME;
    let first = cluster.server(0, 0);
    for statement in [
        format!("CREATE DATABASE otel ON CLUSTER {name}"),
        format!(
            "CREATE TABLE otel.rows ON CLUSTER {name} ({COLUMNS}) \
             ENGINE = ReplicatedMergeTree('/tables/{{shard}}/rows', '{{replica}}') ORDER BY (ServiceName, SpanName, TraceId) \
             SETTINGS index_granularity = 128"
        ),
        format!(
            "CREATE TABLE otel.otel_traces ON CLUSTER {name} AS otel.rows \
             ENGINE = Distributed({name}, otel, rows, cityHash64(SpanId))"
        ),
    ] {
        first.run(&statement).unwrap();
    }
    let settings = " SETTINGS distributed_foreground_insert = 1, insert_quorum = 2";
    let statement = insert("otel.otel_traces", SPANS, SPANS / TRACES as u64);
    first.run(&statement.replace(" SELECT ", &format!("{settings} SELECT "))).unwrap();
    cluster
}

async fn whole_page(ada: &Client) -> (usize, usize) {
    counted(&ada.post("/traces/query", page(200)).await.expect(200).body)
}

fn findings(service: &Service) -> String {
    let output = service.command().arg("check-config").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn traces_are_complete_whichever_replica_or_shard_is_down() {
    let cluster = cluster(|_, _| "<readonly>2</readonly>");
    let first = cluster.server(0, 0);
    let (service, _, ada) = serve(&first.url, &[]).await;
    assert_eq!(whole_page(&ada).await, (TRACES, SPANS as usize));
    service.anonymous().get("/readyz").await.expect(200);

    // First one replica of the other shard fails, then the other one.
    cluster.server(1, 0).stop(Stop::Kill);
    assert_eq!(whole_page(&ada).await, (TRACES, SPANS as usize));
    service.anonymous().get("/readyz").await.expect(200);
    cluster.server(1, 1).stop(Stop::Kill);
    let unready = service.anonymous().get("/readyz").await.expect(503);
    assert!(unready.body["detail"].as_str().unwrap().contains("shard"), "{unready:?}");
    ada.post("/traces/query", page(200)).await.expect(503);
    cluster.server(1, 1).resume().unwrap();
    let begun = std::time::Instant::now();
    while service.anonymous().get("/readyz").await.status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", service.log());
    }
    assert_eq!(whole_page(&ada).await, (TRACES, SPANS as usize));
}

/// The second shard reads at most 3,000 rows and then silently ends its part of the result.
#[tokio::test]
async fn limits_of_another_shard_never_shorten_an_answer() {
    let cluster = cluster(|_, _| "<readonly>2</readonly>");
    let first = cluster.server(0, 0);
    let (service, admin, ada) = serve(&first.url, &[]).await;
    assert_eq!(whole_page(&ada).await, (TRACES, SPANS as usize));
    for server in &cluster.servers()[2..] {
        server.stop(Stop::Graceful);
        server.configure(&Options::default().user(READER, CLAMPING)).unwrap();
        server.resume().unwrap();
    }
    // The service caches what the servers reported for a few seconds; a restarted service has an empty cache.
    let mut service = service;
    service.restart_with(&[]);
    let (admin, ada) = (admin.at(&service), ada.at(&service));
    let refused = ada.post("/traces/query", page(200)).await.expect(502);
    assert!(!refused.body["detail"].as_str().unwrap().contains("read_overflow_mode"), "{refused:?}");
    let error = admin.post("/traces/query", page(200)).await.expect(502);
    let detail = error.body["detail"].as_str().unwrap();
    assert!(detail.contains("has `read_overflow_mode` = \"break\" where \"throw\" is sent"), "{detail}");
    assert!(detail.contains(&format!(":{}", cluster.server(1, 1).tcp_port())), "{detail}");
    let unready = service.anonymous().get("/readyz").await.expect(503);
    assert!(
        unready.body["detail"].as_str().unwrap().contains("changes settings that are sent"),
        "{unready:?}"
    );
    let found = findings(&service);
    assert!(
        found.lines().any(|line| line.starts_with("error") && line.contains("read_overflow_mode")),
        "{found}"
    );

    // A limit that causes an error is no reason to reject the cluster.
    let without_throw = CLAMPING.replace("<read_overflow_mode>break", "<read_overflow_mode>throw");
    for server in &cluster.servers()[2..] {
        server.stop(Stop::Graceful);
        server.configure(&Options::default().user(READER, &without_throw)).unwrap();
        server.resume().unwrap();
    }
    service.restart_with(&[]);
    let answer = ada.at(&service).post("/traces/query", page(200)).await;
    assert!([422, 502, 503, 504].contains(&answer.status), "{answer:?}");
    let one = ada.at(&service).post("/traces/query", page(5)).await;
    assert!(one.status != 200 || counted(&one.body) == (5, 2_000), "{one:?}");
}

/// Checking whether servers override settings requires an additional privilege.
#[tokio::test]
async fn a_user_who_may_not_ask_the_servers_is_refused_with_the_grant() {
    let cluster = cluster(|_, _| "<readonly>2</readonly>");
    for statement in [
        format!("CREATE USER limited IDENTIFIED BY '{PASSWORD}' SETTINGS readonly = 2"),
        "GRANT SELECT ON otel.* TO limited".to_owned(),
    ] {
        cluster.run_on_all(&statement).unwrap();
    }
    let url = cluster.server(0, 0).url.clone();
    let environment = [&settings(&url)[..], &[("TRACEWARDEN_CLICKHOUSE_USER", "limited")]].concat();
    let service = Service::start_with(&environment);
    let admin = service.admin().await;
    let refused = admin.put("/schema/binding", binding()).await.expect(422);
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("`GRANT READ ON REMOTE TO` the service's user"), "{detail}");
    cluster.run_on_all("GRANT READ ON REMOTE TO limited").unwrap();
    admin.put("/schema/binding", binding()).await.expect(200);
    // This privilege gives no access to other servers.
    let other = cluster.server(0, 1).tcp_port();
    let statement = format!("SELECT count() FROM remote('127.0.0.1:{other}', system.one)");
    let refused = cluster.server(0, 0).run_as("limited", &statement).unwrap_err();
    assert!(refused.contains("CREATE TEMPORARY TABLE"), "{refused}");
    let found = findings(&service);
    assert!(!found.contains("can reach files and other systems"), "{found}");
}

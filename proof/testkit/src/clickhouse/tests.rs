use std::io::BufRead as _;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Instant;

use super::*;

#[test]
fn a_server_keeps_its_data_and_has_the_users_of_its_options() {
    let options = Options::default().user(
        "reader",
        "<readonly>2</readonly><max_threads>1</max_threads>\
         <constraints><max_threads><max>1</max></max_threads></constraints>",
    );
    let server = Server::start(&options).unwrap();
    assert!(server.run("SELECT version()").unwrap().starts_with(VERSION));
    server.run("CREATE TABLE t (n UInt8) ORDER BY n").unwrap();
    server.run("INSERT INTO t VALUES (1), (2)").unwrap();
    assert!(server.run_as("reader", "INSERT INTO t VALUES (3)").unwrap_err().contains("READONLY"));
    assert_eq!(server.run_as("reader", "SELECT getSetting('max_threads')").unwrap(), "1");
    for how in [Stop::Graceful, Stop::Kill] {
        server.stop(how);
        assert!(server.run("SELECT 1").is_err());
        server.resume().unwrap();
        assert_eq!(server.run("SELECT sum(n) FROM t").unwrap(), "3");
    }
    let directory = server.directory.clone();
    drop(server);
    assert!(!directory.exists());
}

#[test]
fn a_server_that_does_not_start_shows_its_log() {
    let error = Server::start(&Options::default().sections("<never_closed>")).err().unwrap();
    assert!(error.contains("did not start") && error.contains("SAXParseException"), "{error}");
}

const KILLED: &str = "TESTKIT_CLICKHOUSE_OF_A_KILLED_PROCESS";

/// The process to kill: this same test program. Without the environment variable, the test does nothing.
#[test]
fn process_with_a_server() {
    if std::env::var_os(KILLED).is_none() {
        return;
    }
    let server = Server::start(&Options::default()).unwrap();
    println!("\ndirectory {}", server.directory.display());
    sleep(Duration::from_secs(60));
}

#[test]
fn the_server_of_a_killed_process_ends_and_its_folder_is_removed() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "clickhouse::tests::process_with_a_server", "--nocapture"])
        .env(KILLED, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let directory = lines.find_map(|line| Some(PathBuf::from(line.strip_prefix("directory ")?))).unwrap();
    let number = fs::read_to_string(directory.join("server")).unwrap();
    let server = PathBuf::from(format!("/proc/{}", number.trim()));
    assert!(server.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let begun = Instant::now();
    while directory.exists() || server.exists() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the server outlived its process");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_cluster_replicates_and_shares_a_user() {
    let cluster = Cluster::start(|shard, _| {
        // The second shard has a constraint, which clamps the setting that the first shard's server sends.
        let constraint = if shard == 1 { "<max_threads><readonly/></max_threads>" } else { "" };
        let threads = shard + 1;
        Options::default().user(
            "reader",
            &format!("<max_threads>{threads}</max_threads><constraints>{constraint}</constraints>"),
        )
    })
    .unwrap();
    let name = Cluster::NAME;
    let first = cluster.server(0, 0);
    first
        .run(&format!(
            "CREATE TABLE rows ON CLUSTER {name} (n UInt8) \
             ENGINE = ReplicatedMergeTree('/tables/{{shard}}/rows', '{{replica}}') ORDER BY n"
        ))
        .unwrap();
    first
        .run(&format!(
            "CREATE TABLE t ON CLUSTER {name} AS rows ENGINE = Distributed({name}, default, rows, n)"
        ))
        .unwrap();
    first
        .run("INSERT INTO t SETTINGS distributed_foreground_insert = 1, insert_quorum = 2 SELECT number FROM numbers(10)")
        .unwrap();
    for server in cluster.servers() {
        assert_eq!(server.run("SELECT count() FROM t").unwrap(), "10");
        assert_eq!(server.run("SELECT count() FROM rows").unwrap(), "5");
    }
    let seen = first
        .run_as(
            "reader",
            &format!(
                "SELECT DISTINCT getMacro('shard'), value FROM clusterAllReplicas({name}, system.settings) \
                 WHERE name = 'max_threads' ORDER BY ALL"
            ),
        )
        .unwrap();
    assert_eq!(seen, "0\t1\n1\t2");
}

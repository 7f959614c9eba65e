//! Clients that hold connections and send nothing, or little.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tracewarden_testkit::wait::until;

use crate::operations::metrics::{scrape, value};
use crate::support::Service;

async fn connect(service: &Service) -> TcpStream {
    TcpStream::connect(service.base.strip_prefix("http://").unwrap()).await.unwrap()
}

/// Returns the processor time of the service in seconds.
fn ready(service: &Service) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", service.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

#[tokio::test]
async fn without_file_descriptors_the_service_waits_and_logs_once() {
    let service = Service::start_with(&[("TRACEWARDEN_METRICS_LISTEN", "127.0.0.1:0")]);
    service.anonymous().get("/healthz").await.expect(200);
    scrape(&service).await;
    let open = fs::read_dir(format!("/proc/{}/fd", service.id())).unwrap();
    let open: BTreeSet<u64> =
        open.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    // The limit applies to descriptor numbers, and the process may have inherited high ones. Four numbers stay free.
    let limit = (0..).filter(|number| !open.contains(number)).nth(4);
    let pid = Pid::from_raw(i32::try_from(service.id()).unwrap());
    prlimit(pid, Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
    let mut clients = Vec::new();
    for _ in 0..40 {
        clients.push(connect(&service).await);
    }
    let before = ready(&service);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let busy = ready(&service) - before;
    assert!(busy < 1.0, "{busy} s of 3 s");
    drop(clients);
    service.anonymous().get("/healthz").await.expect(200);
    let warnings = service.log().matches("cannot accept connections").count();
    assert_eq!(warnings, 1, "{}", service.log());
    let failures = value(&scrape(&service).await, "tracewarden_http_accept_failures_total");
    assert!(failures > 1.0, "{failures}");
}

#[tokio::test]
async fn connections_are_bounded_as_configured() {
    let environment = [("TRACEWARDEN_METRICS_LISTEN", "127.0.0.1:0"), ("TRACEWARDEN_MAX_CONNECTIONS", "10")];
    let service = Service::start_with(&environment);
    let mut clients = Vec::new();
    for _ in 0..30 {
        clients.push(connect(&service).await);
    }
    let queued_client = service.anonymous();
    let waiting = tokio::spawn(async move { queued_client.get("/healthz").await });
    let full = |text: &String| value(text, "tracewarden_http_connections_full_total") >= 1.0;
    let text = until(async || scrape(&service).await, full).await;
    assert_eq!(value(&text, "tracewarden_http_connections"), 10.0, "{text}");
    // It is not answered while the others are open; a short wait suffices to detect a limit that does not work.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    assert_eq!(service.log().matches("connection limit reached").count(), 1, "{}", service.log());
    drop(clients);
    waiting.await.unwrap().expect(200);
}

/// The time-out takes half a minute, for all requests at once.
#[tokio::test]
async fn incomplete_bodies_time_out() {
    let service = Service::start();
    let admin = service.admin().await;
    let key = admin.post("/me/api-keys", json!({"name": "slow"})).await.expect(201).body;
    let token = key["token"].as_str().unwrap();
    let bodies = ["/login", "/traces/query", "/mcp"].map(|path| {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\ncontent-length: 1000\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream\r\n\r\n{{"
        );
        let client = connect(&service);
        async move {
            let (mut client, begun) = (client.await, Instant::now());
            client.write_all(head.as_bytes()).await.unwrap();
            let mut answer = vec![0; 4096];
            while begun.elapsed() < Duration::from_secs(90) {
                // Keep sending, so that the connection is never idle.
                if let Ok(read) = tokio::time::timeout(Duration::from_secs(1), client.read(&mut answer)).await {
                    answer.truncate(read.unwrap());
                    return (path, String::from_utf8(answer).unwrap(), begun.elapsed());
                }
                client.write_all(b" ").await.unwrap();
            }
            panic!("{path}: no answer");
        }
    });
    for (path, answer, took) in futures::future::join_all(bodies).await {
        assert!(
            answer.starts_with("HTTP/1.1 408 ") && answer.contains("request_timeout"),
            "{path}: {answer}"
        );
        assert!(took >= Duration::from_secs(29), "{path}: {took:?}");
    }
}

/// The time-out takes ten seconds, for both kinds of routes at once.
#[tokio::test]
async fn large_bodies_are_bounded_together() {
    const LARGE: usize = 1 << 20;
    let service = Service::start();
    let admin = service.admin().await;
    let bob = service.user(&admin, "bob", &[]).await;
    let mut tokens = Vec::new();
    let carol = service.user(&admin, "carol", &[]).await;
    for owner in [&admin, &bob, &carol] {
        let key = owner.post("/me/api-keys", json!({"name": "large"})).await.expect(201).body;
        tokens.push(key["token"].as_str().unwrap().to_owned());
    }
    let begin = async |token: &str, path: &str, rest: &str| {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\ncontent-length: {LARGE}\r\n\
             content-type: application/json\r\naccept: application/json, text/event-stream\r\n{rest}"
        );
        let mut client = connect(&service).await;
        client.write_all(head.as_bytes()).await.unwrap();
        client
    };
    let answered = async |mut client: TcpStream, path: &'static str| {
        let mut answer = vec![0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(25), client.read(&mut answer)).await;
        answer.truncate(read.unwrap_or_else(|_| panic!("{path}: no answer")).unwrap());
        (path, String::from_utf8(answer).unwrap())
    };
    // `100 Continue` means that the request has a memory permit: before that, none of the body is read.
    const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut taking = Vec::new();
    for at in 0..16 {
        let path = ["/traces/query", "/mcp"][at % 2];
        let mut client = begin(&tokens[at / 8], path, "expect: 100-continue\r\n\r\n").await;
        let mut answer = [0_u8; GO_ON.len()];
        let outcome = tokio::time::timeout(Duration::from_secs(20), client.read_exact(&mut answer)).await;
        outcome.unwrap_or_else(|_| panic!("{path}: no `100 Continue`")).unwrap();
        assert_eq!(answer, GO_ON, "{path}: {}", String::from_utf8_lossy(&answer));
        client.write_all(b"{").await.unwrap();
        taking.push(client);
        // One user may use half of the memory; a further request is rejected at once.
        if at == 7 {
            for path in ["/traces/query", "/mcp"] {
                let (_, answer) = answered(begin(&tokens[0], path, "\r\n{").await, path).await;
                let outcome = answer.contains("too many of your large requests");
                assert!(answer.starts_with("HTTP/1.1 503 ") && outcome, "{path}: {answer}");
            }
        }
    }
    let begun = Instant::now();
    let token = tokens[2].as_str();
    let refused = ["/traces/query", "/mcp"]
        .map(|path| async move { answered(begin(token, path, "\r\n{").await, path).await });
    let refused = futures::future::join_all(refused);
    let client = service.anonymous().with_key(token);
    let agent = client
        .with("accept", "application/json, text/event-stream")
        .with("mcp-protocol-version", "2025-11-25");
    // Small requests do not wait for a permit; otherwise they would be rejected after ten seconds.
    let small = async {
        let begun = Instant::now();
        client.post("/traces/query", json!({})).await.problem(409, "not_bound");
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
        agent.post("/mcp", list).await.expect(200);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    };
    let (refused, ()) = tokio::join!(refused, small);
    for (path, answer) in refused {
        assert!(
            answer.starts_with("HTTP/1.1 503 ") && answer.contains("too many large requests"),
            "{path}: {answer}"
        );
    }
    assert!(begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
    drop(taking);
    let body = json!({"padding": "x".repeat(LARGE - 100)});
    // The body is read completely: the error concerns its content, not its size.
    let read = client.post("/traces/query", body).await.problem(400, "invalid_request");
    assert_eq!(read.first_error()["pointer"], "/padding", "{}", read.body);
}

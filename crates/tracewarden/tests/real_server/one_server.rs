//! A single server: profiles, quotas, limits and ports.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use tracewarden_testkit::chaos_proxy::{ChaosProxy, Fault};
use tracewarden_testkit::clickhouse::{Options, PASSWORD, Stop};

use crate::real_server::{counted, insert, options, page, serve, server, server_with, settings};
use crate::support::Service;

/// Returns the findings of `check-config` with this environment.
fn check_config(service: &Service, environment: &[(&str, &str)]) -> Vec<String> {
    let output = service.command().envs(environment.iter().copied()).arg("check-config").output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let (_, findings) = printed.split_once("the configuration is valid\n").expect("findings");
    findings.lines().map(str::to_owned).collect()
}

/// `limit` and `offset` in a profile cut every result, including the one that lists the settings.
#[tokio::test]
async fn limit_and_offset_of_a_profile_change_nothing() {
    let profile = "<readonly>2</readonly><limit>1</limit><offset>1</offset><max_result_rows>1</max_result_rows>\
        <result_overflow_mode>break</result_overflow_mode>";
    let server = server(profile, 2_000);
    let (service, _, ada) = serve(&server.url, &[]).await;
    let found = ada.post("/traces/query", page(50)).await.expect(200);
    assert_eq!(counted(&found.body), (20, 2_000));
    service.anonymous().get("/readyz").await.expect(200);
    let findings = check_config(&service, &[]);
    assert!(!findings.iter().any(|line| line.starts_with("error")), "{findings:#?}");
    assert!(findings.iter().any(|line| line.contains("version 25.8")), "{findings:#?}");
    assert!(
        findings.iter().any(|line| line.contains("`otel.otel_traces`") || line.contains("*.*")),
        "{findings:#?}"
    );
}

/// An exhausted quota is not the fault of a query.
#[tokio::test]
async fn an_exhausted_quota_is_reported_with_its_end() {
    let server = server("<readonly>2</readonly>", 1_000);
    // A user without another quota.
    let create = format!("CREATE USER quoted IDENTIFIED BY '{PASSWORD}' SETTINGS readonly = 2");
    for statement in [create.as_str(), "GRANT SELECT ON *.* TO quoted"] {
        server.run(statement).unwrap();
    }
    let (service, admin, ada) = serve(&server.url, &[("TRACEWARDEN_CLICKHOUSE_USER", "quoted")]).await;
    server
        .run("CREATE QUOTA q KEYED BY user_name FOR INTERVAL 1 hour MAX read_rows = 5000 TO quoted")
        .unwrap();
    server
        .run(
            "CREATE TABLE otel.many ENGINE = MergeTree ORDER BY n AS SELECT number AS n FROM numbers(100000)",
        )
        .unwrap();
    let refused = server.run_as("quoted", "SELECT sum(n) FROM otel.many").unwrap_err();
    assert!(refused.contains("QUOTA_EXCEEDED"), "{refused}");
    let away = ada.post("/traces/query", page(5)).await.expect(503);
    assert_eq!(away.body["code"], "unavailable");
    let seconds: u64 = away.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=3_600).contains(&seconds), "{seconds}");
    let minutes =
        server.run("SELECT dateDiff('second', now(), toStartOfHour(now()) + INTERVAL 1 HOUR)").unwrap();
    let left: u64 = minutes.parse().unwrap();
    assert!(seconds.abs_diff(left) <= 2, "{seconds} {left}");
    let detail = away.body["detail"].as_str().unwrap();
    assert!(!detail.contains("narrow") && !detail.contains("201"), "{detail}");
    let error = admin.post("/traces/query", page(5)).await.expect(503);
    let detail = error.body["detail"].as_str().unwrap();
    assert!(detail.contains("ClickHouse 25.8.2.1 answered with code 201 (QUOTA_EXCEEDED)"), "{detail}");
    let not_ready = service.anonymous().get("/readyz").await.expect(503);
    assert!(not_ready.body["detail"].as_str().unwrap().contains("quota"), "{}", not_ready.body);
    server.run("DROP QUOTA q").unwrap();
    assert_eq!(counted(&ada.post("/traces/query", page(5)).await.expect(200).body), (5, 500));
}

/// The server runs three statements at a time: further ones are queued.
#[tokio::test]
async fn searches_wait_for_a_query_slot() {
    let profile =
        "<readonly>2</readonly><max_concurrent_queries_for_user>3</max_concurrent_queries_for_user>";
    let server = server(profile, 20_000);
    let (service, admin, _) = serve(&server.url, &[]).await;
    let users = ["u0", "u1", "u2"];
    let mut clients = Vec::new();
    for user in users {
        clients.push(service.user(&admin, user, &["blue"]).await);
    }
    let searches = (0..12).map(|at| clients[at % clients.len()].post("/traces/query", page(100)));
    for found in join_all(searches).await {
        assert_eq!(counted(&found.expect(200).body), (100, 10_000));
    }
}

#[tokio::test]
async fn a_refused_setting_and_a_wrong_password_are_logged_once() {
    let profile = "<readonly>2</readonly><constraints><join_use_nulls><readonly/></join_use_nulls>\
        <transform_null_in><readonly/></transform_null_in></constraints><transform_null_in>1</transform_null_in>";
    let refusing = server(profile, 100);
    let service = Service::start_with(&settings(&refusing.url));
    let findings = check_config(&service, &[]);
    let errors: Vec<&String> = findings.iter().filter(|line| line.starts_with("error")).collect();
    assert!(errors.iter().any(|line| line.contains("transform_null_in")), "{errors:#?}");
    assert!(!errors.iter().any(|line| line.contains("system.tables")), "{errors:#?}");
    service.anonymous().get("/readyz").await.expect(503);

    let server = server("<readonly>2</readonly>", 100);
    let wrong = [&settings(&server.url)[..2], &[("TRACEWARDEN_CLICKHOUSE_PASSWORD", "wrong")]].concat();
    let service = Service::start_with(&wrong);
    let unready = service.anonymous().get("/readyz").await.expect(503);
    assert_eq!(unready.body["detail"], "ClickHouse rejects the sign-in of the service's user");
    // Administrators see details of a ClickHouse error, other users do not.
    let admin = service.admin().await;
    let error = admin.get("/schema/tables").await;
    assert_eq!(error.status, 502, "{error:?}");
    let detail = error.body["detail"].as_str().unwrap();
    assert!(
        detail.contains("answered with code 516 (AUTHENTICATION_FAILED)") && detail.contains("25.8"),
        "{detail}"
    );
}

#[tokio::test]
async fn tls_at_a_plaintext_port_is_reported() {
    let server = server("<readonly>2</readonly>", 100);
    let (service, admin, ada) = serve(&server.url, &[]).await;
    drop((admin, ada));
    let https = server.url.replace("http:", "https:");
    // ClickHouse waits for the rest of a handshake whose random bytes begin like an HTTP request, until the connection times out.
    let mut findings = Vec::new();
    for _ in 0..5 {
        findings = check_config(&service, &[("TRACEWARDEN_CLICKHOUSE_URL", &https)]);
        if !findings.iter().any(|line| line.contains("timed out")) {
            break;
        }
    }
    assert!(
        findings
            .iter()
            .any(|line| line.contains("speaks HTTP without TLS") && line.contains("use `http://`")),
        "{findings:#?}"
    );
    let wrong = Service::start_with(&settings(&https));
    let admin = wrong.admin().await;
    let mut detail = String::new();
    for _ in 0..5 {
        let away = admin.get("/schema/tables").await.expect(503);
        detail = away.body["detail"].as_str().unwrap().to_owned();
        if !detail.contains("timed out") {
            break;
        }
    }
    assert!(detail.contains("use `http://`"), "{detail}");
}

/// ClickHouse uses the `http_send_timeout` of its profile `default`, whatever settings a statement has.
#[tokio::test]
async fn a_slow_reader_does_not_mark_the_server_unhealthy() {
    use futures::StreamExt as _;
    let defaults = "<http_send_timeout>1</http_send_timeout>".to_owned();
    let server = server_with(&Options { defaults, ..options("<readonly>2</readonly>") }, 100);
    server.run(&insert("otel.otel_traces", 400_000, 2_000)).unwrap();
    let (service, _, ada) = serve(&server.url, &[]).await;
    let request = ada.request(reqwest::Method::POST, "/traces/query").json(&page(200));
    let mut body = request.send().await.unwrap().bytes_stream();
    body.next().await.unwrap().unwrap();
    let begun = std::time::Instant::now();
    while server.run("SELECT count() FROM system.processes WHERE user = 'reader'").unwrap() != "0" {
        assert!(begun.elapsed() < Duration::from_secs(30), "the server waits for the reader");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut broken = false;
    while let Some(chunk) = body.next().await {
        broken |= chunk.is_err();
    }
    assert!(broken, "the answer was complete: nothing was slow");
    let log = service.log();
    let line = log.lines().find(|line| line.contains("http_send_timeout")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("its reader had read nothing for"), "{line}");
    assert!(!log.contains("clickhouse_error"), "{log}");
}

#[tokio::test]
async fn the_third_endpoint_is_used_when_two_are_overloaded() {
    const OVERLOADED: &str = "HTTP/1.1 500 Internal Server Error\r\nX-ClickHouse-Exception-Code: 202\r\nContent-Length: 9\r\n\
        Connection: close\r\n\r\ntoo many\n";
    let server = server("<readonly>2</readonly>", 1_000);
    let address = server.url.trim_start_matches("http://").parse().unwrap();
    for count in [2, 6] {
        let full: Vec<ChaosProxy> = (0..count).map(|_| ChaosProxy::start(address).unwrap()).collect();
        let mut urls: Vec<String> = full.iter().map(ChaosProxy::url).collect();
        urls.push(server.url.clone());
        let (_service, _, ada) = serve(&urls.join(","), &[]).await;
        full.iter().for_each(|proxy| proxy.set(Fault::Answer(OVERLOADED)));
        assert_eq!(counted(&ada.post("/traces/query", page(5)).await.expect(200).body), (5, 500));
    }
}

/// Concurrent searches do not wait for each other's time limits.
#[tokio::test]
async fn searches_at_a_server_that_hangs_fail_at_the_same_time() {
    let server = server("<readonly>2</readonly>", 1_000);
    // With a key column, every search reads the table's layout.
    server
        .run("ALTER TABLE otel.otel_traces ADD COLUMN team LowCardinality(Nullable(String)) MATERIALIZED \
              if(mapContains(SpanAttributes, 'team'), mapValues(SpanAttributes)[indexOf(mapKeys(SpanAttributes), 'team')], NULL)")
        .unwrap();
    let (service, admin, _) = serve(&server.url, &[("TRACEWARDEN_QUERY_TIMEOUT", "5s")]).await;
    let mut clients = Vec::new();
    for at in 0..3 {
        clients.push(service.user(&admin, &format!("u{at}"), &["blue"]).await);
    }
    server.pause().unwrap();
    let search = |at: usize| {
        let client = &clients[at % clients.len()];
        async move {
            let begun = std::time::Instant::now();
            let answer = client.post("/traces/query", json!({"limit": 5})).await;
            (answer.status, begun.elapsed())
        }
    };
    for (status, elapsed) in join_all((0..10).map(search)).await {
        assert!([503, 504].contains(&status), "{status}");
        assert!(elapsed < Duration::from_secs(8), "{elapsed:?}");
    }
    let begun = std::time::Instant::now();
    let ready = join_all((0..10).map(|_| async { service.anonymous().get("/readyz").await.status })).await;
    assert_eq!(ready, [503; 10]);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    server.unpause().unwrap();
}

#[tokio::test]
async fn a_server_that_is_restarted_is_used_again() {
    let server = server("<readonly>2</readonly>", 1_000);
    let (service, _, ada) = serve(&server.url, &[]).await;
    assert_eq!(counted(&ada.post("/traces/query", page(5)).await.expect(200).body), (5, 500));
    server.stop(Stop::Kill);
    ada.post("/traces/query", page(5)).await.expect(503);
    service.anonymous().get("/readyz").await.expect(503);
    server.resume().unwrap();
    let begun = std::time::Instant::now();
    while service.anonymous().get("/readyz").await.status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(20), "not ready");
    }
    assert_eq!(counted(&ada.post("/traces/query", page(5)).await.expect(200).body), (5, 500));
}

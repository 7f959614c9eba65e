//! The number of statements to the application database does not grow with its content: each operation sends as many
//! statements with three rows of a kind as with three hundred.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _};

use crate::every_operation::{Fixture, operations};
use crate::support::Client;
use crate::support::store::blue_policies;

const FEW: usize = 3;
const MANY: usize = 300;

/// Returns the number of statements that the service has sent so far.
async fn statements(metrics: &Client) -> u64 {
    let text = String::from_utf8(metrics.get("/metrics").await.expect(200).bytes).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("tracewarden_database_statements_total "));
    line.unwrap().parse().unwrap()
}

/// Returns the same number once no background statements are running.
async fn wait_until_idle(metrics: &Client) -> u64 {
    let mut seen = statements(metrics).await;
    loop {
        tokio::task::yield_now().await;
        let now = statements(metrics).await;
        if now == seen {
            return now;
        }
        seen = now;
    }
}

/// Creates a [`Fixture`] with this many additional users, roles, model changes, sessions and API keys.
async fn fixture_with(count: usize) -> Fixture {
    // One user sends all requests.
    let environment = [
        ("TRACEWARDEN_METRICS_LISTEN", "127.0.0.1:0"),
        ("TRACEWARDEN_MAX_QUERIES_PER_USER", "100"),
        ("TRACEWARDEN_SESSION_IDLE", "30d"),
    ];
    let fixture = Fixture::make(&environment).await;
    for number in 0..count {
        fixture.admin.put(&format!("/roles/many{number}"), blue_policies()).await.expect(201);
    }
    sqlx::any::install_default_drivers();
    let mut database = sqlx::AnyConnection::connect(&fixture.service.database_url()).await.unwrap();
    let numbers = format!(
        "WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < {count})"
    );
    for copy in [
        "INSERT INTO users (id, username, username_folded, password_hash, must_change_password, disabled, created_at, \
         last_login_at, attributes) NUMBERS SELECT 'usr_many' || i, 'many' || i, 'many' || i, password_hash, 0, 0, \
         created_at, last_login_at, '{\"team\":\"t' || i || '\"}' FROM users, numbers WHERE username_folded = 'ada'",
        "INSERT INTO user_roles (user_id, role) SELECT id, 'blue' FROM users WHERE id LIKE 'usr_many%'",
        "INSERT INTO user_roles (user_id, role) SELECT users.id, roles.name FROM users, roles \
         WHERE username_folded = 'ida' AND roles.name LIKE 'many%'",
        "INSERT INTO sessions (id, token_sha256, user_id, created_at, last_seen_at, client_ip, user_agent, preview) \
         NUMBERS SELECT 'ses_many' || users.username_folded || i, 'many' || users.username_folded || i, users.id, \
         users.created_at, users.created_at, NULL, NULL, '{\"roles\":[\"blue\"],\"attributes\":{},\"username\":null}' \
         FROM users, numbers WHERE username_folded IN ('admin', 'ida', 'bob')",
        "INSERT INTO api_keys (id, token_sha256, hint, name, user_id, created_at, expires_at, last_used_at, policy, tools) \
         NUMBERS SELECT 'key_many' || users.username_folded || i, 'many' || users.username_folded || i, 'h', 'n', users.id, \
         users.created_at, NULL, NULL, NULL, NULL FROM users, numbers WHERE username_folded IN ('ida', 'bob')",
        "INSERT INTO login_throttles (bucket, failures, window_start, blocked_until) NUMBERS \
         SELECT 'many' || i, 1, 0, 0 FROM numbers",
    ] {
        let statement = copy.replace("NUMBERS", &numbers);
        let done = sqlx::query(AssertSqlSafe(statement)).execute(&mut database).await.unwrap();
        assert!(done.rows_affected() >= count as u64, "{copy}");
    }
    fixture
}

/// Returns the number of statements of each operation, and of some further requests.
async fn count_statements(count: usize) -> BTreeMap<String, u64> {
    let fixture = fixture_with(count).await;
    let log = fixture.service.log();
    let metrics = Client::new(log.split_once("metrics on ").unwrap().1.split("/metrics").next().unwrap());
    let mut counts = BTreeMap::new();
    let all_roles: Vec<String> = (0..count).map(|number| format!("many{number}")).collect();
    let more: [(&str, &str, Option<Value>); 10] = [
        ("GET", "/schema/history?limit=100", None),
        ("GET", "/users?limit=500", None),
        ("GET", "/audit?limit=500", None),
        ("GET", "/users/ida/access", None),
        ("PATCH", "/users/bob", Some(json!({"roles": all_roles}))),
        ("POST", "/users", Some(json!({"username": "holder", "roles": all_roles}))),
        ("PATCH", "/users/ida", Some(json!({"roles": []}))),
        ("PUT", "/me/preview", Some(json!({"roles": all_roles}))),
        ("POST", "/traces/query", Some(json!({"view": "ids"}))),
        ("DELETE", "/me/preview", None),
    ];
    for (method, path, body) in more {
        let before = statements(&metrics).await;
        let answer = fixture.admin.send(method.parse().unwrap(), path, body).await;
        assert!((200..300).contains(&answer.status), "{method} {path}: {}", answer.body);
        counts.insert(format!("{method} {path}"), statements(&metrics).await - before);
    }
    for operation in operations(&fixture.service).await {
        let client = fixture.client(&operation).await;
        // The last use of a session is recorded in the background, once a minute.
        client.get("/me").await;
        let before = wait_until_idle(&metrics).await;
        let answer = fixture.ask(&client, &operation).await;
        assert!((200..300).contains(&answer.status), "{}: {}", operation.name(), answer.body);
        counts.insert(operation.name(), statements(&metrics).await - before);
    }
    counts
}

#[tokio::test]
async fn no_request_sends_more_statements_where_there_are_more_rows() {
    let (few, many) = (count_statements(FEW).await, count_statements(MANY).await);
    assert!(few.len() >= 60, "{few:?}");
    // Fewer are possible: an operation that reaches its time limit does not process the last users.
    let more: Vec<_> = few.iter().filter(|(name, count)| many[*name] > **count).collect();
    let more: Vec<String> =
        more.into_iter().map(|(name, count)| format!("{name}: {count}, {}", many[name])).collect();
    assert!(more.is_empty(), "{more:#?}");
    // Statements are counted at all.
    assert!(few["GET /me"] > 0 && few["GET /healthz"] == 0, "{few:?}");
    assert!(few.values().all(|count| *count < 60), "{few:?}");
}

//! Refresh of sessions: what a change at the provider does to people who are signed in, and that replicas do not use a token twice. The
//! provider ends the session of a refresh token that it sees a second time.

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::{AnyConnection, Connection as _, Row as _};
use tokio::time::sleep;

use super::{Company, TestDatabase, browser_of, on_both, postgres_database, roles, start_service};
use crate::support::{Client, Service};

on_both!(
    a_change_at_the_provider_reaches_open_sessions,
    a_refused_refresh_ends_the_session,
    sessions_outlast_an_outage_of_the_provider,
    refresh_tokens_are_encrypted_and_used_once,
);

const INTERVAL: &str = "refresh_interval = \"1s\"\n";
const KEY: (&str, &str) = ("TRACEWARDEN_REFRESH_TOKEN_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
const OTHER_KEY: (&str, &str) =
    ("TRACEWARDEN_REFRESH_TOKEN_KEY", "ICECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
/// Much more than the interval, for busy machines.
const PATIENCE: Duration = Duration::from_secs(30);

async fn start(database: TestDatabase, environment: &[(&str, &str)]) -> Company {
    let company = Company::start_with(database, INTERVAL, &[&[KEY], environment].concat()).await;
    company.map_groups().await;
    company.provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    company
}

async fn wait_until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until the provider has accepted `count` more refresh tokens.
async fn wait_for_refreshes(company: &Company, count: u64) {
    let wanted = company.provider.refreshes().await + count;
    wait_until("refreshes", async || company.provider.refreshes().await >= wanted).await;
}

async fn key_of(client: &Client) -> Client {
    let created = client.post("/me/api-keys", json!({"name": "k"})).await.expect(201).body;
    client.with_key(created["token"].as_str().unwrap())
}

async fn connect(service: &Service) -> AnyConnection {
    sqlx::any::install_default_drivers();
    AnyConnection::connect(&service.database_url()).await.unwrap()
}

async fn stored_tokens(service: &Service) -> Vec<String> {
    let mut connection = connect(service).await;
    let rows = sqlx::query("SELECT token FROM refresh_tokens").fetch_all(&mut connection).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn a_change_at_the_provider_reaches_open_sessions(database: TestDatabase) {
    let company = start(database, &[("TRACEWARDEN_IDENTITY_MAX_AGE", "10s")]).await;
    let signed_in = Instant::now();
    let (_, paula) = browser_of(&company, "paula").await;
    let key = key_of(&paula).await;
    assert_eq!(roles(&paula).await, json!(["payments"]));
    company.provider.put_user("paula", json!({"groups": ["/oncall"], "department": "red"})).await;
    wait_until("other roles", async || roles(&paula).await == json!(["oncall"])).await;
    assert_eq!(roles(&key).await, json!(["oncall"]));
    let record = &company.records("user.map").await[0];
    assert_eq!((&record["target"], &record["actor"]["via"]), (&json!("paula"), &json!("service")));
    assert_eq!(record["detail"]["roles"], json!({"before": ["payments"], "after": ["oncall"]}));
    company.provider.put_user("paula", json!({"groups": []})).await;
    wait_until("no roles", async || roles(&paula).await == json!([])).await;
    // Each refresh confirms the claims, also with keys that the provider has replaced since.
    company.provider.rotate_keys().await;
    sleep(Duration::from_secs(12).saturating_sub(signed_in.elapsed())).await;
    for client in [&paula, &key] {
        client.get("/me").await.expect(200);
    }
}

async fn a_refused_refresh_ends_the_session(database: TestDatabase) {
    let company = start(database, &[]).await;
    let (_, one) = browser_of(&company, "paula").await;
    let (_, other) = browser_of(&company, "paula").await;
    let key = key_of(&one).await;
    wait_for_refreshes(&company, 2).await;
    company.provider.disable_user("paula").await;
    for client in [&one, &other, &key] {
        wait_until("401", async || client.get("/me").await.status == 401).await;
    }
    let records = company.records("logout.provider").await;
    assert_eq!(records.len(), 2);
    for (record, keys_lapsed) in records.iter().zip([true, false]) {
        assert_eq!((&record["target"], &record["actor"]["via"]), (&json!("paula"), &json!("service")));
        let detail = &record["detail"];
        assert_eq!(
            (&detail["reason"], &detail["keys_lapsed"]),
            (&json!("refresh_refused"), &json!(keys_lapsed))
        );
    }
    assert_eq!(stored_tokens(&company.service).await, Vec::<String>::new());
}

async fn sessions_outlast_an_outage_of_the_provider(database: TestDatabase) {
    let mut company = start(database, &[("TRACEWARDEN_IDENTITY_MAX_AGE", "12s")]).await;
    let (_, paula) = browser_of(&company, "paula").await;
    wait_for_refreshes(&company, 1).await;
    company.provider.kill();
    let killed = Instant::now();
    while killed.elapsed() < Duration::from_secs(6) {
        paula.get("/me").await.expect(200);
        sleep(Duration::from_millis(200)).await;
    }
    wait_until("401", async || paula.get("/me").await.status == 401).await;
    assert!(killed.elapsed() < Duration::from_secs(16), "{:?}", killed.elapsed());
    company.admin.get("/me").await.expect(200);
}

async fn refresh_tokens_are_encrypted_and_used_once(database: TestDatabase) {
    let mut company = start(database, &[]).await;
    let (_, paula) = browser_of(&company, "paula").await;
    let first = stored_tokens(&company.service).await;
    assert_eq!(first.len(), 1);
    // Texts of the provider have about 43 characters; base64url of the encrypted one has no structure.
    assert!(first[0].len() > 100 && !first[0].contains('{'), "{first:?}");
    wait_for_refreshes(&company, 2).await;
    wait_until("another token", async || stored_tokens(&company.service).await != first).await;

    // With another key, tokens are dropped, and the session goes on without them.
    company.service.restart_with(&[OTHER_KEY]);
    let paula = paula.at(&company.service);
    wait_until("no tokens", async || stored_tokens(&company.service).await.is_empty()).await;
    paula.get("/me").await.expect(200);
    company.service.restart_with(&[KEY]);
    company.provider.register(&company.service.base, &["company"]);

    // The provider notices a token that is used again: the old one is put back.
    let (_, again) = browser_of(&company, "paula").await;
    let old = stored_tokens(&company.service).await.pop().unwrap();
    wait_for_refreshes(&company, 1).await;
    wait_until("another token", async || stored_tokens(&company.service).await != [old.clone()]).await;
    let mut connection = connect(&company.service).await;
    let restore = "UPDATE refresh_tokens SET token = $1";
    sqlx::query(restore).bind(old).execute(&mut connection).await.unwrap();
    wait_until("401", async || again.get("/me").await.status == 401).await;
}

/// Two processes share the sessions. If they used one token twice, the provider would end its session.
#[tokio::test]
async fn replicas_do_not_use_a_token_twice() {
    let database = postgres_database();
    let company = start(Some(database.clone()), &[]).await;
    let url = [KEY, ("TRACEWARDEN_PUBLIC_URL", company.service.base.as_str())];
    let other = start_service(&company.provider, Some(&database), INTERVAL, &url);
    let people: Vec<String> = (0..12).map(|number| format!("person-{number}")).collect();
    let mut sessions = Vec::new();
    for login in &people {
        company.provider.put_user(login, json!({"groups": ["/payments"]})).await;
        sessions.push(browser_of(&company, login).await.1);
    }
    wait_for_refreshes(&company, 150).await;
    for login in &people {
        company.provider.put_user(login, json!({"groups": ["/oncall"]})).await;
    }
    for session in &sessions {
        for replica in [&company.service, &other] {
            let client = session.at(replica);
            wait_until("other roles", async || roles(&client).await == json!(["oncall"])).await;
        }
    }
    assert_eq!(company.records("logout.provider").await, Vec::<serde_json::Value>::new());
    // Both have taken part: each still does when the other has gone.
    drop(company.service);
    let client = sessions[0].at(&other);
    company.provider.put_user(&people[0], json!({"groups": ["/payments"]})).await;
    wait_until("other roles", async || roles(&client).await == json!(["payments"])).await;
}

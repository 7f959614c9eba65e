//! How access ends: by the claims, by time, by a back-channel logout, and what happens while the provider is away. On two replicas
//! where there can be two.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::{Company, TestDatabase, browser_of, on_both, postgres_database, roles, start_service};
use crate::support::identity::{Browser, PROVIDER};
use crate::support::{Client, Service};

on_both!(
    access_lapses_unless_it_is_confirmed,
    a_backchannel_logout_ends_sessions,
    a_disabled_account_does_not_sign_in,
    people_go_on_while_the_provider_is_away,
);

async fn key_of(client: &Client) -> Client {
    let created = client.post("/me/api-keys", json!({"name": "k"})).await.expect(201).body;
    client.with_key(created["token"].as_str().unwrap())
}

async fn access_lapses_unless_it_is_confirmed(database: TestDatabase) {
    let company = Company::start_with(database, "", &[("TRACEWARDEN_IDENTITY_MAX_AGE", "8s")]).await;
    let Company { provider, service, admin } = &company;
    company.map_groups().await;
    provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    let (_, session) = browser_of(&company, "paula").await;
    let key = key_of(&session).await;
    key.get("/me").await.expect(200);
    sleep(Duration::from_secs(9)).await;
    session.get("/me").await.problem(401, "unauthenticated");
    key.get("/me").await.problem(401, "unauthenticated");
    // An administrator who views as her sees nothing either.
    let preview = admin.put("/me/preview", json!({"username": "paula"})).await.expect(200).body;
    assert_eq!(preview["preview"]["roles"], json!([]));
    admin.delete("/me/preview").await.expect(204);

    let (_, again) = browser_of(&company, "paula").await;
    again.get("/me").await.expect(200);
    key.get("/me").await.expect(200);
    session.get("/me").await.problem(401, "unauthenticated");
    // Users with a password do not depend on any provider.
    admin.get("/me").await.expect(200);
    drop(service.anonymous());
}

async fn a_backchannel_logout_ends_sessions(database: TestDatabase) {
    let company = Company::start(database).await;
    let Company { provider, .. } = &company;
    company.map_groups().await;
    for login in ["paula", "oscar"] {
        provider.put_user(login, json!({"groups": ["/payments"]})).await;
    }
    let (_, oscar) = browser_of(&company, "oscar").await;
    let (_, one) = browser_of(&company, "paula").await;
    let (_, other) = browser_of(&company, "paula").await;
    let key = key_of(&one).await;

    // A session that is not known here, and one of another person, end nothing.
    assert!(provider.log_out("paula", Some("unknown")).await);
    one.get("/me").await.expect(200);

    // All sessions of a person, and the keys until the next sign-in.
    assert!(provider.log_out("paula", None).await);
    for client in [&one, &other, &key] {
        client.get("/me").await.problem(401, "unauthenticated");
    }
    oscar.get("/me").await.expect(200);
    let record = &company.records("logout.provider").await[0];
    assert_eq!((&record["target"], &record["detail"]["keys_lapsed"]), (&json!("paula"), &json!(true)));
    assert_eq!(record["detail"]["sessions"].as_array().unwrap().len(), 2);
    let (_, again) = browser_of(&company, "paula").await;
    again.get("/me").await.expect(200);
    key.get("/me").await.expect(200);
    // A person who was never here.
    assert!(provider.log_out("absent", None).await);
    // A sign-in that began before the logout does not outlast it.
    let mut browser = Browser::default();
    let callback = browser.sign_in_at_provider(&company.service.base, "paula").await;
    assert!(provider.log_out("paula", None).await);
    assert_eq!(browser.failure_at(&callback).await, "sign_in_expired");
    again.get("/me").await.problem(401, "unauthenticated");
    let (_, again) = browser_of(&company, "paula").await;

    // The keys are rejected, too, if the session that the provider ends has ended here before.
    for session in [None, Some("unknown")] {
        let (_, last) = browser_of(&company, "paula").await;
        for client in [&last, &again] {
            let _ = client.post("/logout", json!({})).await;
        }
        key.get("/me").await.expect(200);
        assert!(provider.log_out("paula", session).await);
        key.get("/me").await.problem(401, "unauthenticated");
        let record = &company.records("logout.provider").await[0];
        assert_eq!(record["detail"]["sessions"], json!([]));
    }
}

async fn a_disabled_account_does_not_sign_in(database: TestDatabase) {
    let company = Company::start(database).await;
    let Company { provider, service, admin } = &company;
    company.map_groups().await;
    provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    let (_, paula) = browser_of(&company, "paula").await;
    admin.patch("/users/paula", json!({"disabled": true})).await.expect(200);
    paula.get("/me").await.problem(401, "unauthenticated");
    provider.put_user("paula", json!({"groups": ["/oncall"]})).await;
    assert_eq!(Browser::default().fail_to_sign_in(service, "paula").await, "disabled");
    // The claims of that attempt count once the user is enabled.
    assert_eq!(company.user("paula").await["roles"], json!(["oncall"]));
    provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    admin.patch("/users/paula", json!({"disabled": false})).await.expect(200);
    browser_of(&company, "paula").await;

    // Who loses all roles at the provider is not signed in, and the loss counts for the open sessions.
    let (_, open) = browser_of(&company, "paula").await;
    provider.put_user("paula", json!({"groups": []})).await;
    assert_eq!(Browser::default().fail_to_sign_in(service, "paula").await, "no_role");
    assert_eq!(roles(&open).await, json!([]));
    assert_eq!(company.user("paula").await["roles"], json!([]));
}

async fn people_go_on_while_the_provider_is_away(database: TestDatabase) {
    let mut company = Company::start(database).await;
    company.map_groups().await;
    company.provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    let (_, paula) = browser_of(&company, "paula").await;
    company.provider.kill();
    paula.get("/me").await.expect(200);
    // The service knows the provider's addresses from before: the browser learns there that the provider is away.
    let page = Browser::default().open(&format!("{}/login/{PROVIDER}", company.service.base)).await;
    assert!(page.location.unwrap().starts_with(&company.provider.issuer));
    company.admin.get("/me").await.expect(200);

    // A service that starts meanwhile.
    company.service.restart_with(&[]);
    let begin = format!("{}/login/{PROVIDER}", company.service.base);
    assert_eq!(Browser::default().failure_at(&begin).await, "identity_provider");
    let answer = company.service.anonymous().get(&format!("/login/{PROVIDER}")).await;
    assert!(
        answer.problem(502, "identity_provider").body["detail"]
            .as_str()
            .unwrap()
            .contains("cannot be reached")
    );
    paula.at(&company.service).get("/me").await.expect(200);
    company.admin.at(&company.service).get("/me").await.expect(200);
    company.service.admin().await;
}

/// What one replica hears of holds on the other from the next request.
#[tokio::test]
async fn access_ends_on_all_replicas() {
    let database = postgres_database();
    let company = Company::start(Some(database.clone())).await;
    let Company { provider, service, admin } = &company;
    let other =
        start_service(provider, Some(&database), "", &[("TRACEWARDEN_PUBLIC_URL", service.base.as_str())]);
    company.map_groups().await;
    provider.put_user("paula", json!({"groups": ["/payments"]})).await;

    // A sign-in that begins on one replica ends on the other.
    let mut browser = Browser::default();
    let callback = browser.sign_in_at_provider(&service.base, "paula").await;
    let cookies = browser.cookies(&service.base).clone();
    browser.cookies(&other.base).extend(cookies);
    browser.open(&callback.replace(&service.base, &other.base)).await;
    let on_other = browser.client(&other).unwrap();
    on_other.get("/me").await.expect(200);
    let on_both = |client: &Client| -> [Client; 2] { [client.at(service), client.at(&other)] };
    let refused_everywhere = async |client: &Client| {
        for client in on_both(client) {
            client.get("/me").await.problem(401, "unauthenticated");
        }
    };

    // The mapping.
    company
        .put_mapping(json!({"roles": [{"role": "oncall", "when": "\"/payments\" in claims.groups"}]}))
        .await;
    for client in on_both(&on_other) {
        assert_eq!(roles(&client).await, json!(["oncall"]));
    }
    // The role.
    admin.delete("/roles/oncall").await.expect(204);
    for client in on_both(&on_other) {
        assert_eq!(roles(&client).await, json!([]));
    }
    let mapping =
        admin.at(&other).get(&format!("/identity/providers/{PROVIDER}/mapping")).await.expect(200).body;
    assert_eq!(mapping["roles"], json!([]));
    company.put_mapping(super::groups_mapping_without_oncall()).await;
    for client in on_both(&on_other) {
        assert_eq!(roles(&client).await, json!(["payments"]), "from the stored claims");
    }
    // The back channel.
    let key = key_of(&on_other).await;
    assert!(provider.log_out("paula", None).await);
    refused_everywhere(&on_other).await;
    refused_everywhere(&key).await;
    require_ready(&other).await;
}

async fn require_ready(service: &Service) {
    // ClickHouse is not there in this test, which is all that is missing.
    let answer = service.anonymous().get("/readyz").await;
    assert!(answer.body["detail"].as_str().unwrap().contains("ClickHouse"), "{}", answer.body);
}

//! A provider of another make.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{groups_mapping, policies, roles};
use crate::support::Service;
use crate::support::canaille::Canaille;
use crate::support::identity::{Browser, PROVIDER};

/// Much more than the interval of the refreshes.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn people_of_a_second_provider_sign_in_and_are_refreshed() {
    let mut provider = Canaille::new("ada", "payments");
    let more = "scopes = [\"profile\", \"groups\"]\nusername = \"sub\"\nuserinfo = true\nrefresh_interval = \"1s\"\n";
    let file = provider.settings_file(more);
    let service = Service::start_with(&[
        ("TRACEWARDEN_IDENTITY_PROVIDERS", file.as_str()),
        ("TRACEWARDEN_IDENTITY_MAX_AGE", "20s"),
        ("TRACEWARDEN_REFRESH_TOKEN_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
    ]);
    provider.start(&service.base).await;
    let admin = service.admin().await;
    for role in ["payments", "oncall"] {
        admin.put(&format!("/roles/{role}"), policies("true")).await.expect(201);
    }
    let mut mapping = groups_mapping();
    for rule in mapping["roles"].as_array_mut().unwrap() {
        rule["when"] = json!(rule["when"].as_str().unwrap().replace("\"/", "\""));
    }
    admin.put(&format!("/identity/providers/{PROVIDER}/mapping"), mapping).await.expect(200);

    let mut browser = Browser::default();
    let begin = format!("{}/login/{PROVIDER}", service.base);
    let callback = provider.sign_in(&mut browser, &begin, &service.base, "ada").await;
    let page = browser.open(&callback).await;
    let ada =
        browser.client(&service).unwrap_or_else(|| panic!("not signed in: {page:?}\n{}", service.log()));
    let me = ada.get("/me").await.expect(200).body;
    assert_eq!((&me["username"], &me["roles"]), (&json!("ada"), &json!(["payments"])));

    // Another group, and then a locked account, for which this provider refuses with an error that is not about the token: access
    // ends when the claims are too old.
    provider.run(&["create", "group", "--display-name", "oncall", "--members", "ada"]);
    let end = Instant::now() + PATIENCE;
    while roles(&ada).await != json!(["oncall", "payments"]) {
        assert!(Instant::now() < end, "{}", service.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    provider.run(&["set", "user", "ada", "--lock-date", "2020-01-01T00:00:00+00:00"]);
    let end = Instant::now() + PATIENCE;
    while ada.get("/me").await.status != 401 {
        assert!(Instant::now() < end, "{}", service.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

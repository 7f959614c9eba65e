//! Attempts to sign in as someone else, to sign someone else in, or to send a browser elsewhere.

use reqwest::Method;
use serde_json::json;

use super::{Company, TestDatabase, browser_of, on_both, start_service};
use crate::support::identity::{Browser, IdentityProvider, PROVIDER};
use crate::support::{Answer, Client};

on_both!(callbacks_belong_to_one_browser, logout_tokens_are_checked);

/// Returns the callback with another value of a parameter, or without it.
fn with(callback: &str, name: &str, value: Option<&str>) -> String {
    let mut url = reqwest::Url::parse(callback).unwrap();
    let kept: Vec<(String, String)> =
        url.query_pairs().into_owned().filter(|(known, _)| known != name).collect();
    url.query_pairs_mut().clear().extend_pairs(kept);
    if let Some(value) = value {
        url.query_pairs_mut().append_pair(name, value);
    }
    url.to_string()
}

fn value_of(url: &str, name: &str) -> String {
    let url = reqwest::Url::parse(url).unwrap();
    url.query_pairs().find(|(known, _)| known == name).unwrap().1.into_owned()
}

async fn callbacks_belong_to_one_browser(database: TestDatabase) {
    let company = Company::start(database).await;
    let Company { provider, service, .. } = &company;
    company.map_groups().await;
    for login in ["paula", "mallory"] {
        provider.put_user(login, json!({"groups": ["/payments"]})).await;
    }
    let base = service.base.as_str();

    // Login CSRF: the callback of the attacker's sign-in, opened in the victim's browser.
    let mut attacker = Browser::default();
    let callback = attacker.sign_in_at_provider(base, "mallory").await;
    let mut victim = Browser::default();
    assert_eq!(victim.failure_at(&callback).await, "sign_in_expired");
    victim.open(&format!("{base}/login/{PROVIDER}")).await;
    assert_eq!(
        victim.failure_at(&callback).await,
        "sign_in_expired",
        "in the middle of a sign-in of its own"
    );
    assert!(victim.client(service).is_none());
    // A program gets problem details.
    let path = callback.strip_prefix(base).unwrap();
    service.anonymous().get(path).await.problem(400, "sign_in_expired");

    // Code injection: the code of one sign-in with the state of another. The provider checks PKCE and refuses.
    let mut paula = Browser::default();
    let own = paula.sign_in_at_provider(base, "paula").await;
    let injected = with(&own, "code", Some(&value_of(&callback, "code")));
    assert_eq!(paula.failure_at(&injected).await, "identity_provider");
    // Its state is used up now.
    assert_eq!(paula.failure_at(&own).await, "sign_in_expired");

    // Altered, missing and repeated parameters.
    for (name, value, reason) in [
        ("state", None, "sign_in_expired"),
        ("state", Some("x"), "sign_in_expired"),
        ("iss", None, "identity_provider"),
        ("iss", Some("https://evil.example"), "identity_provider"),
        ("code", None, "provider"),
        ("code", Some(""), "provider"),
        ("code", Some("x"), "identity_provider"),
        ("error", Some("access_denied"), "provider"),
    ] {
        let mut browser = Browser::default();
        let callback = browser.sign_in_at_provider(base, "paula").await;
        assert_eq!(browser.failure_at(&with(&callback, name, value)).await, reason, "{name}: {value:?}");
        assert!(browser.client(service).is_none());
    }
    let mut browser = Browser::default();
    let callback = browser.sign_in_at_provider(base, "paula").await;
    assert_eq!(browser.failure_at(&format!("{callback}&code=x")).await, "sign_in_expired");
    // Unknown ones do not matter.
    let page = browser.open(&format!("{callback}&session_state=x&session_state=y")).await;
    assert_eq!(page.location.as_deref(), Some(format!("{base}/ui/").as_str()), "{page:?}");
    // A callback that was used cannot be used again, not even in the same browser.
    let session = browser.client(service).unwrap();
    assert_eq!(browser.failure_at(&callback).await, "sign_in_expired");
    session.get("/me").await.expect(200);

    // Session fixation: a session that was there before is not the one that is signed in.
    let (_, mallory) = browser_of(&company, "mallory").await;
    let planted = mallory.cookie().split_once('=').unwrap().1.to_owned();
    let mut victim = Browser::default();
    victim.cookies(base).insert("tracewarden".to_owned(), planted.clone());
    let signed_in = victim.sign_in(service, "paula").await;
    assert_ne!(signed_in.cookie().split_once('=').unwrap().1, planted);
    assert_eq!(mallory.get("/me").await.expect(200).body["username"], "mallory");

    // Open redirect: back to pages of the application only.
    for (return_to, expected) in [
        ("/ui/traces/0af7?a=b", "/ui/traces/0af7?a=b"),
        ("//evil.example", "/ui/"),
        ("https://evil.example/ui/", "/ui/"),
        ("/ui/\\evil.example", "/ui/"),
        ("/other", "/ui/"),
    ] {
        let mut browser = Browser::default();
        let query =
            form_urlencoded::Serializer::new(String::new()).append_pair("return_to", return_to).finish();
        let callback = browser.begin(&format!("{base}/login/{PROVIDER}?{query}"), "paula").await;
        let page = browser.open(&callback).await;
        assert_eq!(page.location.unwrap(), format!("{base}{expected}"), "{return_to}");
        // After a failure, the sign-in page knows the page, too.
        let callback = browser.begin(&format!("{base}/login/{PROVIDER}?{query}"), "paula").await;
        let page = browser.open(&with(&callback, "code", None)).await;
        let location = reqwest::Url::parse(&page.location.unwrap()).unwrap();
        let to = location.query_pairs().find(|(name, _)| name == "to").map(|(_, to)| format!("/ui{to}"));
        assert_eq!(to.as_deref(), (expected != "/ui/").then_some(expected), "{return_to}");
    }
    for path in ["/login/unknown", "/login/unknown/callback?state=x&code=y"] {
        service.anonymous().get(path).await.problem(404, "not_found");
    }
    // Every failure has its reason in the log, and no secret is there: the end of this test checks it.
    assert!(service.log().contains("sign_in_expired"));
}

/// Two providers: a response of one is not accepted at the callback of the other.
#[tokio::test]
async fn responses_of_another_provider_are_refused() {
    let (honest, evil) = (IdentityProvider::start(), IdentityProvider::start());
    let service = start_service(&honest, None, &format!("\n{}", evil.settings("other")), &[]);
    for provider in [&honest, &evil] {
        provider.register(&service.base, &[PROVIDER, "other"]);
        provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    }
    let admin = service.admin().await;
    admin.put("/roles/payments", super::policies("true")).await.expect(201);
    for name in [PROVIDER, "other"] {
        let mapping = super::groups_mapping_without_oncall();
        admin.put(&format!("/identity/providers/{name}/mapping"), mapping).await.expect(200);
    }
    let mut browser = Browser::default();
    let callback = browser.sign_in_at_provider(&service.base, "paula").await;
    let at_other = callback.replace(&format!("/login/{PROVIDER}/"), "/login/other/");
    assert_eq!(browser.failure_at(&at_other).await, "sign_in_expired");
    let with_iss = with(&callback, "iss", Some(&evil.issuer));
    assert_eq!(browser.failure_at(&with_iss).await, "identity_provider");
    assert!(browser.client(&service).is_none());

    // The same subject at both: two people, and the name is taken for the second one.
    let paula = Browser::default().sign_in(&service, "paula").await;
    let begin = format!("{}/login/other", service.base);
    let mut browser = Browser::default();
    let callback = browser.begin(&begin, "paula").await;
    assert_eq!(browser.failure_at(&callback).await, "name_taken");
    let claims = json!({"groups": ["/payments"], "preferred_username": "Paula of the other company"});
    evil.put_user("paula", claims).await;
    let callback = browser.begin(&begin, "paula").await;
    browser.open(&callback).await;
    let other = browser.client(&service).unwrap();
    let (one, two) = (paula.get("/me").await.expect(200).body, other.get("/me").await.expect(200).body);
    assert_ne!(one["id"], two["id"]);
    assert_eq!((&one["provider"], &two["provider"]), (&json!(PROVIDER), &json!("other")));
}

async fn send_logout(client: &Client, provider: &str, form: &str) -> Answer {
    let path = format!("/logout/backchannel/{provider}");
    let request = client.request(Method::POST, &path);
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(form.to_owned());
    Answer::read(format!("POST {path}"), request).await
}

async fn logout_tokens_are_checked(database: TestDatabase) {
    let company = Company::start(database).await;
    let Company { provider, service, .. } = &company;
    company.map_groups().await;
    provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    let (_, paula) = browser_of(&company, "paula").await;
    let anonymous = service.anonymous();
    let none = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJwYXVsYSJ9.";
    for form in
        ["", "logout_token=", "logout_token=x", "logout_token=a.b.c", &format!("logout_token={none}"), "a=b"]
    {
        send_logout(&anonymous, PROVIDER, form).await.problem(400, "invalid_request");
    }
    send_logout(&anonymous, PROVIDER, &format!("logout_token={none}&logout_token={none}"))
        .await
        .problem(400, "invalid_request");
    send_logout(&anonymous, "unknown", "logout_token=x").await.problem(404, "not_found");
    let json =
        anonymous.post(&format!("/logout/backchannel/{PROVIDER}"), json!({"logout_token": none})).await;
    json.problem(415, "unsupported_media_type");
    paula.get("/me").await.expect(200);
}

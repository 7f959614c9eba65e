//! Access tokens that lack claims. Keycloak accepts tokens for another service at its UserInfo endpoint, and its answers are replayed
//! here; the certified provider refuses them.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use super::{groups_mapping, policies, roles};
use crate::support::identity::{ACCEPT_TOKENS, PROVIDER};
use crate::support::replayed_provider::ReplayedProvider;
use crate::support::{Client, Service};

const INTROSPECTION: &str = "introspection_endpoint";
const USERINFO: &str = "userinfo_endpoint";

struct Company {
    provider: ReplayedProvider,
    service: Service,
}

impl Company {
    /// `accepted` are settings of access tokens.
    async fn start(accepted: &str) -> Self {
        let provider = ReplayedProvider::start().await;
        let base = &provider.base;
        let recorded = include_str!("documented/keycloak.json").replace("https://", &format!("{base}/"));
        let recorded: Value = serde_json::from_str(&recorded).unwrap();
        let metadata = recorded["discovery"].clone();
        let issuer = metadata["issuer"].as_str().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (file, secret) = (directory.path().join("providers.toml"), directory.path().join("secret"));
        std::fs::write(&secret, "a secret of a client").unwrap();
        let table = format!(
            "[{PROVIDER}]\nissuer = \"{issuer}\"\nclient_id = \"tracewarden\"\nclient_secret_file = \"{}\"\n\
             [{PROVIDER}.access_tokens]\nrest_audiences = [\"traces\"]\ntoken_types = [\"JWT\"]\n{accepted}\n",
            secret.display()
        );
        std::fs::write(&file, table).unwrap();
        let service = Service::start_with(&[("TRACEWARDEN_IDENTITY_PROVIDERS", file.to_str().unwrap())]);
        let admin = service.admin().await;
        for role in ["payments", "oncall"] {
            admin.put(&format!("/roles/{role}"), policies("true")).await.expect(201);
        }
        admin.put(&format!("/identity/providers/{PROVIDER}/mapping"), groups_mapping()).await.expect(200);
        provider.answers.lock().unwrap().metadata = vec![metadata];
        Self { provider, service }
    }

    fn issuer(&self) -> Value {
        self.provider.answers.lock().unwrap().metadata[0]["issuer"].clone()
    }

    /// Returns a client with a token that has these claims in addition.
    fn program(&self, more: Value) -> Client {
        let mut claims = json!({
            "iss": self.issuer(), "aud": "traces", "azp": "program", "sub": "1", "preferred_username": "paula",
            "scope": "openid svc_get_trace",
        });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.service.anonymous().with_key(&self.provider.token("JWT", claims, 300))
    }

    fn user_info(&self, status: StatusCode, answer: Value) {
        self.provider.answer(USERINFO, status, answer);
    }
}

fn groups(names: &[&str]) -> Value {
    json!({"sub": "1", "groups": names, "department": "blue"})
}

#[tokio::test]
async fn missing_claims_are_fetched() {
    let company = Company::start("userinfo = true").await;
    company.user_info(StatusCode::OK, groups(&["/payments"]));
    let program = company.program(json!({}));
    let me = program.get("/me").await.expect(200).body;
    assert_eq!((&me["username"], &me["roles"]), (&json!("paula"), &json!(["payments"])));
    assert_eq!(me["attributes"], json!({"team": "blue"}));
    assert_eq!(company.provider.asked(), [USERINFO]);
    // For each request.
    company.user_info(StatusCode::OK, groups(&["/oncall"]));
    assert_eq!(roles(&program).await, json!(["oncall"]));
    assert_eq!(company.provider.asked(), [USERINFO]);
    // What the token says counts, and its scopes alone.
    assert_eq!(roles(&company.program(json!({"groups": ["/payments"]}))).await, json!(["payments"]));
    let mut answer = groups(&["/payments"]);
    answer["scope"] = json!("svc_get_trace");
    company.user_info(StatusCode::OK, answer);
    let without_tools = company.program(json!({"scope": "openid"}));
    without_tools.get("/me").await.problem(403, "insufficient_scope");
    assert_eq!(company.provider.asked(), [USERINFO, USERINFO]);

    // Another person, no answer that is one, and a provider that refuses the token or is not there.
    for (status, answer, expected) in [
        (StatusCode::OK, json!({"sub": "2", "groups": ["/payments"]}), (401, "unauthenticated")),
        (StatusCode::OK, json!({"groups": ["/payments"]}), (401, "unauthenticated")),
        (StatusCode::OK, json!([1]), (401, "unauthenticated")),
        (StatusCode::UNAUTHORIZED, json!({"error": "invalid_token"}), (401, "unauthenticated")),
        (StatusCode::FORBIDDEN, json!({"error": "insufficient_scope"}), (401, "unauthenticated")),
        (StatusCode::SERVICE_UNAVAILABLE, json!({}), (502, "identity_provider")),
        (StatusCode::TOO_MANY_REQUESTS, json!({}), (502, "identity_provider")),
        (StatusCode::NOT_FOUND, json!({}), (502, "identity_provider")),
        (StatusCode::FOUND, json!({}), (502, "identity_provider")),
        (StatusCode::OK, json!({"sub": "1", "x": "x".repeat(70_000)}), (401, "unauthenticated")),
        (StatusCode::OK, json!({"sub": "1", "x": "x".repeat(2_000_000)}), (502, "identity_provider")),
    ] {
        company.user_info(status, answer);
        program.get("/me").await.problem(expected.0, expected.1);
        assert_eq!(company.provider.asked(), [USERINFO], "{status}");
    }
    assert!(company.service.log().contains("UserInfo: 401"), "{}", company.service.log());
    // A token that the provider did not sign is not sent to it.
    company.user_info(StatusCode::OK, groups(&["/payments"]));
    let stranger = ReplayedProvider::start().await;
    let claims = json!({"iss": company.issuer(), "aud": "traces", "sub": "1", "scope": "svc_get_trace"});
    let forged = company.service.anonymous().with_key(&stranger.token("JWT", claims, 300));
    forged.get("/me").await.problem(401, "unauthenticated");
    assert_eq!(company.provider.asked(), [""; 0]);
}

const BOTH: &str = "introspection = true\nuserinfo = true\n";

impl Company {
    /// Makes the provider say that any opaque token is active for some seconds.
    fn introspect(&self, seconds: u64) {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let active = json!({
            "active": true, "iss": self.issuer(), "aud": "traces", "client_id": "program", "sub": "1",
            "username": "paula", "scope": "svc_get_trace", "iat": now, "exp": now + seconds,
        });
        self.provider.answer(INTROSPECTION, StatusCode::OK, active);
    }
}

#[tokio::test]
async fn answers_are_kept_if_configured() {
    let company = Company::start(&format!("{BOTH}cache_ttl = \"1h\"")).await;
    company.user_info(StatusCode::OK, groups(&["/payments"]));
    let program = company.program(json!({}));
    assert_eq!(roles(&program).await, json!(["payments"]));
    company.user_info(StatusCode::OK, groups(&["/oncall"]));
    assert_eq!(roles(&program).await, json!(["payments"]));
    assert_eq!(company.provider.asked(), [USERINFO]);
    let another = company.program(json!({"jti": "another"}));
    assert_eq!(roles(&another).await, json!(["oncall"]));
    assert_eq!(company.provider.asked(), [USERINFO]);

    let opaque = company.service.anonymous().with_key("an-opaque-token");
    // That a token is not active is not kept.
    company.provider.answer(INTROSPECTION, StatusCode::OK, json!({"active": false}));
    opaque.get("/me").await.problem(401, "unauthenticated");
    company.introspect(8);
    roles(&opaque).await;
    roles(&opaque).await;
    assert_eq!(company.provider.asked(), [INTROSPECTION, INTROSPECTION, USERINFO]);
    // The token's own end counts.
    tokio::time::sleep(Duration::from_secs(8)).await;
    opaque.get("/me").await.problem(401, "unauthenticated");
    assert_eq!(company.provider.asked(), [""; 0]);
}

#[tokio::test]
async fn answers_are_forgotten_after_the_configured_time() {
    let company = Company::start(&format!("{BOTH}cache_ttl = \"1s\"")).await;
    company.user_info(StatusCode::OK, groups(&["/payments"]));
    company.introspect(300);
    let (program, opaque) =
        (company.program(json!({})), company.service.anonymous().with_key("an-opaque-token"));
    for client in [&program, &opaque] {
        assert_eq!(roles(client).await, json!(["payments"]));
    }
    company.user_info(StatusCode::OK, groups(&["/oncall"]));
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    for client in [&program, &opaque] {
        assert_eq!(roles(client).await, json!(["oncall"]));
    }
    company.provider.answer(INTROSPECTION, StatusCode::OK, json!({"active": false}));
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    opaque.get("/me").await.problem(401, "unauthenticated");
}

/// A claim that a person made up ends no protection of the token.
#[tokio::test]
async fn userinfo_names_no_session() {
    let company = Company::start("userinfo = true").await;
    let mut answer = groups(&["/payments"]);
    answer["sid"] = json!("S-1-5-21");
    company.user_info(StatusCode::OK, answer);
    let program = company.program(json!({}));
    program.get("/me").await.expect(200);
    let logout = company.provider.token(
        "logout+jwt",
        json!({
            "iss": company.issuer(), "aud": "tracewarden", "sub": "1", "sid": "another session", "jti": "1",
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
        }),
        60,
    );
    let body = form_urlencoded::Serializer::new(String::new()).append_pair("logout_token", &logout).finish();
    let request = company.service.anonymous();
    let request = request.request(reqwest::Method::POST, &format!("/logout/backchannel/{PROVIDER}"));
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    program.get("/me").await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_provider_that_refuses_the_token_is_believed() {
    let userinfo = format!("{ACCEPT_TOKENS}userinfo = true\n");
    let company = super::Company::start_with(None, &userinfo, &[]).await;
    company.map_groups().await;
    company.provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    let resource = format!("{}/", company.service.base);
    let token = company.provider.access_token("paula", &resource, "openid svc_get_trace").await;
    company.service.anonymous().with_key(&token).get("/me").await.problem(401, "unauthenticated");
    assert!(company.service.log().contains("UserInfo: 401"), "{}", company.service.log());
}

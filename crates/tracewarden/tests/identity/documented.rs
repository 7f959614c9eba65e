//! The blocks of configuration and the conditions in `docs/identity.md`, with the metadata and the claims that each provider documents,
//! or that were recorded from it. They are replayed under addresses of this machine.

use http::StatusCode;
use serde_json::{Value, json};

use super::{policies, roles};
use crate::support::Service;
use crate::support::identity::Browser;
use crate::support::replayed_provider::ReplayedProvider;

const DOCUMENT: &str = include_str!("../../../../docs/identity.md");

/// Heading, name of the provider in the block, and what it documents.
const PROVIDERS: [(&str, &str, &str); 5] = [
    ("Keycloak", "keycloak", include_str!("documented/keycloak.json")),
    ("Entra ID", "entra", include_str!("documented/entra.json")),
    ("Okta", "okta", include_str!("documented/okta.json")),
    ("Google", "google", include_str!("documented/google.json")),
    ("Dex", "dex", include_str!("documented/dex.json")),
];

/// A provider whose answers are replayed.
struct Replayed {
    name: &'static str,
    /// Block of configuration.
    block: String,
    conditions: Vec<String>,
    recorded: Value,
}

impl Replayed {
    /// Reads a section of the document. `base` takes the place of the scheme of all addresses, so that hosts become paths.
    fn new(heading: &str, name: &'static str, recorded: &str, base: &str) -> Self {
        let local = |text: &str| text.replace("https://", &format!("{base}/"));
        let recorded: Value = serde_json::from_str(&local(recorded)).unwrap();
        let section =
            DOCUMENT.split(&format!("\n### {heading}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
        let section = section.split("\n### ").next().unwrap();
        let mut block = local(section.split("```toml\n").nth(1).unwrap().split("```").next().unwrap());
        for (placeholder, value) in recorded["placeholders"].as_object().unwrap() {
            assert!(block.contains(placeholder.as_str()), "{placeholder} in {block}");
            block = block.replace(placeholder.as_str(), value.as_str().unwrap());
        }
        let after = section.split("\nCondition: ").nth(1).unwrap();
        // Code spans are every second part.
        let spans = after.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " "));
        let conditions = spans.filter(|span| span.contains("claims.")).collect();
        Self { name, block, conditions, recorded }
    }
}

#[tokio::test]
async fn the_documented_blocks_and_conditions_work() {
    let server = ReplayedProvider::start().await;
    let replayed =
        PROVIDERS.map(|(heading, name, recorded)| Replayed::new(heading, name, recorded, &server.base));
    server.answers.lock().unwrap().metadata =
        replayed.iter().map(|provider| provider.recorded["discovery"].clone()).collect();

    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "a secret of a client").unwrap();
    let blocks: String = replayed.iter().map(|provider| provider.block.as_str()).collect();
    let blocks: String = blocks
        .lines()
        .map(|line| match line.starts_with("client_secret_file = \"/etc/tracewarden/") {
            true => format!("client_secret_file = \"{}\"\n", secret.display()),
            false => format!("{line}\n"),
        })
        .collect();
    let file = directory.path().join("providers.toml");
    std::fs::write(&file, &blocks).unwrap();
    let service = Service::start_with(&[("TRACEWARDEN_IDENTITY_PROVIDERS", file.to_str().unwrap())]);
    let admin = service.admin().await;
    admin.put("/roles/payments", policies("true")).await.expect(201);

    for Replayed { name, conditions, recorded, .. } in &replayed {
        assert!(!conditions.is_empty(), "{name}");
        // Returns the sign-in of a person with these claims.
        let sign_in = async |claims: Value| {
            let mut browser = Browser::default();
            let begin = browser.open(&format!("{}/login/{name}", service.base)).await.location.unwrap();
            let begin = reqwest::Url::parse(&begin).unwrap();
            assert!(
                begin.as_str().starts_with(recorded["discovery"]["authorization_endpoint"].as_str().unwrap())
            );
            let sent = |name: &str| begin.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
            let mut claims = claims;
            claims["nonce"] = json!(sent("nonce"));
            let token = server.token("JWT", claims, 300);
            let answer =
                json!({"access_token": "a", "token_type": "Bearer", "expires_in": 300, "id_token": token});
            server.answer("token_endpoint", StatusCode::OK, answer);
            let response = form_urlencoded::Serializer::new(String::new())
                .extend_pairs([("code", "c"), ("state", &sent("state"))])
                .extend_pairs([("iss", recorded["discovery"]["issuer"].as_str().unwrap())])
                .finish();
            (browser, format!("{}/login/{name}/callback?{response}", service.base))
        };
        for condition in conditions {
            let mapping = json!({"roles": [{"role": "payments", "when": condition}]});
            admin.put(&format!("/identity/providers/{name}/mapping"), mapping).await.expect(200);
            let (mut browser, callback) = sign_in(recorded["id_token"].clone()).await;
            let page = browser.open(&callback).await;
            let client = browser.client(&service).unwrap_or_else(|| panic!("{name}: {page:?}"));
            assert_eq!(roles(&client).await, json!(["payments"]), "{name}: {condition}");
            let me = client.get("/me").await.expect(200).body;
            assert_eq!(me["username"], recorded["username"], "{name}");

            let mut other = recorded["id_token"].clone();
            for (claim, value) in recorded["no_role"].as_object().unwrap() {
                if value.is_null() {
                    other.as_object_mut().unwrap().remove(claim);
                } else {
                    other[claim] = value.clone();
                }
            }
            let (mut browser, callback) = sign_in(other).await;
            assert_eq!(browser.failure_at(&callback).await, "no_role", "{name}: {condition}");
        }
        let user =
            admin.get(&format!("/users/{}", recorded["username"].as_str().unwrap())).await.expect(200).body;
        assert_eq!(user["provider"]["name"], json!(name), "{user}");
        assert_eq!(user["provider"]["subject"], recorded["subject"], "{user}");
        // Several have a person of the same name, which is never merged.
        admin.delete(&format!("/users/{}", recorded["username"].as_str().unwrap())).await.expect(204);
    }
}

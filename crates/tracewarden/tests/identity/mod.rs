//! Sign-in with an identity provider, a real one, on both databases and on two replicas.

mod access_tokens;
mod attacks;
mod break_glass;
mod deprovisioning;
mod documented;
mod links;
mod mappings;
mod people;
mod refresh;
mod second_provider;
mod service_accounts;
mod userinfo;

use std::sync::Arc;

use serde_json::{Value, json};
use tracewarden_testkit::postgres::{self, Database};

use crate::support::identity::{Browser, IdentityProvider, PROVIDER};
use crate::support::store::{BLUE, RED, Store, bind, blue_policies};
use crate::support::{Client, Service};

/// Writes each test once for SQLite and once for PostgreSQL.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(None).await;
                }
            )+
        }

        mod postgres {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(Some(std::sync::Arc::new(tracewarden_testkit::postgres::database().unwrap()))).await;
                }
            )+
        }
    };
}
pub(crate) use on_both;

/// The database of a test: `None` for SQLite.
pub(crate) type TestDatabase = Option<Arc<Database>>;

/// People of [`Company::with_traces`], with the traces that they may read.
pub(crate) const READERS: [(&str, &[&str]); 3] = [("bea", &[BLUE]), ("rita", &[RED]), ("bo", &[BLUE, RED])];

/// A provider with a service that trusts it, and its administrator.
pub(crate) struct Company {
    pub(crate) provider: IdentityProvider,
    pub(crate) service: Service,
    pub(crate) admin: Client,
}

impl Company {
    pub(crate) async fn start(database: TestDatabase) -> Self {
        Self::start_with(database, "", &[]).await
    }

    /// `more` are further settings of the provider, `environment` those of the service.
    pub(crate) async fn start_with(database: TestDatabase, more: &str, environment: &[(&str, &str)]) -> Self {
        let provider = IdentityProvider::start();
        let service = start_service(&provider, database.as_ref(), more, environment);
        provider.register(&service.base, &[PROVIDER, "other"]);
        let admin = service.admin().await;
        for role in ["payments", "oncall"] {
            admin.put(&format!("/roles/{role}"), policies("true")).await.expect(201);
        }
        Self { provider, service, admin }
    }

    /// Starts a service with two traces of a real engine, and maps claims to roles that see the one, the other, or both of them:
    /// [`READERS`]. `more` are further settings of the provider.
    pub(crate) async fn with_traces(store: &Store, more: &str) -> Self {
        store.insert_two_traces().await;
        let company = Self::start_with(None, more, &store.settings()).await;
        let Self { provider, admin, .. } = &company;
        bind(admin).await;
        admin.put("/roles/blue", blue_policies()).await.expect(201);
        let by_team = "SpanAttributes[\"team\"] == user.attributes.team";
        admin.put("/roles/payments", policies(by_team)).await.expect(200);
        let mapping = json!({
            "roles": [
                {"role": "blue", "when": "\"/blue\" in claims.groups"},
                {"role": "payments", "when": "has(claims.department)"},
            ],
            "attributes": {"team": "claims.department"},
        });
        company.put_mapping(mapping).await;
        provider.put_user("bea", json!({"groups": ["/blue"]})).await;
        provider.put_user("rita", json!({"groups": [], "department": "red"})).await;
        provider.put_user("bo", json!({"groups": ["/blue"], "department": "red"})).await;
        company
    }

    /// Maps the group `/payments` to the role `payments`, `/oncall` to `oncall`, and the department to the attribute `team`.
    pub(crate) async fn map_groups(&self) {
        self.put_mapping(groups_mapping()).await;
    }

    pub(crate) async fn put_mapping(&self, mapping: Value) {
        self.admin.put(&format!("/identity/providers/{PROVIDER}/mapping"), mapping).await.expect(200);
    }

    /// Returns the user as administrators see it.
    pub(crate) async fn user(&self, name: &str) -> Value {
        self.admin.get(&format!("/users/{name}")).await.expect(200).body
    }

    /// Returns the audit records of an action, newest first, each with actor, outcome, target and detail.
    pub(crate) async fn records(&self, action: &str) -> Vec<Value> {
        let answer = self.admin.get(&format!("/audit?action={action}&limit=200")).await.expect(200).body;
        answer["records"].as_array().unwrap().clone()
    }
}

pub(crate) fn start_service(
    provider: &IdentityProvider,
    database: Option<&Arc<Database>>,
    more: &str,
    environment: &[(&str, &str)],
) -> Service {
    let file = provider.settings_file(more);
    let mut all = vec![("TRACEWARDEN_IDENTITY_PROVIDERS", file.as_str())];
    all.extend_from_slice(environment);
    match database {
        Some(database) => Service::start_on(database, &all),
        None => Service::start_with(&all),
    }
}

pub(crate) fn policies(expression: &str) -> Value {
    json!({"policies": [{"title": "All", "expression": expression}]})
}

pub(crate) fn groups_mapping() -> Value {
    json!({
        "roles": [
            {"role": "payments", "when": "\"/payments\" in claims.groups"},
            {"role": "oncall", "when": "\"/oncall\" in claims.groups"},
        ],
        "attributes": {"team": "claims.department"},
    })
}

/// Returns the roles of the signed-in user.
pub(crate) async fn roles(client: &Client) -> Value {
    client.get("/me").await.expect(200).body["roles"].clone()
}

pub(crate) async fn browser_of(company: &Company, login: &str) -> (Browser, Client) {
    let mut browser = Browser::default();
    let client = browser.sign_in(&company.service, login).await;
    (browser, client)
}

pub(crate) fn postgres_database() -> Arc<Database> {
    Arc::new(postgres::database().unwrap())
}

pub(crate) fn groups_mapping_without_oncall() -> Value {
    json!({"roles": [{"role": "payments", "when": "\"/payments\" in claims.groups"}]})
}

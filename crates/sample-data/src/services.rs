//! Services of the shop, their teams and their resource attributes.

use super::attributes::{Attributes, Value};

/// Where a service runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Environment {
    Production,
    Staging,
}

impl Environment {
    /// Returns the value of `deployment.environment.name`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::Staging => "staging",
        }
    }
}

/// The team that owns a service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Team {
    Storefront,
    Payments,
    Logistics,
}

impl Team {
    /// Returns the value of the resource attribute `team`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Storefront => "storefront",
            Self::Payments => "payments",
            Self::Logistics => "logistics",
        }
    }
}

/// A service of the shop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Service {
    Frontend,
    Checkout,
    Cart,
    Catalog,
    Search,
    Recommendations,
    Accounts,
    Assistant,
    Payments,
    Fraud,
    Ledger,
    Inventory,
    Shipping,
    Email,
}

struct Profile {
    name: &'static str,
    team: Team,
    language: &'static str,
    version: &'static str,
    instances: u8,
}

impl Service {
    /// All services.
    pub const ALL: [Self; 14] = [
        Self::Frontend,
        Self::Checkout,
        Self::Cart,
        Self::Catalog,
        Self::Search,
        Self::Recommendations,
        Self::Accounts,
        Self::Assistant,
        Self::Payments,
        Self::Fraud,
        Self::Ledger,
        Self::Inventory,
        Self::Shipping,
        Self::Email,
    ];

    fn profile(self) -> Profile {
        let profile =
            |name, team, language, version, instances| Profile { name, team, language, version, instances };
        match self {
            Self::Frontend => profile("frontend", Team::Storefront, "nodejs", "4.18.2", 4),
            Self::Checkout => profile("checkout", Team::Storefront, "go", "2.31.0", 3),
            Self::Cart => profile("cart", Team::Storefront, "dotnet", "1.9.4", 2),
            Self::Catalog => profile("catalog", Team::Storefront, "go", "3.2.7", 3),
            Self::Search => profile("search", Team::Storefront, "java", "7.0.1", 2),
            Self::Recommendations => profile("recommendations", Team::Storefront, "python", "0.44.0", 2),
            Self::Accounts => profile("accounts", Team::Storefront, "java", "5.6.3", 2),
            Self::Assistant => profile("assistant", Team::Storefront, "python", "0.12.1", 2),
            Self::Payments => profile("payments", Team::Payments, "java", "11.4.0", 3),
            Self::Fraud => profile("fraud", Team::Payments, "python", "2.8.5", 2),
            Self::Ledger => profile("ledger", Team::Payments, "rust", "1.3.0", 2),
            Self::Inventory => profile("inventory", Team::Logistics, "go", "2.2.9", 2),
            Self::Shipping => profile("shipping", Team::Logistics, "rust", "1.17.1", 2),
            Self::Email => profile("email", Team::Logistics, "ruby", "3.0.8", 1),
        }
    }

    /// Returns the value of `service.name`.
    pub fn name(self) -> &'static str {
        self.profile().name
    }

    /// Returns the team that owns the service.
    pub fn team(self) -> Team {
        self.profile().team
    }

    /// Returns the value of `service.version`.
    pub fn version(self) -> &'static str {
        self.profile().version
    }

    pub(super) fn instances(self) -> u8 {
        self.profile().instances
    }

    /// Returns the resource attributes of one instance.
    pub fn resource(self, environment: Environment, instance: u8) -> Attributes {
        let Profile { name, team, language, version, .. } = self.profile();
        let pod = format!("{name}-{:x}-{instance}", 0x6d4f_u32.wrapping_add(version.len() as u32 * 131));
        let region = if instance.is_multiple_of(2) { "eu-central-1" } else { "eu-west-1" };
        vec![
            ("service.name", Value::from(name)),
            ("service.namespace", "shop".into()),
            ("service.version", version.into()),
            ("service.instance.id", format!("{pod}.{}", environment.name()).into()),
            ("team", team.name().into()),
            ("deployment.environment.name", environment.name().into()),
            ("cloud.region", region.into()),
            ("k8s.namespace.name", format!("shop-{}", environment.name()).into()),
            ("k8s.pod.name", pod.into()),
            ("telemetry.sdk.name", "opentelemetry".into()),
            ("telemetry.sdk.language", language.into()),
            ("telemetry.sdk.version", "1.45.0".into()),
        ]
    }
}

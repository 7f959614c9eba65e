//! Settings that an operator can change.

use std::sync::Arc;

use secrecy::SecretBox;
use serde::Serialize;
use tracewarden_identity::Providers;
use utoipa::ToSchema;

/// Limits on filters and pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Limits {
    /// Maximum number of conditions in a filter.
    pub max_conditions: usize,
    /// Maximum number of values in a condition.
    pub max_values: usize,
    /// Maximum number of traces in a page.
    pub max_limit: u32,
    /// Default number of traces in a page.
    #[serde(skip)]
    pub default_limit: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_conditions: 20, max_values: 100, max_limit: 200, default_limit: 50 }
    }
}

/// Cost of one Argon2id hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PasswordCost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub iterations: u32,
    /// Number of lanes.
    pub parallelism: u32,
}

impl PasswordCost {
    /// Minimum cost that is accepted: 19 MiB, two passes, one lane, as OWASP recommends.
    pub const MINIMUM: Self = Self { memory_kib: 19 * 1024, iterations: 2, parallelism: 1 };

    /// Whether no part of this cost is lower than that of the other.
    pub(crate) fn is_at_least(&self, other: &Self) -> bool {
        self.memory_kib >= other.memory_kib
            && self.iterations >= other.iterations
            && self.parallelism >= other.parallelism
    }

    /// Whether this cost is at least [`PasswordCost::MINIMUM`].
    pub fn meets_minimum(&self) -> bool {
        self.is_at_least(&Self::MINIMUM)
    }
}

impl Default for PasswordCost {
    fn default() -> Self {
        Self::MINIMUM
    }
}

/// Who may sign in with a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PasswordLogin {
    /// Every user who has a password.
    #[default]
    Everyone,
    /// Users to whom an administrator assigned the role `admin`.
    Administrators,
    /// No user.
    Off,
}

/// A key of XChaCha20-Poly1305.
pub type EncryptionKey = Arc<SecretBox<[u8; 32]>>;

/// Settings of the service.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Limits on filters and pages.
    pub limits: Limits,
    /// Cost of new password hashes; the service does not start with a cost below the minimum.
    pub password: PasswordCost,
    /// Maximum number of concurrent password hashes; further ones wait. Each takes `password.memory_kib`.
    pub max_parallel_hashes: usize,
    /// Whether administrators may see data that no policy guards: map keys and example values in discovery, and counts of
    /// traces that they may not read.
    pub discovery_samples: bool,
    /// Number of services to which a policy may give collateral access; storing a policy with more produces a warning.
    pub collateral_access_warning: u64,
    /// Name of the service, which no password may contain.
    pub service_name: String,
    /// Nanoseconds after which a session ends even if it is used; `None` for never.
    pub session_absolute_nanos: Option<i64>,
    /// Nanoseconds after which an unused session ends; `None` for never. The session may end earlier by a quarter of this
    /// time, at most by a minute, because not every use is recorded.
    pub session_idle_nanos: Option<i64>,
    /// Maximum number of concurrent queries of one user in this replica, over all sessions and API keys; `None` for any
    /// number.
    pub max_queries_per_user: Option<usize>,
    /// Nanoseconds for which audit records are kept; `None` for ever.
    pub audit_retention_nanos: Option<i64>,
    /// Identity providers.
    pub providers: Providers,
    /// Nanoseconds for which access by a provider's claims holds after the provider has confirmed them.
    pub identity_max_age_nanos: i64,
    /// Key that encrypts refresh tokens; needed if a provider has a refresh interval.
    pub refresh_token_key: Option<EncryptionKey>,
    /// Who may sign in with a password.
    pub password_login: PasswordLogin,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            password: PasswordCost::default(),
            max_parallel_hashes: 4,
            discovery_samples: true,
            collateral_access_warning: 5,
            service_name: "tracewarden".to_owned(),
            session_absolute_nanos: None,
            session_idle_nanos: None,
            max_queries_per_user: Some(10),
            audit_retention_nanos: None,
            providers: Providers::default(),
            identity_max_age_nanos: 24 * 3_600 * 1_000_000_000,
            refresh_token_key: None,
            password_login: PasswordLogin::default(),
        }
    }
}

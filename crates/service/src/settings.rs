//! What an operator can set.

/// Limits on filters and pages; all are told to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Conditions in a filter.
    pub max_conditions: usize,
    /// Values in a condition.
    pub max_values: usize,
    /// Traces in a page.
    pub max_limit: u32,
    /// Traces in a page when the request does not say.
    pub default_limit: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_conditions: 20, max_values: 100, max_limit: 200, default_limit: 50 }
    }
}

/// The cost of one Argon2id hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PasswordCost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub iterations: u32,
    /// Lanes.
    pub parallelism: u32,
}

impl PasswordCost {
    /// The least cost that is accepted: 19 MiB, two passes, one lane, as OWASP recommends.
    pub const FLOOR: Self = Self { memory_kib: 19 * 1024, iterations: 2, parallelism: 1 };

    /// Whether this costs at least [`PasswordCost::FLOOR`] in memory and in passes.
    pub fn is_enough(&self) -> bool {
        self.memory_kib >= Self::FLOOR.memory_kib
            && self.iterations >= Self::FLOOR.iterations
            && self.parallelism >= Self::FLOOR.parallelism
    }
}

impl Default for PasswordCost {
    fn default() -> Self {
        Self::FLOOR
    }
}

/// Settings of the service.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Limits on filters and pages.
    pub limits: Limits,
    /// Cost of new password hashes; below the floor the service does not start.
    pub password: PasswordCost,
    /// Password hashes computed at the same time; the rest waits. Each takes `password.memory_kib`.
    pub max_parallel_hashes: usize,
    /// Whether administrators may see what no policy guards: map keys and example values in discovery, and counts of traces
    /// that they may not read.
    pub discovery_samples: bool,
    /// Services that a policy may make visible only because traces are shown whole; with more, storing it warns.
    pub overshare_warning: u64,
    /// Name of the service, which no password may contain.
    pub service_name: String,
    /// Nanoseconds after which a session ends however much it is used; `None` for never.
    pub session_absolute_nanos: Option<i64>,
    /// Nanoseconds after which an unused session ends; `None` for never. It may end earlier by a quarter of that, at
    /// most by a minute, because not each use is noted.
    pub session_idle_nanos: Option<i64>,
    /// Queries that one user may run at the same time in this replica, by all sessions and keys together; `None` for
    /// any number.
    pub max_queries_per_user: Option<usize>,
    /// Nanoseconds for which audit records are kept; `None` for ever.
    pub audit_retention_nanos: Option<i64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            password: PasswordCost::default(),
            max_parallel_hashes: 4,
            discovery_samples: true,
            overshare_warning: 5,
            service_name: "tracewarden".to_owned(),
            session_absolute_nanos: None,
            session_idle_nanos: None,
            max_queries_per_user: Some(10),
            audit_retention_nanos: None,
        }
    }
}

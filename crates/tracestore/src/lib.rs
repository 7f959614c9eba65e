//! The only crate that talks to ClickHouse.
//!
//! No span leaves this crate without an [`AccessScope`](tracewarden_policy::AccessScope): [`ClickHouse::select`] and
//! [`ClickHouse::find`] take one, and the functions that read spans take what these two return. Values travel as
//! server-side parameters ([`sql`]), which is also the one place that quotes identifiers. [`settings`] lists every
//! setting that is sent.

mod binding;
#[cfg(test)]
mod cancellation;
mod client;
mod cluster;
mod cost;
mod ddl;
#[cfg(test)]
mod differential;
mod discovery;
mod display;
#[cfg(test)]
mod distributed;
mod error;
#[cfg(test)]
mod exact_numbers;
#[cfg(test)]
mod exhaustive;
mod fields;
#[cfg(test)]
mod filter_reference;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod golden;
mod grants;
mod impact;
#[cfg(test)]
mod index_use;
mod inspect;
mod key_columns;
mod layout;
mod matching_spans;
mod metrics;
mod plan;
mod policy_coverage;
mod predicate_sql;
mod progress;
#[cfg(test)]
mod randomized_tests;
mod read;
#[cfg(test)]
mod real_server;
mod samples;
mod select;
mod settings;
mod shared_work;
mod span_identity;
mod span_summary;
mod sql;
mod stats;
mod suitability;
mod summary;
mod table;
mod trace_index;
mod values;
mod version;

use std::sync::Arc;

use prometheus_client::registry::Registry;
use tracewarden_model::{Binding, Entropy};

pub use binding::BindingError;
pub use cost::Cost;
pub use ddl::{DdlAdvice, DdlKind, DdlState, DdlSuggestion, ExistingAddition, Reads, key_column_id};
pub use discovery::TableSummary;
pub use display::ERROR_STATUSES;
pub use error::ClickHouseError;
pub use fields::{ChangedField, FieldLookupError, PhysicalField, key_logical_types, members, physical_field};
pub use grants::{Grant, PrivilegeKind};
pub use impact::{
    CollateralGrouping, CollateralQuery, CollateralValues, Comparison, Difference, Impact, ImpactRequest,
    MAX_IMPACT_PREDICATES, MAX_PREDICATE_SETS, SharedValue,
};
pub use inspect::{ClickHouseInspection, EndpointInspection, ProfileLimit, UserInspection};
pub use key_columns::{KeyColumnComparison, adoption_error};
pub use layout::{
    Layout, LayoutColumn, MapKey, ProjectedColumns, Projection, SkipIndex, TableEngine, can_be_key_column,
    key_column_expression,
};
pub use matching_spans::{MAX_FIRST_SPANS, MatchingSpans, NearestSpan, TraceCounts};
pub use policy_coverage::{CoveredTraces, MAX_PREDICATES, PolicyCoverage, PolicyCoverageRequest};
pub use predicate_sql::display_sql;
pub use progress::{ProgressCallback, SearchProgress};
pub use read::{MAX_SPANS_BYTES, MAX_SPANS_PER_ID, SpanChunk, SpanLine, SpanStream};
pub use samples::{SampledColumn, SampledKey};
pub use select::{Position, SelectRequest, Selection, TableProperties};
pub use shared_work::SharedWork;
pub use span_identity::SpanIdentity;
pub use span_summary::SpanSummary;
pub use stats::{Stats, StatsGroup, StatsNumbers, StatsOrder, StatsRequest, StatsUnit};
pub use suitability::Unsuitability;
pub use summary::Summary;
pub use table::Column;
pub use values::{FieldValues, MAX_VALUE_BYTES, ValueCount, ValuesRequest};

/// How to reach ClickHouse, and what a statement may cost there.
#[derive(Debug, Clone)]
pub struct ClickHouseConfig {
    /// Base URLs of the replicas, such as `http://127.0.0.1:8123`. Statements go to the first that works.
    pub endpoints: Vec<String>,
    /// ClickHouse user.
    pub user: String,
    /// Password of the user.
    pub password: secrecy::SecretString,
    /// Maximum run time of a statement, in seconds.
    pub max_execution_time_seconds: u32,
    /// Maximum memory of a statement, in bytes.
    pub max_memory_bytes: u64,
    /// Maximum number of threads of a statement; `None` leaves it to the user's ClickHouse profile.
    pub max_threads: Option<u32>,
    /// Maximum time until the client has read the whole answer, in seconds, however slow its connection is.
    pub answer_timeout_seconds: u32,
    /// How far around the window a trace is read to decide about it when there is no trace index, in nanoseconds;
    /// `None` for the whole table.
    pub max_trace_duration_nanos: Option<i64>,
}

/// Client for ClickHouse. Cheap to clone.
#[derive(Clone)]
pub struct ClickHouse {
    client: client::Client,
    config: Arc<ClickHouseConfig>,
    layouts: Arc<layout::LayoutCache>,
    trace_sizes: Arc<read::TraceSizes>,
    cached_schema: Arc<select::CachedSchema>,
    verified: Arc<cluster::VerifiedClusters>,
}

impl ClickHouse {
    /// Creates a client. It connects with the first statement.
    ///
    /// # Errors
    /// When an endpoint is not a valid address.
    pub fn new(config: ClickHouseConfig, entropy: Arc<dyn Entropy>) -> Result<Self, ClickHouseError> {
        let config = Arc::new(config);
        let client = client::Client::new(Arc::clone(&config), entropy)?;
        Ok(Self {
            client,
            config,
            layouts: Arc::default(),
            trace_sizes: Arc::default(),
            cached_schema: Arc::default(),
            verified: Arc::default(),
        })
    }

    /// Registers the metrics of the statements in a registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.client.register_metrics(registry);
    }

    /// Returns the same client for the statements of one request. They stay with the endpoint that answered the first
    /// of them as long as it works: another replica may lag behind and would return fewer spans than were counted.
    #[must_use]
    pub fn session(&self) -> Self {
        Self { client: self.client.session(), ..self.clone() }
    }

    /// Checks whether statements can be answered: the server accepts the configured user and has a supported version.
    /// With a binding, every shard of its table has to answer and to keep the settings that are sent with a statement.
    ///
    /// # Errors
    /// The reason why statements cannot be answered.
    pub async fn ready(&self, binding: Option<&Binding>) -> Result<(), ClickHouseError> {
        let store = self.session();
        store.verify_version().await?;
        let Some(binding) = binding else { return Ok(()) };
        let index = binding.trace_index.as_deref();
        let tables = [&binding.table, index.unwrap_or(&binding.table)];
        for engine in store.engines_of(&binding.database, tables).await? {
            Box::pin(store.verify_servers_of(&engine)).await?;
            store.ping_shards(&engine).await?;
        }
        Ok(())
    }
}

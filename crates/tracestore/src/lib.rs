//! The only crate that talks to ClickHouse.
//!
//! No span leaves it without an [`AccessScope`](tracewarden_policy::AccessScope): [`TraceStore::select`] and
//! [`TraceStore::find`] take one, and reading takes what they return. Values travel as server-side parameters
//! ([`sql`]), identifiers are quoted in one place there, and [`settings`] lists every setting that is sent.

mod binding;
mod brief;
#[cfg(test)]
mod cancellation;
mod client;
mod cluster;
mod cost;
mod ddl;
#[cfg(test)]
mod differential;
mod discovery;
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
mod metrics;
mod openers;
mod plan;
mod predicate_sql;
mod progress;
mod reach;
mod read;
#[cfg(test)]
mod real_server;
mod samples;
mod select;
mod settings;
mod shared_work;
mod shown;
mod span_identity;
mod sql;
mod stats;
mod suitability;
mod summary;
mod table;
mod trace_index;
mod values;
mod version;
#[cfg(test)]
mod worlds;

use std::sync::Arc;

use prometheus_client::registry::Registry;
use tracewarden_model::{Binding, Entropy};

pub use binding::BindingError;
pub use brief::SpanBrief;
pub use cost::Cost;
pub use ddl::{DdlAdvice, DdlKind, DdlState, DdlSuggestion, InPlace, Reads, key_column_id};
pub use discovery::TableSummary;
pub use error::StoreError;
pub use fields::{ChangedField, NoField, PhysicalField, key_logical_types, members, physical_field};
pub use grants::{Grant, Power};
pub use impact::{
    Comparison, Difference, Impact, ImpactRequest, MAX_IMPACT_PREDICATES, MAX_OPENINGS, Shared, SharedValue,
    Sharing, Spread,
};
pub use inspect::{EndpointInspection, ProfileLimit, StoreInspection, UserInspection};
pub use key_columns::{Compared, not_adoptable};
pub use layout::{
    Layout, LayoutColumn, MapKey, ProjectedColumns, Projection, SkipIndex, TableEngine, can_be_key_column,
    key_column_expression,
};
pub use openers::{MAX_FIRST_SPANS, Nearest, Satisfied, TraceCounts};
pub use predicate_sql::readable;
pub use progress::{OnProgress, SearchProgress};
pub use reach::{MAX_PREDICATES, Opened, ReachRequest, RecentReach};
pub use read::{SPANS_MAX_BYTES, SPANS_OF_AN_ID, SpanChunk, SpanLine, SpanStream};
pub use samples::{SampledColumn, SampledKey};
pub use select::{Known, Position, SelectRequest, Selection};
pub use shared_work::SharedWork;
pub use shown::ERROR_STATUSES;
pub use span_identity::SpanIdentity;
pub use stats::{Stats, StatsGroup, StatsNumbers, StatsOrder, StatsPer, StatsRequest};
pub use suitability::Unsuitable;
pub use summary::Summary;
pub use table::Column;
pub use values::{FieldValues, MAX_VALUE_BYTES, ValueCount, ValuesRequest};

/// How to reach the trace store, and what a query may cost there.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Base addresses of replicas, such as `http://127.0.0.1:8123`. The first that works is asked.
    pub endpoints: Vec<String>,
    /// ClickHouse user.
    pub user: String,
    /// Its password.
    pub password: secrecy::SecretString,
    /// Longest a statement may run.
    pub max_execution_time_seconds: u32,
    /// Most memory that a statement may take.
    pub max_memory_bytes: u64,
    /// Most threads that a statement may take; `None` for what the store gives its user.
    pub max_threads: Option<u32>,
    /// Longest that an answer may take in all to be read by whoever asked, however slow their line is.
    pub answer_timeout_seconds: u32,
    /// How far around the window a trace is looked at while deciding about it, without a trace index; `None` for the
    /// whole table.
    pub max_trace_duration_nanos: Option<i64>,
}

/// The trace store. Cheap to clone.
#[derive(Clone)]
pub struct TraceStore {
    client: client::Client,
    config: Arc<StoreConfig>,
    layouts: Arc<layout::KeptLayouts>,
    trace_sizes: Arc<read::TraceSizes>,
    believed: Arc<select::Believed>,
    verified: Arc<cluster::VerifiedClusters>,
}

impl TraceStore {
    /// Prepares to talk to the trace store; connects only when asked something.
    ///
    /// # Errors
    /// When an endpoint is not an address.
    pub fn new(config: StoreConfig, entropy: Arc<dyn Entropy>) -> Result<Self, StoreError> {
        let config = Arc::new(config);
        let client = client::Client::new(Arc::clone(&config), entropy)?;
        Ok(Self {
            client,
            config,
            layouts: Arc::default(),
            trace_sizes: Arc::default(),
            believed: Arc::default(),
            verified: Arc::default(),
        })
    }

    /// Names the counts of this store's statements in a registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.client.register_metrics(registry);
    }

    /// The same store for the statements of one request. They stay with the endpoint that answered the first of them, as long
    /// as it works: another may lag behind it, and would deliver fewer spans than were counted.
    #[must_use]
    pub fn session(&self) -> Self {
        Self { client: self.client.session(), ..self.clone() }
    }

    /// Whether statements can be answered: the server lets the configured user in, is of a supported version, and with a
    /// binding, every shard of its table answers and keeps what is sent with a statement.
    ///
    /// # Errors
    /// What is in the way.
    pub async fn ready(&self, binding: Option<&Binding>) -> Result<(), StoreError> {
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

//! Reads ClickHouse's system tables: layouts, columns, candidates for a binding, cluster and version.

mod binding;
mod cluster;
mod columns;
mod discovery;
mod distributed_tables;
mod key_column_comparison;
mod proposal;
mod readiness;
mod samples;
mod suitability;
mod table_layout;
mod version;

use std::sync::Arc;

use crate::ClickHouseConfig;
use crate::client::{Client, TtlCache};
use crate::schema::LayoutCache;

pub use binding::SYSTEM_DATABASE_REASON;
pub use discovery::TableSummary;
pub use key_column_comparison::KeyColumnComparison;
pub(crate) use samples::newest_hour;
pub use samples::{SampledColumn, SampledKey};
pub use suitability::Unsuitability;
pub(crate) use version::check_version;

/// Clusters whose servers keep the settings, by the endpoint that read them and the cluster's name.
pub(crate) type VerifiedClusters = TtlCache<(Option<usize>, String), ()>;

/// Reads the tables, columns and servers that ClickHouse has. Cheap to clone.
#[derive(Clone)]
pub struct Catalogue {
    pub(crate) client: Client,
    pub(crate) config: Arc<ClickHouseConfig>,
    pub(crate) layouts: Arc<LayoutCache>,
    pub(crate) verified: Arc<VerifiedClusters>,
}

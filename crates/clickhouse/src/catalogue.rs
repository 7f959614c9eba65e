//! Reading of ClickHouse's system tables: layouts, columns, candidates for a binding, cluster and version.

mod binding;
mod cluster;
mod columns;
mod discovery;
mod key_column_comparison;
mod readiness;
mod samples;
mod suitability;
mod table_layout;
mod version;

pub use binding::BindingError;
pub use discovery::TableSummary;
pub use key_column_comparison::KeyColumnComparison;
pub(crate) use key_column_comparison::TIMEOUT_FACTOR;
pub use samples::{SampledColumn, SampledKey};
pub use suitability::Unsuitability;
pub(crate) use version::check_version;

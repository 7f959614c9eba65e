//! Fields that the caller may use in a filter.

use tracewarden_appdb::CurrentModel;
use tracewarden_model::{LogicalType, MarkedField, Operator};

use crate::core::{Limits, Principal, ServiceError};
use crate::traces::Traces;

/// Field, as visible to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldDescriptor {
    /// Map column; empty for a field with its own column.
    pub map: String,
    /// Key or column name.
    pub name: String,
    /// Name of the field in filters and policies.
    pub reference: String,
    /// Logical type.
    pub logical: LogicalType,
    /// Available operators; `None` when the field is not filterable.
    pub operators: Option<&'static [Operator]>,
    /// For administrators: whether filters may use it.
    pub filterable: Option<bool>,
    /// For administrators: whether policies may use it.
    pub policy: Option<bool>,
}

/// All information that a client needs to write filters.
#[derive(Debug, Clone)]
pub struct FilterSchema {
    /// Fields in the administrator's order.
    pub fields: Vec<FieldDescriptor>,
    /// Version of the access model.
    pub version: u64,
    /// Limits on filters and pages.
    pub limits: Limits,
    /// Explanation in plain English.
    pub description: &'static str,
}

const DESCRIPTION: &str = "All conditions of a filter must match (AND). A condition matches a trace when any span of \
the trace satisfies it; each condition may be satisfied by another span. Without conditions every trace in the time \
range that you may see matches.";

impl Traces {
    /// Returns the fields that the caller may use in a filter. A field that is only a policy input is hidden from users who
    /// are not administrators: its name would reveal how access is decided.
    pub async fn filter_schema(&self, principal: &Principal) -> Result<FilterSchema, ServiceError> {
        let CurrentModel { version, model } = self.core.db.current_model().await?;
        let admin = principal.is_admin();
        let fields = model
            .fields
            .iter()
            .filter(|field| field.filterable || admin)
            .map(|field| descriptor(field, admin))
            .collect();
        let limits = self.core.settings.limits;
        Ok(FilterSchema { fields, version, limits, description: DESCRIPTION })
    }
}

fn descriptor(marked: &MarkedField, admin: bool) -> FieldDescriptor {
    FieldDescriptor {
        map: marked.field.map.clone().unwrap_or_default(),
        name: marked.field.name.clone(),
        reference: marked.field.to_string(),
        logical: marked.logical,
        operators: marked.filterable.then(|| marked.logical.operators()),
        filterable: admin.then_some(marked.filterable),
        policy: admin.then_some(marked.policy),
    }
}

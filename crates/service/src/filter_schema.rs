//! What the caller may name in a filter.

use tracewarden_appdb::CurrentModel;
use tracewarden_model::{LogicalType, MarkedField, Operator};

use crate::error::ServiceError;
use crate::principal::Principal;
use crate::service::Service;
use crate::settings::Limits;

/// A field as the caller may know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldDescriptor {
    /// The map column; empty for a column of its own.
    pub map: String,
    /// The key, or the column.
    pub name: String,
    /// How filters and policies write it.
    pub reference: String,
    /// Type.
    pub logical: LogicalType,
    /// Operators; `None` when the field is not filterable.
    pub operators: Option<&'static [Operator]>,
    /// For administrators: whether filters may use it.
    pub filterable: Option<bool>,
    /// For administrators: whether policies may use it.
    pub policy: Option<bool>,
}

/// Everything that a client needs to write filters.
#[derive(Debug, Clone)]
pub struct FilterSchema {
    /// Fields in the administrator's order.
    pub fields: Vec<FieldDescriptor>,
    /// Version of the access model.
    pub version: u64,
    /// Limits.
    pub limits: Limits,
    /// In plain English.
    pub description: &'static str,
}

const DESCRIPTION: &str = "All conditions of a filter must match (AND). A condition matches a trace when any span of \
the trace satisfies it; each condition may be satisfied by another span. Without conditions every trace in the time \
range that you may see matches.";

impl Service {
    /// The fields that the caller may name in a filter. To others than administrators a field that is only a policy
    /// input does not exist: its name would tell what access is decided by.
    ///
    /// # Errors
    /// When the own database fails.
    pub async fn filter_schema(&self, principal: &Principal) -> Result<FilterSchema, ServiceError> {
        let CurrentModel { version, model } = self.db().current_model().await?;
        let admin = principal.is_admin();
        let fields = model
            .fields
            .iter()
            .filter(|field| field.filterable || admin)
            .map(|field| descriptor(field, admin))
            .collect();
        let limits = self.settings().limits;
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

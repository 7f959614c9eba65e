//! Fields that the caller may use in a filter.

use serde::Serialize;
use tracewarden_appdb::CurrentModel;
use tracewarden_model::{LogicalType, Operator};
use utoipa::ToSchema;

use crate::core::{Limits, Principal, Result};
use crate::traces::Traces;

/// A field that the caller may use.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldDescriptor {
    /// The map column; empty for a field that is a column itself.
    pub map: String,
    /// The key within the map, or the column's name.
    pub name: String,
    /// Reference to the field in policies.
    #[serde(rename = "ref")]
    #[schema(examples("SpanAttributes[\"http.route\"]"))]
    pub reference: String,
    /// Type of the field.
    #[serde(rename = "type")]
    pub logical: LogicalType,
    /// Operators for conditions on the field; only when it is filterable.
    #[schema(nullable = false, value_type = Option<Vec<String>>)]
    pub operators: Option<Vec<Operator>>,
    /// Whether filters may use the field; administrators only.
    #[schema(nullable = false)]
    pub filterable: Option<bool>,
    /// Whether policies may use the field; administrators only.
    #[schema(nullable = false)]
    pub policy: Option<bool>,
}

/// The fields and limits of filters.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct FilterSchema {
    /// Fields that the caller may use.
    pub fields: Vec<FieldDescriptor>,
    /// Version of the access model.
    pub version: u64,
    /// Limits on filters and pages.
    pub limits: Limits,
    /// How filters work, in plain English.
    pub description: &'static str,
}

const DESCRIPTION: &str = "All parts of a filter must match (AND). A condition in `conditions` matches a trace when any span \
satisfies it; different spans may satisfy different conditions. For each group in `same_span`, one span must satisfy all of its \
conditions. No span may satisfy a condition in `none`. Without a filter, every trace in the time range that you may see matches.";

impl Traces {
    /// Returns the fields that the caller may use in a filter. A field that is only a policy input is hidden from users who
    /// are not administrators: its name would reveal how access is decided.
    pub async fn filter_schema(&self, principal: &Principal) -> Result<FilterSchema> {
        let CurrentModel { version, model } = self.core.db.current_model().await?;
        let admin = principal.is_admin();
        let usable = model.fields.into_iter().filter(|field| field.filterable || admin);
        let fields = usable.map(|marked| FieldDescriptor {
            reference: marked.field.to_string(),
            map: marked.field.map.unwrap_or_default(),
            name: marked.field.name,
            logical: marked.logical,
            operators: marked.filterable.then(|| Operator::of_type(marked.logical)),
            filterable: admin.then_some(marked.filterable),
            policy: admin.then_some(marked.policy),
        });
        let (fields, limits) = (fields.collect(), self.core.settings.limits);
        Ok(FilterSchema { fields, version, limits, description: DESCRIPTION })
    }
}

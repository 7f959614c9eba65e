//! Collateral access: a span that satisfies a policy grants access to its whole trace, and so to spans of other services.
//! This module counts the values of one field, mostly services, in the accessible traces.

use tracewarden_model::MarkedField;

use crate::aggregate::codes::{Values, code};
use crate::schema::{BoundTable, known_column, plain_text};
use crate::sql::Statement;
use crate::{ClickHouseError, Result};

/// Maximum number of predicate sets of one request.
pub const MAX_PREDICATE_SETS: usize = 16;
/// Maximum number of values of one span that are counted.
const MAX_SPAN_VALUES: u32 = 1_000;
/// Maximum number of values of one trace, each with the predicates that the spans with this value satisfy. No list shows as
/// many, but clients that send spans decide how many there are.
const MAX_TRACE_VALUES: usize = 4_000;

/// The field whose values are counted.
#[derive(Debug, Clone)]
pub enum CollateralGrouping {
    /// A marked field of type string or string_array.
    Field(Box<MarkedField>),
    /// A column of the bound table that holds strings: a display column. An empty string does not count as a value.
    Column(String),
}

/// Which collateral access to count.
#[derive(Debug, Clone, Copy)]
pub struct CollateralQuery<'a> {
    /// Sets of predicates, as indexes, at most [`MAX_PREDICATE_SETS`]. A trace is accessible by a set when any of its spans
    /// satisfies any predicate of the set.
    pub predicate_sets: &'a [Vec<usize>],
    /// The field whose values are counted.
    pub by: &'a CollateralGrouping,
    /// Maximum number of values for each set.
    pub limit: u32,
}

/// Values that become visible by one set of predicates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollateralValues {
    /// Number of traces that it grants access to.
    pub traces: u64,
    /// Values in these traces: by number of traces, descending, then by number of traces in which a span with the value
    /// satisfies a predicate, ascending, then by value.
    pub values: Vec<SharedValue>,
    /// Number of distinct values, listed or not.
    pub distinct: u64,
    /// Number of these that cannot be listed: no readable trace has them, or they are longer than
    /// [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES) or not UTF-8.
    pub hidden_values: u64,
    /// Number of distinct values of which no span satisfies any of the predicates.
    pub only_shared: u64,
}

/// A value that becomes visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedValue {
    /// The value, or the element of an array.
    pub value: String,
    /// Number of accessible traces with a span that has it.
    pub traces: u64,
    /// Number of these traces in which a span with the value also satisfies a predicate. If it is 0, the value is visible
    /// only by collateral access.
    pub matching_traces: u64,
}

impl CollateralGrouping {
    /// Returns the name of the field or the column.
    pub fn name(&self) -> String {
        match self {
            Self::Field(field) => field.field.to_string(),
            Self::Column(name) => name.clone(),
        }
    }

    /// Writes, for a trace, its distinct values, each with every distinct `mask` of a span that has it. Each value is its
    /// [`code`]: one that is too long to be shown must not be kept once for every trace.
    ///
    /// # Errors
    /// When the column or field has changed.
    pub(super) fn trace_values(
        &self,
        mask: &str,
        table: &BoundTable,
        statement: &mut Statement,
    ) -> Result<String> {
        Ok(match self {
            Self::Column(name) => {
                let unknown = || ClickHouseError::UnknownColumn { name: name.clone(), nearest: Vec::new() };
                let (column, quoted) = known_column(table, Some(name)).ok_or_else(unknown)?;
                let value = plain_text(&quoted, &column.column_type);
                // One value per span, as a value and not as an array: half the time of the whole statement.
                format!("groupUniqArrayIf({MAX_TRACE_VALUES})(({}, {mask}), {value} != '')", code(&value))
            }
            Self::Field(field) => {
                let codes = Values::of(field, MAX_SPAN_VALUES, &table.columns, statement)?.array();
                let text = statement.alias("text");
                format!(
                    "groupUniqArrayArray({MAX_TRACE_VALUES})(arrayMap({text} -> ({text}, {mask}), {codes}))"
                )
            }
        })
    }
}

//! The domain model of Tracewarden: logical types and operators, field references, the access model, filters, windows,
//! callers, claims. This crate does no I/O and does not read the clock. REST and files share the serialised forms of its types.

pub mod access_model;
pub mod ambient;
pub mod caller;
pub mod claims;
pub mod column_type;
pub mod decimal;
pub mod field;
pub mod filter;
#[cfg(test)]
mod fuzz;
pub mod invisible;
pub mod logical;
pub mod nearest;
pub mod operator;
pub mod relation;
mod spelling;
pub mod time;
pub mod trace_id;

pub use access_model::{
    AccessModel, Binding, ColumnValue, Display, MarkedField, ReadAs, TimeBucket, TimeUnit,
};
pub use ambient::{Clock, Entropy};
pub use caller::{AttributeKind, AttributeValue, Caller};
pub use claims::{Claims, ClaimsMapping, ClaimsMappings, RoleRule};
pub use column_type::{ColumnType, NumberType, TextType, unquote};
pub use decimal::{Decimal, InvalidDecimal};
pub use field::{ArrayPair, FieldRef, FieldSource};
pub use filter::{
    Condition, ConditionError, ConditionErrorKind, FieldNameError, Filter, RawCondition, Scalar, named_field,
};
pub use logical::{LogicalType, Number};
pub use operator::{OperandSource, Operands, Operator, Test};
pub use relation::Relation;
pub use time::{Timestamp, Window};
pub use trace_id::{TRACE_ID_BYTES_MAX, TraceIdNotations};

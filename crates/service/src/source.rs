//! The bound table: discovery, binding, fields and DDL advice.

mod adoption;
mod binding;
mod discovery;
mod fields;
mod tables;

pub(crate) use adoption::{adopted, is_other_table, without_column};
pub use binding::BoundModel;
pub use discovery::Source;
pub use fields::FieldMark;
pub(crate) use fields::{check_field_count, is_usable_in_policies, resolve_marks};
pub use tables::TableDetail;

//! Tables, their columns and fields, as data.

mod array_pairs;
mod cached_schema;
mod column;
mod display;
mod fields;
mod id_column;
pub(crate) mod key_columns;
mod layout;
mod search_history;
mod table;
mod trace_index;
mod trace_sizes;

pub use array_pairs::{PairedMap, paired_maps};
pub(crate) use cached_schema::{CachedSchema, Tables};
pub use column::{Column, MapKey};
pub(crate) use column::{column_named, is_integer, omitted_columns, plain_text, unknown_column};
pub(crate) use display::DisplayExpressions;
pub(crate) use fields::resolve_fields;
pub use fields::{FieldLookupError, PhysicalField, key_logical_types, members, physical_field};
pub(crate) use id_column::{IdColumn, IdOf, integer, is_id, uuid};
pub(crate) use key_columns::Purpose;
pub use key_columns::adoption_error;
pub(crate) use layout::{
    KEY_COLUMN_TYPE, Layout, LayoutCache, Projection, SkipIndex, TableEngine, key_column_expression,
    only_name, parse_items_expression, split_list, split_outside, with_keys,
};
#[cfg(test)]
pub(crate) use layout::{can_be_key_column, parse_key_expression};
pub(crate) use search_history::{RareTraces, SearchHistory};
pub(crate) use table::{BoundTable, TimeExpressions, can_choose_rows, known_column};
pub(crate) use trace_index::{IndexBounds, TraceIndex, WindowShare, is_trace_index};
pub(crate) use trace_sizes::TraceSizes;

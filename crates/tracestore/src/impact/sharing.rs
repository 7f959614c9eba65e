//! Whom policies let see more than they name: a span that satisfies one opens its whole trace, and with that the spans of
//! others. What is counted are the values of one field, services mostly, in the traces that are opened.

use tracewarden_model::{LogicalType, MarkedField};

use crate::StoreError;
use crate::predicate_sql::{render, strings};
use crate::select::known_column;
use crate::sql::Statement;
use crate::table::{BoundTable, plain_text};
use crate::values::{MAX_VALUE_BYTES, sought};

/// Most openings of one question.
pub const MAX_OPENINGS: usize = 16;
/// Values of one span that are counted.
const MAX_SPAN_VALUES: usize = 1_000;
/// Of one trace, values with what the spans satisfy that have them. Nobody looks at so many, but who sends spans decides how
/// many there are.
const MAX_TRACE_VALUES: usize = 4_000;
/// What stands before what stands for a value that no list can show. No value that can be shown begins with it, because it is in
/// no UTF-8.
pub(super) const UNSHOWN: &str = "char(255)";

/// By what it is counted.
#[derive(Debug, Clone, Copy)]
pub enum Spread<'a> {
    /// A marked field of type string or string_array.
    Field(&'a MarkedField),
    /// A column of the bound table that holds strings, of which an empty one is no value: a display column.
    Column(&'a str),
}

/// What is counted of what the predicates of a question open.
#[derive(Debug, Clone, Copy)]
pub struct Sharing<'a> {
    /// Each as numbers of predicates, any of which opens a trace: at most [`MAX_OPENINGS`].
    pub openings: &'a [Vec<usize>],
    /// By what.
    pub by: Spread<'a>,
    /// How many values at most, of each opening.
    pub limit: u32,
}

/// Which values become visible by an opening.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shared {
    /// Traces that it opens.
    pub traces: u64,
    /// Values in them; those that most traces have first, then those that fewer traces have in a span that satisfies any of the
    /// predicates, then by value.
    pub values: Vec<SharedValue>,
    /// Different values, listed or not.
    pub distinct: u64,
    /// Of these, those that cannot be listed: no readable trace has them, or they are longer than
    /// [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES) or not UTF-8.
    pub hidden_values: u64,
    /// Of all of them, those that no span has that satisfies any of the predicates.
    pub only_shared: u64,
}

/// A value that becomes visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedValue {
    /// The value, or the element of an array.
    pub value: String,
    /// Opened traces with a span that has it.
    pub traces: u64,
    /// Of these, those with a span that has it and satisfies a predicate, too. With none, it is visible only because traces are
    /// shown whole.
    pub matching_traces: u64,
}

impl Spread<'_> {
    /// # Errors
    /// For a field whose values are not strings.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self {
            Self::Field(field)
                if !matches!(field.logical, LogicalType::String | LogicalType::StringArray) =>
            {
                Err(StoreError::Internal("values are of fields of strings".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Of a trace: its different values, each with every different `mask` of a span that has it. For a value that no list can
    /// show something shorter stands, behind [`UNSHOWN`].
    ///
    /// # Errors
    /// When the column or field is no longer what it was.
    pub(super) fn of_trace(
        &self,
        mask: &str,
        table: &BoundTable,
        statement: &mut Statement,
    ) -> Result<String, StoreError> {
        let text = statement.own("text");
        // What is longer than can be shown must not be kept once for every trace.
        let kept = |text: &str| {
            format!(
                "if(length({text}) > {MAX_VALUE_BYTES} OR NOT isValidUTF8({text}), \
                 concat({UNSHOWN}, hex(sipHash128({text}))), {text})"
            )
        };
        Ok(match self {
            Self::Column(name) => {
                let unknown = || StoreError::UnknownColumn { name: (*name).to_owned(), nearest: Vec::new() };
                let (column, quoted) = known_column(table, Some(name)).ok_or_else(unknown)?;
                let value = plain_text(&quoted, &column.column_type);
                // One value a span, as a value and not as an array: half the time of the whole statement.
                format!("groupUniqArrayIf({MAX_TRACE_VALUES})(({}, {mask}), {value} != '')", kept(&value))
            }
            Self::Field(field) => {
                let (field, having) = sought(field, None, &table.columns)?;
                let having = render(&having, statement);
                let values = strings(&field, None, statement);
                let values = if having == "1" { values } else { format!("if({having}, {values}, [])") };
                format!(
                    "groupUniqArrayArray({MAX_TRACE_VALUES})(arrayMap({text} -> ({kept}, {mask}), \
                     arrayMap({text} -> toString({text}), arraySlice({values}, 1, {MAX_SPAN_VALUES}))))",
                    kept = kept(&text),
                )
            }
        })
    }
}

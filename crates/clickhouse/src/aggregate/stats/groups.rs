//! The groups of spans as SQL, by values of fields.

use tracewarden_model::{LogicalType, MarkedField};

use super::classes::{FIRST_FACET, GROUP, NO_GROUP};
use super::types::StatsRequest;
use crate::aggregate::values::{is_unlistable, resolve_field_values};
use crate::sql::{Statement, render, string, strings};
use crate::{ClickHouseError, Column, Result};

/// Maximum number of elements of one array that make a group each. No list shows as many, but clients that send spans decide
/// how many elements there are, and each is another row to count.
const MAX_ELEMENTS: u32 = 1_000;
/// Maximum number of elements of each of two arrays, which make a group for each pair.
const MAX_ELEMENTS_OF_TWO: u32 = 50;
/// The same for each facet, of which there may be several.
const MAX_ELEMENTS_OF_FACET: u32 = 100;

/// The groups of a span as SQL, each as class, whether no list can show its values, and values.
pub(super) enum Groups {
    /// At most one group; its class is [`NO_GROUP`] where a field is not defined.
    One(String),
    /// An array of groups.
    Many(String),
}

impl Groups {
    /// Writes all groups, the bucket and the values of facets of a span.
    pub(super) fn of_span(
        request: StatsRequest<'_>,
        bucket: Option<String>,
        columns: &[Column],
        statement: &mut Statement,
    ) -> Result<Self> {
        let mut all = Vec::new();
        if !request.group.is_empty() {
            all.push(groups(GROUP, request.group, columns, statement)?);
        }
        all.extend(bucket.map(Self::One));
        for (class, field) in (FIRST_FACET..).zip(request.facets) {
            all.push(groups(class, std::slice::from_ref(field), columns, statement)?);
        }
        Ok(match all.as_slice() {
            [] => Self::Many("CAST([], 'Array(Tuple(UInt8, UInt8, Array(String)))')".to_owned()),
            [_] => all.remove(0),
            several => {
                let arrays: Vec<String> = several.iter().map(Self::to_array).collect();
                Self::Many(format!("arrayConcat({})", arrays.join(", ")))
            }
        })
    }

    fn to_array(&self) -> String {
        match self {
            Self::One(group) => format!("[{group}]"),
            Self::Many(groups) => groups.clone(),
        }
    }
}

/// Writes the groups of a span by one or two fields.
fn groups(
    class: u8,
    fields: &[MarkedField],
    columns: &[Column],
    statement: &mut Statement,
) -> Result<Groups> {
    let arrays = fields.iter().filter(|field| field.logical == LogicalType::StringArray).count();
    let most = match arrays {
        _ if class >= FIRST_FACET => MAX_ELEMENTS_OF_FACET,
        0 | 1 => MAX_ELEMENTS,
        _ => MAX_ELEMENTS_OF_TWO,
    };
    let values = fields
        .iter()
        .map(|field| Values::of(field, most, columns, statement))
        .collect::<Result<Vec<Values>>>()?;
    let [one, other] = statement.aliases(["one", "other"]);
    let of_element = |element: &str| ValueExpression {
        unlistable: format!("{element}.1"),
        display: format!("{element}.2"),
    };
    let none = format!("(toUInt8({NO_GROUP}), toUInt8(0), emptyArrayString())");
    let group = |value: &ValueExpression, second: Option<&ValueExpression>| group(class, value, second);
    Ok(match values.as_slice() {
        [] => return Err(ClickHouseError::Internal("groups are by a field".to_owned())),
        [Values::One { value, defined }] => Groups::One(if_defined(&[defined], &group(value, None), &none)),
        [Values::One { value, defined }, Values::One { value: second, defined: second_defined }] => {
            Groups::One(if_defined(&[defined, second_defined], &group(value, Some(second)), &none))
        }
        [values] => {
            Groups::Many(format!("arrayMap({one} -> {}, {})", group(&of_element(&one), None), values.array()))
        }
        [values, others, ..] => Groups::Many(format!(
            "arrayFlatten(arrayMap({one} -> arrayMap({other} -> {}, {}), {}))",
            group(&of_element(&one), Some(&of_element(&other))),
            others.array(),
            values.array()
        )),
    })
}

/// The values of a field of a span as SQL, each as whether no list can show it, and the value. Odd values are replaced by a
/// hash and not kept: one of them can be as large as a span, and pairs hold many copies.
enum Values {
    /// The value of a string field.
    One { value: ValueExpression, defined: String },
    /// The elements of an array field.
    Many(String),
}

impl Values {
    fn of(field: &MarkedField, most: u32, columns: &[Column], statement: &mut Statement) -> Result<Self> {
        let (field, defined) = resolve_field_values(field, None, columns)?;
        let defined = render(&defined, statement);
        if field.logical != LogicalType::StringArray {
            let value = ValueExpression::new(&format!("toString({})", string(&field, statement)));
            return Ok(Self::One { value, defined });
        }
        let text = statement.alias("text");
        let values = format!("arraySlice({}, 1, {most})", strings(&field, None, statement));
        let values = if_defined(&[&defined], &values, "[]");
        let values = format!("arrayMap({text} -> toString({text}), {values})");
        Ok(Self::Many(format!("arrayMap({text} -> {}, {values})", ValueExpression::new(&text).tuple())))
    }

    fn array(&self) -> String {
        match self {
            Self::One { value, defined } => if_defined(&[defined], &format!("[{}]", value.tuple()), "[]"),
            Self::Many(values) => values.clone(),
        }
    }
}

/// Writes `then` where all fields are defined, and `otherwise` elsewhere.
fn if_defined(defined: &[&String], then: &str, otherwise: &str) -> String {
    let defined: Vec<&str> =
        defined.iter().map(|defined| defined.as_str()).filter(|defined| *defined != "1").collect();
    if defined.is_empty() {
        return then.to_owned();
    }
    format!("if({}, {then}, {otherwise})", defined.join(" AND "))
}

/// A value as SQL: whether no list can show it, and the value or its hash.
struct ValueExpression {
    unlistable: String,
    display: String,
}

impl ValueExpression {
    fn new(value: &str) -> Self {
        let unlistable = is_unlistable(value);
        Self { display: format!("if({unlistable}, hex(sipHash128({value})), {value})"), unlistable }
    }

    fn tuple(&self) -> String {
        format!("({}, {})", self.unlistable, self.display)
    }
}

/// Writes the group of one value, or of two.
fn group(class: u8, value: &ValueExpression, second: Option<&ValueExpression>) -> String {
    match second {
        None => format!("(toUInt8({class}), toUInt8({}), [{}])", value.unlistable, value.display),
        Some(second) => format!(
            "(toUInt8({class}), toUInt8({} + 2 * {}), [{}, {}])",
            value.unlistable, second.unlistable, value.display, second.display
        ),
    }
}

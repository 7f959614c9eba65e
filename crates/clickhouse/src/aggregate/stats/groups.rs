//! The groups of spans as SQL, by values of fields.

use tracewarden_model::{LogicalType, MarkedField};

use super::classes::{BUCKET, FIRST_FACET, GROUP, NO_GROUP};
use super::types::StatsRequest;
use crate::aggregate::codes::{UNLISTABLE, Values, if_true};
use crate::sql::Statement;
use crate::{ClickHouseError, Column, Result};

/// Maximum number of elements of one array that make a group each. No list shows as many, but clients that send spans decide
/// how many elements there are, and each is another row to count.
const MAX_ELEMENTS: u32 = 1_000;
/// Maximum number of elements of each of two arrays, which make a group for each pair.
const MAX_ELEMENTS_OF_TWO: u32 = 50;
/// The same for each facet, of which there may be several.
const MAX_ELEMENTS_OF_FACET: u32 = 100;

/// The groups of a span by one or two fields or by time, or the values of a facet.
///
/// As SQL, a group is a tuple of its class and the [codes](crate::aggregate::codes::code) of its values, of which the second can be missing and is then empty.
pub(super) enum Groups {
    /// At most one group.
    One {
        /// Its class.
        class: u8,
        /// The codes of its values.
        values: Vec<String>,
        /// Whether it is defined.
        defined: String,
    },
    /// An array of groups.
    Many(String),
}

impl Groups {
    /// All groups, and the values of facets.
    pub(super) fn of_request(
        request: StatsRequest<'_>,
        columns: &[Column],
        statement: &mut Statement,
    ) -> Result<Vec<Self>> {
        let group = std::iter::once((GROUP, request.group)).filter(|(_, fields)| !fields.is_empty());
        let all = group.chain((FIRST_FACET..).zip(request.facets.chunks(1)));
        all.map(|(class, fields)| groups(class, fields, columns, statement)).collect()
    }

    /// A bucket of time.
    pub(super) fn bucket(number: &str, defined: String) -> Self {
        Self::One { class: BUCKET, values: vec![format!("toString({number})")], defined }
    }

    /// SQL: the group of a span if there is at most one; its class is [`NO_GROUP`] where it is not defined.
    pub(super) fn as_one(&self) -> Option<String> {
        let Self::One { class, values, defined } = self else { return None };
        Some(if_true(defined, &tuple(*class, values), &tuple(NO_GROUP, &[])))
    }

    /// SQL: the groups of a span as an array.
    pub(super) fn of_span(&self) -> String {
        match self {
            Self::One { class, values, defined } => {
                if_true(defined, &format!("[{}]", tuple(*class, values)), "[]")
            }
            Self::Many(groups) => groups.clone(),
        }
    }

    /// SQL: the distinct groups of the spans of a trace, as an array.
    pub(super) fn of_spans(&self, statement: &Statement) -> String {
        match self {
            // Without the class: sets of strings are faster than sets of tuples.
            Self::One { class, values, defined } => {
                let key = statement.alias("key");
                let (collected, of_key) = match values.as_slice() {
                    [one, other] => {
                        (format!("({one}, {other})"), vec![format!("{key}.1"), format!("{key}.2")])
                    }
                    one => (one.concat(), vec![key.clone()]),
                };
                format!(
                    "arrayMap({key} -> {}, groupUniqArrayIf({collected}, {defined}))",
                    tuple(*class, &of_key)
                )
            }
            Self::Many(groups) => format!("groupUniqArrayArray({groups})"),
        }
    }
}

/// SQL: arrays of groups as one array.
pub(super) fn concatenated(arrays: &[String]) -> String {
    match arrays {
        [] => "CAST([], 'Array(Tuple(UInt8, String, String))')".to_owned(),
        [array] => array.clone(),
        several => format!("arrayConcat({})", several.join(", ")),
    }
}

/// SQL: a group.
pub(super) fn tuple(class: u8, values: &[String]) -> String {
    let value = |at: usize| values.get(at).map_or("''", String::as_str);
    format!("(toUInt8({class}), {}, {})", value(0), value(1))
}

/// SQL: whether no list can show a group.
pub(super) fn is_group_unlistable(group: &str) -> String {
    format!("(startsWith({group}.2, {UNLISTABLE}) OR startsWith({group}.3, {UNLISTABLE}))")
}

/// Writes all groups of a span by one or two fields.
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
    Ok(match values.as_slice() {
        [] => return Err(ClickHouseError::Internal("groups are by a field".to_owned())),
        [Values::One { value, defined }] => {
            Groups::One { class, values: vec![value.clone()], defined: defined.clone() }
        }
        [Values::One { value, defined }, Values::One { value: second, defined: second_defined }] => {
            Groups::One {
                class,
                values: vec![value.clone(), second.clone()],
                defined: format!("({defined} AND {second_defined})"),
            }
        }
        [values] => Groups::Many(format!(
            "arrayMap({one} -> {}, {})",
            tuple(class, std::slice::from_ref(&one)),
            values.array()
        )),
        [values, others, ..] => Groups::Many(format!(
            "arrayFlatten(arrayMap({one} -> arrayMap({other} -> {}, {}), {}))",
            tuple(class, &[one.clone(), other.clone()]),
            others.array(),
            values.array()
        )),
    })
}

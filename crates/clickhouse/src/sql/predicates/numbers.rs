//! Comparisons of numbers: exact, and against constants of the column's own type, so that its key and its skip indexes serve
//! them. Times are the exception: their ticks are compared, since table keys treat times outside the range of `DateTime`
//! wrongly.
//!
//! Integers, decimals and times are all counts of some unit: an operand between two counts equals neither, and is above the
//! one and below the other. A binary floating-point column is compared with the operand rounded once to its type. Such a
//! constant is sent as its bits: ClickHouse does not parse a text to the nearest number (observed with 25.8 and 26.7,
//! `6.502323762924948e17`), whatever `precise_float_parsing` is.

use tracewarden_model::{Decimal, NumberType};
use tracewarden_policy::predicate::Relation;

use crate::sql::statement::Statement;

/// Matches a text that is a number: decimal digits, with optional sign, point and exponent. `nan` and `inf` are numbers, too.
const NUMBER: &str = "^[+-]?(?i:(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:e[+-]?[0-9]+)?|nan|inf(?:inity)?)$";
/// The parts of a finite number: digits before and after the point, sign and digits of the exponent.
const PARTS: &str = "^[+-]?([0-9]*)[.]?([0-9]*)(?:[eE]([+-]?)0*([0-9]*))?$";

/// Writes the operator of a comparison.
pub(super) fn operator(relation: Relation) -> &'static str {
    if relation == Relation::Eq { "=" } else { relation.symbol() }
}

fn sql_bool(value: bool) -> &'static str {
    if value { "1" } else { "0" }
}

/// Writes the comparison of a value of this type. It is false for NULL, which a `nullable` value may be: the value without
/// its NULL would be a function of the column, which no index serves.
///
/// Of a `DateTime64`, the ticks are compared. Tables are partitioned by `toDate(…)` of a time and ordered by `toDateTime(…)`,
/// which wrap around before 1970 and after 2106. ClickHouse treats them as monotonic: when the time itself is compared, it
/// skips parts and granules that hold matching rows of those years (observed with 25.8 and 26.7).
pub(super) fn compare(
    value: &str,
    number_type: NumberType,
    nullable: bool,
    relation: Relation,
    wanted: &Decimal,
    statement: &mut Statement,
) -> String {
    let (relation, constant) = match comparison(number_type, relation, wanted, statement) {
        Err(true) if nullable => return format!("isNotNull({value})"),
        Err(always) => return sql_bool(always).to_owned(),
        Ok(comparison) => comparison,
    };
    let value = match number_type {
        NumberType::DateTime64 { .. } => format!("reinterpret({value}, 'Int64')"),
        NumberType::Integer { .. }
        | NumberType::Decimal { .. }
        | NumberType::Float { .. }
        | NumberType::DateTime => value.to_owned(),
    };
    let comparison = format!("{value} {} {constant}", operator(relation));
    if nullable { format!("ifNull({comparison}, 0)") } else { format!("({comparison})") }
}

/// Converts the operand to the column's type. Returns the comparison with a constant, as SQL, or the result for every value
/// if it is the same.
fn comparison(
    number_type: NumberType,
    relation: Relation,
    wanted: &Decimal,
    statement: &mut Statement,
) -> Result<(Relation, String), bool> {
    let range = match number_type {
        NumberType::Float { bits } => {
            let (rounded, bits, encoded) = match bits {
                32 => (f64::from(wanted.to_f32()), 32, u64::from(wanted.to_f32().to_bits())),
                _ => (wanted.to_f64(), 64, wanted.to_f64().to_bits()),
            };
            let relation = float_relation(relation, rounded)?;
            let parameter = statement.parameter(&format!("UInt{bits}"), encoded.to_string());
            return Ok((relation, format!("reinterpretAsFloat{bits}({parameter})")));
        }
        NumberType::Integer { bits, signed } => {
            let (min, max) = integer_range(bits, signed).ok_or(false)?;
            FixedPointRange { scale: 0, min, max }
        }
        NumberType::Decimal { precision, scale } => {
            let nines = "9".repeat(usize::from(precision));
            let [min, max] = [true, false].map(|negative| Decimal::whole(negative, &nines));
            FixedPointRange { scale: i32::from(scale), min, max }
        }
        NumberType::DateTime => {
            FixedPointRange { scale: 0, min: Decimal::zero(), max: Decimal::from(u64::from(u32::MAX)) }
        }
        NumberType::DateTime64 { precision } => {
            let [min, max] = [i64::MIN, i64::MAX].map(Decimal::from);
            FixedPointRange { scale: i32::from(precision), min, max }
        }
    };
    let (relation, count) = range.compare(relation, wanted)?;
    let constant = match number_type {
        NumberType::DateTime => {
            format!("toDateTime({}, 'UTC')", statement.parameter("UInt32", count.to_string()))
        }
        NumberType::DateTime64 { .. } => statement.parameter("Int64", count.to_string()),
        NumberType::Integer { .. } | NumberType::Decimal { .. } | NumberType::Float { .. } => {
            let value = count.shifted(-range.scale);
            statement.parameter(&number_type.to_string(), value.to_string())
        }
    };
    Ok((relation, constant))
}

/// Returns the relation to the rounded operand, or the result for every value. An operand beyond all finite numbers of the
/// type is between them and infinity, and equals neither.
fn float_relation(relation: Relation, rounded: f64) -> Result<Relation, bool> {
    match (relation, rounded.is_infinite(), rounded > 0.0) {
        (relation, false, _) => Ok(relation),
        (Relation::Eq, true, _) => Err(false),
        (Relation::Ne, true, _) => Err(true),
        (Relation::Lt | Relation::Le, true, true) => Ok(Relation::Lt),
        (Relation::Gt | Relation::Ge, true, true) => Ok(Relation::Ge),
        (Relation::Lt | Relation::Le, true, false) => Ok(Relation::Le),
        (Relation::Gt | Relation::Ge, true, false) => Ok(Relation::Gt),
    }
}

/// The counts of a type: units of ten to the power of `-scale`, from the minimum to the maximum.
struct FixedPointRange {
    scale: i32,
    min: Decimal,
    max: Decimal,
}

impl FixedPointRange {
    /// Returns the relation to a count, or the result for every value.
    fn compare(&self, relation: Relation, wanted: &Decimal) -> Result<(Relation, Decimal), bool> {
        let (count, exact) = wanted.shifted(self.scale).floor();
        let relation = match (relation, exact) {
            (relation, true) => relation,
            (Relation::Eq, false) => return Err(false),
            (Relation::Ne, false) => return Err(true),
            // The operand is above this count and below the next.
            (Relation::Lt | Relation::Le, false) => Relation::Le,
            (Relation::Gt | Relation::Ge, false) => Relation::Gt,
        };
        if count < self.min {
            return Err(matches!(relation, Relation::Ne | Relation::Gt | Relation::Ge));
        }
        if count > self.max {
            return Err(matches!(relation, Relation::Ne | Relation::Lt | Relation::Le));
        }
        Ok((relation, count))
    }
}

/// Returns the minimum and the maximum of the integers of a width.
fn integer_range(bits: u16, signed: bool) -> Option<(Decimal, Decimal)> {
    let (min, max) = match (bits, signed) {
        (256, true) => (
            "57896044618658097711785492504343953926634992332820282019728792003956564819968".to_owned(),
            "57896044618658097711785492504343953926634992332820282019728792003956564819967".to_owned(),
        ),
        (256, false) => (
            "0".to_owned(),
            "115792089237316195423570985008687907853269984665640564039457584007913129639935".to_owned(),
        ),
        (8..=128, true) => {
            let unused = u32::from(128 - bits);
            ((i128::MIN >> unused).unsigned_abs().to_string(), (i128::MAX >> unused).to_string())
        }
        (8..=128, false) => ("0".to_owned(), (u128::MAX >> u32::from(128 - bits)).to_string()),
        _ => return None,
    };
    Some((Decimal::whole(signed, &min), Decimal::whole(false, &max)))
}

/// Writes whether a string represents a number.
pub(super) fn is_number(text: &str) -> String {
    format!("match({text}, '{NUMBER}')")
}

/// Writes a comparison of the number that a string represents, with any number of digits; the result is arbitrary where the
/// string is not a number.
///
/// Most such strings are 64-bit integers and are compared as those. Any other finite number is split into its digits, without
/// zeros at either end, and the position of its point. Of two numbers with the same sign, the one with the larger power has
/// the larger absolute value; with the same power, the digits decide.
pub(super) fn compare_text(
    text: &str,
    relation: Relation,
    wanted: &Decimal,
    statement: &mut Statement,
) -> String {
    let less = sql_bool(matches!(relation, Relation::Lt | Relation::Le | Relation::Ne));
    let greater = sql_bool(matches!(relation, Relation::Gt | Relation::Ge | Relation::Ne));
    let unordered = sql_bool(relation == Relation::Ne);
    let integer = format!("toInt64OrNull({text})");
    let int64 = NumberType::Integer { bits: 64, signed: true };
    let as_integer = compare(&format!("assumeNotNull({integer})"), int64, false, relation, wanted, statement);
    let part = |at: u8| format!("extractGroups({text}, '{PARTS}')[{at}]");
    let all = format!("concat({}, {})", part(1), part(2));
    let digits = format!("trim(BOTH '0' FROM {all})");
    // A longer exponent is beyond every operand.
    let exponent = format!(
        "if(length({digits}) > 9, toInt64(10000000000), toInt64OrZero({digits})) * if({} = '-', -1, 1)",
        part(3),
        digits = part(4)
    );
    let point =
        format!("toInt64(length(trim(LEADING '0' FROM {all}))) - toInt64(length({})) + {exponent}", part(2));
    let size = format!("({point}, {digits})");
    let is_negative = format!("startsWith({text}, '-')");
    let compared = operator(relation);
    let as_decimal = match wanted.signum() {
        0 => format!("if({digits} = '', 0, if({is_negative}, -1, 1)) {compared} 0"),
        sign => {
            let digits_wanted = statement.string(wanted.digits());
            let wanted = format!("(toInt64({}), {digits_wanted})", wanted.point());
            if sign > 0 {
                format!("if({digits} = '' OR {is_negative}, {less}, {size} {compared} {wanted})")
            } else {
                format!("if({digits} = '' OR NOT {is_negative}, {greater}, {wanted} {compared} {size})")
            }
        }
    };
    let letter = |letter: char| format!("positionCaseInsensitive({text}, '{letter}') > 0");
    format!(
        "multiIf(isNotNull({integer}), {as_integer}, {}, {unordered}, {}, if({is_negative}, {less}, {greater}), \
         {as_decimal})",
        letter('a'),
        letter('n'),
    )
}

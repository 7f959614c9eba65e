//! Decimal numbers as they are written: the operands of comparisons.
//!
//! Conditions compare exactly. Conversion to a binary floating-point number would change an operand: a time in
//! nanoseconds has 19 digits, a `Float64` keeps 15 to 17.

use std::cmp::Ordering;
use std::fmt;

/// Maximum number of significant digits. The largest `Float64`, written out, has 309.
const MAX_DIGITS: usize = 400;
/// Largest `point`: `1e308` is `0.1` times ten to the power of 309.
const MAX_POINT: i32 = 309;
/// Smallest `point`. That of the smallest `Float64` is -323.
const MIN_POINT: i32 = -400;

/// An exact decimal number. Equal numbers compare equal regardless of their notation: `5`, `5.0` and `50e-1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// Sign; never set for zero.
    negative: bool,
    /// ASCII digits without leading and trailing zeros; empty for zero.
    digits: String,
    /// The number is `0.digits` times ten to this power; 0 for zero.
    point: i32,
}

/// Reason why a text is not a comparable number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDecimal {
    /// Not a number in JSON's notation.
    #[error("not a number such as `-12.5` or `1e3`")]
    NotANumber,
    /// Larger than any column can store.
    #[error("the number is larger than any column can store")]
    TooLarge,
    /// Nearer to zero than any column can store.
    #[error("the number is nearer to zero than any column can store; write 0")]
    TooSmall,
    /// More digits than a comparison supports.
    #[error("the number has more than {MAX_DIGITS} significant digits; round it")]
    TooLong,
}

impl Decimal {
    /// Parses a number in JSON's notation.
    ///
    /// # Errors
    /// When the text is not a number, or the number is too large, too small or too long.
    pub fn parse(text: &str) -> Result<Self, InvalidDecimal> {
        let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let zero_led = whole.len() > 1 && whole.starts_with('0');
        if zero_led || ![whole, fraction, exponent_digits].into_iter().all(is_digits) {
            return Err(InvalidDecimal::NotANumber);
        }
        // An exponent that does not fit is beyond every limit.
        let size = exponent_digits.parse().unwrap_or(i32::MAX);
        let exponent = if exponent.starts_with('-') { -size } else { size };
        let number = Self::whole(negative, &format!("{whole}{fraction}"));
        let decimals = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
        let point = number.point.saturating_sub(decimals).saturating_add(exponent);
        match number.digits.len() {
            0 => Ok(number),
            _ if point > MAX_POINT => Err(InvalidDecimal::TooLarge),
            _ if point < MIN_POINT => Err(InvalidDecimal::TooSmall),
            digits if digits > MAX_DIGITS => Err(InvalidDecimal::TooLong),
            _ => Ok(Self { point, ..number }),
        }
    }

    /// Returns zero.
    pub const fn zero() -> Self {
        Self { negative: false, digits: String::new(), point: 0 }
    }

    /// Builds a whole number from its decimal digits; other characters are ignored.
    pub fn whole(negative: bool, digits: &str) -> Self {
        let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
        let significant = digits.trim_start_matches('0');
        if significant.is_empty() {
            return Self::zero();
        }
        let point = i32::try_from(significant.len()).unwrap_or(i32::MAX);
        Self { negative, digits: significant.trim_end_matches('0').to_owned(), point }
    }

    /// Returns -1 for a negative number, 0 for zero, and 1 for a positive number.
    pub fn signum(&self) -> i8 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    /// Returns the significant digits, without leading and trailing zeros; empty for zero.
    pub fn digits(&self) -> &str {
        &self.digits
    }

    /// Returns the power of ten by which `0.digits` is multiplied.
    pub fn point(&self) -> i32 {
        self.point
    }

    /// Returns the number times ten to the power of `places`.
    pub fn shifted(&self, places: i32) -> Self {
        if self.digits.is_empty() {
            return Self::zero();
        }
        Self { point: self.point.saturating_add(places), ..self.clone() }
    }

    /// Returns the largest whole number not above this one, and whether the two are equal.
    pub fn floor(&self) -> (Self, bool) {
        let length = usize::try_from(self.point).unwrap_or(0);
        if length >= self.digits.len() {
            return (self.clone(), true);
        }
        let whole = self.digits.get(..length).unwrap_or_default();
        let floor = if self.negative { Self::whole(true, &next(whole)) } else { Self::whole(false, whole) };
        (floor, false)
    }

    /// Returns the nearest `Float64`, rounded once; infinite if the number is out of range.
    pub fn to_f64(&self) -> f64 {
        self.scientific().parse().unwrap_or(f64::NAN)
    }

    /// Returns the nearest `Float32`, rounded once; infinite if the number is out of range.
    pub fn to_f32(&self) -> f32 {
        self.scientific().parse().unwrap_or(f32::NAN)
    }

    fn scientific(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}0.{}e{}", if self.digits.is_empty() { "0" } else { &self.digits }, self.point)
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the whole number that follows this one, both as digits.
fn next(digits: &str) -> String {
    let kept = digits.trim_end_matches('9');
    let nines = digits.len().saturating_sub(kept.len());
    let mut next = kept.to_owned();
    let raised =
        next.pop().map_or('1', |last| char::from(u8::try_from(last).unwrap_or(b'0').saturating_add(1)));
    next.push(raised);
    next.push_str(&"0".repeat(nines));
    next
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Self::whole(value < 0, &value.unsigned_abs().to_string())
    }
}

impl From<u64> for Decimal {
    fn from(value: u64) -> Self {
        Self::whole(false, &value.to_string())
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = |of: &Self, to: &Self| of.point.cmp(&to.point).then_with(|| of.digits.cmp(&to.digits));
        self.signum().cmp(&other.signum()).then_with(|| match self.signum() {
            1 => size(self, other),
            -1 => size(other, self),
            _ => Ordering::Equal,
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Decimal {
    /// Writes the number without an exponent, in at most 810 characters. [`Decimal::parse`] reads the text back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            f.write_str("-")?;
        }
        let length = usize::try_from(self.point).unwrap_or(0);
        match self.digits.split_at_checked(length) {
            // All digits are before the decimal point.
            None => {
                let zeros = length.saturating_sub(self.digits.len());
                write!(f, "{}{}", self.digits, "0".repeat(zeros))
            }
            Some((_, "")) if self.digits.is_empty() => f.write_str("0"),
            Some((whole, "")) => f.write_str(whole),
            Some(("", fraction)) => {
                let zeros = usize::try_from(self.point.unsigned_abs()).unwrap_or(0);
                write!(f, "0.{}{fraction}", "0".repeat(if self.point < 0 { zeros } else { 0 }))
            }
            Some((whole, fraction)) => write!(f, "{whole}.{fraction}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn every_digit_is_kept() {
        for (text, shown) in [
            ("0", "0"),
            ("-0", "0"),
            ("0.000e7", "0"),
            ("5", "5"),
            ("5.0", "5"),
            ("50e-1", "5"),
            ("-12.50", "-12.5"),
            ("1E+3", "1000"),
            ("1e-3", "0.001"),
            ("0.10", "0.1"),
            ("1700010800.901161215", "1700010800.901161215"),
            ("18446744073709551616", "18446744073709551616"),
            ("12345678901234.5678", "12345678901234.5678"),
        ] {
            assert_eq!(read(text).to_string(), shown, "{text}");
            assert_eq!(read(shown), read(text));
        }
        assert_eq!(read("1.7976931348623157e308").to_f64(), f64::MAX);
        assert_eq!(read("9e308").to_f64(), f64::INFINITY);
        assert_eq!(read("-1e39").to_f32(), f32::NEG_INFINITY);
        assert_eq!((read("0.1").to_f64(), read("0.1").to_f32()), (0.1, 0.1));
        // Slightly more than halfway between two 32-bit numbers: rounding to 64 bits first would lose the difference.
        assert_eq!(read("1.00000005960464477539062500001").to_f32(), 1.000_000_1);
    }

    #[test]
    fn invalid_and_out_of_range_numbers_are_refused() {
        for text in [
            "", "-", "+1", "01", "1.", ".5", "1e", "1e+", "e1", "1_0", "0x1", "nan", " 1", "1 ", "1e1.5",
            "--1",
        ] {
            assert_eq!(Decimal::parse(text), Err(InvalidDecimal::NotANumber), "{text}");
        }
        for text in ["1e309", "-1e309", "1e999999999999999999999"] {
            assert_eq!(Decimal::parse(text), Err(InvalidDecimal::TooLarge), "{text}");
        }
        let small = format!("0.{}1", "0".repeat(500));
        for text in ["1e-402", "-9e-402", "1e-999999999", "1e-999999999999999999999", &small] {
            assert_eq!(Decimal::parse(text), Err(InvalidDecimal::TooSmall), "{text}");
        }
        assert_eq!(read("1e-401").signum(), 1);
        assert_eq!(read("0e999999999999999999999"), Decimal::zero());
        let long = format!("1.{}1", "0".repeat(MAX_DIGITS - 1));
        assert_eq!(Decimal::parse(&long), Err(InvalidDecimal::TooLong));
        assert_eq!(read(&format!("1.{}", "0".repeat(10_000))), read("1"));
    }

    #[test]
    fn floors_are_rounded_down() {
        for (text, floor, exact) in [
            ("0", "0", true),
            ("5", "5", true),
            ("1e20", "100000000000000000000", true),
            ("5.5", "5", false),
            ("-5.5", "-6", false),
            ("-9.01", "-10", false),
            ("-99.9", "-100", false),
            ("0.5", "0", false),
            ("0.05", "0", false),
            ("-0.05", "-1", false),
            ("-0.5", "-1", false),
            ("10.1", "10", false),
        ] {
            let (found, is_exact) = read(text).floor();
            assert_eq!((found.to_string().as_str(), is_exact), (floor, exact), "{text}");
        }
    }

    proptest! {
        #[test]
        fn order_and_floor_are_those_of_integers(a in -20_000_i64..20_000, b in -20_000_i64..20_000, places in 0_i32..6) {
            let (left, right) = (Decimal::from(a).shifted(-places), Decimal::from(b).shifted(-places));
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
            prop_assert_eq!(&read(&left.to_string()), &left);
            let unit = 10_i64.pow(places.unsigned_abs());
            prop_assert_eq!(left.floor(), (Decimal::from(a.div_euclid(unit)), a.rem_euclid(unit) == 0));
        }

        #[test]
        fn floats_are_the_nearest(bits in any::<u64>()) {
            let float = f64::from_bits(bits);
            prop_assume!(float.is_finite());
            prop_assert_eq!(read(&format!("{float:e}")).to_f64(), float);
        }
    }
}

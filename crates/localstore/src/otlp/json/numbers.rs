//! Numbers of protobuf's JSON; integers are exact.

/// Parses an integer in decimal notation: `5`, `5.0`, `5e0`, `50e-1`, `1.7e18`. Returns `None` for other texts and for
/// more than 38 digits.
pub fn parse_integer(text: &str) -> Option<i128> {
    let (negative, number) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (number, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) || mantissa.ends_with('.') {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    // Number of zeros after the significant digits; if negative, some of these digits are after the decimal point.
    let dropped = i64::try_from(digits.len() - significant.len()).ok()?;
    let zeros = exponent.checked_add(dropped)?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let scale = 10_i128.checked_pow(u32::try_from(zeros).ok()?)?;
    let magnitude = significant.trim_start_matches('0').parse::<i128>().ok()?.checked_mul(scale)?;
    Some(if negative { -magnitude } else { magnitude })
}

/// Parses a double in decimal notation, `NaN`, `Infinity` or `-Infinity`. Returns `None` for other texts and for
/// numbers out of range.
pub fn parse_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => {
            // Rust's parser accepts other spellings of these values.
            let decimal = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
            text.parse().ok().filter(|value: &f64| decimal && value.is_finite())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact() {
        for (text, expected) in [
            ("5", Some(5)),
            ("-5.0", Some(-5)),
            ("5e0", Some(5)),
            ("50E-1", Some(5)),
            ("0.05e+2", Some(5)),
            ("007", Some(7)),
            ("0e999", Some(0)),
            ("-0", Some(0)),
            ("1.700000000123456789e18", Some(1_700_000_000_123_456_789)),
            ("18446744073709551615.000", Some(u64::MAX.into())),
            ("5.5", None),
            ("5e-1", None),
            ("1e39", None),
            ("1e99999999999999999999", None),
            ("", None),
            ("-", None),
            (".5", None),
            ("5.", None),
            ("0x5", None),
            (" 5", None),
            ("--5", None),
            ("1e", None),
            ("NaN", None),
        ] {
            assert_eq!(parse_integer(text), expected, "{text}");
        }
    }

    #[test]
    fn doubles() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            ("-0", Some(-0.0)),
            ("5", Some(5.0)),
            ("1e-400", Some(0.0)),
            ("Infinity", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("1e400", None),
            ("inf", None),
            ("nan", None),
            ("infinity", None),
            ("", None),
        ] {
            assert_eq!(parse_double(text), expected, "{text}");
        }
        assert!(parse_double("NaN").is_some_and(f64::is_nan));
    }
}

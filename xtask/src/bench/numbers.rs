//! Number formatting for tables.

/// Formats milliseconds with the significant digits only.
pub fn time(milliseconds: f64) -> String {
    if milliseconds < 20.0 { format!("{milliseconds:.1}") } else { grouped(milliseconds.round() as u64) }
}

/// Formats bytes as megabytes (10⁶ bytes).
pub fn megabytes(bytes: u64) -> String {
    let megabytes = bytes as f64 / 1e6;
    if megabytes < 20.0 { format!("{megabytes:.1}") } else { grouped(megabytes.round() as u64) }
}

/// Formats a number with commas between groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_and_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(20_000_000), "20,000,000");
        assert_eq!(time(4.26), "4.3");
        assert_eq!(time(3_264.4), "3,264");
    }
}

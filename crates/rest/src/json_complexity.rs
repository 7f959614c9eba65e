//! Complexity limits on a JSON text, checked before it is parsed.
//!
//! Two brackets become hundreds of bytes in a parsed tree, so the size of a body says little about the memory that it needs.

/// Maximum number of lists and objects in a body. The largest legitimate request, a filter with its conditions, has a few dozen.
const MAX_CONTAINERS: usize = 1_000;

/// Maximum number of values in a body, including lists and objects.
const MAX_VALUES: usize = 50_000;

/// Returns whether a JSON text is within the limits. A malformed text within them is left to its parser, which reports the error.
pub(crate) fn within_limits(json: &[u8]) -> bool {
    let (mut containers, mut separators) = (0_usize, 0_usize);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => containers += 1,
            b',' => separators += 1,
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    // Each value but the outermost is the first of its container or follows a separator. An empty container has no value, and may
    // count as if it had one.
    containers <= MAX_CONTAINERS && 1 + containers + separators <= MAX_VALUES
}

/// Skips the rest of a string.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => break,
            // With the escaped character.
            b'\\' => _ = bytes.next(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_objects_and_values_are_counted_at_any_position() {
        let many = |one: &str, number: usize| format!("[{}]", vec![one; number].join(","));
        // The surrounding list counts too.
        assert!(within_limits(many("[]", MAX_CONTAINERS - 1).as_bytes()));
        assert!(!within_limits(many("[]", MAX_CONTAINERS).as_bytes()));
        assert!(within_limits(many(r#"{"a": {}}"#, MAX_CONTAINERS / 2 - 1).as_bytes()));
        assert!(!within_limits(many(r#"{"a": {}}"#, MAX_CONTAINERS / 2).as_bytes()));
        for scalar in ["null", "true", "-1", "18446744073709551615", "1e400", "0.5", r#""a""#, r#""\u00e9""#]
        {
            // The surrounding list counts as a value and as a container.
            let (most, more) = (many(scalar, MAX_VALUES - 1), many(scalar, MAX_VALUES));
            assert!(within_limits(most.as_bytes()), "{scalar}");
            assert!(!within_limits(more.as_bytes()), "{scalar}");
        }
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(!within_limits(many(&deep(100), 11).as_bytes()));
    }

    #[test]
    fn invalid_json_is_left_to_the_parser() {
        for text in ["", "x", "[1,", "{\"a\": }", "\u{feff}{}", "[]]"] {
            assert!(within_limits(text.as_bytes()), "{text}");
        }
        // Until the limit is exceeded.
        assert!(!within_limits(format!("[{}", "[],".repeat(MAX_CONTAINERS)).as_bytes()));
        assert!(within_limits(b"\xff\xfe"));
    }
}

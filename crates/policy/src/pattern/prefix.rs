//! The prefix of every text that matches a pattern.
//!
//! ClickHouse's engine extracts no prefix from a pattern that begins with flags, as all patterns here do, or that
//! contains escapes. As a separate condition, the prefix can use the table's key.

use regex_syntax::ast::{AssertionKind, Ast};

/// Returns the literal characters after `^`; `None` if matching texts can begin in different ways.
pub(super) fn prefix(ast: &Ast) -> Option<String> {
    // Other patterns are excluded: an alternation, and flags before the `^`, with which it could match inside the text
    // or in another letter case.
    let Ast::Concat(concat) = ast else { return None };
    let (first, rest) = concat.asts.split_first()?;
    match first {
        Ast::Assertion(assertion)
            if matches!(assertion.kind, AssertionKind::StartLine | AssertionKind::StartText) => {}
        _ => return None,
    }
    // A repeated literal is a repetition, not a literal.
    let literals = rest.iter().map_while(|part| match part {
        Ast::Literal(literal) => Some(literal.c),
        _ => None,
    });
    Some(literals.collect::<String>()).filter(|prefix| !prefix.is_empty())
}

#[cfg(test)]
mod tests {
    use crate::pattern::Pattern;

    #[test]
    fn prefixes_are_common_to_all_matches() {
        for (pattern, prefix) in [
            ("^s0012", Some("s0012")),
            ("^s0012$", Some("s0012")),
            ("\\Aab.*", Some("ab")),
            ("^a\\.b[0-9]", Some("a.b")),
            ("^\\x{E4}b", Some("\u{e4}b")),
            ("^ab?", Some("a")),
            ("^ab{0,2}c", Some("a")),
            ("^ab(?i)c", Some("ab")),
            ("^a|b", None),
            ("^a*", None),
            ("^(a|b)", None),
            ("(?:^a|b)c", None),
            ("(?i)^a", None),
            ("(?m)^a", None),
            ("^(?i)a", None),
            ("^(?:a|)b", None),
            ("(?:^)?a", None),
            ("\\bab", None),
            ("$ab", None),
            ("\\zab", None),
            ("^", None),
            ("a", None),
            ("^[a]b", None),
            ("^\\ba", None),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().prefix.as_deref(), prefix, "{pattern}");
        }
    }
}

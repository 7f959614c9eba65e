//! Estimates the size of a pattern in the engines, which expand counted repetitions and compile characters to bytes.

use regex_syntax::ast::{Ast, ClassSet, ClassSetItem, RepetitionKind, RepetitionRange};

/// Positions of an arbitrary non-ASCII character in UTF-8.
const ANY_CHARACTER: u64 = 4;

/// Returns the number of positions with counted repetitions expanded, saturating.
pub(super) fn expanded(ast: &Ast) -> u64 {
    match ast {
        Ast::Repetition(repetition) => expanded(&repetition.ast).saturating_mul(bound(&repetition.op.kind)),
        Ast::Group(group) => expanded(&group.ast),
        Ast::Alternation(alternation) => alternation.asts.iter().map(expanded).fold(1, u64::saturating_add),
        Ast::Concat(concat) => concat.asts.iter().map(expanded).fold(1, u64::saturating_add),
        Ast::Literal(literal) => literal.c.len_utf8() as u64,
        Ast::Dot(_) => ANY_CHARACTER,
        Ast::ClassPerl(class) if class.negated => ANY_CHARACTER,
        Ast::ClassBracketed(class) => {
            let items = match &class.kind {
                ClassSet::Item(item) => class_items(item),
                ClassSet::BinaryOp(_) => 0,
            };
            if class.negated { items.saturating_add(ANY_CHARACTER) } else { items.max(1) }
        }
        _ => 1,
    }
}

/// Returns the positions of a class's items. All ASCII characters together are one position. Each other character may
/// need states of its own, so a long class counts as much as an alternation of its characters.
fn class_items(item: &ClassSetItem) -> u64 {
    match item {
        ClassSetItem::Literal(literal) if !literal.c.is_ascii() => ANY_CHARACTER,
        ClassSetItem::Range(range) if !range.end.c.is_ascii() => 2 * ANY_CHARACTER,
        ClassSetItem::Union(union) => union.items.iter().map(class_items).fold(0, u64::saturating_add),
        _ => 0,
    }
}

/// Returns the largest product of the counts of nested repetitions, saturating.
pub(super) fn nested_repeats(ast: &Ast) -> u64 {
    match ast {
        Ast::Repetition(repetition) => {
            nested_repeats(&repetition.ast).saturating_mul(bound(&repetition.op.kind))
        }
        Ast::Group(group) => nested_repeats(&group.ast),
        Ast::Alternation(alternation) => alternation.asts.iter().map(nested_repeats).max().unwrap_or(1),
        Ast::Concat(concat) => concat.asts.iter().map(nested_repeats).max().unwrap_or(1),
        _ => 1,
    }
}

/// Returns the maximum count of a counted repetition; 1 for the others.
fn bound(kind: &RepetitionKind) -> u64 {
    match kind {
        RepetitionKind::Range(RepetitionRange::Exactly(n) | RepetitionRange::AtLeast(n)) => {
            u64::from((*n).max(1))
        }
        RepetitionKind::Range(RepetitionRange::Bounded(_, n)) => u64::from((*n).max(1)),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use regex_syntax::ast::parse::Parser;

    use super::*;

    #[test]
    fn sizes_count_expanded_bytes() {
        for (pattern, size) in [
            ("abc", 4),
            ("[a-z0-9_]", 1),
            ("[a-f]{32}", 32),
            (".{10}", 40),
            ("\\D\\d", 6),
            ("[^a]{3}", 12),
            ("é", 2),
            ("[éèê]", 12),
            ("[^éè]{2}", 24),
            ("[\u{800}-\u{ffff}]{5}", 40),
            ("(?:a{10}|b){10}", 120),
        ] {
            assert_eq!(expanded(&Parser::new().parse(pattern).unwrap()), size, "{pattern}");
        }
    }
}

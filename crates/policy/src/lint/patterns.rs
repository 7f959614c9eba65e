//! Warns about text searches that no ClickHouse index supports, if no other condition reduces the data read.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::Look;

use crate::diagnostics::Diagnostic;
use crate::expression::{Constant, Kind, Node};
use crate::pattern::Pattern;
use crate::predicate::{Quantifier, Relation, TextFunction};

/// Whether a pattern matches every UTF-8 text. It does if it can match the empty string at the beginning or at the
/// end.
pub(super) fn matches_every_text(pattern: &Pattern) -> bool {
    let parsed = ParserBuilder::new().utf8(false).build().parse(&pattern.reference);
    parsed.is_ok_and(|parsed| {
        let (properties, look) = (parsed.properties(), parsed.properties().look_set());
        let only = |allowed: Look| look.iter().all(|look| look == allowed);
        properties.minimum_len() == Some(0) && (only(Look::Start) || only(Look::End))
    })
}

/// Warns about searches that read the whole time range.
pub(super) fn slow_patterns(text: &str, root: &Node) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    visit(text, root, false, None, &mut found);
    found
}

/// `enclosing_macro` is the macro around a condition on elements, with its list.
fn visit(
    text: &str,
    node: &Node,
    narrowed: bool,
    enclosing_macro: Option<(&Node, &Node)>,
    found: &mut Vec<Diagnostic>,
) {
    match &node.kind {
        Kind::And(..) => {
            let parts = node.chain();
            for (at, part) in parts.iter().enumerate() {
                let narrowed_by_sibling =
                    parts.iter().enumerate().any(|(other, part)| other != at && narrows(part));
                visit(text, part, narrowed || narrowed_by_sibling, enclosing_macro, found);
            }
        }
        Kind::Or(left, right) => {
            visit(text, left, narrowed, enclosing_macro, found);
            visit(text, right, narrowed, enclosing_macro, found);
        }
        Kind::Conditional(condition, yes, no) => {
            visit(text, yes, narrowed || narrows(condition), enclosing_macro, found);
            visit(text, no, narrowed, enclosing_macro, found);
        }
        Kind::Macro { quantifier: Quantifier::Exists | Quantifier::ExistsOne, range, body, .. }
            if reads_span(range) || reads_span(body) =>
        {
            visit(text, body, narrowed, enclosing_macro.or(Some((node, range))), found);
        }
        Kind::TextCall(TextFunction::EndsWith | TextFunction::Contains, subject, argument) if !narrowed => {
            let empty = matches!(&argument.kind, Kind::Constant(Constant::Text(text)) if text.is_empty());
            if reads_span(subject) && !empty {
                warn(
                    text,
                    enclosing_macro.unwrap_or((node, subject)),
                    "write `startsWith` if it is known how the text begins",
                    found,
                );
            }
        }
        Kind::Matches(subject, pattern)
            if !narrowed
                && pattern.prefix.is_none()
                && reads_span(subject)
                && !matches_every_text(pattern) =>
        {
            let hint = "begin the pattern with `^` and plain text if it is known how the text begins";
            warn(text, enclosing_macro.unwrap_or((node, subject)), hint, found);
        }
        _ => {}
    }
}

fn warn(text: &str, (node, subject): (&Node, &Node), hint: &str, found: &mut Vec<Diagnostic>) {
    let subject = subject.span.snippet(text, 80).unwrap_or("the text");
    let message =
        format!("no index can serve this search: `{subject}` is read on every span of the time range");
    // The marked fields are not known here, and the searched field would not help.
    let hint = format!(
        "{hint}, or join it by `&&` with a condition that an index serves, such as `==` on another field"
    );
    found.push(Diagnostic::new(text, node.span, "slow_pattern", message).with_hint(hint));
}

/// Whether an index can find the spans that satisfy a condition.
fn narrows(node: &Node) -> bool {
    match &node.kind {
        Kind::And(left, right) => narrows(left) || narrows(right),
        Kind::Or(left, right) => narrows(left) && narrows(right),
        Kind::Compare(Relation::Eq, left, right) => reads_span(left) || reads_span(right),
        Kind::In(needle, haystack) => reads_span(needle) || reads_span(haystack),
        Kind::TextCall(TextFunction::StartsWith, subject, _) => reads_span(subject),
        Kind::Matches(subject, pattern) => reads_span(subject) && pattern.prefix.is_some(),
        Kind::Macro { quantifier: Quantifier::Exists | Quantifier::ExistsOne, body, .. } => narrows(body),
        Kind::HasKey(_) => true,
        _ => false,
    }
}

/// Whether a value comes from the span: a field, or an element of one.
fn reads_span(node: &Node) -> bool {
    node.walk().into_iter().any(|node| matches!(node.kind, Kind::Field(_) | Kind::Variable(_)))
}

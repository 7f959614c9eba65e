//! Warns about text searches that no ClickHouse index supports, if no other condition reduces the data read.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::Look;

use crate::diagnostics::Diagnostic;
use crate::expression::{Kind, Known, Node};
use crate::lint::absent::parts;
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

/// `around` is the macro around a condition on elements, with its list.
fn visit(
    text: &str,
    node: &Node,
    narrowed: bool,
    around: Option<(&Node, &Node)>,
    found: &mut Vec<Diagnostic>,
) {
    match &node.kind {
        Kind::And(..) => {
            let parts = parts(node, true);
            for (at, part) in parts.iter().enumerate() {
                let beside = parts.iter().enumerate().any(|(other, part)| other != at && narrows(part));
                visit(text, part, narrowed || beside, around, found);
            }
        }
        Kind::Or(left, right) => {
            visit(text, left, narrowed, around, found);
            visit(text, right, narrowed, around, found);
        }
        Kind::Conditional(condition, yes, no) => {
            visit(text, yes, narrowed || narrows(condition), around, found);
            visit(text, no, narrowed, around, found);
        }
        Kind::Macro { quantifier: Quantifier::Exists | Quantifier::ExistsOne, range, body, .. }
            if of_the_span(range) || of_the_span(body) =>
        {
            visit(text, body, narrowed, around.or(Some((node, range))), found);
        }
        Kind::TextCall(TextFunction::EndsWith | TextFunction::Contains, subject, argument) if !narrowed => {
            let empty = matches!(&argument.kind, Kind::Known(Known::Text(text)) if text.is_empty());
            if of_the_span(subject) && !empty {
                tell(
                    text,
                    around.unwrap_or((node, subject)),
                    "write `startsWith` if it is known how the text begins",
                    found,
                );
            }
        }
        Kind::Matches(subject, pattern)
            if !narrowed
                && !pattern.begins_with_text()
                && of_the_span(subject)
                && !matches_every_text(pattern) =>
        {
            let hint = "begin the pattern with `^` and plain text if it is known how the text begins";
            tell(text, around.unwrap_or((node, subject)), hint, found);
        }
        _ => {}
    }
}

fn tell(text: &str, (node, subject): (&Node, &Node), hint: &str, found: &mut Vec<Diagnostic>) {
    let snippet = |node: &Node| text.get(node.span.start..node.span.end).filter(|text| text.len() <= 80);
    let subject = snippet(subject).unwrap_or("the text");
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
        Kind::Compare(Relation::Eq, left, right) => of_the_span(left) || of_the_span(right),
        Kind::In(needle, haystack) => of_the_span(needle) || of_the_span(haystack),
        Kind::TextCall(TextFunction::StartsWith, subject, _) => of_the_span(subject),
        Kind::Matches(subject, pattern) => of_the_span(subject) && pattern.begins_with_text(),
        Kind::Macro { quantifier: Quantifier::Exists | Quantifier::ExistsOne, body, .. } => narrows(body),
        Kind::HasKey(_) => true,
        _ => false,
    }
}

/// Whether a value comes from the span: a field, or an element of one.
fn of_the_span(node: &Node) -> bool {
    node.walk().into_iter().any(|node| matches!(node.kind, Kind::Field(_) | Kind::Variable(_)))
}

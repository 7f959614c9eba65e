//! Negations that most people read differently: over a key that may be absent, and over an attribute that may be a list.

use std::sync::Arc;

use tracewarden_model::MarkedField;
use tracewarden_model::field::escape;

use crate::diagnostics::{Diagnostic, Span};
use crate::expression::{Kind, Node, Type};
use crate::predicate::{Quantifier, Relation};

/// Longer text is not repeated in a suggestion.
const MAX_SNIPPET_CHARS: usize = 120;

/// On a span without the key a negation is an error like any condition on it, so the span does not match.
pub(super) fn negations(text: &str, root: &Node) -> Vec<Diagnostic> {
    let mut reader = Reader { text, root, found: Vec::new() };
    reader.visit(root, true, &[]);
    reader.found
}

type Fields<'a> = Vec<&'a Arc<MarkedField>>;

struct Reader<'a> {
    text: &'a str,
    root: &'a Node,
    found: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    /// `settled` are the fields of which the policy says elsewhere what is to be where they are absent.
    fn visit(&mut self, node: &'a Node, positive: bool, settled: &[&'a Arc<MarkedField>]) {
        match &node.kind {
            Kind::Not(inner) => {
                if positive {
                    self.negation(node, &[inner], settled);
                }
                self.visit(inner, !positive, settled);
            }
            Kind::And(..) | Kind::Or(..) => {
                let conjunction = matches!(node.kind, Kind::And(..));
                let parts = parts(node, conjunction);
                for (at, part) in parts.iter().enumerate() {
                    let mut settled = settled.to_vec();
                    for (other, sibling) in parts.iter().enumerate() {
                        if other != at {
                            settled.extend(settled_by(sibling, conjunction, positive));
                        }
                    }
                    self.visit(part, positive, &settled);
                }
            }
            Kind::Conditional(condition, yes, no) => {
                let with = |more: Fields<'a>| [settled, &more].concat();
                self.visit(condition, positive, settled);
                self.visit(yes, positive, &with(settled_by(condition, true, true)));
                self.visit(no, positive, &with(settled_by(condition, false, true)));
            }
            Kind::Compare(Relation::Ne, left, right) if positive => {
                self.negation(node, &[left, right], settled);
                self.against_attribute(node, left, right);
            }
            Kind::Compare(Relation::Eq, left, right) if !positive => {
                self.against_attribute(node, left, right);
            }
            Kind::Macro { quantifier, range, body, .. } => {
                if positive && *quantifier == Quantifier::All {
                    self.negation(node, &[range], settled);
                }
                self.visit(body, positive, settled);
            }
            _ => {}
        }
    }

    /// Tells of the fields within `negated` that may be absent; `node` is the whole of the negation.
    fn negation(&mut self, node: &'a Node, negated: &[&'a Node], settled: &[&'a Arc<MarkedField>]) {
        let mut told: Fields<'a> = Vec::new();
        negated.iter().for_each(|negated| read(negated, settled.to_vec(), &mut told));
        for field in told {
            let what = if matches!(node.kind, Kind::Macro { .. }) { "`all`" } else { "negation" };
            let Some(map) = &field.field.map else {
                let message = format!("spans where `{}` is NULL do not match this {what}", field.field);
                let hint = "a policy cannot ask for NULL: if such spans should match, join with `||` what tells them apart";
                self.tell(node.span, "negated_absent_key", message, hint.to_owned());
                continue;
            };
            let presence = format!("\"{}\" in {map}", escape(&field.field.name));
            let written = self.snippet(node);
            let alternative = format!("!({presence}) || {written}");
            let alternative =
                if std::ptr::eq(node, self.root) { alternative } else { format!("({alternative})") };
            let message = format!("spans without `{}` do not match this {what}", field.field);
            let hint = format!(
                "if they should match, write `{alternative}`; if they should not, say so: `{presence} && {written}`"
            );
            self.tell(node.span, "negated_absent_key", message, hint);
        }
    }

    /// `x != user.attributes.team`: of unlike types they are unequal, so a list opens every span that has the field.
    fn against_attribute(&mut self, node: &'a Node, left: &'a Node, right: &'a Node) {
        let (value, attribute, name) = match (&left.kind, &right.kind) {
            (Kind::Field(_), Kind::Attribute(name)) if left.ty == Type::Text => (left, right, name),
            (Kind::Attribute(name), Kind::Field(_)) if right.ty == Type::Text => (right, left, name),
            _ => return,
        };
        let message = format!("where the attribute `{}` is a list, this is always true", escape(name));
        let (value, attribute) = (self.snippet(value), self.snippet(attribute));
        let hint = format!("for a list write `!({value} in {attribute})`");
        self.tell(node.span, "negated_attribute", message, hint);
    }

    fn tell(&mut self, span: Span, code: &'static str, message: String, hint: String) {
        self.found.push(Diagnostic::new(self.text, span, code, message).with_hint(hint));
    }

    fn snippet(&self, node: &Node) -> String {
        let text = self.text.get(node.span.start..node.span.end).unwrap_or_default();
        let short = text.chars().count() <= MAX_SNIPPET_CHARS && !text.contains(char::is_control);
        if short { text.to_owned() } else { "…".to_owned() }
    }
}

/// The parts of a chain of `&&`, or of `||`.
pub(super) fn parts(node: &Node, conjunction: bool) -> Vec<&Node> {
    match (&node.kind, conjunction) {
        (Kind::And(left, right), true) | (Kind::Or(left, right), false) => {
            let mut found = parts(left, conjunction);
            found.extend(parts(right, conjunction));
            found
        }
        _ => vec![node],
    }
}

/// The fields whose absence alone decides a chain that `part` belongs to; or which something beside it asks for anyway.
fn settled_by(part: &Node, conjunction: bool, positive: bool) -> Fields<'_> {
    match &part.kind {
        Kind::HasKey(field) if conjunction => vec![field],
        Kind::Not(inner) => match (&inner.kind, conjunction) {
            (Kind::HasKey(field), false) => vec![field],
            _ => Vec::new(),
        },
        Kind::And(left, right) if conjunction => {
            [settled_by(left, true, positive), settled_by(right, true, positive)].concat()
        }
        // `SpanAttributes["env"].startsWith("p") && SpanAttributes["env"] != "prod"` needs the key, plainly.
        _ if conjunction && positive => asked_for(part),
        _ => Vec::new(),
    }
}

/// The fields that a condition without a negation needs.
fn asked_for(node: &Node) -> Fields<'_> {
    match &node.kind {
        Kind::Not(_) | Kind::Or(..) | Kind::Conditional(..) | Kind::Compare(Relation::Ne, ..) => Vec::new(),
        Kind::Macro { quantifier: Quantifier::All, .. } => Vec::new(),
        Kind::Macro { range, .. } => asked_for(range),
        Kind::Field(field) | Kind::HasKey(field) => vec![field],
        _ => node.children().into_iter().flat_map(asked_for).collect(),
    }
}

/// The fields in a negation that may be absent and of which it is not said what is to be then.
fn read<'a>(node: &'a Node, settled: Fields<'a>, found: &mut Fields<'a>) {
    match &node.kind {
        Kind::Field(field) => {
            let may_be_absent = field.field.map.is_some() || field.column_type.is_nullable();
            if may_be_absent && !settled.contains(&field) && !found.contains(&field) {
                found.push(field);
            }
        }
        Kind::And(..) | Kind::Or(..) => {
            let conjunction = matches!(node.kind, Kind::And(..));
            let parts = parts(node, conjunction);
            for (at, part) in parts.iter().enumerate() {
                let mut settled = settled.clone();
                for (other, sibling) in parts.iter().enumerate() {
                    if other != at {
                        settled.extend(settled_by(sibling, conjunction, false));
                    }
                }
                read(part, settled, found);
            }
        }
        // Negated twice.
        Kind::Not(_) | Kind::Compare(Relation::Ne, ..) => {}
        _ => node.children().into_iter().for_each(|child| read(child, settled.clone(), found)),
    }
}

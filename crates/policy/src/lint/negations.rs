//! Warns about negations that are easily misread: over a key that may be absent, and over an attribute that may be a
//! list.

use std::sync::Arc;

use tracewarden_model::MarkedField;
use tracewarden_model::field::escape;

use crate::diagnostics::{Diagnostic, Span};
use crate::expression::{Constant, Kind, Node, Type};
use crate::lint::normal_form::{AnalysisBudget, normal_forms};
use crate::lower::fields::present;
use crate::predicate::{Predicate, Quantifier, Relation};

/// Maximum length of text that a suggestion repeats.
const MAX_SNIPPET_CHARS: usize = 120;

/// Warns about negations over fields that may be absent. On a span without the key, a negation is an error like any
/// other condition on the key, so the span does not match.
pub(super) fn negations(text: &str, root: &Node, budget: &AnalysisBudget) -> Vec<Diagnostic> {
    let mut linter = NegationLinter { text, root, budget, found: Vec::new() };
    linter.visit(root, true, &[]);
    linter.found
}

type Fields<'a> = Vec<&'a Arc<MarkedField>>;

struct NegationLinter<'a> {
    text: &'a str,
    root: &'a Node,
    budget: &'a AnalysisBudget,
    found: Vec<Diagnostic>,
}

/// Parts of a chain that are negations over one field, and the other parts.
struct NegationGroup<'a> {
    field: &'a Arc<MarkedField>,
    negations: Vec<&'a Node>,
    others: Vec<&'a Node>,
    conjunction: bool,
}

impl<'a> NegationLinter<'a> {
    /// `handled` are the fields whose absence the policy handles elsewhere.
    fn visit(&mut self, node: &'a Node, positive: bool, handled: &[&'a Arc<MarkedField>]) {
        if positive {
            for field in self.unhandled_fields(node, handled) {
                let (negations, others) = (vec![node], Vec::new());
                self.negations(node, &NegationGroup { field, negations, others, conjunction: true });
            }
        }
        self.descend(node, positive, handled);
    }

    fn descend(&mut self, node: &'a Node, positive: bool, handled: &[&'a Arc<MarkedField>]) {
        if let Some((inner, same)) = strip_negation(node) {
            return self.visit(inner, positive == same, handled);
        }
        match &node.kind {
            Kind::And(..) | Kind::Or(..) => self.chain(node, positive, handled),
            Kind::Conditional(condition, yes, no) => {
                let with = |more: Fields<'a>| [handled, &more].concat();
                self.visit(condition, positive, handled);
                self.visit(yes, positive, &with(fields_handled_by(condition, true, true)));
                self.visit(no, positive, &with(fields_handled_by(condition, false, true)));
            }
            Kind::Compare(Relation::Ne, left, right) if positive => {
                self.check_attribute_comparison(node, left, right, true);
            }
            Kind::Compare(Relation::Eq, left, right) if !positive => {
                self.check_attribute_comparison(node, left, right, false);
            }
            Kind::Macro { body, .. } => self.visit(body, positive, handled),
            _ => {}
        }
    }

    /// Reports all negations over one field in a chain once, because a correction of one of them would leave the
    /// others wrong.
    fn chain(&mut self, node: &'a Node, positive: bool, handled: &[&'a Arc<MarkedField>]) {
        let conjunction = matches!(node.kind, Kind::And(..));
        let parts = node.chain();
        let mut group: Vec<(&'a Arc<MarkedField>, Vec<usize>)> = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let handled = [handled, &fields_handled_by_others(&parts, at, conjunction, positive)].concat();
            if positive {
                for field in self.unhandled_fields(part, &handled) {
                    match group.iter_mut().find(|(known, _)| *known == field) {
                        Some((_, places)) => places.push(at),
                        None => group.push((field, vec![at])),
                    }
                }
            }
            self.descend(part, positive, &handled);
        }
        for (field, places) in group {
            let nodes = |negations: bool| {
                let chosen = parts.iter().enumerate().filter(|(at, _)| places.contains(at) == negations);
                chosen.map(|(_, part)| *part).collect()
            };
            let group = NegationGroup { field, negations: nodes(true), others: nodes(false), conjunction };
            match *group.negations.as_slice() {
                [only] => self.negations(only, &NegationGroup { others: Vec::new(), ..group }),
                _ => self.negations(node, &group),
            }
        }
    }

    /// Returns the fields that a negation needs to be true and whose absence the policy does not handle.
    fn unhandled_fields(&self, node: &'a Node, handled: &[&'a Arc<MarkedField>]) -> Fields<'a> {
        let mut found = Vec::new();
        match (strip_negation(node), &node.kind) {
            (Some((inner, false)), _) => collect_unhandled(inner, handled.to_vec(), &mut found),
            (None, Kind::Compare(Relation::Ne, left, right)) => {
                [left, right]
                    .into_iter()
                    .for_each(|side| collect_unhandled(side, handled.to_vec(), &mut found));
            }
            (None, Kind::Macro { quantifier: Quantifier::All, range, .. }) => {
                collect_unhandled(range, handled.to_vec(), &mut found);
            }
            _ => {}
        }
        if found.is_empty() {
            return found;
        }
        // Inside a negation, a part of `&&`, a branch or the body of a macro may not affect the result.
        let normal_forms = normal_forms(node, self.budget);
        found.retain(|field| {
            normal_forms.as_ref().is_some_and(|normal_forms| normal_forms.is_true.requires_field(field))
        });
        found
    }

    /// Warns about negations over a field that may be absent. `node` is the text that the suggestion replaces.
    fn negations(&mut self, node: &'a Node, group: &NegationGroup<'a>) {
        let NegationGroup { field, negations, others, conjunction } = group;
        let field = &field.field;
        let subject = match negations.as_slice() {
            [only] if matches!(only.kind, Kind::Macro { .. }) => "this `all`",
            [_] => "this negation",
            _ => "these negations",
        };
        let Some(map) = &field.map else {
            let message = format!("spans where `{field}` is NULL do not match {subject}");
            let hint = "a policy cannot test for NULL: if such spans should match, add a condition that \
                        identifies them with `||`";
            return self.warn(node.span, "negated_absent_key", message, hint.to_owned());
        };
        let operator = if *conjunction { " && " } else { " || " };
        let written =
            |parts: &[&'a Node]| -> Vec<String> { parts.iter().map(|part| self.operand(part)).collect() };
        let joined = written(negations).join(operator);
        let within = |text: String| if *conjunction { format!("({text})") } else { text };
        let presence = format!("\"{}\" in {map}", escape(&field.name));
        let mut absent = format!("!({presence}) || {joined}");
        let mut present = match conjunction {
            true => format!("{presence} && {joined}"),
            false => format!("{presence} && ({joined})"),
        };
        if !others.is_empty() {
            let others = written(others).join(operator);
            absent = format!("{others}{operator}{}", within(absent));
            present = format!("{others}{operator}{present}");
        } else if !std::ptr::eq(node, self.root) {
            absent = format!("({absent})");
        }
        let message = format!("spans without `{field}` do not match {subject}");
        let hint = format!("if they should match, write `{absent}`; if they should not, say so: `{present}`");
        self.warn(node.span, "negated_absent_key", message, hint);
    }

    /// Returns a condition as an operand of `&&` or `||`.
    fn operand(&self, node: &Node) -> String {
        let text = self.snippet(node);
        match &node.kind {
            Kind::And(..) | Kind::Or(..) | Kind::Conditional(..) => format!("({text})"),
            _ => text,
        }
    }

    /// Warns about `x != user.attributes.team`. Values of different types are unequal, so if the attribute is a list,
    /// every span that has the field matches.
    fn check_attribute_comparison(&mut self, node: &'a Node, left: &'a Node, right: &'a Node, unequal: bool) {
        let (value, attribute, name) = match (&left.kind, &right.kind) {
            (Kind::Field(_), Kind::Attribute(name)) if left.ty == Type::Text => (left, right, name),
            (Kind::Attribute(name), Kind::Field(_)) if right.ty == Type::Text => (right, left, name),
            _ => return,
        };
        let message =
            format!("where the attribute `{}` is a list, every string is unequal to it", escape(name));
        let (value, attribute) = (self.snippet(value), self.snippet(attribute));
        let membership = format!("{value} in {attribute}");
        let hint = match unequal {
            true => format!("for a list write `!({membership})`"),
            false => format!("for a list write `{membership}`"),
        };
        self.warn(node.span, "negated_attribute", message, hint);
    }

    fn warn(&mut self, span: Span, code: &'static str, message: String, hint: String) {
        self.found.push(Diagnostic::new(self.text, span, code, message).with_hint(hint));
    }

    fn snippet(&self, node: &Node) -> String {
        node.span.snippet(self.text, MAX_SNIPPET_CHARS).unwrap_or("…").to_owned()
    }
}

/// For a condition derived from another one, returns the other one, and whether both are equivalent. `!a` and `a ==
/// false` are not equivalent to `a`.
fn strip_negation(node: &Node) -> Option<(&Node, bool)> {
    match &node.kind {
        Kind::Not(inner) => Some((inner, false)),
        Kind::Compare(relation @ (Relation::Eq | Relation::Ne), left, right) => {
            let (inner, value) = match (&left.kind, &right.kind) {
                (_, Kind::Constant(Constant::Bool(value))) => (left, *value),
                (Kind::Constant(Constant::Bool(value)), _) => (right, *value),
                _ => return None,
            };
            // An attribute that is not a boolean is unequal to both.
            (inner.ty == Type::Bool).then_some((&**inner, value == (*relation == Relation::Eq)))
        }
        _ => None,
    }
}

/// Returns the fields whose absence is handled: their absence alone determines the chain that contains `part`, or
/// `part` needs them anyway.
fn fields_handled_by(part: &Node, conjunction: bool, positive: bool) -> Fields<'_> {
    if let Some((inner, same)) = strip_negation(part) {
        return match (&inner.kind, same, conjunction) {
            (Kind::HasKey(field), false, false) => vec![field],
            (_, true, _) => fields_handled_by(inner, conjunction, positive),
            _ => Vec::new(),
        };
    }
    match &part.kind {
        Kind::HasKey(field) if conjunction => vec![field],
        Kind::And(left, right) if conjunction => {
            [fields_handled_by(left, true, positive), fields_handled_by(right, true, positive)].concat()
        }
        // `SpanAttributes["env"].startsWith("p") && SpanAttributes["env"] != "prod"` obviously needs the key.
        _ if conjunction && positive => required_fields(part),
        _ => Vec::new(),
    }
}

/// Returns the fields whose absence is handled by the parts of a chain other than the one at `at`.
fn fields_handled_by_others<'a>(
    parts: &[&'a Node],
    at: usize,
    conjunction: bool,
    positive: bool,
) -> Fields<'a> {
    let others = parts.iter().enumerate().filter(|(other, _)| *other != at);
    others.flat_map(|(_, part)| fields_handled_by(part, conjunction, positive)).collect()
}

/// Returns the fields that a condition without a negation needs.
fn required_fields(node: &Node) -> Fields<'_> {
    if let Some((inner, same)) = strip_negation(node) {
        return if same { required_fields(inner) } else { Vec::new() };
    }
    match &node.kind {
        Kind::Or(..) | Kind::Conditional(..) | Kind::Compare(Relation::Ne, ..) => Vec::new(),
        Kind::Macro { quantifier: Quantifier::All, .. } => Vec::new(),
        Kind::Macro { range, .. } => required_fields(range),
        Kind::Field(field) | Kind::HasKey(field) => vec![field],
        _ => node.children().into_iter().flat_map(required_fields).collect(),
    }
}

/// Collects the fields in a negation that may be absent and whose absence the policy does not handle.
fn collect_unhandled<'a>(node: &'a Node, handled: Fields<'a>, found: &mut Fields<'a>) {
    match strip_negation(node) {
        Some((inner, true)) => return collect_unhandled(inner, handled, found),
        // Double negation.
        Some((_, false)) => return,
        None => {}
    }
    match &node.kind {
        Kind::Field(field) => {
            if present(field) != Predicate::True && !handled.contains(&field) && !found.contains(&field) {
                found.push(field);
            }
        }
        Kind::And(..) | Kind::Or(..) => {
            let conjunction = matches!(node.kind, Kind::And(..));
            let parts = node.chain();
            for (at, part) in parts.iter().enumerate() {
                let others = fields_handled_by_others(&parts, at, conjunction, false);
                collect_unhandled(part, [handled.as_slice(), &others].concat(), found);
            }
        }
        // Double negation.
        Kind::Compare(Relation::Ne, ..) => {}
        _ => node.children().into_iter().for_each(|child| collect_unhandled(child, handled.clone(), found)),
    }
}

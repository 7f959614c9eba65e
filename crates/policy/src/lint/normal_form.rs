//! Disjunctive normal form: where an expression is true, and where it is false, as alternatives of facts.
//!
//! The rules for `&&`, `||`, `!` and `?:` are those of the lowering; every other condition is a fact. An error is on
//! neither side.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::mem::discriminant;
use std::rc::Rc;

use tracewarden_model::{Caller, MarkedField};

use crate::expression::{Constant, Kind, Node, Type};
use crate::lint::canonical::canonical;
use crate::lint::facts::{Conjunction, Fact, Literal};
use crate::lint::patterns::matches_every_text;
use crate::lower::fields::{defined, present};
use crate::lower::lower_with_rules;
use crate::lower::rules::RULES;
use crate::predicate::{Predicate, Quantifier, Relation};

/// Size limits. Larger expressions are not analysed.
const MAX_ALTERNATIVES: usize = 32;
const MAX_FACTS: usize = 64;

/// Limits the work of analysing the policies of a role, so that warnings do not make saving them slow.
pub(super) struct AnalysisBudget(Cell<usize>);

impl AnalysisBudget {
    pub(super) fn new() -> Self {
        const COMPARISONS: usize = 200_000;
        Self(Cell::new(COMPARISONS))
    }

    /// Returns `None` if the limit is reached.
    fn spend(&self, comparisons: usize) -> Option<()> {
        self.0.set(self.0.get().checked_sub(comparisons)?);
        Some(())
    }
}

/// Alternatives. An empty list means never.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alternatives(Vec<Conjunction>);

/// Where an expression is true and where it is false.
#[derive(Debug, Clone)]
pub(super) struct NormalForms {
    pub(super) is_true: Alternatives,
    pub(super) is_false: Alternatives,
}

impl Alternatives {
    fn never() -> Self {
        Self(Vec::new())
    }

    fn always() -> Self {
        Self(vec![Conjunction::default()])
    }

    fn of(literal: Literal) -> Self {
        Self(vec![Conjunction([Rc::new(literal)].into())])
    }

    fn and(&self, other: &Self, budget: &AnalysisBudget) -> Option<Self> {
        let mut joined = Vec::new();
        for left in &self.0 {
            for right in &other.0 {
                let conjunction = Conjunction(left.0.union(&right.0).cloned().collect());
                budget.spend(conjunction.0.len().pow(2) + joined.len())?;
                if conjunction.0.len() > MAX_FACTS {
                    return None;
                }
                if !conjunction.is_impossible() && !joined.contains(&conjunction) {
                    joined.push(conjunction);
                }
                if joined.len() > MAX_ALTERNATIVES {
                    return None;
                }
            }
        }
        Some(Self(joined))
    }

    fn or(&self, other: &Self, budget: &AnalysisBudget) -> Option<Self> {
        let mut joined = self.0.clone();
        for conjunction in &other.0 {
            budget.spend(joined.len() + 1)?;
            if joined.contains(conjunction) {
                continue;
            }
            // `x == "a" || x == "b"` is `x in ["a", "b"]`.
            if !joined.iter_mut().any(|known| merge(known, conjunction)) {
                joined.push(conjunction.clone());
            }
        }
        (joined.len() <= MAX_ALTERNATIVES).then_some(Self(joined))
    }

    /// Whether no span satisfies any alternative.
    pub(super) fn is_never(&self) -> bool {
        self.0.iter().all(Conjunction::is_impossible)
    }

    /// Whether every span that satisfies this has the field.
    pub(super) fn requires_field(&self, field: &MarkedField) -> bool {
        let field = field.field.to_string();
        let needs = |literal: &Literal| {
            literal.needs.contains(&field) || (literal.holds && literal.fact == Fact::Present(field.clone()))
        };
        self.0.iter().all(|each| each.is_impossible() || each.0.iter().any(|literal| needs(literal)))
    }

    /// Whether every span that satisfies this also satisfies `other`.
    pub(super) fn implies(&self, other: &Self, budget: &AnalysisBudget) -> bool {
        let facts = |alternatives: &Self| alternatives.0.iter().map(|each| each.0.len() + 1).sum::<usize>();
        if budget.spend(facts(self) * facts(other)).is_none() {
            return false;
        }
        self.0
            .iter()
            .filter(|ours| !ours.is_impossible())
            .all(|ours| other.0.iter().any(|theirs| theirs.0.iter().all(|literal| ours.implies(literal))))
    }
}

/// Merges another alternative into a known one if each is a single fact and both are about the same value; returns whether it did.
fn merge(known: &mut Conjunction, other: &Conjunction) -> bool {
    let only = |conjunction: &Conjunction| match conjunction.0.len() {
        1 => conjunction.0.first().cloned(),
        _ => None,
    };
    let (Some(ours), Some(theirs)) = (only(known), only(other)) else { return false };
    match (&ours.fact, &theirs.fact) {
        (Fact::OneOf(subject, values), Fact::OneOf(other, more))
            if subject == other && ours.holds && theirs.holds =>
        {
            let fact = Fact::OneOf(subject.clone(), values.union(more).cloned().collect());
            let literal = Literal { fact, holds: true, needs: ours.needs.clone() };
            *known = Conjunction([Rc::new(literal)].into());
            true
        }
        _ => false,
    }
}

/// Returns where a condition is true and where it is false; `None` if that is too large.
pub(super) fn normal_forms(node: &Node, budget: &AnalysisBudget) -> Option<NormalForms> {
    let both = |is_true, is_false| Some(NormalForms { is_true, is_false });
    match &node.kind {
        Kind::Constant(Constant::Bool(true)) => both(Alternatives::always(), Alternatives::never()),
        Kind::Constant(Constant::Bool(false)) => both(Alternatives::never(), Alternatives::always()),
        Kind::Not(inner) => normal_forms(inner, budget).map(NormalForms::opposite),
        Kind::And(left, right) => NormalForms::joined(&[left, right], true, budget),
        Kind::Or(left, right) => NormalForms::joined(&[left, right], false, budget),
        Kind::Conditional(condition, yes, no) => {
            let (condition, yes, no) =
                (normal_forms(condition, budget)?, normal_forms(yes, budget)?, normal_forms(no, budget)?);
            let pick = |yes: &Alternatives, no: &Alternatives| {
                condition.is_true.and(yes, budget)?.or(&condition.is_false.and(no, budget)?, budget)
            };
            both(pick(&yes.is_true, &no.is_true)?, pick(&yes.is_false, &no.is_false)?)
        }
        _ => leaf(node, budget),
    }
}

/// Returns the sides of a condition that is not a junction.
fn leaf(node: &Node, budget: &AnalysisBudget) -> Option<NormalForms> {
    if let Some(normal_forms) = constant_normal_forms(node) {
        return Some(normal_forms);
    }
    let always = || Some(constant_unless_error(node, true));
    match &node.kind {
        Kind::Compare(Relation::Ne, left, right) => equality(left, right, budget).map(NormalForms::opposite),
        Kind::Compare(Relation::Eq, left, right) => equality(left, right, budget),
        // All four are expressed by `<`, because values without an order are errors in each of them.
        Kind::Compare(Relation::Lt, left, right) => Some(less(left, right)),
        Kind::Compare(Relation::Gt, left, right) => Some(less(right, left)),
        Kind::Compare(Relation::Ge, left, right) => Some(less(left, right).opposite()),
        Kind::Compare(Relation::Le, left, right) => Some(less(right, left).opposite()),
        Kind::HasKey(field) if present(field) == Predicate::True => always(),
        Kind::In(needle, haystack) if is_listed(needle, haystack) => always(),
        Kind::TextCall(_, subject, argument)
            if is_empty_text(argument) || is_same_value(subject, argument) =>
        {
            always()
        }
        Kind::Matches(_, pattern) if matches_every_text(pattern) => always(),
        Kind::Macro { quantifier, body, .. } => {
            let body = normal_forms(body, budget)?;
            match quantifier {
                Quantifier::Exists | Quantifier::ExistsOne if body.is_true.is_never() => {
                    Some(constant_unless_error(node, false))
                }
                Quantifier::All if body.is_false.is_never() => always(),
                _ => Some(fact(node, as_fact(node))),
            }
        }
        _ => Some(fact(node, as_fact(node))),
    }
}

/// Returns the sides of a condition that depends on neither span nor caller, such as `1 == 1`.
fn constant_normal_forms(node: &Node) -> Option<NormalForms> {
    const MAX_NODES: usize = 64;
    let parts = node.walk();
    let depends_on_input = |part: &Node| {
        let of_span =
            matches!(part.kind, Kind::Field(_) | Kind::HasKey(_) | Kind::Variable(_) | Kind::Macro { .. });
        of_span || part.kind.is_of_caller()
    };
    if parts.len() > MAX_NODES || parts.into_iter().any(depends_on_input) {
        return None;
    }
    let truth = lower_with_rules(&RULES, node, &Caller::default()).ok()?;
    let side = |predicate: &Predicate| match predicate {
        Predicate::True => Some(Alternatives::always()),
        Predicate::False => Some(Alternatives::never()),
        _ => None,
    };
    Some(NormalForms { is_true: side(&truth.is_true)?, is_false: side(&truth.is_false)? })
}

/// Whether two expressions have the same value wherever both have one.
fn is_same_value(left: &Node, right: &Node) -> bool {
    discriminant(&left.kind) == discriminant(&right.kind) && canonical(left) == canonical(right)
}

fn is_listed(needle: &Node, haystack: &Node) -> bool {
    matches!(&haystack.kind, Kind::List(elements) if elements.iter().any(|element| is_same_value(element, needle)))
}

fn is_empty_text(node: &Node) -> bool {
    matches!(&node.kind, Kind::Constant(Constant::Text(text)) if text.is_empty())
}

/// Returns the sides of a condition that has this value unless it is an error.
fn constant_unless_error(node: &Node, value: bool) -> NormalForms {
    let normal_forms = other_fact(node);
    let is_true = match (value, may_err(node)) {
        (true, true) => normal_forms.is_true,
        (false, true) => normal_forms.is_false,
        (_, false) => Alternatives::always(),
    };
    let normal_forms = NormalForms { is_true, is_false: Alternatives::never() };
    if value { normal_forms } else { normal_forms.opposite() }
}

/// Whether a condition is an error for some span or caller.
pub(super) fn may_err(node: &Node) -> bool {
    node.walk().into_iter().any(|node| match &node.kind {
        Kind::Field(field) => defined(field) != Predicate::True,
        Kind::Attribute(_) | Kind::Variable(_) | Kind::Size(_) | Kind::Matches(..) => true,
        Kind::Compare(relation, ..) => !matches!(relation, Relation::Eq | Relation::Ne),
        _ => false,
    })
}

impl NormalForms {
    /// Returns the sides of the conjunction or disjunction of these conditions.
    pub(super) fn joined(nodes: &[&Node], conjunction: bool, budget: &AnalysisBudget) -> Option<Self> {
        let forms = |node| {
            let forms = normal_forms(node, budget)?;
            Some(if conjunction { forms } else { forms.opposite() })
        };
        let (first, others) = nodes.split_first()?;
        let mut joined = forms(first)?;
        for other in others {
            let other = forms(other)?;
            joined = Self {
                is_true: joined.is_true.and(&other.is_true, budget)?,
                is_false: joined.is_false.or(&other.is_false, budget)?,
            };
        }
        Some(if conjunction { joined } else { joined.opposite() })
    }

    fn opposite(self) -> Self {
        Self { is_true: self.is_false, is_false: self.is_true }
    }
}

fn comparison(relation: Relation, left: &Node, right: &Node) -> Node {
    let kind = Kind::Compare(relation, Box::new(left.clone()), Box::new(right.clone()));
    Node { kind, ty: Type::Bool, span: left.span }
}

fn less(left: &Node, right: &Node) -> NormalForms {
    let node = comparison(Relation::Lt, left, right);
    match (&left.kind, &right.kind) {
        (Kind::Size(_), Kind::Constant(Constant::Int(bound))) if *bound <= 0 => {
            constant_unless_error(&node, false)
        }
        (Kind::Constant(Constant::Int(bound)), Kind::Size(_)) if *bound < 0 => {
            constant_unless_error(&node, true)
        }
        _ if is_empty_text(right) || is_same_value(left, right) => constant_unless_error(&node, false),
        _ => other_fact(&node),
    }
}

fn equality(left: &Node, right: &Node, budget: &AnalysisBudget) -> Option<NormalForms> {
    let node = || comparison(Relation::Eq, left, right);
    if is_same_value(left, right) {
        return Some(constant_unless_error(&node(), true));
    }
    let other_fact = || Some(other_fact(&node()));
    let (value, known) = match (&left.kind, &right.kind) {
        (_, Kind::Constant(known)) => (left, known),
        (Kind::Constant(known), _) => (right, known),
        _ => return other_fact(),
    };
    match known {
        Constant::Text(text) => Some(fact(value, Fact::OneOf(canonical(value), [text.clone()].into()))),
        // Only for values that are certainly booleans: for a value of another type the comparison would be false, not
        // an error.
        Constant::Bool(true) if value.ty == Type::Bool => normal_forms(value, budget),
        Constant::Bool(false) if value.ty == Type::Bool => {
            normal_forms(value, budget).map(NormalForms::opposite)
        }
        Constant::Int(size) if *size < 0 && matches!(value.kind, Kind::Size(_)) => {
            Some(constant_unless_error(&node(), false))
        }
        _ => other_fact(),
    }
}

fn fact(node: &Node, fact: Fact) -> NormalForms {
    let needs = if matches!(fact, Fact::Present(_)) { BTreeSet::new() } else { needs(node) };
    let literal = |holds| Literal { fact: fact.clone(), holds, needs: needs.clone() };
    NormalForms { is_true: Alternatives::of(literal(true)), is_false: Alternatives::of(literal(false)) }
}

fn other_fact(node: &Node) -> NormalForms {
    fact(node, Fact::Other(canonical(node)))
}

fn as_fact(node: &Node) -> Fact {
    match &node.kind {
        Kind::HasKey(field) => Fact::Present(field.field.to_string()),
        Kind::In(needle, haystack) => match constant_texts(haystack) {
            Some(texts) => Fact::OneOf(canonical(needle), texts),
            None => Fact::Other(canonical(node)),
        },
        Kind::TextCall(function, subject, argument) => match &argument.kind {
            Kind::Constant(Constant::Text(text)) => {
                Fact::TextTest(canonical(subject), *function, text.clone())
            }
            _ => Fact::Other(canonical(node)),
        },
        _ => Fact::Other(canonical(node)),
    }
}

/// Returns the elements of a literal list that contains only strings.
fn constant_texts(list: &Node) -> Option<BTreeSet<String>> {
    let Kind::List(elements) = &list.kind else { return None };
    let text = |element: &Node| match &element.kind {
        Kind::Constant(Constant::Text(text)) => Some(text.clone()),
        _ => None,
    };
    elements.iter().map(text).collect()
}

/// Returns the fields that are present wherever a value is not an error.
fn needs(node: &Node) -> BTreeSet<String> {
    match &node.kind {
        Kind::Field(field) => [field.field.to_string()].into(),
        // An error inside these may be absorbed, or never evaluated.
        Kind::And(..) | Kind::Or(..) | Kind::Conditional(..) | Kind::HasKey(_) => BTreeSet::new(),
        Kind::Macro { range, .. } => needs(range),
        _ => node.children().into_iter().flat_map(needs).collect(),
    }
}

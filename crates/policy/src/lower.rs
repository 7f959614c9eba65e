//! Lowering: a checked expression and a caller become two predicates, "it is true" and "it is false".
//!
//! What depends only on the caller is folded on the way. A value that depends on the span is lowered to where it is
//! defined and what it is there; an operation on it is true or false only where all its operands are defined. CEL's
//! `&&` and `||` absorb errors: `error || true` is true and `error && false` is false, which is what the rules below
//! say when neither predicate of an error holds.

pub(crate) mod fields;
mod values;

use std::sync::Arc;

use tracewarden_model::{AttributeValue, Caller};

use crate::expression::{Kind, Known, Node};
use crate::predicate::{Atom, Int, Predicate, Quantifier, Text};

use fields::field_value;
pub(crate) use values::{Lowered, Truth};

/// Largest predicate of one policy, in nodes as written. Generous: an ordinary policy has fewer than 50.
pub(crate) const MAX_PREDICATE_SIZE: u64 = 10_000;
/// Most steps that lowering one policy may take; nested macros over the caller's lists multiply.
const MAX_STEPS: u64 = 50_000;

/// The predicate would be too large to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// "The policy is true", for this caller.
pub(crate) fn lower(node: &Node, caller: &Caller) -> Result<Predicate, TooLarge> {
    let mut lowering = Lowering { caller, bound: Vec::new(), steps: 0 };
    let truth = lowering.node(node)?.truth();
    if truth.is_true.size() > MAX_PREDICATE_SIZE { Err(TooLarge) } else { Ok(truth.is_true) }
}

struct Lowering<'a> {
    caller: &'a Caller,
    /// Variables of the macros around the current expression, innermost last.
    bound: Vec<(u32, Lowered)>,
    steps: u64,
}

impl Lowering<'_> {
    fn node(&mut self, node: &Node) -> Result<Lowered, TooLarge> {
        self.step()?;
        let lowered = match &node.kind {
            Kind::Known(known) => Lowered::Known(known.clone()),
            Kind::List(elements) => {
                let elements = elements.iter().map(|element| self.node(element)).collect::<Result<_, _>>()?;
                Lowered::list(elements)
            }
            Kind::Username => Lowered::Known(Known::Text(self.caller.username.clone())),
            Kind::Roles => {
                Lowered::Known(Known::List(self.caller.roles.iter().cloned().map(Known::Text).collect()))
            }
            Kind::Attribute(name) => self.attribute(name),
            Kind::HasAttribute(name) => {
                Lowered::Known(Known::Bool(self.caller.attributes.contains_key(name)))
            }
            Kind::Field(field) => field_value(field),
            Kind::HasKey(field) => {
                Lowered::from(Truth::two_valued(Predicate::atom(Atom::Present(Arc::clone(field)))))
            }
            Kind::Variable(variable) => self
                .bound
                .iter()
                .rev()
                .find(|(name, _)| name == variable)
                .map_or(Lowered::Error, |(_, value)| value.clone()),
            Kind::Not(inner) => Lowered::from(self.node(inner)?.truth().not()),
            Kind::And(left, right) => {
                let left = self.node(left)?.truth();
                Lowered::from(left.and(self.node(right)?.truth()))
            }
            Kind::Or(left, right) => {
                let left = self.node(left)?.truth();
                Lowered::from(left.or(self.node(right)?.truth()))
            }
            Kind::Conditional(condition, yes, no) => {
                let condition = self.node(condition)?.truth();
                let yes = self.node(yes)?;
                let no = self.node(no)?;
                Lowered::choice(condition, yes, no)
            }
            Kind::Compare(relation, left, right) => {
                let left = self.node(left)?;
                let right = self.node(right)?;
                Lowered::from(left.compare(*relation, &right))
            }
            Kind::In(needle, haystack) => {
                let needle = self.node(needle)?;
                let haystack = self.node(haystack)?;
                Lowered::from(needle.is_in(&haystack))
            }
            Kind::TextCall(function, subject, argument) => {
                let subject = self.node(subject)?;
                let argument = self.node(argument)?;
                Lowered::from(subject.text_call(*function, &argument))
            }
            Kind::Matches(subject, pattern) => Lowered::from(self.node(subject)?.matches(pattern)),
            Kind::Size(inner) => self.node(inner)?.size(),
            Kind::Macro { quantifier, range, variable, body } => {
                let range = self.node(range)?;
                self.quantified(*quantifier, range, *variable, body)?
            }
        };
        Ok(lowered)
    }

    fn step(&mut self) -> Result<(), TooLarge> {
        self.steps += 1;
        if self.steps > MAX_STEPS { Err(TooLarge) } else { Ok(()) }
    }

    fn attribute(&self, name: &str) -> Lowered {
        match self.caller.attributes.get(name) {
            None => Lowered::Error,
            Some(AttributeValue::String(text)) => Lowered::Known(Known::Text(text.clone())),
            Some(AttributeValue::Bool(value)) => Lowered::Known(Known::Bool(*value)),
            Some(AttributeValue::Strings(list)) => {
                Lowered::Known(Known::List(list.iter().cloned().map(Known::Text).collect()))
            }
        }
    }

    fn quantified(
        &mut self,
        quantifier: Quantifier,
        range: Lowered,
        variable: u32,
        body: &Node,
    ) -> Result<Lowered, TooLarge> {
        match range {
            Lowered::Known(Known::List(elements)) => {
                let elements = elements.into_iter().map(Lowered::Known).collect();
                self.unrolled(quantifier, Predicate::True, elements, variable, body)
            }
            Lowered::List(elements) => {
                let defined = Predicate::all(elements.iter().map(Lowered::defined));
                self.unrolled(quantifier, defined, elements, variable, body)
            }
            Lowered::Array { defined, array } => {
                let element = Lowered::Text { defined: Predicate::True, text: Text::Element(variable) };
                let truth = self.with_bound(variable, element, body)?;
                let over = |quantifier, body: Predicate| match (quantifier, &body) {
                    (Quantifier::Exists, Predicate::False) => Predicate::False,
                    (Quantifier::All, Predicate::True) => Predicate::True,
                    _ => {
                        Predicate::atom(Atom::Quantified { quantifier, array: array.clone(), variable, body })
                    }
                };
                let Truth { is_true, is_false } = truth;
                let truth = match quantifier {
                    Quantifier::Exists => Truth {
                        is_true: over(Quantifier::Exists, is_true),
                        is_false: over(Quantifier::All, is_false),
                    },
                    Quantifier::All => Truth {
                        is_true: over(Quantifier::All, is_true),
                        is_false: over(Quantifier::Exists, is_false),
                    },
                    Quantifier::ExistsOne => {
                        let decided = over(Quantifier::All, is_true.clone().or(is_false));
                        let one = over(Quantifier::ExistsOne, is_true);
                        Truth {
                            is_true: decided.clone().and(one.clone()),
                            is_false: decided.and(one.negate()),
                        }
                    }
                };
                Ok(Lowered::from(truth.where_defined(&defined)))
            }
            Lowered::Choice { condition, yes, no } => {
                let yes = self.quantified(quantifier, *yes, variable, body)?;
                let no = self.quantified(quantifier, *no, variable, body)?;
                Ok(Lowered::choice(condition, yes, no))
            }
            _ => Ok(Lowered::Error),
        }
    }

    /// A macro over a list whose elements are known one by one.
    fn unrolled(
        &mut self,
        quantifier: Quantifier,
        defined: Predicate,
        elements: Vec<Lowered>,
        variable: u32,
        body: &Node,
    ) -> Result<Lowered, TooLarge> {
        let mut truths = Vec::with_capacity(elements.len());
        for element in elements {
            truths.push(self.with_bound(variable, element, body)?);
        }
        let truth = match quantifier {
            Quantifier::Exists => Truth::any(truths),
            Quantifier::All => Truth::all(truths),
            Quantifier::ExistsOne => {
                let decided = Predicate::all(truths.iter().map(Truth::decided));
                // "Exactly one" is "one, and none of the others", for each: quadratic, hence the step count.
                let mut one = Vec::with_capacity(truths.len());
                for chosen in 0..truths.len() {
                    let mut parts = Vec::with_capacity(truths.len());
                    for (at, truth) in truths.iter().enumerate() {
                        self.step()?;
                        let holds = truth.is_true.clone();
                        parts.push(if at == chosen { holds } else { holds.negate() });
                    }
                    one.push(Predicate::all(parts));
                }
                let one = Predicate::any(one);
                Truth { is_true: decided.clone().and(one.clone()), is_false: decided.and(one.negate()) }
            }
        };
        Ok(Lowered::from(truth.where_defined(&defined)))
    }

    fn with_bound(&mut self, variable: u32, value: Lowered, body: &Node) -> Result<Truth, TooLarge> {
        self.bound.push((variable, value));
        let lowered = self.node(body);
        self.bound.pop();
        Ok(lowered?.truth())
    }
}

/// The size of a string or a list.
pub(crate) fn int_literal(value: usize) -> Int {
    Int::Literal(i64::try_from(value).unwrap_or(i64::MAX))
}

//! Lowering: compiles a checked expression for a caller to two predicates, "it is true" and "it is false".
//!
//! Everything that depends only on the caller is folded to a constant. A value that depends on the span is lowered to
//! the condition under which it is defined, and its value. An operation is true or false only where all its operands
//! are defined. CEL's `&&` and `||` absorb errors: `error || true` is true and `error && false` is false. The rules
//! below give the same result, because for an error neither predicate holds.

pub(crate) mod fields;
mod limits;
mod operations;
pub(crate) mod rules;
mod truth;
mod values;
mod work;

use std::collections::HashMap;

use tracewarden_model::{AttributeValue, Caller};

use crate::expression::{Constant, Kind, Node};
use crate::predicate::work::Budget;
use crate::predicate::{Predicate, Quantifier, Text};

pub(crate) use limits::{MAX_PREDICATE_SIZE, MAX_WORK, MAX_WORK_OF_SMALL_LISTS, TooLarge};
use operations::field_value;
use rules::{Elements, RULES, Rules};
pub(crate) use truth::Truth;
pub(crate) use values::LoweredValue;
use work::LoweringContext;

/// Maximum size of an intermediate predicate, even if the result is small. Shared nodes count as often as they would
/// be written.
const MAX_INTERMEDIATE_SIZE: u64 = 1_000_000;

/// Returns the predicate "the policy is true" for this caller.
pub(crate) fn lower(node: &Node, caller: &Caller, budget: &Budget) -> Result<Predicate, TooLarge> {
    let truth = lower_with_budget(budget, &RULES, node, caller)?;
    simplify_bounded(&truth.is_true, budget)
}

/// Returns the simplified predicate, unless it is too large.
pub(crate) fn simplify_bounded(predicate: &Predicate, budget: &Budget) -> Result<Predicate, TooLarge> {
    let simple = predicate.simplified_within(budget);
    if budget.is_spent() || simple.size() > MAX_PREDICATE_SIZE { Err(TooLarge) } else { Ok(simple) }
}

/// Returns where the expression is true and where it is false, under these rules and before simplification.
pub(crate) fn lower_with_rules(rules: &Rules, node: &Node, caller: &Caller) -> Result<Truth, TooLarge> {
    lower_with_budget(&Budget::of(MAX_WORK), rules, node, caller)
}

fn lower_with_budget(
    budget: &Budget,
    rules: &Rules,
    node: &Node,
    caller: &Caller,
) -> Result<Truth, TooLarge> {
    let work = LoweringContext::new(rules, budget);
    let mut lowering = Lowering { work: &work, caller, attributes: HashMap::new(), variables: Vec::new() };
    let truth = lowering.node(node)?.truth(&work);
    work.check()?;
    Ok(truth)
}

struct Lowering<'a> {
    work: &'a LoweringContext<'a>,
    caller: &'a Caller,
    /// Cache of the caller's attributes that were lowered: a macro may use a long list for each element of another
    /// list.
    attributes: HashMap<&'a str, LoweredValue>,
    /// Variables of the macros around the current expression, innermost last.
    variables: Vec<(u32, LoweredValue)>,
}

impl<'a> Lowering<'a> {
    fn node(&mut self, node: &'a Node) -> Result<LoweredValue, TooLarge> {
        self.work.steps(1)?;
        let rules = self.work;
        let lowered = match &node.kind {
            Kind::Constant(known) => {
                let known = LoweredValue::Constant(known.clone());
                self.work.steps(known.weight())?;
                known
            }
            Kind::List(elements) => {
                let elements = elements.iter().map(|element| self.node(element)).collect::<Result<_, _>>()?;
                LoweredValue::list(elements)
            }
            Kind::Username => LoweredValue::constant_text(&self.caller.username),
            Kind::Roles => LoweredValue::constant_texts(self.caller.roles.iter()),
            Kind::Attribute(name) => self.attribute(name),
            Kind::HasAttribute(name) => {
                LoweredValue::Constant(Constant::Bool(self.caller.attributes.contains_key(name)))
            }
            Kind::Field(field) => field_value(rules, field),
            Kind::HasKey(field) => LoweredValue::from((rules.has_key)((rules.field_present)(field))),
            Kind::Variable(variable) => {
                match self.variables.iter().rev().find(|(name, _)| name == variable) {
                    Some((_, value)) => {
                        self.work.steps(value.weight())?;
                        value.clone()
                    }
                    None => LoweredValue::Error,
                }
            }
            Kind::Not(inner) => LoweredValue::from((rules.not)(self.truth(inner)?)),
            Kind::And(left, right) => LoweredValue::from((rules.and)(self.truth(left)?, self.truth(right)?)),
            Kind::Or(left, right) => LoweredValue::from((rules.or)(self.truth(left)?, self.truth(right)?)),
            Kind::Conditional(condition, yes, no) => {
                let condition = self.truth(condition)?;
                let (yes, no) = (self.node(yes)?, self.node(no)?);
                LoweredValue::choice(condition, yes, no)
            }
            Kind::Compare(relation, left, right) => {
                let (left, right) = (self.node(left)?, self.node(right)?);
                self.check_comparable(&left, &right)?;
                LoweredValue::from(left.compare(rules, *relation, &right))
            }
            Kind::In(needle, haystack) => {
                let (needle, haystack) = (self.node(needle)?, self.node(haystack)?);
                self.check_comparable(&needle, &haystack)?;
                LoweredValue::from(needle.is_in(rules, &haystack))
            }
            Kind::TextCall(function, subject, argument) => {
                let (subject, argument) = (self.node(subject)?, self.node(argument)?);
                LoweredValue::from(subject.text_call(rules, *function, &argument))
            }
            Kind::Matches(subject, pattern) => {
                LoweredValue::from(self.node(subject)?.matches(rules, pattern))
            }
            Kind::Size(inner) => self.node(inner)?.size(rules),
            Kind::Macro { quantifier, range, variable, body } => {
                let range = self.node(range)?;
                self.quantified(*quantifier, range, *variable, body)?
            }
        };
        self.work.check()?;
        if let LoweredValue::Bool(truth) = &lowered
            && truth.is_true.size().saturating_add(truth.is_false.size()) > MAX_INTERMEDIATE_SIZE
        {
            return Err(TooLarge);
        }
        Ok(lowered)
    }

    fn truth(&mut self, node: &'a Node) -> Result<Truth, TooLarge> {
        Ok(self.node(node)?.truth(self.work))
    }

    /// Rejects early a comparison that would expand to too many combinations.
    fn check_comparable(&self, left: &LoweredValue, right: &LoweredValue) -> Result<(), TooLarge> {
        if left.contains_array() || right.contains_array() {
            self.work.allows(left.combinations().saturating_mul(right.combinations()))?;
        }
        Ok(())
    }

    fn attribute(&mut self, name: &'a str) -> LoweredValue {
        let (attributes, rules) = (&self.caller.attributes, self.work);
        let value = self.attributes.entry(name).or_insert_with(|| match attributes.get(name) {
            None => (rules.absent_attribute)(),
            Some(AttributeValue::String(text)) => LoweredValue::constant_text(text),
            Some(AttributeValue::Bool(value)) => LoweredValue::Constant(Constant::Bool(*value)),
            Some(AttributeValue::Strings(list)) => LoweredValue::constant_texts(list.iter()),
        });
        value.clone()
    }

    fn quantified(
        &mut self,
        quantifier: Quantifier,
        range: LoweredValue,
        variable: u32,
        body: &'a Node,
    ) -> Result<LoweredValue, TooLarge> {
        let rules = self.work;
        self.work.steps(range.weight())?;
        match range {
            LoweredValue::Constant(Constant::List(known)) => {
                let elements = known.iter().cloned().map(LoweredValue::Constant);
                self.expand_macro(quantifier, Predicate::True, elements, variable, body)
            }
            LoweredValue::List(ref elements) => {
                let defined = range.defined(rules);
                self.expand_macro(quantifier, defined, elements.iter().cloned(), variable, body)
            }
            LoweredValue::Array { defined, array } => {
                let element = LoweredValue::Text { defined: Predicate::True, text: Text::Element(variable) };
                let truth = self.with_bound(variable, element, body)?;
                let elements = Elements { array, variable };
                let rule = match quantifier {
                    Quantifier::Exists => rules.exists,
                    Quantifier::All => rules.all,
                    Quantifier::ExistsOne => rules.exists_one,
                };
                Ok(LoweredValue::from(rule(defined, &elements, truth)))
            }
            LoweredValue::Choice { condition, yes, no } => {
                let yes = self.quantified(quantifier, *yes, variable, body)?;
                let no = self.quantified(quantifier, *no, variable, body)?;
                Ok(LoweredValue::choice(condition, yes, no))
            }
            _ => Ok(LoweredValue::Error),
        }
    }

    /// Expands a macro over a list with known elements: lowers its body once for each element.
    fn expand_macro(
        &mut self,
        quantifier: Quantifier,
        defined: Predicate,
        elements: impl ExactSizeIterator<Item = LoweredValue>,
        variable: u32,
        body: &'a Node,
    ) -> Result<LoweredValue, TooLarge> {
        let mut truths = Vec::with_capacity(elements.len());
        for element in elements {
            truths.push(self.with_bound(variable, element, body)?);
        }
        let rule = match quantifier {
            Quantifier::Exists => self.work.list_exists,
            Quantifier::All => self.work.list_all,
            Quantifier::ExistsOne => self.work.list_exists_one,
        };
        Ok(LoweredValue::from(rule(defined, truths)))
    }

    fn with_bound(&mut self, variable: u32, value: LoweredValue, body: &'a Node) -> Result<Truth, TooLarge> {
        self.variables.push((variable, value));
        let truth = self.truth(body);
        self.variables.pop();
        truth
    }
}

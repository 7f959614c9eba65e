//! The reference evaluator: evaluates checked policies one span at a time. The lowering is tested against it. Both read the same
//! checked tree, so that a fault of the check shows in neither: a test compares the evaluator with the interpreter of the CEL
//! library, which has a tree of its own.

mod cost;
mod decision;
mod field_value;
mod patterns;
mod reasons;
mod value;
mod verdict;

use std::collections::{BTreeMap, HashMap};

use regex::Regex;
use tracewarden_model::{AccessModel, AttributeValue, Caller, Claims, FieldRef, MarkedField};

use crate::check::check_on_current_stack;
use crate::diagnostics::Diagnostic;
use crate::expression::{Kind, Node};
use crate::parse::on_deep_stack;
use crate::predicate::{Quantifier, Relation};

pub use field_value::{FieldValue, Span};
use patterns::Patterns;
#[cfg(test)]
pub(crate) use value::string_array;
use value::{SpanField, Value};

pub use decision::explain;
pub use verdict::{Decision, Outcome, ReadValue, Verdict};

/// Evaluates a policy on each of the spans.
///
/// # Errors
/// The errors of the policy if it is not valid under the model.
pub fn evaluate(
    expression: &str,
    model: &AccessModel,
    caller: &Caller,
    spans: &[Span],
) -> Result<Vec<Outcome>, Vec<Diagnostic>> {
    on_deep_stack("evaluated", || {
        let root = check_on_current_stack(expression, model)?.root;
        let prepared = PreparedPolicy::new(caller, &Patterns::of(&root));
        Ok(spans.iter().map(|span| Evaluator::new(&prepared, span).truth(&root).into()).collect())
    })?
}

/// Evaluates expressions over the claims of each person. Returns the values by person, in the order of the expressions; `None` if
/// there is none, or it is an integer. Call it inside [`on_deep_stack`].
pub(crate) fn evaluate_claims(expressions: &[&Node], people: &[Claims]) -> Vec<Vec<Option<AttributeValue>>> {
    let regexes: HashMap<String, Regex> =
        expressions.iter().flat_map(|expression| Patterns::of(expression).compile()).collect();
    let no_span = Span::new();
    let values = |claims: &Claims| {
        let prepared = PreparedPolicy {
            username: Value::text(""),
            roles: Value::texts([]),
            attributes: claims.0.iter().map(|(name, value)| (name.as_str(), value.into())).collect(),
            regexes: regexes.clone(),
        };
        let value =
            |expression: &&Node| Evaluator::new(&prepared, &no_span).value(expression)?.to_attribute();
        expressions.iter().map(value).collect()
    };
    people.iter().map(values).collect()
}

/// The data of a policy that is the same for all spans.
struct PreparedPolicy<'a> {
    username: Value,
    roles: Value,
    attributes: BTreeMap<&'a str, Value>,
    /// Compiled patterns, by their text for this engine.
    regexes: HashMap<String, Regex>,
}

impl<'a> PreparedPolicy<'a> {
    fn new(caller: &'a Caller, patterns: &Patterns) -> Self {
        Self {
            username: Value::text(&caller.username),
            roles: Value::texts(&caller.roles),
            attributes: caller.attributes.iter().map(|(name, value)| (name.as_str(), value.into())).collect(),
            regexes: patterns.compile(),
        }
    }
}

/// Evaluates the parts of a policy on one span.
struct Evaluator<'a> {
    policy: &'a PreparedPolicy<'a>,
    span: &'a Span,
    /// Cache of the fields that were read: a macro may read a long list for each element of another list.
    fields: HashMap<&'a FieldRef, SpanField>,
    /// Variables of the macros around the current expression with their elements, innermost last.
    variables: Vec<(u32, Value)>,
}

impl<'a> Evaluator<'a> {
    fn new(policy: &'a PreparedPolicy<'a>, span: &'a Span) -> Self {
        Self { policy, span, fields: HashMap::new(), variables: Vec::new() }
    }

    /// Returns whether a condition is true; `None` if it is an error. A value that is not a boolean is an error, which
    /// `&&` and `||` absorb like any other.
    fn truth(&mut self, node: &'a Node) -> Option<bool> {
        match self.value(node)? {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the value of an expression; `None` if it is an error.
    fn value(&mut self, node: &'a Node) -> Option<Value> {
        let holds = match &node.kind {
            Kind::Constant(constant) => return Some(constant.into()),
            Kind::List(elements) => {
                let elements = elements.iter().map(|element| self.value(element));
                return elements.collect::<Option<_>>().map(Value::List);
            }
            Kind::Username => return Some(self.policy.username.clone()),
            Kind::Roles => return Some(self.policy.roles.clone()),
            Kind::Attribute(name) => return self.policy.attributes.get(name.as_str()).cloned(),
            Kind::Field(field) => return self.field(field).value.clone(),
            Kind::Variable(variable) => return self.variable(*variable).cloned(),
            Kind::Size(inner) => return self.value(inner)?.size().map(Value::Int),
            // An error of the branch that is not taken has no effect.
            Kind::Conditional(condition, yes, no) => {
                return if self.truth(condition)? { self.value(yes) } else { self.value(no) };
            }
            Kind::HasAttribute(name) => self.policy.attributes.contains_key(name.as_str()),
            Kind::HasKey(field) => self.field(field).is_present,
            Kind::Not(inner) => !self.truth(inner)?,
            Kind::And(left, right) => self.junction(false, left, right)?,
            Kind::Or(left, right) => self.junction(true, left, right)?,
            Kind::Compare(relation, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                match relation {
                    // Values of different types are unequal.
                    Relation::Eq => left == right,
                    Relation::Ne => left != right,
                    _ => relation.holds(left.order(&right)?),
                }
            }
            Kind::In(needle, haystack) => match (self.value(needle)?, self.value(haystack)?) {
                (needle, Value::List(elements)) => elements.contains(&needle),
                _ => return None,
            },
            Kind::TextCall(function, subject, argument) => {
                let (subject, argument) = (self.value(subject)?, self.value(argument)?);
                subject.text_call(*function, &argument)?
            }
            Kind::Matches(subject, pattern) => {
                let subject = self.value(subject)?;
                self.policy.regexes.get(&pattern.reference)?.is_match(subject.as_str()?)
            }
            Kind::Macro { quantifier, range, variable, body } => {
                self.quantified(*quantifier, range, *variable, body)?
            }
        };
        Some(Value::Bool(holds))
    }

    fn field(&mut self, field: &'a MarkedField) -> &SpanField {
        self.fields.entry(&field.field).or_insert_with(|| SpanField::new(field, self.span))
    }

    fn variable(&self, variable: u32) -> Option<&Value> {
        self.variables.iter().rev().find(|(bound, _)| *bound == variable).map(|(_, value)| value)
    }

    /// Evaluates `||` if `decisive` is true, `&&` if it is false. A side with this value determines the result even if
    /// the other side is an error.
    fn junction(&mut self, decisive: bool, left: &'a Node, right: &'a Node) -> Option<bool> {
        let left = self.truth(left);
        if left == Some(decisive) {
            return left;
        }
        let right = self.truth(right);
        if right == Some(decisive) { right } else { left.and(right) }
    }

    fn quantified(
        &mut self,
        quantifier: Quantifier,
        range: &'a Node,
        variable: u32,
        body: &'a Node,
    ) -> Option<bool> {
        let Value::List(elements) = self.value(range)? else { return None };
        let mut bodies = elements.iter().map(|element| {
            self.variables.push((variable, element.clone()));
            let truth = self.truth(body);
            self.variables.pop();
            truth
        });
        // An element for which the body is decisive hides the errors of others.
        let decisive = match quantifier {
            Quantifier::Exists => true,
            Quantifier::All => false,
            // Errors cannot be counted.
            Quantifier::ExistsOne => {
                return bodies
                    .try_fold(0, |count, truth| Some(count + u64::from(truth?)))
                    .map(|count| count == 1);
            }
        };
        let mut whole = Some(!decisive);
        for truth in bodies {
            if truth == Some(decisive) {
                return truth;
            }
            whole = whole.and(truth);
        }
        whole
    }
}

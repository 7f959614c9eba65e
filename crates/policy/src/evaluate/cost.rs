//! Computes an upper limit for the cost of evaluating a policy on a span and explaining the result, before doing
//! either.
//!
//! The client chooses the policy, the lists that its macros iterate over, the strings that it compares, and the
//! patterns. Their costs multiply.

use std::collections::HashMap;

use tracewarden_model::{AttributeValue, Caller, LogicalType, MarkedField};

use crate::evaluate::field_value::value_of;
use crate::evaluate::patterns::Patterns;
use crate::evaluate::value::string_array;
use crate::evaluate::{FieldValue, Span};
use crate::expression::{Constant, Kind, Node};

/// Maximum number of steps per request. A step is about the cost of comparing short strings: half a microsecond
/// without optimisation.
pub(super) const MAX_STEPS: u64 = 6_000_000;
/// Number of list elements that can be compared in one step. Any other operation takes at least one step.
const ELEMENTS_PER_STEP: u64 = 8;
/// Number of bytes that can be copied, compared or searched in one step.
const BYTES_PER_STEP: u64 = 1_024;
/// Number of steps to compile a pattern, per state.
const STEPS_PER_STATE: u64 = 8;
/// If the states of a pattern do not fit into the engine's cache, each byte is matched against all of them: number of
/// states per step.
const STATES_PER_STEP: u64 = 8;
/// Number of bytes per step in that case.
const BYTES_PER_MATCH_STEP: u64 = 16;
/// Number of steps per node and span, for the work that does not depend on the size of values.
const STEPS_PER_PART: u64 = 8;

/// Upper limits of a value's size.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    /// Number of elements of a list.
    elements: u64,
    /// Total number of bytes.
    bytes: u64,
    /// Number of bytes of its largest element.
    element_bytes: u64,
    /// Largest number of elements in one of its elements.
    element_elements: u64,
}

impl Size {
    fn text(bytes: usize) -> Self {
        Self { bytes: bytes as u64, ..Self::default() }
    }

    fn texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> Self {
        Self::list(texts.into_iter().map(|text| Self::text(text.len())))
    }

    fn list(elements: impl Iterator<Item = Self>) -> Self {
        elements.fold(Self::default(), |list, element| Self {
            elements: list.elements + 1,
            bytes: list.bytes.saturating_add(element.bytes),
            element_bytes: list.element_bytes.max(element.bytes),
            element_elements: list.element_elements.max(element.elements),
        })
    }

    fn element(self) -> Self {
        Self {
            elements: self.element_elements,
            bytes: self.element_bytes,
            element_bytes: self.element_bytes,
            element_elements: self.element_elements,
        }
    }

    fn larger(self, other: Self) -> Self {
        Self {
            elements: self.elements.max(other.elements),
            bytes: self.bytes.max(other.bytes),
            element_bytes: self.element_bytes.max(other.element_bytes),
            element_elements: self.element_elements.max(other.element_elements),
        }
    }

    /// Returns the cost of copying, comparing or iterating over the value.
    fn steps(self) -> u64 {
        self.bytes / BYTES_PER_STEP + self.elements / ELEMENTS_PER_STEP
    }
}

/// Cost of a node.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    size: Size,
    /// Cost of evaluating it.
    once: u64,
    /// Cost of explaining the result after evaluation, which evaluates the parts again.
    walk: u64,
}

/// Returns the cost of preparing a policy.
pub(super) fn compile_cost(patterns: &Patterns) -> u64 {
    patterns.all_positions().saturating_mul(STEPS_PER_STATE)
}

pub(super) fn span_cost(root: &Node, caller: &Caller, span: &Span, patterns: &Patterns) -> u64 {
    let mut costs = CostEstimator { caller, span, patterns, variables: HashMap::new() };
    let whole = costs.cost_of(root);
    let values: u64 = root.fields().into_iter().map(|field| field_size(field, span).steps()).sum();
    let parts = (root.walk().len() as u64).saturating_mul(STEPS_PER_PART);
    whole.once.saturating_add(whole.walk).saturating_add(parts).saturating_add(values)
}

struct CostEstimator<'a> {
    caller: &'a Caller,
    span: &'a Span,
    patterns: &'a Patterns,
    variables: HashMap<u32, Size>,
}

impl CostEstimator<'_> {
    fn cost_of(&mut self, node: &Node) -> Cost {
        match &node.kind {
            Kind::And(..) | Kind::Or(..) | Kind::Not(_) => {
                let parts: Vec<Cost> = node.children().into_iter().map(|child| self.cost_of(child)).collect();
                let once = sum(&parts, |part| part.once);
                // The explanation evaluates each side of `a && b && c` once more, regardless of brackets.
                let again =
                    node.children().into_iter().zip(&parts).filter(|(child, _)| !node.is_chained(child));
                let again = again.map(|(_, part)| part.once).fold(0, u64::saturating_add);
                let walk = sum(&parts, |part| part.walk).saturating_add(again);
                Cost { size: Size::default(), once: once.saturating_add(1), walk }
            }
            Kind::Conditional(condition, yes, no) => {
                let (condition, yes, no) = (self.cost_of(condition), self.cost_of(yes), self.cost_of(no));
                let once = condition.once.saturating_add(yes.once.max(no.once)).saturating_add(1);
                let walk = condition
                    .walk
                    .saturating_add(yes.walk.max(no.walk))
                    .saturating_add(once.saturating_mul(2));
                Cost { size: yes.size.larger(no.size), once, walk }
            }
            Kind::Macro { range, variable, body, .. } => {
                let range = self.cost_of(range);
                self.variables.insert(*variable, range.size.element());
                let body = self.cost_of(body);
                let bodies = body.once.saturating_add(2).saturating_mul(range.size.elements);
                let once = range.once.saturating_add(bodies).saturating_add(1);
                // The explanation iterates over the elements again, and explains one of them.
                let walk = once.saturating_add(range.walk).saturating_add(body.walk);
                Cost { size: Size::default(), once, walk }
            }
            _ => {
                let parts: Vec<Cost> = node.children().into_iter().map(|child| self.cost_of(child)).collect();
                let values = parts.iter().map(|part| part.size.steps()).fold(0, u64::saturating_add);
                let (size, own) = match &node.kind {
                    Kind::List(_) => (Size::list(parts.iter().map(|part| part.size)), values),
                    Kind::Compare(..) | Kind::In(..) | Kind::TextCall(..) | Kind::Size(_) => {
                        (Size::default(), values)
                    }
                    Kind::Matches(_, pattern) => {
                        let bytes = sum(&parts, |part| part.size.bytes);
                        let states = self.patterns.positions(&pattern.reference);
                        let matching =
                            bytes.saturating_mul(states / STATES_PER_STEP + 1) / BYTES_PER_MATCH_STEP;
                        (Size::default(), values.saturating_add(matching))
                    }
                    _ => {
                        let size = self.value(node);
                        (size, size.steps())
                    }
                };
                let once = sum(&parts, |part| part.once).saturating_add(own).saturating_add(1);
                // For an error, the node and each operand are evaluated again.
                let walk = sum(&parts, |part| part.walk).saturating_add(once.saturating_mul(3));
                Cost { size, once, walk }
            }
        }
    }

    fn value(&self, node: &Node) -> Size {
        match &node.kind {
            Kind::Constant(known) => constant_size(known),
            Kind::Username => Size::text(self.caller.username.len()),
            Kind::Roles => Size::texts(&self.caller.roles),
            Kind::Attribute(name) => match self.caller.attributes.get(name) {
                Some(AttributeValue::String(text)) => Size::text(text.len()),
                Some(AttributeValue::Strings(list)) => Size::texts(list),
                Some(AttributeValue::Bool(_)) | None => Size::default(),
            },
            Kind::Field(field) => field_size(field, self.span),
            Kind::Variable(number) => self.variables.get(number).copied().unwrap_or_default(),
            _ => Size::default(),
        }
    }
}

fn sum(parts: &[Cost], cost_of: impl Fn(&Cost) -> u64) -> u64 {
    parts.iter().map(cost_of).fold(0, u64::saturating_add)
}

fn constant_size(known: &Constant) -> Size {
    match known {
        Constant::Text(text) => Size::text(text.len()),
        Constant::List(elements) => Size::list(elements.iter().map(constant_size)),
        Constant::Bool(_) | Constant::Int(_) => Size::default(),
    }
}

fn field_size(field: &MarkedField, span: &Span) -> Size {
    match value_of(field, span) {
        // A string that contains a JSON array.
        Some(FieldValue::String(bytes)) if field.logical == LogicalType::StringArray => {
            let list = std::str::from_utf8(bytes).ok().and_then(string_array).unwrap_or_default();
            Size::texts(&list).larger(Size::text(bytes.len()))
        }
        Some(value) => value_size(value),
        None => Size::default(),
    }
}

fn value_size(value: &FieldValue) -> Size {
    match value {
        FieldValue::Array(elements) => Size::list(elements.iter().map(value_size)),
        FieldValue::String(text) => Size::text(text.len()),
        _ => Size::default(),
    }
}

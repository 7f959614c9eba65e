//! Explains which parts of a policy determined its result on a span, and why a part is an error. Evaluates the parts
//! again, as the evaluator does for the whole, and makes no decisions of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use tracewarden_model::{AccessModel, Caller};

use crate::check::check_on_current_stack;
use crate::diagnostics::{Diagnostic, Span as SourceSpan};
use crate::evaluate::cost::{self, MAX_STEPS};
use crate::evaluate::patterns::Patterns;
use crate::evaluate::reasons;
use crate::evaluate::value::Value;
use crate::evaluate::verdict::{Decision, ReadValue, Verdict};
use crate::evaluate::{Evaluator, PreparedPolicy, Span};
use crate::expression::{Kind, Node};
use crate::parse::on_deep_stack;
use crate::predicate::{Quantifier, Relation};

/// Evaluates a policy on spans like [`evaluate`](crate::evaluate()), and explains the outcomes. Setting `stopped` ends
/// the evaluation soon, with an error.
///
/// # Errors
/// If the policy is not valid under the model, or evaluating it on these spans takes too long.
pub fn explain(
    expression: &str,
    model: &AccessModel,
    caller: &Caller,
    spans: &[Span],
    stopped: &AtomicBool,
) -> Result<Vec<Verdict>, Vec<Diagnostic>> {
    on_deep_stack("evaluated", || {
        let root = &check_on_current_stack(expression, model)?.root;
        let patterns = Patterns::of(root);
        // Before any pattern is compiled.
        let mut steps = cost::compile_cost(&patterns);
        for span in spans {
            steps = steps.saturating_add(cost::span_cost(root, caller, span, &patterns));
            if steps > MAX_STEPS {
                let message = "evaluating the policy on these spans takes too long";
                let hint = "send fewer spans, shorter lists or shorter strings, nest fewer macros, \
                            or use smaller patterns";
                return Err(vec![
                    Diagnostic::new(expression, root.span, "too_large", message).with_hint(hint),
                ]);
            }
        }
        let prepared = PreparedPolicy::new(caller, &patterns);
        let mut positions = HashMap::new();
        let mut verdicts = Vec::with_capacity(spans.len());
        for span in spans {
            let evaluator = Evaluator::new(&prepared, span);
            let mut walk = Explainer { expression, evaluator, stopped, found: Vec::new() };
            let truth = walk.truth(root);
            walk.condition(root, truth);
            if stopped.load(Ordering::Relaxed) {
                let message = "the evaluation was stopped";
                return Err(vec![Diagnostic::new(expression, root.span, "unavailable", message)]);
            }
            let mut found = walk.found;
            found.sort_by_key(|(span, ..)| (span.start, span.end));
            found.dedup();
            let decided_by = found.into_iter().map(|(span, truth, read)| {
                let position = positions.entry((span.start, span.end));
                let position = *position.or_insert_with(|| span.position(expression));
                Decision::new(position, truth.as_ref().ok().copied().into(), truth.err(), read)
            });
            verdicts.push(Verdict { outcome: truth.into(), decided_by: decided_by.collect() });
        }
        Ok(verdicts)
    })?
}

struct Explainer<'a> {
    expression: &'a str,
    evaluator: Evaluator<'a>,
    stopped: &'a AtomicBool,
    /// Decisive parts: whether each is true, or why it is an error, and the values that it read.
    found: Vec<(SourceSpan, Result<bool, String>, Vec<ReadValue>)>,
}

impl<'a> Explainer<'a> {
    /// Evaluates a condition. After `stopped` is set, every condition is an error, so that little work remains.
    fn truth(&mut self, node: &'a Node) -> Option<bool> {
        if self.stopped.load(Ordering::Relaxed) { None } else { self.evaluator.truth(node) }
    }

    /// Explains why a condition is true, false or an error.
    fn condition(&mut self, node: &'a Node, truth: Option<bool>) {
        let before = self.found.len();
        match &node.kind {
            // If `&&` is true, both sides are true; if `||` is false, both sides are false. Then both sides determine
            // the outcome.
            Kind::And(..) | Kind::Or(..) => {
                for side in node.chain() {
                    let side_truth = self.truth(side);
                    if side_truth == truth {
                        self.condition(side, side_truth);
                    }
                }
            }
            Kind::Not(inner) => {
                let inner_truth = self.truth(inner);
                self.condition(inner, inner_truth);
            }
            Kind::Conditional(condition, yes, no) => {
                let chosen = self.truth(condition);
                self.condition(condition, chosen);
                match chosen {
                    Some(true) => self.condition(yes, truth),
                    Some(false) => self.condition(no, truth),
                    None => {}
                }
            }
            Kind::Macro { quantifier, range, variable, body } => {
                self.quantified(node, *quantifier, (range, *variable, body), truth);
            }
            _ => {}
        }
        if self.found.len() > before {
            return;
        }
        match truth {
            None => self.error(node, true),
            Some(truth) => self.add(node, Ok(truth)),
        }
    }

    fn add(&mut self, node: &Node, truth: Result<bool, String>) {
        let read = self.read(node);
        self.found.push((node.span, truth, read));
    }

    /// Explains a macro by its elements: by the first decisive one, if one is enough.
    fn quantified(
        &mut self,
        node: &'a Node,
        quantifier: Quantifier,
        (range, variable, body): (&'a Node, u32, &'a Node),
        truth: Option<bool>,
    ) {
        let elements = match self.evaluator.value(range) {
            Some(Value::List(elements)) => elements,
            Some(other) => {
                let reason = format!("macros iterate over a list, this is {}", reasons::type_name(&other));
                return self.add(node, Err(reason));
            }
            None => return self.error(range, false),
        };
        // One true element determines `exists`, one false element determines `all`. If there is none, an error
        // determines either.
        let wanted = match (quantifier, truth) {
            (Quantifier::Exists | Quantifier::ExistsOne, Some(true)) => Some(true),
            (Quantifier::All, Some(false)) => Some(false),
            (_, None) => None,
            // All elements together determine the outcome, or the list is empty.
            (_, Some(truth)) => return self.add(node, Ok(truth)),
        };
        for element in elements.iter() {
            self.evaluator.variables.push((variable, element.clone()));
            let body_truth = self.truth(body);
            let is_decisive = body_truth == wanted;
            if is_decisive {
                self.condition(body, body_truth);
            }
            self.evaluator.variables.pop();
            if is_decisive {
                return;
            }
        }
    }

    /// Finds the innermost parts that are errors. If `condition` is set, a value that is not a boolean also counts as
    /// an error.
    fn error(&mut self, node: &'a Node, condition: bool) {
        let before = self.found.len();
        if let Kind::Conditional(chooser, yes, no) = &node.kind {
            let chosen = self.truth(chooser);
            return match chosen {
                Some(true) => self.part_error(yes, condition),
                Some(false) => self.part_error(no, condition),
                None => self.condition(chooser, chosen),
            };
        }
        // Only errors of operands make a node an error; `condition` explains the parts of a condition.
        let operands = if is_condition(node) { Vec::new() } else { node.children() };
        let mut values = Vec::with_capacity(operands.len());
        for operand in operands {
            match self.evaluator.value(operand) {
                Some(value) if needs_utf8(node) && value.is_invalid_utf8() => {
                    self.add(operand, Err("the string is not UTF-8".to_owned()));
                }
                Some(value) => values.push(value),
                None => self.part_error(operand, false),
            }
        }
        if self.found.len() > before {
            return;
        }
        let reason = match self.evaluator.value(node) {
            Some(value) if condition => {
                format!("a condition must be a boolean, this is {}", reasons::type_name(&value))
            }
            Some(_) => return,
            None => reasons::error_reason(node, &values, self.evaluator.span),
        };
        self.add(node, Err(reason));
    }

    /// Explains an error of an operand or a branch.
    fn part_error(&mut self, node: &'a Node, condition: bool) {
        if is_condition(node) { self.condition(node, None) } else { self.error(node, condition) }
    }

    /// Returns the values that a part reads, in text order.
    fn read(&self, node: &Node) -> Vec<ReadValue> {
        let mut nodes = node.walk();
        nodes.sort_by_key(|node| node.span.start);
        let mut read: Vec<ReadValue> = Vec::new();
        for node in nodes {
            let read_value = match &node.kind {
                Kind::Variable(variable) => self.evaluator.variable(*variable).map(|value| ReadValue {
                    name: node.span.of(self.expression).to_owned(),
                    value: reasons::format_value(value),
                }),
                _ => reasons::read_value(node, self.evaluator.policy, self.evaluator.span),
            };
            read.extend(read_value.filter(|read_value| !read.contains(read_value)));
        }
        read
    }
}

/// Whether the parts of this node are conditions.
fn is_condition(node: &Node) -> bool {
    matches!(&node.kind, Kind::And(..) | Kind::Or(..) | Kind::Not(_) | Kind::Macro { .. })
}

/// Whether a string that is not UTF-8 is an error as an operand of this node.
fn needs_utf8(node: &Node) -> bool {
    match &node.kind {
        Kind::Compare(relation, ..) => !matches!(relation, Relation::Eq | Relation::Ne),
        Kind::Matches(..) | Kind::Size(_) => true,
        _ => false,
    }
}

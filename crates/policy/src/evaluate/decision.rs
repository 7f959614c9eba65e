//! Explains which parts of a policy determined its result on a span, and why a part is an error.
//!
//! The checked tree and the library's tree have the same shape, so both are traversed in parallel: the first knows
//! positions and fields, and the library evaluates parts of the second, as it does for the whole. This module makes no
//! decisions of its own. Where the shapes differ, the explanation is for the node as a whole.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use cel::common::ast::{Expr, operators};
use cel::{Context, IdedExpr, Value};
use tracewarden_model::{AccessModel, Caller};

use crate::diagnostics::{Diagnostic, Span as SourceSpan};
use crate::evaluate::cost::{self, MAX_STEPS};
use crate::evaluate::reasons;
use crate::evaluate::verdict::{Decision, ReadValue, Verdict};
use crate::evaluate::{BYTES, Outcome, PreparedPolicy, Span, SpanValues, UTF8_ONLY, outcome, reason};
use crate::expression::{Kind, Node};
use crate::parse::on_deep_stack;
use crate::predicate::Quantifier;

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
        let prepared = PreparedPolicy::new(expression, model, caller, |checked, patterns| {
            let mut steps = cost::compile_cost(patterns);
            for span in spans {
                steps = steps.saturating_add(cost::span_cost(&checked.root, caller, span, patterns));
                if steps > MAX_STEPS {
                    let message = "evaluating the policy on these spans takes too long";
                    let hint = "send fewer spans, shorter lists or shorter strings, nest fewer macros, \
                                or use smaller patterns";
                    let error = Diagnostic::new(expression, checked.root.span, "too_large", message);
                    return Err(vec![error.with_hint(hint)]);
                }
            }
            Ok(())
        })?;
        let root = &prepared.checked.root;
        let mut positions = HashMap::new();
        let mut verdicts = Vec::with_capacity(spans.len());
        for span in spans {
            let (outcome, mut found) = prepared.with_span(span, |tree, context, values| {
                let mut walk =
                    Explainer { span, caller, values, stopped, variables: Vec::new(), found: Vec::new() };
                let outcome = walk.outcome(tree, context);
                walk.condition(root, tree, context, outcome.clone());
                (outcome, walk.found)
            });
            if stopped.load(Ordering::Relaxed) {
                let message = "the evaluation was stopped";
                return Err(vec![Diagnostic::new(expression, root.span, "unavailable", message)]);
            }
            found.sort_by_key(|(span, ..)| (span.start, span.end));
            found.dedup();
            let decided_by = found.into_iter().map(|(span, outcome, read)| {
                let position = positions.entry((span.start, span.end));
                let (line, column, length) = *position.or_insert_with(|| span.position(expression));
                Decision { line, column, length, outcome, read }
            });
            verdicts.push(Verdict { outcome, decided_by: decided_by.collect() });
        }
        Ok(verdicts)
    })?
}

/// The variable of a macro and its current element.
struct BoundVariable {
    variable: u32,
    name: String,
    value: Value,
}

struct Explainer<'a> {
    span: &'a Span,
    caller: &'a Caller,
    values: &'a SpanValues,
    stopped: &'a AtomicBool,
    /// Innermost last.
    variables: Vec<BoundVariable>,
    /// Decisive parts, each with its outcome and the values that it read.
    found: Vec<(SourceSpan, Outcome, Vec<ReadValue>)>,
}

/// Whether a condition is true or false; `None` for an error.
fn as_bool(outcome: &Outcome) -> Option<bool> {
    match outcome {
        Outcome::True => Some(true),
        Outcome::False => Some(false),
        Outcome::Error(_) => None,
    }
}

impl Explainer<'_> {
    /// Evaluates a part. After `stopped` is set, every part is an error, so that little work remains.
    fn outcome(&self, tree: &IdedExpr, context: &Context<'_, '_>) -> Outcome {
        if self.stopped.load(Ordering::Relaxed) {
            return Outcome::Error("stopped".to_owned());
        }
        outcome(tree, context)
    }

    /// Explains the outcome `known_outcome` of a condition.
    fn condition(&mut self, node: &Node, tree: &IdedExpr, context: &Context<'_, '_>, known_outcome: Outcome) {
        let before = self.found.len();
        match &node.kind {
            // If `&&` is true, both sides are true; if `||` is false, both sides are false. Then both sides determine
            // the outcome.
            Kind::And(..) | Kind::Or(..) => {
                for (side, side_tree) in sides(node, tree) {
                    let outcome = self.outcome(side_tree, context);
                    if as_bool(&outcome) == as_bool(&known_outcome) {
                        self.condition(side, side_tree, context, outcome);
                    }
                }
            }
            Kind::Not(inner) => {
                if let [inner_tree] = arguments(tree) {
                    let outcome = self.outcome(inner_tree, context);
                    self.condition(inner, inner_tree, context, outcome);
                }
            }
            Kind::Conditional(condition, yes, no) => {
                if let [condition_tree, yes_tree, no_tree] = arguments(tree) {
                    let chosen = self.outcome(condition_tree, context);
                    let branch = as_bool(&chosen);
                    self.condition(condition, condition_tree, context, chosen);
                    match branch {
                        Some(true) => self.condition(yes, yes_tree, context, known_outcome.clone()),
                        Some(false) => self.condition(no, no_tree, context, known_outcome.clone()),
                        None => {}
                    }
                }
            }
            Kind::Macro { quantifier, range, variable, body } => {
                self.quantified(node, *quantifier, (range, *variable, body), tree, context, &known_outcome);
            }
            _ => {}
        }
        if self.found.len() > before {
            return;
        }
        match known_outcome {
            Outcome::Error(_) => self.error(node, tree, context, true),
            known_outcome => self.add(node, known_outcome),
        }
    }

    fn add(&mut self, node: &Node, outcome: Outcome) {
        let read = self.read(node);
        self.found.push((node.span, outcome, read));
    }

    /// Explains a macro by its elements: by the first decisive one, if one is enough.
    fn quantified(
        &mut self,
        node: &Node,
        quantifier: Quantifier,
        (range, variable, body): (&Node, u32, &Node),
        tree: &IdedExpr,
        context: &Context<'_, '_>,
        known_outcome: &Outcome,
    ) {
        let Expr::Comprehension(macro_tree) = &tree.expr else { return };
        let elements = match context.resolve(&macro_tree.iter_range) {
            Ok(Value::List(elements)) => elements,
            Ok(other) => {
                let reason = format!("macros iterate over a list, this is {}", reasons::type_name(&other));
                return self.add(node, Outcome::Error(reason));
            }
            Err(_) => return self.error(range, &macro_tree.iter_range, context, false),
        };
        let body_tree = match (quantifier, arguments(&macro_tree.loop_step)) {
            (Quantifier::Exists | Quantifier::All, [_, body]) | (Quantifier::ExistsOne, [body, ..]) => body,
            _ => return,
        };
        // One true element determines `exists`, one false element determines `all`. If there is none, an error
        // determines either.
        let wanted = match (quantifier, as_bool(known_outcome)) {
            (Quantifier::Exists, Some(true)) | (Quantifier::ExistsOne, Some(true)) => Some(true),
            (Quantifier::All, Some(false)) => Some(false),
            (_, None) => None,
            // All elements together determine the outcome, or the list is empty.
            _ => return self.add(node, known_outcome.clone()),
        };
        for element in elements.iter() {
            let mut inner = context.new_inner_scope();
            inner.add_variable_from_value(macro_tree.iter_var.as_str(), element.clone());
            let outcome = self.outcome(body_tree, &inner);
            if as_bool(&outcome) == wanted {
                let name = macro_tree.iter_var.clone();
                self.variables.push(BoundVariable { variable, name, value: element.clone() });
                self.condition(body, body_tree, &inner, outcome);
                self.variables.pop();
                return;
            }
        }
    }

    /// Finds the innermost parts that are errors. If `condition` is set, a value that is not a boolean also counts as
    /// an error.
    fn error(&mut self, node: &Node, tree: &IdedExpr, context: &Context<'_, '_>, condition: bool) {
        let before = self.found.len();
        if let (Kind::Conditional(chooser, yes, no), [chooser_tree, yes_tree, no_tree]) =
            (&node.kind, arguments(tree))
        {
            let chosen = self.outcome(chooser_tree, context);
            return match as_bool(&chosen) {
                Some(true) => self.error(yes, yes_tree, context, condition),
                Some(false) => self.error(no, no_tree, context, condition),
                None => self.condition(chooser, chooser_tree, context, chosen),
            };
        }
        let operands = operands(node, tree);
        let mut values = Vec::with_capacity(operands.len());
        for (operand, operand_tree) in &operands {
            let without_wrapper = without_wrapper(operand_tree);
            match (context.resolve(without_wrapper), context.resolve(operand_tree)) {
                (Ok(_), Ok(value)) => values.push(value),
                (Ok(_), Err(_)) => {
                    let reason = "the string is not UTF-8".to_owned();
                    self.add(operand, Outcome::Error(reason));
                }
                (Err(error), _) if is_condition(operand) => {
                    self.condition(operand, without_wrapper, context, Outcome::Error(reason(&error)));
                }
                (Err(_), _) => self.error(operand, without_wrapper, context, false),
            }
        }
        if self.found.len() > before {
            return;
        }
        let reason = match context.resolve(tree) {
            Ok(value) if condition => {
                format!("a condition must be a boolean, this is {}", reasons::type_name(&value))
            }
            Ok(_) => return,
            Err(error) => {
                let found = reasons::error_reason(node, &values, self.caller, self.span);
                found.unwrap_or_else(|| reason(&error))
            }
        };
        self.add(node, Outcome::Error(reason));
    }

    /// Returns the values that a part reads, in text order.
    fn read(&self, node: &Node) -> Vec<ReadValue> {
        let mut nodes = node.walk();
        nodes.sort_by_key(|node| node.span.start);
        let mut read: Vec<ReadValue> = Vec::new();
        for node in nodes {
            let read_value = match &node.kind {
                Kind::Variable(number) => {
                    let bound = self.variables.iter().rev().find(|bound| bound.variable == *number);
                    bound.map(|bound| ReadValue {
                        name: bound.name.clone(),
                        value: reasons::format_value(&bound.value, self.values.invalid_code_points()),
                    })
                }
                _ => reasons::read_value(node, self.caller, self.span),
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

/// Returns the sides of a chain of `&&` or of `||`, in order; empty if the shapes differ.
fn sides<'a>(node: &'a Node, tree: &'a IdedExpr) -> Vec<(&'a Node, &'a IdedExpr)> {
    let (Kind::And(left, right) | Kind::Or(left, right), [left_tree, right_tree]) =
        (&node.kind, arguments(tree))
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (side, side_tree) in [(left, left_tree), (right, right_tree)] {
        let nested = if node.is_chained(side) { sides(side, side_tree) } else { Vec::new() };
        if nested.is_empty() { found.push((&**side, side_tree)) } else { found.extend(nested) }
    }
    found
}

/// Returns the arguments of a call, in order.
fn arguments(tree: &IdedExpr) -> &[IdedExpr] {
    match &tree.expr {
        Expr::Call(call) => &call.args,
        _ => &[],
    }
}

/// Removes the wrapper function from an operand. Wrappers are added where a string is not UTF-8.
fn without_wrapper(tree: &IdedExpr) -> &IdedExpr {
    match &tree.expr {
        Expr::Call(call) if [UTF8_ONLY, BYTES].contains(&call.func_name.as_str()) => {
            call.args.first().unwrap_or(tree)
        }
        _ => tree,
    }
}

/// Returns the operands whose errors make the node an error; empty if the shapes differ.
fn operands<'a>(node: &'a Node, tree: &'a IdedExpr) -> Vec<(&'a Node, &'a IdedExpr)> {
    let trees: Vec<&IdedExpr> = match &tree.expr {
        Expr::Call(call) if call.func_name == operators::CONDITIONAL => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::List(list) => list.elements.iter().collect(),
        _ => Vec::new(),
    };
    let nodes: Vec<&Node> = match &node.kind {
        Kind::Compare(_, left, right) | Kind::In(left, right) | Kind::TextCall(_, left, right) => {
            vec![left, right]
        }
        // The pattern is a literal.
        Kind::Matches(subject, _) | Kind::Size(subject) => vec![subject],
        Kind::List(elements) => elements.iter().collect(),
        _ => Vec::new(),
    };
    if nodes.len() > trees.len() { Vec::new() } else { nodes.into_iter().zip(trees).collect() }
}

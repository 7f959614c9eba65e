//! The reference evaluator: evaluates policies with the CEL library, one span at a time. The lowering is tested
//! against it.
//!
//! The library does not support NULL columns, map values with a declared type, or strings that are not UTF-8. The
//! values passed to it follow the policy language's rules for them: a value that is an error becomes an undeclared
//! name.

mod cost;
mod decision;
mod decision_text;
mod field_value;
mod patterns;
mod reasons;
mod references;
mod span_values;
mod verdict;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{CallExpr, Expr, LiteralValue, operators};
use cel::{Context, Env, ExecutionError, IdedExpr, Value};
use tracewarden_model::{AccessModel, AttributeValue, Caller};

use crate::check::{CheckedPolicy, check_on_current_stack};
use crate::diagnostics::Diagnostic;
use crate::parse::{on_deep_stack, parse_expanded};
use crate::pattern::Pattern;

pub use field_value::{FieldValue, Span};
use patterns::{CompiledPatterns, Patterns};
use span_values::SpanValues;
#[cfg(test)]
pub(crate) use span_values::string_array;

pub use decision::explain;
pub use verdict::{Decision, ReadValue, Verdict};

/// Environment of every context, the same for all spans.
static STANDARD_ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// Result of an expression on one span. Only `True` satisfies a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The expression is true.
    True,
    /// The expression is false.
    False,
    /// Evaluation failed, with the reason.
    Error(String),
}

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
        let prepared = PreparedPolicy::new(expression, model, caller, |_, _| Ok(()))?;
        let outcome = |span| prepared.with_span(span, |root, context, _| outcome(root, context));
        Ok(spans.iter().map(outcome).collect())
    })?
}

/// A policy as the library represents it, with the data that is the same for all spans.
struct PreparedPolicy<'a> {
    expression: &'a str,
    caller: &'a Caller,
    checked: CheckedPolicy,
    root: IdedExpr,
    user: HashMap<String, Value>,
    patterns: CompiledPatterns,
}

impl<'a> PreparedPolicy<'a> {
    /// `check_cost` may reject the policy for its cost, before any pattern is compiled.
    fn new(
        expression: &'a str,
        model: &AccessModel,
        caller: &'a Caller,
        check_cost: impl FnOnce(&CheckedPolicy, &Patterns) -> Result<(), Vec<Diagnostic>>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let checked = check_on_current_stack(expression, model)?;
        let root = parse_expanded(expression)?;
        let patterns = Patterns::of(&checked.root);
        check_cost(&checked, &patterns)?;
        Ok(Self { expression, caller, checked, root, user: user_value(caller), patterns: patterns.compile() })
    }

    /// Calls `work` with the policy and the variables of one span.
    fn with_span<T>(
        &self,
        span: &Span,
        work: impl FnOnce(&IdedExpr, &Context<'_, '_>, &SpanValues) -> T,
    ) -> T {
        let fields: Vec<_> = self.checked.root.fields().into_iter().map(AsRef::as_ref).collect();
        let values = SpanValues::new(self.expression, self.caller, &fields, span);
        let mut root = self.root.clone();
        rewrite(&mut root, &values, &self.patterns);
        let mut context = Context::with_env(Arc::clone(&STANDARD_ENV));
        context.add_variable_from_value("user", self.user.clone());
        for (name, value) in &values.variables {
            context.add_variable_from_value(name.clone(), value.clone());
        }
        let invalid = values.invalid_code_points();
        // If registration fails, calls of the function are errors, and an error grants no access.
        let block = invalid.clone();
        let _ = context.add_function(UTF8_ONLY, move |value: Value| utf8_only(value, invalid.clone()));
        let patterns = self.patterns.clone();
        let matches = move |subject: Value, number: i64| patterns.matches(&subject, number);
        let _ = context.add_function(MATCHES, matches);
        let _ = context.add_function(BYTES, move |value: Value| bytewise(value, block.clone()));
        work(&root, &context, &values)
    }
}

fn outcome(expression: &IdedExpr, context: &Context<'_, '_>) -> Outcome {
    match context.resolve(expression) {
        Ok(Value::Bool(true)) => Outcome::True,
        Ok(Value::Bool(false)) => Outcome::False,
        Ok(_) => Outcome::Error("the result is not a boolean".to_owned()),
        Err(error) => Outcome::Error(reason(&error)),
    }
}

/// Passes a value through, unless it is a string that is not UTF-8.
const UTF8_ONLY: &str = "@utf8";

/// Whether part of a string matches the pattern with this number.
const MATCHES: &str = "@matches";

/// Passes a value through; converts a string to one with a character for each of its bytes.
const BYTES: &str = "@bytes";

fn utf8_only(value: Value, invalid: Option<std::ops::Range<u32>>) -> Result<Value, ExecutionError> {
    if let (Value::String(text), Some(block)) = (&value, invalid)
        && text.chars().any(|character| block.contains(&u32::from(character)))
    {
        return Err(ExecutionError::function_error("utf8", "the string is not UTF-8"));
    }
    Ok(value)
}

/// Prefix, suffix and substring tests compare bytes as soon as one string is not UTF-8: `\x80` is then a suffix of
/// `\u{10FF80}`, as it is in ClickHouse.
fn bytewise(value: Value, invalid: Option<std::ops::Range<u32>>) -> Value {
    match &value {
        Value::String(text) => {
            let bytes = span_values::bytes(text, invalid.as_ref());
            Value::from(bytes.into_iter().map(char::from).collect::<String>())
        }
        _ => value,
    }
}

fn reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::UndeclaredReference(_) => "a field is absent, NULL or not of its type".to_owned(),
        other => other.to_string(),
    }
}

fn user_value(caller: &Caller) -> HashMap<String, Value> {
    let list = |values: &mut dyn Iterator<Item = &String>| -> Value {
        values.map(|text| Value::from(text.as_str())).collect::<Vec<Value>>().into()
    };
    let attributes: HashMap<String, Value> = caller
        .attributes
        .iter()
        .map(|(name, value)| {
            let value = match value {
                AttributeValue::String(text) => Value::from(text.as_str()),
                AttributeValue::Bool(value) => Value::Bool(*value),
                AttributeValue::Strings(values) => list(&mut values.iter()),
            };
            (name.clone(), value)
        })
        .collect();
    HashMap::from([
        ("username".to_owned(), Value::from(caller.username.as_str())),
        ("roles".to_owned(), list(&mut caller.roles.iter())),
        ("attributes".to_owned(), attributes.into()),
    ])
}

/// Replaces expressions that the library does not support: values that are errors, RE2 patterns, and ordering of
/// strings that are not UTF-8.
fn rewrite(node: &mut IdedExpr, values: &SpanValues, patterns: &CompiledPatterns) {
    if references::rewrite(node, values) {
        return;
    }
    match &mut node.expr {
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| rewrite(target, values, patterns));
            call.args.iter_mut().for_each(|argument| rewrite(argument, values, patterns));
            rewrite_call(call, values, patterns);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(|element| rewrite(element, values, patterns)),
        Expr::Select(select) => rewrite(&mut select.operand, values, patterns),
        Expr::Comprehension(comprehension) => {
            rewrite(&mut comprehension.iter_range, values, patterns);
            rewrite(&mut comprehension.loop_cond, values, patterns);
            rewrite(&mut comprehension.loop_step, values, patterns);
            rewrite(&mut comprehension.result, values, patterns);
        }
        _ => {}
    }
}

fn rewrite_call(call: &mut CallExpr, values: &SpanValues, patterns: &CompiledPatterns) {
    let name = call.func_name.clone();
    let name = name.as_str();
    if name == "matches"
        && let Some(IdedExpr { expr: Expr::Literal(literal), .. }) = call.args.last_mut()
        && let LiteralValue::String(text) = &*literal
        && let Ok(pattern) = Pattern::parse(text.inner())
    {
        // The pattern's number replaces the pattern. A pattern without a number is an error.
        let number = patterns.number(&pattern.reference).unwrap_or(-1);
        *literal = LiteralValue::Int(number.into());
        call.func_name = MATCHES.to_owned();
        call.args.splice(0..0, call.target.take().map(|target| *target));
    }
    let needs_utf8 = matches!(
        name,
        "matches"
            | "size"
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
    );
    let by_bytes = matches!(name, "startsWith" | "endsWith" | "contains");
    if (needs_utf8 || by_bytes) && values.invalid_code_points().is_some() {
        let wrapper = if needs_utf8 { UTF8_ONLY } else { BYTES };
        let operands = call.target.iter_mut().map(|target| &mut **target).chain(call.args.iter_mut());
        for operand in operands {
            let inner = std::mem::take(operand);
            operand.id = inner.id;
            operand.expr =
                Expr::Call(CallExpr { func_name: wrapper.to_owned(), target: None, args: vec![inner] });
        }
    }
}

//! Compares the reference evaluator with the interpreter of the CEL library, on random policies and spans.
//!
//! The library does not support NULL columns, map values with a declared type, strings that are not UTF-8, or RE2
//! patterns. The syntax tree and the values passed to it follow the policy language's rules for them: a value that is an
//! error becomes an undeclared name.

mod references;
mod span_values;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{CallExpr, Expr, LiteralValue, operators};
use cel::{Context, Env, ExecutionError, IdedExpr, Value};
use tracewarden_model::{AttributeValue, Caller, MarkedField};
use tracewarden_policy::{Outcome, Pattern, Span, check, evaluate};
use tracewarden_testkit::policies::Generator;
use tracewarden_testkit::repetitions::{self, Repetitions};

use span_values::{SpanValues, bytes};

/// Number of policies, each with a caller of its own, and of the spans that each is evaluated on.
const POLICIES: Repetitions = Repetitions { test: 500, verify: 5_000 };
const SPANS: usize = 20;
/// Number of policies after which the spans are replaced.
const POLICIES_PER_SPANS: usize = 100;

/// Enough for the parser's recursion in a debug build.
const STACK_BYTES: usize = 256 * 1024 * 1024;

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

#[test]
fn the_cel_crate_agrees() {
    let compare = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(compare).unwrap();
    compare.join().unwrap();
}

fn compare() {
    let seed = repetitions::seed(20_261_129);
    let policies = POLICIES.get("TRACEWARDEN_TEST_CEL_CRATE_POLICIES");
    println!("{policies} policies, seed {seed}");
    let (model, mut generator) = (Generator::model(), Generator::new(seed));
    let mut spans: Vec<Span> = Vec::new();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut evaluated = 0;
    while evaluated < policies {
        if evaluated % POLICIES_PER_SPANS == 0 {
            spans = (0..SPANS).map(|_| generator.span()).collect();
            generator.learn_values(&spans);
        }
        let (text, caller) = (generator.policy().text, generator.caller());
        let Ok(checked) = check(&text, &model) else { continue };
        evaluated += 1;
        let names = checked.fields();
        let fields: Vec<&MarkedField> =
            model.fields.iter().filter(|field| names.contains(&field.field.to_string())).collect();
        let outcomes = evaluate(&text, &model, &caller, &spans).unwrap();
        let root = ENV.parser().parse(&text).unwrap();
        for (span, outcome) in spans.iter().zip(outcomes) {
            let expected = by_cel_crate(&text, &root, &fields, &caller, span);
            assert_eq!(outcome, expected, "{text}\n{caller:?}\n{span:?}");
            *counts.entry(<&str>::from(outcome)).or_default() += 1;
        }
    }
    println!("{counts:?}");
    let pairs = policies * SPANS;
    for (outcome, least) in [("true", pairs / 4), ("false", pairs / 5), ("error", pairs / 8)] {
        assert!(
            counts.get(outcome).is_some_and(|count| *count >= least),
            "too few are {outcome}: {counts:?}"
        );
    }
}

/// Evaluates a policy, which names these fields, on a span.
fn by_cel_crate(
    text: &str,
    root: &IdedExpr,
    fields: &[&MarkedField],
    caller: &Caller,
    span: &Span,
) -> Outcome {
    let values = SpanValues::new(text, caller, fields, span);
    let mut root = root.clone();
    rewrite(&mut root, &values);
    let mut context = Context::with_env(Arc::clone(&ENV));
    context.add_variable_from_value("user", user_value(caller));
    for (name, value) in &values.variables {
        context.add_variable_from_value(name.clone(), value.clone());
    }
    let invalid = values.invalid_code_points();
    let block = invalid.clone();
    context.add_function(UTF8_ONLY, move |value: Value| utf8_only(value, invalid.clone())).unwrap();
    context.add_function(BYTES, move |value: Value| bytewise(value, block.clone())).unwrap();
    match context.resolve(&root) {
        Ok(Value::Bool(true)) => Outcome::True,
        Ok(Value::Bool(false)) => Outcome::False,
        _ => Outcome::Error,
    }
}

/// Passes a value through, unless it is a string that is not UTF-8.
const UTF8_ONLY: &str = "@utf8";

/// Passes a value through; converts a string to one with a character for each of its bytes.
const BYTES: &str = "@bytes";

fn utf8_only(value: Value, invalid: Option<Range<u32>>) -> Result<Value, ExecutionError> {
    if let (Value::String(text), Some(block)) = (&value, invalid)
        && text.chars().any(|character| block.contains(&u32::from(character)))
    {
        return Err(ExecutionError::function_error("utf8", "the string is not UTF-8"));
    }
    Ok(value)
}

/// Prefix, suffix and substring tests compare bytes as soon as one string is not UTF-8.
fn bytewise(value: Value, invalid: Option<Range<u32>>) -> Value {
    match &value {
        Value::String(text) => {
            let bytes = bytes(text, invalid.as_ref());
            Value::from(bytes.into_iter().map(char::from).collect::<String>())
        }
        _ => value,
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
fn rewrite(node: &mut IdedExpr, values: &SpanValues) {
    if references::rewrite(node, values) {
        return;
    }
    match &mut node.expr {
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| rewrite(target, values));
            call.args.iter_mut().for_each(|argument| rewrite(argument, values));
            rewrite_call(call, values);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(|element| rewrite(element, values)),
        Expr::Select(select) => rewrite(&mut select.operand, values),
        Expr::Comprehension(comprehension) => {
            rewrite(&mut comprehension.iter_range, values);
            rewrite(&mut comprehension.loop_cond, values);
            rewrite(&mut comprehension.loop_step, values);
            rewrite(&mut comprehension.result, values);
        }
        _ => {}
    }
}

fn rewrite_call(call: &mut CallExpr, values: &SpanValues) {
    let name = call.func_name.clone();
    let name = name.as_str();
    if name == "matches"
        && let Some(IdedExpr { expr: Expr::Literal(LiteralValue::String(text)), .. }) = call.args.last_mut()
    {
        *text = Pattern::parse(text.inner()).unwrap().reference.into();
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
        // The pattern may contain any character.
        for operand in operands.take(if name == "matches" { 1 } else { 2 }) {
            let inner = std::mem::take(operand);
            operand.id = inner.id;
            operand.expr =
                Expr::Call(CallExpr { func_name: wrapper.to_owned(), target: None, args: vec![inner] });
        }
    }
}

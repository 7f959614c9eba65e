//! Rewrites references to fields in the library's tree to the one form in which the library can look them up.
//!
//! Policies write a key as `M["k"]` or `M.k`, a path as `J["a.b"]` or `J.a.b`, and a nested column as `Events.Name`,
//! which the library would treat as chains of members. The library itself still handles absent values: keys and paths
//! are looked up in a map, and columns that are NULL are undeclared names.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, Expr, LiteralValue, operators};

use super::span_values::SpanValues;

/// A name that policies cannot write and contexts do not declare.
const UNDEFINED: &str = "@undefined";

/// Rewrites a node that names a field or tests for a key, and returns `true`. Leaves any other node unchanged.
pub(super) fn rewrite(node: &mut IdedExpr, values: &SpanValues) -> bool {
    let found = column(node, values).or_else(|| value(node, values)).or_else(|| presence(node, values));
    match found {
        Some(expression) => {
            node.expr = expression;
            true
        }
        None => false,
    }
}

fn column(node: &IdedExpr, values: &SpanValues) -> Option<Expr> {
    let name = path(node)?.join(".");
    let declared = |name: String| {
        // An undeclared name may be one of the library's own: `type` and `string` are values there.
        Expr::Ident(if values.variables.contains_key(&name) { name } else { UNDEFINED.to_owned() })
    };
    values.columns.contains(&name).then(|| declared(name))
}

/// `M["k"]`, `M.k`, `J.a.b`.
fn value(node: &IdedExpr, values: &SpanValues) -> Option<Expr> {
    let (map, key) = match &node.expr {
        Expr::Call(call) if call.func_name == operators::INDEX => match call.args.as_slice() {
            [container, key] => (path(container)?.join("."), text_literal(key)?.to_owned()),
            _ => return None,
        },
        _ => member(&path(node)?, values)?,
    };
    if values.is_error_key(&map, &key) {
        return Some(Expr::Ident(UNDEFINED.to_owned()));
    }
    values.is_key(&map, &key).then(|| call(operators::INDEX, Expr::Ident(map), text(key)))
}

/// `"k" in M`, `has(M.k)`, `has(J.a.b)`.
fn presence(node: &IdedExpr, values: &SpanValues) -> Option<Expr> {
    let (map, key) = match &node.expr {
        Expr::Call(call) if call.func_name == operators::IN => match call.args.as_slice() {
            [key, container] => (path(container)?.join("."), text_literal(key)?.to_owned()),
            _ => return None,
        },
        Expr::Select(select) if select.test => {
            let mut names = path(&select.operand)?;
            names.push(&select.field);
            member(&names, values)?
        }
        _ => return None,
    };
    values.is_key(&map, &key).then(|| call(operators::IN, text(key), Expr::Ident(map)))
}

/// Finds a map and one of its keys in names that are joined by dots.
fn member(names: &[&str], values: &SpanValues) -> Option<(String, String)> {
    (1..names.len()).find_map(|at| {
        let (map, key) = names.split_at_checked(at)?;
        let (map, key) = (map.join("."), key.join("."));
        values.is_key(&map, &key).then_some((map, key))
    })
}

fn text(text: String) -> Expr {
    Expr::Literal(LiteralValue::String(text.into()))
}

fn call(function: &str, left: Expr, right: Expr) -> Expr {
    let argument = |expr| IdedExpr { id: 0, expr };
    Expr::Call(CallExpr {
        func_name: function.to_owned(),
        target: None,
        args: vec![argument(left), argument(right)],
    })
}

/// Returns the text of a string literal.
fn text_literal(node: &IdedExpr) -> Option<&str> {
    match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// Returns the names of a chain of selections such as `a.b.c`, outermost first.
fn path(node: &IdedExpr) -> Option<Vec<&str>> {
    match &node.expr {
        Expr::Ident(name) => Some(vec![name]),
        Expr::Select(select) if !select.test => {
            let mut names = path(&select.operand)?;
            names.push(&select.field);
            Some(names)
        }
        _ => None,
    }
}

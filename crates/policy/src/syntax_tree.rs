//! Names and literals in the syntax tree.

use cel::IdedExpr;
use cel::common::ast::{Expr, LiteralValue, operators};

pub(crate) fn text_literal(node: &IdedExpr) -> Option<&str> {
    match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// Returns `container` and `key` of `container[key]`.
pub(crate) fn index(node: &IdedExpr) -> Option<(&IdedExpr, &IdedExpr)> {
    let Expr::Call(call) = &node.expr else { return None };
    let [container, key] = call.args.as_slice() else { return None };
    (call.func_name == operators::INDEX).then_some((container, key))
}

/// Returns the names of a chain of selections such as `a.b.c`, outermost first. The test of `has(a.b.c)` is none.
pub(crate) fn path(node: &IdedExpr) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut node = node;
    loop {
        match &node.expr {
            Expr::Ident(name) => {
                names.push(name.as_str());
                names.reverse();
                return Some(names);
            }
            Expr::Select(select) if !select.test => {
                names.push(select.field.as_str());
                node = &select.operand;
            }
            _ => return None,
        }
    }
}

/// Returns the path of a claim such as `claims.realm["a.b"]`, from below `claims`; it is empty for `claims` itself.
pub(crate) fn claim_path(node: &IdedExpr) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut node = node;
    loop {
        match &node.expr {
            Expr::Ident(root) if root == "claims" => {
                names.reverse();
                return Some(names);
            }
            Expr::Select(select) if !select.test => {
                names.push(select.field.as_str());
                node = &select.operand;
            }
            _ => {
                let (container, key) = index(node)?;
                names.push(text_literal(key)?);
                node = container;
            }
        }
    }
}

pub(crate) fn is_user_attributes(node: &IdedExpr) -> bool {
    path(node).as_deref() == Some(&["user", "attributes"])
}

/// Whether this is the name of a null value in another language.
pub(crate) fn is_null_keyword(name: &str) -> bool {
    ["null", "none", "nil", "undefined"].iter().any(|null| name.eq_ignore_ascii_case(null))
}

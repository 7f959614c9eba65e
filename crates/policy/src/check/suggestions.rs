//! Suggestions in the policy's own words, as text that can be pasted.

mod calls;
mod comparisons;
mod fields;
mod libraries;

use cel::IdedExpr;
use cel::common::ast::Expr;
use tracewarden_model::FieldRef;
use tracewarden_model::field::escape;

use crate::check::scope::Scope;
use crate::expression::{Constant, Kind, Node, Type};
use crate::parse::Parsed;
use crate::syntax_tree::{index, text_literal};

pub(super) use calls::{FUNCTIONS, normalize_function_name};
pub(super) use fields::{MARK_FIELD_HINT, caller_member, indexed_caller_member, member_call};

/// Writes suggestions for one policy. Reads names and text only, and reports nothing.
#[derive(Clone, Copy)]
pub(super) struct Suggester<'a> {
    pub(super) parsed: &'a Parsed<'a>,
    pub(super) scope: &'a Scope<'a>,
}

impl Suggester<'_> {
    /// Suggests how to use a value of another type as a condition.
    pub(super) fn condition(&self, node: &IdedExpr, checked: &Node) -> String {
        let operand = self.parsed.operand(node, "x");
        match (&checked.kind, checked.ty) {
            (Kind::Constant(Constant::Text(_)), _) => {
                format!("add the other operand: `x == {operand}`")
            }
            (_, Type::Text) => format!("compare it: `{operand} == \"…\"`"),
            (_, Type::List) => format!("look for an element: `\"…\" in {operand}`"),
            (Kind::Constant(Constant::Int(0 | 1)), _) => "write `true` or `false`".to_owned(),
            (_, Type::Int) => format!("compare it: `{operand} > 0`"),
            _ => String::new(),
        }
    }

    /// Returns the presence test for the field or attribute that an expression names; `None` if it cannot be absent.
    pub(super) fn presence(&self, node: &IdedExpr) -> Option<String> {
        let (container, name) = match (&node.expr, index(node)) {
            (_, Some((container, key))) => (container, text_literal(key)?),
            (Expr::Select(select), _) => (&*select.operand, select.field.as_str()),
            _ => return None,
        };
        let container = self.parsed.snippet(container)?;
        let is_container = container == "user.attributes" || self.scope.source_of(container).is_some();
        is_container.then(|| format!("\"{}\" in {container}", escape(name)))
    }

    /// Returns a usable key of the map, as an example of the syntax.
    pub(super) fn example_of(&self, map: &str) -> String {
        let keys = self.scope.policy_fields().filter(|field| field.field.map.as_deref() == Some(map));
        let named = keys.map(|field| field.field.to_string()).next();
        named.unwrap_or_else(|| format!("{map}[\"key\"]"))
    }

    /// Suggests how to test for a key, with an existing key as example.
    pub(super) fn key_test(&self) -> String {
        format!("to test whether a key is present, write `{}`", self.example_key_test())
    }

    /// Returns an example of such a test, for messages that refer to no specific map.
    pub(super) fn example_key_test(&self) -> String {
        let key = self.scope.policy_fields().find(|field| field.source.is_map_key());
        let key = key.map_or_else(|| FieldRef::key("SpanAttributes", "key"), |field| field.field.clone());
        format!("\"{}\" in {}", escape(&key.name), key.map.unwrap_or_default())
    }
}

//! Suggestions in the policy's own words, as text that can be pasted.

use cel::IdedExpr;
use cel::common::ast::{Expr, LiteralValue, operators};
use tracewarden_model::field::escape;
use tracewarden_model::{FieldRef, FieldSource, MarkedField};

use crate::check::Checker;
use crate::expression::{Constant, Kind, Node, Type};

/// Maximum length of text that a suggestion repeats.
const MAX_SNIPPET_CHARS: usize = 80;

impl Checker<'_> {
    /// Returns the text of an expression.
    pub(super) fn text_of(&self, node: &IdedExpr) -> &str {
        let span = self.parsed.span(node);
        self.parsed.text.get(span.start..span.end).unwrap_or_default()
    }

    /// Returns the text of an expression if it is short and fits on one line.
    pub(super) fn snippet(&self, node: &IdedExpr) -> Option<&str> {
        let text = self.text_of(node);
        let short = text.chars().take(MAX_SNIPPET_CHARS + 1).count() <= MAX_SNIPPET_CHARS;
        (short && !text.is_empty() && !text.contains(char::is_control)).then_some(text)
    }

    /// Returns the text of an expression, or `otherwise`, in a form to which a dot or an operator can be appended.
    pub(super) fn operand(&self, node: &IdedExpr, otherwise: &str) -> String {
        let Some(text) = self.snippet(node) else { return otherwise.to_owned() };
        let binds_loosely = match &node.expr {
            Expr::Call(call) => {
                call.target.is_none() && call.func_name != operators::INDEX && !text.ends_with(')')
                    || call.func_name == operators::LOGICAL_NOT
            }
            _ => false,
        };
        if binds_loosely { format!("({text})") } else { text.to_owned() }
    }

    /// Describes a value for a message: its text if it is short, and its type.
    pub(super) fn describe_operand(&self, node: &IdedExpr, checked: &Node) -> String {
        match self.snippet(node).filter(|text| text.len() <= 40) {
            Some(text) => format!("`{text}` is {}", checked.ty.name()),
            None => format!("one side is {}", checked.ty.name()),
        }
    }

    /// Suggests how to use a value of another type as a condition.
    pub(super) fn suggest_condition(&self, node: &IdedExpr, checked: &Node) -> String {
        let operand = self.operand(node, "x");
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
        let (container, name) = match &node.expr {
            Expr::Call(call) if call.func_name == operators::INDEX => match call.args.as_slice() {
                [container, IdedExpr { expr: Expr::Literal(LiteralValue::String(key)), .. }] => {
                    (self.snippet(container)?, key.inner().to_owned())
                }
                _ => return None,
            },
            Expr::Select(select) => (self.snippet(&select.operand)?, select.field.clone()),
            _ => return None,
        };
        let is_container = container == "user.attributes"
            || self.model.fields.iter().any(|field| field.field.map.as_deref() == Some(container));
        is_container.then(|| format!("\"{}\" in {container}", escape(&name)))
    }

    /// Returns a usable key of the map, as an example of the syntax.
    pub(super) fn example_of(&self, map: &str) -> String {
        let keys = self.policy_fields().filter(|field| field.field.map.as_deref() == Some(map));
        let named = keys.map(|field| field.field.to_string()).next();
        named.unwrap_or_else(|| format!("{map}[\"key\"]"))
    }

    /// Suggests how to test for a key, with an existing key as example.
    pub(super) fn suggest_key_test(&self) -> String {
        let key = self.example_key();
        let map = key.map.as_deref().unwrap_or("SpanAttributes");
        format!("to test whether a key is present, write `\"{}\" in {map}`", escape(&key.name))
    }

    /// Returns an example key for messages that refer to no specific map.
    pub(super) fn example_key(&self) -> FieldRef {
        let key = self.policy_fields().find(|field| field.source == FieldSource::MapKey);
        key.map_or_else(|| FieldRef::key("SpanAttributes", "key"), |field| field.field.clone())
    }

    /// Returns the fields that policies can use.
    pub(super) fn policy_fields(&self) -> impl Iterator<Item = &MarkedField> {
        self.model.fields.iter().filter(|field| field.policy)
    }
}

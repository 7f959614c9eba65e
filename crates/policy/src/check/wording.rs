//! What to write instead, in the policy's own words: suggestions are text that can be pasted.

use cel::IdedExpr;
use cel::common::ast::{Expr, LiteralValue, operators};
use tracewarden_model::field::escape;
use tracewarden_model::{FieldRef, FieldSource, MarkedField};

use crate::check::Checker;
use crate::expression::{Kind, Known, Node, Type};

/// Longer text is not repeated in a suggestion.
const MAX_SNIPPET_CHARS: usize = 80;

impl Checker<'_> {
    /// The text that an expression covers.
    pub(super) fn text_of(&self, node: &IdedExpr) -> &str {
        let span = self.parsed.span(node);
        self.parsed.text.get(span.start..span.end).unwrap_or_default()
    }

    /// The text of an expression where it is short enough to be repeated on one line.
    pub(super) fn snippet(&self, node: &IdedExpr) -> Option<&str> {
        let text = self.text_of(node);
        let short = text.chars().take(MAX_SNIPPET_CHARS + 1).count() <= MAX_SNIPPET_CHARS;
        (short && !text.is_empty() && !text.contains(char::is_control)).then_some(text)
    }

    /// The text of an expression, or `otherwise`, such that something can be put behind it with a dot or an operator.
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

    /// What a value is, for a message: its text where that is short, and its type.
    pub(super) fn described(&self, node: &IdedExpr, checked: &Node) -> String {
        match self.snippet(node).filter(|text| text.len() <= 40) {
            Some(text) => format!("`{text}` is {}", checked.ty.name()),
            None => format!("one side is {}", checked.ty.name()),
        }
    }

    /// How a value of another type could be a condition.
    pub(super) fn as_condition(&self, node: &IdedExpr, checked: &Node) -> String {
        let operand = self.operand(node, "x");
        match (&checked.kind, checked.ty) {
            (Kind::Known(Known::Text(_)), _) => {
                format!("say what it is compared with: `x == {operand}`")
            }
            (_, Type::Text) => format!("compare it: `{operand} == \"…\"`"),
            (_, Type::List) => format!("look for an element: `\"…\" in {operand}`"),
            (Kind::Known(Known::Int(0 | 1)), _) => "write `true` or `false`".to_owned(),
            (_, Type::Int) => format!("compare it: `{operand} > 0`"),
            _ => String::new(),
        }
    }

    /// How to ask whether what an expression names is there; `None` where it always is, or nothing that could be asked.
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

    /// A key of the map that a policy can use, as an example of how to write one.
    pub(super) fn example_of(&self, map: &str) -> String {
        let keys = self.usable().filter(|field| field.field.map.as_deref() == Some(map));
        let named = keys.map(|field| field.field.to_string()).next();
        named.unwrap_or_else(|| format!("{map}[\"key\"]"))
    }

    /// How to ask for a key, with one that there is.
    pub(super) fn asking_for_a_key(&self) -> String {
        let key = self.example_key();
        let map = key.map.as_deref().unwrap_or("SpanAttributes");
        format!("to ask whether a key is present, write `\"{}\" in {map}`", escape(&key.name))
    }

    /// An example of a key for where no map is named.
    pub(super) fn example_key(&self) -> FieldRef {
        let key = self.usable().find(|field| field.source == FieldSource::MapKey);
        key.map_or_else(|| FieldRef::key("SpanAttributes", "key"), |field| field.field.clone())
    }

    /// The fields that a policy can name.
    pub(super) fn usable(&self) -> impl Iterator<Item = &MarkedField> {
        self.model.fields.iter().filter(|field| field.policy)
    }
}

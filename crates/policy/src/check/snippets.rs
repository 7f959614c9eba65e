//! Parts of a policy's text, for messages and for suggestions that can be pasted.

use cel::IdedExpr;
use cel::common::ast::{Expr, operators};

use crate::diagnostics::Span;
use crate::expression::Node;
use crate::parse::Parsed;

/// Maximum length of text that a suggestion repeats.
const MAX_SNIPPET_CHARS: usize = 80;

impl Parsed<'_> {
    pub(super) fn text_of(&self, node: &IdedExpr) -> &str {
        self.span(node).of(self.text)
    }

    /// Returns the text of an expression if it is short and fits on one line.
    pub(super) fn snippet(&self, node: &IdedExpr) -> Option<&str> {
        self.span(node).snippet(self.text, MAX_SNIPPET_CHARS)
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
            Some(text) => format!("`{text}` is {}", checked.ty),
            None => format!("one side is {}", checked.ty),
        }
    }

    /// Returns the part of a literal's text that corresponds to a byte range of its value. Returns the whole literal
    /// if it contains escapes.
    pub(super) fn within_literal(
        &self,
        literal: &IdedExpr,
        value: &str,
        place: Option<(usize, usize)>,
    ) -> Span {
        let whole = self.span(literal);
        let written = whole.of(self.text);
        let prefix = written.len() - written.trim_start_matches(['r', 'R', '"', '\'']).len();
        let quotes = written.trim_start_matches(['r', 'R']);
        let width = if quotes.starts_with("\"\"\"") || quotes.starts_with("'''") { 3 } else { 1 };
        let prefix = prefix.min(written.len() - quotes.len() + width);
        let unescaped = written.get(prefix..).is_some_and(|inner| inner.starts_with(value));
        match place {
            Some((start, end)) if unescaped && end <= value.len() => {
                // For an empty range, where something is missing, take the next character.
                let next = value.get(start..).and_then(|rest| rest.chars().next());
                let end = end.max(start + next.map_or(0, char::len_utf8));
                match start < end {
                    true => Span::new(whole.start + prefix + start, whole.start + prefix + end),
                    false => whole,
                }
            }
            _ => whole,
        }
    }
}

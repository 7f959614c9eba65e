//! Functions and macros.

use cel::IdedExpr;
use cel::common::ast::{Expr, operators};

use tracewarden_model::FieldRef;
use tracewarden_model::field::escape;

use crate::check::names::{is_user_attributes, path};
use crate::check::{Checker, text_literal};
use crate::diagnostics::{Diagnostic, Span};
use crate::expression::{Kind, Node, Type};
use crate::pattern::Pattern;
use crate::predicate::{Quantifier, TextFunction};

/// Maximum nesting depth of macros. Nested macros multiply the lengths of their lists, for every span that ClickHouse
/// reads.
const MAX_NESTED_MACROS: usize = 4;

impl Checker<'_> {
    pub(super) fn function(
        &mut self,
        node: &IdedExpr,
        name: &str,
        target: Option<&IdedExpr>,
        arguments: &[IdedExpr],
    ) -> Option<Node> {
        match (name, target, arguments) {
            (_, Some(library), _) if self.namespace(library).is_some() => {
                self.unknown_function(node, name, target, arguments)
            }
            // `SpanAttributes.contains("env")` is meant as a test for a key.
            (_, Some(map), [key]) if self.map_named(map).is_some() && text_literal(key).is_some() => {
                self.unknown_function(node, name, target, arguments)
            }
            ("startsWith", Some(subject), [argument]) => {
                self.text_call(node, TextFunction::StartsWith, subject, argument)
            }
            ("endsWith", Some(subject), [argument]) => {
                self.text_call(node, TextFunction::EndsWith, subject, argument)
            }
            ("contains", Some(subject), [argument]) => {
                self.text_call(node, TextFunction::Contains, subject, argument)
            }
            ("matches", Some(subject), [pattern]) | ("matches", None, [subject, pattern]) => {
                self.matches(node, subject, pattern)
            }
            ("size", Some(subject), []) | ("size", None, [subject]) => {
                let inner = self.expression(subject)?;
                if !inner.ty.may_be(Type::Text) && !inner.ty.may_be(Type::List) {
                    let message = format!("`size` takes a string or a list, this is {}", inner.ty.name());
                    let hint = match inner.ty {
                        Type::Int => "it is a number already: leave out `size`",
                        _ => "compare it directly",
                    };
                    return self.refuse(subject, "type_mismatch", message, hint);
                }
                Some(self.typed(node, Type::Int, Kind::Size(Box::new(inner))))
            }
            ("has", None, [argument]) => self.has(node, argument),
            ("exists", Some(range), [variable, body]) => {
                self.quantified(node, Quantifier::Exists, range, variable, body)
            }
            ("all", Some(range), [variable, body]) => {
                self.quantified(node, Quantifier::All, range, variable, body)
            }
            ("exists_one" | "existsOne", Some(range), [variable, body]) => {
                self.quantified(node, Quantifier::ExistsOne, range, variable, body)
            }
            _ => self.unknown_function(node, name, target, arguments),
        }
    }

    /// Checks an expression that must be a string. `list_hint` gives the suggestion for a list.
    fn text(&mut self, node: &IdedExpr, place: &str, list_hint: impl Fn(&str) -> String) -> Option<Node> {
        let checked = self.expression(node)?;
        if checked.ty.may_be(Type::Text) {
            return Some(checked);
        }
        let message = format!("{place} must be a string, this is {}", checked.ty.name());
        let operand = self.operand(node, "list");
        let hint = match (checked.ty, &checked.kind) {
            (Type::List, _) => list_hint(&operand),
            (Type::Int, Kind::Constant(_)) => format!("put the number in quotes: `\"{operand}\"`"),
            (Type::Bool, _) => "compare a boolean with `==`, or use it by itself".to_owned(),
            _ => String::new(),
        };
        self.refuse(node, "type_mismatch", message, &hint)
    }

    fn text_call(
        &mut self,
        node: &IdedExpr,
        function: TextFunction,
        subject: &IdedExpr,
        argument: &IdedExpr,
    ) -> Option<Node> {
        let (name, value) = (function_name(function), self.operand(argument, "\"…\""));
        let receiver = self.operand(subject, "x");
        let on_list = |list: &str| match function {
            TextFunction::Contains => format!("to look for an element, write `{value} in {list}`"),
            _ => format!("to test its elements, write `{list}.exists(v, v.{name}({value}))`"),
        };
        let any_of =
            |list: &str| format!("to try each of them, write `{list}.exists(v, {receiver}.{name}(v))`");
        let subject = self.text(subject, &format!("what `{name}` is called on"), on_list);
        let argument = self.text(argument, &format!("the argument of `{name}`"), any_of);
        Some(self.typed(node, Type::Bool, Kind::TextCall(function, Box::new(subject?), Box::new(argument?))))
    }

    fn matches(&mut self, node: &IdedExpr, subject: &IdedExpr, pattern: &IdedExpr) -> Option<Node> {
        let value = self.operand(pattern, "\"…\"");
        let on_list =
            |list: &str| format!("to test its elements, write `{list}.exists(v, v.matches({value}))`");
        let subject_node = self.text(subject, "what `matches` is called on", on_list);
        let Some(text) = text_literal(pattern) else {
            let receiver = self.operand(subject, "x");
            let hint = match path(pattern).is_some_and(|names| names.first() == Some(&"user")) {
                true => format!(
                    "for a value of the caller write `{receiver}.startsWith({value})` or `{receiver} == {value}`"
                ),
                false => format!("write for instance `{receiver}.matches(\"^v[0-9]+$\")`"),
            };
            let message = "the pattern of `matches` must be a string literal";
            return self.refuse(pattern, "unsupported", message, &hint);
        };
        match Pattern::parse(text) {
            Ok(parsed) => Some(self.typed(node, Type::Bool, Kind::Matches(Box::new(subject_node?), parsed))),
            Err(error) => {
                let span = self.within_literal(pattern, text, error.place);
                let found = Diagnostic::new(self.parsed.text, span, "invalid_pattern", error.message);
                self.errors.push(found.with_hint(error.hint));
                None
            }
        }
    }

    /// Returns the part of a literal's text that corresponds to a byte range of its value. Returns the whole literal
    /// if it contains escapes.
    fn within_literal(&self, literal: &IdedExpr, value: &str, place: Option<(usize, usize)>) -> Span {
        let whole = self.parsed.span(literal);
        let written = self.parsed.text.get(whole.start..whole.end).unwrap_or_default();
        let prefix = written.len() - written.trim_start_matches(['r', 'R', '"', '\'']).len();
        let quotes = written.trim_start_matches(['r', 'R']);
        let prefix = if quotes.starts_with("\"\"\"") || quotes.starts_with("'''") {
            prefix.min(written.len() - quotes.len() + 3)
        } else {
            prefix.min(written.len() - quotes.len() + 1)
        };
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

    fn has(&mut self, node: &IdedExpr, argument: &IdedExpr) -> Option<Node> {
        if let Expr::Select(select) = &argument.expr {
            if is_user_attributes(&select.operand) {
                return Some(self.typed(node, Type::Bool, Kind::HasAttribute(select.field.clone())));
            }
            if let Some(map) = self.map_named(&select.operand) {
                let field = self.key(argument, &map, &select.field)?;
                return Some(self.typed(node, Type::Bool, Kind::HasKey(field)));
            }
            // A path of a JSON column, with names separated by dots.
            if let Some(names) = path(argument)
                && let [map, keys @ ..] = names.as_slice()
                && self.is_json(map)
            {
                let field = self.key(argument, map, &keys.join("."))?;
                return Some(self.typed(node, Type::Bool, Kind::HasKey(field)));
            }
        }
        let hint = match (self.presence(argument), path(argument).as_deref()) {
            (Some(presence), _) => format!("write `{presence}`"),
            (None, Some(["user", ..])) => {
                "`user.username` and `user.roles` are always present; test for an attribute, as in \
                 `has(user.attributes.team)`"
                    .to_owned()
            }
            (None, Some([map, keys @ ..])) if !keys.is_empty() && self.source_of(map).is_some() => {
                format!("a key with dots is written in quotes: `\"{}\" in {map}`", keys.join("."))
            }
            (None, Some(names)) if self.model.field(&FieldRef::column(names.join("."))).is_some() => {
                "a column is always present: leave `has` out, and compare its value".to_owned()
            }
            _ => match &argument.expr {
                Expr::Call(call) if call.func_name == operators::IN => {
                    format!(
                        "leave out `has`: `{}`",
                        self.snippet(argument).unwrap_or("\"key\" in SpanAttributes")
                    )
                }
                _ => {
                    let key = self.example_key();
                    let map = key.map.as_deref().unwrap_or("SpanAttributes");
                    let key = escape(&key.name);
                    format!("write for instance `\"{key}\" in {map}`")
                }
            },
        };
        self.refuse(
            argument,
            "unsupported",
            "`has` takes a key of a map, or an attribute of the caller",
            &hint,
        )
    }

    fn quantified(
        &mut self,
        node: &IdedExpr,
        quantifier: Quantifier,
        range: &IdedExpr,
        variable: &IdedExpr,
        body: &IdedExpr,
    ) -> Option<Node> {
        let name = quantifier_name(quantifier);
        let list = self.operand(range, "list");
        let range_node = self.expression(range);
        let range_node = match range_node {
            Some(found) if !found.ty.may_be(Type::List) => {
                let message = format!("`{name}` iterates over a list, this is {}", found.ty.name());
                let hint = match found.ty {
                    Type::Text => "compare the string directly, or name a field that is a list",
                    _ => "compare it directly",
                };
                self.refuse(range, "type_mismatch", message, hint)
            }
            other => other,
        };
        let Expr::Ident(element) = &variable.expr else {
            let hint = match (&body.expr, self.snippet(variable)) {
                (Expr::Ident(element), Some(condition)) if !self.is_known(element) => {
                    format!("the name comes first: `{list}.{name}({element}, {condition})`")
                }
                _ => format!("write for instance `{list}.{name}(v, v == \"…\")`"),
            };
            let message = format!("the first argument of `{name}` is a name for the element");
            return self.refuse(variable, "syntax", message, &hint);
        };
        // `.n` is resolved outside of every macro, so the body could not refer to the element by it.
        if element.starts_with('.') {
            let message = format!("`{element}` cannot be the name of an element");
            let hint = format!("choose a name without a dot, for instance `{list}.{name}(v, …)`");
            return self.refuse(variable, "unsupported", message, &hint);
        }
        if self.scope.len() >= MAX_NESTED_MACROS {
            let message = format!("at most {MAX_NESTED_MACROS} macros can be nested within each other");
            let hint = "use `x in list` where it is equivalent, or split the policy";
            return self.refuse(node, "too_deep", message, hint);
        }
        if self.is_reserved(element) {
            let message = format!("`{element}` already means something else here");
            let hint = format!("choose another name for the element, for instance `{list}.{name}(v, …)`");
            return self.refuse(variable, "unsupported", message, &hint);
        }
        let ty = match range_node.as_ref().map(|range| &range.kind) {
            Some(Kind::Field(_) | Kind::Roles) => Type::Text,
            _ => Type::Dynamic,
        };
        self.variables += 1;
        let number = self.variables;
        self.scope.push((element.clone(), number, ty));
        let body = self.condition(body, &format!("the condition of `{name}`"));
        self.scope.pop();
        let (range, body) = (Box::new(range_node?), Box::new(body?));
        Some(self.typed(node, Type::Bool, Kind::Macro { quantifier, range, variable: number, body }))
    }
}

fn function_name(function: TextFunction) -> &'static str {
    match function {
        TextFunction::StartsWith => "startsWith",
        TextFunction::EndsWith => "endsWith",
        TextFunction::Contains => "contains",
    }
}

fn quantifier_name(quantifier: Quantifier) -> &'static str {
    match quantifier {
        Quantifier::Exists => "exists",
        Quantifier::All => "all",
        Quantifier::ExistsOne => "exists_one",
    }
}

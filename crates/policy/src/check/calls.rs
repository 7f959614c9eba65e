//! Functions and macros.

use cel::IdedExpr;
use cel::common::ast::Expr;
use tracewarden_model::nearest::nearest;

use crate::check::names::is_user_attributes;
use crate::check::{Checker, text_literal};
use crate::expression::{Kind, Node, Type};
use crate::pattern::Pattern;
use crate::predicate::{Quantifier, TextFunction};

/// The functions of the language, for suggestions.
const FUNCTIONS: [&str; 9] =
    ["startsWith", "endsWith", "contains", "matches", "size", "has", "exists", "all", "exists_one"];

impl Checker<'_> {
    pub(super) fn function(
        &mut self,
        node: &IdedExpr,
        name: &str,
        target: Option<&IdedExpr>,
        arguments: &[IdedExpr],
    ) -> Option<Node> {
        match (name, target, arguments) {
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
                    return self.refuse(subject, "type_mismatch", message, "");
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
            _ => self.unknown_function(node, name, target.is_some()),
        }
    }

    fn unknown_function(&mut self, node: &IdedExpr, name: &str, method: bool) -> Option<Node> {
        let usage = match name {
            "startsWith" | "endsWith" | "contains" | "matches" => format!("write `text.{name}(\"…\")`"),
            "size" => "write `size(text)`".to_owned(),
            "has" => "write `has(SpanAttributes.key)` or `\"key\" in SpanAttributes`".to_owned(),
            "exists" | "all" | "exists_one" => format!("write `list.{name}(v, condition on v)`"),
            _ => match nearest(name, FUNCTIONS).first() {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("policies know {}", FUNCTIONS.join(", ")),
            },
        };
        let message = if FUNCTIONS.contains(&name) {
            format!("`{name}` is not called like this")
        } else {
            format!("a policy has no {} `{name}`", if method { "method" } else { "function" })
        };
        self.refuse(node, "unknown_function", message, &usage)
    }

    fn text(&mut self, node: &IdedExpr, place: &str) -> Option<Node> {
        let checked = self.expression(node)?;
        if checked.ty.may_be(Type::Text) {
            return Some(checked);
        }
        let message = format!("{place} must be a string, this is {}", checked.ty.name());
        let hint =
            if checked.ty == Type::List { "to test its elements, write `list.exists(v, …)`" } else { "" };
        self.refuse(node, "type_mismatch", message, hint)
    }

    fn text_call(
        &mut self,
        node: &IdedExpr,
        function: TextFunction,
        subject: &IdedExpr,
        argument: &IdedExpr,
    ) -> Option<Node> {
        let subject = self.text(subject, "what the function is called on");
        let argument = self.text(argument, "the argument");
        Some(self.typed(node, Type::Bool, Kind::TextCall(function, Box::new(subject?), Box::new(argument?))))
    }

    fn matches(&mut self, node: &IdedExpr, subject: &IdedExpr, pattern: &IdedExpr) -> Option<Node> {
        let subject = self.text(subject, "what `matches` is called on");
        let Some(text) = text_literal(pattern) else {
            let message = "the pattern of `matches` must be a string literal";
            return self.refuse(
                pattern,
                "unsupported",
                message,
                "for a value of the caller use `startsWith` or `==`",
            );
        };
        match Pattern::parse(text) {
            Ok(parsed) => Some(self.typed(node, Type::Bool, Kind::Matches(Box::new(subject?), parsed))),
            Err(message) => self.refuse(pattern, "invalid_pattern", message, "patterns follow RE2's syntax"),
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
        }
        let hint = "write `has(SpanAttributes.key)`, or `\"some.key\" in SpanAttributes` for a key with dots";
        self.refuse(argument, "unsupported", "`has` takes a key of a map", hint)
    }

    fn quantified(
        &mut self,
        node: &IdedExpr,
        quantifier: Quantifier,
        range: &IdedExpr,
        variable: &IdedExpr,
        body: &IdedExpr,
    ) -> Option<Node> {
        let range_node = self.expression(range)?;
        if !range_node.ty.may_be(Type::List) {
            let message = format!("macros go through a list, this is {}", range_node.ty.name());
            return self.refuse(range, "type_mismatch", message, "");
        }
        let Expr::Ident(name) = &variable.expr else {
            return self.refuse(
                variable,
                "syntax",
                "the first argument names the element",
                "write `list.exists(v, v == \"x\")`",
            );
        };
        if self.is_taken(name) {
            let message = format!("`{name}` already means something else here");
            return self.refuse(variable, "unsupported", message, "choose another name for the element");
        }
        let ty = match &range_node.kind {
            Kind::Field(_) | Kind::Roles => Type::Text,
            _ => Type::Dynamic,
        };
        self.variables += 1;
        let number = self.variables;
        self.scope.push((name.clone(), number, ty));
        let body = self.condition(body, "the condition of a macro");
        self.scope.pop();
        let kind =
            Kind::Macro { quantifier, range: Box::new(range_node), variable: number, body: Box::new(body?) };
        Some(self.typed(node, Type::Bool, kind))
    }
}

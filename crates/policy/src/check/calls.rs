//! Functions and macros, known and unknown.

use std::sync::Arc;

use cel::IdedExpr;
use cel::common::ast::{Expr, operators};

use tracewarden_model::claims::claim_reference;
use tracewarden_model::{FieldRef, FieldSource};

use crate::check::Checker;
use crate::check::suggestions::{FUNCTIONS, normalize_function_name};
use crate::diagnostics::Diagnostic;
use crate::expression::{Kind, Node, Type};
use crate::pattern::Pattern;
use crate::predicate::{Quantifier, TextFunction};
use crate::syntax_tree::{claim_path, is_user_attributes, path, text_literal};

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
        // `SpanAttributes.contains("env")` is meant as a test for a key.
        let is_key_test = |target| {
            self.scope.map_named(target).is_some()
                && matches!(arguments, [key] if text_literal(key).is_some())
        };
        if target.is_some_and(|target| self.scope.namespace(target).is_some() || is_key_test(target)) {
            return self.unknown_function(node, name, target, arguments);
        }
        if let (Some(function), Some(subject), [argument]) =
            (name.parse::<TextFunction>().ok(), target, arguments)
        {
            return self.text_call(node, function, subject, argument);
        }
        if let (Some(quantifier), Some(range), [variable, body]) =
            (name.parse::<Quantifier>().ok(), target, arguments)
        {
            return self.quantified(node, quantifier, range, variable, body);
        }
        match (name, target, arguments) {
            ("matches", Some(subject), [pattern]) | ("matches", None, [subject, pattern]) => {
                self.matches(node, subject, pattern)
            }
            ("size", Some(subject), []) | ("size", None, [subject]) => {
                let inner = self.expression(subject)?;
                if !inner.ty.may_be(Type::Text) && !inner.ty.may_be(Type::List) {
                    let message = format!("`size` takes a string or a list, this is {}", inner.ty);
                    let hint = match inner.ty {
                        Type::Int => "it is a number already: leave out `size`",
                        _ => "compare it directly",
                    };
                    return self.refuse(subject, "type_mismatch", message, hint);
                }
                Some(self.typed(node, Type::Int, Kind::Size(Box::new(inner))))
            }
            ("has", None, [argument]) => self.has(node, argument),
            _ => self.unknown_function(node, name, target, arguments),
        }
    }

    /// Checks an expression that must be a string. `list_hint` gives the suggestion for a list.
    fn text(&mut self, node: &IdedExpr, place: &str, list_hint: impl Fn(&str) -> String) -> Option<Node> {
        let checked = self.expression(node)?;
        if checked.ty.may_be(Type::Text) {
            return Some(checked);
        }
        let message = format!("{place} must be a string, this is {}", checked.ty);
        let operand = self.parsed.operand(node, "list");
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
        let (name, value) = (function.name(), self.parsed.operand(argument, "\"…\""));
        let receiver = self.parsed.operand(subject, "x");
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
        let value = self.parsed.operand(pattern, "\"…\"");
        let on_list =
            |list: &str| format!("to test its elements, write `{list}.exists(v, v.matches({value}))`");
        let subject_node = self.text(subject, "what `matches` is called on", on_list);
        let Some(text) = text_literal(pattern) else {
            let receiver = self.parsed.operand(subject, "x");
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
            Ok(parsed) => {
                Some(self.typed(node, Type::Bool, Kind::Matches(Box::new(subject_node?), Arc::new(parsed))))
            }
            Err(error) => {
                let span = self.parsed.within_literal(pattern, text, error.place);
                let found = Diagnostic::new(self.parsed.text, span, "invalid_pattern", error.message);
                self.errors.push(found.with_hint(error.hint));
                None
            }
        }
    }

    fn has(&mut self, node: &IdedExpr, argument: &IdedExpr) -> Option<Node> {
        if self.scope.reads_claims {
            return match claim_path(argument).as_deref() {
                Some([]) | None => {
                    let hint = "write for instance `has(claims.groups)`";
                    self.refuse(argument, "unsupported", "`has` takes a claim", hint)
                }
                Some(names) => {
                    let claim = claim_reference(names.iter().copied());
                    Some(self.typed(node, Type::Bool, Kind::HasAttribute(claim)))
                }
            };
        }
        if let Expr::Select(select) = &argument.expr {
            if is_user_attributes(&select.operand) {
                return Some(self.typed(node, Type::Bool, Kind::HasAttribute(select.field.clone())));
            }
            if let Some(map) = self.scope.map_named(&select.operand) {
                let field = self.key(argument, &map, &select.field)?;
                return Some(self.typed(node, Type::Bool, Kind::HasKey(field)));
            }
            // A path of a JSON column, with names separated by dots.
            if let Some(names) = path(argument)
                && let [map, keys @ ..] = names.as_slice()
                && self.scope.source_of(map) == Some(FieldSource::JsonPath)
                && self.scope.variable(map).is_none()
            {
                let field = self.key(argument, map, &keys.join("."))?;
                return Some(self.typed(node, Type::Bool, Kind::HasKey(field)));
            }
        }
        let hint = match (self.suggest().presence(argument), path(argument).as_deref()) {
            (Some(presence), _) => format!("write `{presence}`"),
            (None, Some(["user", ..])) => {
                "`user.username` and `user.roles` are always present; test for an attribute, as in \
                 `has(user.attributes.team)`"
                    .to_owned()
            }
            (None, Some([map, keys @ ..])) if !keys.is_empty() && self.scope.source_of(map).is_some() => {
                format!("a key with dots is written in quotes: `\"{}\" in {map}`", keys.join("."))
            }
            (None, Some(names)) if self.scope.model.field(&FieldRef::column(names.join("."))).is_some() => {
                "a column is always present: leave `has` out, and compare its value".to_owned()
            }
            _ => match &argument.expr {
                Expr::Call(call) if call.func_name == operators::IN => {
                    format!(
                        "leave out `has`: `{}`",
                        self.parsed.snippet(argument).unwrap_or("\"key\" in SpanAttributes")
                    )
                }
                _ => format!("write for instance `{}`", self.suggest().example_key_test()),
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
        let name = match quantifier {
            Quantifier::Exists => "exists",
            Quantifier::All => "all",
            Quantifier::ExistsOne => "exists_one",
        };
        let list = self.parsed.operand(range, "list");
        let range_node = self.expression(range);
        let range_node = match range_node {
            Some(found) if !found.ty.may_be(Type::List) => {
                let message = format!("`{name}` iterates over a list, this is {}", found.ty);
                let hint = match found.ty {
                    Type::Text => "compare the string directly, or name a field that is a list",
                    _ => "compare it directly",
                };
                self.refuse(range, "type_mismatch", message, hint)
            }
            other => other,
        };
        let Expr::Ident(element) = &variable.expr else {
            let hint = match (&body.expr, self.parsed.snippet(variable)) {
                (Expr::Ident(element), Some(condition)) if !self.scope.is_known(element) => {
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
        let max_nested = if self.scope.reads_claims { 1 } else { MAX_NESTED_MACROS };
        if self.scope.depth() >= max_nested {
            let message = match max_nested {
                1 => "macros cannot be nested within each other here".to_owned(),
                _ => format!("at most {MAX_NESTED_MACROS} macros can be nested within each other"),
            };
            let hint = "use `x in list` where it is equivalent, or split the policy";
            return self.refuse(node, "too_deep", message, hint);
        }
        if self.scope.is_reserved(element) {
            let message = format!("`{element}` already means something else here");
            let hint = format!("choose another name for the element, for instance `{list}.{name}(v, …)`");
            return self.refuse(variable, "unsupported", message, &hint);
        }
        let ty = match range_node.as_ref().map(|range| &range.kind) {
            Some(Kind::Field(_) | Kind::Roles) => Type::Text,
            _ => Type::Dynamic,
        };
        let number = self.scope.bind(element, ty);
        let body = self.condition(body, &format!("the condition of `{name}`"));
        self.scope.unbind();
        let (range, body) = (Box::new(range_node?), Box::new(body?));
        Some(self.typed(node, Type::Bool, Kind::Macro { quantifier, range, variable: number, body }))
    }

    /// Reports a function that policies do not have, or a wrong call of a known function.
    fn unknown_function(
        &mut self,
        node: &IdedExpr,
        name: &str,
        target: Option<&IdedExpr>,
        arguments: &[IdedExpr],
    ) -> Option<Node> {
        let before = self.errors.len();
        let library = target.and_then(|target| self.scope.namespace(target));
        let full_name = library.map(|library| format!("{library}.{name}"));
        let (name, target) = match &full_name {
            Some(full_name) => (full_name.as_str(), None),
            None => (name, target),
        };
        // The operands may have errors of their own, except where one may be the name of an element.
        let value = target.filter(|target| {
            self.scope.map_named(target).is_none()
                && path(target).is_none_or(|names| {
                    names.first() != Some(&"user") || names.len() > 2 || names.get(1) == Some(&"roles")
                })
        });
        let mut types: Vec<Option<Type>> = Vec::with_capacity(arguments.len() + 1);
        if target.is_some() {
            types.push(value.and_then(|target| self.expression(target)).map(|checked| checked.ty));
        }
        let lower = normalize_function_name(name);
        // `list.count(n, n == "x")`: whatever the function's name, `n` is a name that it declares.
        let declares = match arguments {
            [IdedExpr { expr: Expr::Ident(element), .. }, _] => {
                target.is_some() && !self.scope.is_known(element)
            }
            _ => false,
        };
        let skips_arguments = declares || declares_variable(&lower);
        if !skips_arguments {
            for argument in arguments {
                let is_map = self.scope.map_named(argument).is_some();
                let checked = if is_map { None } else { self.expression(argument) };
                types.push(checked.map(|checked| checked.ty));
            }
        }
        let independent = self.errors.split_off(before);
        let hint = self.suggest().call(name, target, arguments, &types);
        let message = match (FUNCTIONS.contains(&name), target) {
            (true, _) => format!("`{name}` is not called like this"),
            (false, Some(_)) => format!("a policy has no method `{name}`"),
            (false, None) => format!("a policy has no function `{name}`"),
        };
        self.refuse::<()>(node, "unknown_function", message, &hint);
        self.errors.extend(independent);
        None
    }
}

/// Whether the first argument of the function, a name in lower case without `_`, is a name for the element.
fn declares_variable(function: &str) -> bool {
    const FUNCTIONS: &str = "exists all existsone any some every forall filter map anymatch allmatch existsany \
                             find foreach optmap optflatmap sortby transformlist transformmap cel.bind";
    FUNCTIONS.split(' ').any(|known| known == function)
}

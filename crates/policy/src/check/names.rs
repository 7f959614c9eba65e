//! Resolves names: variables of macros, members of the caller, and marked fields.

use std::sync::Arc;

use cel::IdedExpr;
use cel::common::ast::Expr;
use tracewarden_model::field::escape;
use tracewarden_model::{FieldRef, FieldSource, LogicalType, MarkedField};

use crate::check::Checker;
use crate::check::suggestions::{MARK_FIELD_HINT, caller_member, indexed_caller_member, member_call};
use crate::expression::{Kind, Node, Type};
use crate::syntax_tree::{is_null_keyword, is_user_attributes, path, text_literal};

impl Checker<'_> {
    /// Checks an identifier or a chain of selections.
    pub(super) fn name(&mut self, node: &IdedExpr) -> Option<Node> {
        let Some(names) = path(node) else {
            return if self.scope.reads_claims { self.claim(node) } else { self.member(node) };
        };
        let root = names.first().copied().unwrap_or_default();
        if let Some((variable, ty)) = self.scope.variable(root) {
            if names.len() > 1 {
                let message = format!("`{root}` is an element of a list and has no members");
                let hint = member_call(root, names.last().copied().unwrap_or_default());
                return self.refuse(node, "unsupported", message, &hint.unwrap_or_default());
            }
            return Some(self.typed(node, ty, Kind::Variable(variable)));
        }
        if self.scope.reads_claims {
            return self.claim(node);
        }
        if root == "user" {
            return self.user(node, &names);
        }
        let joined = names.join(".");
        let column = FieldRef::column(&joined);
        if self.scope.model.field(&column).is_some() {
            return self.field(node, &column);
        }
        if self.scope.map_named(node).is_some() {
            let message = format!("`{joined}` is a map: a policy names one of its keys");
            let hint = format!("write for instance `{}`", self.suggest().example_of(&joined));
            return self.refuse(node, "type_mismatch", message, &hint);
        }
        if let [map, keys @ ..] = names.as_slice()
            && let Some(source) = self.scope.source_of(map)
        {
            let key = FieldRef::key(*map, keys.join("."));
            if keys.len() == 1 || (source == FieldSource::JsonPath && self.scope.model.field(&key).is_some())
            {
                return self.field(node, &key);
            }
            return self.path_of_map(node, map, keys, source);
        }
        // `ServiceName.length`
        if let [columns @ .., last] = names.as_slice()
            && self.scope.model.field(&FieldRef::column(columns.join("."))).is_some()
            && let Some(hint) = member_call(&columns.join("."), last)
        {
            let message = format!("`{}` is a value and has no members", columns.join("."));
            return self.refuse(node, "unsupported", message, &hint);
        }
        if names.len() == 1 && !self.scope.is_known(root) {
            match root.to_ascii_lowercase().as_str() {
                truth @ ("true" | "false") => {
                    let hint = format!("write `{truth}`");
                    return self.refuse(node, "unknown_name", format!("`{root}` is not known"), &hint);
                }
                _ if is_null_keyword(root) => {
                    let hint = self.suggest().key_test();
                    let message = format!("`{root}` is not supported in a policy");
                    return self.refuse(node, "unsupported", message, &hint);
                }
                _ => {}
            }
        }
        if self.suggest().lookalikes(&column).is_empty()
            && self.suggest().caller_member(&column).is_none()
            && !self.scope.is_known(root)
        {
            let message = format!("`{joined}` is neither a field that policies can name nor text in quotes");
            let hint = format!("if it is text, write `\"{joined}\"`; {MARK_FIELD_HINT} if it is a column");
            return self.refuse(node, "unmarked_field", message, &hint);
        }
        self.field(node, &column)
    }

    /// Checks `SpanAttributes.tenant.id`: a key that contains dots, or a member of a key.
    fn path_of_map(
        &mut self,
        node: &IdedExpr,
        map: &str,
        keys: &[&str],
        source: FieldSource,
    ) -> Option<Node> {
        let whole = FieldRef::key(map, keys.join("."));
        let is_json = source == FieldSource::JsonPath;
        if let [key @ .., last] = keys
            && self.scope.model.field(&FieldRef::key(map, key.join("."))).is_some()
            && self.scope.model.field(&whole).is_none()
            && (key.len() == 1 || is_json)
            && let Some(hint) = member_call(&format!("{map}.{}", key.join(".")), last)
        {
            return self.refuse(node, "unsupported", "a string has no members", &hint);
        }
        if is_json {
            return self.field(node, &whole);
        }
        let hint = match self.suggest().lookalikes(&whole).first() {
            Some(name) if self.scope.model.field(&whole).is_none() => {
                format!("a key with dots is written in quotes: did you mean `{name}`?")
            }
            _ => format!("a key with dots is written in quotes: `{whole}`"),
        };
        let message = format!("the keys of `{map}` have no members");
        self.refuse(node, "unsupported", message, &hint)
    }

    /// Checks a selection from an expression that is not a name: `SpanAttributes["env"].size`.
    fn member(&mut self, node: &IdedExpr) -> Option<Node> {
        let Expr::Select(select) = &node.expr else {
            return self.refuse(node, "unsupported", "this value has no members", "");
        };
        if let Some(map) = indexed_caller_member(&select.operand) {
            let hint = format!("write `user.{map}.{}`", select.field);
            return self.refuse(node, "unsupported", "the caller cannot be indexed", &hint);
        }
        if let Some(whole) = self.suggest().dotted_key(&select.operand, &select.field)
            && self.scope.model.field(&whole).is_some()
        {
            let hint = format!("a key with dots is written as one: `{whole}`");
            return self.refuse(node, "unsupported", "the keys of a map have no members", &hint);
        }
        self.expression(&select.operand)?;
        let operand = self.parsed.operand(&select.operand, "x");
        let hint = member_call(&operand, &select.field).unwrap_or_default();
        self.refuse(node, "unsupported", "this value has no members", &hint)
    }

    fn user(&mut self, node: &IdedExpr, names: &[&str]) -> Option<Node> {
        match names {
            [_, "username"] => Some(self.typed(node, Type::Text, Kind::Username)),
            [_, "roles"] => Some(self.typed(node, Type::List, Kind::Roles)),
            [_, "attributes", name] => {
                Some(self.typed(node, Type::Dynamic, Kind::Attribute((*name).to_owned())))
            }
            [_] => {
                let hint = "write `user.username`, `user.roles` or `user.attributes.team`";
                self.refuse(node, "type_mismatch", "`user` is not a value by itself", hint)
            }
            [_, "attributes"] => {
                let message = "`user.attributes` is not a value by itself: a policy names one attribute";
                self.refuse(node, "type_mismatch", message, "write for instance `user.attributes.team`")
            }
            [_, "attributes", rest @ ..] => {
                let hint = match rest {
                    [name @ .., last] => member_call(&format!("user.attributes.{}", name.join(".")), last),
                    [] => None,
                };
                let hint = hint.unwrap_or_else(|| {
                    let name = rest.join(".");
                    format!("an attribute whose name has dots is written `user.attributes[\"{name}\"]`")
                });
                self.refuse(node, "unsupported", "attributes have no members", &hint)
            }
            [_, "roles", role] => {
                let hint = member_call("user.roles", role)
                    .unwrap_or_else(|| format!("to test for a role, write `\"{role}\" in user.roles`"));
                self.refuse(node, "unsupported", "`user.roles` is a list and has no members", &hint)
            }
            [_, "username", last] => {
                let hint = member_call("user.username", last).unwrap_or_default();
                self.refuse(node, "unsupported", "`user.username` is a string and has no members", &hint)
            }
            [_, wrong, rest @ ..] => {
                let tail: String = rest.iter().map(|name| format!(".{name}")).collect();
                let hint = match caller_member(wrong) {
                    Some(member) => format!("did you mean `user.{member}{tail}`?"),
                    None => format!("an attribute is written `user.attributes.{wrong}{tail}`"),
                };
                self.refuse(node, "unknown_name", format!("the caller has no `{wrong}`"), &hint)
            }
            [] => None,
        }
    }

    /// Checks `container[key]`.
    pub(super) fn index(&mut self, node: &IdedExpr, container: &IdedExpr, key: &IdedExpr) -> Option<Node> {
        if self.scope.reads_claims {
            return self.claim(node);
        }
        let literal = text_literal(key);
        if is_user_attributes(container) {
            return match literal {
                Some(name) => Some(self.typed(node, Type::Dynamic, Kind::Attribute(name.to_owned()))),
                None => {
                    let message = "the name of an attribute must be a string literal";
                    let hint = match path(key) {
                        Some(names) if !self.scope.is_known(names.first().copied().unwrap_or_default()) => {
                            format!("put it in quotes: `user.attributes[\"{}\"]`", names.join("."))
                        }
                        _ => "write for instance `user.attributes[\"team\"]`".to_owned(),
                    };
                    self.refuse(key, "unsupported", message, &hint)
                }
            };
        }
        if path(container).as_deref() == Some(&["user"]) {
            let hint = match literal.map(|name| (name, caller_member(name))) {
                Some((_, Some(member))) => format!("write `user.{member}`"),
                Some((name, None)) => {
                    format!("an attribute is written `user.attributes[\"{}\"]`", escape(name))
                }
                None => "write `user.username`, `user.roles` or `user.attributes.team`".to_owned(),
            };
            return self.refuse(node, "unsupported", "the caller cannot be indexed", &hint);
        }
        let names = path(container);
        if let Some(name) = &names
            && name.first().is_some_and(|root| *root != "user" && self.scope.variable(root).is_none())
            && self.scope.model.field(&FieldRef::column(name.join("."))).is_none()
            && (name.len() == 1 || self.scope.source_of(name.first().copied().unwrap_or_default()).is_none())
        {
            let map = name.join(".");
            return match literal {
                Some(key) => self.field(node, &FieldRef::key(map, key)),
                None => {
                    let hint = match path(key) {
                        Some(names) if !self.scope.is_known(names.first().copied().unwrap_or_default()) => {
                            format!("put it in quotes: `{}`", FieldRef::key(map, names.join(".")))
                        }
                        _ => format!("write for instance `{}`", self.suggest().example_of(&map)),
                    };
                    self.refuse(key, "unsupported", "the key of a map must be a string literal", &hint)
                }
            };
        }
        if let Some(member) = indexed_caller_member(container) {
            let hint = match literal {
                Some(name) => format!("write `user.{member}[\"{}\"]`", escape(name)),
                None => format!("write `user.{member}`"),
            };
            return self.refuse(node, "unsupported", "the caller cannot be indexed", &hint);
        }
        let whole = literal.and_then(|last| self.suggest().dotted_key(container, last)).or_else(|| {
            let [map, keys @ ..] = names.as_deref()? else { return None };
            let last = literal.filter(|_| self.scope.source_of(map).is_some() && !keys.is_empty())?;
            Some(FieldRef::key(*map, format!("{}.{last}", keys.join("."))))
        });
        if let Some(whole) = whole {
            let hint = format!("a key with dots is written as one: `{whole}`");
            return self.refuse(node, "unsupported", "the keys of a map have no members", &hint);
        }
        let checked = self.expression(container)?;
        let list = self.parsed.operand(container, "list");
        let message = format!("only maps can be indexed in a policy, this is {}", checked.ty);
        let hint = match (literal, checked.ty) {
            (Some(_), Type::Text) => format!("a string is compared whole, as in `{list} == \"…\"`"),
            (Some(_), _) => {
                format!("to look for an element, write `{} in {list}`", self.parsed.operand(key, "x"))
            }
            (None, Type::Text) => "to test how it begins, write `startsWith`".to_owned(),
            (None, _) => format!("to test the elements, write `{list}.exists(v, v == \"…\")`"),
        };
        self.refuse(node, "unsupported", message, &hint)
    }

    /// Checks a marked field that is used as a value.
    pub(super) fn field(&mut self, node: &IdedExpr, reference: &FieldRef) -> Option<Node> {
        let field = self.resolve_policy_field(node, reference)?;
        let ty = match field.logical {
            LogicalType::StringArray => Type::List,
            LogicalType::Boolean => Type::Bool,
            _ => Type::Text,
        };
        Some(self.typed(node, ty, Kind::Field(field)))
    }

    /// Returns the marked field if policies may use it. Only this function decides that.
    pub(super) fn resolve_policy_field(
        &mut self,
        node: &IdedExpr,
        reference: &FieldRef,
    ) -> Option<Arc<MarkedField>> {
        match self.scope.model.field(reference) {
            Some(field) if field.logical == LogicalType::Number => self.refuse(
                node,
                "number_field",
                format!("`{reference}` is a number, and policies cannot use numbers"),
                "numbers can be used in filters only: leave the condition out, or name a field of another type",
            ),
            Some(field) if field.policy => Some(Arc::new(field.clone())),
            Some(_) => self.refuse(
                node,
                "unmarked_field",
                format!("`{reference}` is not marked as a policy input"),
                MARK_FIELD_HINT,
            ),
            None => {
                let hint = self.suggest().field(reference);
                let message = format!("`{reference}` is not a field that policies can name");
                self.refuse(node, "unmarked_field", message, &hint)
            }
        }
    }
}

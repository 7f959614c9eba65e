//! Names: variables of macros, the caller's, and marked fields.

use std::sync::Arc;

use cel::IdedExpr;
use cel::common::ast::Expr;
use tracewarden_model::{FieldRef, LogicalType, MarkedField, nearest::nearest};

use crate::check::{Checker, text_literal};
use crate::expression::{Kind, Node, Type};

const ABOUT_USER: &str = "write `user.username`, `user.roles` or `user.attributes.team`";

/// The names of a chain of selections, outermost first: `a.b.c`.
fn path(node: &IdedExpr) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut node = node;
    loop {
        match &node.expr {
            Expr::Ident(name) => {
                names.push(name.as_str());
                names.reverse();
                return Some(names);
            }
            Expr::Select(select) => {
                names.push(select.field.as_str());
                node = &select.operand;
            }
            _ => return None,
        }
    }
}

/// Whether this is `user.attributes`.
pub(super) fn is_user_attributes(node: &IdedExpr) -> bool {
    path(node).as_deref() == Some(&["user", "attributes"])
}

impl Checker<'_> {
    fn variable(&self, name: &str) -> Option<(u32, Type)> {
        self.scope.iter().rev().find(|(known, ..)| known == name).map(|(_, variable, ty)| (*variable, *ty))
    }

    /// The name of the map column that this expression names, unless a variable hides it.
    pub(super) fn map_named(&self, node: &IdedExpr) -> Option<String> {
        let name = path(node)?.join(".");
        let known = self.model.fields.iter().any(|field| field.field.map.as_deref() == Some(name.as_str()));
        (known && self.variable(&name).is_none()).then_some(name)
    }

    /// Whether a variable may not be called this, because it would hide something.
    pub(super) fn is_taken(&self, name: &str) -> bool {
        name == "user"
            || self.model.fields.iter().any(|field| {
                let column = field.field.map.as_deref().unwrap_or(&field.field.name);
                column.split('.').next() == Some(name)
            })
    }

    /// An identifier or a chain of selections.
    pub(super) fn name(&mut self, node: &IdedExpr) -> Option<Node> {
        let Some(names) = path(node) else {
            return self.refuse(node, "unsupported", "this value has no members", "");
        };
        let root = names.first().copied().unwrap_or_default();
        if let Some((variable, ty)) = self.variable(root) {
            if names.len() > 1 {
                let message = format!("`{root}` is an element of a list and has no members");
                return self.refuse(node, "unsupported", message, "");
            }
            return Some(self.typed(node, ty, Kind::Variable(variable)));
        }
        if root == "user" {
            return self.user(node, &names);
        }
        let joined = names.join(".");
        let column = FieldRef::column(&joined);
        if self.model.field(&column).is_some() {
            return self.field(node, &column);
        }
        if self.map_named(node).is_some() {
            let message = format!("`{joined}` is a map: a policy names one of its keys");
            return self.refuse(node, "type_mismatch", message, &format!("write `{joined}[\"key\"]`"));
        }
        if let Some((map, keys)) = names.split_first()
            && self.model.fields.iter().any(|field| field.field.map.as_deref() == Some(map))
        {
            return self.field(node, &FieldRef::key(*map, keys.join(".")));
        }
        self.field(node, &column)
    }

    fn user(&mut self, node: &IdedExpr, names: &[&str]) -> Option<Node> {
        match names {
            [_, "username"] => Some(self.typed(node, Type::Text, Kind::Username)),
            [_, "roles"] => Some(self.typed(node, Type::List, Kind::Roles)),
            [_, "attributes", name] => {
                Some(self.typed(node, Type::Dynamic, Kind::Attribute((*name).to_owned())))
            }
            [_] | [_, "attributes"] => {
                let message = format!("`{}` is not a value by itself", names.join("."));
                self.refuse(node, "type_mismatch", message, ABOUT_USER)
            }
            [_, "attributes", ..] => {
                let name = names.get(2..).unwrap_or_default().join(".");
                let hint =
                    format!("an attribute whose name has dots is written `user.attributes[\"{name}\"]`");
                self.refuse(node, "unsupported", "attributes have no members", &hint)
            }
            _ => {
                let wrong = names.get(1).copied().unwrap_or_default();
                let close = nearest(wrong, ["username", "roles", "attributes"]);
                let hint = match close.first() {
                    Some(name) => format!("did you mean `user.{name}`?"),
                    None => ABOUT_USER.to_owned(),
                };
                self.refuse(node, "unknown_name", format!("the caller has no `{wrong}`"), &hint)
            }
        }
    }

    /// `container[key]`.
    pub(super) fn index(&mut self, node: &IdedExpr, container: &IdedExpr, key: &IdedExpr) -> Option<Node> {
        let literal = text_literal(key);
        if is_user_attributes(container) {
            return match literal {
                Some(name) => Some(self.typed(node, Type::Dynamic, Kind::Attribute(name.to_owned()))),
                None => {
                    let message = "the name of an attribute must be a string literal";
                    self.refuse(key, "unsupported", message, "write `user.attributes[\"team\"]`")
                }
            };
        }
        let names = path(container);
        if let Some(name) = &names
            && name.first().is_some_and(|root| *root != "user" && self.variable(root).is_none())
            && self.model.field(&FieldRef::column(name.join("."))).is_none()
        {
            let map = name.join(".");
            return match literal {
                Some(key) => self.field(node, &FieldRef::key(map, key)),
                None => {
                    let hint = format!("write `{map}[\"key\"]`");
                    self.refuse(key, "unsupported", "the key of a map must be a string literal", &hint)
                }
            };
        }
        let hint = "to look for an element of a list, write `x in list` or `list.exists(v, …)`";
        self.refuse(node, "unsupported", "only maps have an index in a policy", hint)
    }

    /// A marked field as a value.
    pub(super) fn field(&mut self, node: &IdedExpr, reference: &FieldRef) -> Option<Node> {
        let field = self.marked(node, reference)?;
        let ty = match field.logical {
            LogicalType::StringArray => Type::List,
            LogicalType::Boolean => Type::Bool,
            _ => Type::Text,
        };
        Some(self.typed(node, ty, Kind::Field(field)))
    }

    /// The marked field, if policies may use it. The one place where that is decided.
    pub(super) fn marked(&mut self, node: &IdedExpr, reference: &FieldRef) -> Option<Arc<MarkedField>> {
        match self.model.field(reference) {
            Some(field) if field.logical == LogicalType::Number => self.refuse(
                node,
                "number_field",
                format!("`{reference}` is a number, and policies cannot use numbers"),
                "numbers can be used in filters only; mark a field of another type",
            ),
            Some(field) if field.policy => Some(Arc::new(field.clone())),
            Some(_) => self.refuse(
                node,
                "unmarked_field",
                format!("`{reference}` is not marked as a policy input"),
                "mark it in the trace source's fields, with `policy`",
            ),
            None => {
                let close = self.model.suggest(reference, |field| field.policy);
                let hint = match close.first() {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => "mark it in the trace source's fields, with `policy`".to_owned(),
                };
                let message = format!("`{reference}` is not a field that is marked as a policy input");
                self.refuse(node, "unmarked_field", message, &hint)
            }
        }
    }
}

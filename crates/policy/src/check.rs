//! The type checker: every name is a marked field or the caller's, every operation has operands that it can have.

mod calls;
mod names;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use cel::IdedExpr;
use cel::common::ast::{Expr, LiteralValue, operators};
use tracewarden_model::{AccessModel, AttributeValue, Caller, MarkedField};

use crate::diagnostics::{Diagnostic, Span};
use crate::expression::{Kind, Known, Node, Type};
use crate::lint;
use crate::lower::{self, TooLarge};
use crate::parse::{Parsed, on_deep_stack, parse};
use crate::predicate::{Predicate, Relation};

/// A policy that is valid under one access model.
#[derive(Debug, Clone)]
pub struct Checked {
    pub(crate) text: Arc<str>,
    pub(crate) root: Node,
    /// Found when first asked for: deciding access needs no advice.
    warnings: OnceLock<Vec<Diagnostic>>,
}

impl Checked {
    /// The marked fields that the policy names, as people write them, sorted.
    pub fn fields(&self) -> Vec<String> {
        let mut names: Vec<String> = self.root.fields().iter().map(|field| field.field.to_string()).collect();
        names.sort();
        names
    }

    /// Advice; none of it keeps the policy from being stored.
    pub fn warnings(&self) -> &[Diagnostic] {
        self.warnings.get_or_init(|| lint::warnings(self))
    }

    /// What a span must satisfy for this caller; `None` when that is too large to ask of the trace store.
    pub fn predicate(&self, caller: &Caller) -> Option<Predicate> {
        lower::lower(&self.root, caller).ok()
    }
}

/// Checks a policy against the access model.
///
/// # Errors
/// Every error found, each with its place in the text; never empty.
pub fn check(expression: &str, model: &AccessModel) -> Result<Checked, Vec<Diagnostic>> {
    on_deep_stack(|| check_here(expression, model)).unwrap_or_else(|| {
        let message = "the policy could not be checked: no thread could be started";
        Err(vec![Diagnostic::new(expression, Span::new(0, 0), "unavailable", message)])
    })
}

/// [`check`] on the current stack.
pub(crate) fn check_here(expression: &str, model: &AccessModel) -> Result<Checked, Vec<Diagnostic>> {
    let parsed = parse(expression)?;
    let mut checker = Checker { parsed: &parsed, model, errors: Vec::new(), scope: Vec::new(), variables: 0 };
    let root = checker.condition(&parsed.root, "a policy");
    let Some(root) = root.filter(|_| checker.errors.is_empty()) else {
        checker.errors.sort_by_key(|error| (error.line, error.column));
        return Err(checker.errors);
    };
    if let Err(TooLarge) = worst_case_size(&root) {
        let message = "the policy is too large once it is written for the trace store";
        return Err(vec![
            Diagnostic::new(expression, root.span, "too_large", message)
                .with_hint("nest fewer conditionals and macros, or split the policy in several"),
        ]);
    }
    Ok(Checked { text: expression.into(), root, warnings: OnceLock::new() })
}

/// Lowers for made-up callers, since the real ones' lists are known only later: a policy that is too large even for
/// small lists is better refused when it is saved than when someone is waiting for an answer.
fn worst_case_size(root: &Node) -> Result<(), TooLarge> {
    let names: Vec<&String> = root
        .walk()
        .into_iter()
        .filter_map(|node| match &node.kind {
            Kind::Attribute(name) => Some(name),
            _ => None,
        })
        .collect();
    let list = AttributeValue::Strings(vec!["a".to_owned(), "b".to_owned()]);
    for value in [AttributeValue::String("a".to_owned()), list, AttributeValue::Bool(true)] {
        let attributes: BTreeMap<_, _> = names.iter().map(|name| ((*name).clone(), value.clone())).collect();
        lower::lower(root, &Caller { username: "a".to_owned(), roles: ["a".to_owned()].into(), attributes })?;
    }
    Ok(())
}

struct Checker<'a> {
    parsed: &'a Parsed<'a>,
    model: &'a AccessModel,
    errors: Vec<Diagnostic>,
    /// Variables of the macros around the current expression, innermost last.
    scope: Vec<(String, u32, Type)>,
    variables: u32,
}

impl Checker<'_> {
    /// Reports an error; `None`, so that callers can return it.
    fn refuse<T>(
        &mut self,
        node: &IdedExpr,
        code: &'static str,
        message: impl Into<String>,
        hint: &str,
    ) -> Option<T> {
        let mut error = Diagnostic::new(self.parsed.text, self.parsed.span(node), code, message);
        if !hint.is_empty() {
            error = error.with_hint(hint);
        }
        self.errors.push(error);
        None
    }

    fn typed(&self, node: &IdedExpr, ty: Type, kind: Kind) -> Node {
        Node { kind, ty, span: self.parsed.span(node) }
    }

    /// An expression that must be a boolean.
    fn condition(&mut self, node: &IdedExpr, place: &str) -> Option<Node> {
        let checked = self.expression(node)?;
        if checked.ty.may_be(Type::Bool) {
            return Some(checked);
        }
        let message = format!("{place} must be a boolean, this is {}", checked.ty.name());
        self.refuse(node, "type_mismatch", message, "compare it with something, for instance with `==`")
    }

    fn expression(&mut self, node: &IdedExpr) -> Option<Node> {
        match &node.expr {
            Expr::Literal(literal) => self.literal(node, literal),
            Expr::List(list) => {
                let elements: Vec<Option<Node>> =
                    list.elements.iter().map(|element| self.expression(element)).collect();
                let elements: Vec<Node> = elements.into_iter().collect::<Option<_>>()?;
                Some(self.typed(node, Type::List, Kind::List(elements)))
            }
            Expr::Ident(_) | Expr::Select(_) => self.name(node),
            Expr::Call(call) => self.call(node, call),
            Expr::Map(_) | Expr::Struct(_) => {
                self.refuse(node, "unsupported", "maps and messages cannot be written in a policy", "")
            }
            Expr::Comprehension(_) | Expr::Unspecified => {
                self.refuse(node, "unsupported", "this is not supported in a policy", "")
            }
        }
    }

    fn literal(&mut self, node: &IdedExpr, literal: &LiteralValue) -> Option<Node> {
        let (ty, known) = match literal {
            LiteralValue::Boolean(value) => (Type::Bool, Known::Bool(*value.inner())),
            LiteralValue::String(text) => (Type::Text, Known::Text(text.inner().to_owned())),
            LiteralValue::Int(value) => (Type::Int, Known::Int(*value.inner())),
            LiteralValue::Null => {
                let hint = "to ask whether a key is present, write `\"key\" in SpanAttributes`";
                return self.refuse(node, "unsupported", "`null` is not supported in a policy", hint);
            }
            LiteralValue::Bytes(_) => {
                return self.refuse(
                    node,
                    "unsupported",
                    "bytes are not supported in a policy",
                    "write a string without `b`",
                );
            }
            LiteralValue::Double(_) | LiteralValue::UInt(_) => {
                let hint = "only integers without suffix, compared with `size(…)`, can be used";
                return self.refuse(
                    node,
                    "unsupported",
                    "this kind of number is not supported in a policy",
                    hint,
                );
            }
        };
        Some(self.typed(node, ty, Kind::Known(known)))
    }

    fn call(&mut self, node: &IdedExpr, call: &cel::common::ast::CallExpr) -> Option<Node> {
        let name = call.func_name.as_str();
        match (name, call.target.as_deref(), call.args.as_slice()) {
            (operators::LOGICAL_NOT, None, [inner]) => {
                let inner = self.condition(inner, "the operand of `!`")?;
                Some(self.typed(node, Type::Bool, Kind::Not(Box::new(inner))))
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR, None, [left, right]) => {
                let place =
                    if name == operators::LOGICAL_AND { "an operand of `&&`" } else { "an operand of `||`" };
                let (left, right) = (self.condition(left, place), self.condition(right, place));
                let (left, right) = (Box::new(left?), Box::new(right?));
                let kind = if name == operators::LOGICAL_AND {
                    Kind::And(left, right)
                } else {
                    Kind::Or(left, right)
                };
                Some(self.typed(node, Type::Bool, kind))
            }
            (operators::CONDITIONAL, None, [condition, yes, no]) => {
                let condition = self.condition(condition, "the condition of `?:`");
                let (yes_node, no_node) = (self.expression(yes), self.expression(no));
                let (condition, yes_node, no_node) = (condition?, yes_node?, no_node?);
                if !yes_node.ty.may_be(no_node.ty) {
                    let message = format!(
                        "the branches of `?:` differ: {} and {}",
                        yes_node.ty.name(),
                        no_node.ty.name()
                    );
                    return self.refuse(node, "type_mismatch", message, "");
                }
                let ty = if yes_node.ty == no_node.ty { yes_node.ty } else { Type::Dynamic };
                let kind = Kind::Conditional(Box::new(condition), Box::new(yes_node), Box::new(no_node));
                Some(self.typed(node, ty, kind))
            }
            (operators::NEGATE, None, [inner]) => match &inner.expr {
                Expr::Literal(LiteralValue::Int(value)) => {
                    let negated = value.inner().checked_neg().unwrap_or(i64::MIN);
                    Some(self.typed(node, Type::Int, Kind::Known(Known::Int(negated))))
                }
                _ => self.refuse(node, "unsupported", "arithmetic is not supported in a policy", ""),
            },
            (operators::INDEX, None, [container, key]) => self.index(node, container, key),
            (operators::IN, None, [needle, haystack]) => self.membership(node, needle, haystack),
            (operators::EQUALS, None, [left, right]) => self.comparison(node, Relation::Eq, left, right),
            (operators::NOT_EQUALS, None, [left, right]) => self.comparison(node, Relation::Ne, left, right),
            (operators::LESS, None, [left, right]) => self.comparison(node, Relation::Lt, left, right),
            (operators::LESS_EQUALS, None, [left, right]) => self.comparison(node, Relation::Le, left, right),
            (operators::GREATER, None, [left, right]) => self.comparison(node, Relation::Gt, left, right),
            (operators::GREATER_EQUALS, None, [left, right]) => {
                self.comparison(node, Relation::Ge, left, right)
            }
            (
                operators::ADD
                | operators::SUBSTRACT
                | operators::MULTIPLY
                | operators::DIVIDE
                | operators::MODULO,
                ..,
            ) => {
                let hint = "compare the parts one by one, or store what you need as a user attribute";
                self.refuse(
                    node,
                    "unsupported",
                    "arithmetic and concatenation are not supported in a policy",
                    hint,
                )
            }
            (_, target, arguments) => self.function(node, name, target, arguments),
        }
    }

    fn comparison(
        &mut self,
        node: &IdedExpr,
        relation: Relation,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Option<Node> {
        let (left_node, right_node) = (self.expression(left), self.expression(right));
        let (left_node, right_node) = (left_node?, right_node?);
        let (left_ty, right_ty) = (left_node.ty, right_node.ty);
        if !left_ty.may_be(right_ty) {
            let message = format!("{} is compared with {}", left_ty.name(), right_ty.name());
            let hint = match (left_ty, right_ty) {
                (Type::List, Type::Text) | (Type::Text, Type::List) => {
                    "to look for an element, write `x in list`"
                }
                (Type::Text, Type::Int) | (Type::Int, Type::Text) => {
                    "put the number in quotes, or compare `size(…)`"
                }
                (Type::Bool, Type::Text) | (Type::Text, Type::Bool) => {
                    "write `true` or `false` without quotes for a boolean"
                }
                _ => "",
            };
            return self.refuse(node, "type_mismatch", message, hint);
        }
        let ordered = |ty| matches!(ty, Type::Text | Type::Int | Type::Dynamic);
        let needs_order = !matches!(relation, Relation::Eq | Relation::Ne);
        if needs_order && !(ordered(left_ty) && ordered(right_ty)) {
            let message =
                format!("{} has no order", if ordered(left_ty) { right_ty.name() } else { left_ty.name() });
            return self.refuse(node, "type_mismatch", message, "only strings and sizes can be ordered");
        }
        let kind = Kind::Compare(relation, Box::new(left_node), Box::new(right_node));
        Some(self.typed(node, Type::Bool, kind))
    }

    fn membership(&mut self, node: &IdedExpr, needle: &IdedExpr, haystack: &IdedExpr) -> Option<Node> {
        if let Some(map) = self.map_named(haystack) {
            let Some(key) = text_literal(needle) else {
                let hint = format!("write `\"key\" in {map}`");
                return self.refuse(
                    needle,
                    "unsupported",
                    "the key of a map must be a string literal",
                    &hint,
                );
            };
            let field = self.key(node, &map, key)?;
            return Some(self.typed(node, Type::Bool, Kind::HasKey(field)));
        }
        if names::is_user_attributes(haystack) {
            let Some(key) = text_literal(needle) else {
                let hint = "write `\"team\" in user.attributes`";
                return self.refuse(
                    needle,
                    "unsupported",
                    "the name of an attribute must be a string literal",
                    hint,
                );
            };
            return Some(self.typed(node, Type::Bool, Kind::HasAttribute(key.to_owned())));
        }
        let (needle_node, haystack_node) = (self.expression(needle), self.expression(haystack));
        let (needle_node, haystack_node) = (needle_node?, haystack_node?);
        if !haystack_node.ty.may_be(Type::List) {
            let message = format!("`in` looks into a list or a map, this is {}", haystack_node.ty.name());
            let hint = if haystack_node.ty == Type::Text {
                "to look into a string, write `x.contains(…)`"
            } else {
                ""
            };
            return self.refuse(haystack, "type_mismatch", message, hint);
        }
        let possible = match &haystack_node.kind {
            Kind::List(elements) => {
                elements.is_empty() || elements.iter().any(|element| element.ty.may_be(needle_node.ty))
            }
            Kind::Field(_) | Kind::Roles => needle_node.ty.may_be(Type::Text),
            _ => true,
        };
        if !possible {
            let message = format!("{} is never in this list", needle_node.ty.name());
            return self.refuse(node, "type_mismatch", message, "");
        }
        Some(self.typed(node, Type::Bool, Kind::In(Box::new(needle_node), Box::new(haystack_node))))
    }

    fn key(&mut self, node: &IdedExpr, map: &str, key: &str) -> Option<Arc<MarkedField>> {
        self.marked(node, &tracewarden_model::FieldRef::key(map, key))
    }
}

/// The text of a string literal.
fn text_literal(node: &IdedExpr) -> Option<&str> {
    match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

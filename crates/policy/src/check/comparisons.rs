//! Operators: checks the types of operands, and suggests what was probably intended if they are wrong.

use std::sync::Arc;

use cel::IdedExpr;
use cel::common::ast::{Expr, LiteralValue, operators};
use tracewarden_model::claims::claim_reference;
use tracewarden_model::field::escape;
use tracewarden_model::{FieldRef, MarkedField};

use crate::check::Checker;
use crate::expression::{Constant, Kind, Node, Type};
use crate::predicate::Relation;
use crate::syntax_tree::{claim_path, index, is_null_keyword, is_user_attributes, path, text_literal};

impl Checker<'_> {
    pub(super) fn junction(
        &mut self,
        node: &IdedExpr,
        conjunction: bool,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Option<Node> {
        let operator = if conjunction { "&&" } else { "||" };
        let subject_name = format!("an operand of `{operator}`");
        let left_node = self.condition(left, &subject_name);
        let right_node = match self.suggest().repeated_comparison(conjunction, left, right) {
            Some(hint) => {
                let message = format!("{subject_name} must be a boolean, this is a string");
                self.refuse(right, "type_mismatch", message, &hint)
            }
            None => self.condition(right, &subject_name),
        };
        let (left, right) = (Box::new(left_node?), Box::new(right_node?));
        let kind = if conjunction { Kind::And(left, right) } else { Kind::Or(left, right) };
        Some(self.typed(node, Type::Bool, kind))
    }

    pub(super) fn conditional(
        &mut self,
        node: &IdedExpr,
        condition: &IdedExpr,
        yes: &IdedExpr,
        no: &IdedExpr,
    ) -> Option<Node> {
        let condition = self.condition(condition, "the condition of `?:`");
        let (yes_node, no_node) = (self.expression(yes), self.expression(no));
        let (condition, yes_node, no_node) = (condition?, yes_node?, no_node?);
        if !yes_node.ty.may_be(no_node.ty) {
            let message = format!(
                "the branches of `?:` must be of one type: {}, {}",
                self.parsed.describe_operand(yes, &yes_node),
                self.parsed.describe_operand(no, &no_node)
            );
            let hint = "give both branches the same type, for instance compare in each of them";
            return self.refuse(node, "type_mismatch", message, hint);
        }
        let ty = if yes_node.ty == no_node.ty { yes_node.ty } else { Type::Dynamic };
        let kind = Kind::Conditional(Box::new(condition), Box::new(yes_node), Box::new(no_node));
        Some(self.typed(node, ty, kind))
    }

    pub(super) fn comparison(
        &mut self,
        node: &IdedExpr,
        relation: Relation,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Option<Node> {
        if self.rejects_negated_operand(node, left) {
            return None;
        }
        match (self.is_null(left), self.is_null(right)) {
            (true, false) => return self.reject_null_comparison(node, relation, right),
            (false, true) => return self.reject_null_comparison(node, relation, left),
            _ => {}
        }
        let (left_node, right_node) = (self.expression(left), self.expression(right));
        let (left_node, right_node) = (left_node?, right_node?);
        let (left_ty, right_ty) = (left_node.ty, right_node.ty);
        if !left_ty.may_be(right_ty) {
            let message = format!(
                "{}, {}",
                self.parsed.describe_operand(left, &left_node),
                self.parsed.describe_operand(right, &right_node)
            );
            let message = format!("values of different types are compared: {message}");
            let hint = self.suggest().same_type(relation, (left, &left_node), (right, &right_node));
            return self.refuse(node, "type_mismatch", message, &hint);
        }
        let ordered = |ty| matches!(ty, Type::Text | Type::Int | Type::Dynamic);
        let needs_order = !matches!(relation, Relation::Eq | Relation::Ne);
        if needs_order && !(ordered(left_ty) && ordered(right_ty)) {
            let (side, checked) = if ordered(left_ty) { (right, &right_node) } else { (left, &left_node) };
            let message = format!(
                "only strings and sizes have an order: {}",
                self.parsed.describe_operand(side, checked)
            );
            let hint = match checked.ty {
                Type::List => {
                    let list = self.parsed.snippet(side).unwrap_or("list");
                    format!("compare its length, as in `size({list}) {} 1`", relation.symbol())
                }
                _ => "booleans are compared with `==` and `!=`".to_owned(),
            };
            return self.refuse(node, "type_mismatch", message, &hint);
        }
        let kind = Kind::Compare(relation, Box::new(left_node), Box::new(right_node));
        Some(self.typed(node, Type::Bool, kind))
    }

    fn reject_null_comparison(
        &mut self,
        node: &IdedExpr,
        relation: Relation,
        other: &IdedExpr,
    ) -> Option<Node> {
        let message = "nothing is compared with `null` in a policy";
        let hint = match (self.suggest().presence(other), relation) {
            (Some(presence), Relation::Ne) => format!("to test whether it is present, write `{presence}`"),
            (Some(presence), _) => format!("to test whether it is absent, write `!({presence})`"),
            (None, _) => {
                "a column that is NULL satisfies no condition on it: leave the comparison out".to_owned()
            }
        };
        self.refuse(node, "unsupported", message, &hint)
    }

    pub(super) fn membership(
        &mut self,
        node: &IdedExpr,
        needle: &IdedExpr,
        haystack: &IdedExpr,
    ) -> Option<Node> {
        if self.rejects_negated_operand(node, needle) {
            return None;
        }
        if self.scope.reads_claims
            && let (Some(claim), Some([])) = (text_literal(needle), claim_path(haystack).as_deref())
        {
            return Some(self.typed(node, Type::Bool, Kind::HasAttribute(claim_reference([claim]))));
        }
        // A column may have the same name, but in a policy it refers to the user.
        let of_user = is_user_attributes(haystack);
        let user_attributes = || "user.attributes".to_owned();
        let map = if of_user { Some(user_attributes()) } else { self.scope.map_named(haystack) };
        if let Some(map) = map {
            let Some(key) = text_literal(needle) else {
                let hint = match &needle.expr {
                    Expr::Ident(name) if !self.scope.is_known(name) => format!("write `\"{name}\" in {map}`"),
                    _ if of_user => format!("write `\"team\" in {map}`"),
                    _ => {
                        match self.scope.policy_fields().find(|field| field.field.map.as_ref() == Some(&map))
                        {
                            Some(field) => {
                                format!("write for instance `\"{}\" in {map}`", escape(&field.field.name))
                            }
                            None => format!("write `\"…\" in {map}`"),
                        }
                    }
                };
                let subject = if of_user { "the name of an attribute" } else { "the key of a map" };
                let message = format!("{subject} must be a string literal");
                return self.refuse(needle, "unsupported", message, &hint);
            };
            let kind = match of_user {
                true => Kind::HasAttribute(key.to_owned()),
                false => Kind::HasKey(self.key(node, &map, key)?),
            };
            return Some(self.typed(node, Type::Bool, kind));
        }
        if let Some(map) =
            self.scope.map_named(needle).or_else(|| is_user_attributes(needle).then(user_attributes))
            && text_literal(haystack).is_some()
        {
            let message = "`in` looks for its left side in its right side, here they are the other way round";
            let hint = format!("write `{} in {map}`", self.parsed.operand(haystack, "\"key\""));
            return self.refuse(node, "type_mismatch", message, &hint);
        }
        let (needle_node, haystack_node) = (self.expression(needle), self.expression(haystack));
        let (needle_node, haystack_node) = (needle_node?, haystack_node?);
        if !haystack_node.ty.may_be(Type::List) {
            let message = format!(
                "`in` looks into a list or a map, {}",
                self.parsed.describe_operand(haystack, &haystack_node).replace("one side is", "this is")
            );
            let (needle_text, into) = (self.parsed.operand(needle, "x"), self.parsed.operand(haystack, "y"));
            let hint = match (needle_node.ty, haystack_node.ty, &haystack_node.kind) {
                (Type::List, ..) => format!("the list belongs on the right: write `{into} in {needle_text}`"),
                (_, Type::Text, Kind::Constant(_)) => format!("write a list: `{needle_text} in [{into}]`"),
                (_, Type::Text, _) => {
                    format!("to look into a string, write `{into}.contains({needle_text})`")
                }
                _ => format!("write a list: `{needle_text} in [\"…\"]`"),
            };
            return self.refuse(haystack, "type_mismatch", message, &hint);
        }
        // An element of another type can never be found, so it has no effect.
        if let (Kind::List(elements), Expr::List(list)) = (&haystack_node.kind, &haystack.expr)
            && elements.iter().any(|element| element.ty.may_be(needle_node.ty))
            && let Some((mismatched, written)) =
                elements.iter().zip(&list.elements).find(|(element, _)| !element.ty.may_be(needle_node.ty))
        {
            let message = format!("{} is looked for, and this element is {}", needle_node.ty, mismatched.ty);
            let hint = match (&mismatched.kind, needle_node.ty) {
                (Kind::Constant(Constant::Int(_) | Constant::Bool(_)), Type::Text) => {
                    format!("put it in quotes: `\"{}\"`", self.parsed.snippet(written).unwrap_or("1"))
                }
                _ => "leave it out, or compare it by itself".to_owned(),
            };
            return self.refuse(written, "type_mismatch", message, &hint);
        }
        // The type of the elements, if none of them can be equal.
        let element_type = match &haystack_node.kind {
            Kind::List(elements) if elements.iter().any(|element| element.ty.may_be(needle_node.ty)) => None,
            Kind::List(elements) => elements.first().map(|element| element.ty),
            Kind::Field(_) | Kind::Roles if !needle_node.ty.may_be(Type::Text) => Some(Type::Text),
            _ => None,
        };
        if let Some(element_type) = element_type {
            let message = format!(
                "{} is looked for in a list of {}",
                needle_node.ty,
                match element_type {
                    Type::Bool => "booleans",
                    Type::Int => "integers",
                    Type::List => "lists",
                    Type::Text | Type::Dynamic => "strings",
                }
            );
            let into = self.parsed.operand(haystack, "list");
            let hint = match (needle_node.ty, element_type) {
                (Type::List, Type::Text) => {
                    let list = self.parsed.operand(needle, "list");
                    format!(
                        "to test whether any of its elements is in the list, write `{list}.exists(v, v in \
                         {into})`"
                    )
                }
                (Type::Int, Type::Text) if matches!(needle_node.kind, Kind::Constant(_)) => {
                    format!("put the number in quotes: `\"{}\" in {into}`", self.parsed.operand(needle, "1"))
                }
                (Type::Text, Type::Int) => "put the numbers in quotes".to_owned(),
                _ => "look for a value of the type that the elements have".to_owned(),
            };
            return self.refuse(node, "type_mismatch", message, &hint);
        }
        Some(self.typed(node, Type::Bool, Kind::In(Box::new(needle_node), Box::new(haystack_node))))
    }

    /// Rejects arithmetic. Often it is really a name with a hyphen, or text concatenation.
    pub(super) fn arithmetic(
        &mut self,
        node: &IdedExpr,
        left: Option<&IdedExpr>,
        right: &IdedExpr,
    ) -> Option<Node> {
        let text = self.parsed.snippet(node).unwrap_or_default();
        let hyphened = left.is_some()
            && text.contains('-')
            && text
                .split(['.', '-'])
                .all(|part| !part.is_empty() && part.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()));
        if hyphened {
            let hint = self.suggest().quotes(text);
            return self.refuse(node, "unsupported", "`-` is not part of a name", &hint);
        }
        if text.contains("--") {
            let hint = "a comment begins with `//`";
            return self.refuse(node, "unsupported", "`--` is not allowed here", hint);
        }
        let hint = match (left, &right.expr) {
            (Some(left), Expr::Literal(LiteralValue::String(_))) if text_literal(left).is_some() => {
                "write the text as one literal"
            }
            (Some(_), _) => "compare the parts one by one, or store what you need as a user attribute",
            (None, _) => "write the comparison the other way round",
        };
        self.refuse(node, "unsupported", "arithmetic and concatenation are not supported in a policy", hint)
    }

    /// Whether this is `null`, or its name in another language.
    fn is_null(&self, node: &IdedExpr) -> bool {
        match &node.expr {
            Expr::Literal(LiteralValue::Null) => true,
            Expr::Ident(name) => is_null_keyword(name) && !self.scope.is_known(name),
            _ => false,
        }
    }

    /// For `!x == y` where `x` is not a boolean, suggests negating the whole comparison. Only for operands that are
    /// cheap to inspect: a name, a key or a literal.
    fn suggest_whole_negation(&mut self, node: &IdedExpr, left: &IdedExpr) -> Option<String> {
        let Expr::Call(call) = &left.expr else { return None };
        let [inner] = call.args.as_slice() else { return None };
        if call.func_name != operators::LOGICAL_NOT || call.target.is_some() {
            return None;
        }
        let simple = match &inner.expr {
            Expr::Literal(_) => true,
            _ => path(index(inner).map_or(inner, |(container, _)| container)).is_some(),
        };
        if !simple {
            return None;
        }
        let before = self.errors.len();
        let checked = self.expression(inner);
        self.errors.truncate(before);
        if checked?.ty.may_be(Type::Bool) {
            return None;
        }
        let whole = self.parsed.snippet(node)?.strip_prefix('!')?;
        Some(format!("to negate the whole, write `!({})`", whole.trim()))
    }

    /// Rejects `!x == y` where `x` is not a boolean, and returns whether it is that.
    fn rejects_negated_operand(&mut self, node: &IdedExpr, left: &IdedExpr) -> bool {
        let Some(hint) = self.suggest_whole_negation(node, left) else { return false };
        let side = self.parsed.snippet(left).unwrap_or("!x");
        let message = format!("`!` is applied before the operator: `{side}` is not a boolean");
        self.refuse::<()>(node, "type_mismatch", message, &hint);
        true
    }

    pub(super) fn key(&mut self, node: &IdedExpr, map: &str, key: &str) -> Option<Arc<MarkedField>> {
        self.resolve_policy_field(node, &FieldRef::key(map, key))
    }
}

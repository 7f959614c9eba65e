//! Suggestions for operands of operators that have the wrong type.

use cel::IdedExpr;
use cel::common::ast::{Expr, operators};
use tracewarden_model::FieldRef;

use crate::check::suggestions::Suggester;
use crate::expression::{Constant, Kind, Node, Type};
use crate::predicate::Relation;
use crate::syntax_tree::text_literal;

const ORDER_OPERATORS: [&str; 4] =
    [operators::LESS, operators::LESS_EQUALS, operators::GREATER, operators::GREATER_EQUALS];

impl Suggester<'_> {
    /// Suggests a correction for `x == "a" || "b"`, which users write for a list of alternatives.
    pub(in crate::check) fn repeated_comparison(
        &self,
        conjunction: bool,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Option<String> {
        text_literal(right)?;
        let Expr::Call(call) = &left.expr else { return None };
        let [subject, first] = call.args.as_slice() else { return None };
        let (subject, again) = (self.parsed.snippet(subject)?, self.parsed.snippet(right)?);
        match call.func_name.as_str() {
            operators::EQUALS if !conjunction && text_literal(first).is_some() => {
                Some(format!("write `{subject} in [{}, {again}]`", self.parsed.snippet(first)?))
            }
            operators::EQUALS => Some(format!("write `{subject} == {again}`")),
            operators::NOT_EQUALS => Some(format!("write `{subject} != {again}`")),
            _ => None,
        }
    }

    /// Suggests what was probably intended by a comparison of values of different types.
    pub(in crate::check) fn same_type(
        &self,
        relation: Relation,
        (left, left_node): (&IdedExpr, &Node),
        (right, right_node): (&IdedExpr, &Node),
    ) -> String {
        let operator_symbol = relation.symbol();
        let equality = matches!(relation, Relation::Eq | Relation::Ne);
        let not = |positive: String| match relation {
            Relation::Ne => format!("!({positive})"),
            _ => positive,
        };
        // Returns both sides ordered by type, exchanged if necessary.
        let sides = |first: Type, second: Type| match (left_node.ty, right_node.ty) {
            (a, b) if a == first && b == second => Some(((left, left_node), (right, right_node))),
            (a, b) if b == first && a == second => Some(((right, right_node), (left, left_node))),
            _ => None,
        };
        if let Some(((list, list_node), (element, element_node))) = sides(Type::List, Type::Text)
            && equality
        {
            // `x == ["a", "b"]` means one of the elements; `list == x` means an element.
            let known = matches!(element_node.kind, Kind::Constant(_));
            let about =
                if matches!(list_node.kind, Kind::List(_)) && !known { "one of them" } else { "an element" };
            let inside =
                format!("{} in {}", self.parsed.operand(element, "x"), self.parsed.operand(list, "list"));
            return format!("to look for {about}, write `{}`", not(inside));
        }
        if let Some(((size, _), _)) = sides(Type::Int, Type::List) {
            let list = if std::ptr::eq(size, left) { right } else { left };
            let other = self.parsed.operand(size, "1");
            return format!(
                "compare its length: `size({}) {operator_symbol} {other}`",
                self.parsed.snippet(list).unwrap_or("list")
            );
        }
        if let Some(((number, number_node), (text, _))) = sides(Type::Int, Type::Text) {
            let (number, text) = (self.parsed.operand(number, "1"), self.parsed.operand(text, "x"));
            return match number_node.kind {
                Kind::Constant(_) if equality => {
                    format!("put the number in quotes: `{text} {operator_symbol} \"{number}\"`")
                }
                Kind::Constant(_) => {
                    format!("to compare its length, write `size({text}) {operator_symbol} {number}`")
                }
                _ => "a size is compared with a number without quotes".to_owned(),
            };
        }
        if let Some(((truth, truth_node), (text, text_node))) = sides(Type::Bool, Type::Text) {
            return match (&truth_node.kind, &text_node.kind) {
                (Kind::Constant(Constant::Bool(value)), _) => {
                    format!(
                        "it is a string: write `{} {operator_symbol} \"{value}\"`",
                        self.parsed.operand(text, "x")
                    )
                }
                (_, Kind::Constant(Constant::Text(value))) if value == "true" || value == "false" => {
                    let positive = (value == "true") == (relation == Relation::Eq);
                    let truth = self.parsed.operand(truth, "x");
                    let written = if positive { truth } else { format!("!{truth}") };
                    format!("a boolean has no quotes, and needs no comparison: write `{written}`")
                }
                _ => {
                    "compare each of them with a value of its own type, and join the two with `&&`".to_owned()
                }
            };
        }
        if let Some(((_, number_node), (truth, _))) = sides(Type::Int, Type::Bool)
            && let Kind::Constant(Constant::Int(number @ (0 | 1))) = &number_node.kind
            && equality
        {
            let positive = (*number == 1) == (relation == Relation::Eq);
            let truth = self.parsed.operand(truth, "x");
            let written = if positive { truth } else { format!("!{truth}") };
            return format!("a boolean needs no comparison: write `{written}`");
        }
        if let Some(((number, _), (truth, _))) = sides(Type::Int, Type::Bool)
            && let Expr::Call(call) = &truth.expr
            && ORDER_OPERATORS.contains(&call.func_name.as_str())
            && let [_, middle] = call.args.as_slice()
        {
            // `1 < size(x) < 5`
            let (first, middle) =
                (self.parsed.snippet(truth).unwrap_or("a < b"), self.parsed.operand(middle, "b"));
            return format!(
                "compare one by one: `{first} && {middle} {operator_symbol} {}`",
                self.parsed.operand(number, "c")
            );
        }
        "compare each of them with a value of its own type".to_owned()
    }

    /// Suggests the form with quotes of a name with a hyphen: an attribute of the caller, a key, or a text.
    pub(in crate::check) fn quotes(&self, text: &str) -> String {
        if let Some(attribute) = text.strip_prefix("user.attributes.") {
            return format!("a name with a hyphen is written in quotes: `user.attributes[\"{attribute}\"]`");
        }
        let key = text.split_once('.').filter(|(map, _)| self.scope.source_of(map).is_some());
        let wanted = match key {
            Some((map, key)) => FieldRef::key(map, key),
            None => FieldRef::column(text),
        };
        if self.scope.model.field(&wanted).is_none()
            && let Some(name) = self.same_letters(&wanted).first()
        {
            return format!("a name with a hyphen is written in quotes: did you mean `{name}`?");
        }
        match key {
            Some(_) => format!("a name with a hyphen is written in quotes: `{wanted}`"),
            None => format!("if it is text, put it in quotes: `\"{text}\"`"),
        }
    }
}

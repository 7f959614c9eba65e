//! The type checker. Every name must be a marked field or belong to the caller, and every operand must have a
//! supported type.

mod calls;
mod claims;
mod comparisons;
mod names;
mod scope;
mod snippets;
mod suggestions;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use cel::IdedExpr;
use cel::common::ast::{Expr, LiteralValue, operators};
use tracewarden_model::{AccessModel, AttributeValue, Caller};

use crate::diagnostics::Diagnostic;
use crate::expression::{Constant, Kind, Node, Type};
use crate::lint;
use crate::lower::{self, TooLarge};
use crate::parse::{Parsed, on_deep_stack, parse};
use crate::predicate::work::Budget;
use crate::predicate::{Predicate, Relation};
use crate::syntax_errors::SuggestionCheck;

pub use claims::{CheckedMapping, MappedAccess, MappingError, UnmappedRule, check_mapping};
use scope::Scope;
use suggestions::Suggester;

/// A policy that is valid under one access model.
#[derive(Debug, Clone)]
pub struct CheckedPolicy {
    pub(crate) text: Arc<str>,
    pub(crate) root: Node,
    /// Computed on first use, because access decisions need no advice.
    warnings: OnceLock<Vec<Diagnostic>>,
}

impl CheckedPolicy {
    /// Returns the names of the marked fields that the policy uses, as users write them, sorted.
    pub fn fields(&self) -> Vec<String> {
        let mut names: Vec<String> = self.root.fields().iter().map(|field| field.field.to_string()).collect();
        names.sort();
        names
    }

    /// Returns advice. Warnings do not prevent storing the policy.
    pub fn warnings(&self) -> &[Diagnostic] {
        self.warnings.get_or_init(|| lint::warnings(&self.text, &self.root))
    }

    /// Returns the predicate that a span must satisfy for this caller; `None` if it is too large to send to
    /// ClickHouse.
    pub fn predicate(&self, caller: &Caller) -> Option<Predicate> {
        lower::lower(&self.root, caller, &Budget::of(lower::MAX_WORK)).ok()
    }
}

/// Checks a policy against the access model.
///
/// # Errors
/// All errors found, each with its position in the text; never empty.
pub fn check(expression: &str, model: &AccessModel) -> Result<CheckedPolicy, Vec<Diagnostic>> {
    on_deep_stack("checked", || check_on_current_stack(expression, model))?
}

/// Runs [`check`] on the current stack.
pub(crate) fn check_on_current_stack(
    expression: &str,
    model: &AccessModel,
) -> Result<CheckedPolicy, Vec<Diagnostic>> {
    let check_suggestion = |text: &str| match checked(text, model, &|_| Err(None)) {
        Ok(_) => Ok(()),
        Err(errors) => {
            let first = errors.into_iter().next().filter(|error| error.code == "type_mismatch");
            Err(first.and_then(|error| error.hint))
        }
    };
    checked(expression, model, &check_suggestion)
}

fn checked(
    expression: &str,
    model: &AccessModel,
    check_suggestion: &SuggestionCheck<'_>,
) -> Result<CheckedPolicy, Vec<Diagnostic>> {
    let parsed = parse(expression, check_suggestion)?;
    let mut checker = Checker { parsed: &parsed, scope: Scope::new(model), errors: Vec::new() };
    let root = checker.condition(&parsed.root, "a policy");
    let Some(root) = root.filter(|_| checker.errors.is_empty()) else {
        checker.errors.sort_by_key(|error| (error.line, error.column));
        return Err(checker.errors);
    };
    if let Err(TooLarge) = worst_case_size(&root) {
        let message = "the policy is too large when it is compiled for ClickHouse";
        return Err(vec![
            Diagnostic::new(expression, root.span, "too_large", message)
                .with_hint("nest fewer conditionals and macros, or split the policy in several"),
        ]);
    }
    Ok(CheckedPolicy { text: expression.into(), root, warnings: OnceLock::new() })
}

/// Lowers the policy for synthetic callers, because the attributes of real callers are known only at request time. A
/// policy that is too large even for small lists is rejected when it is saved, not when a user waits for a response.
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
    let budget = Budget::of(lower::MAX_WORK_OF_SMALL_LISTS);
    for value in [AttributeValue::String("a".to_owned()), list, AttributeValue::Bool(true)] {
        let attributes: BTreeMap<_, _> = names.iter().map(|name| ((*name).clone(), value.clone())).collect();
        let caller = Caller { username: "a".to_owned(), roles: ["a".to_owned()].into(), attributes };
        lower::lower(root, &caller, &budget)?;
        // Without attributes all synthetic callers give the same result.
        if names.is_empty() {
            break;
        }
    }
    Ok(())
}

struct Checker<'a> {
    parsed: &'a Parsed<'a>,
    scope: Scope<'a>,
    errors: Vec<Diagnostic>,
}

impl Checker<'_> {
    /// Writes suggestions about the names that are known at the current expression.
    fn suggest(&self) -> Suggester<'_> {
        Suggester { parsed: self.parsed, scope: &self.scope }
    }

    /// Reports an error. Returns `None`, so that callers can return it.
    fn refuse<T>(
        &mut self,
        node: &IdedExpr,
        code: &'static str,
        message: impl Into<String>,
        hint: &str,
    ) -> Option<T> {
        let error = Diagnostic::new(self.parsed.text, self.parsed.span(node), code, message);
        self.errors.push(error.with_hint(hint));
        None
    }

    fn typed(&self, node: &IdedExpr, ty: Type, kind: Kind) -> Node {
        Node { kind, ty, span: self.parsed.span(node) }
    }

    /// Checks an expression that must be a boolean.
    fn condition(&mut self, node: &IdedExpr, subject_name: &str) -> Option<Node> {
        let checked = self.expression(node)?;
        if checked.ty.may_be(Type::Bool) {
            return Some(checked);
        }
        let hint = self.suggest().condition(node, &checked);
        let message = format!("{subject_name} must be a boolean, this is {}", checked.ty);
        self.refuse(node, "type_mismatch", message, &hint)
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
                let hint = "write a list in square brackets, or a user attribute";
                self.refuse(node, "unsupported", "maps and messages cannot be written in a policy", hint)
            }
            Expr::Comprehension(_) | Expr::Unspecified => {
                self.refuse(node, "unsupported", "this is not supported in a policy", "")
            }
        }
    }

    fn literal(&mut self, node: &IdedExpr, literal: &LiteralValue) -> Option<Node> {
        let (ty, known) = match literal {
            LiteralValue::Boolean(value) => (Type::Bool, Constant::Bool(*value.inner())),
            LiteralValue::String(text) => (Type::Text, Constant::Text(text.inner().to_owned())),
            LiteralValue::Int(value) => (Type::Int, Constant::Int(*value.inner())),
            LiteralValue::Null => {
                let hint = self.suggest().key_test();
                return self.refuse(node, "unsupported", "`null` is not supported in a policy", &hint);
            }
            LiteralValue::Bytes(_) => {
                let hint = match self.parsed.snippet(node).and_then(|text| text.strip_prefix(['b', 'B'])) {
                    Some(text) => format!("write a string: `{text}`"),
                    None => "write a string, without `b` before it".to_owned(),
                };
                return self.refuse(node, "unsupported", "bytes are not supported in a policy", &hint);
            }
            LiteralValue::Double(_) | LiteralValue::UInt(_) => {
                let whole: String =
                    self.parsed.text_of(node).chars().take_while(char::is_ascii_digit).collect();
                let hint = match whole.as_str() {
                    "" => "write an integer, to compare with `size(…)`".to_owned(),
                    whole => format!("write an integer, to compare with `size(…)`: `{whole}`"),
                };
                let message = "only integers without a suffix are supported in a policy";
                return self.refuse(node, "unsupported", message, &hint);
            }
        };
        Some(self.typed(node, ty, Kind::Constant(known)))
    }

    fn call(&mut self, node: &IdedExpr, call: &cel::common::ast::CallExpr) -> Option<Node> {
        let name = call.func_name.as_str();
        match (name, call.target.as_deref(), call.args.as_slice()) {
            (operators::LOGICAL_NOT, None, [inner]) => {
                let inner = self.condition(inner, "the operand of `!`")?;
                Some(self.typed(node, Type::Bool, Kind::Not(Box::new(inner))))
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR, None, [left, right]) => {
                self.junction(node, name == operators::LOGICAL_AND, left, right)
            }
            (operators::CONDITIONAL, None, [condition, yes, no]) => {
                self.conditional(node, condition, yes, no)
            }
            (operators::NEGATE, None, [inner]) => match &inner.expr {
                Expr::Literal(LiteralValue::Int(value)) => match value.inner().checked_neg() {
                    Some(negated) => {
                        Some(self.typed(node, Type::Int, Kind::Constant(Constant::Int(negated))))
                    }
                    // An integer overflow is an error in CEL, so such a policy would never match.
                    None => {
                        let message = format!("{} with its sign changed is not an integer", value.inner());
                        let hint = format!("the largest integer is {}", i64::MAX);
                        self.refuse(node, "unsupported", message, &hint)
                    }
                },
                _ => self.arithmetic(node, None, inner),
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
                None,
                [left, right],
            ) => self.arithmetic(node, Some(left), right),
            (_, target, arguments) => self.function(node, name, target, arguments),
        }
    }
}

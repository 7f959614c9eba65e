//! Checked expressions: every name is resolved, every type is known as far as possible without the caller.

use std::sync::Arc;

use tracewarden_model::MarkedField;

use crate::diagnostics::Span;
use crate::pattern::Pattern;
use crate::predicate::{Quantifier, Relation, TextFunction};

/// A value that does not depend on the span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Constant {
    Bool(bool),
    Text(String),
    Int(i64),
    /// Shared, because a caller's list can be long.
    List(Arc<Vec<Constant>>),
}

/// The static type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub(crate) enum Type {
    #[strum(to_string = "a boolean")]
    Bool,
    #[strum(to_string = "a string")]
    Text,
    #[strum(to_string = "an integer")]
    Int,
    /// A list or an array.
    #[strum(to_string = "a list")]
    List,
    /// A user attribute or a list element. Its type is known only at request time.
    #[strum(to_string = "a value of the caller")]
    Dynamic,
}

impl Type {
    /// Whether a value of this type may have type `other` at run time.
    pub(crate) fn may_be(self, other: Self) -> bool {
        self == other || self == Self::Dynamic || other == Self::Dynamic
    }
}

/// A checked expression with its position in the text.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) ty: Type,
    pub(crate) span: Span,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Constant(Constant),
    List(Vec<Node>),
    Username,
    Roles,
    /// `user.attributes.k`; an error if the caller lacks the attribute.
    Attribute(String),
    /// `"k" in user.attributes` or `has(user.attributes.k)`.
    HasAttribute(String),
    /// A column, or a key of a map.
    Field(Arc<MarkedField>),
    /// `"k" in M` or `has(M.k)`.
    HasKey(Arc<MarkedField>),
    /// The variable of an enclosing macro.
    Variable(u32),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Conditional(Box<Node>, Box<Node>, Box<Node>),
    Compare(Relation, Box<Node>, Box<Node>),
    In(Box<Node>, Box<Node>),
    TextCall(TextFunction, Box<Node>, Box<Node>),
    Matches(Box<Node>, Arc<Pattern>),
    Size(Box<Node>),
    Macro {
        quantifier: Quantifier,
        range: Box<Node>,
        variable: u32,
        body: Box<Node>,
    },
}

impl Kind {
    /// Whether this is a value of the caller, or the test for an attribute.
    pub(crate) fn is_of_caller(&self) -> bool {
        matches!(self, Self::Username | Self::Roles | Self::Attribute(_) | Self::HasAttribute(_))
    }
}

impl Node {
    pub(crate) fn children(&self) -> Vec<&Node> {
        match &self.kind {
            Kind::List(elements) => elements.iter().collect(),
            Kind::Not(a) | Kind::Matches(a, _) | Kind::Size(a) => vec![a],
            Kind::And(a, b)
            | Kind::Or(a, b)
            | Kind::Compare(_, a, b)
            | Kind::In(a, b)
            | Kind::TextCall(_, a, b)
            | Kind::Macro { range: a, body: b, .. } => vec![a, b],
            Kind::Conditional(a, b, c) => vec![a, b, c],
            _ => Vec::new(),
        }
    }

    /// Returns the parts of a chain of `&&` or of `||`; any other node is its own only part.
    pub(crate) fn chain(&self) -> Vec<&Self> {
        let (Kind::And(left, right) | Kind::Or(left, right)) = &self.kind else { return vec![self] };
        let sides = [left, right].into_iter();
        sides.flat_map(|side| if self.is_chained(side) { side.chain() } else { vec![&**side] }).collect()
    }

    /// Whether `inner` is part of the same chain of `&&` or `||`.
    pub(crate) fn is_chained(&self, inner: &Self) -> bool {
        matches!((&self.kind, &inner.kind), (Kind::And(..), Kind::And(..)) | (Kind::Or(..), Kind::Or(..)))
    }

    /// Returns the node and all its descendants.
    pub(crate) fn walk(&self) -> Vec<&Node> {
        let mut found = Vec::new();
        let mut stack = vec![self];
        while let Some(node) = stack.pop() {
            stack.extend(node.children());
            found.push(node);
        }
        found
    }

    /// Returns the marked fields that the expression names, without duplicates, in no particular order.
    pub(crate) fn fields(&self) -> Vec<&Arc<MarkedField>> {
        let mut found: Vec<&Arc<MarkedField>> = Vec::new();
        for node in self.walk() {
            if let Kind::Field(field) | Kind::HasKey(field) = &node.kind
                && !found.contains(&field)
            {
                found.push(field);
            }
        }
        found
    }
}

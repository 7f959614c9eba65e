//! Finds where a policy names attributes and roles of the caller, and which value types it can use there. Used for
//! advice that depends on the known users.

use strum::VariantArray as _;
use tracewarden_model::AttributeKind;

use crate::check::CheckedPolicy;
use crate::expression::{Constant, Kind, Node, Type};

/// A place where a policy names an attribute of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeUse {
    /// The attribute's name.
    pub name: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in code points, from 1.
    pub column: u32,
    /// Length in code points, at least 1.
    pub length: u32,
    /// Whether the policy only tests the attribute's presence, as in `has(user.attributes.team)`.
    pub presence_only: bool,
    /// Attribute types that can be used here. A value of any other type gives an error, or the same result on every
    /// span.
    pub accepted_kinds: &'static [AttributeKind],
}

/// A place where a policy tests for a role of the caller, as in `"oncall" in user.roles`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleUse {
    /// The role's name.
    pub name: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in code points, from 1.
    pub column: u32,
    /// Length in code points, at least 1.
    pub length: u32,
}

impl CheckedPolicy {
    /// Returns the caller's attributes that the policy names, in text order.
    pub fn attributes(&self) -> Vec<AttributeUse> {
        let mut found = attributes(&self.root, &self.text);
        found.sort_by_key(|found| (found.line, found.column));
        found
    }

    /// Returns the roles that the policy tests for by name, in text order.
    pub fn roles(&self) -> Vec<RoleUse> {
        let mut found = Vec::new();
        for node in self.root.walk() {
            if let Kind::In(needle, haystack) = &node.kind
                && let (Kind::Constant(Constant::Text(name)), Kind::Roles) = (&needle.kind, &haystack.kind)
            {
                let (line, column, length) = needle.span.position(&self.text);
                found.push(RoleUse { name: name.clone(), line, column, length });
            }
        }
        found.sort_by_key(|found| (found.line, found.column));
        found
    }

    /// Whether the policy refers to the caller. If not, it has the same meaning for all callers.
    pub fn depends_on_caller(&self) -> bool {
        self.root.walk().into_iter().any(|node| node.kind.is_of_caller())
    }

    /// Returns the policy's text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

const ANY: &[AttributeKind] = AttributeKind::VARIANTS;
const BOOL: &[AttributeKind] = &[AttributeKind::Bool];
const TEXT: &[AttributeKind] = &[AttributeKind::String];
const LIST: &[AttributeKind] = &[AttributeKind::Strings];
const SIZED: &[AttributeKind] = &[AttributeKind::String, AttributeKind::Strings];

/// Returns the attributes named below `root`, in no particular order.
fn attributes(root: &Node, text: &str) -> Vec<AttributeUse> {
    let attribute = |name: &str, node: &Node, presence_only, accepted_kinds| {
        let (line, column, length) = node.span.position(text);
        AttributeUse { name: name.to_owned(), line, column, length, presence_only, accepted_kinds }
    };
    let mut found = Vec::new();
    let mut pending = vec![(root, BOOL)];
    while let Some((node, accepted_kinds)) = pending.pop() {
        match &node.kind {
            Kind::Attribute(name) => found.push(attribute(name, node, false, accepted_kinds)),
            Kind::HasAttribute(name) => found.push(attribute(name, node, true, ANY)),
            Kind::Not(inner) => pending.push((inner, BOOL)),
            Kind::And(a, b) | Kind::Or(a, b) => pending.extend([(&**a, BOOL), (&**b, BOOL)]),
            Kind::Conditional(condition, yes, no) => {
                pending.extend([(&**condition, BOOL), (&**yes, accepted_kinds), (&**no, accepted_kinds)]);
            }
            Kind::Compare(_, a, b) => {
                pending.extend([(&**a, comparable_kinds(b)), (&**b, comparable_kinds(a))])
            }
            Kind::In(needle, haystack) => {
                pending.push((needle, element_kinds(haystack)));
                match &haystack.kind {
                    Kind::List(elements) => {
                        pending.extend(elements.iter().map(|element| (element, comparable_kinds(needle))));
                    }
                    _ => pending.push((haystack, LIST)),
                }
            }
            Kind::TextCall(_, a, b) => pending.extend([(&**a, TEXT), (&**b, TEXT)]),
            Kind::Matches(subject, _) => pending.push((subject, TEXT)),
            Kind::Size(inner) => pending.push((inner, SIZED)),
            Kind::Macro { range, body, .. } => pending.extend([(&**range, LIST), (&**body, BOOL)]),
            Kind::List(elements) => pending.extend(elements.iter().map(|element| (element, ANY))),
            Kind::Constant(_)
            | Kind::Username
            | Kind::Roles
            | Kind::Field(_)
            | Kind::HasKey(_)
            | Kind::Variable(_) => {}
        }
    }
    found
}

/// Returns the attribute types that can be compared with `other`.
fn comparable_kinds(other: &Node) -> &'static [AttributeKind] {
    match other.ty {
        Type::Bool => BOOL,
        Type::Text => TEXT,
        Type::List => LIST,
        // No attribute is an integer, so such a comparison is never true. The checker rejects the cases that it can
        // detect.
        Type::Int | Type::Dynamic => ANY,
    }
}

/// Returns the attribute types that an element of `list` can have.
fn element_kinds(list: &Node) -> &'static [AttributeKind] {
    match &list.kind {
        Kind::Field(_) | Kind::Roles | Kind::Attribute(_) => TEXT,
        Kind::List(elements) if !elements.is_empty() && elements.iter().all(|e| e.ty == Type::Text) => TEXT,
        _ => ANY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracewarden_model::AccessModel;

    fn checked(expression: &str) -> CheckedPolicy {
        crate::check(expression, &AccessModel::default()).unwrap()
    }

    #[test]
    fn attribute_uses_state_the_accepted_types() {
        let taken = |expression: &str| -> Vec<(String, &[AttributeKind])> {
            let uses = checked(expression).attributes();
            uses.into_iter().map(|found| (found.name, found.accepted_kinds)).collect()
        };
        for (expression, expected) in [
            ("user.attributes.a", BOOL),
            ("!user.attributes.a && true", BOOL),
            ("user.attributes.a == 'x'", TEXT),
            ("user.username < user.attributes.a", TEXT),
            ("(true ? user.attributes.a : 'y') == 'x'", TEXT),
            ("user.attributes.a == ['x']", LIST),
            ("user.attributes.a == true", BOOL),
            ("user.attributes.a in ['x', 'y']", TEXT),
            ("user.attributes.a in user.roles", TEXT),
            ("user.username in [user.attributes.a]", TEXT),
            ("'x' in user.attributes.a", LIST),
            ("user.attributes.a.exists(v, v == 'x')", LIST),
            ("user.attributes.a.startsWith('x')", TEXT),
            ("user.attributes['a'].matches('x')", TEXT),
            ("size(user.attributes.a) > 1", SIZED),
            ("has(user.attributes.a)", ANY),
            ("user.attributes.a in [['x'], true]", ANY),
        ] {
            assert_eq!(taken(expression), [("a".to_owned(), expected)], "{expression}");
        }
        assert_eq!(
            taken("user.attributes.a in user.attributes.b && user.attributes.c == user.attributes.d"),
            [("a", TEXT), ("b", LIST), ("c", ANY), ("d", ANY)].map(|(name, kinds)| (name.to_owned(), kinds))
        );
    }

    #[test]
    fn roles_are_found_with_their_positions() {
        let found = checked("true || \n 'on call' in user.roles || user.username in user.roles").roles();
        let position = RoleUse { name: "on call".to_owned(), line: 2, column: 2, length: 9 };
        assert_eq!(found, [position]);
        for (expression, depends) in [
            ("'a' in user.roles", true),
            ("has(user.attributes.a)", true),
            ("user.username == 'a'", true),
            ("size('a') == 1", false),
        ] {
            assert_eq!(checked(expression).depends_on_caller(), depends, "{expression}");
        }
    }
}

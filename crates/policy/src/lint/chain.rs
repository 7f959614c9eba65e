//! Chains of `&&` and of `||`.

use crate::expression::{Kind, Node};

/// Returns the parts of a chain of `&&` or of `||`.
pub(super) fn parts(node: &Node, conjunction: bool) -> Vec<&Node> {
    match (&node.kind, conjunction) {
        (Kind::And(left, right), true) | (Kind::Or(left, right), false) => {
            let mut found = parts(left, conjunction);
            found.extend(parts(right, conjunction));
            found
        }
        _ => vec![node],
    }
}

//! The patterns of a policy, each compiled once.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind};
use regex_syntax::utf8::Utf8Sequences;

use crate::expression::{Kind, Node};

/// Memory limit of a compiled pattern. Larger than any accepted pattern needs, so accepted patterns always compile.
const COMPILED_BYTES: usize = 256 * 1024 * 1024;

/// The patterns of a policy, by their text for the reference evaluator's engine.
pub(super) struct Patterns {
    positions: HashMap<String, u64>,
}

impl Patterns {
    pub(super) fn of(root: &Node) -> Self {
        let mut positions = HashMap::new();
        for node in root.walk() {
            if let Kind::Matches(_, pattern) = &node.kind
                && !positions.contains_key(&pattern.reference)
            {
                let parsed = regex_syntax::parse(&pattern.reference);
                let states = parsed.map_or(u64::MAX, |parsed| states(&parsed));
                positions.insert(pattern.reference.clone(), states);
            }
        }
        Self { positions }
    }

    /// Returns the number of states of a pattern with its repetitions expanded.
    pub(super) fn positions(&self, pattern: &str) -> u64 {
        self.positions.get(pattern).copied().unwrap_or(u64::MAX)
    }

    pub(super) fn all_positions(&self) -> u64 {
        self.positions.values().copied().fold(0, u64::saturating_add)
    }

    pub(super) fn compile(&self) -> HashMap<String, Regex> {
        let compile = |pattern: &String| {
            let regex = RegexBuilder::new(pattern).size_limit(COMPILED_BYTES).build().ok()?;
            Some((pattern.clone(), regex))
        };
        self.positions.keys().filter_map(compile).collect()
    }
}

/// Recursive: `Pattern::parse` limits the nesting depth of patterns.
fn states(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Bytes(class)) => class.ranges().len() as u64,
        HirKind::Class(Class::Unicode(class)) => class
            .ranges()
            .iter()
            .flat_map(|range| Utf8Sequences::new(range.start(), range.end()))
            .map(|sequence| sequence.len() as u64)
            .sum(),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            states(&repetition.sub).saturating_add(1).saturating_mul(u64::from(times))
        }
        HirKind::Capture(capture) => states(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(states).fold(1, u64::saturating_add)
        }
    }
}

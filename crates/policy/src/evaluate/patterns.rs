//! Compiles each pattern of a policy once. The library would compile a pattern each time it is matched.

use std::collections::HashMap;
use std::sync::Arc;

use cel::{ExecutionError, Value};
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

/// Compiled patterns, by number.
#[derive(Clone)]
pub(super) struct CompiledPatterns {
    numbers: HashMap<String, i64>,
    regexes: Arc<Vec<Option<Regex>>>,
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

    /// Returns the number of states of all patterns together.
    pub(super) fn all_positions(&self) -> u64 {
        self.positions.values().copied().fold(0, u64::saturating_add)
    }

    pub(super) fn compile(&self) -> CompiledPatterns {
        let mut numbers = HashMap::new();
        let mut regexes = Vec::with_capacity(self.positions.len());
        for (number, pattern) in (0..).zip(self.positions.keys()) {
            numbers.insert(pattern.clone(), number);
            regexes.push(RegexBuilder::new(pattern).size_limit(COMPILED_BYTES).build().ok());
        }
        CompiledPatterns { numbers, regexes: Arc::new(regexes) }
    }
}

impl CompiledPatterns {
    pub(super) fn number(&self, pattern: &str) -> Option<i64> {
        self.numbers.get(pattern).copied()
    }

    /// Whether part of a string matches. A subject that is not a string is an error, as for the library's `matches`.
    pub(super) fn matches(&self, subject: &Value, number: i64) -> Result<Value, ExecutionError> {
        let regex = usize::try_from(number).ok().and_then(|number| self.regexes.get(number)?.as_ref());
        match (subject, regex) {
            (Value::String(text), Some(regex)) => Ok(Value::Bool(regex.is_match(text))),
            (_, None) => Err(ExecutionError::function_error("matches", "the pattern cannot be compiled")),
            _ => Err(ExecutionError::function_error("matches", "this is not a string")),
        }
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

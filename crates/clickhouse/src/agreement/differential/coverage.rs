//! Coverage of a random run: results, and operations by kind of field.

use std::collections::BTreeMap;

use tracewarden_testkit::policies::{Generator, Operation};

use super::lowered_policy::{LoweredPolicy, Verdict};

/// Minimum number of pairs of each operation and each kind of field.
const PAIRS_OF_EACH: usize = 60;

/// Counts of pairs.
#[derive(Default)]
pub(super) struct Coverage {
    results: BTreeMap<Verdict, usize>,
    operations: BTreeMap<Operation, OperationCounts>,
    pub(super) pairs: usize,
}

/// Counts of pairs with an operation.
#[derive(Default, Clone, Copy)]
struct OperationCounts {
    pairs: usize,
    /// Pairs with a policy that consists only of the operation.
    alone_true: usize,
    alone_not_true: usize,
}

impl OperationCounts {
    fn is_sufficient(self, operation: &Operation) -> bool {
        self.pairs >= PAIRS_OF_EACH
            && self.alone_true > 0
            && (self.alone_not_true > 0 || is_always_true(operation))
    }
}

/// A path with a declared type that is not nullable is present in every row.
fn is_always_true(operation: &Operation) -> bool {
    let Some(path) = operation.kind.strip_prefix("path of JSON of ") else { return false };
    let may_be_absent = ["Nullable(", "LowCardinality(Nullable(", "Dynamic"];
    ["has", "in map"].contains(&operation.operator)
        && !may_be_absent.iter().any(|kind| path.starts_with(kind))
}

impl Coverage {
    pub(super) fn add(&mut self, lowered: &LoweredPolicy, verdicts: &[Verdict]) {
        self.pairs += verdicts.len();
        for verdict in verdicts {
            *self.results.entry(*verdict).or_default() += 1;
        }
        let is_true = verdicts.iter().filter(|verdict| **verdict == Verdict::True).count();
        for operation in &lowered.policy.operations {
            let counts = self.operations.entry(operation.clone()).or_default();
            counts.pairs += verdicts.len();
            if lowered.policy.standalone {
                counts.alone_true += is_true;
                counts.alone_not_true += verdicts.len() - is_true;
            }
        }
    }

    pub(super) fn share(&self, verdict: Verdict) -> f64 {
        self.results.get(&verdict).copied().unwrap_or_default() as f64 / self.pairs.max(1) as f64
    }

    /// Returns the operations that were not seen with both results, or not often enough.
    pub(super) fn missing(&self) -> Vec<Operation> {
        let counts = |operation: &Operation| self.operations.get(operation).copied().unwrap_or_default();
        Generator::operations()
            .into_iter()
            .filter(|operation| !counts(operation).is_sufficient(operation))
            .collect()
    }

    /// Whether this operation has to be tested alone once more.
    pub(super) fn lacks(&self, operation: &Operation) -> bool {
        !self.operations.get(operation).copied().unwrap_or_default().is_sufficient(operation)
    }

    /// Prints, by kind of field, the number of operations, the pairs, and the pairs of the rarest.
    pub(super) fn print(&self) {
        let mut kinds: BTreeMap<&str, Vec<OperationCounts>> = BTreeMap::new();
        for (operation, counts) in &self.operations {
            kinds.entry(&operation.kind).or_default().push(*counts);
        }
        println!(
            "{:>10} {:>8} {:>14} {:>14}  kind of field",
            "operations", "pairs", "of the rarest", "true, alone"
        );
        for (kind, counts) in &kinds {
            let pairs: usize = counts.iter().map(|counts| counts.pairs).sum();
            let rarest = counts.iter().map(|counts| counts.pairs).min().unwrap_or_default();
            let alone_true: usize = counts.iter().map(|counts| counts.alone_true).sum();
            println!("{:>10} {pairs:>8} {rarest:>14} {alone_true:>14}  {kind}", counts.len());
        }
        let mut operators: BTreeMap<&str, usize> = BTreeMap::new();
        for (operation, counts) in &self.operations {
            *operators.entry(operation.operator).or_default() += counts.pairs;
        }
        let operators: Vec<String> =
            operators.iter().map(|(operator, pairs)| format!("`{operator}` {pairs}")).collect();
        println!("pairs with {}", operators.join(", "));
    }
}

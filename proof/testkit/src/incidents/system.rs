//! Services in four layers. Each operation always calls the same operations of the layer below.

use std::ops::Range;

use rand::{RngExt, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

use super::names;

/// Number of services in each layer. The first layer receives external requests.
const LAYERS: [usize; 4] = [2, 3, 4, 3];

/// An operation of a service.
pub(super) struct Operation {
    pub service: usize,
    pub verb: String,
    pub thing: String,
    /// Called operations in the layer below.
    pub calls: Vec<usize>,
    /// Whether the operation runs a database statement.
    pub statement: bool,
    /// Whether the operation has a span for its own computation.
    pub computes: bool,
    pub name: String,
}

pub(super) struct System {
    pub services: Vec<String>,
    pub operations: Vec<Operation>,
    /// Operations of each layer, as ranges.
    layers: Vec<Range<usize>>,
    pub tenant_key: String,
    pub environment_key: String,
    /// Whether services call each other by RPC rather than plain HTTP.
    pub by_rpc: bool,
    pub entries: Vec<usize>,
}

impl System {
    pub fn new(random: &mut ChaCha8Rng) -> Self {
        let [entries, others @ ..] = LAYERS;
        let services = names::services(random, entries, others.iter().sum());
        let by_rpc = random.random_bool(0.5);
        let mut operations: Vec<Operation> = Vec::new();
        let mut layers: Vec<Range<usize>> = Vec::new();
        let mut first = 0;
        for count in LAYERS {
            let begin = operations.len();
            for service in first..first + count {
                for _ in 0..random.random_range(2..4) {
                    let (verb, thing) = names::operation(random);
                    let outermost = layers.is_empty();
                    let name = name(&verb, &thing, by_rpc && !outermost);
                    let (statement, computes) =
                        (!outermost && random.random_bool(0.7), random.random_bool(0.4));
                    operations.push(Operation {
                        service,
                        verb,
                        thing,
                        calls: Vec::new(),
                        statement,
                        computes,
                        name,
                    });
                }
            }
            first += count;
            layers.push(begin..operations.len());
        }
        for pair in layers.windows(2) {
            let [from, to] = pair else { continue };
            let below: Vec<usize> = to.clone().collect();
            for operation in operations.get_mut(from.clone()).into_iter().flatten() {
                let count = random.random_range(1..=2);
                operation.calls = below.sample(random, count).copied().collect();
            }
        }
        let entries = layers.first().cloned().unwrap_or(0..0).collect();
        Self {
            services,
            operations,
            layers,
            tenant_key: names::one_of(
                random,
                &["tenant.id", "app.tenant", "customer.id", "org", "workspace.slug"],
            ),
            environment_key: names::one_of(
                random,
                &["deployment.environment", "deployment.environment.name", "env"],
            ),
            by_rpc,
            entries,
        }
    }

    /// Returns the operations that receive external requests.
    pub fn entries(&self) -> &[usize] {
        &self.entries
    }

    /// Returns the operations in the lower layers that external requests reach.
    pub fn inner_operations(&self) -> Vec<usize> {
        let inner_operations = self.layers.iter().skip(2).flat_map(Clone::clone);
        inner_operations
            .filter(|operation| self.entries.iter().any(|entry| self.reaches(*entry, *operation)))
            .collect()
    }

    /// Whether an operation calls another, directly or indirectly.
    pub fn reaches(&self, from: usize, to: usize) -> bool {
        let calls = self.operations.get(from).map(|operation| operation.calls.as_slice()).unwrap_or_default();
        from == to || calls.iter().any(|call| self.reaches(*call, to))
    }

    pub fn has_statement(&self, operation: usize) -> bool {
        self.operations.get(operation).is_some_and(|operation| operation.statement)
    }

    /// Returns service and name of an operation.
    pub fn service_and_operation(&self, operation: usize) -> (&str, &str) {
        let operation = self.operations.get(operation);
        let service = operation.and_then(|operation| self.services.get(operation.service));
        (
            service.map(String::as_str).unwrap_or_default(),
            operation.map(|found| found.name.as_str()).unwrap_or_default(),
        )
    }
}

fn name(verb: &str, thing: &str, by_rpc: bool) -> String {
    if by_rpc {
        return format!("{thing}.v1.{}/{verb}", capitalize(thing));
    }
    match verb {
        "Get" | "List" => format!("GET /{thing}s"),
        "Cancel" => format!("DELETE /{thing}s/{{id}}"),
        _ => format!("POST /{thing}s/{}", verb.to_lowercase()),
    }
}

fn capitalize(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

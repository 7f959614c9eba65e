//! Random policies with callers and spans for them, for tests that compare two implementations of a decision.
//!
//! All values come from a small set, which includes hostile ones, so equality, prefixes and membership hold often enough to make
//! true results common.

pub mod column_types;
mod columns;
mod expressions;
pub mod literals;
mod operations;
mod patterns;
mod spans;

use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tracewarden_model::{AttributeValue, Caller};

pub use columns::{COLUMNS, hostile_values};
pub use operations::{GeneratedPolicy, Operation};

/// Strings that occur in spans, callers and policies.
const TEXTS: [&str; 25] = [
    "",
    "a",
    "a",
    "b",
    "ab",
    "abc",
    "prod",
    "prod",
    "A",
    "true",
    "é",
    "日本",
    "😀",
    "a\nb",
    "b\n",
    "a\tb",
    "x'y\"z",
    "\\",
    "{p0:String}",
    "Code: 1. DB::Exception",
    "\u{0}",
    " ",
    "\u{10FF80}",
    "61f0c404-5cb3-11e7-907b-a6006ad3dba0",
    "61f0c404-5cb3-11e7-907b-a6006ad3dba0",
];

/// Generates policies, callers and spans from a seed.
pub struct Generator {
    random: ChaCha8Rng,
    variables: u32,
    subjects: operations::Subjects,
    /// Operations in the policy that is being generated.
    current_operations: Vec<Operation>,
}

impl Generator {
    /// Creates a generator. The same seed gives the same sequence.
    pub fn new(seed: u64) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            variables: 0,
            subjects: operations::Subjects::new(),
            current_operations: Vec::new(),
        }
    }

    fn pick<T: Clone>(&mut self, choices: &[T], otherwise: T) -> T {
        choices.choose(&mut self.random).cloned().unwrap_or(otherwise)
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random.random_range(0..bound)
    }

    /// Generates a caller with some roles and attributes.
    pub fn caller(&mut self) -> Caller {
        let mut caller =
            Caller { username: self.pick(&["a", "ada", "prod", "é"], "a").to_owned(), ..Caller::default() };
        for role in ["a", "b", "dev", "oncall"] {
            if self.chance(50) {
                caller.roles.insert(role.to_owned());
            }
        }
        for name in ["team", "tenants", "lead", "a key"] {
            if self.chance(85) {
                let value = match (name, self.below(10)) {
                    ("team", 0..8) | (_, 8) => AttributeValue::String(self.text()),
                    ("lead", 0..8) | (_, 9) => AttributeValue::Bool(self.chance(60)),
                    _ => AttributeValue::Strings((0..self.below(7)).map(|_| self.text()).collect()),
                };
                caller.attributes.insert(name.to_owned(), value);
            }
        }
        caller
    }

    fn text(&mut self) -> String {
        self.pick(&TEXTS, "").to_owned()
    }
}

/// Returns the strings that [`Generator::span`] and policies use, for tests that need each of them.
pub fn texts() -> impl Iterator<Item = &'static str> {
    TEXTS.into_iter()
}

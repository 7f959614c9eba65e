//! Policies: CEL text to checked expression to predicate, and the reference evaluation.

//! Pure functions of a trace's spans: tree, outline, errors, slowest parts, critical path, differences.

pub(crate) mod compare;
pub(crate) mod critical_path;
pub(crate) mod errors;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod outline;
pub(crate) mod slowest;
pub(crate) mod tree;

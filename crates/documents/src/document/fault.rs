//! Faults in a document and their positions.

use std::fmt;

/// A position in a document's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourcePosition {
    /// Line, from 1.
    pub line: usize,
    /// Column in code points, from 1.
    pub column: usize,
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A fault in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Position of the fault.
    pub position: SourcePosition,
    /// JSON Pointer to the member; empty where the document cannot be parsed.
    pub pointer: String,
    /// Message in lower case, without a final period.
    pub message: String,
}

impl Fault {
    pub(super) fn new(position: SourcePosition, message: impl Into<String>) -> Self {
        Self { position, pointer: String::new(), message: message.into() }
    }
}

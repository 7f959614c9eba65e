//! The tree of values that the readers make of a document.

use super::fault::SourcePosition;
use crate::json::JsonNumber;

/// How the lines of a text correspond to lines of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// Each line is one line of the document, beginning with this one, counted from 1.
    Preserved(usize),
    /// Several lines of the document became one.
    Joined,
    /// Line ends are written as escape sequences.
    Escaped,
}

/// A value and its start position.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) position: SourcePosition,
    pub(super) content: NodeContent,
    /// For a text, how its lines are written.
    pub(super) lines: Option<Lines>,
}

/// Content of a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NodeContent {
    Null,
    Bool(bool),
    Number(JsonNumber),
    Text(String),
    List(Vec<Node>),
    /// Names, their positions and their values.
    Object(Vec<(String, SourcePosition, Node)>),
}

//! Facts about the bound table.

use tracewarden_model::{Binding, MarkedField};

use super::parts::Parts;
use crate::schema::Layout;

/// All facts that suggestions are derived from.
pub(super) struct Facts<'a> {
    pub(super) binding: &'a Binding,
    pub(super) fields: &'a [MarkedField],
    pub(super) layout: &'a Layout,
    pub(super) parts: &'a Parts,
    pub(super) trace_index: TraceIndex,
}

/// State of the trace index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TraceIndex {
    Bound(String),
    /// One with the usual name exists, and is not bound.
    Unbound(String),
    /// Another table has the usual name.
    NameTaken,
    None,
}

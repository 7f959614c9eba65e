//! The bound tables as they were read last.

use std::sync::{Arc, Mutex, PoisonError};

use tracewarden_model::Binding;

use crate::Column;
use crate::schema::trace_index::TraceIndex;

/// The tables of a binding, as they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tables {
    pub(crate) columns: Arc<[Column]>,
    /// The trace index, if it can be used.
    pub(crate) index: Option<TraceIndex>,
}

/// The tables of one binding as the last request found them. One suffices: there is one access model, and it binds one table.
#[derive(Debug, Default)]
pub(crate) struct CachedSchema(Mutex<Option<(Binding, Tables)>>);

impl CachedSchema {
    pub(crate) fn get(&self, binding: &Binding) -> Option<Tables> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|(cached, _)| cached == binding).map(|(_, tables)| tables.clone())
    }

    pub(crate) fn set(&self, binding: &Binding, tables: &Tables) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *cached = Some((binding.clone(), tables.clone()));
    }
}

//! The caller's own account.

use std::sync::Arc;

use crate::core::Core;

/// The caller's own sessions, keys, password and preview.
#[derive(Clone)]
pub struct Account {
    pub(crate) core: Arc<Core>,
}

impl Account {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }
}

//! What one server is told differently: it may know fewer settings than are sent, and its user's profile may fix `readonly`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::StoreError;
use crate::settings::{NEUTRAL, READONLY, READONLY_OF_PROFILE};

/// Learnt from a server's refusals, which come before a statement is begun.
#[derive(Debug, Default)]
pub(super) struct Dialect {
    /// Whether the user's own profile fixes `readonly`.
    readonly_fixed: AtomicBool,
    /// Settings of ours that the server does not have.
    unknown: RwLock<BTreeSet<&'static str>>,
}

impl Dialect {
    pub(super) fn readonly(&self) -> &'static str {
        if self.readonly_fixed.load(Ordering::Relaxed) { READONLY_OF_PROFILE } else { READONLY }
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        !self.unknown.read().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    /// Whether this refusal of `readonly` is news.
    pub(super) fn readonly_is_fixed(&self) -> bool {
        !self.readonly_fixed.swap(true, Ordering::Relaxed)
    }

    /// Takes in which settings of ours a server has. A neutral setting keeps a feature from changing answers: a server
    /// without the setting is without the feature. Any other has to be there.
    ///
    /// # Errors
    /// When the server lacks a setting on which answers rest, or knows all of them after all.
    pub(super) fn learn(&self, known: &BTreeSet<String>, sent: &[&'static str]) -> Result<(), StoreError> {
        let missing: BTreeSet<&'static str> =
            sent.iter().copied().filter(|name| !known.contains(*name)).collect();
        let neutral = |name: &&str| NEUTRAL.iter().any(|(known, _)| known == name);
        let needed: Vec<&str> = missing.iter().copied().filter(|name| !neutral(name)).collect();
        let message = if !needed.is_empty() {
            format!("the server is too old: it does not know `{}`", needed.join("`, `"))
        } else if missing.is_empty() {
            "the server refuses a setting that it says it knows".to_owned()
        } else {
            *self.unknown.write().unwrap_or_else(PoisonError::into_inner) = missing;
            return Ok(());
        };
        Err(StoreError::Store { code: Some(StoreError::UNKNOWN_SETTING), message })
    }

    /// Forgets what was learnt: the server that comes back may be of another version.
    pub(super) fn forget(&self) {
        self.readonly_fixed.store(false, Ordering::Relaxed);
        self.unknown.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_keeps_a_feature_off_may_be_unknown() {
        let dialect = Dialect::default();
        let neutral = NEUTRAL[0].0;
        let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let sent = ["timeout_overflow_mode", neutral];
        dialect.learn(&known(&["timeout_overflow_mode"]), &sent).unwrap();
        assert!(!dialect.knows(neutral) && dialect.knows("timeout_overflow_mode"));
        let refused = dialect.learn(&known(&[neutral]), &sent).unwrap_err().to_string();
        assert!(refused.contains("`timeout_overflow_mode`"), "{refused}");
        assert!(dialect.learn(&known(&sent), &sent).is_err());
        dialect.forget();
        assert!(dialect.knows(neutral));
    }
}

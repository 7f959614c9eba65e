//! How requests to one server differ: it may lack some of the settings that this crate sends, and its user's profile
//! may fix `readonly`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::client::settings::{OPTIONAL_SETTINGS, READONLY, READONLY_FROM_PROFILE};
use crate::{ClickHouseError, Result};

/// How long the client assumes that a server lacks a setting. The server at an address may be replaced by another
/// version without any statement failing there.
const CACHE_LIFETIME: Duration = Duration::from_secs(60);

/// What the client learnt from a server's refusals, which come before a statement is begun.
#[derive(Debug, Default)]
pub(super) struct ServerCapabilities {
    /// Whether the user's own profile fixes `readonly`.
    readonly_fixed: AtomicBool,
    /// Settings of this crate that the server does not have, and since when that is known.
    unsupported: RwLock<Option<(Instant, BTreeSet<&'static str>)>>,
}

impl ServerCapabilities {
    pub(super) fn readonly(&self) -> &'static str {
        if self.readonly_fixed.load(Ordering::Relaxed) { READONLY_FROM_PROFILE } else { READONLY }
    }

    pub(super) fn supports(&self, name: &str) -> bool {
        let unsupported = self.unsupported.read().unwrap_or_else(PoisonError::into_inner);
        !unsupported
            .as_ref()
            .is_some_and(|(since, names)| since.elapsed() < CACHE_LIFETIME && names.contains(name))
    }

    pub(super) fn set_readonly_fixed(&self) {
        self.readonly_fixed.store(true, Ordering::Relaxed);
    }

    /// Records which of the settings that are sent a server has. A neutral setting keeps a feature from changing
    /// answers: a server without the setting does not have the feature. All other settings are needed.
    ///
    /// # Errors
    /// When the server lacks a setting on which answers depend.
    pub(super) fn record_settings(&self, known: &BTreeSet<String>, sent: &[&'static str]) -> Result<()> {
        let missing: BTreeSet<&'static str> =
            sent.iter().copied().filter(|name| !known.contains(*name)).collect();
        let neutral = |name: &&str| OPTIONAL_SETTINGS.iter().any(|(known, _)| known == name);
        let needed: Vec<&str> = missing.iter().copied().filter(|name| !neutral(name)).collect();
        if !needed.is_empty() {
            let message = format!("the server is too old: it does not know `{}`", needed.join("`, `"));
            return Err(ClickHouseError::Exception { code: Some(ClickHouseError::UNKNOWN_SETTING), message });
        }
        *self.unsupported.write().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), missing));
        Ok(())
    }

    /// Forgets everything: the server that comes back may be of another version.
    pub(super) fn reset(&self) {
        self.readonly_fixed.store(false, Ordering::Relaxed);
        *self.unsupported.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_that_disable_features_may_be_unknown() {
        let capabilities = ServerCapabilities::default();
        let neutral = OPTIONAL_SETTINGS[0].0;
        let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let sent = ["timeout_overflow_mode", neutral];
        capabilities.record_settings(&known(&["timeout_overflow_mode"]), &sent).unwrap();
        assert!(!capabilities.supports(neutral) && capabilities.supports("timeout_overflow_mode"));
        let refused = capabilities.record_settings(&known(&[neutral]), &sent).unwrap_err().to_string();
        assert!(refused.contains("`timeout_overflow_mode`"), "{refused}");
        capabilities.reset();
        assert!(capabilities.supports(neutral));
    }

    /// A server may be replaced by one with more settings, at the same address.
    #[test]
    fn cached_capabilities_are_forgotten() {
        let capabilities = ServerCapabilities::default();
        let neutral = OPTIONAL_SETTINGS[0].0;
        let age = |seconds| {
            capabilities.unsupported.write().unwrap().as_mut().unwrap().0 =
                Instant::now() - Duration::from_secs(seconds);
        };
        capabilities.record_settings(&BTreeSet::new(), &[neutral]).unwrap();
        age(50);
        assert!(!capabilities.supports(neutral));
        age(61);
        assert!(capabilities.supports(neutral));
        capabilities.record_settings(&BTreeSet::new(), &[neutral]).unwrap();
        assert!(!capabilities.supports(neutral));
    }
}

//! Every ClickHouse setting that is sent, in one place. Nothing relies on a server's default, nor on a profile: a profile
//! that lets answers end early would otherwise turn a limit into a silently shorter answer.
//!
//! What is not sent is the operator's to decide and changes no answer: how many threads (unless we are told), priorities,
//! caches, what is spilled to disk, limits of all the user's statements together, logging.

use std::time::Duration;

use crate::StoreConfig;

mod fixed;

pub(crate) use fixed::{NEEDED, NEUTRAL};

/// What `readonly` may be. `1` forbids writing, changing settings and reaching other systems. A user whose own profile has `2`
/// may not change it, not even to something stricter; then the same `2` is sent, and writing is forbidden all the same.
pub(crate) const READONLY: &str = "1";
pub(crate) const READONLY_OF_PROFILE: &str = "2";

/// What one statement may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Seconds that it may run.
    pub(crate) seconds: u32,
    /// Rows that it may read, as the store reckons before it begins; 0 for any number.
    pub(crate) rows: u64,
}

impl Bounds {
    /// Those of a statement that somebody waits for.
    pub(crate) fn of(config: &StoreConfig) -> Self {
        Self { seconds: config.max_execution_time_seconds, rows: 0 }
    }

    /// Those of a statement whose answer is passed on while it arrives. ClickHouse counts the time for which it cannot get
    /// rid of its answer; that is the reader's time, which has a limit of its own.
    pub(crate) fn while_read(self, config: &StoreConfig) -> Self {
        Self { seconds: self.seconds.max(config.answer_timeout_seconds), ..self }
    }

    /// How long it may run.
    pub(crate) fn time(self) -> Duration {
        Duration::from_secs(u64::from(self.seconds))
    }
}

/// Of a statement that looks for traces by their ids: their projection leaves so little that it does not pay to look into
/// indexes first.
const BY_ID: (&str, &str) = ("use_skip_indexes_on_data_read", "1");

/// Settings of a statement, as name and value; of one that looks for traces by their ids, or any other.
pub(crate) fn settings(
    config: &StoreConfig,
    bounds: Bounds,
    readonly: &str,
    by_id: bool,
) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("readonly", readonly.to_owned()),
        ("max_execution_time", bounds.seconds.to_string()),
        ("max_rows_to_read", bounds.rows.to_string()),
        ("max_memory_usage", config.max_memory_bytes.to_string()),
    ];
    settings.extend(config.max_threads.map(|threads| ("max_threads", threads.to_string())));
    let all = NEEDED.iter().chain(NEUTRAL).copied();
    let all = all.map(|(name, value)| if by_id && name == BY_ID.0 { BY_ID } else { (name, value) });
    settings.extend(all.map(|(name, value)| (name, value.to_owned())));
    settings
}

/// Names of all settings that are sent.
pub(crate) fn names(config: &StoreConfig) -> Vec<&'static str> {
    settings(config, Bounds::of(config), READONLY, false).into_iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod hostile_profile;

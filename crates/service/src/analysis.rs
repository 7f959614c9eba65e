//! What changes of roles do: previews, collateral access, and the viewers of a trace.

mod change;
mod collateral_access;
mod counted_traces;
mod estimate;
mod impact;
mod role_change;
mod subjects;
mod viewers;

use std::sync::Arc;

use tokio::time::{Duration, Instant, timeout_at};
use tracewarden_clickhouse::ClickHouseError;

use crate::core::{Core, Permit, Result, ServiceError};

pub(crate) use change::Change;
pub use collateral_access::CollateralAnswer;
pub use counted_traces::CountedTraces;
pub use impact::{ImpactAnswer, PolicyPreview, SearchCosts, UserImpact};
pub use role_change::PolicyPreviewRequest;
pub use viewers::{GrantingPolicy, PolicyFailure, Viewer, Viewers};

/// Default and maximum duration of a preview in seconds.
const DEFAULT_SECONDS: i64 = 10;
const MAX_SECONDS: i64 = 60;
/// Share of the requested time for the audit record and the answer, after the queries. At least 100 ms: ClickHouse may keep the
/// processor busy after a statement is cancelled.
const ANSWER_TIME_SHARE: f64 = 0.05;
const MIN_ANSWER_TIME: Duration = Duration::from_millis(100);

/// What changes of roles and policies do.
#[derive(Clone)]
pub struct Analysis {
    pub(crate) core: Arc<Core>,
}

impl Analysis {
    /// Waits for a permit to count, which limits the load on ClickHouse, however many administrators request a preview.
    pub(super) async fn preview_permit(&self, deadline: Instant) -> Result<Permit, ClickHouseError> {
        let permit = timeout_at(deadline, self.core.permits.previews.wait()).await;
        permit.map_err(|_| ClickHouseError::Timeout("other previews were running".to_owned()))
    }
}

/// Returns the time for all queries of a request that may take this many seconds.
pub(crate) fn timeout(seconds: Option<i64>) -> Result<Duration> {
    let seconds = seconds.unwrap_or(DEFAULT_SECONDS);
    match u64::try_from(seconds) {
        Ok(whole) if (1..=MAX_SECONDS).contains(&seconds) => {
            let requested = Duration::from_secs(whole);
            Ok(requested.saturating_sub(requested.mul_f64(ANSWER_TIME_SHARE).max(MIN_ANSWER_TIME)))
        }
        _ => {
            let detail = format!("from 1 to {MAX_SECONDS} seconds");
            Err(ServiceError::invalid("/seconds", detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_the_requested_time_is_left_for_the_answer() {
        for (seconds, milliseconds) in [(Some(1), 900), (Some(2), 1_900), (None, 9_500), (Some(60), 57_000)] {
            assert_eq!(timeout(seconds).unwrap(), Duration::from_millis(milliseconds), "{seconds:?}");
        }
        assert!([0, 61, -1].into_iter().all(|seconds| timeout(Some(seconds)).is_err()));
    }
}

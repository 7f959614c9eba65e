//! Counts the traces of a window: all of them if the time suffices, otherwise a sample.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::counts::Counts;
use crate::search::{Sample, Search, TraceScan, TraceSet, estimate_granules};
use crate::{ClickHouseError, Result};

/// Share of the time-out that counting all traces may take before a sample was counted.
const FULL_COUNT_TIME_SHARE: f64 = 0.6;
/// Seconds for reading a granule of spans, which is 8,192 rows, and for evaluating one predicate on it. Measured on two cores
/// with predicates on two maps.
const SECONDS_PER_GRANULE_READ: f64 = 1.4e-3;
const SECONDS_PER_GRANULE_EVALUATED: f64 = 5.3e-5;
/// Share of the traces in the first sample, when the time suffices to read the columns of all spans, but not to evaluate the
/// predicates.
const FIRST_SHARE: f64 = 1.0 / 64.0;
/// Maximum number of failed samples: where ClickHouse refuses at once, it refuses smaller ones as well.
const MAX_FAILED_SAMPLES: u32 = 8;
/// Maximum share that is reported for a sample: never 1, which means all traces.
const MAX_SAMPLED_FRACTION: f64 = 1.0 - 1e-9;
/// Factor by which a sample that took too long shrinks, and by which a fast one grows at most.
const MAX_SCALE_STEP: f64 = 8.0;
/// Maximum share: a sample of nearly all traces takes longer than counting all.
const MAX_SAMPLE_SHARE: f64 = 0.25;
/// Minimum growth of a sample that is worth another statement.
const MIN_GROWTH: f64 = 2.0;
/// Time in which no statement can answer.
const MIN_STATEMENT_TIME: Duration = Duration::from_millis(20);
/// Rows of a granule.
const GRANULE_ROWS: f64 = 8_192.0;
/// Share of the time that reading a first sample may take.
const READ_TIME_SHARE: f64 = 0.3;
/// Share of the remaining time that a first sample may take.
const FIRST_SAMPLE_TIME_SHARE: f64 = 0.7;
/// Safety factor on the time for counting all traces that samples predict.
const SAFETY_FACTOR: f64 = 1.3;

/// Counts all traces or one sample.
///
/// A trait, because the future of an async closure is not known to be `Send` for every lifetime, and requests are served on
/// several threads.
pub(super) trait TraceCounter: Sync {
    /// Maximum number of predicates that are evaluated for each span.
    fn predicates(&self) -> usize;

    /// Estimates the number of granules that hold the spans; zero without an estimate.
    fn granules(&self, search: &Search<'_>) -> impl Future<Output = f64> + Send;

    /// Returns the counts.
    fn count(&self, search: &Search<'_>, scan: &TraceScan<'_>)
    -> impl Future<Output = Result<Counts>> + Send;
}

/// Time limits for counting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SamplingPlan {
    /// For counting all traces before a sample was counted.
    pub(crate) full_count: Duration,
    /// For everything.
    pub(crate) all: Duration,
    /// Share of the traces in the first sample when the time does not suffice for all; `None` for an estimated one.
    pub(crate) first_share: Option<f64>,
}

impl SamplingPlan {
    pub(crate) fn within(timeout: Duration) -> Self {
        Self { full_count: timeout.mul_f64(FULL_COUNT_TIME_SHARE), all: timeout, first_share: None }
    }

    /// Returns the counts of all traces of the window, with 1, or of a sample, with its share of the traces.
    ///
    /// # Errors
    /// When ClickHouse fails, or the time did not suffice for a sample.
    pub(super) async fn take(
        self,
        search: &mut Search<'_>,
        counter: &impl TraceCounter,
    ) -> Result<(Counts, f64)> {
        let started = Instant::now();
        let final_deadline = started + self.all;
        search.deadline = final_deadline;
        let mut may_count_all = !self.full_count.is_zero();
        let granules = counter.granules(search).await;
        let full_count = granules
            * (SECONDS_PER_GRANULE_READ + SECONDS_PER_GRANULE_EVALUATED * counter.predicates() as f64);
        if may_count_all && full_count <= self.full_count.as_secs_f64() {
            may_count_all = false;
            let deadline = started + self.full_count;
            search.deadline = deadline;
            if let Some(counts) = within_deadline(deadline, count_all(search, counter)).await? {
                return Ok((counts, 1.0));
            }
        }
        let mut share = self.first_share.unwrap_or_else(|| affordable(granules, final_deadline));
        let (mut best, mut failed, mut previous) = (None, 0, None);
        while failed < MAX_FAILED_SAMPLES {
            let now = Instant::now();
            let left = final_deadline.saturating_duration_since(now);
            if left <= MIN_STATEMENT_TIME {
                break;
            }
            let sample = Sample::new(share);
            // Part of the time is reserved: for a larger sample when this one is fast, for a smaller one when it is not.
            let deadline = now + left.mul_f64(if best.is_none() { FIRST_SAMPLE_TIME_SHARE } else { 1.0 });
            search.deadline = deadline;
            let scan =
                TraceScan::BySpan { trace_set: TraceSet::Sample(sample), scan: search.default_range.into() };
            match within_deadline(deadline, counter.count(search, &scan)).await? {
                Some(counts) => {
                    // A sample misses spans of its traces that are outside the range that is read.
                    let fraction = sample.fraction().min(MAX_SAMPLED_FRACTION);
                    best = Some((counts, fraction));
                    let took = now.elapsed().as_secs_f64().max(1e-3);
                    let remaining = final_deadline.saturating_duration_since(Instant::now()).as_secs_f64();
                    let all = previous.and_then(|previous| extrapolated_seconds(previous, (fraction, took)));
                    if may_count_all && all.is_some_and(|all| all * SAFETY_FACTOR <= remaining) {
                        search.deadline = final_deadline;
                        if let Some(counts) =
                            within_deadline(final_deadline, count_all(search, counter)).await?
                        {
                            return Ok((counts, 1.0));
                        }
                        break;
                    }
                    previous = Some((fraction, took));
                    let next = (share * (remaining / 2.0 / took).min(MAX_SCALE_STEP)).min(MAX_SAMPLE_SHARE);
                    if next < share * MIN_GROWTH {
                        break;
                    }
                    share = next;
                }
                None if best.is_some() => break,
                None => {
                    failed += 1;
                    share /= MAX_SCALE_STEP;
                }
            }
        }
        best.ok_or_else(|| ClickHouseError::Timeout("timed out before even a sample was counted".to_owned()))
    }
}

/// Estimates the time for all traces in seconds, by linear extrapolation from two samples.
fn extrapolated_seconds((share, took): (f64, f64), (larger, longer): (f64, f64)) -> Option<f64> {
    (larger > share).then(|| longer + ((longer - took) / (larger - share)).max(0.0) * (1.0 - larger))
}

/// Returns ClickHouse's estimate of the number of granules that hold the spans of a search; zero without an estimate.
pub(super) async fn granules(search: &Search<'_>) -> f64 {
    let granules = estimate_granules(search, &[(None, search.default_range)]).await;
    granules.and_then(|granules| granules.first().copied()).unwrap_or_default().selected as f64
}

/// Returns the share of the traces in the first sample. If reading all granules would take too long, it is so small that the
/// time suffices to read one granule for each of the sample's spans.
fn affordable(granules: f64, final_deadline: Instant) -> f64 {
    let time = final_deadline.saturating_duration_since(Instant::now()).as_secs_f64();
    let affordable = time * READ_TIME_SHARE / SECONDS_PER_GRANULE_READ;
    if granules <= affordable { FIRST_SHARE } else { affordable / (granules * GRANULE_ROWS) }
}

/// Counts all traces of the window.
async fn count_all(search: &Search<'_>, counter: &impl TraceCounter) -> Result<Counts> {
    let mut scan = TraceScan::by_trace(search).await?;
    // A second time with those traces that the index does not bound, if they are few.
    for _ in 0..2 {
        let Some(traces) = &scan else { break };
        let counts = counter.count(search, traces).await?;
        if counts.beyond.is_empty() {
            return Ok(counts);
        }
        scan = traces.with_long_traces(search, counts.beyond).await?;
    }
    counter.count(search, &TraceScan::by_span(search).await?).await
}

/// Returns the result if it is ready in time; `None` if the time-out or a limit of ClickHouse is reached.
async fn within_deadline<T>(deadline: Instant, future: impl Future<Output = Result<T>>) -> Result<Option<T>> {
    // ClickHouse's own limit is in whole seconds. Dropping the future ends the statement at the deadline.
    match timeout_at(deadline, future).await {
        Ok(Err(error)) if !error.is_over_limit() => Err(error),
        Ok(counted) => Ok(counted.ok()),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_time_is_estimated_from_two_samples() {
        // Half a second to plan and to open files, and three for all spans.
        let all = extrapolated_seconds((0.1, 0.8), (0.2, 1.1)).unwrap();
        assert!((all - 3.5).abs() < 1e-9, "{all}");
        // A larger sample that took less time predicts the same time for all traces.
        assert_eq!(extrapolated_seconds((0.1, 0.8), (0.2, 0.7)), Some(0.7));
        assert_eq!(extrapolated_seconds((0.2, 0.8), (0.2, 0.9)), None);
    }
}

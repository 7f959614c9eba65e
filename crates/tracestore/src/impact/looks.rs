//! Looking at the traces of a window: at all of them if there is time, else at a sample.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Counting;
use super::counts::Counts;
use crate::StoreError;
use crate::plan::{Sample, Search, SpanFilter, TraceScan, TraceSet};

/// The share of the patience that counting all traces may take before a sample was counted.
const WHOLE_SHARE: f64 = 0.6;
/// Seconds that a granule of spans takes to read, which is 8,192 rows, and to evaluate with each predicate: measured on two cores
/// with predicates about two maps.
const GRANULE_READ: f64 = 1.4e-3;
const GRANULE_EVALUATED: f64 = 5.3e-5;
/// The share of the traces that is sampled first when there is time to read what is needed of all, and not to evaluate it.
const FIRST_SHARE: f64 = 1.0 / 64.0;
/// Samples that come to nothing before it is given up: where the store refuses at once, smaller ones are refused as well.
const MOST_FAILED: u32 = 8;
/// What a sample is told as at most: never as everything.
const SAMPLED: f64 = 1.0 - 1e-9;
/// By how much a sample that took too long becomes smaller, and one that took little time larger at most.
const STEP: f64 = 8.0;
/// The largest share: a sample of nearly everything takes longer than looking at everything.
const LARGEST_SHARE: f64 = 0.25;
/// A larger sample is worth another look from here on.
const WORTHWHILE: f64 = 2.0;
/// Time in which no statement answers.
const TOO_SHORT: Duration = Duration::from_millis(20);
/// Rows of a granule.
const ROWS: f64 = 8_192.0;
/// The share of the time that reading a first sample may take.
const READING_SHARE: f64 = 0.3;
/// The share of the time that is left which a first sample may take.
const FIRST_TRY: f64 = 0.7;
/// How much longer than samples suggest looking at everything may take.
const SURE: f64 = 1.3;

/// How long may be looked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looks {
    /// At all traces.
    pub(crate) whole: Duration,
    /// In all.
    pub(crate) all: Duration,
    /// The share of the traces that is sampled first when there is no time for all; nothing for what is affordable.
    pub(crate) first_share: Option<f64>,
}

impl Looks {
    pub(crate) fn within(patience: Duration) -> Self {
        Self { whole: patience.mul_f64(WHOLE_SHARE), all: patience, first_share: None }
    }

    /// What `counting` says of all traces of the window, with 1; or of a sample, with the share of the traces that it is.
    ///
    /// # Errors
    /// When the store fails, or there was not even time for a sample.
    pub(super) async fn take(
        self,
        search: &mut Search<'_>,
        counting: &impl Counting,
    ) -> Result<(Counts, f64), StoreError> {
        let begun = Instant::now();
        let until = begun + self.all;
        search.deadline = until;
        let mut whole_is_open = !self.whole.is_zero();
        let granules = granules(search).await;
        let whole = granules * (GRANULE_READ + GRANULE_EVALUATED * counting.predicates() as f64);
        if whole_is_open && whole <= self.whole.as_secs_f64() {
            whole_is_open = false;
            let deadline = begun + self.whole;
            search.deadline = deadline;
            if let Some(counts) = by(deadline, whole_window(search, counting)).await? {
                return Ok((counts, 1.0));
            }
        }
        let mut share = self.first_share.unwrap_or_else(|| affordable(granules, until));
        let (mut best, mut failed, mut before) = (None, 0, None);
        while failed < MOST_FAILED {
            let now = Instant::now();
            let left = until.saturating_duration_since(now);
            if left <= TOO_SHORT {
                break;
            }
            let sample = Sample::of(share);
            // A part of the time is kept: for a larger sample when this is quick, for a smaller one when it is not.
            let deadline = now + left.mul_f64(if best.is_none() { FIRST_TRY } else { 1.0 });
            search.deadline = deadline;
            let scan = TraceScan::BySpan { among: TraceSet::Sample(sample), scan: search.default.into() };
            match by(deadline, counting.count(search, &scan)).await? {
                Some(counts) => {
                    // Of a trace, spans beyond the range that is read are missed.
                    let fraction = sample.fraction().min(SAMPLED);
                    best = Some((counts, fraction));
                    let took = now.elapsed().as_secs_f64().max(1e-3);
                    let room = until.saturating_duration_since(Instant::now()).as_secs_f64();
                    let all = before.and_then(|before| of_all(before, (fraction, took)));
                    if whole_is_open && all.is_some_and(|all| all * SURE <= room) {
                        search.deadline = until;
                        if let Some(counts) = by(until, whole_window(search, counting)).await? {
                            return Ok((counts, 1.0));
                        }
                        break;
                    }
                    before = Some((fraction, took));
                    let next = (share * (room / 2.0 / took).min(STEP)).min(LARGEST_SHARE);
                    if next < share * WORTHWHILE {
                        break;
                    }
                    share = next;
                }
                None if best.is_some() => break,
                None => {
                    failed += 1;
                    share /= STEP;
                }
            }
        }
        best.ok_or_else(|| StoreError::Timeout("not even a sample could be counted in time".to_owned()))
    }
}

/// How long everything takes, in seconds, if the time grows with the share as between two samples.
fn of_all((share, took): (f64, f64), (larger, longer): (f64, f64)) -> Option<f64> {
    (larger > share).then(|| longer + ((longer - took) / (larger - share)).max(0.0) * (1.0 - larger))
}

/// Granules that hold the spans, by the store's estimate; none without one.
async fn granules(search: &Search<'_>) -> f64 {
    let granules = search.granules(&[(SpanFilter::All, search.default)]).await;
    granules.and_then(|granules| granules.first().copied()).unwrap_or_default().selected as f64
}

/// The share of the traces that is sampled first. Where to read all granules would take too long, so few traces that there is time
/// for a granule of each of their spans.
fn affordable(granules: f64, until: Instant) -> f64 {
    let time = until.saturating_duration_since(Instant::now()).as_secs_f64();
    let affordable = time * READING_SHARE / GRANULE_READ;
    if granules <= affordable { FIRST_SHARE } else { affordable / (granules * ROWS) }
}

/// What is counted of all traces of the window.
async fn whole_window(search: &Search<'_>, counting: &impl Counting) -> Result<Counts, StoreError> {
    let mut scan = TraceScan::by_trace(search).await?;
    // Once more with those that the index does not hold all of, if they are few.
    for _ in 0..2 {
        let Some(traces) = &scan else { break };
        let counts = counting.count(search, traces).await?;
        if counts.beyond.is_empty() {
            return Ok(counts);
        }
        scan = traces.with_long(search, &counts.beyond).await?;
    }
    counting.count(search, &TraceScan::by_span(search).await?).await
}

/// What comes in time; nothing where the store has to give up.
async fn by<T>(
    deadline: Instant,
    looking: impl Future<Output = Result<T, StoreError>>,
) -> Result<Option<T>, StoreError> {
    // The store is told whole seconds; whoever does not wait for it any longer stops it.
    match timeout_at(deadline, looking).await {
        Ok(Err(error)) if !error.is_over_limit() => Err(error),
        Ok(counted) => Ok(counted.ok()),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_everything_takes_follows_from_two_samples() {
        // Half a second to plan and to open files, and three for all spans.
        let all = of_all((0.1, 0.8), (0.2, 1.1)).unwrap();
        assert!((all - 3.5).abs() < 1e-9, "{all}");
        // A larger sample that took less says nothing of more, but that everything takes as long.
        assert_eq!(of_all((0.1, 0.8), (0.2, 0.7)), Some(0.7));
        assert_eq!(of_all((0.2, 0.8), (0.2, 0.9)), None);
    }
}

//! Looking at the traces of a window: at all of them if there is time, else at a sample.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Counting;
use super::statement::Counts;
use crate::StoreError;
use crate::plan::{Search, SpanFilter, TimeRanges, TraceScan, TraceSet};

/// The share of the patience that looking at all traces may take.
const WHOLE_SHARE: f64 = 0.6;
/// Granules of spans, which are 8,192 rows, that no store reads in a second: where there are more, a sample is read from the start.
const GRANULES_A_SECOND: f64 = 25_000.0;
/// The share of the window that is looked at first when there is no time for all.
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

/// How long may be looked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looks {
    /// At all traces.
    pub(crate) whole: Duration,
    /// In all.
    pub(crate) all: Duration,
    /// The share of the window that is looked at first when there is no time for all.
    pub(crate) first_share: f64,
    /// How many nanoseconds around a slice; nothing for what is affordable.
    pub(crate) margin: Option<i64>,
}

impl Looks {
    pub(crate) fn within(patience: Duration) -> Self {
        Self { whole: patience.mul_f64(WHOLE_SHARE), all: patience, first_share: FIRST_SHARE, margin: None }
    }

    /// What `counting` says of all traces of the window, with 1; or of a sample, with the share of the window that it is of.
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
        let whole = begun + self.whole;
        search.deadline = until;
        if !hopeless(search, self.whole).await {
            search.deadline = whole;
            if let Some(counts) = by(whole, whole_window(search, counting)).await? {
                return Ok((counts, 1.0));
            }
        }
        let (mut share, mut best, mut failed) = (self.first_share, None, 0);
        while failed < MOST_FAILED {
            let now = Instant::now();
            let left = until.saturating_duration_since(now);
            let Some(slices) = search.slices(share, self.margin).filter(|_| left > TOO_SHORT) else { break };
            // Half of the time is kept for another one: larger when this is quick, smaller when it is not.
            let deadline = now + left / 2;
            search.deadline = deadline;
            let scan = TraceScan::BySpan { among: TraceSet::Slices(&slices), scan: TimeRanges::default() };
            match by(deadline, counting.count(search, &scan)).await? {
                Some(counts) => {
                    // Slices may be all of a short window; yet they see less of what is around it than all its traces need.
                    best = Some((counts, slices.fraction.min(SAMPLED)));
                    let took = now.elapsed().as_secs_f64().max(1e-3);
                    let room = until.saturating_duration_since(Instant::now()).as_secs_f64() / 2.0;
                    let next = (share * (room / took).min(STEP)).min(LARGEST_SHARE);
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

/// Whether the store reckons with more than it can read in that time.
async fn hopeless(search: &Search<'_>, time: Duration) -> bool {
    let granules = search.granules(&[(SpanFilter::All, search.default)]).await;
    let all = granules.and_then(|granules| granules.first().copied());
    all.is_some_and(|all| all.selected as f64 > GRANULES_A_SECOND * time.as_secs_f64())
}

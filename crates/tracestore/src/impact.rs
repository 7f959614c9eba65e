//! Which traces of a window a change of policies would open and close: the difference between what a query finds before and
//! after it, without listing either.
//!
//! Counts leave the store for traces that nobody was asked about reading, so whoever asks has to answer for it, as for those of
//! [`recent_reach`](TraceStore::recent_reach). Ids of traces leave only where a scope opens them.

mod looks;
mod statement;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tracewarden_model::{Binding, Filter, MarkedField, Window};
use tracewarden_policy::{AccessScope, Predicate};

use crate::cost::Cost;
use crate::plan::{Search, Tuning};
use crate::select::{SEARCHES_MAX, SelectRequest, Tables};
use crate::table::BoundTable;
use crate::{StoreError, TraceStore};
pub(crate) use looks::{Counting, Look, Looks};
use statement::Counts;
pub(crate) use statement::bits;

/// Most predicates of one question.
pub const MAX_IMPACT_PREDICATES: usize = 63;
/// Most ids of traces that one comparison lists of each kind.
const MAX_SAMPLES: u32 = 1_000;
/// Largest all predicates of one statement together, in nodes as written; a comparison of larger ones has its own.
const MAX_SIZE: u64 = 20_000;

/// Somebody's access before and after a change, each as numbers of predicates: a trace is open when any of them is satisfied by
/// any of its spans.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Comparison {
    /// Before.
    pub before: Vec<usize>,
    /// After.
    pub after: Vec<usize>,
}

/// What is compared, and when.
#[derive(Clone, Copy)]
pub struct ImpactRequest<'a> {
    /// The bound table.
    pub binding: &'a Binding,
    /// At most [`MAX_IMPACT_PREDICATES`].
    pub predicates: &'a [Predicate],
    /// Any number of them: equal ones are counted once.
    pub comparisons: &'a [Comparison],
    /// The window that the traces are looked for in.
    pub window: Window,
    /// Ids of traces leave only where this opens them.
    pub readable: &'a AccessScope,
    /// Whether nothing else is counted either.
    pub only_readable: bool,
    /// Every field that the policies behind the predicates name, though nothing of it may be left in them.
    pub rests_on: &'a [Arc<MarkedField>],
    /// How many ids of gained and of lost traces at most, each.
    pub samples: u32,
    /// How long all of it may take.
    pub patience: Duration,
}

/// What changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Impact {
    /// In the order of the comparisons.
    pub compared: Vec<Difference>,
    /// Traces looked at, whatever opens them.
    pub traces: u64,
    /// The share of the window whose traces were looked at: 1 for all of them, when the counts are exact. All counts are of
    /// that share, not scaled.
    pub fraction: f64,
    /// What it took.
    pub cost: Cost,
}

/// What changes for somebody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// Traces that are open after and not before.
    pub gained: u64,
    /// Before and not after.
    pub lost: u64,
    /// Before and after.
    pub unchanged: u64,
    /// Ids of gained traces that may be read, those with the latest span in the window first, then by id.
    pub gained_ids: Vec<String>,
    /// Of lost ones, likewise.
    pub lost_ids: Vec<String>,
}

impl TraceStore {
    /// Compares what predicates open of the traces in a window. A trace is in the window, and a span counts for it, as
    /// when [selecting](Self::select): with all traces looked at, the counts are those of the differences between two
    /// queries. Where that takes too long for the patience that there is, a sample is looked at.
    ///
    /// # Errors
    /// When the store fails, a field is no longer what it was marked as, or there was not even time for a sample.
    pub async fn impact(&self, request: ImpactRequest<'_>) -> Result<Impact, StoreError> {
        self.impact_by(request, Looks::within(request.patience)).await
    }

    pub(crate) async fn impact_by(
        &self,
        request: ImpactRequest<'_>,
        looks: Looks,
    ) -> Result<Impact, StoreError> {
        if request.predicates.len() > MAX_IMPACT_PREDICATES {
            let message = format!("at most {MAX_IMPACT_PREDICATES} predicates can be compared at once");
            return Err(StoreError::Internal(message));
        }
        let numbers =
            request.comparisons.iter().flat_map(|compared| compared.before.iter().chain(&compared.after));
        if numbers.copied().any(|number| number >= request.predicates.len()) {
            return Err(StoreError::Internal("a comparison is of a predicate that is not there".to_owned()));
        }
        let store = self.metered();
        for _ in 0..SEARCHES_MAX {
            let tables = store.bound_tables(request.binding).await?;
            let moves = store.client.moves().max(1);
            let impact = store.impact_of(request, looks, tables).await;
            // What one endpoint says of the columns is not what another reads.
            if store.client.moves() <= moves {
                return impact;
            }
        }
        Err(StoreError::Short("the endpoint changed with every search".to_owned()))
    }

    async fn impact_of(
        &self,
        request: ImpactRequest<'_>,
        looks: Looks,
        tables: Tables,
    ) -> Result<Impact, StoreError> {
        let table = BoundTable::new(request.binding, tables.columns.to_vec())?;
        let filter = Filter::default();
        let of = WindowOf { readable: request.readable, window: request.window, rests_on: request.rests_on };
        let mut search = of.search(self, request.binding, &filter, &table, tables.index)?;
        if request.only_readable && request.readable.opens_nothing() {
            let compared = vec![Difference::default(); request.comparisons.len()];
            return Ok(Impact { compared, traces: 0, fraction: 1.0, cost: self.cost() });
        }
        let (distinct, places) = distinct(request.comparisons);
        let comparing = Comparing { request: &request, distinct: &distinct };
        let (counts, fraction) = looks.take(&mut search, &comparing).await?;
        let ids = request.samples as usize;
        let compared = places
            .into_iter()
            .map(|place| {
                let mut compared = counts.compared.get(place).cloned().unwrap_or_default();
                compared.gained_ids.truncate(ids);
                compared.lost_ids.truncate(ids);
                compared
            })
            .collect();
        Ok(Impact { compared, traces: counts.traces, fraction, cost: self.cost() })
    }
}

/// Counts what each of these comparisons finds.
struct Comparing<'a> {
    request: &'a ImpactRequest<'a>,
    distinct: &'a [&'a Comparison],
}

impl Counting for Comparing<'_> {
    type Counted = Counts;

    async fn count(&self, search: &Search<'_>, look: Look<'_>) -> Result<Counts, StoreError> {
        let mut counts = Counts::default();
        for part in parts(self.distinct, self.request.predicates) {
            let statement = statement::statement(search, &look, self.request, part)?;
            counts.add(search.rows(statement).await?, part.len())?;
        }
        Ok(counts)
    }
}

/// A window of traces, for counting in it.
pub(crate) struct WindowOf<'a> {
    pub(crate) readable: &'a AccessScope,
    pub(crate) window: Window,
    pub(crate) rests_on: &'a [Arc<MarkedField>],
}

impl<'a> WindowOf<'a> {
    /// A search that knows which spans count and which traces are readable.
    pub(crate) fn search(
        &self,
        store: &'a TraceStore,
        binding: &'a Binding,
        filter: &'a Filter,
        table: &'a BoundTable,
        index: Option<String>,
    ) -> Result<Search<'a>, StoreError> {
        table.check_fields(self.rests_on.iter().map(AsRef::as_ref))?;
        let selecting = SelectRequest {
            binding,
            scope: self.readable,
            filter,
            window: self.window,
            limit: 0,
            after: None,
            progress: None,
        };
        store.prepare(&selecting, table, index, Tuning::default())
    }
}

/// Comparisons without repetition: members with the same roles are told the same. And of each its place among them.
fn distinct(comparisons: &[Comparison]) -> (Vec<&Comparison>, Vec<usize>) {
    let mut known: HashMap<&Comparison, usize> = HashMap::new();
    let mut distinct = Vec::new();
    let places = comparisons
        .iter()
        .map(|comparison| {
            *known.entry(comparison).or_insert_with(|| {
                distinct.push(comparison);
                distinct.len() - 1
            })
        })
        .collect();
    (distinct, places)
}

/// Comparisons in parts that one statement can hold each; there is one part at least.
fn parts<'c>(comparisons: &'c [&'c Comparison], predicates: &[Predicate]) -> Vec<&'c [&'c Comparison]> {
    let (mut parts, mut begin, mut known, mut size) = (Vec::new(), 0, 0_u64, 0_u64);
    for (at, comparison) in comparisons.iter().enumerate() {
        let own = bits(comparison.before.iter().chain(&comparison.after));
        let added = size_of(own & !known, predicates);
        if at > begin && size.saturating_add(added) > MAX_SIZE {
            parts.extend(comparisons.get(begin..at));
            (begin, known, size) = (at, own, size_of(own, predicates));
        } else {
            (known, size) = (known | own, size.saturating_add(added));
        }
    }
    parts.extend(comparisons.get(begin..));
    parts
}

fn size_of(bits: u64, predicates: &[Predicate]) -> u64 {
    let chosen = predicates.iter().enumerate().filter(|(number, _)| bits >> number & 1 == 1);
    chosen.map(|(_, predicate)| predicate.size()).fold(0, u64::saturating_add)
}

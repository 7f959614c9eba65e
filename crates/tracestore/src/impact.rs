//! What policies open of the traces of a window, without listing them: which traces a change would open and close, as the
//! difference between what a query finds before and after it, and what is shared by what they open.
//!
//! Counts leave the store for traces that nobody was asked about reading, so whoever asks has to answer for it, as for those of
//! [`recent_reach`](TraceStore::recent_reach). Ids of traces leave only where a scope opens them.

mod counts;
mod looks;
mod masks;
mod sharing;
mod statement;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tracewarden_model::{Binding, Filter, MarkedField, Window};
use tracewarden_policy::{AccessScope, Predicate};

use crate::cost::Cost;
use crate::plan::{Search, TraceScan, Tuning};
use crate::select::{SEARCHES_MAX, SelectRequest, Tables};
use crate::table::BoundTable;
use crate::{StoreError, TraceStore};
use counts::Counts;
pub(crate) use looks::Looks;
pub use sharing::{MAX_OPENINGS, Shared, SharedValue, Sharing, Spread};

/// Most predicates of one question.
pub const MAX_IMPACT_PREDICATES: usize = 1_000;
/// Most ids of traces that one comparison lists of each kind.
const MAX_SAMPLES: u32 = 1_000;
/// Largest all predicates of one statement together, in nodes as written; what is larger by itself has its own.
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

/// What is asked, and of when.
#[derive(Clone, Copy)]
pub struct ImpactRequest<'a> {
    /// The bound table.
    pub binding: &'a Binding,
    /// At most [`MAX_IMPACT_PREDICATES`].
    pub predicates: &'a [Predicate],
    /// Any number of them: equal ones are counted once.
    pub comparisons: &'a [Comparison],
    /// What is shared by what some of the predicates open, if that is asked.
    pub sharing: Option<Sharing<'a>>,
    /// The window that the traces are looked for in.
    pub window: Window,
    /// Ids and values of traces leave only where this opens them.
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

/// What changes, and what is shared.
#[derive(Debug, Clone, PartialEq)]
pub struct Impact {
    /// In the order of the comparisons.
    pub compared: Vec<Difference>,
    /// In the order of the openings.
    pub shared: Vec<Shared>,
    /// Traces compared, whatever opens them.
    pub traces: u64,
    /// The share of the traces that was read: 1 for all of them, when the counts are exact. All counts are of
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
    /// Compares what predicates open of the traces in a window, and counts the values of a field in what some of them open. A
    /// trace is in the window, and a span counts for it, as when [selecting](Self::select): with all traces looked at, the
    /// counts are those of the differences between two queries. Where that takes too long for the patience that there is, a
    /// sample is looked at.
    ///
    /// # Errors
    /// When the store fails, a field or column is no longer what it was marked as, or there was not even time for a sample.
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
        let openings = request.sharing.map_or(&[][..], |sharing| sharing.openings);
        if openings.len() > MAX_OPENINGS {
            let message = format!("at most {MAX_OPENINGS} openings can be asked about at once");
            return Err(StoreError::Internal(message));
        }
        let compared =
            request.comparisons.iter().flat_map(|compared| compared.before.iter().chain(&compared.after));
        if compared.chain(openings.iter().flatten()).any(|number| *number >= request.predicates.len()) {
            return Err(StoreError::Internal("a question is about a predicate that is not there".to_owned()));
        }
        if let Some(sharing) = request.sharing {
            sharing.by.check()?;
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
        if let Some(sharing) = request.sharing {
            // Before anything is known to be empty, so that a column that is gone is the same error for everyone.
            sharing.by.of_trace("0", &table, &mut table.statement())?;
        }
        let shared = vec![Shared::default(); request.sharing.map_or(0, |sharing| sharing.openings.len())];
        let opens =
            |number: &usize| !matches!(request.predicates.get(*number), Some(Predicate::False) | None);
        let unopened = request.comparisons.is_empty()
            && request.sharing.is_some_and(|sharing| !sharing.openings.iter().flatten().any(opens));
        if unopened || (request.only_readable && request.readable.opens_nothing()) {
            let compared = vec![Difference::default(); request.comparisons.len()];
            return Ok(Impact { compared, shared, traces: 0, fraction: 1.0, cost: self.cost() });
        }
        let (distinct, places) = distinct(request.comparisons);
        let sharing = request.sharing.filter(|sharing| sharing.openings.iter().flatten().any(opens));
        let question = Question { request: &request, sharing, distinct: &distinct };
        let (mut counts, fraction) = looks.take(&mut search, &question).await?;
        counts.shared.resize(shared.len(), Shared::default());
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
        Ok(Impact { compared, shared: counts.shared, traces: counts.traces, fraction, cost: self.cost() })
    }
}

/// What is counted in one look.
///
/// A trait, because the future that an async closure gives is not known to be `Send` for every lifetime, and requests are
/// served on several threads.
trait Counting: Sync {
    /// How many predicates are evaluated of each span, at most.
    fn predicates(&self) -> usize;

    /// The counts.
    fn count(
        &self,
        search: &Search<'_>,
        scan: &TraceScan<'_>,
    ) -> impl Future<Output = Result<Counts, StoreError>> + Send;
}

/// All that is asked.
struct Question<'a> {
    request: &'a ImpactRequest<'a>,
    /// Nothing when nothing is opened that could be shared.
    sharing: Option<Sharing<'a>>,
    distinct: &'a [&'a Comparison],
}

/// As much of it as one statement counts.
struct Part<'a> {
    comparisons: &'a [&'a Comparison],
    sharing: Option<Sharing<'a>>,
    /// The numbers of the predicates that it is about.
    used: BTreeSet<usize>,
}

impl Counting for Question<'_> {
    fn predicates(&self) -> usize {
        self.request.predicates.len()
    }

    async fn count(&self, search: &Search<'_>, scan: &TraceScan<'_>) -> Result<Counts, StoreError> {
        let mut counts = Counts::default();
        for part in parts(self.distinct, self.sharing, self.request.predicates) {
            let statement = statement::statement(search, scan, self.request, &part)?;
            counts.add(search.rows(statement).await?, &part, self.request.samples)?;
            if !counts.beyond.is_empty() {
                break;
            }
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
        index: Option<crate::trace_index::TraceIndex>,
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

/// All that is asked in parts that one statement can count each; there is one part at least.
fn parts<'a>(
    comparisons: &'a [&'a Comparison],
    sharing: Option<Sharing<'a>>,
    predicates: &[Predicate],
) -> Vec<Part<'a>> {
    let opening: BTreeSet<usize> =
        sharing.iter().flat_map(|sharing| sharing.openings.iter().flatten()).copied().collect();
    let (mut parts, mut begin, mut first) = (Vec::new(), 0, sharing);
    let mut size = size_of(&opening, predicates);
    let mut used = opening;
    for (at, comparison) in comparisons.iter().enumerate() {
        let own: BTreeSet<usize> = comparison.before.iter().chain(&comparison.after).copied().collect();
        let added = size_of(own.difference(&used), predicates);
        if (at > begin || first.is_some()) && size.saturating_add(added) > MAX_SIZE {
            let comparisons = comparisons.get(begin..at).unwrap_or_default();
            let used = std::mem::take(&mut used);
            parts.push(Part { comparisons, sharing: first.take(), used });
            (begin, size) = (at, size_of(&own, predicates));
        } else {
            size = size.saturating_add(added);
        }
        used.extend(own);
    }
    let comparisons = comparisons.get(begin..).unwrap_or_default();
    parts.push(Part { comparisons, sharing: first, used });
    parts
}

fn size_of<'n>(numbers: impl IntoIterator<Item = &'n usize>, predicates: &[Predicate]) -> u64 {
    let chosen = numbers.into_iter().filter_map(|number| predicates.get(*number));
    chosen.map(Predicate::size).fold(0, u64::saturating_add)
}

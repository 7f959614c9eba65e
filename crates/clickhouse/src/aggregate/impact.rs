//! To which traces of a window policies grant access, without listing them: the traces that a change would add and remove, as
//! the difference between a query before and after it, and collateral access.
//!
//! The counts cover traces that the caller may not be able to read, so the caller is responsible for authorisation, as for
//! those of [`policy_coverage`](ClickHouse::policy_coverage). Ids of traces are returned only where a scope allows it.

mod collateral;
mod counts;
mod masks;
mod sampling_plan;
mod statement;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tracewarden_model::{Binding, Filter, MarkedField, Window};
use tracewarden_policy::{AccessScope, Predicate};

use crate::client::Cost;
use crate::schema::{BoundTable, Tables};
use crate::search::{MAX_SEARCH_ATTEMPTS, PlannerOptions, Search, SelectRequest, TraceScan};
use crate::{ClickHouse, ClickHouseError};
pub use collateral::{
    CollateralGrouping, CollateralQuery, CollateralValues, MAX_PREDICATE_SETS, SharedValue,
};
use counts::Counts;
pub(crate) use sampling_plan::SamplingPlan;

/// Maximum number of predicates of one request.
pub const MAX_IMPACT_PREDICATES: usize = 1_000;
/// Maximum number of trace ids of each kind that one comparison lists.
const MAX_SAMPLES: u32 = 1_000;
/// Maximum size of all predicates of one statement together, in nodes as written. A larger predicate has a statement of its
/// own.
const MAX_STATEMENT_SIZE: u64 = 20_000;

/// One user's access before and after a change, each as indexes of predicates: a trace is accessible when any of its spans
/// satisfies any of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Comparison {
    /// Before.
    pub before: Vec<usize>,
    /// After.
    pub after: Vec<usize>,
}

/// A request for the impact of a change.
#[derive(Clone, Copy)]
pub struct ImpactRequest<'a> {
    /// The bound table.
    pub binding: &'a Binding,
    /// At most [`MAX_IMPACT_PREDICATES`].
    pub predicates: &'a [Predicate],
    /// Comparisons, without a limit on their number: equal ones are counted once.
    pub comparisons: &'a [Comparison],
    /// Which collateral access to count, if any.
    pub collateral: Option<CollateralQuery<'a>>,
    /// The window of the traces.
    pub window: Window,
    /// Ids and values of traces are returned only where this scope allows it.
    pub readable: &'a AccessScope,
    /// Whether other traces are not counted either.
    pub only_readable: bool,
    /// All fields of the policies behind the predicates, even if the predicates no longer refer to them.
    pub referenced_fields: &'a [Arc<MarkedField>],
    /// Maximum number of ids of gained traces, and of lost traces.
    pub samples: u32,
    /// Time-out for the whole request.
    pub timeout: Duration,
}

/// Changes, and collateral access.
#[derive(Debug, Clone, PartialEq)]
pub struct Impact {
    /// In the order of the comparisons.
    pub compared: Vec<Difference>,
    /// In the order of [`CollateralQuery::predicate_sets`].
    pub collateral_values: Vec<CollateralValues>,
    /// Number of compared traces, accessible or not.
    pub traces: u64,
    /// The share of the traces that was read: 1 for all of them, when the counts are exact. All counts are for that share,
    /// not scaled.
    pub fraction: f64,
    /// Cost of the statements.
    pub cost: Cost,
}

/// Changes for one user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// Number of traces that are accessible after the change and not before.
    pub gained: u64,
    /// Number of traces that are accessible before and not after.
    pub lost: u64,
    /// Number of traces that are accessible before and after.
    pub unchanged: u64,
    /// Ids of gained traces that may be returned, those with the latest span in the window first, then by id.
    pub gained_ids: Vec<String>,
    /// Ids of lost traces, likewise.
    pub lost_ids: Vec<String>,
}

impl ClickHouse {
    /// Compares the access that predicates grant to the traces in a window, and counts the values of a field in traces that
    /// some of them grant access to. A trace is in the window, and a span counts for it, as in a [selection](Self::select):
    /// if all traces are read, the counts are the differences between two queries. If that takes longer than the time-out, a
    /// sample is read.
    ///
    /// # Errors
    /// When ClickHouse fails, a field or column has changed since it was marked, or the time did not suffice for a sample.
    pub async fn impact(&self, request: ImpactRequest<'_>) -> Result<Impact, ClickHouseError> {
        self.impact_with_plan(request, SamplingPlan::within(request.timeout)).await
    }

    pub(crate) async fn impact_with_plan(
        &self,
        request: ImpactRequest<'_>,
        sampling_plan: SamplingPlan,
    ) -> Result<Impact, ClickHouseError> {
        if request.predicates.len() > MAX_IMPACT_PREDICATES {
            let message = format!("at most {MAX_IMPACT_PREDICATES} predicates can be compared at once");
            return Err(ClickHouseError::Internal(message));
        }
        let predicate_sets = request.collateral.map_or(&[][..], |collateral| collateral.predicate_sets);
        if predicate_sets.len() > MAX_PREDICATE_SETS {
            let message = format!("at most {MAX_PREDICATE_SETS} sets of predicates can be counted at once");
            return Err(ClickHouseError::Internal(message));
        }
        let compared =
            request.comparisons.iter().flat_map(|compared| compared.before.iter().chain(&compared.after));
        if compared.chain(predicate_sets.iter().flatten()).any(|number| *number >= request.predicates.len()) {
            return Err(ClickHouseError::Internal(
                "a comparison refers to a predicate that does not exist".to_owned(),
            ));
        }
        if let Some(collateral) = request.collateral {
            collateral.by.check()?;
        }
        let store = self.metered();
        for _ in 0..MAX_SEARCH_ATTEMPTS {
            let tables = store.bound_tables(request.binding).await?;
            let endpoint_switches = store.client.endpoint_switches().max(1);
            let impact = store.impact_once(request, sampling_plan, tables).await;
            // Another endpoint may have other columns than those that were read.
            if store.client.endpoint_switches() <= endpoint_switches {
                return impact;
            }
        }
        Err(ClickHouseError::IncompleteResponse("the endpoint changed with every search".to_owned()))
    }

    async fn impact_once(
        &self,
        request: ImpactRequest<'_>,
        sampling_plan: SamplingPlan,
        tables: Tables,
    ) -> Result<Impact, ClickHouseError> {
        let table = BoundTable::new(request.binding, tables.columns.to_vec())?;
        let filter = Filter::default();
        let counted_window = CountedWindow {
            readable: request.readable,
            window: request.window,
            referenced_fields: request.referenced_fields,
        };
        let mut search = counted_window.search(self, request.binding, &filter, &table, tables.index)?;
        if let Some(collateral) = request.collateral {
            // Before the check for empty results, so that a missing column is the same error for every user.
            collateral.by.trace_values("0", &table, &mut table.statement())?;
        }
        let collateral_values =
            vec![
                CollateralValues::default();
                request.collateral.map_or(0, |collateral| collateral.predicate_sets.len())
            ];
        let grants_access =
            |number: &usize| !matches!(request.predicates.get(*number), Some(Predicate::False) | None);
        let grants_nothing = request.comparisons.is_empty()
            && request
                .collateral
                .is_some_and(|collateral| !collateral.predicate_sets.iter().flatten().any(grants_access));
        if grants_nothing || (request.only_readable && request.readable.is_empty()) {
            let compared = vec![Difference::default(); request.comparisons.len()];
            return Ok(Impact { compared, collateral_values, traces: 0, fraction: 1.0, cost: self.cost() });
        }
        let (distinct, positions) = distinct(request.comparisons);
        let collateral = request
            .collateral
            .filter(|collateral| collateral.predicate_sets.iter().flatten().any(grants_access));
        let query = ImpactQuery { request: &request, collateral, distinct: &distinct };
        let (mut counts, fraction) = sampling_plan.take(&mut search, &query).await?;
        counts.collateral_values.resize(collateral_values.len(), CollateralValues::default());
        let ids = request.samples as usize;
        let compared = positions
            .into_iter()
            .map(|position| {
                let mut compared = counts.compared.get(position).cloned().unwrap_or_default();
                compared.gained_ids.truncate(ids);
                compared.lost_ids.truncate(ids);
                compared
            })
            .collect();
        Ok(Impact {
            compared,
            collateral_values: counts.collateral_values,
            traces: counts.traces,
            fraction,
            cost: self.cost(),
        })
    }
}

/// Counts all traces or one sample.
///
/// A trait, because the future of an async closure is not known to be `Send` for every lifetime, and requests are served on
/// several threads.
trait TraceCounter: Sync {
    /// Maximum number of predicates that are evaluated for each span.
    fn predicates(&self) -> usize;

    /// Returns the counts.
    fn count(
        &self,
        search: &Search<'_>,
        scan: &TraceScan<'_>,
    ) -> impl Future<Output = Result<Counts, ClickHouseError>> + Send;
}

/// The whole request.
struct ImpactQuery<'a> {
    request: &'a ImpactRequest<'a>,
    /// `None` when no predicate grants access to any trace.
    collateral: Option<CollateralQuery<'a>>,
    distinct: &'a [&'a Comparison],
}

/// The part of it that one statement counts.
struct QueryPart<'a> {
    comparisons: &'a [&'a Comparison],
    collateral: Option<CollateralQuery<'a>>,
    /// Indexes of the predicates that it uses.
    used: BTreeSet<usize>,
}

impl TraceCounter for ImpactQuery<'_> {
    fn predicates(&self) -> usize {
        self.request.predicates.len()
    }

    async fn count(&self, search: &Search<'_>, scan: &TraceScan<'_>) -> Result<Counts, ClickHouseError> {
        let mut counts = Counts::default();
        for part in parts(self.distinct, self.collateral, self.request.predicates) {
            let statement = statement::statement(search, scan, self.request, &part)?;
            counts.add(search.rows(statement).await?, &part, self.request.samples)?;
            if !counts.beyond.is_empty() {
                break;
            }
        }
        Ok(counts)
    }
}

/// A window of traces to count.
pub(crate) struct CountedWindow<'a> {
    pub(crate) readable: &'a AccessScope,
    pub(crate) window: Window,
    pub(crate) referenced_fields: &'a [Arc<MarkedField>],
}

impl<'a> CountedWindow<'a> {
    /// Returns a search that determines which spans count and which traces are readable.
    pub(crate) fn search(
        &self,
        store: &'a ClickHouse,
        binding: &'a Binding,
        filter: &'a Filter,
        table: &'a BoundTable,
        index: Option<crate::schema::TraceIndex>,
    ) -> Result<Search<'a>, ClickHouseError> {
        table.check_fields(self.referenced_fields.iter().map(AsRef::as_ref))?;
        let selecting = SelectRequest {
            binding,
            scope: self.readable,
            filter,
            window: self.window,
            limit: 0,
            after: None,
            progress: None,
        };
        store.prepare(&selecting, table, index, PlannerOptions::default())
    }
}

/// Returns the comparisons without repetition, since members with the same roles have the same results, and the index of each
/// among them.
fn distinct(comparisons: &[Comparison]) -> (Vec<&Comparison>, Vec<usize>) {
    let mut known: HashMap<&Comparison, usize> = HashMap::new();
    let mut distinct = Vec::new();
    let positions = comparisons
        .iter()
        .map(|comparison| {
            *known.entry(comparison).or_insert_with(|| {
                distinct.push(comparison);
                distinct.len() - 1
            })
        })
        .collect();
    (distinct, positions)
}

/// Splits the request into parts that one statement can count each; there is at least one part.
fn parts<'a>(
    comparisons: &'a [&'a Comparison],
    collateral: Option<CollateralQuery<'a>>,
    predicates: &[Predicate],
) -> Vec<QueryPart<'a>> {
    let collateral_predicates: BTreeSet<usize> = collateral
        .iter()
        .flat_map(|collateral| collateral.predicate_sets.iter().flatten())
        .copied()
        .collect();
    let (mut parts, mut begin, mut first) = (Vec::new(), 0, collateral);
    let mut size = total_size(&collateral_predicates, predicates);
    let mut used = collateral_predicates;
    for (at, comparison) in comparisons.iter().enumerate() {
        let own: BTreeSet<usize> = comparison.before.iter().chain(&comparison.after).copied().collect();
        let added = total_size(own.difference(&used), predicates);
        if (at > begin || first.is_some()) && size.saturating_add(added) > MAX_STATEMENT_SIZE {
            let comparisons = comparisons.get(begin..at).unwrap_or_default();
            let used = std::mem::take(&mut used);
            parts.push(QueryPart { comparisons, collateral: first.take(), used });
            (begin, size) = (at, total_size(&own, predicates));
        } else {
            size = size.saturating_add(added);
        }
        used.extend(own);
    }
    let comparisons = comparisons.get(begin..).unwrap_or_default();
    parts.push(QueryPart { comparisons, collateral: first, used });
    parts
}

fn total_size<'n>(numbers: impl IntoIterator<Item = &'n usize>, predicates: &[Predicate]) -> u64 {
    let chosen = numbers.into_iter().filter_map(|number| predicates.get(*number));
    chosen.map(Predicate::size).fold(0, u64::saturating_add)
}

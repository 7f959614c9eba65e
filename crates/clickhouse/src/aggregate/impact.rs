//! To which traces of a window policies grant access, without listing them: the traces that a change would add and remove, as
//! the difference between a query before and after it, and collateral access.
//!
//! The counts cover traces that the caller may not be able to read, so the caller is responsible for authorisation, as for
//! those of [`policy_coverage`](ClickHouse::policy_coverage). Ids of traces are returned only where a scope allows it.

mod collateral;
mod counts;
mod masks;
mod parts;
mod sampling_plan;
mod statement;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeSet;

use tracewarden_model::{Binding, LogicalType};
use tracewarden_policy::Predicate;

use crate::schema::{BoundTable, Tables, TraceIndex};
use crate::search::{NO_FILTER, RequiredPredicates, Search, TraceScan, TraceSet};
use crate::{ClickHouse, ClickHouseError, Result};
pub use collateral::{
    CollateralGrouping, CollateralQuery, CollateralValues, MAX_PREDICATE_SETS, SharedValue,
};
use counts::Counts;
use parts::parts;
pub(crate) use sampling_plan::SamplingPlan;
use sampling_plan::{TraceCounter, granules};
pub use types::{Comparison, Difference, Impact, ImpactRequest, MAX_IMPACT_PREDICATES};

impl ClickHouse {
    /// Compares the access that predicates grant to the traces in a window, and counts the values of a field in traces that
    /// some of them grant access to. A trace is in the window, and a span counts for it, as in a [selection](Self::select):
    /// if all traces are read, the counts are the differences between two queries. If that takes longer than the time-out, a
    /// sample is read.
    ///
    /// # Errors
    /// When ClickHouse fails, a field or column has changed since it was marked, or the time did not suffice for a sample.
    pub async fn impact(&self, request: ImpactRequest<'_>) -> Result<Impact> {
        self.impact_with_plan(request, SamplingPlan::within(request.timeout)).await
    }

    pub(crate) async fn impact_with_plan(
        &self,
        request: ImpactRequest<'_>,
        sampling_plan: SamplingPlan,
    ) -> Result<Impact> {
        let fault = |message: String| Err(ClickHouseError::Internal(message));
        if request.predicates.len() > MAX_IMPACT_PREDICATES {
            return fault(format!("at most {MAX_IMPACT_PREDICATES} predicates can be compared at once"));
        }
        let predicate_sets = request.collateral.map_or(&[][..], |collateral| collateral.predicate_sets);
        if predicate_sets.len() > MAX_PREDICATE_SETS {
            return fault(format!("at most {MAX_PREDICATE_SETS} sets of predicates can be counted at once"));
        }
        let compared =
            request.comparisons.iter().flat_map(|compared| compared.before.iter().chain(&compared.after));
        if compared.chain(predicate_sets.iter().flatten()).any(|number| *number >= request.predicates.len()) {
            return fault("a comparison refers to a predicate that does not exist".to_owned());
        }
        if let Some(CollateralQuery { by: CollateralGrouping::Field(field), .. }) = request.collateral
            && !matches!(field.logical, LogicalType::String | LogicalType::StringArray)
        {
            return fault("values are of fields of strings".to_owned());
        }
        let store = self.metered();
        let attempt = |tables, _| impact_once(&store, request, sampling_plan, tables);
        store.with_tables(request.binding, attempt).await
    }
}

async fn impact_once(
    store: &ClickHouse,
    request: ImpactRequest<'_>,
    sampling_plan: SamplingPlan,
    tables: Tables,
) -> Result<Impact> {
    let bound = |binding: &Binding, tables: &Tables| {
        let table = BoundTable::new(binding, tables.columns.to_vec())?;
        table.check_fields(request.referenced_fields.iter().map(AsRef::as_ref))?;
        Ok::<_, ClickHouseError>(table)
    };
    let table = bound(request.binding, &tables)?;
    let after = match request.binding_after {
        Some(binding) => {
            let tables = store.read_tables(binding).await?;
            Some((bound(binding, &tables)?, tables.index))
        }
        None => None,
    };
    let readable = RequiredPredicates::new(request.readable, &NO_FILTER, &table)?;
    let mut search = store.search_for(readable, request.window, 0, &table, tables.index);
    if let Some(collateral) = request.collateral {
        // Before the check for empty results, so that a missing column is the same error for every user.
        collateral.by.trace_values("0", &table, &mut table.statement())?;
    }
    let predicate_sets = request.collateral.map_or(0, |collateral| collateral.predicate_sets.len());
    let grants_access =
        |number: &usize| !matches!(request.predicates.get(*number), Some(Predicate::False) | None);
    let grants_nothing = request.comparisons.is_empty()
        && request
            .collateral
            .is_some_and(|collateral| !collateral.predicate_sets.iter().flatten().any(grants_access));
    if grants_nothing || (request.only_readable && request.readable.is_empty()) {
        let compared = vec![Difference::default(); request.comparisons.len()];
        let collateral_values = vec![CollateralValues::default(); predicate_sets];
        return Ok(Impact { compared, collateral_values, traces: 0, fraction: 1.0, cost: store.cost() });
    }
    // Members with the same roles have the same results.
    let distinct: BTreeSet<&Comparison> = request.comparisons.iter().collect();
    let distinct: Vec<&Comparison> = distinct.into_iter().collect();
    let collateral =
        request.collateral.filter(|collateral| collateral.predicate_sets.iter().flatten().any(grants_access));
    let query = ImpactQuery { request: &request, after, collateral, distinct: &distinct };
    let (mut counts, fraction) = sampling_plan.take(&mut search, &query).await?;
    counts.collateral_values.resize(predicate_sets, CollateralValues::default());
    let compared = request.comparisons.iter().map(|comparison| {
        let position = distinct.binary_search(&comparison).ok()?;
        counts.compared.get(position).cloned()
    });
    Ok(Impact {
        compared: compared.map(Option::unwrap_or_default).collect(),
        collateral_values: counts.collateral_values,
        traces: counts.traces,
        fraction,
        cost: store.cost(),
    })
}

/// The whole request.
struct ImpactQuery<'a> {
    request: &'a ImpactRequest<'a>,
    /// The table as it is read after the change, with its trace index.
    after: Option<(BoundTable, Option<TraceIndex>)>,
    /// `None` when no predicate grants access to any trace.
    collateral: Option<CollateralQuery<'a>>,
    distinct: &'a [&'a Comparison],
}

impl TraceCounter for ImpactQuery<'_> {
    fn predicates(&self) -> usize {
        self.request.predicates.len()
    }

    async fn granules(&self, search: &Search<'_>) -> f64 {
        let after = match self.search_after(search) {
            Ok(Some(after)) => granules(&after).await,
            Ok(None) | Err(_) => 0.0,
        };
        granules(search).await + after
    }

    async fn count(&self, search: &Search<'_>, scan: &TraceScan<'_>) -> Result<Counts> {
        let mut counts = Counts::default();
        let after = match self.search_after(search)? {
            Some(after) => {
                let scan = match scan {
                    TraceScan::BySpan { trace_set: sample @ TraceSet::Sample(_), .. } => {
                        TraceScan::BySpan { trace_set: *sample, scan: after.default_range.into() }
                    }
                    _ => TraceScan::by_span(&after).await?,
                };
                Some((after, scan))
            }
            None => None,
        };
        let after = after.as_ref().map(|(search, scan)| (search, scan));
        for part in parts(self.distinct, self.collateral, self.request.predicates, after.is_some()) {
            let statement = statement::statement((search, scan), after, self.request, &part)?;
            counts.add(search.rows(statement).await?, &part, self.request.samples)?;
            if !counts.beyond.is_empty() {
                break;
            }
        }
        Ok(counts)
    }
}

impl ImpactQuery<'_> {
    /// Returns the same search of the table as it is read after the change, if it is read differently.
    fn search_after<'t>(&'t self, search: &Search<'t>) -> Result<Option<Search<'t>>> {
        let Some((table, index)) = &self.after else { return Ok(None) };
        // Which ids may be returned is decided by the binding that is in force.
        let all = RequiredPredicates::unscoped(&Predicate::True, &[], table)?;
        let mut after = search.store.search_for(all, search.window, 0, table, index.clone());
        after.deadline = search.deadline;
        Ok(Some(after))
    }
}

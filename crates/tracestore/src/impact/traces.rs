//! The traces that one look is at, as a part of its statement.
//!
//! Which spans of a trace count depends on its entry in the trace index. To join the index to every span costs more than all the
//! rest of the statement. Nearly always the entry holds all spans that a trace has, and then the join may come after the
//! grouping: once for each trace.

use std::collections::BTreeSet;

use crate::StoreError;
use crate::plan::{Search, TimeRanges, TraceSet};
use crate::sql::Statement;
use crate::trace_index::Bounds;

/// Most traces that may reach farther than what is looked at of all of them, or lie beside their entries.
pub(super) const MAX_FAR: usize = 1_000;
/// Entries of a trace index that are no burden to the store's memory all at once.
const FEW_ENTRIES: u64 = 5_000_000;

/// One look: which traces, and where their spans are.
pub(super) enum Look<'a> {
    /// By the bounds of each span's trace.
    Spans {
        /// Which traces.
        among: TraceSet<'a>,
        /// Where all of their spans are.
        scan: TimeRanges,
    },
    /// All traces of the window, grouped before their bounds are looked at. Where that does not do for one of them, it is
    /// flagged.
    Traces {
        /// Traces that reach farther than the default, which are looked at by their spans.
        far: Vec<String>,
        /// Where all spans of these are.
        scan: TimeRanges,
        /// Whether only those entries of the trace index are read whose traces are in the window.
        sought: bool,
    },
}

/// What a look aggregates over the spans of each trace.
pub(super) struct Aggregates<'s> {
    /// Expressions with their names.
    pub(super) columns: &'s str,
    /// The names.
    pub(super) names: &'s str,
    /// Which traces are wanted, by these; nothing for all. A trace that is wanted is so too when spans are looked at that do not
    /// count.
    pub(super) having: &'s str,
}

impl Look<'_> {
    /// All traces of the window with the bounds of each looked at once. Nothing where there are no such bounds, or where they are
    /// far apart for too many.
    pub(super) async fn traces_first(search: &Search<'_>) -> Result<Option<Self>, StoreError> {
        let Some(index) = &search.index else { return Ok(None) };
        let entries: Vec<(u64,)> = search.rows(counted(&index.name)).await?;
        let entries = entries.first().map_or(0, |(entries,)| *entries);
        let sought = entries > FEW_ENTRIES;
        let Some((low, high)) = search.default else {
            return Ok(Some(Self::Traces { far: Vec::new(), scan: TimeRanges::default(), sought }));
        };
        let mut statement = Statement::default();
        let [low, high] = [low, high].map(|time| statement.time(time));
        let (from, to) = (statement.time(search.window.from()), statement.time(search.window.to()));
        let Bounds { from: start, to: end, open, known } = search.bounds(index, &mut statement);
        let index = &index.name;
        let sought_ids = search.entries(sought, &mut statement);
        statement.push(&format!(
            "SELECT `TraceId` FROM {index}{sought_ids} GROUP BY `TraceId` \
             HAVING {is_far} LIMIT {}",
            MAX_FAR + 1,
            is_far = Search::is_trace_with(
                "`TraceId`",
                &format!("{known} AND ({open} OR ({start} < {to} AND {end} > {from} AND ({start} < {low} OR {end} > {high})))")
            ),
        ));
        let far: Vec<(String,)> = search.rows(statement).await?;
        if far.len() > MAX_FAR {
            return Ok(None);
        }
        let far: Vec<String> = far.into_iter().map(|(id,)| id).collect();
        let scan =
            if far.is_empty() { TimeRanges::default() } else { search.scan(TraceSet::Given(&far)).await? };
        Ok(Some(Self::Traces { far, scan, sought }))
    }

    /// The same with further traces looked at by their spans; nothing when they are too many.
    pub(super) async fn with_far(
        &self,
        search: &Search<'_>,
        more: &BTreeSet<String>,
    ) -> Result<Option<Self>, StoreError> {
        let Self::Traces { far, sought, .. } = self else { return Ok(None) };
        let far: Vec<String> = far.iter().chain(more).cloned().collect();
        if far.len() > MAX_FAR {
            return Ok(None);
        }
        let scan = search.scan(TraceSet::Given(&far)).await?;
        Ok(Some(Self::Traces { far, scan, sought: *sought }))
    }

    /// The traces that are looked at, one a row: `trace`, `latest`, which is its latest span in the window in ticks,
    /// `readable`, which is whether the search's scope opens it, `beyond`, which is whether it has spans that may not count, and
    /// what is aggregated.
    pub(super) fn traces(
        &self,
        search: &Search<'_>,
        of: &Aggregates<'_>,
        statement: &mut Statement,
    ) -> Result<String, StoreError> {
        match self {
            Self::Spans { among, scan } => of_spans(search, of, *among, scan, statement),
            Self::Traces { far, scan, sought } => {
                let all = traces_first(search, of, far, *sought, statement)?;
                if far.is_empty() {
                    return Ok(all);
                }
                let far = of_spans(search, of, TraceSet::Given(far), scan, statement)?;
                Ok(format!("{all} UNION ALL {far}"))
            }
        }
    }
}

/// Traces by the bounds of each of their spans.
fn of_spans(
    search: &Search<'_>,
    of: &Aggregates<'_>,
    among: TraceSet<'_>,
    scan: &TimeRanges,
    statement: &mut Statement,
) -> Result<String, StoreError> {
    let spans = search.spans_that_count(among, scan, statement);
    let traces = grouped(search, of, "", &spans, statement)?;
    let [trace, latest, readable, beyond] =
        ["trace", "latest", "readable", "beyond"].map(|name| statement.own(name));
    let sampled = match among {
        TraceSet::Slices(slices) => format!(" AND {}", slices.hold(&latest, statement)),
        TraceSet::Window | TraceSet::Given(_) => String::new(),
    };
    Ok(format!(
        "SELECT {trace}, {latest}, {readable}, toUInt8(0) AS {beyond}, {} FROM ({traces}{sampled})",
        of.names
    ))
}

/// Spans grouped by their traces, which are of the window.
fn grouped(
    search: &Search<'_>,
    of: &Aggregates<'_>,
    more: &str,
    spans: &str,
    statement: &mut Statement,
) -> Result<String, StoreError> {
    let [trace, latest, readable] = ["trace", "latest", "readable"].map(|name| statement.own(name));
    let inside = search.inside(statement);
    let shown = search.demands.shown(&search.demands.all(), search.table, statement)?;
    Ok(format!(
        "SELECT {id} AS {trace}, maxIf({ticks}, {inside}) AS {latest}, ({shown}) AS {readable}, {columns}{more}{spans} \
         GROUP BY {trace} HAVING {is_trace}",
        id = search.table.trace_id,
        ticks = search.table.ticks,
        columns = of.columns,
        is_trace = Search::is_trace_with(&trace, &format!("countIf({inside}) > 0{}", of.having)),
    ))
}

/// All traces of the window but those far ones, each flagged when not all of its spans that are looked at lie within its entry, or
/// its entry not within what is looked at.
fn traces_first(
    search: &Search<'_>,
    of: &Aggregates<'_>,
    far: &[String],
    sought: bool,
    statement: &mut Statement,
) -> Result<String, StoreError> {
    let [trace, latest, readable, beyond, first, last] =
        ["trace", "latest", "readable", "beyond", "first", "last"].map(|name| statement.own(name));
    let [traces, bounds, indexed, start, end, is_open] =
        ["traces", "bounds", "indexed", "start", "end", "open"].map(|name| statement.own(name));
    let timestamp = &search.table.timestamp;
    let near = search.range(search.default, statement);
    let spans = format!(" FROM {} WHERE {near}", search.table.name);
    let times = format!(", min({timestamp}) AS {first}, max({timestamp}) AS {last}");
    let mut all = grouped(search, of, &times, &spans, statement)?;
    if !far.is_empty() {
        let far = statement.strings(far);
        all.push_str(&format!(" AND {trace} NOT IN {far}"));
    }
    let Some(index) = &search.index else {
        return Err(StoreError::Internal("there is no trace index".to_owned()));
    };
    let Bounds { from, to, open, known } = search.bounds(index, statement).coarser(search.table.coarse);
    let index = &index.name;
    let sought = search.entries(sought, statement);
    let within = search.default.map_or_else(String::new, |(low, high)| {
        let [low, high] = [low, high].map(|time| statement.time(time));
        format!(" AND {bounds}.{start} >= {low} AND {bounds}.{end} <= {high}")
    });
    // With join_use_nulls = 0, a trace without an entry has an empty id here.
    Ok(format!(
        "SELECT {trace}, {latest}, {readable}, {bounds}.{indexed} != '' AND ({bounds}.{is_open} OR NOT ({first} >= {bounds}.{start} \
         AND {last} < {bounds}.{end}{within})) AS {beyond}, {names} FROM ({all}) AS {traces} \
         GLOBAL LEFT ANY JOIN (SELECT `TraceId` AS {indexed}, {from} AS {start}, {to} AS {end}, {open} AS {is_open} \
         FROM {index}{sought} GROUP BY `TraceId` HAVING {known}) AS {bounds} ON {trace} = {bounds}.{indexed}",
        names = of.names,
    ))
}

fn counted(index: &str) -> Statement {
    let mut statement = Statement::default();
    statement.push(&format!("SELECT count() FROM {index}"));
    statement
}

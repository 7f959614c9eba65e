//! The time range considered for each trace: from the trace index, or else `max_trace_duration` around the window.

use std::collections::HashMap;

use tracewarden_model::Timestamp;

use super::search::{IndexRow, Search, TimeRange};
use crate::Result;
use crate::schema::{BoundTable, IndexBounds};
use crate::sql::Statement;

/// Approximate maximum of time ranges in one statement.
const MAX_RANGES: i64 = 16;

/// Bounds of a trace in nanoseconds, the end exclusive; `None` where it is unbounded.
pub(crate) type NanosRange = Option<(i64, i64)>;

/// Considered time ranges by trace.
#[derive(Debug, Default)]
pub(crate) struct TraceBounds {
    /// Bounds of indexed traces.
    indexed: HashMap<String, NanosRange>,
    default_range: TimeRange,
}

impl TraceBounds {
    /// Bounds without indexed traces: this range for every trace.
    pub(crate) fn new(default_range: TimeRange) -> Self {
        Self { indexed: HashMap::new(), default_range }
    }

    /// Adds an indexed trace. Bounds are rounded down to ticks of the timestamp column, as in the grouped pass: a finer index
    /// could start after the trace's first span.
    pub(crate) fn insert(&mut self, table: &BoundTable, (trace, from, to, unusable): IndexRow) {
        self.indexed.insert(trace, (unusable == 0).then(|| (table.whole_ticks(from), table.whole_ticks(to))));
    }

    /// Adds missing traces; existing bounds are newer and stay.
    pub(crate) fn extend(&mut self, earlier: &Self) {
        for (trace, bounds) in &earlier.indexed {
            self.indexed.entry(trace.clone()).or_insert(*bounds);
        }
    }

    pub(crate) fn traces(&self) -> impl Iterator<Item = &String> {
        self.indexed.keys()
    }

    /// The time range considered for a trace.
    pub(crate) fn get(&self, trace: &str) -> NanosRange {
        match self.indexed.get(trace) {
            Some(bounds) => *bounds,
            None => self.default_range.map(|(from, to)| (from.as_nanos(), to.as_nanos())),
        }
    }

    /// Whether all spans of a trace between these two times count.
    pub(crate) fn contain_range(&self, trace: &str, oldest: i64, newest: i64) -> bool {
        self.get(trace).is_none_or(|(from, to)| from <= oldest && newest < to)
    }

    /// SQL: whether a span of these traces is within the bounds of its trace.
    pub(crate) fn within(&self, traces: &[String], table: &BoundTable, statement: &mut Statement) -> String {
        let ticks = |range: NanosRange| {
            range.map_or((i64::MIN, i64::MAX), |(from, to)| {
                (table.tick_at_or_after(from), table.tick_at_or_after(to).saturating_sub(1))
            })
        };
        let entries = traces.iter().filter_map(|trace| self.indexed.get_key_value(trace));
        let (ids, bounds): (Vec<String>, Vec<(i64, i64)>) =
            entries.map(|(trace, bounds)| (trace.clone(), ticks(*bounds))).unzip();
        if ids.is_empty() {
            return TimeRanges::from(self.default_range).time_condition(table, statement);
        }
        let (firsts, lasts): (Vec<i64>, Vec<i64>) = bounds.into_iter().unzip();
        let (first, last) = ticks(self.default_range.map(|(from, to)| (from.as_nanos(), to.as_nanos())));
        let ids = statement.string_array(&ids);
        let mut of_trace = |bounds: &[i64], default| {
            let bounds = statement.array("Int64", bounds.iter().map(i64::to_string));
            let default = statement.int(default);
            format!("transform({id}, {ids}, {bounds}, {default})", id = table.trace_id.text)
        };
        let (first, last) = (of_trace(&firsts, first), of_trace(&lasts, last));
        format!("({ticks} >= {first} AND {ticks} <= {last})", ticks = table.ticks)
    }

    /// Returns the time ranges that hold all considered spans of these traces.
    pub(crate) fn ranges<'t>(&self, traces: impl Iterator<Item = &'t String>) -> TimeRanges {
        let bounds: Option<Vec<(i64, i64)>> = traces.map(|trace| self.get(trace)).collect();
        TimeRanges(bounds.map(merge_nearby))
    }
}

/// Time ranges in nanoseconds, their ends exclusive; `None` for all time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TimeRanges(Option<Vec<(i64, i64)>>);

impl From<TimeRange> for TimeRanges {
    fn from(range: TimeRange) -> Self {
        Self(range.map(|(from, to)| vec![(from.as_nanos(), to.as_nanos())]))
    }
}

impl TimeRanges {
    /// Whether a span is in one of them.
    pub(crate) fn time_condition(&self, table: &BoundTable, statement: &mut Statement) -> String {
        let Some(ranges) = &self.0 else { return "1".to_owned() };
        let mut range = |(from, to): &(i64, i64)| {
            table.within(Timestamp::from_nanos(*from), Timestamp::from_nanos(*to), statement)
        };
        match ranges.as_slice() {
            [] => "0".to_owned(),
            [one] => range(one),
            several => format!("({})", several.iter().map(range).collect::<Vec<_>>().join(" OR ")),
        }
    }
}

/// Sorts ranges and merges those close together. Traces at both ends of a window stay two ranges; the time between is not read.
fn merge_nearby(mut ranges: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    ranges.sort_unstable();
    let last = ranges.iter().map(|(_, to)| *to).max().unwrap_or_default();
    let whole = ranges.first().map_or(0, |(from, _)| last.saturating_sub(*from));
    let near = whole / MAX_RANGES;
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (from, to) in ranges {
        match merged.last_mut() {
            Some(last) if from.saturating_sub(last.1) <= near => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// Bounds of these traces, from the trace index.
pub(crate) async fn read_trace_bounds(search: &Search<'_>, traces: Vec<String>) -> Result<TraceBounds> {
    let mut found = TraceBounds::new(search.default_range);
    let Some(index) = search.index.as_ref().filter(|_| !traces.is_empty()) else { return Ok(found) };
    for part in traces.chunks(search.options.max_ids.max(1)) {
        let mut statement = Statement::default();
        let ids = statement.string_array(part);
        let bounds = search.bounds(index, &mut statement);
        let ([from, to], IndexBounds { unusable, is_indexed, .. }) = (bounds.nanos(), &bounds);
        let (id, name) = (&index.trace_id, &index.name);
        statement.push(&format!(
            "SELECT {id}, {from}, {to}, {unusable} FROM {name} WHERE {id} IN {ids} GROUP BY {id} HAVING {is_indexed}"
        ));
        for row in search.rows(statement).await? {
            found.insert(search.table, row);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_where_they_are_near() {
        assert_eq!(merge_nearby(vec![]), []);
        assert_eq!(merge_nearby(vec![(5, 9), (1, 3)]), [(1, 3), (5, 9)]);
        assert_eq!(
            merge_nearby(vec![(0, 160), (161, 165), (1_000, 1_001), (3, 7)]),
            [(0, 165), (1_000, 1_001)]
        );
        let apart: Vec<(i64, i64)> = (0..1_000).map(|number| (number * 10, number * 10 + 1)).collect();
        assert!(merge_nearby(apart).len() <= 17);
        assert_eq!(merge_nearby(vec![(i64::MIN, i64::MAX), (0, 1)]), [(i64::MIN, i64::MAX)]);
    }
}

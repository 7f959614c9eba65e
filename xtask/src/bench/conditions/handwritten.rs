//! Hand-written SQL statements that return the ids of the newest traces, in three shapes. Each returns exactly the traces that
//! the service returns, also those that cross an edge of the window.

use super::data::{END, INDEX, LONGEST, SECOND, TABLE, WINDOW, quoted};
use crate::stack::api::rfc_3339;

/// Names of the statement shapes.
pub const SHAPES: [&str; 3] = ["semi-joins", "one pass", "rarest first"];
/// Index of the grouped single-pass statement in [`SHAPES`].
pub const ONE_PASS: usize = 1;

/// A search as SQL fragments.
pub struct Search<'a> {
    pub window: Window,
    /// Search conditions. If empty, traces are ordered by the spans that satisfy the policy.
    pub conditions: Vec<String>,
    /// Condition that the fewest spans match, if known.
    pub rarest: Option<String>,
    /// Policy predicate, or `None` if the caller sees every trace.
    pub policy: Option<&'a str>,
    pub limit: u64,
}

/// A half-open time range in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub from: u64,
    pub to: u64,
}

/// Predicate for spans in a half-open range of seconds since 1970.
fn range(from: u64, to: u64) -> String {
    format!("Timestamp >= fromUnixTimestamp64Second({from}) AND Timestamp < fromUnixTimestamp64Second({to})")
}

impl Window {
    /// Returns the window of the whole data set.
    pub fn whole() -> Self {
        Self::last(WINDOW, 0)
    }

    /// Returns a window of this many seconds that ends `before` seconds before the end of the data.
    pub fn last(seconds: u64, before: u64) -> Self {
        let to = END / SECOND - before;
        Self { from: to - seconds, to }
    }

    /// Returns both ends in the API's format.
    pub fn rfc_3339(self) -> [String; 2] {
        [self.from, self.to].map(|time| rfc_3339(time * SECOND))
    }

    pub fn in_window(self) -> String {
        range(self.from, self.to)
    }

    /// Predicate for the time range that spans of traces in the window can lie in.
    pub fn around_window(self) -> String {
        range(self.from - LONGEST, self.to + LONGEST)
    }

    /// Selects the ids of traces that cross an edge of the window, from the trace index.
    pub fn crossing_traces(self) -> String {
        let (index, edges) = (quoted(INDEX), [self.from, self.to]);
        let ids = edges.map(|edge| {
            format!(
                "SELECT TraceId FROM {index} WHERE Start >= toDateTime({}) AND Start < toDateTime({}) GROUP BY TraceId \
                 HAVING min(Start) < toDateTime({edge}) AND max(End) >= toDateTime({edge})",
                edge - LONGEST,
                edge + LONGEST
            )
        });
        let ranges = edges.map(|edge| format!("({})", range(edge - LONGEST, edge + LONGEST)));
        format!("({}) AND TraceId IN ({})", ranges.join(" OR "), ids.join(" UNION ALL "))
    }
}

/// Orders traces by their latest match in the window, newest first. Traces without a match in the window follow, by their latest
/// span in it.
const ORDER: &str = "ORDER BY maxIf(Timestamp, inside AND matched) DESC, \
    if(countIf(inside AND matched) > 0, 0, toUnixTimestamp64Nano(maxIf(Timestamp, inside))) DESC, TraceId";

impl Search<'_> {
    /// Returns the statement of one of [`SHAPES`].
    pub fn statement(&self, shape: &str) -> String {
        match shape {
            "semi-joins" => self.semi_joins(),
            "one pass" => self.one_pass(),
            _ => self.rarest_first(),
        }
    }

    /// Predicate for the spans that determine the order.
    fn matched(&self) -> String {
        let required_predicates = self.required_predicates();
        let count = if self.conditions.is_empty() { 1 } else { self.conditions.len() };
        required_predicates.into_iter().take(count).collect::<Vec<_>>().join(" OR ")
    }

    /// Returns the conditions and the policy, or `true` if there are neither.
    fn required_predicates(&self) -> Vec<String> {
        let policy = self.policy.map(str::to_owned);
        let all = self
            .conditions
            .iter()
            .cloned()
            .chain(policy)
            .map(|required_predicate| format!("({required_predicate})"));
        let all: Vec<String> = all.collect();
        if all.is_empty() { vec!["true".to_owned()] } else { all }
    }

    fn semi_joins(&self) -> String {
        let (table, window, matched) = (quoted(TABLE), self.window, self.matched());
        let (in_window, around_window, crossing_traces) =
            (window.in_window(), window.around_window(), window.crossing_traces());
        let all: Vec<String> = self
            .required_predicates()
            .iter()
            .map(|required_predicate| {
                format!(
                    "TraceId IN (SELECT TraceId FROM {table} WHERE {around_window} AND {required_predicate})"
                )
            })
            .collect();
        let (all, limit) = (all.join(" AND "), self.limit);
        format!(
            "SELECT TraceId FROM (\
             SELECT TraceId, Timestamp, true AS inside, true AS matched FROM {table} WHERE {in_window} AND ({matched}) \
             UNION ALL \
             SELECT TraceId, Timestamp, true AS inside, false AS matched FROM {table} WHERE {in_window} AND {crossing_traces}) \
             WHERE {all} GROUP BY TraceId {ORDER} LIMIT {limit}"
        )
    }

    /// Evaluates traces wholly inside the window by their spans that satisfy some predicate, and traces that cross an edge by all
    /// of their spans.
    pub fn one_pass(&self) -> String {
        let (table, required_predicates) = (quoted(TABLE), self.required_predicates());
        let (in_window, crossing_traces) = (self.window.in_window(), self.window.crossing_traces());
        let (any, limit) = (required_predicates.join(" OR "), self.limit);
        let columns: Vec<String> = required_predicates
            .iter()
            .enumerate()
            .map(|(index, required_predicate)| format!("{required_predicate} AS d{index}"))
            .collect();
        let all: Vec<String> = (0..required_predicates.len()).map(|index| format!("max(d{index})")).collect();
        let (columns, all, matched) = (columns.join(", "), all.join(" AND "), self.matched());
        format!(
            "SELECT TraceId FROM (\
             SELECT TraceId, Timestamp, {columns}, ({matched}) AS matched, true AS inside FROM {table} \
             WHERE {in_window} AND ({any}) \
             UNION ALL \
             SELECT TraceId, Timestamp, {columns}, ({matched}) AS matched, ({in_window}) AS inside FROM {table} \
             WHERE {crossing_traces}) \
             GROUP BY TraceId HAVING {all} AND max(inside) {ORDER} LIMIT {limit}"
        )
    }

    /// Reads all spans of the traces that satisfy the rarest condition.
    fn rarest_first(&self) -> String {
        let (table, required_predicates) = (quoted(TABLE), self.required_predicates());
        let (in_window, around_window) = (self.window.in_window(), self.window.around_window());
        let rarest = self.rarest.as_deref().unwrap_or("true");
        let all: Vec<String> = required_predicates
            .iter()
            .map(|required_predicate| format!("countIf({required_predicate}) > 0"))
            .collect();
        let (all, matched, limit) = (all.join(" AND "), self.matched(), self.limit);
        format!(
            "WITH ({matched}) AS matched, ({in_window}) AS inside \
             SELECT TraceId FROM {table} \
             WHERE {around_window} AND TraceId IN (SELECT TraceId FROM {table} WHERE {around_window} AND {rarest}) \
             GROUP BY TraceId HAVING {all} AND countIf(inside) > 0 {ORDER} LIMIT {limit}"
        )
    }
}

/// Returns the time bounds for the spans of these traces, as the exporter's documentation recommends.
pub fn bounds(ids: &str) -> String {
    let index = quoted(INDEX);
    format!(
        "AND Timestamp >= (SELECT min(Start) FROM {index} WHERE TraceId IN ({ids})) \
         AND Timestamp < (SELECT max(End) + 1 FROM {index} WHERE TraceId IN ({ids}))"
    )
}

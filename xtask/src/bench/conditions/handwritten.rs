//! Hand-written SQL statements that return the ids of the newest traces, in three shapes. Each returns exactly the traces that
//! the service returns, also those that cross an edge of the window.

use super::data::{DATABASE, END, INDEX, LONGEST, SECOND, TABLE, WINDOW};
use crate::stack::api::rfc_3339;

/// Names of the statement shapes.
pub const SHAPES: [&str; 3] = ["semi-joins", "one pass", "rarest first"];
/// Index of the grouped single-pass statement in [`SHAPES`].
pub const ONE_PASS: usize = 1;

/// The names that statements need of a table of spans and its trace index.
#[derive(Debug)]
pub struct Layout {
    pub database: &'static str,
    pub table: &'static str,
    pub trace_id: &'static str,
    pub timestamp: &'static str,
    pub index: &'static str,
    /// Columns of the trace index.
    pub start: &'static str,
    pub end: &'static str,
    /// Column with the start of each span's bucket in seconds since 1970, and the length of a bucket.
    pub bucket: Option<(&'static str, u64)>,
}

/// The layout of the exporter.
pub static EXPORTER: Layout = Layout {
    database: DATABASE,
    table: TABLE,
    trace_id: "TraceId",
    timestamp: "Timestamp",
    index: INDEX,
    start: "Start",
    end: "End",
    bucket: None,
};

impl Layout {
    pub fn quoted_table(&self) -> String {
        format!("`{}`.`{}`", self.database, self.table)
    }

    pub fn quoted_index(&self) -> String {
        format!("`{}`.`{}`", self.database, self.index)
    }

    /// Predicate for spans in a half-open range of seconds since 1970.
    fn range(&self, from: u64, to: u64) -> String {
        let time = self.timestamp;
        let bucket = self.bucket.map_or_else(String::new, |(column, length)| {
            format!("{column} >= {} AND {column} < {to} AND ", from / length * length)
        });
        format!(
            "{bucket}{time} >= fromUnixTimestamp64Second({from}) AND {time} < fromUnixTimestamp64Second({to})"
        )
    }
}

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

/// A half-open time range in seconds since 1970, of a table.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub layout: &'static Layout,
    pub from: u64,
    pub to: u64,
}

impl Window {
    /// Returns the window of the whole data set.
    pub fn whole() -> Self {
        Self::last(WINDOW, 0)
    }

    /// Returns a window of this many seconds that ends `before` seconds before the end of the data.
    pub fn last(seconds: u64, before: u64) -> Self {
        let to = END / SECOND - before;
        Self { layout: &EXPORTER, from: to - seconds, to }
    }

    /// Returns both ends in the API's format.
    pub fn rfc_3339(self) -> [String; 2] {
        [self.from, self.to].map(|time| rfc_3339(time * SECOND))
    }

    pub fn in_window(self) -> String {
        self.layout.range(self.from, self.to)
    }

    /// Predicate for the time range that spans of traces in the window can lie in.
    pub fn around_window(self) -> String {
        self.layout.range(self.from - LONGEST, self.to + LONGEST)
    }

    /// Selects the ids of traces that cross an edge of the window, from the trace index.
    pub fn crossing_traces(self) -> String {
        let (edges, index) = ([self.from, self.to], self.layout.quoted_index());
        let Layout { trace_id, start, end, .. } = self.layout;
        let ids = edges.map(|edge| {
            format!(
                "SELECT {trace_id} FROM {index} WHERE {start} >= toDateTime({}) AND {start} < toDateTime({}) GROUP BY {trace_id} \
                 HAVING min({index}.{start}) < toDateTime({edge}) AND max({index}.{end}) >= toDateTime({edge})",
                edge - LONGEST,
                edge + LONGEST
            )
        });
        let ranges = edges.map(|edge| format!("({})", self.layout.range(edge - LONGEST, edge + LONGEST)));
        format!("({}) AND {trace_id} IN ({})", ranges.join(" OR "), ids.join(" UNION ALL "))
    }
}

/// Orders traces by their latest match in the window, newest first. Traces without a match in the window follow, by their latest
/// span in it.
fn order(trace_id: &str, timestamp: &str) -> String {
    format!(
        "ORDER BY maxIf({timestamp}, inside AND matched) DESC, \
         if(countIf(inside AND matched) > 0, 0, toUnixTimestamp64Nano(maxIf({timestamp}, inside))) DESC, {trace_id}"
    )
}

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
        let (table, window, matched) = (self.window.layout.quoted_table(), self.window, self.matched());
        let Layout { trace_id: id, timestamp: time, .. } = window.layout;
        let order = order(id, time);
        let (in_window, around_window, crossing_traces) =
            (window.in_window(), window.around_window(), window.crossing_traces());
        let all: Vec<String> = self
            .required_predicates()
            .iter()
            .map(|required_predicate| {
                format!("{id} IN (SELECT {id} FROM {table} WHERE {around_window} AND {required_predicate})")
            })
            .collect();
        let (all, limit) = (all.join(" AND "), self.limit);
        format!(
            "SELECT {id} FROM (\
             SELECT {id}, {time}, true AS inside, true AS matched FROM {table} WHERE {in_window} AND ({matched}) \
             UNION ALL \
             SELECT {id}, {time}, true AS inside, false AS matched FROM {table} WHERE {in_window} AND {crossing_traces}) \
             WHERE {all} GROUP BY {id} {order} LIMIT {limit}"
        )
    }

    /// Evaluates traces wholly inside the window by their spans that satisfy some predicate, and traces that cross an edge by all
    /// of their spans.
    pub fn one_pass(&self) -> String {
        let (table, required_predicates) = (self.window.layout.quoted_table(), self.required_predicates());
        let Layout { trace_id: id, timestamp: time, .. } = self.window.layout;
        let order = order(id, time);
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
            "SELECT {id} FROM (\
             SELECT {id}, {time}, {columns}, ({matched}) AS matched, true AS inside FROM {table} \
             WHERE {in_window} AND ({any}) \
             UNION ALL \
             SELECT {id}, {time}, {columns}, ({matched}) AS matched, ({in_window}) AS inside FROM {table} \
             WHERE {crossing_traces}) \
             GROUP BY {id} HAVING {all} AND max(inside) {order} LIMIT {limit}"
        )
    }

    /// Reads all spans of the traces that satisfy the rarest condition.
    fn rarest_first(&self) -> String {
        let (table, required_predicates) = (self.window.layout.quoted_table(), self.required_predicates());
        let Layout { trace_id: id, timestamp: time, .. } = self.window.layout;
        let order = order(id, time);
        let (in_window, around_window) = (self.window.in_window(), self.window.around_window());
        let rarest = self.rarest.as_deref().unwrap_or("true");
        let all: Vec<String> = required_predicates
            .iter()
            .map(|required_predicate| format!("countIf({required_predicate}) > 0"))
            .collect();
        let (all, matched, limit) = (all.join(" AND "), self.matched(), self.limit);
        format!(
            "WITH ({matched}) AS matched, ({in_window}) AS inside \
             SELECT {id} FROM {table} \
             WHERE {around_window} AND {id} IN (SELECT {id} FROM {table} WHERE {around_window} AND {rarest}) \
             GROUP BY {id} HAVING {all} AND countIf(inside) > 0 {order} LIMIT {limit}"
        )
    }
}

/// Returns the time bounds for the spans of these traces, as the exporter's documentation recommends.
pub fn bounds(ids: &str) -> String {
    let index = EXPORTER.quoted_index();
    format!(
        "AND Timestamp >= (SELECT min(Start) FROM {index} WHERE TraceId IN ({ids})) \
         AND Timestamp < (SELECT max(End) + 1 FROM {index} WHERE TraceId IN ({ids}))"
    )
}

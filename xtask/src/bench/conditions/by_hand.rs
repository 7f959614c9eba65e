//! Statements as an engineer would write them: ids of the newest traces, in three shapes. Each finds exactly what the service
//! defines as the answer, for traces that cross an edge of the window too.

use super::cells::Condition;
use super::data::{END, INDEX, LONGEST, SECOND, TABLE, WINDOW, quoted};

/// Shapes of statements.
pub const SHAPES: [&str; 3] = ["semi-joins", "one pass", "rarest first"];
/// The place of the grouped pass among them.
pub const ONE_PASS: usize = 1;

/// What is asked for.
pub struct Search<'a> {
    pub conditions: &'a [Condition],
    /// None where every trace is visible.
    pub policy: Option<&'a str>,
    pub limit: u64,
}

const FROM: u64 = END / SECOND - WINDOW;
const TO: u64 = END / SECOND;

/// Spans in a range of seconds since 1970, half-open.
fn range(from: u64, to: u64) -> String {
    format!("Timestamp >= fromUnixTimestamp64Second({from}) AND Timestamp < fromUnixTimestamp64Second({to})")
}

fn inside() -> String {
    range(FROM, TO)
}

/// Where the spans of traces in the window can be.
fn near() -> String {
    range(FROM - LONGEST, TO + LONGEST)
}

/// Spans of the traces that cross an edge of the window, by the trace index.
fn crossing() -> String {
    let index = quoted(INDEX);
    let ids = [FROM, TO].map(|edge| {
        format!(
            "SELECT TraceId FROM {index} WHERE Start >= toDateTime({}) AND Start < toDateTime({}) GROUP BY TraceId \
             HAVING min(Start) < toDateTime({edge}) AND max(End) >= toDateTime({edge})",
            edge - LONGEST,
            edge + LONGEST
        )
    });
    let ranges = [FROM, TO].map(|edge| format!("({})", range(edge - LONGEST, edge + LONGEST)));
    format!("({}) AND TraceId IN ({})", ranges.join(" OR "), ids.join(" UNION ALL "))
}

/// Newest first by the latest match in the window; traces without one there follow, by their latest span in it.
const ORDER: &str = "ORDER BY maxIf(Timestamp, inside AND matched) DESC, \
    if(countIf(inside AND matched) > 0, 0, toUnixTimestamp64Nano(maxIf(Timestamp, inside))) DESC, TraceId";

impl Search<'_> {
    /// The statement of one of [`SHAPES`].
    pub fn statement(&self, shape: &str) -> String {
        match shape {
            "semi-joins" => self.semi_joins(),
            "one pass" => self.one_pass(),
            _ => self.rarest_first(),
        }
    }

    fn matches(&self) -> Vec<String> {
        self.conditions.iter().map(|condition| format!("({})", condition.sql())).collect()
    }

    /// The conditions, and the policy.
    fn demands(&self) -> Vec<String> {
        self.matches().into_iter().chain(self.policy.map(|policy| format!("({policy})"))).collect()
    }

    fn semi_joins(&self) -> String {
        let (table, inside, near, crossing) = (quoted(TABLE), inside(), near(), crossing());
        let matched = self.matches().join(" OR ");
        let all: Vec<String> = self
            .demands()
            .iter()
            .map(|demand| format!("TraceId IN (SELECT TraceId FROM {table} WHERE {near} AND {demand})"))
            .collect();
        let (all, limit) = (all.join(" AND "), self.limit);
        format!(
            "SELECT TraceId FROM (\
             SELECT TraceId, Timestamp, true AS inside, true AS matched FROM {table} WHERE {inside} AND ({matched}) \
             UNION ALL \
             SELECT TraceId, Timestamp, true AS inside, false AS matched FROM {table} WHERE {inside} AND {crossing}) \
             WHERE {all} GROUP BY TraceId {ORDER} LIMIT {limit}"
        )
    }

    /// Traces wholly inside the window are decided by their spans that satisfy something; those that cross an edge by all of
    /// their spans.
    fn one_pass(&self) -> String {
        let (table, inside, crossing, demands) = (quoted(TABLE), inside(), crossing(), self.demands());
        let (any, limit) = (demands.join(" OR "), self.limit);
        let columns: Vec<String> =
            demands.iter().enumerate().map(|(place, demand)| format!("{demand} AS d{place}")).collect();
        let all: Vec<String> = (0..demands.len()).map(|place| format!("max(d{place})")).collect();
        let (columns, all, matched) = (columns.join(", "), all.join(" AND "), self.matches().join(" OR "));
        format!(
            "SELECT TraceId FROM (\
             SELECT TraceId, Timestamp, {columns}, ({matched}) AS matched, true AS inside FROM {table} \
             WHERE {inside} AND ({any}) \
             UNION ALL \
             SELECT TraceId, Timestamp, {columns}, ({matched}) AS matched, ({inside}) AS inside FROM {table} \
             WHERE {crossing}) \
             GROUP BY TraceId HAVING {all} AND max(inside) {ORDER} LIMIT {limit}"
        )
    }

    /// All spans of the traces that satisfy the rarest condition.
    fn rarest_first(&self) -> String {
        let (table, inside, near, demands) = (quoted(TABLE), inside(), near(), self.demands());
        let rarest = Condition::rarest(self.conditions).map_or_else(|| "true".to_owned(), Condition::sql);
        let all: Vec<String> = demands.iter().map(|demand| format!("countIf({demand}) > 0")).collect();
        let (all, matched, limit) = (all.join(" AND "), self.matches().join(" OR "), self.limit);
        format!(
            "WITH ({matched}) AS matched, ({inside}) AS inside \
             SELECT TraceId FROM {table} \
             WHERE {near} AND TraceId IN (SELECT TraceId FROM {table} WHERE {near} AND {rarest}) \
             GROUP BY TraceId HAVING {all} AND countIf(inside) > 0 {ORDER} LIMIT {limit}"
        )
    }
}

/// What bounds the rows of these traces in time, as the exporter's documents advise.
pub fn bounds(ids: &str) -> String {
    let index = quoted(INDEX);
    format!(
        "AND Timestamp >= (SELECT min(Start) FROM {index} WHERE TraceId IN ({ids})) \
         AND Timestamp < (SELECT max(End) + 1 FROM {index} WHERE TraceId IN ({ids}))"
    )
}

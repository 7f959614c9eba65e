//! Which spans of one trace match which predicates: why a user may see a trace, or how close the user comes to it.
//!
//! Functions that return span identities take a [`Selection`], which only an access scope creates. Counts alone are available
//! for any trace. Their caller is responsible for authorisation, as for those of [`policy_coverage`](ClickHouse::policy_coverage):
//! `service` requests them for administrators only, not where the operator disabled samples, and only after the request is in
//! the audit log.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tracewarden_model::{Binding, MarkedField, TraceIdNotations};
use tracewarden_policy::Predicate;
use utoipa::ToSchema;

use crate::client::Client;
use crate::read::{IdentityRow, SpanIdentity, identity_columns, identity_names};
use crate::schema::{BoundTable, DisplayExpressions};
use crate::search::Selection;
use crate::sql::Statement;
use crate::{ClickHouse, ClickHouseError, Result};

/// Maximum number of matching spans of one trace that are listed for a predicate.
pub const MAX_FIRST_SPANS: usize = 20;
/// Number of spans that are collected for the list: spans of one identity are listed once, and must not hide the others.
const MAX_COLLECTED: usize = 10 * MAX_FIRST_SPANS;
/// Maximum number of predicates of one statement.
pub const MAX_PREDICATES: usize = 200;
/// Maximum size of the predicates of one statement together, in nodes as written; a larger predicate has its own statement.
const MAX_SIZE: u64 = 20_000;

/// The spans of a trace that match a predicate.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchingSpans {
    /// Number of matching spans.
    pub spans: u64,
    /// The first of them by start and then by id, at most [`MAX_FIRST_SPANS`]; spans of one identity are listed once.
    pub first: Vec<SpanIdentity>,
    /// If no span matches: the span that comes closest, the first if there are several.
    pub nearest: Option<NearestSpan>,
}

/// The span that comes nearest to satisfying a policy.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct NearestSpan {
    /// The span.
    #[serde(flatten)]
    pub span: SpanIdentity,
    /// From 0 to 1: how much of the policy the span satisfies.
    // Less than 1: a conjunction scores the mean of its parts, a disjunction the maximum.
    pub score: f64,
}

/// Numbers of spans of a trace that match predicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceCounts {
    /// The trace.
    pub trace_id: String,
    /// Number of spans of the trace.
    pub spans: u64,
    /// Number of spans that match each predicate, in order.
    pub matching_spans: Vec<u64>,
}

/// The trace whose spans are read.
struct TraceTarget<'a> {
    /// The client of the endpoint that selected it.
    client: Client,
    table: &'a BoundTable,
    /// The columns that identify spans.
    display: DisplayExpressions,
    trace_id: &'a str,
}

impl ClickHouse {
    /// For each predicate, in order, returns the matching spans of a selected trace, within the whole trace, as
    /// [`find`](Self::find) reads it. If several traces are selected, it reads the first; if none is, the result is empty.
    /// `referenced_fields` are the fields of the policies behind the predicates, even if the predicates no longer refer to them. The
    /// statement that finds a span also returns its identity: a later look-up by its id could return another span.
    ///
    /// # Errors
    /// When ClickHouse fails, returns fewer spans than were counted, or a field has changed since it was marked.
    pub async fn matching_spans(
        &self,
        binding: &Binding,
        selection: &Selection,
        predicates: &[Predicate],
        referenced_fields: &[Arc<MarkedField>],
    ) -> Result<Vec<MatchingSpans>> {
        selection.table.check_fields(referenced_fields.iter().map(AsRef::as_ref))?;
        let Some(trace) = selection.traces.first() else { return Ok(Vec::new()) };
        let target = TraceTarget {
            client: self.client.pinned_to(selection.endpoint),
            table: selection.table.as_ref(),
            display: DisplayExpressions::new(&selection.table, &binding.display),
            trace_id: &trace.id,
        };
        let mut matching_spans = Vec::with_capacity(predicates.len());
        for part in parts(predicates) {
            let (spans, mut found) = target.first_spans(part).await?;
            if spans < trace.spans {
                return Err(ClickHouseError::incomplete("spans of a trace have disappeared"));
            }
            let unmatched: Vec<Predicate> = part
                .iter()
                .zip(&found)
                .filter(|(_, matching_spans)| matching_spans.spans == 0)
                .map(|(predicate, _)| predicate.clone())
                .collect();
            if !unmatched.is_empty() {
                let mut nearest = target.nearest(&unmatched).await?.into_iter();
                for matching_spans in found.iter_mut().filter(|matching_spans| matching_spans.spans == 0) {
                    matching_spans.nearest = nearest.next();
                }
            }
            matching_spans.append(&mut found);
        }
        Ok(matching_spans)
    }

    /// For each predicate, in order, counts the matching spans of a trace; `None` where the trace does not exist. No other
    /// data of the trace leaves ClickHouse. The trace is found as [`Self::find`] finds one with unrestricted access.
    /// `referenced_fields` is as in [`Self::matching_spans`].
    ///
    /// # Errors
    /// When ClickHouse fails, or a field has changed since it was marked.
    pub async fn matching_span_counts(
        &self,
        binding: &Binding,
        trace_id: &str,
        predicates: &[Predicate],
        referenced_fields: &[Arc<MarkedField>],
    ) -> Result<Option<TraceCounts>> {
        // The same notations as when the trace is read.
        let mut notations = TraceIdNotations::of(trace_id);
        if notations.ids().is_empty() {
            return Ok(None);
        }
        let table = self.bound_table(binding).await?;
        table.check_fields(referenced_fields.iter().map(AsRef::as_ref))?;
        let endpoint = self.client.session_endpoint();
        let mut counts: Option<TraceCounts> = None;
        // Without predicates, a statement is still needed to check that the trace exists.
        let mut parts: Vec<&[Predicate]> = parts(predicates);
        if parts.is_empty() {
            parts.push(&[]);
        }
        for part in parts {
            let mut statement = table.statement();
            let conditions = part.iter().map(|predicate| table.condition(predicate, &mut statement));
            let matched = conditions.map(|matched| Ok(format!("countIf({})", matched?)));
            let matched = matched.collect::<Result<Vec<String>>>()?.join(", ");
            let is_wanted = table.trace_id.is_one_of(notations.ids(), &mut statement);
            let (trace, spans) = (statement.alias("trace"), table.spans(&is_wanted, &mut statement));
            statement.filters_by_trace_id = true;
            statement.push(&format!(
                "SELECT {id} AS {trace}, count(), [{matched}] FROM {spans} GROUP BY {trace}",
                id = table.trace_id.text,
            ));
            let mut rows: Vec<(String, u64, Vec<u64>)> =
                self.client.pinned_to(endpoint).rows(statement).await?;
            let Some(index) = notations.best(rows.iter().map(|(id, ..)| id.as_str())) else {
                // The trace existed for the previous statement, and has been removed since.
                return Ok(None);
            };
            let (trace_id, spans, matching_spans) = rows.swap_remove(index);
            if matching_spans.len() != part.len() {
                return Err(missing_counts());
            }
            let counts = counts.get_or_insert_with(|| {
                notations = TraceIdNotations::exactly(&trace_id);
                TraceCounts { trace_id, spans: 0, matching_spans: Vec::with_capacity(predicates.len()) }
            });
            // New spans may arrive between the statements: the maximum counts.
            counts.spans = counts.spans.max(spans);
            counts.matching_spans.extend(matching_spans);
        }
        Ok(counts)
    }
}

impl TraceTarget<'_> {
    /// Returns the number of spans, and for each predicate the number of matching spans and the first of them.
    async fn first_spans(&self, predicates: &[Predicate]) -> Result<(u64, Vec<MatchingSpans>)> {
        let table = self.table;
        let mut statement = table.statement();
        let conditions = predicates.iter().map(|predicate| table.condition(predicate, &mut statement));
        let conditions = conditions.collect::<Result<Vec<String>>>()?;
        let matched = aliases("p", predicates, &statement);
        let identity = identity_names(&statement);
        let counts: Vec<String> = matched.iter().map(|matched| format!("countIf({matched})")).collect();
        let first: Vec<String> = matched
            .iter()
            .map(|matched| {
                format!(
                    "arraySlice(arraySort(arrayDistinct(\
                     groupArraySortedIf({MAX_COLLECTED})(({identity}), {matched}))), 1, {MAX_FIRST_SPANS})"
                )
            })
            .collect();
        let select = format!("count(), [{}], [{}]", counts.join(", "), first.join(", "));
        let columns = conditions.iter().zip(&matched);
        let (spans, counts, first): (u64, Vec<u64>, Vec<Vec<IdentityRow>>) =
            self.row(&select, columns, statement).await?;
        if counts.len() != predicates.len() || first.len() != predicates.len() {
            return Err(missing_counts());
        }
        let matching_spans = counts.into_iter().zip(first).map(|(spans, first)| {
            let first =
                first.into_iter().map(|row| SpanIdentity::from_row(table, &self.display, row)).collect();
            MatchingSpans { spans, first, nearest: None }
        });
        Ok((spans, matching_spans.collect()))
    }

    /// Returns the span that comes closest to each predicate.
    async fn nearest(&self, predicates: &[Predicate]) -> Result<Vec<NearestSpan>> {
        let table = self.table;
        let mut statement = table.statement();
        let scores = predicates.iter().map(|predicate| table.score(predicate, &mut statement));
        let scores = scores.collect::<Result<Vec<String>>>()?;
        let names = aliases("s", predicates, &statement);
        let identity = identity_names(&statement);
        let nearest: Vec<String> = names
            .iter()
            .map(|score| format!("argMin((({identity}), {score}), (-{score}, {identity}))"))
            .collect();
        let select = format!("[{}]", nearest.join(", "));
        let (nearest,): (Vec<(IdentityRow, f64)>,) =
            self.row(&select, scores.iter().zip(&names), statement).await?;
        if nearest.len() != predicates.len() {
            return Err(missing_counts());
        }
        let nearest = nearest.into_iter().map(|(row, score)| NearestSpan {
            span: SpanIdentity::from_row(table, &self.display, row),
            score,
        });
        Ok(nearest.collect())
    }

    /// Returns the row of a statement over the trace's spans, each with its identity and further columns: expressions with
    /// their names.
    async fn row<'e, T: DeserializeOwned + Send + 'static>(
        &self,
        select: &str,
        columns: impl Iterator<Item = (&'e String, &'e String)>,
        mut statement: Statement,
    ) -> Result<T> {
        let columns: String = columns.map(|(expression, name)| format!(", {expression} AS {name}")).collect();
        let identity = identity_columns(self.table, &self.display, &statement);
        let is_trace = self.table.trace_id.is(self.trace_id, &mut statement);
        let spans = self.table.spans(&is_trace, &mut statement);
        statement.filters_by_trace_id = true;
        statement.push(&format!("SELECT {select} FROM (SELECT {identity}{columns} FROM {spans})"));
        let rows: Vec<T> = self.client.rows(statement).await?;
        rows.into_iter().next().ok_or_else(missing_counts)
    }
}

/// Returns a name for each predicate.
fn aliases(prefix: &str, predicates: &[Predicate], statement: &Statement) -> Vec<String> {
    (0..predicates.len()).map(|at| statement.alias(&format!("{prefix}{at}"))).collect()
}

/// Splits predicates into parts that each fit into one statement; a large one has a part of its own.
pub(super) fn parts(predicates: &[Predicate]) -> Vec<&[Predicate]> {
    let (mut parts, mut begin, mut size) = (Vec::new(), 0, 0_u64);
    for (at, predicate) in predicates.iter().enumerate() {
        let next = size.saturating_add(predicate.size());
        if at > begin && (next > MAX_SIZE || at - begin >= MAX_PREDICATES) {
            parts.extend(predicates.get(begin..at));
            (begin, size) = (at, predicate.size());
        } else {
            size = next;
        }
    }
    parts.extend(predicates.get(begin..).filter(|rest| !rest.is_empty()));
    parts
}

fn missing_counts() -> ClickHouseError {
    ClickHouseError::incomplete("counts are missing")
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use tracewarden_model::{ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};
    use tracewarden_policy::predicate::{Atom, Relation, Text};
    use tracewarden_testkit::local_store::LocalStore;

    use super::*;
    use crate::agreement::{binding, unrestricted_scope};
    use crate::agreement::{connect, execute};

    #[test]
    fn every_predicate_is_in_one_part() {
        let many = vec![Predicate::True; 450];
        assert_eq!(parts(&many).iter().map(|part| part.len()).collect::<Vec<_>>(), [200, 200, 50]);
        assert_eq!(parts(&[]), [&[] as &[Predicate]; 0]);
        assert_eq!(parts(&many[..1]).len(), 1);
    }

    const COLUMNS: [&str; 3] = ["X", "Y", "Z"];

    /// Returns a random predicate over whether columns are `1`.
    fn some(random: &mut ChaCha8Rng, depth: u32) -> Predicate {
        let several = |random: &mut ChaCha8Rng| -> Vec<Predicate> {
            (0..random.random_range(2..4)).map(|_| some(random, depth - 1)).collect()
        };
        match random.random_range(0..if depth == 0 { 1 } else { 4 }) {
            0 => {
                let field = Arc::new(MarkedField {
                    field: FieldRef::column(COLUMNS[random.random_range(0..3)]),
                    source: FieldSource::Column,
                    logical: LogicalType::String,
                    column_type: ColumnType::STRING,
                    filterable: true,
                    policy: true,
                    column: None,
                });
                let one = Text::Literal("1".to_owned());
                Predicate::atom(Atom::CompareText(Relation::Eq, Text::Field(field), one))
            }
            1 => Predicate::all(several(random)),
            2 => Predicate::any(several(random)),
            _ => some(random, depth - 1).negate(),
        }
    }

    /// Returns the score of a span whose columns are `1` where its bits are set.
    fn score(predicate: &Predicate, bits: usize) -> f64 {
        let whole = |matched: bool| if matched { 1.0 } else { 0.0 };
        let each = |parts: &[Predicate]| parts.iter().map(|part| score(part, bits)).collect::<Vec<f64>>();
        match predicate {
            Predicate::True => 1.0,
            Predicate::False => 0.0,
            Predicate::And(junction) => {
                let each = each(junction.parts());
                each.iter().sum::<f64>() / each.len() as f64
            }
            Predicate::Or(junction) => each(junction.parts()).into_iter().fold(0.0, f64::max),
            Predicate::Not(junction) => whole(!each(junction.parts()).iter().all(|score| *score == 1.0)),
            Predicate::Atom(leaf) => match &***leaf {
                Atom::CompareText(relation, Text::Field(field), _) => {
                    let column = COLUMNS.iter().position(|name| *name == field.field.name).unwrap();
                    whole((bits >> column & 1 == 1) == (*relation == Relation::Eq))
                }
                other => panic!("{other:?}"),
            },
        }
    }

    #[tokio::test]
    async fn the_nearest_span_satisfies_most_of_the_predicate() {
        let local = LocalStore::start().unwrap();
        let store = connect(&local);
        execute(
            &local,
            "CREATE TABLE default.spans ENGINE = MergeTree ORDER BY TraceId AS SELECT \
             toDateTime64(1790000000 - number % 3, 9) AS Timestamp, 'a' AS TraceId, toString(number) AS SpanId, \
             '' AS ParentSpanId, toString(number % 2) AS X, toString(intDiv(number, 2) % 2) AS Y, \
             toString(intDiv(number, 4)) AS Z FROM numbers(7)"
                .to_owned(),
        )
        .await;
        let found =
            store.find(&binding("default", "spans"), &unrestricted_scope(), "a").await.unwrap().unwrap();
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let predicates: Vec<Predicate> = (0..300).map(|_| some(&mut random, 3)).collect();
        let matching_spans =
            store.matching_spans(&binding("default", "spans"), &found, &predicates, &[]).await.unwrap();
        let mut between = 0;
        for (predicate, matching_spans) in predicates.iter().zip(matching_spans) {
            let scores = (0..7).map(|span| (score(predicate, span), 1_790_000_000 - span % 3, span));
            let (best, _, span) = scores
                .min_by(|one, other| other.0.total_cmp(&one.0).then((one.1, one.2).cmp(&(other.1, other.2))))
                .unwrap();
            assert_eq!(matching_spans.spans > 0, best == 1.0, "{predicate:?}");
            if let Some(nearest) = matching_spans.nearest {
                assert!((nearest.score - best).abs() < 1e-12, "{nearest:?}, {best} of {predicate:?}");
                assert_eq!(nearest.span.span_id, span.to_string(), "{best} of {predicate:?}");
                between += usize::from(best > 0.0);
            }
        }
        assert!(between > 5, "hardly any predicate is met in part: {between}");
    }

    /// Spans without an id, several with the same start, as an instrumentation may send them.
    #[tokio::test]
    async fn spans_with_one_identity_hide_no_others() {
        let local = LocalStore::start().unwrap();
        let store = connect(&local);
        execute(
            &local,
            format!(
                "CREATE TABLE default.spans ENGINE = MergeTree ORDER BY TraceId AS SELECT \
                 toDateTime64(1790000000 + greatest(number, {MAX_FIRST_SPANS}), 9) AS Timestamp, 'a' AS TraceId, \
                 if(number < 30, '', toString(number)) AS SpanId, '' AS ParentSpanId FROM numbers(40)"
            ),
        )
        .await;
        let binding = binding("default", "spans");
        let found = store.find(&binding, &unrestricted_scope(), "a").await.unwrap().unwrap();
        let matching_spans = store.matching_spans(&binding, &found, &[Predicate::True], &[]).await.unwrap();
        let ids: Vec<&str> = matching_spans[0].first.iter().map(|span| span.span_id.as_str()).collect();
        assert_eq!(matching_spans[0].spans, 40);
        // One for all that begin at the same time, nine for the others, and those with ids.
        assert_eq!(ids.len(), MAX_FIRST_SPANS);
        assert_eq!(ids.iter().filter(|id| id.is_empty()).count(), 10);
        assert_eq!(ids[10..], ["30", "31", "32", "33", "34", "35", "36", "37", "38", "39"]);
    }
}

//! Whom a policy lets see more than it names: a span that satisfies it opens its whole trace, and with that the spans of
//! others. What is counted are the values of one field, services mostly, in the traces that it opens.
//!
//! As in `impact.rs`, whoever asks has to answer for the counts. Values leave only where a scope opens a trace that has them.

use std::sync::Arc;
use std::time::Duration;

use tracewarden_model::{Binding, Filter, LogicalType, MarkedField, Window};
use tracewarden_policy::{AccessScope, Predicate};

use crate::cost::Cost;
use crate::impact::{Counting, Look, Looks, WindowOf, bits};
use crate::plan::Search;
use crate::predicate_sql::{render, strings};
use crate::select::{SEARCHES_MAX, Tables, known_column};
use crate::sql::Statement;
use crate::stats::told_apart;
use crate::table::{BoundTable, plain_text};
use crate::values::sought;
use crate::{StoreError, TraceStore};

/// Most predicates of one question.
pub const MAX_OVERSHARE_PREDICATES: usize = 16;
/// Values of one trace that are counted for a predicate. Nobody looks at so many, but who sends spans decides how many there
/// are.
const MAX_VALUES: usize = 1_000;

/// What a row is about: the total, a value that can be listed, or, with one more, one that no list can show.
const TOTAL: u8 = 0;
const LISTED: u8 = 1;

/// By what it is counted.
#[derive(Debug, Clone, Copy)]
pub enum Spread<'a> {
    /// A marked field of type string or string_array.
    Field(&'a MarkedField),
    /// A column of the bound table that holds strings, of which an empty one is no value: a display column.
    Column(&'a str),
}

/// What is counted.
#[derive(Clone, Copy)]
pub struct OvershareRequest<'a> {
    /// The bound table.
    pub binding: &'a Binding,
    /// What opens traces, each by itself: at most [`MAX_OVERSHARE_PREDICATES`].
    pub predicates: &'a [Predicate],
    /// By what.
    pub by: Spread<'a>,
    /// The window that the traces are looked for in.
    pub window: Window,
    /// Values leave only where this opens a trace that has them.
    pub readable: &'a AccessScope,
    /// Whether nothing else is counted either.
    pub only_readable: bool,
    /// Every field that the policies behind the predicates name, though nothing of it may be left in them.
    pub rests_on: &'a [Arc<MarkedField>],
    /// How many values at most, of each predicate.
    pub limit: u32,
    /// How long all of it may take.
    pub patience: Duration,
}

/// What is shared.
#[derive(Debug, Clone, PartialEq)]
pub struct Overshare {
    /// In the order of the predicates.
    pub shared: Vec<Shared>,
    /// The share of the window whose traces were looked at: 1 for all of them, when the counts are exact. All counts are of
    /// that share, not scaled.
    pub fraction: f64,
    /// What it took.
    pub cost: Cost,
}

/// Which values become visible by a predicate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shared {
    /// Traces that it opens.
    pub traces: u64,
    /// Values in them; those that most traces have first, then those that fewer traces have in a span that satisfies the
    /// predicate, then by value.
    pub values: Vec<SharedValue>,
    /// Different values, listed or not.
    pub distinct: u64,
    /// Of these, those that cannot be listed: no readable trace has them, or they are longer than
    /// [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES) or not UTF-8.
    pub hidden_values: u64,
    /// Of all of them, those that no span has that satisfies the predicate.
    pub only_shared: u64,
}

/// A value that becomes visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedValue {
    /// The value, or the element of an array.
    pub value: String,
    /// Opened traces with a span that has it.
    pub traces: u64,
    /// Of these, those with a span that has it and satisfies the predicate, too. With none, it is visible only because traces are
    /// shown whole.
    pub matching_traces: u64,
}

/// Number of the predicate; kind and value; traces, and those where a matching span has it; of the predicate, different
/// values, only shared ones, and listable ones.
type Row = (u8, u8, String, u64, u64, u64, u64, u64);

impl TraceStore {
    /// Counts the values of a field in the traces of a window that predicates open, for each of them by itself. Traces and
    /// the spans that count for them are those of [selecting](Self::select), of each the first 1,000 values. Where looking
    /// at all traces takes too long for the patience that there is, a sample is looked at.
    ///
    /// # Errors
    /// When the store fails, a field or column is no longer what it was, or there was not even time for a sample.
    pub async fn overshare(&self, request: OvershareRequest<'_>) -> Result<Overshare, StoreError> {
        self.overshare_by(request, Looks::within(request.patience)).await
    }

    pub(crate) async fn overshare_by(
        &self,
        request: OvershareRequest<'_>,
        looks: Looks,
    ) -> Result<Overshare, StoreError> {
        if let Spread::Field(field) = request.by
            && !matches!(field.logical, LogicalType::String | LogicalType::StringArray)
        {
            return Err(StoreError::Internal("values are of fields of strings".to_owned()));
        }
        if request.predicates.len() > MAX_OVERSHARE_PREDICATES {
            let message = format!("at most {MAX_OVERSHARE_PREDICATES} predicates can be asked about at once");
            return Err(StoreError::Internal(message));
        }
        let store = self.metered();
        for _ in 0..SEARCHES_MAX {
            let tables = store.bound_tables(request.binding).await?;
            let moves = store.client.moves().max(1);
            let overshare = store.overshare_of(request, looks, tables).await;
            // What one endpoint says of the columns is not what another reads.
            if store.client.moves() <= moves {
                return overshare;
            }
        }
        Err(StoreError::Short("the endpoint changed with every search".to_owned()))
    }

    async fn overshare_of(
        &self,
        request: OvershareRequest<'_>,
        looks: Looks,
        tables: Tables,
    ) -> Result<Overshare, StoreError> {
        let table = BoundTable::new(request.binding, tables.columns.to_vec())?;
        let filter = Filter::default();
        let of = WindowOf { readable: request.readable, window: request.window, rests_on: request.rests_on };
        let mut search = of.search(self, request.binding, &filter, &table, tables.index)?;
        // Before anything is known to be empty, so that a column that is gone is the same error for everyone.
        request.by.values(&table, &mut table.statement())?;
        let nothing = request.predicates.iter().all(|predicate| matches!(predicate, Predicate::False))
            || (request.only_readable && request.readable.opens_nothing());
        let (rows, fraction) =
            if nothing { (Vec::new(), 1.0) } else { looks.take(&mut search, &request).await? };
        let shared = shared(rows, request.predicates.len())?;
        Ok(Overshare { shared, fraction, cost: self.cost() })
    }
}

impl Counting for OvershareRequest<'_> {
    type Counted = Vec<Row>;

    async fn count(&self, search: &Search<'_>, look: Look<'_>) -> Result<Vec<Row>, StoreError> {
        search.rows(statement(search, &look, self)?).await
    }
}

impl Spread<'_> {
    /// Of a span: the values, each as whether no list can show it and the value, or what stands for it.
    fn values(&self, table: &BoundTable, statement: &mut Statement) -> Result<String, StoreError> {
        let values = match self {
            Self::Field(field) => {
                let (field, having) = sought(field, None, &table.columns)?;
                let having = render(&having, statement);
                let values = strings(&field, None, statement);
                if having == "1" { values } else { format!("if({having}, {values}, [])") }
            }
            Self::Column(name) => {
                let unknown = || StoreError::UnknownColumn { name: (*name).to_owned(), nearest: Vec::new() };
                let (column, quoted) = known_column(table, Some(name)).ok_or_else(unknown)?;
                let value = plain_text(&quoted, &column.column_type);
                format!("if({value} != '', [{value}], [])")
            }
        };
        Ok(told_apart(&format!("arraySlice({values}, 1, {MAX_VALUES})"), statement))
    }
}

fn statement(
    search: &Search<'_>,
    look: &Look<'_>,
    request: &OvershareRequest<'_>,
) -> Result<Statement, StoreError> {
    let mut statement = search.table.statement();
    let [all, matching, opening, readable, number, bit, pair, value, shared, traces, own, open, listable] = [
        "all", "matching", "opening", "readable", "number", "bit", "pair", "value", "shared", "traces",
        "own", "open", "listable",
    ]
    .map(|name| statement.own(name));
    let many = request.predicates.len();
    let mut satisfied = Vec::new();
    for (number, predicate) in request.predicates.iter().enumerate() {
        let condition = search.table.condition(predicate, &mut statement)?;
        satisfied.push(format!("toUInt64({condition}) * {}", bits([&number])));
    }
    // Of a span a bit for each predicate that it satisfies: the spans are read once, whatever the number of predicates, and
    // a trace has one list of matching values, not one for each.
    let mask = format!("({})", satisfied.join(" + "));
    let values = request.by.values(search.table, &mut statement)?;
    let columns = format!(
        "groupUniqArrayArray({MAX_VALUES})({values}) AS {all}, \
         groupUniqArrayArray({most})(arrayFilter({pair} -> {pair}.2 != 0, \
         arrayZip({values}, arrayWithConstant(length({values}), {mask})))) AS {matching}, groupBitOr({mask}) AS {opening}",
        most = MAX_VALUES.saturating_mul(many),
    );
    let among = if request.only_readable { format!(" AND {readable}") } else { String::new() };
    let opened = look.traces(search, &columns, &format!(" AND {opening} != 0{among}"), &mut statement)?;
    // Each trace once for each predicate that opens it, with the values of the spans that satisfy that one.
    let openings = format!(
        "SELECT {number}, {all}, {readable}, arraySlice(arrayDistinct(arrayMap({pair} -> {pair}.1, \
         arrayFilter({pair} -> bitTest({pair}.2, {number}), {matching}))), 1, {MAX_VALUES}) AS {own} FROM (\
         SELECT arrayJoin(arrayFilter({bit} -> bitTest({opening}, {bit}), range(toUInt8({many})))) AS {number}, {all}, \
         {matching}, {readable} FROM ({opened}))"
    );
    // A row for the trace, and one for each of its values.
    let rows = format!(
        "arrayPushFront(arrayMap({value} -> (toUInt8({LISTED} + {value}.1), {value}.2, has({own}, {value})), \
         arrayDistinct(arrayConcat({own}, {all}))), (toUInt8({TOTAL}), '', toUInt8(0)))"
    );
    let of_predicate = format!("OVER (PARTITION BY {number})");
    statement.push(&format!(
        "SELECT {number}, {shared}.1, if({listable}, {shared}.2, ''), {traces}, {own}, \
         countIf({shared}.1 != {TOTAL}) {of_predicate}, countIf({shared}.1 != {TOTAL} AND {own} = 0) {of_predicate}, \
         countIf({listable}) {of_predicate} FROM (\
         SELECT {number}, {shared}, {traces}, {own}, {shared}.1 = {LISTED} AND {open} AS {listable} FROM (\
         SELECT {number}, ({value}.1, {value}.2) AS {shared}, count() AS {traces}, countIf({value}.3 = 1) AS {own}, \
         max({readable}) AS {open} FROM (\
         SELECT {number}, arrayJoin({rows}) AS {value}, {readable} FROM ({openings})) GROUP BY {number}, {shared})) \
         ORDER BY {number}, {shared}.1 != {TOTAL}, NOT {listable}, {traces} DESC, {own}, {shared}.2 \
         LIMIT {limit} BY {number}",
        limit = u64::from(request.limit) + 1,
    ));
    Ok(statement)
}

/// What the rows say of each of so many predicates: the total first, and none where it opens no trace. A row that cannot be
/// listed has no value.
fn shared(rows: Vec<Row>, many: usize) -> Result<Vec<Shared>, StoreError> {
    let mut found: Vec<Option<(Shared, u64)>> = vec![None; many];
    for (number, kind, value, traces, matching_traces, distinct, only_shared, listable) in rows {
        let short = || StoreError::Short("the total is missing".to_owned());
        match found.get_mut(usize::from(number)).ok_or_else(short)? {
            Some((shared, listable)) => {
                if (shared.values.len() as u64) < *listable {
                    shared.values.push(SharedValue { value, traces, matching_traces });
                }
            }
            none if kind == TOTAL => {
                let hidden_values = distinct.saturating_sub(listable);
                let values = Vec::new();
                *none = Some((Shared { traces, values, distinct, hidden_values, only_shared }, listable));
            }
            _ => return Err(short()),
        }
    }
    Ok(found.into_iter().map(|found| found.map(|(shared, _)| shared).unwrap_or_default()).collect())
}

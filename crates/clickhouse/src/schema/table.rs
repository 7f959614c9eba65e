//! The current columns of tables in ClickHouse.

use tracewarden_model::{Binding, ColumnType, Condition, MarkedField, NumberType, TextType, Timestamp};
use tracewarden_policy::{Predicate, lower_condition};

use crate::schema::fields::resolve_fields;
use crate::schema::key_columns::Purpose;
use crate::schema::trace_index::is_date_time;
use crate::sql::{Statement, quote, render, score};
use crate::{ClickHouseError, Column};

/// The bound table for statements: quoted names, and expressions by type.
#[derive(Debug)]
pub(crate) struct BoundTable {
    pub(crate) columns: Vec<Column>,
    /// The table's quoted name.
    pub(crate) name: String,
    /// The trace id as a plain string, empty for NULL.
    pub(crate) trace_id: String,
    /// The trace id's column, for conditions that can use an index.
    pub(crate) trace_id_column: String,
    pub(crate) span_id: String,
    pub(crate) parent_span_id: String,
    pub(crate) timestamp: String,
    /// The timestamp as an integer that orders spans. One tick is [`BoundTable::nanos_per_tick`].
    pub(crate) ticks: String,
    /// Nanoseconds per tick.
    pub(crate) nanos_per_tick: i64,
    /// Decimals of the timestamp, where they are fewer than nine: its range may then exceed that of nanoseconds.
    pub(crate) coarse_precision: Option<u8>,
}

impl BoundTable {
    /// Describes the bound table from its columns.
    ///
    /// # Errors
    /// When the table no longer has a structural column, or with an unusable type.
    pub(crate) fn new(binding: &Binding, columns: Vec<Column>) -> Result<Self, ClickHouseError> {
        let find = |name: &str| {
            columns.iter().find(|column| column.name == name).ok_or_else(|| {
                let Binding { database, table, .. } = binding;
                ClickHouseError::TableChanged(match columns.is_empty() {
                    true => format!(
                        "the bound table {database}.{table} no longer exists, or the service's user has no \
                         access to it: restore it, or bind another table with `PUT /schema/binding`"
                    ),
                    false => format!(
                        "the bound table {database}.{table} has no column `{name}`: restore it, or bind the table again with \
                         `PUT /schema/binding`"
                    ),
                })
            })
        };
        let text = |name: &str| -> Result<String, ClickHouseError> {
            let column = find(name)?;
            if !column.column_type.is_string() {
                let message = format!(
                    "`{name}` of the bound table has type {} now and is not a string: bind the table again with \
                     `PUT /schema/binding`",
                    column.type_text
                );
                return Err(ClickHouseError::TableChanged(message));
            }
            Ok(plain_text(&quote(name), &column.column_type))
        };
        let timestamp = quote(&binding.timestamp);
        let (precision, ticks) = match find(&binding.timestamp)?.column_type.bare() {
            ColumnType::Number(NumberType::DateTime) => (0, format!("toInt64(toUnixTimestamp({timestamp}))")),
            // As it is stored: in nanoseconds, times after 2262 overflow.
            ColumnType::Number(NumberType::DateTime64 { precision }) => {
                ((*precision).min(9), format!("reinterpretAsInt64({timestamp})"))
            }
            _ => {
                let message = format!(
                    "`{}` of the bound table is no longer a time: bind the table again with `PUT /schema/binding`",
                    binding.timestamp
                );
                return Err(ClickHouseError::TableChanged(message));
            }
        };
        Ok(Self {
            name: crate::sql::quote_table(&binding.database, &binding.table),
            trace_id: text(&binding.trace_id)?,
            trace_id_column: quote(&binding.trace_id),
            span_id: text(&binding.span_id)?,
            parent_span_id: text(&binding.parent_span_id)?,
            timestamp,
            ticks,
            nanos_per_tick: 10_i64.pow(9 - u32::from(precision)),
            coarse_precision: (precision < 9).then_some(precision),
            columns,
        })
    }

    /// Whether the table stores its rows itself, in parts, so that ClickHouse can estimate how many it would read.
    pub(crate) fn in_parts(&self) -> bool {
        self.columns.iter().any(|column| column.in_parts)
    }

    /// Creates a statement over this table.
    pub(crate) fn statement(&self) -> Statement {
        Statement::for_columns(self.columns.iter().map(|column| column.name.as_str()))
    }

    /// Checks that fields can be read as they were marked, even if a predicate no longer refers to them.
    ///
    /// # Errors
    /// When a field has changed since it was marked.
    pub(crate) fn check_fields<'a>(
        &self,
        fields: impl IntoIterator<Item = &'a MarkedField>,
    ) -> Result<(), ClickHouseError> {
        crate::schema::fields::check(fields, &self.columns)
    }

    /// Writes the condition of a policy or an API key's constraint, over the table as it is now: its fields were marked at
    /// another time. It reads adopted key columns only.
    ///
    /// # Errors
    /// When a field has changed since it was marked.
    pub(crate) fn condition(
        &self,
        predicate: &Predicate,
        statement: &mut Statement,
    ) -> Result<String, ClickHouseError> {
        Ok(render(&resolve_fields(predicate, &self.columns, Purpose::Access)?, statement))
    }

    /// Writes how close a span comes to satisfying a predicate, from 0 to 1.
    ///
    /// # Errors
    /// Those of [`Self::condition`].
    pub(crate) fn score(
        &self,
        predicate: &Predicate,
        statement: &mut Statement,
    ) -> Result<String, ClickHouseError> {
        Ok(score(&resolve_fields(predicate, &self.columns, Purpose::Access)?, statement))
    }

    /// Writes whether a span satisfies any of a filter's conditions, over the table as it is now; false without conditions.
    /// It takes conditions, and never a policy: it may read any key column in place of the map, also one that was never
    /// compared with the data.
    ///
    /// # Errors
    /// When a field has changed since it was marked.
    pub(crate) fn any_condition(
        &self,
        conditions: &[Condition],
        statement: &mut Statement,
    ) -> Result<String, ClickHouseError> {
        let any = Predicate::any(conditions.iter().map(lower_condition));
        Ok(render(&resolve_fields(&any, &self.columns, Purpose::Filter)?, statement))
    }

    /// Writes a point in time that the timestamp may be compared with, by `>=` and `<` only: rounded up to the precision of
    /// the column.
    ///
    /// ClickHouse compares times in the finer of two precisions, and raises an error where one of them does not fit: compared
    /// with nanoseconds, one span after 2262, from a broken clock, would fail every search of every user.
    pub(crate) fn time(&self, value: Timestamp, statement: &mut Statement) -> String {
        let Some(precision) = self.coarse_precision else { return statement.time(value) };
        let up = self.tick_at_or_after(value.as_nanos()).saturating_mul(self.nanos_per_tick);
        format!("toDateTime64({}, {precision})", statement.time(Timestamp::from_nanos(up)))
    }

    /// Truncates the nanoseconds of a time to whole ticks, toward zero as ClickHouse does when it converts to fewer decimals.
    pub(crate) fn whole_ticks(&self, nanos: i64) -> i64 {
        nanos / self.nanos_per_tick * self.nanos_per_tick
    }

    /// Returns the first tick at or after a time, in nanoseconds.
    pub(crate) fn tick_at_or_after(&self, nanos: i64) -> i64 {
        let whole = nanos.div_euclid(self.nanos_per_tick);
        if nanos.rem_euclid(self.nanos_per_tick) == 0 { whole } else { whole.saturating_add(1) }
    }

    /// Writes whether the timestamp is in a window, whose end is exclusive.
    ///
    /// Outside the range of `DateTime` it is compared as an integer. Tables are partitioned by `toDate(…)` of it and ordered
    /// by `toDateTime(…)`, which wrap around there; ClickHouse treats them as monotonic all the same, and skips parts and
    /// granules that hold matching rows (observed with 25.8 and 26.7).
    pub(crate) fn within(&self, from: Timestamp, to: Timestamp, statement: &mut Statement) -> String {
        if !is_date_time(from) || !is_date_time(to) {
            let [from, to] = [from, to].map(|time| statement.int(self.tick_at_or_after(time.as_nanos())));
            return format!("({ticks} >= {from} AND {ticks} < {to})", ticks = self.ticks);
        }
        let (from, to) = (self.time(from, statement), self.time(to, statement));
        format!("({timestamp} >= {from} AND {timestamp} < {to})", timestamp = self.timestamp)
    }
}

/// Converts a string column to a plain `String`, empty for NULL.
pub(crate) fn plain_text(expression: &str, column_type: &ColumnType) -> String {
    match column_type {
        ColumnType::Text(TextType::String) => expression.to_owned(),
        other if other.is_nullable() => format!("ifNull(toString({expression}), '')"),
        _ => format!("toString({expression})"),
    }
}

/// Returns a column with its quoted name, if the table still has it.
pub(crate) fn known_column<'a>(table: &'a BoundTable, name: Option<&str>) -> Option<(&'a Column, String)> {
    let column = table.columns.iter().find(|column| Some(column.name.as_str()) == name)?;
    Some((column, quote(&column.name)))
}

//! The current columns of tables in ClickHouse.

use tracewarden_model::{
    Binding, ColumnType, Condition, MarkedField, NumberType, ReadAs, TextType, TimeUnit, Timestamp,
};
use tracewarden_policy::{Predicate, lower_condition};

use crate::schema::column::{column_named, is_integer};
use crate::schema::fields::{current_fields, resolve_fields};
use crate::schema::id_column::{IdColumn, IdOf};
use crate::schema::key_columns::Purpose;
use crate::schema::trace_index::is_date_time;
use crate::sql::{Statement, quote, quote_table, render, score};
use crate::{ClickHouseError, Column, Result};

/// The bound table for statements: quoted names, and expressions by type.
#[derive(Debug)]
pub(crate) struct BoundTable {
    pub(crate) columns: Vec<Column>,
    /// The table's quoted name, with `FINAL` where it is read so. Statements name it by [`BoundTable::spans`] only.
    source: String,
    /// Whether it is read with `FINAL`.
    pub(crate) is_final: bool,
    /// Columns that must have a value, each with its type.
    only: Vec<(Column, String)>,
    time_bucket: Option<TimeBucketColumn>,
    pub(crate) trace_id: IdColumn,
    pub(crate) span_id: IdColumn,
    pub(crate) parent_span_id: IdColumn,
    /// The timestamp as a `DateTime` or `DateTime64`.
    pub(crate) timestamp: String,
    /// The timestamp as an integer that orders spans. One tick is [`BoundTable::nanos_per_tick`].
    pub(crate) ticks: String,
    /// Nanoseconds per tick.
    pub(crate) nanos_per_tick: i64,
    /// Decimals of the timestamp, where they are fewer than nine: its range may then exceed that of nanoseconds.
    pub(crate) coarse_precision: Option<u8>,
    /// The column of a timestamp that is stored as an integer, and whether it can be negative.
    integer_timestamp: Option<(String, bool)>,
    /// Unit of the timestamp, where it is stored as an integer.
    pub(crate) timestamp_unit: Option<TimeUnit>,
}

/// A column with the start of each span's time bucket.
#[derive(Debug)]
struct TimeBucketColumn {
    /// The column, quoted.
    name: String,
    is_integer: bool,
    seconds: i64,
}

impl BoundTable {
    /// Describes the bound table from its columns.
    ///
    /// # Errors
    /// When the table no longer has a bound column, or with an unusable type.
    pub(crate) fn new(binding: &Binding, columns: Vec<Column>) -> Result<Self> {
        let find = |name: &str| {
            column_named(&columns, name).ok_or_else(|| {
                let Binding { database, table, .. } = binding;
                let what = if columns.is_empty() {
                    "no longer exists, or the service's user has no access to it: restore it, or bind another table with \
                     `PUT /schema/binding`"
                        .to_owned()
                } else {
                    format!("has no column `{name}`: restore it, or bind the table again with `PUT /schema/binding`")
                };
                ClickHouseError::TableChanged(format!("the bound table {database}.{table} {what}"))
            })
        };
        let unusable = |column: &Column, expected: &str| {
            ClickHouseError::TableChanged(format!(
                "`{}` of the bound table has type {} now and is not {expected}: bind the table again with \
                 `PUT /schema/binding`",
                column.name, column.type_text
            ))
        };
        let id = |name: &str, id_of: IdOf| {
            let column = find(name)?;
            IdColumn::new(column, id_of).ok_or_else(|| unusable(column, "an id"))
        };
        let (trace_id, span_id) = (id(&binding.trace_id, IdOf::Trace)?, id(&binding.span_id, IdOf::Span)?);
        let parents = find(&binding.parent_span_id)?;
        let parent_span_id =
            IdColumn::of_parents(parents, &span_id).ok_or_else(|| unusable(parents, "an id"))?;
        let column = find(&binding.timestamp)?;
        let time =
            TimeExpressions::new(column, binding.timestamp_unit).ok_or_else(|| unusable(column, "a time"))?;
        let integer_timestamp =
            is_integer(&column.column_type).then(|| (quote(&column.name), is_signed(&column.column_type)));
        let time_bucket = binding.time_bucket.as_ref().map(|bucket| {
            let column = find(&bucket.column)?;
            let is_integer = is_integer(&column.column_type);
            Ok(TimeBucketColumn { name: quote(&column.name), is_integer, seconds: i64::from(bucket.seconds) })
        });
        let time_bucket = time_bucket.transpose()?;
        let only = binding.only.iter().map(|only| Ok((find(&only.column)?.clone(), only.value.clone())));
        let only = only.collect::<Result<_>>()?;
        let table = quote_table(&binding.database, &binding.table);
        let is_final = binding.read_as == Some(ReadAs::Final);
        Ok(Self {
            source: if is_final { format!("{table} FINAL") } else { table },
            is_final,
            only,
            time_bucket,
            trace_id,
            span_id,
            parent_span_id,
            integer_timestamp,
            timestamp_unit: binding.timestamp_unit,
            timestamp: time.time,
            ticks: time.ticks,
            nanos_per_tick: 10_i64.pow(9 - u32::from(time.precision)),
            coarse_precision: (time.precision < 9).then_some(time.precision),
            columns,
        })
    }

    /// Writes the spans that satisfy a condition, after `FROM`. No statement names the table in another way: the rows of other
    /// tenants and replaced rows are not spans.
    pub(crate) fn spans(&self, condition: &str, statement: &mut Statement) -> String {
        self.joined_spans("", condition, statement)
    }

    /// Like [`Self::spans`], with a join after the table.
    pub(crate) fn joined_spans(&self, join: &str, condition: &str, statement: &mut Statement) -> String {
        let only = self.only.iter().map(|(column, value)| {
            let value = match column.column_type.bare() {
                ColumnType::Text(TextType::String | TextType::FixedString { .. } | TextType::Enum { .. }) => {
                    statement.string(value)
                }
                other => statement.parameter(&other.to_string(), value.clone()),
            };
            format!("{} = {value}", quote(&column.name))
        });
        let only: Vec<String> = only.collect();
        statement.reads_final |= self.is_final;
        let source = &self.source;
        match only.as_slice() {
            [] => format!("{source}{join} WHERE {condition}"),
            only => format!("{source}{join} WHERE {} AND ({condition})", only.join(" AND ")),
        }
    }

    /// The table as a key for what is known about it.
    pub(crate) fn key(&self) -> &str {
        &self.source
    }

    /// Writes whether a span has no parent. Exporters write NULL, nothing, zeros, or zeros in base64.
    pub(crate) fn is_root(&self) -> String {
        format!("match({}, '^(0*|A{{11}}=)$')", self.parent_span_id.text)
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
    pub(crate) fn check_fields<'a>(&self, fields: impl IntoIterator<Item = &'a MarkedField>) -> Result<()> {
        current_fields(fields, &self.columns).map(drop)
    }

    /// Writes the condition of a policy or an API key's constraint, over the table as it is now: its fields were marked at
    /// another time. It reads adopted key columns only.
    ///
    /// # Errors
    /// When a field has changed since it was marked.
    pub(crate) fn condition(&self, predicate: &Predicate, statement: &mut Statement) -> Result<String> {
        Ok(render(&resolve_fields(predicate, &self.columns, Purpose::Access)?, statement))
    }

    /// Writes how close a span comes to satisfying a predicate, from 0 to 1.
    ///
    /// # Errors
    /// Those of [`Self::condition`].
    pub(crate) fn score(&self, predicate: &Predicate, statement: &mut Statement) -> Result<String> {
        Ok(score(&resolve_fields(predicate, &self.columns, Purpose::Access)?, statement))
    }

    /// Writes whether a span satisfies all conditions of any group, over the table as it is now; false without groups.
    /// It takes conditions, and never a policy: it may read any key column in place of the map, also one that was never
    /// compared with the data.
    ///
    /// # Errors
    /// When a field has changed since it was marked.
    pub(crate) fn any_group<'a>(
        &self,
        groups: impl Iterator<Item = &'a [Condition]>,
        statement: &mut Statement,
    ) -> Result<String> {
        let any = Predicate::any(groups.map(|group| Predicate::all(group.iter().map(lower_condition))));
        let any = resolve_fields(&any, &self.columns, Purpose::Filter)?;
        // Only for a filter: it must not depend on an index whether access is granted.
        let items =
            self.columns.iter().filter_map(|column| Some((column.items_of.clone()?, column.name.clone())));
        statement.items = items.collect();
        let condition = render(&any, statement);
        statement.items.clear();
        Ok(condition)
    }

    /// Writes that a span begins at or after a time (`>=`), or before it (`<`).
    pub(crate) fn begins(
        &self,
        operator: &'static str,
        time: Timestamp,
        statement: &mut Statement,
    ) -> String {
        let Some((column, is_signed)) = &self.integer_timestamp else {
            return format!("{} {operator} {}", self.timestamp, self.time(time, statement));
        };
        let ticks = self.tick_at_or_after(time.as_nanos());
        format!("{column} {operator} {}", statement.int(if *is_signed { ticks } else { ticks.max(0) }))
    }

    /// Writes a point in time that the timestamp may be compared with, by `>=` and `<` only: rounded up to the precision of
    /// the column.
    ///
    /// ClickHouse compares times in the finer of two precisions, and raises an error where one of them does not fit: compared
    /// with nanoseconds, one span after 2262, from a broken clock, would fail every search of every user.
    fn time(&self, value: Timestamp, statement: &mut Statement) -> String {
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
            // `identity` keeps ClickHouse from using a key over an integer.
            let ticks = match self.integer_timestamp {
                None => self.ticks.clone(),
                Some(_) => format!("identity({})", self.ticks),
            };
            return format!("({ticks} >= {from} AND {ticks} < {to})");
        }
        let in_bucket = match &self.time_bucket {
            Some(bucket) => format!("{} AND ", bucket.overlaps(from, to, statement)),
            None => String::new(),
        };
        let (from, to) = (self.begins(">=", from, statement), self.begins("<", to, statement));
        format!("({in_bucket}{from} AND {to})")
    }
}

impl TimeBucketColumn {
    /// Writes that the bucket overlaps a range of time, whose end is exclusive.
    fn overlaps(&self, from: Timestamp, to: Timestamp, statement: &mut Statement) -> String {
        const NANOS_PER_SECOND: i64 = 1_000_000_000;
        let seconds = |time: Timestamp| time.as_nanos().div_euclid(NANOS_PER_SECOND);
        let first = statement.int(seconds(from).saturating_sub(self.seconds).max(0));
        let last = statement.int(seconds(to));
        let [first, last] = [first, last]
            .map(|second| if self.is_integer { second } else { format!("toDateTime({second})") });
        format!("{name} >= {first} AND {name} <= {last}", name = self.name)
    }
}

/// A column of times as expressions.
pub(crate) struct TimeExpressions {
    /// As a `DateTime` or `DateTime64`.
    pub(crate) time: String,
    /// As an integer, in units of the precision.
    pub(crate) ticks: String,
    /// Decimals of a second.
    pub(crate) precision: u8,
}

impl TimeExpressions {
    /// Returns the expressions; `None` for a type that is not a time. A column of integers needs its unit.
    pub(crate) fn new(column: &Column, unit: Option<TimeUnit>) -> Option<Self> {
        if column.column_type.is_nullable() {
            return None;
        }
        Self::of_value(quote(&column.name), column.column_type.bare(), unit)
    }

    /// Returns the expressions of a value of this type, which is not NULL.
    pub(crate) fn of_value(quoted: String, column_type: &ColumnType, unit: Option<TimeUnit>) -> Option<Self> {
        Some(match (column_type, unit) {
            (ColumnType::Number(NumberType::DateTime), _) => {
                Self { ticks: format!("toInt64(toUnixTimestamp({quoted}))"), time: quoted, precision: 0 }
            }
            // As it is stored: in nanoseconds, times after 2262 overflow.
            (ColumnType::Number(NumberType::DateTime64 { precision }), _) => Self {
                ticks: format!("reinterpretAsInt64({quoted})"),
                time: quoted,
                precision: (*precision).min(9),
            },
            (ColumnType::Number(NumberType::Integer { bits: 32 | 64, signed }), Some(unit)) => {
                // A time beyond the range of signed integers is the last one, not a negative one.
                let ticks = match signed {
                    true => format!("toInt64({quoted})"),
                    false => format!("toInt64(least({quoted}, 9223372036854775807))"),
                };
                let time = format!("reinterpret({ticks}, 'DateTime64({}, ''UTC'')')", unit.decimals());
                Self { time, ticks, precision: unit.decimals() }
            }
            _ => return None,
        })
    }
}

fn is_signed(column_type: &ColumnType) -> bool {
    matches!(column_type.bare(), ColumnType::Number(NumberType::Integer { signed: true, .. }))
}

/// Whether rows can be chosen by a value of a column of this type.
pub(crate) fn can_choose_rows(column_type: &ColumnType) -> bool {
    column_type.is_text() || is_integer(column_type) || *column_type.bare() == ColumnType::Bool
}

/// Returns a column with its quoted name, if the table still has it.
pub(crate) fn known_column<'a>(table: &'a BoundTable, name: Option<&str>) -> Option<(&'a Column, String)> {
    let column = column_named(&table.columns, name?)?;
    Some((column, quote(&column.name)))
}

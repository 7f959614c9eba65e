//! Columns of tables, as the store has them now.

use tracewarden_model::{Binding, ColumnType, Condition, MarkedField, Timestamp};
use tracewarden_policy::{Predicate, lower_condition};

use crate::fields::fit;
use crate::key_columns::{Purpose, held_keys};
use crate::layout::{MapKey, TableEngine};
use crate::predicate_sql::{render, score};
use crate::sql::{Statement, quote};
use crate::trace_index::is_date_time;
use crate::{StoreError, TraceStore};

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name; nested columns have a dot in it.
    pub name: String,
    /// Its type, as far as fields can be made of it.
    pub column_type: ColumnType,
    /// Its type as the store writes it.
    pub type_text: String,
    /// Whether `SELECT *` leaves it out (materialized and alias columns).
    pub derived: bool,
    /// Whether answers leave it out unless it is named: an alias, computed of other columns whenever it is read, or a column that
    /// a distributed table declares as materialized and the table behind it does not have.
    pub omitted: bool,
    /// The key that it holds the values of, when it is materialized in exactly the one form.
    pub key: Option<MapKey>,
    /// Whether the table keeps its rows itself, in parts. What a distributed table declares of a column says nothing
    /// certain about the tables behind it.
    pub in_parts: bool,
}

impl TraceStore {
    /// The columns of a table, in its order; none when there is no such table.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn columns(&self, database: &str, table: &str) -> Result<Vec<Column>, StoreError> {
        let [columns] = self.columns_of(database, [table]).await?;
        Ok(columns)
    }

    /// The columns of several tables of a database, in one statement.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn columns_of<const N: usize>(
        &self,
        database: &str,
        tables: [&str; N],
    ) -> Result<[Vec<Column>; N], StoreError> {
        let mut statement = Statement::default();
        let in_database = statement.string(database);
        let of_tables = tables.map(|table| statement.string(table)).join(", ");
        let [engines, one] = ["engines", "one"].map(|name| statement.own(name));
        statement.push(&format!(
            "WITH (SELECT groupArray((name, engine, if(engine = 'Distributed', engine_full, ''))) FROM system.tables \
             WHERE database = {in_database} AND name IN ({of_tables})) AS {engines} \
             SELECT table, name, type, default_kind, if(default_kind = 'MATERIALIZED', default_expression, ''), \
             arrayFirst({one} -> {one}.1 = table, {engines}) FROM system.columns \
             WHERE database = {in_database} AND table IN ({of_tables}) AND default_kind != 'EPHEMERAL' \
             ORDER BY table, position"
        ));
        type Row = (String, String, String, String, String, (String, String, String));
        let rows: Vec<Row> = self.client.rows(statement).await?;
        let mut found = tables.map(|_| Vec::new());
        for (place, table) in found.iter_mut().zip(tables) {
            let rows = || rows.iter().filter(|(of_table, ..)| of_table == table);
            if let Some((.., (_, engine, full))) = rows().next() {
                // Large, and not part of every caller's future.
                Box::pin(self.verify_servers_of(&TableEngine::read(engine, full))).await?;
            }
            let (columns, expressions) = rows()
                .map(|(_, name, type_text, kind, expression, (_, engine, _))| {
                    let column = Column {
                        column_type: ColumnType::parse(type_text),
                        derived: matches!(kind.as_str(), "MATERIALIZED" | "ALIAS"),
                        omitted: kind == "ALIAS",
                        name: name.clone(),
                        type_text: type_text.clone(),
                        key: None,
                        in_parts: engine.ends_with("MergeTree"),
                    };
                    (column, expression.clone())
                })
                .unzip();
            *place = self.held_behind(database, table, held_keys(columns, expressions)).await?;
        }
        Ok(found)
    }

    /// Engines of tables of a database, of those that there are.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn engines_of<const N: usize>(
        &self,
        database: &str,
        tables: [&str; N],
    ) -> Result<Vec<TableEngine>, StoreError> {
        let mut statement = Statement::default();
        let in_database = statement.string(database);
        let of_tables = tables.map(|table| statement.string(table)).join(", ");
        statement.push(&format!(
            "SELECT engine, engine_full FROM system.tables WHERE database = {in_database} AND name IN ({of_tables})"
        ));
        let rows: Vec<(String, String)> = self.client.rows(statement).await?;
        Ok(rows.into_iter().map(|(engine, full)| TableEngine::read(&engine, &full)).collect())
    }

    /// Forgets the keys of columns that a distributed table declares and the table behind it does not have in the same
    /// form, or that cannot be seen: what it declares is not what answers. Materialized columns that the table behind it does not
    /// have cannot be read at all.
    async fn held_behind(
        &self,
        database: &str,
        table: &str,
        columns: Vec<Column>,
    ) -> Result<Vec<Column>, StoreError> {
        if columns.iter().all(|column| column.in_parts || (column.key.is_none() && !column.derived)) {
            return Ok(columns);
        }
        let layout = self.layout(database, table).await?;
        let is_distributed = matches!(layout.engine, TableEngine::Distributed { .. });
        let is_behind = |column: &Column| {
            layout.local.as_ref().is_some_and(|local| local.columns.iter().any(|own| own.name == column.name))
        };
        let seen = |column: &Column| {
            layout.columns.iter().any(|seen| seen.name == column.name && seen.key == column.key)
        };
        let columns = columns.into_iter().map(|column| Column {
            omitted: column.omitted || (is_distributed && column.derived && !is_behind(&column)),
            key: column.key.clone().filter(|_| seen(&column)),
            ..column
        });
        Ok(columns.collect())
    }
}

/// The bound table as statements see it: quoted names and expressions by type.
#[derive(Debug)]
pub(crate) struct BoundTable {
    pub(crate) columns: Vec<Column>,
    /// The table's quoted name.
    pub(crate) name: String,
    /// The trace id as a plain string, empty for NULL.
    pub(crate) trace_id: String,
    /// The trace id's column, for conditions that an index serves.
    pub(crate) trace_id_column: String,
    pub(crate) span_id: String,
    pub(crate) parent_span_id: String,
    pub(crate) timestamp: String,
    /// The timestamp as an integer that orders spans, in [`BoundTable::nanos_per_tick`].
    pub(crate) ticks: String,
    /// Nanoseconds that one tick lasts.
    pub(crate) nanos_per_tick: i64,
    /// Decimals of the timestamp, where they are fewer than nine: it may reach further than nanoseconds do.
    pub(crate) coarse: Option<u8>,
}

impl BoundTable {
    /// Describes the bound table from its columns.
    ///
    /// # Errors
    /// When the table no longer has a structural column, or with an unusable type.
    pub(crate) fn new(binding: &Binding, columns: Vec<Column>) -> Result<Self, StoreError> {
        let find = |name: &str| {
            columns.iter().find(|column| column.name == name).ok_or_else(|| {
                let Binding { database, table, .. } = binding;
                StoreError::TableChanged(match columns.is_empty() {
                    true => format!(
                        "the bound table {database}.{table} is gone, or the service's user has no access to it: restore it, or \
                         bind another table with `PUT /schema/binding`"
                    ),
                    false => format!(
                        "the bound table {database}.{table} has no column `{name}`: restore it, or bind the table again with \
                         `PUT /schema/binding`"
                    ),
                })
            })
        };
        let text = |name: &str| -> Result<String, StoreError> {
            let column = find(name)?;
            if !column.column_type.is_string() {
                let message = format!(
                    "`{name}` of the bound table has type {} now and is not a string: bind the table again with \
                     `PUT /schema/binding`",
                    column.type_text
                );
                return Err(StoreError::TableChanged(message));
            }
            Ok(plain_text(&quote(name), &column.column_type))
        };
        let timestamp = quote(&binding.timestamp);
        let precision = match find(&binding.timestamp)?.column_type.bare() {
            ColumnType::DateTime => 0,
            ColumnType::DateTime64 { precision } => (*precision).min(9),
            _ => {
                let message = format!(
                    "`{}` of the bound table is no longer a time: bind the table again with `PUT /schema/binding`",
                    binding.timestamp
                );
                return Err(StoreError::TableChanged(message));
            }
        };
        let ticks = match find(&binding.timestamp)?.column_type.bare() {
            ColumnType::DateTime => format!("toInt64(toUnixTimestamp({timestamp}))"),
            // As it is stored: in nanoseconds, times after 2262 do not fit.
            _ => format!("reinterpretAsInt64({timestamp})"),
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
            coarse: (precision < 9).then_some(precision),
            columns,
        })
    }

    /// Whether the table keeps its rows itself, in parts, of which the store can say how many it would read.
    pub(crate) fn in_parts(&self) -> bool {
        self.columns.iter().any(|column| column.in_parts)
    }

    /// A statement over this table.
    pub(crate) fn statement(&self) -> Statement {
        Statement::over(self.columns.iter().map(|column| column.name.as_str()))
    }

    /// Checks that fields can be read as they were marked, though nothing of them may be left in a predicate.
    ///
    /// # Errors
    /// When one is no longer what it was marked as.
    pub(crate) fn check_fields<'a>(
        &self,
        fields: impl IntoIterator<Item = &'a MarkedField>,
    ) -> Result<(), StoreError> {
        crate::fields::check(fields, &self.columns)
    }

    /// What opens traces, a policy or a restriction, over this table as it is now: its fields were marked at another
    /// time. Of the columns that hold the values of keys, only adopted ones are read.
    ///
    /// # Errors
    /// When a field is no longer what it was marked as.
    pub(crate) fn condition(
        &self,
        predicate: &Predicate,
        statement: &mut Statement,
    ) -> Result<String, StoreError> {
        Ok(render(&fit(predicate, &self.columns, Purpose::Access)?, statement))
    }

    /// How near a span comes to satisfying the same, from 0 to 1.
    ///
    /// # Errors
    /// Those of [`Self::condition`].
    pub(crate) fn score(
        &self,
        predicate: &Predicate,
        statement: &mut Statement,
    ) -> Result<String, StoreError> {
        Ok(score(&fit(predicate, &self.columns, Purpose::Access)?, statement))
    }

    /// Whether a span satisfies any of a filter's conditions, over this table as it is now; never where there are none.
    /// What is a policy cannot be given here: any column that holds the values of a key is read in place of the map,
    /// which nobody has compared with the data.
    ///
    /// # Errors
    /// When a field is no longer what it was marked as.
    pub(crate) fn any_condition(
        &self,
        conditions: &[Condition],
        statement: &mut Statement,
    ) -> Result<String, StoreError> {
        let any = Predicate::any(conditions.iter().map(lower_condition));
        Ok(render(&fit(&any, &self.columns, Purpose::Filter)?, statement))
    }

    /// A point in time that the timestamp may be compared with, by `>=` and `<` alone: rounded up to the column's own precision.
    ///
    /// ClickHouse compares times in the finer of two precisions, and raises where one of them does not fit: beside nanoseconds, one
    /// span of a broken clock, after 2262, would fail every search of everybody.
    pub(crate) fn time(&self, value: Timestamp, statement: &mut Statement) -> String {
        let Some(precision) = self.coarse else { return statement.time(value) };
        let up = self.tick_from(value.as_nanos()).saturating_mul(self.nanos_per_tick);
        format!("toDateTime64({}, {precision})", statement.time(Timestamp::from_nanos(up)))
    }

    /// The nanoseconds of a time in whole ticks, rounded toward zero as ClickHouse does when it converts to fewer decimals.
    pub(crate) fn whole_ticks(&self, nanos: i64) -> i64 {
        nanos / self.nanos_per_tick * self.nanos_per_tick
    }

    /// The first tick at or after a time, in nanoseconds.
    pub(crate) fn tick_from(&self, nanos: i64) -> i64 {
        let whole = nanos.div_euclid(self.nanos_per_tick);
        if nanos.rem_euclid(self.nanos_per_tick) == 0 { whole } else { whole.saturating_add(1) }
    }

    /// Whether the timestamp is in a window, its end exclusive.
    ///
    /// Beyond the years of `DateTime` it is compared as an integer. Tables are partitioned by `toDate(…)` of it and ordered by
    /// `toDateTime(…)`, which wrap round there; ClickHouse takes them for monotonic all the same, and leaves out parts and
    /// granules that hold what is asked for (seen with 25.8 and 26.7).
    pub(crate) fn within(&self, from: Timestamp, to: Timestamp, statement: &mut Statement) -> String {
        if !is_date_time(from) || !is_date_time(to) {
            let [from, to] = [from, to].map(|time| statement.int(self.tick_from(time.as_nanos())));
            return format!("({ticks} >= {from} AND {ticks} < {to})", ticks = self.ticks);
        }
        let (from, to) = (self.time(from, statement), self.time(to, statement));
        format!("({timestamp} >= {from} AND {timestamp} < {to})", timestamp = self.timestamp)
    }
}

/// A string column as a plain `String`, empty for NULL.
pub(crate) fn plain_text(expression: &str, column_type: &ColumnType) -> String {
    match column_type {
        ColumnType::String => expression.to_owned(),
        other if other.is_nullable() => format!("ifNull(toString({expression}), '')"),
        _ => format!("toString({expression})"),
    }
}

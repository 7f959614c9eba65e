//! The current columns of tables in ClickHouse.

use tracewarden_model::{Binding, ColumnType, Condition, MarkedField, Timestamp};
use tracewarden_policy::{Predicate, lower_condition};

use crate::fields::resolve_fields;
use crate::key_columns::{Purpose, detect_key_columns};
use crate::layout::{MapKey, TableEngine};
use crate::predicate_sql::{render, score};
use crate::sql::{Statement, quote};
use crate::trace_index::is_date_time;
use crate::{ClickHouse, ClickHouseError};

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name; nested columns have a dot in it.
    pub name: String,
    /// Its type, as far as fields support it.
    pub column_type: ColumnType,
    /// Its type as ClickHouse writes it.
    pub type_text: String,
    /// Whether `SELECT *` leaves it out (materialized and alias columns).
    pub derived: bool,
    /// Whether answers omit it unless it is named: an alias, which is computed from other columns on each read, or a column
    /// that a distributed table declares as materialized and the table behind it lacks.
    pub omitted: bool,
    /// The map key whose values it holds, when it is materialized in exactly the standard form.
    pub key: Option<MapKey>,
    /// Whether the table stores its rows itself, in parts. The declaration of a column in a distributed table proves nothing
    /// about the tables behind it.
    pub in_parts: bool,
}

impl ClickHouse {
    /// Returns the columns of a table, in its order; none when the table does not exist.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub async fn columns(&self, database: &str, table: &str) -> Result<Vec<Column>, ClickHouseError> {
        let [columns] = self.columns_of(database, [table]).await?;
        Ok(columns)
    }

    /// Returns the columns of several tables of a database, with one statement.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub(crate) async fn columns_of<const N: usize>(
        &self,
        database: &str,
        tables: [&str; N],
    ) -> Result<[Vec<Column>; N], ClickHouseError> {
        let mut statement = Statement::default();
        let in_database = statement.string(database);
        let of_tables = tables.map(|table| statement.string(table)).join(", ");
        let [engines, one] = ["engines", "one"].map(|name| statement.alias(name));
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
        for (slot, table) in found.iter_mut().zip(tables) {
            let rows = || rows.iter().filter(|(of_table, ..)| of_table == table);
            if let Some((.., (_, engine, full))) = rows().next() {
                // Boxed because it is large, to keep it out of every caller's future.
                Box::pin(self.verify_servers_of(&TableEngine::from_system_table(engine, full))).await?;
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
            *slot =
                self.verify_on_local_table(database, table, detect_key_columns(columns, expressions)).await?;
        }
        Ok(found)
    }

    /// Returns the engines of tables of a database, for those tables that exist.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub(crate) async fn engines_of<const N: usize>(
        &self,
        database: &str,
        tables: [&str; N],
    ) -> Result<Vec<TableEngine>, ClickHouseError> {
        let mut statement = Statement::default();
        let in_database = statement.string(database);
        let of_tables = tables.map(|table| statement.string(table)).join(", ");
        statement.push(&format!(
            "SELECT engine, engine_full FROM system.tables WHERE database = {in_database} AND name IN ({of_tables})"
        ));
        let rows: Vec<(String, String)> = self.client.rows(statement).await?;
        Ok(rows.into_iter().map(|(engine, full)| TableEngine::from_system_table(&engine, &full)).collect())
    }

    /// Clears the keys of columns of a distributed table that the table behind it lacks or defines in another form, or when
    /// that table cannot be seen: the declaration does not decide the answer. Materialized columns that the table behind it
    /// lacks cannot be read at all.
    async fn verify_on_local_table(
        &self,
        database: &str,
        table: &str,
        columns: Vec<Column>,
    ) -> Result<Vec<Column>, ClickHouseError> {
        if columns.iter().all(|column| column.in_parts || (column.key.is_none() && !column.derived)) {
            return Ok(columns);
        }
        let layout = self.layout(database, table).await?;
        let is_distributed = matches!(layout.engine, TableEngine::Distributed { .. });
        let is_in_local_table = |column: &Column| {
            layout.local.as_ref().is_some_and(|local| local.columns.iter().any(|own| own.name == column.name))
        };
        let declared = |column: &Column| {
            layout.columns.iter().any(|declared| declared.name == column.name && declared.key == column.key)
        };
        let columns = columns.into_iter().map(|column| Column {
            omitted: column.omitted || (is_distributed && column.derived && !is_in_local_table(&column)),
            key: column.key.clone().filter(|_| declared(&column)),
            ..column
        });
        Ok(columns.collect())
    }
}

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
        let precision = match find(&binding.timestamp)?.column_type.bare() {
            ColumnType::DateTime => 0,
            ColumnType::DateTime64 { precision } => (*precision).min(9),
            _ => {
                let message = format!(
                    "`{}` of the bound table is no longer a time: bind the table again with `PUT /schema/binding`",
                    binding.timestamp
                );
                return Err(ClickHouseError::TableChanged(message));
            }
        };
        let ticks = match find(&binding.timestamp)?.column_type.bare() {
            ColumnType::DateTime => format!("toInt64(toUnixTimestamp({timestamp}))"),
            // As it is stored: in nanoseconds, times after 2262 overflow.
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
        crate::fields::check(fields, &self.columns)
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
        ColumnType::String => expression.to_owned(),
        other if other.is_nullable() => format!("ifNull(toString({expression}), '')"),
        _ => format!("toString({expression})"),
    }
}

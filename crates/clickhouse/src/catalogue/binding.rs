//! Checks a binding against ClickHouse.

use tracewarden_model::{Binding, ColumnType, NumberType, ReadAs, TextType};

use super::Catalogue;
use crate::client::PARTITION_PRUNING;
use crate::schema::{
    BoundTable, Column, Layout, TableEngine, can_choose_rows, column_named, integer, is_id, is_integer,
    is_trace_index, only_name, unknown_column, uuid,
};
use crate::sql::{Statement, quote, quote_table};
use crate::{ClickHouseError, Result};

fn invalid(member: &'static str, reason: impl Into<String>) -> ClickHouseError {
    ClickHouseError::InvalidBinding(vec![(member, reason.into())])
}

/// Why tables of [`SYSTEM_DATABASES`] cannot be bound.
pub const SYSTEM_DATABASE_REASON: &str = "ClickHouse's system tables cannot be bound: copy the spans to a table of their own, or create a view in another database";

/// Databases that belong to ClickHouse itself.
pub(crate) const SYSTEM_DATABASES: [&str; 3] = ["system", "information_schema", "INFORMATION_SCHEMA"];

impl Catalogue {
    /// Checks that the table exists and that its columns can serve in their roles. Returns warnings.
    ///
    /// # Errors
    /// Everything that is invalid.
    pub async fn check_binding(&self, binding: &Binding) -> Result<Vec<String>> {
        if SYSTEM_DATABASES.contains(&binding.database.as_str()) {
            return Err(invalid("database", SYSTEM_DATABASE_REASON));
        }
        let as_binding_error = |error| match error {
            ClickHouseError::Unusable(message) => invalid("database", message),
            other => other,
        };
        Box::pin(self.verify_versions()).await.map_err(as_binding_error)?;
        let unsuitable = self.unsuitable(&binding.database, &binding.table).await?;
        if let Some(unsuitable) = unsuitable.as_ref().filter(|unsuitable| !unsuitable.readable) {
            return Err(invalid("table", &unsuitable.reason));
        }
        let columns = self.columns(&binding.database, &binding.table).await.map_err(as_binding_error)?;
        if columns.is_empty() {
            let message = format!("there is no table `{}.{}`", binding.database, binding.table);
            return Err(invalid("table", message));
        }
        let mut errors = column_errors(binding, &columns);
        let layout = self.current_layout(&binding.database, &binding.table).await?;
        errors.extend(read_as_error(binding, &layout));
        errors.extend(self.partitions_error(binding, &layout).await?);
        let mut warnings = self.partial_table_warnings(binding).await?;
        warnings.extend(unsuitable.map(|unsuitable| unsuitable.reason));
        warnings.extend(self.hidden_rows_warning(binding, &layout.engine).await?);
        if let (Some(ReadAs::Final), TableEngine::Distributed { .. }) = (binding.read_as, &layout.engine) {
            let warning = "`FINAL` does not replace a row by a version of it on another shard: the sharding key must place all \
                           versions of a row together";
            warnings.push(warning.to_owned());
        }
        match &binding.trace_index {
            Some(index) => {
                let columns = self.columns(&binding.database, index).await?;
                if columns.is_empty() {
                    errors.push(("trace_index", format!("there is no table `{}.{index}`", binding.database)));
                } else if !is_trace_index(&columns) {
                    let message = "a trace index has the columns `TraceId` (an id), `Start` and `End` (each a `DateTime` or \
                                   `DateTime64(9)`), or `trace_id`, `start` and `end`";
                    errors.push(("trace_index", message.to_owned()));
                }
            }
            None => warnings.push(match self.config.max_trace_duration_nanos {
                Some(nanos) => format!(
                    "without a trace index, a search reads each trace only {} minutes around the window: it \
                     can miss a longer trace whose matching span lies farther away, but never returns a \
                     partial trace",
                    nanos / 60_000_000_000
                ),
                None => "without a trace index and with an unlimited trace duration, every search reads the whole table"
                    .to_owned(),
            }),
        }
        if errors.is_empty() { Ok(warnings) } else { Err(ClickHouseError::InvalidBinding(errors)) }
    }

    /// Compares the time bucket of each span with its timestamp, over the whole table: searches would miss spans that lie in
    /// another bucket. The binding is otherwise [valid](Self::check_binding).
    ///
    /// # Errors
    /// [`ClickHouseError::InvalidBinding`] when a span lies outside its bucket, or a ClickHouse failure.
    pub async fn check_time_bucket(&self, binding: &Binding) -> Result<()> {
        let Some(bucket) = &binding.time_bucket else { return Ok(()) };
        let mut unbucketed = binding.clone();
        unbucketed.time_bucket = None;
        let columns = self.columns(&binding.database, &binding.table).await?;
        let table = BoundTable::new(&unbucketed, columns)?;
        let mut statement = table.statement();
        let (start, seconds) = (quote(&bucket.column), bucket.seconds);
        let span = format!("intDiv({}, {})", table.ticks, 1_000_000_000 / table.nanos_per_tick);
        // Beyond the range of `DateTime`, buckets wrap around, and searches do not use them.
        let outside = format!(
            "({span} BETWEEN 0 AND {} AND ({span} < toInt64({start}) OR {span} >= toInt64({start}) + {seconds}))",
            u32::MAX
        );
        let spans = table.spans(&outside, &mut statement);
        statement.push(&format!("SELECT count() FROM {spans}"));
        let rows: Vec<(u64,)> = self.comparison_client().rows(statement).await?;
        match rows.first() {
            Some((0,)) => Ok(()),
            Some((outside,)) => {
                let message = format!(
                    "{outside} spans do not begin in their bucket of {seconds} seconds from `{}`: searches would miss them; \
                     correct the length, or leave the time bucket out",
                    bucket.column
                );
                Err(invalid("time_bucket", message))
            }
            None => Err(ClickHouseError::incomplete("counts are missing")),
        }
    }

    /// Refuses `FINAL` where ClickHouse skips partitions before it replaces rows, and versions of a row can be in several: a
    /// condition that excludes the partition of the newest version would show an older one.
    async fn partitions_error(
        &self,
        binding: &Binding,
        layout: &Layout,
    ) -> Result<Option<(&'static str, String)>> {
        let in_sorting_key = |name: &str| {
            layout.sorting_key.iter().any(|key| only_name(key).is_some_and(|column| column == name))
        };
        let partition_columns = layout.columns.iter().map(|column| column.name.as_str());
        let changing = partition_columns
            .filter(|name| names_column(&layout.partition_key, name))
            .find(|name| !in_sorting_key(name));
        let Some(changing) = changing.filter(|_| binding.read_as == Some(ReadAs::Final)) else {
            return Ok(None);
        };
        let mut statement = Statement::default();
        let setting = statement.string(PARTITION_PRUNING);
        statement.push(&format!("SELECT count() FROM system.settings WHERE name = {setting}"));
        let known: Vec<(u64,)> = self.client.rows(statement).await?;
        if matches!(known.as_slice(), [(1,)]) {
            return Ok(None);
        }
        Ok(Some((
            "read_as",
            format!(
                "the partition key has `{changing}`, which is not in the sorting key, so that versions of a row can be in several \
                 partitions; this version of ClickHouse skips partitions before it replaces rows, and would show replaced ones: \
                 upgrade ClickHouse to 26.3 or later, choose `as_is`, or bind a view that keeps it from that: \
                 CREATE VIEW {view} AS SELECT {columns} FROM {table} FINAL",
                view = quote_table(&binding.database, &format!("{}_final", binding.table)),
                columns = columns_without_pruning(layout),
                table = quote_table(&binding.database, &binding.table),
            ),
        )))
    }

    /// Warns about a view or a `Merge` table over tables whose engine replaces rows: nothing tells whether it reads them with
    /// `FINAL`.
    async fn hidden_rows_warning(&self, binding: &Binding, engine: &TableEngine) -> Result<Option<String>> {
        if !matches!(engine.name(), "View" | "Merge") {
            return Ok(None);
        }
        let mut statement = Statement::default();
        let (database, table) = (statement.string(&binding.database), statement.string(&binding.table));
        let [select, full] = statement.aliases(["select", "full"]);
        statement.push(&format!(
            "WITH (SELECT (as_select, engine_full) FROM system.tables WHERE database = {database} AND name = {table}) AS {select}, \
             extractAll({select}.2, '\\'([^\\']*)\\'') AS {full} \
             SELECT database, name FROM system.tables WHERE match(engine, '(Replacing|Collapsing|Aggregating|Summing|Coalescing|Graphite)MergeTree$') \
             AND (position({select}.1, name) > 0 OR (database = {database} AND length({full}) > 0 AND match(name, {full}[-1]))) \
             ORDER BY database, name LIMIT 1"
        ));
        let rows: Vec<(String, String)> = self.client.rows(statement).await?;
        Ok(rows.into_iter().next().map(|(database, name)| {
            format!(
                "it reads `{database}.{name}`, whose engine replaces rows: unless the view reads it with `FINAL`, replaced and \
                 deleted spans are shown"
            )
        }))
    }

    /// Warns about tables that hold only one server's rows, where there are more servers.
    async fn partial_table_warnings(&self, binding: &Binding) -> Result<Vec<String>> {
        let distributed = self.distributed_tables().await?;
        let mut warnings = Vec::new();
        if let Some(whole) = distributed.over(&binding.database, &binding.table) {
            warnings.push(format!(
                "`{}.{}` is the local table of one server behind the distributed table `{}.{}`: searches see the \
                 spans of that server only, and traces are incomplete",
                binding.database, binding.table, whole.database, whole.name
            ));
        }
        if let Some(index) = &binding.trace_index
            && distributed.find(&binding.database, &binding.table).is_some()
            && distributed.find(&binding.database, index).is_none()
        {
            warnings.push(format!(
                "the trace index `{}.{index}` is a table of one server, and `{}` is distributed: unless it holds \
                 the traces of all servers, searches miss spans; bind a distributed table over the servers' indexes",
                binding.database, binding.table
            ));
        }
        Ok(warnings)
    }
}

/// Members that name the columns without which a table cannot be bound.
const STRUCTURAL_MEMBERS: [&str; 4] = ["trace_id", "span_id", "parent_span_id", "timestamp"];

/// A member that names a column, with the column, and which types it can have: in words, and as a function.
type ColumnCheck<'a> = (&'static str, Option<&'a String>, &'static str, fn(&ColumnType) -> bool);

/// Checks the columns that a binding names.
fn column_errors(binding: &Binding, columns: &[Column]) -> Vec<(&'static str, String)> {
    let display = &binding.display;
    let has_unit = binding.timestamp_unit.is_some();
    let time = "a DateTime or DateTime64 that is not nullable, or an integer with `timestamp_unit`";
    let integer_time = "an integer of 32 or 64 bits that is not nullable, since `timestamp_unit` is set";
    let (end, integer_end) =
        ("a DateTime or DateTime64, like the timestamp", "an integer, like the timestamp");
    let id = "a string, a UUID or an integer of 32, 64 or 128 bits";
    let text = "a string, an enumeration or a UUID";
    let status = "a string, an enumeration, an integer or a boolean";
    let is_status = |column_type: &ColumnType| {
        column_type.is_text() || is_integer(column_type) || *column_type.bare() == ColumnType::Bool
    };
    let checks: [ColumnCheck<'_>; 12] = [
        ("trace_id", Some(&binding.trace_id), id, is_id),
        ("span_id", Some(&binding.span_id), id, is_id),
        ("parent_span_id", Some(&binding.parent_span_id), id, is_id),
        ("timestamp", (!has_unit).then_some(&binding.timestamp), time, is_time),
        ("timestamp", has_unit.then_some(&binding.timestamp), integer_time, is_integer_time),
        ("display/name", display.name.as_ref(), text, ColumnType::is_text),
        ("display/service", display.service.as_ref(), text, ColumnType::is_text),
        ("display/kind", display.kind.as_ref(), text, ColumnType::is_text),
        ("display/status", display.status.as_ref(), status, is_status),
        ("display/duration", display.duration.as_ref(), "a number that is not nullable", is_number),
        ("display/end", display.end.as_ref().filter(|_| !has_unit), end, |end| is_time(end.bare())),
        ("display/end", display.end.as_ref().filter(|_| has_unit), integer_end, |end| {
            is_integer_time(end.bare())
        }),
    ];
    let value = "a string, an integer, an enumeration, a UUID or a boolean";
    let only = binding
        .only
        .iter()
        .map(|only| -> ColumnCheck<'_> { ("only", Some(&only.column), value, can_choose_rows) });
    let bucket: ColumnCheck<'_> = (
        "time_bucket",
        binding.time_bucket.as_ref().map(|bucket| &bucket.column),
        "a time, or seconds since the epoch as an integer, and not nullable",
        |column_type| is_time(column_type) || is_integer_time(column_type),
    );
    let mut errors = Vec::new();
    for (member, name, what, fits) in checks.into_iter().chain(only).chain([bucket]) {
        let Some(name) = name else { continue };
        match column_named(columns, name) {
            None => {
                let mut reason = unknown_column(name, columns);
                if STRUCTURAL_MEMBERS.contains(&member) {
                    reason.push_str(
                        ". If the table has none, create a view that computes it, and bind the view",
                    );
                }
                errors.push((member, reason));
            }
            Some(column) if !fits(&column.column_type) => {
                errors.push((member, format!("`{name}` must be {what}, its type is {}", column.type_text)));
            }
            Some(_) => {}
        }
    }
    let contradictions = [
        (
            display.duration.is_some() && display.end.is_some(),
            "display/end",
            "the duration already tells when a span ends: leave one of them out",
        ),
        (
            display.duration.is_none() && display.duration_unit.is_some(),
            "display/duration_unit",
            "it needs a column with the duration",
        ),
        (
            display.status.is_none() && !display.error_values.is_empty(),
            "display/error_values",
            "they need a column with the status",
        ),
        (
            binding.time_bucket.as_ref().is_some_and(|bucket| bucket.seconds == 0),
            "time_bucket",
            "a bucket is at least one second long",
        ),
    ];
    let found = contradictions.into_iter().filter(|(is_wrong, ..)| *is_wrong);
    errors.extend(found.map(|(_, member, message)| (member, message.to_owned())));
    for only in &binding.only {
        let column = column_named(columns, &only.column);
        if column.is_some_and(|column| !is_value_of(&only.value, &column.column_type)) {
            errors.push(("only", format!("`{}` is not a value of `{}`", only.value, only.column)));
        }
    }
    errors
}

/// Writes all columns, those of the partition key as expressions that no key serves.
fn columns_without_pruning(layout: &Layout) -> String {
    let in_partition_key = |column: &&Column| names_column(&layout.partition_key, &column.name);
    let hidden = |column: &Column| format!("identity({0}) AS {0}", quote(&column.name));
    let (materialized, stored): (Vec<&Column>, Vec<&Column>) = layout
        .columns
        .iter()
        .filter(|column| !matches!(column.default_kind.as_str(), "ALIAS" | "EPHEMERAL"))
        .partition(|column| column.default_kind == "MATERIALIZED");
    let replaced: Vec<String> = stored.into_iter().filter(in_partition_key).map(hidden).collect();
    let mut columns = vec!["*".to_owned()];
    if !replaced.is_empty() {
        columns = vec![format!("* REPLACE ({})", replaced.join(", "))];
    }
    // `*` leaves these out.
    columns.extend(materialized.into_iter().map(|column| match in_partition_key(&column) {
        true => hidden(column),
        false => quote(&column.name),
    }));
    columns.join(", ")
}

/// Whether an expression names a column.
fn names_column(expression: &str, column: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    expression.match_indices(column).any(|(at, _)| {
        let before = expression.get(..at).and_then(|before| before.chars().next_back());
        let after = expression.get(at + column.len()..).and_then(|after| after.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Whether a text is a value of a column that rows can be chosen by. ClickHouse would refuse every statement otherwise.
fn is_value_of(text: &str, column_type: &ColumnType) -> bool {
    match column_type.bare() {
        ColumnType::Number(NumberType::Integer { bits, signed }) => integer(text, *bits, *signed).is_some(),
        ColumnType::Text(TextType::Enum { names }) => names.iter().any(|name| name == text),
        ColumnType::Text(TextType::FixedString { bytes }) => text.len() <= *bytes as usize,
        ColumnType::Text(TextType::Uuid) => uuid(text).is_some(),
        ColumnType::Bool => matches!(text, "true" | "false"),
        _ => true,
    }
}

/// Checks that a table whose engine replaces rows is read as the administrator chose, and another one as it is.
fn read_as_error(binding: &Binding, layout: &Layout) -> Option<(&'static str, String)> {
    let stored = &layout.underlying().engine;
    match (binding.read_as, stored) {
        (None, stored) if stored.replaces_rows() => Some((
            "read_as",
            format!(
                "the engine {} keeps replaced and deleted rows until it merges them: choose `final`, which never shows them, or \
                 `as_is`, which is faster and shows them",
                stored.name()
            ),
        )),
        (None, TableEngine::Distributed { .. }) => Some((
            "read_as",
            "the tables behind it cannot be seen, and their engine may keep replaced and deleted rows: grant `SHOW TABLES` on them, \
             or choose `final`, which never shows such rows, or `as_is`"
                .to_owned(),
        )),
        (Some(_), TableEngine::MergeTree { .. }) if !stored.replaces_rows() => {
            Some(("read_as", format!("the engine {} keeps all rows: leave `read_as` out", stored.name())))
        }
        (Some(ReadAs::Final), TableEngine::Other(name)) if name != "Merge" => {
            Some(("read_as", format!("ClickHouse cannot read a table of the engine {name} with `FINAL`")))
        }
        _ => None,
    }
}

/// Whether a column of this type can hold times as integers.
pub(super) fn is_integer_time(column_type: &ColumnType) -> bool {
    matches!(column_type, ColumnType::Number(NumberType::Integer { bits: 32 | 64, .. }))
}

pub(super) fn is_time(column_type: &ColumnType) -> bool {
    matches!(column_type, ColumnType::Number(NumberType::DateTime | NumberType::DateTime64 { .. }))
}

pub(super) fn is_number(column_type: &ColumnType) -> bool {
    let ColumnType::Number(number) = column_type else { return false };
    matches!(number, NumberType::Integer { bits: 8..=64, .. } | NumberType::Float { .. })
}

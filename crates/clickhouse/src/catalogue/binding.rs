//! Checks a binding against ClickHouse.

use tracewarden_model::{Binding, ColumnType, NumberType, ReadAs, RowOptions, TextType, nearest::nearest};

use super::Catalogue;
use crate::ClickHouseError;
use crate::client::PARTITION_PRUNING;
use crate::schema::{
    BoundTable, Column, Layout, TableEngine, can_choose_rows, integer, is_id, is_trace_index, only_name, uuid,
};
use crate::sql::{Statement, quote, quote_table};

/// Why a table cannot be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindingError {
    /// ClickHouse failed.
    Store(ClickHouseError),
    /// Invalid members of the binding, each with the reason.
    Invalid(Vec<(&'static str, String)>),
}

impl From<ClickHouseError> for BindingError {
    fn from(error: ClickHouseError) -> Self {
        Self::Store(error)
    }
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
    pub async fn check_binding(&self, binding: &Binding) -> Result<Vec<String>, BindingError> {
        if SYSTEM_DATABASES.contains(&binding.database.as_str()) {
            let message = SYSTEM_DATABASE_REASON.to_owned();
            return Err(BindingError::Invalid(vec![("database", message)]));
        }
        let as_binding_error = |error| match error {
            ClickHouseError::Unusable(message) => BindingError::Invalid(vec![("database", message)]),
            other => BindingError::Store(other),
        };
        Box::pin(self.verify_versions()).await.map_err(as_binding_error)?;
        let unsuitable = self.unsuitable(&binding.database, &binding.table).await?;
        if let Some(unsuitable) = unsuitable.as_ref().filter(|unsuitable| !unsuitable.readable) {
            return Err(BindingError::Invalid(vec![("table", unsuitable.reason.clone())]));
        }
        let columns = self.columns(&binding.database, &binding.table).await.map_err(as_binding_error)?;
        if columns.is_empty() {
            let message = format!("there is no table `{}.{}`", binding.database, binding.table);
            return Err(BindingError::Invalid(vec![("table", message)]));
        }
        let mut errors = column_errors(binding, &columns);
        let layout = self.current_layout(&binding.database, &binding.table).await?;
        errors.extend(read_as_error(binding, &layout));
        errors.extend(self.partitions_error(binding, &layout).await?);
        let mut warnings = self.partial_table_warnings(binding).await?;
        warnings.extend(unsuitable.map(|unsuitable| unsuitable.reason));
        warnings.extend(self.hidden_rows_warning(binding, &layout.engine).await?);
        if let (Some(ReadAs::Final), TableEngine::Distributed { .. }) = (binding.rows.read_as, &layout.engine)
        {
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
        if errors.is_empty() { Ok(warnings) } else { Err(BindingError::Invalid(errors)) }
    }

    /// Compares the time bucket of each span with its timestamp, over the whole table: searches would miss spans that lie in
    /// another bucket. The binding is otherwise [valid](Self::check_binding).
    ///
    /// # Errors
    /// [`BindingError::Invalid`] when a span lies outside its bucket, or a ClickHouse failure.
    pub async fn check_time_bucket(&self, binding: &Binding) -> Result<(), BindingError> {
        let Some(bucket) = &binding.rows.time_bucket else { return Ok(()) };
        let unbucketed =
            Binding { rows: RowOptions { time_bucket: None, ..binding.rows.clone() }, ..binding.clone() };
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
            Some((outside,)) => Err(BindingError::Invalid(vec![(
                "time_bucket",
                format!(
                    "{outside} spans do not begin in their bucket of {seconds} seconds from `{}`: searches would miss them; \
                     correct the length, or leave the time bucket out",
                    bucket.column
                ),
            )])),
            None => Err(ClickHouseError::incomplete("counts are missing").into()),
        }
    }

    /// Refuses `FINAL` where ClickHouse skips partitions before it replaces rows, and versions of a row can be in several: a
    /// condition that excludes the partition of the newest version would show an older one.
    async fn partitions_error(
        &self,
        binding: &Binding,
        layout: &Layout,
    ) -> Result<Option<(&'static str, String)>, ClickHouseError> {
        let in_sorting_key = |name: &str| {
            layout.sorting_key.iter().any(|key| only_name(key).is_some_and(|column| column == name))
        };
        let partition_columns = layout.columns.iter().map(|column| column.name.as_str());
        let changing = partition_columns
            .filter(|name| names_column(&layout.partition_key, name))
            .find(|name| !in_sorting_key(name));
        let Some(changing) = changing.filter(|_| binding.rows.read_as == Some(ReadAs::Final)) else {
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
    async fn hidden_rows_warning(
        &self,
        binding: &Binding,
        engine: &TableEngine,
    ) -> Result<Option<String>, ClickHouseError> {
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
    async fn partial_table_warnings(&self, binding: &Binding) -> Result<Vec<String>, ClickHouseError> {
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

/// Checks the columns that a binding names.
fn column_errors(binding: &Binding, columns: &[Column]) -> Vec<(&'static str, String)> {
    let mut errors = Vec::new();
    let mut check_column = |member: &'static str,
                            name: &str,
                            what: &str,
                            fits: &dyn Fn(&ColumnType) -> bool| match columns
        .iter()
        .find(|column| column.name == name)
    {
        None => {
            let mut reason = unknown(name, columns);
            if STRUCTURAL_MEMBERS.contains(&member) {
                reason.push_str(". If the table has none, create a view that computes it, and bind the view");
            }
            errors.push((member, reason));
        }
        Some(column) if !fits(&column.column_type) => {
            errors.push((member, format!("`{name}` must be {what}, its type is {}", column.type_text)));
        }
        Some(_) => {}
    };
    let id = "a string, a UUID or an integer of 32, 64 or 128 bits";
    check_column("trace_id", &binding.trace_id, id, &is_id);
    check_column("span_id", &binding.span_id, id, &is_id);
    check_column("parent_span_id", &binding.parent_span_id, id, &is_id);
    let rows = &binding.rows;
    match rows.timestamp_unit {
        None => {
            let time = "a DateTime or DateTime64 that is not nullable, or an integer with `timestamp_unit`";
            check_column("timestamp", &binding.timestamp, time, &is_time);
        }
        Some(_) => {
            let time = "an integer of 32 or 64 bits that is not nullable, since `timestamp_unit` is set";
            check_column("timestamp", &binding.timestamp, time, &is_integer_time);
        }
    }
    let display = &binding.display;
    for (member, name) in [
        ("display/name", &display.name),
        ("display/service", &display.service),
        ("display/kind", &display.kind),
    ] {
        if let Some(name) = name {
            check_column(member, name, "a string, an enumeration or a UUID", &ColumnType::is_text);
        }
    }
    if let Some(name) = &display.status {
        let what = "a string, an enumeration, an integer or a boolean";
        check_column("display/status", name, what, &|column_type| {
            let bare = column_type.bare();
            bare.is_text()
                || matches!(bare, ColumnType::Number(NumberType::Integer { .. }) | ColumnType::Bool)
        });
    }
    if let Some(name) = &display.duration {
        check_column("display/duration", name, "a number that is not nullable", &is_number);
    }
    if let Some(name) = &display.end {
        match rows.timestamp_unit {
            None => {
                check_column("display/end", name, "a DateTime or DateTime64, like the timestamp", &|end| {
                    is_time(end.bare())
                })
            }
            Some(_) => {
                check_column("display/end", name, "an integer, like the timestamp", &|end| {
                    is_integer_time(end.bare())
                });
            }
        }
    }
    for only in &rows.only {
        let what = "a string, an integer, an enumeration, a UUID or a boolean";
        check_column("only", &only.column, what, &can_choose_rows);
    }
    if let Some(bucket) = &rows.time_bucket {
        let what = "a time, or seconds since the epoch as an integer, and not nullable";
        check_column("time_bucket", &bucket.column, what, &|column_type| {
            is_time(column_type) || is_integer_time(column_type)
        });
    }
    let mut refuse = |is_wrong: bool, member: &'static str, message: &str| {
        if is_wrong {
            errors.push((member, message.to_owned()));
        }
    };
    refuse(
        display.duration.is_some() && display.end.is_some(),
        "display/end",
        "the duration already tells when a span ends: leave one of them out",
    );
    refuse(
        display.duration.is_none() && display.duration_unit.is_some(),
        "display/duration_unit",
        "it needs a column with the duration",
    );
    refuse(
        display.status.is_none() && !display.error_values.is_empty(),
        "display/error_values",
        "they need a column with the status",
    );
    let bucket_seconds = rows.time_bucket.as_ref().map_or(1, |bucket| bucket.seconds);
    refuse(bucket_seconds == 0, "time_bucket", "a bucket is at least one second long");
    for only in &rows.only {
        let column_type =
            columns.iter().find(|column| column.name == only.column).map(|column| &column.column_type);
        let is_value = column_type.is_none_or(|column_type| is_value_of(&only.value, column_type));
        refuse(!is_value, "only", &format!("`{}` is not a value of `{}`", only.value, only.column));
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
    match (binding.rows.read_as, stored) {
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
    matches!(
        column_type,
        ColumnType::Number(NumberType::DateTime) | ColumnType::Number(NumberType::DateTime64 { .. })
    )
}

pub(super) fn is_number(column_type: &ColumnType) -> bool {
    matches!(
        column_type,
        ColumnType::Number(NumberType::Integer { bits: 8..=64, .. })
            | ColumnType::Number(NumberType::Float { .. })
    )
}

fn unknown(name: &str, columns: &[Column]) -> String {
    let close = nearest(name, columns.iter().map(|column| column.name.as_str()));
    match close.first() {
        Some(close) => format!("there is no column `{name}`; did you mean `{close}`?"),
        None => format!("there is no column `{name}`"),
    }
}

//! Checks a binding against ClickHouse.

use tracewarden_model::{Binding, ColumnType, NumberType, nearest::nearest};

use super::Catalogue;
use crate::ClickHouseError;
use crate::schema::{Column, is_trace_index};

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

/// Databases that belong to ClickHouse itself.
pub(crate) const SYSTEM_DATABASES: [&str; 3] = ["system", "information_schema", "INFORMATION_SCHEMA"];

impl Catalogue {
    /// Checks that the table exists and that its columns can serve in their roles. Returns warnings.
    ///
    /// # Errors
    /// Everything that is invalid.
    pub async fn check_binding(&self, binding: &Binding) -> Result<Vec<String>, BindingError> {
        if SYSTEM_DATABASES.contains(&binding.database.as_str()) {
            let message = "ClickHouse's system tables cannot be bound".to_owned();
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
        let mut errors = Vec::new();
        let mut check_column =
            |member: &'static str, name: &str, what: &str, fits: fn(&ColumnType) -> bool| match columns
                .iter()
                .find(|column| column.name == name)
            {
                None => errors.push((member, unknown(name, &columns))),
                Some(column) if !fits(&column.column_type) => {
                    errors
                        .push((member, format!("`{name}` must be {what}, its type is {}", column.type_text)));
                }
                Some(_) => {}
            };
        // Ids are looked up as texts and compared with the texts in the rows. A column of another type would have to be
        // compared without its index, and writes its values in another form (a `FixedString` with zero bytes).
        let id = "a `String`, perhaps nullable or of low cardinality";
        check_column("trace_id", &binding.trace_id, id, ColumnType::is_string);
        check_column("span_id", &binding.span_id, id, ColumnType::is_string);
        check_column("parent_span_id", &binding.parent_span_id, id, ColumnType::is_string);
        check_column(
            "timestamp",
            &binding.timestamp,
            "a DateTime or DateTime64 that is not nullable",
            is_time,
        );
        let display = &binding.display;
        for (member, name) in [
            ("display/name", &display.name),
            ("display/service", &display.service),
            ("display/status", &display.status),
            ("display/kind", &display.kind),
        ] {
            if let Some(name) = name {
                let what = "a string, an enumeration or a UUID";
                check_column(member, name, what, ColumnType::is_text);
            }
        }
        if let Some(name) = &display.duration {
            check_column("display/duration", name, "a number that is not nullable", is_number);
        }
        let mut warnings = self.partial_table_warnings(binding).await?;
        warnings.extend(unsuitable.map(|unsuitable| unsuitable.reason));
        match &binding.trace_index {
            Some(index) => {
                let columns = self.columns(&binding.database, index).await?;
                if columns.is_empty() {
                    errors.push(("trace_index", format!("there is no table `{}.{index}`", binding.database)));
                } else if !is_trace_index(&columns) {
                    let message = "a trace index has the columns `TraceId` (a string), `Start` and `End` (times)";
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

pub(super) fn is_time(column_type: &ColumnType) -> bool {
    matches!(column_type, ColumnType::Number(number_type) if number_type.is_time())
}

pub(super) fn is_number(column_type: &ColumnType) -> bool {
    matches!(
        column_type,
        ColumnType::Number(NumberType::Integer { bits: 8..=64, .. } | NumberType::Float { .. })
    )
}

fn unknown(name: &str, columns: &[Column]) -> String {
    let close = nearest(name, columns.iter().map(|column| column.name.as_str()));
    match close.first() {
        Some(close) => format!("there is no column `{name}`; did you mean `{close}`?"),
        None => format!("there is no column `{name}`"),
    }
}

//! Checking a binding against the store.

use tracewarden_model::{Binding, ColumnType, nearest::nearest};

use crate::select::is_trace_index;
use crate::table::Column;
use crate::{StoreError, TraceStore};

/// Why a table cannot be bound like this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindingError {
    /// The store failed.
    Store(StoreError),
    /// Members of the binding that do not hold, each with the reason.
    Invalid(Vec<(&'static str, String)>),
}

impl From<StoreError> for BindingError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Databases that belong to the store itself.
pub(crate) const SYSTEM_DATABASES: [&str; 3] = ["system", "information_schema", "INFORMATION_SCHEMA"];

impl TraceStore {
    /// Checks that the table exists and its columns can serve as what they are bound as.
    ///
    /// # Errors
    /// Everything that does not hold.
    pub async fn check_binding(&self, binding: &Binding) -> Result<Vec<String>, BindingError> {
        if SYSTEM_DATABASES.contains(&binding.database.as_str()) {
            let message = "the store's own tables cannot be bound".to_owned();
            return Err(BindingError::Invalid(vec![("database", message)]));
        }
        let columns = self.columns(&binding.database, &binding.table).await?;
        if columns.is_empty() {
            let message = format!("there is no table `{}.{}`", binding.database, binding.table);
            return Err(BindingError::Invalid(vec![("table", message)]));
        }
        let mut errors = Vec::new();
        let mut expect =
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
        // Ids are looked up by their texts and compared with those in the rows: a column of another type would have to be
        // compared without its index, and writes its values in another form (a `FixedString` with zero bytes).
        let id = "a `String`, perhaps nullable or of low cardinality";
        expect("trace_id", &binding.trace_id, id, ColumnType::is_string);
        expect("span_id", &binding.span_id, id, ColumnType::is_string);
        expect("parent_span_id", &binding.parent_span_id, id, ColumnType::is_string);
        expect("timestamp", &binding.timestamp, "a DateTime or DateTime64 that is not nullable", is_time);
        let display = &binding.display;
        for (member, name) in [
            ("display/name", &display.name),
            ("display/service", &display.service),
            ("display/status", &display.status),
            ("display/kind", &display.kind),
        ] {
            if let Some(name) = name {
                let what = "a string, an enumeration or a UUID";
                expect(member, name, what, ColumnType::is_text);
            }
        }
        if let Some(name) = &display.duration {
            expect("display/duration", name, "a number that is not nullable", is_number);
        }
        let mut warnings = Vec::new();
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
                    "without a trace index, a search looks at each trace only {} minutes around the window: it can \
                     miss a longer trace whose matching span lies farther away, and never shows one cut",
                    nanos / 60_000_000_000
                ),
                None => "without a trace index and with an unlimited trace duration, every search reads the whole table"
                    .to_owned(),
            }),
        }
        if errors.is_empty() { Ok(warnings) } else { Err(BindingError::Invalid(errors)) }
    }
}

fn is_time(column_type: &ColumnType) -> bool {
    matches!(column_type, ColumnType::DateTime | ColumnType::DateTime64 { .. })
}

fn is_number(column_type: &ColumnType) -> bool {
    matches!(column_type, ColumnType::Integer { bits: 8..=64, .. } | ColumnType::Float { .. })
}

fn unknown(name: &str, columns: &[Column]) -> String {
    let close = nearest(name, columns.iter().map(|column| column.name.as_str()));
    match close.first() {
        Some(close) => format!("there is no column `{name}`; did you mean `{close}`?"),
        None => format!("there is no column `{name}`"),
    }
}

//! Which columns of the spans are read.

use tracewarden_model::{Binding, nearest::nearest};

use crate::ClickHouseError;
use crate::schema::BoundTable;
use crate::sql::quote;

/// Writes columns of ids as they are returned, and the others as they are, each under its name.
///
/// With `REPLACE`, because an alias with the name of a column would replace the column in the conditions, too.
pub(super) fn named_columns(table: &BoundTable, names: &[String]) -> Vec<String> {
    let named = |name: &String| {
        let quoted = quote(name);
        match id_answer(table, &quoted) {
            Some(answer) => format!("COLUMNS({quoted}) REPLACE ({answer} AS {quoted})"),
            None => quoted,
        }
    };
    names.iter().map(named).collect()
}

/// Like [`named_columns`], without names.
pub(super) fn unnamed_columns(table: &BoundTable, names: &[String]) -> Vec<String> {
    let value = |name: &String| {
        let quoted = quote(name);
        id_answer(table, &quoted).unwrap_or(quoted)
    };
    names.iter().map(value).collect()
}

/// Writes the id in a column as it is returned; `None` for other columns, and where it is returned as it is stored.
fn id_answer(table: &BoundTable, quoted: &str) -> Option<String> {
    let ids = [&table.trace_id, &table.span_id, &table.parent_span_id];
    ids.into_iter().find(|ids| ids.column == quoted)?.answer()
}

/// Returns the names of the columns to read. The trace id comes first, since it is used to check the lines.
pub(crate) fn projection(
    binding: &Binding,
    table: &BoundTable,
    wanted: Option<&[String]>,
) -> Result<Vec<String>, ClickHouseError> {
    let mut names: Vec<String> = vec![binding.trace_id.clone()];
    let mut add = |name: &str| {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    };
    match wanted {
        None => {
            table.columns.iter().filter(|column| !column.omitted).for_each(|column| add(&column.name));
            binding.structural_columns().into_iter().for_each(add);
        }
        Some(wanted) => {
            binding.structural_columns().into_iter().for_each(&mut add);
            for name in wanted {
                if !table.columns.iter().any(|column| column.name == *name) {
                    let known = table.columns.iter().map(|column| column.name.as_str());
                    return Err(ClickHouseError::UnknownColumn {
                        name: name.clone(),
                        nearest: nearest(name, known),
                    });
                }
                add(name);
            }
        }
    }
    Ok(names)
}

//! Which columns of the spans are read.

use tracewarden_model::{Binding, nearest::nearest};

use crate::schema::BoundTable;
use crate::sql::quote;
use crate::{ClickHouseError, Result};

/// Writes columns of ids as they are returned, and the others as they are.
pub(super) fn returned_columns(table: &BoundTable, names: &[String]) -> Vec<String> {
    let ids = [&table.trace_id, &table.span_id, &table.parent_span_id];
    let value = |name: &String| {
        let quoted = quote(name);
        let id = ids.into_iter().find(|ids| ids.column == quoted);
        id.and_then(|id| id.returned()).unwrap_or(quoted)
    };
    names.iter().map(value).collect()
}

/// Returns the names of the columns to read. The trace id comes first, since it is used to check the lines.
pub(crate) fn projection(
    binding: &Binding,
    table: &BoundTable,
    wanted: Option<&[String]>,
) -> Result<Vec<String>> {
    let known = || table.columns.iter().map(|column| column.name.as_str());
    let is_unknown = |name: &&String| !known().any(|known| known == name.as_str());
    if let Some(name) = wanted.into_iter().flatten().find(is_unknown) {
        let nearest = nearest(name, known());
        return Err(ClickHouseError::UnknownColumn { name: name.clone(), nearest });
    }
    let structural = binding.structural_columns();
    let ordered: Vec<&str> = match wanted {
        None => {
            let shown = table.columns.iter().filter(|column| !column.omitted);
            shown.map(|column| column.name.as_str()).chain(structural).collect()
        }
        Some(wanted) => structural.into_iter().chain(wanted.iter().map(String::as_str)).collect(),
    };
    let mut names: Vec<String> = vec![binding.trace_id.clone()];
    for name in ordered {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

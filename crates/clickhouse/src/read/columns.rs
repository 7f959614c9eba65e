//! Which columns of the spans are read.

use tracewarden_model::{Binding, nearest::nearest};

use crate::ClickHouseError;
use crate::schema::BoundTable;

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

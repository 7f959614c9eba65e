//! Resolves fields against the current columns of a table.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tracewarden_model::{ColumnType, FieldRef, FieldSource, LogicalType, MarkedField, nearest::nearest};
use tracewarden_policy::{Predicate, is_compatible_field};

use crate::schema::array_pairs::find_paired_map;
use crate::schema::column::{Column, column_named};
use crate::schema::key_columns::{Purpose, with_column};
use crate::{ChangedField, ClickHouseError, Result};

/// Where the value of a field is stored, and the logical types that it can be marked as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalField {
    /// Where the value is in a row.
    pub source: FieldSource,
    /// The type of the value: of the column, of the map's values, or of the value at the path.
    pub column_type: ColumnType,
    /// The logical types that it can be marked as, the natural one first. Never empty.
    pub logical_types: &'static [LogicalType],
}

/// Why a name cannot be a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldLookupError {
    /// The table has no such column.
    UnknownColumn {
        /// Its name.
        name: String,
        /// Columns that resemble it.
        nearest: Vec<String>,
    },
    /// The nested column has no such member.
    UnknownMember {
        /// The column.
        column: String,
        /// The name, without the column's.
        name: String,
        /// Members that resemble it.
        nearest: Vec<String>,
    },
    /// The column exists, but its type does not allow such a field. The text is for administrators.
    UnsupportedColumn(String),
    /// A value may exist under this name, but the name cannot be a field. The text is for administrators.
    UnsupportedName(String),
}

/// Resolves a field.
///
/// # Errors
/// Why the name cannot be a field.
pub fn physical_field(field: &FieldRef, columns: &[Column]) -> Result<PhysicalField, FieldLookupError> {
    let unknown = |name: &str| FieldLookupError::UnknownColumn {
        name: name.to_owned(),
        nearest: nearest(name, columns.iter().map(|column| column.name.as_str())),
    };
    match &field.map {
        Some(map) => {
            if let Some(holder) = column_named(columns, map) {
                return within(holder, &field.name, columns);
            }
            let paired = find_paired_map(map, columns).ok_or_else(|| unknown(map))?;
            let (_, column_type, logical_types) =
                paired.column_type.within(&field.name).map_err(FieldLookupError::UnsupportedColumn)?;
            Ok(PhysicalField { source: FieldSource::ArrayPair(paired.pair), column_type, logical_types })
        }
        None => match (column_named(columns, &field.name), nested(&field.name, columns)) {
            (Some(_), Some((holder, _))) => Err(ambiguous(&field.name, holder)),
            (Some(column), None) => column_field(column),
            (None, Some((holder, member))) => member_field(holder, member),
            (None, None) => Err(unknown(&field.name)),
        },
    }
}

/// Returns the parts of a column that its type names: members of a nested column, declared paths of a JSON column.
pub fn members(column: &Column) -> Vec<FieldRef> {
    match &column.column_type {
        ColumnType::Nested(members) => {
            members.iter().map(|(member, _)| FieldRef::column(format!("{}.{member}", column.name))).collect()
        }
        ColumnType::Json { typed } => {
            typed.iter().map(|(path, _)| FieldRef::key(&column.name, path)).collect()
        }
        _ => Vec::new(),
    }
}

fn column_field(column: &Column) -> Result<PhysicalField, FieldLookupError> {
    let column_type = column.column_type.clone();
    let logical_types = column_type.logical_types();
    if logical_types.is_empty() {
        return Err(FieldLookupError::UnsupportedColumn(format!(
            "column `{}` is of type {}{}",
            column.name,
            column.type_text,
            marking_hint(column)
        )));
    }
    Ok(PhysicalField { source: FieldSource::Column, column_type, logical_types })
}

/// Returns how to name the parts of a column that is not a field itself.
fn marking_hint(column: &Column) -> String {
    let Column { name, column_type, .. } = column;
    match column_type {
        ColumnType::Map(..) if !column_type.map_key_logical_types().is_empty() => {
            format!(": mark its keys, each with `map`: `{name}` and the key as `name`")
        }
        ColumnType::Json { .. } => {
            format!(": mark its paths, each with `map`: `{name}` and the path, such as `a.b`, as `name`")
        }
        ColumnType::Nested(members) => {
            let possible = members.iter().find(|(member, _)| {
                column_type.nested_member(member).is_some_and(|array| !array.logical_types().is_empty())
            });
            match possible {
                Some((member, _)) => {
                    format!(": mark its members, each as a column, such as `{name}.{member}`")
                }
                None => ", and no field can be made of any of its members".to_owned(),
            }
        }
        ColumnType::Map(..) => ", and no field can be made of its keys".to_owned(),
        _ => ", and no field can be made of that".to_owned(),
    }
}

/// Returns the logical types that keys of a map, or paths without a declared type of a JSON column, can be marked as; empty
/// when they cannot be marked.
pub fn key_logical_types(column: &Column, columns: &[Column]) -> &'static [LogicalType] {
    match ambiguous_with(column, columns) {
        Some(_) => &[],
        None => column.column_type.key_logical_types(),
    }
}

/// Returns a column that users and ClickHouse could mistake for a path of this JSON column, or a JSON column that this
/// column's paths could be mistaken for: where `A` and `A.B` are JSON columns, ClickHouse reads `A.B.c` as the path `B.c` of
/// `A`.
fn ambiguous_with<'a>(holder: &Column, columns: &'a [Column]) -> Option<&'a Column> {
    let is_json = |column: &Column| matches!(column.column_type, ColumnType::Json { .. });
    let within = |inner: &Column, outer: &Column| {
        inner.name.strip_prefix(outer.name.as_str()).is_some_and(|rest| rest.starts_with('.'))
    };
    let is_ambiguous = |other: &&Column| within(other, holder) || (is_json(other) && within(holder, other));
    columns.iter().find(is_ambiguous).filter(|_| is_json(holder))
}

fn within(holder: &Column, name: &str, columns: &[Column]) -> Result<PhysicalField, FieldLookupError> {
    if let Some(other) = ambiguous_with(holder, columns) {
        let (inner, outer) =
            if other.name.len() > holder.name.len() { (other, holder) } else { (holder, other) };
        return Err(ambiguous(&inner.name, outer));
    }
    match holder.column_type.within(name) {
        Ok((source, column_type, logical_types)) => Ok(PhysicalField { source, column_type, logical_types }),
        Err(reason) if matches!(holder.column_type, ColumnType::Json { .. }) => {
            Err(FieldLookupError::UnsupportedName(reason))
        }
        Err(_) => {
            let Column { name: column, type_text, column_type, .. } = holder;
            let written = match column_type {
                ColumnType::Map(..) => ", and no field can be made of its keys".to_owned(),
                ColumnType::Nested(_) => marking_hint(holder),
                other if !other.logical_types().is_empty() => {
                    format!(", which has no keys: leave `map` out, with `name`: `{column}`")
                }
                _ => ", which has no keys".to_owned(),
            };
            Err(FieldLookupError::UnsupportedColumn(format!(
                "column `{column}` is of type {type_text}{written}"
            )))
        }
    }
}

/// Returns the nested column and the member with this name, if any.
fn nested<'a>(name: &'a str, columns: &'a [Column]) -> Option<(&'a Column, &'a str)> {
    columns.iter().find_map(|column| {
        let member = name.strip_prefix(column.name.as_str())?.strip_prefix('.')?;
        matches!(column.column_type, ColumnType::Nested(_)).then_some((column, member))
    })
}

fn member_field(holder: &Column, member: &str) -> Result<PhysicalField, FieldLookupError> {
    let ColumnType::Nested(members) = &holder.column_type else {
        return Err(FieldLookupError::UnsupportedColumn(format!("column `{}` is not nested", holder.name)));
    };
    let Some(column_type) = holder.column_type.nested_member(member) else {
        return Err(FieldLookupError::UnknownMember {
            column: holder.name.clone(),
            name: member.to_owned(),
            nearest: nearest(member, members.iter().map(|(name, _)| name.as_str())),
        });
    };
    let logical_types = column_type.logical_types();
    if logical_types.is_empty() {
        let detail =
            format!("`{}.{member}` is of type {column_type}, and no field can be made of that", holder.name);
        return Err(FieldLookupError::UnsupportedColumn(detail));
    }
    Ok(PhysicalField { source: FieldSource::Column, column_type, logical_types })
}

fn ambiguous(name: &str, holder: &Column) -> FieldLookupError {
    FieldLookupError::UnsupportedColumn(format!(
        "`{name}` is a column, and could be a part of column `{}` of type {} as well",
        holder.name, holder.type_text
    ))
}

/// Returns the predicate for the current columns. It is unchanged where the columns of its fields have not changed since the
/// fields were marked. Where a change affects only how a value is read, the field is replaced.
///
/// # Errors
/// [`ClickHouseError::FieldsChanged`] with every other changed field.
pub(crate) fn resolve_fields(
    predicate: &Predicate,
    columns: &[Column],
    purpose: Purpose,
) -> Result<Predicate> {
    let mut replaced: HashMap<&MarkedField, Arc<MarkedField>> = HashMap::new();
    for (field, now) in current_fields(predicate.fields().into_iter().map(AsRef::as_ref), columns)? {
        let now = with_column(now, columns, purpose);
        if now != *field {
            replaced.insert(field, Arc::new(now));
        }
    }
    if replaced.is_empty() {
        return Ok(predicate.clone());
    }
    let now = |field: &Arc<MarkedField>| Arc::clone(replaced.get(&field.as_ref()).unwrap_or(field));
    Ok(predicate.with_fields(&now))
}

/// Returns each of the fields once, with its current type in the table.
///
/// # Errors
/// [`ClickHouseError::FieldsChanged`] with all fields that have changed and can no longer be read.
pub(super) fn current_fields<'a>(
    fields: impl IntoIterator<Item = &'a MarkedField>,
    columns: &[Column],
) -> Result<Vec<(&'a MarkedField, MarkedField)>> {
    let (mut current, mut changed, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for field in fields.into_iter().filter(|field| seen.insert(*field)) {
        match current_field(field, columns) {
            Ok(now) => current.push((field, now)),
            Err(now) => changed.push(ChangedField { field: field.clone(), now }),
        }
    }
    if changed.is_empty() { Ok(current) } else { Err(ClickHouseError::FieldsChanged(changed)) }
}

/// Returns the field with its current type in the table, or else a text that describes what the table has instead.
fn current_field(field: &MarkedField, columns: &[Column]) -> Result<MarkedField, String> {
    let physical = physical_field(&field.field, columns).map_err(|error| match error {
        FieldLookupError::UnknownColumn { .. } | FieldLookupError::UnknownMember { .. } => {
            "missing".to_owned()
        }
        FieldLookupError::UnsupportedColumn(reason) | FieldLookupError::UnsupportedName(reason) => {
            format!("not usable as a field: {reason}")
        }
    })?;
    let PhysicalField { source, column_type, logical_types } = physical;
    let now = MarkedField { source, column_type, ..field.clone() };
    if logical_types.contains(&field.logical) && is_compatible_field(&now, field) {
        Ok(now)
    } else {
        Err(format!("{} instead of {}", now.column_type, field.column_type))
    }
}

#[cfg(test)]
mod tests;

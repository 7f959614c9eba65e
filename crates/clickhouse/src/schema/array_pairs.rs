//! Maps that are stored as two array columns: one with the keys, one with the values.

use strum::VariantArray as _;
use tracewarden_model::{ArrayPair, ColumnType};

use crate::schema::column::{Column, column_named};

/// A map that is stored as two array columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairedMap {
    /// Its name: what the names of both columns have in common.
    pub name: String,
    /// How the columns are named.
    pub pair: ArrayPair,
    /// The same map as one column.
    pub column_type: ColumnType,
}

impl PairedMap {
    /// Names of the columns with the keys and the values.
    pub fn columns(&self) -> [String; 2] {
        self.pair.columns(&self.name)
    }
}

/// Finds the maps that are stored as two array columns. A map of which there is a column with the same name is left out: the
/// name stands for the column.
pub fn paired_maps(columns: &[Column]) -> Vec<PairedMap> {
    let mut maps: Vec<PairedMap> = Vec::new();
    for keys in columns {
        for pair in ArrayPair::VARIANTS {
            // By the name, so that of several pairs the same one is found everywhere.
            if let Some(map) = pair.map_of_keys(&keys.name).and_then(|name| find_paired_map(name, columns))
                && !maps.iter().any(|known| known.name == map.name)
            {
                maps.push(map);
            }
        }
    }
    maps
}

/// Finds a map by its name.
pub(crate) fn find_paired_map(name: &str, columns: &[Column]) -> Option<PairedMap> {
    ArrayPair::VARIANTS.iter().find_map(|pair| paired_map(name, *pair, columns))
}

fn paired_map(name: &str, pair: ArrayPair, columns: &[Column]) -> Option<PairedMap> {
    if column_named(columns, name).is_some() {
        return None;
    }
    let [keys, values] = pair.columns(name);
    let element = |name: &str| match column_named(columns, name)?.column_type.bare() {
        ColumnType::Array(element) => Some(element.clone()),
        _ => None,
    };
    let column_type = ColumnType::Map(element(&keys)?, element(&values)?);
    (!column_type.map_key_logical_types().is_empty()).then(|| PairedMap {
        name: name.to_owned(),
        pair,
        column_type,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(definitions: &[(&str, &str)]) -> Vec<Column> {
        definitions.iter().map(|(name, kind)| Column::new((*name).to_owned(), (*kind).to_owned())).collect()
    }

    #[test]
    fn pairs_of_arrays_are_maps() {
        let columns = columns(&[
            ("str_attributes.key", "Array(String)"),
            ("str_attributes.value", "Array(String)"),
            ("bool_attributes.key", "Array(LowCardinality(String))"),
            ("bool_attributes.value", "Array(Bool)"),
            ("metadata_names", "Array(String)"),
            ("metadata_values", "Array(String)"),
            ("string_keys", "Array(String)"),
            ("string_values", "Array(String)"),
            ("all_keys", "Array(String)"),
            ("numbers_keys", "Array(UInt8)"),
            ("numbers_values", "Array(String)"),
            ("taken", "Map(String, String)"),
            ("taken_keys", "Array(String)"),
            ("taken_values", "Array(String)"),
        ]);
        let found: Vec<(String, String)> =
            paired_maps(&columns).into_iter().map(|map| (map.name, map.column_type.to_string())).collect();
        let map = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
        assert_eq!(
            found,
            [
                map("str_attributes", "Map(String, String)"),
                map("bool_attributes", "Map(LowCardinality(String), Bool)"),
                map("metadata", "Map(String, String)"),
                map("string", "Map(String, String)"),
            ]
        );
        assert_eq!(
            find_paired_map("metadata", &columns).unwrap().columns(),
            ["metadata_names", "metadata_values"]
        );
        assert_eq!(find_paired_map("taken", &columns), None);
    }
}

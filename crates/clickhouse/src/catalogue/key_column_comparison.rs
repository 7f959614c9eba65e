//! Compares key columns with their maps, over the whole table, before policies read them.
//!
//! A column's expression applies to new rows. Existing parts can hold other values: those of an earlier expression, or values
//! that a client inserted into the column. The same holds for projections, which each have a copy. Observed with 26.7:
//! `MATERIALIZE COLUMN` fixes the column but leaves its copies in projections unchanged, and ClickHouse answers statements
//! from those.

use std::collections::{HashMap, HashSet};

use tracewarden_model::{Binding, MarkedField};

use super::Catalogue;
use crate::client::Client;
use crate::schema::{BoundTable, Layout, Projection, key_column_expression};
use crate::sql::{Statement, quote, quote_table};
use crate::{ClickHouseError, Result};

/// Factor by which a comparison may take longer than another statement: it reads the whole table.
const TIMEOUT_FACTOR: u32 = 10;
/// How often parts that are created or removed during the comparison are compared again.
const ATTEMPTS: u32 = 3;

/// Result of the comparison of a column with its map.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyColumnComparison {
    /// Number of rows of the table.
    pub rows: u64,
    /// Number of rows in which the column and the map differ.
    pub differing: u64,
    /// Projections whose values differ from the map, each with the number of rows of the parts that differ.
    pub stale_projections: Vec<(String, u64)>,
    /// Projections that could not be compared, each with the reason, for administrators.
    pub unknown_projections: Vec<(String, String)>,
}

impl KeyColumnComparison {
    /// Whether the column may be read in place of the map.
    pub fn is_equal(&self) -> bool {
        self.differing == 0 && self.stale_projections.is_empty() && self.unknown_projections.is_empty()
    }
}

/// A column to compare.
struct KeyColumn<'a> {
    map: &'a str,
    column: &'a str,
    /// The column's quoted name.
    quoted: String,
    /// The value in the map, NULL where the key is absent.
    map_value: String,
}

impl<'a> KeyColumn<'a> {
    fn new(field: &'a MarkedField) -> Option<Self> {
        let (map, column) = (field.field.map.as_deref()?, field.column.as_deref()?);
        let map_value = key_column_expression(map, &field.field.name);
        Some(Self { map, column, quoted: quote(column), map_value })
    }

    /// Returns an expression for whether the two differ in a row; it is never NULL.
    fn differs(&self) -> String {
        let Self { quoted: column, map_value, .. } = self;
        format!("(isNull({column}) != isNull({map_value}) OR ifNull({column} != {map_value}, 0))")
    }
}

impl Catalogue {
    /// Compares the columns of these fields with their maps, in every row and in every projection that has a copy, in one
    /// pass over the table. It may take ten times as long as another statement. The results are in the order of the fields;
    /// fields without a column have none.
    ///
    /// # Errors
    /// When ClickHouse fails, or takes too long.
    pub async fn compare_key_columns(
        &self,
        binding: &Binding,
        fields: &[MarkedField],
    ) -> Result<Vec<KeyColumnComparison>> {
        let key_column: Vec<KeyColumn<'_>> = fields.iter().filter_map(KeyColumn::new).collect();
        if key_column.is_empty() {
            return Ok(Vec::new());
        }
        let layout = self.current_layout(&binding.database, &binding.table).await?;
        let columns = self.columns(&binding.database, &binding.table).await?;
        let table = BoundTable::new(binding, columns)?;
        let each: Vec<String> =
            key_column.iter().map(|key_column| format!("countIf({})", key_column.differs())).collect();
        let mut statement = table.statement();
        let spans = table.spans("1", &mut statement);
        statement.push(&format!("SELECT count(), [{}] FROM {spans}", each.join(", ")));
        let rows: Vec<(u64, Vec<u64>)> = self.comparison_client().rows(statement).await?;
        let missing_counts = || ClickHouseError::incomplete("counts are missing");
        let (rows, differing) = rows.into_iter().next().ok_or_else(missing_counts)?;
        if differing.len() != key_column.len() {
            return Err(missing_counts());
        }
        let mut found = Vec::with_capacity(key_column.len());
        for (key_column, differing) in key_column.iter().zip(differing) {
            let mut compared = KeyColumnComparison { rows, differing, ..Default::default() };
            if layout.unknown.contains(&"system.projections") {
                let reason = "the service's user may not read `system.projections`".to_owned();
                compared.unknown_projections.push(("any".to_owned(), reason));
            }
            for projection in projections_with(&layout, key_column.column) {
                let name = projection.name.clone();
                match self.compare_projection(binding, key_column, projection).await? {
                    Ok(0) => {}
                    Ok(rows) => compared.stale_projections.push((name, rows)),
                    Err(reason) => compared.unknown_projections.push((name, reason)),
                }
            }
            found.push(compared);
        }
        Ok(found)
    }

    /// Returns a client for statements that may take as long as a comparison.
    pub(crate) fn comparison_client(&self) -> Client {
        self.client.with_time_limit(self.config.max_execution_time_seconds.saturating_mul(TIMEOUT_FACTOR))
    }

    /// Returns the number of rows of the parts in which a projection differs from the map, or the reason why it is unknown.
    async fn compare_projection(
        &self,
        binding: &Binding,
        key_column: &KeyColumn<'_>,
        projection: &Projection,
    ) -> Result<Result<u64, String>> {
        let Some(columns) = plain_columns(key_column, projection) else {
            return Ok(Err("it has the column within an expression, or groups by it".to_owned()));
        };
        let client = self.comparison_client();
        let parts = PartHashes { binding, key_column, columns: &columns };
        let mut compared_parts: HashSet<String> = HashSet::new();
        let mut differing = 0_u64;
        for _ in 0..ATTEMPTS {
            let mut projected_parts: Vec<PartHash> =
                match client.rows(parts.projection_statement(&projection.name)).await {
                    Ok(projected_parts) => projected_parts,
                    Err(error @ ClickHouseError::Exception { .. }) => {
                        tracing::warn!(projection = projection.name, %error, "a projection cannot be read \
                                                                          directly");
                        let reason = "ClickHouse does not let the service read it directly (see the log)";
                        return Ok(Err(reason.to_owned()));
                    }
                    Err(error) => return Err(error),
                };
            projected_parts.retain(|(part, ..)| !compared_parts.contains(part));
            let names: Vec<String> = projected_parts.iter().map(|(part, ..)| part.clone()).collect();
            let stored: Vec<PartHash> = client.rows(parts.table_statement(&names)).await?;
            let stored: HashMap<String, (u64, u64)> =
                stored.into_iter().map(|(part, rows, hash)| (part, (rows, hash))).collect();
            for (part, rows, hash) in projected_parts {
                // Parts never change. A part that is gone was merged into another, which the next attempt finds.
                if let Some(found) = stored.get(&part) {
                    differing = differing.saturating_add(if *found == (rows, hash) { 0 } else { rows });
                    compared_parts.insert(part);
                }
            }
            if names.iter().all(|part| compared_parts.contains(part)) {
                return Ok(Ok(differing));
            }
        }
        Ok(Err("parts are merged faster than it can be read: try again when less is written".to_owned()))
    }
}

/// Name of a part, number of its rows, sum of their hashes.
type PartHash = (String, u64, u64);

/// Hashes the rows of parts to compare a projection with the table: the projection with its column, the table with the map's
/// value. The comparison finds every difference except a swap between rows that agree in all other columns of the projection.
/// No statement that the projection answers can observe such a swap.
struct PartHashes<'a> {
    binding: &'a Binding,
    key_column: &'a KeyColumn<'a>,
    /// The columns of the projection.
    columns: &'a [String],
}

impl PartHashes<'_> {
    // Two statements, because in one that reads `mergeTreeProjection`, too, ClickHouse assumes that the table itself has the
    // columns of the projection (observed with 26.7).
    fn projection_statement(&self, name: &str) -> Statement {
        let Binding { database, table, .. } = self.binding;
        let from = format!("mergeTreeProjection({}, {}, {})", quote(database), quote(table), quote(name));
        self.hash_statement(&self.key_column.quoted, &from, Statement::default())
    }

    fn table_statement(&self, parts: &[String]) -> Statement {
        // Cast to the type of the column, so that equal values have equal hashes.
        let map_value = format!("CAST({}, 'LowCardinality(Nullable(String))')", self.key_column.map_value);
        let mut statement = Statement::default();
        let parts = statement.string_array(parts);
        let table = quote_table(&self.binding.database, &self.binding.table);
        self.hash_statement(&map_value, &format!("{table} WHERE _part IN {parts}"), statement)
    }

    fn hash_statement(&self, value: &str, from: &str, mut statement: Statement) -> Statement {
        // A NULL in an array is hashed; a bare NULL makes the hash NULL.
        let columns = self.columns.iter().map(|column| {
            let column = if column == self.key_column.column { value.to_owned() } else { quote(column) };
            format!("[{column}]")
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        statement.push(&format!(
            "SELECT toString(_part), count(), sum(cityHash64({columns})) FROM {from} GROUP BY _part"
        ));
        statement
    }
}

/// Returns the projections that have a copy of a column, or an expression over it. If ClickHouse may write the name
/// differently in a query, returns all projections that may have it.
fn projections_with<'a>(layout: &'a Layout, column: &str) -> Vec<&'a Projection> {
    let is_name_character = |c: char| c.is_alphanumeric() || c == '_';
    let written_verbatim = column.chars().all(|c| is_name_character(c) || matches!(c, ' ' | '.' | '-'));
    let may_have = |projection: &&Projection| {
        let mut found = projection.query.match_indices(column);
        !written_verbatim
            || found.any(|(at, _)| {
                let (before, from) = projection.query.split_at_checked(at).unwrap_or_default();
                let after = from.strip_prefix(column).unwrap_or_default();
                !before.ends_with(is_name_character) && !after.starts_with(is_name_character)
            })
    };
    layout.projections.iter().filter(may_have).collect()
}

/// Returns the columns of a projection that are compared: those that it holds unchanged. `None` when the key column is not
/// among them.
fn plain_columns(key_column: &KeyColumn<'_>, projection: &Projection) -> Option<Vec<String>> {
    let held = projection.columns();
    if !projection.normal || !held.named.iter().any(|name| name == key_column.column) {
        return None;
    }
    Some(match held.all {
        // It also has the map, and the value can be compared next to it.
        true => vec![key_column.map.to_owned(), key_column.column.to_owned()],
        false => held.named,
    })
}

//! Comparing columns of keys with their maps, over the whole table, before policies read them.
//!
//! A column's expression says what is written from now on. What is in the parts can be something else: the values of an
//! expression that the column had before, or what somebody inserted into it. The same holds for projections, each of
//! which has a copy. Seen with 26.7: `MATERIALIZE COLUMN` mends the column and leaves its copies in projections as they
//! were, and statements are answered from those.

use std::collections::{HashMap, HashSet};

use tracewarden_model::{Binding, MarkedField};

use crate::layout::{Layout, ProjectedColumns, Projection, key_column_expression};
use crate::sql::{Statement, quote, quote_table};
use crate::{StoreError, TraceStore};

/// How much longer than another statement a comparison may take: it reads the whole table.
pub(crate) const PATIENCE: u32 = 10;
/// How often parts that come and go while they are compared are looked at.
const ATTEMPTS: u32 = 3;

/// What comparing a column with its map found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// Rows of the table.
    pub rows: u64,
    /// Rows in which the column has another value than the map.
    pub differing: u64,
    /// Projections with other values than the map, each with the rows of the parts in which it has them.
    pub stale_projections: Vec<(String, u64)>,
    /// Projections that could not be compared, each with the reason. For people.
    pub unknown_projections: Vec<(String, String)>,
}

impl Compared {
    /// Whether the column may be read in place of the map.
    pub fn is_equal(&self) -> bool {
        self.differing == 0 && self.stale_projections.is_empty() && self.unknown_projections.is_empty()
    }
}

/// A column to compare.
struct Held<'a> {
    map: &'a str,
    column: &'a str,
    /// The column's quoted name.
    quoted: String,
    /// What the map has, NULL where the key is absent.
    in_map: String,
}

impl<'a> Held<'a> {
    fn new(field: &'a MarkedField) -> Option<Self> {
        let (map, column) = (field.field.map.as_deref()?, field.column.as_deref()?);
        let in_map = key_column_expression(map, &field.field.name);
        Some(Self { map, column, quoted: quote(column), in_map })
    }

    /// Whether the two differ in a row; never NULL.
    fn differ(&self) -> String {
        let Self { quoted: column, in_map, .. } = self;
        format!("(isNull({column}) != isNull({in_map}) OR ifNull({column} != {in_map}, 0))")
    }
}

impl TraceStore {
    /// Compares the columns of these fields with their maps, in every row and in every projection that has a copy. All in
    /// one pass over the table, which may take ten times as long as another statement. Fields without a column are left
    /// out of the answer, which is otherwise in their order.
    ///
    /// # Errors
    /// When the store fails, or takes too long.
    pub async fn compare_key_columns(
        &self,
        binding: &Binding,
        fields: &[MarkedField],
    ) -> Result<Vec<Compared>, StoreError> {
        let held: Vec<Held<'_>> = fields.iter().filter_map(Held::new).collect();
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let layout = self.layout_now(&binding.database, &binding.table).await?;
        let table = quote_table(&binding.database, &binding.table);
        let each: Vec<String> = held.iter().map(|held| format!("countIf({})", held.differ())).collect();
        let statement = Statement::new(&format!("SELECT count(), [{}] FROM {table}", each.join(", ")));
        let client = self.client.lasting(self.config.max_execution_time_seconds.saturating_mul(PATIENCE));
        let rows: Vec<(u64, Vec<u64>)> = client.rows(statement).await?;
        let short = || StoreError::Short("counts are missing".to_owned());
        let (rows, differing) = rows.into_iter().next().ok_or_else(short)?;
        if differing.len() != held.len() {
            return Err(short());
        }
        let mut found = Vec::with_capacity(held.len());
        for (held, differing) in held.iter().zip(differing) {
            let mut compared =
                Compared { rows, differing, stale_projections: Vec::new(), unknown_projections: Vec::new() };
            if layout.unknown.contains(&"system.projections") {
                let reason = "the service's user may not read `system.projections`".to_owned();
                compared.unknown_projections.push(("any".to_owned(), reason));
            }
            for projection in copies(&layout, held.column) {
                let name = projection.name.clone();
                match self.compare_projection(binding, held, projection).await? {
                    Ok(0) => {}
                    Ok(rows) => compared.stale_projections.push((name, rows)),
                    Err(reason) => compared.unknown_projections.push((name, reason)),
                }
            }
            found.push(compared);
        }
        Ok(found)
    }

    /// Rows of the parts in which a projection has other values than the map; a reason why that is not known.
    async fn compare_projection(
        &self,
        binding: &Binding,
        held: &Held<'_>,
        projection: &Projection,
    ) -> Result<Result<u64, String>, StoreError> {
        let Some(columns) = plain_columns(held, projection) else {
            let reason = "it has the column within an expression, or groups by it".to_owned();
            return Ok(Err(reason));
        };
        let client = self.client.lasting(self.config.max_execution_time_seconds.saturating_mul(PATIENCE));
        let parts = Parts { binding, held, columns: &columns };
        let mut judged: HashSet<String> = HashSet::new();
        let mut differing = 0_u64;
        for _ in 0..ATTEMPTS {
            let mut copied: Vec<Part> = match client.rows(parts.of_projection(&projection.name)).await {
                Ok(copied) => copied,
                Err(error @ StoreError::Store { .. }) => {
                    tracing::warn!(projection = projection.name, %error, "a projection cannot be read by itself");
                    let reason = "the trace store does not let the service read it by itself (see the log)";
                    return Ok(Err(reason.to_owned()));
                }
                Err(error) => return Err(error),
            };
            copied.retain(|(part, ..)| !judged.contains(part));
            let names: Vec<String> = copied.iter().map(|(part, ..)| part.clone()).collect();
            let stored: Vec<Part> = client.rows(parts.of_table(&names)).await?;
            let stored: HashMap<String, (u64, u64)> =
                stored.into_iter().map(|(part, rows, hash)| (part, (rows, hash))).collect();
            for (part, rows, hash) in copied {
                // Parts never change; one that is gone was merged into another, which the next look finds.
                if let Some(found) = stored.get(&part) {
                    differing = differing.saturating_add(if *found == (rows, hash) { 0 } else { rows });
                    judged.insert(part);
                }
            }
            if names.iter().all(|part| judged.contains(part)) {
                return Ok(Ok(differing));
            }
        }
        Ok(Err("parts are merged faster than it can be read: try again when less is written".to_owned()))
    }
}

/// Name of a part, its rows, the sum of their hashes.
type Part = (String, u64, u64);

/// Rows of parts, for comparing a projection with the table: with the column as it is in the one, and with what the map
/// has in the other. That finds every difference but one between rows that are alike in everything else that the
/// projection holds, and no statement that it answers can see that.
struct Parts<'a> {
    binding: &'a Binding,
    held: &'a Held<'a>,
    /// What the projection holds.
    columns: &'a [String],
}

impl Parts<'_> {
    // Not in one statement. Seen with 26.7: beside `mergeTreeProjection`, the table itself is taken to have the columns
    // of the projection.
    fn of_projection(&self, name: &str) -> Statement {
        let Binding { database, table, .. } = self.binding;
        let from = format!("mergeTreeProjection({}, {}, {})", quote(database), quote(table), quote(name));
        self.hashed(&self.held.quoted, &from, Statement::default())
    }

    fn of_table(&self, parts: &[String]) -> Statement {
        // In the type of the column, so that equal values have equal hashes.
        let in_map = format!("CAST({}, 'LowCardinality(Nullable(String))')", self.held.in_map);
        let mut statement = Statement::default();
        let parts = statement.strings(parts);
        let table = quote_table(&self.binding.database, &self.binding.table);
        self.hashed(&in_map, &format!("{table} WHERE _part IN {parts}"), statement)
    }

    fn hashed(&self, value: &str, from: &str, mut statement: Statement) -> Statement {
        // A NULL in an array is hashed, a NULL by itself makes the hash NULL.
        let columns = self.columns.iter().map(|column| {
            let column = if column == self.held.column { value.to_owned() } else { quote(column) };
            format!("[{column}]")
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        statement.push(&format!(
            "SELECT toString(_part), count(), sum(cityHash64({columns})) FROM {from} GROUP BY _part"
        ));
        statement
    }
}

/// The projections that have a copy of a column, or something made of it. Of a name that the store may write otherwise in
/// a query, all that are not known to be without it.
fn copies<'a>(layout: &'a Layout, column: &str) -> Vec<&'a Projection> {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let written_alike = column.chars().all(|c| is_of_name(c) || matches!(c, ' ' | '.' | '-'));
    let may_have = |projection: &&Projection| {
        let mut found = projection.query.match_indices(column);
        !written_alike
            || found.any(|(at, _)| {
                let (before, from) = projection.query.split_at_checked(at).unwrap_or_default();
                let after = from.strip_prefix(column).unwrap_or_default();
                !before.ends_with(is_of_name) && !after.starts_with(is_of_name)
            })
    };
    layout.projections.iter().filter(may_have).collect()
}

/// The columns of a projection as it is to be compared: those that it has as they are. `None` when the column of the key
/// is not one of them.
fn plain_columns(held: &Held<'_>, projection: &Projection) -> Option<Vec<String>> {
    let named = match projection.columns() {
        // It has the map as well, beside which the value can be compared.
        ProjectedColumns::All { also } if also.iter().any(|name| name == held.column) => {
            vec![held.map.to_owned(), held.column.to_owned()]
        }
        ProjectedColumns::All { .. } => return None,
        ProjectedColumns::Named(named) => named,
    };
    (projection.normal && named.iter().any(|name| name == held.column)).then_some(named)
}

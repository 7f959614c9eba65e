//! Applies statements to the right tables: when the bound table is distributed, to the local tables of all servers.

use tracewarden_model::Binding;

use crate::schema::{Layout, TableEngine};
use crate::sql::{quote, quote_literal, quote_table};

/// The tables that statements apply to.
pub(super) struct Target {
    /// The table that holds the rows, quoted.
    pub(super) local: String,
    /// The bound table, quoted, when it is another one.
    pub(super) bound: Option<String>,
    /// The clause that runs a statement on every server; empty without a cluster.
    pub(super) on_cluster: String,
}

impl Target {
    pub(super) fn new(binding: &Binding, layout: &Layout) -> Self {
        let bound = quote_table(&binding.database, &binding.table);
        match &layout.engine {
            TableEngine::Distributed { cluster, database, table } => {
                // Without a database, each server uses its default one, as the statement does.
                let local = if database.is_empty() { quote(table) } else { quote_table(database, table) };
                let on_cluster = format!(" ON CLUSTER {}", quote_literal(cluster));
                Self { local, bound: Some(bound), on_cluster }
            }
            _ => Self { local: bound, bound: None, on_cluster: String::new() },
        }
    }

    /// Writes a statement that alters the table that holds the rows.
    pub(super) fn alter(&self, what: &str) -> String {
        single_line(&format!("ALTER TABLE {}{} {what}", self.local, self.on_cluster))
    }

    /// Writes a statement that alters the bound table, when it is another one.
    pub(super) fn alter_bound(&self, what: &str) -> Option<String> {
        let bound = self.bound.as_ref()?;
        Some(single_line(&format!("ALTER TABLE {bound}{} {what}", self.on_cluster)))
    }
}

/// Puts a statement on one line, and escapes characters that a terminal interprets. Such characters occur only inside quotes,
/// where the escape has the same meaning.
pub(super) fn single_line(statement: &str) -> String {
    let escaped = |character: char| match u32::from(character) {
        code @ (0..=0x1f | 0x7f) => format!("\\x{code:02X}"),
        _ => character.to_string(),
    };
    statement.chars().map(escaped).collect()
}

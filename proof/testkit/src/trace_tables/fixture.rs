//! A fixture: a layout, its rows, and what the service must make of it.

use serde_json::Value as Json;

use super::questions::{Marks, Questions};
use super::{Generated, Row, Shape, Span, generate};

/// A layout of a trace table.
pub struct Fixture {
    /// Number of the layout, as in the document.
    pub number: u8,
    /// Name of the layout, and of its test.
    pub name: &'static str,
    /// Product that writes the table.
    pub product: &'static str,
    /// Version of the product or of its layout.
    pub version: &'static str,
    /// DDL, see [`statements`].
    pub create: &'static str,
    /// What does not work, or works in another way than expected.
    pub limits: &'static [&'static str],
    /// Tables that are not proposed, each with words of the reason.
    pub unsuitable: &'static [(&'static str, &'static str)],
    /// Whether the table can be bound.
    pub outcome: Outcome,
}

/// Whether a table can be bound.
pub enum Outcome {
    /// It can.
    Bound(Box<Bound>),
    /// It cannot.
    Rejected(Rejection),
}

/// A layout that can be bound.
pub struct Bound {
    /// What rows can hold.
    pub shape: Shape,
    /// Beginning of the `INSERT` statement.
    pub insert: &'static str,
    /// Writes the rows of the table for a generated row.
    pub rows: fn(&Row) -> Vec<String>,
    /// A trace id as answers contain it.
    pub trace_id: fn(u128) -> String,
    /// A span id as answers contain it.
    pub span_id: fn(u64) -> String,
    /// Other texts that name a trace.
    pub notation: Notation,
    /// Binding that discovery must propose.
    pub proposal: Json,
    /// What an administrator changes in the proposal, as a JSON merge patch.
    pub chosen: Json,
    /// Fields to mark.
    pub marks: Marks,
    /// Fields that cannot be marked.
    pub rejected_marks: &'static [RejectedMark],
    /// Other tables with a proposal.
    pub also_proposed: &'static [&'static str],
    /// Columns with keys and values that spans in answers contain.
    pub pairs: &'static [[&'static str; 2]],
    /// Words in `EXPLAIN indexes = 1` of a look-up by trace id; empty where the layout has no index for it.
    pub index: &'static [&'static str],
    /// Whether a span without duration has no end.
    pub open_ends: bool,
}

/// A field that cannot be marked.
#[derive(Debug, Clone, Copy)]
pub struct RejectedMark {
    /// The map.
    pub map: &'static str,
    /// The key.
    pub name: &'static str,
    /// A word of the reason.
    pub word: &'static str,
}

/// Texts other than the stored one that name a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// All notations of a hexadecimal number.
    Hexadecimal,
    /// Only the stored text.
    Exact,
}

/// A layout that cannot be bound.
pub struct Rejection {
    /// Binding that an administrator may try.
    pub binding: Json,
    /// Words of the refusal.
    pub words: &'static [&'static str],
    /// A view that can be bound in its place.
    pub view: &'static str,
    /// The binding of the view.
    pub view_binding: Json,
}

impl Fixture {
    /// Returns the layout if it can be bound.
    pub fn bound(&self) -> Option<&Bound> {
        match &self.outcome {
            Outcome::Bound(bound) => Some(bound),
            Outcome::Rejected(_) => None,
        }
    }

    /// Returns the statements that create the tables on a server of this version.
    pub fn statements(&self, version: (u32, u32)) -> Vec<String> {
        statements(self.create, version)
    }
}

impl Bound {
    /// Returns the binding to send: the proposal with the administrator's changes.
    pub fn binding(&self) -> Json {
        let mut binding = self.proposal.clone();
        merge(&mut binding, &self.chosen);
        binding
    }

    /// Returns the questions.
    pub fn questions(&self) -> Questions {
        Questions::new(&self.marks)
    }

    /// Generates spans for this layout.
    pub fn generate(&self) -> Generated {
        generate(7, &self.shape)
    }

    /// Returns `INSERT` statements for the rows: earlier versions first, so that they are in other parts.
    pub fn inserts(&self, rows: &[Row]) -> Vec<String> {
        let is_old = |row: &&Row| row.version < 2;
        let (old, new): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(is_old);
        let half = new.len() / 2;
        let parts =
            new.split_at_checked(half).map_or([new.as_slice(), &[]], |(first, second)| [first, second]);
        let parts = std::iter::once(old.as_slice()).chain(parts);
        let written = parts.filter(|rows| !rows.is_empty()).map(|rows| {
            let rows: Vec<String> = rows.iter().flat_map(|row| (self.rows)(row)).collect();
            format!("{}{}", self.insert, rows.join(",\n"))
        });
        written.collect()
    }

    /// Returns the rows that the table has for a span, as they are inserted.
    pub fn written(&self, span: &Span) -> Vec<String> {
        (self.rows)(&Row { span: span.clone(), version: 2, deleted: false, project: Row::PROJECT })
    }

    /// Returns the number of rows that the table has for a span.
    pub fn rows_of(&self, span: &Span) -> usize {
        self.written(span).len()
    }
}

/// Applies a JSON merge patch (RFC 7396).
fn merge(document: &mut Json, patch: &Json) {
    match (document, patch) {
        (Json::Object(members), Json::Object(changes)) => {
            for (name, change) in changes {
                if change.is_null() {
                    members.remove(name);
                } else {
                    merge(members.entry(name.clone()).or_insert(Json::Null), change);
                }
            }
        }
        (document, patch) => *document = patch.clone(),
    }
}

/// Returns the statements of a file for a server of this version. A line that ends with `-- from X.Y` is for servers of that
/// version and later ones, a line that ends with `-- before X.Y` for earlier ones.
pub fn statements(file: &str, version: (u32, u32)) -> Vec<String> {
    let lines = file.lines().filter(|line| !line.starts_with("--")).filter_map(|line| {
        let Some((text, condition)) = line.rsplit_once(" -- ") else { return Some(line) };
        let (word, limit) = condition.split_once(' ')?;
        let (major, minor) = limit.split_once('.')?;
        let limit = (major.parse().ok()?, minor.parse().ok()?);
        let is_for_this = match word {
            "from" => version >= limit,
            _ => version < limit,
        };
        is_for_this.then_some(text)
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let statements = text.split(";\n").map(|statement| statement.trim().trim_end_matches(';').to_owned());
    statements.filter(|statement| !statement.is_empty()).collect()
}

//! Finds misspelt column names in hand-written spans. Such a column would silently count as absent.

use std::collections::BTreeSet;
use std::io::{self, Write};

use tracewarden_documents::Json;
use tracewarden_model::AccessModel;

use super::files::NamedDocument;

/// Maximum number of letters, in one place, in which a misspelt name differs.
const MAX_DIFFERENT_LETTERS: usize = 2;

/// Prints a note for each column name that is close to the column of a field that the span lacks. Other unknown columns are
/// ignored: answers of queries contain them, too.
pub(super) fn print_misspelt_columns(
    named: &NamedDocument,
    raw_spans: &[Json],
    model: &AccessModel,
    pointer: &str,
) {
    let mut errors = io::stderr().lock();
    for (at, message) in misspelt(raw_spans, model, pointer) {
        // The note is optional, so a failed write is ignored.
        let _ = writeln!(errors, "tracewarden: note: {}", named.at(&at, &message));
    }
}

/// Returns JSON Pointers to spans, each with a message.
fn misspelt(raw_spans: &[Json], model: &AccessModel, pointer: &str) -> Vec<(String, String)> {
    let mut columns = BTreeSet::new();
    for field in &model.fields {
        match &field.field.map {
            Some(map) => columns.insert(map.as_str()),
            None => {
                // A nested column is given as one object, or as one column per member.
                let outer =
                    field.field.name.match_indices('.').filter_map(|(at, _)| field.field.name.get(..at));
                columns.extend(outer);
                columns.insert(field.field.name.as_str())
            }
        };
    }
    let mut notes = Vec::new();
    for (index, span) in raw_spans.iter().enumerate() {
        let Json::Object(members) = span else { continue };
        for (name, _) in members.iter().filter(|(name, _)| !columns.contains(name.as_str())) {
            let suggestion =
                columns.iter().find(|column| span.member(column).is_none() && is_similar(name, column));
            if let Some(suggestion) = suggestion {
                let message = format!(
                    "span {} has a column `{name}` that no field of the access model uses; did you mean \
                     `{suggestion}`?",
                    index + 1
                );
                notes.push((format!("{pointer}/{index}"), message));
            }
        }
    }
    notes
}

/// Whether two names differ in few letters of one place, ignoring case and underscores.
fn is_similar(written: &str, known: &str) -> bool {
    let letters = |name: &str| -> Vec<char> {
        name.chars().filter(|letter| *letter != '_').flat_map(char::to_lowercase).collect()
    };
    let (written, known) = (letters(written), letters(known));
    let longest = written.len().max(known.len());
    let before = written.iter().zip(&known).take_while(|(a, b)| a == b).count();
    let after = written.iter().rev().zip(known.iter().rev()).take_while(|(a, b)| a == b).count();
    longest >= 2 * MAX_DIFFERENT_LETTERS && before + after + MAX_DIFFERENT_LETTERS >= longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_misspelt_columns() {
        for (written, known) in [
            ("SpanAtributes", "SpanAttributes"),
            ("SpanAttribute", "SpanAttributes"),
            ("span_attributes", "SpanAttributes"),
            ("SevriceName", "ServiceName"),
            ("servicename", "ServiceName"),
        ] {
            assert!(is_similar(written, known), "{written}");
        }
        for (written, known) in
            [("SpanId", "SpanName"), ("TraceId", "TraceState"), ("Id", "Ip"), ("", "Name")]
        {
            assert!(!is_similar(written, known), "{written}");
        }
    }
}

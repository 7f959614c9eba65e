//! Sorts suggestions: those with the largest gain first, but none before one that it needs.

use std::cmp::Reverse;

use super::suggestion::DdlSuggestion;

/// Sorts and numbers the suggestions.
pub(super) fn ordered(mut suggestions: Vec<DdlSuggestion>) -> Vec<DdlSuggestion> {
    suggestions.sort_by_key(|suggestion| (Reverse(savings(suggestion)), suggestion.kind));
    let mut ordered: Vec<DdlSuggestion> = Vec::with_capacity(suggestions.len());
    while !suggestions.is_empty() {
        // The one with the largest gain, or the one that it needs. Needs form no cycle; if they did, the first would be
        // taken.
        let mut at = 0;
        for _ in 0..suggestions.len() {
            let needed = suggestions.get(at).and_then(|wanted| {
                suggestions.iter().position(|other| wanted.needs.contains(&other.id) && other.id != wanted.id)
            });
            match needed {
                Some(needed) => at = needed,
                None => break,
            }
        }
        ordered.push(suggestions.remove(at));
    }
    for (at, suggestion) in ordered.iter_mut().enumerate() {
        suggestion.number = at.saturating_add(1);
    }
    ordered
}

/// Returns the saved bytes, or the saved rows where bytes are unknown. Rows are fewer than bytes, so that those suggestions
/// come last, as they should.
fn savings(suggestion: &DdlSuggestion) -> u64 {
    suggestion.reads().map_or(0, |(before, after)| before.saturating_sub(after))
}

//! Results as text for people and as JSON for programs.

use serde::Serialize;
use tracewarden_policy::{Outcome, Verdict};

/// Returns pretty JSON with a final newline.
pub(crate) fn json(value: &impl Serialize) -> String {
    // The values consist of strings, numbers and lists, so serialising them cannot fail.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Returns the number of spans with each outcome: true, false and error.
pub(super) fn outcome_counts(verdicts: &[Verdict]) -> String {
    let count = |wanted: &&str| {
        let same = |verdict: &&Verdict| Outcome::as_str(&verdict.outcome) == *wanted;
        format!("{} {wanted}", verdicts.iter().filter(same).count())
    };
    let counts = ["true", "false", "error"].each_ref().map(count);
    format!("{}: {}", pluralize(verdicts.len() as u64, "span"), counts.join(", "))
}

/// Formats a count with its noun: "1 span", "2 spans".
pub(crate) fn pluralize(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

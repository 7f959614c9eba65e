//! Results as text for people and as JSON for programs.

use serde::Serialize;
use tracewarden_documents::pluralize;
use tracewarden_policy::Verdict;

/// Returns pretty JSON with a final newline.
pub(crate) fn json(value: &impl Serialize) -> String {
    // The values consist of strings, numbers and lists, so serialising them cannot fail.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Returns the number of spans with each outcome: true, false and error.
pub(super) fn outcome_counts(verdicts: &[Verdict]) -> String {
    let count = |wanted: &&str| {
        let same = |verdict: &&Verdict| <&str>::from(verdict.outcome) == *wanted;
        format!("{} {wanted}", verdicts.iter().filter(same).count())
    };
    let counts = ["true", "false", "error"].each_ref().map(count);
    format!("{}: {}", pluralize(verdicts.len() as u64, "span"), counts.join(", "))
}

//! Results as text for people and as JSON for programs.

use std::fmt;

use serde::Serialize;
use tracewarden_policy::{Outcome, Verdict};

/// Appends pretty JSON with a final newline.
pub(crate) fn json(value: &impl Serialize, output: &mut String) {
    // The values consist of strings, numbers and lists, so serialising them cannot fail.
    output.push_str(&serde_json::to_string_pretty(value).unwrap_or_default());
    output.push('\n');
}

/// Number of spans with each outcome: true, false and error.
pub(super) struct OutcomeCounts {
    spans: usize,
    tally: [(&'static str, usize); 3],
}

impl OutcomeCounts {
    pub(super) fn tally(verdicts: &[Verdict]) -> Self {
        let count = |wanted: &str| {
            let same = |verdict: &&Verdict| Outcome::as_str(&verdict.outcome) == wanted;
            verdicts.iter().filter(same).count()
        };
        let tally = ["true", "false", "error"].map(|name| (name, count(name)));
        Self { spans: verdicts.len(), tally }
    }
}

impl fmt::Display for OutcomeCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", pluralize(self.spans, "span"))?;
        let parts: Vec<String> = self.tally.iter().map(|(name, count)| format!("{count} {name}")).collect();
        f.write_str(&parts.join(", "))
    }
}

/// Formats a count with its noun: "1 span", "2 spans".
pub(crate) fn pluralize(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

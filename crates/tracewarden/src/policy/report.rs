//! Results for people and for programs.

use std::fmt;

use serde::Serialize;
use tracewarden_policy::{Outcome, Verdict};

/// Pretty JSON with a line end.
pub(crate) fn json(value: &impl Serialize, output: &mut String) {
    // Strings, numbers and lists alone: serialising cannot fail.
    output.push_str(&serde_json::to_string_pretty(value).unwrap_or_default());
    output.push('\n');
}

/// How many spans are true, false and errors.
pub(super) struct Outcomes {
    spans: usize,
    of: [(&'static str, usize); 3],
}

impl Outcomes {
    pub(super) fn of(verdicts: &[Verdict]) -> Self {
        let count = |wanted: &str| {
            let same = |verdict: &&Verdict| Outcome::as_str(&verdict.outcome) == wanted;
            verdicts.iter().filter(same).count()
        };
        let of = ["true", "false", "error"].map(|name| (name, count(name)));
        Self { spans: verdicts.len(), of }
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", counted(self.spans, "span"))?;
        let parts: Vec<String> = self.of.iter().map(|(name, count)| format!("{count} {name}")).collect();
        f.write_str(&parts.join(", "))
    }
}

/// "1 span", "2 spans".
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

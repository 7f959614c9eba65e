//! Names for additions: readable, and not in use.

use std::collections::HashSet;

/// Maximum number of characters of a name that come from other names.
const MAX_LENGTH: usize = 100;

/// Names in use. Comparison ignores case, because names become file names.
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    pub(super) fn taken<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self { taken: names.into_iter().map(str::to_lowercase).collect() }
    }

    /// Returns an unused name with this beginning, in which every character that would need quotes is replaced.
    pub(super) fn unused(&mut self, wanted: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut base: String = wanted.chars().take(MAX_LENGTH).map(plain).collect();
        if !base.starts_with(|c: char| c.is_ascii_alphabetic()) {
            base.insert(0, 'c');
        }
        let mut name = base.clone();
        let mut number = 2_u32;
        while !self.taken.insert(name.to_lowercase()) {
            name = format!("{base}_{number}");
            number = number.saturating_add(1);
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable_and_unused() {
        let mut names = Names::taken(["TraceId", "SpanAttributes_a_b"]);
        assert_eq!(names.unused("SpanAttributes_http.status_code"), "SpanAttributes_http_status_code");
        assert_eq!(names.unused("SpanAttributes_a.b"), "SpanAttributes_a_b_2");
        assert_eq!(names.unused("SpanAttributes_a-b"), "SpanAttributes_a_b_3");
        assert_eq!(names.unused("traceid"), "traceid_2");
        assert_eq!(names.unused("ключ"), "c____");
        assert_eq!(names.unused("_x`; DROP"), "c_x___DROP");
        assert_eq!(names.unused(&"a".repeat(200)).len(), 100);
        assert_eq!(names.unused(&"a".repeat(200)).len(), 102);
    }
}

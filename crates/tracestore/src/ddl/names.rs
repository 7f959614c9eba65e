//! Names for what is added: readable, and nobody else's.

use std::collections::HashSet;

/// Longest part of a name that is taken from names of others, in characters.
const LONGEST: usize = 100;

/// Names that are taken. Whether a name is free may not depend on the case of its letters: names become file names.
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    pub(super) fn taken<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self { taken: names.into_iter().map(str::to_lowercase).collect() }
    }

    /// A free name that begins like this, with every character that would need quotes replaced.
    pub(super) fn free(&mut self, wanted: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut base: String = wanted.chars().take(LONGEST).map(plain).collect();
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
    fn names_are_readable_and_free() {
        let mut names = Names::taken(["TraceId", "SpanAttributes_a_b"]);
        assert_eq!(names.free("SpanAttributes_http.status_code"), "SpanAttributes_http_status_code");
        assert_eq!(names.free("SpanAttributes_a.b"), "SpanAttributes_a_b_2");
        assert_eq!(names.free("SpanAttributes_a-b"), "SpanAttributes_a_b_3");
        assert_eq!(names.free("traceid"), "traceid_2");
        assert_eq!(names.free("ключ"), "c____");
        assert_eq!(names.free("_x`; DROP"), "c_x___DROP");
        assert_eq!(names.free(&"a".repeat(200)).len(), 100);
        assert_eq!(names.free(&"a".repeat(200)).len(), 102);
    }
}

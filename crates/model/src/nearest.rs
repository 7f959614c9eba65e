//! Suggestions for misspelt names.

/// Maximum characters of a name for which, or as which, suggestions are made. A comparison takes time proportional to
/// the product of both lengths, for each known name, and the wanted name comes from the request.
const MAX_NAME_CHARS: usize = 128;

/// Returns at most three names of `known` that resemble `wanted`, best first.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let is_short = |name: &str| name.chars().nth(MAX_NAME_CHARS).is_none();
    if !is_short(wanted) {
        return Vec::new();
    }
    let folded = wanted.to_lowercase();
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .filter(|name| is_short(name))
        .map(|name| (strsim::jaro_winkler(&folded, &name.to_lowercase()), name))
        .filter(|(score, _)| *score >= 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_closest_names_come_first_and_unrelated_ones_are_omitted() {
        let known = ["ServiceName", "SpanName", "StatusCode"];
        assert_eq!(super::nearest("servicename", known).first().map(String::as_str), Some("ServiceName"));
        assert!(super::nearest("zzz", known).is_empty());
    }

    #[test]
    fn very_long_names_are_not_compared() {
        let (long, longest) = ("n".repeat(super::MAX_NAME_CHARS), "n".repeat(super::MAX_NAME_CHARS + 1));
        let known = [long.as_str(), longest.as_str()];
        assert_eq!(super::nearest(&long, known), [long.as_str()]);
        assert!(super::nearest(&longest, known).is_empty());
    }
}

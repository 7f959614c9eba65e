//! Suggestions for misspelt names.

/// At most three of `known` that resemble `wanted`, best first.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let folded = wanted.to_lowercase();
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
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
    fn the_closest_comes_first_and_strangers_do_not_come() {
        let known = ["ServiceName", "SpanName", "StatusCode"];
        assert_eq!(super::nearest("servicename", known).first().map(String::as_str), Some("ServiceName"));
        assert!(super::nearest("zzz", known).is_empty());
    }
}

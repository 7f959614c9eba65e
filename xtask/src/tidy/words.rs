//! Checks that code and documents use the field's terms instead of words that only this project understood. `docs/glossary.md`
//! has the terms.

use super::Source;

/// Words that must not occur, each with what to write instead.
const PRIVATE_WORDS: &[(&str, &str)] = &[
    ("whoever", "name who: the caller, a user, an administrator"),
    ("nobody", "no user, no caller"),
    ("somebody", "a user, a caller"),
    ("is told", "returns, reports, shows"),
    ("looked at", "read, checked, inspected"),
    ("in vain", "rejected"),
    ("own database", "application database"),
    ("mended", "fixed, repaired"),
    ("over-share", "collateral access"),
    ("overshare", "collateral access"),
    ("leavers", "client disconnects"),
    ("openers", "matching spans"),
    ("tracestore", "clickhouse"),
];

/// Files that may contain a word, how often, and why.
const EXCEPTIONS: &[(&str, &str, usize, &str)] =
    &[("proof/testkit/src/postgres.rs", "nobody", 3, "the system user of this name")];

/// This file, the list of changes to what was already released, and other people's words.
const SKIPPED: &[&str] = &["xtask/src/tidy/words.rs", "CHANGELOG.md"];
const SKIPPED_SUFFIXES: &[&str] = &["_passwords.txt", ".lock", "package-lock.json", ".svg"];

pub fn violations(sources: &[Source]) -> Vec<String> {
    let checked = sources.iter().filter(|source| {
        !SKIPPED.contains(&source.path.as_str())
            && !SKIPPED_SUFFIXES.iter().any(|suffix| source.path.ends_with(suffix))
    });
    checked.flat_map(violations_of).collect()
}

fn violations_of(source: &Source) -> Vec<String> {
    let text = source.text.to_lowercase();
    let mut found = Vec::new();
    for (word, instead) in PRIVATE_WORDS {
        let allowed = EXCEPTIONS
            .iter()
            .find(|(path, exempt, ..)| *path == source.path && exempt == word)
            .map_or(0, |(_, _, count, _)| *count);
        let lines: Vec<usize> = occurrences(&text, word).collect();
        if lines.len() > allowed {
            let line = lines.last().copied().unwrap_or_default();
            found.push(format!("{}:{line}: `{word}`; write instead: {instead}", source.path));
        }
    }
    found
}

/// Returns the line of each occurrence as a whole word.
fn occurrences<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_letter = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
    text.lines().enumerate().flat_map(move |(index, line)| {
        line.match_indices(word)
            .filter(move |(at, found)| {
                let (before, after) = (line.get(..*at), line.get(at + found.len()..));
                !is_letter(before.and_then(|text| text.chars().next_back()))
                    && !is_letter(after.and_then(|text| text.chars().next()))
            })
            .map(move |_| index + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    #[test]
    fn private_words_are_found() {
        let text = concat!("recommended, no", "bodys\nIs to", "ld; for no", "body's sake");
        let found = violations(&[source("docs/a.md", text)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|line| line.starts_with("docs/a.md:2: ")), "{found:?}");
    }

    #[test]
    fn exceptions_are_counted() {
        let (path, word, count, _) = EXCEPTIONS[0];
        let check = |count: usize| violations(&[source(path, &format!("{word} ").repeat(count))]).len();
        assert_eq!((check(count), check(count + 1)), (0, 1));
    }
}

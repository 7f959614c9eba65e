//! Checks that relative links in documents lead to a tracked file and, with a fragment, to one of its headings.

use std::collections::{BTreeMap, BTreeSet};

use super::Source;

/// A part of `docs/configuration.md`, whose links are relative to that document.
const SKIPPED: &str = "crates/tracewarden/src/configuration/preamble.md";

pub fn violations(sources: &[Source]) -> Vec<String> {
    let documents: BTreeMap<&str, &str> =
        sources.iter().map(|source| (source.path.as_str(), source.text.as_str())).collect();
    let checked = sources.iter().filter(|source| source.path.ends_with(".md") && source.path != SKIPPED);
    checked.flat_map(|source| violations_of(source, &documents)).collect()
}

fn violations_of(source: &Source, documents: &BTreeMap<&str, &str>) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in prose(&source.text) {
        for target in targets(line) {
            let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { source.path.clone() } else { resolve(&source.path, path) };
            let directory = format!("{path}/");
            let exists = match documents.get(path.as_str()) {
                Some(text) => fragment.is_empty() || anchors(text).contains(fragment),
                // Pictures are not text, and are therefore not among the sources.
                None => path.ends_with(".png") || documents.keys().any(|known| known.starts_with(&directory)),
            };
            if !exists {
                found.push(format!("{}:{}: the link `{target}` leads nowhere", source.path, index + 1));
            }
        }
    }
    found
}

/// Returns the lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_fence && !is_code
    })
}

/// Returns the relative targets of a line's links.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.is_empty() && !target.contains(':'))
}

/// Returns the path from the repository's root of a path that is relative to the directory of `from`.
fn resolve(from: &str, path: &str) -> String {
    let directory = from.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the fragments of a document's headings, as GitHub derives them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter_map(|(_, line)| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len()).then(|| heading.strip_prefix(' ')).flatten()
    });
    let mut found = BTreeSet::new();
    for heading in headings {
        let kept =
            heading.trim().chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let repeated = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(repeated).find(|anchor| !found.contains(anchor));
        found.extend(free);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    fn check(link: &str) -> usize {
        let sources = [
            source("docs/a.md", &format!("see [x]({link})")),
            source("docs/deep/b.md", "# One `thing` – two\n## Same\n## Same\n```\n# code\n```\n"),
            source("README.md", ""),
        ];
        violations(&sources).len()
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        for good in [
            "deep/b.md",
            "../README.md",
            "deep",
            "deep/",
            "../docs/deep/b.md",
            "https://example.org/x",
            "a.png",
        ] {
            assert_eq!(check(good), 0, "{good}");
        }
        for bad in ["b.md", "README.md", "dee"] {
            assert_eq!(check(bad), 1, "{bad}");
        }
    }

    #[test]
    fn fragments_are_headings() {
        for good in ["deep/b.md#one-thing--two", "deep/b.md#same", "deep/b.md#same-1"] {
            assert_eq!(check(good), 0, "{good}");
        }
        for bad in ["deep/b.md#same-2", "deep/b.md#code", "#one"] {
            assert_eq!(check(bad), 1, "{bad}");
        }
    }
}

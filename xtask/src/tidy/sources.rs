//! Checks that files are short enough to read, and contain no unfinished work.

use super::Source;

const MAX_LINES: usize = 600;

/// Exempted files, each with the reason.
const LONG_FILES: &[&str] = &[];

/// Extensions of hand-written files. Lock files, snapshots and generated documents are not checked.
const CHECKED_EXTENSIONS: &[&str] = &["rs", "ts", "tsx", "css", "py", "sh", "sql", "md", "toml"];

/// Concatenated from halves, so that this file does not violate its own rule.
const UNFINISHED_MARKERS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("unimplemented", "!"), concat!("#[ig", "nore")];

/// Marker of skipped tests in languages other than Rust, where iterators have a method of this name.
const SKIPPED: &str = concat!(".sk", "ip(");

pub fn violations(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .filter(|source| CHECKED_EXTENSIONS.contains(&extension(source)))
        .flat_map(|source| {
            let mut found = Vec::new();
            found.extend(too_long(source, LONG_FILES));
            found.extend(find_todo_markers(source));
            found
        })
        .collect()
}

fn extension(source: &Source) -> &str {
    source.path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn too_long(source: &Source, allowed: &[&str]) -> Option<String> {
    let lines = source.text.lines().count();
    let fine = lines <= MAX_LINES || allowed.contains(&source.path.as_str());
    (!fine)
        .then(|| format!("{}: {lines} lines, and {MAX_LINES} are allowed; split it by content", source.path))
}

fn find_todo_markers(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    // Documents may mention these words; sources must not contain them.
    if extension(source) == "md" {
        return found;
    }
    let skipped: &[&str] = if extension(source) == "rs" { &[] } else { &[SKIPPED] };
    for (index, line) in source.text.lines().enumerate() {
        for marker in UNFINISHED_MARKERS.iter().chain(skipped).filter(|marker| line.contains(**marker)) {
            found.push(format!(
                "{}:{}: `{marker}`; do it now, or write down why it is not needed",
                source.path,
                index + 1
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    #[test]
    fn long_files_are_found_unless_allowed() {
        let long = source("a.rs", &"\n".repeat(MAX_LINES + 1));
        assert!(too_long(&long, &[]).is_some());
        assert!(too_long(&long, &["a.rs"]).is_none());
        assert!(too_long(&source("a.rs", &"\n".repeat(MAX_LINES)), &[]).is_none());
        assert!(violations(&[source("Cargo.lock", &"\n".repeat(MAX_LINES + 1))]).is_empty());
    }

    #[test]
    fn todo_markers_are_found() {
        for marker in UNFINISHED_MARKERS {
            assert_eq!(violations(&[source("a.rs", &format!("one\n{marker}"))]).len(), 1, "{marker}");
        }
        assert_eq!(violations(&[source("a.test.ts", &format!("it{SKIPPED}'works')"))]).len(), 1);
        assert!(violations(&[source("a.rs", &format!("lines{SKIPPED}1)"))]).is_empty());
    }
}

//! Checks that the documents for newcomers mention all crates and commands, and that the map stays short.

use super::Source;

const COMMANDS: &[&str] = &["cargo xtask demo", "cargo xtask test"];

/// A newcomer reads that much in some minutes. Lists of files belong into `CONTRIBUTING.md`, or nowhere.
const MAX_WORDS: usize = 1_500;

pub fn violations(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    let architecture = text(sources, "ARCHITECTURE.md");
    for name in crates(sources).filter(|name| !architecture.contains(name.as_str())) {
        found.push(format!("ARCHITECTURE.md: does not name `{name}`"));
    }
    let words = architecture.split_whitespace().count();
    if words > MAX_WORDS {
        found.push(format!("ARCHITECTURE.md: {words} words, and {MAX_WORDS} are allowed"));
    }
    let readme = text(sources, "README.md");
    for command in COMMANDS.iter().filter(|command| !readme.contains(**command)) {
        found.push(format!("README.md: does not name `{command}`"));
    }
    found
}

fn text<'a>(sources: &'a [Source], path: &str) -> &'a str {
    sources.iter().find(|source| source.path == path).map_or("", |source| &source.text)
}

/// Returns the crates as they must appear in the documents. The trailing `/` distinguishes a crate such as `model` from the word.
fn crates(sources: &[Source]) -> impl Iterator<Item = String> {
    sources.iter().filter_map(|source| {
        let directory = source.path.strip_suffix("/Cargo.toml")?;
        Some(
            directory
                .strip_prefix("crates/")
                .or_else(|| directory.strip_prefix("proof/"))
                .map_or_else(|| directory.to_owned(), |name| format!("{name}/")),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    #[test]
    fn a_crate_that_is_not_named_is_found() {
        let readme = source("README.md", "cargo xtask demo, cargo xtask test");
        let manifests = || [source("crates/model/Cargo.toml", ""), source("xtask/Cargo.toml", "")];
        let check = |text: &str| {
            let [model, xtask] = manifests();
            violations(&[source("ARCHITECTURE.md", text), source("README.md", &readme.text), model, xtask])
        };
        assert_eq!(check("  model/  the vocabulary; xtask/"), Vec::<String>::new());
        assert_eq!(check("a model, xtask/"), ["ARCHITECTURE.md: does not name `model/`"]);
        let long = format!("model/, xtask/ {}", "word ".repeat(MAX_WORDS));
        assert_eq!(check(&long), ["ARCHITECTURE.md: 1502 words, and 1500 are allowed"]);
    }

    #[test]
    fn a_command_that_is_not_named_is_found() {
        let found = violations(&[source("ARCHITECTURE.md", ""), source("README.md", "cargo xtask demo")]);
        assert_eq!(found, ["README.md: does not name `cargo xtask test`"]);
    }
}

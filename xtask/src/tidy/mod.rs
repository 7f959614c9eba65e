//! Repository rules that the compiler does not check. Each rule is a pure function from its input to the violations, so that each
//! has a test with a violation.

mod architecture;
mod dependencies;
mod formatting;
mod links;
mod lints;
mod modules;
pub mod npm_licences;
mod privacy;
mod routes;
mod sources;
mod structure;
mod words;

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{process, workspace};

/// A tracked text file.
pub struct Source {
    /// Path relative to the workspace's root, with `/`.
    pub path: String,
    pub text: String,
}

/// Checks all rules and reports all violations.
pub fn run() -> Result<()> {
    let sources = sources()?;
    let metadata = workspace::metadata()?;
    let mut violations = Vec::new();
    violations.extend(dependencies::violations(&metadata)?);
    violations.extend(sources::violations(&sources));
    violations.extend(lints::violations(&sources));
    violations.extend(links::violations(&sources));
    violations.extend(architecture::violations(&sources));
    violations.extend(privacy::violations(&sources));
    violations.extend(routes::violations(&sources));
    violations.extend(npm_licences::violations(&sources)?);
    violations.extend(words::violations(&sources));
    violations.extend(structure::violations(&sources).map_err(anyhow::Error::msg)?);
    violations.extend(formatting::violations()?);
    if violations.is_empty() {
        println!("{} files are tidy", sources.len());
        let lines = structure::product_lines(&sources).map_err(anyhow::Error::msg)?;
        let all: Vec<String> = lines.iter().map(|(name, lines)| format!("{name} {lines}")).collect();
        println!("lines of product code: {}", all.join(", "));
        return Ok(());
    }
    for violation in &violations {
        eprintln!("{violation}");
    }
    bail!("{} violations of the repository's rules", violations.len())
}

/// Returns the repository's text files.
pub fn sources() -> Result<Vec<Source>> {
    tracked(&workspace::root())
}

/// Returns the text files that git tracks or would track, so that violations are found before the commit.
fn tracked(root: &Path) -> Result<Vec<Source>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = process::capture_output(&mut git).context("tidy checks files that git tracks")?;
    let mut sources = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        // A listed file may already be deleted.
        let Ok(bytes) = fs::read(root.join(path)) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            sources.push(Source { path: path.to_owned(), text });
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources.dedup_by(|a, b| a.path == b.path);
    Ok(sources)
}

#[cfg(test)]
pub fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

//! Fingerprint of the web application's sources. Modification times are not used, because a checkout updates them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};

/// Directories of `web/` that a build reads. A build also reads the files directly in `web/`: configurations and the page.
const DIRECTORIES: &[&str] = &["src", "public", "scripts"];

/// The OpenAPI document that the API types are generated from, and the generated file.
const DOCUMENT: &str = "docs/openapi.json";
const GENERATED: &str = "web/src/api/schema.d.ts";

/// Returns a hash of the names and contents of all files that a build reads.
pub fn of(root: &Path) -> Result<String> {
    let mut paths = vec![root.join(DOCUMENT)];
    let web = root.join("web");
    files(&web, false, &mut paths)?;
    for directory in DIRECTORIES.iter().map(|name| web.join(name)).filter(|directory| directory.is_dir()) {
        files(&directory, true, &mut paths)?;
    }
    paths.retain(|path| *path != root.join(GENERATED));
    paths.sort();
    let mut sum = Sha256::new();
    for path in &paths {
        let contents = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
        // Lengths are included, so that different lists of files cannot be the same bytes.
        for part in [name.as_bytes(), &contents] {
            sum.update((part.len() as u64).to_le_bytes());
            sum.update(part);
        }
    }
    Ok(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn files(directory: &Path, below: bool, found: &mut Vec<PathBuf>) -> Result<()> {
    let context = || format!("cannot read `{}`", directory.display());
    for entry in fs::read_dir(directory).with_context(context)? {
        let path = entry.with_context(context)?.path();
        if !path.is_dir() {
            found.push(path);
        } else if below {
            files(&path, below, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_depends_on_the_build_inputs_only() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(DOCUMENT, "{}");
        write("web/index.html", "page");
        write("web/src/main.tsx", "let a");
        let mut seen = vec![of(root.path()).unwrap()];
        for path in ["web/dist/index.html", "web/node_modules/a/index.js", "web/e2e/login.test.ts", GENERATED]
        {
            write(path, "other");
            assert_eq!(of(root.path()).unwrap(), *seen.last().unwrap(), "{path}");
        }
        for (path, text) in [
            (DOCUMENT, "{\"openapi\": \"3.1\"}"),
            ("web/index.html", "another page"),
            ("web/vite.config.ts", ""),
            ("web/src/main.tsx", "let b"),
            ("web/src/pages/empty.tsx", ""),
            ("web/public/icon.svg", "<svg/>"),
        ] {
            write(path, text);
            let now = of(root.path()).unwrap();
            assert!(!seen.contains(&now), "{path}");
            seen.push(now);
        }
    }
}

//! Checks that the repository contains nothing about a developer's machine, and no references that its readers cannot follow.

use super::Source;

/// Directories of one machine or user. Concatenated from halves, so that this file does not violate its own rule.
const LOCAL_DIRECTORIES: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// References that readers of the repository cannot follow.
const REFERENCES: &[&str] = &[concat!("issue", " #"), concat!("../", "shared")];

/// Files that package managers read or write, and that may therefore contain the host of a registry.
const PACKAGE_FILES: &[&str] =
    &[".lock", "-lock.json", "-lock.yaml", ".npmrc", "pip.conf", ".cargo/config.toml", "requirements.txt"];

const PUBLIC_HOSTS: &[&str] = &[
    "github.com",
    "registry.npmjs.org",
    "index.crates.io",
    "pypi.org",
    "files.pythonhosted.org",
    "opencollective.com",
    "tidelift.com",
];

pub fn violations(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        for (index, line) in source.text.lines().enumerate() {
            let at = || format!("{}:{}", source.path, index + 1);
            found.extend(LOCAL_DIRECTORIES.iter().filter(|directory| names_directory(line, directory)).map(
                |directory| format!("{}: a path below `{directory}`, which exists on one machine only", at()),
            ));
            found.extend(REFERENCES.iter().filter(|reference| line.to_lowercase().contains(**reference)).map(|reference| {
                format!(
                    "{}: `{reference}` refers to something that readers cannot open; give the reason itself",
                    at()
                )
            }));
        }
        found.extend(foreign_hosts(source));
    }
    found
}

/// Whether the directory occurs at the beginning of a path. A URL or a longer path may contain the same characters.
fn names_directory(line: &str, directory: &str) -> bool {
    line.match_indices(directory).any(|(index, _)| {
        let before = line.get(..index).and_then(|before| before.chars().next_back());
        before.is_none_or(|character| !(character.is_alphanumeric() || "._-~$}*/".contains(character)))
            || line.get(..index).is_some_and(|before| before.ends_with("file://"))
    })
}

fn foreign_hosts(source: &Source) -> Vec<String> {
    if !PACKAGE_FILES.iter().any(|name| source.path.ends_with(name)) {
        return Vec::new();
    }
    let hosts = source
        .text
        .split("://")
        .skip(1)
        .filter_map(|rest| rest.split(['/', '"', '\'', ':', ' ', '\n', '?']).next());
    let mut found: Vec<&str> = hosts
        .filter(|host| {
            let host = host.rsplit('@').next().unwrap_or(host);
            !PUBLIC_HOSTS.iter().any(|public| host == *public || host.ends_with(&format!(".{public}")))
        })
        .collect();
    // Licence and funding links of packages are not registries; a host that serves packages appears many times.
    found.sort_unstable();
    found.dedup();
    let lock_of_npm = source.path.ends_with("-lock.json");
    found
        .into_iter()
        .filter(|host| !lock_of_npm || serves_packages(source, host))
        .map(|host| format!("{}: the host `{host}` is not a public registry", source.path))
        .collect()
}

fn serves_packages(source: &Source, host: &str) -> bool {
    source.text.lines().any(|line| line.contains("\"resolved\"") && line.contains(host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    fn check(path: &str, text: &str) -> usize {
        violations(&[source(path, text)]).len()
    }

    #[test]
    fn local_paths_are_found() {
        for directory in LOCAL_DIRECTORIES {
            assert_eq!(check("a.rs", &format!("read(\"{directory}x\")")), 1, "{directory}");
            assert_eq!(check("a.md", &format!("{directory}x")), 1, "{directory}");
            assert_eq!(check("a.md", &format!("file://{directory}x")), 1, "{directory}");
            assert_eq!(check("a.md", &format!("https://example.org{directory}x")), 0, "{directory}");
            assert_eq!(check("a.md", &format!("$HOME{directory}x")), 0, "{directory}");
        }
    }

    #[test]
    fn references_that_lead_nowhere_are_found() {
        for reference in REFERENCES {
            assert_eq!(check("a.md", &format!("see {reference}12")), 1, "{reference}");
        }
    }

    #[test]
    fn hosts_in_package_files_are_public() {
        let resolved = |host: &str| format!("\"resolved\": \"https://{host}/a/-/a-1.tgz\",");
        assert_eq!(check("web/package-lock.json", &resolved("registry.npmjs.org")), 0);
        assert_eq!(check("web/package-lock.json", &resolved("mirror.example.org")), 1);
        assert_eq!(check("web/package-lock.json", "\"url\": \"https://ko-fi.example/a\""), 0);
        assert_eq!(
            check("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\""),
            0
        );
        assert_eq!(check(".npmrc", "registry=http://user@mirror.example.org:4873/"), 1);
        assert_eq!(check("docs/install.md", "https://anything.example.org"), 0);
    }
}

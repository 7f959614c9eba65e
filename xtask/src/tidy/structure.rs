//! Checks the structure of the product's crates: folders import in one direction, files do not depend on each other in
//! circles, types and files are small.

use std::collections::{BTreeMap, BTreeSet};

use super::Source;
use super::modules::Crate;

/// Maximum number of lines of a file outside `cfg(test)`.
const MAX_LINES: usize = 500;
/// Maximum number of functions in the inherent `impl` blocks of a type.
const MAX_METHODS: usize = 40;
/// Maximum number of lines of the product: `crates/*/src` outside `cfg(test)`, without the sample data.
const MAX_PRODUCT_LINES: usize = 78_178;

/// Not part of the product: what the demo and the tests read.
const SAMPLE_DATA: &str = "crates/sample-data";

/// Folders and files of a crate's `src`, from those that the others build on upwards. One may use names of its own line and of
/// the lines above it, but those of one line do not use each other.
const LAYERS: &[(&str, &[&[&str]])] = &[
    (
        "crates/clickhouse",
        &[
            &["sql"],
            &["client"],
            &["schema"],
            &["catalogue"],
            &["clickhouse"],
            &["search"],
            &["read"],
            &["aggregate", "advice", "inspect"],
        ],
    ),
    (
        "crates/service",
        &[
            &["core"],
            &["policies"],
            &["traces", "access", "source"],
            &["analysis"],
            &["model_file"],
            &["maintenance"],
            &["service"],
            &["bootstrap"],
        ],
    ),
];

/// Files that may depend on each other in a circle, each group with the reason.
const CIRCLES: &[(&[&str], &str)] = &[];

/// Checks all crates.
///
/// # Errors
/// When a source file is not Rust.
pub fn violations(sources: &[Source]) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for (directory, read) in crates(sources)? {
        found.extend(long_files(&read));
        found.extend(large_types(&directory, &read));
        found.extend(circles(&read, CIRCLES));
        if let Some((_, layers)) = LAYERS.iter().find(|(name, _)| directory.ends_with(name)) {
            found.extend(upward_imports(&directory, &read, layers));
        }
    }
    let all = product_lines(sources)?.last().map_or(0, |(_, lines)| *lines);
    if all > MAX_PRODUCT_LINES {
        found.push(format!("crates: {all} lines of product code, and {MAX_PRODUCT_LINES} are allowed"));
    }
    Ok(found)
}

/// Lines of product code: of each crate, and `all`.
///
/// # Errors
/// When a source file is not Rust.
pub fn product_lines(sources: &[Source]) -> Result<Vec<(String, usize)>, String> {
    let crates = crates(sources)?.into_iter();
    let mut lines: Vec<(String, usize)> =
        crates.map(|(name, read)| (name, read.lines.values().sum())).collect();
    lines.push(("all".to_owned(), lines.iter().map(|(_, lines)| lines).sum()));
    Ok(lines)
}

/// Returns the product's crates by directory.
fn crates(sources: &[Source]) -> Result<BTreeMap<String, Crate>, String> {
    let by_path: BTreeMap<&str, &Source> =
        sources.iter().map(|source| (source.path.as_str(), source)).collect();
    let mut crates = BTreeMap::new();
    for manifest in by_path.keys().filter(|path| path.starts_with("crates/")) {
        let Some(directory) = manifest.strip_suffix("/Cargo.toml") else { continue };
        if directory == SAMPLE_DATA {
            continue;
        }
        let roots = [format!("{directory}/src/lib.rs"), format!("{directory}/src/main.rs")];
        let read = Crate::read(&by_path, &roots.each_ref().map(String::as_str))?;
        crates.insert(directory.to_owned(), read);
    }
    Ok(crates)
}

fn long_files(read: &Crate) -> impl Iterator<Item = String> {
    read.lines.iter().filter(|(_, lines)| **lines > MAX_LINES).map(|(file, lines)| {
        format!("{file}: {lines} lines of product code, and {MAX_LINES} are allowed; split it by content")
    })
}

fn large_types(directory: &str, read: &Crate) -> impl Iterator<Item = String> {
    read.methods.iter().filter(|(_, count)| **count > MAX_METHODS).map(move |(name, count)| {
        format!("{directory}: `{name}` has {count} methods, and {MAX_METHODS} are allowed; split it by duty")
    })
}

fn upward_imports(directory: &str, read: &Crate, layers: &[&[&str]]) -> Vec<String> {
    let place = |file: &str| {
        let inside = file.strip_prefix(directory)?.strip_prefix("/src/")?;
        let name = inside.split('/').next()?.trim_end_matches(".rs");
        let layer = layers.iter().position(|layer| layer.contains(&name))?;
        Some((layer, name.to_owned()))
    };
    let mut found = Vec::new();
    for (from, targets) in read.edges() {
        let Some((layer, name)) = place(from) else { continue };
        for to in targets {
            if let Some((other, target)) = place(&to)
                && (other > layer || (other == layer && target != name))
            {
                found.push(format!("{from}: uses a name of {to}, but `{name}` does not build on `{target}`"));
            }
        }
    }
    found
}

fn circles(read: &Crate, allowed: &[(&[&str], &str)]) -> Vec<String> {
    let edges = read.edges();
    components(&edges)
        .into_iter()
        .filter(|files| {
            !allowed.iter().any(|(group, _)| files.iter().all(|file| group.contains(&file.as_str())))
        })
        .map(|files| {
            let ties = files.iter().flat_map(|from| {
                let targets = edges.get(from.as_str()).into_iter().flatten();
                let inside = targets.filter(|to| files.contains(*to));
                inside.map(move |to| format!("  {from} uses {to}"))
            });
            let ties = ties.collect::<Vec<_>>().join("\n");
            format!("{} files depend on each other in a circle:\n{ties}", files.len())
        })
        .collect()
}

/// Returns the strongly connected components of more than one file: the sets of files that reach each other.
fn components(edges: &BTreeMap<&str, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached = |start: &str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![start];
        while let Some(file) = open.pop() {
            for to in edges.get(file).into_iter().flatten() {
                if seen.insert(to.as_str()) {
                    open.push(to);
                }
            }
        }
        seen
    };
    let reachable: BTreeMap<&str, BTreeSet<&str>> = edges.keys().map(|file| (*file, reached(file))).collect();
    let mut placed = BTreeSet::new();
    let mut components = Vec::new();
    for (file, targets) in &reachable {
        let is_mutual = |to: &&&str| reachable.get(**to).is_some_and(|back| back.contains(file));
        let component: Vec<String> =
            targets.iter().filter(is_mutual).map(|file| (*file).to_owned()).collect();
        if component.len() > 1 && placed.insert(component.clone()) {
            components.push(component);
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source;

    fn read(files: &[(&str, &str)]) -> Vec<Source> {
        let manifest = [source("crates/a/Cargo.toml", "")];
        files.iter().map(|(path, text)| source(path, text)).chain(manifest).collect()
    }

    #[test]
    fn long_files_and_large_types_are_found() {
        let functions: String = (0..=MAX_METHODS).map(|at| format!("fn f{at}() {{}}\n")).collect();
        let lines = "const A: u8 = 1;\n".repeat(MAX_LINES);
        let found = violations(&read(&[
            ("crates/a/src/lib.rs", &format!("mod b; struct A; impl A {{ {functions} }}")),
            ("crates/a/src/b.rs", &format!("{lines}\n")),
        ]))
        .unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/b.rs: 501 lines"), "{found:?}");
        assert!(found[1].contains("`A` has 41 methods"), "{found:?}");
    }

    #[test]
    fn circles_are_found_unless_allowed() {
        let sources = read(&[
            ("crates/a/src/lib.rs", "mod b; mod c; mod d;"),
            ("crates/a/src/b.rs", "use crate::c::C; pub struct B(C);"),
            ("crates/a/src/c.rs", "use crate::d::D; pub struct C(D);"),
            ("crates/a/src/d.rs", "pub struct D(Option<Box<crate::b::B>>);"),
        ]);
        let crates = crates(&sources).unwrap();
        let found = circles(&crates["crates/a"], &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("3 files depend"), "{found:?}");
        let group: &[&str] = &["crates/a/src/b.rs", "crates/a/src/c.rs", "crates/a/src/d.rs"];
        assert!(circles(&crates["crates/a"], &[(group, "recursive types")]).is_empty());
    }

    #[test]
    fn imports_against_the_layers_are_found() {
        let sources = read(&[
            ("crates/a/src/lib.rs", "mod core; mod users; mod roles;"),
            ("crates/a/src/core.rs", "pub struct Core; fn f(_: crate::users::User) {}"),
            ("crates/a/src/users.rs", "pub struct User(crate::core::Core);"),
            ("crates/a/src/roles.rs", "pub struct Role(crate::users::User);"),
        ]);
        let crates = crates(&sources).unwrap();
        let layers: &[&[&str]] = &[&["core"], &["users", "roles"]];
        let found = upward_imports("crates/a", &crates["crates/a"], layers);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().any(|line| line.contains("`core` does not build on `users`")), "{found:?}");
        assert!(found.iter().any(|line| line.contains("`roles` does not build on `users`")), "{found:?}");
    }
}

//! Databases that released versions wrote: this version starts on a copy, and all data is there. `cargo xtask
//! keep-database` adds the database of this version before its release.

mod checks;
mod database;
mod write;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use database::{Copy, Kind};

use crate::support::program;

/// If set, the database that this version writes is kept for later versions.
const KEEP: &str = "TRACEWARDEN_TEST_KEEP_DATABASE";

/// Returns the directory with a folder per version, which contains a database of either kind and the facts about it.
fn keep_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upgrade")
}

fn versions() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(keep_directory()).unwrap().map(|entry| entry.unwrap().path());
    let mut versions: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    versions.sort_unstable();
    assert!(!versions.is_empty());
    versions
}

#[test]
fn every_released_version_has_its_databases() {
    let changelog = include_str!("../../../../CHANGELOG.md");
    let headings = changelog.lines().filter_map(|line| line.strip_prefix("## "));
    let released = headings.filter_map(|heading| heading.split([' ', ']']).next());
    let released = released.map(|version| version.trim_start_matches('['));
    let released = released.filter(|version| version.starts_with(|first: char| first.is_ascii_digit()));
    for version in released.chain(["0.1.0"]) {
        for kind in [Kind::Sqlite, Kind::PostgreSql] {
            for file in [kind.data(), kind.facts()] {
                let path = keep_directory().join(version).join(file);
                assert!(path.exists(), "{}: run `cargo xtask keep-database`", path.display());
            }
        }
    }
}

async fn serve_as_before(kind: Kind) {
    for version in versions() {
        println!("{}", version.display());
        let facts = std::fs::read_to_string(version.join(kind.facts())).unwrap();
        let copy = Copy::of(kind, &version.join(kind.data())).await;
        checks::check_all(&copy, &serde_json::from_str(&facts).unwrap()).await;
    }
}

#[tokio::test]
async fn databases_of_released_versions_serve_on_sqlite() {
    serve_as_before(Kind::Sqlite).await;
}

#[tokio::test]
async fn databases_of_released_versions_serve_on_postgresql() {
    serve_as_before(Kind::PostgreSql).await;
}

/// Checks the database of this version with the checks that later versions will make.
async fn generated_databases_are_complete(kind: Kind) {
    let written = tempfile::tempdir().unwrap();
    let data = written.path().join(kind.data());
    let facts = write::database(kind, &data).await;
    if std::env::var_os(KEEP).is_some() {
        let version = keep_directory().join(env!("CARGO_PKG_VERSION"));
        std::fs::create_dir_all(&version).unwrap();
        // A released database must not be replaced by one that the current program writes.
        assert!(!version.join(kind.data()).exists(), "`{}` is there already", version.display());
        std::fs::copy(&data, version.join(kind.data())).unwrap();
        let text = serde_json::to_string_pretty(&facts).unwrap() + "\n";
        std::fs::write(version.join(kind.facts()), text).unwrap();
    }
    checks::check_all(&Copy::of(kind, &data).await, &facts).await;
}

#[tokio::test]
async fn databases_of_this_version_are_complete_on_sqlite() {
    generated_databases_are_complete(Kind::Sqlite).await;
}

#[tokio::test]
async fn databases_of_this_version_are_complete_on_postgresql() {
    generated_databases_are_complete(Kind::PostgreSql).await;
}

/// A database whose migrations are not the first ones of this program is left unchanged.
async fn unknown_migrations_are_refused(kind: Kind) {
    for version in versions() {
        for (change, words) in [
            (
                "UPDATE schema_migrations SET sha256 = 'x' WHERE version = 2",
                "step 2 (role_revision) was edited",
            ),
            (
                "DELETE FROM schema_migrations WHERE version = 3",
                "step 3 (narrowed_keys_audit_anchor) is missing",
            ),
            (
                "INSERT INTO schema_migrations VALUES (99, 'later', 'x', 0)",
                "applied by a newer program than this one",
            ),
        ] {
            let copy = Copy::of(kind, &version.join(kind.data())).await;
            copy.run(change).await;
            for (arguments, status) in [(&["serve"][..], 1), (&["audit", "verify"], 2)] {
                let mut command = program();
                command.args(arguments).current_dir(copy.directory.path()).stdin(Stdio::null());
                command.env("TRACEWARDEN_LISTEN", "127.0.0.1:0");
                command.env("TRACEWARDEN_CLICKHOUSE_URL", "http://127.0.0.1:9");
                let output = command.env("TRACEWARDEN_DATABASE_URL", copy.url()).output().unwrap();
                let output_text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
                assert_eq!(output.status.code(), Some(status), "{arguments:?}: {output_text}");
                assert!(
                    output_text.contains(words) && !output_text.contains("listening"),
                    "{arguments:?}: {output_text}"
                );
            }
        }
    }
}

#[tokio::test]
async fn unknown_migrations_are_refused_on_sqlite() {
    unknown_migrations_are_refused(Kind::Sqlite).await;
}

#[tokio::test]
async fn unknown_migrations_are_refused_on_postgresql() {
    unknown_migrations_are_refused(Kind::PostgreSql).await;
}

//! `cargo xtask package`: what a release consists of, in `target/package/`: an archive with the program, lists of its components
//! (SBOM), and checksums.

mod check;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::cargo_tool::CYCLONEDX;
use crate::programs::{self, Profile};
use crate::{process, web, workspace};

/// Package of the service, and name of its program.
const SERVICE: &str = "tracewarden";

/// Other files of the archive.
const FILES: [&str; 5] = [
    "LICENSE",
    "CHANGELOG.md",
    "packaging/tracewarden.service",
    "packaging/tracewarden.env",
    "packaging/compose.yaml",
];

/// Options of the command.
#[derive(clap::Args)]
pub struct Options {
    /// Use the archive as users do: verify the checksums, the systemd unit and the Compose file, and start the program as root
    /// of the file system of a container.
    #[arg(long)]
    check: bool,
}

/// Builds the release files and prints their paths.
///
/// # Errors
/// When a build fails, or with `--check`, when a file does not work.
pub fn run(options: &Options) -> Result<()> {
    web::ensure()?;
    let binaries = programs::build(Profile::Release, &[SERVICE])?;
    let directory = workspace::target_directory()?.join("package");
    fs::remove_dir_all(&directory).or_else(|error| if directory.exists() { Err(error) } else { Ok(()) })?;
    fs::create_dir_all(&directory).with_context(|| format!("cannot create `{}`", directory.display()))?;
    let name = format!("{SERVICE}-{}-{}", version()?, host()?);
    archive(&binaries.join(SERVICE), &name, &directory)?;
    components(&name, &directory)?;
    checksums(&directory)?;
    for entry in files(&directory)? {
        println!("{}", entry.display());
    }
    if options.check { check::run(&directory, &name) } else { Ok(()) }
}

/// Writes a `.tar.gz` that is the same for the same files: without owners and times of this machine.
fn archive(program: &Path, name: &str, directory: &Path) -> Result<()> {
    let path = directory.join(format!("{name}.tar.gz"));
    let file = File::create(&path).with_context(|| format!("cannot create `{}`", path.display()))?;
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::best()));
    archive.mode(tar::HeaderMode::Deterministic);
    let root = workspace::root();
    let others = FILES.map(|file| root.join(file));
    for source in others.iter().map(PathBuf::as_path).chain([program]) {
        let file_name = source.file_name().context("a file of the archive has no name")?;
        archive
            .append_path_with_name(source, Path::new(name).join(file_name))
            .with_context(|| format!("cannot add `{}` to the archive", source.display()))?;
    }
    archive.into_inner()?.finish()?.sync_all().context("cannot write the archive")
}

/// Writes the components of the program and of the web application as CycloneDX documents, from the lock files.
fn components(name: &str, directory: &Path) -> Result<()> {
    let crates = format!("{name}.cdx");
    let manifest = workspace::root().join("crates").join(SERVICE).join("Cargo.toml");
    let mut cyclonedx = Command::new(CYCLONEDX.ensure()?);
    cyclonedx.args(["cyclonedx", "--quiet", "--format", "json", "--override-filename", &crates]);
    process::run(cyclonedx.arg("--manifest-path").arg(&manifest))?;
    // The tool writes a document next to the manifest of each member.
    let written = format!("{crates}.json");
    let mut members: Vec<PathBuf> = Vec::new();
    for folder in ["crates", "proof"].map(|folder| workspace::root().join(folder)) {
        members.extend(files(&folder)?.into_iter().map(|member| member.join(&written)));
    }
    members.push(workspace::root().join("xtask").join(&written));
    for document in members.iter().filter(|document| document.is_file()) {
        if document.parent() == manifest.parent() {
            fs::copy(document, directory.join(&written)).context("cannot copy the list of components")?;
        }
        fs::remove_file(document).with_context(|| format!("cannot remove `{}`", document.display()))?;
    }
    let mut npm = Command::new("npm");
    npm.current_dir(workspace::root().join("web"));
    npm.args(["sbom", "--sbom-format", "cyclonedx", "--omit", "dev", "--package-lock-only"]);
    fs::write(directory.join(format!("{name}.web.cdx.json")), process::capture_output(&mut npm)?)
        .context("cannot write the list of the web application's components")
}

/// Writes `SHA256SUMS` in the format of `sha256sum`.
fn checksums(directory: &Path) -> Result<()> {
    let mut lines = String::new();
    for path in files(directory)? {
        let bytes = fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        lines.push_str(&format!("{hash}  {name}\n"));
    }
    fs::write(directory.join("SHA256SUMS"), lines).context("cannot write the checksums")
}

/// Returns the entries of a directory, sorted.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read `{}`", directory.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn version() -> Result<String> {
    let metadata = workspace::metadata()?;
    let packages = metadata.get("packages").and_then(Value::as_array).into_iter().flatten();
    let service =
        packages.into_iter().find(|package| package.get("name").is_some_and(|name| name == SERVICE));
    let version = service.and_then(|package| package.get("version").and_then(Value::as_str));
    Ok(version.context("`cargo metadata` names no version of the service")?.to_owned())
}

/// Returns the target that cargo builds for by default.
fn host() -> Result<String> {
    let printed = process::capture_output(Command::new("rustc").args(["--version", "--verbose"]))?;
    let host = printed.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc --version --verbose` names no host")?.to_owned())
}

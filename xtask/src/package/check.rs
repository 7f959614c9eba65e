//! Uses the files of a release as users do.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::{debian, process};

/// User of the container image.
const USER: u32 = 65_532;
const ADDRESS: &str = "127.0.0.1:18080";
const START_TIMEOUT: Duration = Duration::from_secs(30);
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// Checks everything that this machine can check. Building the image itself needs a container engine.
pub fn run(directory: &Path, name: &str) -> Result<()> {
    process::run(Command::new("sha256sum").current_dir(directory).args([
        "--check",
        "--quiet",
        "SHA256SUMS",
    ]))?;
    println!("ok      checksums");
    let unpacked = tempfile::tempdir().context("cannot create a temporary directory")?;
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(directory.join(format!("{name}.tar.gz")));
    process::run(tar.arg("--directory").arg(unpacked.path()))?;
    let files = unpacked.path().join(name);
    let program = files.join("tracewarden");
    let version = process::capture_output(Command::new(&program).arg("--version"))?;
    ensure!(name.contains(version.trim().trim_start_matches("tracewarden ")), "the program is {version}");
    println!("ok      archive: {}", version.trim());
    systemd_unit(&files, &program)?;
    println!("ok      systemd unit");
    compose(&files)?;
    println!("ok      Compose file");
    image(&program)?;
    println!("ok      file system of the image: serves /healthz and the web application");
    Ok(())
}

/// Verifies the unit in a root directory with the program at its path.
fn systemd_unit(files: &Path, program: &Path) -> Result<()> {
    debian::ensure("systemd-analyze is not installed", "systemd", || {
        process::is_installed("systemd-analyze")
    })?;
    let text = fs::read_to_string(files.join("tracewarden.service")).context("cannot read the unit")?;
    let unit = files.join("tracewarden-check.service");
    fs::write(&unit, text.replace("/usr/local/bin/tracewarden", &program.display().to_string()))?;
    process::run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit))
}

fn compose(files: &Path) -> Result<()> {
    debian::ensure("docker-compose is not installed", "docker-compose", || {
        process::is_installed("docker-compose")
    })?;
    let mut compose = Command::new("docker-compose");
    compose.current_dir(files).args(["--file", "compose.yaml", "config", "--quiet"]);
    process::run(&mut compose)
}

/// Starts the program in a root directory that has what the image has: the program, the libraries that it needs, certificates and
/// an empty state directory, as the image's user.
fn image(program: &Path) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "the file system of the image is entered with `chroot`, which only root may do; run this as root"
    );
    let root = tempfile::tempdir().context("cannot create a temporary directory")?;
    let root = root.path();
    fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
    copy(program, &root.join("usr/local/bin/tracewarden"))?;
    for library in libraries(program)? {
        let inside = library.strip_prefix("/").unwrap_or(&library);
        copy(&library, &root.join(inside))?;
    }
    copy(&Path::new("/").join(CERTIFICATES), &root.join(CERTIFICATES))?;
    for directory in ["var/lib/tracewarden", "tmp"].map(|name| root.join(name)) {
        fs::create_dir_all(&directory)?;
        chown(&directory, Some(USER), Some(USER))?;
    }
    let mut command = Command::new("chroot");
    command.arg(format!("--userspec={USER}:{USER}")).arg(root);
    command.args(["/usr/local/bin/tracewarden", "serve"]).env_clear();
    command.env("TRACEWARDEN_LISTEN", ADDRESS).env("TRACEWARDEN_PUBLIC_URL", format!("http://{ADDRESS}"));
    command.env("TRACEWARDEN_DATABASE_URL", "sqlite:/var/lib/tracewarden/tracewarden.db");
    command
        .env("TRACEWARDEN_CLICKHOUSE_URL", "http://127.0.0.1:1")
        .env("TRACEWARDEN_CLICKHOUSE_USER", "none");
    let log = root.join("log");
    let mut child = command.stdin(Stdio::null()).stderr(fs::File::create(&log)?).spawn()?;
    let answered = wait_until_served(&mut child);
    let _ = child.kill();
    child.wait().context("cannot wait for the service")?;
    answered.with_context(|| fs::read_to_string(&log).unwrap_or_default())
}

fn wait_until_served(child: &mut Child) -> Result<()> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            bail!("the service exited ({})", process::status_text(status));
        }
        if ureq::get(&format!("http://{ADDRESS}/healthz")).call().is_ok() {
            break;
        }
        ensure!(Instant::now() < deadline, "the service does not answer");
        std::thread::sleep(Duration::from_millis(100));
    }
    let page = ureq::get(&format!("http://{ADDRESS}/ui/")).call()?.body_mut().read_to_string()?;
    ensure!(page.contains("<div id=\"root\">"), "the web application is not included");
    Ok(())
}

/// Returns the dynamic linker and the shared libraries of a program.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let printed = process::capture_output(Command::new("ldd").arg(program))?;
    let paths = printed.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    Ok(paths.collect())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::copy(from, to).map(drop).with_context(|| format!("cannot copy `{}`", from.display()))
}

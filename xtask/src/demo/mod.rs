//! `cargo xtask demo`: the service with sample traces, on this machine, in seconds.

mod api;
mod cast;
mod check;
mod expectations;
mod interrupt;
mod load;
mod ports;
mod processes;
mod questions;
mod report;
mod secret;
mod seed;

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::json;
use tracewarden_testkit::shop::{SEED, Shop};

use crate::{engine, process, workspace};
use api::Client;
use expectations::Expectations;
use interrupt::Interrupted;
use processes::Running;

/// What the user asked for.
#[derive(clap::Args)]
pub struct Options {
    /// Compare what each user gets with what the sample traces say, and end.
    #[arg(long)]
    check: bool,
    /// Keep the data in this directory, which must be empty or absent. Without it they are removed at the end.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

const PREFERRED_PORT: u16 = 8080;
const PREFERRED_STORE_PORT: u16 = 8123;
const PREFERRED_OTLP_PORT: u16 = 4318;

pub fn run(options: &Options) -> Result<()> {
    interrupt::install()?;
    let outcome = demonstrate(options);
    match outcome {
        // Asked for, so no failure, unless a verdict was.
        Err(error) if error.is::<Interrupted>() && !options.check => {
            eprintln!("interrupted; nothing runs any more");
            Ok(())
        }
        outcome => outcome,
    }
}

/// Everything that runs, in the order in which it must end: fields are dropped in the order of their declaration.
struct Demo {
    service: Running,
    store: Running,
    directory: Directory,
    base: String,
    otlp: String,
}

fn demonstrate(options: &Options) -> Result<()> {
    let begun = Instant::now();
    let engine = engine::ensure()?;
    let binaries = build()?;
    interrupt::check()?;
    let directory = Directory::new(options.keep.as_deref())?;
    let shop = Shop::new(SEED, now()?);
    let mut expectations = Expectations::new(&shop);

    let store_password = secret::password()?;
    let mut store = start_store(&binaries, &engine, directory.path(), &store_password)?;
    let address = store.wait_for_line("listening ")?;
    let otlp = store.wait_for_line("otlp ")?;
    say(begun, "local trace store runs");

    let admin_password = secret::password()?;
    let hash = hash_password(&binaries, &admin_password)?;
    let service_address = ports::free(PREFERRED_PORT, &[])?;
    let base = format!("http://{service_address}");
    let service = start_service(&binaries, directory.path(), service_address, &base, |command| {
        command.env("TRACEWARDEN_CLICKHOUSE_URL", &address);
        command.env("TRACEWARDEN_CLICKHOUSE_USER", "default");
        command.env("TRACEWARDEN_CLICKHOUSE_PASSWORD", &store_password);
        command.env("TRACEWARDEN_ADMIN_PASSWORD_HASH", &hash);
    })?;
    let mut demo = Demo { service, store, directory, base, otlp };

    let sent = load::send(&shop, &demo.otlp, |trace| expectations.observe(trace));
    // A store that died is the better explanation for a request that failed.
    demo.store.check()?;
    let sent = sent?;
    say(begun, &format!("{sent} sample spans in {} traces sent", expectations.traces));

    let anonymous = Client::anonymous(&demo.base);
    wait_until_ready(&mut demo, &anonymous)?;
    say(begun, "service runs");
    let accounts = seed::set_up(&anonymous, &admin_password);
    demo.service.check()?;
    let accounts = accounts?;
    say(begun, "table bound, fields marked, roles and users created");
    let query = json!({"view": "summary", "limit": 1});
    accounts.of(cast::AGENTS_OWNER)?.client.call("POST", "/traces/query", Some(&query))?;
    let first_answer = begun.elapsed();
    say(begun, "first query answered");

    let verdict = if options.check {
        let absent = shop.landmarks().absent;
        let subject = check::Subject {
            expectations: &expectations,
            accounts: &accounts,
            anonymous: &anonymous,
            absent,
        };
        check::run(&subject, first_answer)
    } else {
        let report = report::Report {
            base: &demo.base,
            otlp: &demo.otlp,
            accounts: &accounts,
            landmarks: &expectations.landmarks,
            directory: &demo.directory.path().display().to_string(),
            kept: matches!(demo.directory, Directory::Kept(_)),
            mcp: report::mcp_answers(&anonymous)?,
            web: report::web_answers(&anonymous)?,
        };
        print!("{}", report.render());
        std::io::stdout().flush()?;
        wait(&mut demo)
    };
    let ended = stop(&mut demo);
    verdict.and(ended)
}

/// Runs until Ctrl-C, or until one of the programs ends.
fn wait(demo: &mut Demo) -> Result<()> {
    while !interrupt::requested() {
        demo.service.check()?;
        demo.store.check()?;
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn stop(demo: &mut Demo) -> Result<()> {
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    let service = demo.service.stop();
    let store = demo.store.stop();
    match &demo.directory {
        Directory::Kept(path) => {
            let path = path.display();
            eprintln!("stopped; the data are kept in {path}; to look at them again:");
            eprintln!("  tracewarden-localstore --data {path}/store");
            eprintln!("  TRACEWARDEN_DATABASE_URL=sqlite:{path}/tracewarden.db tracewarden serve");
        }
        Directory::Temporary(_) => eprintln!("stopped; the data are removed"),
    }
    service.and(store)
}

fn say(begun: Instant, what: &str) {
    eprintln!("{:>6.1} s  {what}", begun.elapsed().as_secs_f64());
}

#[allow(clippy::disallowed_methods, reason = "the demo's traces are to lie in the day before it is run")]
fn now() -> Result<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?;
    u64::try_from(since.as_nanos()).context("the clock stands after 2554")
}

/// Where the demo's data are.
enum Directory {
    Temporary(tempfile::TempDir),
    Kept(PathBuf),
}

impl Directory {
    fn new(keep: Option<&Path>) -> Result<Self> {
        let Some(path) = keep else {
            let directory = tempfile::Builder::new().prefix("tracewarden-demo-").tempdir();
            return Ok(Self::Temporary(directory.context("cannot create a temporary directory")?));
        };
        std::fs::create_dir_all(path).with_context(|| format!("cannot create `{}`", path.display()))?;
        if std::fs::read_dir(path)
            .with_context(|| format!("cannot read `{}`", path.display()))?
            .next()
            .is_some()
        {
            bail!(
                "`{}` is not empty; the demo starts from nothing: choose another directory",
                path.display()
            );
        }
        Ok(Self::Kept(path.canonicalize().unwrap_or_else(|_| path.to_path_buf())))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::Kept(path) => path,
        }
    }
}

/// Builds the two programs; cargo says what it compiles.
fn build() -> Result<PathBuf> {
    let mut cargo = workspace::cargo();
    process::run(cargo.args([
        "build",
        "--release",
        "--package",
        "tracewarden",
        "--package",
        "tracewarden-localstore",
    ]))?;
    Ok(workspace::target_directory()?.join("release"))
}

fn start_store(binaries: &Path, engine: &Path, directory: &Path, password: &str) -> Result<Running> {
    let listen = ports::free(PREFERRED_STORE_PORT, &[])?;
    let otlp = ports::free(PREFERRED_OTLP_PORT, &[listen])?;
    let mut command = Command::new(binaries.join("tracewarden-localstore"));
    command.arg("--data").arg(directory.join("store"));
    command.args(["--listen", &listen.to_string(), "--otlp", &otlp.to_string(), "--user", "default"]);
    command.arg("--exit-with-stdin");
    // Not as an argument: other users of the machine can read those.
    command.env("TRACEWARDEN_LOCALSTORE_PASSWORD", password).env(engine::OVERRIDE, engine);
    Running::start("tracewarden-localstore", &mut command, directory)
}

fn hash_password(binaries: &Path, password: &str) -> Result<String> {
    let mut command = Command::new(binaries.join("tracewarden"));
    command.arg("hash-password").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run `tracewarden hash-password`")?;
    if let Some(mut stdin) = child.stdin.take() {
        writeln!(stdin, "{password}").context("cannot give `tracewarden hash-password` the password")?;
    }
    let output = child.wait_with_output().context("cannot wait for `tracewarden hash-password`")?;
    let hash = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || !hash.starts_with("$argon2id$") {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`tracewarden hash-password` printed no hash ({}): {}",
            process::described(output.status),
            said.trim()
        );
    }
    Ok(hash)
}

fn start_service(
    binaries: &Path,
    directory: &Path,
    listen: SocketAddr,
    base: &str,
    configure: impl FnOnce(&mut Command),
) -> Result<Running> {
    let mut command = Command::new(binaries.join("tracewarden"));
    // Whatever is set for another instance must not reach this one.
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TRACEWARDEN_"))
    {
        command.env_remove(name);
    }
    command.arg("serve").current_dir(directory);
    command.env("TRACEWARDEN_LISTEN", listen.to_string()).env("TRACEWARDEN_PUBLIC_URL", base);
    command.env("TRACEWARDEN_DATABASE_URL", format!("sqlite:{}", directory.join("tracewarden.db").display()));
    configure(&mut command);
    Running::start("tracewarden", &mut command, directory)
}

fn wait_until_ready(demo: &mut Demo, anonymous: &Client) -> Result<()> {
    let ready = interrupt::poll(Duration::from_secs(30), || {
        demo.service.check()?;
        let answer = anonymous.send("GET", "/readyz", None, None);
        Ok(answer.ok().filter(|answer| answer.status == 200))
    })?;
    ready.with_context(|| {
        format!(
            "the service was not ready within 30 seconds; its log is in {}",
            demo.directory.path().display()
        )
    })?;
    Ok(())
}

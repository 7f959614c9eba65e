//! `cargo xtask demo`: runs the service with sample traces on this machine within seconds.

mod check;
mod company;
mod demo_users;
mod expectations;
pub mod load;
mod queries;
mod report;
mod seed;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::json;
use tracewarden_sample_data::{SEED, SPANS, Shop};

use crate::engine;
use crate::programs::Profile;
use crate::stack::api::Client;
use crate::stack::external_store::{self, ExternalStore};
use crate::stack::interrupt::{self, Interrupted};
use crate::stack::{self, Stack};
use company::Company;
pub use demo_users::ADMINISTRATOR;
use expectations::Expectations;
use seed::Accounts;

/// Options of the demo.
#[derive(Default, clap::Args)]
pub struct Options {
    /// Compare the responses for each user with the sample traces, and exit.
    #[arg(long)]
    check: bool,
    /// Keep the data in this directory, which must be empty or absent. By default, the data are removed at the end.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Use this ClickHouse server in place of the local store, such as `http://user:password@localhost:8123`. The demo creates
    /// the database `tracewarden_demo` there.
    #[arg(long, value_name = "URL")]
    clickhouse: Option<String>,
    /// Start an identity provider as well, with which a person can sign in.
    #[arg(long)]
    identity: bool,
}

pub fn run(options: &Options) -> Result<()> {
    interrupt::install()?;
    let outcome = demonstrate(options);
    match outcome {
        // An interruption is not a failure, except of `--check`, which must report a result.
        Err(error) if error.is::<Interrupted>() && !options.check => {
            eprintln!("interrupted; all programs have stopped");
            Ok(())
        }
        outcome => outcome,
    }
}

/// The running programs and their data. Fields are dropped in declaration order, so that the programs stop before the data are
/// removed.
pub struct Demo {
    pub stack: Stack,
    company: Option<Company>,
    directory: Directory,
    shop: Shop,
    expectations: Expectations,
    anonymous: Client,
    pub accounts: Accounts,
    /// Path of the service's program.
    program: PathBuf,
    first_answer: Duration,
    /// The ClickHouse server that is used in place of the local store.
    server: Option<ExternalStore>,
}

impl Demo {
    /// Starts and configures everything. The service is ready afterwards.
    pub fn start(options: &Options) -> Result<Self> {
        let begun = Instant::now();
        let server = options.clickhouse.as_deref().map(ExternalStore::connect).transpose()?;
        eprintln!(
            "building the web application, the service and the local store: some 4 minutes on two cores the first \
             time, seconds later"
        );
        let engine = engine::ensure()?;
        let binaries = stack::build(Profile::Dev)?;
        print_step(begun, "programs built");
        interrupt::check()?;
        let directory = Directory::new(options.keep.as_deref())?;
        let mut company = options.identity.then(|| Company::start(directory.path())).transpose()?;
        if company.is_some() {
            print_step(begun, "identity provider runs");
        }
        let settings = company.as_ref().map(Company::settings).unwrap_or_default();
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let shop = Shop::new(SEED, now()?);
        let mut expectations = Expectations::new(&shop);

        let traces = shop.traces().inspect(|trace| expectations.observe(trace));
        let (mut stack, sent) = match &server {
            Some(server) => {
                Stack::start_on(server, &binaries, &engine, directory.path(), &settings, |otlp| {
                    load::send(traces, SPANS, otlp)
                })?
            }
            None => {
                let mut stack = Stack::start(&binaries, &engine, directory.path(), &settings)?;
                stack.check()?;
                print_step(begun, "local store runs");
                let sent = load::send(traces, SPANS, &stack.otlp);
                // If ClickHouse has exited, that error explains a failed request better.
                stack.check()?;
                (stack, sent?)
            }
        };
        print_step(begun, &format!("{sent} sample spans in {} traces sent", expectations.traces));

        let anonymous = Client::anonymous(&stack.base);
        stack.wait_until_ready(&anonymous)?;
        print_step(begun, "service runs");
        let database = if server.is_some() { external_store::DATABASE } else { seed::LOCAL_DATABASE };
        let accounts = seed::set_up(&anonymous, &stack.admin_password, database);
        stack.check()?;
        let accounts = accounts?;
        seed::write_key_file(directory.path(), &accounts)?;
        if let Some(company) = &mut company {
            company.set_up(&stack.base, &accounts.of(ADMINISTRATOR)?.client)?;
        }
        print_step(begun, "table bound, fields marked, roles and users created");
        let query = json!({"view": "summary", "limit": 1});
        accounts.of(demo_users::AGENT_OWNER)?.client.call("POST", "/traces/query", Some(&query))?;
        let first_answer = begun.elapsed();
        print_step(begun, "first query answered");
        let program = binaries.join("tracewarden");
        Ok(Self {
            stack,
            company,
            directory,
            shop,
            expectations,
            anonymous,
            accounts,
            program,
            first_answer,
            server,
        })
    }

    /// Returns the named traces of the sample.
    pub fn landmarks(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        self.shop.landmarks().named().into_iter().map(|(name, id)| (name, id.to_string()))
    }
}

fn demonstrate(options: &Options) -> Result<()> {
    let mut demo = Demo::start(options)?;
    let verdict = if options.check { check(&demo) } else { report(&demo).and_then(|()| wait(&mut demo)) };
    let ended = stop(&mut demo);
    verdict.and(ended)
}

fn check(demo: &Demo) -> Result<()> {
    let subject = check::DemoUnderTest {
        expectations: &demo.expectations,
        accounts: &demo.accounts,
        anonymous: &demo.anonymous,
        absent: demo.shop.landmarks().absent,
        window: demo.shop.window(),
        base: &demo.stack.base,
        program: &demo.program,
        company: demo.company.as_ref(),
    };
    check::run(&subject, demo.first_answer)
}

fn report(demo: &Demo) -> Result<()> {
    let report = report::Report {
        base: &demo.stack.base,
        otlp: (!demo.stack.otlp.is_empty()).then_some(demo.stack.otlp.as_str()),
        removal: demo.server.as_ref().map(ExternalStore::removal),
        accounts: &demo.accounts,
        company: demo.company.as_ref(),
        landmarks: &demo.expectations.landmarks,
        directory: &demo.directory.path().display().to_string(),
        kept: matches!(demo.directory, Directory::Kept(_)),
        web: report::web_answers(&demo.anonymous)?,
        program: &as_typed(&demo.program),
    };
    print!("{}", report.render());
    std::io::stdout().flush()?;
    Ok(())
}

/// Returns the path of a program, relative to the current directory if possible.
fn as_typed(program: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    program.strip_prefix(here).unwrap_or(program).display().to_string()
}

/// Waits for Ctrl-C, or until one of the programs exits.
fn wait(demo: &mut Demo) -> Result<()> {
    while !interrupt::requested() {
        demo.stack.check()?;
        demo.company.as_mut().map_or(Ok(()), Company::check)?;
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn stop(demo: &mut Demo) -> Result<()> {
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    let ended = demo.stack.stop().and(demo.company.as_mut().map_or(Ok(()), Company::stop));
    if let Some(server) = &demo.server {
        eprintln!("the database `{}` is still on the server; to remove it:", external_store::DATABASE);
        eprintln!("  {}", server.removal());
    }
    match &demo.directory {
        Directory::Kept(path) => {
            let path = path.display();
            eprintln!("stopped; the data are kept in {path}; to use them again:");
            eprintln!("  tracewarden-localstore --data {path}/store");
            eprintln!("  TRACEWARDEN_DATABASE_URL=sqlite:{path}/tracewarden.db tracewarden serve");
        }
        Directory::Temporary(_) => eprintln!("stopped; the data are removed"),
    }
    ended
}

fn print_step(begun: Instant, what: &str) {
    eprintln!("{:>6.1} s  {what}", begun.elapsed().as_secs_f64());
}

#[allow(clippy::disallowed_methods, reason = "the demo's traces are to lie in the day before it is run")]
pub fn now() -> Result<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    u64::try_from(since.as_nanos()).context("the clock is after 2554")
}

/// Directory of the demo's data.
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
            bail!("`{}` is not empty; the demo needs an empty directory: choose another one", path.display());
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

//! `cargo xtask soak users`: two replicas with PostgreSQL and a ClickHouse that continuously receives spans. Users perform all
//! operations concurrently, while roles change and each program is restarted. Every response is compared with the written spans
//! and the user's policies.

mod administrator;
mod caller;
mod expected_access;
mod fault_injection;
mod policies;
mod random;
mod records;
mod report;
mod resource_monitor;
mod set_up;
mod shared;
mod spans;
mod user;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine as _;
use tracewarden_testkit::postgres::Database;

use crate::engine;
use crate::programs::Profile;
use crate::stack::{self, interrupt};
use fault_injection::SoakProcesses;
use resource_monitor::ResourceMonitor;
use set_up::SoakSetup;
use shared::{SharedState, lock};

/// Options of the soak.
#[derive(clap::Args)]
pub struct Options {
    /// Duration in minutes.
    #[arg(long, default_value_t = 120)]
    minutes: u64,
    /// Number of users, in addition to three administrators.
    #[arg(long, default_value_t = 50)]
    users: usize,
    /// Average pause of a user in seconds, for reading the results. With short pauses on two cores, the measured times are mostly
    /// queueing.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    pause: u64,
    /// Random seed. It makes the order of actions as reproducible as concurrent processes allow.
    #[arg(long)]
    seed: Option<u64>,
    /// Directory of already built programs.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

impl Options {
    fn binaries(&self, debug: bool) -> Result<PathBuf> {
        if let Some(directory) = &self.programs {
            ensure!(!debug, "`--programs` selects the builds; leave `--debug` out");
            return directory.canonicalize().with_context(|| format!("no `{}`", directory.display()));
        }
        stack::build(if debug { Profile::Dev } else { Profile::Release })
    }
}

/// Runs the soak and prints the results.
pub fn run(options: &Options, debug: bool) -> Result<()> {
    interrupt::install()?;
    let binaries = options.binaries(debug)?;
    let seed = match options.seed {
        Some(seed) => seed,
        None => crate::demo::now()?,
    };
    println!(
        "soak users: {} minutes, {} users, {} s between the requests of each, --seed {seed}, {}",
        options.minutes,
        options.users,
        options.pause,
        binaries.display()
    );
    let directory = tempfile::Builder::new().prefix("tracewarden-soak-").tempdir()?;
    let engine = engine::ensure()?;
    let begun = Instant::now();
    let mut setup = set_up::set_up(&binaries, &engine, directory.path(), options.users, seed)?;
    setup.shared.pause = options.pause;
    println!("set up in {:.0} s", begun.elapsed().as_secs_f64());
    let outcome = soak(setup, Duration::from_secs(options.minutes * 60));
    if outcome.is_err() {
        println!("the logs are kept in {}", directory.keep().display());
    }
    outcome
}

fn soak(setup: SoakSetup, length: Duration) -> Result<()> {
    let SoakSetup { shared, mut processes, database, users, administrators } = setup;
    let shared = &shared;
    let otlp = processes.store.otlp.clone();
    let first = records::head(&database)?;
    let (mut resource_monitor, mut heads) = (ResourceMonitor::default(), vec![first.clone()]);
    let begun = Instant::now();
    thread::scope(|scope| -> Result<()> {
        let mut threads = Vec::new();
        threads.push(scope.spawn(move || spans::run_until_end(shared, &otlp)));
        for user in users {
            let user = user.with(shared);
            threads.push(scope.spawn(move || user.run_until_end()));
        }
        for administrator in administrators {
            let administrator = administrator.with(shared);
            threads.push(scope.spawn(move || administrator.run_until_end()));
        }
        let processes = &mut processes;
        let fault_injector = scope.spawn(move || {
            let outcome = processes.inject_fault(shared, length);
            // If a program does not come back, the users stop.
            outcome.inspect_err(|_| shared.finish())
        });
        print_progress(shared, &database, begun, length, &mut resource_monitor, &mut heads);
        shared.finish();
        for thread in threads {
            if thread.join().is_err() {
                shared.wrong("a thread of the soak panicked".to_owned());
            }
        }
        fault_injector.join().map_err(|_| anyhow!("the thread that restarts programs panicked"))?
    })?;
    let duration = begun.elapsed();
    finish(shared, &mut processes, &database, &heads, &resource_monitor, duration)
}

/// Prints a line per minute until the soak is over, and records the head of the audit log each time.
fn print_progress(
    shared: &SharedState,
    database: &Database,
    begun: Instant,
    length: Duration,
    resource_monitor: &mut ResourceMonitor,
    heads: &mut Vec<String>,
) {
    const MINUTE: Duration = Duration::from_secs(60);
    let mut before = 0;
    while begun.elapsed() < length && !shared.is_over() {
        shared.sleep(MINUTE.min(length.saturating_sub(begun.elapsed())));
        // PostgreSQL may be down at this moment.
        if let Ok(head) = records::head(database) {
            heads.push(head);
        }
        let (mut answered, mut checked, mut refused, mut cut_off) = (0, 0, 0, 0);
        for kind in lock(&shared.kinds).values() {
            answered += (kind.without_fault.len() + kind.during_fault.len()) as u64;
            checked += kind.checked;
            refused += kind.refused;
            cut_off += kind.cut_off;
        }
        println!(
            "{:>4} min  {} answers ({} a second), {} checked, {refused} refused, {cut_off} cut off; {} traces; {}; {} wrong",
            begun.elapsed().as_secs() / 60,
            report::grouped(answered),
            (answered - before) / 60,
            report::grouped(checked),
            report::grouped(shared.written.expected_traces().len() as u64),
            resource_monitor.sample_replicas(shared, begun),
            shared.error_count()
        );
        before = answered;
    }
}

/// Performs the checks that require that all users have finished.
fn finish(
    shared: &SharedState,
    processes: &mut SoakProcesses,
    database: &Database,
    heads: &[String],
    resource_monitor: &ResourceMonitor,
    duration: Duration,
) -> Result<()> {
    let deadline_start = Instant::now();
    let mut running = running_statements(processes)?;
    while running > 0 && deadline_start.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(100));
        running = running_statements(processes)?;
    }
    shared.check(running == 0, || {
        format!("{running} statements still run in ClickHouse 10 seconds after all users have finished")
    });
    let program = processes.replicas.first().context("no replica")?.command();
    let verified = match records::verify(program, heads) {
        Ok(output_text) => output_text.lines().next().unwrap_or_default().to_owned(),
        Err(error) => {
            shared.wrong(format!("{error:#}"));
            "not verified".to_owned()
        }
    };
    let first = heads.first().map(String::as_str).unwrap_or_default();
    let (counts, wrong) = records::compare(database, first, &lock(&shared.expected_records))?;
    wrong.into_iter().for_each(|what| shared.wrong(what));
    println!("\n{}", report::kinds(&mut lock(&shared.kinds)));
    println!("{}", report::records(&counts));
    let events: Vec<String> =
        lock(&shared.events).iter().map(|(what, count)| format!("{what} {count} times")).collect();
    println!("{}", events.join(", "));
    println!("audit log: {verified}, {} noted heads", heads.len());
    match resource_monitor.compare() {
        None => println!("memory: the run was too short to compare"),
        Some(comparison) => {
            let (early, late) = comparison.megabytes;
            println!(
                "replica 1 after 20 minutes and at the end: {early} MB and {late} MB, {:?} descriptors, {:?} threads",
                comparison.descriptors, comparison.threads
            );
            comparison.growth().into_iter().for_each(|what| shared.wrong(format!("replica 1: {what}")));
        }
    }
    for replica in &mut processes.replicas {
        replica.stop().unwrap_or_else(|error| shared.wrong(format!("{error:#}")));
    }
    let error_count = shared.error_count();
    let word = if error_count == 0 { "ok    " } else { "FAILED" };
    println!("{word}  soak users: {:.1} minutes, {error_count} wrong", duration.as_secs_f64() / 60.0);
    if error_count > 0 {
        bail!("{error_count} errors were found");
    }
    Ok(())
}

/// Returns the number of statements running in ClickHouse, without this one.
fn running_statements(processes: &SoakProcesses) -> Result<u64> {
    let store = &processes.store;
    let credential = base64::engine::general_purpose::STANDARD.encode(format!("default:{}", store.password));
    let answer = ureq::post(&store.url)
        .header("authorization", format!("Basic {credential}"))
        .send("SELECT count() FROM system.processes WHERE query NOT LIKE '%system.processes%'");
    let text = answer
        .context("ClickHouse does not return the number of running statements")?
        .body_mut()
        .read_to_string()?;
    text.trim()
        .parse()
        .with_context(|| format!("ClickHouse returned `{text}` as the number of running statements"))
}

//! Fuzzing: runs the tests `fuzz::…` of all crates with inputs that libFuzzer selects by coverage.
//!
//! An ordinary run of these tests mutates seeds without feedback. Here the same tests are built with LLVM's coverage counters and
//! libFuzzer. Each target has its own process and duration, and inputs that reach new code are kept for the next run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::{process, workspace};

/// Targets to fuzz, and for how long.
#[derive(Args, Clone)]
pub struct Options {
    /// Seconds per target.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Number of targets to run in parallel. Default: the number of processors.
    #[arg(long)]
    at_once: Option<usize>,
    /// Run targets whose name contains one of these, e.g. `policy` for `policy::policies`. Default: all.
    targets: Vec<String>,
}

/// Coverage counters at every edge, and tracing of comparison operands, for libFuzzer.
const FLAGS: &str = "--cfg fuzzing --cfg fuzzing_libfuzzer -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
     -Cllvm-args=-sanitizer-coverage-pc-table";

/// Time limit for one input in seconds. Without these counters, the tests have a stricter limit of their own.
const LONGEST_INPUT: u64 = 20;
/// Memory limit of a process in MiB. An input that exceeds it causes unbounded growth.
const MOST_MEMORY: u64 = 2_048;

/// A test that is a fuzz target.
struct Target {
    program: PathBuf,
    /// Name of the test in the test harness.
    test: String,
    /// Name of the crate and last part of the test name.
    name: String,
}

/// Results of one target's run.
#[derive(Debug, PartialEq)]
struct Figures {
    executions: u64,
    covered_by_seeds: u64,
    covered: u64,
    peak_mib: u64,
}

/// Builds the targets, runs each for its duration, and prints the results.
///
/// # Errors
/// A target failed, or reported no results. All targets are run first.
pub fn run(options: &Options) -> Result<()> {
    let directory = workspace::target_directory()?.join("fuzz");
    let mut targets = Vec::new();
    for (package, program) in build(&directory, &options.targets)? {
        targets.extend(list(&package, &program)?);
    }
    let chosen = |target: &Target| {
        options.targets.is_empty() || options.targets.iter().any(|part| target.name.contains(part.as_str()))
    };
    targets.retain(chosen);
    if targets.is_empty() {
        bail!("the name of no target contains {}", options.targets.join(" or "));
    }
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let at_once = options.at_once.unwrap_or(processors).clamp(1, targets.len());
    let rounds = targets.len().div_ceil(at_once) as u64;
    println!(
        "{} targets, {} s each, {at_once} at once: about {} minutes\n\n\
         | target | seconds | executions | places covered by the seeds, and at the end | memory | failed |\n\
         |---|---|---|---|---|---|",
        targets.len(),
        options.seconds,
        (rounds * options.seconds).div_ceil(60),
    );
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = fuzz(target, &directory, options.seconds) {
                        let failure_text = format!("{}: {error:#}", target.name);
                        if let Ok(mut failures) = failures.lock() {
                            failures.push(failure_text);
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_default();
    println!("\n{} of {} targets failed", failures.len(), targets.len());
    if !failures.is_empty() {
        bail!("{}", failures.join("\n\n"));
    }
    Ok(())
}

/// Builds the packages that may have a chosen target. Returns each with its test executable.
fn build(directory: &Path, chosen: &[String]) -> Result<Vec<(String, PathBuf)>> {
    let mut packages = packages()?;
    packages.retain(|package| may_contain_targets(directory_of(package), chosen));
    println!("building the targets of {}, with coverage", packages.join(", "));
    // A binary crate next to a library has no targets, and does not depend on a crate that could link libFuzzer.
    let (libraries, programs): (Vec<_>, Vec<_>) =
        packages.into_iter().partition(|package| has_library(package));
    let mut built = build_of("--lib", &libraries, directory)?;
    built.extend(build_of("--bins", &programs, directory)?);
    built.sort();
    Ok(built)
}

/// Whether the crate's tests are in a library.
fn has_library(package: &str) -> bool {
    workspace::root().join("crates").join(directory_of(package)).join("src/lib.rs").exists()
}

fn directory_of(package: &str) -> &str {
    package.strip_prefix("tracewarden-").unwrap_or(package)
}

/// Whether one of the package's targets may have a chosen text in its name. A text with `::` selects only the crate before it.
fn may_contain_targets(package: &str, chosen: &[String]) -> bool {
    let fits = |part: &String| part.split_once("::").is_none_or(|(named, _)| package.ends_with(named));
    chosen.is_empty() || chosen.iter().any(fits)
}

fn build_of(kind: &str, packages: &[String], directory: &Path) -> Result<Vec<(String, PathBuf)>> {
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    let mut command = workspace::cargo();
    command.args(["test", "--no-run", kind, "--profile", "fuzz"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    // With an explicit target, the flags do not apply to build scripts, which are not linked with libFuzzer.
    command.args(["--target", &host()?]).arg("--target-dir").arg(directory);
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    command.env("RUSTFLAGS", FLAGS).stderr(Stdio::inherit());
    let output = command.output().context("cannot run `cargo test`")?;
    if !output.status.success() {
        bail!("`cargo test --no-run` failed ({})", process::status_text(output.status));
    }
    let mut programs = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: Value = serde_json::from_str(line).context("the output of cargo is not JSON")?;
        let text = |pointer| message.pointer(pointer).and_then(Value::as_str);
        let tested = message.pointer("/profile/test").and_then(Value::as_bool);
        let (Some(program), Some(manifest), Some(true)) =
            (text("/executable"), text("/manifest_path"), tested)
        else {
            continue;
        };
        let package = Path::new(manifest).parent().and_then(Path::file_name).unwrap_or_default();
        programs.push((package.to_string_lossy().into_owned(), PathBuf::from(program)));
    }
    Ok(programs)
}

/// Returns the crates with a module of fuzz targets.
fn packages() -> Result<Vec<String>> {
    let metadata = workspace::metadata()?;
    let members = metadata.get("packages").and_then(Value::as_array).context("cargo lists no packages")?;
    let mut packages = BTreeSet::new();
    for member in members {
        let text = |name| member.get(name).and_then(Value::as_str).unwrap_or_default();
        if Path::new(text("manifest_path")).with_file_name("src").join("fuzz.rs").exists() {
            packages.insert(text("name").to_owned());
        }
    }
    Ok(packages.into_iter().collect())
}

fn host() -> Result<String> {
    let mut command = workspace::cargo();
    let versions = process::capture_output(command.args(["--version", "--verbose"]))?;
    let host = versions.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("cargo does not print its platform")?.to_owned())
}

fn list(package: &str, program: &Path) -> Result<Vec<Target>> {
    let listed = process::capture_output(Command::new(program).args(["--list", "--format", "terse"]))?;
    let tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let of_fuzz = tests.filter(|test| test.starts_with("fuzz::"));
    let target = |test: &str| {
        let name = format!("{package}::{}", test.rsplit("::").next().unwrap_or(test));
        Target { program: program.to_owned(), test: test.to_owned(), name }
    };
    Ok(of_fuzz.map(target).collect())
}

/// Runs one target and prints its result line.
fn fuzz(target: &Target, directory: &Path, seconds: u64) -> Result<()> {
    let work_directory = directory.join("targets").join(target.name.replace("::", "/"));
    for part in ["corpus", "seeds", "failed"] {
        fs::create_dir_all(work_directory.join(part))?;
    }
    let before = inputs(&work_directory.join("failed"))?;
    // The harness splits the arguments at spaces. Relative paths are used because an absolute path may contain spaces.
    let arguments = format!(
        "-max_total_time={seconds} -timeout={LONGEST_INPUT} -rss_limit_mb={MOST_MEMORY} -detect_leaks=0 \
         -print_final_stats=1 -artifact_prefix=failed/ corpus seeds"
    );
    let mut command = Command::new(&target.program);
    command.args(["--exact", &target.test, "--test-threads=1", "--nocapture"]);
    command
        .env("BOLERO_LIBFUZZER_ARGS", arguments)
        .env("TRACEWARDEN_FUZZ_SEEDS", work_directory.join("seeds"));
    let begun = Instant::now();
    let output = command.current_dir(&work_directory).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run `{}`", target.program.display()))?;
    let libfuzzer_log = String::from_utf8_lossy(&output.stderr);
    fs::write(work_directory.join("log"), libfuzzer_log.as_bytes())?;
    let failed: Vec<PathBuf> = inputs(&work_directory.join("failed"))?.difference(&before).cloned().collect();
    let figures = figures(&libfuzzer_log);
    if let Some(Figures { executions, covered_by_seeds, covered, peak_mib }) = figures {
        println!(
            "| {} | {} | {executions} | {covered_by_seeds}, {covered} | {peak_mib} MiB | {} |",
            target.name,
            begun.elapsed().as_secs(),
            failed.len(),
        );
    }
    if output.status.success() && failed.is_empty() && figures.is_some() {
        return Ok(());
    }
    let mut failure_text =
        format!("{}\n{}", process::status_text(output.status), failure_message(&libfuzzer_log));
    for path in failed {
        let input = fs::read(&path)?;
        let shown = input.get(..400).unwrap_or(&input).escape_ascii();
        failure_text += &format!(
            "\nfailed on {} bytes in {}: b\"{shown}\"; copy it to crates/{}, and the ordinary test fails too",
            input.len(),
            path.display(),
            target.name.replacen("::", "/fuzz/", 1),
        );
    }
    bail!(failure_text)
}

/// Extracts the reason of a failure: the panic without its backtrace, otherwise the end of the output.
fn failure_message(libfuzzer_log: &str) -> String {
    let lines: Vec<&str> = libfuzzer_log.lines().collect();
    let is_of_stack =
        |line: &str| line.trim_start().split_once(": ").is_some_and(|(at, _)| at.parse::<u32>().is_ok());
    let panic = lines.iter().position(|line| line.contains("panicked at "));
    let failure_text: Vec<&str> = match panic {
        Some(at) => lines.iter().skip(at).take_while(|line| !is_of_stack(line)).take(30).copied().collect(),
        None => lines.iter().skip(lines.len().saturating_sub(30)).copied().collect(),
    };
    failure_text.join("\n")
}

fn inputs(directory: &Path) -> Result<BTreeSet<PathBuf>> {
    Ok(fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?)
}

/// Parses libFuzzer's statistics.
fn figures(libfuzzer_log: &str) -> Option<Figures> {
    let covered = |line: &str| line.split("cov: ").nth(1)?.split_whitespace().next()?.parse::<u64>().ok();
    let stat = |name: &str| {
        let line = libfuzzer_log.lines().find(|line| line.starts_with(name))?;
        line.rsplit(' ').next()?.parse::<u64>().ok()
    };
    let seeds = libfuzzer_log.lines().find(|line| line.contains("INITED"));
    let last = libfuzzer_log.lines().rev().find(|line| line.starts_with('#') && line.contains("cov: "));
    Some(Figures {
        executions: stat("stat::number_of_executed_units:")?,
        covered_by_seeds: seeds.and_then(covered)?,
        covered: last.and_then(covered)?,
        peak_mib: stat("stat::peak_rss_mb:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_crates_that_are_meant_are_built() {
        let chosen = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        assert!(may_contain_targets("rest", &[]) && may_contain_targets("rest", &chosen(&["bodies"])));
        assert!(
            may_contain_targets("rest", &chosen(&["mcp::", "rest::"]))
                && may_contain_targets("rest", &chosen(&["st::bodies"]))
        );
        assert!(!may_contain_targets("rest", &chosen(&["mcp::", "tracewarden::"])));
    }

    #[test]
    fn figures_are_read_from_what_libfuzzer_prints() {
        let libfuzzer_log = "INFO: seed corpus: files: 9 min: 1b max: 31b total: 120b rss: 54Mb\n\
             #10\tINITED cov: 251 ft: 311 corp: 8/112b exec/s: 0 rss: 55Mb\n\
             #524288\tpulse  cov: 559 ft: 2041 corp: 411/9184b lim: 2048 exec/s: 9362 rss: 402Mb\n\
             #674745\tDONE   cov: 560 ft: 2051 corp: 420/9301b lim: 2611 exec/s: 5576 rss: 405Mb\n\
             Done 674745 runs in 121 second(s)\n\
             stat::number_of_executed_units: 674745\n\
             stat::average_exec_per_sec:     5576\n\
             stat::peak_rss_mb:              405\n";
        let read = Figures { executions: 674_745, covered_by_seeds: 251, covered: 560, peak_mib: 405 };
        assert_eq!(figures(libfuzzer_log), Some(read));
        assert_eq!(figures("no test is of that name"), None);
    }

    #[test]
    fn the_message_of_a_panic_is_reported() {
        let libfuzzer_log =
            "#7\tNEW cov: 5\n\npanicked at src/a.rs:1:2:\nleft: 1\n   0: core::panic\n  at b\nSUMMARY: x";
        assert_eq!(failure_message(libfuzzer_log), "panicked at src/a.rs:1:2:\nleft: 1");
        assert_eq!(failure_message("a\nSUMMARY: timeout"), "a\nSUMMARY: timeout");
    }

    #[test]
    fn crates_with_targets_are_found() {
        let packages = packages().unwrap();
        assert!(packages.iter().any(|package| package == "tracewarden-policy"), "{packages:?}");
        assert!(!packages.iter().any(|package| package == "tracewarden-testkit"), "{packages:?}");
    }
}

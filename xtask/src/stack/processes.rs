//! Child processes of development commands. They never outlive the command.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::interrupt;
use crate::process::status_text;

/// Time limit for a program to exit after it was asked to.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A program that runs until this value is dropped.
pub struct ManagedProcess {
    name: &'static str,
    child: Child,
    /// Standard input. Closing it ends the local store.
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    log: PathBuf,
}

impl ManagedProcess {
    /// Starts a program with its standard error in a log file. Its standard output is read by this process.
    pub fn start(name: &'static str, command: &mut Command, logs: &Path) -> Result<Self> {
        let log = logs.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot create `{}`", log.display()))?;
        // In its own process group, the program does not receive the terminal's Ctrl-C. This process determines the order of
        // termination.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = channel();
        if let Some(stdout) = stdout {
            // Reads until the program exits. A program whose output is not read would block.
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    // The receiver is dropped once the program is ready.
                    let _ = sender.send(line);
                }
            });
        }
        Ok(Self { name, child, stdin, lines, log })
    }

    /// Writes a line to standard input.
    pub fn send_line(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().with_context(|| format!("{} was stopped", self.name))?;
        writeln!(stdin, "{line}").with_context(|| format!("cannot write to {}", self.name))
    }

    /// Waits for a line of standard output with this prefix, and returns the rest of the line.
    pub fn wait_for_line(&mut self, beginning: &str) -> Result<String> {
        let found = interrupt::poll(Duration::from_secs(60), || match self.lines.try_recv() {
            Ok(line) => Ok(line.strip_prefix(beginning).map(|rest| rest.trim().to_owned())),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => self.check().map(|()| None),
        })?;
        found.with_context(|| {
            format!("{} did not become ready within a minute; its log is `{}`", self.name, self.log.display())
        })
    }

    /// Returns an error with the end of the log if the program has exited.
    pub fn check(&mut self) -> Result<()> {
        let status =
            self.child.try_wait().with_context(|| format!("cannot check the state of {}", self.name))?;
        let Some(status) = status else { return Ok(()) };
        bail!(
            "{} has ended ({}); the end of its log:\n{}",
            self.name,
            status_text(status),
            self.end_of_log()
        );
    }

    fn end_of_log(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last: Vec<&str> = lines.iter().rev().take(20).rev().copied().collect();
        last.iter().map(|line| format!("  {line}\n")).collect()
    }

    /// Returns the path of the log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Peak memory in bytes, as reported by Linux.
    pub fn peak_memory(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`"))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map(str::trim);
        let kilobytes =
            peak.and_then(|text| text.strip_suffix(" kB")).and_then(|text| text.parse::<u64>().ok());
        Ok(kilobytes.with_context(|| format!("`{path}` does not contain the peak memory"))? * 1024)
    }

    /// Processor time that the program has used, as reported by Linux.
    pub fn processor_time(&self) -> Result<Duration> {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`"))?;
        // The program name, which ends with the parenthesis, may contain spaces. The 12th and 13th fields after it are the user
        // and system time in ticks.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        let ticks = fields.skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>();
        let ticks = ticks.with_context(|| format!("`{path}` does not contain the processor time"))?;
        Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }

    /// Returns the process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Kills the program immediately, as `kill -9` does, and waits until it has exited.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks the program to exit, and waits. Returns an error unless it exits by itself and successfully.
    pub fn stop(&mut self) -> Result<()> {
        // The program has already exited.
        if let Ok(Some(status)) = self.child.try_wait() {
            return if status.success() {
                Ok(())
            } else {
                bail!("{} ended ({})", self.name, status_text(status))
            };
        }
        drop(self.stdin.take());
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // The program may exit before the signal is sent; the wait below detects that.
            let _ = kill_process(pid, Signal::TERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            if let Ok(Some(status)) = self.child.try_wait() {
                return if status.success() {
                    Ok(())
                } else {
                    bail!("{} ended ({})", self.name, status_text(status))
                };
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        bail!("{} did not end within {} seconds, and was killed", self.name, TIMEOUT.as_secs())
    }
}

impl Drop for ManagedProcess {
    fn drop(&mut self) {
        // Runs on every exit path, including panics. A regular stop has already called it and checked its result.
        let _ = self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (ManagedProcess, tempfile::TempDir) {
        let logs = tempfile::tempdir().unwrap();
        (
            ManagedProcess::start("example", Command::new("sh").args(["-c", script]), logs.path()).unwrap(),
            logs,
        )
    }

    fn exists(pid: u32) -> bool {
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::test_kill_process(pid).is_ok()
    }

    #[test]
    fn a_program_is_asked_to_end() {
        let (mut program, _logs) =
            shell("trap 'exit 0' TERM; echo ready http://x; while :; do sleep 0.01; done");
        assert_eq!(program.wait_for_line("ready").unwrap(), "http://x");
        program.check().unwrap();
        program.stop().unwrap();
    }

    #[test]
    fn a_program_that_dies_is_reported_with_the_end_of_its_log() {
        let (mut program, _logs) = shell("echo 'the port is taken' >&2; exit 3");
        let error = program.wait_for_line("ready").unwrap_err().to_string();
        assert!(error.contains("exit code 3") && error.contains("the port is taken"), "{error}");
    }

    #[test]
    fn dropping_ends_the_program() {
        let (mut program, _logs) = shell("echo ready; exec cat");
        program.wait_for_line("ready").unwrap();
        let pid = program.child.id();
        assert!(exists(pid));
        drop(program);
        assert!(!exists(pid));
    }
}

//! A server process that ends with the process that started it, also when that process is killed, and whose folder is then
//! removed.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Runs the server until a line arrives with the signal to stop it, or until the pipe closes because its owner exited for any
/// reason. In the latter case the folder is removed too. The server's process id is written to a file.
const SUPERVISOR: &str = r#"
directory=$1; orphaned=$2; shift 2
trap '' INT TERM HUP
"$@" </dev/null >>"$directory/log" 2>&1 &
server=$!
echo "$server" >"$directory/server"
if read -r signal; then kill "-$signal" "$server"; wait "$server"
else kill "-$orphaned" "$server"; wait "$server"; rm -rf "$directory"; fi
"#;

/// Interval of the readiness checks while a server starts.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running server.
pub(crate) struct SupervisedProcess {
    supervisor: Child,
    stdin: ChildStdin,
    directory: PathBuf,
}

impl SupervisedProcess {
    /// Starts `program` with its arguments. `shell` is `sh`, with the environment and user for the server. The server's output is
    /// appended to `log` in `directory`. If this process ends without stopping the server, the server gets the signal `orphan_signal`.
    ///
    /// # Errors
    /// When the shell cannot be started.
    pub(crate) fn start(
        mut shell: Command,
        directory: &Path,
        orphan_signal: &str,
        program: &[&OsStr],
    ) -> Result<Self, String> {
        // A crash may have left this file. That server has exited, because its keeper was waited for.
        let _ = fs::remove_file(directory.join("server"));
        shell.args(["-c", SUPERVISOR, "sh"]).arg(directory).arg(orphan_signal).args(program);
        // In its own process group: Ctrl-C ends the tests, and their end stops the server.
        shell.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut supervisor = shell.spawn().map_err(|error| format!("cannot start `sh`: {error}"))?;
        let stdin = supervisor.stdin.take().ok_or("no pipe to `sh`")?;
        Ok(Self { supervisor, stdin, directory: directory.to_owned() })
    }

    /// Waits until `ready` returns true. Returns false if the server exits first or takes longer than `timeout`.
    pub(crate) fn wait_until(&mut self, timeout: Duration, mut ready: impl FnMut() -> bool) -> bool {
        let started = Instant::now();
        while started.elapsed() < timeout {
            if ready() {
                return true;
            }
            if self.has_ended() {
                return false;
            }
            sleep(POLL_INTERVAL);
        }
        false
    }

    /// Whether the server exited by itself, for example because a port was taken. It is then a zombie, because its keeper still
    /// waits for a line.
    fn has_ended(&mut self) -> bool {
        if !matches!(self.supervisor.try_wait(), Ok(None)) {
            return true;
        }
        let Some(number) = self.process() else { return false };
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_none_or(|state| state == 'Z')
    }

    /// Returns the server's process id, once it is written.
    pub(crate) fn process(&self) -> Option<u32> {
        let number = fs::read_to_string(self.directory.join("server")).ok()?;
        // Without a line end, the file is not written completely.
        number.strip_suffix('\n')?.parse().ok()
    }

    /// Stops the server with a signal (`TERM`, `KILL`) and waits until it has exited.
    pub(crate) fn stop(mut self, signal: &str) {
        let _ = writeln!(self.stdin, "{signal}");
        let _ = self.supervisor.wait();
    }

    /// Does the same as the end of this process: the server gets the signal for that, and its folder is removed.
    pub(crate) fn abandon(mut self) {
        drop(self.stdin);
        let _ = self.supervisor.wait();
    }
}

/// Creates an empty folder for a server of this name.
///
/// # Errors
/// When the folder cannot be created.
pub(crate) fn new_directory(name: &str) -> Result<PathBuf, String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("tracewarden-{name}-{}-{number}", std::process::id()));
    // An earlier process with the same id may have left one behind.
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory)
        .map_err(|error| format!("cannot create `{}`: {error}", directory.display()))?;
    Ok(directory)
}

/// Returns the last lines of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let mut lines: Vec<&str> = text.lines().rev().take(count).collect();
    lines.reverse();
    lines.join("\n")
}

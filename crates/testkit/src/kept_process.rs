//! A server that ends with the process that started it, also when that process is killed, and whose folder goes with it.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Runs the server until a line arrives, which names the signal to end it by, or until the pipe closes because its owner
/// has ended, in whatever way: then the folder is removed too. The server's process number is left in a file.
const KEEPER: &str = r#"
directory=$1; orphaned=$2; shift 2
trap '' INT TERM HUP
"$@" </dev/null >>"$directory/log" 2>&1 &
server=$!
echo "$server" >"$directory/server"
if read -r signal; then kill "-$signal" "$server"; wait "$server"
else kill "-$orphaned" "$server"; wait "$server"; rm -rf "$directory"; fi
"#;

/// How often a starting server is asked whether it is ready.
const POLL: Duration = Duration::from_millis(5);

/// A running server.
pub(crate) struct KeptProcess {
    keeper: Child,
    stdin: ChildStdin,
    directory: PathBuf,
}

impl KeptProcess {
    /// Starts `program` with its arguments. `shell` is `sh`, with the environment and user that the server gets. Its output
    /// is appended to `log` in `directory`. If this process ends without stopping it, it gets the signal `orphaned`.
    ///
    /// # Errors
    /// When the shell cannot be started.
    pub(crate) fn start(
        mut shell: Command,
        directory: &Path,
        orphaned: &str,
        program: &[&OsStr],
    ) -> Result<Self, String> {
        // Left by a crash; its process has ended, since its keeper was waited for.
        let _ = fs::remove_file(directory.join("server"));
        shell.args(["-c", KEEPER, "sh"]).arg(directory).arg(orphaned).args(program);
        // In a group of its own: Ctrl-C ends the tests, and their end the server.
        shell.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut keeper = shell.spawn().map_err(|error| format!("cannot start `sh`: {error}"))?;
        let stdin = keeper.stdin.take().ok_or("no pipe to `sh`")?;
        Ok(Self { keeper, stdin, directory: directory.to_owned() })
    }

    /// Waits until `ready`; false when the server ends first or takes longer than `within`.
    pub(crate) fn wait_until(&mut self, within: Duration, mut ready: impl FnMut() -> bool) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < within {
            if ready() {
                return true;
            }
            if self.has_ended() {
                return false;
            }
            sleep(POLL);
        }
        false
    }

    /// Whether the server has ended by itself, such as for a port that is taken. Its keeper, which waits for a line, leaves
    /// it a zombie.
    fn has_ended(&mut self) -> bool {
        if !matches!(self.keeper.try_wait(), Ok(None)) {
            return true;
        }
        let Some(number) = self.process() else { return false };
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_none_or(|state| state == 'Z')
    }

    /// The server's process number, once it is written.
    pub(crate) fn process(&self) -> Option<u32> {
        let number = fs::read_to_string(self.directory.join("server")).ok()?;
        // Without the end of its line it is not written yet.
        number.strip_suffix('\n')?.parse().ok()
    }

    /// Ends the server with a signal (`TERM`, `KILL`) and waits until it has ended.
    pub(crate) fn stop(mut self, signal: &str) {
        let _ = writeln!(self.stdin, "{signal}");
        let _ = self.keeper.wait();
    }

    /// As when this process ends: the server gets the signal for that, and its folder is removed.
    pub(crate) fn abandon(mut self) {
        drop(self.stdin);
        let _ = self.keeper.wait();
    }
}

/// An empty folder for a server of this name.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn new_directory(name: &str) -> Result<PathBuf, String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("tracewarden-{name}-{}-{number}", std::process::id()));
    // A process of the same number may have left one behind.
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory)
        .map_err(|error| format!("cannot create `{}`: {error}", directory.display()))?;
    Ok(directory)
}

/// The last lines of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let mut lines: Vec<&str> = text.lines().rev().take(count).collect();
    lines.reverse();
    lines.join("\n")
}

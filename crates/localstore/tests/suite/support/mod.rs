//! Starts the real binary for a test and sends requests to it.
#![allow(dead_code)] // Each test file uses a part.

pub mod raw;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tracewarden_testkit::python::prepared_python;

pub use raw::Answer;

/// A running store with its own data directory. It ends with the test, also if the test panics or is killed, because
/// its standard input is closed.
pub struct Store {
    child: Child,
    pub data: PathBuf,
    pub address: String,
    pub otlp: Option<String>,
    _directory: Option<tempfile::TempDir>,
}

/// Environment variable for a password that is not given as an argument.
pub const PASSWORD_VARIABLE: &str = "TRACEWARDEN_LOCALSTORE_PASSWORD";

pub fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tracewarden-localstore"))
}

impl Store {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut store = Self::start_on(directory.path(), arguments);
        store._directory = Some(directory);
        store
    }

    /// Starts on a directory that the caller owns.
    pub fn start_on(data: &Path, arguments: &[&str]) -> Self {
        Self::start_in(Path::new("."), data, arguments)
    }

    /// Starts in a working directory, to which `data` may be relative.
    pub fn start_in(working: &Path, data: &Path, arguments: &[&str]) -> Self {
        let mut command = binary();
        command.current_dir(working).env_remove(PASSWORD_VARIABLE);
        Self::launch(command, data, arguments)
    }

    /// Starts with a password in the environment.
    pub fn start_with_password(password: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut command = binary();
        command.env(PASSWORD_VARIABLE, password);
        let mut store = Self::launch(command, directory.path(), &[]);
        store._directory = Some(directory);
        store
    }

    fn launch(mut command: Command, data: &Path, arguments: &[&str]) -> Self {
        let mut child = command
            .args(["--listen", "127.0.0.1:0", "--exit-with-stdin", "--data"])
            .arg(data)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take().expect("stdout");
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut next = |prefix: &str| -> String {
            match lines.recv_timeout(Duration::from_secs(30)) {
                Ok(line) => line
                    .strip_prefix(prefix)
                    .unwrap_or_else(|| panic!("expected `{prefix}`, got `{line}`"))
                    .to_owned(),
                Err(_) => {
                    let _ = child.kill();
                    let mut text = String::new();
                    let _ = child.stderr.take().expect("stderr").read_to_string(&mut text);
                    // If the engine is missing, this text says to run `cargo xtask engine`.
                    panic!("the store did not start: {text}");
                }
            }
        };
        let address = next("listening http://");
        let otlp = arguments
            .contains(&"--otlp")
            .then(|| next("otlp http://").strip_suffix("/v1/traces").expect("the path").to_owned());
        Self { child, data: data.to_owned(), address, otlp, _directory: None }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn otlp_address(&self) -> &str {
        self.otlp.as_deref().expect("started with --otlp")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a statement; `parameters` is the URL's query without `?`.
    pub fn post(&self, parameters: &str, body: impl AsRef<[u8]>) -> Answer {
        raw::request(&self.address, "POST", &format!("/?{parameters}"), &[], body.as_ref())
    }

    /// Returns the text of a successful response, without the last line break.
    pub fn text(&self, statement: &str) -> String {
        let answer = self.post("", statement);
        assert_eq!(answer.status, 200, "{statement}: {}", answer.text());
        answer.text().trim_end_matches('\n').to_owned()
    }

    /// Kills the process with `SIGKILL`.
    pub fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    pub fn signal(&self, name: &str) {
        let status =
            Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status().expect("kill");
        assert!(status.success());
    }

    pub fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for the process to exit by itself.
    pub fn wait(&mut self, limit: Duration) -> std::process::ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status;
            }
            assert!(start.elapsed() < limit, "the store still runs after {limit:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits at most `limit` until a statement returns `expected`. Returns the elapsed time.
    pub fn wait_for(&self, statement: &str, expected: &str, limit: Duration) -> Duration {
        let start = Instant::now();
        while self.text(statement) != expected {
            assert!(start.elapsed() < limit, "{statement} is not {expected} after {limit:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        start.elapsed()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a script of `tests/python`; on failure, panics with its output.
pub fn run_python(script: &str, arguments: &[&str]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(script);
    let output = Command::new(prepared_python().expect("Python is prepared"))
        .arg(path)
        .args(arguments)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("Python runs");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script} failed:\n{text}");
    text
}

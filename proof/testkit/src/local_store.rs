//! A real `tracewarden-localstore` process on free ports, with its own data directory, which is removed with it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The running process. It is stopped when dropped, and also when this process ends without dropping it.
pub struct LocalStore {
    child: Child,
    directory: PathBuf,
    /// Base URL of ClickHouse's HTTP interface.
    pub url: String,
    /// URL for OTLP traces.
    pub otlp: String,
    /// Password of the user `default`.
    pub password: String,
}

impl LocalStore {
    /// Starts the binary that was built next to the current one and waits until it responds.
    ///
    /// # Errors
    /// When the binary does not exist or does not start; the message says what to do.
    pub fn start() -> Result<Self, String> {
        Self::launch(empty_directory(), None)
    }

    /// As [`Self::start`], with the engine's user as `users` defines it and with further sections of the engine's `config.xml`. There
    /// is no OTLP receiver, and so no table for its spans.
    ///
    /// # Errors
    /// As [`Self::restart_with`].
    pub fn start_with(users: &str, sections: &str) -> Result<Self, String> {
        Self::configure(empty_directory(), users, sections)
    }

    /// Restarts the process on the same data, with the engine's user (settings, grants) as `users` defines it in the format of
    /// `users.xml`. There is no OTLP receiver then, because it writes as that user.
    ///
    /// # Errors
    /// When the files cannot be written or the process does not start.
    pub fn restart_as(self, users: &str) -> Result<Self, String> {
        self.restart_with(users, "")
    }

    /// As [`Self::restart_as`], with further sections of the engine's `config.xml`, such as clusters.
    ///
    /// # Errors
    /// When the files cannot be written or the process does not start.
    pub fn restart_with(mut self, users: &str, sections: &str) -> Result<Self, String> {
        self.kill();
        let directory = std::mem::take(&mut self.directory);
        Self::configure(directory, users, sections)
    }

    fn configure(directory: PathBuf, users: &str, sections: &str) -> Result<Self, String> {
        let configuration = directory.join("configuration");
        let users_path = configuration.join("users.xml");
        let config = format!(
            "<clickhouse><users_config>{}</users_config>{sections}</clickhouse>",
            users_path.display()
        );
        std::fs::create_dir_all(&configuration)
            .and_then(|()| std::fs::write(configuration.join("config.xml"), config))
            .and_then(|()| std::fs::write(&users_path, users))
            .map_err(|error| format!("cannot write to {}: {error}", configuration.display()))?;
        Self::launch(directory, Some(&configuration))
    }

    /// Starts the process. The engine reads `config.xml` in its working directory, if there is one.
    fn launch(directory: PathBuf, configuration: Option<&Path>) -> Result<Self, String> {
        let binary = sibling_binary("tracewarden-localstore")?;
        let password = "a password, with 'quotes'".to_owned();
        let mut command = Command::new(&binary);
        match configuration {
            None => command.args(["--otlp", "127.0.0.1:0"]),
            Some(configuration) => command.current_dir(configuration),
        };
        let mut child = command
            .args(["--listen", "127.0.0.1:0", "--exit-with-stdin", "--data"])
            .arg(directory.join("data"))
            .env("TRACEWARDEN_LOCALSTORE_PASSWORD", &password)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
        let output = child.stdout.take().ok_or("no output of the local store")?;
        let mut store = Self { child, directory, url: String::new(), otlp: String::new(), password };
        let mut lines = BufReader::new(output).lines();
        while store.url.is_empty() || (store.otlp.is_empty() && configuration.is_none()) {
            let line =
                lines.next().and_then(Result::ok).ok_or("the local store ended before it was ready")?;
            if let Some(url) = line.strip_prefix("listening ") {
                store.url = url.to_owned();
            } else if let Some(url) = line.strip_prefix("otlp ") {
                store.otlp = url.to_owned();
            }
        }
        // Keeps the pipe open, so that the process can always write its output.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(store)
    }

    /// Kills the process, which closes its ports.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.kill();
        if !self.directory.as_os_str().is_empty() {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

/// Returns the path of a directory that does not exist.
fn empty_directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("tracewarden-test-{}-{number}", std::process::id()));
    // An earlier process with the same id may have left one behind.
    let _ = std::fs::remove_dir_all(&directory);
    directory
}

/// Returns the path of another binary of this workspace in the directory of the current one.
///
/// # Errors
/// When the binary does not exist; the message contains the command that builds it.
pub fn sibling_binary(name: &str) -> Result<PathBuf, String> {
    let current =
        std::env::current_exe().map_err(|error| format!("the current binary is unknown: {error}"))?;
    let found =
        current.ancestors().skip(1).take(2).map(|directory| directory.join(name)).find(|path| is_file(path));
    found.ok_or_else(|| {
        format!(
            "there is no `{name}` beside {}: run `cargo build -p {name}`, or `cargo xtask test`",
            current.display()
        )
    })
}

fn is_file(path: &Path) -> bool {
    path.is_file()
}

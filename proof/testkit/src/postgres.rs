//! A real PostgreSQL server for tests, in a temporary folder on a free loopback port, and databases on it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::ports::ReservedPorts;
use crate::supervised_process::{SupervisedProcess, last_lines, new_directory};

/// Environment variable with the superuser's URL of the server that `cargo xtask test` started for all tests of a run.
pub const SERVER_URL: &str = "TRACEWARDEN_TEST_POSTGRES_URL";

/// The role that owns the databases of tests. It is not a superuser, as in an installation, so that grants have an effect.
pub const ROLE: &str = "tracewarden";

/// Password of [`ROLE`]. It is a canary that must never be logged, and contains no character that a URL would encode.
pub const PASSWORD: &str = "canary-of-the-postgres-password";

const SUPERUSER: &str = "postgres";
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Programs that an installation must have.
const PROGRAMS: &[&str] = &["initdb", "postgres", "psql"];

/// Tests crash the service, not the machine: committed data is at least in the kernel's memory, which survives an immediate stop
/// of the server. Only a power failure would require `fsync`.
const UNSAFE_SETTINGS: [&str; 2] = ["fsync=off", "full_page_writes=off"];

/// Settings for tests.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    UNSAFE_SETTINGS[0],
    UNSAFE_SETTINGS[1],
    "autovacuum_naptime=10min",
    "max_connections=200",
    "shared_buffers=64MB",
    "log_checkpoints=off",
    "timezone=UTC",
];

/// How to stop a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The server closes connections, rolls back open transactions and writes out its data.
    Fast,
    /// The server stops at once, as in a crash: the next start recovers from the log.
    Immediate,
}

/// The programs of a PostgreSQL installation.
#[derive(Debug, Clone)]
pub struct Programs(PathBuf);

impl Programs {
    /// Searches the directory from `pg_config`, Debian's directories (the newest version first), and `PATH`.
    ///
    /// # Errors
    /// When there is no installation; the message says what to install.
    pub fn find() -> Result<Self, String> {
        let configured = Command::new("pg_config").arg("--bindir").output().ok().and_then(|output| {
            let text = String::from_utf8(output.stdout).ok()?;
            (!text.trim().is_empty()).then(|| PathBuf::from(text.trim()))
        });
        let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
            .collect();
        versions.sort_unstable_by(|a, b| b.cmp(a));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let candidates = configured
            .into_iter()
            .chain(versions.into_iter().map(|(_, directory)| directory))
            .chain(std::env::split_paths(&path));
        candidates
            .filter(|directory| PROGRAMS.iter().all(|program| directory.join(program).is_file()))
            .map(Self)
            .next()
            .ok_or_else(|| {
                "PostgreSQL is not installed (`initdb`, `postgres`, `psql`); install it \
                 (Debian: `apt-get install postgresql`)"
                    .to_owned()
            })
    }

    /// Returns the directory of the programs.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    fn major_version(&self) -> Result<u32, String> {
        let said = output_of(Command::new(self.0.join("postgres")).arg("--version"))?;
        let version = said.split_whitespace().find_map(|word| word.split('.').next()?.parse().ok());
        version.ok_or_else(|| format!("`postgres --version` printed no version: {said}"))
    }

    /// Runs statements and returns the rows, with `|` between columns.
    fn psql(&self, url: &str, statements: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.0.join("psql"));
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url]);
        // One argument for each: several statements in one argument would run in one transaction, in which no database can be
        // created.
        for statement in statements {
            command.args(["-c", statement]);
        }
        output_of(command.stdin(Stdio::null()).env("PGCONNECT_TIMEOUT", "10"))
    }
}

/// A running server with its own data directory. When it is dropped, and also when this process is killed, the server is stopped
/// and its folder is removed.
pub struct Server {
    programs: Programs,
    directory: PathBuf,
    port: ReservedPorts<1>,
    process: Option<SupervisedProcess>,
    is_durable: bool,
}

impl Server {
    /// Creates a data directory and starts a server on it. PostgreSQL refuses to run as root: in that case it runs as the user
    /// `postgres`, or else `nobody`.
    ///
    /// # Errors
    /// When PostgreSQL is not installed or does not start; the message says what to do.
    pub fn start() -> Result<Self, String> {
        Self::start_as(false)
    }

    /// Starts a server as in production, which waits for the disk at each commit: for benchmarks.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_durable() -> Result<Self, String> {
        Self::start_as(true)
    }

    fn start_as(is_durable: bool) -> Result<Self, String> {
        let programs = Programs::find()?;
        let directory = new_directory("postgres")?;
        let refuse = |error: std::io::Error| format!("cannot prepare `{}`: {error}", directory.display());
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).map_err(refuse)?;
        let port = ReservedPorts::new()?;
        let mut server = Self { programs, directory: directory.clone(), port, process: None, is_durable };
        let password = directory.join("password");
        fs::write(&password, PASSWORD).map_err(refuse)?;
        if let Some((user, group)) = server_user()? {
            chown(&directory, Some(user), Some(group)).map_err(refuse)?;
            chown(&password, Some(user), Some(group)).map_err(refuse)?;
        }
        server.initialise(&password)?;
        server.resume()?;
        let role = format!("CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'");
        server.programs.psql(&server.url(), &[&role])?;
        Ok(server)
    }

    fn initialise(&self, password: &Path) -> Result<(), String> {
        let mut command = self.command("initdb")?;
        command.args(["--username", SUPERUSER, "--auth", "password", "--pwfile"]).arg(password);
        command.args(["--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"]);
        // A collation that differs from byte order, so that code that relies on byte order by mistake fails.
        if self.programs.major_version()? >= 15 {
            command.args(["--locale-provider", "icu", "--icu-locale", "en-US"]);
        }
        output_of(command.arg("--pgdata").arg(self.data())).map(drop)
    }

    /// Returns the superuser's URL.
    pub fn url(&self) -> String {
        format!("postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{}/postgres", self.port())
    }

    /// Starts the server again, on the same port and data. Does nothing if it is running.
    ///
    /// # Errors
    /// When the server does not start; the message contains its log.
    pub fn resume(&mut self) -> Result<(), String> {
        if self.process.is_some() {
            return Ok(());
        }
        // A crash may have left this file. That server has exited, because its keeper was waited for.
        let lock = self.data().join("postmaster.pid");
        let _ = fs::remove_file(&lock);
        let (postgres, data) = (self.programs.0.join("postgres"), self.data());
        let port = self.port().to_string();
        let mut program: Vec<&OsStr> = vec![postgres.as_ref(), "-D".as_ref(), data.as_ref()];
        program.extend(["-p".as_ref(), OsStr::new(&port)]);
        let kept = |setting: &&&str| !self.is_durable || !UNSAFE_SETTINGS.contains(setting);
        program.extend(SETTINGS.iter().filter(kept).flat_map(|setting| ["-c", setting].map(OsStr::new)));
        let mut process = SupervisedProcess::start(self.command("sh")?, &self.directory, "QUIT", &program)?;
        // `pg_ctl` waits for the eighth line of this file too.
        let state = |text: String| text.lines().nth(7).map(|line| line.trim().to_owned());
        let ready = process.wait_until(START_TIMEOUT, || {
            fs::read_to_string(&lock).ok().and_then(state).as_deref() == Some("ready")
        });
        self.process = Some(process);
        if ready {
            return Ok(());
        }
        let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        self.stop(Stop::Immediate);
        Err(format!("PostgreSQL did not start: {}", last_lines(&log, 10)))
    }

    /// Stops the server and waits until it has exited. Data, port and URLs are kept for [`Server::resume`].
    pub fn stop(&mut self, how: Stop) {
        let Some(process) = self.process.take() else { return };
        process.stop(match how {
            Stop::Fast => "INT",
            Stop::Immediate => "QUIT",
        });
    }

    /// Stops the server and starts it again.
    ///
    /// # Errors
    /// As [`Server::resume`].
    pub fn restart(&mut self, how: Stop) -> Result<(), String> {
        self.stop(how);
        self.resume()
    }

    /// Creates an empty database.
    ///
    /// # Errors
    /// When the server does not respond.
    pub fn database(&self) -> Result<Database, String> {
        Database::create(self.programs.clone(), self.url(), None)
    }

    fn port(&self) -> u16 {
        let [port] = self.port.ports;
        port
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn command(&self, program: &str) -> Result<Command, String> {
        let installed = self.programs.0.join(program);
        let path = if installed.is_file() { installed.into_os_string() } else { OsString::from(program) };
        let mut command = Command::new(path);
        // The server must not get the user's own environment, or a working directory that its user may not enter.
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C");
        command.current_dir(&self.directory);
        if let Some((user, group)) = server_user()? {
            command.uid(user).gid(group);
        }
        Ok(command)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.abandon();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A database of one test; dropping it drops the database on the server.
pub struct Database {
    programs: Programs,
    server_url: String,
    name: String,
    // Keeps the server running as long as its databases exist.
    server: Option<Arc<Server>>,
}

impl Database {
    fn create(programs: Programs, server_url: String, server: Option<Arc<Server>>) -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        let database = Self { programs, server_url, name, server };
        let create = format!("CREATE DATABASE {} OWNER {ROLE} TEMPLATE template0", database.name);
        // An earlier process with the same id may have left one behind.
        database.programs.psql(&database.server_url, &[&database.drop_statement(), &create])?;
        Ok(database)
    }

    /// Refers to another database on the same server, which a test creates with its own statements; it is dropped like this one.
    pub fn sibling(&self, name: &str) -> Self {
        Self {
            programs: self.programs.clone(),
            server_url: self.server_url.clone(),
            name: name.to_owned(),
            server: self.server.clone(),
        }
    }

    /// Returns the URL for [`ROLE`], the owner.
    pub fn url(&self) -> String {
        let (_, host_and_path) = self.server_url.rsplit_once('@').unwrap_or_default();
        let host = host_and_path.split('/').next().unwrap_or_default();
        format!("postgres://{ROLE}:{PASSWORD}@{host}/{}", self.name)
    }

    /// Runs statements in the database as superuser and returns their rows, with `|` between columns.
    ///
    /// # Errors
    /// The error that PostgreSQL returns.
    pub fn run(&self, statements: &[&str]) -> Result<String, String> {
        let (server, _) = self.server_url.rsplit_once('/').unwrap_or_default();
        self.programs.psql(&format!("{server}/{}", self.name), statements)
    }

    fn drop_statement(&self) -> String {
        format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Fails if the server is already stopped and its data removed.
        let _ = self.programs.psql(&self.server_url, &[&self.drop_statement()]);
    }
}

/// Creates an empty database on the server that `cargo xtask test` started, or otherwise on one that this process starts and
/// shares among its tests.
///
/// # Errors
/// When PostgreSQL is not installed or does not respond; the message says what to do.
pub fn database() -> Result<Database, String> {
    if let Ok(url) = std::env::var(SERVER_URL) {
        return Database::create(Programs::find()?, url, None);
    }
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    let server = {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.upgrade() {
            Some(server) => server,
            None => {
                let server = Arc::new(Server::start()?);
                *shared = Arc::downgrade(&server);
                server
            }
        }
    };
    Database::create(server.programs.clone(), server.url(), Some(server))
}

/// Returns user and group to run the server as: `None` for the current user, unless that is root.
fn server_user() -> Result<Option<(u32, u32)>, String> {
    let ours =
        fs::metadata("/proc/self").map_err(|error| format!("cannot determine the current user: {error}"))?;
    if std::os::unix::fs::MetadataExt::uid(&ours) != 0 {
        return Ok(None);
    }
    let users =
        fs::read_to_string("/etc/passwd").map_err(|error| format!("cannot read the users: {error}"))?;
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map(str::parse);
        Some((ids.next()?.ok()?, ids.next()?.ok()?))
    };
    find("postgres").or_else(|| find("nobody")).map(Some).ok_or_else(|| {
        "PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody`; \
         run the tests as another user"
            .to_owned()
    })
}

fn output_of(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let Output { status, stdout, stderr } =
        command.output().map_err(|error| format!("cannot run `{program}`: {error}"))?;
    if !status.success() {
        return Err(format!("`{program}` failed: {}", String::from_utf8_lossy(&stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_server_goes_away_and_comes_back_with_its_data() {
        let mut server = Server::start().unwrap();
        let database = server.database().unwrap();
        database.run(&["CREATE TABLE t (n int)", "INSERT INTO t VALUES (1), (2)"]).unwrap();
        for how in [Stop::Fast, Stop::Immediate] {
            server.stop(how);
            assert!(database.run(&["SELECT 1"]).is_err());
            server.resume().unwrap();
            assert_eq!(database.run(&["SELECT count(*), max(n) FROM t"]).unwrap(), "2|2");
        }
        let directory = server.directory.clone();
        assert!(directory.exists());
        drop(server);
        assert!(!directory.exists());
    }

    const KILLED: &str = "TESTKIT_SERVER_OF_A_KILLED_PROCESS";

    /// The process to kill: this same test program. Without the environment variable, the test does nothing.
    #[test]
    fn process_with_a_server() {
        if std::env::var_os(KILLED).is_none() {
            return;
        }
        let server = Server::start().unwrap();
        println!("\ndirectory {}", server.directory.display());
        sleep(Duration::from_secs(60));
    }

    #[test]
    fn the_server_of_a_killed_process_goes_with_its_folder() {
        use std::io::BufRead as _;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "postgres::tests::process_with_a_server", "--nocapture"])
            .env(KILLED, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let directory = lines.find_map(|line| Some(PathBuf::from(line.strip_prefix("directory ")?))).unwrap();
        let lock = fs::read_to_string(directory.join("data/postmaster.pid")).unwrap();
        let server = PathBuf::from(format!("/proc/{}", lock.lines().next().unwrap()));
        assert!(server.exists());
        child.kill().unwrap();
        child.wait().unwrap();
        let begun = Instant::now();
        while directory.exists() || server.exists() {
            assert!(begun.elapsed() < Duration::from_secs(20), "the server outlived its process");
            sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn databases_are_separate_and_their_owner_is_no_superuser() {
        let (first, second) = (database().unwrap(), database().unwrap());
        first.run(&["CREATE TABLE t (n int)"]).unwrap();
        assert!(second.run(&["SELECT * FROM t"]).is_err());
        let owner = first
            .programs
            .psql(&first.url(), &["SELECT current_user, usesuper FROM pg_user WHERE usename = current_user"]);
        assert_eq!(owner.unwrap(), format!("{ROLE}|f"));
        assert_eq!(first.run(&["SHOW server_encoding"]).unwrap(), "UTF8");
        let (name, url) = (first.name.clone(), first.server_url.clone());
        let programs = first.programs.clone();
        drop(first);
        let left =
            programs.psql(&url, &[&format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'")]);
        assert_eq!(left.unwrap(), "0");
        drop(second);
    }
}

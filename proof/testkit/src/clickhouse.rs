//! A real ClickHouse server for tests, of the oldest supported version, in a temporary folder on free loopback ports; and
//! clusters of such servers.

mod cluster;
mod http;
mod zookeeper;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

pub use cluster::{Cluster, REPLICAS, SHARDS};
pub use zookeeper::{JAR, ZooKeeper};

use crate::ports::ReservedPorts;
use crate::supervised_process::{SupervisedProcess, last_lines, new_directory};

/// Environment variable with the path of the shared library that contains the server, instead of the one in the user's cache.
pub const LIBRARY: &str = "TRACEWARDEN_CLICKHOUSE_SERVER";

/// The PyPI package that contains the server, and its version.
pub const PACKAGE: (&str, &str) = ("chdb", "3.7.2");

/// Version that the server reports, without the packager's suffix.
pub const VERSION: &str = "25.8.2";

/// Password of the administrator `default` and of users that [`Options::user`] adds. It is a canary that must never be logged.
pub const PASSWORD: &str = "canary-of-the-clickhouse-password";

/// Starts the server. The package's library exports the entry point of ClickHouse's server.
const LAUNCH: &str = r#"
import ctypes, sys
entry = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)["_Z25mainEntryClickHouseServeriPPc"]
arguments = [b"clickhouse-server"] + [argument.encode() for argument in sys.argv[2:]]
sys.exit(entry(len(arguments), (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)))
"#;

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Small pools and caches, because several servers run at once on a small machine.
const SMALL_SIZES: &str = "<mark_cache_size>67108864</mark_cache_size><uncompressed_cache_size>0</uncompressed_cache_size>\
    <index_mark_cache_size>16777216</index_mark_cache_size><primary_index_cache_size>16777216</primary_index_cache_size>\
    <max_server_memory_usage>2000000000</max_server_memory_usage>\
    <background_pool_size>2</background_pool_size><background_move_pool_size>1</background_move_pool_size>\
    <background_fetches_pool_size>2</background_fetches_pool_size>\
    <background_common_pool_size>2</background_common_pool_size>\
    <background_schedule_pool_size>8</background_schedule_pool_size>\
    <background_buffer_flush_schedule_pool_size>1</background_buffer_flush_schedule_pool_size>\
    <background_message_broker_schedule_pool_size>1</background_message_broker_schedule_pool_size>\
    <background_distributed_schedule_pool_size>2</background_distributed_schedule_pool_size>\
    <merge_tree><number_of_free_entries_in_pool_to_execute_mutation>1\
    </number_of_free_entries_in_pool_to_execute_mutation><number_of_free_entries_in_pool_to_lower_max_size_of_merge>1\
    </number_of_free_entries_in_pool_to_lower_max_size_of_merge>\
    <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>1\
    </number_of_free_entries_in_pool_to_execute_optimize_entire_partition></merge_tree>";

/// Configuration of a server in addition to its administrator, as XML.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Settings of the profile `default`, which the administrator and the server itself use.
    pub defaults: String,
    /// Elements of `<profiles>` in addition to `<default/>`, each a profile.
    pub profiles: String,
    /// Elements of `<users>` in addition to the administrator.
    pub users: String,
    /// Elements of `<quotas>` in addition to `<default/>`.
    pub quotas: String,
    /// Sections of the server's `config.xml`; `{tcp_port}` in them is the port of the native protocol.
    pub sections: String,
    /// Whether to use ClickHouse's default sizes of pools, caches and memory, for measurements. Otherwise they are small.
    pub default_sizes: bool,
}

impl Options {
    /// Adds a user with [`PASSWORD`] and a profile of the same name with these settings and constraints, such as
    /// `<readonly>2</readonly><constraints>…</constraints>`. The user has the quota `default` and may read everything.
    #[must_use]
    pub fn user(mut self, name: &str, settings: &str) -> Self {
        self.profiles.push_str(&format!("<{name}>{settings}</{name}>"));
        self.users.push_str(&user(name, name, ""));
        self
    }

    /// Adds sections to the server's `config.xml`.
    #[must_use]
    pub fn sections(mut self, sections: &str) -> Self {
        self.sections.push_str(sections);
        self
    }
}

/// How to stop a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The server ends statements and closes connections.
    Graceful,
    /// The server is killed, as in a crash.
    Kill,
}

/// A running server with its own data. When it is dropped, and also when this process is killed, the server is stopped and its
/// folder is removed.
pub struct Server {
    directory: PathBuf,
    library: PathBuf,
    ports: Ports,
    /// `None` for the servers of a cluster, which holds the ports of all its servers.
    #[allow(dead_code, reason = "held for its locks")]
    reserved: Option<ReservedPorts<3>>,
    process: Mutex<Option<SupervisedProcess>>,
    /// Sections of its `config.xml`.
    sections: String,
    /// Base URL of ClickHouse's HTTP interface.
    pub url: String,
}

/// Ports for HTTP, the native protocol, and replication.
#[derive(Debug, Clone, Copy)]
struct Ports {
    http: u16,
    tcp: u16,
    interserver: u16,
}

impl Server {
    /// Starts a server and waits until it responds.
    ///
    /// # Errors
    /// When the server is not installed or does not start. The message says what to do, or contains the server's log.
    pub fn start(options: &Options) -> Result<Self, String> {
        let reserved = ReservedPorts::new()?;
        let [http, tcp, interserver] = reserved.ports;
        let mut server = Self::launch(options, Ports { http, tcp, interserver })?;
        server.reserved = Some(reserved);
        Ok(server)
    }

    fn launch(options: &Options, ports: Ports) -> Result<Self, String> {
        let library = library()?;
        let directory = new_directory("clickhouse")?;
        let url = format!("http://127.0.0.1:{}", ports.http);
        let sizes = if options.default_sizes { "" } else { SMALL_SIZES };
        let sections = format!("{sizes}{}", options.sections);
        let server =
            Self { directory, library, ports, reserved: None, process: Mutex::new(None), sections, url };
        server.configure(options)?;
        server.resume()?;
        Ok(server)
    }

    /// Replaces users, profiles and quotas of a stopped server, for its next start. Its sections stay.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn configure(&self, options: &Options) -> Result<(), String> {
        let path = self.directory.display();
        let Ports { http, tcp, interserver } = self.ports;
        let Options { defaults, profiles, users, quotas, .. } = options;
        let sections = self.sections.replace("{tcp_port}", &tcp.to_string());
        let config = format!(
            "<clickhouse><logger><level>information</level><console>1</console></logger>\
             <http_port>{http}</http_port><tcp_port>{tcp}</tcp_port>\
             <interserver_http_port>{interserver}</interserver_http_port>\
             <interserver_http_host>127.0.0.1</interserver_http_host><listen_host>127.0.0.1</listen_host>\
             <path>{path}/data/</path><tmp_path>{path}/tmp/</tmp_path><user_files_path>{path}/files/</user_files_path>\
             <format_schema_path>{path}/schemas/</format_schema_path>\
             <user_directories><users_xml><path>{path}/users.xml</path></users_xml>\
             <local_directory><path>{path}/access/</path></local_directory></user_directories>\
             <default_profile>default</default_profile><default_database>default</default_database>\
             <timezone>UTC</timezone>{sections}</clickhouse>"
        );
        let administrator = user("default", "default", "<access_management>1</access_management>");
        let users = format!(
            "<clickhouse><profiles><default>{defaults}</default>{profiles}</profiles><users>{administrator}{users}</users>\
             <quotas><default/>{quotas}</quotas></clickhouse>"
        );
        fs::write(self.directory.join("config.xml"), config)
            .and_then(|()| fs::write(self.directory.join("users.xml"), users))
            .map_err(|error| format!("cannot write to `{path}`: {error}"))
    }

    /// Starts a stopped server again, on the same ports and data. Does nothing if it is running.
    ///
    /// # Errors
    /// When the server does not start; the message contains its log.
    pub fn resume(&self) -> Result<(), String> {
        let mut running = self.process();
        if running.is_some() {
            return Ok(());
        }
        let mut shell = Command::new("sh");
        shell.current_dir(&self.directory).env("CLICKHOUSE_WATCHDOG_ENABLE", "0");
        let config = format!("--config-file={}", self.directory.join("config.xml").display());
        let program: [&OsStr; 5] =
            ["python3".as_ref(), "-c".as_ref(), LAUNCH.as_ref(), self.library.as_ref(), config.as_ref()];
        let mut process = SupervisedProcess::start(shell, &self.directory, "KILL", &program)?;
        if process.wait_until(START_TIMEOUT, || http::ping(self.ports.http)) {
            *running = Some(process);
            return Ok(());
        }
        let log = without_stack_traces(&self.log());
        process.stop("KILL");
        Err(format!("the ClickHouse server did not start: {}", last_lines(&log, 20)))
    }

    /// Stops the server and waits until it has exited. Data, ports and URL are kept for [`Server::resume`].
    pub fn stop(&self, how: Stop) {
        if let Some(process) = self.process().take() {
            process.stop(match how {
                Stop::Graceful => "TERM",
                Stop::Kill => "KILL",
            });
        }
    }

    /// Suspends the server process: connections stay open and get no response until [`Server::unpause`].
    ///
    /// # Errors
    /// When the server is not running.
    pub fn pause(&self) -> Result<(), String> {
        self.signal("STOP")
    }

    /// Resumes a suspended server process.
    ///
    /// # Errors
    /// When the server is not running.
    pub fn unpause(&self) -> Result<(), String> {
        self.signal("CONT")
    }

    fn signal(&self, signal: &str) -> Result<(), String> {
        let process = self.process();
        let number =
            process.as_ref().and_then(SupervisedProcess::process).ok_or("the server does not run")?;
        let status = Command::new("kill").arg(format!("-{signal}")).arg(number.to_string()).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("cannot send {signal} to the server: {other:?}")),
        }
    }

    /// Runs a statement as the administrator and returns its output.
    ///
    /// # Errors
    /// The error that ClickHouse returns.
    pub fn run(&self, statement: &str) -> Result<String, String> {
        self.run_as("default", statement)
    }

    /// Runs a statement as another user, with [`PASSWORD`].
    ///
    /// # Errors
    /// The error that ClickHouse returns.
    pub fn run_as(&self, user: &str, statement: &str) -> Result<String, String> {
        http::post(self.ports.http, user, PASSWORD, statement.as_bytes())
    }

    /// Returns the server's log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.directory.join("log")).unwrap_or_default()).into_owned()
    }

    /// Returns the port of ClickHouse's native protocol.
    pub fn tcp_port(&self) -> u16 {
        self.ports.tcp
    }

    fn process(&self) -> std::sync::MutexGuard<'_, Option<SupervisedProcess>> {
        self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = self.process().take() {
            process.abandon();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Removes the lines of stack traces, which begin with a frame number.
fn without_stack_traces(log: &str) -> String {
    let is_frame = |line: &str| {
        let rest = line.trim_start_matches(|first: char| first.is_ascii_digit());
        rest.len() < line.len() && rest.starts_with(". ")
    };
    log.lines().filter(|line| !is_frame(line)).collect::<Vec<_>>().join("\n")
}

fn user(name: &str, profile: &str, more: &str) -> String {
    format!(
        "<{name}><password>{PASSWORD}</password><networks><ip>127.0.0.1</ip></networks>\
         <profile>{profile}</profile><quota>default</quota>{more}</{name}>"
    )
}

/// Returns the library that contains the server: the one in [`LIBRARY`], or the one that `cargo xtask test` keeps in the user's
/// cache.
///
/// # Errors
/// When the library does not exist; the message contains the command that downloads it.
pub fn library() -> Result<PathBuf, String> {
    let path = match std::env::var_os(LIBRARY).filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => {
            let cache = crate::python::cache().ok_or("neither XDG_CACHE_HOME nor HOME is set")?;
            library_in(&cache.join("tracewarden/clickhouse-server").join(PACKAGE.1))
        }
    };
    if path.is_file() {
        return Ok(path);
    }
    Err(format!(
        "there is no ClickHouse server at `{}`: run `cargo xtask test clickhouse-server`, which fetches it",
        path.display()
    ))
}

/// Returns the path of the library in the folder of the installed package.
pub fn library_in(package: &Path) -> PathBuf {
    package.join("chdb/_chdb.abi3.so")
}

/// Returns the version that the server in a library reports.
///
/// # Errors
/// When the server does not run.
pub fn version_of(library: &Path) -> Result<String, String> {
    let output = Command::new("python3")
        .args(["-c", LAUNCH])
        .arg(library)
        .arg("--version")
        .output()
        .map_err(|error| format!("cannot run `python3`: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    version.map(|version| version.trim_end_matches('.').to_owned()).ok_or_else(|| {
        let error = String::from_utf8_lossy(&output.stderr);
        format!("`{}` is not a ClickHouse server: {}", library.display(), last_lines(&error, 3))
    })
}

#[cfg(test)]
mod tests;

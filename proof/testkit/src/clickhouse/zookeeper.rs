//! A ZooKeeper, which the replicated tables of a cluster need.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::ports::ReservedPorts;
use crate::supervised_process::{SupervisedProcess, last_lines, new_directory};

/// Path where Debian's package `zookeeper` installs it. The archive lists its dependencies.
pub const JAR: &str = "/usr/share/java/zookeeper.jar";

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running ZooKeeper. When it is dropped, and also when this process is killed, it is stopped and its folder is removed.
pub struct ZooKeeper {
    directory: PathBuf,
    process: Option<SupervisedProcess>,
    /// The client port.
    pub port: u16,
    #[allow(dead_code, reason = "held for its locks")]
    reserved: ReservedPorts<1>,
}

impl ZooKeeper {
    /// Starts ZooKeeper and waits until it responds.
    ///
    /// # Errors
    /// When ZooKeeper is not installed or does not start. The message says what to do, or contains its log.
    pub fn start() -> Result<Self, String> {
        let java = Command::new("java").arg("-version").output().is_ok_and(|output| output.status.success());
        if !Path::new(JAR).is_file() || !java {
            return Err(format!(
                "ZooKeeper is not installed (`java` and `{JAR}`); install it (Debian: \
                 `apt-get install zookeeper`), or run `cargo xtask test clickhouse-server`"
            ));
        }
        let directory = new_directory("zookeeper")?;
        let reserved = ReservedPorts::new()?;
        let [port] = reserved.ports;
        let path = directory.display();
        let configuration = format!(
            "tickTime=500\ndataDir={path}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\n4lw.commands.whitelist=ruok\nforceSync=no\nmaxClientCnxns=0\n"
        );
        let file = directory.join("zoo.cfg");
        fs::write(&file, configuration).map_err(|error| format!("cannot write to `{path}`: {error}"))?;
        let mut program: Vec<&OsStr> =
            ["java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", JAR]
                .map(OsStr::new)
                .to_vec();
        program.push("org.apache.zookeeper.server.ZooKeeperServerMain".as_ref());
        program.push(file.as_ref());
        let mut shell = Command::new("sh");
        shell.current_dir(&directory);
        let mut process = SupervisedProcess::start(shell, &directory, "KILL", &program)?;
        let ready = process.wait_until(START_TIMEOUT, || is_ready(port));
        let zookeeper = Self { directory, process: Some(process), port, reserved };
        if ready {
            return Ok(zookeeper);
        }
        let log = fs::read_to_string(zookeeper.directory.join("log")).unwrap_or_default();
        Err(format!("ZooKeeper did not start: {}", last_lines(&log, 10)))
    }
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.abandon();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn is_ready(port: u16) -> bool {
    let request_status = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"ruok")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    request_status().is_ok_and(|answer| answer == "imok")
}

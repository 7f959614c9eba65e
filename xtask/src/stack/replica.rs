//! One of several service processes with a common PostgreSQL database. It can be stopped and restarted at the same address.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::api::Client;
use super::processes::ManagedProcess;
use super::{interrupt, ports};

/// A replica, running or not.
pub struct Replica {
    program: PathBuf,
    directory: PathBuf,
    listen: SocketAddr,
    settings: Vec<(String, String)>,
    starts: u32,
    running: Option<ManagedProcess>,
}

impl Replica {
    /// Starts a replica at the first free port from `preferred` on, and waits until it is ready. Each start has its own log in
    /// `directory`.
    pub fn start(
        binaries: &Path,
        directory: PathBuf,
        preferred: u16,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let listen = ports::free(preferred, &[])?;
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let program = binaries.join("tracewarden");
        let settings = settings.collect();
        let mut replica = Self { program, directory, listen, settings, starts: 0, running: None };
        replica.resume()?;
        Ok(replica)
    }

    pub fn base(&self) -> String {
        format!("http://{}", self.listen)
    }

    /// Returns the program with its settings, which can also run other subcommands.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // Settings of another instance in the environment must not affect this one.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TRACEWARDEN_"))
        {
            command.env_remove(name);
        }
        command.env("TRACEWARDEN_LISTEN", self.listen.to_string()).env("TRACEWARDEN_PUBLIC_URL", self.base());
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.directory);
        command
    }

    /// Starts another process at the same address, and waits until it is ready.
    pub fn resume(&mut self) -> Result<()> {
        self.starts += 1;
        let logs = self.directory.join(format!("start-{}", self.starts));
        fs::create_dir_all(&logs).with_context(|| format!("cannot create `{}`", logs.display()))?;
        let mut command = self.command();
        self.running = Some(ManagedProcess::start("tracewarden", command.arg("serve"), &logs)?);
        let anonymous = Client::anonymous(&self.base());
        let ready = interrupt::poll(Duration::from_secs(60), || {
            self.check()?;
            let answer = anonymous.send("GET", "/readyz", None, None);
            Ok(answer.ok().filter(|answer| answer.status == 200))
        })?;
        ready.map(|_| ()).with_context(|| {
            format!("a replica was not ready within a minute; its log is in `{}`", logs.display())
        })
    }

    /// Returns an error with the end of the log if it has exited by itself.
    pub fn check(&mut self) -> Result<()> {
        self.running.as_mut().map_or(Ok(()), ManagedProcess::check)
    }

    /// Returns the process id, or 0 if it is not running.
    pub fn process(&self) -> u32 {
        self.running.as_ref().map(ManagedProcess::process).unwrap_or_default()
    }

    /// Stops it. Returns an error if it did not exit cleanly.
    pub fn stop(&mut self) -> Result<()> {
        self.running.take().map_or(Ok(()), |mut running| running.stop())
    }

    /// Kills it immediately, as `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.kill();
        }
    }
}

//! Starts the local store and the service as a new user does, for the demo and the benchmarks.

pub mod api;
pub mod external_store;
pub mod identity_provider;
pub mod interrupt;
mod ports;
mod processes;
pub mod replica;
pub mod secret;
pub mod trace_source;

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::programs::{self, Profile};
use crate::{engine, process, web};
use api::Client;
use external_store::ExternalStore;
use processes::ManagedProcess;

const PREFERRED_PORT: u16 = 8080;
const PREFERRED_STORE_PORT: u16 = 8123;
const PREFERRED_OTLP_PORT: u16 = 4318;

/// Both programs. Fields are dropped in declaration order, so that the service stops first.
pub struct Stack {
    service: Service,
    /// `None` for a ClickHouse server of the user.
    store: Option<LocalStore>,
    /// URL of the service.
    pub base: String,
    /// URL of ClickHouse's HTTP interface.
    pub store_url: String,
    /// Password of ClickHouse's user.
    pub store_password: String,
    /// URL for OTLP traces; empty without a local store.
    pub otlp: String,
    /// The administrator's password.
    pub admin_password: String,
}

impl Stack {
    /// Starts both programs with empty data in `directory`, the service with these settings in addition to the required ones. It
    /// may not be ready yet.
    pub fn start(
        binaries: &Path,
        engine: &Path,
        directory: &Path,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let store = LocalStore::start(binaries, engine, &directory.join("store"), directory, None)?;
        let service = Service::start(binaries, directory, &store.url, &store.password, settings)?;
        Ok(Self {
            base: service.base.clone(),
            store_url: store.url.clone(),
            store_password: store.password.clone(),
            otlp: store.otlp.clone(),
            admin_password: service.admin_password.clone(),
            service,
            store: Some(store),
        })
    }

    /// Starts the service on a ClickHouse server of the user. Spans are sent by `send` to a local store, which stops again
    /// after the server has a copy of them. Returns the number of spans, too.
    pub fn start_on(
        server: &ExternalStore,
        binaries: &Path,
        engine: &Path,
        directory: &Path,
        settings: &[(&str, &str)],
        send: impl FnOnce(&str) -> Result<u64>,
    ) -> Result<(Self, u64)> {
        let mut local = LocalStore::start(binaries, engine, &directory.join("store"), directory, None)?;
        let sent = send(&local.otlp);
        local.check()?;
        sent?;
        let spans = server.fill_from(&local)?;
        local.stop()?;
        let settings = [settings, &[("TRACEWARDEN_CLICKHOUSE_USER", server.user.as_str())]].concat();
        let service = Service::start(binaries, directory, &server.url, &server.password, &settings)?;
        let stack = Self {
            base: service.base.clone(),
            store_url: server.url.clone(),
            store_password: server.password.clone(),
            otlp: String::new(),
            admin_password: service.admin_password.clone(),
            service,
            store: None,
        };
        Ok((stack, spans))
    }

    /// Returns an error with the end of the log if one of them has exited.
    pub fn check(&mut self) -> Result<()> {
        self.service.check()?;
        self.store.as_mut().map_or(Ok(()), LocalStore::check)
    }

    /// Waits until the service is ready.
    pub fn wait_until_ready(&mut self, anonymous: &Client) -> Result<()> {
        let Self { service, store, .. } = self;
        service.wait_until_ready(anonymous, || store.as_mut().map_or(Ok(()), LocalStore::check))
    }

    /// Peak memory of the service in bytes.
    pub fn service_peak_memory(&self) -> Result<u64> {
        self.service.peak_memory()
    }

    /// Processor time that the service has used.
    pub fn service_processor_time(&self) -> Result<Duration> {
        self.service.running.processor_time()
    }

    /// Stops both programs, the service first. Returns an error if one of them did not exit cleanly.
    pub fn stop(&mut self) -> Result<()> {
        let service = self.service.stop();
        let store = self.store.as_mut().map_or(Ok(()), LocalStore::stop);
        service.and(store)
    }
}

/// The local store.
pub struct LocalStore {
    running: ManagedProcess,
    arguments: Vec<OsString>,
    program: PathBuf,
    engine: PathBuf,
    logs: PathBuf,
    /// URL of its ClickHouse interface.
    pub url: String,
    /// Password of its user `default`.
    pub password: String,
    /// URL for OTLP traces.
    pub otlp: String,
}

impl LocalStore {
    /// Starts the local store with the data in `data` and its log in `logs`, and waits until it is ready. `memory_limit` bounds
    /// the memory of all its queries together in bytes; `None` is the default limit.
    pub fn start(
        binaries: &Path,
        engine: &Path,
        data: &Path,
        logs: &Path,
        memory_limit: Option<u64>,
    ) -> Result<Self> {
        let password = secret::password()?;
        let listen = ports::free(PREFERRED_STORE_PORT, &[])?;
        let otlp = ports::free(PREFERRED_OTLP_PORT, &[listen])?;
        let mut arguments: Vec<OsString> = vec!["--data".into(), data.into()];
        let (listen, otlp) = (listen.to_string(), otlp.to_string());
        let others = ["--listen", &listen, "--otlp", &otlp, "--user", "default", "--exit-with-stdin"];
        arguments.extend(others.map(OsString::from));
        if let Some(bytes) = memory_limit {
            arguments.extend(["--memory-limit".into(), bytes.to_string().into()]);
        }
        let (program, logs) = (binaries.join("tracewarden-localstore"), logs.to_path_buf());
        let (running, url, otlp) = launch_store(&program, &arguments, &password, engine, &logs)?;
        Ok(Self { running, arguments, program, engine: engine.to_path_buf(), logs, url, password, otlp })
    }

    /// Starts another process with the same data, addresses and password, and waits until it is ready.
    pub fn resume(&mut self) -> Result<()> {
        let Self { program, arguments, password, engine, logs, .. } = self;
        (self.running, self.url, self.otlp) = launch_store(program, arguments, password, engine, logs)?;
        Ok(())
    }

    /// Kills it immediately, as `kill -9` does.
    pub fn kill(&mut self) {
        self.running.kill();
    }

    /// Returns an error with the end of the log if it has exited.
    pub fn check(&mut self) -> Result<()> {
        self.running.check()
    }

    /// Stops it. Returns an error if it did not exit cleanly.
    pub fn stop(&mut self) -> Result<()> {
        self.running.stop()
    }
}

/// The service, with its application database in an SQLite file.
pub struct Service {
    running: ManagedProcess,
    /// URL of the service.
    pub base: String,
    /// The administrator's password.
    pub admin_password: String,
}

impl Service {
    /// Peak memory of the service in bytes.
    pub fn peak_memory(&self) -> Result<u64> {
        self.running.peak_memory()
    }

    /// Starts the service with its application database and log in `directory`, for the ClickHouse at `store_url`, with these
    /// settings in addition to the required ones. It may not be ready yet.
    pub fn start(
        binaries: &Path,
        directory: &Path,
        store_url: &str,
        store_password: &str,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let admin_password = secret::password()?;
        let hash = hash_password(binaries, &admin_password)?;
        let settings = [settings, &[("TRACEWARDEN_ADMIN_PASSWORD_HASH", &hash)]].concat();
        let (running, base) = start_service(binaries, directory, store_url, store_password, &settings)?;
        Ok(Self { running, base, admin_password })
    }

    /// Starts an unconfigured service: the administrator's password is generated, and must be changed at the first sign-in. Waits
    /// until it is ready.
    pub fn start_unconfigured(
        binaries: &Path,
        directory: &Path,
        store: &mut LocalStore,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let file = directory.join("initial-password");
        let path = file.to_string_lossy();
        let settings = [settings, &[("TRACEWARDEN_INITIAL_PASSWORD_FILE", path.as_ref())]].concat();
        let (running, base) = start_service(binaries, directory, &store.url, &store.password, &settings)?;
        let mut service = Self { running, base, admin_password: String::new() };
        service.wait_until_ready(&Client::anonymous(&service.base), || store.check())?;
        let password =
            fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        service.admin_password = password.trim_end().to_owned();
        Ok(service)
    }

    /// Waits until the service is ready, as long as `others` returns no error.
    pub fn wait_until_ready(
        &mut self,
        anonymous: &Client,
        mut others: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let ready = interrupt::poll(Duration::from_secs(30), || {
            self.check()?;
            others()?;
            let answer = anonymous.send("GET", "/readyz", None, None);
            Ok(answer.ok().filter(|answer| answer.status == 200))
        })?;
        ready.map(|_| ()).with_context(|| {
            format!(
                "the service was not ready within 30 seconds; its log is `{}`",
                self.running.log().display()
            )
        })
    }

    /// Returns an error with the end of the log if it has exited.
    pub fn check(&mut self) -> Result<()> {
        self.running.check()
    }

    /// Stops it. Returns an error if it did not exit cleanly.
    pub fn stop(&mut self) -> Result<()> {
        self.running.stop()
    }
}

/// Starts the process. Returns it and its two URLs.
fn launch_store(
    program: &Path,
    arguments: &[OsString],
    password: &str,
    engine: &Path,
    logs: &Path,
) -> Result<(ManagedProcess, String, String)> {
    let mut command = Command::new(program);
    // The password is not an argument, because other users of the machine can read arguments.
    command.args(arguments).env("TRACEWARDEN_LOCALSTORE_PASSWORD", password).env(engine::OVERRIDE, engine);
    let mut running = ManagedProcess::start("tracewarden-localstore", &mut command, logs)?;
    let url = running.wait_for_line("listening ")?;
    let otlp = running.wait_for_line("otlp ")?;
    Ok((running, url, otlp))
}

/// Builds the web application, then both programs. npm and cargo print their progress.
pub fn build(profile: Profile) -> Result<PathBuf> {
    web::ensure()?;
    programs::build(profile, programs::PACKAGES)
}

/// Hashes a password in the format of the administrator's password setting.
pub fn hash_password(binaries: &Path, password: &str) -> Result<String> {
    let mut command = Command::new(binaries.join("tracewarden"));
    command.arg("hash-password").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run `tracewarden hash-password`")?;
    if let Some(mut stdin) = child.stdin.take() {
        writeln!(stdin, "{password}").context("cannot give `tracewarden hash-password` the password")?;
    }
    let output = child.wait_with_output().context("cannot wait for `tracewarden hash-password`")?;
    let hash = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || !hash.starts_with("$argon2id$") {
        let error_text = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`tracewarden hash-password` printed no hash ({}): {}",
            process::status_text(output.status),
            error_text.trim()
        );
    }
    Ok(hash)
}

fn start_service(
    binaries: &Path,
    directory: &Path,
    store_url: &str,
    store_password: &str,
    settings: &[(&str, &str)],
) -> Result<(ManagedProcess, String)> {
    let listen = ports::free(PREFERRED_PORT, &[])?;
    let base = format!("http://{listen}");
    let mut command = Command::new(binaries.join("tracewarden"));
    // Settings of another instance in the environment must not affect this one.
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TRACEWARDEN_"))
    {
        command.env_remove(name);
    }
    command.arg("serve").current_dir(directory);
    command.env("TRACEWARDEN_LISTEN", listen.to_string()).env("TRACEWARDEN_PUBLIC_URL", &base);
    command.env("TRACEWARDEN_DATABASE_URL", format!("sqlite:{}", directory.join("tracewarden.db").display()));
    command.env("TRACEWARDEN_CLICKHOUSE_URL", store_url);
    command.env("TRACEWARDEN_CLICKHOUSE_USER", "default");
    command.env("TRACEWARDEN_CLICKHOUSE_PASSWORD", store_password);
    command.envs(settings.iter().copied());
    Ok((ManagedProcess::start("tracewarden", &mut command, directory)?, base))
}

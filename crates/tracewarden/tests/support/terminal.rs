//! Runs a program on a terminal.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// A program on a terminal; killed when dropped.
pub struct TerminalProgram {
    child: Child,
    terminal: File,
    shown: String,
}

impl TerminalProgram {
    /// Starts the program on a terminal with input.
    pub fn start(command: Command) -> Self {
        Self::begin(command, true)
    }

    /// Starts the program on a terminal without input: a container may have one, whose output only ends up in its log.
    pub fn start_without_input(command: Command) -> Self {
        Self::begin(command, false)
    }

    fn begin(mut command: Command, has_input: bool) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let end = || -> OwnedFd { open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap() };
        command.stdin(if has_input { Stdio::from(end()) } else { Stdio::null() });
        command.stdout(Stdio::from(end())).stderr(Stdio::from(end()));
        let child = command.env("TERM", "xterm").spawn().unwrap();
        Self { child, terminal: File::from(terminal), shown: String::new() }
    }

    /// Reads until this text is shown, and returns everything shown so far.
    pub fn wait_for(&mut self, wanted: &str) -> &str {
        let begun = Instant::now();
        let mut bytes = [0; 4096];
        while !self.shown.contains(wanted) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", self.shown);
            match self.terminal.read(&mut bytes) {
                Ok(0) => panic!("ended: {}", self.shown),
                Ok(read) => self.shown.push_str(&String::from_utf8_lossy(&bytes[..read])),
                // The other end is closed.
                Err(error) => panic!("{error}: {}", self.shown),
            }
        }
        &self.shown
    }

    /// Types this text, waits for the end, and returns the status and everything shown.
    pub fn answer(mut self, text: &str) -> (i32, String) {
        self.terminal.write_all(text.as_bytes()).unwrap();
        let mut bytes = [0; 4096];
        loop {
            match self.terminal.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => self.shown.push_str(&String::from_utf8_lossy(&bytes[..read])),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Reading fails once the program has ended.
                Err(_) => break,
            }
        }
        (self.child.wait().unwrap().code().unwrap(), self.shown.replace("\r\n", "\n"))
    }
}

impl Drop for TerminalProgram {
    fn drop(&mut self) {
        // A program that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

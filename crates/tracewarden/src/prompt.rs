//! Reads a password: twice and without echo from a terminal, once from a standard input that is not a terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context, bail};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// More than any password may have; bounds the memory if the wrong file is piped in.
const MAX_LINE_BYTES: u64 = 4096;

pub fn password() -> anyhow::Result<String> {
    if !io::stdin().is_terminal() {
        return line();
    }
    let echo = EchoOff::new()?;
    let first = prompt_for("Password: ")?;
    let second = prompt_for("Again: ")?;
    drop(echo);
    if first != second {
        bail!("the two passwords differ");
    }
    Ok(first)
}

fn prompt_for(prompt: &str) -> anyhow::Result<String> {
    let mut terminal = io::stderr();
    terminal.write_all(prompt.as_bytes()).context("cannot write the prompt")?;
    terminal.flush().context("cannot write the prompt")?;
    let line = line();
    // The user's line break was not echoed.
    terminal.write_all(b"\n").context("cannot write the prompt")?;
    line
}

fn line() -> anyhow::Result<String> {
    let mut line = String::new();
    let mut limited = io::Read::take(io::stdin().lock(), MAX_LINE_BYTES);
    limited.read_line(&mut line).context("cannot read the password")?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        bail!("no password was given");
    }
    Ok(password.to_owned())
}

/// The terminal without echo; restored when dropped.
struct EchoOff(Termios);

impl EchoOff {
    fn new() -> anyhow::Result<Self> {
        let before = tcgetattr(io::stdin()).context("cannot read the terminal's state")?;
        let mut without_echo = before.clone();
        without_echo.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &without_echo).context("cannot turn off the echo")?;
        Ok(Self(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        if tcsetattr(io::stdin(), OptionalActions::Flush, &self.0).is_err() {
            tracing::error!("cannot turn the terminal's echo on again; run `stty echo`");
        }
    }
}

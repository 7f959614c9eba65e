//! What the web application is built with.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// As `web/package.json` says.
const AT_LEAST: (u32, u32) = (20, 19);

/// Distributions have packages of their own, mostly of older versions.
const INSTALL: &str =
    "curl -fsSL https://deb.nodesource.com/setup_22.x | bash - && apt-get install -y nodejs";

/// An error that says what to do, unless Node and npm are there.
pub fn check() -> Result<()> {
    for program in ["node", "npm"] {
        if !process::is_installed(program) {
            bail!("{}", missing(&format!("{program} is not installed")));
        }
    }
    let said = process::output_of(Command::new("node").arg("--version"))?;
    let version = parse(&said).with_context(|| format!("`node --version` printed `{}`", said.trim()))?;
    if version < AT_LEAST {
        bail!("{}", missing(&format!("Node {} is too old", said.trim())));
    }
    Ok(())
}

fn missing(what: &str) -> String {
    let (major, minor) = AT_LEAST;
    format!(
        "{what}, and the web application is built with Node {major}.{minor} or newer; install it with\n\n  {INSTALL}\n\n\
         as root on Debian, or as https://nodejs.org/en/download says for other systems, and run the command again"
    )
}

fn parse(said: &str) -> Option<(u32, u32)> {
    let mut parts = said.trim().strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse("v20.19.2\n"), Some((20, 19)));
        assert!(parse("v18.20.4").unwrap() < AT_LEAST && parse("v20.9.0").unwrap() < AT_LEAST);
        assert!(parse("v100.0.0").unwrap() >= AT_LEAST);
        assert_eq!(parse("20.19.2"), None);
    }

    #[test]
    fn the_error_names_the_command() {
        assert!(missing("node is not installed").contains("apt-get install -y nodejs"));
    }
}

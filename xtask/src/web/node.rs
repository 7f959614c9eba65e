//! Checks the build tools of the web application.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// Minimum version of Node 20, as in `web/package.json` and required by Vite.
const MINIMUM_20: (u32, u32) = (20, 19);
/// Minimum version of Node 22 or later.
const MINIMUM: (u32, u32) = (22, 12);

/// Installation command, because packages of distributions are mostly too old.
const INSTALL: &str =
    "curl -fsSL https://deb.nodesource.com/setup_22.x | bash - && apt-get install -y nodejs";

/// Returns an error with instructions unless Node and npm are installed.
pub fn check() -> Result<()> {
    for program in ["node", "npm"] {
        if !process::is_installed(program) {
            bail!("{}", missing(&format!("{program} is not installed")));
        }
    }
    let printed = process::capture_output(Command::new("node").arg("--version"))?;
    let version =
        parse(&printed).with_context(|| format!("`node --version` printed `{}`", printed.trim()))?;
    if !is_supported(version) {
        bail!("{}", missing(&format!("Node {} is too old", printed.trim())));
    }
    Ok(())
}

fn is_supported(version: (u32, u32)) -> bool {
    version >= MINIMUM || (version.0 == MINIMUM_20.0 && version >= MINIMUM_20)
}

fn missing(what: &str) -> String {
    let ((major, minor), (old, of_old)) = (MINIMUM, MINIMUM_20);
    format!(
        "{what}, and the web application is built with Node {major}.{minor} or newer, or with {old} from {old}.{of_old} on; \
         install it with\n\n  {INSTALL}\n\n\
         as root on Debian, or as https://nodejs.org/en/download says for other systems, and run the command again"
    )
}

fn parse(printed: &str) -> Option<(u32, u32)> {
    let mut parts = printed.trim().strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse("v20.19.2\n"), Some((20, 19)));
        assert_eq!(parse("20.19.2"), None);
        for enough in ["v20.19.0", "v20.100.0", "v22.12.0", "v23.0.0", "v100.0.0"] {
            assert!(is_supported(parse(enough).unwrap()), "{enough}");
        }
        for too_old in ["v18.20.4", "v20.9.0", "v20.18.3", "v21.7.3", "v22.9.0", "v22.11.0"] {
            assert!(!is_supported(parse(too_old).unwrap()), "{too_old}");
        }
    }

    #[test]
    fn the_error_names_the_command() {
        assert!(missing("node is not installed").contains("apt-get install -y nodejs"));
    }
}

//! Random passwords for the demo.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

/// Letters and digits that are easy to distinguish in a terminal.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Returns a password of four groups of four characters, which has 80 bits and is easy to type.
#[allow(clippy::disallowed_methods, reason = "a development command has no ambient sources to be passed")]
pub fn password() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("the system gives no random bytes: {error}"))?;
    Ok(grouped(bytes))
}

/// Writes a secret to a new file that only the current user can read.
pub fn write(path: &Path, secret: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| writeln!(file, "{secret}"))
        .with_context(|| format!("cannot write `{}`", path.display()))
}

fn grouped(bytes: [u8; 16]) -> String {
    let letters = bytes.iter().filter_map(|byte| ALPHABET.get(usize::from(byte % 32)).copied());
    let mut text = String::new();
    for (index, letter) in letters.enumerate() {
        if index > 0 && index % 4 == 0 {
            text.push('-');
        }
        text.push(char::from(letter));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_grouped_and_differ() {
        assert_eq!(grouped([0; 16]), "aaaa-aaaa-aaaa-aaaa");
        assert_ne!(password().unwrap(), password().unwrap());
    }
}

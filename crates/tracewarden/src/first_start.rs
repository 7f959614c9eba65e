//! Telling the operator the generated password of the first administrator, exactly once.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tracewarden_service::AppDb;

use crate::configuration::Configuration;

/// Shows the password on the terminal; without one, writes it to a file that only the own user can read and logs the
/// path. The password itself is never logged: logs are kept and copied.
///
/// # Errors
/// When the file cannot be written.
pub fn announce(username: &str, password: &str, configuration: &Configuration) -> anyhow::Result<()> {
    let mut terminal = io::stdout();
    if terminal.is_terminal() {
        writeln!(terminal, "\nCreated the administrator `{username}` with the password\n\n    {password}\n")?;
        writeln!(terminal, "It is shown this once, and must be changed at the first log-in.\n")?;
        return Ok(());
    }
    let path = password_file(configuration);
    write_private(&path, password).with_context(|| {
        format!(
            "cannot write the generated password to {}; set one with `tracewarden hash-password` and \
             `admin_password_hash`",
            path.display()
        )
    })?;
    tracing::warn!(
        username,
        path = %path.display(),
        "created the administrator; the password is in this file and must be changed at the first log-in"
    );
    Ok(())
}

/// As configured; else next to the database's file, where only the service's own user has a say; with a database on a
/// server, in the working directory.
fn password_file(configuration: &Configuration) -> PathBuf {
    let configured = configuration.initial_password_file.clone();
    configured.unwrap_or_else(|| match AppDb::file(configuration.database_url.expose()) {
        Some(path) => {
            let mut path = path.into_os_string();
            path.push(".initial-password");
            PathBuf::from(path)
        }
        None => PathBuf::from("tracewarden.initial-password"),
    })
}

fn write_private(path: &Path, password: &str) -> io::Result<()> {
    // A file that is there already may be readable by others, or lead elsewhere.
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{password}")?;
    file.sync_all()
}

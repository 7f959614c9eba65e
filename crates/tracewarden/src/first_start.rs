//! Telling the operator the generated password of the first administrator, exactly once.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Shows the password on the terminal; without one, writes it to a file that only the own user can read and logs the
/// path. The password itself is never logged: logs are kept and copied.
///
/// # Errors
/// When the file cannot be written.
pub fn announce(username: &str, password: &str, database_url: &str) -> anyhow::Result<()> {
    let mut terminal = io::stdout();
    if terminal.is_terminal() {
        writeln!(terminal, "\nCreated the administrator `{username}` with the password\n\n    {password}\n")?;
        writeln!(terminal, "It is shown this once, and must be changed at the first log-in.\n")?;
        return Ok(());
    }
    let path = password_file(database_url);
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

/// Next to the database, where only the service's own user has a say.
fn password_file(database_url: &str) -> PathBuf {
    let path = database_url.strip_prefix("sqlite:").unwrap_or(database_url);
    let path = path.strip_prefix("//").unwrap_or(path);
    let mut path = PathBuf::from(path).into_os_string();
    path.push(".initial-password");
    PathBuf::from(path)
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

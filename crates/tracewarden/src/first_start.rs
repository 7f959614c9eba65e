//! Shows the operator the first administrator's generated password, exactly once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf, absolute};

use anyhow::Context;
use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;
use secrecy::ExposeSecret as _;
use tracewarden_service::{AppDb, is_generated_password};

use crate::configuration::Configuration;

/// Destination of the password. It is never logged: logs are kept and copied.
#[derive(Debug)]
pub enum InitialPassword {
    /// Printed once the administrator exists.
    Terminal,
    /// Written before the administrator exists: if the password were lost afterwards, no user could sign in and it could
    /// not be recovered. Only the service's user can read the file.
    File {
        /// Absolute path.
        path: PathBuf,
        /// The password, once the file holds it.
        written: Option<String>,
    },
}

impl InitialPassword {
    /// Chooses the destination. The terminal, if both standard input and output are one: a container may have a terminal
    /// for output only, which ends up in its log. Otherwise a file: the configured one; else one next to the database file,
    /// in a directory that only the service's user controls; else, with a database server, one in the working directory.
    pub fn destination(configuration: &Configuration) -> anyhow::Result<Self> {
        if io::stdout().is_terminal() && io::stdin().is_terminal() {
            return Ok(Self::Terminal);
        }
        Ok(Self::File { path: file(configuration)?, written: None })
    }

    /// Returns the file that a start without a terminal would write, or why it could not be written.
    pub fn check(configuration: &Configuration) -> Result<PathBuf, String> {
        let path = file(configuration).map_err(|error| format!("{error:#}"))?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let writable = match path.symlink_metadata() {
            Ok(_) => open_own_file(&path).map(drop),
            Err(_) => rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK)
                .map_err(|error| format!("`{}`: {error}", directory.display())),
        };
        writable.map_err(|reason| write_error(&path, &reason)).map(|()| path)
    }

    /// Writes the password, if the destination is a file. An error says what to do about it; the file is then unchanged.
    pub fn store_password(&mut self, password: &str) -> Result<(), String> {
        let Self::File { path, written } = self else { return Ok(()) };
        write_private(path, password).map_err(|reason| write_error(path, &reason))?;
        *written = Some(password.to_owned());
        Ok(())
    }

    /// Removes the file after the administrator was not created.
    pub fn discard(&self) {
        let Self::File { path, written: Some(password) } = self else { return };
        // Another process that uses the same path may have written its own password.
        let still_ours = open_own_file(path).is_ok_and(|(_, text)| text.trim_end() == password);
        if still_ours && let Err(error) = fs::remove_file(path) {
            tracing::warn!(
                %error,
                path = %path.display(),
                "cannot remove this file; the password in it is not valid"
            );
        }
    }

    /// Tells the operator how to sign in, once the administrator exists.
    pub fn announce(&self, username: &str, password: &str) -> io::Result<()> {
        match self {
            Self::Terminal => {
                let mut terminal = io::stdout();
                writeln!(
                    terminal,
                    "\nCreated the administrator `{username}` with the password\n\n    {password}\n"
                )?;
                writeln!(terminal, "It is shown only once and must be changed at the first sign-in.\n")
            }
            Self::File { path, .. } => {
                tracing::warn!(
                    username,
                    path = %path.display(),
                    "created the administrator; the password is in this file and must be changed at the \
                     first sign-in"
                );
                Ok(())
            }
        }
    }
}

/// Returns the configured or the default file, as an absolute path.
fn file(configuration: &Configuration) -> anyhow::Result<PathBuf> {
    let configured = configuration.initial_password_file.clone();
    let path = configured.unwrap_or_else(|| match AppDb::file(configuration.database_url.expose_secret()) {
        Some(path) => {
            let mut path = path.into_os_string();
            path.push(".initial-password");
            PathBuf::from(path)
        }
        None => PathBuf::from("tracewarden.initial-password"),
    });
    absolute(&path).with_context(|| format!("cannot determine the absolute path of `{}`", path.display()))
}

fn write_error(path: &Path, reason: &str) -> String {
    format!(
        "cannot write the generated password to {}: {reason}; give another path as `initial_password_file`, or the hash of a \
         password (`tracewarden hash-password`) as `admin_password_hash`",
        path.display()
    )
}

/// Writes the file and syncs it to disk. An existing file is overwritten only if an earlier start created it.
fn write_private(path: &Path, password: &str) -> Result<(), String> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let (mut file, new) = match created {
        Ok(file) => (file, true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (open_own_file(path)?.0, false),
        Err(error) => return Err(error.to_string()),
    };
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{password}")?;
        file.sync_all()?;
        // A new file's name is durable only after its directory is synced.
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    };
    write(&mut file).map_err(|error| {
        if new {
            // The file did not exist before.
            let _ = fs::remove_file(path);
        }
        error.to_string()
    })
}

/// Opens the file at a path and returns it with its content, if an earlier start created it: a start that was killed before
/// the administrator existed, or one with a database that no longer exists. All checks use the open file, so that an
/// attacker cannot replace it between check and use.
fn open_own_file(path: &Path) -> Result<(File, String), String> {
    const OTHERS: u32 = 0o077;
    const BYTES_MAX: u64 = 64;
    let foreign_file_error = |reason: &str| format!("a file exists that no earlier start created ({reason})");
    // `NONBLOCK`: opening a named pipe must not wait for its writer.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP => foreign_file_error("a symbolic link"),
        error => error.to_string(),
    })?;
    let mut file = File::from(opened);
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() || metadata.nlink() != 1 {
        return Err(foreign_file_error("not a regular file"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & OTHERS != 0 {
        return Err(foreign_file_error("other users own it or have access to it"));
    }
    let mut text = String::new();
    let read = (&mut file).take(BYTES_MAX).read_to_string(&mut text);
    // The file is empty if the process was killed between creating and writing it.
    if read.is_err() || !(text.is_empty() || text.strip_suffix('\n').is_some_and(is_generated_password)) {
        return Err(foreign_file_error("it does not contain a generated password"));
    }
    Ok((file, text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const EARLIER: &str = "abcd-efgh-jkmn-pqrs-tuvw\n";
    const NEW: &str = "wvut-srqp-nmkj-hgfe-dcba";

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (directory, path)
    }

    #[test]
    fn overwrites_files_of_earlier_starts() {
        for left in ["", EARLIER] {
            let (_directory, path) = file(left, 0o600);
            write_private(&path, NEW).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{NEW}\n"));
        }
    }

    #[test]
    fn keeps_foreign_files() {
        for (text, mode) in
            [("other\n", 0o600), ("abcd\n", 0o600), (EARLIER, 0o644), (&EARLIER.repeat(3), 0o600)]
        {
            let (_directory, path) = file(text, mode);
            let error = write_private(&path, NEW).unwrap_err();
            assert!(error.contains("no earlier start created"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let (directory, path) = file(EARLIER, 0o600);
        let link = directory.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(write_private(&link, NEW).unwrap_err().contains("symbolic link"));
        fs::remove_file(&link).unwrap();
        symlink(directory.path().join("absent"), &link).unwrap();
        write_private(&link, NEW).unwrap_err();
        let second = directory.path().join("second");
        fs::hard_link(&path, &second).unwrap();
        write_private(&second, NEW).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), EARLIER);
        assert!(!directory.path().join("absent").exists());
    }

    #[test]
    fn removes_only_its_own_password_file() {
        let (_directory, path) = file("", 0o600);
        let mut destination = InitialPassword::File { path: path.clone(), written: None };
        destination.discard();
        assert!(path.exists());
        destination.store_password(NEW).unwrap();
        fs::write(&path, EARLIER).unwrap();
        destination.discard();
        assert!(path.exists());
        destination.store_password(NEW).unwrap();
        destination.discard();
        assert!(!path.exists());
    }
}

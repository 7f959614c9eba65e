//! Passwords and tokens of the tests: the service's output and answers must not contain them, except for the one answer
//! that returns them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use reqwest::header::HeaderMap;
use serde_json::Value;
use tracewarden_testkit::postgres::Database;

/// The secrets that were used or returned in this process.
static SECRETS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Prefix of a stored password hash. Only the application database may contain one.
const HASH: &str = "$argon2id$";

pub fn keep(secret: &str) {
    SECRETS.lock().unwrap_or_else(PoisonError::into_inner).insert(secret.to_owned());
}

/// Adds the password in a setting's value or URL.
pub fn keep_setting(name: &str, value: &str) {
    let password_in_url =
        |value: &str| Some(value.split_once("://")?.1.split_once('@')?.0.split_once(':')?.1.to_owned());
    let password = if name.ends_with("_PASSWORD") { Some(value.to_owned()) } else { password_in_url(value) };
    // A shorter one, as for a test database, occurs in texts by chance.
    if let Some(password) = password.filter(|password| password.len() >= 8) {
        keep(&password);
    }
}

/// Adds the passwords in a request, whatever its result. Values too short to be a password occur in texts by chance.
pub fn keep_passwords(body: &Value) {
    let sent = ["password", "current_password", "new_password"].map(|name| body[name].as_str());
    sent.into_iter().flatten().filter(|password| password.len() >= 12).for_each(keep);
}

/// Searches content of the application database, which may contain hashes.
#[track_caller]
pub fn assert_no_secrets(source: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let secrets = SECRETS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let found = secrets.iter().find(|secret| text.contains(*secret));
    assert!(found.is_none(), "{source} contains the secret {found:?}");
}

/// Searches content that operators or callers see.
#[track_caller]
pub fn assert_no_secrets_or_hashes(source: &str, bytes: &[u8]) {
    assert_no_secrets(source, bytes);
    assert!(!String::from_utf8_lossy(bytes).contains(HASH), "{source} contains the hash of a password");
}

/// Searches a database file.
#[track_caller]
pub fn assert_no_secrets_in_file(file: &Path) {
    let whole = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert_no_secrets("the database", &whole);
    // These files need not exist.
    for suffix in ["-wal", "-journal"] {
        let path = format!("{}{suffix}", file.display());
        assert_no_secrets(&path, &std::fs::read(&path).unwrap_or_default());
    }
}

/// Searches every table, if the server still runs.
pub fn assert_no_secrets_in_database(database: &Database) {
    let all = "SELECT query_to_xml(format('SELECT * FROM %I', tablename), true, false, '') FROM pg_tables \
               WHERE schemaname = 'public'";
    match database.run(&[all]) {
        Ok(rows) => assert_no_secrets("the database", rows.as_bytes()),
        Err(error) => {
            assert!(error.contains("connection to server"), "the database cannot be searched: {error}")
        }
    }
}

/// Searches an answer, and then adds the secrets that it returns.
#[track_caller]
pub fn check_answer(request_info: &str, headers: &HeaderMap, bytes: &[u8], body: &Value) {
    assert_no_secrets_or_hashes(&format!("the answer to {request_info}"), bytes);
    for name in ["token", "initial_password"] {
        if let Some(secret) = body.get(name).and_then(Value::as_str) {
            keep(secret);
        }
    }
    for cookie in headers.get_all("set-cookie").iter().filter_map(|value| value.to_str().ok()) {
        let (_, value) = cookie.split(';').next().unwrap_or_default().split_once('=').unwrap_or_default();
        if !value.is_empty() {
            keep(value);
        }
    }
}

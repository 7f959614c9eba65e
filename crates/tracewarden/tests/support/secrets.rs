//! Passwords and tokens of the tests: what a service writes or answers holds none of them, but for the one answer that gives
//! them out.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use reqwest::header::HeaderMap;
use serde_json::Value;
use tracewarden_testkit::postgres::Database;

/// Those that were used or given out in this process.
static SECRETS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// How a stored password begins. The own database holds such, and nothing else does.
const HASH: &str = "$argon2id$";

pub fn keep(secret: &str) {
    SECRETS.lock().unwrap_or_else(PoisonError::into_inner).insert(secret.to_owned());
}

/// Keeps the password that a setting is, or that an address has.
pub fn keep_setting(name: &str, value: &str) {
    let of_address =
        |value: &str| Some(value.split_once("://")?.1.split_once('@')?.0.split_once(':')?.1.to_owned());
    let password = if name.ends_with("_PASSWORD") { Some(value.to_owned()) } else { of_address(value) };
    // A shorter one, as of a test's database, stands in texts by chance.
    if let Some(password) = password.filter(|password| password.len() >= 8) {
        keep(&password);
    }
}

/// Keeps the passwords that a request sends, whatever becomes of it. What is too short to be one stands in texts by chance.
pub fn keep_passwords(body: &Value) {
    let sent = ["password", "current_password", "new_password"].map(|name| body[name].as_str());
    sent.into_iter().flatten().filter(|password| password.len() >= 12).for_each(keep);
}

/// Searches what the own database holds, which may be hashes.
#[track_caller]
pub fn none_in(place: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let secrets = SECRETS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let found = secrets.iter().find(|secret| text.contains(*secret));
    assert!(found.is_none(), "{place} holds the secret {found:?}");
}

/// Searches what everybody sees who runs the service or calls it.
#[track_caller]
pub fn not_even_hashes_in(place: &str, bytes: &[u8]) {
    none_in(place, bytes);
    assert!(!String::from_utf8_lossy(bytes).contains(HASH), "{place} holds the hash of a password");
}

/// Searches a database that is a file.
#[track_caller]
pub fn none_in_file(file: &Path) {
    let whole = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    none_in("the database", &whole);
    // There need be none of these.
    for beside in ["-wal", "-journal"] {
        let path = format!("{}{beside}", file.display());
        none_in(&path, &std::fs::read(&path).unwrap_or_default());
    }
}

/// Searches every table, if the server still runs.
pub fn none_in_database(database: &Database) {
    let all = "SELECT query_to_xml(format('SELECT * FROM %I', tablename), true, false, '') FROM pg_tables \
               WHERE schemaname = 'public'";
    match database.run(&[all]) {
        Ok(rows) => none_in("the database", rows.as_bytes()),
        Err(error) => {
            assert!(error.contains("connection to server"), "the database cannot be searched: {error}")
        }
    }
}

/// Searches an answer, and then keeps the secrets that it gives out.
#[track_caller]
pub fn answered(asked: &str, headers: &HeaderMap, bytes: &[u8], body: &Value) {
    not_even_hashes_in(&format!("the answer to {asked}"), bytes);
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

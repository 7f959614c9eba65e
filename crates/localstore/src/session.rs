//! Provides the connection of a statement: a new one, or that of the client's session (`session_id`).
//!
//! Settings in a request's URL apply to that request only. With a new connection they are discarded with it. On a
//! session's connection, the previous settings are read first and restored afterwards; if that fails, the session is
//! closed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::{Connection, Engine};
use crate::error::{EngineError, code};

/// ClickHouse's default for `session_timeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// ClickHouse's default for the maximum of `session_timeout`.
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
const MAX_SESSIONS: usize = 1024;

/// The database of a session before any `USE`.
const DEFAULT_DATABASE: &str = "default";

/// The session of a request.
#[derive(Debug, Clone)]
pub struct SessionRequest {
    /// `session_id`
    pub id: String,
    /// `session_check=1`: the session must exist.
    pub must_exist: bool,
    /// `session_timeout` in seconds.
    pub timeout_seconds: Option<u64>,
}

struct IdleSession {
    connection: Connection,
    database: String,
    unused_since: Instant,
    timeout: Duration,
}

/// The sessions kept between requests.
pub struct Sessions {
    engine: Arc<Engine>,
    /// `None` while a request uses the session.
    kept: Mutex<HashMap<String, Option<IdleSession>>>,
}

impl Sessions {
    /// Creates an empty registry of sessions.
    pub fn new(engine: Arc<Engine>) -> Arc<Self> {
        Arc::new(Self { engine, kept: Mutex::default() })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Option<IdleSession>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes expired sessions.
    pub fn close_expired(&self) {
        self.lock()
            .retain(|_, kept| kept.as_ref().is_none_or(|kept| kept.unused_since.elapsed() < kept.timeout));
    }

    /// Closes all sessions that are not in use.
    pub fn close_all(&self) {
        self.lock().clear();
    }

    /// Returns a connection for one statement. Errors: the session is in use (373) or does not exist (372).
    pub fn checkout(self: &Arc<Self>, request: Option<&SessionRequest>) -> Result<Checkout, EngineError> {
        let Some(request) = request else {
            return Ok(Checkout {
                connection: Some(self.engine.connect()?),
                database: DEFAULT_DATABASE.to_owned(),
                session_slot: None,
                settings: Vec::new(),
            });
        };
        self.close_expired();
        let kept = match self.lock().get_mut(&request.id) {
            Some(slot) => Some(slot.take().ok_or_else(|| {
                EngineError::new(
                    code::SESSION_IS_LOCKED,
                    "SESSION_IS_LOCKED",
                    format_args!("Session {} is locked by a concurrent client", request.id),
                )
            })?),
            None if request.must_exist => {
                return Err(EngineError::new(
                    code::SESSION_NOT_FOUND,
                    "SESSION_NOT_FOUND",
                    format_args!("Session {} not found", request.id),
                ));
            }
            None => None,
        };
        let timeout = request
            .timeout_seconds
            .map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs(seconds).min(MAX_TIMEOUT));
        let (connection, database) = match kept {
            Some(kept) => (kept.connection, kept.database),
            None => {
                let mut sessions = self.lock();
                if sessions.len() >= MAX_SESSIONS {
                    return Err(EngineError::new(
                        code::TOO_MANY_SIMULTANEOUS_QUERIES,
                        "TOO_MANY_SIMULTANEOUS_QUERIES",
                        "Too many sessions",
                    ));
                }
                sessions.insert(request.id.clone(), None);
                drop(sessions);
                let connection = self.engine.connect().inspect_err(|_| {
                    self.lock().remove(&request.id);
                })?;
                (connection, DEFAULT_DATABASE.to_owned())
            }
        };
        let session_slot = Some(SessionSlot { sessions: Arc::clone(self), id: request.id.clone(), timeout });
        Ok(Checkout { connection: Some(connection), database, session_slot, settings: Vec::new() })
    }
}

struct SessionSlot {
    sessions: Arc<Sessions>,
    id: String,
    timeout: Duration,
}

/// A connection in use. On drop, a session's connection is returned with its settings restored.
pub struct Checkout {
    connection: Option<Connection>,
    database: String,
    session_slot: Option<SessionSlot>,
    /// Statements that restore the session's settings.
    settings: Vec<Vec<u8>>,
}

impl Checkout {
    /// Returns the connection.
    pub fn connection(&mut self) -> Result<&mut Connection, EngineError> {
        self.connection.as_mut().ok_or_else(|| EngineError::local("the connection is closed"))
    }

    /// Applies the settings and the database of a request. The caller must have checked that the names of the settings
    /// are plain words.
    pub fn prepare(
        &mut self,
        settings: &[(String, Vec<u8>)],
        database: Option<&str>,
    ) -> Result<(), EngineError> {
        if self.session_slot.is_some() {
            self.save_settings(settings)?;
        }
        if !settings.is_empty() {
            let mut statement = b"SET ".to_vec();
            for (index, (name, value)) in settings.iter().enumerate() {
                if index > 0 {
                    statement.extend_from_slice(b", ");
                }
                statement.extend_from_slice(name.as_bytes());
                statement.extend_from_slice(b" = ");
                quote_string(&mut statement, value);
            }
            self.run(&statement)?;
        }
        if let Some(database) = database.filter(|database| *database != self.database) {
            self.use_database(database)?;
            if self.session_slot.is_some() {
                let mut restore_database = b"USE ".to_vec();
                quote_identifier(&mut restore_database, &self.database);
                self.settings.push(restore_database);
            }
        }
        Ok(())
    }

    /// Records a `USE` of the client, which applies for the rest of the session.
    pub fn record_use(&mut self) -> Result<(), EngineError> {
        if self.session_slot.is_some() {
            let current = self.connection()?.run("SELECT currentDatabase() FORMAT TSVRaw")?;
            self.database = String::from_utf8_lossy(current.as_ref()).trim_end().to_owned();
            self.settings.retain(|statement| !statement.starts_with(b"USE "));
        }
        Ok(())
    }

    fn use_database(&mut self, database: &str) -> Result<(), EngineError> {
        let mut statement = b"USE ".to_vec();
        quote_identifier(&mut statement, database);
        self.run(&statement)
    }

    fn run(&mut self, statement: &[u8]) -> Result<(), EngineError> {
        self.connection()?
            .query(crate::engine::Query { text: statement, format: "Null", params: &[] })
            .map(drop)
    }

    /// Reads the current settings, so that they can be restored.
    fn save_settings(&mut self, settings: &[(String, Vec<u8>)]) -> Result<(), EngineError> {
        if settings.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = settings.iter().map(|(name, _)| format!("'{name}'")).collect();
        // `readonly` comes first: the others cannot be changed until it is restored. Unknown names are left out here;
        // applying them fails later.
        let query = format!(
            "SELECT name, changed, hex(value) FROM system.settings WHERE name IN ({}) ORDER BY name != 'readonly' FORMAT TSV",
            names.join(", ")
        );
        let answer = self.connection()?.run(&query)?;
        for line in String::from_utf8_lossy(answer.as_ref()).lines() {
            let mut columns = line.split('\t');
            let (Some(name), Some(changed), Some(value)) = (columns.next(), columns.next(), columns.next())
            else {
                continue;
            };
            let mut statement = format!("SET {name} = ").into_bytes();
            if changed == "1" {
                quote_string(&mut statement, &hex::decode(value).unwrap_or_default());
            } else {
                statement.extend_from_slice(b"DEFAULT");
            }
            self.settings.push(statement);
        }
        Ok(())
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        let Some(session_slot) = self.session_slot.take() else { return };
        let statements = std::mem::take(&mut self.settings);
        let restored = statements.iter().try_for_each(|statement| self.run(statement));
        let mut sessions = session_slot.sessions.lock();
        match (restored, self.connection.take()) {
            (Ok(()), Some(connection)) => {
                let kept = IdleSession {
                    connection,
                    database: std::mem::take(&mut self.database),
                    unused_since: Instant::now(),
                    timeout: session_slot.timeout,
                };
                sessions.insert(session_slot.id, Some(kept));
            }
            (result, _) => {
                sessions.remove(&session_slot.id);
                if let Err(error) = result {
                    tracing::warn!(%error, "closed a session whose settings could not be restored");
                }
            }
        }
    }
}

/// Appends a string literal that the engine parses back to the same bytes.
fn quote_string(out: &mut Vec<u8>, value: &[u8]) {
    quote(out, value, b'\'');
}

/// Appends an identifier that the engine parses back unchanged.
pub fn quote_identifier(out: &mut Vec<u8>, name: &str) {
    quote(out, name.as_bytes(), b'`');
}

fn quote(out: &mut Vec<u8>, value: &[u8], mark: u8) {
    out.push(mark);
    for byte in value {
        match byte {
            0 => out.extend_from_slice(b"\\0"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            byte if *byte == mark => out.extend_from_slice(&[b'\\', *byte]),
            byte => out.push(*byte),
        }
    }
    out.push(mark);
}

//! The ClickHouse engine: `libchdb.so`, loaded at run time, behind safe types.
//!
//! Invariants of this module, on which its callers can rely:
//! - the engine's signal handlers are disabled before its first connection, so that the handlers of this process
//!   remain;
//! - connections are opened and closed under one lock;
//! - a connection runs one statement at a time (`&mut self`);
//! - the error of *every* result is checked, also of an empty one: a query that fails late has no other sign of
//!   failure;
//! - one connection is kept open for the lifetime of the engine, because closing the last one stops the engine.
//!
//! A further connection costs about 0.2 ms. Every statement therefore gets a new one, so that settings cannot leak.
#![allow(unsafe_code)] // The engine is a C library; this is the only module that calls it.

mod library;

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::library::{Api, QueryWithParams, RawAnalysis, RawConnection, RawInsert, RawResult};
use crate::error::{EngineError, code};

/// Counters of a statement: rows and bytes read, written and returned so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows and uncompressed bytes read from tables.
    pub read_rows: u64,
    pub read_bytes: u64,
    /// Rows and bytes written to tables, materialized views included.
    pub written_rows: u64,
    pub written_bytes: u64,
    /// Rows and bytes (in the engine's memory format) of the result.
    pub result_rows: u64,
    pub result_bytes: u64,
}

/// A result of the engine, freed on drop. Its bytes remain in the engine's memory.
pub struct Chunk {
    raw: RawResult,
    api: &'static Api,
}

// SAFETY: a result is immutable once returned and not bound to a thread; only `drop` changes it.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Takes ownership of a result; converts a result with an error into that error.
    fn from_raw(raw: RawResult, api: &'static Api) -> Result<Self, EngineError> {
        if raw.is_null() {
            return Err(EngineError::local("the engine returned no result"));
        }
        let chunk = Self { raw, api };
        // SAFETY: `raw` is a live result, and its message is null or NUL-terminated and lives as long as the result.
        match unsafe { message_text((api.result_error)(raw)) } {
            Some(message) if !message.is_empty() => Err(EngineError::from_message(&message)),
            _ => Ok(chunk),
        }
    }

    pub fn progress(&self) -> Progress {
        // SAFETY: `raw` is a live result.
        unsafe {
            Progress {
                read_rows: (self.api.storage_rows_read)(self.raw),
                read_bytes: (self.api.storage_bytes_read)(self.raw),
                written_rows: (self.api.rows_written)(self.raw),
                written_bytes: (self.api.bytes_written)(self.raw),
                result_rows: (self.api.rows_read)(self.raw),
                result_bytes: (self.api.bytes_read)(self.raw),
            }
        }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the engine guarantees `length` readable bytes at `buffer` until the result is destroyed.
        unsafe {
            let length = (self.api.result_length)(self.raw);
            let buffer = (self.api.result_buffer)(self.raw);
            if buffer.is_null() || length == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(buffer.cast::<u8>(), length)
            }
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: destroyed exactly once.
        unsafe { (self.api.destroy_result)(self.raw) }
    }
}

/// Copies a message of the engine; `None` if it is null.
///
/// # Safety
/// A message that is not null must be NUL-terminated.
unsafe fn message_text(message: *const c_char) -> Option<String> {
    // SAFETY: the caller ensures it.
    (!message.is_null()).then(|| unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned())
}

/// A statement's text with the values of its `{name:Type}` placeholders.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The statement; not necessarily UTF-8.
    pub text: &'a [u8],
    /// Output or input format if the text names none.
    pub format: &'a str,
    /// Names (without `param_`) and values in ClickHouse's escaped text form.
    pub params: &'a [(String, Vec<u8>)],
}

impl Query<'_> {
    fn call(&self, function: QueryWithParams, connection: RawConnection) -> RawResult {
        let names = self.params.iter().map(|(name, _)| (name.as_ptr().cast(), name.len()));
        let (names, name_lengths): (Vec<*const c_char>, Vec<usize>) = names.unzip();
        let values = self.params.iter().map(|(_, value)| (value.as_ptr().cast(), value.len()));
        let (values, value_lengths): (Vec<*const c_char>, Vec<usize>) = values.unzip();
        // SAFETY: every pointer is paired with its length and outlives the call; the connection is live.
        unsafe {
            function(
                connection,
                self.text.as_ptr().cast(),
                self.text.len(),
                self.format.as_ptr().cast(),
                self.format.len(),
                names.as_ptr(),
                name_lengths.as_ptr(),
                values.as_ptr(),
                value_lengths.as_ptr(),
                self.params.len(),
            )
        }
    }
}

/// The running engine. A process has one engine with one data directory.
pub struct Engine {
    api: &'static Api,
    arguments: Vec<CString>,
    /// Connections must not be opened and closed concurrently. Contains the connection that is kept open.
    connection_lock: Mutex<Option<KeptConnection>>,
}

struct KeptConnection(*mut RawConnection);
// SAFETY: the pointer is only used to close the connection, under the gate's lock.
unsafe impl Send for KeptConnection {}

impl Engine {
    /// Loads the library and starts the engine on a data directory.
    ///
    /// `memory_limit` is in bytes and applies to all queries together; 0 leaves it to the engine.
    pub fn start(library: &Path, data: &Path, memory_limit: u64) -> Result<Arc<Self>, EngineError> {
        let api: &'static Api = Box::leak(Box::new(Api::load(library)?));
        // SAFETY: called before the first connection, as the header requires.
        unsafe { (api.set_signal_handlers)(0) };
        let data =
            data.to_str().ok_or_else(|| EngineError::local("the data directory's path is not UTF-8"))?;
        let mut arguments = vec![
            "tracewarden-localstore".to_owned(),
            format!("--path={data}"),
            "--mark_cache_size=134217728".to_owned(),
            "--index_mark_cache_size=33554432".to_owned(),
            "--logger.level=none".to_owned(),
        ];
        if memory_limit > 0 {
            arguments.push(format!("--max_server_memory_usage={memory_limit}"));
        }
        let arguments = arguments
            .into_iter()
            .map(|argument| {
                CString::new(argument)
                    .map_err(|_| EngineError::local("the data directory's path holds a NUL byte"))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let engine = Arc::new(Self { api, arguments, connection_lock: Mutex::new(None) });
        let kept = engine.connect_raw(&mut engine.lock())?;
        *engine.lock() = Some(KeptConnection(kept));
        Ok(engine)
    }

    fn lock(&self) -> MutexGuard<'_, Option<KeptConnection>> {
        self.connection_lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect_raw(
        &self,
        _guard: &mut MutexGuard<'_, Option<KeptConnection>>,
    ) -> Result<*mut RawConnection, EngineError> {
        let mut pointers: Vec<*mut c_char> =
            self.arguments.iter().map(|argument| argument.as_ptr().cast_mut()).collect();
        let count = c_int::try_from(pointers.len()).unwrap_or(0);
        // SAFETY: `count` NUL-terminated strings that outlive the call; the engine does not write to them.
        let raw = unsafe { (self.api.connect)(count, pointers.as_mut_ptr()) };
        // SAFETY: a non-null result points to a connection handle.
        if raw.is_null() || unsafe { *raw }.is_null() {
            return Err(EngineError::local("the engine refused a connection"));
        }
        Ok(raw)
    }

    /// Opens a connection with its own session, default settings and the database `default`.
    pub fn connect(self: &Arc<Self>) -> Result<Connection, EngineError> {
        let raw = self.connect_raw(&mut self.lock())?;
        Ok(Connection { raw, engine: Arc::clone(self) })
    }

    /// Closes the kept connection and stops the engine's threads, so that tables are closed in order. Does nothing
    /// while another connection is open.
    pub fn shutdown(&self) {
        let mut connection_lock = self.lock();
        if let Some(KeptConnection(raw)) = connection_lock.take() {
            // SAFETY: closed exactly once; `shutdown` itself checks for open connections.
            unsafe {
                (self.api.close)(raw);
                (self.api.shutdown)();
            }
        }
    }
}

/// A session of the engine. Closed on drop, which also stops its running statements.
pub struct Connection {
    raw: *mut RawConnection,
    engine: Arc<Engine>,
}

// SAFETY: any thread may use a connection, one at a time; `&mut self` ensures that.
unsafe impl Send for Connection {}

impl Connection {
    fn handle(&self) -> RawConnection {
        // SAFETY: checked to be non-null when opened.
        unsafe { *self.raw }
    }

    /// Runs one or several statements to completion and returns the whole output.
    pub fn query(&mut self, query: Query<'_>) -> Result<Chunk, EngineError> {
        Chunk::from_raw(query.call(self.engine.api.query, self.handle()), self.engine.api)
    }

    /// As [`Self::query`], for an internal statement without parameters.
    pub fn run(&mut self, text: impl AsRef<[u8]>) -> Result<Chunk, EngineError> {
        self.query(Query { text: text.as_ref(), format: "TabSeparated", params: &[] })
    }

    /// Analyses a text with the engine's parser, without running it.
    pub fn classify(&mut self, text: &[u8]) -> Result<QueryClass, EngineError> {
        let size = u32::try_from(size_of::<RawAnalysis>()).unwrap_or(0);
        let mut analysis = RawAnalysis { struct_size: size, ..RawAnalysis::default() };
        // SAFETY: the text is paired with its length; the report is as large as its first field says.
        let state = unsafe {
            let (start, length) = (text.as_ptr().cast(), text.len());
            let report = &raw mut analysis;
            (self.engine.api.classify)(self.handle(), start, length, std::ptr::null(), 0, report)
        };
        if state != 0 {
            return Err(EngineError::local("the engine cannot classify the statement"));
        }
        Ok(match (analysis.statement_count, analysis.query_class) {
            (1, 0) => QueryClass::Read,
            (1, 1 | 2) => QueryClass::Write,
            (1, 3) => QueryClass::Control,
            _ => QueryClass::NotOneStatement,
        })
    }

    /// Returns the error for a text of [`QueryClass::NotOneStatement`]. The engine's streaming call parses the text first
    /// and runs it only if it is exactly one statement.
    pub fn parse_error(&mut self, query: Query<'_>) -> EngineError {
        let api = self.engine.api;
        match Chunk::from_raw(query.call(api.stream_query, self.handle()), api) {
            Err(error) if error.code != code::BAD_ARGUMENTS.0 => error,
            _ => EngineError::new(code::SYNTAX_ERROR, "Syntax error: send one statement"),
        }
    }

    /// Starts an `INSERT` (without its `FORMAT` clause); its data follows in parts.
    pub fn insert(&mut self, query: Query<'_>) -> Result<Insert<'_>, EngineError> {
        let api = self.engine.api;
        let raw = query.call(api.stream_insert, self.handle());
        if raw.is_null() {
            return Err(EngineError::local("the engine returned no insert stream"));
        }
        let insert = Insert { raw, api, _connection: self };
        // SAFETY: `raw` is a live insert stream; its message is null or NUL-terminated.
        match unsafe { message_text((api.insert_error)(raw)) } {
            Some(message) => Err(EngineError::from_message(&message)),
            None => Ok(insert),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _guard = self.engine.lock();
        // SAFETY: closed exactly once, and nothing borrows the connection any more.
        unsafe { (self.engine.api.close)(self.raw) }
    }
}

/// Class of a text according to the engine's parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryClass {
    /// One statement that changes no data.
    Read,
    /// One statement that changes data.
    Write,
    /// One statement about the session, the process or files: `SET`, `USE`, `KILL`, `SYSTEM`, `INTO OUTFILE`.
    Control,
    /// No statement, several statements, or a syntax error.
    NotOneStatement,
}

/// A running `INSERT`. Dropping it without [`Insert::finish`] cancels it.
pub struct Insert<'a> {
    raw: RawInsert,
    api: &'static Api,
    _connection: &'a mut Connection,
}

impl Insert<'_> {
    /// Appends a part of the data; blocks while the engine is behind. Returns false if the insert has failed; `finish`
    /// returns the error.
    pub fn append(&mut self, data: &[u8]) -> bool {
        // SAFETY: the engine copies `data` during the call.
        unsafe { (self.api.stream_append)(self.raw, data.as_ptr().cast(), data.len()) == 0 }
    }

    /// Ends the data, waits until it is written and returns the counters.
    pub fn finish(self) -> Result<Progress, EngineError> {
        // SAFETY: `raw` is live until `drop`, which runs after this.
        let raw = unsafe { (self.api.stream_done)(self.raw) };
        Ok(Chunk::from_raw(raw, self.api)?.progress())
    }
}

impl Drop for Insert<'_> {
    fn drop(&mut self) {
        // SAFETY: destroyed exactly once; an unfinished insert is cancelled first.
        unsafe { (self.api.destroy_insert)(self.raw) }
    }
}

//! The functions of `libchdb.so`, declared by hand after its C header.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use crate::error::EngineError;

pub(super) type RawConnection = *mut c_void;
pub(super) type RawResult = *mut c_void;
pub(super) type RawInsert = *mut c_void;
pub(super) type QueryWithParams = unsafe extern "C" fn(
    RawConnection,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    *const *const c_char,
    *const usize,
    usize,
) -> RawResult;

/// Analysis of a query text by the library, `chdb_query_analysis_v1`.
#[repr(C)]
#[derive(Default)]
pub(super) struct RawAnalysis {
    pub(super) struct_size: u32,
    pub(super) statement_count: u32,
    pub(super) flags: u32,
    pub(super) query_class: u32,
}

/// The used functions of the library, with the signatures of its C header.
pub(super) struct Api {
    pub(super) connect: unsafe extern "C" fn(c_int, *mut *mut c_char) -> *mut RawConnection,
    pub(super) close: unsafe extern "C" fn(*mut RawConnection),
    pub(super) query: QueryWithParams,
    pub(super) stream_query: QueryWithParams,
    pub(super) classify: unsafe extern "C" fn(
        RawConnection,
        *const c_char,
        usize,
        *const c_char,
        usize,
        *mut RawAnalysis,
    ) -> c_int,
    pub(super) destroy_result: unsafe extern "C" fn(RawResult),
    pub(super) stream_insert: QueryWithParams,
    pub(super) stream_append: unsafe extern "C" fn(RawInsert, *const c_void, usize) -> c_int,
    pub(super) stream_done: unsafe extern "C" fn(RawInsert) -> RawResult,
    pub(super) insert_error: unsafe extern "C" fn(RawInsert) -> *const c_char,
    pub(super) destroy_insert: unsafe extern "C" fn(RawInsert),
    pub(super) result_buffer: unsafe extern "C" fn(RawResult) -> *mut c_char,
    pub(super) result_length: unsafe extern "C" fn(RawResult) -> usize,
    pub(super) result_error: unsafe extern "C" fn(RawResult) -> *const c_char,
    pub(super) rows_read: unsafe extern "C" fn(RawResult) -> u64,
    pub(super) bytes_read: unsafe extern "C" fn(RawResult) -> u64,
    pub(super) storage_rows_read: unsafe extern "C" fn(RawResult) -> u64,
    pub(super) storage_bytes_read: unsafe extern "C" fn(RawResult) -> u64,
    pub(super) rows_written: unsafe extern "C" fn(RawResult) -> u64,
    pub(super) bytes_written: unsafe extern "C" fn(RawResult) -> u64,
    pub(super) set_signal_handlers: unsafe extern "C" fn(c_int),
    pub(super) shutdown: unsafe extern "C" fn() -> c_int,
}

macro_rules! symbols {
    ($library:ident, $($field:ident = $name:literal),+ $(,)?) => {
        Api { $($field: {
            // SAFETY: the field's type is the signature that the library's header declares for this name.
            *unsafe { $library.get(concat!($name, "\0").as_bytes()) }
                .map_err(|error| EngineError::local(format!("the engine library has no `{}`: {error}", $name)))?
        }),+ }
    };
}

impl Api {
    /// Loads the library for the rest of the process.
    pub(super) fn load(path: &Path) -> Result<Self, EngineError> {
        // SAFETY: the library's initialisers are those of the ClickHouse engine; its version is pinned, and the library
        // was checked when it was downloaded.
        let library = unsafe { libloading::Library::new(path) }.map_err(|error| {
            EngineError::local(format!("cannot load the engine from {}: {error}", path.display()))
        })?;
        // Never unloaded: the engine's threads run in its code until the process ends.
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        Ok(symbols!(
            library,
            connect = "chdb_connect",
            close = "chdb_close_conn",
            query = "chdb_query_with_params_n",
            stream_query = "chdb_stream_query_with_params_n",
            classify = "chdb_classify_query_n",
            destroy_result = "chdb_destroy_query_result",
            stream_insert = "chdb_stream_insert_with_params_n",
            stream_append = "chdb_stream_append",
            stream_done = "chdb_stream_done",
            insert_error = "chdb_stream_insert_error",
            destroy_insert = "chdb_destroy_insert_stream",
            result_buffer = "chdb_result_buffer",
            result_length = "chdb_result_length",
            result_error = "chdb_result_error",
            rows_read = "chdb_result_rows_read",
            bytes_read = "chdb_result_bytes_read",
            storage_rows_read = "chdb_result_storage_rows_read",
            storage_bytes_read = "chdb_result_storage_bytes_read",
            rows_written = "chdb_result_rows_written",
            bytes_written = "chdb_result_bytes_written",
            set_signal_handlers = "chdb_set_signal_handlers_enabled",
            shutdown = "chdb_shutdown",
        ))
    }
}

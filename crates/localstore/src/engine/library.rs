//! The functions of `libchdb.so`, declared by hand after its C header.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use libloading::Library;

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

/// Declares the used functions of the library: field, name in the library, and signature of its C header.
macro_rules! functions {
    ($($field:ident = $name:literal: $signature:ty;)+) => {
        pub(super) struct Api {
            $(pub(super) $field: $signature,)+
        }

        impl Api {
            fn find(library: &'static Library) -> Result<Self, EngineError> {
                Ok(Self { $($field: {
                    // SAFETY: the field's type is the signature that the library's header declares for this name.
                    *unsafe { library.get(concat!($name, "\0").as_bytes()) }.map_err(|error| {
                        EngineError::local(format!("the engine library has no `{}`: {error}", $name))
                    })?
                }),+ })
            }
        }
    };
}

functions! {
    connect = "chdb_connect": unsafe extern "C" fn(c_int, *mut *mut c_char) -> *mut RawConnection;
    close = "chdb_close_conn": unsafe extern "C" fn(*mut RawConnection);
    query = "chdb_query_with_params_n": QueryWithParams;
    stream_query = "chdb_stream_query_with_params_n": QueryWithParams;
    classify = "chdb_classify_query_n":
        unsafe extern "C" fn(RawConnection, *const c_char, usize, *const c_char, usize, *mut RawAnalysis) -> c_int;
    destroy_result = "chdb_destroy_query_result": unsafe extern "C" fn(RawResult);
    stream_insert = "chdb_stream_insert_with_params_n": QueryWithParams;
    stream_append = "chdb_stream_append": unsafe extern "C" fn(RawInsert, *const c_void, usize) -> c_int;
    stream_done = "chdb_stream_done": unsafe extern "C" fn(RawInsert) -> RawResult;
    insert_error = "chdb_stream_insert_error": unsafe extern "C" fn(RawInsert) -> *const c_char;
    destroy_insert = "chdb_destroy_insert_stream": unsafe extern "C" fn(RawInsert);
    result_buffer = "chdb_result_buffer": unsafe extern "C" fn(RawResult) -> *mut c_char;
    result_length = "chdb_result_length": unsafe extern "C" fn(RawResult) -> usize;
    result_error = "chdb_result_error": unsafe extern "C" fn(RawResult) -> *const c_char;
    rows_read = "chdb_result_rows_read": unsafe extern "C" fn(RawResult) -> u64;
    bytes_read = "chdb_result_bytes_read": unsafe extern "C" fn(RawResult) -> u64;
    storage_rows_read = "chdb_result_storage_rows_read": unsafe extern "C" fn(RawResult) -> u64;
    storage_bytes_read = "chdb_result_storage_bytes_read": unsafe extern "C" fn(RawResult) -> u64;
    rows_written = "chdb_result_rows_written": unsafe extern "C" fn(RawResult) -> u64;
    bytes_written = "chdb_result_bytes_written": unsafe extern "C" fn(RawResult) -> u64;
    set_signal_handlers = "chdb_set_signal_handlers_enabled": unsafe extern "C" fn(c_int);
    shutdown = "chdb_shutdown": unsafe extern "C" fn() -> c_int;
}

impl Api {
    /// Loads the library for the rest of the process.
    pub(super) fn load(path: &Path) -> Result<Self, EngineError> {
        // SAFETY: the library's initialisers are those of the ClickHouse engine; its version is pinned, and the library
        // was checked when it was downloaded.
        let library = unsafe { Library::new(path) }.map_err(|error| {
            EngineError::local(format!("cannot load the engine from {}: {error}", path.display()))
        })?;
        // Never unloaded: the engine's threads run in its code until the process ends.
        Self::find(Box::leak(Box::new(library)))
    }
}

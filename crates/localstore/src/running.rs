//! The registry of running queries, which can stop them.
//!
//! The engine assigns its own query ids, so each query gets a mark in its setting `log_comment`. With the mark, the
//! query is found in `system.processes` and killed. A killed `SELECT` may end like a completed one. Its reader must
//! therefore check the stop reason in this registry before it reports completion.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::engine::Engine;
use crate::error::{EngineError, code};

const MARK_PREFIX: &str = "tracewarden:";

/// Returns the `log_comment` of a query: the mark, the client's query id, and the client's own comment.
pub fn log_comment(running: &RunningQuery, comment: &[u8]) -> Vec<u8> {
    let mut marked =
        format!("{MARK_PREFIX}{}:{}:", running.mark, hex::encode(&running.query_id)).into_bytes();
    marked.extend_from_slice(comment);
    marked
}

/// `system.processes` as clients expect it, with their own query ids and texts.
pub const PROCESSES_VIEW: &str = "(SELECT * REPLACE (if(startsWith(Settings['log_comment'], 'tracewarden:'), \
     unhex(splitByChar(':', Settings['log_comment'])[3]), query_id) AS query_id, \
     replaceRegexpOne(query, ' INTO OUTFILE ./dev/fd/[0-9]+. APPEND ', ' ') AS query) FROM system.processes)";

/// The mark in a row of [`PROCESSES_VIEW`]; empty for the engine's own queries.
pub const MARK_COLUMN: &str = "if(startsWith(Settings['log_comment'], 'tracewarden:'), splitByChar(':', Settings['log_comment'])[2], '')";

/// Reason why a query was stopped.
#[derive(Debug, Clone, Copy)]
pub enum StopReason {
    /// `KILL QUERY`, or the client disconnected.
    Cancelled,
    /// The query ran longer than `max_execution_time`.
    TimedOut,
}

#[derive(Debug)]
pub struct RunningQuery {
    /// The client's query id.
    pub query_id: String,
    pub mark: String,
    started: Instant,
    stop: watch::Sender<Option<StopReason>>,
}

impl RunningQuery {
    pub async fn wait_for_stop(&self) {
        // The sender lives as long as this query.
        let _ = self.stop.subscribe().wait_for(Option::is_some).await;
    }

    /// Returns the error with which the query must end if it was stopped.
    pub fn stop_error(&self) -> Option<EngineError> {
        let stop = *self.stop.borrow();
        stop.map(|reason| match reason {
            StopReason::Cancelled => EngineError::new(code::QUERY_WAS_CANCELLED, "Query was cancelled"),
            StopReason::TimedOut => EngineError::new(
                code::TIMEOUT_EXCEEDED,
                format_args!("Timeout exceeded: elapsed {} ms", self.started.elapsed().as_millis()),
            ),
        })
    }
}

pub struct Registry {
    pub engine: Arc<Engine>,
    limit: usize,
    next_mark: AtomicU64,
    queries: Mutex<HashMap<String, Arc<RunningQuery>>>,
}

impl Registry {
    /// Creates a registry; `limit` is the maximum number of concurrent queries.
    pub fn new(engine: Arc<Engine>, limit: usize) -> Arc<Self> {
        Arc::new(Self { engine, limit, next_mark: AtomicU64::new(1), queries: Mutex::default() })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<RunningQuery>>> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a query. Errors: its id is in use (216), or too many queries are running (202).
    pub fn register(self: &Arc<Self>, query_id: &str) -> Result<Entry, EngineError> {
        let mut queries = self.lock();
        if queries.values().any(|running| running.query_id == query_id) {
            return Err(EngineError::new(
                code::QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING,
                format_args!("Query with id = {query_id} is already running"),
            ));
        }
        if queries.len() >= self.limit {
            return Err(EngineError::new(
                code::TOO_MANY_SIMULTANEOUS_QUERIES,
                format_args!("Too many simultaneous queries. Maximum: {}", self.limit),
            ));
        }
        let mark = self.next_mark.fetch_add(1, Ordering::Relaxed).to_string();
        let running = Arc::new(RunningQuery {
            query_id: query_id.to_owned(),
            mark: mark.clone(),
            started: Instant::now(),
            stop: watch::Sender::new(None),
        });
        queries.insert(mark, Arc::clone(&running));
        Ok(Entry { registry: Arc::clone(self), running })
    }

    /// Stops the queries with these marks. Returns immediately; a thread retries until they have ended.
    pub fn stop(self: &Arc<Self>, marks: &[String], reason: StopReason) {
        let found: Vec<Arc<RunningQuery>> = {
            let queries = self.lock();
            marks.iter().filter_map(|mark| queries.get(mark).cloned()).collect()
        };
        if found.is_empty() {
            return;
        }
        for running in &found {
            // The first reason is kept.
            running.stop.send_modify(|stop| _ = stop.get_or_insert(reason));
        }
        let registry = Arc::clone(self);
        std::thread::spawn(move || registry.kill_until_ended(&found));
    }

    pub fn stop_all(self: &Arc<Self>) {
        let marks: Vec<String> = self.lock().keys().cloned().collect();
        self.stop(&marks, StopReason::Cancelled);
    }

    /// Kills queries repeatedly until they have left this registry: a query that is not yet in the engine's list cannot
    /// be killed.
    fn kill_until_ended(&self, queries: &[Arc<RunningQuery>]) {
        loop {
            let marks: Vec<&str> = queries
                .iter()
                .map(|running| running.mark.as_str())
                .filter(|mark| self.lock().contains_key(*mark))
                .collect();
            if marks.is_empty() {
                return;
            }
            let conditions: Vec<String> = marks
                .iter()
                .map(|mark| format!("startsWith(Settings['log_comment'], '{MARK_PREFIX}{mark}:')"))
                .collect();
            let kill = format!("KILL QUERY WHERE {} ASYNC FORMAT Null", conditions.join(" OR "));
            if let Err(error) =
                self.engine.connect().and_then(|mut connection| connection.run(&kill).map(drop))
            {
                tracing::warn!(%error, "cannot stop a query");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A query's entry in the registry, removed on drop.
pub struct Entry {
    pub registry: Arc<Registry>,
    pub running: Arc<RunningQuery>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.running.mark);
    }
}

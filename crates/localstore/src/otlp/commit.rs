//! Group commit: rows of requests that arrive at about the same time are written by one insert, so that many small
//! requests do not create many parts.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::table;
use crate::engine::{Engine, Query};
use crate::error::EngineError;

/// Time that a small request waits for others.
const GATHER_TIME: Duration = Duration::from_millis(20);
/// Size from which an insert does not wait for more rows.
const FULL_GROUP_BYTES: usize = 512 << 10;
const QUEUED_REQUESTS: usize = 64;

struct CommitRequest {
    data: Vec<u8>,
    done: oneshot::Sender<Result<(), EngineError>>,
}

#[derive(Clone)]
pub struct Committer {
    queue: mpsc::Sender<CommitRequest>,
}

impl Committer {
    /// Starts the writing task, which ends when the last clone is dropped.
    pub fn start(engine: Arc<Engine>, database: &str) -> Self {
        let (queue, requests) = mpsc::channel(QUEUED_REQUESTS);
        tokio::spawn(write_groups(engine, table::insert_statement(database), requests));
        Self { queue }
    }

    /// Writes rows; returns when they are on disk.
    pub async fn commit(&self, data: Vec<u8>) -> Result<(), EngineError> {
        let (done, written) = oneshot::channel();
        let ended = || EngineError::local("the store is shutting down");
        self.queue.send(CommitRequest { data, done }).await.map_err(|_| ended())?;
        written.await.map_err(|_| ended())?
    }
}

async fn write_groups(engine: Arc<Engine>, statement: String, mut requests: mpsc::Receiver<CommitRequest>) {
    while let Some(first) = requests.recv().await {
        let mut bytes = first.data.len();
        let mut group = vec![first];
        let deadline = Instant::now() + GATHER_TIME;
        while bytes < FULL_GROUP_BYTES {
            let Ok(Some(next)) = timeout_at(deadline, requests.recv()).await else { break };
            bytes = bytes.saturating_add(next.data.len());
            group.push(next);
        }
        let (parts, senders): (Vec<_>, Vec<_>) =
            group.into_iter().map(|request| (request.data, request.done)).unzip();
        let (engine, statement) = (Arc::clone(&engine), statement.clone());
        let written = tokio::task::spawn_blocking(move || insert(&engine, &statement, &parts)).await;
        let written = written.unwrap_or_else(|error| {
            Err(EngineError::local(format_args!("the insert's thread has ended: {error}")))
        });
        if let Err(error) = &written {
            tracing::warn!(%error, "cannot write spans");
        }
        for done in senders {
            // The receiver is gone if the client has disconnected; its rows are written anyway.
            let _ = done.send(written.clone());
        }
    }
}

fn insert(engine: &Arc<Engine>, statement: &str, parts: &[Vec<u8>]) -> Result<(), EngineError> {
    let mut connection = engine.connect()?;
    // Spans of many days may arrive together; each day is a partition.
    connection.run("SET max_partitions_per_insert_block = 0, async_insert = 0")?;
    let mut insert =
        connection.insert(Query { text: statement.as_bytes(), format: "RowBinary", params: &[] })?;
    for part in parts {
        if !insert.append(part) {
            break;
        }
    }
    insert.finish().map(drop)
}

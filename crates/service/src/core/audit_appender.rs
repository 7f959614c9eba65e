//! Appends audit records in batches: the records that arrive while one transaction is being committed share the next one. A
//! commit takes milliseconds, and only one writer of all replicas can proceed at a time; with a transaction for each record,
//! the commits would limit the reads of all replicas together.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, timeout};
use tracewarden_appdb::{DbError, Epoch};
use tracewarden_model::Timestamp;

use crate::core::audit_context::PreparedRecord;
use crate::core::error::{Result, ServiceError};

#[cfg(test)]
mod tests;

/// Maximum number of records of a batch, and of bytes of their details. Other writers wait for the batch.
const BATCH_RECORDS_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Time of a batch for reading inputs of decisions again. After it, further decisions of another epoch wait for the next batch, so
/// that other writers can proceed in between.
const REREAD_TIME_MAX: Duration = Duration::from_millis(50);

/// What the appender needs of the application database. Tests replace it to enumerate failures and concurrent changes.
pub(crate) trait AuditStore: Send + Sync + 'static {
    /// A transaction. Until it ends, no other writer of any replica can proceed. Dropped without `commit`, it changes nothing.
    type Tx: Send;

    /// Records that wait.
    fn queue(&self) -> &AuditQueue<Self::Tx>;

    /// How long a record may wait until its batch begins.
    fn max_wait(&self) -> Duration;

    fn now(&self) -> Timestamp;

    /// Begins a transaction, after the writers before it.
    fn begin(&self) -> impl Future<Output = Result<Self::Tx, DbError>> + Send;

    /// Returns the current epoch.
    fn epoch(&self, tx: &mut Self::Tx) -> impl Future<Output = Result<Epoch, DbError>> + Send;

    /// Returns which of these records have been completed, and the outcome and the detail of each completion.
    fn completions(
        &self,
        tx: &mut Self::Tx,
        sequences: &[u64],
    ) -> impl Future<Output = Result<Vec<(u64, String, String)>, DbError>> + Send;

    /// Appends records to the chain, in order; returns the sequence number of the first.
    fn append(
        &self,
        tx: &mut Self::Tx,
        records: &[PreparedRecord],
        at: Timestamp,
    ) -> impl Future<Output = Result<u64, DbError>> + Send;

    /// Commits the transaction.
    fn commit(&self, tx: Self::Tx) -> impl Future<Output = Result<(), DbError>> + Send;
}

/// The access decision that the record of a read documents.
pub(crate) trait Decision<Tx>: Send + Sync {
    /// Whether the client has disconnected, so that the read need not begin.
    fn is_abandoned(&self) -> bool;

    /// Whether the decision is known to hold in this epoch and at this time, without reading its inputs.
    fn holds_in(&self, epoch: Epoch, at: Timestamp) -> bool;

    /// Reads the inputs of the decision again; returns whether they are the same.
    ///
    /// # Errors
    /// The caller has lost the right to ask.
    fn is_current<'a>(&'a self, tx: &'a mut Tx) -> BoxFuture<'a, Result<bool>>;
}

/// Gets the sequence number of the appended record, or `None` if the decision must be made again.
type ReplySender = oneshot::Sender<Result<Option<u64>>>;

/// A record that waits to be appended.
struct QueuedRecord<Tx> {
    record: PreparedRecord,
    decision: Option<Box<dyn Decision<Tx>>>,
    arrival: u64,
    reply: ReplySender,
}

/// Records that wait, in order of arrival.
pub(crate) struct AuditQueue<Tx>(Mutex<QueueState<Tx>>);

struct QueueState<Tx> {
    /// Completions go first: they hold an answer, a permit of its user, and memory.
    completions: VecDeque<QueuedRecord<Tx>>,
    others: VecDeque<QueuedRecord<Tx>>,
    arrivals: u64,
    /// Whether a task appends. It ends when no record waits.
    has_appender: bool,
}

impl<Tx> Default for AuditQueue<Tx> {
    fn default() -> Self {
        let (completions, others) = (VecDeque::new(), VecDeque::new());
        Self(Mutex::new(QueueState { completions, others, arrivals: 0, has_appender: false }))
    }
}

impl<Tx> AuditQueue<Tx> {
    fn state(&self) -> MutexGuard<'_, QueueState<Tx>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Tx> QueueState<Tx> {
    fn queues(&mut self) -> [&mut VecDeque<QueuedRecord<Tx>>; 2] {
        [&mut self.completions, &mut self.others]
    }

    fn queue_of(&mut self, record: &PreparedRecord) -> &mut VecDeque<QueuedRecord<Tx>> {
        if record.completes.is_some() { &mut self.completions } else { &mut self.others }
    }

    /// Removes the records of the next batch.
    fn take_batch(&mut self) -> Vec<QueuedRecord<Tx>> {
        let (mut batch, mut bytes) = (Vec::new(), 0_usize);
        for queue in self.queues() {
            while batch.len() < BATCH_RECORDS_MAX && bytes < BATCH_BYTES_MAX {
                let Some(queued) = queue.pop_front() else { break };
                bytes = bytes.saturating_add(queued.record.detail.len());
                batch.push(queued);
            }
        }
        batch
    }

    /// Removes the records that arrived before `arrival`.
    fn take_before(&mut self, arrival: u64) -> Vec<QueuedRecord<Tx>> {
        let mut taken = Vec::new();
        for queue in self.queues() {
            let count = queue.partition_point(|queued| queued.arrival < arrival);
            taken.extend(queue.drain(..count));
        }
        taken
    }

    /// Removes one record; `None` if it does not wait any more.
    fn take(&mut self, arrival: u64) -> Option<QueuedRecord<Tx>> {
        self.queues().into_iter().find_map(|queue| {
            let at = queue.binary_search_by_key(&arrival, |queued| queued.arrival).ok()?;
            queue.remove(at)
        })
    }
}

/// Appends a record and returns its sequence number, once it is durable; `None` if its decision does not hold any more and must
/// be made again.
///
/// # Errors
/// The caller of the decision has lost the right to ask; the record completes one that is completed otherwise; the database
/// fails. After `ServiceError::OutcomeUnknown`, the record may have been appended.
pub(crate) async fn append<S: AuditStore>(
    store: &Arc<S>,
    record: PreparedRecord,
    decision: Option<Box<dyn Decision<S::Tx>>>,
) -> Result<Option<u64>> {
    let (reply, mut appended) = oneshot::channel();
    let (arrival, needs_appender) = {
        let mut state = store.queue().state();
        let arrival = state.arrivals;
        state.arrivals = arrival.saturating_add(1);
        state.queue_of(&record).push_back(QueuedRecord { record, decision, arrival, reply });
        (arrival, !std::mem::replace(&mut state.has_appender, true))
    };
    if needs_appender {
        tokio::spawn(Appender { store: Arc::clone(store), has_ended: false }.run());
    }
    let appended = match timeout(store.max_wait(), &mut appended).await {
        Ok(appended) => appended,
        Err(_) if store.queue().state().take(arrival).is_some() => {
            return Err(DbError::Unavailable("too many audit records are waiting".to_owned()).into());
        }
        // Its batch has begun, so that the record may become durable.
        Err(_) => appended.await,
    };
    appended.unwrap_or_else(|_| Err(ServiceError::internal("the audit records of a batch were dropped")))
}

/// The one task that appends. If it panics or is cancelled, the queued records are dropped, and the next record starts a new task.
struct Appender<S: AuditStore> {
    store: Arc<S>,
    has_ended: bool,
}

impl<S: AuditStore> Drop for Appender<S> {
    fn drop(&mut self) {
        if !self.has_ended {
            let mut state = self.store.queue().state();
            state.has_appender = false;
            state.queues().into_iter().for_each(VecDeque::clear);
        }
    }
}

impl<S: AuditStore> Appender<S> {
    async fn run(mut self) {
        while let Some(arrivals) = self.arrivals_or_end() {
            // Records that arrive during the wait for other writers belong to this batch, too.
            match self.store.begin().await {
                Ok(tx) => {
                    let batch = self.store.queue().state().take_batch();
                    append_batch(&*self.store, tx, batch).await;
                }
                // Records that arrived later have not reached the time-out.
                Err(error) => {
                    let failed = self.store.queue().state().take_before(arrivals);
                    fail(failed.into_iter().map(|queued| queued.reply), &error);
                }
            }
        }
    }

    /// Returns the number of records that have arrived so far; `None` when none waits.
    fn arrivals_or_end(&mut self) -> Option<u64> {
        let mut state = self.store.queue().state();
        if state.queues().iter().all(|queue| queue.is_empty()) {
            state.has_appender = false;
            self.has_ended = true;
            return None;
        }
        Some(state.arrivals)
    }
}

impl<Tx> QueuedRecord<Tx> {
    fn is_abandoned(&self) -> bool {
        self.reply.is_closed() || self.decision.as_ref().is_some_and(|decision| decision.is_abandoned())
    }
}

/// What is to be done with a record of a batch.
enum Verdict {
    Append,
    /// Leave it to the next batch.
    Defer,
    /// Append nothing.
    Reply(Result<Option<u64>>),
}

async fn append_batch<S: AuditStore>(store: &S, mut tx: S::Tx, mut batch: Vec<QueuedRecord<S::Tx>>) {
    batch.retain(|queued| !queued.is_abandoned());
    let (mut records, mut replies, mut later) = (Vec::new(), Vec::new(), Vec::new());
    let mut state = match BatchState::read(store, &mut tx, &batch).await {
        Ok(state) => state,
        Err(error) => return fail(batch.into_iter().map(|queued| queued.reply), &error),
    };
    let mut batch = batch.into_iter();
    // A record that is refused here fails alone; inside a statement it would fail the whole batch.
    for queued in &mut batch {
        match state.verdict(&mut tx, &queued).await {
            Verdict::Append => {
                records.push(queued.record);
                replies.push(queued.reply);
            }
            Verdict::Defer => later.push(queued),
            // No further statement of the transaction can succeed, and each might wait until its time is over.
            Verdict::Reply(Err(ServiceError::Unavailable(cause))) => {
                let failed = batch.chain(later).map(|queued| queued.reply).chain([queued.reply]);
                return fail(failed.chain(replies), &DbError::Unavailable(cause.to_string()));
            }
            Verdict::Reply(result) => send(queued.reply, result),
        }
    }
    let at = state.at;
    for queued in later.into_iter().rev() {
        store.queue().state().queue_of(&queued.record).push_front(queued);
    }
    if records.is_empty() {
        return;
    }
    let appended = async {
        let first = store.append(&mut tx, &records, at).await?;
        store.commit(tx).await?;
        Ok(first)
    };
    match appended.await {
        Ok(first) => (first..).zip(replies).for_each(|(sequence, reply)| send(reply, Ok(Some(sequence)))),
        Err(error) => fail(replies, &error),
    }
}

/// A closed receiver needs no reply: the task that begins a read runs to completion, and completes the record.
fn send(reply: ReplySender, result: Result<Option<u64>>) {
    let _ = reply.send(result);
}

fn fail(replies: impl IntoIterator<Item = ReplySender>, error: &DbError) {
    replies.into_iter().for_each(|reply| send(reply, Err(error.clone().into())));
}

/// What the records of a batch are compared with.
struct BatchState {
    /// Time of all its records.
    at: Timestamp,
    epoch: Epoch,
    /// Stored outcomes and details of completions, by sequence number of the completed record.
    completed: HashMap<u64, (String, String)>,
    /// Records that this batch completes.
    completing: HashSet<u64>,
    begun: Instant,
}

impl BatchState {
    async fn read<S: AuditStore>(
        store: &S,
        tx: &mut S::Tx,
        batch: &[QueuedRecord<S::Tx>],
    ) -> Result<Self, DbError> {
        let epoch = store.epoch(tx).await?;
        let sequences: Vec<u64> = batch.iter().filter_map(|queued| queued.record.completes).collect();
        let completed = store.completions(tx, &sequences).await?.into_iter();
        let completed = completed.map(|(sequence, outcome, detail)| (sequence, (outcome, detail))).collect();
        Ok(Self { at: store.now(), epoch, completed, completing: HashSet::new(), begun: Instant::now() })
    }

    async fn verdict<Tx>(&mut self, tx: &mut Tx, queued: &QueuedRecord<Tx>) -> Verdict {
        let QueuedRecord { record, decision, .. } = queued;
        match (record.completes, decision) {
            (Some(sequence), _) => match self.completed.get(&sequence) {
                // By an earlier attempt whose outcome was unknown.
                Some((outcome, detail)) if record.has_result(outcome, detail) => {
                    Verdict::Reply(Ok(Some(sequence)))
                }
                Some(_) => {
                    let text = format!("the audit record {sequence} is already completed");
                    Verdict::Reply(Err(ServiceError::internal(text)))
                }
                None if self.completing.insert(sequence) => Verdict::Append,
                // The first completion may still fail.
                None => Verdict::Defer,
            },
            (None, Some(decision)) if !decision.holds_in(self.epoch, self.at) => {
                if self.begun.elapsed() > REREAD_TIME_MAX {
                    return Verdict::Defer;
                }
                match decision.is_current(tx).await {
                    Ok(true) => Verdict::Append,
                    Ok(false) => Verdict::Reply(Ok(None)),
                    Err(error) => Verdict::Reply(Err(error)),
                }
            }
            (None, _) => Verdict::Append,
        }
    }
}

//! Enumerates what can happen to the records of several callers: arrivals at every point, changes by other writers, failures of
//! every step, and commits whose outcome is unknown. A process that dies is one whose commit fails: nothing else is durable.

use serde_json::json;
use tokio::task::yield_now;
use tokio::time::Duration;
use tracewarden_testkit::repetitions::Repetitions;

use super::*;
use crate::core::audit_context::AuditContext;
use crate::core::audit_event::{Event, Outcome};
use crate::core::error::CredentialFault;

/// Maximum number of failures and changes in one run.
const FAULTS_MAX: Repetitions = Repetitions { test: 2, verify: 3 };
/// Attempts to complete a record.
const ATTEMPTS: usize = 4;
/// Number of the steps at which each caller may arrive.
const ARRIVALS: [usize; 5] = [1, 1, 4, 4, 2];

/// One after another, all sequences of choices.
#[derive(Default)]
struct Choices {
    /// The choice and the number of options at each point so far.
    made: Vec<(usize, usize)>,
    at: usize,
    /// Number of failures and changes that may still be chosen.
    faults: usize,
}

impl Choices {
    fn choose(&mut self, options: usize) -> usize {
        if self.at == self.made.len() {
            self.made.push((0, options));
        }
        let (chosen, _) = self.made[self.at];
        self.at += 1;
        chosen
    }

    /// Chooses 0, for nothing unusual, or one of the other options while there are few of them in this run.
    fn fault(&mut self, options: usize) -> usize {
        if self.faults == 0 {
            return 0;
        }
        let chosen = self.choose(options);
        self.faults -= usize::from(chosen > 0);
        chosen
    }

    /// Changes the last choice that has another option; `None` after all sequences.
    fn next(mut self) -> Option<Self> {
        while let Some((chosen, options)) = self.made.pop() {
            if chosen + 1 < options {
                self.made.push((chosen + 1, options));
                return Some(Self { made: self.made, ..Self::default() });
            }
        }
        None
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    completes: Option<u64>,
    detail: String,
}

/// A decision for a reader with the inputs of before any change.
struct FirstDecision {
    model: Arc<Model>,
    reader: usize,
}

#[derive(Default)]
struct State {
    choices: Choices,
    durable: Vec<Row>,
    epoch: Epoch,
    /// Versions of the inputs of the decisions of each reader.
    inputs: [u64; 2],
    /// Readers without access, because of a change, or because their keys have expired.
    revoked: [bool; 2],
    expired: [bool; 2],
    failures: usize,
    is_away: bool,
    is_silent: bool,
    transactions: usize,
    rereads: usize,
}

#[derive(Default)]
struct Model {
    queue: AuditQueue<Tx>,
    state: Mutex<State>,
    answers: Mutex<Vec<(usize, &'static str)>>,
}

#[derive(Default)]
struct Tx {
    rows: Vec<Row>,
    has_failed: bool,
}

impl Model {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Runs a statement, which may fail; then every further one of the transaction would wait until its time is over.
    fn statement(&self, tx: &mut Tx) -> Result<(), DbError> {
        assert!(!tx.has_failed, "a statement after a failed one");
        let mut state = self.state();
        if state.choices.fault(2) == 0 {
            return Ok(());
        }
        state.failures += 1;
        tx.has_failed = true;
        Err(DbError::Unavailable("chosen".to_owned()))
    }
}

impl Decision<Tx> for FirstDecision {
    fn is_abandoned(&self) -> bool {
        false
    }

    fn holds_in(&self, epoch: Epoch, _: Timestamp) -> bool {
        epoch == Epoch::default() && !self.model.state().expired[self.reader]
    }

    fn is_current<'a>(&'a self, tx: &'a mut Tx) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async {
            self.model.statement(tx)?;
            let mut state = self.model.state();
            state.rereads += 1;
            if state.revoked[self.reader] || state.expired[self.reader] {
                return Err(CredentialFault::NoKey.into());
            }
            Ok(state.inputs[self.reader] == 0)
        })
    }
}

impl AuditStore for Model {
    type Tx = Tx;

    fn queue(&self) -> &AuditQueue<Tx> {
        &self.queue
    }

    fn max_wait(&self) -> Duration {
        if self.state().is_silent { Duration::from_millis(50) } else { Duration::from_secs(60) }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1)
    }

    async fn begin(&self) -> Result<Tx, DbError> {
        yield_now().await;
        if self.state().is_silent {
            return std::future::pending().await;
        }
        let mut state = self.state();
        if state.is_away {
            return Err(DbError::Unavailable("away".to_owned()));
        }
        match state.choices.fault(7) {
            0 => {}
            1 => {
                state.failures += 1;
                return Err(DbError::Unavailable("chosen".to_owned()));
            }
            // Another writer was first: a change for one of the readers, a revocation, the end of a key, which writes nothing,
            // or a change by a program that does not count changes.
            reader @ (2 | 3) => {
                state.inputs[reader - 2] += 1;
                state.epoch.changes += 1;
            }
            4 => {
                state.revoked[0] = true;
                state.epoch.changes += 1;
            }
            5 => state.expired[0] = true,
            _ => {
                state.inputs[0] += 1;
                state.epoch.uncounted += 1;
                state.durable.push(Row { completes: None, detail: "uncounted".to_owned() });
            }
        }
        state.transactions += 1;
        Ok(Tx::default())
    }

    async fn epoch(&self, tx: &mut Tx) -> Result<Epoch, DbError> {
        self.statement(tx)?;
        Ok(self.state().epoch)
    }

    async fn completions(&self, tx: &mut Tx, of: &[u64]) -> Result<Vec<(u64, String, String)>, DbError> {
        self.statement(tx)?;
        let state = self.state();
        let rows = state.durable.iter().filter_map(|row| Some((row.completes?, &row.detail)));
        let found = rows.filter(|(sequence, _)| of.contains(sequence));
        Ok(found.map(|(sequence, detail)| (sequence, "success".to_owned(), detail.clone())).collect())
    }

    async fn append(&self, tx: &mut Tx, records: &[PreparedRecord], _: Timestamp) -> Result<u64, DbError> {
        yield_now().await;
        self.statement(tx)?;
        let state = self.state();
        for record in records {
            let row = Row { completes: record.completes, detail: record.detail.clone() };
            let is_same = |other: &Row| row.completes.is_some() && row.completes == other.completes;
            if state.durable.iter().chain(&tx.rows).any(is_same) {
                return Err(DbError::Conflict("completed twice".to_owned()));
            }
            tx.rows.push(row);
        }
        Ok(state.durable.len() as u64 + 1)
    }

    async fn commit(&self, tx: Tx) -> Result<(), DbError> {
        yield_now().await;
        let mut state = self.state();
        let chosen = state.choices.fault(4);
        state.failures += usize::from(chosen > 0);
        // Committed, and the answer arrived or was lost.
        if chosen < 2 {
            for row in &tx.rows {
                if let Some(reader) = reader_of(&row.detail) {
                    assert_eq!(state.inputs[reader], 0, "a read began on a decision of before a change");
                    assert!(!state.revoked[reader] && !state.expired[reader], "a read began without access");
                }
            }
            if state.epoch.uncounted > 0 {
                state.epoch = Epoch { changes: state.epoch.changes + 1, uncounted: 0 };
            }
            state.durable.extend(tx.rows);
        }
        match chosen {
            0 => Ok(()),
            1 | 2 => Err(DbError::OutcomeUnknown("chosen".to_owned())),
            _ => Err(DbError::Unavailable("chosen".to_owned())),
        }
    }
}

/// Callers: beginnings of two readers, the completion of the first record and another one of it, and an event. Details name
/// them.
fn reader_of(detail: &str) -> Option<usize> {
    [r#"{"caller":0}"#, r#"{"caller":2}"#].iter().position(|of_reader| *of_reader == detail)
}

fn record(caller: usize) -> PreparedRecord {
    let detail = json!({ "caller": caller });
    let event = Event { action: "traces.query", outcome: Outcome::Success, target: None, detail };
    let completes = [1, 3].contains(&caller).then_some(1);
    AuditContext::default().prepare(completes, event).unwrap()
}

async fn call(model: Arc<Model>, caller: usize) {
    let decision =
        |reader| -> Box<dyn Decision<Tx>> { Box::new(FirstDecision { model: Arc::clone(&model), reader }) };
    let mut answer;
    let mut attempts = 0;
    loop {
        let record = record(caller);
        let (detail, completes) = (record.detail.clone(), record.completes);
        answer = append(&model, record, reader_of(&detail).map(decision)).await;
        attempts += 1;
        let failed = matches!(answer, Err(ServiceError::Unavailable(_) | ServiceError::OutcomeUnknown(_)));
        let state = model.state();
        match &answer {
            Ok(Some(sequence)) => {
                let is_own = |row: &Row| *row == Row { completes, detail: detail.clone() };
                let found = match completes {
                    Some(_) => state.durable.iter().filter(|row| is_own(row)).count() == 1,
                    None => is_own(&state.durable[*sequence as usize - 1]),
                };
                assert!(found, "an answer before its record was durable: {caller}, {:?}", state.durable);
            }
            Ok(None) => {
                let reader = reader_of(&detail).unwrap();
                assert_ne!(state.inputs[reader], 0, "nothing had changed");
            }
            Err(ServiceError::Unauthenticated(_)) => assert!(state.revoked[0] || state.expired[0]),
            Err(ServiceError::Internal(_)) => {
                let other = |row: &Row| row.completes.is_some() && row.detail != detail;
                assert!(completes.is_some() && state.durable.iter().any(other));
            }
            Err(_) => assert!(state.failures > 0, "{answer:?}"),
        }
        if !failed || attempts == ATTEMPTS || completes.is_none() {
            break;
        }
    }
    let answer = match answer {
        Ok(Some(_)) => "appended",
        Ok(None) => "changed",
        Err(error) => error.code(),
    };
    model.answers.lock().unwrap().push((caller, answer));
}

/// All waiting records get the error of the database, and the next record is tried again.
#[tokio::test]
async fn a_database_that_is_away_fails_all_who_wait() {
    let is_away = State { is_away: true, ..State::default() };
    let model = Arc::new(Model { state: Mutex::new(is_away), ..Model::default() });
    let answers =
        futures::future::join_all([0, 2, 4].map(|caller| append(&model, record(caller), None))).await;
    assert!(answers.iter().all(|answer| matches!(answer, Err(ServiceError::Unavailable(_)))), "{answers:?}");
    model.state().is_away = false;
    assert_eq!(append(&model, record(4), None).await.unwrap(), Some(1));
}

#[tokio::test]
async fn batches_are_limited_and_begin_with_completions() {
    let model = Arc::new(Model::default());
    let callers = std::iter::repeat_n(4, BATCH_RECORDS_MAX).chain([1]);
    let answers = futures::future::join_all(callers.map(|caller| append(&model, record(caller), None))).await;
    let appended: Vec<u64> = answers.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
    let expected: Vec<u64> = (2..=BATCH_RECORDS_MAX as u64 + 1).chain([1]).collect();
    assert_eq!(appended, expected, "the completion arrived last");
    assert_eq!(model.state().transactions, 2);
}

/// A record whose batch does not begin gets an error in time.
#[tokio::test]
async fn a_database_that_does_not_answer_holds_no_record() {
    let is_silent = State { is_silent: true, ..State::default() };
    let model = Arc::new(Model { state: Mutex::new(is_silent), ..Model::default() });
    for _ in 0..2 {
        let answers = futures::future::join_all([0, 1, 4].map(|caller| append(&model, record(caller), None)));
        let answers = answers.await;
        assert!(
            answers.iter().all(|answer| matches!(answer, Err(ServiceError::Unavailable(_)))),
            "{answers:?}"
        );
    }
    assert!(
        model.queue.state().queues().iter().all(|queue| queue.is_empty()),
        "no record is left in the queue"
    );
}

/// Decisions of another epoch are read again in several transactions, so that a change can proceed in between.
#[tokio::test]
async fn decisions_are_read_again_for_a_limited_time() {
    struct Slow;
    impl Decision<Tx> for Slow {
        fn is_abandoned(&self) -> bool {
            false
        }
        fn holds_in(&self, _: Epoch, _: Timestamp) -> bool {
            false
        }
        fn is_current<'a>(&'a self, _: &'a mut Tx) -> BoxFuture<'a, Result<bool>> {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(true)
            })
        }
    }
    let model = Arc::new(Model::default());
    let answers = futures::future::join_all((0..10).map(|_| append(&model, record(4), Some(Box::new(Slow)))));
    let appended: Vec<_> = answers.await.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
    assert_eq!(appended, (1..=10).collect::<Vec<u64>>(), "in order of arrival");
    // At most three of 20 ms begin within 50 ms.
    assert!((4..=10).contains(&model.state().transactions));
}

#[test]
fn every_record_is_durable_current_and_answered() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (mut next, mut runs) = (Some(Choices::default()), 0_usize);
    let mut seen = HashSet::new();
    let faults = FAULTS_MAX.get("TRACEWARDEN_TEST_FAULTS");
    while let Some(choices) = next {
        let choices = Choices { faults, ..choices };
        let begun = Row { completes: None, detail: "begun before".to_owned() };
        let model = Arc::new(Model {
            state: Mutex::new(State { choices, durable: vec![begun], ..State::default() }),
            ..Model::default()
        });
        runtime.block_on(async {
            // The step at which each caller arrives: with a batch, or while it is appended.
            let steps = ARRIVALS.map(|options| 2 * model.state().choices.choose(options));
            let mut calls = Vec::new();
            for step in 0..8 {
                let arriving = (0..5).filter(|caller| steps[*caller] == step);
                calls.extend(arriving.map(|caller| tokio::spawn(call(Arc::clone(&model), caller))));
                yield_now().await;
            }
            for call in calls {
                tokio::time::timeout(Duration::from_secs(10), call).await.expect("an answer").unwrap();
            }
        });
        let state = std::mem::take(&mut *model.state());
        let answers = std::mem::take(&mut *model.answers.lock().unwrap());
        assert_eq!(answers.len(), 5, "{answers:?}");
        let completions = state.durable.iter().filter(|row| row.completes == Some(1)).count();
        assert!(completions <= 1, "completed twice: {:?}", state.durable);
        if state.epoch == Epoch::default() && !state.expired[0] {
            assert_eq!(state.rereads, 0, "in an equal epoch no inputs are read again");
        }
        if state.failures == 0 {
            let lost =
                answers.iter().find(|(caller, answer)| [1, 4].contains(caller) && *answer != "appended");
            // Of two different completions, the first counts.
            assert!(lost.is_none_or(|(caller, _)| *caller == 1 && completions == 1), "{answers:?}");
            assert!(!model.queue.state().has_appender, "the task ends with the last record");
        }
        seen.extend(answers);
        runs += 1;
        next = state.choices.next();
    }
    println!("{runs} runs, {seen:?}");
    assert!(runs > 5_000, "{runs}");
    for expected in [(0, "appended"), (0, "changed"), (0, "unauthenticated"), (2, "changed"), (3, "internal")]
    {
        assert!(seen.contains(&expected), "{expected:?} never happened");
    }
}

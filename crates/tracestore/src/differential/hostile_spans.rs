//! No accepted policy and no filter raises an error, whatever spans hold: one malformed span must never fail other users'
//! queries. The engine creates a million rows from hostile and random spans, with their columns shuffled independently:
//! statements then read combinations and sequences of values that no single span has.

use tracewarden_policy::{Predicate, Span, check, lower_condition, testing::truth};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::{COLUMNS, Generator, literals};

use super::asked::{Asked, MODEL};
use super::store::key_columns;
use super::{connect, execute, load, setting, through_columns};
use crate::TraceStore;
use crate::exhaustive::{caller, conditions, policies, spans};
use crate::predicate_sql::{readable, render};
use crate::sql::{Statement, quote};

const ROWS: u64 = 1_000_000;
/// Number of random spans in addition to the hostile ones.
const RANDOM: usize = 2_000;
/// Number of random policies in addition to single operations.
const POLICIES: usize = 60;
/// Number of column groups that are drawn independently.
const GROUPS: usize = 8;
/// Number of predicates of one scan.
const BATCH: usize = 30;
/// Of all operations on all fields, one in this number is tested: on each field, another operation of the same kind.
const EVERY: usize = 19;

/// Predicates that are evaluated on every row.
#[derive(Clone)]
struct Question {
    text: String,
    is_true: Predicate,
    is_false: Predicate,
}

impl Question {
    /// Returns the same question with values of keys read from key columns; `None` when it refers to no key that has one.
    fn through_columns(&self) -> Option<Self> {
        let is_true = through_columns(&self.is_true)?;
        let is_false = through_columns(&self.is_false).unwrap_or_else(|| self.is_false.clone());
        Some(Self { text: format!("through columns: {}", self.text), is_true, is_false })
    }
}

fn questions(every: usize) -> Vec<Question> {
    let caller = caller();
    let mut asked = Vec::new();
    for (at, field) in MODEL.fields.iter().enumerate() {
        let texts = if field.policy { policies(field) } else { Vec::new() };
        // Each field begins at another operation, so that no operation is skipped on all fields.
        for text in texts.into_iter().skip(at % every).step_by(every) {
            let Ok(checked) = check(&text, &MODEL) else { continue };
            let Some((is_true, is_false)) = truth(&checked, &caller) else { continue };
            asked.push(Question { text, is_true, is_false });
        }
        for condition in conditions(field).into_iter().skip(at % every).step_by(every) {
            let is_true = lower_condition(&condition);
            asked.push(Question { text: format!("{condition:?}"), is_true, is_false: Predicate::False });
        }
    }
    asked
}

/// Creates `default.hostile` from `default.pairs`.
async fn multiply(local: &LocalStore, spans: usize, rows: u64) {
    let columns = literals::definitions(COLUMNS);
    let held = key_columns();
    let table =
        format!("CREATE TABLE default.hostile ({columns}, {held}) ENGINE = MergeTree ORDER BY tuple()");
    execute(local, table).await;
    let values: Vec<String> = COLUMNS
        .iter()
        .enumerate()
        .map(|(at, (name, _))| format!("g{}.{}", at % GROUPS, quote(name)))
        .collect();
    let keys: Vec<String> = (0..GROUPS)
        .map(|group| format!("toUInt32(sipHash64(number, {group}) % {spans}) AS k{group}"))
        .collect();
    let joins: Vec<String> = (0..GROUPS)
        .map(|group| format!("ANY LEFT JOIN default.pairs AS g{group} ON g{group}.id = drawn.k{group}"))
        .collect();
    execute(
        local,
        format!(
            "INSERT INTO default.hostile SELECT {} FROM (SELECT {} FROM numbers({rows})) AS drawn {}",
            values.join(", "),
            keys.join(", "),
            joins.join(" ")
        ),
    )
    .await;
}

/// Returns, for each question, the number of rows that are neither, true, false, or both.
async fn counts(store: &TraceStore, questions: &[Question]) -> Result<Vec<[u64; 4]>, String> {
    let mut statement = Statement::over(COLUMNS.iter().map(|(name, _)| *name));
    let each: Vec<String> = questions
        .iter()
        .map(|question| {
            let is_true = render(&question.is_true, &mut statement);
            let is_false = render(&question.is_false, &mut statement);
            let both = format!("(toUInt8({is_true}) + 2 * toUInt8({is_false}))");
            let counts: Vec<String> = (0..4).map(|value| format!("countIf({both} = {value})")).collect();
            format!("[{}]", counts.join(", "))
        })
        .collect();
    statement.push(&format!("SELECT [{}] FROM default.hostile", each.join(", ")));
    let rows: Vec<(Vec<[u64; 4]>,)> =
        store.client.rows(statement).await.map_err(|error| error.to_string())?;
    Ok(rows.into_iter().next().unwrap().0)
}

async fn counts_or_panic(store: &TraceStore, questions: &[Question]) -> Vec<[u64; 4]> {
    match counts(store, questions).await {
        Ok(found) => found,
        Err(all) => {
            for one in questions {
                if let Err(error) = counts(store, std::slice::from_ref(one)).await {
                    panic!("{error}\n{}\n{}", one.text, readable(&one.is_true));
                }
            }
            panic!("a statement of several predicates raises: {all}");
        }
    }
}

/// Counts rows as a query selects them: the condition decides which columns are read, in an order that ClickHouse chooses.
async fn selected(store: &TraceStore, predicate: &Predicate) -> Result<u64, String> {
    let mut statement = Statement::over(COLUMNS.iter().map(|(name, _)| *name));
    let condition = render(predicate, &mut statement);
    statement.push(&format!("SELECT count() FROM default.hostile WHERE {condition}"));
    let rows: Vec<(u64,)> = store.client.rows(statement).await.map_err(|error| error.to_string())?;
    Ok(rows.into_iter().next().unwrap().0)
}

#[tokio::test]
async fn no_statement_fails_on_a_million_hostile_spans() {
    let rows = setting("TRACEWARDEN_TEST_ROWS", ROWS);
    let every = setting("TRACEWARDEN_TEST_EVERY", EVERY);
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let mut generator = Generator::new(11);
    let mut base: Vec<Span> = spans(&MODEL.fields);
    base.extend((0..RANDOM).map(|_| generator.span()));
    load(&local, &base).await;
    multiply(&local, base.len(), rows).await;
    let mut questions = questions(every);
    // Nested operations, as users write them.
    let policies = std::iter::repeat_with(|| Asked::new(generator.policy(), generator.caller())).flatten();
    questions.extend(
        policies
            .map(|Asked { policy, is_true, is_false, .. }| Question { text: policy.text, is_true, is_false })
            .take(POLICIES),
    );
    let (mut all, mut never_true, mut through_columns) = ([0_u64; 4], 0, 0);
    for batch in questions.chunks(BATCH) {
        let found = counts_or_panic(&store, batch).await;
        let (again, by_map): (Vec<Question>, Vec<[u64; 4]>) = batch
            .iter()
            .zip(&found)
            .filter_map(|(question, counts)| Some((question.through_columns()?, *counts)))
            .unzip();
        for ((question, by_map), by_column) in
            again.iter().zip(by_map).zip(counts_or_panic(&store, &again).await)
        {
            assert_eq!(by_column, by_map, "{}\n{}", question.text, readable(&question.is_true));
            through_columns += 1;
        }
        for (question, counts) in batch.iter().zip(found) {
            assert_eq!(counts.iter().sum::<u64>(), rows, "{}", question.text);
            assert_eq!(counts[3], 0, "true and false at once: {}", question.text);
            never_true += usize::from(counts[1] == 0);
            all.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        // One of each batch in the form of a selection.
        if let Some(question) = batch.first() {
            let expected = counts(&store, std::slice::from_ref(question)).await.unwrap()[0][1];
            let found = selected(&store, &question.is_true)
                .await
                .unwrap_or_else(|error| panic!("{error}\n{}", question.text));
            assert_eq!(found, expected, "{}", question.text);
        }
    }
    println!(
        "{} policies and conditions, {through_columns} through columns too, on {rows} rows of {} spans: {} true, {} false, \
         {} neither; {never_true} are never true",
        questions.len(),
        base.len(),
        all[1],
        all[2],
        all[0]
    );
    assert!(through_columns >= 40, "only {through_columns} are evaluated through columns");
    assert!(questions.len() >= 200, "{} policies and conditions", questions.len());
    assert!(never_true * 4 < questions.len(), "{never_true} of {} are never true", questions.len());
}

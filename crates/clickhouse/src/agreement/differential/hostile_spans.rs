//! No accepted policy and no filter raises an error, whatever spans hold: one malformed span must never fail other users'
//! queries. The engine creates a million rows from hostile and random spans, with their columns shuffled independently:
//! statements then read combinations and sequences of values that no single span has.

use tracewarden_policy::{Predicate, Span, check, lower_condition, testing::truth};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::{COLUMNS, Generator, literals};
use tracewarden_testkit::repetitions::{self, Repetitions};

use super::generated_model::MODEL;
use super::lowered_policy::LoweredPolicy;
use super::store::key_column_definitions;
use super::{connect, execute, load, with_key_columns};
use crate::ClickHouse;
use crate::agreement::exhaustive::{caller, conditions, policies, spans};
use crate::sql::{Statement, display_sql, quote, render};

/// Number of rows.
const ROWS: Repetitions = Repetitions { test: 20_000, verify: 1_000_000 };
/// Number of random spans in addition to the hostile ones.
const RANDOM_SPANS: usize = 2_000;
/// Number of random policies in addition to single operations.
const POLICIES: usize = 60;
/// Number of column groups that are drawn independently.
const COLUMN_GROUPS: usize = 8;
/// Number of predicates of one scan.
const BATCH: usize = 30;
/// Of all operations on all fields, one in this number is tested: on each field, another operation of the same kind.
const STRIDE: usize = 19;

/// Predicates that are evaluated on every row.
#[derive(Clone)]
struct PredicatePair {
    text: String,
    is_true: Predicate,
    is_false: Predicate,
}

impl PredicatePair {
    /// Returns the same question with values of keys read from key columns; `None` when it refers to no key that has one.
    fn with_key_columns(&self) -> Option<Self> {
        let is_true = with_key_columns(&self.is_true)?;
        let is_false = with_key_columns(&self.is_false).unwrap_or_else(|| self.is_false.clone());
        Some(Self { text: format!("through columns: {}", self.text), is_true, is_false })
    }
}

fn predicate_pairs(stride: usize) -> Vec<PredicatePair> {
    let caller = caller();
    let mut pairs = Vec::new();
    for (at, field) in MODEL.fields.iter().enumerate() {
        let texts = if field.policy { policies(field) } else { Vec::new() };
        // Each field begins at another operation, so that no operation is skipped on all fields.
        for text in texts.into_iter().skip(at % stride).step_by(stride) {
            let Ok(checked) = check(&text, &MODEL) else { continue };
            let Some((is_true, is_false)) = truth(&checked, &caller) else { continue };
            pairs.push(PredicatePair { text, is_true, is_false });
        }
        for condition in conditions(field).into_iter().skip(at % stride).step_by(stride) {
            let is_true = lower_condition(&condition);
            pairs.push(PredicatePair { text: format!("{condition:?}"), is_true, is_false: Predicate::False });
        }
    }
    pairs
}

/// Creates `default.hostile` from `default.pairs`.
async fn fill_hostile_table(local: &LocalStore, spans: usize, rows: u64) {
    let columns = literals::definitions(COLUMNS);
    let key_column_definitions = key_column_definitions();
    let table = format!(
        "CREATE TABLE default.hostile ({columns}, {key_column_definitions}) ENGINE = MergeTree ORDER BY tuple()"
    );
    execute(local, table).await;
    let values: Vec<String> = COLUMNS
        .iter()
        .enumerate()
        .map(|(at, (name, _))| format!("g{}.{}", at % COLUMN_GROUPS, quote(name)))
        .collect();
    let keys: Vec<String> = (0..COLUMN_GROUPS)
        .map(|group| format!("toUInt32(sipHash64(number, {group}) % {spans}) AS k{group}"))
        .collect();
    let joins: Vec<String> = (0..COLUMN_GROUPS)
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
async fn counts(store: &ClickHouse, predicate_pairs: &[PredicatePair]) -> Result<Vec<[u64; 4]>, String> {
    let mut statement = Statement::for_columns(COLUMNS.iter().map(|(name, _)| *name));
    let each: Vec<String> = predicate_pairs
        .iter()
        .map(|pair| {
            let is_true = render(&pair.is_true, &mut statement);
            let is_false = render(&pair.is_false, &mut statement);
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

async fn counts_or_panic(store: &ClickHouse, predicate_pairs: &[PredicatePair]) -> Vec<[u64; 4]> {
    match counts(store, predicate_pairs).await {
        Ok(found) => found,
        Err(all) => {
            for one in predicate_pairs {
                if let Err(error) = counts(store, std::slice::from_ref(one)).await {
                    panic!("{error}\n{}\n{}", one.text, display_sql(&one.is_true));
                }
            }
            panic!("a statement of several predicates raises: {all}");
        }
    }
}

/// Counts rows as a query selects them: the condition decides which columns are read, in an order that ClickHouse chooses.
async fn count_selected(store: &ClickHouse, predicate: &Predicate) -> Result<u64, String> {
    let mut statement = Statement::for_columns(COLUMNS.iter().map(|(name, _)| *name));
    let condition = render(predicate, &mut statement);
    statement.push(&format!("SELECT count() FROM default.hostile WHERE {condition}"));
    let rows: Vec<(u64,)> = store.client.rows(statement).await.map_err(|error| error.to_string())?;
    Ok(rows.into_iter().next().unwrap().0)
}

#[tokio::test]
async fn no_statement_fails_on_hostile_spans() {
    let rows = ROWS.get("TRACEWARDEN_TEST_ROWS") as u64;
    let stride = repetitions::from_environment("TRACEWARDEN_TEST_EVERY").unwrap_or(STRIDE);
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let mut generator = Generator::new(11);
    let mut base: Vec<Span> = spans(&MODEL.fields);
    base.extend((0..RANDOM_SPANS).map(|_| generator.span()));
    load(&local, &base).await;
    fill_hostile_table(&local, base.len(), rows).await;
    let mut predicate_pairs = predicate_pairs(stride);
    // Nested operations, as users write them.
    let policies =
        std::iter::repeat_with(|| LoweredPolicy::new(generator.policy(), generator.caller())).flatten();
    predicate_pairs.extend(
        policies
            .map(|LoweredPolicy { policy, is_true, is_false, .. }| PredicatePair {
                text: policy.text,
                is_true,
                is_false,
            })
            .take(POLICIES),
    );
    let (mut all, mut never_true, mut with_key_columns) = ([0_u64; 4], 0, 0);
    for batch in predicate_pairs.chunks(BATCH) {
        let found = counts_or_panic(&store, batch).await;
        let (through_key_columns, by_map): (Vec<PredicatePair>, Vec<[u64; 4]>) = batch
            .iter()
            .zip(&found)
            .filter_map(|(pair, counts)| Some((pair.with_key_columns()?, *counts)))
            .unzip();
        for ((pair, by_map), by_column) in
            through_key_columns.iter().zip(by_map).zip(counts_or_panic(&store, &through_key_columns).await)
        {
            assert_eq!(by_column, by_map, "{}\n{}", pair.text, display_sql(&pair.is_true));
            with_key_columns += 1;
        }
        for (pair, counts) in batch.iter().zip(found) {
            assert_eq!(counts.iter().sum::<u64>(), rows, "{}", pair.text);
            assert_eq!(counts[3], 0, "true and false at once: {}", pair.text);
            never_true += usize::from(counts[1] == 0);
            all.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        // One of each batch in the form of a selection.
        if let Some(pair) = batch.first() {
            let expected = counts(&store, std::slice::from_ref(pair)).await.unwrap()[0][1];
            let found = count_selected(&store, &pair.is_true)
                .await
                .unwrap_or_else(|error| panic!("{error}\n{}", pair.text));
            assert_eq!(found, expected, "{}", pair.text);
        }
    }
    println!(
        "{} policies and conditions, {with_key_columns} through columns too, on {rows} rows of {} spans: {} true, {} false, \
         {} neither; {never_true} are never true",
        predicate_pairs.len(),
        base.len(),
        all[1],
        all[2],
        all[0]
    );
    assert!(with_key_columns >= 40, "only {with_key_columns} are evaluated through columns");
    assert!(predicate_pairs.len() >= 200, "{} policies and conditions", predicate_pairs.len());
    assert!(
        never_true * 4 < predicate_pairs.len(),
        "{never_true} of {} are never true",
        predicate_pairs.len()
    );
}

//! The lowering of policies against their reference evaluation, on the real engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracewarden_model::ambient::{Entropy, EntropyError};
use tracewarden_model::{Caller, Number};
use tracewarden_policy::{FieldValue, Outcome, Span, check, evaluate};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::{COLUMNS, Generator};

use crate::predicate_sql::{readable, render};
use crate::sql::{Statement, quote};
use crate::{StoreConfig, TraceStore};

/// Counts up: query ids need to differ, nothing more.
struct Counter(std::sync::atomic::AtomicU64);

impl Entropy for Counter {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        let next = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_le_bytes();
        for (place, byte) in bytes.iter_mut().zip(next.iter().cycle()) {
            *place = *byte;
        }
        Ok(())
    }
}

pub(crate) fn connect(local: &LocalStore) -> TraceStore {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = StoreConfig {
        endpoints: vec![local.url.clone()],
        user: "default".to_owned(),
        password: local.password.clone().into(),
        max_execution_time_seconds: 60,
        max_memory_bytes: 2 << 30,
        max_trace_duration_nanos: Some(3_600_000_000_000),
    };
    TraceStore::new(config, Arc::new(Counter(0.into()))).unwrap()
}

/// Runs a statement that writes, which the store's own client refuses to do.
pub(crate) async fn execute(local: &LocalStore, statement: String) {
    let answer = reqwest::Client::new()
        .post(&local.url)
        .basic_auth("default", Some(&local.password))
        .body(statement.clone())
        .send()
        .await
        .unwrap();
    let status = answer.status();
    let text = answer.text().await.unwrap();
    assert!(status.is_success(), "{text}\n{statement:.2000}");
}

pub(crate) fn hex_literal(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("unhex('{hex}')")
}

pub(crate) fn value_sql(value: &FieldValue) -> String {
    match value {
        FieldValue::Null => "NULL".to_owned(),
        FieldValue::Bool(value) => value.to_string(),
        FieldValue::String(bytes) => hex_literal(bytes),
        FieldValue::Number(Number::Int(value)) => value.to_string(),
        FieldValue::Number(Number::UInt(value)) => value.to_string(),
        FieldValue::Number(Number::Float(value)) => value.to_string(),
        FieldValue::Other(text) => text.clone(),
        FieldValue::Array(list) => {
            format!("[{}]", list.iter().map(value_sql).collect::<Vec<_>>().join(","))
        }
        FieldValue::Map(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{}, {}", hex_literal(key), value_sql(value)))
                .collect();
            format!("map({})", entries.join(","))
        }
    }
}

async fn load(local: &LocalStore, spans: &[Span]) {
    let columns: Vec<String> = COLUMNS.iter().map(|(name, kind)| format!("{} {kind}", quote(name))).collect();
    execute(
        local,
        format!(
            "CREATE OR REPLACE TABLE default.pairs (id UInt32, {}) ENGINE = MergeTree ORDER BY id",
            columns.join(", ")
        ),
    )
    .await;
    for (chunk, part) in spans.chunks(500).enumerate() {
        let rows: Vec<String> = part
            .iter()
            .enumerate()
            .map(|(at, span)| {
                let values: Vec<String> = COLUMNS.iter().map(|(name, _)| value_sql(&span[*name])).collect();
                format!("({}, {})", chunk * 500 + at, values.join(", "))
            })
            .collect();
        execute(local, format!("INSERT INTO default.pairs VALUES {}", rows.join(", "))).await;
    }
}

/// `true`, `false` or `error` for each span, as the store has it.
async fn by_store(
    store: &TraceStore,
    expression: &str,
    caller: &Caller,
    spans: usize,
) -> Option<Vec<&'static str>> {
    let model = Generator::model();
    let is_true = check(expression, &model).ok()?.predicate(caller)?;
    let is_false = check(&format!("!({expression})"), &model).ok()?.predicate(caller)?;
    let mut statement = Statement::default();
    let (is_true, is_false) = (render(&is_true, &mut statement), render(&is_false, &mut statement));
    statement.push(&format!(
        "SELECT id, toTypeName({is_true}) LIKE '%Nullable%' OR toTypeName({is_false}) LIKE '%Nullable%', \
         toUInt8({is_true}), toUInt8({is_false}) FROM default.pairs ORDER BY id"
    ));
    let text = statement.text.clone();
    let rows: Vec<(u32, u8, u8, u8)> =
        store.client.rows(statement).await.unwrap_or_else(|error| panic!("{error}\n{expression}\n{text}"));
    assert_eq!(rows.len(), spans, "{expression}");
    Some(
        rows.into_iter()
            .map(|(_, nullable, is_true, is_false)| {
                assert_eq!(nullable, 0, "a predicate may be NULL: {expression}");
                match (is_true, is_false) {
                    (1, 0) => "true",
                    (0, 1) => "false",
                    (0, 0) => "error",
                    other => panic!("true and false at once, {other:?}: {expression}"),
                }
            })
            .collect(),
    )
}

fn by_reference(expression: &str, caller: &Caller, spans: &[Span]) -> Vec<&'static str> {
    let outcomes = evaluate(expression, &Generator::model(), caller, spans).unwrap();
    outcomes
        .into_iter()
        .map(|outcome| match outcome {
            Outcome::True => "true",
            Outcome::False => "false",
            Outcome::Error(_) => "error",
        })
        .collect()
}

#[tokio::test]
async fn store_and_reference_agree_on_20_000_pairs() {
    let seed =
        std::env::var("TRACEWARDEN_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_121);
    let wanted: usize =
        std::env::var("TRACEWARDEN_TEST_PAIRS").ok().and_then(|pairs| pairs.parse().ok()).unwrap_or(20_000);
    let mut generator = Generator::new(seed);
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    let spans: Vec<Span> = (0..40).map(|_| generator.span()).collect();
    load(&local, &spans).await;
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    let (mut pairs, mut expressions, mut refused) = (0, 0, 0);
    let mut disagreements = Vec::new();
    let mut used = String::new();
    while pairs < wanted {
        let (expression, caller) = (generator.expression(), generator.caller());
        let Some(by_store) = by_store(&store, &expression, &caller, spans.len()).await else {
            refused += 1;
            assert!(refused < 100 + expressions, "most policies are refused, the last: {expression}");
            continue;
        };
        let by_reference = by_reference(&expression, &caller, &spans);
        for (at, (store, reference)) in by_store.iter().zip(&by_reference).enumerate() {
            *counts.entry(reference).or_default() += 1;
            if store != reference {
                eprintln!("AT {at} {expression}");
                disagreements.push(format!(
                    "store {store}, reference {reference}\n{expression}\n{caller:?}\n{:?}\n{}",
                    spans[at],
                    readable(&check(&expression, &Generator::model()).unwrap().predicate(&caller).unwrap())
                ));
            }
        }
        pairs += by_store.len();
        expressions += 1;
        used.push_str(&expression);
    }
    let share = |outcome: &str| counts.get(outcome).copied().unwrap_or_default() as f64 / pairs as f64;
    println!(
        "{pairs} pairs of {expressions} policies ({refused} refused), seed {seed}: {:.1} % true, {:.1} % false, \
         {:.1} % errors, {} disagreements",
        share("true") * 100.0,
        share("false") * 100.0,
        share("error") * 100.0,
        disagreements.len()
    );
    assert!(
        disagreements.is_empty(),
        "{} disagreements, the first:\n{}",
        disagreements.len(),
        disagreements[0]
    );
    assert!(share("true") >= 1.0 / 3.0, "too few are true");
    assert!(share("error") >= 1.0 / 6.0, "too few are errors");
    for token in [
        "==",
        "!=",
        "<",
        ">=",
        " in ",
        "&&",
        "||",
        "!(",
        "?",
        "startsWith",
        "endsWith",
        "contains",
        "matches",
        "size(",
        "has(",
        ".exists(",
        ".all(",
        ".exists_one(",
        "user.roles",
        "user.username",
        "user.attributes",
    ] {
        assert!(used.contains(token), "no policy has `{token}`");
    }
    for (column, _) in COLUMNS {
        assert!(used.contains(column), "no policy names `{column}`");
    }
}

//! A real ClickHouse for tests: clients, inserts, values as SQL.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use tracewarden_model::ambient::{Entropy, EntropyError};
use tracewarden_model::{ColumnType, FieldRef, MarkedField};
use tracewarden_policy::{Predicate, Span};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::{COLUMNS, literals};

use super::generated_model::MODEL;
use crate::schema::{KEY_COLUMN_TYPE, can_be_key_column, key_column_expression};
use crate::sql::quote;
use crate::{ClickHouse, ClickHouseConfig};

/// Counts up: query ids only have to differ.
struct Counter(std::sync::atomic::AtomicU64);

impl Entropy for Counter {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        let next = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_le_bytes();
        for (target, byte) in bytes.iter_mut().zip(next.iter().cycle()) {
            *target = *byte;
        }
        Ok(())
    }
}

pub(crate) fn connect(local: &LocalStore) -> ClickHouse {
    connect_at(&local.url, &local.password)
}

/// Like [`connect`], with another address, which need not exist as long as no statement is sent.
pub(crate) fn connect_at(url: &str, password: &str) -> ClickHouse {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = ClickHouseConfig {
        endpoints: url.split(',').map(str::to_owned).collect(),
        user: "default".to_owned(),
        password: password.to_owned().into(),
        max_execution_time_seconds: 60,
        max_memory_bytes: 2 << 30,
        max_threads: None,
        answer_timeout_seconds: 600,
        max_trace_duration_nanos: Some(3_600_000_000_000),
    };
    ClickHouse::new(config, Arc::new(Counter(0.into()))).unwrap()
}

/// Runs a statement that writes, which this crate's client refuses to do.
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

/// For each marked key that can have a key column, the name of its column in `default.pairs`.
pub(crate) static KEY_COLUMNS: LazyLock<HashMap<FieldRef, String>> = LazyLock::new(|| {
    let can_have_column = |field: &&MarkedField| {
        field.field.map.as_ref().is_some_and(|map| {
            let map = COLUMNS.iter().find(|(name, _)| name == map);
            map.is_some_and(|(_, text)| can_be_key_column(&ColumnType::parse(text), &field.field.name))
        })
    };
    let named = |(at, field): (usize, &MarkedField)| (field.field.clone(), format!("it's `held` {at}"));
    MODEL.fields.iter().filter(can_have_column).enumerate().map(named).collect()
});

/// Definitions of [`KEY_COLUMNS`].
pub(crate) fn key_column_definitions() -> String {
    let definition = |(field, name): (&FieldRef, &String)| {
        let expression = key_column_expression(field.map.as_deref().unwrap(), &field.name);
        format!("{} {KEY_COLUMN_TYPE} MATERIALIZED {expression}", quote(name))
    };
    KEY_COLUMNS.iter().map(definition).collect::<Vec<_>>().join(", ")
}

/// Returns the predicate with a key column for each key that has one, as if it were adopted; `None` when it refers to no such
/// key.
pub(crate) fn with_key_columns(predicate: &Predicate) -> Option<Predicate> {
    let mut any = false;
    predicate.fields().into_iter().for_each(|field| any |= KEY_COLUMNS.contains_key(&field.field));
    let adopted = |field: &Arc<MarkedField>| {
        let column = KEY_COLUMNS.get(&field.field).cloned();
        Arc::new(MarkedField { column, ..field.as_ref().clone() })
    };
    any.then(|| predicate.with_fields(&adopted))
}

/// Fills the table `default.pairs` with these spans, in their order by `id`.
pub(crate) async fn load(local: &LocalStore, spans: &[Span]) {
    let columns = format!("{}, {}", literals::definitions(COLUMNS), key_column_definitions());
    execute(
        local,
        format!(
            "CREATE OR REPLACE TABLE default.pairs (id UInt32, {columns}) ENGINE = MergeTree ORDER BY id"
        ),
    )
    .await;
    for (chunk, part) in spans.chunks(500).enumerate() {
        let rows: Vec<String> = part
            .iter()
            .enumerate()
            .map(|(at, span)| format!("({}, {})", chunk * 500 + at, literals::row(COLUMNS, span)))
            .collect();
        execute(local, format!("INSERT INTO default.pairs VALUES {}", rows.join(", "))).await;
    }
}

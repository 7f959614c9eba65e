//! A real store for tests: connecting to it, writing to it, values as SQL.

use std::sync::Arc;

use tracewarden_model::ambient::{Entropy, EntropyError};
use tracewarden_policy::Span;
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::literals;

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

/// Fills the table `default.pairs` with these spans, in their order by `id`.
pub(crate) async fn load(local: &LocalStore, spans: &[Span]) {
    let columns = literals::definitions();
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
            .map(|(at, span)| format!("({}, {})", chunk * 500 + at, literals::row(span)))
            .collect();
        execute(local, format!("INSERT INTO default.pairs VALUES {}", rows.join(", "))).await;
    }
}

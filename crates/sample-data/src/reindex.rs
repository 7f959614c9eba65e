//! The nightly rebuild of the search index: one trace with very many spans.

use super::builder::Builder;
use super::calls::Statement;
use super::rng::{MILLISECOND, SampleRng};
use super::services::Environment;
use super::services::Service::{Catalog, Search};
use super::span::{Kind, Trace, TraceId};

/// Number of spans in the trace.
pub const REINDEX_SPANS: usize = 10_000;

const READ: Statement = Statement {
    system: "postgresql",
    namespace: "catalog",
    operation: "SELECT",
    collection: "products",
    text: "SELECT id, title, body, price FROM products WHERE id > $1 ORDER BY id LIMIT 500",
    median_micros: 6_500,
};
const WRITE: Statement = Statement {
    system: "elasticsearch",
    namespace: "search",
    operation: "bulk",
    collection: "products",
    text: "",
    median_micros: 38_000,
};

/// Generates chunks, each of which is read, converted to documents and written, until the trace has this number of spans.
pub(super) fn reindex(rng: &mut SampleRng, id: TraceId, at: u64, spans: usize) -> Trace {
    let mut builder = Builder::with_id(rng, Environment::Production, id);
    let root = builder.begin(None, Catalog, "reindex catalogue", Kind::Internal, at);
    builder.set(root, "app.job.name", "reindex");
    builder.set(root, "app.job.scheduled", true);
    let mut time = at;
    let mut chunk: i64 = 0;
    while builder.len() < spans {
        let start = time;
        let node = builder.begin(Some(root), Catalog, "reindex chunk", Kind::Internal, start);
        builder.set(node, "app.job.batch", chunk);
        chunk += 1;
        time = step(&mut builder, spans, time, |builder, at| builder.query(node, Catalog, &READ, at));
        for _ in 0..16 {
            time = step(&mut builder, spans, time, |builder, at| {
                builder.work(node, Catalog, "build document", 900, at)
            });
        }
        time = step(&mut builder, spans, time, |builder, at| builder.query(node, Search, &WRITE, at));
        builder.end(node, time);
        time += MILLISECOND;
    }
    builder.succeed(root);
    builder.end(root, time);
    builder.finish()
}

/// Runs a step, unless the trace is full. The last chunk may be incomplete, so that the number of spans is exact.
fn step(
    builder: &mut Builder<'_>,
    spans: usize,
    at: u64,
    step: impl FnOnce(&mut Builder<'_>, u64) -> u64,
) -> u64 {
    if builder.len() < spans { step(builder, at) } else { at }
}

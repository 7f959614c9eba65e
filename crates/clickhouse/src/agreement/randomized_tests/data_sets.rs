//! Random data sets: shapes of tables, their spans, and trace indexes.

use std::collections::BTreeMap;

use rand::{RngExt, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tracewarden_policy::{FieldValue, Span};
use tracewarden_testkit::local_store::LocalStore;
use tracewarden_testkit::policies::{Generator, literals};

use super::{HOUR, NOON, SECOND};
use crate::agreement::differential::{execute, hex_literal};
use crate::agreement::distributed::Storage;

const NUMBERS: [&str; 9] =
    ["1", "2.5", "-3", "x", "", "1e3", "10", "9007199254740993", "18446744073709551615"];

#[derive(Clone)]
pub(super) struct StoredSpan {
    pub(super) trace: Vec<u8>,
    pub(super) id: String,
    pub(super) parent: &'static str,
    pub(super) at: i64,
    pub(super) status: &'static str,
    pub(super) duration: u64,
    pub(super) values: Span,
}

impl StoredSpan {
    pub(super) fn failed(&self) -> bool {
        ["Error", "STATUS_CODE_ERROR", "ERROR"].contains(&self.status)
    }

    /// Returns the duration; one that wrapped around below zero counts as 0.
    pub(super) fn nanos(&self) -> i64 {
        i64::try_from(self.duration).unwrap_or(0)
    }

    pub(super) fn is_invalid(&self) -> bool {
        i64::try_from(self.duration).is_err()
    }
}

/// Columns and types of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableShape {
    /// The columns that are not structural.
    pub(super) columns: literals::Columns<'static>,
    pub(super) timestamp: &'static str,
    pub(super) nanos_per_tick: i64,
    /// The first and the last tick of the type.
    pub(super) tick_range: [i64; 2],
    pub(super) trace_id: &'static str,
}

/// Types with nanoseconds of a tick, and the first and the last tick: spans of broken clocks are there.
const TIMESTAMPS: [(&str, i64, [i64; 2]); 7] = [
    ("DateTime64(9)", 1, [-2_208_988_800 * SECOND, i64::MAX]),
    ("DateTime64(8)", 10, [-220_898_880_000_000_000, 1_041_379_199_999_999_999]),
    ("DateTime64(7)", 100, [-22_089_888_000_000_000, 104_137_919_999_999_999]),
    ("DateTime64(6)", 1_000, [-2_208_988_800_000_000, 10_413_791_999_999_999]),
    ("DateTime64(3)", 1_000_000, [-2_208_988_800_000, 10_413_791_999_999]),
    ("DateTime64(0)", SECOND, [-2_208_988_800, 10_413_791_999]),
    ("DateTime('UTC')", SECOND, [0, u32::MAX as i64]),
];
/// The first is that of root spans, as some exporters write it.
const PARENTS: [&str; 3] = ["0000000000000000", "", "0000000000000001"];
const STATUSES: [&str; 6] = ["Error", "Ok", "STATUS_CODE_ERROR", "", "ERROR", "error"];
const TRACE_IDS: [&str; 3] = ["String", "LowCardinality(String)", "Nullable(String)"];

/// Those of the exporter's table, and some that operators add.
pub(super) const INDEXES: [(&str, &str); 9] = [
    ("TraceId", "bloom_filter(0.001)"),
    ("mapKeys(SpanAttributes)", "bloom_filter(0.01)"),
    ("mapValues(SpanAttributes)", "bloom_filter(0.01)"),
    ("mapKeys(ResourceAttributes)", "bloom_filter(0.01)"),
    ("mapValues(ResourceAttributes)", "bloom_filter(0.01)"),
    ("Tags", "bloom_filter(0.01)"),
    ("ServiceName", "set(0)"),
    ("Duration", "minmax"),
    ("Timestamp", "minmax"),
];

pub(super) struct DataSet {
    pub(super) shape: TableShape,
    pub(super) spans: Vec<StoredSpan>,
    pub(super) index: Option<Index>,
}

/// A trace index.
#[derive(Debug, Clone)]
pub(super) struct Index {
    /// Bounds in whole seconds, for the traces in the index.
    pub(super) seconds: BTreeMap<Vec<u8>, (i64, i64)>,
    /// Offset in nanoseconds of the bounds, for an index that is finer than the exporter's, whose bounds are `DateTime`.
    pub(super) offset_nanos: Option<i64>,
}

pub(super) fn make_data_set(
    random: &mut ChaCha8Rng,
    generator: &mut Generator,
    columns: literals::Columns<'static>,
) -> DataSet {
    let (timestamp, nanos_per_tick, tick_range) =
        if random.random_bool(0.4) { TIMESTAMPS[0] } else { *TIMESTAMPS.choose(random).unwrap() };
    let trace_id = if random.random_bool(0.6) { "String" } else { *TRACE_IDS.choose(random).unwrap() };
    let shape = TableShape { columns, timestamp, nanos_per_tick, tick_range, trace_id };
    let mut spans = Vec::new();
    for trace in 0..random.random_range(1..40) {
        let id: Vec<u8> = match random.random_range(0..40) {
            0 => Vec::new(),
            1 => b"00000000000000000000000000000000".to_vec(),
            2 => format!("not utf-8 {trace} ").into_bytes().into_iter().chain([0xff]).collect(),
            3 => format!("it's \"{trace}\" \\ \n").into_bytes(),
            _ => format!("{:032x}", trace * 7919 + 1).into_bytes(),
        };
        // Whole seconds and few of them, so that boundaries and equal times are common.
        let start = NOON + random.random_range(-4..=4) * HOUR / 2;
        for number in 0..random.random_range(1..5) {
            let apart = *[0, 1, SECOND, 600 * SECOND, HOUR, 3 * HOUR].choose(random).unwrap();
            let mut values = generator.span();
            if let Some(FieldValue::Map(entries)) = values.get_mut("SpanAttributes")
                && random.random_bool(0.6)
            {
                let size = NUMBERS.choose(random).unwrap();
                entries.push((b"size".to_vec(), FieldValue::text(*size)));
            }
            let span = StoredSpan {
                trace: id.clone(),
                id: format!("{number:016x}"),
                parent: PARENTS[(trace + number) as usize % PARENTS.len()],
                status: STATUSES[(trace * 7 + number) as usize % STATUSES.len()],
                // Some clocks are behind those of the trace's other spans.
                at: (start + apart * random.random_range(-1..3)).div_euclid(nanos_per_tick) * nanos_per_tick,
                duration: *[0, 1, 5, 1_000, i64::MAX as u64, u64::MAX - 191_304].choose(random).unwrap(),
                values,
            };
            // Exporters repeat a batch when its acknowledgement is lost.
            if random.random_bool(0.1) {
                spans.push(span.clone());
            }
            spans.push(span);
        }
    }
    let index = random.random_bool(0.5).then(|| {
        let mut bounds: BTreeMap<Vec<u8>, (i64, i64)> = BTreeMap::new();
        for span in &spans {
            let second = span.at.div_euclid(SECOND);
            let entry = bounds.entry(span.trace.clone()).or_insert((second, second));
            *entry = (entry.0.min(second), entry.1.max(second));
        }
        // The index lacks rows from before its creation: it lacks some traces, and the beginning of others.
        bounds.retain(|_, _| random.random_bool(0.8));
        for (start, end) in bounds.values_mut() {
            if random.random_bool(0.15) {
                *start = random.random_range(*start..=*end);
            }
            // The last rows of a trace, when a batch was lost on the way to the index.
            if random.random_bool(0.15) {
                *end = random.random_range(*start..=*end);
            }
        }
        let offset_nanos =
            random.random_bool(0.3).then(|| *[0, 1, SECOND / 3, SECOND - 1].choose(random).unwrap());
        Index { seconds: bounds, offset_nanos }
    });
    DataSet { shape, spans, index }
}

/// Returns the statement that inserts spans.
pub(super) fn insert_statement(insert_table: &str, shape: TableShape, spans: &[StoredSpan]) -> String {
    let names: Vec<String> = shape.columns.iter().map(|(name, _)| format!("`{name}`")).collect();
    let row = |span: &StoredSpan| {
        // In `VALUES`, integers are ticks.
        let (at, trace) = (span.at / shape.nanos_per_tick, hex_literal(&span.trace));
        let StoredSpan { id, parent, status, duration, values, .. } = span;
        format!(
            "({at}, {trace}, '{id}', '{parent}', '{status}', {duration}, {})",
            literals::row(shape.columns, values)
        )
    };
    let (names, rows) = (names.join(", "), spans.iter().map(row).collect::<Vec<_>>().join(", "));
    format!(
        "INSERT INTO {insert_table} (Timestamp, TraceId, SpanId, ParentSpanId, StatusCode, Duration, {names}) VALUES {rows}"
    )
}

/// Creates the tables of a data set, and returns the one to insert spans into.
pub(super) async fn load(local: &LocalStore, storage: Storage, data_set: &DataSet) -> String {
    let definitions = format!(
        "Timestamp {}, TraceId {}, SpanId String, ParentSpanId String, StatusCode LowCardinality(String), \
         Duration UInt64, {}, `select` UInt8 DEFAULT 1, derived String MATERIALIZED 'd', aliased String ALIAS 'a'",
        data_set.shape.timestamp,
        data_set.shape.trace_id,
        literals::definitions(data_set.shape.columns)
    );
    // Small granules, so that indexes can exclude some of few spans.
    let order = "(ServiceName, Timestamp) SETTINGS index_granularity = 4";
    let insert_table =
        storage.create(local, "spans", &definitions, order, "(SpanId, ifNull(TraceId, ''))").await;
    // For half of the data sets, without drawing another random number.
    if data_set.spans.len().is_multiple_of(2) {
        let indexes: Vec<String> = INDEXES
            .iter()
            .enumerate()
            .map(|(number, (expression, kind))| {
                format!("ADD INDEX idx_{number} {expression} TYPE {kind} GRANULARITY 1")
            })
            .collect();
        execute(local, format!("ALTER TABLE {insert_table} {}", indexes.join(", "))).await;
    }
    execute(local, insert_statement(&insert_table, data_set.shape, &data_set.spans)).await;
    // Outside all requested windows.
    let [first, last] = data_set.shape.tick_range;
    let far = format!(
        "INSERT INTO {insert_table} (Timestamp, TraceId, SpanId) VALUES ({first}, 'far', '1'), ({last}, 'far', '2')"
    );
    execute(local, far).await;
    if let Some(index) = &data_set.index {
        let kind = if index.offset_nanos.is_some() { "DateTime64(9)" } else { "DateTime" };
        let definitions = format!("TraceId String, Start {kind}, End {kind}");
        let insert_table =
            storage.create(local, "spans_trace_id_ts", &definitions, "TraceId", "(Start, TraceId)").await;
        // In `VALUES`, integers are ticks.
        let time = |second: i64| index.offset_nanos.map_or(second, |nanos| second * SECOND + nanos);
        let rows: Vec<String> = index
            .seconds
            .iter()
            .flat_map(|(trace, (start, end))| {
                // Several rows for each trace, like the exporter's batches.
                let (trace, start, end) = (hex_literal(trace), time(*start), time(*end));
                [format!("({trace}, {start}, {start})"), format!("({trace}, {end}, {end})")]
            })
            .collect();
        if !rows.is_empty() {
            execute(
                local,
                format!("INSERT INTO {insert_table} (TraceId, Start, End) VALUES {}", rows.join(", ")),
            )
            .await;
        }
    }
    insert_table
}

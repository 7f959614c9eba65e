//! The data set: the table layout of exporter version 0.165.1, filled by ClickHouse from numbers, so that the same size gives the
//! same data.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

use crate::bench::store::Store;
use crate::stack::interrupt;

pub const DATABASE: &str = "conditions";
pub const TABLE: &str = "otel_traces";
pub const INDEX: &str = "otel_traces_trace_id_ts";

/// End of the window: 2026-01-02T09:17:00Z, in nanoseconds since 1970. It is not a partition boundary.
pub const END: u64 = 1_767_345_420 * SECOND;
pub const SECOND: u64 = 1_000_000_000;
/// Length of the window in seconds.
pub const WINDOW: u64 = 72 * 3_600;
/// Maximum duration of a trace in seconds.
pub const LONGEST: u64 = 3_600;
/// Traces start from `BEFORE` seconds before the window to `AFTER` seconds after it, so that some cross its edges.
const BEFORE: u64 = 120;
const AFTER: u64 = 30;

/// Twice the mean number of spans of a trace, which has 3 to 20 spans.
const TWICE_THE_SPANS_OF_A_TRACE: u64 = 23;
/// Number of inserts per data set of any size. Each insert leaves one or two parts.
const INSERTS: u64 = 64;

pub const SERVICES: u64 = 48;
/// Operations per service.
pub const OPERATIONS: u64 = 10;
pub const TENANTS: u64 = 500;
pub const REGIONS: u64 = 16;
pub const FEATURES: u64 = 24;
/// Orders per session.
pub const ORDERS: u64 = 3;

/// Cardinalities that grow with the data set.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub traces: u64,
    /// Number of users: one per 16 traces, at most 200,000. A user belongs to one tenant.
    pub users: u64,
    /// Number of sessions: one per 12 traces.
    pub sessions: u64,
}

impl Size {
    /// Returns the cardinalities for about this many spans.
    pub fn of(spans: u64) -> Self {
        let traces = (spans * 2 / TWICE_THE_SPANS_OF_A_TRACE).max(1);
        Self { traces, users: (traces / 16).clamp(1, 200_000), sessions: (traces / 12).max(1) }
    }
}

pub fn quoted(table: &str) -> String {
    format!("`{DATABASE}`.`{table}`")
}

/// Returns the time of the first span, and a time after the last one, in seconds since 1970.
pub fn seconds_of_all() -> (u64, u64) {
    let end = END / SECOND;
    (end - WINDOW - BEFORE, end + AFTER + LONGEST)
}

/// Recreates the tables and fills them, with merges stopped. Returns the number of spans.
pub fn fill(store: &Store, spans: u64) -> Result<u64> {
    let size = Size::of(spans);
    drop_all(store)?;
    store.run(&format!("CREATE DATABASE `{DATABASE}`"))?;
    for statement in [spans_table(), index_table(), index_view()] {
        store.run(&statement)?;
    }
    for table in [TABLE, INDEX] {
        store.run(&format!("SYSTEM STOP MERGES {}", quoted(table)))?;
    }
    let bar = ProgressBar::new(size.traces);
    bar.set_style(ProgressStyle::with_template(
        "filling {wide_bar} {human_pos} of {human_len} traces, {eta} remain",
    )?);
    let batch = size.traces.div_ceil(INSERTS);
    let mut done = 0;
    while done < size.traces {
        interrupt::check()?;
        let count = batch.min(size.traces - done);
        store.run(&insert(size, done, count))?;
        done += count;
        bar.set_position(done);
    }
    bar.finish_and_clear();
    Ok(store.run(&format!("SELECT count() FROM {}", quoted(TABLE)))?.trim().parse()?)
}

/// Merges each partition into one part.
pub fn merge(store: &Store) -> Result<()> {
    for table in [TABLE, INDEX] {
        store.run(&format!("SYSTEM START MERGES {}", quoted(table)))?;
        store.run(&format!("OPTIMIZE TABLE {} FINAL", quoted(table)))?;
    }
    Ok(())
}

pub fn drop_all(store: &Store) -> Result<()> {
    store.run(&format!("DROP DATABASE IF EXISTS `{DATABASE}` SYNC")).map(drop)
}

fn spans_table() -> String {
    format!(
        "CREATE TABLE {} (
            Timestamp DateTime64(9) CODEC(Delta(8), ZSTD(3)),
            TraceId String CODEC(ZSTD(3)),
            SpanId String CODEC(ZSTD(3)),
            ParentSpanId String CODEC(ZSTD(3)),
            TraceState String CODEC(ZSTD(3)),
            SpanName LowCardinality(String) CODEC(ZSTD(3)),
            SpanKind LowCardinality(String) CODEC(ZSTD(3)),
            ServiceName LowCardinality(String) CODEC(ZSTD(3)),
            ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(3)),
            ScopeName String CODEC(ZSTD(3)),
            ScopeVersion String CODEC(ZSTD(3)),
            SpanAttributes Map(LowCardinality(String), String) CODEC(ZSTD(3)),
            Duration UInt64 CODEC(ZSTD(3)),
            StatusCode LowCardinality(String) CODEC(ZSTD(3)),
            StatusMessage String CODEC(ZSTD(3)),
            Events Nested (
                Timestamp DateTime64(9),
                Name LowCardinality(String),
                Attributes Map(LowCardinality(String), String)
            ) CODEC(ZSTD(3)),
            Links Nested (
                TraceId String,
                SpanId String,
                TraceState String,
                Attributes Map(LowCardinality(String), String)
            ) CODEC(ZSTD(3)),
            INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
            INDEX idx_res_attr_key mapKeys(ResourceAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
            INDEX idx_res_attr_value mapValues(ResourceAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
            INDEX idx_span_attr_key mapKeys(SpanAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
            INDEX idx_span_attr_value mapValues(SpanAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
            INDEX idx_duration Duration TYPE minmax GRANULARITY 1
        ) ENGINE = MergeTree
        PARTITION BY toDate(Timestamp)
        ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))
        SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1",
        quoted(TABLE)
    )
}

fn index_table() -> String {
    format!(
        "CREATE TABLE {} (
            TraceId String CODEC(ZSTD(3)),
            Start DateTime CODEC(Delta(4), ZSTD(3)),
            End DateTime CODEC(Delta(4), ZSTD(3)),
            INDEX idx_trace_id TraceId TYPE bloom_filter(0.01) GRANULARITY 1
        ) ENGINE = MergeTree
        PARTITION BY toDate(Start)
        ORDER BY (TraceId, Start)
        SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1",
        quoted(INDEX)
    )
}

fn index_view() -> String {
    format!(
        "CREATE MATERIALIZED VIEW {} TO {} AS SELECT TraceId, min(Timestamp) AS Start, max(Timestamp) AS End \
         FROM {} WHERE TraceId != '' GROUP BY TraceId",
        quoted("otel_traces_trace_id_ts_mv"),
        quoted(INDEX),
        quoted(TABLE)
    )
}

/// Returns the statement that inserts the spans of traces `first` to `first + count`.
///
/// Three consecutive spans belong to one of 48 services, of 12 teams, with 10 operations each. Spans follow each other within 20
/// to 400 ms, and in every thousandth trace within two and a half minutes. Every fourth span is an entry span with the trace's
/// user and tenant, and a status. 5 % of the traces fail in their second half, 70 % are production; 2 % of the spans are slow
/// (over a second). Half of the spans have a feature. The second span has the trace's session, the third its order. All values
/// derive from hashes of the trace's number.
fn insert(size: Size, first: u64, count: u64) -> String {
    let (begin, length) = (END - (WINDOW + BEFORE) * SECOND, (WINDOW + BEFORE + AFTER) * SECOND);
    let step = length / size.traces;
    let Size { users, sessions, .. } = size;
    format!(
        "INSERT INTO {table} (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, SpanKind, ServiceName, \
         ResourceAttributes, ScopeName, ScopeVersion, SpanAttributes, Duration, StatusCode, StatusMessage, \
         `Events.Timestamp`, `Events.Name`, `Events.Attributes`) \
         WITH cityHash64(trace, place) AS s, \
           cityHash64(trace, intDiv(place, 3), 'service') % {SERVICES} AS service, \
           cityHash64(trace, place, 'operation') % {OPERATIONS} AS operation, \
           cityHash64(trace, 'user') % {users} AS user, cityHash64(trace, 'session') % {sessions} AS session, \
           cityHash64(trace, 'failing') % 20 = 0 AND place * 2 >= length AS failing, \
           if(cityHash64(trace, 'long') % 1000 = 0, 150000000000, 20000000 + cityHash64(trace, 'gap') % 380000000) AS gap, \
           fromUnixTimestamp64Nano(toInt64({begin} + trace * {step} + cityHash64(trace, 'begin') % {step} \
             + place * gap + s % 10000000)) AS time, \
           map('tenant.id', concat('tenant-', toString(user % {TENANTS})), 'user.id', concat('user-', toString(user)), \
             'http.status_code', if(failing, '500', '200'), 'http.route', concat('/r/', toString(operation)), \
             'network.peer.address', concat('10.0.', toString(s % 256), '.', toString(intDiv(s, 256) % 256))) AS entry, \
           map('thread.id', toString(s % 64), 'code.function', concat('fn', toString(s % 500)), 'db.system', 'postgresql', \
             'rpc.method', concat('m', toString(s % 100))) AS internal, \
           if(cityHash64(s, 'feature') % 2 = 0, \
             map('app.feature', concat('feature-', toString(cityHash64(s, 'which') % {FEATURES}))), map()) AS feature, \
           if(place = 1, map('session.id', concat('session-', toString(session))), \
             if(place = 2, map('order.id', concat('order-', toString(session * {ORDERS} + trace % {ORDERS}))), map())) AS rare \
         SELECT time, lower(hex(sipHash128(trace))), lower(hex(sipHash64(trace, place))), \
           if(place = 0, '', lower(hex(sipHash64(trace, intDiv(place - 1, 3))))), \
           concat(['GET', 'POST', 'SELECT', 'publish'][operation % 4 + 1], ' /', toString(service), '/', toString(operation)), \
           ['Server', 'Client', 'Internal'][s % 3 + 1], concat('service-', toString(service)), \
           map('service.name', concat('service-', toString(service)), 'team', concat('team-', toString(service % 12)), \
             'deployment.environment', if(cityHash64(trace, 'environment') % 10 < 7, 'production', 'staging'), \
             'cloud.region', concat('region-', toString(cityHash64(trace, intDiv(place, 3), 'region') % {REGIONS})), \
             'host.name', concat('host-', toString(s % 200)), 'telemetry.sdk.language', 'rust', \
             'service.version', concat('1.', toString(service % 20))), \
           'bench', '1.0', mapConcat(if(place % 4 = 0, entry, internal), feature, rare), \
           if(cityHash64(s, 'slow') % 50 = 0, 1000000000 + s % 4000000000, 1000000 + s % 300000000), \
           if(failing, 'Error', 'Unset'), if(failing, 'deadline exceeded', ''), \
           if(failing, [time], []), if(failing, ['exception'], []), \
           if(failing, [map('exception.type', 'Timeout', 'exception.message', 'deadline exceeded')], []) \
         FROM (SELECT trace, length, arrayJoin(range(length)) AS place \
           FROM (SELECT number AS trace, 3 + cityHash64(number, 'length') % 18 AS length FROM numbers({first}, {count})))",
        table = quoted(TABLE)
    )
}

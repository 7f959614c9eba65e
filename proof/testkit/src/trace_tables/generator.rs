//! Generates spans, and the rows of a table that holds them.

use rand::{RngExt as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

use super::{Kind, Row, SECOND, Span, Value};

/// Time of the first trace: 2026-03-14 09:10:00 UTC, within an hour and a half-hour.
pub const BASE: i64 = 1_773_479_400 * SECOND;

/// Number of traces that have current spans.
const TRACES: u32 = 40;

/// Traces whose spans are in the table only as earlier versions that a later one replaces by another tenant.
const REPLACED: std::ops::Range<u32> = 30..34;

/// Traces whose matching spans are deleted.
const DELETED: std::ops::Range<u32> = 34..38;

const MINUTE: i64 = 60 * SECOND;
const SERVICES: [&str; 5] = ["frontend", "checkout", "payment", "shipping", "recommend"];
const NAMES: [&str; 6] =
    ["GET /cart", "GET /status", "POST /cart", "POST /pay", "charge card", "ünïcode \"q\" \\"];
const TENANT: &str = "tenant.id";

/// Which durations a table can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurationType {
    /// Negative ones, too: a signed column, or an end before the start.
    Signed,
    /// Unsigned; negative ones wrap around.
    Unsigned,
}

/// Whether a table has several rows of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// One row of each span.
    One,
    /// The row with the highest version counts.
    Replaced,
    /// As [`Versions::Replaced`], unless it says that the span is deleted.
    ReplacedAndDeleted,
}

/// What the rows of a table can hold.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Nanoseconds in a tick of the start.
    pub time_unit: i64,
    /// Nanoseconds in a tick of the duration.
    pub duration_unit: i64,
    /// Which durations.
    pub durations: DurationType,
    /// Whether attributes can contain a key twice.
    pub repeated_keys: bool,
    /// Several rows of a span.
    pub versions: Versions,
    /// Whether there are rows of another project.
    pub projects: bool,
}

impl Shape {
    /// Nanoseconds, one row of each span.
    pub const NANOSECONDS: Self = Self {
        time_unit: 1,
        duration_unit: 1,
        durations: DurationType::Unsigned,
        repeated_keys: true,
        versions: Versions::One,
        projects: false,
    };

    /// Times and durations of this unit.
    #[must_use]
    pub const fn unit(self, nanos: i64) -> Self {
        Self { time_unit: nanos, duration_unit: nanos, ..self }
    }
}

/// Generated spans.
#[derive(Debug, Clone)]
pub struct Generated {
    /// Rows of the table, in the order of their versions.
    pub rows: Vec<Row>,
    /// Spans that the table holds: neither replaced, deleted, nor of another project.
    pub spans: Vec<Span>,
}

impl Generated {
    /// Returns the trace ids of the current spans.
    pub fn traces(&self) -> std::collections::BTreeSet<u128> {
        self.spans.iter().map(|span| span.trace).collect()
    }

    /// Returns the current spans of a trace.
    pub fn trace(&self, trace: u128) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.trace == trace).collect()
    }
}

/// Generates spans of this shape. The same seed gives the same spans.
pub fn generate(seed: u64, shape: &Shape) -> Generated {
    let mut writer = Writer { random: ChaCha8Rng::seed_from_u64(seed), shape: *shape };
    let (mut rows, mut spans) = (Vec::new(), Vec::new());
    for number in 0..TRACES {
        let trace = writer.trace_id(number);
        for span in writer.trace(number, trace) {
            writer.add(number, span, &mut rows, &mut spans);
        }
    }
    // Earlier versions first: they are inserted in a part of their own.
    rows.sort_by_key(|row| (row.version, row.deleted));
    Generated { rows, spans }
}

struct Writer {
    random: ChaCha8Rng,
    shape: Shape,
}

impl Writer {
    /// Ids with leading zeros, with zero bytes inside and at the end, and of 64 bits only.
    fn trace_id(&mut self, number: u32) -> u128 {
        let id: u128 = self.random.random::<u128>() | 1 << 127;
        match number {
            0 => id >> 12,
            1 => id & !(0xff << 64) & !0xff,
            2 => id >> 64,
            3 => id >> 9 | 0xab,
            _ => id,
        }
    }

    /// Whether something with this probability happens, in percent.
    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn pick<T: Copy>(&mut self, list: &[T], default: T) -> T {
        list.choose(&mut self.random).copied().unwrap_or(default)
    }

    fn trace(&mut self, number: u32, trace: u128) -> Vec<Span> {
        let tenant = self.pick(&["acme", "globex", "initech", "umbrella"], "acme");
        // The policies must not grant access to these traces because of other versions of their rows.
        let hidden = REPLACED.contains(&number) || DELETED.contains(&number);
        let tenant = if hidden { "umbrella" } else { tenant };
        let count = self.random.random_range(5_u32..=10);
        let mut spans: Vec<Span> = Vec::new();
        let missing_root = self.chance(12);
        let start = BASE + i64::from(number) * 97 * SECOND + self.random.random_range(0..SECOND);
        for at in 0..count {
            let parents: Vec<u64> = spans.iter().map(|span| span.id).collect();
            let unknown = self.random.random::<u64>() | 1;
            let parent = match at {
                0 if missing_root => Some(unknown),
                0 => None,
                _ if self.chance(5) => Some(unknown),
                _ => Some(self.pick(&parents, unknown)),
            };
            // Traces that go on much later.
            let later = match number {
                5..=7 if at > count / 2 => 31 * MINUTE,
                8..=9 if at > count / 2 => 2 * 24 * 60 * MINUTE,
                _ => 0,
            };
            let offset = i64::from(at) * 3 * SECOND + self.random.random_range(0..SECOND);
            spans.push(self.span(trace, parent, start + offset + later, tenant, hidden));
        }
        spans
    }

    fn span(
        &mut self,
        trace: u128,
        parent: Option<u64>,
        start: i64,
        tenant: &'static str,
        hidden: bool,
    ) -> Span {
        let service = self.pick(&SERVICES, "frontend");
        let kind = self.pick(&[Kind::Internal, Kind::Server, Kind::Client], Kind::Internal);
        let unit = self.shape.duration_unit;
        let duration = match self.random.random_range(0..25) {
            0 => 0,
            1 => -unit * self.random.random_range(1..50),
            2..=6 => 2 * SECOND + self.random.random_range(0..SECOND),
            _ => self.random.random_range(0..900_000_000),
        };
        Span {
            trace,
            // Above 2^53, so that a JSON number would lose digits.
            id: self.random.random::<u64>() | 1 << 60,
            parent,
            service,
            name: self.pick(&NAMES, "GET /cart"),
            kind,
            start: start - start.rem_euclid(self.shape.time_unit),
            duration: duration - duration.rem_euclid(unit),
            error: self.chance(12),
            attributes: self.attributes(tenant, hidden),
            resource: vec![
                ("service.name", service.to_owned()),
                ("deployment.environment", self.pick(&["prod", "stage"], "prod").to_owned()),
            ],
        }
    }

    fn attributes(&mut self, tenant: &'static str, hidden: bool) -> Vec<(&'static str, Value)> {
        let mut attributes = vec![("note", Value::from("line 1\nline 2, \"quoted\" 'text' \\ 😀"))];
        let other = if hidden { "umbrella" } else { self.pick(&["acme", "initech"], "acme") };
        match self.random.random_range(0..20) {
            0..=4 => {}
            5 => attributes.push((TENANT, Value::from(""))),
            6 => attributes.push((TENANT, Value::from(other))),
            _ => attributes.push((TENANT, Value::from(tenant))),
        }
        if self.chance(60) {
            let status = self.pick(&[200, 204, 404, 500, 503], 200);
            attributes.push(("http.response.status_code", Value::Integer(status)));
        }
        if self.chance(40) {
            let hit = self.chance(50) && !hidden;
            attributes.push(("cache.hit", Value::Bool(hit)));
        }
        if self.chance(50) {
            attributes.push(("ratio", Value::Float(f64::from(self.random.random_range(1..64)) / 64.0)));
        }
        if self.shape.repeated_keys && attributes.iter().any(|(key, _)| *key == TENANT) && self.chance(15) {
            // The first value counts, so this one must grant nothing.
            attributes.push((TENANT, Value::from("acme")));
        }
        attributes
    }

    /// Adds the rows of a span.
    fn add(&mut self, number: u32, span: Span, rows: &mut Vec<Row>, spans: &mut Vec<Span>) {
        let row = |span: &Span, version, deleted| Row {
            span: span.clone(),
            version,
            deleted,
            project: Row::PROJECT,
        };
        let replaces = self.shape.versions != Versions::One;
        let deletes = self.shape.versions == Versions::ReplacedAndDeleted;
        if self.shape.projects && self.chance(15) {
            let foreign = Span { id: self.random.random::<u64>() | 1 << 60, ..granting(&span) };
            rows.push(Row { project: Row::PROJECT + 1, ..row(&foreign, 2, false) });
        }
        // In traces of `DELETED`, the odd ones lose all spans and the even ones those that would grant access.
        if deletes && DELETED.contains(&number) && (number % 2 == 1 || self.chance(50)) {
            rows.extend([row(&granting(&span), 1, false), row(&granting(&span), 2, true)]);
            return;
        }
        if replaces && (REPLACED.contains(&number) || self.chance(15)) {
            rows.push(row(&granting(&span), 1, false));
        }
        rows.push(row(&span, 2, false));
        spans.push(span);
    }
}

/// Returns a span that policies and filters match. What sorting keys contain is the same.
fn granting(span: &Span) -> Span {
    let attributes = vec![
        (TENANT, Value::from("acme")),
        ("http.response.status_code", Value::Integer(503)),
        ("cache.hit", Value::Bool(true)),
    ];
    Span { attributes, error: true, duration: 3 * SECOND, ..span.clone() }
}

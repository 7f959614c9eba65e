//! Random data sets: traces on separate days, in a table with columns of every type, and random access to them.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tracewarden_model::{AccessModel, AttributeValue, Caller, ColumnType, LogicalType, TextType, Timestamp};
use tracewarden_policy::{FieldValue, Span, check};
use tracewarden_testkit::policies::{COLUMNS, Generator, literals};

use crate::support::Client;
use crate::support::store::Store;

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * SECOND;
const NOON: i64 = 1_790_000_000 * SECOND;
/// Distance between the days of two data sets: large enough that no search for one reads spans of another.
const INTERVAL: i64 = 96 * HOUR;
const STATUSES: [&str; 6] = ["Error", "Ok", "STATUS_CODE_ERROR", "Unset", "ERROR", "error"];
const PARENTS: [&str; 3] = ["0000000000000000", "", "0000000000000001"];
/// Roles that generated callers can have.
pub const ROLES: [&str; 4] = ["a", "b", "dev", "oncall"];
/// Every so many marked fields, one is usable in policies only.
const POLICY_ONLY: usize = 9;

/// The traces of a day.
pub struct DataSet {
    /// Ids of all traces, whether visible or not.
    pub ids: Vec<String>,
    pub from: String,
    pub to: String,
}

/// Generates the data sets, one after the other.
pub struct DataSets {
    random: ChaCha8Rng,
    generator: Generator,
    model: AccessModel,
    created: i64,
}

/// Returns the marked fields: a key with an empty name cannot be marked.
fn model() -> AccessModel {
    let mut model = Generator::model();
    model.fields.retain(|marked| !marked.field.name.is_empty());
    for (at, marked) in model.fields.iter_mut().enumerate() {
        marked.filterable = !marked.policy || at % POLICY_ONLY != POLICY_ONLY - 1;
    }
    model
}

/// Creates the table of all data sets, binds it and marks its fields.
pub async fn bind(store: &Store, admin: &Client) {
    store
        .run(&format!(
            "CREATE TABLE otel.worlds (Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, \
             StatusCode LowCardinality(String), Duration UInt64, {}) ENGINE = MergeTree ORDER BY (Timestamp, ServiceName) \
             SETTINGS index_granularity = 64",
            literals::definitions(COLUMNS)
        ))
        .await;
    let binding = json!({"database": "otel", "table": "worlds", "trace_id": "TraceId", "span_id": "SpanId",
        "timestamp": "Timestamp", "parent_span_id": "ParentSpanId",
        "display": {"name": "SpanName", "service": "ServiceName", "duration": "Duration", "status": "StatusCode", "kind": "Kind"}});
    let bound = admin.put("/schema/binding", binding).await.expect(200);
    let marks: Vec<Value> = model()
        .fields
        .iter()
        .map(|marked| {
            let mut mark = json!({"name": marked.field.name, "type": marked.logical.as_str(),
                "filterable": marked.filterable, "policy": marked.policy});
            if let Some(map) = &marked.field.map {
                mark["map"] = map.as_str().into();
            }
            mark
        })
        .collect();
    let version = bound.headers["etag"].to_str().unwrap();
    admin.with("if-match", version).put("/schema/fields", json!({ "fields": marks })).await.expect(200);
    let closed = json!({"policies": [{"title": "Nothing", "expression": "false"}]});
    for role in ROLES {
        admin.put(&format!("/roles/{role}"), closed.clone()).await.expect(201);
    }
}

impl DataSets {
    pub fn new(seed: u64) -> Self {
        let (random, generator) = (ChaCha8Rng::seed_from_u64(seed), Generator::new(seed));
        Self { random, generator, model: model(), created: 0 }
    }

    /// Returns a random source for the comparisons of a data set.
    pub fn random_source(&mut self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.random.random())
    }

    /// Inserts the traces of all data sets in one statement: ClickHouse would keep merging many small parts.
    pub async fn data_sets(&mut self, store: &Store, count: usize) -> Vec<DataSet> {
        let mut rows = Vec::new();
        let data_sets = (0..count).map(|_| self.data_set(&mut rows)).collect();
        let names: Vec<String> = COLUMNS.iter().map(|(name, _)| format!("`{name}`")).collect();
        store
            .run(&format!(
                "INSERT INTO otel.worlds (Timestamp, TraceId, SpanId, ParentSpanId, StatusCode, Duration, {}) VALUES {}",
                names.join(", "),
                rows.join(", ")
            ))
            .await;
        data_sets
    }

    fn data_set(&mut self, rows: &mut Vec<String>) -> DataSet {
        let begin = NOON - self.created * INTERVAL;
        let mut ids = Vec::new();
        for trace in 0..self.random.random_range(3..7) {
            let id = self.trace_id(trace);
            rows.extend(self.rows(&id, begin));
            ids.push(id);
        }
        self.created += 1;
        let at = |nanos: i64| Timestamp::from_nanos(nanos).to_string();
        DataSet { ids, from: at(begin), to: at(begin + 24 * HOUR) }
    }

    fn trace_id(&mut self, trace: i64) -> String {
        let number = self.created * 1_000 + trace;
        match self.random.random_range(0..20) {
            0 => format!("it's \"{number}\" of 100 % \\ é/?#"),
            1 => format!("{number}"),
            _ => format!("{:032x}", number * 7_919 + 1),
        }
    }

    /// Returns the rows of a trace with a span on that day, and possibly others before or after it.
    fn rows(&mut self, id: &str, begin: i64) -> Vec<String> {
        let random = &mut self.random;
        let first = begin + random.random_range(0..24) * HOUR + random.random_range(0..3) * 600 * SECOND;
        let mut rows = Vec::new();
        for number in 0..random.random_range(1..5) {
            let later = *[0, 1, SECOND, 600 * SECOND, HOUR / 2].choose(random).unwrap();
            let at = if number == 0 { first } else { first + later * random.random_range(-1..=1) };
            let row = format!(
                "({at}, {}, '{number:016x}', '{}', '{}', {}, {})",
                literals::literal(&FieldValue::text(id), &ColumnType::STRING, ""),
                PARENTS.choose(random).unwrap(),
                STATUSES.choose(random).unwrap(),
                [0, 1, 1_000, 5_000_000, u64::MAX].choose(random).unwrap(),
                literals::row(COLUMNS, &each_key_once(self.generator.span())),
            );
            // Exporters repeat a batch if its acknowledgement is lost.
            if random.random_bool(0.1) {
                rows.push(row.clone());
            }
            rows.push(row);
        }
        rows
    }

    /// Returns a policy on marked fields.
    pub fn expression(&mut self) -> String {
        loop {
            let text = self.generator.expression();
            if check(&text, &self.model).is_ok() {
                return text;
            }
        }
    }

    /// Replaces the policies of every role.
    pub async fn change_roles(&mut self, admin: &Client) {
        for role in ROLES {
            let policies = json!([{"title": "One", "expression": self.expression()}]);
            admin.put(&format!("/roles/{role}"), json!({ "policies": policies })).await.expect(200);
        }
    }

    /// Replaces a user's roles and attributes.
    pub async fn change_user(&mut self, admin: &Client, username: &str) {
        let caller = loop {
            let caller = self.generator.caller();
            if is_storable(&caller) {
                break caller;
            }
        };
        let attributes: serde_json::Map<String, Value> = caller
            .attributes
            .iter()
            .map(|(name, value)| {
                let value = match value {
                    AttributeValue::String(text) => json!(text),
                    AttributeValue::Bool(value) => json!(value),
                    AttributeValue::Strings(texts) => json!(texts),
                };
                (name.clone(), value)
            })
            .collect();
        let change = json!({"roles": caller.roles, "attributes": attributes});
        admin.patch(&format!("/users/{username}"), change).await.expect(200);
    }

    /// Creates an API key with a policy; returns its id and a client that uses it.
    pub async fn scoped_key(&mut self, owner: &Client) -> (String, Client) {
        loop {
            // Several expressions, since most traces match few of them.
            let expressions: Vec<String> = (0..4).map(|_| format!("({})", self.expression())).collect();
            let policy = expressions.join(" || ");
            let created = owner.post("/me/api-keys", json!({"name": "narrowed", "policy": policy})).await;
            // A policy is rejected if it names a field that only policies of roles may use.
            if created.status == 422 {
                continue;
            }
            let key = created.expect(201).body;
            return (key["id"].as_str().unwrap().to_owned(), owner.with_key(key["token"].as_str().unwrap()));
        }
    }
}

/// Whether the attributes can be stored: no string in the application database may contain U+0000.
fn is_storable(caller: &Caller) -> bool {
    caller.attributes.values().all(|value| match value {
        AttributeValue::String(text) => !text.contains('\0'),
        AttributeValue::Strings(texts) => texts.iter().all(|text| !text.contains('\0')),
        AttributeValue::Bool(_) => true,
    })
}

/// Removes duplicate keys: of a duplicate key in a map the first value counts, but of a duplicate member in a JSON object
/// the last.
fn each_key_once(mut span: Span) -> Span {
    for value in span.values_mut() {
        if let FieldValue::Map(entries) = value {
            let mut seen = BTreeSet::new();
            entries.retain(|(key, _)| seen.insert(key.clone()));
        }
    }
    span
}

/// A string field: its names for tools and filters, and how to find it in a span of the REST API.
#[derive(Debug, Clone)]
pub struct TextField {
    pub reference: String,
    map: Option<String>,
    name: String,
    /// Whether the values have a fixed length, padded with zero bytes.
    fixed: bool,
    pub is_list: bool,
}

/// Returns the searchable string fields whose values occur unchanged in spans.
pub fn text_fields() -> Vec<TextField> {
    const MAPS: [&str; 3] = ["SpanAttributes", "ResourceAttributes", "Baggage"];
    let fields = model().fields.into_iter();
    fields
        .filter(|marked| {
            let text = marked.logical == LogicalType::String;
            // An array in a map is stored as text.
            let list = marked.logical == LogicalType::StringArray && marked.field.map.is_none();
            let plain = marked.field.map.as_deref().is_none_or(|map| MAPS.contains(&map));
            marked.filterable && plain && (text || list) && !marked.field.name.contains("Links")
        })
        .map(|marked| TextField {
            reference: marked.field.to_string(),
            fixed: is_fixed(&marked.column_type),
            is_list: marked.logical == LogicalType::StringArray,
            map: marked.field.map,
            name: marked.field.name,
        })
        .collect()
}

fn is_fixed(column_type: &ColumnType) -> bool {
    match column_type.bare() {
        ColumnType::Text(TextType::FixedString { .. }) => true,
        ColumnType::Array(element) => is_fixed(element),
        _ => false,
    }
}

impl TextField {
    /// Returns map and name, as conditions of the REST API use them.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let map = self.map.as_deref().map(|map| ("map", map));
        map.into_iter().chain([("name", self.name.as_str())])
    }

    /// Returns the distinct values of a span.
    pub fn values(&self, span: &Value) -> Vec<String> {
        let value = match &self.map {
            Some(map) => span[map].get(&self.name),
            None => span.get(&self.name),
        };
        let own = |text: &str| if self.fixed { text.trim_end_matches('\0') } else { text }.to_owned();
        let mut values = match value {
            Some(Value::String(text)) => vec![own(text)],
            // An array with a NULL counts as having no values.
            Some(Value::Array(list)) => {
                let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
                texts.unwrap_or_default().into_iter().map(own).collect()
            }
            _ => Vec::new(),
        };
        values.sort();
        values.dedup();
        values
    }
}

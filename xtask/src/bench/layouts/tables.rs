//! The layouts of Jaeger and SigNoz: their own DDL, filled with the spans of the exporter's table.

use anyhow::Result;
use serde_json::{Value, json};
use tracewarden_testkit::trace_tables;

use crate::bench::conditions::data::{self, TABLE, quoted};
use crate::bench::conditions::handwritten::Layout;
use crate::bench::store::Store;

/// A layout with its conversion, fields, filters and policy.
pub struct Table {
    pub name: &'static str,
    /// Name of the test fixture that has its DDL.
    fixture: &'static str,
    pub layout: Layout,
    /// `SELECT` that converts the exporter's spans.
    select: &'static str,
    /// The fields to mark: map, name and type.
    fields: &'static [(&'static str, &'static str, &'static str)],
    pub filters: [Filter; 4],
    /// Policy of a team, in CEL and as SQL.
    pub team: (&'static str, &'static str),
}

/// A filter of the benchmark.
pub struct Filter {
    pub name: &'static str,
    pub conditions: &'static [Condition],
}

/// A condition in the API's form and as SQL. In both, `@` stands for a number that differs in each round.
pub struct Condition {
    pub map: &'static str,
    pub name: &'static str,
    pub op: &'static str,
    /// JSON.
    pub value: &'static str,
    /// Number of different values of `@`; 0 if the condition has no `@`.
    pub values: u64,
    pub sql: &'static str,
}

impl Condition {
    /// Returns the condition as JSON and as SQL, with the value of this round.
    pub fn of_round(&self, round: u64) -> Result<(Value, String)> {
        let number = (round * 37 + 11) % self.values.max(1);
        let fill = |text: &str| text.replace('@', &number.to_string());
        let value: Value = serde_json::from_str(&fill(self.value))?;
        let mut json = json!({"name": self.name, "op": self.op, "value": value});
        if let Some(members) = json.as_object_mut().filter(|_| !self.map.is_empty()) {
            members.insert("map".to_owned(), json!(self.map));
        }
        Ok((json, fill(self.sql)))
    }
}

/// Jaeger 2: attributes in pairs of arrays by type, and a trace index that aggregates.
pub static JAEGER: Table = Table {
    name: "Jaeger",
    fixture: "jaeger",
    layout: Layout {
        database: "jaeger",
        table: "spans",
        trace_id: "trace_id",
        timestamp: "start_time",
        index: "trace_id_timestamps",
        start: "start",
        end: "end",
        bucket: None,
    },
    select: "INSERT INTO jaeger.spans (id, trace_id, parent_span_id, name, kind, start_time, status_code, status_message, duration, \
        service_name, `str_attributes.key`, `str_attributes.value`, `int_attributes.key`, `int_attributes.value`, \
        `resource_str_attributes.key`, `resource_str_attributes.value`) \
        WITH mapFilter((k, v) -> k != 'http.status_code', SpanAttributes) AS texts, \
          mapFilter((k, v) -> k = 'http.status_code', SpanAttributes) AS numbers \
        SELECT SpanId, TraceId, ParentSpanId, SpanName, lower(SpanKind), Timestamp, StatusCode, StatusMessage, \
          toInt64(Duration), ServiceName, mapKeys(texts), mapValues(texts), mapKeys(numbers), \
          arrayMap(v -> toInt64(v), mapValues(numbers)), mapKeys(ResourceAttributes), mapValues(ResourceAttributes)",
    fields: &[
        ("resource_str_attributes", "team", "string"),
        ("resource_str_attributes", "deployment.environment", "string"),
        ("str_attributes", "tenant.id", "string"),
        ("str_attributes", "user.id", "string"),
        ("int_attributes", "http.status_code", "number"),
        ("", "service_name", "string"),
        ("", "name", "string"),
        ("", "status_code", "string"),
        ("", "duration", "number"),
    ],
    filters: [
        Filter {
            name: "service, user",
            conditions: &[
                Condition {
                    map: "",
                    name: "service_name",
                    op: "eq",
                    value: "\"service-@\"",
                    values: 48,
                    sql: "service_name = 'service-@'",
                },
                Condition {
                    map: "str_attributes",
                    name: "user.id",
                    op: "eq",
                    value: "\"user-@\"",
                    values: 20_000,
                    sql: "`str_attributes.value`[indexOf(`str_attributes.key`, 'user.id')] = 'user-@'",
                },
            ],
        },
        Filter {
            name: "error, tenant",
            conditions: &[
                Condition {
                    map: "",
                    name: "status_code",
                    op: "eq",
                    value: "\"Error\"",
                    values: 0,
                    sql: "status_code = 'Error'",
                },
                Condition {
                    map: "str_attributes",
                    name: "tenant.id",
                    op: "eq",
                    value: "\"tenant-@\"",
                    values: 500,
                    sql: "`str_attributes.value`[indexOf(`str_attributes.key`, 'tenant.id')] = 'tenant-@'",
                },
            ],
        },
        Filter {
            name: "operation, duration",
            conditions: &[
                Condition {
                    map: "",
                    name: "name",
                    op: "prefix",
                    value: "\"GET /@/\"",
                    values: 48,
                    sql: "startsWith(name, 'GET /@/')",
                },
                Condition {
                    map: "",
                    name: "duration",
                    op: "gt",
                    value: "1000000000",
                    values: 0,
                    sql: "duration > 1000000000",
                },
            ],
        },
        Filter {
            name: "status, tenant",
            conditions: &[
                Condition {
                    map: "int_attributes",
                    name: "http.status_code",
                    op: "gte",
                    value: "500",
                    values: 0,
                    sql: "`int_attributes.value`[indexOf(`int_attributes.key`, 'http.status_code')] >= 500",
                },
                Condition {
                    map: "str_attributes",
                    name: "tenant.id",
                    op: "eq",
                    value: "\"tenant-@\"",
                    values: 500,
                    sql: "`str_attributes.value`[indexOf(`str_attributes.key`, 'tenant.id')] = 'tenant-@'",
                },
            ],
        },
    ],
    team: (
        "resource_str_attributes[\"team\"] == \"team-3\" && resource_str_attributes[\"deployment.environment\"] == \"production\"",
        "`resource_str_attributes.value`[indexOf(`resource_str_attributes.key`, 'team')] = 'team-3' AND \
         `resource_str_attributes.value`[indexOf(`resource_str_attributes.key`, 'deployment.environment')] = 'production'",
    ),
};

/// SigNoz: a time bucket that leads the sorting key, attributes in maps by type.
pub static SIGNOZ: Table = Table {
    name: "SigNoz",
    fixture: "signoz_v3",
    layout: Layout {
        database: "signoz_traces",
        table: "signoz_index_v3",
        trace_id: "trace_id",
        timestamp: "timestamp",
        index: "trace_summary",
        start: "start",
        end: "end",
        bucket: Some(("ts_bucket_start", 1_800)),
    },
    select: "INSERT INTO signoz_traces.signoz_index_v3 (ts_bucket_start, resource_fingerprint, timestamp, trace_id, span_id, \
        parent_span_id, name, kind_string, duration_nano, status_code, status_message, status_code_string, attributes_string, \
        attributes_number, resources_string, has_error) \
        WITH mapFilter((k, v) -> k != 'http.status_code', SpanAttributes) AS texts, \
          mapFilter((k, v) -> k = 'http.status_code', SpanAttributes) AS numbers \
        SELECT intDiv(toUnixTimestamp(toDateTime(Timestamp)), 1800) * 1800, \
          concat('service.name=', ServiceName, ';hash=', toString(cityHash64(mapValues(ResourceAttributes)))), Timestamp, TraceId, \
          SpanId, ParentSpanId, SpanName, SpanKind, Duration, if(StatusCode = 'Error', 2, 0), StatusMessage, StatusCode, texts, \
          mapApply((k, v) -> (k, toFloat64(v)), numbers), ResourceAttributes, StatusCode = 'Error'",
    fields: &[
        ("resources_string", "team", "string"),
        ("resources_string", "deployment.environment", "string"),
        ("attributes_string", "tenant.id", "string"),
        ("attributes_string", "user.id", "string"),
        ("attributes_number", "http.status_code", "number"),
        ("", "resource_string_service$$name", "string"),
        ("", "name", "string"),
        ("", "has_error", "boolean"),
        ("", "duration_nano", "number"),
    ],
    filters: [
        Filter {
            name: "service, user",
            conditions: &[
                Condition {
                    map: "",
                    name: "resource_string_service$$name",
                    op: "eq",
                    value: "\"service-@\"",
                    values: 48,
                    sql: "`resource_string_service$$name` = 'service-@'",
                },
                Condition {
                    map: "attributes_string",
                    name: "user.id",
                    op: "eq",
                    value: "\"user-@\"",
                    values: 20_000,
                    sql: "attributes_string['user.id'] = 'user-@'",
                },
            ],
        },
        Filter {
            name: "error, tenant",
            conditions: &[
                Condition {
                    map: "",
                    name: "has_error",
                    op: "eq",
                    value: "true",
                    values: 0,
                    sql: "has_error",
                },
                Condition {
                    map: "attributes_string",
                    name: "tenant.id",
                    op: "eq",
                    value: "\"tenant-@\"",
                    values: 500,
                    sql: "attributes_string['tenant.id'] = 'tenant-@'",
                },
            ],
        },
        Filter {
            name: "operation, duration",
            conditions: &[
                Condition {
                    map: "",
                    name: "name",
                    op: "prefix",
                    value: "\"GET /@/\"",
                    values: 48,
                    sql: "startsWith(name, 'GET /@/')",
                },
                Condition {
                    map: "",
                    name: "duration_nano",
                    op: "gt",
                    value: "1000000000",
                    values: 0,
                    sql: "duration_nano > 1000000000",
                },
            ],
        },
        Filter {
            name: "status, tenant",
            conditions: &[
                Condition {
                    map: "attributes_number",
                    name: "http.status_code",
                    op: "gte",
                    value: "500",
                    values: 0,
                    sql: "attributes_number['http.status_code'] >= 500",
                },
                Condition {
                    map: "attributes_string",
                    name: "tenant.id",
                    op: "eq",
                    value: "\"tenant-@\"",
                    values: 500,
                    sql: "attributes_string['tenant.id'] = 'tenant-@'",
                },
            ],
        },
    ],
    team: (
        "resources_string[\"team\"] == \"team-3\" && resources_string[\"deployment.environment\"] == \"production\"",
        "resources_string['team'] = 'team-3' AND resources_string['deployment.environment'] = 'production'",
    ),
};

impl Table {
    /// Returns the fields in the API's form.
    pub fn fields(&self) -> Value {
        let field = |(map, name, logical): &(&str, &str, &str)| {
            // Policies read no numbers, and no names with a `$`.
            let policy = *logical != "number" && !name.contains('$');
            let mut field = json!({"name": name, "type": logical, "filterable": true, "policy": policy});
            if let Some(members) = field.as_object_mut().filter(|_| !map.is_empty()) {
                members.insert("map".to_owned(), json!(map));
            }
            field
        };
        self.fields.iter().map(field).collect()
    }

    /// Creates the tables, without the distributed ones, fills them with the exporter's spans, and merges each partition.
    pub fn fill(&self, store: &Store, version: (u32, u32)) -> Result<()> {
        self.drop(store)?;
        let fixture = trace_tables::all().into_iter().find(|fixture| fixture.name == self.fixture);
        for statement in fixture.iter().flat_map(|fixture| fixture.statements(version)) {
            if !statement.contains("ENGINE = Distributed") {
                store.run(&statement)?;
            }
        }
        let (begin, end) = data::seconds_of_all();
        // By the hour, which needs little memory.
        for hour in (begin..end).step_by(3_600) {
            crate::stack::interrupt::check()?;
            store.run(&format!(
                "{} FROM {} WHERE Timestamp >= fromUnixTimestamp64Second({hour}) AND Timestamp < fromUnixTimestamp64Second({})",
                self.select,
                quoted(TABLE),
                hour + 3_600
            ))?;
        }
        for table in [self.layout.quoted_table(), self.layout.quoted_index()] {
            store.run(&format!("OPTIMIZE TABLE {table} FINAL"))?;
        }
        Ok(())
    }

    pub fn drop(&self, store: &Store) -> Result<()> {
        store.run(&format!("DROP DATABASE IF EXISTS `{}` SYNC", self.layout.database)).map(drop)
    }
}

//! The searches: callers, conditions, and the equivalent hand-written SQL.

use serde_json::{Value, json};

use super::data::{END, users};
use crate::bench::service::Caller;

/// A caller with one role, and the policy of the role.
pub struct SearchCaller {
    pub caller: Caller,
    /// The policy for hand-written SQL.
    access_predicate: Operand,
}

/// A search condition.
pub struct Condition {
    pub name: &'static str,
    matches: Option<Operand>,
}

/// A comparison of a column, or of a map key, with values.
#[derive(Clone)]
struct Operand {
    map: Option<&'static str>,
    name: &'static str,
    values: Values,
}

#[derive(Clone)]
enum Values {
    Fixed(&'static [&'static str]),
    /// A user with few traces, independent of the size of the data set.
    User,
}

/// A benchmark cell: a policy and a condition.
#[derive(Clone, Copy)]
pub struct Cell {
    pub search_caller: &'static SearchCaller,
    pub condition: &'static Condition,
}

/// Common names of the statement shapes.
pub const SHAPES: [&str; 3] = ["naive", "pre", "semi"];

const BY_TENANT: &str = r#"SpanAttributes["tenant.id"] in user.attributes.tenants"#;

pub static SEARCH_CALLERS: [SearchCaller; 4] = [
    SearchCaller {
        caller: Caller {
            name: "70 % of spans",
            roles: &[("production", r#"ResourceAttributes["deployment.environment"] == "production""#)],
            tenants: &[],
        },
        access_predicate: key("ResourceAttributes", "deployment.environment", &["production"]),
    },
    SearchCaller {
        caller: Caller {
            name: "one team",
            roles: &[("team", r#"ResourceAttributes["team"] == "team-3""#)],
            tenants: &[],
        },
        access_predicate: key("ResourceAttributes", "team", &["team-3"]),
    },
    SearchCaller {
        caller: Caller {
            name: "two tenants",
            roles: &[("tenants", BY_TENANT)],
            tenants: &["tenant-7", "tenant-8"],
        },
        access_predicate: key("SpanAttributes", "tenant.id", &["tenant-7", "tenant-8"]),
    },
    SearchCaller {
        caller: Caller { name: "rare tenant", roles: &[("tenants", BY_TENANT)], tenants: &["tenant-rare"] },
        access_predicate: key("SpanAttributes", "tenant.id", &["tenant-rare"]),
    },
];

pub static CONDITIONS: [Condition; 4] = [
    Condition { name: "none", matches: None },
    Condition { name: "status 500", matches: Some(key("SpanAttributes", "http.status_code", &["500"])) },
    Condition {
        name: "one service",
        matches: Some(Operand { map: None, name: "ServiceName", values: Values::Fixed(&["service-7"]) }),
    },
    Condition {
        name: "one user",
        matches: Some(Operand { map: Some("SpanAttributes"), name: "user.id", values: Values::User }),
    },
];

const fn key(map: &'static str, name: &'static str, values: &'static [&'static str]) -> Operand {
    Operand { map: Some(map), name, values: Values::Fixed(values) }
}

/// A materialized column that holds the value of a map key.
#[derive(Debug, Clone)]
pub struct KeyColumn {
    pub map: String,
    pub key: String,
    pub column: String,
}

/// Map keys that are defined as fields, and whether policies may use them.
pub const KEYS: [(&str, &str, bool); 5] = [
    ("ResourceAttributes", "deployment.environment", true),
    ("ResourceAttributes", "team", true),
    ("SpanAttributes", "tenant.id", true),
    ("SpanAttributes", "http.status_code", false),
    ("SpanAttributes", "user.id", false),
];

/// Returns the field definitions, with these columns adopted.
pub fn fields(columns: &[KeyColumn]) -> Value {
    let key = |(map, name, policy): (&str, &str, bool)| {
        let mut field =
            json!({"map": map, "name": name, "type": "string", "filterable": true, "policy": policy});
        let adopted = columns.iter().find(|column| column.map == map && column.key == name);
        if let (Some(adopted), Some(field)) = (adopted, field.as_object_mut()) {
            field.insert("column".to_owned(), json!(adopted.column));
        }
        field
    };
    let service = json!({"name": "ServiceName", "type": "string", "filterable": true, "policy": true});
    Value::Array(KEYS.into_iter().map(key).chain([service]).collect())
}

/// A half-open time range in nanoseconds since 1970.
#[derive(Clone, Copy)]
pub struct Range {
    pub from: u64,
    pub to: u64,
}

impl Range {
    /// Returns the last `seconds` seconds of the data.
    pub fn last_seconds(seconds: u64) -> Self {
        Self { from: END - seconds * 1_000_000_000, to: END }
    }
}

/// Parameters of the hand-written statements.
#[derive(Clone, Copy)]
pub struct Layout<'a> {
    /// The quoted table name.
    pub table: &'a str,
    pub range: Range,
    pub traces: u64,
    pub columns: &'a [KeyColumn],
}

impl SearchCaller {
    pub fn has_role(&self, role: &str) -> bool {
        self.caller.roles.iter().any(|(name, _)| *name == role)
    }
}

impl Operand {
    fn values(&self, traces: u64) -> Vec<String> {
        match self.values {
            Values::Fixed(values) => values.iter().map(|value| (*value).to_owned()).collect(),
            Values::User => vec![format!("user-{}", 4_242 % users(traces))],
        }
    }

    fn sql(&self, layout: &Layout<'_>) -> String {
        let column = layout
            .columns
            .iter()
            .find(|column| Some(column.map.as_str()) == self.map && column.key == self.name)
            .map(|column| format!("`{}`", column.column));
        let operand = match (column, self.map) {
            (Some(column), _) => column,
            (None, Some(map)) => format!("{map}['{}']", self.name),
            (None, None) => self.name.to_owned(),
        };
        let values: Vec<String> =
            self.values(layout.traces).iter().map(|value| format!("'{value}'")).collect();
        match values.as_slice() {
            [value] => format!("{operand} = {value}"),
            values => format!("{operand} IN ({})", values.join(", ")),
        }
    }
}

impl Cell {
    /// Returns all cells in table order.
    pub fn all() -> impl Iterator<Item = Self> {
        SEARCH_CALLERS.iter().flat_map(|search_caller| {
            CONDITIONS.iter().map(move |condition| Self { search_caller, condition })
        })
    }

    pub fn name(self) -> String {
        format!("{}, {}", self.search_caller.caller.name, self.condition.name)
    }

    /// Whether `text`, which is `policy/condition` or a part of either, selects this cell.
    pub fn matches_name(self, text: &str) -> bool {
        let (search_caller, condition) = text.split_once('/').unwrap_or((text, ""));
        let holds = |name: &str, part: &str| name.to_lowercase().contains(&part.trim().to_lowercase());
        holds(self.search_caller.caller.name, search_caller) && holds(self.condition.name, condition)
    }

    /// Returns the filter of a query.
    pub fn filter(self, traces: u64) -> Value {
        let Some(operand) = &self.condition.matches else { return json!({}) };
        let value = operand.values(traces).into_iter().next();
        let mut condition = json!({"name": operand.name, "op": "eq", "value": value});
        if let (Some(map), Some(condition)) = (operand.map, condition.as_object_mut()) {
            condition.insert("map".to_owned(), json!(map));
        }
        json!({"conditions": [condition]})
    }

    /// Returns the statement of one of [`SHAPES`], which finds the ids of the newest traces. All shapes evaluate spans inside the
    /// window only.
    pub fn handwritten(self, shape: &str, layout: &Layout<'_>, limit: u64) -> String {
        let (table, Range { from, to }) = (layout.table, layout.range);
        let window = format!(
            "Timestamp >= fromUnixTimestamp64Nano({from}) AND Timestamp < fromUnixTimestamp64Nano({to})"
        );
        let access_predicate = self.search_caller.access_predicate.sql(layout);
        let matches = self.condition.matches.as_ref().map(|operand| operand.sql(layout));
        // Traces are ordered by the newest span that matches the condition, or without a condition by the newest span that
        // satisfies the policy.
        let key = matches.as_deref().unwrap_or(&access_predicate);
        let both = match &matches {
            None => format!("countIf({access_predicate}) > 0"),
            Some(matches) => format!("countIf({access_predicate}) > 0 AND countIf({matches}) > 0"),
        };
        let grouped = |scanned: &str| {
            format!(
                "SELECT TraceId FROM {table} WHERE {scanned} GROUP BY TraceId HAVING {both} \
                 ORDER BY maxIf(Timestamp, {key}) DESC, TraceId LIMIT {limit}"
            )
        };
        match (shape, &matches) {
            ("naive", _) => grouped(&window),
            ("pre", Some(matches)) => grouped(&format!("{window} AND ({access_predicate} OR {matches})")),
            ("pre", None) => grouped(&format!("{window} AND {access_predicate}")),
            _ => {
                let within = matches.as_ref().map_or_else(String::new, |_| {
                    format!(
                        " AND TraceId IN (SELECT TraceId FROM {table} WHERE {window} AND {access_predicate})"
                    )
                });
                format!(
                    "SELECT TraceId FROM {table} WHERE {window} AND {key}{within} GROUP BY TraceId \
                     ORDER BY max(Timestamp) DESC, TraceId LIMIT {limit}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_found_by_parts_of_its_name() {
        let named = |text: &str| Cell::all().filter(|cell| cell.matches_name(text)).count();
        assert_eq!(named("two tenants/status 500"), 1);
        assert_eq!(named("70/none"), 1);
        assert_eq!(named("rare"), 4);
        assert_eq!(named("/user"), 4);
        assert_eq!(named("unknown/none"), 0);
        assert_eq!(Cell::all().count(), 16);
    }

    #[test]
    fn hand_written_statements_use_columns_that_are_there() {
        let cell = Cell::all().find(|cell| cell.matches_name("two/status")).unwrap();
        let columns =
            [KeyColumn { map: "SpanAttributes".into(), key: "tenant.id".into(), column: "tenant".into() }];
        let layout = |columns| Layout { table: "t", range: Range { from: 0, to: 1 }, traces: 1_000, columns };
        let without = cell.handwritten("semi", &layout(&[]), 50);
        assert!(
            without.contains("AND SpanAttributes['tenant.id'] IN ('tenant-7', 'tenant-8'))"),
            "{without}"
        );
        let with = cell.handwritten("pre", &layout(&columns), 50);
        assert!(
            with.contains(
                "AND (`tenant` IN ('tenant-7', 'tenant-8') OR SpanAttributes['http.status_code'] = '500')"
            ),
            "{with}"
        );
    }
}

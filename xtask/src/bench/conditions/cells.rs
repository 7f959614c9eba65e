//! Benchmark cells: common combinations of conditions, and the callers that search with them.

use serde_json::{Value, json};

use super::data::{FEATURES, OPERATIONS, ORDERS, REGIONS, SECOND, SERVICES, Size, TENANTS};
use crate::bench::service::Caller;

/// A caller with its policies as an SQL predicate, which is `None` if the policies grant access to every trace.
pub struct Access {
    pub caller: Caller,
    pub sql: Option<&'static str>,
}

pub static CALLERS: [Access; 3] = [
    Access { caller: Caller { name: "all", roles: &[("everything", "true")], tenants: &[] }, sql: None },
    Access {
        caller: Caller {
            name: "team policy",
            roles: &[(
                "team",
                r#"ResourceAttributes["team"] == "team-3" && ResourceAttributes["deployment.environment"] == "production""#,
            )],
            tenants: &[],
        },
        sql: Some(
            "ResourceAttributes['team'] = 'team-3' AND ResourceAttributes['deployment.environment'] = 'production'",
        ),
    },
    Access {
        caller: Caller {
            name: "five roles",
            roles: &[
                ("one-team", r#"ResourceAttributes["team"] == "team-1""#),
                ("one-service", r#"ServiceName == "service-7""#),
                ("tenants", r#"SpanAttributes["tenant.id"] in user.attributes.tenants"#),
                (
                    "staging",
                    r#"ResourceAttributes["team"] == "team-2" && ResourceAttributes["deployment.environment"] == "staging""#,
                ),
                (
                    "feature",
                    r#"ResourceAttributes["cloud.region"] == "region-3" && SpanAttributes["app.feature"] == "feature-5""#,
                ),
            ],
            tenants: &["tenant-7", "tenant-8"],
        },
        sql: Some(
            "ResourceAttributes['team'] = 'team-1' OR ServiceName = 'service-7' \
             OR SpanAttributes['tenant.id'] IN ('tenant-7', 'tenant-8') \
             OR ResourceAttributes['team'] = 'team-2' AND ResourceAttributes['deployment.environment'] = 'staging' \
             OR ResourceAttributes['cloud.region'] = 'region-3' AND SpanAttributes['app.feature'] = 'feature-5'",
        ),
    },
];

/// Attribute that a condition tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term {
    Service,
    User,
    Tenant,
    Status500,
    Operation,
    Slow,
    Error,
    Region,
    Feature,
    Session,
    Order,
}

use Term::{Error, Feature, Operation, Order, Region, Service, Session, Slow, Status500, Tenant, User};

/// A combination of conditions.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    pub name: &'static str,
    pub terms: &'static [Term],
}

const fn cell(name: &'static str, terms: &'static [Term]) -> Cell {
    Cell { name, terms }
}

pub static CELLS: [Cell; 14] = [
    cell("service, user", &[Service, User]),
    cell("user, service", &[User, Service]),
    cell("service, tenant", &[Service, Tenant]),
    cell("service, status 500", &[Service, Status500]),
    cell("operation, slow", &[Operation, Slow]),
    cell("service, error, tenant", &[Service, Error, Tenant]),
    cell("tenant, user", &[Tenant, User]),
    cell("two attributes, none rare", &[Region, Feature]),
    cell("two attributes, both rare", &[Session, Order]),
    cell("service, tenant, region, slow", &[Service, Tenant, Region, Slow]),
    cell("service alone", &[Service]),
    cell("user alone", &[User]),
    cell("tenant alone", &[Tenant]),
    cell("status 500 alone", &[Status500]),
];

/// Cells that are measured against the number of spans.
pub const CURVE: [&str; 4] =
    ["service, user", "service, error, tenant", "tenant, user", "two attributes, none rare"];

/// A condition with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub term: Term,
    map: Option<&'static str>,
    field: &'static str,
    operator: &'static str,
    value: Value,
}

impl Cell {
    /// Returns the conditions with the values of round `number`. Each round has other values of the same frequency, as far as the
    /// data set has any.
    pub fn conditions(&self, size: Size, number: u64) -> Vec<Condition> {
        self.terms.iter().map(|term| term.condition(size, number)).collect()
    }
}

impl Term {
    /// Approximate number of matching spans per million spans.
    fn frequency(self) -> u64 {
        match self {
            Session | Order => 1,
            User => 2,
            Tenant => 600,
            Operation => 2_000,
            Status500 => 7_000,
            Slow | Service | Feature => 20_000,
            Error => 25_000,
            Region => 60_000,
        }
    }

    fn condition(self, size: Size, number: u64) -> Condition {
        // The factors are coprime to these counts, and to most of those that grow with the data.
        let (user, session) = ((number * 7_919 + 13) % size.users, (number * 6_007 + 5) % size.sessions);
        let name = |kind: &str, number_of_value: u64| json!(format!("{kind}-{number_of_value}"));
        let (map, field, operator, value) = match self {
            Service => (None, "ServiceName", "eq", name("service", number * 11 % SERVICES)),
            Operation => {
                let number_of_value = number * 7 % (SERVICES * OPERATIONS);
                let (service, operation) = (number_of_value % SERVICES, number_of_value / SERVICES);
                let verb = ["GET", "POST", "SELECT", "publish"].into_iter().cycle().nth(operation as usize);
                let name = format!("{} /{service}/{operation}", verb.unwrap_or_default());
                (None, "SpanName", "eq", json!(name))
            }
            Slow => (None, "Duration", "gt", json!(SECOND + number)),
            Error => (None, "StatusCode", "eq", json!("Error")),
            User => (Some("SpanAttributes"), "user.id", "eq", name("user", user)),
            Tenant => (Some("SpanAttributes"), "tenant.id", "eq", name("tenant", user % TENANTS)),
            Status500 => (Some("SpanAttributes"), "http.status_code", "eq", json!("500")),
            Region => (Some("ResourceAttributes"), "cloud.region", "eq", name("region", number % REGIONS)),
            Feature => {
                let number_of_value = (number * 5 + number / (REGIONS * FEATURES)) % FEATURES;
                (Some("SpanAttributes"), "app.feature", "eq", name("feature", number_of_value))
            }
            Session => (Some("SpanAttributes"), "session.id", "eq", name("session", session)),
            Order => {
                let number_of_value = session * ORDERS + number % ORDERS;
                (Some("SpanAttributes"), "order.id", "eq", name("order", number_of_value))
            }
        };
        Condition { term: self, map, field, operator, value }
    }
}

impl Condition {
    /// Returns the condition in the API's format.
    pub fn json(&self) -> Value {
        let mut condition = json!({"name": self.field, "op": self.operator, "value": self.value});
        if let (Some(map), Some(condition)) = (self.map, condition.as_object_mut()) {
            condition.insert("map".to_owned(), json!(map));
        }
        condition
    }

    /// Returns the condition as hand-written SQL.
    pub fn sql(&self) -> String {
        let operand = match self.map {
            Some(map) => format!("{map}['{}']", self.field),
            None => self.field.to_owned(),
        };
        match &self.value {
            Value::String(text) => format!("{operand} = '{text}'"),
            value => format!("{operand} > {value}"),
        }
    }

    /// Returns the condition that the fewest spans match.
    pub fn rarest(conditions: &[Self]) -> Option<&Self> {
        conditions.iter().min_by_key(|condition| condition.term.frequency())
    }
}

/// Returns the field definitions of the data set.
pub fn fields() -> Value {
    let key = |(map, name): (&str, &str)| json!({"map": map, "name": name, "type": "string", "filterable": true, "policy": true});
    let column = |name: &str| json!({"name": name, "type": "string", "filterable": true, "policy": true});
    let keys = [
        ("ResourceAttributes", "team"),
        ("ResourceAttributes", "deployment.environment"),
        ("ResourceAttributes", "cloud.region"),
        ("SpanAttributes", "tenant.id"),
        ("SpanAttributes", "user.id"),
        ("SpanAttributes", "http.status_code"),
        ("SpanAttributes", "app.feature"),
        ("SpanAttributes", "session.id"),
        ("SpanAttributes", "order.id"),
    ];
    let mut fields: Vec<Value> = keys.into_iter().map(key).collect();
    fields.extend(["ServiceName", "SpanName", "StatusCode"].map(column));
    fields.push(json!({"name": "Duration", "type": "number", "filterable": true, "policy": false}));
    Value::Array(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_differ_from_round_to_round() {
        let size = Size::of(1_000_000);
        for cell in &CELLS {
            let rounds: Vec<_> = (0..8).map(|number| cell.conditions(size, number)).collect();
            let fixed = cell.terms.iter().all(|term| matches!(term, Status500 | Error));
            for (number, one) in rounds.iter().enumerate().filter(|_| !fixed) {
                assert!(!rounds[..number].contains(one), "{}: {one:?}", cell.name);
            }
        }
    }

    #[test]
    fn the_rarest_condition_is_found() {
        let conditions = CELLS[0].conditions(Size::of(1_000_000), 3);
        let rarest = Condition::rarest(&conditions).unwrap();
        assert_eq!(rarest.term, User);
        assert!(rarest.sql().starts_with("SpanAttributes['user.id'] = 'user-"), "{}", rarest.sql());
        assert_eq!(rarest.json()["map"], "SpanAttributes");
    }
}

//! Tables that cannot serve as a trace source, whatever their columns are.

use super::Catalogue;
use crate::Result;
use crate::sql::Statement;

/// Engines that return each row once: reading a table removes rows that are meant for its materialized view.
const QUEUE_ENGINES: [&str; 6] = ["Kafka", "RabbitMQ", "NATS", "S3Queue", "AzureQueue", "FileLog"];

/// Why a table is not proposed as a trace source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsuitability {
    /// The reason, and the table to bind instead.
    pub reason: String,
    /// Whether it can be read nevertheless, so that it can be bound with a warning.
    pub readable: bool,
}

/// Returns why a table of this name and engine is unsuitable; `parameters` are those of a view.
pub(crate) fn unsuitable(name: &str, engine: &str, parameters: &[String]) -> Option<Unsuitability> {
    let view = "bind the target table of its materialized view";
    let (reason, readable) = match engine {
        "Null" => (format!("a table of the engine Null never contains a row: {view}"), false),
        "Set" => ("a table of the engine Set cannot be read".to_owned(), false),
        queue if QUEUE_ENGINES.contains(&queue) => {
            (format!("reading a table of the engine {queue} consumes its messages: {view}"), false)
        }
        "Dictionary" => (
            "a dictionary has one row for each key, and no spans: bind the table that it is read from"
                .to_owned(),
            true,
        ),
        "MaterializedView" => {
            ("a materialized view fills another table: bind that table, if it is not hidden".to_owned(), true)
        }
        _ if !parameters.is_empty() => {
            let named = parameters.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let reason = format!(
                "the view takes parameters ({named}), which a trace source cannot give: make a view with fixed values, and bind that"
            );
            (reason, false)
        }
        _ if name.starts_with(".inner.") || name.starts_with(".inner_id.") => {
            let reason = "it is the hidden table of a materialized view, and is lost when the view is \
                          recreated: bind the view, or give the view an explicit target table (`TO …`)";
            (reason.to_owned(), true)
        }
        _ => return None,
    };
    Some(Unsuitability { reason, readable })
}

impl Catalogue {
    /// Returns why a table is unsuitable as a trace source; `None` for a suitable table, or one that does not exist.
    ///
    /// # Errors
    /// When ClickHouse fails.
    pub async fn unsuitable(&self, database: &str, table: &str) -> Result<Option<Unsuitability>> {
        let mut statement = Statement::default();
        let (database, name) = (statement.string(database), statement.string(table));
        statement.push(&format!(
            "SELECT engine, arrayMap(parameter -> parameter.1, parameterized_view_parameters) FROM system.tables \
             WHERE database = {database} AND name = {name}"
        ));
        let rows: Vec<(String, Vec<String>)> = self.client.rows(statement).await?;
        Ok(rows.first().and_then(|(engine, parameters)| unsuitable(table, engine, parameters)))
    }
}

#[cfg(test)]
mod tests {
    use tracewarden_testkit::local_store::LocalStore;

    use super::*;
    use crate::ClickHouseError;
    use crate::agreement::binding;
    use crate::agreement::{connect, execute};

    const COLUMNS: &str = "Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String";

    #[tokio::test]
    async fn tables_without_spans_are_not_proposed_and_have_a_reason() {
        let local = LocalStore::start().unwrap();
        let store = connect(&local);
        for statement in [
            format!("CREATE TABLE default.spans ({COLUMNS}) ENGINE = MergeTree ORDER BY tuple()"),
            format!("CREATE TABLE default.landing ({COLUMNS}) ENGINE = Null"),
            "CREATE MATERIALIZED VIEW default.landing_mv ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM default.landing".to_owned(),
            format!(
                "CREATE DICTIONARY default.last ({COLUMNS}) PRIMARY KEY TraceId SOURCE(CLICKHOUSE(TABLE 'spans')) \
                 LAYOUT(COMPLEX_KEY_HASHED()) LIFETIME(0)"
            ),
            "CREATE VIEW default.of_tenant AS SELECT Timestamp, TraceId, SpanId, ParentSpanId FROM default.spans WHERE TraceId = {tenant:String}".to_owned(),
            "CREATE VIEW default.plain AS SELECT *, '{not:String}' AS text FROM default.spans".to_owned(),
        ] {
            execute(&local, statement).await;
        }
        let tables = store.catalogue().tables().await.unwrap();
        let inner = tables.iter().find(|table| table.name.starts_with(".inner")).unwrap().name.clone();
        for (name, reason, readable) in [
            ("landing", Some("never contains a row"), false),
            ("landing_mv", Some("fills another table"), true),
            ("last", Some("one row for each key"), true),
            ("of_tenant", Some("takes parameters (`tenant`)"), false),
            (&inner, Some("hidden table"), true),
            ("spans", None, true),
            ("plain", None, true),
        ] {
            let table = tables.iter().find(|table| table.name == name).unwrap();
            assert_eq!(table.proposal.is_some(), reason.is_none(), "{name}");
            assert_eq!(table.unsuitable.is_some(), reason.is_some(), "{name}");
            let Some(reason) = reason else {
                assert_eq!(store.catalogue().unsuitable("default", name).await, Ok(None), "{name}");
                continue;
            };
            let unsuitability = store.catalogue().unsuitable("default", name).await.unwrap().unwrap();
            assert!(
                unsuitability.reason.contains(reason) && unsuitability.readable == readable,
                "{name}: {unsuitability:?}"
            );
            assert_eq!(table.unsuitable.as_ref(), Some(&unsuitability.reason));
            let bound = store.catalogue().check_binding(&binding("default", name)).await;
            match bound {
                Ok(warnings) if readable => {
                    assert!(warnings.iter().any(|text| text.contains(reason)), "{warnings:?}")
                }
                Err(ClickHouseError::InvalidBinding(errors)) if !readable => {
                    let [(member, text)] = errors.as_slice() else { panic!("{errors:?}") };
                    assert!(*member == "table" && text.contains(reason), "{text}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn queues_are_never_read() {
        for engine in ["Kafka", "RabbitMQ", "NATS", "S3Queue", "AzureQueue", "FileLog"] {
            let unsuitability = unsuitable("spans", engine, &[]).unwrap();
            assert!(!unsuitability.readable && unsuitability.reason.contains(engine), "{unsuitability:?}");
        }
        for engine in
            ["MergeTree", "ReplicatedMergeTree", "Distributed", "Merge", "View", "Memory", "Buffer", "Log"]
        {
            assert_eq!(unsuitable("spans", engine, &[]), None);
        }
    }
}

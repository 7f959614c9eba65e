//! The official Rust client, unchanged, with and without compression.

use crate::support::Store;
use clickhouse::{Client, Compression, Row};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Row, Serialize, Deserialize)]
struct Line {
    id: u64,
    name: String,
    attributes: Vec<(String, String)>,
    size: Option<f64>,
}

fn clients(store: &Store) -> Vec<Client> {
    [Compression::None, Compression::Lz4]
        .into_iter()
        .map(|compression| Client::default().with_url(store.url()).with_compression(compression))
        .collect()
}

fn line(id: u64) -> Line {
    Line {
        id,
        name: format!("näme '{id}'\t\\"),
        attributes: vec![("k".into(), format!("v{id}"))],
        size: id.is_multiple_of(2).then_some(id as f64 / 3.0),
    }
}

#[tokio::test]
async fn rows_are_inserted_and_fetched() {
    let store = Store::start();
    for client in clients(&store) {
        client.query("CREATE OR REPLACE TABLE lines (id UInt64, name String, attributes Map(String, String), size Nullable(Float64)) ENGINE = MergeTree ORDER BY id").execute().await.unwrap();
        let mut insert = client.insert::<Line>("lines").await.unwrap();
        for id in 0..50_000 {
            insert.write(&line(id)).await.unwrap();
        }
        insert.end().await.unwrap();
        let mut cursor = client.query("SELECT ?fields FROM lines ORDER BY id").fetch::<Line>().unwrap();
        let mut count = 0;
        while let Some(found) = cursor.next().await.unwrap() {
            assert_eq!(found, line(count));
            count += 1;
        }
        assert_eq!(count, 50_000);
        let plain = client.clone().with_validation(false);
        let found =
            plain.query("SELECT ?fields FROM lines WHERE id = ?").bind(7).fetch_one::<Line>().await.unwrap();
        assert_eq!(found, line(7));
    }
}

#[tokio::test]
async fn values_arrive_as_they_were_bound() {
    let store = Store::start();
    let hostile = "'; DROP TABLE x; -- \\ \t\n\r {a} ? ü \u{1f600}";
    for client in clients(&store) {
        let bound = client.query("SELECT ?").bind(hostile).fetch_one::<String>().await.unwrap();
        assert_eq!(bound, hostile);
        let parameter = client
            .query("SELECT {value: String}")
            .param("value", hostile)
            .fetch_one::<String>()
            .await
            .unwrap();
        assert_eq!(parameter, hostile);
        let list = client
            .query("SELECT {list: Array(String)}")
            .param("list", vec![hostile, ""])
            .fetch_one::<Vec<String>>()
            .await
            .unwrap();
        assert_eq!(list, [hostile, ""]);
        let empty =
            client.query("SELECT {value: String}").param("value", "").fetch_one::<String>().await.unwrap();
        assert_eq!(empty, "");
    }
}

#[tokio::test]
async fn errors_come_early_and_late() {
    let store = Store::start();
    for client in clients(&store) {
        let early = client.query("SELECT * FROM nosuch").execute().await.unwrap_err().to_string();
        assert!(early.contains("Code: 60") && early.contains("UNKNOWN_TABLE"), "{early}");
        let mut cursor = client
            .query("SELECT number, throwIf(number = 200000, 'boom'), repeat('x', 1000) FROM system.numbers SETTINGS max_block_size = 10000")
            .fetch::<(u64, u8, String)>()
            .unwrap();
        let mut count = 0_u64;
        let late = loop {
            match cursor.next().await {
                Ok(Some(_)) => count += 1,
                Ok(None) => panic!("a failed answer ended like a complete one, after {count} rows"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(count > 0 && late.contains("boom") && late.contains("Code: 395"), "{count} {late}");
        let refused =
            client.clone().with_user("stranger").query("SELECT 1").execute().await.unwrap_err().to_string();
        assert!(refused.contains("Code: 516"), "{refused}");
        let failed = client.insert::<Line>("nosuch").await;
        assert!(failed.is_err());
    }
}

#[tokio::test]
async fn settings_and_query_ids_hold_for_one_query() {
    let store = Store::start();
    for client in clients(&store) {
        let with = client
            .query("SELECT toUInt64(getSetting('max_threads'))")
            .with_setting("max_threads", "3")
            .with_setting("query_id", "mine");
        assert_eq!(with.fetch_one::<u64>().await.unwrap(), 3);
        assert_ne!(
            client.query("SELECT toUInt64(getSetting('max_threads'))").fetch_one::<u64>().await.unwrap(),
            3
        );
        let readonly = client.clone().with_setting("readonly", "1").with_setting("max_execution_time", "5");
        let refused = readonly
            .query("CREATE TABLE t (a UInt8) ENGINE = Memory")
            .execute()
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains("Code: 164"), "{refused}");
        let database = client.clone().with_database("system");
        assert_eq!(database.query("SELECT dummy FROM one").fetch_one::<u8>().await.unwrap(), 0);
        let bytes = client
            .query("SELECT number FROM numbers(3)")
            .fetch_bytes("JSONEachRow")
            .unwrap()
            .collect()
            .await
            .unwrap();
        assert_eq!(bytes, "{\"number\":0}\n{\"number\":1}\n{\"number\":2}\n");
    }
}

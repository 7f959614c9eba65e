//! A shard that cannot be reached, or that is lost while it answers: no statement returns the rows of the other shards alone.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::recorder::Recorder;
use super::shards_with_clusters;
use super::statements::{DEFINITIONS, INDEX_DEFINITIONS, ask, fill_index, fill_spans};
use crate::agreement::differential::{connect_at, execute};

/// Greeting of a server with a minimal old protocol: its name, its version and its revision.
const GREETING: &[u8] = b"\x00\x05shard\x15\x08\xf0\xa5\x03";

/// Returns a port without a listener.
fn refusing_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// Returns a port at which each connection is passed to `serve`, which ends it.
fn serving_port(serve: impl Fn(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(serve));
    port
}

/// Sends a greeting, and closes the connection when it receives a query. Counts the queries.
fn closing_port(query_count: Arc<AtomicUsize>) -> u16 {
    serving_port(move |mut connection| {
        let mut part = [0; 4_096];
        let greeted = connection.read(&mut part).is_ok() && connection.write_all(GREETING).is_ok();
        // A query begins with its packet type. A ping, which may come before it, is answered.
        while greeted && let Ok(1..) = connection.read(&mut part) {
            if part[0] == 4 && connection.write_all(&[4]).is_ok() {
                continue;
            }
            query_count.fetch_add(1, Ordering::SeqCst);
            break;
        }
    })
}

#[tokio::test]
async fn no_statement_succeeds_without_a_shard() {
    let query_count = Arc::<AtomicUsize>::default();
    let lost = [
        ("refusing", refusing_port()),
        ("closing", serving_port(drop)),
        ("dying", closing_port(Arc::clone(&query_count))),
    ];
    let local = shards_with_clusters(&lost);
    let recorder = Recorder::start(&local.url);
    let recorded = connect_at(&recorder.url, &local.password);
    let rows = fill_spans(&local).await;
    fill_index(&local, &rows).await;
    let mut statements = Vec::new();
    ask(&recorded, "spans", |title| {
        let of_spans = recorder.take().into_iter().filter(|sent| sent.text.contains("FROM `default`.`spans"));
        statements.extend(of_spans.map(|sent| (title, sent)));
    })
    .await;
    assert!(statements.len() > 30, "{}", statements.len());

    for (cluster, _) in lost {
        for (name, definitions) in [("spans", DEFINITIONS), ("spans_trace_id_ts", INDEX_DEFINITIONS)] {
            let engine =
                format!("Distributed({cluster}, default, {name}_rows, cityHash64(ifNull(TraceId, '')))");
            execute(
                &local,
                format!("CREATE OR REPLACE TABLE default.{name} ({definitions}) ENGINE = {engine}"),
            )
            .await;
        }
        for (title, sent) in &statements {
            let answer = sent.resend(&local.url);
            // The error comes before the answer, or in the middle of it.
            let reports_error = answer.starts_with("HTTP/1.1 500")
                && answer.contains("\r\nx-clickhouse-exception-code: ")
                || answer.contains("__exception__");
            assert!(reports_error, "{title}, {cluster}: {answer}\n{}", sent.text);
        }
        println!("{cluster}: {} statements fail", statements.len());
    }
    assert!(query_count.load(Ordering::SeqCst) >= statements.len(), "{query_count:?}");

    // With the user's profile alone, the remaining shards would answer.
    let alone = format!(
        "CREATE OR REPLACE TABLE default.spans ({DEFINITIONS}) ENGINE = Distributed(refusing, default, spans_rows)"
    );
    execute(&local, alone).await;
    execute(&local, "SELECT count() FROM default.spans".to_owned()).await;
}

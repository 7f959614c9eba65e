//! Comparisons of numbers, those at undeclared JSON paths among them, on a real server of the oldest version that the service supports. It reads some statements in another way than
//! the engine of the other tests does.

use tracewarden_testkit::clickhouse::{Options, PASSWORD, Server};

use crate::TraceStore;
use crate::differential::connect_at;
use crate::exact_numbers::compare_all;

fn start() -> (Server, TraceStore) {
    let server = Server::start(&Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let store = connect_at(&server.url, PASSWORD);
    (server, store)
}

#[tokio::test]
async fn numbers_compare_exactly_on_a_real_server() {
    let (server, store) = start();
    compare_all(&store, async |statement| {
        server.run(&statement).unwrap_or_else(|error| panic!("{error}\n{statement:.2000}"));
    })
    .await;
}

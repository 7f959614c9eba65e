//! While the application database is unavailable, no tool answers. The calls run concurrently, since each waits for the
//! database.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::json;
use tracewarden_testkit::postgres;

use crate::mcp::rpc::{call, key, send};
use crate::mcp::scoped_keys::calls;
use crate::support::database_outage::OtherWriter;
use crate::support::store::{self, BLUE, Store, blue_policies};
use crate::support::{Client, Service};

const QUERY_LIMIT: (&str, &str) = ("TRACEWARDEN_MAX_QUERIES_PER_USER", "100");

/// Returns an agent with access to the trace `BLUE`.
async fn agent(store: &Store, service: &Service) -> Client {
    store.insert_two_traces().await;
    let admin = service.admin().await;
    store::bind(&admin).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    let ada = service.user(&admin, "ada", &["blue"]).await;
    key(&ada, json!({})).await
}

async fn assert_all_answer(agent: &Client) {
    for (tool, arguments) in calls(BLUE) {
        call(agent, tool, arguments).await.expect();
    }
}

/// The caller can be authenticated, but no record can be written.
async fn assert_unavailable_while_another_program_writes(service: &Service, agent: &Client) {
    // Use the API key once before, since recording its first use would also wait for the database.
    assert_all_answer(agent).await;
    let writer = OtherWriter::begin(service).await;
    let called = calls(BLUE).into_iter().map(|(tool, arguments)| call(agent, tool, arguments));
    for called in join_all(called).await {
        let message = called.failure("unavailable");
        assert!(!message.contains("blue") && !message.contains(BLUE), "{message}");
    }
    writer.end().await;
    assert_all_answer(agent).await;
}

#[tokio::test]
async fn no_tool_answers_on_sqlite() {
    let store = Store::start();
    let service = store.service_with(&[QUERY_LIMIT]);
    let agent = agent(&store, &service).await;
    assert_unavailable_while_another_program_writes(&service, &agent).await;
}

#[tokio::test]
async fn no_tool_answers_on_postgresql() {
    let store = Store::start();
    let settings = [&store.settings()[..], &[QUERY_LIMIT]].concat();
    let service = Service::start_on(&Arc::new(postgres::database().unwrap()), &settings);
    let agent = agent(&store, &service).await;
    assert_unavailable_while_another_program_writes(&service, &agent).await;
    // The caller cannot be authenticated either.
    service.reject_connections();
    let called = calls(BLUE).into_iter().map(|(tool, arguments)| {
        let params = json!({"name": tool, "arguments": arguments});
        send(&agent, "tools/call", params)
    });
    for answer in join_all(called).await {
        answer.problem(503, "unavailable");
    }
    send(&agent, "tools/list", json!({})).await.problem(503, "unavailable");
    service.accept_connections();
    service.wait_until_ready().await;
    assert_all_answer(&agent).await;
}

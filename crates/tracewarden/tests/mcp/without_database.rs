//! The own database is away: no tool answers. Calls are made at once, since each waits for it.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::json;
use tracewarden_testkit::postgres;

use crate::narrowed_keys::calls;
use crate::rpc::{call, key, send};
use crate::support::away::OtherWriter;
use crate::support::store::{self, BLUE, Store, blue_policies};
use crate::support::{Client, Service};

const ALL_AT_ONCE: (&str, &str) = ("TRACEWARDEN_MAX_QUERIES_PER_USER", "100");

/// Whose key opens the trace `BLUE`.
async fn agent(store: &Store, service: &Service) -> Client {
    store.insert_two_traces().await;
    let admin = service.admin().await;
    store::bind(&admin).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    let ada = service.user(&admin, "ada", &["blue"]).await;
    key(&ada, json!({})).await
}

async fn all_answer(agent: &Client) {
    for (tool, arguments) in calls(BLUE) {
        call(agent, tool, arguments).await.expect();
    }
}

/// Who calls is known, and nothing can be recorded.
async fn none_answers_while_another_program_writes(service: &Service, agent: &Client) {
    // A key's first use would be noted, and the call wait for that, too.
    all_answer(agent).await;
    let writer = OtherWriter::begin(service).await;
    let called = calls(BLUE).into_iter().map(|(tool, arguments)| call(agent, tool, arguments));
    for called in join_all(called).await {
        let told = called.failure("unavailable");
        assert!(!told.contains("blue") && !told.contains(BLUE), "{told}");
    }
    writer.end().await;
    all_answer(agent).await;
}

#[tokio::test]
async fn no_tool_answers_on_sqlite() {
    let store = Store::start();
    let service = store.service_with(&[ALL_AT_ONCE]);
    let agent = agent(&store, &service).await;
    none_answers_while_another_program_writes(&service, &agent).await;
}

#[tokio::test]
async fn no_tool_answers_on_postgresql() {
    let store = Store::start();
    let settings = [&store.settings()[..], &[ALL_AT_ONCE]].concat();
    let service = Service::start_on(&Arc::new(postgres::database().unwrap()), &settings);
    let agent = agent(&store, &service).await;
    none_answers_while_another_program_writes(&service, &agent).await;
    // Nor is it known who calls.
    service.shut_out();
    let called = calls(BLUE).into_iter().map(|(tool, arguments)| {
        let params = json!({"name": tool, "arguments": arguments});
        send(&agent, "tools/call", params)
    });
    for answer in join_all(called).await {
        answer.problem(503, "unavailable");
    }
    send(&agent, "tools/list", json!({})).await.problem(503, "unavailable");
    service.let_in();
    service.comes_back().await;
    all_answer(&agent).await;
}

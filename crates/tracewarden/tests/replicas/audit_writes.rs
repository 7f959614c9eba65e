//! If the audit log cannot be written, no span is shown and nothing is changed.

use serde_json::json;

use crate::replicas::audit_log;
use crate::replicas::fleet::{add_user, new_key, read_traces};
use crate::support::rejected_records::RejectedRecords;
use crate::support::store::{BLUE, Store, bind, blue_policies};
use crate::support::{Client, Service, USER_PASSWORD};

/// Prepares a service on either kind of database, with a reader who sees three spans.
async fn fixture(store: &Store, service: &Service) -> (Client, Client) {
    store.insert_two_traces().await;
    let admin = service.admin().await;
    bind(&admin).await;
    admin.put("/roles/blue", blue_policies()).await.expect(201);
    add_user(service, &admin, "ada", &["blue"], json!({})).await;
    let ada = service.sign_in("ada", USER_PASSWORD).await;
    let (_, key) = new_key(&ada).await;
    assert_eq!(read_traces(&key).await.expect(200).body["spans"].as_array().unwrap().len(), 3);
    (admin, key)
}

/// The beginning of an operation cannot be recorded.
async fn assert_nothing_shown_or_changed(admin: &Client, key: &Client) {
    for answer in [
        read_traces(key).await,
        key.post("/traces/query", json!({"view": "ids"})).await,
        key.post("/traces/query", json!({"view": "summary"})).await,
        key.get(&format!("/traces/{BLUE}")).await,
        admin.put("/roles/new", blue_policies()).await,
        admin.patch("/users/ada", json!({"roles": []})).await,
        admin.post("/me/api-keys", json!({"name": "unrecorded"})).await,
    ] {
        assert!(answer.status >= 500, "{}: {}", answer.request_info, answer.status);
        assert!(!String::from_utf8_lossy(&answer.bytes).contains(BLUE), "{}", answer.request_info);
        let status = answer.status;
        let code = answer.body["code"].as_str().unwrap().to_owned();
        answer.problem(status, &code);
    }
    // Reading the configuration writes no record.
    admin.get("/roles/new").await.problem(404, "not_found");
    assert_eq!(admin.get("/users/ada").await.expect(200).body["roles"], json!(["blue"]));
    assert_eq!(admin.get("/me/api-keys").await.expect(200).body["api_keys"], json!([]));
}

/// The end of a read cannot be recorded: the page is visibly incomplete.
async fn assert_no_complete_page(key: &Client) {
    let sent = key.request(reqwest::Method::POST, "/traces/query").json(&json!({})).send().await;
    // A short page may be aborted before its head has been sent.
    if let Ok(response) = sent {
        let status = response.status().as_u16();
        let body = response.bytes().await;
        assert!(status >= 500 || body.is_err(), "{status}: {body:?}");
    }
    let answer = key.post("/traces/query", json!({"view": "ids"})).await;
    assert!(answer.status >= 500, "{}", answer.status);
}

async fn a_full_disk(service: &Service, admin: &Client, key: &Client) {
    service.reject_records(RejectedRecords::Completions).await;
    assert_no_complete_page(key).await;
    service.accept_records().await;
    service.reject_records(RejectedRecords::All).await;
    assert_nothing_shown_or_changed(admin, key).await;
    service.accept_records().await;
    read_traces(key).await.expect(200);
}

#[tokio::test]
async fn without_the_right_to_write_it_on_postgresql() {
    let store = Store::start();
    let database = std::sync::Arc::new(tracewarden_testkit::postgres::database().unwrap());
    let service = Service::start_on(&database, &store.settings());
    let (admin, key) = fixture(&store, &service).await;

    database.run(&["REVOKE INSERT ON audit FROM tracewarden"]).unwrap();
    assert_nothing_shown_or_changed(&admin, &key).await;
    database.run(&["GRANT INSERT ON audit TO tracewarden"]).unwrap();
    read_traces(&key).await.expect(200);

    a_full_disk(&service, &admin, &key).await;
    audit_log::verified(&service).await;
}

#[tokio::test]
async fn without_space_for_it_on_sqlite() {
    let store = Store::start();
    let service = Service::start_with(&store.settings());
    let (admin, key) = fixture(&store, &service).await;
    a_full_disk(&service, &admin, &key).await;
    audit_log::verified(&service).await;
}

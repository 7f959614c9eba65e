//! The connection to PostgreSQL is lost during a commit, so its outcome is unknown. The answer says so, the audit log does
//! not deny a change that was made, and no access is granted and no span shown.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tracewarden_testkit::commit_proxy::{CommitProxy, LostMessage};
use tracewarden_testkit::postgres;

use crate::replicas::audit_log;
use crate::replicas::fleet::{add_user, read_traces, spans};
use crate::support::store::{self, BLUE, Store, blue_policies};
use crate::support::{Answer, Client, Service, USER_PASSWORD};

struct Fixture {
    service: Service,
    proxy: CommitProxy,
    _store: Store,
}

impl Fixture {
    async fn set() -> (Self, Client) {
        let store = Store::start();
        store.insert_two_traces().await;
        let database = Arc::new(postgres::database().unwrap());
        let proxy = CommitProxy::start(&database).unwrap();
        let proxy_setting = [("TRACEWARDEN_DATABASE_URL", proxy.url())];
        let service = Service::start_on(&database, &[&store.settings()[..], &proxy_setting].concat());
        let admin = service.admin().await;
        store::bind(&admin).await;
        admin.put("/roles/blue", blue_policies()).await.expect(201);
        add_user(&service, &admin, "ada", &["blue"], json!({})).await;
        (Self { service, proxy, _store: store }, admin)
    }

    /// Sends a request, loses the connection at the commit, and returns the answer with the outcomes in the audit log.
    async fn ask(
        &self,
        client: &Client,
        (method, path, body): (Method, &str, Value),
        lost: LostMessage,
    ) -> (Answer, Vec<String>) {
        let mark = format!("{method} {path} {lost:?}");
        self.proxy.lose_commit(&mark, lost);
        let client = client.with("user-agent", &mark);
        let answer =
            client.send(method, path, (!body.is_null()).then_some(body)).await.problem(503, "unavailable");
        assert!(self.proxy.has_lost(), "{mark}: committed without passing the proxy");
        let detail = answer.body["detail"].as_str().unwrap();
        assert!(detail.contains("may have been made or not"), "{mark}: {detail}");
        assert!(answer.headers.get("set-cookie").is_none(), "{mark}");
        let request = answer.headers["x-request-id"].to_str().unwrap();
        let records = audit_log::verified(&self.service).await;
        let of_request = records.into_iter().filter(|record| record.request_id == request);
        let outcomes = of_request.map(|record| record.outcome).collect();
        (answer, outcomes)
    }
}

const BOTH: [(LostMessage, bool); 2] = [(LostMessage::Commit, false), (LostMessage::Answer, true)];

#[tokio::test]
async fn a_committed_change_is_not_reported_as_failed() {
    let (fixture, admin) = Fixture::set().await;
    for (lost, made) in BOTH {
        let role = format!("/roles/new-{made}");
        let user = format!("user-{made}");
        let key = format!("key-{made}");
        for request in [
            (Method::PUT, role.as_str(), blue_policies()),
            (Method::POST, "/users", json!({"username": user})),
            (Method::POST, "/me/api-keys", json!({"name": key})),
            (Method::PATCH, "/users/ada", json!({"attributes": {"made": made}})),
        ] {
            let context = format!("{} {}, {lost:?}", request.0, request.1);
            let (_, outcomes) = fixture.ask(&admin, request, lost).await;
            let expected: &[&str] = if made { &["success"] } else { &[] };
            assert_eq!(outcomes, expected, "{context}");
        }
        let there = if made { 200 } else { 404 };
        admin.get(&role).await.expect(there);
        admin.get(&format!("/users/{user}")).await.expect(there);
        let keys = admin.get("/me/api-keys").await.expect(200).body.to_string();
        assert_eq!(keys.contains(&key), made, "{keys}");
        let attributes = admin.get("/users/ada").await.expect(200).body["attributes"].clone();
        assert_eq!(attributes, if made { json!({"made": true}) } else { json!({}) });
        // An administrator can reset the password of a user whose initial password no client received.
        if made {
            let path = format!("/users/{user}/password");
            let rotated = admin.send(Method::POST, &path, None).await.expect(200).body;
            fixture.service.sign_in(&user, rotated["initial_password"].as_str().unwrap()).await;
        }
    }
}

#[tokio::test]
async fn nothing_is_granted_or_shown() {
    let (fixture, _) = Fixture::set().await;
    let ada = fixture.service.sign_in("ada", USER_PASSWORD).await;
    assert!(spans(&read_traces(&ada).await) > 0);
    let trace = format!("/traces/{BLUE}");
    for (lost, made) in BOTH {
        let login = json!({"username": "ada", "password": USER_PASSWORD});
        let before = ada.get("/me/sessions").await.expect(200).body["sessions"].as_array().unwrap().len();
        let (_, outcomes) =
            fixture.ask(&fixture.service.anonymous(), (Method::POST, "/login", login), lost).await;
        let expected: &[&str] = if made { &["success"] } else { &[] };
        assert_eq!(outcomes, expected, "a sign-in, {lost:?}");
        // No client has this session's token; the user sees the session and can end it.
        let after = ada.get("/me/sessions").await.expect(200).body["sessions"].as_array().unwrap().len();
        assert_eq!(after, before + usize::from(made));

        for request in [(Method::POST, "/traces/query", json!({})), (Method::GET, &*trace, Value::Null)] {
            let context = format!("{} {}, {lost:?}", request.0, request.1);
            let (answer, outcomes) = fixture.ask(&ada, request, lost).await;
            assert!(!String::from_utf8_lossy(&answer.bytes).contains(BLUE), "{context}");
            let expected: &[&str] = if made { &["unknown"] } else { &[] };
            assert_eq!(outcomes, expected, "{context}");
        }
    }
    assert!(spans(&read_traces(&ada).await) > 0);
}

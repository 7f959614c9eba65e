//! Every change of access rights takes effect with the next request, on the replica that made it and on the other.

use std::pin::Pin;

use reqwest::Method;
use serde_json::{Value, json};

use crate::replicas::fleet::{Fleet, add_user, new_key, read_traces, session_id, spans};
use crate::support::store::Store;
use crate::support::{Client, Service, USER_PASSWORD};

/// Number of spans in the trace to which the role `blue` grants access.
const BLUE_SPANS: usize = 3;

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadResult {
    /// The spans of the blue trace.
    Spans,
    /// An answer without spans.
    Nothing,
    /// The credential is not valid, or no longer.
    Unauthenticated,
    /// The user must first change the password.
    PasswordChange,
}

async fn read_result(client: &Client) -> ReadResult {
    let answer = read_traces(client).await;
    let shown = spans(&answer);
    match (answer.status, shown) {
        (200, BLUE_SPANS) => ReadResult::Spans,
        (200, 0) => ReadResult::Nothing,
        (401, 0) => ReadResult::Unauthenticated,
        (403, 0) if answer.body["code"] == "password_change_required" => ReadResult::PasswordChange,
        _ => panic!("{}: {}", answer.status, answer.body),
    }
}

/// The clients for a change, and the objects that it concerns.
struct Fixture {
    /// The administrator, on the first replica.
    admin: Client,
    /// A user with the role `blue`, on the first replica.
    session: Client,
    session_id: String,
    key: Client,
    key_id: String,
    /// Another session of the same user.
    other: Client,
    name: String,
}

type ChangeFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A change, and the results for the user's session, API key and other session after it; before it, all see spans.
struct AccessChange {
    name: &'static str,
    change: for<'a> fn(&'a Fixture) -> ChangeFuture<'a>,
    session: ReadResult,
    key: ReadResult,
    other: ReadResult,
}

macro_rules! access_change {
    ($name:literal, [$session:ident, $key:ident, $other:ident], |$fixture:ident| $change:expr) => {
        AccessChange {
            name: $name,
            change: |$fixture| {
                Box::pin(async move {
                    $change;
                })
            },
            session: ReadResult::$session,
            key: ReadResult::$key,
            other: ReadResult::$other,
        }
    };
}

fn user(fixture: &Fixture, rest: &str) -> String {
    format!("/users/{}{rest}", fixture.name)
}

fn policies(expression: &str) -> Value {
    json!({"policies": [{"title": "Changed", "expression": expression}]})
}

/// Users in this table have the role `team`, which grants access to the traces of `user.attributes.team`; theirs is `blue`.
fn table() -> Vec<AccessChange> {
    vec![
        access_change!("role changed", [Nothing, Nothing, Nothing], |fixture| fixture
            .admin
            .put("/roles/team", policies("false"))
            .await
            .expect(200)),
        access_change!("role deleted", [Nothing, Nothing, Nothing], |fixture| fixture
            .admin
            .delete("/roles/team")
            .await
            .expect(204)),
        access_change!("role deleted and made again", [Nothing, Nothing, Nothing], |fixture| {
            fixture.admin.delete("/roles/team").await.expect(204);
            // Deleting the role removed its assignments.
            fixture.admin.put("/roles/team", policies("true")).await.expect(201)
        }),
        access_change!("user's roles changed", [Nothing, Nothing, Nothing], |fixture| fixture
            .admin
            .patch(&user(fixture, ""), json!({"roles": []}))
            .await
            .expect(200)),
        access_change!("user's attributes changed", [Nothing, Nothing, Nothing], |fixture| fixture
            .admin
            .patch(&user(fixture, ""), json!({"attributes": {"team": "ada's"}}))
            .await
            .expect(200)),
        access_change!("user disabled", [Unauthenticated, Unauthenticated, Unauthenticated], |fixture| {
            fixture.admin.patch(&user(fixture, ""), json!({"disabled": true})).await.expect(200)
        }),
        access_change!("user deleted", [Unauthenticated, Unauthenticated, Unauthenticated], |fixture| {
            fixture.admin.delete(&user(fixture, "")).await.expect(204)
        }),
        access_change!("key revoked by its owner", [Spans, Unauthenticated, Spans], |fixture| fixture
            .session
            .delete(&format!("/me/api-keys/{}", fixture.key_id))
            .await
            .expect(204)),
        access_change!("key revoked by an administrator", [Spans, Unauthenticated, Spans], |fixture| fixture
            .admin
            .delete(&user(fixture, &format!("/api-keys/{}", fixture.key_id)))
            .await
            .expect(204)),
        access_change!("all keys revoked", [Spans, Unauthenticated, Spans], |fixture| fixture
            .admin
            .delete(&user(fixture, "/api-keys"))
            .await
            .expect(204)),
        access_change!("session ended by its owner", [Unauthenticated, Spans, Spans], |fixture| fixture
            .other
            .delete(&format!("/me/sessions/{}", fixture.session_id))
            .await
            .expect(204)),
        access_change!("session ended by an administrator", [Unauthenticated, Spans, Spans], |fixture| {
            fixture
                .admin
                .delete(&user(fixture, &format!("/sessions/{}", fixture.session_id)))
                .await
                .expect(204)
        }),
        access_change!("all sessions ended", [Unauthenticated, Spans, Unauthenticated], |fixture| fixture
            .admin
            .delete(&user(fixture, "/sessions"))
            .await
            .expect(204)),
        access_change!("logout", [Unauthenticated, Spans, Spans], |fixture| fixture
            .session
            .send(Method::POST, "/logout", None)
            .await
            .expect(204)),
        access_change!("password changed", [Spans, Spans, Unauthenticated], |fixture| {
            let change = json!({"current_password": USER_PASSWORD, "new_password": "another long sentence"});
            fixture.session.post("/me/password", change).await.expect(204)
        }),
        access_change!("password rotated", [Unauthenticated, PasswordChange, Unauthenticated], |fixture| {
            fixture.admin.send(Method::POST, &user(fixture, "/password"), None).await.expect(200)
        }),
        access_change!("access model changed", [Nothing, Nothing, Nothing], |fixture| bind(
            &fixture.admin,
            "otel_traces_empty"
        )
        .await),
    ]
}

async fn bind(admin: &Client, table: &str) {
    let model = admin.get("/schema").await.expect(200);
    let mut binding = model.body["binding"].clone();
    if binding["table"] != table {
        binding["table"] = json!(table);
        let tagged = admin.with("if-match", model.headers["etag"].to_str().unwrap());
        tagged.put("/schema/binding", binding).await.expect(200);
    }
}

async fn restore(admin: &Client) {
    bind(admin, "otel_traces").await;
    let team = policies("SpanAttributes[\"team\"] == user.attributes.team");
    let answer = admin.put("/roles/team", team).await;
    assert!(matches!(answer.status, 200 | 201), "{}", answer.body);
}

async fn fixture(fleet: &Fleet, admin: &Client, name: String) -> Fixture {
    restore(admin).await;
    add_user(fleet.a(), admin, &name, &["team"], json!({"team": "blue"})).await;
    let session = fleet.a().sign_in(&name, USER_PASSWORD).await;
    let other = fleet.a().sign_in(&name, USER_PASSWORD).await;
    let (key_id, key) = new_key(&session).await;
    let session_id = session_id(&session).await;
    Fixture { admin: admin.clone(), session, session_id, key, key_id, other, name }
}

async fn check(fixture: &Fixture, service: &Service, access_change: &AccessChange, replica: &str) {
    for (what, client, expected) in [
        ("session", &fixture.session, access_change.session),
        ("key", &fixture.key, access_change.key),
        ("other session", &fixture.other, access_change.other),
    ] {
        let result = read_result(&client.at(service)).await;
        assert_eq!(result, expected, "{}: the {what} at replica {replica}", access_change.name);
    }
}

#[tokio::test]
async fn changes_take_effect_at_the_next_request_of_every_replica() {
    let store = Store::start();
    store.run("CREATE TABLE otel.otel_traces_empty AS otel.otel_traces").await;
    let (fleet, admin) = Fleet::reading(&store, &[]).await;
    for (number, access_change) in table().into_iter().enumerate() {
        let fixture = fixture(&fleet, &admin, format!("user{number}")).await;
        for service in [fleet.b(), fleet.a()] {
            for client in [&fixture.session, &fixture.key, &fixture.other] {
                assert_eq!(
                    read_result(&client.at(service)).await,
                    ReadResult::Spans,
                    "before: {}",
                    access_change.name
                );
            }
        }
        (access_change.change)(&fixture).await;
        check(&fixture, fleet.b(), &access_change, "B").await;
        check(&fixture, fleet.a(), &access_change, "A").await;
    }
}

#[tokio::test]
async fn grants_apply_at_the_next_request_of_every_replica() {
    let store = Store::start();
    let (fleet, admin) = Fleet::reading(&store, &[]).await;
    add_user(fleet.a(), &admin, "ada", &[], json!({})).await;
    let ada = fleet.a().sign_in("ada", USER_PASSWORD).await;
    let at_b = ada.at(fleet.b());
    assert_eq!(read_result(&at_b).await, ReadResult::Nothing);
    admin.patch("/users/ada", json!({"roles": ["blue"]})).await.expect(200);
    assert_eq!(read_result(&at_b).await, ReadResult::Spans);
    // The same for administration.
    at_b.get("/users").await.problem(403, "forbidden");
    admin.patch("/users/ada", json!({"roles": ["blue", "admin"]})).await.expect(200);
    at_b.get("/users").await.expect(200);
    admin.patch("/users/ada", json!({"roles": ["blue"]})).await.expect(200);
    at_b.get("/users").await.problem(403, "forbidden");
    // A session from one replica is valid on the other, and so is its end.
    let other = fleet.b().sign_in("ada", USER_PASSWORD).await;
    assert_eq!(read_result(&other.at(fleet.a())).await, ReadResult::Spans);
    other.send(Method::POST, "/logout", None).await.expect(204);
    assert_eq!(read_result(&other.at(fleet.a())).await, ReadResult::Unauthenticated);
}

#[tokio::test]
async fn a_preview_takes_effect_at_the_next_request_of_every_replica() {
    let store = Store::start();
    let (fleet, admin) = Fleet::reading(&store, &[]).await;
    let both = [admin.clone(), admin.at(fleet.b())];
    let preview = json!({"roles": ["blue"]});
    for (number, client) in both.iter().enumerate() {
        let next = &both[1 - number];
        assert_eq!(read_result(next).await, ReadResult::Nothing);
        client.put("/me/preview", preview.clone()).await.expect(200);
        assert_eq!(read_result(next).await, ReadResult::Spans);
        assert_eq!(next.get("/me").await.expect(200).body["preview"]["roles"], json!(["blue"]));
        client.delete("/me/preview").await.expect(204);
        assert_eq!(read_result(next).await, ReadResult::Nothing);
        assert_eq!(next.get("/me").await.expect(200).body["preview"], Value::Null);
    }
    // A preview of a user follows changes to that user.
    add_user(fleet.a(), &admin, "ada", &["blue"], json!({})).await;
    admin.put("/me/preview", json!({"username": "ada"})).await.expect(200);
    for (change, result) in [
        (json!({"roles": ["blue"]}), ReadResult::Spans),
        (json!({"roles": []}), ReadResult::Nothing),
        (json!({"roles": ["blue"]}), ReadResult::Spans),
        (json!({"disabled": true}), ReadResult::Nothing),
        (json!({"disabled": false}), ReadResult::Spans),
    ] {
        admin.patch("/users/ada", change.clone()).await.expect(200);
        for client in [&both[1], &both[0]] {
            assert_eq!(read_result(client).await, result, "{change}");
        }
    }
    admin.delete("/users/ada").await.expect(204);
    assert_eq!(read_result(&both[1]).await, ReadResult::Nothing);
    let shown = json!({"roles": [], "attributes": {}, "username": "ada"});
    assert_eq!(both[1].get("/me").await.expect(200).body["preview"], shown);
    // Losing the role `admin` ends the preview at once; regaining the role does not restore it.
    add_user(fleet.a(), &admin, "second", &["admin"], json!({})).await;
    let second = fleet.a().sign_in("second", USER_PASSWORD).await;
    admin.put("/me/preview", preview).await.expect(200);
    for client in &both {
        assert_eq!(read_result(client).await, ReadResult::Spans);
    }
    for roles in [json!([]), json!(["admin"])] {
        second.patch("/users/admin", json!({"roles": roles})).await.expect(200);
        for client in [&both[1], &both[0]] {
            assert_eq!(read_result(client).await, ReadResult::Nothing, "{roles}");
        }
    }
    assert_eq!(both[1].get("/me").await.expect(200).body["preview"], Value::Null);
}

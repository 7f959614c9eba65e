//! Every change of access rights takes effect with the next request, on the replica that made it and on the other.

use std::pin::Pin;

use reqwest::Method;
use serde_json::{Value, json};

use crate::fleet::{Fleet, add_user, new_key, read_traces, session_id, spans};
use crate::support::store::Store;
use crate::support::{Client, Service, USER_PASSWORD};

/// Number of spans in the trace to which the role `blue` grants access.
const BLUE_SPANS: usize = 3;

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meets {
    /// The spans of the blue trace.
    Spans,
    /// An answer without spans.
    Nothing,
    /// The credential is not valid, or no longer.
    Unauthenticated,
    /// The user must first change the password.
    PasswordChange,
}

async fn meets(client: &Client) -> Meets {
    let answer = read_traces(client).await;
    let shown = spans(&answer);
    match (answer.status, shown) {
        (200, BLUE_SPANS) => Meets::Spans,
        (200, 0) => Meets::Nothing,
        (401, 0) => Meets::Unauthenticated,
        (403, 0) if answer.body["code"] == "password_change_required" => Meets::PasswordChange,
        _ => panic!("{}: {}", answer.status, answer.body),
    }
}

/// The clients for a change, and the objects that it concerns.
struct Scene {
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

type Done<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A change, and the results for the user's session, API key and other session after it; before it, all see spans.
struct Row {
    name: &'static str,
    change: for<'a> fn(&'a Scene) -> Done<'a>,
    session: Meets,
    key: Meets,
    other: Meets,
}

macro_rules! row {
    ($name:literal, [$session:ident, $key:ident, $other:ident], |$scene:ident| $change:expr) => {
        Row {
            name: $name,
            change: |$scene| {
                Box::pin(async move {
                    $change;
                })
            },
            session: Meets::$session,
            key: Meets::$key,
            other: Meets::$other,
        }
    };
}

fn user(scene: &Scene, rest: &str) -> String {
    format!("/users/{}{rest}", scene.name)
}

fn policies(expression: &str) -> Value {
    json!({"policies": [{"title": "Changed", "expression": expression}]})
}

/// Users in this table have the role `team`, which grants access to the traces of `user.attributes.team`; theirs is `blue`.
fn table() -> Vec<Row> {
    vec![
        row!("role changed", [Nothing, Nothing, Nothing], |scene| scene
            .admin
            .put("/roles/team", policies("false"))
            .await
            .expect(200)),
        row!("role deleted", [Nothing, Nothing, Nothing], |scene| scene
            .admin
            .delete("/roles/team")
            .await
            .expect(204)),
        row!("role deleted and made again", [Nothing, Nothing, Nothing], |scene| {
            scene.admin.delete("/roles/team").await.expect(204);
            // Deleting the role removed its assignments.
            scene.admin.put("/roles/team", policies("true")).await.expect(201)
        }),
        row!("user's roles changed", [Nothing, Nothing, Nothing], |scene| scene
            .admin
            .patch(&user(scene, ""), json!({"roles": []}))
            .await
            .expect(200)),
        row!("user's attributes changed", [Nothing, Nothing, Nothing], |scene| scene
            .admin
            .patch(&user(scene, ""), json!({"attributes": {"team": "nobody's"}}))
            .await
            .expect(200)),
        row!("user disabled", [Unauthenticated, Unauthenticated, Unauthenticated], |scene| scene
            .admin
            .patch(&user(scene, ""), json!({"disabled": true}))
            .await
            .expect(200)),
        row!("user deleted", [Unauthenticated, Unauthenticated, Unauthenticated], |scene| scene
            .admin
            .delete(&user(scene, ""))
            .await
            .expect(204)),
        row!("key revoked by its owner", [Spans, Unauthenticated, Spans], |scene| scene
            .session
            .delete(&format!("/me/api-keys/{}", scene.key_id))
            .await
            .expect(204)),
        row!("key revoked by an administrator", [Spans, Unauthenticated, Spans], |scene| scene
            .admin
            .delete(&user(scene, &format!("/api-keys/{}", scene.key_id)))
            .await
            .expect(204)),
        row!("all keys revoked", [Spans, Unauthenticated, Spans], |scene| scene
            .admin
            .delete(&user(scene, "/api-keys"))
            .await
            .expect(204)),
        row!("session ended by its owner", [Unauthenticated, Spans, Spans], |scene| scene
            .other
            .delete(&format!("/me/sessions/{}", scene.session_id))
            .await
            .expect(204)),
        row!("session ended by an administrator", [Unauthenticated, Spans, Spans], |scene| scene
            .admin
            .delete(&user(scene, &format!("/sessions/{}", scene.session_id)))
            .await
            .expect(204)),
        row!("all sessions ended", [Unauthenticated, Spans, Unauthenticated], |scene| scene
            .admin
            .delete(&user(scene, "/sessions"))
            .await
            .expect(204)),
        row!("logout", [Unauthenticated, Spans, Spans], |scene| scene
            .session
            .send(Method::POST, "/logout", None)
            .await
            .expect(204)),
        row!("password changed", [Spans, Spans, Unauthenticated], |scene| {
            let change = json!({"current_password": USER_PASSWORD, "new_password": "another long sentence"});
            scene.session.post("/me/password", change).await.expect(204)
        }),
        row!("password rotated", [Unauthenticated, PasswordChange, Unauthenticated], |scene| scene
            .admin
            .send(Method::POST, &user(scene, "/password"), None)
            .await
            .expect(200)),
        row!("access model changed", [Nothing, Nothing, Nothing], |scene| bind(
            &scene.admin,
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

async fn scene(fleet: &Fleet, admin: &Client, name: String) -> Scene {
    restore(admin).await;
    add_user(fleet.a(), admin, &name, &["team"], json!({"team": "blue"})).await;
    let session = fleet.a().sign_in(&name, USER_PASSWORD).await;
    let other = fleet.a().sign_in(&name, USER_PASSWORD).await;
    let (key_id, key) = new_key(&session).await;
    let session_id = session_id(&session).await;
    Scene { admin: admin.clone(), session, session_id, key, key_id, other, name }
}

async fn check(scene: &Scene, service: &Service, row: &Row, replica: &str) {
    for (what, client, expected) in [
        ("session", &scene.session, row.session),
        ("key", &scene.key, row.key),
        ("other session", &scene.other, row.other),
    ] {
        let met = meets(&client.at(service)).await;
        assert_eq!(met, expected, "{}: the {what} at replica {replica}", row.name);
    }
}

#[tokio::test]
async fn changes_hold_at_the_next_request_of_every_replica() {
    let store = Store::start();
    store.run("CREATE TABLE otel.otel_traces_empty AS otel.otel_traces").await;
    let (fleet, admin) = Fleet::reading(&store, &[]).await;
    for (number, row) in table().into_iter().enumerate() {
        let scene = scene(&fleet, &admin, format!("user{number}")).await;
        for service in [fleet.b(), fleet.a()] {
            for client in [&scene.session, &scene.key, &scene.other] {
                assert_eq!(meets(&client.at(service)).await, Meets::Spans, "before: {}", row.name);
            }
        }
        (row.change)(&scene).await;
        check(&scene, fleet.b(), &row, "B").await;
        check(&scene, fleet.a(), &row, "A").await;
    }
}

#[tokio::test]
async fn grants_apply_at_the_next_request_of_every_replica() {
    let store = Store::start();
    let (fleet, admin) = Fleet::reading(&store, &[]).await;
    add_user(fleet.a(), &admin, "ada", &[], json!({})).await;
    let ada = fleet.a().sign_in("ada", USER_PASSWORD).await;
    let at_b = ada.at(fleet.b());
    assert_eq!(meets(&at_b).await, Meets::Nothing);
    admin.patch("/users/ada", json!({"roles": ["blue"]})).await.expect(200);
    assert_eq!(meets(&at_b).await, Meets::Spans);
    // The same for administration.
    at_b.get("/users").await.problem(403, "forbidden");
    admin.patch("/users/ada", json!({"roles": ["blue", "admin"]})).await.expect(200);
    at_b.get("/users").await.expect(200);
    admin.patch("/users/ada", json!({"roles": ["blue"]})).await.expect(200);
    at_b.get("/users").await.problem(403, "forbidden");
    // A session from one replica is valid on the other, and so is its end.
    let other = fleet.b().sign_in("ada", USER_PASSWORD).await;
    assert_eq!(meets(&other.at(fleet.a())).await, Meets::Spans);
    other.send(Method::POST, "/logout", None).await.expect(204);
    assert_eq!(meets(&other.at(fleet.a())).await, Meets::Unauthenticated);
}

#[tokio::test]
async fn a_preview_holds_at_the_next_request_of_every_replica() {
    let store = Store::start();
    let (fleet, admin) = Fleet::reading(&store, &[]).await;
    let both = [admin.clone(), admin.at(fleet.b())];
    let preview = json!({"roles": ["blue"]});
    for (number, client) in both.iter().enumerate() {
        let next = &both[1 - number];
        assert_eq!(meets(next).await, Meets::Nothing);
        client.put("/me/preview", preview.clone()).await.expect(200);
        assert_eq!(meets(next).await, Meets::Spans);
        assert_eq!(next.get("/me").await.expect(200).body["preview"]["roles"], json!(["blue"]));
        client.delete("/me/preview").await.expect(204);
        assert_eq!(meets(next).await, Meets::Nothing);
        assert_eq!(next.get("/me").await.expect(200).body["preview"], Value::Null);
    }
    // A preview of a user follows changes to that user.
    add_user(fleet.a(), &admin, "ada", &["blue"], json!({})).await;
    admin.put("/me/preview", json!({"username": "ada"})).await.expect(200);
    for (change, met) in [
        (json!({"roles": ["blue"]}), Meets::Spans),
        (json!({"roles": []}), Meets::Nothing),
        (json!({"roles": ["blue"]}), Meets::Spans),
        (json!({"disabled": true}), Meets::Nothing),
        (json!({"disabled": false}), Meets::Spans),
    ] {
        admin.patch("/users/ada", change.clone()).await.expect(200);
        for client in [&both[1], &both[0]] {
            assert_eq!(meets(client).await, met, "{change}");
        }
    }
    admin.delete("/users/ada").await.expect(204);
    assert_eq!(meets(&both[1]).await, Meets::Nothing);
    let shown = json!({"roles": [], "attributes": {}, "username": "ada"});
    assert_eq!(both[1].get("/me").await.expect(200).body["preview"], shown);
    // Losing the role `admin` ends the preview at once; regaining the role does not restore it.
    add_user(fleet.a(), &admin, "second", &["admin"], json!({})).await;
    let second = fleet.a().sign_in("second", USER_PASSWORD).await;
    admin.put("/me/preview", preview).await.expect(200);
    for client in &both {
        assert_eq!(meets(client).await, Meets::Spans);
    }
    for roles in [json!([]), json!(["admin"])] {
        second.patch("/users/admin", json!({"roles": roles})).await.expect(200);
        for client in [&both[1], &both[0]] {
            assert_eq!(meets(client).await, Meets::Nothing, "{roles}");
        }
    }
    assert_eq!(both[1].get("/me").await.expect(200).body["preview"], Value::Null);
}

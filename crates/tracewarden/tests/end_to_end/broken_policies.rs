//! A stored policy that cannot be applied fails the request: nothing is shown based on a guess.

use serde_json::json;
use sqlx::Connection as _;

use crate::support::store::{Store, bound_service};

#[tokio::test]
async fn no_spans_under_a_policy_that_no_longer_compiles() {
    let store = Store::start();
    store.insert_two_traces().await;
    let (service, admin) = bound_service(&store, &[]).await;
    let policies = json!({"policies": [
        {"title": "Everything", "expression": "true"},
        {"title": "Blue", "expression": "SpanAttributes[\"team\"] == \"blue\""},
    ]});
    admin.put("/roles/blue", policies).await.expect(201);
    let ada = service.user(&admin, "ada", &["blue"]).await;
    let bob = service.user(&admin, "bob", &[]).await;
    let trace = format!("/traces/{}", "1".repeat(32));
    ada.get(&trace).await.expect(200);

    // The API rejects such a policy, so the test writes it directly to the database.
    let path = service.directory.path().join("tracewarden.db");
    let mut database = sqlx::SqliteConnection::connect(&format!("sqlite:{}", path.display())).await.unwrap();
    let changed = sqlx::query(
        "UPDATE role_policies SET expression = 'SpanAttributes[\"gone\"] == 1' WHERE title = 'Blue'",
    )
    .execute(&mut database)
    .await
    .unwrap();
    assert_eq!(changed.rows_affected(), 1);

    for answer in [ada.get(&trace).await, ada.post("/traces/query", json!({})).await] {
        let answer = answer.problem(500, "policy_broken");
        assert!(!answer.body.to_string().contains("gone"), "{}", answer.body);
    }
    // Other users are not affected.
    assert_eq!(bob.post("/traces/query", json!({})).await.expect(200).body["spans"], json!([]));
}

//! Tables that cannot be bound, and the views that can be bound in their place.

use serde_json::json;
use tracewarden_testkit::trace_tables::{Fixture, Rejection};

use crate::trace_tables::store::Store;

/// Tests a layout.
pub async fn check(store: &Store, fixture: &Fixture, rejection: &Rejection) {
    let service = store.service_at(&store.url);
    let admin = service.admin().await;
    let tables = admin.get("/schema/tables").await.expect(200).body["tables"].clone();
    let proposed: Vec<&str> = tables
        .as_array()
        .unwrap()
        .iter()
        .filter(|table| {
            table["database"] == rejection.view_binding["database"] && table["proposal"].is_object()
        })
        .map(|table| table["name"].as_str().unwrap())
        .collect();
    // The copy of ClickHouse's table is one that can be bound.
    let expected: &[&str] = if fixture.name == "span_log" { &["opentelemetry_span_log"] } else { &[] };
    assert_eq!(proposed, expected, "{}", fixture.name);
    let refused = admin.put("/schema/binding", rejection.binding.clone()).await.expect(422);
    let text = refused.body.to_string();
    for word in rejection.words {
        assert!(text.contains(word), "{}: `{word}` is not in {text}", fixture.name);
    }
    store.run(rejection.view).await;
    admin.put("/schema/binding", rejection.view_binding.clone()).await.expect(200);
    let role = json!({"policies": [{"title": "All", "expression": "true"}]});
    admin.put("/roles/all", role).await.expect(201);
    let user = service.user(&admin, "ada", &["all"]).await;
    let page = user.post("/traces/query", json!({"view": "summary"})).await.expect(200);
    assert_eq!(page.body["traces"], json!([]), "{}", fixture.name);
}

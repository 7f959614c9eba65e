//! `/openapi.json`.

use std::path::Path;

use crate::support::Service;

#[tokio::test]
async fn the_committed_document_is_current() {
    let service = Service::start();
    let answer = service.anonymous().get("/openapi.json").await.expect(200);
    let served = String::from_utf8(answer.bytes).unwrap() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &served).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == served,
        "run `UPDATE_DOCS=1 cargo test -p tracewarden the_committed_document_is_current`"
    );
}

#[tokio::test]
async fn every_reference_leads_somewhere_and_every_operation_says_who_may_call_it() {
    let service = Service::start();
    let document = service.anonymous().get("/openapi.json").await.expect(200).body;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
    let mut names = std::collections::BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(operation["security"].is_array(), "{method} {path}");
            assert!(names.insert(operation["operationId"].as_str().unwrap()), "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path}");
            assert!(operation["responses"]["default"].is_object(), "{method} {path}");
        }
    }
}

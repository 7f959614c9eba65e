//! The searchable fields: the tool lists the same ones as the REST API.

use serde_json::{Value, json};

use crate::mcp::answers::{list, suggested};
use crate::mcp::rpc::{call, key};
use crate::support::store::{Store, two_teams};

#[tokio::test]
async fn fields_are_those_of_the_rest_api_member_by_member() {
    let store = Store::start();
    let (_service, admin, ada) = two_teams(&store).await;
    let mut described = 0;
    for (owner, is_admin) in [(admin, true), (ada, false)] {
        let agent = key(&owner, json!({})).await;
        let rest = agent.get("/filter/schema").await.expect(200).body;
        let result = call(&agent, "svc_filter_schema", json!({"max_tokens": 20_000})).await.expect();
        assert_eq!(result.body["truncated"], false);
        for (name, value) in rest.as_object().unwrap() {
            assert_eq!(&result.body[name], value, "{name}");
        }
        for field in list(&result.body, "fields") {
            let is_told = |name: &str| field.get(name).is_some();
            assert_eq!((is_told("filterable"), is_told("policy")), (is_admin, is_admin), "{field}");
            for name in ["map", "name", "ref", "type"] {
                assert!(field[name].is_string(), "{field}");
            }
            described += 1;
        }
        // The text contains them, too.
        let text = result.text;
        for limit in rest["limits"].as_object().unwrap().values() {
            assert!(text.contains(&limit.to_string()), "{text}");
        }
        assert!(text.contains(&format!("version {} of the access model", rest["version"])), "{text}");
        assert!(text.contains(rest["description"].as_str().unwrap()), "{text}");
    }
    assert_eq!(described, 5 + 4);
}

#[tokio::test]
async fn omitted_fields_are_reported() {
    let store = Store::start();
    let (_service, admin, _ada) = two_teams(&store).await;
    let many = (0..200).map(|at| json!({"map": "SpanAttributes", "name": format!("attribute.{at}"), "filterable": true, "policy": false}));
    let version = admin.get("/schema").await.expect(200).headers["etag"].to_str().unwrap().to_owned();
    let fields: Vec<Value> = many
        .chain([json!({"map": "SpanAttributes", "name": "team", "filterable": true, "policy": true})])
        .collect();
    admin.with("if-match", &version).put("/schema/fields", json!({ "fields": fields })).await.expect(200);
    let agent = key(&admin, json!({})).await;
    let result = call(&agent, "svc_filter_schema", json!({})).await.expect();
    let returned = result.body["returned"].as_u64().unwrap();
    assert_eq!((&result.body["truncated"], &result.body["total"]), (&json!(true), &json!(201)));
    assert!(returned > 10 && returned < 201, "{returned}");
    assert!(result.text.contains(&format!("{returned} of 201 fields; use `containing`")), "{}", result.text);
    let larger = suggested(&result.body, "svc_filter_schema").next().unwrap();
    assert_eq!(larger, &json!({"max_tokens": 20_000}));
}

//! Conditions for one span together, and conditions that no span may satisfy, in the tools.

use serde_json::{Value, json};

use crate::mcp::answers::suggested;
use crate::mcp::rpc::{call, key};
use crate::support::store::{BLUE, Store, two_teams};

/// A condition on the number of a span: 0, 2 and 4 in the trace that the caller may read.
fn size(number: u64) -> Value {
    json!({"ref": "SpanAttributes[\"size\"]", "op": "eq", "value": number})
}

#[tokio::test]
async fn searches_and_statistics_take_groups_and_exclusions() {
    let store = Store::start();
    let (_service, _admin, ada) = two_teams(&store).await;
    let agent = key(&ada, json!({})).await;
    let team = json!({"ref": "SpanAttributes[\"team\"]", "op": "eq", "value": "blue"});
    for (filter, count) in [
        (json!({"same_span": [[size(2), team]]}), 1),
        (json!({"same_span": [[size(2), size(4)]]}), 0),
        (json!({"conditions": [size(2), size(4)], "none": [size(1)]}), 1),
        (json!({"none": [size(2)]}), 0),
    ] {
        let found = call(&agent, "svc_query_traces", filter.clone()).await.expect();
        assert_eq!(found.body["returned"], count, "{filter}");
        let stats = call(&agent, "svc_trace_stats", filter.clone()).await.expect();
        assert_eq!(stats.body["all"]["traces"], count, "{filter}");
        // The suggested search lists the traces that were counted.
        for arguments in suggested(&stats.body, "svc_query_traces") {
            let listed = call(&agent, "svc_query_traces", arguments.clone()).await.expect();
            assert_eq!(listed.body["traces"][0]["trace_id"], BLUE, "{arguments}");
            assert_eq!(
                (&arguments["same_span"], &arguments["none"]),
                (&filter["same_span"], &filter["none"])
            );
        }
    }
    let empty = call(&agent, "svc_query_traces", json!({"same_span": [[size(1)], []]})).await;
    assert!(empty.text.starts_with("error invalid_value: same_span[1]: "), "{}", empty.text);
    let unnamed = call(&agent, "svc_trace_stats", json!({"none": [{"op": "exists"}]})).await;
    assert!(unnamed.text.contains("none[0].ref: name the field"), "{}", unnamed.text);
}

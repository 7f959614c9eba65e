//! Bindings that read other rows of the table, or show other columns.

use serde_json::{Value, json};

use super::{export, import, two_teams};
use crate::support::store::Store;

/// Other rows are other traces: the plan counts them for every user with a role, the administrator too.
#[tokio::test]
async fn a_plan_with_other_rows_compares_access() {
    let store = Store::start();
    let (_service, admin, _ada) = two_teams(&store).await;
    let (mut file, _) = export(&admin).await;
    for (service, counts) in [("none", [0, 1, 0]), ("shop", [0, 0, 1])] {
        file["binding"]["only"] = json!([{"column": "ServiceName", "value": service}]);
        let plan = admin.post("/schema/plan?seconds=20", file.clone()).await.expect(200).body;
        let users: Vec<Value> = plan["impact"]["users"].as_array().unwrap().clone();
        let counted = |user: &Value| ["gained", "lost", "unchanged"].map(|name| user[name].as_u64().unwrap());
        let ada = users.iter().find(|user| user["username"] == "ada").unwrap();
        assert_eq!((counted(ada), users.len()), (counts, 2), "{plan}");
    }
    // Traces of two tables are not compared.
    store.run("CREATE TABLE otel.other AS otel.otel_traces").await;
    file["binding"]["table"] = json!("other");
    let impact = admin.post("/schema/plan?seconds=20", file).await.expect(200).body["impact"].clone();
    assert_eq!((&impact["users"], &impact["members"]), (&json!([]), &json!(0)), "{impact}");
    assert!(impact["notes"][0].as_str().unwrap().contains("another table would be bound"), "{impact}");
}

/// A span outside its bucket would never be found.
#[tokio::test]
async fn a_time_bucket_is_compared_with_every_span_before_it_is_used() {
    let store = Store::start();
    let bucket = "DateTime DEFAULT toStartOfHour(Timestamp) - INTERVAL 1 DAY";
    store.run(&format!("ALTER TABLE otel.otel_traces ADD COLUMN Bucket {bucket}")).await;
    let (_service, admin, _ada) = two_teams(&store).await;
    let (mut file, _) = export(&admin).await;
    let admin = admin.with("if-match", "*");
    let with = |seconds: u32| json!({"column": "Bucket", "seconds": seconds});
    for (seconds, status) in [(3_600, 422), (90_000, 200)] {
        file["binding"]["time_bucket"] = with(seconds);
        let bound = admin.put("/schema/binding", file["binding"].clone()).await;
        assert_eq!(bound.status, status, "{bound:?}");
        if status == 422 {
            assert_eq!(bound.first_error()["pointer"], "/time_bucket", "{bound:?}");
            let imported = import(&admin, &file).await.problem(422, "invalid_value");
            assert_eq!(imported.first_error()["pointer"], "/binding/time_bucket", "{imported:?}");
            // A plan does not read the whole table.
            let plan = admin.post("/schema/plan?seconds=0", file.clone()).await.expect(200).body;
            assert!(plan["notes"].to_string().contains("time bucket"), "{plan}");
        }
    }
}

/// Display columns do not affect which traces a user may read.
#[tokio::test]
async fn a_plan_with_a_changed_display_column_still_compares_access() {
    let store = Store::start();
    let (_service, admin, _ada) = two_teams(&store).await;
    let (mut file, _) = export(&admin).await;
    file["binding"]["display"] = json!({"service": "ServiceName"});
    let role = file["roles"].as_array_mut().unwrap().iter_mut().find(|role| role["name"] == "blue").unwrap();
    role["policies"][0]["expression"] = json!("SpanAttributes[\"team\"] == \"red\"");
    let compared = |plan: &Value| {
        let users = plan["impact"]["users"].as_array().unwrap();
        users
            .iter()
            .map(|user| (user["gained"].as_u64().unwrap(), user["lost"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    let nothing_else = |plan: &Value| {
        let notes = plan["notes"].as_array().unwrap();
        assert!(
            notes.len() == 1 && notes[0].as_str().unwrap().starts_with("without a trace index"),
            "{plan}"
        );
        assert_eq!(plan["impact"]["notes"], json!([]), "{plan}");
    };
    let plan = admin.post("/schema/plan?seconds=20", file.clone()).await.expect(200).body;
    let words = |plan: &Value| {
        let of = |change: &Value| {
            format!("{} {}", change["name"].as_str().unwrap(), change["change"].as_str().unwrap())
        };
        plan["changes"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(words(&plan), ["binding changed", "blue / Blue changed"]);
    nothing_else(&plan);
    assert_eq!(compared(&plan), [(1, 1)], "{plan}");

    // A change of the display columns alone changes no access, and the plan reports nothing else.
    let (mut file, _) = export(&admin).await;
    file["binding"]["display"] = json!({"service": "ServiceName"});
    let plan = admin.post("/schema/plan?seconds=20", file.clone()).await.expect(200).body;
    assert_eq!(words(&plan), ["binding changed"]);
    let change = &plan["changes"][0];
    assert_eq!(
        (&change["before"]["display"]["service"], &change["after"]["display"]["service"]),
        (&Value::Null, &json!("ServiceName")),
        "{plan}"
    );
    assert!(compared(&plan).iter().all(|changed| *changed == (0, 0)), "{plan}");
    nothing_else(&plan);
}

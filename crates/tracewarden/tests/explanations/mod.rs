//! Randomised model tests: explanations, viewers and previews agree with actual reads, and an administrator who previews a
//! user reads what the user reads, with random policies, traces and users.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use serde_json::{Value, json};
use tracewarden_testkit::progress::Progress;
use tracewarden_testkit::repetitions::{self, Repetitions};

use crate::mcp::randomized_tests::generated_data::{self, DataSet, DataSets, ROLES};
use crate::support::Client;
use crate::support::store::Store;

/// Number of random data sets, unless the environment overrides it.
const DATA_SETS: Repetitions = Repetitions { test: 5, verify: 12 };
/// Number of concurrent requests: answers for absent traces are delayed on purpose.
const CONCURRENT_REQUESTS: usize = 16;
/// More pages than any of these data sets has.
const MANY_PAGES: usize = 100;
/// A role with a single member, who has no other role.
const SINGLE_MEMBER: &str = "alone";

/// How much was compared.
#[derive(Debug, Default)]
struct Comparison {
    open: usize,
    closed: usize,
    viewers: usize,
    previews: usize,
    gained: usize,
    lost: usize,
    unchanged: usize,
    named: usize,
    /// Number of values in traces to which the previewed roles grant access.
    collateral_access: u64,
    /// Number of traces listed in previews of users.
    listed_as_user: usize,
    /// Number of traces to which either such a preview or the administrator's own roles grant access, but not both.
    differences_from_own_access: usize,
}

/// A user who reads traces.
struct Reader {
    name: String,
    client: Client,
}

type Ids = BTreeSet<String>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explanations_of_access_agree_with_reads() {
    let (seed, count) = (repetitions::seed(20_261_123), DATA_SETS.get("TRACEWARDEN_TEST_DATA_SETS"));
    println!("seed {seed}, {count} data sets");
    let store = Store::start();
    let service = store.service_with(&[("TRACEWARDEN_MAX_QUERIES_PER_USER", "unlimited")]);
    let admin = service.admin().await;
    generated_data::bind(&store, &admin).await;
    let nothing = json!({"policies": [{"title": "Nothing", "expression": "false"}]});
    admin.put(&format!("/roles/{SINGLE_MEMBER}"), nothing).await.expect(201);
    let mut data_sets = DataSets::new(seed);
    let mut readers = Vec::new();
    for name in ["ada", SINGLE_MEMBER] {
        readers.push(Reader { name: name.to_owned(), client: service.user(&admin, name, &[]).await });
    }
    readers.push(Reader { name: "admin".to_owned(), client: admin.clone() });

    let (mut comparison, progress) = (Comparison::default(), Progress::of(count, "worlds"));
    for (at, data_set) in data_sets.data_sets(&store, count).await.iter().enumerate() {
        progress.at(at);
        data_sets.change_roles(&admin).await;
        store_role(&admin, SINGLE_MEMBER, &[data_sets.expression()]).await;
        for name in ["ada", SINGLE_MEMBER] {
            data_sets.change_user(&admin, name).await;
        }
        admin.patch(&format!("/users/{SINGLE_MEMBER}"), json!({"roles": [SINGLE_MEMBER]})).await.expect(200);
        // Being an administrator grants no access to traces.
        let own = if at % 2 == 0 { json!(["admin", ROLES[at % 4]]) } else { json!(["admin"]) };
        admin.patch("/users/admin", json!({ "roles": own })).await.expect(200);

        let mut visible_before = visible(&readers, data_set).await;
        compare_explanations(&admin, &readers, data_set, &visible_before, &mut comparison).await;
        for role in [SINGLE_MEMBER, ROLES[(at + 1) % 4]] {
            let proposal = [data_sets.expression(), data_sets.expression()];
            visible_before =
                compare_preview(&admin, &readers, data_set, role, &proposal, visible_before, &mut comparison)
                    .await;
        }
        read_as_users(&admin, data_set, &visible_before, &mut comparison).await;
    }
    println!("{comparison:?}");
    let Comparison { open, closed, viewers, previews, gained, lost, unchanged, named, .. } = comparison;
    let Comparison { collateral_access, listed_as_user, differences_from_own_access, .. } = comparison;
    assert_eq!(previews, 2 * count);
    let least =
        [open, closed, viewers, gained, lost, unchanged, named, listed_as_user, differences_from_own_access]
            .into_iter()
            .min();
    assert!(
        least > Some(count / 7) && collateral_access > count as u64,
        "the data sets are too sparse to test anything"
    );
}

async fn store_role(admin: &Client, role: &str, expressions: &[String]) {
    let policies: Vec<Value> =
        expressions.iter().map(|text| json!({"title": "t", "expression": text})).collect();
    admin.put(&format!("/roles/{role}"), json!({ "policies": policies })).await.expect(200);
}

/// Returns each reader's trace ids, from all pages.
async fn visible(readers: &[Reader], data_set: &DataSet) -> BTreeMap<String, Ids> {
    let mut visible = BTreeMap::new();
    for reader in readers {
        visible.insert(reader.name.clone(), listed_ids(&reader.client, data_set).await);
    }
    visible
}

async fn listed_ids(client: &Client, data_set: &DataSet) -> Ids {
    let mut ids = Ids::new();
    let mut query = json!({"view": "ids", "limit": 3, "from": data_set.from, "to": data_set.to});
    for _ in 0..MANY_PAGES {
        let page = client.post("/traces/query", query).await.expect(200).body;
        ids.extend(page["trace_ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()));
        match page.get("next_cursor") {
            None => return ids,
            Some(cursor) => query = json!({"view": "ids", "limit": 3, "cursor": cursor}),
        }
    }
    panic!("the pages do not end");
}

/// Checks the explanation of each trace for each reader, and for the administrator about each reader.
async fn compare_explanations(
    admin: &Client,
    readers: &[Reader],
    data_set: &DataSet,
    visible: &BTreeMap<String, Ids>,
    comparison: &mut Comparison,
) {
    let pairs = readers.iter().flat_map(|reader| data_set.ids.iter().map(move |id| (reader, id)));
    let result = pairs.map(|(reader, id)| async move {
        let open = visible[&reader.name].contains(id);
        let path = path(id);
        let expected = if open { 200 } else { 404 };
        reader.client.get(&path).await.expect(expected);
        let own = reader.client.get(&format!("{path}/explain")).await.expect(expected).body;
        if open {
            assert_eq!((&own["visible"], &own["details"]), (&json!(true), &json!(true)), "{own}");
        }
        let about = admin.get(&format!("{path}/explain?user={}", reader.name)).await.expect(200).body;
        assert_eq!(about["visible"], open, "{} {id}: {about}", reader.name);
        assert_eq!(about["verdict"] == "granted", open, "{about}");
        let readable = visible["admin"].contains(id);
        assert_eq!(about["details"], readable, "{about}");
        for policy in about["policies"].as_array().unwrap() {
            let spans = policy["spans"].as_array().unwrap().len();
            let satisfied = policy["satisfied_by"].as_u64().unwrap();
            assert_eq!(satisfied > 0, policy["outcome"] == "satisfied", "{about}");
            // Spans that an exporter sent twice are listed once.
            assert!(if readable { (spans > 0) == (satisfied > 0) } else { spans == 0 }, "{about}");
            assert_eq!(policy.get("nearest").is_some(), readable && satisfied == 0, "{about}");
            assert!(readable || policy.get("decided_by").is_none(), "{about}");
        }
        open
    });
    let result: Vec<_> = result.collect();
    let result: Vec<bool> =
        futures::stream::iter(result).buffer_unordered(CONCURRENT_REQUESTS).collect().await;
    let open = result.iter().filter(|open| **open).count();
    comparison.open += open;
    comparison.closed += result.len() - open;
    for id in &data_set.ids {
        let viewers = admin.get(&format!("{}/viewers", path(id))).await.expect(200).body;
        let names: Vec<&str> = viewers["viewers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|viewer| viewer["username"].as_str().unwrap())
            .collect();
        let expected: Vec<&str> =
            visible.iter().filter(|(_, ids)| ids.contains(id)).map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected, "{id}: {viewers}");
        assert_eq!((&viewers["users"], &viewers["total_users"]), (&json!(3), &json!(3)));
        comparison.viewers += names.len();
    }
}

/// Compares a preview with the effect of storing the role; returns the traces visible afterwards.
async fn compare_preview(
    admin: &Client,
    readers: &[Reader],
    data_set: &DataSet,
    role: &str,
    proposal: &[String],
    before: BTreeMap<String, Ids>,
    comparison: &mut Comparison,
) -> BTreeMap<String, Ids> {
    let policies: Vec<Value> =
        proposal.iter().map(|text| json!({"title": "t", "expression": text})).collect();
    let body =
        json!({"role": role, "policies": policies, "from": data_set.from, "to": data_set.to, "seconds": 30});
    let result = admin.post("/policies/preview", body).await.expect(200).body;
    assert_eq!(
        (&result["sampled"], &result["fraction"], &result["counted_traces"]),
        (&json!(false), &json!(1.0), &json!("all")),
        "{result}"
    );
    store_role(admin, role, proposal).await;
    let after = visible(readers, data_set).await;
    let readable = &before["admin"];

    let detail = admin.get(&format!("/roles/{role}")).await.expect(200).body;
    let members: BTreeSet<&str> =
        detail["members"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let users = result["users"].as_array().unwrap();
    assert_eq!(users.iter().map(|user| user["username"].as_str().unwrap()).collect::<BTreeSet<_>>(), members);
    assert_eq!(
        (&result["members"], &result["members_compared"]),
        (&json!(members.len()), &json!(members.len()))
    );
    for user in users {
        let name = user["username"].as_str().unwrap();
        compare_change(user, &before[name], &after[name], readable, comparison);
    }
    if role == SINGLE_MEMBER {
        compare_change(
            &result["traces"],
            &before[SINGLE_MEMBER],
            &after[SINGLE_MEMBER],
            readable,
            comparison,
        );
    }
    // The collateral access is counted both for the previewed policies and for the stored role.
    let body = json!({"role": role, "from": data_set.from, "to": data_set.to, "seconds": 30});
    let collateral_access = admin.post("/policies/collateral-access", body).await.expect(200).body;
    let numbers = |collateral_access: &Value| {
        let mut numbers = collateral_access.clone();
        numbers.as_object_mut().unwrap().retain(|name, _| !["cost", "notes"].contains(&name.as_str()));
        numbers
    };
    assert_eq!(numbers(&result["collateral_access"]), numbers(&collateral_access), "{result}");
    comparison.collateral_access += collateral_access["distinct"].as_u64().unwrap();
    for (name, ids) in before.iter().filter(|(name, _)| !members.contains(name.as_str())) {
        assert_eq!(ids, &after[name], "a user without the role must not gain or lose traces");
    }
    comparison.previews += 1;
    after
}

/// Checks that a session that previews a user lists the user's traces, whatever the administrator's own roles grant.
async fn read_as_users(
    admin: &Client,
    data_set: &DataSet,
    visible: &BTreeMap<String, Ids>,
    comparison: &mut Comparison,
) {
    let own = &visible["admin"];
    for name in ["ada", SINGLE_MEMBER] {
        let began = admin.put("/me/preview", json!({"username": name})).await.expect(200).body;
        assert_eq!(began["preview"]["username"], name, "{began}");
        let ids = listed_ids(admin, data_set).await;
        assert_eq!(ids, visible[name], "{name}");
        comparison.listed_as_user += ids.len();
        comparison.differences_from_own_access += (&ids ^ own).len();
    }
    admin.delete("/me/preview").await.expect(204);
    assert_eq!(&listed_ids(admin, data_set).await, own);
}

fn compare_change(result: &Value, before: &Ids, after: &Ids, readable: &Ids, comparison: &mut Comparison) {
    let (gained, lost): (Ids, Ids) = (after - before, before - after);
    let unchanged = (before & after).len();
    assert_eq!(
        (&result["gained"], &result["lost"], &result["unchanged"]),
        (&json!(gained.len()), &json!(lost.len()), &json!(unchanged)),
        "{result}"
    );
    for (list, ids) in [("gained_ids", &gained), ("lost_ids", &lost)] {
        let named: Ids =
            result[list].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
        assert_eq!(named, ids & readable, "{result}");
        comparison.named += named.len();
    }
    comparison.gained += gained.len();
    comparison.lost += lost.len();
    comparison.unchanged += unchanged;
}

/// Escapes an id for a path: ids of other systems may contain any characters.
fn path(id: &str) -> String {
    let escaped: String = id
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect();
    format!("/traces/{escaped}")
}

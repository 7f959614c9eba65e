//! Randomised model tests: explanations, viewers and previews agree with actual reads, and an administrator who previews a
//! user reads what the user reads, with random policies, traces and users.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

#[path = "../mcp/worlds/made.rs"]
#[allow(dead_code, reason = "the tests of the tools use more of it")]
mod made;

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use serde_json::{Value, json};
use tracewarden_testkit::progress::Progress;

use made::{ROLES, World, Worlds};
use support::Client;
use support::store::Store;

/// Number of random data sets, unless the environment overrides it.
const WORLDS: usize = 20;
/// Number of concurrent requests: answers for absent traces are delayed on purpose.
const TOGETHER: usize = 16;
/// More pages than any of these data sets has.
const MANY_PAGES: usize = 100;
/// A role with a single member, who has no other role.
const ALONE: &str = "alone";

/// How much was compared.
#[derive(Debug, Default)]
struct Compared {
    open: usize,
    closed: usize,
    viewers: usize,
    previews: usize,
    gained: usize,
    lost: usize,
    unchanged: usize,
    named: usize,
    /// Number of values in traces to which the previewed roles grant access.
    shared: u64,
    /// Number of traces listed in previews of users.
    as_user: usize,
    /// Number of traces to which either such a preview or the administrator's own roles grant access, but not both.
    unlike_own: usize,
}

/// A user who reads traces.
struct Reader {
    name: String,
    client: Client,
}

type Ids = BTreeSet<String>;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explanations_of_access_agree_with_reads() {
    let seed = number("TRACEWARDEN_TEST_SEED", 20_261_123);
    let count = number("TRACEWARDEN_TEST_WORLDS", WORLDS as u64) as usize;
    println!("seed {seed}, {count} data sets");
    let store = Store::start();
    let service = store.service_with(&[("TRACEWARDEN_MAX_QUERIES_PER_USER", "unlimited")]);
    let admin = service.admin().await;
    made::bind(&store, &admin).await;
    let nothing = json!({"policies": [{"title": "Nothing", "expression": "false"}]});
    admin.put(&format!("/roles/{ALONE}"), nothing).await.expect(201);
    let mut worlds = Worlds::new(seed);
    let mut readers = Vec::new();
    for name in ["ada", ALONE] {
        readers.push(Reader { name: name.to_owned(), client: service.user(&admin, name, &[]).await });
    }
    readers.push(Reader { name: "admin".to_owned(), client: admin.clone() });

    let (mut compared, progress) = (Compared::default(), Progress::of(count, "worlds"));
    for (at, world) in worlds.worlds(&store, count).await.iter().enumerate() {
        progress.at(at);
        worlds.change_roles(&admin).await;
        store_role(&admin, ALONE, &[worlds.expression()]).await;
        for name in ["ada", ALONE] {
            worlds.change_user(&admin, name).await;
        }
        admin.patch(&format!("/users/{ALONE}"), json!({"roles": [ALONE]})).await.expect(200);
        // Being an administrator grants no access to traces.
        let own = if at % 2 == 0 { json!(["admin", ROLES[at % 4]]) } else { json!(["admin"]) };
        admin.patch("/users/admin", json!({ "roles": own })).await.expect(200);

        let mut seen = visible(&readers, world).await;
        explained(&admin, &readers, world, &seen, &mut compared).await;
        for role in [ALONE, ROLES[(at + 1) % 4]] {
            let proposal = [worlds.expression(), worlds.expression()];
            seen = previewed(&admin, &readers, world, role, &proposal, seen, &mut compared).await;
        }
        read_as_users(&admin, world, &seen, &mut compared).await;
    }
    println!("{compared:?}");
    let Compared { open, closed, viewers, previews, gained, lost, unchanged, named, .. } = compared;
    let Compared { shared, as_user, unlike_own, .. } = compared;
    assert_eq!(previews, 2 * count);
    let least =
        [open, closed, viewers, gained, lost, unchanged, named, as_user, unlike_own].into_iter().min();
    assert!(
        least > Some(count / 7) && shared > count as u64,
        "the data sets are too sparse to test anything"
    );
}

async fn store_role(admin: &Client, role: &str, expressions: &[String]) {
    let policies: Vec<Value> =
        expressions.iter().map(|text| json!({"title": "t", "expression": text})).collect();
    admin.put(&format!("/roles/{role}"), json!({ "policies": policies })).await.expect(200);
}

/// Returns each reader's trace ids, from all pages.
async fn visible(readers: &[Reader], world: &World) -> BTreeMap<String, Ids> {
    let mut visible = BTreeMap::new();
    for reader in readers {
        visible.insert(reader.name.clone(), listed(&reader.client, world).await);
    }
    visible
}

async fn listed(client: &Client, world: &World) -> Ids {
    let mut ids = Ids::new();
    let mut query = json!({"view": "ids", "limit": 3, "from": world.from, "to": world.to});
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
async fn explained(
    admin: &Client,
    readers: &[Reader],
    world: &World,
    visible: &BTreeMap<String, Ids>,
    compared: &mut Compared,
) {
    let pairs = readers.iter().flat_map(|reader| world.ids.iter().map(move |id| (reader, id)));
    let told = pairs.map(|(reader, id)| async move {
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
        assert_eq!(about["verdict"] == "opened", open, "{about}");
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
    let told: Vec<_> = told.collect();
    let told: Vec<bool> = futures::stream::iter(told).buffer_unordered(TOGETHER).collect().await;
    let open = told.iter().filter(|open| **open).count();
    compared.open += open;
    compared.closed += told.len() - open;
    for id in &world.ids {
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
        compared.viewers += names.len();
    }
}

/// Compares a preview with the effect of storing the role; returns the traces visible afterwards.
async fn previewed(
    admin: &Client,
    readers: &[Reader],
    world: &World,
    role: &str,
    proposal: &[String],
    before: BTreeMap<String, Ids>,
    compared: &mut Compared,
) -> BTreeMap<String, Ids> {
    let policies: Vec<Value> =
        proposal.iter().map(|text| json!({"title": "t", "expression": text})).collect();
    let body = json!({"role": role, "policies": policies, "from": world.from, "to": world.to, "seconds": 30});
    let told = admin.post("/policies/preview", body).await.expect(200).body;
    assert_eq!(
        (&told["sampled"], &told["fraction"], &told["among"]),
        (&json!(false), &json!(1.0), &json!("all")),
        "{told}"
    );
    store_role(admin, role, proposal).await;
    let after = visible(readers, world).await;
    let readable = &before["admin"];

    let detail = admin.get(&format!("/roles/{role}")).await.expect(200).body;
    let members: BTreeSet<&str> =
        detail["members"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let users = told["users"].as_array().unwrap();
    assert_eq!(users.iter().map(|user| user["username"].as_str().unwrap()).collect::<BTreeSet<_>>(), members);
    assert_eq!((&told["members"], &told["members_compared"]), (&json!(members.len()), &json!(members.len())));
    for user in users {
        let name = user["username"].as_str().unwrap();
        same(user, &before[name], &after[name], readable, compared);
    }
    if role == ALONE {
        same(&told["traces"], &before[ALONE], &after[ALONE], readable, compared);
    }
    // The collateral access is counted both for the previewed policies and for the stored role.
    let body = json!({"role": role, "from": world.from, "to": world.to, "seconds": 30});
    let shared = admin.post("/policies/overshare", body).await.expect(200).body;
    let numbers = |shared: &Value| {
        let mut numbers = shared.clone();
        numbers.as_object_mut().unwrap().retain(|name, _| !["cost", "notes"].contains(&name.as_str()));
        numbers
    };
    assert_eq!(numbers(&told["overshare"]), numbers(&shared), "{told}");
    compared.shared += shared["distinct"].as_u64().unwrap();
    for (name, ids) in before.iter().filter(|(name, _)| !members.contains(name.as_str())) {
        assert_eq!(ids, &after[name], "a user without the role must not gain or lose traces");
    }
    compared.previews += 1;
    after
}

/// Checks that a session that previews a user lists the user's traces, whatever the administrator's own roles grant.
async fn read_as_users(
    admin: &Client,
    world: &World,
    visible: &BTreeMap<String, Ids>,
    compared: &mut Compared,
) {
    let own = &visible["admin"];
    for name in ["ada", ALONE] {
        let began = admin.put("/me/preview", json!({"username": name})).await.expect(200).body;
        assert_eq!(began["preview"]["username"], name, "{began}");
        let ids = listed(admin, world).await;
        assert_eq!(ids, visible[name], "{name}");
        compared.as_user += ids.len();
        compared.unlike_own += (&ids ^ own).len();
    }
    admin.delete("/me/preview").await.expect(204);
    assert_eq!(&listed(admin, world).await, own);
}

fn same(told: &Value, before: &Ids, after: &Ids, readable: &Ids, compared: &mut Compared) {
    let (gained, lost): (Ids, Ids) = (after - before, before - after);
    let unchanged = (before & after).len();
    assert_eq!(
        (&told["gained"], &told["lost"], &told["unchanged"]),
        (&json!(gained.len()), &json!(lost.len()), &json!(unchanged)),
        "{told}"
    );
    for (list, ids) in [("gained_ids", &gained), ("lost_ids", &lost)] {
        let named: Ids =
            told[list].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
        assert_eq!(named, ids & readable, "{told}");
        compared.named += named.len();
    }
    compared.gained += gained.len();
    compared.lost += lost.len();
    compared.unchanged += unchanged;
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

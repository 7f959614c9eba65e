//! Randomised model tests: with random policies, traces and users, a caller sees the same with the tools as with the REST
//! API.

mod compared;
mod made;

use futures::future::join_all;
use tracewarden_testkit::progress::Progress;

use crate::support::store::Store;
use compared::{Caller, Compared, compare, same_schema};
use made::Worlds;

/// Number of random data sets, unless the environment overrides it.
const WORLDS: usize = 20;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_grant_the_same_access_as_rest() {
    let seed = number("TRACEWARDEN_TEST_SEED", 20_261_122);
    let count = number("TRACEWARDEN_TEST_WORLDS", WORLDS as u64) as usize;
    println!("seed {seed}, {count} data sets");
    let store = Store::start();
    let service = store.service_with(&[("TRACEWARDEN_MAX_QUERIES_PER_USER", "unlimited")]);
    let admin = service.admin().await;
    made::bind(&store, &admin).await;
    let fields = made::text_fields();
    let mut worlds = Worlds::new(seed);
    let mut callers = Vec::new();
    for name in ["ada", "prod", "é"] {
        let rest = service.user(&admin, name, &[]).await;
        let agent = crate::rpc::key(&rest, serde_json::json!({})).await;
        callers.push(Caller { name: name.to_owned(), rest, agent });
    }
    // Administrators see additional fields, and being one grants no access to traces.
    let agent = crate::rpc::key(&admin, serde_json::json!({})).await;
    same_schema(&Caller { name: "admin".to_owned(), rest: admin.clone(), agent }).await;
    same_schema(&callers[0]).await;

    let (mut users, mut narrowed) = (Compared::default(), Compared::default());
    let progress = Progress::of(count, "worlds");
    for (at, world) in worlds.worlds(&store, count).await.iter().enumerate() {
        progress.at(at);
        worlds.change_roles(&admin).await;
        // Two of the users; for every third data set, one of them and a scoped API key of that user.
        let [owner, other] = [&callers[at % 3], &callers[(at + 1) % 3]];
        worlds.change_user(&admin, &owner.name).await;
        let (first, second) = (worlds.chance(), worlds.chance());
        if at % 3 > 0 {
            worlds.change_user(&admin, &other.name).await;
            let runs = [compare(owner, world, &fields, first), compare(other, world, &fields, second)];
            join_all(runs).await.iter().for_each(|compared| users.add(compared));
            continue;
        }
        let (key, client) = worlds.narrowed_key(&owner.rest).await;
        let name = format!("{} with a scoped API key", owner.name);
        let limited = Caller { name, rest: client.clone(), agent: client };
        same_schema(&limited).await;
        let runs = [compare(owner, world, &fields, first), compare(&limited, world, &fields, second)];
        let [of_user, of_key] = join_all(runs).await.try_into().unwrap();
        users.add(&of_user);
        narrowed.add(&of_key);
        owner.rest.delete(&format!("/me/api-keys/{key}")).await.expect(204);
    }
    println!("users: {users:?}\nscoped API keys: {narrowed:?}");
    let Compared { open, closed, matched, unmatched, groups, values } = users;
    let least = [open, closed, matched, unmatched, groups, values].into_iter().min();
    assert!(least > Some(count / 2), "the data sets are too sparse to test anything: {users:?}");
    let least = narrowed.open.min(narrowed.closed);
    assert!(
        least > count / 10,
        "the policies of scoped API keys match too few or too many traces to test anything: {narrowed:?}"
    );
}

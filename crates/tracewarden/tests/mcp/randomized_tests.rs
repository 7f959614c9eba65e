//! Randomised model tests: with random policies, traces and users, a caller sees the same with the tools as with the REST
//! API.

mod comparison;
pub mod generated_data;

use futures::future::join_all;
use tracewarden_testkit::progress::Progress;
use tracewarden_testkit::repetitions::{self, Repetitions};

use crate::support::store::Store;
use comparison::{Caller, Comparison, compare, compare_schema};
use generated_data::DataSets;

/// Number of random data sets, unless the environment overrides it.
const DATA_SETS: Repetitions = Repetitions { test: 5, verify: 12 };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_grant_the_same_access_as_rest() {
    let (seed, count) = (repetitions::seed(20_261_122), DATA_SETS.get("TRACEWARDEN_TEST_DATA_SETS"));
    println!("seed {seed}, {count} data sets");
    let store = Store::start();
    let service = store.service_with(&[("TRACEWARDEN_MAX_QUERIES_PER_USER", "unlimited")]);
    let admin = service.admin().await;
    generated_data::bind(&store, &admin).await;
    let fields = generated_data::text_fields();
    let mut data_sets = DataSets::new(seed);
    let mut callers = Vec::new();
    for name in ["ada", "prod", "é"] {
        let rest = service.user(&admin, name, &[]).await;
        let agent = crate::mcp::rpc::key(&rest, serde_json::json!({})).await;
        callers.push(Caller { name: name.to_owned(), rest, agent });
    }
    // Administrators see additional fields, and being one grants no access to traces.
    let agent = crate::mcp::rpc::key(&admin, serde_json::json!({})).await;
    compare_schema(&Caller { name: "admin".to_owned(), rest: admin.clone(), agent }).await;
    compare_schema(&callers[0]).await;

    let (mut users, mut scoped) = (Comparison::default(), Comparison::default());
    let progress = Progress::of(count, "worlds");
    for (at, data_set) in data_sets.data_sets(&store, count).await.iter().enumerate() {
        progress.at(at);
        data_sets.change_roles(&admin).await;
        // Two of the users; for every third data set, one of them and a scoped API key of that user.
        let [owner, other] = [&callers[at % 3], &callers[(at + 1) % 3]];
        data_sets.change_user(&admin, &owner.name).await;
        let (first, second) = (data_sets.random_source(), data_sets.random_source());
        if at % 3 > 0 {
            data_sets.change_user(&admin, &other.name).await;
            let runs = [compare(owner, data_set, &fields, first), compare(other, data_set, &fields, second)];
            join_all(runs).await.iter().for_each(|comparison| users.add(comparison));
            continue;
        }
        let (key, client) = data_sets.scoped_key(&owner.rest).await;
        let name = format!("{} with a scoped API key", owner.name);
        let scoped_caller = Caller { name, rest: client.clone(), agent: client };
        compare_schema(&scoped_caller).await;
        let runs =
            [compare(owner, data_set, &fields, first), compare(&scoped_caller, data_set, &fields, second)];
        let [user_comparison, key_comparison] = join_all(runs).await.try_into().unwrap();
        users.add(&user_comparison);
        scoped.add(&key_comparison);
        owner.rest.delete(&format!("/me/api-keys/{key}")).await.expect(204);
    }
    println!("users: {users:?}\nscoped API keys: {scoped:?}");
    let Comparison { visible_traces, hidden_traces, matched, unmatched, groups, values } = users;
    let least = [visible_traces, hidden_traces, matched, unmatched, groups, values].into_iter().min();
    assert!(least > Some(count / 2), "the data sets are too sparse to test anything: {users:?}");
    let least = scoped.visible_traces.min(scoped.hidden_traces);
    assert!(
        least > count / 10,
        "the policies of scoped API keys match too few or too many traces to test anything: {scoped:?}"
    );
}

//! Which plan the planner chooses, from an estimate or from earlier searches.

use std::sync::Arc;

use super::*;
use crate::ClickHouseConfig;
use tracewarden_model::ReadAs;

/// A skip index serves the user, the sorting key the service; no index serves the tenant and the team.
#[tokio::test]
async fn rare_predicates_with_an_index_are_read_first_and_narrowed() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let spans = "INSERT INTO default.spans SELECT fromUnixTimestamp64Nano(BEGIN + number * 1000000000), \
                 toString(intDiv(number, 8) + 1), toString(number), '', concat('s', toString(number % 40)), \
                 concat('u', toString(cityHash64(number) % 4000)), concat('t', toString(cityHash64(number) % 20)), 'Ok', \
                 concat('team', toString(cityHash64(number) % 5)) FROM numbers(40000)";
    execute(&local, spans.replace("BEGIN", &BEGIN.to_string())).await;
    let entries =
        "INSERT INTO default.ends SELECT TraceId, min(At), max(At) FROM default.spans GROUP BY TraceId";
    execute(&local, entries.to_owned()).await;
    execute(&local, "OPTIMIZE TABLE default.spans FINAL".to_owned()).await;
    let (all, team, user) = ("true", "Team == \"team3\"", "User == \"u9\"");
    let service = ("Service", "s3");
    let [granted, first, second] =
        [RequiredPredicate::Policies, RequiredPredicate::Group(0), RequiredPredicate::Group(1)];
    let case = |policy, conditions: &[(&'static str, &'static str)], rare: &[_]| {
        (policy, conditions.to_vec(), rare.to_vec())
    };
    for (policy, conditions, expected) in [
        // The skip index leaves less to read than a statement costs.
        case(all, &[("User", "u7")], &[]),
        case(all, &[service, ("User", "u7")], &[second, first]),
        case(all, &[("Tenant", "t3"), ("User", "u7")], &[second]),
        case(user, &[("User", "u7")], &[first, granted]),
        case(team, &[service, ("Tenant", "t3")], &[]),
        case(team, &[], &[]),
    ] {
        let (scope, filter, binding) = (scope(&[policy]), filter(&conditions), binding(true));
        let search_case =
            SearchCase::new(&store, &binding, &scope, &filter, window(BEGIN, BEGIN + 12 * HOUR));
        let table = search_case.table().await;
        let (plan, _) = choose_plan(&search_case.search(&table, None, PlannerOptions::default()).await).await;
        match plan {
            Plan::FilteredPass(filters) => assert_eq!(filters, expected, "{conditions:?}"),
            other => {
                assert!(expected.is_empty() && matches!(other, Plan::Steps(_)), "{conditions:?}: {other:?}")
            }
        }
        search_case.assert_same_results(&[None], PlannerOptions::default()).await;
    }
    let rows = async |policy: &str, conditions: &[(&str, &str)], rare: Vec<RequiredPredicate>| {
        let (metered, scope, filter, binding) =
            (store.metered(), scope(&[policy]), filter(conditions), binding(true));
        let search_case =
            SearchCase::new(&metered, &binding, &scope, &filter, window(BEGIN, BEGIN + 12 * HOUR));
        search_case.pages(&Some(Plan::FilteredPass(rare)), PlannerOptions::default()).await;
        metered.cost().rows
    };
    let both = [service, ("User", "u7")];
    let narrowed = rows(all, &both, vec![second, first]).await;
    let whole = rows(all, &both, vec![second]).await;
    assert!(narrowed < whole, "{narrowed} rows narrowed, {whole} without");
    let intersected = rows(user, &[("User", "u7")], vec![first, granted]).await;
    let one = rows(user, &[("User", "u7")], vec![first]).await;
    assert!(intersected < one, "{intersected} rows of two predicates, {one} of one");
    // After a failed attempt, the planner starts from that predicate only in shorter windows.
    let (scope, filter, binding) = (scope(&[all]), filter(&both), binding(true));
    let store = ClickHouse { search_history: Arc::default(), ..store.metered() };
    let options = PlannerOptions { max_rare_traces: 3, ..PlannerOptions::default() };
    let plan = async |store: &ClickHouse, hours| {
        let search_case =
            SearchCase::new(store, &binding, &scope, &filter, window(BEGIN, BEGIN + hours * HOUR));
        let table = search_case.table().await;
        let (plan, _) = choose_plan(&search_case.search(&table, None, options).await).await;
        plan
    };
    for hours in [12, 11] {
        let without_history = ClickHouse { search_history: Arc::default(), ..store.metered() };
        assert_eq!(plan(&without_history, hours).await, Plan::FilteredPass(vec![second, first]));
        let search_case =
            SearchCase::new(&store, &binding, &scope, &filter, window(BEGIN, BEGIN + hours * HOUR));
        search_case.assert_same_results(&[None], options).await;
        assert!(matches!(plan(&store, hours).await, Plan::Steps(_)));
    }
}

/// Tenant `t0` has a trace each minute, `t1` has none, `t2` has ten, and `t3` has thirty, of which a page needs two thirds.
#[tokio::test]
async fn a_step_is_left_out_if_pages_need_most_of_the_window_unless_it_saves_much() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let spans = "INSERT INTO default.spans SELECT fromUnixTimestamp64Nano(BEGIN + number * 1000000000), toString(number), \
                 toString(number), '', concat('s', toString(number % 40)), '', \
                 multiIf(number % 60 = 0, 't0', number % 4000 = 1, 't2', number % 1333 = 2, 't3', ''), 'Ok', '' \
                 FROM numbers(40000)";
    execute(&local, spans.replace("BEGIN", &BEGIN.to_string())).await;
    execute(&local, "OPTIMIZE TABLE default.spans FINAL".to_owned()).await;
    let (scopes, binding) = ([scope(&["true"]), scope(&["Status == \"Ok\""])], binding(false));
    let search = async |scope: &AccessScope, tenant: &str, statement_cost| {
        let filter = filter(&[("Tenant", tenant), ("Status", "Ok")]);
        let search_case =
            SearchCase::new(&store, &binding, scope, &filter, window(BEGIN, BEGIN + 40_000 * SECOND));
        let (table, options) =
            (search_case.table().await, PlannerOptions { statement_cost, ..PlannerOptions::default() });
        let (_, step_options) = choose_plan(&search_case.search(&table, None, options).await).await;
        let (found, _) = search_case.pages(&None, options).await;
        (step_options.first < 40_000 * SECOND, step_options.expects_few_matches, found.len())
    };
    let [all, other] = &scopes;
    assert_eq!(search(all, "t1", 200).await, (true, false, 0));
    assert_eq!(search(all, "t0", 200).await, (false, true, 20), "another value");
    assert_eq!(search(all, "t1", 200).await, (true, false, 0), "after a page that a step fills");
    assert_eq!(search(other, "t1", 200).await, (true, false, 0), "another caller");
    assert_eq!(search(all, "t2", 40).await, (false, true, 10), "no match before");
    assert_eq!(search(all, "t1", 40).await, (true, false, 0), "half a page of matches before");
    assert_eq!(search(all, "t1", 30).await, (true, false, 0), "a step that saves much");
    assert_eq!(search(all, "t3", 30).await.2, 20);
    assert_eq!(search(all, "t1", 200).await, (false, true, 0), "two thirds of the window before");
}

/// A pass that selects traces by one key of a map reads the map twice, unless a skip index leaves few granules.
#[tokio::test]
async fn traces_are_not_selected_by_a_frequent_key_of_a_map() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    for statement in [
        "ALTER TABLE default.spans ADD COLUMN Attributes Map(String, String), \
         ADD INDEX values mapValues(Attributes) TYPE bloom_filter(0.01) GRANULARITY 1",
        "INSERT INTO default.spans SELECT fromUnixTimestamp64Nano(BEGIN + number * 1000000000), toString(number), \
         toString(number), '', 's', 'u', 't', 'Ok', '', map('region', 'r', 'user', concat('user', toString(number))) \
         FROM numbers(40000)",
    ] {
        execute(&local, statement.replace("BEGIN", &BEGIN.to_string())).await;
    }
    let key = |name: &str, value: &str| Condition {
        field: MarkedField {
            field: FieldRef::key("Attributes", name),
            source: FieldSource::MapKey,
            ..field("Attributes")
        },
        test: Test::StringEq(value.to_owned()),
    };
    let tenant = filter(&[("Tenant", "t")]).all_conditions().cloned().collect::<Vec<_>>();
    let (scope, binding) = (scope(&["Status == \"Ok\""]), binding(false));
    for (conditions, selects_traces) in [
        (vec![key("region", "r")], false),
        (vec![key("user", "user7")], true),
        (tenant.clone(), true),
        ([tenant, vec![key("region", "r")]].concat(), true),
        (Vec::new(), false),
    ] {
        let filter = Filter::of(conditions);
        let search_case =
            SearchCase::new(&store, &binding, &scope, &filter, window(BEGIN, BEGIN + 40_000 * SECOND));
        let (table, options) = (search_case.table().await, PlannerOptions::default());
        let (_, step_options) = choose_plan(&search_case.search(&table, None, options).await).await;
        assert_eq!(step_options.selects_traces, selects_traces, "{filter:?}");
        search_case.assert_same_results(&[None], options).await;
    }
}

/// No trace matches. A pass that reads only the traces of the filter replaces the second step, which would cost more.
#[tokio::test]
async fn a_pass_follows_the_first_step_if_it_reads_few_traces() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let spans = "INSERT INTO default.spans SELECT fromUnixTimestamp64Nano(BEGIN + number * 1000000000), toString(number), \
                 toString(number), '', 's', 'u', 't', 'Ok', repeat('x', 200) FROM numbers(48000)";
    execute(&local, spans.replace("BEGIN", &BEGIN.to_string())).await;
    let (scopes, binding) = ([scope(&["true"]), scope(&["Team == \"none\""])], binding(false));
    let filter = filter(&[("Tenant", "none"), ("User", "none")]);
    let search = async |store: &ClickHouse, scope: &AccessScope, binding: &Binding| {
        let store = store.metered();
        let case = SearchCase::new(&store, binding, scope, &filter, window(BEGIN, BEGIN + 48_000 * SECOND));
        let (table, options) = (case.table().await, PlannerOptions::default());
        let unestimated = no_steps(&case.search(&table, None, options).await);
        let steps = StepOptions { first: 3_000 * SECOND, use_trace_index: false, ..unestimated };
        let (found, statements) = case.pages(&Some(Plan::Steps(steps)), options).await;
        assert_eq!(found, []);
        (statements, store.cost().bytes)
    };
    let [all, some] = &scopes;
    let (statements, bytes) = search(&store, some, &binding).await;
    assert!(
        statements == 2 && bytes < 4_800_000,
        "{statements} statements, {bytes} bytes: half of the teams"
    );
    assert_eq!(search(&store, all, &binding).await.0, 3, "nothing but the filter is required");
    let [merged, _] = tables("DateTime64(9)", "DateTime");
    let merged = merged.replace("default.spans", "default.merged").replace("MergeTree", "ReplacingMergeTree");
    execute(&local, merged).await;
    let read_as = Some(ReadAs::Final);
    let merged = Binding { table: "merged".to_owned(), read_as, ..binding.clone() };
    assert_eq!(search(&store, some, &merged).await.0, 3, "a set would merge rows again");
    // The grouped pass reads all times.
    let config = ClickHouseConfig { max_trace_duration_nanos: None, ..(*store.config).clone() };
    let unlimited = ClickHouse { config: Arc::new(config), ..store.metered() };
    assert_eq!(search(&unlimited, some, &binding).await.0, 3, "partial results cannot be merged");
}

/// Users of some five traces, and one of most traces, in a table with a skip index on users.
#[tokio::test]
async fn a_rare_value_is_read_without_an_estimate_if_recent_ones_were_rare() {
    let local = LocalStore::start().unwrap();
    let stores = [connect(&local), connect(&local)];
    create(&local).await;
    let spans = "INSERT INTO default.spans SELECT fromUnixTimestamp64Nano(BEGIN + number * 1000000000), \
                 toString(intDiv(number, 8) + 1), toString(number), '', concat('s', toString(number % 40)), \
                 if(number % 10 = 0, 'many', concat('u', toString(cityHash64(intDiv(number, 8)) % 1000))), 't', 'Ok', '' \
                 FROM numbers(40000)";
    execute(&local, spans.replace("BEGIN", &BEGIN.to_string())).await;
    let entries =
        "INSERT INTO default.ends SELECT TraceId, min(At), max(At) FROM default.spans GROUP BY TraceId";
    execute(&local, entries.to_owned()).await;
    execute(&local, "OPTIMIZE TABLE default.spans FINAL".to_owned()).await;
    let scopes = [scope(&["true"]), scope(&["Status == \"Ok\""])];
    for (with_index, store) in [false, true].into_iter().zip(stores) {
        let binding = binding(with_index);
        let search = async |scope: &AccessScope, user: &str, seconds| {
            let filter = filter(&[("Tenant", "t"), ("User", user)]);
            let search_case = SearchCase {
                pages: 2,
                ..SearchCase::new(&store, &binding, scope, &filter, window(BEGIN, BEGIN + seconds * SECOND))
            };
            let options = PlannerOptions::default();
            let expected = search_case.pages(&Some(Plan::GroupByTrace), options).await.0;
            let (found, statements) = search_case.pages(&None, options).await;
            assert_eq!(found, expected, "{user}");
            (statements, found.len())
        };
        let [all, other] = &scopes;
        let (estimated, found) = search(all, "u7", 40_000).await;
        assert!((1..20).contains(&found), "{found} traces");
        assert_eq!(search(all, "u8", 40_000).await.0, estimated - 1);
        assert_eq!(search(all, "u8", 30_000).await.0, estimated - 1, "a shorter window");
        assert_eq!(search(all, "u8", 45_000).await.0, estimated, "a longer window");
        assert_eq!(search(other, "u8", 40_000).await.0, estimated, "another caller");
        assert_eq!(search(all, "none", 40_000).await.1, 0);
        // The attempt ends itself, and a step fills the page: nothing is grouped by trace.
        let (statements, found) = search(all, "many", 40_000).await;
        assert!(statements <= 5 && found == 40, "{statements} statements, {found} traces");
        for user in ["u9", "u10"] {
            assert_eq!(search(all, user, 40_000).await.0, estimated, "after a search with more traces");
        }
    }
}

//! Cases in which partial results could be taken for a decision, or for the end of a page.

use tracewarden_policy::KeyConstraint;

use super::*;

/// Every plan, and steps of several lengths.
fn all_plans(predicates: &[RequiredPredicate]) -> Vec<Option<Plan>> {
    let pass = |rare: &[RequiredPredicate]| Some(Plan::FilteredPass(rare.to_vec()));
    let mut plans = vec![None, pass(&[]), pass(predicates)];
    plans.extend(predicates.iter().map(|predicate| pass(&[*predicate])));
    for first in [60 * SECOND, HOUR / 4, HOUR] {
        plans.push(steps(first, true, WindowShare::Most));
        plans.push(steps(first, false, WindowShare::Part));
    }
    plans
}

/// Without a trace index, a step returns every trace that the policy allows, most of them without an ordering span.
#[tokio::test]
async fn a_frequent_policy_does_not_hide_rare_matches() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let spans = format!(
        "INSERT INTO default.spans SELECT fromUnixTimestamp64Nano({BEGIN} + number * {SECOND}), \
         concat('t', toString(number)), toString(number), '', 's1', 'u1', 't1', if(number % 190 = 7, 'Error', 'Ok'), 'team1' \
         FROM numbers(7000)"
    );
    execute(&local, spans).await;
    let (filter, scope) = (filter(&[("Status", "Error")]), scope(&["Team == \"team1\""]));
    let plans = all_plans(&[RequiredPredicate::Group(0), RequiredPredicate::Policies]);
    for index in [false, true] {
        let (binding, window) = (binding(index), window(BEGIN - HOUR, BEGIN + 2 * HOUR));
        let search_case =
            SearchCase { limit: 20, pages: 3, ..SearchCase::new(&store, &binding, &scope, &filter, window) };
        assert_eq!(search_case.assert_same_results(&plans, PlannerOptions::default()).await, 37);
    }
}

/// Traces whose ordering spans all lie in the margins come after all others, by their newest span in the window.
#[tokio::test]
async fn traces_with_matches_in_the_margins_alone_are_all_found() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let mut spans = Vec::new();
    for number in 0..100 {
        let trace = format!("m{:03}", number * 37 % 100);
        spans.push((-60 - number, trace.clone(), "Error", "team1"));
        spans.push((60 + number * 7 % 100, trace, "Ok", "team2"));
        spans.push((-600 - number, format!("outside{number}"), "Error", "team1"));
    }
    spans.push((30, "inside".to_owned(), "Error", "team1"));
    insert(&local, &spans).await;
    let (filter, scope) = (filter(&[("Status", "Error")]), scope(&["Team == \"team1\""]));
    let plans = all_plans(&[RequiredPredicate::Group(0), RequiredPredicate::Policies]);
    for index in [false, true] {
        let (binding, window) = (binding(index), window(BEGIN, BEGIN + HOUR));
        let search_case =
            SearchCase { limit: 20, pages: 6, ..SearchCase::new(&store, &binding, &scope, &filter, window) };
        assert_eq!(search_case.assert_same_results(&plans, PlannerOptions::default()).await, 101);
    }
}

/// With a policy that is always true and a constraint of the API key, every span orders its trace.
#[tokio::test]
async fn a_key_constraint_does_not_order_traces() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let mut spans = Vec::new();
    for number in 0..60 {
        let trace = format!("k{number:02}");
        spans.push((100 + number * 10, trace.clone(), "Ok", "team1"));
        spans.push((100 + number * 37 % 600, trace, "Ok", "team2"));
    }
    insert(&local, &spans).await;
    let (filter, binding) = (filter(&[]), binding(true));
    let model = AccessModel { version: 1, binding: None, fields: COLUMNS.map(field).to_vec() };
    let policy = RolePolicy { role: "r", title: "t", expression: "true" };
    let constraint = KeyConstraint { expression: "Team == \"team1\"", knows_policy_fields: true };
    let scope = authorise([policy], Some(constraint), &Caller::default(), &model, &CompiledPolicies::new());
    let scope = scope.unwrap();
    let plans = all_plans(&[RequiredPredicate::KeyConstraint]);
    let window = window(BEGIN, BEGIN + HOUR);
    let search_case =
        SearchCase { limit: 20, pages: 4, ..SearchCase::new(&store, &binding, &scope, &filter, window) };
    assert_eq!(search_case.assert_same_results(&plans, PlannerOptions::default()).await, 60);
}

/// Ids that are not strings are compared in their own type.
#[tokio::test]
async fn ids_of_any_type_are_found_by_rare_predicates() {
    for id in ["UUID", "FixedString(16)", "LowCardinality(String)", "Nullable(String)", "UInt64"] {
        let local = LocalStore::start().unwrap();
        let store = connect(&local);
        let [table, _] = tables("DateTime64(9)", "DateTime");
        let table = table.replace("TraceId String", &format!("TraceId {id}"));
        let table = table.replace("SETTINGS", "SETTINGS allow_suspicious_low_cardinality_types = 1,");
        execute(&local, table).await;
        let spans = format!(
            "INSERT INTO default.spans SELECT fromUnixTimestamp64Nano({BEGIN} + number * {SECOND}), \
             {value}, toString(number), '', 's1', concat('u', toString(number % 40)), 't1', 'Ok', 'team1' FROM numbers(400)",
            value = match id {
                "UUID" =>
                    "toUUID(concat('00000000-0000-4000-8000-', leftPad(toString(intDiv(number, 8) + 1), 12, '0')))",
                "UInt64" => "toUInt64(intDiv(number, 8) + 1)",
                _ => "concat('0123456789', leftPad(toString(intDiv(number, 8) + 1), 6, '0'))",
            }
        );
        execute(&local, spans).await;
        let (filter, scope) = (filter(&[("Service", "s1"), ("User", "u7")]), scope(&["Team == \"team1\""]));
        let plans = all_plans(&[RequiredPredicate::Group(1), RequiredPredicate::Policies]);
        let (binding, window) = (binding(false), window(BEGIN, BEGIN + HOUR));
        let search_case =
            SearchCase { limit: 4, pages: 4, ..SearchCase::new(&store, &binding, &scope, &filter, window) };
        assert_eq!(search_case.assert_same_results(&plans, PlannerOptions::default()).await, 10, "{id}");
    }
}

/// A configuration may allow more conditions than a candidate has bits.
#[tokio::test]
async fn more_conditions_than_bits_are_decided_as_well() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let spans: Vec<_> = (0..30).map(|number| (number, format!("c{number:02}"), "Error", "team1")).collect();
    insert(&local, &spans).await;
    let scope = scope(&["Team == \"team1\""]);
    for count in [59, 60, 63, 64, 70] {
        let (filter, binding) = (filter(&vec![("Status", "Error"); count]), binding(true));
        let window = window(BEGIN, BEGIN + HOUR);
        let search_case =
            SearchCase { limit: 20, pages: 2, ..SearchCase::new(&store, &binding, &scope, &filter, window) };
        let plans = all_plans(&[RequiredPredicate::Policies]);
        assert_eq!(search_case.assert_same_results(&plans, PlannerOptions::default()).await, 30, "{count}");
    }
}

/// Traces that cross the end of a step, or an edge of the window, are decided without a statement by id.
#[tokio::test]
async fn merged_partial_results_decide_without_a_statement_by_id() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let mut spans = Vec::new();
    for number in 0..12 {
        let at = number * 600 - 300;
        spans.push((at, format!("x{number:02}"), "Error", ""));
        spans.push((at + 590, format!("x{number:02}"), "", if number % 3 == 2 { "team1" } else { "" }));
    }
    insert(&local, &spans).await;
    let (filter, scope, binding) =
        (filter(&[("Status", "Error")]), scope(&["Team == \"team1\""]), binding(true));
    let search_case = SearchCase::new(
        &store,
        &binding,
        &scope,
        &filter,
        window(BEGIN - 60 * SECOND, BEGIN + 6_600 * SECOND),
    );
    // A step, the pass over the rest, the long traces, and the bounds of the candidates.
    let (found, statements) =
        search_case.pages(&steps(HOUR / 2, true, WindowShare::Part), PlannerOptions::default()).await;
    assert_eq!((found.len(), statements), (4, 4));
}

//! Statistics with a trace index.

use super::*;

/// Creates a complete trace index, with one entry for each trace.
async fn create_index(local: &LocalStore) {
    execute(
        local,
        "CREATE TABLE default.bounds (TraceId String, Start DateTime, End DateTime) ENGINE = MergeTree ORDER BY TraceId"
            .to_owned(),
    )
    .await;
    add_entries(local, "1").await;
}

/// Adds an entry for each trace, of its spans that satisfy the condition.
async fn add_entries(local: &LocalStore, condition: &str) {
    execute(
        local,
        format!(
            "INSERT INTO default.bounds SELECT TraceId, min(Timestamp), max(Timestamp) FROM default.spans \
             WHERE {condition} GROUP BY TraceId"
        ),
    )
    .await;
}

/// With and without a trace index, in one pass and in two, over windows that traces cross: the numbers are the same, also if there are
/// long traces, and if the index has lost a part of a trace.
#[tokio::test]
async fn the_trace_index_changes_no_number() {
    let local = LocalStore::start().unwrap();
    create(&local, "Name LowCardinality(String), Tags Array(String), Took UInt64, Status String").await;
    // A trace every 20 seconds from 6 hours before noon, of 3 to 7 spans in up to 9 minutes.
    insert(
        &local,
        "Timestamp, TraceId, SpanId, Name, Tags, Took, Status",
        &format!(
            "toDateTime64({NOON}, 9) - 21600 + number * 20 + span * 90, concat('t', toString(number)), toString(span), \
             ['cart', 'checkout', 'search'][1 + (number + span) % 3], ['all', toString((number * span) % 5)], number * 1000 + span, \
             if((number + span) % 11 = 0, 'Error', 'Ok') FROM (\
             SELECT number, arrayJoin(range(3 + number % 5)) AS span FROM numbers(2000))"
        ),
    )
    .await;
    for id in ["", "0", "00000000000000000000000000000000"] {
        let at = format!("toDateTime64({NOON}, 9) - 6900");
        insert(&local, "Timestamp, TraceId, SpanId, Name", &format!("{at}, '{id}', 's', 'cart'")).await;
    }
    create_index(&local).await;
    let store = connect(&local);
    let (groups, tags) = (
        fields(&store, &["Name", "Status"], LogicalType::String).await,
        fields(&store, &["Tags"], LogicalType::StringArray).await,
    );
    let display = Display {
        duration: Some("Took".to_owned()),
        status: Some("Status".to_owned()),
        ..Display::default()
    };
    let without = Binding { display, ..binding("default", "spans") };
    let with = Binding { trace_index: Some("bounds".to_owned()), ..without.clone() };
    let model = AccessModel { version: 1, binding: None, fields: groups.clone() };
    let policy = RolePolicy { role: "r", title: "t", expression: "Name == 'cart' && Status == 'Error'" };
    let granted = authorise([policy], None, &Caller::default(), &model, &CompiledPolicies::new()).unwrap();
    let at = |minutes: i64| Timestamp::from_nanos((NOON + minutes * 60) * 1_000_000_000);
    let (filter, everything) = (Filter::default(), unrestricted_scope());
    let facets = [groups[1].clone(), tags[0].clone()];
    let compare = async |state: &str, scopes: &[&AccessScope]| {
        for (scope, minutes) in scopes.iter().flat_map(|scope| [(*scope, -240..-60), (*scope, -120..-110)]) {
            let window = Window::new(at(minutes.start), at(minutes.end)).unwrap();
            let few = (StatsUnit::Trace, 5);
            for (per, max_traces) in [(StatsUnit::Span, 2_000), (StatsUnit::Trace, 2_000), few] {
                let of_time = Some(Buckets::covering(window, 20));
                for (group, facets, buckets) in [
                    (&groups[..1], &facets[..], of_time),
                    (&groups[..1], &[], None),
                    (&groups, &[], of_time),
                    (&tags, &facets, None),
                ] {
                    let ask = async |binding: &Binding| {
                        let plain = request(scope, binding, &filter);
                        let request =
                            StatsRequest { window, per, max_traces, group, facets, buckets, ..plain };
                        store.stats(request).await.unwrap()
                    };
                    let expected = ask(&without).await;
                    assert!(expected.total.traces > 1 && expected.total.errors > Some(0), "{state}");
                    assert_eq!(ask(&with).await, expected, "{state}: {minutes:?}, {per:?}, {max_traces}");
                }
            }
        }
    };
    compare("complete index", &[&everything, &granted]).await;
    insert(
        &local,
        "Timestamp, TraceId, SpanId, Name, Took, Status",
        &format!(
            "toDateTime64({NOON}, 9) - 7000 + (number - 3) * 2000, 'long', toString(number), 'cart', number, 'Error' FROM numbers(7)"
        ),
    )
    .await;
    add_entries(&local, "TraceId = 'long'").await;
    compare("long trace", &[&everything, &granted]).await;
    // One span is in both windows; the index does not know the other one, which is near both.
    for (minutes, status) in [(-115, "Ok"), (-57, "Error")] {
        insert(
            &local,
            "Timestamp, TraceId, SpanId, Name, Took, Status",
            &format!("toDateTime64({NOON}, 9) + 60 * {minutes}, 'lost', '{minutes}', 'cart', 5, '{status}'"),
        )
        .await;
    }
    add_entries(&local, "TraceId = 'lost' AND Status = 'Ok'").await;
    compare("lost entry", &[&everything]).await;
}

/// One pass and two count the same traces of the same scan, also if nothing is required of them.
#[tokio::test]
async fn one_pass_counts_what_two_count() {
    let local = LocalStore::start().unwrap();
    create(&local, "Name String, Status String").await;
    let at = format!("toDateTime64({NOON}, 9) - 150 + number * 7");
    let values = "['a', 'b'][1 + number % 2], ['Ok', 'Error'][1 + number % 3 % 2]";
    let columns = "Timestamp, TraceId, SpanId, Name, Status";
    insert(
        &local,
        columns,
        &format!("{at}, toString(1 + intDiv(number, 4)), 's', {values} FROM numbers(60)"),
    )
    .await;
    // If nothing is required, the index need not know a span outside of the window; the policy does not allow this trace.
    let lost = |seconds: i64| format!("toDateTime64({NOON}, 9) + {seconds}, 'lost', '{seconds}', 'b', 'Ok'");
    insert(&local, columns, &lost(0)).await;
    create_index(&local).await;
    insert(&local, columns, &lost(100)).await;
    let (store, everything, filter) = (connect(&local), unrestricted_scope(), Filter::default());
    let display = Display { status: Some("Status".to_owned()), ..Display::default() };
    let bounds = Some("bounds".to_owned());
    let binding = Binding { trace_index: bounds, display, ..binding("default", "spans") };
    let names = fields(&store, &["Name"], LogicalType::String).await;
    let model = AccessModel { version: 1, binding: None, fields: names.clone() };
    let policy = RolePolicy { role: "r", title: "t", expression: "Name == 'a'" };
    let granted = authorise([policy], None, &Caller::default(), &model, &CompiledPolicies::new()).unwrap();
    let tables = store.bound_tables(&binding).await.unwrap();
    let table = BoundTable::new(&binding, tables.columns.to_vec()).unwrap();
    let display = DisplayExpressions::new(&table, &binding.display);
    for scope in [&everything, &granted] {
        let plain = request(scope, &binding, &filter);
        let request = StatsRequest { per: StatsUnit::Trace, group: &names, facets: &names, ..plain };
        let required = RequiredPredicates::new(scope, &filter, &table).unwrap();
        let search = store.search_for(required, request.window, 1_000, &table, tables.index.clone());
        let scan = TraceScan::matching_by_trace(&search, SpansNeeded::InDefaultRange).await.unwrap();
        let mut found = Vec::new();
        for chosen in [ChosenTraces::AllInOnePass, ChosenTraces::All] {
            let statement = statement::statement(&search, &scan, &display, request, chosen).unwrap();
            let rows = search.rows(statement).await.unwrap();
            found.push(statement::stats(rows, &display, request, true).unwrap());
        }
        // Of 16 traces, those in two minutes around noon, with spans before and after these.
        assert!(found[0].total.traces > 3 && found[0].total.spans > 16, "{found:?}");
        assert_eq!(found[0], found[1]);
    }
}

/// Bounds may be finer than timestamps: a trace whose entry begins after the end of the window, within the same second, is in
/// the window.
#[tokio::test]
async fn a_trace_in_the_last_tick_of_the_window_is_counted_as_it_is_listed() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    for statement in [
        "CREATE TABLE default.spans (Timestamp DateTime, TraceId String, SpanId String, ParentSpanId String, Name String) \
         ENGINE = MergeTree ORDER BY Timestamp"
            .to_owned(),
        "CREATE TABLE default.bounds (TraceId String, Start DateTime64(9), End DateTime64(9)) \
         ENGINE = MergeTree ORDER BY TraceId"
            .to_owned(),
        format!(
            "INSERT INTO default.spans SELECT toDateTime({NOON}), 'late', 's', '', 'none' UNION ALL \
             SELECT toDateTime({NOON}) + INTERVAL 3 DAY, 'late', 't', '', 'granted' UNION ALL \
             SELECT toDateTime({NOON}) - INTERVAL 61 SECOND, 'early', 's', '', 'none' UNION ALL \
             SELECT toDateTime({NOON}) - INTERVAL 3 DAY, 'early', 't', '', 'granted'"
        ),
        format!(
            "INSERT INTO default.bounds SELECT 'late', toDateTime64({NOON}, 9) + INTERVAL 333 MILLISECOND, \
             toDateTime64({NOON}, 9) + INTERVAL 3 DAY UNION ALL SELECT 'early', toDateTime64({NOON}, 9) - INTERVAL 3 DAY, \
             toDateTime64({NOON}, 9) - INTERVAL 61 SECOND"
        ),
    ] {
        execute(&local, statement).await;
    }
    let binding = Binding { trace_index: Some("bounds".to_owned()), ..binding("default", "spans") };
    let name = fields(&store, &["Name"], LogicalType::String).await;
    let model = AccessModel { version: 1, binding: None, fields: name.clone() };
    let policy = RolePolicy { role: "r", title: "t", expression: "Name == 'granted'" };
    let scope = authorise([policy], None, &Caller::default(), &model, &CompiledPolicies::new()).unwrap();
    let at = |millis: i64| Timestamp::from_nanos(NOON * 1_000_000_000 + millis * 1_000_000);
    for (from, to, ids) in
        [(-60_000, 100, vec!["late"]), (-61_000, 0, vec!["early"]), (-61_000, 100, vec!["late", "early"])]
    {
        let window = Window::new(at(from), at(to)).unwrap();
        let filter = Filter::default();
        let selecting = SelectRequest {
            binding: &binding,
            scope: &scope,
            filter: &filter,
            window,
            order: TraceOrder::Newest,
            limit: 10,
            after: None,
            progress: None,
        };
        let listed = store.select(selecting).await.unwrap();
        let listed: Vec<&str> = listed.traces.iter().map(|trace| trace.id.as_str()).collect();
        assert_eq!(listed, ids);
        let found =
            run_stats(&store, &scope, &binding, |request| request.window = window, &[]).await.unwrap();
        assert_eq!(found.total.traces, ids.len() as u64, "{ids:?}");
    }
}

use std::time::{Duration, Instant};

use tracewarden_model::{ColumnType, Display, FieldSource, LogicalType};
use tracewarden_testkit::local_store::LocalStore;

use super::*;
use crate::agreement::{connect, execute};
use crate::schema::physical_field;
use crate::sql::{Statement, quote, quote_literal, quote_table};

mod distributed;

const DATABASE: &str = "odd `data\\base";
const TABLE: &str = "it's -- a `table\\";
const MAP: &str = "from the `start\\";
/// Keys that look like other syntax.
const KEYS: [&str; 5] =
    ["http.status_code", "it's \\ \n`--` ключ", "'), NULL) /* {p0:String}", "\u{1b}[2J", "a_b"];

fn binding() -> Binding {
    Binding {
        database: DATABASE.to_owned(),
        table: TABLE.to_owned(),
        trace_id: "trace id".to_owned(),
        span_id: "span".to_owned(),
        // The trace index has a column of this name, too.
        timestamp: "Start".to_owned(),
        parent_span_id: "parent".to_owned(),
        trace_index: None,
        display: Display::default(),
        ..Binding::default()
    }
}

/// Creates a table without any additions, in two parts.
async fn create(local: &LocalStore) {
    let table = quote_table(DATABASE, TABLE);
    execute(local, format!("CREATE DATABASE {}", quote(DATABASE))).await;
    execute(
        local,
        format!(
            "CREATE TABLE {table} (`Start` DateTime64(9), `trace id` String, `span` String, `parent` String, \
             `service` LowCardinality(String), `user` String, `tags` Array(String), `doc` JSON, {map} \
             Map(LowCardinality(String), String), `n` Map(String, UInt8)) ENGINE = MergeTree \
             PARTITION BY toDate(`Start`) ORDER BY (`service`, `span`) SETTINGS min_bytes_for_wide_part = 0",
            map = quote(MAP)
        ),
    )
    .await;
    for part in 0..2 {
        let keys: Vec<String> =
            KEYS.iter().map(|key| format!("{}, toString(number % 7)", quote_literal(key))).collect();
        execute(
            local,
            format!(
                "INSERT INTO {table} SELECT toDateTime64('2026-11-20 00:00:00', 9) + number * 2 + {part}, \
                 toString(cityHash64(intDiv(number, 5))), toString(number), '', concat('s', toString(number % 20)), \
                 toString(cityHash64(number)), ['t'], '{{\"a\": 1}}', if(number % 2 = 0, map({}), map('twice', 'a')), map() \
                 FROM numbers(30000)",
                keys.join(", ")
            ),
        )
        .await;
    }
}

fn mark(field: FieldRef, columns: &[crate::Column]) -> MarkedField {
    let physical = physical_field(&field, columns).unwrap();
    MarkedField {
        field,
        source: physical.source,
        logical: physical.logical_types[0],
        column_type: physical.column_type,
        filterable: true,
        policy: true,
        column: None,
    }
}

async fn marked(store: &ClickHouse) -> Vec<MarkedField> {
    let columns = store.catalogue().columns(DATABASE, TABLE).await.unwrap();
    let keys = KEYS.iter().map(|key| FieldRef::key(MAP, *key));
    let others = [
        FieldRef::column("service"),
        FieldRef::column("user"),
        FieldRef::column("tags"),
        FieldRef::key("doc", "a"),
        FieldRef::key("n", "k"),
    ];
    keys.chain(others).map(|field| mark(field, &columns)).collect()
}

/// Returns the number of rows and a hash of all columns.
async fn contents(store: &ClickHouse) -> (u64, u64) {
    let rows: Vec<(u64, u64)> = store
        .client
        .rows(Statement::new(&format!(
            "SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM {}",
            quote_table(DATABASE, TABLE)
        )))
        .await
        .unwrap();
    rows[0]
}

/// Returns the suggestions after ClickHouse has completed all mutations.
async fn wait_for_mutations(store: &ClickHouse, binding: &Binding, fields: &[MarkedField]) -> DdlAdvice {
    let begun = Instant::now();
    loop {
        let advice = store.ddl(binding, fields, true).await.unwrap();
        if advice.suggestions.iter().all(|suggestion| suggestion.state != DdlState::Building) {
            return advice;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{advice:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn run(local: &LocalStore, suggestion: &DdlSuggestion) {
    for statement in &suggestion.statements {
        assert!(!statement.chars().any(char::is_control), "{statement:?}");
        execute(local, statement.clone()).await;
    }
}

fn ids(advice: &DdlAdvice) -> Vec<&str> {
    advice.suggestions.iter().map(|suggestion| suggestion.id.as_str()).collect()
}

#[tokio::test]
async fn suggestions_run_unchanged_and_disappear() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let fields = marked(&store).await;
    let mut binding = binding();
    let before = contents(&store).await;
    assert_eq!(before.0, 60_000);

    let advice = store.ddl(&binding, &fields, true).await.unwrap();
    assert_eq!(advice.notes, Vec::<String>::new());
    assert_eq!(advice.in_place, []);
    let count_kind = |advice: &DdlAdvice, kind| {
        advice.suggestions.iter().filter(|suggestion| suggestion.kind == kind).count()
    };
    use DdlKind::{KeyColumn, SkipIndex, TimeProjection, TraceIndex, TraceProjection};
    let kinds = [KeyColumn, TimeProjection, TraceProjection, TraceIndex, SkipIndex];
    let counts = kinds.map(|kind| count_kind(&advice, kind));
    // Keys and values of one map, keys of the map with numbers, the trace id, and the user.
    assert_eq!(counts, [KEYS.len(), 1, 1, 1, 5], "{:#?}", ids(&advice));
    for (at, suggestion) in advice.suggestions.iter().enumerate() {
        assert_eq!(suggestion.number, at + 1);
        assert_eq!(suggestion.state, DdlState::Missing);
        let earlier: Vec<&str> = advice.suggestions[..at].iter().map(|other| other.id.as_str()).collect();
        assert!(suggestion.needs.iter().all(|needed| earlier.contains(&needed.as_str())), "{suggestion:#?}");
        let gain = suggestion.gain.unwrap_or_else(|| panic!("{suggestion:#?}"));
        assert!(gain >= 1.0, "{suggestion:#?}");
        assert!(suggestion.kind == DdlKind::TraceIndex || suggestion.disk_bytes.is_some(), "{suggestion:#?}");
    }
    let by_time = advice.suggestions.iter().find(|found| found.kind == DdlKind::TimeProjection).unwrap();
    assert_eq!(
        by_time.omitted_fields,
        [FieldRef::column("tags"), FieldRef::key("doc", "a"), FieldRef::key("n", "k")]
    );
    // Without samples, nothing is estimated from spans.
    let without_samples = store.ddl(&binding, &fields, false).await.unwrap();
    let key = |advice: &DdlAdvice| {
        advice.suggestions.iter().find(|found| found.kind == DdlKind::KeyColumn).unwrap().disk_bytes
    };
    assert!(key(&advice).is_some() && key(&without_samples).is_none());

    for suggestion in &advice.suggestions {
        run(&local, suggestion).await;
    }
    let advice_after_mutations = wait_for_mutations(&store, &binding, &fields).await;
    // The trace index exists, and only has to be bound.
    assert_eq!(ids(&advice_after_mutations), ["trace_index"], "{advice_after_mutations:#?}");
    let [index] = advice_after_mutations.suggestions.as_slice() else { panic!() };
    assert!(index.statements.is_empty());
    binding.trace_index.clone_from(&index.bind_trace_index);
    assert_eq!(binding.trace_index, Some(format!("{TABLE}_trace_id_ts")));
    let advice = store.ddl(&binding, &fields, true).await.unwrap();
    assert_eq!(ids(&advice), Vec::<&str>::new());
    let mut in_place: Vec<&str> = advice.in_place.iter().map(|found| found.id.as_str()).collect();
    in_place.sort_unstable();
    in_place.dedup();
    assert_eq!(in_place.len(), KEYS.len() + 8);
    assert_eq!(contents(&store).await, before);

    // The columns agree with the map, and the index with the table.
    let layout = store.catalogue().current_layout(DATABASE, TABLE).await.unwrap();
    for key in KEYS {
        let column = quote(&layout.key_column(MAP, key).unwrap().name);
        let (map, key) = (quote(MAP), quote_literal(key));
        let rows: Vec<(u64, u64)> = store
            .client
            .rows(Statement::new(&format!(
                "SELECT countIf(isNotNull({column})), countIf(NOT ({column} <=> if(mapContains({map}, {key}), {map}[{key}], NULL))) \
                 FROM {}",
                quote_table(DATABASE, TABLE)
            )))
            .await
            .unwrap();
        assert_eq!(rows, [(30_000, 0)], "{key}");
    }
    let bounds: Vec<(u64, u64)> = store
        .client
        .rows(Statement::new(&format!(
            "SELECT count(), countIf(NOT (start = toDateTime(first) AND end = toDateTime(last))) FROM \
             (SELECT `trace id`, min(`Start`) AS first, max(`Start`) AS last FROM {} GROUP BY ALL) AS t \
             INNER JOIN (SELECT TraceId, min(`Start`) AS start, max(`End`) AS end FROM {} GROUP BY ALL) AS i \
             ON t.`trace id` = i.TraceId",
            quote_table(DATABASE, TABLE),
            quote_table(DATABASE, &format!("{TABLE}_trace_id_ts")),
        )))
        .await
        .unwrap();
    assert_eq!(bounds, [(6_000, 0)]);

    // A dropped addition is suggested again, and rows that arrived without it have to be built.
    let table = quote_table(DATABASE, TABLE);
    let name = |id: &str| advice.in_place.iter().find(|found| found.id == id).unwrap().name.clone();
    execute(&local, format!("ALTER TABLE {table} DROP PROJECTION {}", quote(&name("time_projection")))).await;
    let index = name(&format!("skip_index:mapValues({MAP})"));
    execute(&local, format!("ALTER TABLE {table} DROP INDEX {}", quote(&index))).await;
    execute(&local, format!("ALTER TABLE {table} CLEAR PROJECTION {}", quote(&name("trace_projection"))))
        .await;
    execute(&local, format!("DROP TABLE {}", quote_table(DATABASE, &format!("{TABLE}_trace_id_ts_mv"))))
        .await;
    execute(&local, format!("DROP TABLE {}", quote_table(DATABASE, &format!("{TABLE}_trace_id_ts")))).await;
    let advice = wait_for_mutations(&store, &binding, &fields).await;
    let mut missing_again: Vec<(&str, DdlState)> =
        advice.suggestions.iter().map(|found| (found.id.as_str(), found.state)).collect();
    missing_again.sort_unstable_by_key(|(id, _)| *id);
    let values = format!("skip_index:mapValues({MAP})");
    assert_eq!(
        missing_again,
        [
            (values.as_str(), DdlState::Missing),
            ("time_projection", DdlState::Missing),
            ("trace_index", DdlState::Missing),
            ("trace_projection", DdlState::Partial)
        ]
    );
    let partial = advice.suggestions.iter().find(|found| found.kind == DdlKind::TraceProjection).unwrap();
    assert_eq!(
        partial.statements,
        [format!("ALTER TABLE {table} MATERIALIZE PROJECTION {}", quote(&name("trace_projection")))]
    );
    for suggestion in &advice.suggestions {
        run(&local, suggestion).await;
    }
    assert_eq!(ids(&wait_for_mutations(&store, &binding, &fields).await), Vec::<&str>::new());
    assert_eq!(contents(&store).await, before);
}

/// One span from a clock that is years ahead.
#[tokio::test]
async fn estimates_are_for_the_newest_hour_before_now() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let fields = marked(&store).await;
    let reads = async || {
        let advice = store.ddl(&binding(), &fields, true).await.unwrap();
        let by_time = advice.suggestions.into_iter().find(|found| found.kind == DdlKind::TimeProjection);
        by_time.unwrap().reads_after.unwrap().rows
    };
    let before = reads().await;
    let future = "toDateTime64('2100-01-01 00:00:00', 9) AS `Start`, '7' AS `trace id`, '7' AS `span`";
    let table = quote_table(DATABASE, TABLE);
    execute(&local, format!("INSERT INTO {table} (`Start`, `trace id`, `span`) SELECT {future}")).await;
    assert_eq!(reads().await, before);
}

#[tokio::test]
async fn partial_objects_are_completed_under_any_name() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let fields = marked(&store).await;
    let (key, service, user) = (fields[0].clone(), fields[5].clone(), fields[6].clone());
    let table = quote_table(DATABASE, TABLE);
    let expression = crate::schema::key_column_expression(MAP, KEYS[0]);
    for what in [
        format!("ADD COLUMN `mine` LowCardinality(Nullable(String)) MATERIALIZED {expression}"),
        "ADD INDEX `my index` `mine` TYPE set(100) GRANULARITY 2".to_owned(),
        format!("ADD INDEX `by keys` mapKeys({}) TYPE bloom_filter GRANULARITY 1", quote(MAP)),
        "ADD INDEX `ids` `trace id` TYPE bloom_filter GRANULARITY 1".to_owned(),
        "ADD INDEX `order` `user` TYPE minmax GRANULARITY 1".to_owned(),
        "ADD PROJECTION `mine too` (SELECT `mine`, `trace id`, `service`, `Start`, `span` ORDER BY `Start`, `span`)"
            .to_owned(),
    ] {
        execute(&local, format!("ALTER TABLE {table} {what}")).await;
    }
    let fields_before = [key.clone(), service.clone()];
    let advice = store.ddl(&binding(), &fields_before, true).await.unwrap();
    let statements = |id: &str| {
        let found = advice.suggestions.iter().find(|found| found.id == id);
        let found = found.unwrap_or_else(|| panic!("{id}: {advice:#?}"));
        assert_eq!(found.state, DdlState::Partial, "{id}");
        found.statements.join("; ").replace(&table, "t")
    };
    assert_eq!(
        statements(&key_column_id(&key.field)),
        "ALTER TABLE t MATERIALIZE COLUMN `mine`; ALTER TABLE t MATERIALIZE INDEX `my index`"
    );
    assert_eq!(statements("time_projection"), "ALTER TABLE t MATERIALIZE PROJECTION `mine too`");
    assert_eq!(
        statements(&format!("skip_index:mapKeys({MAP})")),
        "ALTER TABLE t MATERIALIZE INDEX `by keys`"
    );
    assert_eq!(statements("skip_index:trace id"), "ALTER TABLE t MATERIALIZE INDEX `ids`");

    for suggestion in &advice.suggestions {
        run(&local, suggestion).await;
    }
    let advice = wait_for_mutations(&store, &binding(), &fields_before).await;
    assert_eq!(ids(&advice), ["trace_index"], "{advice:#?}");

    // A new marked field is not in the projection: a successor is suggested, and dropping the old one afterwards.
    let advice = store.ddl(&binding(), &[key, service, user], true).await.unwrap();
    let successor = advice.suggestions.iter().find(|found| found.kind == DdlKind::TimeProjection).unwrap();
    assert_eq!(
        successor.statements[0].replace(&table, "t"),
        "ALTER TABLE t ADD PROJECTION IF NOT EXISTS `by_time` \
         (SELECT `Start`, `trace id`, `mine`, `service`, `user` ORDER BY `Start`)"
    );
    assert_eq!(successor.follow_up, [format!("ALTER TABLE {table} DROP PROJECTION `mine too`")]);
    run(&local, successor).await;
    for statement in &successor.follow_up {
        execute(&local, statement.clone()).await;
    }
    let advice = wait_for_mutations(&store, &binding(), &fields_before).await;
    assert_eq!(ids(&advice), ["trace_index"]);
    assert!(advice.in_place.iter().any(|found| found.name == "by_time" && found.disk_bytes.is_some()));
}

#[tokio::test]
async fn failed_mutations_are_not_reported_as_building() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let table = quote_table(DATABASE, TABLE);
    for statement in [
        // A merge would need the column as well, and would keep the mutation from the part: a single part is not merged.
        format!("OPTIMIZE TABLE {table} FINAL"),
        // No parent is a number, so the column cannot be computed.
        format!("ALTER TABLE {table} ADD COLUMN `never` String MATERIALIZED toString(toUInt64(`parent`))"),
        format!("ALTER TABLE {table} ADD INDEX `fails` `never` TYPE bloom_filter GRANULARITY 1"),
    ] {
        execute(&local, statement).await;
    }
    let columns = store.catalogue().columns(DATABASE, TABLE).await.unwrap();
    let fields = [mark(FieldRef::column("never"), &columns)];
    let ask = async || {
        let advice = store.ddl(&binding(), &fields, false).await.unwrap();
        advice.suggestions.into_iter().find(|found| found.id == "skip_index:never").unwrap()
    };
    let before = ask().await;
    assert_eq!(before.statements, [format!("ALTER TABLE {table} MATERIALIZE INDEX `fails`")]);
    // By default, the local engine would wait for the end of the mutation.
    execute(&local, format!("{} SETTINGS mutations_sync = 0", before.statements[0])).await;
    let failing = format!(
        "SELECT count() FROM system.mutations WHERE database = {} AND table = {} AND NOT is_done \
         AND latest_fail_reason != ''",
        quote_literal(DATABASE),
        quote_literal(TABLE)
    );
    let begun = Instant::now();
    while store.client.rows::<(u64,)>(Statement::new(&failing)).await.unwrap() != [(1,)] {
        assert!(begun.elapsed() < Duration::from_secs(60), "{before:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // ClickHouse retries the mutation, which always fails.
    let after = ask().await;
    assert_eq!((after.state, after.statements), (DdlState::Partial, before.statements));
}

#[tokio::test]
async fn unsupported_tables_get_no_suggestions() {
    let local = LocalStore::start().unwrap();
    let store = connect(&local);
    create(&local).await;
    let fields = marked(&store).await;
    let mut other = binding();
    execute(
        &local,
        format!(
            "CREATE VIEW {} AS SELECT * FROM {}",
            quote_table(DATABASE, "view"),
            quote_table(DATABASE, TABLE)
        ),
    )
    .await;
    other.table = "view".to_owned();
    let advice = store.ddl(&other, &fields, true).await.unwrap();
    assert_eq!(advice.suggestions, []);
    assert_eq!(advice.notes, ["nothing can be added to a table whose engine is View"]);

    // This engine replaces rows when it merges, and projections must not keep the old ones. The table has no rows, so nothing
    // is estimated.
    execute(
        &local,
        format!(
            "CREATE TABLE {} AS {} ENGINE = ReplacingMergeTree ORDER BY (`trace id`, `span`)",
            quote_table(DATABASE, "replacing"),
            quote_table(DATABASE, TABLE)
        ),
    )
    .await;
    other.table = "replacing".to_owned();
    let advice = store.ddl(&other, &fields, true).await.unwrap();
    assert!(advice.notes.iter().any(|note| note.contains("ReplacingMergeTree")), "{:?}", advice.notes);
    let kinds: Vec<DdlKind> = advice.suggestions.iter().map(|found| found.kind).collect();
    assert!(kinds.contains(&DdlKind::KeyColumn) && kinds.contains(&DdlKind::TraceIndex), "{kinds:?}");
    assert!(!kinds.contains(&DdlKind::TimeProjection) && !kinds.contains(&DdlKind::TraceProjection));
    assert!(!ids(&advice).contains(&"skip_index:trace id"), "it is in the order of trace ids");
    for suggestion in &advice.suggestions {
        assert_eq!(
            (suggestion.reads_before, suggestion.reads_after, suggestion.disk_bytes),
            (None, None, None)
        );
        run(&local, suggestion).await;
    }
    assert_eq!(ids(&wait_for_mutations(&store, &other, &fields).await), ["trace_index"]);
}

fn string_key(map: &str, key: &str) -> MarkedField {
    MarkedField {
        field: FieldRef::key(map, key),
        source: FieldSource::MapKey,
        logical: LogicalType::String,
        column_type: ColumnType::STRING,
        filterable: true,
        policy: false,
        column: None,
    }
}

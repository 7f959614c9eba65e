//! The history of the access model must reproduce the state of the tables after every change, for random sequences of
//! changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tracewarden_appdb::{
    AppDb, Change, CurrentModel, DbError, ModelState, NewChange, Policy, ReadTx, WrittenRoles,
};
use tracewarden_model::{AccessModel, ColumnType, FieldRef, FieldSource, LogicalType, MarkedField};

use crate::fixture::{Fixture, add_user, at, on_both, record};

on_both!(
    the_history_matches_the_tables,
    the_history_begins_with_the_existing_data,
    a_rollback_leaves_no_change,
    unrecorded_writes_are_added_at_the_next_start,
    unreadable_models_do_not_prevent_the_start,
    members_of_several_roles_are_found_at_once,
    a_large_change_is_quick,
);

/// Number of changes in a run. Each run is another sequence.
const CHANGES: usize = 60;
const RUNS: u64 = 3;

fn by<'a>(time: i64, action: &'a str, target: Option<&'a str>, model_version: u64) -> NewChange<'a> {
    NewChange { at: at(time), by: ("u1", "Ada"), action, target, model_version }
}

fn policies(random: &mut ChaCha8Rng) -> Vec<Policy> {
    let long = "x".repeat(5_000);
    let texts = ["true", "ServiceName == \"a'; --\"", "", "ü\n$1", long.as_str()];
    let text = |random: &mut ChaCha8Rng| texts[random.random_range(0..texts.len())].to_owned();
    // Sometimes more policies than fit one statement.
    let count = if random.random_bool(0.05) { 250 } else { random.random_range(0..4) };
    (0..count)
        .map(|_| Policy {
            title: text(random),
            expression: text(random),
            description: random.random_bool(0.5).then(|| text(random)),
        })
        .collect()
}

fn model(random: &mut ChaCha8Rng, version: u64) -> AccessModel {
    let field = |number: u32| MarkedField {
        field: FieldRef::key("SpanAttributes", format!("key {number}")),
        source: FieldSource::MapKey,
        logical: LogicalType::String,
        column_type: ColumnType::parse("String"),
        filterable: true,
        policy: true,
        column: None,
    };
    AccessModel { version, binding: None, fields: (0..random.random_range(0..5)).map(field).collect() }
}

async fn now(db: &AppDb) -> ModelState {
    db.begin_read().await.unwrap().model_state(None).await.unwrap().unwrap()
}

/// Makes a random change: one role, several roles with deletions among them, another model, other tests, or all at
/// once.
async fn change(db: &AppDb, random: &mut ChaCha8Rng, time: i64) {
    const NAMES: [&str; 5] = ["admin", "a", "B-like", "a.b", "zebra"];
    let mut tx = db.begin_write().await.unwrap();
    let mut version = tx.access_model().await.unwrap().version;
    let mut written: Vec<(&str, Option<Vec<Policy>>)> = Vec::new();
    let count = random.random_range(0..=NAMES.len());
    for name in NAMES.iter().copied().take(count) {
        if name != "admin" && random.random_bool(0.4) {
            if tx.role(name).await.unwrap().is_some() {
                written.push((name, None));
            }
        } else if random.random_bool(0.7) {
            written.push((name, Some(policies(random))));
        }
    }
    let put: Vec<_> =
        written.iter().filter_map(|(name, policies)| Some((*name, policies.as_deref()?))).collect();
    let last = tx.put_roles(&put, at(time)).await.unwrap();
    for (revision, (name, _)) in (0..=last).rev().zip(put.iter().rev()) {
        assert_eq!(tx.role(name).await.unwrap().unwrap().revision, revision);
    }
    let deleted: Vec<&str> =
        written.iter().filter(|(_, policies)| policies.is_none()).map(|(name, _)| *name).collect();
    assert_eq!(tx.delete_roles(&deleted).await.unwrap(), u64::try_from(deleted.len()).unwrap());
    if random.random_bool(0.3) {
        version += 1;
        let model = model(random, version);
        tx.insert_access_model(&model, at(time), ("u1", "Ada")).await.unwrap();
    }
    let tests = random.random_bool(0.3).then(|| format!("{{\"tests\": [{time}]}}"));
    let tests = tests.map(|tests| if random.random_bool(0.2) { String::new() } else { tests });
    let roles: Vec<_> = written.iter().map(|(name, policies)| (*name, policies.as_deref())).collect();
    tx.record_change(&by(time, "schema.import", None, version), &roles, tests.as_deref()).await.unwrap();
    // Some transactions are rolled back.
    if random.random_bool(0.8) {
        tx.commit().await.unwrap();
    }
}

async fn the_history_matches_the_tables(fixture: &Fixture) {
    let mut expected: Vec<ModelState> = Vec::new();
    for seed in 0..RUNS {
        // Each run continues with the connections of another process.
        let db = fixture.open().await;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        if expected.is_empty() {
            expected.push(now(&db).await);
        }
        for time in 0..CHANGES {
            change(&db, &mut random, i64::try_from(time).unwrap()).await;
            let mut tx = db.begin_read().await.unwrap();
            let number = usize::try_from(tx.change_number().await.unwrap()).unwrap();
            assert!(number == expected.len() || number == expected.len() + 1, "numbers grow by one");
            let state = tx.model_state(None).await.unwrap().unwrap();
            if number > expected.len() {
                expected.push(state);
            } else {
                assert!(state == expected[number - 1], "seed {seed}, {time}: changed without a change");
            }
        }
        let mut tx = db.begin_read().await.unwrap();
        for (number, state) in (1..).zip(&expected) {
            let reported = tx.model_state(Some(number)).await.unwrap().unwrap();
            assert!(reported == *state, "seed {seed}, change {number}:\n{reported:?}\n{state:?}");
        }
        for (number, states) in (2..).zip(expected.windows(2)) {
            description_of_one_change(&mut tx, number, states).await;
        }
        descriptions_of_many_changes(&mut tx, &expected).await;
        let [nothing, first] = tx.states_around_change(1).await.unwrap().unwrap();
        assert!(nothing.roles.is_empty() && first == expected[0]);
        let after = u64::try_from(expected.len()).unwrap() + 1;
        for absent in [0, after, u64::MAX] {
            assert_eq!(tx.model_state(Some(absent)).await.unwrap(), None);
            assert_eq!(tx.states_around_change(absent).await.unwrap(), None);
        }
        drop(tx);
        db.close().await;
    }
    let changes = expected.len();
    assert!(changes > 100, "{changes}");
}

/// The reported sides of a change must match the states around it wherever these differ. The report may also contain
/// roles that the change wrote without modifying them.
async fn description_of_one_change(tx: &mut ReadTx, number: u64, states: &[ModelState]) {
    let [before, after] = tx.states_around_change(number).await.unwrap().unwrap();
    for (reported, expected) in [(&before, &states[0]), (&after, &states[1])] {
        assert!(reported.model == expected.model, "change {number}");
        let differ = states[0].tests != states[1].tests;
        assert!(!differ || reported.tests == expected.tests, "change {number}");
        assert!(differ || before.tests == after.tests, "change {number}");
        assert!(
            reported.roles.iter().all(|(name, policies)| expected.roles.get(name) == Some(policies)),
            "change {number}"
        );
    }
    let names: BTreeSet<&String> = states.iter().flat_map(|state| state.roles.keys()).collect();
    for name in names {
        let (was, is) = (states[0].roles.get(name), states[1].roles.get(name));
        if was != is {
            assert_eq!((before.roles.get(name), after.roles.get(name)), (was, is), "change {number}: {name}");
        }
    }
}

/// The entry of a change in a range must equal the entry of that change alone.
async fn descriptions_of_many_changes(tx: &mut ReadTx, expected: &[ModelState]) {
    let last = u64::try_from(expected.len()).unwrap();
    for (from, through) in [(1, last), (2, last / 2), (last / 2, last), (last, last), (last + 1, u64::MAX)] {
        let written: Vec<WrittenRoles> = tx.written_roles(from, through).try_collect().await.unwrap();
        let numbers: Vec<u64> = written.iter().map(|written| written.change).collect();
        assert!(numbers.is_sorted() && numbers.iter().all(|number| (from..=through).contains(number)));
        let mut by_change: BTreeMap<u64, WrittenRoles> =
            written.into_iter().map(|written| (written.change, written)).collect();
        let tests = tx.written_tests(from, through).await.unwrap();
        for number in from..=through.min(last) {
            let [before, after] = tx.states_around_change(number).await.unwrap().unwrap();
            let reported = by_change.remove(&number);
            let reported = reported.map_or_else(Default::default, |written| (written.before, written.after));
            assert!(reported == (before.roles, after.roles), "change {number}");
            let at = usize::try_from(number).unwrap() - 1;
            let states = [at.checked_sub(1).map(|before| &expected[before]), Some(&expected[at])];
            let present = states.map(|state| state.is_some_and(|state| !state.tests.is_empty()));
            match tests.get(&number) {
                Some(reported) => assert_eq!(*reported, present, "change {number}"),
                None => assert!(at == 0 || expected[at - 1].tests == expected[at].tests, "change {number}"),
            }
        }
        assert!(by_change.is_empty());
    }
    let versions: Vec<AccessModel> = tx.access_models(0, u64::MAX).try_collect().await.unwrap();
    let numbers: Vec<u64> = versions.iter().map(|model| model.version).collect();
    assert_eq!(numbers, (1..=expected[expected.len() - 1].model.version).collect::<Vec<_>>());
    let current = tx.current_model().await.unwrap();
    assert_eq!(current, CurrentModel { version: last, model: expected[expected.len() - 1].model.clone() });
}

async fn the_history_begins_with_the_existing_data(fixture: &Fixture) {
    let db = AppDb::open(&fixture.url(), at(7)).await.unwrap();
    let mut tx = db.begin_read().await.unwrap();
    let began = Change {
        number: 1,
        at: at(7),
        by_id: String::new(),
        by_name: String::new(),
        action: "upgrade".to_owned(),
        target: None,
        model_version: 0,
    };
    assert_eq!(tx.change(1).await.unwrap().as_ref(), Some(&began));
    drop(tx);
    for (time, role) in [(8, "a"), (9, "b"), (10, "c")] {
        let mut tx = db.begin_write().await.unwrap();
        tx.put_role(role, &[], at(time)).await.unwrap();
        let number =
            tx.record_change(&by(time, "role.put", Some(role), 0), &[(role, Some(&[]))], None).await.unwrap();
        assert_eq!(i64::try_from(number).unwrap(), time - 6);
        tx.commit().await.unwrap();
    }
    let mut tx = db.begin_read().await.unwrap();
    let numbers = |changes: Vec<Change>| changes.iter().map(|change| change.number).collect::<Vec<_>>();
    assert_eq!(numbers(tx.changes(None, 9).await.unwrap()), [4, 3, 2, 1]);
    assert_eq!(numbers(tx.changes(None, 2).await.unwrap()), [4, 3]);
    assert_eq!(numbers(tx.changes(Some(3), 9).await.unwrap()), [2, 1]);
    assert_eq!(numbers(tx.changes(Some(u64::MAX), 9).await.unwrap()), [4, 3, 2, 1]);
    let third = Change {
        number: 3,
        at: at(9),
        by_id: "u1".to_owned(),
        by_name: "Ada".to_owned(),
        action: "role.put".to_owned(),
        target: Some("b".to_owned()),
        model_version: 0,
    };
    assert_eq!(tx.change(3).await.unwrap(), Some(third));
    assert_eq!(tx.change(u64::MAX).await.unwrap(), None);
}

async fn a_rollback_leaves_no_change(fixture: &Fixture) {
    let db = fixture.open().await;
    let before = now(&db).await;
    let mut tx = db.begin_write().await.unwrap();
    tx.put_role("a", &[], at(1)).await.unwrap();
    tx.record_change(&by(1, "role.put", Some("a"), 0), &[("a", Some(&[]))], Some("{}")).await.unwrap();
    drop(tx);
    let mut tx = db.begin_write().await.unwrap();
    let twice = [("a", Some::<&[Policy]>(&[])), ("a", None)];
    let error = tx.record_change(&by(1, "schema.import", None, 0), &twice, None).await.unwrap_err();
    assert!(matches!(error, DbError::Conflict(_)), "{error}");
    assert!(tx.commit().await.is_err(), "half of it must not be kept");
    assert_eq!(db.begin_read().await.unwrap().change_number().await.unwrap(), 1);
    assert_eq!(now(&db).await, before);
}

async fn unrecorded_writes_are_added_at_the_next_start(fixture: &Fixture) {
    let db = fixture.open().await;
    for role in ["changed", "deleted", "same"] {
        let policy = Policy { title: role.to_owned(), expression: "true".to_owned(), description: None };
        let written = [(role, Some(std::slice::from_ref(&policy)))];
        let mut tx = db.begin_write().await.unwrap();
        tx.put_role(role, std::slice::from_ref(&policy), at(1)).await.unwrap();
        tx.record_change(&by(1, "role.put", Some(role), 0), &written, Some("{}")).await.unwrap();
        tx.commit().await.unwrap();
    }
    db.close().await;
    fixture
        .run(&[
            "UPDATE role_policies SET expression = 'false' WHERE role = 'changed'",
            "DELETE FROM roles WHERE name = 'deleted'",
            "INSERT INTO roles (name, revision, created_at, updated_at) VALUES ('new', 9, 1, 1)",
            "INSERT INTO access_models (version, document, created_at, created_by_id, created_by_name) \
             VALUES (1, '{\"binding\": null, \"fields\": []}', 2, 'u1', 'Ada')",
        ])
        .await;
    for start in 5..7 {
        // The second start finds no further changes.
        let db = AppDb::open(&fixture.url(), at(start)).await.unwrap();
        let mut tx = db.begin_read().await.unwrap();
        let [newest] = <[Change; 1]>::try_from(tx.changes(None, 1).await.unwrap()).unwrap();
        assert_eq!((newest.number, newest.at, newest.action.as_str()), (5, at(5), "upgrade"));
        let [before, after] = tx.states_around_change(5).await.unwrap().unwrap();
        assert_eq!(before.roles.keys().collect::<Vec<_>>(), ["changed", "deleted"]);
        assert_eq!(after.roles.keys().collect::<Vec<_>>(), ["changed", "new"]);
        assert_eq!((before.model.version, after.model.version), (0, 1));
        assert_eq!(after.roles["changed"][0].expression, "false");
        assert_eq!(tx.model_state(Some(5)).await.unwrap(), tx.model_state(None).await.unwrap());
        drop(tx);
        db.close().await;
    }
}

async fn unreadable_models_do_not_prevent_the_start(fixture: &Fixture) {
    fixture.open().await.close().await;
    fixture
        .run(&["INSERT INTO access_models (version, document, created_at, created_by_id, created_by_name) \
             VALUES (1, 'not a document', 2, 'u1', 'Ada')"])
        .await;
    let db = fixture.open().await;
    let mut tx = db.begin_read().await.unwrap();
    assert!(matches!(tx.model_state(None).await, Err(DbError::Corrupt(_))));
    assert_eq!(tx.change_number().await.unwrap(), 1);
}

async fn members_of_several_roles_are_found_at_once(fixture: &Fixture) {
    let db = fixture.open().await;
    let mut tx = db.begin_write().await.unwrap();
    // More names than fit one statement.
    let names: Vec<String> = (0..10_050).map(|number| format!("r{number:05}")).collect();
    let roles: Vec<(&str, &[Policy])> = names.iter().map(|name| (name.as_str(), &[][..])).collect();
    tx.put_roles(&roles, at(1)).await.unwrap();
    tx.commit().await.unwrap();
    add_user(&db, "u1", "Zoe", &["r00000", "r10049"]).await.unwrap();
    add_user(&db, "u2", "ada", &["r00000", "r00001"]).await.unwrap();
    add_user(&db, "u3", "eve", &["admin"]).await.unwrap();
    let mut tx = db.begin_read().await.unwrap();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let members = tx.members_of_roles(&all).await.unwrap();
    let reported = |role: &str, members: &[&str]| {
        (role.to_owned(), members.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    };
    let expected =
        [reported("r00000", &["ada", "Zoe"]), reported("r00001", &["ada"]), reported("r10049", &["Zoe"])];
    assert_eq!(members, BTreeMap::from(expected));
    assert!(tx.members_of_roles(&[]).await.unwrap().is_empty());
}

/// Listing changes must not read the documents of tests: a change is listed even if its document is unreadable.
#[tokio::test]
async fn lists_do_not_read_test_documents() {
    let fixture = Fixture::sqlite();
    let db = fixture.open().await;
    for (time, tests) in [(1, Some("{}")), (2, Some("{\"tests\": []}")), (3, None), (4, Some(""))] {
        let mut tx = db.begin_write().await.unwrap();
        tx.record_change(&by(time, "model.import", None, 0), &[], tests).await.unwrap();
        tx.commit().await.unwrap();
    }
    db.close().await;
    // A BLOB, which cannot be decoded as text.
    fixture.run(&["UPDATE test_changes SET document = x'ff00' WHERE document <> ''"]).await;
    let db = fixture.open().await;
    let mut tx = db.begin_read().await.unwrap();
    let reported = BTreeMap::from([(2, [false, true]), (3, [true, true]), (5, [true, false])]);
    assert_eq!(tx.written_tests(1, 9).await.unwrap(), reported);
    for number in 1..=5 {
        let alone = tx.written_tests(number, number).await.unwrap();
        assert_eq!(alone.get(&number), reported.get(&number), "change {number}");
    }
    assert!(tx.states_around_change(3).await.is_err(), "there is something to be read");
}

/// Measures how long this machine currently takes to write a hundred records, one statement at a time, in one
/// transaction.
async fn a_hundred_records(db: &AppDb) -> Duration {
    let begun = Instant::now();
    let mut tx = db.begin_write().await.unwrap();
    for number in 0..100 {
        tx.append_audit(&record("control", number, None, "success")).await.unwrap();
    }
    tx.commit().await.unwrap();
    begun.elapsed()
}

/// Prints the figures. The assertion only detects transactions so long that other writers time out. On a slow machine
/// the limit is ten times the time for a hundred records.
async fn a_large_change_is_quick(fixture: &Fixture) {
    let db = fixture.open().await;
    let policies: Vec<Policy> = (0..5)
        .map(|number| Policy {
            title: format!("policy {number}"),
            expression: format!(
                "SpanAttributes[\"team\"] == \"team {number}\" && ServiceName in [\"a\", \"b\"]"
            ),
            description: Some("Spans of a team.".to_owned()),
        })
        .collect();
    let names: Vec<String> = (0..200).map(|number| format!("role{number}")).collect();
    for round in 0..3 {
        let control = a_hundred_records(&db).await;
        let begun = Instant::now();
        let mut tx = db.begin_write().await.unwrap();
        let written: Vec<_> = names.iter().map(|name| (name.as_str(), policies.as_slice())).collect();
        tx.put_roles(&written, at(round)).await.unwrap();
        let roles: Vec<_> = names.iter().map(|name| (name.as_str(), Some(policies.as_slice()))).collect();
        let written = begun.elapsed();
        tx.record_change(&by(round, "schema.import", None, 0), &roles, Some("{}")).await.unwrap();
        tx.commit().await.unwrap();
        let took = begun.elapsed();
        println!(
            "200 roles, 1,000 policies: written in {written:?}, all in {took:?}; 100 records in {control:?}"
        );
        assert!(took < Duration::from_secs(2).max(10 * control), "{took:?}, and 100 records {control:?}");
    }
    let begun = Instant::now();
    let mut tx = db.begin_write().await.unwrap();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(tx.delete_roles(&all).await.unwrap(), 200);
    println!("deleted in {:?}", begun.elapsed());
    drop(tx);
    let begun = Instant::now();
    let mut tx = db.begin_read().await.unwrap();
    let reported = tx.model_state(Some(4)).await.unwrap().unwrap();
    println!("rebuilt in {:?}", begun.elapsed());
    let begun = Instant::now();
    assert!(tx.states_around_change(1).await.unwrap().is_some());
    println!("the description of a small change is read in {:?}", begun.elapsed());
    assert_eq!(reported.roles.values().map(Vec::len).sum::<usize>(), 1_000);
}

//! The history of the access model: every request that changes it makes one entry, with user and content, together with its
//! audit record; a rejected request makes none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::*;
use tracewarden_appdb::AuditFilter;
use tracewarden_model::{Clock as _, Timestamp};
use tracewarden_service::*;
use tracewarden_testkit::wait::until;

on_both_databases!(
    every_request_makes_one_change,
    a_refused_request_makes_no_change,
    change_and_record_appear_together,
    an_export_is_a_snapshot,
    an_import_does_not_overwrite_unnumbered_changes,
    unnumbered_changes_are_numbered_while_the_service_runs,
);

/// Returns action, target, version of binding and fields, and roles of the state, of all changes from the first.
async fn history(fixture: &Fixture) -> Vec<(String, Option<String>, u64, Vec<String>)> {
    let mut tx = fixture.db.begin_read().await.unwrap();
    let mut entries = Vec::new();
    let changes = tx.changes(None, 1_000).await.unwrap();
    for change in changes.into_iter().rev() {
        let state = tx.model_state(Some(change.number)).await.unwrap().unwrap();
        assert_eq!(state.model.version, change.model_version);
        let roles = state.roles.into_keys().collect();
        entries.push((change.action, change.target, change.model_version, roles));
    }
    let now = tx.model_state(None).await.unwrap().unwrap();
    let last = tx.change_number().await.unwrap();
    assert_eq!(
        tx.model_state(Some(last)).await.unwrap().unwrap(),
        now,
        "the history ends with the current model"
    );
    entries
}

async fn every_request_makes_one_change(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let deputy = fixture.user(&admin, "deputy", &["admin"]).await;
    fixture.clock.advance(60);
    let (administrator, other) = (admin.require_admin().unwrap(), deputy.require_admin().unwrap());
    let service = &fixture.service;
    service
        .roles()
        .put_role(&administrator, "pay", vec![policy("ServiceName == \"pay\"")], None)
        .await
        .unwrap();
    service.roles().put_role(&other, "pay", vec![policy("ServiceName == \"cart\"")], None).await.unwrap();
    service
        .roles()
        .put_role(&administrator, "ship", vec![policy("ServiceName == \"ship\"")], None)
        .await
        .unwrap();
    let marks = vec![mark(None, "ServiceName", true, true)];
    service.source().put_fields(&administrator, marks, Some(IfMatch::Versions(vec![2]))).await.unwrap();
    service.roles().delete_role(&other, "pay", None).await.unwrap();
    // Neither change affects the access model.
    fixture.user(&admin, "ada", &["ship"]).await;
    service.users().delete_user(&administrator, "ada", None).await.unwrap();

    let entry = |action: &str, target: Option<&str>, version, roles: &[&str]| {
        let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
        (action.to_owned(), target.map(str::to_owned), version, roles)
    };
    let expected = [
        entry("upgrade", None, 0, &["admin"]),
        entry("schema.put_binding", None, 1, &["admin"]),
        entry("schema.put_fields", None, 2, &["admin"]),
        entry("role.put", Some("pay"), 2, &["admin", "pay"]),
        entry("role.put", Some("pay"), 2, &["admin", "pay"]),
        entry("role.put", Some("ship"), 2, &["admin", "pay", "ship"]),
        entry("schema.put_fields", None, 3, &["admin", "pay", "ship"]),
        entry("role.delete", Some("pay"), 3, &["admin", "ship"]),
    ];
    assert_eq!(history(&fixture).await, expected);
    let mut tx = fixture.db.begin_read().await.unwrap();
    let by = |principal: &Principal| (principal.user_id().to_owned(), principal.username().to_owned());
    for (number, who) in [(4, &admin), (5, &deputy), (8, &deputy)] {
        let change = tx.change(number).await.unwrap().unwrap();
        assert_eq!((change.by_id, change.by_name), by(who), "change {number}");
        assert_eq!(change.at, fixture.clock.now(), "change {number}");
    }
    let earlier = tx.model_state(Some(4)).await.unwrap().unwrap();
    assert_eq!(earlier.roles["pay"], [policy("ServiceName == \"pay\"")], "as it was before the deputy came");
    drop(tx);
    for entry in fixture.audit(&admin).await {
        let concerned = entry.action.starts_with("role.") || entry.action.starts_with("schema.put");
        assert_eq!(entry.detail.get("version").is_some(), concerned, "{entry:?}");
    }
}

async fn a_refused_request_makes_no_change(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    let service = &fixture.service;
    let pay = || vec![policy("ServiceName == \"pay\"")];
    service.roles().put_role(&administrator, "pay", pay(), None).await.unwrap();
    let before = history(&fixture).await;
    let stale = || Some(IfMatch::Versions(vec![99]));
    let refused = [
        code(service.roles().put_role(&administrator, "pay", vec![policy("Missing == 1")], None).await),
        code(service.roles().put_role(&administrator, "pay", pay(), stale()).await),
        code(service.roles().put_role(&administrator, "No Name", pay(), None).await),
        code(service.roles().delete_role(&administrator, "pay", stale()).await),
        code(service.roles().delete_role(&administrator, "ghost", None).await),
        code(service.roles().delete_role(&administrator, "admin", None).await),
        code(service.source().put_binding(&administrator, otel_binding(), stale()).await),
        code(service.source().put_fields(&administrator, vec![], Some(IfMatch::Versions(vec![2]))).await),
    ];
    let expected = [
        "policy_invalid",
        "precondition_failed",
        "invalid_value",
        "precondition_failed",
        "not_found",
        "conflict",
        "precondition_failed",
        "conflict",
    ];
    assert_eq!(refused, expected);
    assert_eq!(history(&fixture).await, before);
}

/// A concurrent reader, in snapshots of its own, sees each change with its record or neither.
async fn change_and_record_appear_together(database: DatabaseKind) {
    let fixture = Arc::new(fixture_on(database, Settings::default()).await);
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let done = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (fixture, done) = (Arc::clone(&fixture), Arc::clone(&done));
        tokio::spawn(async move {
            let mut seen = Vec::new();
            while !done.load(Ordering::SeqCst) {
                let mut tx = fixture.db.begin_read().await.unwrap();
                let changes = tx.changes(None, 1_000).await.unwrap();
                // The first change belongs to the schema.
                let changes: Vec<u64> =
                    changes.iter().map(|change| change.number).filter(|number| *number > 1).collect();
                let records = tx.audit_records(&AuditFilter::default(), u32::MAX).await.unwrap();
                let recorded: Vec<u64> = records
                    .iter()
                    .filter_map(|record| {
                        let detail: serde_json::Value = serde_json::from_str(&record.detail).unwrap();
                        detail.get("version").filter(|_| detail.get("changes").is_none())?.as_u64()
                    })
                    .collect();
                assert_eq!(changes, recorded);
                seen.push(changes.len());
                tokio::task::yield_now().await;
            }
            seen.dedup();
            seen
        })
    };
    let administrator = admin.require_admin().unwrap();
    for round in 0..30 {
        let name = format!("role{}", round % 3);
        let policies = vec![policy(&format!("ServiceName == \"{round}\""))];
        fixture.service.roles().put_role(&administrator, &name, policies, None).await.unwrap();
        if round % 4 == 3 {
            fixture.service.roles().delete_role(&administrator, &name, None).await.unwrap();
        }
    }
    done.store(true, Ordering::SeqCst);
    let seen = watcher.await.unwrap();
    assert!(seen.len() > 5, "reads overlapped with changes: {seen:?}");
}

/// Writes a role like a program of a version before the history.
async fn write_without_a_number(db: &AppDb, expression: &str) {
    let mut tx = db.begin_write().await.unwrap();
    tx.put_role("pay", &[policy(expression)], Timestamp::from_micros(1)).await.unwrap();
    tx.commit().await.unwrap();
}

/// The exported version belongs to the exported file: importing the file under it reverts no change.
async fn an_export_is_a_snapshot(database: DatabaseKind) {
    let fixture =
        Arc::new(fixture_on(database, Settings { discovery_samples: false, ..Settings::default() }).await);
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (fixture, admin, done) = (Arc::clone(&fixture), admin.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            let administrator = admin.require_admin().unwrap();
            let mut round = 0;
            while !done.load(Ordering::SeqCst) {
                let policies = vec![policy(&format!("ServiceName == \"{round}\""))];
                fixture.service.roles().put_role(&administrator, "pay", policies, None).await.unwrap();
                round += 1;
            }
        })
    };
    let administrator = admin.require_admin().unwrap();
    let (begun, mut exports, mut seen) = (Instant::now(), 0, BTreeSet::new());
    let in_time = || begun.elapsed() < Duration::from_secs(60);
    // With a slow disk there are few changes in the time of many exports.
    while seen.len() <= 20 || (seen.len() <= 100 && exports < 2_000 && in_time()) {
        assert!(seen.len() > 20 || in_time(), "hardly any change was made: {}", seen.len());
        exports += 1;
        let exported = fixture.service.model_files().export_model(&administrator).await.unwrap();
        let of_change =
            fixture.db.begin_read().await.unwrap().model_state(Some(exported.version)).await.unwrap();
        assert_eq!(Some(exported.state), of_change, "version {}", exported.version);
        seen.insert(exported.version);
    }
    done.store(true, Ordering::SeqCst);
    writer.await.unwrap();
}

/// Tests during which a replica of an earlier version changes a role; the test document contains the database's URL.
fn meanwhile(state: &ModelState, _: &AtomicBool) -> Result<TestRun, Vec<FieldError>> {
    tokio::runtime::Handle::current().block_on(async {
        let db = AppDb::open(&state.tests, Timestamp::from_micros(1)).await.unwrap();
        write_without_a_number(&db, "ServiceName == \"older\"").await;
    });
    Ok(TestRun::default())
}

async fn an_import_does_not_overwrite_unnumbered_changes(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    let service = &fixture.service;
    service
        .roles()
        .put_role(&administrator, "pay", vec![policy("ServiceName == \"pay\"")], None)
        .await
        .unwrap();
    let ExportedModel { version, state } = service.model_files().export_model(&administrator).await.unwrap();
    let file = || {
        let mut file = ModelFile { tests: fixture.url.clone(), ..ModelFile::from(state.clone()) };
        file.roles.push(("new".to_owned(), vec![policy("ServiceName == \"new\"")]));
        file
    };
    let if_match = || Some(IfMatch::Versions(vec![version]));
    let refused = service.model_files().import_model(&administrator, file(), if_match(), meanwhile).await;
    assert_eq!(code(refused), "precondition_failed");
    let record = fixture.last_audit(&admin).await;
    assert_eq!((record.action.as_str(), record.outcome.as_str()), ("model.import", "failed"));
    let now = service.model_files().export_model(&administrator).await.unwrap();
    assert_eq!(now.version, version, "the version does not reveal it");
    assert_eq!(now.state.roles["pay"], [policy("ServiceName == \"older\"")]);
    assert!(!now.state.roles.contains_key("new"));
}

async fn unnumbered_changes_are_numbered_while_the_service_runs(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    let service = &fixture.service;
    service
        .roles()
        .put_role(&administrator, "pay", vec![policy("ServiceName == \"pay\"")], None)
        .await
        .unwrap();
    let before = service.model_files().export_model(&administrator).await.unwrap().version;
    write_without_a_number(&fixture.db, "ServiceName == \"older\"").await;
    fixture.clock.advance(60);

    let version = async || service.model_files().export_model(&administrator).await.unwrap().version;
    let numbered = async {
        until(version, |version| *version != before).await;
    };
    service.maintenance().maintain(numbered).await;
    let entry =
        service.model_files().model_history(&administrator, None, Some(1)).await.unwrap().changes.remove(0);
    assert_eq!((entry.version, entry.action.as_str()), (before + 1, "upgrade"));
    assert_eq!((entry.by.username.as_str(), entry.at), ("", fixture.clock.now()));
    assert_eq!(entry.summary, ["role `pay`: policy `a policy` changed"]);
    assert!(!service.maintenance().number_changes_once().await.unwrap(), "there is nothing more");
    assert_eq!(history(&fixture).await.len(), 5);
}

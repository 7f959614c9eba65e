//! The version of the access model: every change increments it by one; a request without a change does not; and all answers
//! show the same number.

use std::sync::Arc;

use crate::support::*;
use futures::future::join_all;
use tracewarden_model::Clock as _;
use tracewarden_service::*;

on_both_databases!(
    only_changes_increment_the_version,
    concurrent_changes_increment_the_version_one_by_one,
    a_change_can_require_a_version_of_the_model,
);

fn passing(_: &ModelState, _: &std::sync::atomic::AtomicBool) -> Result<TestRun, Vec<FieldError>> {
    Ok(TestRun::default())
}

fn at(version: u64) -> Option<IfMatch> {
    Some(IfMatch::Versions(vec![version]))
}

/// Returns the version, and checks that all answers agree.
async fn version(fixture: &Fixture, admin: &Principal) -> u64 {
    let (service, administrator) = (&fixture.service, admin.require_admin().unwrap());
    let exported = service.model_files().export_model(&administrator).await.unwrap();
    let newest = service
        .model_files()
        .model_history(&administrator, None, Some(1))
        .await
        .unwrap()
        .changes
        .remove(0)
        .version;
    let plan = service
        .model_files()
        .plan_model(&administrator, ModelFile::from(exported.state), passing, Some(0))
        .await
        .unwrap();
    let shown = [
        exported.version,
        newest,
        plan.version,
        service.traces().filter_schema(admin).await.unwrap().version,
        service.source().access_model(&administrator).await.unwrap().version,
        service.model_files().model_at(&administrator, newest).await.unwrap().entry.version,
        fixture.db.current_model().await.unwrap().version,
    ];
    assert_eq!(shown, [newest; 7]);
    newest
}

async fn only_changes_increment_the_version(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings { discovery_samples: false, ..Settings::default() }).await;
    let admin = fixture.admin().await;
    let (service, administrator) = (&fixture.service, admin.require_admin().unwrap());
    let mut expected = version(&fixture, &admin).await;
    assert_eq!(expected, 1, "the history begins with the existing model");
    let revision = || async { service.source().access_model(&administrator).await.unwrap().model.version };
    let role = |title: &str, expression: &str| vec![Policy { title: title.to_owned(), ..policy(expression) }];
    let marks = || vec![mark(None, "ServiceName", true, true)];
    let file = |tests: &str, more: &[&str]| {
        let (tests, more) =
            (tests.to_owned(), more.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        async move {
            let state = service.model_files().export_model(&administrator).await.unwrap().state;
            let mut file = ModelFile { tests, ..ModelFile::from(state) };
            for name in more {
                file.roles.push((name, role("more", "true == true")));
            }
            file
        }
    };
    for (what, raises) in [
        ("a binding", 1),
        ("the same binding", 0),
        ("fields", 1),
        ("the same fields", 0),
        ("a new role", 1),
        ("the same role", 0),
        ("another policy", 1),
        ("another title", 1),
        ("a description", 1),
        ("the same description", 0),
        ("a user with the role", 0),
        ("a refused role", 0),
        ("a file with tests", 1),
        ("the same file", 0),
        ("a file with two roles", 1),
        ("a restored version", 1),
        ("the version in force, restored", 0),
        ("a deleted role", 1),
        ("a role that is not there, deleted", 0),
        ("no fields", 1),
        ("no fields again", 0),
    ] {
        let tag = || async { at(revision().await) };
        let described = || vec![Policy { description: Some("why".to_owned()), ..policy("true == true") }];
        match what {
            "a binding" => {
                drop(service.source().put_binding(&administrator, otel_binding(), None).await.unwrap())
            }
            "the same binding" => {
                drop(
                    service.source().put_binding(&administrator, otel_binding(), tag().await).await.unwrap(),
                );
            }
            "fields" | "the same fields" => {
                drop(service.source().put_fields(&administrator, marks(), tag().await).await.unwrap());
            }
            "a new role" | "the same role" => {
                let before =
                    service.roles().role(&administrator, "pay").await.map(|found| found.role.revision).ok();
                let put = service
                    .roles()
                    .put_role(&administrator, "pay", role("a", "true == true"), None)
                    .await
                    .unwrap();
                assert_eq!(put.created, before.is_none());
                assert!(before.is_none_or(|before| before == put.revision), "its tag stays, too");
            }
            "another policy" => {
                drop(
                    service
                        .roles()
                        .put_role(&administrator, "pay", role("a", "false == true"), None)
                        .await
                        .unwrap(),
                );
            }
            "another title" => {
                drop(
                    service
                        .roles()
                        .put_role(&administrator, "pay", role("b", "false == true"), None)
                        .await
                        .unwrap(),
                );
            }
            "a description" | "the same description" => {
                drop(service.roles().put_role(&administrator, "pay", described(), None).await.unwrap());
            }
            "a user with the role" => drop(fixture.user(&admin, "ada", &["pay"]).await),
            "a refused role" => {
                assert!(
                    service
                        .roles()
                        .put_role(&administrator, "pay", role("a", "nothing == 1"), None)
                        .await
                        .is_err()
                );
            }
            "a file with tests" | "the same file" => {
                let file = file("{}", &[]).await;
                let done = service
                    .model_files()
                    .import_model(&administrator, file, at(expected), passing)
                    .await
                    .unwrap();
                assert_eq!(done.version, expected + raises, "{what}");
            }
            "a file with two roles" => {
                let file = file("{}", &["one", "two"]).await;
                let done = service
                    .model_files()
                    .import_model(&administrator, file, at(expected), passing)
                    .await
                    .unwrap();
                assert_eq!(done.version, expected + raises, "{what}");
            }
            "a restored version" | "the version in force, restored" => {
                let before = if raises == 1 { expected - 1 } else { expected };
                let done = service
                    .model_files()
                    .restore_model(&administrator, before, at(expected), passing)
                    .await
                    .unwrap();
                assert_eq!(done.version, expected + raises, "{what}");
            }
            "a deleted role" => service.roles().delete_role(&administrator, "pay", None).await.unwrap(),
            "a role that is not there, deleted" => {
                assert_eq!(
                    code(service.roles().delete_role(&administrator, "ghost", None).await),
                    "not_found"
                );
            }
            "no fields" | "no fields again" => {
                drop(service.source().put_fields(&administrator, vec![], tag().await).await.unwrap());
            }
            other => panic!("{other}"),
        }
        expected += raises;
        assert_eq!(version(&fixture, &admin).await, expected, "{what}");
        let records = fixture.audit(&admin).await;
        let record =
            records.iter().find(|record| record.outcome == "success" && record.detail["version"].is_u64());
        assert!(record.is_none_or(|record| record.detail["version"] == expected), "{what}: {record:?}");
    }
    assert_eq!(
        service.model_files().model_history(&administrator, None, Some(100)).await.unwrap().changes.len()
            as u64,
        expected
    );
}

async fn concurrent_changes_increment_the_version_one_by_one(database: DatabaseKind) {
    let fixture = Arc::new(fixture_on(database, Settings::default()).await);
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let before = version(&fixture, &admin).await;
    let other = fixture.replica(Settings::default()).await;
    let administrator = admin.require_admin().unwrap();
    // Each of four roles is put three times with the same content: by two replicas, concurrently.
    let puts = (0..12).map(|number| {
        let service = if number % 2 == 0 { &fixture.service } else { &other };
        let name = format!("role{}", number % 4);
        let administrator = &administrator;
        async move {
            let policies = vec![policy(&format!("ServiceName == \"{name}\""))];
            service.roles().put_role(administrator, &name, policies, None).await.unwrap().created
        }
    });
    let created = join_all(puts).await.into_iter().filter(|created| *created).count();
    assert_eq!(created, 4);
    assert_eq!(version(&fixture, &admin).await, before + 4);
    for service in [&fixture.service, &other] {
        assert_eq!(service.traces().filter_schema(&admin).await.unwrap().version, before + 4);
    }
}

async fn a_change_can_require_a_version_of_the_model(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let (service, administrator) = (&fixture.service, admin.require_admin().unwrap());
    let whole = |version, tags| Some(IfMatch::AtVersion { version, tags });
    let marks = || vec![mark(None, "ServiceName", true, true)];
    service
        .roles()
        .put_role(&administrator, "pay", vec![policy("ServiceName == \"pay\"")], None)
        .await
        .unwrap();
    let now = version(&fixture, &admin).await;
    let tag = service.source().access_model(&administrator).await.unwrap().model.version;
    assert_ne!(now, tag, "a role changes the model, and not the tag of binding and fields");
    for stale in [whole(tag, None), whole(now - 1, None), whole(now, Some(vec![now])), whole(now + 1, None)] {
        let refused = service.source().put_fields(&administrator, marks(), stale.clone()).await;
        assert_eq!(code(refused), "precondition_failed", "{stale:?}");
        let refused = service.source().put_binding(&administrator, otel_binding(), stale.clone()).await;
        assert_eq!(code(refused), "precondition_failed", "{stale:?}");
    }
    assert_eq!(version(&fixture, &admin).await, now);
    let done =
        service.source().put_fields(&administrator, marks(), whole(now, Some(vec![tag]))).await.unwrap();
    assert_eq!(done.version, now + 1);
    let done = service.source().put_fields(&administrator, vec![], whole(now + 1, None)).await;
    assert_eq!(code(done), "conflict", "the role needs its field");
    let file = ModelFile::from(service.model_files().export_model(&administrator).await.unwrap().state);
    assert_eq!(
        code(
            service.model_files().import_model(&administrator, file.clone(), whole(now, None), passing).await
        ),
        "precondition_failed"
    );
    assert_eq!(
        service
            .model_files()
            .import_model(&administrator, file, whole(now + 1, None), passing)
            .await
            .unwrap()
            .version,
        now + 1
    );

    // Another replica stores a role after the version was checked: the change is rejected, because it named the earlier
    // version.
    let mut writer = fixture.other_writer().await;
    let source = service.source();
    let put = source.put_fields(
        &administrator,
        vec![mark(None, "ServiceName", true, true), mark(None, "Duration", true, false)],
        whole(now + 1, None),
    );
    let meanwhile = async {
        writer.wait_for_waiting_writers(1).await;
        let policies = [policy("ServiceName == \"other\"")];
        writer.tx.put_role("other", &policies, fixture.clock.now()).await.unwrap();
        let change = tracewarden_appdb::NewChange {
            at: fixture.clock.now(),
            by: ("", ""),
            action: "role.put",
            target: Some("other"),
            model_version: writer.tx.access_model().await.unwrap().version,
        };
        writer.tx.record_change(&change, &[("other", Some(&policies))], None).await.unwrap();
        writer.tx.commit().await.unwrap();
    };
    let (refused, ()) = futures::join!(put, meanwhile);
    assert_eq!(code(refused), "precondition_failed");
    assert_eq!(version(&fixture, &admin).await, now + 2);
}

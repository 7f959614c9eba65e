//! A caller who is revoked between authentication and effect is rejected. A principal that a test keeps while it changes the
//! principal's origin represents a request in progress.

use std::time::Duration;

use crate::support::*;
use secrecy::ExposeSecret as _;
use tracewarden_model::{Clock as _, Decimal, FieldRef, Filter, RawCondition, Scalar};
use tracewarden_service::*;
use tracewarden_testkit::wait::until;

on_both_databases!(
    a_revoked_administrator_changes_nothing,
    a_demoted_administrator_gets_no_counts,
    a_revoked_caller_cannot_change_their_account,
    a_revoked_reader_reads_nothing,
    a_reader_who_is_revoked_during_preparation_reads_nothing,
    a_key_that_expires_during_preparation_reads_nothing,
    a_change_during_preparation_is_applied,
    changed_attributes_during_preparation_are_applied,
    reads_fail_while_access_keeps_changing,
    a_read_whose_caller_has_gone_does_not_begin,
    a_disconnect_at_any_time_leaves_no_open_record,
);

fn ids() -> QueryRequest {
    QueryRequest { view: View::Ids, ..QueryRequest::default() }
}

/// A query that requests columns from ClickHouse after its access was decided, so that a gate can hold it there.
fn query_with_columns() -> QueryRequest {
    QueryRequest { columns: Some(vec!["ServiceName".to_owned()]), ..ids() }
}

fn change() -> UserChange {
    UserChange::default()
}

/// All ways to lose administrator rights, with the answer to a request that began before.
async fn a_revoked_administrator_changes_nothing(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let boss = fixture.admin().await;
    fixture.bind(&boss).await;
    let service = &fixture.service;
    let over = boss.require_admin().unwrap();
    service.roles().put_role(&over, "pay", vec![policy("ServiceName == \"pay\"")], None).await.unwrap();
    fixture.user(&boss, "victim", &[]).await;
    for (number, (way, by_key, expected)) in [
        ("demote", false, "forbidden"),
        ("disable", false, "unauthenticated"),
        // The keys of a disabled user remain.
        ("disable", true, "unauthenticated"),
        ("delete", false, "unauthenticated"),
        ("end", false, "unauthenticated"),
        ("rotate", false, "unauthenticated"),
        ("revoke", true, "unauthenticated"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("deputy{number}");
        let mut deputy = fixture.user(&boss, &name, &["admin"]).await;
        if by_key {
            deputy = fixture.principal(&fixture.api_key(&deputy).await).await;
        }
        let administrator = deputy.require_admin().unwrap();
        match way {
            "demote" => {
                let roles = UserChange { roles: Some(set(&[])), ..change() };
                service.users().update_user(&over, &name, roles, None).await.map(drop)
            }
            "disable" => {
                let disabled = UserChange { disabled: Some(true), ..change() };
                service.users().update_user(&over, &name, disabled, None).await.map(drop)
            }
            "delete" => service.users().delete_user(&over, &name, None).await,
            "end" => service.users().end_user_sessions(&over, &name, None).await,
            "rotate" => service.users().rotate_password(&over, &name).await.map(drop),
            _ => service.users().revoke_user_api_keys(&over, &name, None).await,
        }
        .unwrap();
        let before = fixture.audit(&boss).await.len();
        let role = vec![policy("ServiceName == \"all\"")];
        let attributes = UserChange { attributes: Some(team("x")), ..change() };
        let new = NewUser { username: "eve".to_owned(), ..NewUser::default() };
        let fields = vec![mark(None, "ServiceName", true, true)];
        let version = || Some(IfMatch::Versions(vec![2]));
        let mut answers = vec![
            code(service.roles().put_role(&administrator, "pay", role, None).await),
            code(service.roles().delete_role(&administrator, "pay", None).await),
            code(service.users().create_user(&administrator, new).await),
            code(service.users().update_user(&administrator, "victim", attributes, None).await),
            code(service.users().rotate_password(&administrator, "victim").await),
            code(service.users().end_user_sessions(&administrator, "victim", None).await),
            code(service.users().revoke_user_api_keys(&administrator, "victim", None).await),
            code(service.users().delete_user(&administrator, "victim", None).await),
            code(service.source().put_fields(&administrator, fields, version()).await),
            code(service.source().put_binding(&administrator, otel_binding(), version()).await),
        ];
        answers.push(code(service.source().table(&administrator, "otel", "otel_traces").await));
        if !by_key {
            let preview = PreviewRequest::RolesAndAttributes { roles: set(&["pay"]), attributes: None };
            answers.push(code(service.account().set_preview(&administrator, preview).await));
        }
        assert!(answers.iter().all(|answer| *answer == expected), "{way}: {answers:?}");
        let records = fixture.audit(&boss).await;
        let (refused, _) = records.split_at(records.len() - before);
        assert_eq!(refused.len(), answers.len(), "each denial has its record");
        assert!(refused.iter().all(|record| record.outcome == "denied"), "{way}: {refused:?}");
    }
    assert_eq!(service.source().access_model(&over).await.unwrap().model.version, 2);
    assert_eq!(
        service.roles().role(&over, "pay").await.unwrap().role.policies,
        [policy("ServiceName == \"pay\"")]
    );
    let victim = service.users().user(&over, "victim").await.unwrap();
    assert_eq!((victim.attributes.0, victim.must_change_password), (team("payments"), false));
    assert_eq!(service.users().user_sessions(&over, "victim").await.unwrap().len(), 1);
    assert_eq!(code(service.users().user(&over, "eve").await), "not_found");
}

/// Administrators get data about traces that they may not read only under their current permission.
async fn a_demoted_administrator_gets_no_counts(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let boss = fixture.admin().await;
    fixture.bind(&boss).await;
    let service = &fixture.service;
    let over = boss.require_admin().unwrap();
    service.roles().put_role(&over, "pay", vec![policy("ServiceName == \"pay\"")], None).await.unwrap();
    fixture.user(&boss, "victim", &["pay"]).await;
    // The user may still read the trace, like all users with the role.
    let deputy = fixture.user(&boss, "deputy", &["admin", "pay"]).await;
    let administrator = deputy.require_admin().unwrap();
    fixture.store.set(|answers| {
        answers.selected = vec![("t1".to_owned(), 10, 2)];
        answers.found = (2, 1);
    });
    let roles = UserChange { roles: Some(set(&["pay"])), ..change() };
    service.users().update_user(&over, "deputy", roles, None).await.unwrap();
    let before = (fixture.audit(&boss).await.len(), fixture.store.lookups());

    let policies = Some(vec![policy("true")]);
    let by = Some("ServiceName".to_owned());
    let preview = PolicyPreviewRequest {
        role: "pay".to_owned(),
        policies: policies.clone(),
        by: by.clone(),
        ..PolicyPreviewRequest::default()
    };
    let collateral_access =
        PolicyPreviewRequest { role: "pay".to_owned(), by, ..PolicyPreviewRequest::default() };
    let mut file = ModelFile::from(service.model_files().export_model(&over).await.unwrap().state);
    file.roles.retain(|(name, _)| name != "pay");
    let answers = [
        code(service.traces().explain(&deputy, "t1", Some("victim"), None).await),
        code(service.analysis().viewers(&administrator, "t1").await),
        code(service.analysis().preview_policies(&administrator, preview).await),
        code(service.analysis().collateral_access(&administrator, collateral_access).await),
        code(
            service.model_files().plan_model(&administrator, file, |_, _| Ok(TestRun::default()), None).await,
        ),
    ];
    assert_eq!(answers, ["forbidden"; 5]);
    let records = fixture.audit(&boss).await;
    let refused: Vec<_> = records[..records.len() - before.0]
        .iter()
        .rev()
        .map(|record| {
            assert_eq!(record.actor.username.as_deref(), Some("deputy"));
            assert!(record.completed_at.is_none(), "nothing was begun: {record:?}");
            (record.action.as_str(), record.outcome.as_str(), record.detail["code"].as_str())
        })
        .collect();
    let expected =
        ["traces.explain", "traces.explain", "policy.preview", "policy.collateral_access", "model.plan"];
    assert_eq!(refused, expected.map(|action| (action, "denied", Some("forbidden"))));
    assert_eq!(fixture.store.lookups(), before.1, "no trace was read");
}

async fn a_revoked_caller_cannot_change_their_account(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    let ada = fixture.user(&admin, "ada", &[]).await;
    let service = &fixture.service;
    let kept = fixture.principal(&fixture.sign_in("ada", USER_PASSWORD).await.unwrap()).await;
    let token = fixture.api_key(&kept).await;
    let by_key = fixture.principal(&token).await;
    let key = service.account().my_api_keys(&kept).await.unwrap()[0].id.clone();
    service.users().end_user_sessions(&administrator, "ada", Some(ada.credential_id())).await.unwrap();

    let new = NewApiKey { name: "late".to_owned(), expires_at: None, policy: None, tools: None };
    assert_eq!(code(service.account().create_api_key(&ada, new).await), "unauthenticated");
    assert_eq!(code(service.account().revoke_my_api_key(&ada, &key).await), "unauthenticated");
    assert_eq!(code(service.account().end_my_session(&ada, kept.credential_id()).await), "unauthenticated");
    let (old, new) = (USER_PASSWORD.to_owned().into(), "a password of a thief".to_owned().into());
    assert_eq!(code(service.account().change_password(&ada, old, new).await), "unauthenticated");
    assert_eq!(code(service.account().sign_out(&ada).await), "unauthenticated");
    assert_eq!(service.account().my_api_keys(&kept).await.unwrap().len(), 1);
    fixture.sign_in("ada", USER_PASSWORD).await.unwrap();

    let created = service.users().rotate_password(&administrator, "ada").await.unwrap();
    let session = fixture.sign_in("ada", created.expose_secret()).await.unwrap();
    assert_eq!(code(service.core().authenticate(&session, info()).await), "password_change_required");
    assert_eq!(code(service.account().revoke_my_api_key(&by_key, &key).await), "password_change_required");
}

struct ReadFixture {
    fixture: Fixture,
    admin: Principal,
    reader: Principal,
    key: Principal,
    /// Token of `key`.
    token: Credential,
}

async fn reading(database: DatabaseKind) -> ReadFixture {
    // Every request to ClickHouse is held or counted: without samples, advice on roles makes none.
    let fixture = fixture_on(database, Settings { discovery_samples: false, ..Settings::default() }).await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    fixture
        .service
        .roles()
        .put_role(&administrator, "pay", vec![policy("ServiceName == \"pay\"")], None)
        .await
        .unwrap();
    let reader = fixture.user(&admin, "ada", &["pay"]).await;
    let token = fixture.api_key(&reader).await;
    let key = fixture.principal(&token).await;
    fixture.store.set(|answers| answers.selected = vec![("t1".to_owned(), 10, 2)]);
    ReadFixture { fixture, admin, reader, key, token }
}

impl ReadFixture {
    async fn revoke(&self, caller: &Principal) {
        let administrator = self.admin.require_admin().unwrap();
        match caller.auth() {
            AuthKind::Session => {
                self.fixture.service.users().end_user_sessions(&administrator, "ada", None).await.unwrap()
            }
            AuthKind::ApiKey => {
                self.fixture.service.users().revoke_user_api_keys(&administrator, "ada", None).await.unwrap()
            }
            // The tests in `crates/tracewarden/tests/identity` have a provider.
            AuthKind::AccessToken => {}
        }
    }

    /// Checks the record after the revocation, and that nothing was started.
    async fn assert_refused(&self, action: &str, lookups: usize) {
        assert_eq!(self.fixture.store.lookups(), lookups, "no trace was looked up");
        let record = self.fixture.last_audit(&self.admin).await;
        assert_eq!((record.action.as_str(), record.outcome.as_str()), (action, "denied"), "{record:?}");
        assert_eq!(record.detail["code"], "unauthenticated");
        assert!(record.completed_at.is_none(), "nothing was begun");
    }

    /// Starts a query that the gate holds where its access is decided, runs `meanwhile`, and lets the query continue.
    async fn query_during<F: Future<Output = ()>>(
        &self,
        caller: &Principal,
        request: QueryRequest,
        meanwhile: impl Fn() -> F,
        rounds: usize,
    ) -> Result<QueryAnswer, ServiceError> {
        let gate = Gate::closed();
        self.fixture.store.set(|answers| answers.gate = Some(gate.clone()));
        let (service, caller) = (self.fixture.service.clone(), caller.clone());
        let query = tokio::spawn(async move { service.traces().query(&caller, request).await });
        for _ in 0..rounds {
            let reached = tokio::time::timeout(Duration::from_secs(60), gate.reached()).await;
            reached.expect("the query is prepared once more");
            meanwhile().await;
            gate.let_one_through();
        }
        self.fixture.store.set(|answers| answers.gate = None);
        for _ in 0..100 {
            gate.let_one_through();
        }
        query.await.unwrap()
    }

    /// Returns the last statement about traces.
    fn selection(&self) -> String {
        let statements = self.fixture.store.answers.lock().unwrap().statements.clone();
        statements.into_iter().rev().find(|statement| !statement.contains("system.")).unwrap()
    }

    /// Returns the number of requests for columns: one for each time that a query was prepared.
    fn column_requests(&self) -> usize {
        let answers = self.fixture.store.answers.lock().unwrap();
        answers.statements.iter().filter(|statement| statement.contains("system.columns")).count()
    }
}

async fn a_revoked_reader_reads_nothing(database: DatabaseKind) {
    let reading = reading(database).await;
    let service = &reading.fixture.service;
    for caller in [&reading.reader, &reading.key] {
        service.traces().query(caller, ids()).await.unwrap();
        reading.revoke(caller).await;
        let lookups = reading.fixture.store.lookups();
        assert_eq!(code(service.traces().query(caller, ids()).await), "unauthenticated");
        reading.assert_refused("traces.query", lookups).await;
        assert_eq!(code(service.traces().trace(caller, "t1").await), "unauthenticated");
        reading.assert_refused("traces.get", lookups).await;
    }
}

async fn a_reader_who_is_revoked_during_preparation_reads_nothing(database: DatabaseKind) {
    let reading = reading(database).await;
    for caller in [&reading.reader, &reading.key] {
        let lookups = reading.fixture.store.lookups();
        let answer = reading.query_during(caller, query_with_columns(), || reading.revoke(caller), 1).await;
        assert_eq!(code(answer), "unauthenticated");
        reading.assert_refused("traces.query", lookups).await;
    }
}

/// Nothing is written when a key expires, so that no epoch tells.
async fn a_key_that_expires_during_preparation_reads_nothing(database: DatabaseKind) {
    let reading = reading(database).await;
    let expires_at = Some(reading.fixture.clock.now().saturating_add(100 * SECOND));
    let new = NewApiKey { name: "short".to_owned(), expires_at, policy: None, tools: None };
    let created = reading.fixture.service.account().create_api_key(&reading.reader, new).await.unwrap();
    let key = reading.fixture.principal(&Credential::ApiKey(created.token)).await;
    let lookups = reading.fixture.store.lookups();
    let expire = || async { reading.fixture.clock.advance(100) };
    let answer = reading.query_during(&key, query_with_columns(), expire, 1).await;
    assert_eq!(code(answer), "unauthenticated");
    reading.assert_refused("traces.query", lookups).await;
}

async fn a_change_during_preparation_is_applied(database: DatabaseKind) {
    let reading = reading(database).await;
    let administrator = reading.admin.require_admin().unwrap();
    let service = &reading.fixture.service;
    // Another policy: the page is selected by the new one.
    let narrow = || async {
        let policies = vec![policy("ServiceName == \"narrow\"")];
        service.roles().put_role(&administrator, "pay", policies, None).await.unwrap();
    };
    reading.query_during(&reading.reader, query_with_columns(), narrow, 1).await.unwrap();
    let selection = reading.selection();
    assert!(selection.contains("narrow") && !selection.contains("pay"), "{selection}");
    let record = reading.fixture.last_audit(&reading.admin).await;
    let revision = service.roles().role(&administrator, "pay").await.unwrap().role.revision;
    assert_eq!((&record.detail["roles"]["pay"], record.outcome.as_str()), (&revision.into(), "success"));

    // No role any more: the page is empty, and ClickHouse is not queried for traces.
    let lookups = reading.fixture.store.lookups();
    let demote = || async {
        let roles = UserChange { roles: Some(set(&[])), ..change() };
        service.users().update_user(&administrator, "ada", roles, None).await.unwrap();
    };
    let answer = reading.query_during(&reading.reader, query_with_columns(), demote, 1).await.unwrap();
    assert_eq!((answer.traces, reading.fixture.store.lookups()), (0, lookups));

    // The field is unmarked in the meantime: the filter is checked again.
    let unmark = || async {
        // This change requests columns too, and the held request is at the gate already.
        reading.fixture.store.set(|answers| answers.gate = None);
        let version = service.source().access_model(&administrator).await.unwrap().model.version;
        let fields = vec![mark(None, "ServiceName", true, true)];
        let stored =
            service.source().put_fields(&administrator, fields, Some(IfMatch::Versions(vec![version]))).await;
        assert_eq!(stored.unwrap().model.version, version + 1);
    };
    let slow = RawCondition {
        field: FieldRef::column("Duration"),
        field_member: "name",
        op: "gte".to_owned(),
        value: Some(Scalar::Number(Decimal::from(5_u64))),
        values: None,
    };
    let request = QueryRequest { filter: Filter::of(vec![slow]), ..query_with_columns() };
    let answer = reading.query_during(&reading.reader, request, unmark, 1).await;
    assert_eq!(code(answer), "unknown_field");
}

/// Roles and model stay the same, but the attributes that the policies compare with change: the caller's, or those of their
/// preview.
async fn changed_attributes_during_preparation_are_applied(database: DatabaseKind) {
    let reading = reading(database).await;
    let administrator = reading.admin.require_admin().unwrap();
    let service = &reading.fixture.service;
    let policies = vec![policy("ServiceName == user.attributes.team")];
    service.roles().put_role(&administrator, "pay", policies, None).await.unwrap();
    let change_team = || async {
        let attributes = UserChange { attributes: Some(team("blue")), ..change() };
        service.users().update_user(&administrator, "ada", attributes, None).await.unwrap();
    };
    reading.query_during(&reading.reader, query_with_columns(), change_team, 1).await.unwrap();
    let selection = reading.selection();
    assert!(selection.contains("blue") && !selection.contains("payments"), "{selection}");

    let preview = async |name: &str| {
        let request =
            PreviewRequest::RolesAndAttributes { roles: set(&["pay"]), attributes: Some(team(name)) };
        service.account().set_preview(&administrator, request).await.unwrap();
    };
    preview("azure").await;
    reading.query_during(&reading.admin, query_with_columns(), || preview("crimson"), 1).await.unwrap();
    let selection = reading.selection();
    assert!(selection.contains("crimson") && !selection.contains("azure"), "{selection}");
}

async fn reads_fail_while_access_keeps_changing(database: DatabaseKind) {
    let reading = reading(database).await;
    let administrator = reading.admin.require_admin().unwrap();
    let lookups = reading.fixture.store.lookups();
    let touches = std::sync::atomic::AtomicU32::new(0);
    let touch = || async {
        let touch = touches.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let policies = vec![policy(&format!("ServiceName in [\"pay\", \"{touch}\"]"))];
        reading.fixture.service.roles().put_role(&administrator, "pay", policies, None).await.unwrap();
    };
    let answer = reading.query_during(&reading.reader, query_with_columns(), touch, 4).await;
    assert_eq!(code(answer), "unavailable");
    assert_eq!(reading.fixture.store.lookups(), lookups);
    assert_eq!(reading.fixture.last_audit(&reading.admin).await.outcome, "failed");
    // Updates of the last use and of the last sign-in have no effect: the query is prepared once.
    let use_key = || async {
        reading.fixture.clock.advance(61);
        reading.fixture.principal(&reading.token).await;
        reading.fixture.sign_in("ada", USER_PASSWORD).await.unwrap();
    };
    let before = reading.column_requests();
    reading.fixture.service.traces().query(&reading.key, query_with_columns()).await.unwrap();
    let undisturbed = reading.column_requests() - before;
    let answer = reading.query_during(&reading.key, query_with_columns(), use_key, 1).await;
    assert_eq!(answer.unwrap().traces, 1);
    assert_eq!(reading.column_requests() - before, 2 * undisturbed);
}

async fn a_read_whose_caller_has_gone_does_not_begin(database: DatabaseKind) {
    let reading = reading(database).await;
    let before = reading.fixture.audit(&reading.admin).await.len();
    // An earlier writer, which the record waits for.
    let writer = reading.fixture.other_writer().await;
    let (service, reader) = (reading.fixture.service.clone(), reading.reader.clone());
    let query = tokio::spawn(async move { service.traces().query(&reader, ids()).await });
    writer.wait_for_waiting_writers(1).await;
    assert!(!query.is_finished());
    query.abort();
    assert!(query.await.unwrap_err().is_cancelled());
    drop(writer);
    reading.fixture.service.traces().query(&reading.reader, ids()).await.unwrap();
    let records = reading.fixture.audit(&reading.admin).await;
    assert_eq!((records.len(), records[0].outcome.as_str()), (before + 1, "success"));
}

async fn a_disconnect_at_any_time_leaves_no_open_record(database: DatabaseKind) {
    let reading = reading(database).await;
    let before = reading.fixture.audit(&reading.admin).await.len();
    for delay in 0..60 {
        let (service, reader) = (reading.fixture.service.clone(), reading.reader.clone());
        let query = tokio::spawn(async move { service.traces().query(&reader, ids()).await });
        tokio::time::sleep(Duration::from_micros(150 * delay)).await;
        query.abort();
        let _ = query.await;
    }
    // Records are appended in order of arrival: after this one no earlier read can begin.
    reading.fixture.service.traces().query(&reading.reader, ids()).await.unwrap();
    let records = async || reading.fixture.audit(&reading.admin).await;
    let begun = until(records, |records| records.iter().all(|record| record.outcome != "unknown")).await;
    let begun = &begun[..begun.len() - before];
    assert!(!begun.is_empty());
    assert!(
        begun.iter().all(|record| ["aborted", "success"].contains(&record.outcome.as_str())),
        "{begun:?}"
    );
}

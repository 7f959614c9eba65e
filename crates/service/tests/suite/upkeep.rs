//! Limits of the service: running queries, the audit log, sessions, updates of last use; and texts that one of the databases
//! cannot store. On both databases.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::*;
use futures::future::join_all;
use secrecy::ExposeSecret as _;
use tracewarden_model::{AttributeValue, Clock as _, Filter, Timestamp};
use tracewarden_service::*;
use tracewarden_testkit::wait::until;

on_both_databases!(
    queries_of_a_user_are_counted_together,
    old_records_are_removed_once_by_all_replicas,
    maintenance_starts_at_once_and_stops_on_request,
    expired_sessions_are_deleted,
    a_short_idle_limit_keeps_active_sessions,
    one_of_many_requests_records_the_use,
    a_use_is_not_recorded_twice,
    texts_that_cannot_be_stored_are_refused_or_not_found,
    an_etag_covers_what_administrators_set,
    records_contain_the_values_before_and_after,
    concurrent_readiness_checks_share_one_query,
    an_older_clickhouse_is_neither_ready_nor_bound,
);

const HOUR: i64 = 3_600;

async fn concurrent_readiness_checks_share_one_query(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let before = fixture.store.lookups();
    for ready in join_all((0..50).map(|_| fixture.service.ready())).await {
        ready.unwrap();
    }
    // All requests came during the first check.
    assert_eq!(fixture.store.lookups() - before, 1);
    fixture.service.ready().await.unwrap();
    assert_eq!(fixture.store.lookups() - before, 2);
}

async fn an_older_clickhouse_is_neither_ready_nor_bound(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    for version in ["24.8.4.1", "25.5.2.47"] {
        fixture.store.set(|answers| answers.version = Some(version));
        let unready = fixture.service.ready().await.unwrap_err();
        assert_eq!(unready.code(), "unavailable");
        assert!(unready.detail().contains("older than 25.8"), "{unready}");
        let refused =
            fixture.service.source().put_binding(&administrator, otel_binding(), None).await.unwrap_err();
        let detail = refused.detail();
        assert!(detail.contains(version) && detail.contains("25.8 is the oldest version"), "{detail}");
    }
    fixture.store.set(|answers| answers.version = None);
    fixture.service.ready().await.unwrap();
    fixture.service.source().put_binding(&administrator, otel_binding(), None).await.unwrap();
}

async fn queries_of_a_user_are_counted_together(database: DatabaseKind) {
    let settings = Settings { max_queries_per_user: Some(2), ..Settings::default() };
    let fixture = fixture_on(database, settings).await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    let service = &fixture.service;
    service
        .roles()
        .put_role(&administrator, "pay", vec![policy("ServiceName == \"pay\"")], None)
        .await
        .unwrap();
    let ada = fixture.user(&admin, "ada", &["pay"]).await;
    let key = fixture.principal(&fixture.api_key(&ada).await).await;
    let bob = fixture.user(&admin, "bob", &["pay"]).await;
    fixture.store.set(|answers| {
        answers.selected = vec![("t1".to_owned(), 10, 1)];
        answers.found = (1, 1);
        answers.spans = "{\"TraceId\":\"t1\"}\n".to_owned();
    });
    let query = QueryRequest::default;
    let first = service.traces().query(&ada, query()).await.unwrap();
    let second = service.traces().trace(&key, "t1").await.unwrap();
    for caller in [&ada, &key] {
        let error = service.traces().query(caller, query()).await.unwrap_err();
        assert_eq!((error.code(), error.retry_after_seconds()), ("too_many_queries", Some(1)));
        assert_eq!(code(service.traces().trace(caller, "t1").await), "too_many_queries");
    }
    let record = fixture.last_audit(&admin).await;
    assert_eq!((record.action.as_str(), record.outcome.as_str()), ("traces.get", "denied"));
    assert_eq!(record.detail["code"], "too_many_queries");
    service.traces().query(&bob, query()).await.unwrap();

    // An answer counts until it was read to its end, or its client has disconnected.
    drop(first);
    let third = service.traces().query(&key, query()).await.unwrap();
    assert_eq!(code(service.traces().query(&ada, query()).await), "too_many_queries");
    let spans: Vec<_> = futures::StreamExt::collect(second.spans).await;
    assert!(spans.into_iter().all(|chunk| chunk.is_ok()));
    let ids = || QueryRequest { view: View::Ids, ..QueryRequest::default() };
    for _ in 0..5 {
        service.traces().query(&ada, ids()).await.unwrap();
        let refused = QueryRequest { limit: Some(0), ..ids() };
        assert_eq!(code(service.traces().query(&ada, refused).await), "invalid_request");
    }
    drop(third);
}

/// Creates a fixture whose audit log contains records of two hours ago and of now, with a retention of one hour.
async fn fixture_with_old_records(database: DatabaseKind) -> (Fixture, Principal, Settings) {
    let settings = Settings { audit_retention_nanos: Some(HOUR * SECOND), ..Settings::default() };
    let fixture = fixture_on(database, settings.clone()).await;
    let admin = fixture.admin().await;
    for _ in 0..20 {
        fixture.api_key(&admin).await;
    }
    fixture.clock.advance(2 * HOUR);
    fixture.api_key(&admin).await;
    (fixture, admin, settings)
}

async fn old_records_are_removed_once_by_all_replicas(database: DatabaseKind) {
    let (fixture, admin, settings) = fixture_with_old_records(database).await;
    let old = fixture.audit(&admin).await.len() as u64 - 1;
    let other = fixture.replica(settings).await;
    let (one, other) = (fixture.service.maintenance(), other.maintenance());
    let (one, two) = tokio::join!(one.prune_audit_once(), other.prune_audit_once());
    assert_eq!(one.unwrap() + two.unwrap(), old);
    // `audit` verifies the chain too.
    let records = fixture.audit(&admin).await;
    let actions: Vec<_> = records.iter().map(|record| record.action.as_str()).collect();
    assert_eq!(actions, ["audit.prune", "api_key.create"]);
    let prune = &records[0];
    assert_eq!((prune.actor.via.as_deref(), prune.actor.id.as_deref()), (Some("service"), None));
    assert_eq!((&prune.detail["removed"], &prune.detail["through"]), (&old.into(), &old.into()));
    assert_eq!(prune.detail["hash"].as_str().unwrap().len(), 64);
    assert!(prune.detail["before"].as_str().unwrap().ends_with('Z'));
    // Without old records, nothing is written.
    assert_eq!(fixture.service.maintenance().prune_audit_once().await.unwrap(), 0);
    assert_eq!(fixture.audit(&admin).await.len(), 2);
    let unlimited = fixture.replica(Settings::default()).await;
    fixture.clock.advance(1_000 * HOUR);
    assert_eq!(
        unlimited.maintenance().prune_audit_once().await.unwrap(),
        0,
        "kept for ever unless set otherwise"
    );
}

async fn maintenance_starts_at_once_and_stops_on_request(database: DatabaseKind) {
    let (fixture, admin, _) = fixture_with_old_records(database).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let service = fixture.service.clone();
    let task =
        tokio::spawn(async move { service.maintenance().maintain(async { stopped.await.unwrap() }).await });
    until(async || fixture.audit(&admin).await, |records| records.len() == 2).await;
    assert_eq!(fixture.last_audit(&admin).await.action, "audit.prune");
    assert!(!task.is_finished());
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(10), task).await.unwrap().unwrap();
}

async fn expired_sessions_are_deleted(database: DatabaseKind) {
    let settings = Settings {
        session_absolute_nanos: Some(10 * HOUR * SECOND),
        session_idle_nanos: Some(HOUR * SECOND),
        ..Settings::default()
    };
    let fixture = fixture_on(database, settings).await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    fixture.user(&admin, "ada", &[]).await;
    let busy = fixture.sign_in("admin", ADMIN_PASSWORD).await.unwrap();
    assert_eq!(fixture.service.maintenance().delete_expired_sessions_once().await.unwrap(), 0);
    for _ in 0..3 {
        fixture.clock.advance(HOUR / 2);
        fixture.principal(&busy).await;
    }
    assert_eq!(
        code(fixture.service.users().end_user_sessions(&administrator, "ada", None).await),
        "unauthenticated"
    );
    let busy = fixture.principal(&busy).await;
    let users = fixture.service.users();
    let sessions = || users.user_sessions(&administrator, "ada");
    assert_eq!(sessions().await.unwrap().len(), 1, "dead, and still there");
    assert_eq!(fixture.service.maintenance().delete_expired_sessions_once().await.unwrap(), 2);
    assert_eq!(sessions().await.unwrap(), []);
    assert_eq!(fixture.service.account().my_sessions(&busy).await.unwrap().len(), 1);
    fixture.clock.advance(10 * HOUR);
    assert_eq!(fixture.service.maintenance().delete_expired_sessions_once().await.unwrap(), 1);
}

async fn a_short_idle_limit_keeps_active_sessions(database: DatabaseKind) {
    let settings = Settings { session_idle_nanos: Some(20 * SECOND), ..Settings::default() };
    let fixture = fixture_on(database, settings).await;
    fixture.admin().await;
    let session = fixture.sign_in("admin", ADMIN_PASSWORD).await.unwrap();
    for _ in 0..20 {
        fixture.clock.advance(14);
        fixture.principal(&session).await;
    }
    fixture.clock.advance(20);
    assert_eq!(code(fixture.service.core().authenticate(&session, info()).await), "unauthenticated");
}

async fn one_of_many_requests_records_the_use(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    let token = fixture.api_key(&admin).await;
    let other = fixture.replica(Settings::default()).await;
    let last_used = async || fixture.service.account().my_api_keys(&admin).await.unwrap()[0].last_used_at;
    fixture.principal(&token).await;
    let recorded = last_used().await.unwrap();
    fixture.clock.advance(59);
    fixture.principal(&token).await;
    assert_eq!(last_used().await, Some(recorded), "at most once a minute");
    fixture.clock.advance(1);

    // During another write, the request that updates the last use waits, and all others are answered.
    let writer = fixture.other_writer().await;
    let requests = (0..20).map(|number| {
        let service = if number % 2 == 0 { fixture.service.clone() } else { other.clone() };
        let token = token.clone();
        tokio::spawn(async move { service.core().authenticate(&token, info()).await.map(drop) })
    });
    let requests: Vec<_> = requests.collect();
    let waiting = || requests.iter().filter(|request| !request.is_finished()).count();
    until(async || waiting(), |waiting| *waiting <= 2).await;
    writer.wait_for_waiting_writers(2).await;
    assert_eq!(waiting(), 2, "one in each replica");
    assert_eq!(last_used().await, Some(recorded));
    drop(writer);
    for request in join_all(requests).await {
        request.unwrap().unwrap();
    }
    assert_eq!(last_used().await, Some(recorded.saturating_add(60 * SECOND)));
}

async fn a_use_is_not_recorded_twice(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    let session = fixture.sign_in("admin", ADMIN_PASSWORD).await.unwrap();
    let id = fixture.principal(&session).await.credential_id().to_owned();
    let token = fixture.api_key(&admin).await;
    let key = fixture.principal(&token).await.credential_id().to_owned();
    let other = fixture.replica(Settings::default()).await;
    fixture.clock.advance(120);
    let now = Timestamp::from_micros(fixture.clock.now().as_micros());
    let recorded = now.saturating_sub(30 * SECOND);

    // A third replica writes first: both requests have read before that the last use was two minutes ago.
    let mut writer = fixture.other_appender().await;
    let requests = [(&fixture.service, &session), (&other, &token)].map(|(service, credential)| {
        let (service, credential) = (service.clone(), credential.clone());
        tokio::spawn(async move { service.core().authenticate(&credential, info()).await.map(drop) })
    });
    writer.wait_for_waiting_writers(2).await;
    assert!(requests.iter().all(|request| !request.is_finished()));
    writer.tx.touch_session(&id, recorded).await.unwrap();
    writer.tx.touch_api_key(&key, recorded, None, None).await.unwrap();
    writer.tx.commit().await.unwrap();
    for request in join_all(requests).await {
        request.unwrap().unwrap();
    }
    let sessions = fixture.service.account().my_sessions(&admin).await.unwrap();
    let seen = sessions.iter().find(|session| session.id == id).unwrap().last_used_at;
    let used = fixture.service.account().my_api_keys(&admin).await.unwrap()[0].last_used_at;
    assert_eq!((seen, used), (recorded, Some(recorded)));
}

async fn texts_that_cannot_be_stored_are_refused_or_not_found(database: DatabaseKind) {
    const NUL: &str = "a\0b";
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    let service = &fixture.service;
    fixture.user(&admin, "ada", &[]).await;
    let invalid = |pointer: &str| vec![(pointer.to_owned(), "invalid_value")];

    let good = policy("ServiceName == \"pay\"");
    let roles = service.roles();
    let put = |policy| roles.put_role(&administrator, "pay", vec![policy], None);
    let title = Policy { title: NUL.to_owned(), ..good.clone() };
    assert_eq!(pointers(put(title).await), invalid("/policies/0/title"));
    let description = Policy { description: Some(NUL.to_owned()), ..good.clone() };
    assert_eq!(pointers(put(description).await), invalid("/policies/0/description"));
    let expression = Policy { expression: "ServiceName == \"a\0b\"".to_owned(), ..good };
    assert_eq!(pointers(put(expression).await), invalid("/policies/0/expression"));
    let named =
        service.roles().put_role(&administrator, NUL, vec![policy("ServiceName == \"pay\"")], None).await;
    assert_eq!(code(named), "invalid_value");

    let new = NewUser { username: NUL.to_owned(), ..NewUser::default() };
    assert_eq!(pointers(service.users().create_user(&administrator, new).await), invalid("/username"));
    let new = NewUser { username: "eve".to_owned(), roles: set(&[NUL]), ..NewUser::default() };
    assert_eq!(code(service.users().create_user(&administrator, new).await), "unknown_role");
    for (name, value, pointer) in [
        (NUL, AttributeValue::Bool(true), "/attributes/a\0b"),
        ("a", AttributeValue::String(NUL.to_owned()), "/attributes/a"),
        ("a", AttributeValue::Strings(vec!["x".to_owned(), NUL.to_owned()]), "/attributes/a/1"),
    ] {
        let attributes = BTreeMap::from([(name.to_owned(), value)]);
        let change = UserChange { attributes: Some(attributes), ..UserChange::default() };
        let seen = pointers(service.users().update_user(&administrator, "ada", change, None).await);
        assert_eq!(seen, invalid(pointer));
    }
    let key = NewApiKey { name: NUL.to_owned(), expires_at: None, policy: None, tools: None };
    assert_eq!(pointers(service.account().create_api_key(&admin, key).await), invalid("/name"));
    let policy = Some("ServiceName == \"a\0b\"".to_owned());
    let key = NewApiKey { name: "k".to_owned(), expires_at: None, policy, tools: None };
    assert_eq!(pointers(service.account().create_api_key(&admin, key).await)[..1], invalid("/policy"));
    let tools = Some(vec![NUL.to_owned()]);
    let key = NewApiKey { name: "k".to_owned(), expires_at: None, policy: None, tools };
    assert_eq!(pointers(service.account().create_api_key(&admin, key).await), invalid("/tools/0"));
    let fields = vec![mark(Some("SpanAttributes"), NUL, true, true)];
    let version = || Some(IfMatch::Versions(vec![2]));
    let seen = pointers(service.source().put_fields(&administrator, fields, version()).await);
    assert_eq!(seen, invalid("/fields/0/name"));
    let fields = vec![mark(Some(NUL), "x", true, true)];
    assert_eq!(code(service.source().put_fields(&administrator, fields, version()).await), "unknown_field");

    assert_eq!(code(fixture.sign_in(NUL, "whatever it is").await), "invalid_credentials");
    assert_eq!(code(fixture.sign_in("admin", NUL).await), "invalid_credentials");
    for token in [Credential::Session(NUL.into()), Credential::ApiKey("twk_\0".into())] {
        assert_eq!(code(service.core().authenticate(&token, info()).await), "unauthenticated");
    }
    let change = UserChange { disabled: Some(true), ..UserChange::default() };
    let account = service.account();
    let preview = |name: &str| account.set_preview(&administrator, PreviewRequest::User(name.to_owned()));
    let answers = [
        code(service.users().user(&administrator, NUL).await),
        code(service.users().update_user(&administrator, NUL, change, None).await),
        code(service.users().rotate_password(&administrator, NUL).await),
        code(service.users().delete_user(&administrator, NUL, None).await),
        code(service.users().user_access(&administrator, NUL).await),
        code(service.users().user_sessions(&administrator, NUL).await),
        code(service.users().end_user_sessions(&administrator, NUL, None).await),
        code(service.users().end_user_sessions(&administrator, "ada", Some(NUL)).await),
        code(service.users().user_api_keys(&administrator, NUL).await),
        code(service.users().revoke_user_api_keys(&administrator, "ada", Some(NUL)).await),
        code(service.users().revoke_user_api_keys(&administrator, NUL, None).await),
        code(service.account().end_my_session(&admin, NUL).await),
        code(service.account().revoke_my_api_key(&admin, NUL).await),
        code(service.roles().role(&administrator, NUL).await),
        code(service.roles().delete_role(&administrator, NUL, None).await),
        code(preview(NUL).await),
    ];
    assert_eq!(answers, ["not_found"; 16]);
    // Base64url of the same text.
    assert_eq!(code(service.users().list(&administrator, None, Some("YQBi"), None).await), "invalid_cursor");
    let text = || Some(NUL.to_owned());
    for query in [
        AuditQuery { actor: text(), ..AuditQuery::default() },
        AuditQuery { action: text(), ..AuditQuery::default() },
    ] {
        assert!(service.audit_log().page(&administrator, query).await.unwrap().records.is_empty());
    }

    // A search value for traces may contain it, and the record contains it unchanged.
    let condition = tracewarden_model::RawCondition {
        field: tracewarden_model::FieldRef::column("ServiceName"),
        field_member: "name",
        op: "eq".to_owned(),
        value: Some(tracewarden_model::Scalar::String(NUL.to_owned())),
        values: None,
    };
    let query =
        QueryRequest { filter: Filter::of(vec![condition]), view: View::Ids, ..QueryRequest::default() };
    service.traces().query(&admin, query).await.unwrap();
    assert_eq!(fixture.last_audit(&admin).await.detail["filter"][0]["value"], NUL);
    assert_eq!(code(service.traces().trace(&admin, NUL).await), "trace_not_found");
    assert_eq!(fixture.last_audit(&admin).await.target.as_deref(), Some("ab"));
    assert_eq!(code(service.source().table(&administrator, "otel", NUL).await), "not_found");
    let agent = RequestInfo { user_agent: Some(NUL.to_owned()), request_id: NUL.to_owned(), ..info() };
    let credentials =
        PasswordCredentials { username: "ada".to_owned(), password: USER_PASSWORD.to_owned().into() };
    service.account().sign_in(credentials, agent).await.unwrap();
    assert_eq!(fixture.last_audit(&admin).await.user_agent.as_deref(), Some("ab"));
}

async fn an_etag_covers_what_administrators_set(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    let service = &fixture.service;
    fixture.user(&admin, "ada", &[]).await;
    let tag = async || service.users().user(&administrator, "ada").await.unwrap().tag;
    let matching = |tag| Some(IfMatch::Versions(vec![tag]));
    let attributes = |text| UserChange { attributes: Some(team(text)), ..UserChange::default() };
    let roles = |roles| UserChange { roles: Some(set(roles)), ..UserChange::default() };

    // Two administrators have read the same user.
    let read = tag().await;
    fixture.clock.advance(100);
    fixture.sign_in("ada", USER_PASSWORD).await.unwrap();
    assert_eq!(tag().await, read, "a sign-in is not a change");
    let first =
        service.users().update_user(&administrator, "ada", attributes("one"), matching(read)).await.unwrap();
    assert_ne!(first.tag, read);
    let late = service.users().update_user(&administrator, "ada", attributes("two"), matching(read)).await;
    assert_eq!(code(late), "precondition_failed");
    assert_eq!(
        code(service.users().delete_user(&administrator, "ada", matching(read)).await),
        "precondition_failed"
    );
    assert_eq!(fixture.last_audit(&admin).await.detail["code"], "precondition_failed");
    assert_eq!(service.users().user(&administrator, "ada").await.unwrap().attributes.0, team("one"));
    // Without a tag, changes of different members both take effect.
    service.users().update_user(&administrator, "ada", roles(&["admin"]), None).await.unwrap();
    let user = service.users().user(&administrator, "ada").await.unwrap();
    assert_eq!((user.roles, user.attributes.0), (set(&["admin"]), team("one")));
    let page = service.users().list(&administrator, None, None, None).await.unwrap();
    assert!(page.users.iter().any(|listed| listed.tag == user.tag));
    let existing = Some(IfMatch::Existing);
    service.users().update_user(&administrator, "ada", roles(&[]), existing).await.unwrap();
    assert_eq!(tag().await, first.tag, "the same content has the same tag");
    service.users().delete_user(&administrator, "ada", matching(first.tag)).await.unwrap();
}

async fn records_contain_the_values_before_and_after(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    let service = &fixture.service;
    let detail = async || fixture.last_audit(&admin).await.detail;
    let fields = vec![
        mark(None, "ServiceName", true, true),
        mark(None, "Duration", false, true),
        mark(Some("SpanAttributes"), "http.route", true, false),
    ];
    let refused =
        service.source().put_fields(&administrator, fields.clone(), Some(IfMatch::Versions(vec![2]))).await;
    assert_eq!(code(refused), "invalid_value");
    let fields = vec![fields[0].clone(), mark(Some("SpanAttributes"), "tenant.id", true, true)];
    service.source().put_fields(&administrator, fields, Some(IfMatch::Versions(vec![2]))).await.unwrap();
    let record = detail().await;
    assert_eq!(record["version"], 4);
    assert!(record.get("binding").is_none(), "{record}");
    let seen = &record["fields"];
    assert_eq!(seen["removed"]["Duration"]["type"], "number", "{record}");
    let tenant = &seen["changed"]["SpanAttributes[\"tenant.id\"]"];
    assert_eq!(
        (&tenant["before"]["filterable"], &tenant["after"]["filterable"]),
        (&false.into(), &true.into())
    );
    assert_eq!(seen["added"], serde_json::json!({}));

    let mut binding = otel_binding();
    binding.display.name = Some("ServiceName".to_owned());
    service.source().put_binding(&administrator, binding, Some(IfMatch::Versions(vec![3]))).await.unwrap();
    let record = detail().await;
    assert_eq!(record["binding"]["before"]["display"]["name"], serde_json::Value::Null);
    assert_eq!(record["binding"]["after"]["display"]["name"], "ServiceName", "{record}");

    let roles = service.roles();
    let put = |text: &str| {
        let policies = vec![policy(&format!("ServiceName == \"{text}\""))];
        roles.put_role(&administrator, "pay", policies, None)
    };
    put("one").await.unwrap();
    assert_eq!(detail().await["policies"]["before"], serde_json::Value::Null);
    put("two").await.unwrap();
    let record = detail().await;
    let policies = &record["policies"];
    assert_eq!(policies["before"][0]["expression"], "ServiceName == \"one\"", "{record}");
    assert_eq!(policies["after"][0]["expression"], "ServiceName == \"two\"");
    let revision = &record["revision"];
    assert!(revision["before"].as_u64().unwrap() < revision["after"].as_u64().unwrap());

    let new = NewUser {
        username: "ada".to_owned(),
        roles: set(&["pay"]),
        attributes: team("one"),
        ..NewUser::default()
    };
    let created = service.users().create_user(&administrator, new).await.unwrap();
    let record = detail().await;
    assert_eq!((&record["roles"][0], &record["attributes"]["team"]), (&"pay".into(), &"one".into()));
    fixture.sign_in("ada", created.initial_password.as_ref().unwrap().expose_secret()).await.unwrap();
    let change = UserChange {
        roles: Some(set(&[])),
        attributes: Some(team("two")),
        disabled: Some(true),
        ..UserChange::default()
    };
    service.users().update_user(&administrator, "ada", change, None).await.unwrap();
    let record = detail().await;
    assert_eq!(record["roles"], serde_json::json!({ "before": ["pay"], "after": [] }));
    assert_eq!(
        record["attributes"]["changed"]["team"],
        serde_json::json!({ "before": "one", "after": "two" })
    );
    assert_eq!(record["disabled"], serde_json::json!({ "before": false, "after": true }));
    assert_eq!(record["sessions_ended"], 1);
    service.users().delete_user(&administrator, "ada", None).await.unwrap();
    assert_eq!(detail().await["attributes"]["team"], "two");
    service.roles().delete_role(&administrator, "pay", None).await.unwrap();
    assert_eq!(detail().await["policies"][0]["expression"], "ServiceName == \"two\"");
}

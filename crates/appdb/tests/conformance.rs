//! What every database under the service's own data must do: `suite` takes an address.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use tracewarden_appdb::{
    ADMIN_ROLE, AppDb, AuditFilter, DbError, NewApiKey, NewAuditRecord, NewSession, NewUser, PasswordHash,
    Policy, Preview, Throttle, TokenDigest,
};
use tracewarden_model::{
    AccessModel, AttributeValue, Binding, ColumnType, Display, FieldRef, LogicalType, MarkedField, Timestamp,
};

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn attributes() -> BTreeMap<String, AttributeValue> {
    BTreeMap::from([
        ("team".to_owned(), AttributeValue::String("pay\"ments'; --".to_owned())),
        ("lead".to_owned(), AttributeValue::Bool(true)),
        ("tenants".to_owned(), AttributeValue::Strings(vec!["a".to_owned(), "ü\n".to_owned()])),
        ("none".to_owned(), AttributeValue::Strings(Vec::new())),
    ])
}

fn record<'a>(action: &'a str, time: i64, completes: Option<u64>, outcome: &'a str) -> NewAuditRecord<'a> {
    NewAuditRecord {
        completes,
        at: at(time),
        actor_id: Some("u1"),
        actor_name: Some("Ada"),
        credential_id: None,
        via: "session",
        action,
        outcome,
        request_id: "r1",
        client_ip: Some("192.0.2.1"),
        user_agent: None,
        target: None,
        detail: "{}",
    }
}

async fn add_user(db: &AppDb, id: &str, name: &str, roles: &[&str]) -> Result<(), DbError> {
    let mut tx = db.begin_write().await?;
    tx.insert_user(&NewUser {
        id,
        username: name,
        password_hash: &PasswordHash("$argon2id$x".to_owned()),
        must_change_password: true,
        created_at: at(10),
        attributes: &attributes(),
        roles: &set(roles),
    })
    .await?;
    tx.commit().await
}

async fn users_and_roles(db: &AppDb) {
    let policies = vec![
        Policy { title: "a".to_owned(), expression: "x == 'it''s'".to_owned(), description: None },
        Policy { title: "b".to_owned(), expression: "true".to_owned(), description: Some("why".to_owned()) },
    ];
    let mut tx = db.begin_write().await.unwrap();
    assert_eq!(tx.put_role("reader", &policies, at(5)).await.unwrap(), 2);
    assert_eq!(tx.put_role("reader", &policies, at(6)).await.unwrap(), 3);
    tx.commit().await.unwrap();

    add_user(db, "u1", "Ada", &["admin", "reader"]).await.unwrap();
    add_user(db, "u2", "bob", &["reader"]).await.unwrap();
    assert!(matches!(add_user(db, "u3", "ADA", &[]).await, Err(DbError::Conflict(_))));
    assert!(add_user(db, "u4", "eve", &["no such role"]).await.is_err(), "an assignment needs its role");

    let mut tx = db.begin_read().await.unwrap();
    let ada = tx.user_by_name("aDa").await.unwrap().unwrap();
    assert_eq!((ada.username.as_str(), ada.disabled, ada.must_change_password), ("Ada", false, true));
    assert_eq!(ada.attributes, attributes());
    assert_eq!(ada.roles, set(&["admin", "reader"]));
    assert_eq!(tx.user_by_id("u1").await.unwrap().unwrap(), ada);
    assert_eq!(tx.user_by_id("u4").await.unwrap(), None, "nothing of a failed creation stays");
    assert_eq!(tx.enabled_administrators().await.unwrap(), 1);
    let names: Vec<String> = tx.users("", 10).await.unwrap().into_iter().map(|user| user.username).collect();
    assert_eq!(names, ["Ada", "bob"]);
    let page = tx.users("ada", 1).await.unwrap();
    assert_eq!(page.first().unwrap().roles, set(&["reader"]));
    assert_eq!(tx.role_members("reader").await.unwrap(), ["Ada", "bob"]);
    let reader = tx.role("reader").await.unwrap().unwrap();
    assert_eq!((reader.policies.as_slice(), reader.revision), (policies.as_slice(), 3));
    assert_eq!((reader.created_at, reader.updated_at), (at(5), at(6)));
    let roles = tx.roles_of_user("u1").await.unwrap();
    assert_eq!(roles.iter().map(|role| role.name.as_str()).collect::<Vec<_>>(), [ADMIN_ROLE, "reader"]);
    assert_eq!(roles[1], reader);
    assert_eq!(tx.roles().await.unwrap(), roles);
    drop(tx);

    let mut tx = db.begin_write().await.unwrap();
    tx.set_user_disabled("u1", true).await.unwrap();
    tx.set_user_attributes("u1", &BTreeMap::new()).await.unwrap();
    tx.set_user_password("u1", &PasswordHash("other".to_owned()), false).await.unwrap();
    tx.set_user_last_login("u1", at(77)).await.unwrap();
    assert!(tx.delete_role("reader").await.unwrap());
    assert!(!tx.delete_role("reader").await.unwrap());
    assert_eq!(tx.put_role("reader", &policies, at(7)).await.unwrap(), 4, "no revision comes twice");
    assert!(tx.delete_role("reader").await.unwrap());
    tx.commit().await.unwrap();
    let mut tx = db.begin_read().await.unwrap();
    let ada = tx.user_by_id("u1").await.unwrap().unwrap();
    assert!(ada.disabled && !ada.must_change_password && ada.attributes.is_empty());
    assert_eq!((ada.password_hash.0.as_str(), ada.last_login_at), ("other", Some(at(77))));
    assert_eq!(ada.roles, set(&["admin"]), "a deleted role takes its assignments along");
    assert_eq!(tx.enabled_administrators().await.unwrap(), 0);
}

async fn credentials(db: &AppDb) {
    let token = |byte| TokenDigest([byte; 32]);
    let mut tx = db.begin_write().await.unwrap();
    for (id, byte) in [("s1", 1), ("s2", 2), ("s3", 3)] {
        let session = NewSession {
            id,
            token: token(byte),
            user_id: "u2",
            created_at: at(i64::from(byte)),
            client_ip: Some("2001:db8::1"),
            user_agent: None,
        };
        tx.insert_session(&session).await.unwrap();
    }
    let preview =
        Preview { roles: set(&["reader"]), attributes: attributes(), username: Some("bob".to_owned()) };
    tx.set_session_preview("s1", Some(&preview)).await.unwrap();
    tx.touch_session("s1", at(50)).await.unwrap();
    tx.touch_session("s1", at(40)).await.unwrap();
    let tools = ["query\"".to_owned(), "get".to_owned()];
    let key = NewApiKey {
        id: "k1",
        token: token(9),
        hint: "twk_abc",
        name: "ci",
        user_id: "u2",
        created_at: at(1),
        expires_at: Some(at(100)),
        policy: Some("service == 'a'"),
        tools: Some(&tools),
    };

    tx.insert_api_key(&key).await.unwrap();
    tx.touch_api_key("k1", at(60)).await.unwrap();
    tx.commit().await.unwrap();

    let mut tx = db.begin_read().await.unwrap();
    let session = tx.session_by_token(token(1)).await.unwrap().unwrap();
    assert_eq!((session.id.as_str(), session.last_seen_at), ("s1", at(50)));
    assert_eq!(session.preview, Some(preview));
    assert_eq!(tx.session_by_token(token(4)).await.unwrap(), None);
    let key = tx.api_key_by_token(token(9)).await.unwrap().unwrap();
    assert_eq!((key.expires_at, key.last_used_at), (Some(at(100)), Some(at(60))));
    assert_eq!(tx.api_keys_of_user("u2").await.unwrap(), [key]);
    assert_eq!(tx.sessions_of_user("u2").await.unwrap().len(), 3);
    drop(tx);

    let mut tx = db.begin_write().await.unwrap();
    assert!(!tx.delete_session("u1", "s1").await.unwrap(), "another user's session");
    assert_eq!(tx.delete_sessions_of_user("u2", Some("s1")).await.unwrap(), 2);
    assert!(!tx.delete_api_key("u1", "k1").await.unwrap(), "another user's key");
    tx.delete_user("u2").await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.session_by_token(token(1)).await.unwrap(), None, "sessions end with their user");
    assert_eq!(tx.api_key_by_token(token(9)).await.unwrap(), None, "keys end with their user");
}

async fn access_models(db: &AppDb) {
    assert_eq!(db.begin_read().await.unwrap().access_model().await.unwrap(), AccessModel::default());
    let binding = Binding {
        database: "otel".to_owned(),
        table: "otel_traces".to_owned(),
        trace_id: "TraceId".to_owned(),
        span_id: "SpanId".to_owned(),
        timestamp: "Timestamp".to_owned(),
        parent_span_id: "ParentSpanId".to_owned(),
        trace_index: None,
        display: Display { name: Some("SpanName".to_owned()), ..Display::default() },
    };
    let field = MarkedField {
        field: FieldRef::key("SpanAttributes", "a\"b"),
        logical: LogicalType::StringArray,
        column_type: ColumnType::parse("LowCardinality(Nullable(String))"),
        filterable: true,
        policy: false,
    };
    let first = AccessModel { version: 1, binding: Some(binding), fields: vec![field] };
    let second = AccessModel { version: 2, fields: Vec::new(), ..first.clone() };
    for model in [&first, &second] {
        let mut tx = db.begin_write().await.unwrap();
        tx.insert_access_model(model, at(3), ("u1", "Ada")).await.unwrap();
        tx.commit().await.unwrap();
    }
    let mut tx = db.begin_write().await.unwrap();
    let again = tx.insert_access_model(&second, at(4), ("u1", "Ada")).await;
    assert!(matches!(again, Err(DbError::Conflict(_))));
    drop(tx);
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.access_model().await.unwrap(), second);
    assert_eq!(tx.access_model_version(1).await.unwrap(), Some(first));
    assert_eq!(tx.access_model_version(9).await.unwrap(), None);
}

async fn audit(db: &AppDb) {
    let mut tx = db.begin_write().await.unwrap();
    let login = tx.append_audit(&record("login", 100, None, "success")).await.unwrap();
    let query = tx.append_audit(&record("traces.query", 200, None, "unknown")).await.unwrap();
    let crashed = tx.append_audit(&record("traces.query", 300, None, "unknown")).await.unwrap();
    tx.append_audit(&record("traces.query", 400, Some(query), "success")).await.unwrap();
    tx.commit().await.unwrap();

    let mut tx = db.begin_write().await.unwrap();
    let twice = tx.append_audit(&record("traces.query", 500, Some(query), "failed")).await;
    assert!(matches!(twice, Err(DbError::Conflict(_))), "a record is completed once");
    drop(tx);

    let mut tx = db.begin_read().await.unwrap();
    let all = tx.audit_records(&AuditFilter::default(), 10).await.unwrap();
    let seen: Vec<_> = all.iter().map(|entry| (entry.sequence, entry.outcome.as_str())).collect();
    assert_eq!(seen, [(crashed, "unknown"), (query, "success"), (login, "success")]);
    assert_eq!(all[1].completed_at, Some(at(400)));
    let cases = [
        (AuditFilter { action: Some("login"), ..AuditFilter::default() }, vec![login]),
        (AuditFilter { outcome: Some("unknown"), ..AuditFilter::default() }, vec![crashed]),
        (AuditFilter { from: Some(at(200)), to: Some(at(300)), ..AuditFilter::default() }, vec![query]),
        (AuditFilter { from: Some(at(200).saturating_add(1)), ..AuditFilter::default() }, vec![crashed]),
        (AuditFilter { actor: Some("Ada"), before: Some(query), ..AuditFilter::default() }, vec![login]),
        (AuditFilter { actor: Some("' OR 1=1"), ..AuditFilter::default() }, vec![]),
    ];
    for (filter, expected) in cases {
        let found = tx.audit_records(&filter, 10).await.unwrap();
        let found: Vec<u64> = found.iter().map(|entry| entry.sequence).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
    assert_eq!(tx.audit_records(&AuditFilter::default(), 1).await.unwrap().len(), 1);
    assert_eq!(tx.verify_audit(|_, _| ()).await.unwrap().err(), None);
    assert_eq!(tx.audit_head().await.unwrap().0, 4, "what was rolled back left no gap");
}

async fn appends_at_once_make_one_chain(db: &AppDb) {
    let before = db.begin_read().await.unwrap().audit_head().await.unwrap().0;
    let tasks: Vec<_> = (0..40)
        .map(|time| {
            let db = db.clone();
            tokio::spawn(async move {
                let mut tx = db.begin_write().await.unwrap();
                tx.append_audit(&record("burst", time, None, "success")).await.unwrap();
                // Every fourth gives up, which must not tear the chain.
                if time % 4 != 0 {
                    tx.commit().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.verify_audit(|_, _| ()).await.unwrap().err(), None);
    assert_eq!(tx.audit_head().await.unwrap().0, before + 30);
}

async fn shared_values(db: &AppDb) {
    let mut tx = db.begin_write().await.unwrap();
    assert_eq!(tx.secret_or_insert("cursor", &[1, 2]).await.unwrap(), [1, 2]);
    assert_eq!(tx.secret_or_insert("cursor", &[3, 4]).await.unwrap(), [1, 2], "the first one wins");
    tx.remember_password_hash("aa", at(1)).await.unwrap();
    tx.remember_password_hash("aa", at(2)).await.unwrap();
    let throttle = Throttle { failures: 3, window_start: at(10), blocked_until: at(20) };
    tx.put_throttle("ip:x", &throttle).await.unwrap();
    tx.put_throttle("ip:x", &Throttle { failures: 4, ..throttle }).await.unwrap();
    tx.put_throttle("ip:y", &Throttle { blocked_until: at(90), ..throttle }).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.begin_write().await.unwrap();
    assert_eq!(tx.throttle("ip:x").await.unwrap(), Some(Throttle { failures: 4, ..throttle }));
    tx.delete_stale_throttles(at(50)).await.unwrap();
    assert_eq!(tx.throttle("ip:x").await.unwrap(), None);
    assert!(tx.throttle("ip:y").await.unwrap().is_some(), "one that still blocks stays");
    tx.delete_throttle("ip:y").await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.throttle("ip:y").await.unwrap(), None);
    assert_eq!(tx.secret("cursor").await.unwrap(), Some(vec![1, 2]));
    assert!(tx.password_hash_used("aa").await.unwrap());
    assert!(!tx.password_hash_used("bb").await.unwrap());
}

async fn nothing_stays_without_commit(db: &AppDb) {
    let mut tx = db.begin_write().await.unwrap();
    tx.put_role("ghost", &[], at(1)).await.unwrap();
    tx.append_audit(&record("role.put", 1, None, "success")).await.unwrap();
    let mut snapshot = db.begin_read().await.unwrap();
    assert_eq!(snapshot.role("ghost").await.unwrap(), None, "others do not see it before the commit");
    drop(tx);
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.role("ghost").await.unwrap(), None);
}

async fn suite(url: &str) {
    let db = AppDb::open(url, at(0)).await.unwrap();
    db.ping().await.unwrap();
    users_and_roles(&db).await;
    credentials(&db).await;
    access_models(&db).await;
    audit(&db).await;
    appends_at_once_make_one_chain(&db).await;
    shared_values(&db).await;
    nothing_stays_without_commit(&db).await;
    db.close().await;
    let db = AppDb::open(url, at(1)).await.unwrap();
    assert_eq!(db.begin_read().await.unwrap().access_model().await.unwrap().version, 2);
}

#[tokio::test]
async fn sqlite() {
    let directory = tempfile::tempdir().unwrap();
    suite(&format!("sqlite:{}", directory.path().join("own data?#%.db").display())).await;
}

#[tokio::test]
async fn postgres() {
    let database = tracewarden_testkit::postgres::database().unwrap();
    suite(&database.url()).await;
}

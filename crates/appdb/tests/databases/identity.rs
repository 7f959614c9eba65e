//! Users, roles, sessions, API keys, and data that replicas share.

use std::collections::{BTreeMap, BTreeSet};

use tracewarden_appdb::{
    ADMIN_ROLE, ApiKey, AttributeKinds, DbError, KnownAttributes, PasswordHash, Policy, Preview, Session,
    Throttle, TokenDigest, User, fold_username,
};
use tracewarden_model::{AttributeKind, AttributeValue, Timestamp};

use crate::fixture::{Fixture, add_user, at, attributes, on_both, record, set};

on_both!(
    users_and_roles,
    users_in_batches,
    access_changes_are_detected,
    credentials,
    sessions_expire,
    the_longest_idle_sessions_are_removed,
    order_is_bytewise,
    shared_values,
    uncommitted_changes_are_rolled_back,
    a_failed_statement_ends_its_transaction,
);

async fn users_and_roles(fixture: &Fixture) {
    let db = fixture.open().await;
    let policies = vec![
        Policy { title: "a".to_owned(), expression: "x == 'it''s'".to_owned(), description: None },
        Policy { title: "b".to_owned(), expression: "true".to_owned(), description: Some("why".to_owned()) },
    ];
    let mut tx = db.begin_write().await.unwrap();
    assert_eq!(tx.put_role("reader", &policies, at(5)).await.unwrap(), 2);
    assert_eq!(tx.put_role("reader", &policies, at(6)).await.unwrap(), 3);
    tx.commit().await.unwrap();

    add_user(&db, "u1", "Ada", &["admin", "reader"]).await.unwrap();
    add_user(&db, "u2", "bob", &["reader"]).await.unwrap();
    assert!(matches!(add_user(&db, "u3", "ADA", &[]).await, Err(DbError::Conflict(_))));
    assert!(add_user(&db, "u4", "eve", &["no such role"]).await.is_err(), "an assignment needs its role");

    let mut tx = db.begin_read().await.unwrap();
    let ada = tx.user_by_name("aDa").await.unwrap().unwrap();
    assert_eq!((ada.username.as_str(), ada.disabled, ada.must_change_password), ("Ada", false, true));
    assert_eq!(ada.attributes, attributes());
    assert_eq!(ada.roles, set(&["admin", "reader"]));
    assert_eq!(tx.user_by_id("u1").await.unwrap().unwrap(), ada);
    assert_eq!(tx.user_by_id("u4").await.unwrap(), None, "nothing of a failed creation stays");
    assert_eq!(tx.enabled_users(Some("admin")).await.unwrap(), 1);
    let names: Vec<String> =
        tx.users(None, "", 10).await.unwrap().into_iter().map(|user| user.username).collect();
    assert_eq!(names, ["Ada", "bob"]);
    let page = tx.users(None, "ada", 1).await.unwrap();
    assert_eq!(page.first().unwrap().roles, set(&["reader"]));
    assert_eq!(tx.members_of_roles(&["reader"]).await.unwrap()["reader"], ["Ada", "bob"]);
    assert_eq!(tx.role_names().await.unwrap(), [ADMIN_ROLE, "reader"]);
    assert_eq!(tx.users_batch(Some("reader"), "", 1, u32::MAX).await.unwrap(), std::slice::from_ref(&ada));
    let holders = tx.users_batch(Some("reader"), "", 9, u32::MAX).await.unwrap();
    assert_eq!(holders.iter().map(|user| &user.roles).collect::<Vec<_>>(), [&ada.roles, &set(&["reader"])]);
    assert_eq!(tx.users_batch(Some("nothing"), "", 9, u32::MAX).await.unwrap(), []);
    let kinds = |holders: u64| {
        let each = attributes().into_iter().map(|(name, value)| {
            let all = BTreeSet::from([AttributeKind::from(&value)]);
            let with_role = if holders > 0 { all.clone() } else { BTreeSet::new() };
            (name, AttributeKinds { all, with_role })
        });
        Some(KnownAttributes { kinds: each.collect(), holders })
    };
    assert_eq!(tx.known_attributes(ADMIN_ROLE, 1).await.unwrap(), kinds(1));
    assert_eq!(tx.known_attributes("nothing", 1).await.unwrap(), kinds(0));
    assert_eq!(tx.known_attributes("nothing", 0).await.unwrap(), None);
    let reader = tx.role("reader").await.unwrap().unwrap();
    assert_eq!((reader.policies.as_slice(), reader.revision), (policies.as_slice(), 3));
    assert_eq!((reader.created_at, reader.updated_at), (at(5), at(6)));
    let roles = tx.roles_named(&ada.roles).await.unwrap();
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
    assert_eq!(tx.enabled_users(Some("admin")).await.unwrap(), 0);
}

/// All users in pieces, each bounded by the number of users and the size of their attributes: in order, and each user
/// once.
async fn users_in_batches(fixture: &Fixture) {
    let db = fixture.open().await;
    let mut tx = db.begin_write().await.unwrap();
    tx.put_role("reader", &[], at(1)).await.unwrap();
    tx.commit().await.unwrap();
    for number in 0..20 {
        let roles: &[&str] = if number % 2 == 0 { &["reader"] } else { &[] };
        add_user(&db, &format!("u{number:02}"), &format!("User {number:02}"), roles).await.unwrap();
    }
    let mut tx = db.begin_write().await.unwrap();
    for number in [3, 4, 10] {
        let large = BTreeMap::from([("large".to_owned(), AttributeValue::String("x".repeat(1_000)))]);
        tx.set_user_attributes(&format!("u{number:02}"), &large).await.unwrap();
    }
    tx.commit().await.unwrap();
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.enabled_users(None).await.unwrap(), 20);
    assert_eq!(tx.enabled_users(Some("reader")).await.unwrap(), 10);
    for role in [None, Some("reader")] {
        let expected: Vec<String> = (0..20)
            .filter(|number| role.is_none() || number % 2 == 0)
            .map(|number| format!("User {number:02}"))
            .collect();
        for (limit, bytes) in [(1, 10_000), (7, 10_000), (500, 1), (500, 1_500), (500, 1 << 20)] {
            let (mut seen, mut sizes, mut after) = (Vec::new(), Vec::new(), String::new());
            loop {
                let batch = tx.users_batch(role, &after, limit, bytes).await.unwrap();
                let Some(last) = batch.last() else { break };
                after = fold_username(&last.username);
                assert_eq!(tx.user_by_id(&last.id).await.unwrap().as_ref(), Some(last));
                let large = batch.iter().filter(|user| user.attributes.contains_key("large")).count();
                assert!(large <= usize::try_from(bytes / 1_000 + 1).unwrap(), "{limit} {bytes}: {large}");
                sizes.push(batch.len());
                seen.extend(batch.into_iter().map(|user| user.username));
            }
            assert_eq!(seen, expected, "{limit} {bytes}");
            assert!(sizes.iter().all(|size| *size <= usize::try_from(limit).unwrap()), "{sizes:?}");
            assert_eq!(sizes.len() == 1, (limit, bytes) == (500, 1 << 20), "{limit} {bytes}: {sizes:?}");
        }
    }
}

/// Only successful changes of users, roles or the access model count; reads and denials do not.
async fn access_changes_are_detected(fixture: &Fixture) {
    let db = fixture.open().await;
    let append = async |action: &str, outcome: &str| {
        let mut tx = db.begin_write().await.unwrap();
        let sequence = tx.append_audit(&record(action, 1, None, outcome)).await.unwrap();
        tx.commit().await.unwrap();
        sequence
    };
    let changed = async |since| db.begin_read().await.unwrap().access_changed_since(since).await.unwrap();
    let begun = append("traces.explain", "unknown").await;
    append("login", "success").await;
    append("user.update", "failed").await;
    assert!(!changed(begun).await);
    for action in ["user.update", "role.put", "model.import", "schema.put_fields", "password.change"] {
        let written = append(action, "success").await;
        assert!(changed(begun).await && changed(written - 1).await && !changed(written).await, "{action}");
    }
}

fn session(id: &str, user_id: &str, created_at: Timestamp) -> Session {
    Session {
        id: id.to_owned(),
        user_id: user_id.to_owned(),
        created_at,
        last_seen_at: created_at,
        client_ip: None,
        user_agent: None,
        preview: None,
        provider: None,
        provider_session: None,
    }
}

async fn credentials(fixture: &Fixture) {
    let db = fixture.open().await;
    let token = |byte| TokenDigest([byte; 32]);
    let mut tx = db.begin_write().await.unwrap();
    tx.put_role("reader", &[], at(1)).await.unwrap();
    tx.commit().await.unwrap();
    add_user(&db, "u2", "bob", &["admin", "reader"]).await.unwrap();
    let mut tx = db.begin_write().await.unwrap();
    for (id, byte) in [("s1", 1), ("s2", 2), ("s3", 3)] {
        let session =
            Session { client_ip: Some("2001:db8::1".to_owned()), ..session(id, "u2", at(i64::from(byte))) };
        tx.insert_session(&session, token(byte)).await.unwrap();
    }
    let preview = Preview { roles: set(&["reader"]), attributes: attributes(), ..Preview::default() };
    tx.set_session_preview("s1", Some(&preview)).await.unwrap();
    let bob_preview =
        Preview { username: Some("bob".to_owned()), user_id: Some("u2".to_owned()), ..Preview::default() };
    tx.set_session_preview("s2", Some(&bob_preview)).await.unwrap();
    let tools = ["query\"".to_owned(), "get".to_owned()];
    let key = ApiKey {
        id: "k1".to_owned(),
        hint: "twk_abc".to_owned(),
        name: "ci".to_owned(),
        user_id: "u2".to_owned(),
        created_at: at(1),
        expires_at: Some(at(100)),
        last_used_at: None,
        last_client_ip: None,
        last_user_agent: None,
        policy: Some("service == 'a'".to_owned()),
        tools: Some(tools.to_vec()),
    };

    tx.insert_api_key(&key, token(9)).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.begin_append().await.unwrap();
    tx.touch_session("s1", at(50)).await.unwrap();
    tx.touch_session("s1", at(40)).await.unwrap();
    tx.touch_api_key("k1", at(60), Some("192.0.2.7"), Some("curl")).await.unwrap();
    tx.commit().await.unwrap();

    let mut tx = db.begin_read().await.unwrap();
    let (session, user) = db.session_by_token(token(1)).await.unwrap().unwrap();
    assert_eq!(user, tx.user_by_id(&session.user_id).await.unwrap().unwrap());
    assert_eq!((user.id.as_str(), user.created_at, &user.roles), ("u2", at(10), &set(&["admin", "reader"])));
    assert_eq!((session.id.as_str(), session.last_seen_at), ("s1", at(50)));
    assert_eq!(session.preview, Some(preview));
    assert_eq!(tx.session_by_id("s1").await.unwrap().unwrap(), session);
    assert_eq!(tx.session_by_id("s2").await.unwrap().unwrap().preview, Some(bob_preview.clone()));
    drop(tx);
    // As an earlier version stored it: a copy of the user's roles, which grants no access.
    let earlier = r#"UPDATE sessions SET preview = '{"roles":["reader"],"attributes":{"team":"blue"},"username":"bob"}' WHERE id = 's3'"#;
    fixture.run(&[earlier]).await;
    let mut tx = db.begin_read().await.unwrap();
    let kept = tx.session_by_id("s3").await.unwrap().unwrap().preview;
    assert_eq!(kept, Some(Preview { user_id: None, ..bob_preview }));
    assert_eq!(db.session_by_token(token(4)).await.unwrap(), None);
    assert_eq!(tx.session_by_id("s4").await.unwrap(), None);
    let (key, user) = db.api_key_by_token(token(9)).await.unwrap().unwrap();
    assert_eq!(user, tx.user_by_id("u2").await.unwrap().unwrap());
    assert_eq!((key.expires_at, key.last_used_at), (Some(at(100)), Some(at(60))));
    assert_eq!(
        (key.policy.as_deref(), key.tools.as_deref()),
        (Some("service == 'a'"), Some(tools.as_slice()))
    );
    assert_eq!(tx.api_key_by_id("k1").await.unwrap().unwrap(), key);
    assert_eq!(tx.api_key_by_id("k2").await.unwrap(), None);
    assert_eq!(tx.api_keys_of_user("u2").await.unwrap(), [key]);
    assert_eq!(tx.sessions_of_user("u2").await.unwrap().len(), 3);
    drop(tx);

    let mut tx = db.begin_write().await.unwrap();
    assert!(!tx.delete_session("u1", "s1").await.unwrap(), "another user's session");
    assert_eq!(tx.delete_sessions_of_user("u2", Some("s1")).await.unwrap(), 2);
    assert!(!tx.delete_api_key("u1", "k1").await.unwrap(), "another user's key");
    tx.delete_user("u2").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.session_by_token(token(1)).await.unwrap(), None, "sessions end with their user");
    assert_eq!(db.api_key_by_token(token(9)).await.unwrap(), None, "keys end with their user");
}

async fn shared_values(fixture: &Fixture) {
    let db = fixture.open().await;
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
    drop(tx);
    let mut tx = db.begin_write().await.unwrap();
    assert!(tx.password_hash_used("aa").await.unwrap());
    assert!(!tx.password_hash_used("bb").await.unwrap());
}

async fn uncommitted_changes_are_rolled_back(fixture: &Fixture) {
    let db = fixture.open().await;
    let mut tx = db.begin_write().await.unwrap();
    tx.put_role("ghost", &[], at(1)).await.unwrap();
    tx.append_audit(&record("role.put", 1, None, "success")).await.unwrap();
    let mut snapshot = db.begin_read().await.unwrap();
    assert_eq!(snapshot.role("ghost").await.unwrap(), None, "others do not see it before the commit");
    drop(tx);
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.role("ghost").await.unwrap(), None);
}

async fn sessions_expire(fixture: &Fixture) {
    let db = fixture.open().await;
    add_user(&db, "u1", "Ada", &[]).await.unwrap();
    let mut tx = db.begin_write().await.unwrap();
    for (id, created, seen) in [("old", 10, 90), ("idle", 50, 60), ("kept", 50, 90), ("edge", 30, 70)] {
        let token = TokenDigest([u8::try_from(created + seen).unwrap() ^ id.as_bytes()[0]; 32]);
        let session = Session { last_seen_at: at(seen), ..session(id, "u1", at(created)) };
        tx.insert_session(&session, token).await.unwrap();
    }
    assert_eq!(tx.delete_expired_sessions(None, None).await.unwrap(), 0);
    assert_eq!(tx.delete_expired_sessions(Some(at(30)), None).await.unwrap(), 1);
    assert_eq!(tx.delete_expired_sessions(None, Some(at(70))).await.unwrap(), 1);
    let left = tx.sessions_of_user("u1").await.unwrap();
    assert_eq!(left.into_iter().map(|session| session.id).collect::<Vec<_>>(), ["kept", "edge"]);
}

async fn the_longest_idle_sessions_are_removed(fixture: &Fixture) {
    let db = fixture.open().await;
    add_user(&db, "u1", "Ada", &[]).await.unwrap();
    add_user(&db, "u2", "Bob", &[]).await.unwrap();
    let mut tx = db.begin_write().await.unwrap();
    let sessions =
        [("u1", "old", 10, 90), ("u1", "idle", 50, 60), ("u1", "new", 80, 80), ("u2", "other", 1, 1)];
    for (user_id, id, created, seen) in sessions {
        let token = TokenDigest([u8::try_from(created).unwrap(); 32]);
        let session = Session { last_seen_at: at(seen), ..session(id, user_id, at(created)) };
        tx.insert_session(&session, token).await.unwrap();
    }
    assert!(tx.delete_idlest_sessions("u1", 3).await.unwrap().is_empty());
    assert_eq!(tx.delete_idlest_sessions("u1", 1).await.unwrap().len(), 2);
    let left = [tx.sessions_of_user("u1").await.unwrap(), tx.sessions_of_user("u2").await.unwrap()].concat();
    assert_eq!(left.into_iter().map(|session| session.id).collect::<Vec<_>>(), ["old", "other"]);
}

async fn order_is_bytewise(fixture: &Fixture) {
    // Names that some languages sort differently than bytewise: punctuation, case, accents.
    let names =
        ["ab", "a-b", "a_b", "a.c", "B", "b-a", "z", "é", "e", "f", "Zed", "ä", "ß", "ss", "a b", "10", "9"];
    let db = fixture.open().await;
    let mut tx = db.begin_write().await.unwrap();
    for name in names {
        tx.put_role(name, &[], at(1)).await.unwrap();
    }
    tx.commit().await.unwrap();
    for (number, name) in names.iter().enumerate() {
        add_user(&db, &format!("u{number}"), name, &["z"]).await.unwrap();
    }
    let mut roles: Vec<&str> = [&names[..], &[ADMIN_ROLE]].concat();
    roles.sort_unstable();
    let mut users: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    users.sort_unstable();
    let mut tx = db.begin_read().await.unwrap();
    let found: Vec<String> = tx.roles().await.unwrap().into_iter().map(|role| role.name).collect();
    assert_eq!(found, roles);
    let found = tx.members_of_roles(&["z"]).await.unwrap().remove("z").unwrap_or_default();
    assert_eq!(found.iter().map(|name| name.to_lowercase()).collect::<Vec<_>>(), users);
    let mut pages: Vec<String> = Vec::new();
    loop {
        let page = tx.users(None, pages.last().map_or("", String::as_str), 2).await.unwrap();
        if page.is_empty() {
            break;
        }
        assert!(page.iter().all(|user| user.roles == set(&["z"])), "each with its roles");
        pages.extend(page.into_iter().map(|user| user.username.to_lowercase()));
    }
    assert_eq!(pages, users, "pages omit no user and repeat no user");
}

async fn a_failed_statement_ends_its_transaction(fixture: &Fixture) {
    let db = fixture.open().await;
    add_user(&db, "u1", "Ada", &[]).await.unwrap();
    let mut tx = db.begin_write().await.unwrap();
    tx.put_role("half", &[], at(1)).await.unwrap();
    let user = tx.user_by_id("u1").await.unwrap().unwrap();
    let twice = tx.insert_user(&User { id: "u2".to_owned(), username: "ADA".to_owned(), ..user }).await;
    assert!(matches!(twice, Err(DbError::Conflict(_))), "{twice:?}");
    assert!(tx.commit().await.is_err(), "the request was not executed in full");
    assert_eq!(db.begin_read().await.unwrap().role("half").await.unwrap(), None);
}

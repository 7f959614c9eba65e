//! Management of users by administrators, and the first administrator.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::collections::BTreeMap;

use secrecy::ExposeSecret as _;
use support::*;
use tracewarden_model::AttributeValue;
use tracewarden_service::*;

fn named(username: &str, roles: &[&str]) -> NewUser {
    NewUser { username: username.to_owned(), roles: set(roles), ..NewUser::default() }
}

#[tokio::test]
async fn creating_and_deleting_users_is_recorded() {
    let world = world().await;
    let admin = world.admin().await;
    let right = admin.require_admin().unwrap();
    let name = "'; DROP TABLE users; --";
    let created = world.service.create_user(&right, named(name, &[])).await.unwrap();
    assert_eq!(created.user.username, name);
    assert!(created.user.must_change_password && created.user.last_login_at.is_none());
    assert_eq!(code(world.service.create_user(&right, named(&name.to_uppercase(), &[])).await), "conflict");
    assert_eq!(code(world.service.create_user(&right, named("x", &["ghost"])).await), "unknown_role");
    assert_eq!(pointers(world.service.create_user(&right, named("a/b", &[])).await)[0].0, "/username");

    let attributes = BTreeMap::from([("te/am".to_owned(), AttributeValue::String("x".repeat(2_000)))]);
    let change = UserChange { attributes: Some(attributes), ..UserChange::default() };
    assert_eq!(
        pointers(world.service.update_user(&right, name, change, None).await)[0].0,
        "/attributes/te~1am"
    );
    let change = UserChange { attributes: Some(team("payments")), ..UserChange::default() };
    let user = world.service.update_user(&right, name, change, None).await.unwrap();
    assert_eq!(user.attributes, team("payments"));
    let record = world.last_audit(&admin).await;
    assert_eq!((record.action.as_str(), record.outcome.as_str()), ("user.update", "success"));
    assert_eq!(record.target.as_deref(), Some(name));
    assert_eq!(record.detail["attributes"]["added"]["team"], "payments", "{record:?}");

    world.service.delete_user(&right, name, None).await.unwrap();
    assert_eq!(code(world.service.user(&right, name).await), "not_found");
    assert_eq!(code(world.service.delete_user(&right, name, None).await), "not_found");
    assert_eq!(world.last_audit(&admin).await.outcome, "failed");
}

#[tokio::test]
async fn pages_contain_each_user_once() {
    let world = world().await;
    let admin = world.admin().await;
    let right = admin.require_admin().unwrap();
    for name in ["Zoe", "bob", "Ümit"] {
        world.service.create_user(&right, named(name, &[])).await.unwrap();
    }
    let mut names = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = world.service.users(&right, cursor.as_deref(), Some(1)).await.unwrap();
        names.extend(page.users.into_iter().map(|user| user.username));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(names, ["admin", "bob", "Zoe", "Ümit"]);
    assert_eq!(code(world.service.users(&right, Some("***"), None).await), "invalid_cursor");
}

#[tokio::test]
async fn an_enabled_administrator_always_remains() {
    let world = world().await;
    let admin = world.admin().await;
    let right = admin.require_admin().unwrap();
    let without = || UserChange { roles: Some(set(&[])), ..UserChange::default() };
    let disabled = |disabled| UserChange { disabled: Some(disabled), ..UserChange::default() };
    assert_eq!(code(world.service.update_user(&right, "admin", without(), None).await), "last_admin");
    assert_eq!(code(world.service.update_user(&right, "admin", disabled(true), None).await), "last_admin");
    assert_eq!(code(world.service.delete_user(&right, "admin", None).await), "last_admin");
    assert!(world.service.user(&right, "admin").await.unwrap().roles.contains("admin"));

    world.user(&admin, "eve", &["admin"]).await;
    world.service.update_user(&right, "eve", disabled(true), None).await.unwrap();
    assert_eq!(code(world.service.delete_user(&right, "admin", None).await), "last_admin");
    world.service.update_user(&right, "eve", disabled(false), None).await.unwrap();

    // Two administrators step down at once, on two replicas. Each uses their own permission, which the other's change does
    // not affect: the second is rejected only because no administrator would remain.
    let eve = world.principal(&world.login("eve", USER_PASSWORD).await.unwrap()).await;
    let (own, elsewhere) = (eve.require_admin().unwrap(), world.replica(Settings::default()).await);
    let both = tokio::join!(
        world.service.update_user(&right, "admin", without(), None),
        elsewhere.update_user(&own, "eve", without(), None),
    );
    let ((Ok(_), Err(refused)) | (Err(refused), Ok(_))) = &both else { panic!("{both:?}") };
    assert_eq!(refused.code(), "last_admin");
    assert_eq!(world.db.begin_read().await.unwrap().enabled_administrators().await.unwrap(), 1);
}

#[tokio::test]
async fn a_change_applies_to_the_next_request() {
    let world = world().await;
    let admin = world.admin().await;
    let right = admin.require_admin().unwrap();
    world.user(&admin, "ada", &["admin"]).await;
    let session = world.login("ada", USER_PASSWORD).await.unwrap();
    let key = world.api_key(&world.principal(&session).await).await;
    let change = UserChange { roles: Some(set(&[])), ..UserChange::default() };
    world.service.update_user(&right, "ada", change, None).await.unwrap();
    for credential in [&session, &key] {
        assert_eq!(code(world.principal(credential).await.require_admin()), "forbidden");
    }
    let change = |disabled| UserChange { disabled: Some(disabled), ..UserChange::default() };
    world.service.update_user(&right, "ada", change(true), None).await.unwrap();
    for credential in [&session, &key] {
        assert_eq!(code(world.service.authenticate(credential, info()).await), "unauthenticated");
    }
    world.service.update_user(&right, "ada", change(false), None).await.unwrap();
    assert_eq!(code(world.service.authenticate(&session, info()).await), "unauthenticated", "it has ended");
    world.principal(&key).await;

    world.service.revoke_user_api_keys(&right, "ada").await.unwrap();
    assert_eq!(code(world.service.authenticate(&key, info()).await), "unauthenticated");
    let session = world.login("ada", USER_PASSWORD).await.unwrap();
    let sessions = world.service.user_sessions(&right, "ada").await.unwrap();
    assert_eq!((sessions.len(), sessions[0].current), (1, false));
    world.service.end_user_session(&right, "ada", &sessions[0].id).await.unwrap();
    assert_eq!(code(world.service.authenticate(&session, info()).await), "unauthenticated");

    let session = world.login("ada", USER_PASSWORD).await.unwrap();
    let password = world.service.rotate_password(&right, "ada").await.unwrap();
    assert_eq!(code(world.service.authenticate(&session, info()).await), "unauthenticated");
    assert_eq!(code(world.login("ada", USER_PASSWORD).await), "invalid_credentials");
    let session = world.login("ada", password.expose_secret()).await.unwrap();
    assert_eq!(code(world.service.authenticate(&session, info()).await), "password_change_required");
    world.service.delete_user(&right, "ada", None).await.unwrap();
    assert_eq!(code(world.service.identify(&session, info()).await), "unauthenticated");
}

#[tokio::test]
async fn a_key_provisions_users_but_no_administrators() {
    let world = world().await;
    let admin = world.admin().await;
    world.user(&admin, "eve", &["admin"]).await;
    let by_key = world.principal(&world.api_key(&admin).await).await;
    let right = by_key.require_admin().unwrap();
    world.service.create_user(&right, named("ada", &[])).await.unwrap();
    world.service.rotate_password(&right, "ada").await.unwrap();
    let roles = |roles| UserChange { roles: Some(set(roles)), ..UserChange::default() };
    let disabled = |disabled| UserChange { disabled: Some(disabled), ..UserChange::default() };
    assert_eq!(code(world.service.create_user(&right, named("x", &["admin"])).await), "session_required");
    assert_eq!(
        code(world.service.update_user(&right, "ada", roles(&["admin"]), None).await),
        "session_required"
    );
    assert_eq!(code(world.service.rotate_password(&right, "eve").await), "session_required");
    world.service.update_user(&right, "eve", disabled(true), None).await.unwrap();
    assert_eq!(
        code(world.service.update_user(&right, "eve", disabled(false), None).await),
        "session_required"
    );
    let record = world.last_audit(&admin).await;
    assert_eq!((record.outcome.as_str(), record.via.as_deref()), ("denied", Some("api_key")));
    assert_eq!(record.detail["code"], "session_required");
}

#[tokio::test]
async fn replicas_that_start_together_create_one_administrator() {
    let world = world().await;
    let mut replicas = Vec::new();
    for _ in 0..4 {
        let db = AppDb::open(&world.url, tracewarden_model::Timestamp::from_nanos(0)).await.unwrap();
        replicas.push(replica(&db, &world.clock, &world.store, Settings::default()).await);
    }
    let settings = || AdminSettings { username: "root".to_owned(), password_hash: None };
    let done =
        futures::future::join_all(replicas.iter().map(|replica| replica.bootstrap(settings(), kept))).await;
    let created = done.iter().filter(|done| matches!(done, Ok(Bootstrap::Created { .. }))).count();
    let unchanged = done.iter().filter(|done| matches!(done, Ok(Bootstrap::Unchanged))).count();
    assert_eq!((created, unchanged), (1, 3), "{done:?}");
}

#[tokio::test]
async fn a_configured_hash_is_applied_once() {
    let world = world().await;
    let admin = world.admin().await;
    let hash = |password: &str, salt: u8| {
        struct Salt(u8);
        impl tracewarden_model::Entropy for Salt {
            fn fill(&self, bytes: &mut [u8]) -> Result<(), tracewarden_model::ambient::EntropyError> {
                bytes.fill(self.0);
                Ok(())
            }
        }
        hash_password_phc(password, None, &Settings::default(), &Salt(salt)).unwrap()
    };
    let configured = |name: &str, hash: &str| AdminSettings {
        username: name.to_owned(),
        password_hash: Some(hash.to_owned()),
    };
    let session = world.login("admin", ADMIN_PASSWORD).await.unwrap();
    let first = hash("recovered secret", 1);
    for weak in ["hunter2", &first.replace("m=19456", "m=8")] {
        assert!(world.service.bootstrap(configured("admin", weak), kept).await.is_err());
    }
    assert!(world.service.bootstrap(configured("nobody", &first), kept).await.is_err());

    let done = world.service.bootstrap(configured("admin", &first), kept).await.unwrap();
    assert!(matches!(done, Bootstrap::HashReplaced { .. }), "{done:?}");
    assert_eq!(code(world.service.identify(&session, info()).await), "unauthenticated");
    let session = world.login("admin", "recovered secret").await.unwrap();
    let principal = world.principal(&session).await;
    let (old, new) = ("recovered secret".to_owned().into(), ADMIN_PASSWORD.to_owned().into());
    world.service.change_password(&principal, old, new).await.unwrap();

    let done = world.service.bootstrap(configured("admin", &first), kept).await.unwrap();
    assert!(matches!(done, Bootstrap::Unchanged), "left in the configuration it undoes nothing");
    world.login("admin", ADMIN_PASSWORD).await.unwrap();
    let second = hash("second recovery", 2);
    world.service.bootstrap(configured("admin", &second), kept).await.unwrap();
    let done = world.service.bootstrap(configured("admin", &first), kept).await.unwrap();
    assert!(matches!(done, Bootstrap::Unchanged), "an old one put back revives nothing");
    world.login("admin", "second recovery").await.unwrap();
    let records = world.audit(&admin).await;
    let replaced = records.iter().filter(|entry| entry.action == "admin.replace_hash").count();
    assert_eq!((replaced, records.last().unwrap().action.as_str()), (2, "admin.create"));
}

#[tokio::test]
async fn a_first_start_with_a_hash_creates_no_password() {
    let world = world().await;
    let phc =
        "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$hvdPN9gs5h4Ve5VDnkHyWWzCfFcUMYEYjJKpWUFdHV8";
    let settings = || AdminSettings { username: "admin".to_owned(), password_hash: Some(phc.to_owned()) };
    let done = world.service.bootstrap(settings(), kept).await.unwrap();
    assert!(matches!(done, Bootstrap::Created { password: None, .. }), "{done:?}");
    assert!(matches!(world.service.bootstrap(settings(), kept).await.unwrap(), Bootstrap::Unchanged));
}

#[tokio::test]
async fn a_password_that_cannot_be_stored_creates_no_user() {
    let world = world().await;
    let settings = || AdminSettings { username: "admin".to_owned(), password_hash: None };
    let refused = world.service.bootstrap(settings(), |_| Err("no place for it".to_owned())).await;
    assert_eq!(refused.unwrap_err().detail(), "no place for it");
    assert!(world.db.begin_read().await.unwrap().users("", 1).await.unwrap().is_empty());
    let mut kept = None;
    let keep = |password: &Secret| {
        kept = Some(password.clone());
        Ok(())
    };
    let done = world.service.bootstrap(settings(), keep).await.unwrap();
    assert!(matches!(done, Bootstrap::Created { .. }), "{done:?}");
    world.login("admin", kept.unwrap().expose_secret()).await.unwrap();
}

#[tokio::test]
async fn weak_hashing_settings_prevent_the_start() {
    let world = world().await;
    let store = tracewarden_tracestore::ClickHouseConfig {
        endpoints: vec![world.store.address.clone()],
        user: String::new(),
        password: "".into(),
        max_execution_time_seconds: 1,
        max_memory_bytes: 1,
        max_threads: None,
        answer_timeout_seconds: 600,
        max_trace_duration_nanos: None,
    };
    struct Zero;
    impl tracewarden_model::Entropy for Zero {
        fn fill(&self, _: &mut [u8]) -> Result<(), tracewarden_model::ambient::EntropyError> {
            Ok(())
        }
    }
    let entropy = std::sync::Arc::new(Zero);
    let store = ClickHouse::new(store, entropy.clone()).unwrap();
    let start = |password: PasswordCost| {
        let settings = Settings { password, ..Settings::default() };
        Service::new(world.db.clone(), store.clone(), world.clock.clone(), entropy.clone(), settings)
    };
    let enough = PasswordCost::default();
    for weak in [
        PasswordCost { memory_kib: enough.memory_kib - 1, ..enough },
        PasswordCost { iterations: enough.iterations - 1, ..enough },
        PasswordCost { memory_kib: 1024, iterations: 100, ..enough },
    ] {
        let refused = start(weak).await.err().unwrap_or_else(|| panic!("it starts with {weak:?}"));
        let why = "the cost of password hashes is below 19 MiB, 2 passes, 1 lane";
        assert_eq!(refused.inside().as_deref(), Some(why), "{weak:?}");
    }
    // All other settings are valid.
    start(enough).await.unwrap();
}

//! Management of users by administrators, and the first administrator.

use std::collections::BTreeMap;

use crate::support::*;
use secrecy::ExposeSecret as _;
use tracewarden_appdb::NewIdentity;
use tracewarden_model::{AttributeValue, Timestamp};
use tracewarden_service::*;

fn named(username: &str, roles: &[&str]) -> NewUser {
    NewUser { username: username.to_owned(), roles: set(roles), ..NewUser::default() }
}

#[tokio::test]
async fn creating_and_deleting_users_is_recorded() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    let name = "'; DROP TABLE users; --";
    let created = fixture.service.users().create_user(&administrator, named(name, &[])).await.unwrap();
    assert_eq!(created.user.username, name);
    assert!(created.user.must_change_password && created.user.last_login_at.is_none());
    assert_eq!(
        code(fixture.service.users().create_user(&administrator, named(&name.to_uppercase(), &[])).await),
        "conflict"
    );
    assert_eq!(
        code(fixture.service.users().create_user(&administrator, named("x", &["ghost"])).await),
        "unknown_role"
    );
    assert_eq!(
        pointers(fixture.service.users().create_user(&administrator, named("a/b", &[])).await)[0].0,
        "/username"
    );

    let attributes = BTreeMap::from([("te/am".to_owned(), AttributeValue::String("x".repeat(2_000)))]);
    let change = UserChange { attributes: Some(attributes), ..UserChange::default() };
    assert_eq!(
        pointers(fixture.service.users().update_user(&administrator, name, change, None).await)[0].0,
        "/attributes/te~1am"
    );
    let change = UserChange { attributes: Some(team("payments")), ..UserChange::default() };
    let user = fixture.service.users().update_user(&administrator, name, change, None).await.unwrap();
    assert_eq!(user.attributes.0, team("payments"));
    let record = fixture.last_audit(&admin).await;
    assert_eq!((record.action.as_str(), record.outcome.as_str()), ("user.update", "success"));
    assert_eq!(record.target.as_deref(), Some(name));
    assert_eq!(record.detail["attributes"]["added"]["team"], "payments", "{record:?}");

    fixture.service.users().delete_user(&administrator, name, None).await.unwrap();
    assert_eq!(code(fixture.service.users().user(&administrator, name).await), "not_found");
    assert_eq!(code(fixture.service.users().delete_user(&administrator, name, None).await), "not_found");
    assert_eq!(fixture.last_audit(&admin).await.outcome, "failed");
}

#[tokio::test]
async fn pages_contain_each_user_once() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    for name in ["Zoe", "bob", "Ümit"] {
        fixture.service.users().create_user(&administrator, named(name, &[])).await.unwrap();
    }
    let mut names = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page =
            fixture.service.users().list(&administrator, None, cursor.as_deref(), Some(1)).await.unwrap();
        names.extend(page.users.into_iter().map(|user| user.username));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(names, ["admin", "bob", "Zoe", "Ümit"]);
    assert_eq!(
        code(fixture.service.users().list(&administrator, None, Some("***"), None).await),
        "invalid_cursor"
    );
}

#[tokio::test]
async fn an_enabled_administrator_always_remains() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    let without = || UserChange { roles: Some(set(&[])), ..UserChange::default() };
    let disabled = |disabled| UserChange { disabled: Some(disabled), ..UserChange::default() };
    assert_eq!(
        code(fixture.service.users().update_user(&administrator, "admin", without(), None).await),
        "last_admin"
    );
    assert_eq!(
        code(fixture.service.users().update_user(&administrator, "admin", disabled(true), None).await),
        "last_admin"
    );
    assert_eq!(code(fixture.service.users().delete_user(&administrator, "admin", None).await), "last_admin");
    assert!(fixture.service.users().user(&administrator, "admin").await.unwrap().roles.contains("admin"));

    fixture.user(&admin, "eve", &["admin"]).await;
    fixture.service.users().update_user(&administrator, "eve", disabled(true), None).await.unwrap();
    assert_eq!(code(fixture.service.users().delete_user(&administrator, "admin", None).await), "last_admin");
    fixture.service.users().update_user(&administrator, "eve", disabled(false), None).await.unwrap();

    // Two administrators step down at once, on two replicas. Each uses their own permission, which the other's change does
    // not affect: the second is rejected only because no administrator would remain.
    let eve = fixture.principal(&fixture.sign_in("eve", USER_PASSWORD).await.unwrap()).await;
    let (own, elsewhere) = (eve.require_admin().unwrap(), fixture.replica(Settings::default()).await);
    let (here, there) = (fixture.service.users(), elsewhere.users());
    let both = tokio::join!(
        here.update_user(&administrator, "admin", without(), None),
        there.update_user(&own, "eve", without(), None),
    );
    let ((Ok(_), Err(refused)) | (Err(refused), Ok(_))) = &both else { panic!("{both:?}") };
    assert_eq!(refused.code(), "last_admin");
    assert_eq!(fixture.db.begin_read().await.unwrap().enabled_users(Some("admin")).await.unwrap(), 1);
}

#[tokio::test]
async fn a_change_applies_to_the_next_request() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    fixture.user(&admin, "ada", &["admin"]).await;
    let session = fixture.sign_in("ada", USER_PASSWORD).await.unwrap();
    let key = fixture.api_key(&fixture.principal(&session).await).await;
    let change = UserChange { roles: Some(set(&[])), ..UserChange::default() };
    fixture.service.users().update_user(&administrator, "ada", change, None).await.unwrap();
    for credential in [&session, &key] {
        assert_eq!(code(fixture.principal(credential).await.require_admin()), "forbidden");
    }
    let change = |disabled| UserChange { disabled: Some(disabled), ..UserChange::default() };
    fixture.service.users().update_user(&administrator, "ada", change(true), None).await.unwrap();
    for credential in [&session, &key] {
        assert_eq!(code(fixture.service.core().authenticate(credential, info()).await), "unauthenticated");
    }
    fixture.service.users().update_user(&administrator, "ada", change(false), None).await.unwrap();
    assert_eq!(
        code(fixture.service.core().authenticate(&session, info()).await),
        "unauthenticated",
        "it has ended"
    );
    fixture.principal(&key).await;

    fixture.service.users().revoke_user_api_keys(&administrator, "ada", None).await.unwrap();
    assert_eq!(code(fixture.service.core().authenticate(&key, info()).await), "unauthenticated");
    let session = fixture.sign_in("ada", USER_PASSWORD).await.unwrap();
    let sessions = fixture.service.users().user_sessions(&administrator, "ada").await.unwrap();
    assert_eq!((sessions.len(), sessions[0].current), (1, false));
    fixture.service.users().end_user_sessions(&administrator, "ada", Some(&sessions[0].id)).await.unwrap();
    assert_eq!(code(fixture.service.core().authenticate(&session, info()).await), "unauthenticated");

    let session = fixture.sign_in("ada", USER_PASSWORD).await.unwrap();
    let password = fixture.service.users().rotate_password(&administrator, "ada").await.unwrap();
    assert_eq!(code(fixture.service.core().authenticate(&session, info()).await), "unauthenticated");
    assert_eq!(code(fixture.sign_in("ada", USER_PASSWORD).await), "invalid_credentials");
    let session = fixture.sign_in("ada", password.expose_secret()).await.unwrap();
    assert_eq!(code(fixture.service.core().authenticate(&session, info()).await), "password_change_required");
    fixture.service.users().delete_user(&administrator, "ada", None).await.unwrap();
    assert_eq!(code(fixture.service.core().identify(&session, info()).await), "unauthenticated");
}

#[tokio::test]
async fn a_key_provisions_users_but_no_administrators() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    fixture.user(&admin, "eve", &["admin"]).await;
    let by_key = fixture.principal(&fixture.api_key(&admin).await).await;
    let administrator = by_key.require_admin().unwrap();
    fixture.service.users().create_user(&administrator, named("ada", &[])).await.unwrap();
    fixture.service.users().rotate_password(&administrator, "ada").await.unwrap();
    let roles = |roles| UserChange { roles: Some(set(roles)), ..UserChange::default() };
    let disabled = |disabled| UserChange { disabled: Some(disabled), ..UserChange::default() };
    assert_eq!(
        code(fixture.service.users().create_user(&administrator, named("x", &["admin"])).await),
        "session_required"
    );
    assert_eq!(
        code(fixture.service.users().update_user(&administrator, "ada", roles(&["admin"]), None).await),
        "session_required"
    );
    assert_eq!(
        code(fixture.service.users().rotate_password(&administrator, "eve").await),
        "session_required"
    );
    fixture.service.users().update_user(&administrator, "eve", disabled(true), None).await.unwrap();
    assert_eq!(
        code(fixture.service.users().update_user(&administrator, "eve", disabled(false), None).await),
        "session_required"
    );
    let record = fixture.last_audit(&admin).await;
    assert_eq!((record.outcome.as_str(), record.actor.via.as_deref()), ("denied", Some("api_key")));
    assert_eq!(record.detail["code"], "session_required");
}

#[tokio::test]
async fn replicas_that_start_together_create_one_administrator() {
    let fixture = fixture().await;
    let mut replicas = Vec::new();
    for _ in 0..4 {
        let db = AppDb::open(&fixture.url, tracewarden_model::Timestamp::from_nanos(0)).await.unwrap();
        replicas.push(replica(&db, &fixture.clock, &fixture.store, Settings::default()).await);
    }
    let settings = || AdminSettings { username: "root".to_owned(), password_hash: None };
    let done = futures::future::join_all(
        replicas.iter().map(|replica| replica.bootstrap(settings(), accept_password)),
    )
    .await;
    let created = done.iter().filter(|done| matches!(done, Ok(Bootstrap::Created { .. }))).count();
    let unchanged = done.iter().filter(|done| matches!(done, Ok(Bootstrap::Unchanged))).count();
    assert_eq!((created, unchanged), (1, 3), "{done:?}");
}

#[tokio::test]
async fn a_configured_hash_is_applied_once() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let hash = |password: &str, salt: u8| {
        struct FixedEntropy(u8);
        impl tracewarden_model::Entropy for FixedEntropy {
            fn fill(&self, bytes: &mut [u8]) -> Result<(), tracewarden_model::ambient::EntropyError> {
                bytes.fill(self.0);
                Ok(())
            }
        }
        hash_password_phc(password, None, &Settings::default(), &FixedEntropy(salt)).unwrap()
    };
    let configured = |name: &str, hash: &str| AdminSettings {
        username: name.to_owned(),
        password_hash: Some(hash.to_owned()),
    };
    let session = fixture.sign_in("admin", ADMIN_PASSWORD).await.unwrap();
    let first = hash("recovered secret", 1);
    for weak in ["hunter2", &first.replace("m=19456", "m=8")] {
        assert!(fixture.service.bootstrap(configured("admin", weak), accept_password).await.is_err());
    }
    assert!(fixture.service.bootstrap(configured("unknown-user", &first), accept_password).await.is_err());

    let done = fixture.service.bootstrap(configured("admin", &first), accept_password).await.unwrap();
    assert!(matches!(done, Bootstrap::HashReplaced { .. }), "{done:?}");
    assert_eq!(code(fixture.service.core().identify(&session, info()).await), "unauthenticated");
    let session = fixture.sign_in("admin", "recovered secret").await.unwrap();
    let principal = fixture.principal(&session).await;
    let (old, new) = ("recovered secret".to_owned().into(), ADMIN_PASSWORD.to_owned().into());
    fixture.service.account().change_password(&principal, old, new).await.unwrap();

    let done = fixture.service.bootstrap(configured("admin", &first), accept_password).await.unwrap();
    assert!(matches!(done, Bootstrap::Unchanged), "left in the configuration it undoes nothing");
    fixture.sign_in("admin", ADMIN_PASSWORD).await.unwrap();
    let second = hash("second recovery", 2);
    fixture.service.bootstrap(configured("admin", &second), accept_password).await.unwrap();
    let done = fixture.service.bootstrap(configured("admin", &first), accept_password).await.unwrap();
    assert!(matches!(done, Bootstrap::Unchanged), "an old one put back revives nothing");
    fixture.sign_in("admin", "second recovery").await.unwrap();
    let records = fixture.audit(&admin).await;
    let replaced = records.iter().filter(|entry| entry.action == "admin.replace_hash").count();
    assert_eq!((replaced, records.last().unwrap().action.as_str()), (2, "admin.create"));
}

/// Makes a user one of an identity provider, whose claims were confirmed at this time.
async fn put_identity(fixture: &Fixture, username: &str, confirmed_at: Timestamp) {
    let mut tx = fixture.db.begin_write().await.unwrap();
    let user_id = tx.user_by_name(username).await.unwrap().unwrap().id;
    let identity = NewIdentity {
        user_id: &user_id,
        provider: "company",
        issuer: "https://id.example.com",
        subject: username,
        claims: "{}",
        confirmed_at,
    };
    tx.identities_mut().put(&identity).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_configured_hash_is_not_spent_on_a_user_of_a_provider() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    fixture.user(&admin, "bob", &["admin"]).await;
    put_identity(&fixture, "bob", Timestamp::from_micros(1)).await;
    let password_hash =
        fixture.db.begin_read().await.unwrap().user_by_name("bob").await.unwrap().unwrap().password_hash.0;
    let configured = |username: &str| AdminSettings {
        username: username.to_owned(),
        password_hash: Some(password_hash.clone()),
    };
    assert!(fixture.service.bootstrap(configured("bob"), accept_password).await.is_err());
    let done = fixture.service.bootstrap(configured("admin"), accept_password).await.unwrap();
    assert!(matches!(done, Bootstrap::HashReplaced { .. }), "{done:?}");
}

#[tokio::test]
async fn what_the_provider_ended_has_lapsed_whatever_the_age_allowed() {
    let century = 100 * 366 * 86_400 * 1_000_000_000;
    let fixture = fixture_with(Settings { identity_max_age_nanos: century, ..Settings::default() }).await;
    let admin = fixture.admin().await;
    let key = fixture.api_key(&fixture.user(&admin, "bob", &[]).await).await;
    put_identity(&fixture, "bob", Timestamp::from_micros(1)).await;
    fixture.service.core().identify(&key, info()).await.unwrap();
    put_identity(&fixture, "bob", Timestamp::from_micros(0)).await;
    assert_eq!(code(fixture.service.core().identify(&key, info()).await), "unauthenticated");
}

#[tokio::test]
async fn a_first_start_with_a_hash_creates_no_password() {
    let fixture = fixture().await;
    let phc =
        "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$hvdPN9gs5h4Ve5VDnkHyWWzCfFcUMYEYjJKpWUFdHV8";
    let settings = || AdminSettings { username: "admin".to_owned(), password_hash: Some(phc.to_owned()) };
    let done = fixture.service.bootstrap(settings(), accept_password).await.unwrap();
    assert!(matches!(done, Bootstrap::Created { password: None, .. }), "{done:?}");
    assert!(matches!(
        fixture.service.bootstrap(settings(), accept_password).await.unwrap(),
        Bootstrap::Unchanged
    ));
}

#[tokio::test]
async fn a_password_that_cannot_be_stored_creates_no_user() {
    let fixture = fixture().await;
    let settings = || AdminSettings { username: "admin".to_owned(), password_hash: None };
    let refused = fixture.service.bootstrap(settings(), |_| Err("no place for it".to_owned())).await;
    assert_eq!(refused.unwrap_err().detail(), "no place for it");
    assert!(fixture.db.begin_read().await.unwrap().users(None, "", 1).await.unwrap().is_empty());
    let mut kept = None;
    let keep = |password: &Secret| {
        kept = Some(password.clone());
        Ok(())
    };
    let done = fixture.service.bootstrap(settings(), keep).await.unwrap();
    assert!(matches!(done, Bootstrap::Created { .. }), "{done:?}");
    fixture.sign_in("admin", kept.unwrap().expose_secret()).await.unwrap();
}

#[tokio::test]
async fn weak_hashing_settings_prevent_the_start() {
    let fixture = fixture().await;
    let store = tracewarden_clickhouse::ClickHouseConfig {
        endpoints: vec![fixture.store.address.clone()],
        user: String::new(),
        password: "".into(),
        max_execution_time_seconds: 1,
        max_memory_bytes: 1,
        max_threads: None,
        answer_timeout_seconds: 600,
        max_trace_duration_nanos: None,
    };
    struct ZeroEntropy;
    impl tracewarden_model::Entropy for ZeroEntropy {
        fn fill(&self, _: &mut [u8]) -> Result<(), tracewarden_model::ambient::EntropyError> {
            Ok(())
        }
    }
    let entropy = std::sync::Arc::new(ZeroEntropy);
    let store = ClickHouse::new(store, entropy.clone()).unwrap();
    let start = |password: PasswordCost| {
        let settings = Settings { password, ..Settings::default() };
        Service::new(fixture.db.clone(), store.clone(), fixture.clock.clone(), entropy.clone(), settings)
    };
    let enough = PasswordCost::default();
    for weak in [
        PasswordCost { memory_kib: enough.memory_kib - 1, ..enough },
        PasswordCost { iterations: enough.iterations - 1, ..enough },
        PasswordCost { memory_kib: 1024, iterations: 100, ..enough },
    ] {
        let refused = start(weak).await.err().unwrap_or_else(|| panic!("it starts with {weak:?}"));
        let why = "the cost of password hashes is below 19 MiB, 2 passes, 1 lane";
        assert_eq!(refused.log_cause().as_deref(), Some(why), "{weak:?}");
    }
    // All other settings are valid.
    start(enough).await.unwrap();
}

//! Sign-in, sessions, passwords and API keys.

use std::time::{Duration, Instant};

use crate::support::*;
use secrecy::ExposeSecret as _;
use tracewarden_model::{Clock as _, Timestamp};
use tracewarden_service::*;

#[tokio::test]
async fn a_pending_password_change_allows_three_operations() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let new = NewUser { username: "ada".to_owned(), ..NewUser::default() };
    let created = fixture.service.users().create_user(&admin.require_admin().unwrap(), new).await.unwrap();
    let generated = created.initial_password.as_ref().unwrap().expose_secret();
    let credential = fixture.sign_in("ADA", generated).await.unwrap();

    assert_eq!(
        code(fixture.service.core().authenticate(&credential, info()).await),
        "password_change_required"
    );
    let identity = fixture.service.core().identify(&credential, info()).await.unwrap();
    let me = fixture.service.account().me(&identity);
    assert_eq!((me.username.as_str(), me.must_change_password, me.is_admin), ("ada", true, false));

    let account = fixture.service.account();
    let change = |old: &str, new: &str| {
        account.change_password(&identity, old.to_owned().into(), new.to_owned().into())
    };
    assert_eq!(code(change("wrong", USER_PASSWORD).await), "invalid_credentials");
    assert_eq!(code(change(generated, "short").await), "password_rejected");
    assert_eq!(code(change(generated, "my name is ada").await), "password_rejected");
    assert_eq!(code(change(generated, generated).await), "password_rejected");
    change(generated, USER_PASSWORD).await.unwrap();
    let principal = fixture.principal(&credential).await;
    assert!(!fixture.service.account().me(&principal).must_change_password);
    fixture.service.account().sign_out(&principal).await.unwrap();
    assert_eq!(code(fixture.service.core().authenticate(&credential, info()).await), "unauthenticated");
}

#[tokio::test]
async fn a_password_change_ends_the_other_sessions() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    fixture.user(&admin, "ada", &[]).await;
    let here = fixture.sign_in("ada", USER_PASSWORD).await.unwrap();
    let there = fixture.sign_in("ada", USER_PASSWORD).await.unwrap();
    let principal = fixture.principal(&here).await;
    let (old, new) = (USER_PASSWORD.to_owned().into(), "yet another secret".to_owned().into());
    fixture.service.account().change_password(&principal, old, new).await.unwrap();
    fixture.principal(&here).await;
    assert_eq!(code(fixture.service.core().authenticate(&there, info()).await), "unauthenticated");
    assert_eq!(code(fixture.sign_in("ada", USER_PASSWORD).await), "invalid_credentials");
    assert_eq!(fixture.service.account().my_sessions(&principal).await.unwrap().len(), 1);
}

/// Starts a call that computes a hash, and drops it after so many milliseconds, even if the answer is ready when a busy
/// machine polls it.
async fn cancel_after<T>(millis: u64, answer: impl Future<Output = T>) {
    tokio::select! {
        biased;
        () = tokio::time::sleep(Duration::from_millis(millis)) => {}
        _ = answer => panic!("a hash takes longer than {millis} ms"),
    }
}

/// A guess counts even if the client disconnects before the answer.
#[tokio::test]
async fn a_sign_in_is_recorded_after_a_disconnect() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let before = fixture.audit(&admin).await.len();
    for timeout in 1..5 {
        cancel_after(timeout, fixture.sign_in("admin", "wrong")).await;
    }
    let records = fixture.wait_for_new_records(&admin, before, 4).await;
    let reasons: Vec<_> = records.iter().map(|entry| entry.detail["reason"].clone()).collect();
    assert_eq!(reasons, ["wrong_password"; 4]);
}

/// With a stolen session, this call can guess the password too.
#[tokio::test]
async fn a_password_change_is_recorded_after_a_disconnect() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let before = fixture.audit(&admin).await.len();
    let account = fixture.service.account();
    for timeout in 1..5 {
        let (guess, new) = ("a wrong sentence".to_owned(), "quite another sentence".to_owned());
        let change = account.change_password(&admin, guess.into(), new.into());
        cancel_after(timeout, change).await;
    }
    let records = fixture.wait_for_new_records(&admin, before, 4).await;
    assert!(
        records.iter().all(|entry| entry.outcome == "failed" && entry.action == "password.change"),
        "{records:?}"
    );
}

#[tokio::test]
async fn unknown_users_wrong_passwords_and_disabled_users_get_one_answer() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    fixture.user(&admin, "ada", &[]).await;
    let change = UserChange { disabled: Some(true), ..UserChange::default() };
    fixture.service.users().update_user(&admin.require_admin().unwrap(), "ada", change, None).await.unwrap();

    // The cost of a hash is many times that of all other work, so that an answer without a hash differs even on the busiest
    // machine.
    let password = PasswordCost { iterations: 12, ..PasswordCost::default() };
    let dear = Settings { password, ..Settings::default() };
    let replica = replica(&fixture.db, &fixture.clock, &fixture.store, dear.clone()).await;
    let mut seen = Vec::new();
    for (name, password) in
        [("unknown-user", USER_PASSWORD), ("admin", "wrong"), ("ada", USER_PASSWORD), ("ada", "wrong")]
    {
        let credentials =
            PasswordCredentials { username: name.to_owned(), password: password.to_owned().into() };
        let begun = Instant::now();
        let error = replica.account().sign_in(credentials, info()).await.map(|_| ()).unwrap_err();
        seen.push((format!("{error} {} {}", error.code(), error.detail()), begun.elapsed()));
    }
    assert!(seen.iter().all(|(answer, _)| *answer == seen[0].0), "{seen:?}");
    let one_hash = (0..3).map(|_| time_of_one_hash(&dear)).min().unwrap();
    assert!(
        seen.iter().all(|(_, took)| *took * 5 > one_hash),
        "each sign-in computes one hash, {one_hash:?}: {seen:?}"
    );

    let records = fixture.audit(&admin).await;
    let reasons: Vec<_> = records.iter().take(4).map(|entry| entry.detail["reason"].clone()).collect();
    assert_eq!(reasons, ["wrong_password", "disabled", "wrong_password", "unknown_user"]);
    assert_eq!(records[3].actor.username, None, "an unknown user name is not stored");
    assert!(records.iter().all(|entry| !format!("{entry:?}").contains("unknown-user")));
    assert_eq!(records[1].actor.username.as_deref(), Some("ada"));
    assert_eq!(records[1].user_agent.as_deref(), Some("test[31m"), "no control characters");
}

fn time_of_one_hash(settings: &Settings) -> Duration {
    struct FixedEntropy;
    impl tracewarden_model::Entropy for FixedEntropy {
        fn fill(&self, _: &mut [u8]) -> Result<(), tracewarden_model::ambient::EntropyError> {
            Ok(())
        }
    }
    let begun = Instant::now();
    hash_password_phc(USER_PASSWORD, None, settings, &FixedEntropy).unwrap();
    begun.elapsed()
}

#[tokio::test]
async fn guessing_is_slowed_down_without_locking_the_user_out() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    for _ in 0..6 {
        assert_eq!(code(fixture.sign_in_from("admin", "wrong", "203.0.113.9").await), "invalid_credentials");
    }
    let error = fixture.sign_in_from("Admin", ADMIN_PASSWORD, "203.0.113.9").await.unwrap_err();
    assert_eq!((error.code(), error.retry_after_seconds()), ("too_many_attempts", Some(6)));
    fixture.sign_in_from("admin", ADMIN_PASSWORD, "192.0.2.77").await.unwrap();
    fixture.clock.advance(6);
    fixture.sign_in_from("admin", ADMIN_PASSWORD, "203.0.113.9").await.unwrap();
    assert_eq!(code(fixture.sign_in_from("admin", "wrong", "203.0.113.9").await), "invalid_credentials");
    assert_eq!(fixture.audit(&admin).await[3].detail["reason"], "too_many_attempts");
}

#[tokio::test]
async fn a_flood_of_refused_sign_ins_leaves_one_record_and_delays_no_writer() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let log = async |reason: &str| {
        let records = fixture.audit(&admin).await;
        let of_reason = |entry: &&Entry| entry.detail["reason"] == reason;
        records.iter().filter(of_reason).map(|entry| entry.detail.clone()).collect::<Vec<_>>()
    };
    let refused = async |name: &str| code(fixture.sign_in_from(name, "wrong", "203.0.113.9").await);
    for _ in 0..6 {
        assert_eq!(refused("admin").await, "invalid_credentials");
    }
    assert_eq!(refused("admin").await, "too_many_attempts");
    // A writer holds the database, so that further writers would wait.
    let writing = fixture.db.begin_write().await.unwrap();
    for _ in 0..100 {
        assert_eq!(refused("Admin").await, "too_many_attempts");
    }
    drop(writing);
    let recorded = log("too_many_attempts").await;
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert_eq!(recorded[0]["counted"], "user_at_address");
    assert_eq!(recorded[0]["until"], admin_now(&fixture).saturating_add(5 * SECOND).to_string());

    // The next block has its own record, and so has the block of the address.
    fixture.clock.advance(5);
    assert_eq!(refused("admin").await, "invalid_credentials");
    for _ in 0..3 {
        assert_eq!(refused("admin").await, "too_many_attempts");
    }
    assert_eq!(log("too_many_attempts").await.len(), 2);
    for number in 0..100 {
        refused(&format!("user{number}")).await;
    }
    let recorded = log("too_many_attempts").await;
    assert_eq!((recorded.len(), &recorded[0]["counted"]), (3, &"address".into()), "{recorded:?}");
    assert_eq!(log("wrong_password").await.len() + log("unknown_user").await.len(), 51);
}

#[tokio::test]
async fn typed_names_are_stored_under_a_key_that_replicas_share() {
    use sha2::Digest as _;
    use sqlx::{Connection as _, Row as _};
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let other = fixture.replica(Settings::default()).await;
    for attempt in 0..7 {
        let credentials =
            PasswordCredentials { username: "My Password".to_owned(), password: "wrong".to_owned().into() };
        let service = if attempt % 2 == 0 { &fixture.service } else { &other };
        let expected = if attempt < 6 { "invalid_credentials" } else { "too_many_attempts" };
        assert_eq!(code(service.account().sign_in(credentials, info()).await), expected, "{attempt}");
    }
    drop(admin);
    let mut connection = sqlx::AnyConnection::connect(&fixture.url).await.unwrap();
    let rows = sqlx::query("SELECT bucket FROM login_throttles").fetch_all(&mut connection).await.unwrap();
    let buckets: Vec<String> = rows.iter().map(|row| row.get("bucket")).collect();
    assert!(buckets.iter().any(|bucket| bucket.starts_with("pair:")), "{buckets:?}");
    let guessed = hex::encode(sha2::Sha256::digest(b"my password"));
    assert!(!buckets.iter().any(|bucket| bucket.contains(&guessed)), "{buckets:?}");
}

#[tokio::test]
async fn many_names_from_one_address_are_slowed_down() {
    let fixture = fixture().await;
    fixture.admin().await;
    let mut throttled = false;
    for attempt in 0..60 {
        let result = fixture.sign_in_from(&format!("user{attempt}"), "wrong", "2001:db8::5").await;
        throttled |= code(result) == "too_many_attempts";
    }
    assert!(throttled);
    assert_eq!(code(fixture.sign_in_from("admin", ADMIN_PASSWORD, "2001:db8::6").await), "too_many_attempts");
    fixture.sign_in_from("admin", ADMIN_PASSWORD, "2001:db9::6").await.unwrap();
}

#[tokio::test]
async fn keys_act_for_their_owner_within_bounds() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let new = NewApiKey {
        name: "ci".to_owned(),
        expires_at: Some(Timestamp::from_nanos(1)),
        policy: None,
        tools: None,
    };
    assert_eq!(pointers(fixture.service.account().create_api_key(&admin, new).await)[0].0, "/expires_at");
    let expires_at = Some(admin_now(&fixture).saturating_add(100 * SECOND));
    let new = NewApiKey { name: "ci".to_owned(), expires_at, policy: None, tools: None };
    let created = fixture.service.account().create_api_key(&admin, new).await.unwrap();
    assert!(created.token.expose_secret().starts_with(&created.key.hint));
    let credential = Credential::ApiKey(created.token.clone());
    let by_key = fixture.principal(&credential).await;
    assert!(by_key.is_admin() && by_key.auth() == AuthKind::ApiKey);

    let more = NewApiKey { name: "more".to_owned(), expires_at: None, policy: None, tools: None };
    assert_eq!(code(fixture.service.account().create_api_key(&by_key, more).await), "session_required");
    let account = fixture.service.account();
    let change = account.change_password(
        &by_key,
        ADMIN_PASSWORD.to_owned().into(),
        "yet another secret".to_owned().into(),
    );
    assert_eq!(code(change.await), "session_required");
    assert_eq!(fixture.last_audit(&admin).await.outcome, "denied");
    assert_eq!(code(fixture.service.account().sign_out(&by_key).await), "session_required");
    let preview = PreviewRequest::RolesAndAttributes { roles: set(&[]), attributes: None };
    let by_key_admin = by_key.require_admin().unwrap();
    assert_eq!(code(fixture.service.account().set_preview(&by_key_admin, preview).await), "session_required");

    let keys = fixture.service.account().my_api_keys(&admin).await.unwrap();
    assert_eq!((keys.len(), keys[0].last_used_at), (1, Some(admin_now(&fixture))));
    fixture.clock.advance(30);
    fixture.principal(&credential).await;
    let again = fixture.service.account().my_api_keys(&admin).await.unwrap();
    assert_eq!(again[0].last_used_at, keys[0].last_used_at, "noted at most once a minute");
    fixture.clock.advance(70);
    assert_eq!(code(fixture.service.core().authenticate(&credential, info()).await), "unauthenticated");

    let living = fixture.api_key(&admin).await;
    fixture.principal(&living).await;
    let id = fixture.service.account().my_api_keys(&admin).await.unwrap()[0].id.clone();
    fixture.service.account().revoke_my_api_key(&admin, &id).await.unwrap();
    assert_eq!(code(fixture.service.core().authenticate(&living, info()).await), "unauthenticated");
    assert_eq!(code(fixture.service.account().revoke_my_api_key(&admin, &id).await), "not_found");
}

fn admin_now(fixture: &Fixture) -> Timestamp {
    use tracewarden_model::Clock as _;
    Timestamp::from_micros(fixture.clock.now().as_micros())
}

#[tokio::test]
async fn unknown_tokens_are_refused_and_token_kinds_are_separate() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let session = fixture.sign_in("admin", ADMIN_PASSWORD).await.unwrap();
    let Credential::Session(token) = &session else { panic!() };
    let key = fixture.api_key(&admin).await;
    let Credential::ApiKey(key_token) = &key else { panic!() };
    for wrong in [
        Credential::Session("".to_owned().into()),
        Credential::Session("x".repeat(43).into()),
        Credential::Session(key_token.clone()),
        Credential::ApiKey(token.clone()),
        Credential::ApiKey("twk_".to_owned().into()),
    ] {
        assert_eq!(code(fixture.service.core().identify(&wrong, info()).await), "unauthenticated");
    }
    let file = std::fs::read(fixture.url.trim_start_matches("sqlite:")).unwrap();
    let log = std::fs::read(format!("{}-wal", fixture.url.trim_start_matches("sqlite:"))).unwrap_or_default();
    for secret in [token, key_token] {
        let secret = secret.expose_secret().as_bytes();
        for bytes in [&file, &log] {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret), "stored as it is");
        }
    }
}

#[tokio::test]
async fn sessions_expire_after_the_configured_time() {
    let settings = Settings {
        session_idle_nanos: Some(600 * SECOND),
        session_absolute_nanos: Some(3_000 * SECOND),
        ..Settings::default()
    };
    let fixture = fixture_with(settings).await;
    fixture.admin().await;
    let used = fixture.sign_in("admin", ADMIN_PASSWORD).await.unwrap();
    let idle = fixture.sign_in("admin", ADMIN_PASSWORD).await.unwrap();
    for _ in 0..5 {
        fixture.clock.advance(500);
        fixture.principal(&used).await;
    }
    assert_eq!(code(fixture.service.core().authenticate(&idle, info()).await), "unauthenticated");
    fixture.clock.advance(500);
    assert_eq!(code(fixture.service.core().authenticate(&used, info()).await), "unauthenticated");
}

#[tokio::test]
async fn sessions_of_a_user_are_limited() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let user = fixture.user(&admin, "ada", &[]).await;
    let mut tx = fixture.db.begin_write().await.unwrap();
    for index in 0_u16..998 {
        let mut token = [7; 32];
        token[..2].copy_from_slice(&index.to_be_bytes());
        let now = fixture.clock.now();
        let session = tracewarden_appdb::Session {
            id: format!("ses_{index}"),
            user_id: user.user_id().to_owned(),
            created_at: now,
            last_seen_at: now,
            client_ip: None,
            user_agent: None,
            preview: None,
            provider: None,
            provider_session: None,
        };
        tx.insert_session(&session, tracewarden_appdb::TokenDigest(token)).await.unwrap();
    }
    tx.commit().await.unwrap();
    fixture.clock.advance(60);
    let used = fixture.sign_in("ada", USER_PASSWORD).await.unwrap();
    assert_eq!(fixture.service.account().my_sessions(&user).await.unwrap().len(), 1_000);
    assert_eq!(fixture.last_audit(&admin).await.detail.get("ended_sessions"), None);
    fixture.clock.advance(60);
    let user = fixture.principal(&used).await;
    fixture.sign_in("ada", USER_PASSWORD).await.unwrap();
    assert_eq!(fixture.service.account().my_sessions(&user).await.unwrap().len(), 1_000);
    let ended = fixture.last_audit(&admin).await.detail["ended_sessions"].clone();
    assert_eq!(ended.as_array().map(Vec::len), Some(1), "{ended}");
    fixture.principal(&used).await;
}

#[tokio::test]
async fn a_preview_ends_when_its_user_is_no_longer_an_administrator() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    fixture
        .service
        .roles()
        .put_role(&administrator, "payments", vec![policy("ServiceName == \"pay\"")], None)
        .await
        .unwrap();
    fixture.user(&admin, "ada", &["payments"]).await;
    fixture.user(&admin, "eve", &["admin"]).await;
    let session = fixture.sign_in("eve", USER_PASSWORD).await.unwrap();
    let eve = fixture.principal(&session).await;
    let request = PreviewRequest::RolesAndAttributes { roles: set(&["ghost"]), attributes: None };
    assert_eq!(
        code(fixture.service.account().set_preview(&eve.require_admin().unwrap(), request).await),
        "unknown_role"
    );
    let request = PreviewRequest::User("ADA".to_owned());
    let me = fixture.service.account().set_preview(&eve.require_admin().unwrap(), request).await.unwrap();
    assert_eq!(me.preview.as_ref().unwrap().username.as_deref(), Some("ada"));
    let eve = fixture.principal(&session).await;
    assert_eq!(eve.preview().unwrap().roles, set(&["payments"]));
    assert!(eve.is_admin(), "a preview is about traces only");

    let change = UserChange { roles: Some(set(&[])), ..UserChange::default() };
    fixture.service.users().update_user(&administrator, "eve", change, None).await.unwrap();
    assert_eq!(fixture.principal(&session).await.preview(), None);
}

#[tokio::test]
async fn a_sign_in_renews_a_weaker_hash() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    let created = NewUser { username: "ada".to_owned(), ..NewUser::default() };
    let initial =
        fixture.service.users().create_user(&administrator, created).await.unwrap().initial_password;
    let password = PasswordCost { iterations: 3, ..PasswordCost::default() };
    let dearer = Settings { password, ..Settings::default() };
    let replica = replica(&fixture.db, &fixture.clock, &fixture.store, dearer).await;
    let hash = async || {
        let user = fixture.db.begin_read().await.unwrap().user_by_name("ada").await.unwrap().unwrap();
        (user.password_hash.0.contains("t=3"), user.must_change_password)
    };
    let credentials =
        || PasswordCredentials { username: "ada".to_owned(), password: initial.clone().unwrap() };
    fixture.service.account().sign_in(credentials(), info()).await.unwrap();
    assert_eq!(hash().await, (false, true));
    for renewed in [true, false] {
        replica.account().sign_in(credentials(), info()).await.unwrap();
        assert_eq!(fixture.last_audit(&admin).await.detail["password_hash_renewed"], renewed);
        assert_eq!(hash().await, (true, true), "nothing else has changed");
    }
    fixture.service.account().sign_in(credentials(), info()).await.unwrap();
    assert_eq!(hash().await, (true, true), "no cheaper one comes back");
}

#[tokio::test]
async fn concurrent_sign_ins_that_renew_a_hash_both_succeed() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    fixture.user(&admin, "ada", &[]).await;
    let password = PasswordCost { iterations: 3, ..PasswordCost::default() };
    let dearer = Settings { password, ..Settings::default() };
    let replica = replica(&fixture.db, &fixture.clock, &fixture.store, dearer).await;
    let credentials =
        || PasswordCredentials { username: "ada".to_owned(), password: USER_PASSWORD.to_owned().into() };
    let account = replica.account();
    let (one, other) =
        tokio::join!(account.sign_in(credentials(), info()), account.sign_in(credentials(), info()));
    one.unwrap();
    other.unwrap();
    let records = fixture.audit(&admin).await;
    let renewed = |index: usize| records[index].detail["password_hash_renewed"].clone();
    assert_eq!((renewed(1), renewed(0)), (true.into(), false.into()), "{records:?}");
}

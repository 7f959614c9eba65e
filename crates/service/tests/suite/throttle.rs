//! Sign-in attempts that are counted together, on replicas with different clocks.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::support::*;
use tokio::task::JoinHandle;
use tracewarden_service::*;

on_both_databases!(
    clock_differences_do_not_block_users,
    concurrent_correct_passwords_are_accepted,
    a_flood_of_sign_ins_delays_a_writer_by_one_record,
    password_changes_count_against_the_sign_in_limit,
);

async fn try_at(service: &Service, password: &str) -> Result<SignInAnswer, ServiceError> {
    let credentials =
        PasswordCredentials { username: "admin".to_owned(), password: password.to_owned().into() };
    service.account().sign_in(credentials, info()).await
}

async fn clock_differences_do_not_block_users(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    fixture.admin().await;
    for seconds in [-1, -7_200, 1, 7_200] {
        let other = fixture.replica_ahead(seconds).await;
        for (first, second) in [(&fixture.service, &other), (&other, &fixture.service)] {
            // After a success, and after attempts without a wait.
            try_at(first, ADMIN_PASSWORD).await.unwrap();
            try_at(second, ADMIN_PASSWORD).await.unwrap();
            for _ in 0..4 {
                assert_eq!(code(try_at(first, "not the password").await), "invalid_credentials");
            }
            let result = try_at(second, ADMIN_PASSWORD).await;
            assert!(result.is_ok(), "{seconds} s: {result:?}");
        }
    }
    // A block applies on both replicas.
    let behind = fixture.replica_ahead(-1).await;
    for _ in 0..6 {
        assert_eq!(code(try_at(&fixture.service, "not the password").await), "invalid_credentials");
    }
    for service in [&behind, &fixture.service] {
        assert_eq!(code(try_at(service, ADMIN_PASSWORD).await), "too_many_attempts");
    }
}

async fn concurrent_correct_passwords_are_accepted(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    fixture.admin().await;
    let behind = fixture.replica_ahead(-1).await;
    for _ in 0..10 {
        // As many attempts as cause no wait, because each counts as failed until it succeeds.
        let all = [&fixture.service, &behind, &fixture.service, &behind]
            .map(|service| try_at(service, ADMIN_PASSWORD));
        for result in futures::future::join_all(all).await {
            result.unwrap();
        }
    }
}

async fn a_flood_of_sign_ins_delays_a_writer_by_one_record(database: DatabaseKind) {
    const FLOOD: u32 = 100;
    let fixture = fixture_on(database, Settings::default()).await;
    let address = |number: u32| Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + number);
    let writing = fixture.db.begin_write().await.unwrap();
    let sign_ins: Vec<_> = (0..FLOOD)
        .map(|number| {
            let service = fixture.service.clone();
            let credentials = PasswordCredentials {
                username: "unknown-user".to_owned(),
                password: "nothing".to_owned().into(),
            };
            let info = RequestInfo { client_ip: Some(address(number).into()), ..info() };
            tokio::spawn(async move { service.account().sign_in(credentials, info).await })
        })
        .collect();
    // While the database is locked, rejected sign-ins are answered, and no others are.
    let refused =
        |sign_ins: &[JoinHandle<_>]| sign_ins.iter().filter(|sign_in| sign_in.is_finished()).count();
    while refused(&sign_ins) < FLOOD as usize - 16 {
        tokio::task::yield_now().await;
    }
    let db = fixture.db.clone();
    let reads = tokio::spawn(async move { db.begin_write().await.unwrap() });
    tokio::task::yield_now().await;
    drop(writing);
    let mut reads = reads.await.unwrap();
    let mut before = 0;
    for number in 0..FLOOD {
        before += u32::from(reads.throttle(&format!("address:{}", address(number))).await.unwrap().is_some());
    }
    assert!(before <= 1, "{before} sign-ins wrote before");
    drop(reads);
    let mut codes = BTreeMap::new();
    for sign_in in sign_ins {
        let error = sign_in.await.unwrap().unwrap_err();
        let code = error.code();
        assert_eq!(error.retry_after_seconds().is_some(), code == "overloaded");
        *codes.entry(code).or_insert(0) += 1;
    }
    assert_eq!(codes, BTreeMap::from([("invalid_credentials", 16), ("overloaded", FLOOD - 16)]));
    // All permits are free again.
    fixture.admin().await;
}

/// Both use the same queue of writers, and a session must not be able to fill it.
async fn password_changes_count_against_the_sign_in_limit(database: DatabaseKind) {
    const FLOOD: usize = 20;
    // Sixteen permits, half of them for one address.
    let fixture = fixture_on(database, Settings { max_parallel_hashes: 1, ..Settings::default() }).await;
    let admin = fixture.admin().await;
    let writing = fixture.db.begin_write().await.unwrap();
    let changes: Vec<_> = (0..FLOOD)
        .map(|_| {
            let (service, admin) = (fixture.service.clone(), admin.clone());
            tokio::spawn(async move {
                service
                    .account()
                    .change_password(&admin, "not the password".into(), "a good new password".into())
                    .await
            })
        })
        .collect();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    drop(writing);
    let (mut tried, mut blocked, mut full) = (0, 0, 0);
    for change in changes {
        match change.await.unwrap().unwrap_err() {
            ServiceError::InvalidCredentials => tried += 1,
            ServiceError::TooManyAttempts { .. } => blocked += 1,
            ServiceError::Overloaded { .. } => full += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((tried + blocked, full), (8, FLOOD - 8));
    assert!(tried > 0);
}

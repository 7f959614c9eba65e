//! Sign-in attempts that are counted together, on replicas with different clocks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use support::*;
use tokio::task::JoinHandle;
use tracewarden_service::*;

on_both!(
    clock_differences_do_not_block_users,
    concurrent_correct_passwords_are_accepted,
    a_flood_of_sign_ins_delays_a_writer_by_one_record,
    password_changes_count_against_the_sign_in_limit,
);

async fn try_at(service: &Service, password: &str) -> Result<LoggedIn, ServiceError> {
    let login = Login { username: "admin".to_owned(), password: password.to_owned().into() };
    service.login(login, info()).await
}

async fn clock_differences_do_not_block_users(own: Own) {
    let world = world_on(own, Settings::default()).await;
    world.admin().await;
    for seconds in [-1, -7_200, 1, 7_200] {
        let other = world.replica_ahead(seconds).await;
        for (first, second) in [(&world.service, &other), (&other, &world.service)] {
            // After a success, and after attempts without a wait.
            try_at(first, ADMIN_PASSWORD).await.unwrap();
            try_at(second, ADMIN_PASSWORD).await.unwrap();
            for _ in 0..4 {
                assert_eq!(code(try_at(first, "not the password").await), "invalid_credentials");
            }
            let let_in = try_at(second, ADMIN_PASSWORD).await;
            assert!(let_in.is_ok(), "{seconds} s: {let_in:?}");
        }
    }
    // A block applies on both replicas.
    let behind = world.replica_ahead(-1).await;
    for _ in 0..6 {
        assert_eq!(code(try_at(&world.service, "not the password").await), "invalid_credentials");
    }
    for service in [&behind, &world.service] {
        assert_eq!(code(try_at(service, ADMIN_PASSWORD).await), "too_many_attempts");
    }
}

async fn concurrent_correct_passwords_are_accepted(own: Own) {
    let world = world_on(own, Settings::default()).await;
    world.admin().await;
    let behind = world.replica_ahead(-1).await;
    for _ in 0..10 {
        // As many attempts as cause no wait, because each counts as failed until it succeeds.
        let all =
            [&world.service, &behind, &world.service, &behind].map(|service| try_at(service, ADMIN_PASSWORD));
        for let_in in futures::future::join_all(all).await {
            let_in.unwrap();
        }
    }
}

async fn a_flood_of_sign_ins_delays_a_writer_by_one_record(own: Own) {
    const FLOOD: u32 = 100;
    let world = world_on(own, Settings::default()).await;
    let address = |number: u32| Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + number);
    let writing = world.db.begin_write().await.unwrap();
    let log_ins: Vec<_> = (0..FLOOD)
        .map(|number| {
            let service = world.service.clone();
            let login = Login { username: "nobody".to_owned(), password: "nothing".to_owned().into() };
            let info = RequestInfo { client_ip: Some(address(number).into()), ..info() };
            tokio::spawn(async move { service.login(login, info).await })
        })
        .collect();
    // While the database is locked, rejected sign-ins are answered, and no others are.
    let refused = |log_ins: &[JoinHandle<_>]| log_ins.iter().filter(|log_in| log_in.is_finished()).count();
    while refused(&log_ins) < FLOOD as usize - 16 {
        tokio::task::yield_now().await;
    }
    let db = world.db.clone();
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
    for log_in in log_ins {
        let error = log_in.await.unwrap().unwrap_err();
        let code = error.code();
        assert_eq!(error.retry_after_seconds().is_some(), code == "overloaded");
        *codes.entry(code).or_insert(0) += 1;
    }
    assert_eq!(codes, BTreeMap::from([("invalid_credentials", 16), ("overloaded", FLOOD - 16)]));
    // All permits are free again.
    world.admin().await;
}

/// Both use the same queue of writers, and a session must not be able to fill it.
async fn password_changes_count_against_the_sign_in_limit(own: Own) {
    const FLOOD: usize = 20;
    // Sixteen permits, half of them for one address.
    let world = world_on(own, Settings { max_parallel_hashes: 1, ..Settings::default() }).await;
    let admin = world.admin().await;
    let writing = world.db.begin_write().await.unwrap();
    let changes: Vec<_> = (0..FLOOD)
        .map(|_| {
            let (service, admin) = (world.service.clone(), admin.clone());
            tokio::spawn(async move {
                service.change_password(&admin, "not the password".into(), "a good new password".into()).await
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

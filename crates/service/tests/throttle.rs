//! Log-ins that count together, on replicas whose clocks differ.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use support::*;
use tracewarden_service::*;

on_both!(who_is_not_blocked_is_not_blocked_by_another_clock, right_passwords_at_once_are_let_in);

async fn try_at(service: &Service, password: &str) -> Result<LoggedIn, ServiceError> {
    let login = Login { username: "admin".to_owned(), password: password.to_owned().into() };
    service.login(login, info()).await
}

async fn who_is_not_blocked_is_not_blocked_by_another_clock(own: Own) {
    let world = world_on(own, Settings::default()).await;
    world.admin().await;
    for seconds in [-1, -7_200, 1, 7_200] {
        let other = world.replica_ahead(seconds).await;
        for (first, second) in [(&world.service, &other), (&other, &world.service)] {
            // After success, and after attempts that cost nothing yet.
            try_at(first, ADMIN_PASSWORD).await.unwrap();
            try_at(second, ADMIN_PASSWORD).await.unwrap();
            for _ in 0..4 {
                assert_eq!(code(try_at(first, "not the password").await), "invalid_credentials");
            }
            let let_in = try_at(second, ADMIN_PASSWORD).await;
            assert!(let_in.is_ok(), "{seconds} s: {let_in:?}");
        }
    }
    // A block is one on both.
    let behind = world.replica_ahead(-1).await;
    for _ in 0..6 {
        assert_eq!(code(try_at(&world.service, "not the password").await), "invalid_credentials");
    }
    for service in [&behind, &world.service] {
        assert_eq!(code(try_at(service, ADMIN_PASSWORD).await), "too_many_attempts");
    }
}

async fn right_passwords_at_once_are_let_in(own: Own) {
    let world = world_on(own, Settings::default()).await;
    world.admin().await;
    let behind = world.replica_ahead(-1).await;
    for _ in 0..10 {
        // As many as cost nothing, since each counts as failed until it is through.
        let all =
            [&world.service, &behind, &world.service, &behind].map(|service| try_at(service, ADMIN_PASSWORD));
        for let_in in futures::future::join_all(all).await {
            let_in.unwrap();
        }
    }
}

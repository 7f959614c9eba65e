//! Links that sign in a user once.

use serde_json::{Value, json};

use super::{Company, TestDatabase, browser_of, on_both};
use crate::support::{Answer, Service, USER_PASSWORD};

on_both!(a_link_signs_in_once, links_are_for_users_who_can_use_them);

async fn follow(service: &Service, token: &str) -> Answer {
    service.anonymous().post("/identity/break-glass", json!({"token": token})).await
}

/// With passwords off, and without the provider.
async fn a_link_signs_in_once(database: TestDatabase) {
    let Company { mut provider, mut service, .. } = Company::start(database).await;
    provider.kill();
    service.restart_with(&[("TRACEWARDEN_PASSWORD_LOGIN", "off")]);
    let (old, token) = (service.break_glass("admin").unwrap(), service.break_glass("admin").unwrap());
    follow(&service, &old).await.problem(400, "sign_in_expired");
    for wrong in ["", "x", &token[1..], &format!("{token}x"), &"x".repeat(1_000), "\0"] {
        follow(&service, wrong).await.problem(400, "sign_in_expired");
    }
    service
        .anonymous()
        .post("/identity/break-glass", json!({"token": 1}))
        .await
        .problem(400, "invalid_request");

    let answer = follow(&service, &token).await.expect(200);
    assert_eq!((&answer.body["username"], &answer.body["is_admin"]), (&json!("admin"), &json!(true)));
    let admin = service.anonymous().with_session_of(&answer);
    follow(&service, &token).await.problem(400, "sign_in_expired");
    admin.get("/users").await.expect(200);
    let records = |action: &'static str| {
        let admin = admin.clone();
        async move {
            let found = admin.get(&format!("/audit?action={action}")).await.expect(200).body;
            found["records"].as_array().unwrap().clone()
        }
    };
    let login: Value = records("login").await.remove(0);
    assert_eq!(
        (&login["actor"]["username"], &login["detail"]["break_glass"]),
        (&json!("admin"), &json!(true))
    );
    let created = records("break_glass.create").await;
    assert_eq!(created.len(), 2);
    assert_eq!((&created[0]["target"], &created[0]["actor"]["via"]), (&json!("admin"), &json!("service")));
    // Concurrent uses of one link open one session.
    let token = service.break_glass("admin").unwrap();
    let answers = futures::future::join_all((0..8).map(|_| follow(&service, &token))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
}

async fn links_are_for_users_who_can_use_them(database: TestDatabase) {
    let company = Company::start(database).await;
    company.map_groups().await;
    let Company { provider, service, admin } = &company;
    provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    browser_of(&company, "paula").await;
    admin.post("/users", json!({"username": "newcomer"})).await.expect(201);
    service.user(admin, "grace", &[]).await;
    let token = service.break_glass("grace").unwrap();
    for (username, reason) in [
        ("paula", "signs in with an identity provider"),
        ("newcomer", "has a temporary password"),
        ("no-one", "no such user"),
    ] {
        let text = service.break_glass(username).unwrap_err();
        assert!(text.contains(reason), "{username}: {text}");
    }
    // A link of a user who is disabled afterwards.
    admin.patch("/users/grace", json!({"disabled": true})).await.expect(200);
    follow(service, &token).await.problem(400, "sign_in_expired");
    let text = service.break_glass("grace").unwrap_err();
    assert!(text.contains("is disabled"), "{text}");
    // The link was not used, and works if the user is enabled in time.
    admin.patch("/users/grace", json!({"disabled": false})).await.expect(200);
    follow(service, &token).await.expect(200);
    service.sign_in("grace", USER_PASSWORD).await;
}

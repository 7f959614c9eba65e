//! Service accounts: programs with keys that administrators make, and with an owner on whose role they can depend.

use serde_json::{Value, json};

use super::{Company, TestDatabase, browser_of, on_both, policies, postgres_database, start_service};
use crate::support::{Client, Service};

on_both!(
    a_service_account_has_keys_and_no_password,
    access_depends_on_the_owners_role,
    access_depends_on_the_owners_mapped_role,
    keys_are_found_by_their_first_characters,
);

async fn start_with_role(database: &TestDatabase) -> (Service, Client) {
    let service = match database {
        Some(database) => Service::start_on(database, &[]),
        None => Service::start_with(&[]),
    };
    let admin = service.admin().await;
    admin.put("/roles/payments", policies("true")).await.expect(201);
    admin.post("/users", json!({"username": "ada", "roles": ["payments"]})).await.expect(201);
    (service, admin)
}

async fn create(admin: &Client, service: Value) -> Value {
    let new = json!({"username": "robot", "roles": ["payments"], "service": service});
    admin.post("/users", new).await.expect(201).body
}

async fn key_of(admin: &Client, service: &Service) -> (Client, String) {
    let new = json!({"name": "nightly", "expires_at": "2100-01-01T00:00:00Z", "tools": ["svc_get_trace"]});
    let created = admin.post("/users/robot/api-keys", new).await.expect(201).body;
    let token = created["token"].as_str().unwrap();
    (service.anonymous().with_key(token), token.to_owned())
}

async fn a_service_account_has_keys_and_no_password(database: TestDatabase) {
    let (service, admin) = start_with_role(&database).await;
    let created = create(&admin, json!({"owner": "ADA"})).await;
    assert_eq!(created["service"], json!({"owner": "ada", "owner_role": null}));
    assert_eq!(
        (&created["initial_password"], &created["must_change_password"]),
        (&Value::Null, &json!(false))
    );
    let names = async |query: &str| {
        let listed = admin.get(&format!("/users{query}")).await.expect(200).body;
        let users = listed["users"].as_array().unwrap().iter();
        users.map(|user| user["username"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("").await, ["ada", "admin", "robot"]);
    assert_eq!(names("?kind=person").await, ["ada", "admin"]);
    assert_eq!(names("?kind=service").await, ["robot"]);
    admin.get("/users?kind=robot").await.problem(400, "invalid_request");

    // No password, by no way.
    admin.post("/users/robot/password", json!({})).await.problem(409, "conflict");
    let sign_in = json!({"username": "robot", "password": "correct horse battery staple"});
    service.anonymous().post("/login", sign_in).await.problem(401, "invalid_credentials");

    let (robot, _) = key_of(&admin, &service).await;
    let me = robot.get("/me").await.expect(200).body;
    assert_eq!(
        (&me["username"], &me["roles"], &me["auth"]),
        (&json!("robot"), &json!(["payments"]), &json!("api_key"))
    );
    robot.get("/filter/schema").await.problem(403, "forbidden");
    let records = admin.get("/audit?action=user.create_api_key").await.expect(200).body;
    let record = &records["records"][0];
    assert_eq!((&record["target"], &record["detail"]["name"]), (&json!("robot"), &json!("nightly")));

    // People make their own keys, keys of programs expire, and a key makes no keys.
    let new = json!({"name": "k", "expires_at": "2100-01-01T00:00:00Z"});
    admin.post("/users/ada/api-keys", new.clone()).await.problem(409, "conflict");
    admin.post("/users/robot/api-keys", json!({"name": "k"})).await.problem(422, "invalid_value");
    let own = admin.post("/me/api-keys", json!({"name": "k"})).await.expect(201).body;
    let by_key = admin.with_key(own["token"].as_str().unwrap());
    by_key.post("/users/robot/api-keys", new).await.problem(403, "session_required");

    // Owners are people who exist.
    for owner in ["absent", "robot"] {
        let new = json!({"username": "other", "service": {"owner": owner}});
        admin.post("/users", new).await.problem(422, "invalid_value");
        let change = json!({"service": {"owner": owner}});
        admin.patch("/users/robot", change).await.problem(422, "invalid_value");
    }
    let unknown = json!({"username": "other", "service": {"owner": "ada", "owner_role": "absent"}});
    let refused = admin.post("/users", unknown).await.problem(422, "unknown_role");
    assert_eq!(refused.body["errors"][0]["pointer"], "/service/owner_role");
    admin.patch("/users/ada", json!({"service": {"owner": "admin"}})).await.problem(422, "invalid_value");
    // What was read can be sent back.
    let read = admin.get("/users/robot").await.expect(200).body;
    admin.patch("/users/robot", read.clone()).await.expect(200);
    let read = admin.get("/users/ada").await.expect(200).body;
    admin.patch("/users/ada", read).await.expect(200);

    // An administrator who is a program is not the last one, and cannot change on what its access depends.
    admin.patch("/users/robot", json!({"roles": ["admin"]})).await.expect(200);
    let change = json!({"service": {"owner": "admin"}});
    by_key.patch("/users/robot", change).await.problem(403, "session_required");
    admin.patch("/users/admin", json!({"disabled": true})).await.problem(409, "last_admin");
    admin.patch("/users/robot", json!({"disabled": true})).await.expect(200);
    robot.get("/me").await.problem(401, "unauthenticated");
    admin.delete("/users/robot").await.expect(204);
}

async fn access_depends_on_the_owners_role(database: TestDatabase) {
    let (service, admin) = start_with_role(&database).await;
    create(&admin, json!({"owner": "ada", "owner_role": "PAYMENTS"})).await;
    let (robot, _) = key_of(&admin, &service).await;
    robot.get("/me").await.expect(200);
    for (change, restored) in [
        (json!({"roles": []}), json!({"roles": ["payments"]})),
        (json!({"disabled": true}), json!({"disabled": false})),
    ] {
        admin.patch("/users/ada", change).await.expect(200);
        robot.get("/me").await.problem(401, "unauthenticated");
        // An administrator who views as it sees nothing either.
        let preview = admin.put("/me/preview", json!({"username": "robot"})).await.expect(200).body;
        assert_eq!(preview["preview"]["roles"], json!([]));
        admin.delete("/me/preview").await.expect(204);
        admin.patch("/users/ada", restored).await.expect(200);
        robot.get("/me").await.expect(200);
    }
    admin
        .patch("/users/robot", json!({"service": {"owner": "admin", "owner_role": "payments"}}))
        .await
        .expect(200);
    robot.get("/me").await.problem(401, "unauthenticated");
    let read = admin.patch("/users/robot", json!({"service": {"owner": "admin"}})).await.expect(200).body;
    assert_eq!(read["service"], json!({"owner": "admin", "owner_role": null}));
    assert_eq!(read["suspended"], json!(false));
    robot.get("/me").await.expect(200);
    admin
        .patch("/users/robot", json!({"service": {"owner": "ada", "owner_role": "payments"}}))
        .await
        .expect(200);
    robot.get("/me").await.expect(200);
    admin.delete("/users/ada").await.expect(204);
    robot.get("/me").await.problem(401, "unauthenticated");
    let read = admin.get("/users/robot").await.expect(200).body;
    assert_eq!(read["service"], json!({"owner": null, "owner_role": "payments"}));
    assert_eq!(read["suspended"], json!(true));
    // What was read can be sent back, also after the owner and the role were deleted.
    admin.delete("/roles/payments").await.expect(204);
    let mut read = admin.get("/users/robot").await.expect(200).body;
    read["disabled"] = json!(true);
    let sent = admin.patch("/users/robot", read).await.expect(200).body;
    assert_eq!(sent["service"], json!({"owner": null, "owner_role": "payments"}));
    let record = &admin.get("/audit?action=user.update").await.expect(200).body["records"][0];
    assert_eq!(
        (&record["detail"]["disabled"]["after"], &record["detail"]["service"]),
        (&json!(true), &Value::Null)
    );
    admin.patch("/users/robot", json!({"service": {"owner": null}})).await.problem(422, "invalid_value");
}

async fn access_depends_on_the_owners_mapped_role(database: TestDatabase) {
    let company = Company::start(database).await;
    let Company { provider, service, admin } = &company;
    company.map_groups().await;
    provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    browser_of(&company, "paula").await;
    create(admin, json!({"owner": "paula", "owner_role": "payments"})).await;
    let (robot, _) = key_of(admin, service).await;
    robot.get("/me").await.expect(200);
    assert!(provider.log_out("paula", None).await);
    robot.get("/me").await.problem(401, "unauthenticated");
    browser_of(&company, "paula").await;
    robot.get("/me").await.expect(200);
    provider.put_user("paula", json!({"groups": ["/oncall"]})).await;
    browser_of(&company, "paula").await;
    robot.get("/me").await.problem(401, "unauthenticated");
}

async fn keys_are_found_by_their_first_characters(database: TestDatabase) {
    let (service, admin) = start_with_role(&database).await;
    create(&admin, json!({"owner": "ada"})).await;
    let (robot, token) = key_of(&admin, &service).await;
    robot.with("user-agent", "nightly/1.2").get("/me").await.expect(200);
    let found = admin.get(&format!("/api-keys?prefix={}", &token[..8])).await.expect(200).body;
    let key = &found["api_keys"][0];
    assert_eq!((&key["username"], &key["name"]), (&json!("robot"), &json!("nightly")));
    assert_eq!(
        (&key["last_client_ip"], &key["last_user_agent"]),
        (&json!("127.0.0.1"), &json!("nightly/1.2"))
    );
    assert!(key["token"].is_null() && key["last_used_at"].is_string(), "{key}");
    let path = format!("/users/robot/api-keys/{}", key["id"].as_str().unwrap());
    admin.delete(&path).await.expect(204);
    robot.get("/me").await.problem(401, "unauthenticated");
    let found = admin.get(&format!("/api-keys?prefix={}", &token[..8])).await.expect(200).body;
    assert_eq!(found["api_keys"], json!([]));
    for wrong in ["", "twk_", "twk_abc", &token, "twk_%25%25%25%25", "abc_1234"] {
        admin.get(&format!("/api-keys?prefix={wrong}")).await.problem(400, "invalid_request");
    }
}

/// On two replicas.
#[tokio::test]
async fn the_owners_role_counts_on_all_replicas() {
    let database = postgres_database();
    let company = Company::start(Some(database.clone())).await;
    let Company { provider, service, admin } = &company;
    let other = start_service(provider, Some(&database), "", &[]);
    admin.post("/users", json!({"username": "ada", "roles": ["payments"]})).await.expect(201);
    create(admin, json!({"owner": "ada", "owner_role": "payments"})).await;
    let (robot, _) = key_of(admin, service).await;
    robot.at(&other).get("/me").await.expect(200);
    admin.patch("/users/ada", json!({"roles": []})).await.expect(200);
    robot.at(&other).get("/me").await.problem(401, "unauthenticated");
}

//! Users with a password whom administrators link to people at the provider.

use serde_json::{Value, json};

use super::{Company, TestDatabase, browser_of, on_both, roles};
use crate::support::USER_PASSWORD;
use crate::support::identity::Browser;
use crate::support::store::{BLUE, Store};

on_both!(an_administrator_links_a_user_to_a_person, links_are_refused_and_undone);

async fn an_administrator_links_a_user_to_a_person(database: TestDatabase) {
    let company = Company::start(database).await;
    let Company { provider, service, admin } = &company;
    company.map_groups().await;
    let local = service.user(admin, "paula", &["oncall"]).await;
    let key = local.post("/me/api-keys", json!({"name": "k"})).await.expect(201).body;
    let key = local.with_key(key["token"].as_str().unwrap());
    provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    assert_eq!(Browser::default().fail_to_sign_in(service, "paula").await, "name_taken");
    let subject = company.records("login").await.iter().find_map(|record| {
        let detail = &record["detail"];
        (detail["reason"] == "name_taken").then(|| detail["subject"].as_str().unwrap().to_owned())
    });

    let link = json!({"name": "company", "subject": subject.unwrap()});
    let linked = admin.put("/users/paula/provider", link).await.expect(200).body;
    assert_eq!((&linked["provider"]["name"], &linked["suspended"]), (&json!("company"), &json!(true)));
    let record = &company.records("user.link").await[0];
    assert_eq!((&record["target"], &record["detail"]["provider"]), (&json!("paula"), &json!("company")));
    // Nothing of before opens anything until the provider has confirmed the person.
    for client in [&local, &key] {
        client.get("/me").await.problem(401, "unauthenticated");
    }
    let password = json!({"username": "paula", "password": USER_PASSWORD});
    service.anonymous().post("/login", password).await.problem(401, "invalid_credentials");
    let (_, paula) = browser_of(&company, "paula").await;
    assert_eq!(roles(&paula).await, json!(["oncall", "payments"]), "assigned and mapped ones");
    key.get("/me").await.expect(200);
    local.get("/me").await.problem(401, "unauthenticated");
    assert_eq!(company.user("paula").await["assigned"]["roles"], json!(["oncall"]));
}

async fn links_are_refused_and_undone(database: TestDatabase) {
    let company = Company::start(database).await;
    let Company { provider, service, admin } = &company;
    company.map_groups().await;
    provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    let (_, paula) = browser_of(&company, "paula").await;
    service.user(admin, "ada", &[]).await;
    let link = |subject: &str| json!({"name": "company", "subject": subject});
    // The person has a user already.
    admin.put("/users/ada/provider", link("paula")).await.problem(409, "conflict");
    admin.put("/users/paula/provider", link("paula")).await.expect(200);
    paula.get("/me").await.expect(200);
    admin.put("/users/ada/provider", link("")).await.problem(422, "invalid_value");
    admin.put("/users/ada/provider", link("a\0b")).await.problem(422, "invalid_value");
    let other = json!({"name": "absent", "subject": "x"});
    admin.put("/users/ada/provider", other).await.problem(422, "invalid_value");
    admin.put("/users/absent/provider", link("x")).await.problem(404, "not_found");
    admin.put("/users/admin/provider", link("x")).await.problem(409, "last_admin");
    admin.get("/me").await.expect(200);
    let key = admin.post("/me/api-keys", json!({"name": "k"})).await.expect(201).body;
    let by_key = admin.with_key(key["token"].as_str().unwrap());
    by_key.put("/users/ada/provider", link("x")).await.problem(403, "session_required");
    by_key.delete("/users/paula/provider").await.problem(403, "session_required");
    let program = json!({"username": "robot", "service": {"owner": "ada"}});
    admin.post("/users", program).await.expect(201);
    admin.put("/users/robot/provider", link("x")).await.problem(409, "conflict");

    // A user who has never changed the first password need not do so.
    admin.post("/users", json!({"username": "grace", "roles": ["oncall"]})).await.expect(201);
    admin.put("/users/grace/provider", link("grace")).await.expect(200);
    provider.put_user("grace", json!({"groups": []})).await;
    let (_, grace) = browser_of(&company, "grace").await;
    assert_eq!(roles(&grace).await, json!(["oncall"]));
    grace.get("/me/sessions").await.expect(200);

    // A wrong link is replaced, or undone.
    admin.put("/users/ada/provider", link("wrong")).await.expect(200);
    admin.put("/users/ada/provider", link("ada")).await.expect(200);
    provider.put_user("ada", json!({"groups": ["/payments"]})).await;
    let (_, ada) = browser_of(&company, "ada").await;
    assert_eq!(roles(&ada).await, json!(["payments"]));
    let undone = admin.delete("/users/ada/provider").await.expect(200).body;
    ada.get("/me").await.problem(401, "unauthenticated");
    let user = company.user("ada").await;
    assert_eq!((&user["provider"], &user["roles"]), (&Value::Null, &json!([])));
    let sign_in = json!({"username": "ada", "password": undone["initial_password"]});
    service.anonymous().post("/login", sign_in).await.expect(200);
    assert_eq!(Browser::default().fail_to_sign_in(service, "ada").await, "name_taken");
    admin.delete("/users/ada/provider").await.problem(409, "conflict");
    let records = company.records("user.unlink").await;
    let record = records.iter().find(|record| record["outcome"] == "success").unwrap();
    assert_eq!((&record["target"], &record["detail"]["before"]["subject"]), (&json!("ada"), &json!("ada")));
}

/// Reports about access say what a session or an API key can read. On the traces of a real engine.
#[tokio::test]
async fn reports_know_that_access_is_suspended() {
    let store = Store::start();
    let company = Company::with_traces(&store, "").await;
    let Company { service, admin, .. } = &company;
    let owner = json!({"roles": ["blue", "payments"], "attributes": {"team": "red"}});
    service.user(admin, "owner", &["blue"]).await;
    admin.patch("/users/owner", owner).await.expect(200);
    let program = json!({
        "username": "robot", "roles": ["blue"], "service": {"owner": "owner", "owner_role": "payments"},
    });
    admin.post("/users", program).await.expect(201);
    for name in ["ada", "bea"] {
        service.user(admin, name, &["blue"]).await;
    }
    let viewers = async || {
        let body = admin.get(&format!("/traces/{BLUE}/viewers")).await.expect(200).body;
        let viewers = body["viewers"].as_array().unwrap().iter().map(|viewer| viewer["username"].clone());
        (viewers.collect::<Value>(), body["suspended"].clone())
    };
    assert_eq!(viewers().await, (json!(["ada", "bea", "owner", "robot"]), json!([])));

    admin.put("/users/bea/provider", json!({"name": "company", "subject": "bea"})).await.expect(200);
    admin.patch("/users/owner", json!({"roles": ["blue"]})).await.expect(200);
    assert_eq!(viewers().await, (json!(["ada", "owner"]), json!(["bea", "robot"])));
    for name in ["bea", "robot"] {
        let explained = admin.get(&format!("/traces/{BLUE}/explain?user={name}")).await.expect(200).body;
        assert_eq!(
            (&explained["visible"], &explained["verdict"]),
            (&json!(false), &json!("suspended")),
            "{explained}"
        );
        let expected = format!(
            "`{name}` can read no trace with a session or an API key while their access is suspended"
        );
        assert_eq!(explained["summary"], expected);
        let access = admin.get(&format!("/users/{name}/access")).await.expect(200).body;
        let summary = access["summary"].as_str().unwrap();
        assert!(summary.ends_with("; nothing with a session or an API key while their access is suspended"));
    }
    browser_of(&company, "bea").await;
    assert_eq!(viewers().await, (json!(["ada", "bea", "owner"]), json!(["robot"])));
}

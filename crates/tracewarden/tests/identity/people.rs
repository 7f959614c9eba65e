//! First sign-ins, names, and what administrators see and change of people.

use serde_json::json;

use super::{Company, READERS, TestDatabase, browser_of, on_both, roles};
use crate::support::identity::{Browser, PASSWORD, PROVIDER};
use crate::support::store::{BLUE, RED, Store};
use crate::support::{ADMIN_PASSWORD, Client, USER_PASSWORD};

on_both!(
    a_person_gets_the_mapped_access,
    names_are_never_merged,
    assigned_access_stays_apart,
    passwords_can_be_turned_off,
    keys_are_rotated,
);

async fn a_person_gets_the_mapped_access(database: TestDatabase) {
    let company = Company::start(database).await;
    let Company { provider, service, admin } = &company;
    let methods = service.anonymous().get("/identity/methods").await.expect(200).body;
    let expected =
        json!({"password": "everyone", "providers": [{"name": PROVIDER, "label": "Company account"}]});
    assert_eq!(methods, expected);

    provider.put_user("paula", json!({"groups": ["/payments"], "department": "blue"})).await;
    let mut browser = Browser::default();
    // Without a mapping no user has a role, and no account is created.
    assert_eq!(browser.fail_to_sign_in(service, "paula").await, "no_role");
    admin.get("/users/paula").await.problem(404, "not_found");
    company.map_groups().await;
    let paula = browser.sign_in(service, "paula").await;

    let me = paula.get("/me").await.expect(200).body;
    assert_eq!((&me["username"], &me["roles"]), (&json!("paula"), &json!(["payments"])));
    assert_eq!((&me["attributes"], &me["provider"]), (&json!({"team": "blue"}), &json!(PROVIDER)));
    assert_eq!((&me["is_admin"], &me["auth"]), (&json!(false), &json!("session")));
    let user = company.user("paula").await;
    assert_eq!(user["provider"]["name"], PROVIDER);
    assert_eq!(user["provider"]["subject"], "paula");
    assert_eq!(user["assigned"], json!({"roles": [], "attributes": {}}));
    assert_eq!(user["roles"], json!(["payments"]));
    assert_eq!(admin.get("/roles/payments").await.expect(200).body["members"], json!(["paula"]));

    // The claims of the next sign-in count.
    provider.put_user("paula", json!({"groups": ["/oncall", "/payments"]})).await;
    let (_, again) = browser_of(&company, "paula").await;
    assert_eq!(roles(&again).await, json!(["oncall", "payments"]));
    assert_eq!(roles(&paula).await, json!(["oncall", "payments"]), "in all sessions");
    assert_eq!(again.get("/me").await.expect(200).body["attributes"], json!({}), "no claim, no attribute");

    let created = &company.records("user.create").await[0];
    assert_eq!((&created["target"], &created["actor"]["username"]), (&json!("paula"), &json!("paula")));
    assert_eq!(created["detail"]["provider"], PROVIDER);
    let mapped = &company.records("user.map").await[0];
    assert_eq!(mapped["detail"]["roles"], json!({"before": ["payments"], "after": ["oncall", "payments"]}));
    let logins = company.records("login").await;
    assert_eq!(logins[0]["detail"]["provider"], PROVIDER);
    let refused = logins.iter().find(|record| record["outcome"] == "denied").unwrap();
    assert_eq!(refused["detail"], json!({"reason": "no_role", "provider": PROVIDER, "subject": "paula"}));
}

/// The account that a person gets is chosen by issuer and subject, never by name.
async fn names_are_never_merged(database: TestDatabase) {
    let company = Company::start(database).await;
    let Company { provider, service, admin } = &company;
    company.map_groups().await;
    let groups = json!(["/payments"]);
    for (login, name) in
        [("eve1", "admin"), ("eve2", "ADMIN"), ("eve3", "grace"), ("eve4", "Gráce\u{200B}"), ("eve5", "a/b")]
    {
        provider.put_user(login, json!({"groups": groups, "preferred_username": name})).await;
    }
    service.user(admin, "Grace", &[]).await;
    for (login, reason) in [
        ("eve1", "name_taken"),
        ("eve2", "name_taken"),
        ("eve3", "name_taken"),
        ("eve4", "name_invalid"),
        ("eve5", "name_invalid"),
    ] {
        assert_eq!(Browser::default().fail_to_sign_in(service, login).await, reason, "{login}");
    }
    assert_eq!(admin.get("/users").await.expect(200).body["users"].as_array().unwrap().len(), 2);

    // A person whom the provider renames stays the same user, with the same name.
    provider.put_user("ada", json!({"groups": groups, "preferred_username": "Ada Lovelace"})).await;
    let (_, ada) = browser_of(&company, "ada").await;
    let id = ada.get("/me").await.expect(200).body["id"].clone();
    provider.put_user("ada", json!({"groups": groups, "preferred_username": "admin"})).await;
    let (_, renamed) = browser_of(&company, "ada").await;
    let me = renamed.get("/me").await.expect(200).body;
    assert_eq!((&me["id"], &me["username"]), (&id, &json!("Ada Lovelace")));
}

async fn assigned_access_stays_apart(database: TestDatabase) {
    let company = Company::start(database).await;
    let Company { provider, service, admin } = &company;
    company.map_groups().await;
    provider.put_user("paula", json!({"groups": ["/payments"], "department": "blue"})).await;
    let (_, paula) = browser_of(&company, "paula").await;
    let patch = async |change| admin.patch("/users/paula", change).await;

    // A client may send back what it has read; only what was assigned changes.
    let user = company.user("paula").await;
    let same =
        patch(json!({"roles": user["roles"], "attributes": user["attributes"]})).await.expect(200).body;
    assert_eq!(same["assigned"], json!({"roles": [], "attributes": {}}));
    let changed =
        patch(json!({"roles": ["payments", "oncall"], "attributes": {"team": "blue", "level": "3"}}));
    let changed = changed.await.expect(200).body;
    assert_eq!(changed["assigned"], json!({"roles": ["oncall"], "attributes": {"level": "3"}}));
    assert_eq!(changed["roles"], json!(["oncall", "payments"]));
    assert_eq!(changed["attributes"], json!({"level": "3", "team": "blue"}));
    let refused = patch(json!({"attributes": {"team": "red"}})).await.problem(422, "invalid_value");
    assert_eq!(refused.first_error()["pointer"], "/attributes/team");

    // Assigned roles stay when the claims give none, and mapped ones do not.
    provider.put_user("paula", json!({"groups": []})).await;
    let (_, again) = browser_of(&company, "paula").await;
    let me = again.get("/me").await.expect(200).body;
    assert_eq!((&me["roles"], &me["attributes"]), (&json!(["oncall"]), &json!({"level": "3"})));
    assert_eq!(roles(&paula).await, json!(["oncall"]));

    // The provider decides who she is: she has no password that anyone could set or change.
    admin.post("/users/paula/password", json!({})).await.problem(409, "conflict");
    let change = json!({"current_password": USER_PASSWORD, "new_password": "another quite long sentence"});
    again.post("/me/password", change).await.problem(409, "conflict");

    // What is assigned under a mapped name has no effect, is not lost, and comes back.
    patch(json!({"attributes": {"area": "north", "level": "3"}})).await.expect(200);
    let mapping = |attributes| json!({"roles": [{"role": "payments", "when": "\"/payments\" in claims.groups"}], "attributes": attributes});
    company.put_mapping(mapping(json!({"area": "claims.department"}))).await;
    for attributes in [json!({"area": "north", "level": "4"}), json!({"level": "4"})] {
        let changed = patch(json!({ "attributes": attributes })).await.expect(200).body;
        assert_eq!(changed["assigned"]["attributes"], json!({"area": "north", "level": "4"}));
        assert_eq!(changed["attributes"], json!({"level": "4"}), "the claim is absent");
    }
    company.put_mapping(mapping(json!({}))).await;
    assert_eq!(company.user("paula").await["attributes"], json!({"area": "north", "level": "4"}));

    // What was read as mapped cannot be sent back as assigned once the mapping no longer gives it.
    provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    browser_of(&company, "paula").await;
    let read = admin.get("/users/paula").await.expect(200);
    provider.put_user("paula", json!({"groups": []})).await;
    browser_of(&company, "paula").await;
    let tag = read.headers["etag"].to_str().unwrap();
    let change = json!({"roles": read.body["roles"]});
    admin.with("if-match", tag).patch("/users/paula", change).await.problem(412, "precondition_failed");
    assert_eq!(company.user("paula").await["roles"], json!(["oncall"]));

    // A mapped administrator administers, but does not count as the one who must remain; nor does an assigned one who signs in
    // with the provider.
    patch(json!({"roles": ["admin"]})).await.expect(200);
    admin.delete("/users/admin").await.problem(409, "last_admin");
    patch(json!({"roles": ["oncall"]})).await.expect(200);
    company
        .put_mapping(
            json!({"roles": [{"role": "admin", "when": "\"/admins\" in claims.groups"}], "attributes": {}}),
        )
        .await;
    provider.put_user("paula", json!({"groups": ["/admins"]})).await;
    let (_, mapped) = browser_of(&company, "paula").await;
    assert_eq!(mapped.get("/users").await.expect(200).body["users"].as_array().unwrap().len(), 2);
    mapped.patch("/users/admin", json!({"disabled": true})).await.problem(409, "last_admin");
    mapped.delete("/users/admin").await.problem(409, "last_admin");
    // An API key cannot enable a mapped administrator, nor delete the user for the next sign-in to create it again.
    patch(json!({"disabled": true})).await.expect(200);
    let key = admin.post("/me/api-keys", json!({"name": "k"})).await.expect(201).body;
    let key = admin.with_key(key["token"].as_str().unwrap());
    key.delete("/users/paula").await.problem(403, "session_required");
    key.patch("/users/paula", json!({"disabled": false})).await.problem(403, "session_required");
    drop(service.anonymous());
}

async fn passwords_can_be_turned_off(database: TestDatabase) {
    let company = Company::start(database).await;
    let Company { provider, admin, .. } = &company;
    let ada = company.service.user(admin, "ada", &["payments"]).await;
    company.map_groups().await;
    provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    drop(ada);
    let Company { provider, mut service, .. } = company;
    let log_in = async |client: &Client, username: &str, password: &str| {
        client.post("/login", json!({"username": username, "password": password})).await
    };

    service.restart_with(&[("TRACEWARDEN_PASSWORD_LOGIN", "administrators")]);
    provider.register(&service.base, &[PROVIDER]);
    let anonymous = service.anonymous();
    log_in(&anonymous, "admin", ADMIN_PASSWORD).await.expect(200);
    log_in(&anonymous, "ada", USER_PASSWORD).await.problem(403, "sign_in_refused");
    log_in(&anonymous, "ada", "a wrong long password").await.problem(401, "invalid_credentials");
    Browser::default().sign_in(&service, "paula").await;
    assert_eq!(anonymous.get("/identity/methods").await.expect(200).body["password"], "administrators");

    service.restart_with(&[("TRACEWARDEN_PASSWORD_LOGIN", "off")]);
    provider.register(&service.base, &[PROVIDER]);
    let anonymous = service.anonymous();
    log_in(&anonymous, "admin", ADMIN_PASSWORD).await.problem(403, "sign_in_refused");
    Browser::default().sign_in(&service, "paula").await;
    // Not by the password at the provider either.
    log_in(&anonymous, "paula", PASSWORD).await.problem(401, "invalid_credentials");
}

async fn keys_are_rotated(database: TestDatabase) {
    let company = Company::start(database).await;
    company.map_groups().await;
    company.provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    browser_of(&company, "paula").await;
    // At most one fetch in 30 seconds because of unknown keys: the first comes from the start.
    company.provider.rotate_keys().await;
    let mut browser = Browser::default();
    let callback = browser.sign_in_at_provider(&company.service.base, "paula").await;
    assert_eq!(browser.failure_at(&callback).await, "identity_provider");
    tokio::time::sleep(std::time::Duration::from_secs(31)).await;
    browser_of(&company, "paula").await;
}

/// On the traces of a real engine.
#[tokio::test]
async fn a_person_reads_the_traces_of_the_mapped_role() {
    let store = Store::start();
    let company = Company::with_traces(&store, "").await;
    for (login, readable) in READERS {
        let (_, client) = browser_of(&company, login).await;
        for trace in [BLUE, RED] {
            let status = if readable.contains(&trace) { 200 } else { 404 };
            client.get(&format!("/traces/{trace}")).await.expect(status);
        }
    }
    // A changed mapping takes effect with the next request.
    let (_, bea) = browser_of(&company, "bea").await;
    company.put_mapping(json!({"roles": [{"role": "blue", "when": "\"/red\" in claims.groups"}]})).await;
    bea.get(&format!("/traces/{BLUE}")).await.problem(404, "trace_not_found");
}

/// The browser is sent to the provider's page, which asks the person.
#[tokio::test]
async fn a_person_signs_out_at_the_provider_too() {
    let company = Company::start(None).await;
    let Company { provider, service, .. } = &company;
    company.map_groups().await;
    provider.put_user("paula", json!({"groups": ["/payments"]})).await;
    let (mut browser, _) = browser_of(&company, "paula").await;
    let page = browser.open(&format!("{}/logout/{PROVIDER}", service.base)).await;
    let location = page.location.unwrap();
    assert!(
        location.starts_with(&format!("{}/session/end?client_id=tracewarden&", provider.issuer)),
        "{location}"
    );
    let page = browser.open(&location).await;
    assert_eq!(page.status, 200, "{page:?}");
    let unknown = browser.open(&format!("{}/logout/unknown", service.base)).await;
    assert!(unknown.location.unwrap().contains("/ui/login?failed=not_found"));
}

//! All checks of a database that an older version wrote.

use serde_json::{Value, json};

use crate::support::store::{BLUE, RED, Store, blue_policies};
use crate::support::{Client, Service};
use crate::upgrade::database::Copy;

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Whether `now` contains everything in `before`. Members may be added; times of last use may change. The wording of
/// summaries has changed since.
fn contains_all(now: &Value, before: &Value) -> bool {
    match (now, before) {
        (Value::Object(now), Value::Object(before)) => before.iter().all(|(name, value)| {
            if let (Some(before), true) = (value.as_str(), name == "summary") {
                let before = before.replace("one of its spans is so:", "one of its spans matches:");
                return now.get(name).and_then(Value::as_str) == Some(before.as_str());
            }
            name.starts_with("last_") || now.get(name).is_some_and(|now| contains_all(now, value))
        }),
        (Value::Array(now), Value::Array(before)) => {
            now.len() == before.len() && now.iter().zip(before).all(|(now, before)| contains_all(now, before))
        }
        _ => now == before,
    }
}

/// Starts the service on the database, checks everything that is known about it, then makes changes.
pub async fn check_all(copy: &Copy, facts: &Value) {
    let store = Store::start();
    store.insert_two_traces().await;
    // The administrator's password is in the database.
    let environment = [&store.settings()[..], &[("TRACEWARDEN_ADMIN_PASSWORD_HASH", "")]].concat();
    let mut service = copy.serve(&environment);
    let session = |who: &str| service.anonymous().with("cookie", text(&facts[who]["cookie"]));
    let (admin, ada) = (session("admin"), session("ada"));

    check_answers(&admin, &facts["answers"]).await;
    verify(&service, facts);
    check_reads(&service, &ada, &session("previewing"), facts).await;
    check_sign_ins(&service, facts).await;
    check_new_changes(&admin, facts).await;
    verify(&service, facts);

    service.restart_with(&[]);
    let admin = admin.at(&service);
    admin.get("/roles/new").await.expect(200);
    verify(&service, facts);
    let checked = service.command().arg("check-config").output().unwrap();
    let printed = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
    assert!(printed.contains("schema current"), "{printed}");
    assert!(!service.log().contains("ERROR"), "{}", service.log());
}

async fn check_answers(admin: &Client, answers: &Value) {
    assert!(answers.as_object().unwrap().len() >= 15);
    for (path, before) in answers.as_object().unwrap() {
        let mut now = admin.get(path).await.expect(200).body;
        if path.starts_with("/audit") {
            // The newest records come first: the start may have added some.
            let records = now["records"].as_array_mut().unwrap();
            let added = records.len() - before["records"].as_array().unwrap().len();
            records.drain(..added);
        }
        let before = &expected_now(path, before, answers);
        assert!(contains_all(&now, before), "{path}\nnow: {now}\nbefore: {before}");
    }
}

/// The description of filters, which have more members than in 0.1.0.
const FILTERS: &str = "All parts of a filter must match (AND). A condition in `conditions` matches a trace when any span \
    satisfies it; different spans may satisfy different conditions. For each group in `same_span`, one span must satisfy all \
    of its conditions. No span may satisfy a condition in `none`. Without a filter, every trace in the time range that you may \
    see matches.";

/// Converts an answer of 0.1.0 to the current form: the version of the access model is the number of its last change, and
/// has only this name. Before, `version` and `model_version` were numbers of binding and fields. `requirement` was named
/// `in_words`. Audit records stay unchanged.
fn expected_now(path: &str, before: &Value, answers: &Value) -> Value {
    let mut before = before.clone();
    let numbered = |entry: &mut Value| {
        if let Some(entry) = entry.as_object_mut()
            && entry.remove("model_version").is_some()
        {
            let number = entry.remove("change").unwrap();
            entry.insert("version".to_owned(), number);
        }
    };
    numbered(&mut before);
    match path {
        "/schema" | "/filter/schema" => {
            let newest = &answers["/schema/history"]["changes"][0];
            before["version"] = newest.get("version").unwrap_or(&newest["change"]).clone();
            if path == "/filter/schema" {
                before["description"] = json!(FILTERS);
            }
        }
        "/schema/history" => before["changes"].as_array_mut().unwrap().iter_mut().for_each(numbered),
        _ if path.ends_with("/access") => {
            for role in before["roles"].as_array_mut().unwrap() {
                for policy in role["policies"].as_array_mut().unwrap() {
                    if let Some(requirement) = policy.as_object_mut().unwrap().remove("in_words") {
                        policy["requirement"] = requirement;
                    }
                }
            }
        }
        _ => {}
    }
    before
}

fn verify(service: &Service, facts: &Value) {
    let verified =
        service.command().args(["audit", "verify", "--head", text(&facts["head"])]).output().unwrap();
    let printed = String::from_utf8([verified.stdout, verified.stderr].concat()).unwrap();
    assert!(verified.status.success() && printed.contains(": fits"), "{printed}");
}

/// Reads with the old sessions and API keys.
async fn check_reads(service: &Service, ada: &Client, previewing: &Client, facts: &Value) {
    let of_key = |name: &str| service.anonymous().with_key(text(&facts["ada"][name]));
    for client in [ada, &of_key("key"), previewing] {
        let query = json!({"view": "ids"});
        let found = client.post("/traces/query", query).await.expect(200).body;
        assert_eq!(found["trace_ids"], json!([BLUE]), "{found}");
        client.get(&format!("/traces/{RED}")).await.problem(404, "trace_not_found");
    }
    let scoped = of_key("narrowed");
    scoped.get(&format!("/traces/{BLUE}")).await.expect(200);
    scoped.post("/traces/query", json!({})).await.problem(403, "forbidden");
    of_key("revoked").get("/me").await.problem(401, "unauthenticated");
}

async fn check_sign_ins(service: &Service, facts: &Value) {
    let account = |who: &str| json!({"username": facts[who]["username"], "password": facts[who]["password"]});
    let anonymous = service.anonymous();
    for who in ["admin", "ada"] {
        anonymous.post("/login", account(who)).await.expect(200);
        let mut wrong = account(who);
        wrong["password"] = json!("another long sentence");
        anonymous.post("/login", wrong).await.problem(401, "invalid_credentials");
    }
    anonymous.post("/login", account("disabled")).await.problem(401, "invalid_credentials");
    let (username, initial) = (text(&facts["pending"]["username"]), text(&facts["pending"]["password"]));
    let pending = service.sign_in(username, initial).await;
    pending.post("/traces/query", json!({})).await.problem(403, "password_change_required");
    let change = json!({"current_password": initial, "new_password": "the sentence of later"});
    pending.post("/me/password", change).await.expect(204);
    let found = pending.post("/traces/query", json!({"view": "ids"})).await.expect(200).body;
    assert_eq!(found["trace_ids"], json!([RED]), "{found}");
}

/// Makes changes, and restores the previous state.
async fn check_new_changes(admin: &Client, facts: &Value) {
    let before = &facts["answers"]["/roles/blue"];
    admin.put("/roles/new", blue_policies()).await.expect(201);
    let other = json!({"policies": [{"title": "None", "expression": "false"}]});
    admin.put("/roles/blue", other).await.expect(200);
    // A new revision differs from all earlier ones, including those of deleted roles, so that no old tag matches it.
    let now = admin.get("/roles/blue").await.expect(200);
    let now: u64 = now.headers["etag"].to_str().unwrap().trim_matches('"').parse().unwrap();
    let given = ["/roles", "/audit?limit=500"].map(|path| revisions(&facts["answers"][path]));
    assert!(given.iter().all(|given| given.len() > 3), "{given:?}");
    let last = given.into_iter().flatten().max().unwrap();
    assert!(now > last, "{now} after {last}");
    let change = text_of_number(&facts["change"]);
    let path = format!("/schema/history/{change}/restore");
    admin.with("if-match", "*").send(reqwest::Method::POST, &path, None).await.expect(200);
    let restored = admin.get("/roles/blue").await.expect(200).body;
    assert!(contains_all(&restored["policies"], &before["policies"]), "{restored}");
    admin.get("/roles/new").await.problem(404, "not_found");
    let exported = admin.get("/schema/export").await.expect(200).body;
    assert!(
        contains_all(&exported, &facts["answers"][format!("/schema/history/{change}")]["file"]),
        "{exported}"
    );
    admin.put("/roles/new", blue_policies()).await.expect(201);
    let records = admin.get("/audit?limit=10").await.expect(200).body;
    assert!(records.to_string().contains("model.restore"), "{records}");
}

/// Returns every revision of a role in an answer: single values, and values before and after a change.
fn revisions(answer: &Value) -> Vec<u64> {
    match answer {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, value)| match name.as_str() {
                "revision" => {
                    [value, &value["before"], &value["after"]].into_iter().filter_map(Value::as_u64).collect()
                }
                _ => revisions(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(revisions).collect(),
        _ => Vec::new(),
    }
}

fn text_of_number(number: &Value) -> String {
    number.as_u64().unwrap().to_string()
}

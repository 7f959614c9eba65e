//! The password and the sessions of a user, which change together. The state has the password if known, whether it must be
//! changed first, and the sessions by the marker of their sign-in, each with its id and cookie if known.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::objects::{Change, names};
use crate::support::Client;

pub fn change(name: &str, state: &Value, choice: u32, mark: &str) -> Change {
    let sessions = state["sessions"].as_object().unwrap();
    let with_known = |what: &str| sessions.iter().find(|(_, session)| session[what].is_string());
    let without = |ended: &str| {
        let mut to = state.clone();
        to["sessions"].as_object_mut().unwrap().remove(ended);
        Some(to)
    };
    if choice.is_multiple_of(8) {
        return rotate(name);
    }
    // The cookie of a sign-in without an answer is lost.
    let Some((own, session)) = with_known("cookie") else { return log_in(name, state, mark) };
    let cookie = session["cookie"].as_str().unwrap();
    if state["pending"] == true {
        return change_password(state, own, cookie, mark);
    }
    match (choice % 8, with_known("id")) {
        (1 | 2, _) => change_password(state, own, cookie, mark),
        (3, _) => {
            let mut to = state.clone();
            to["sessions"] = json!({});
            let path = format!("/users/{name}/sessions");
            Change::new("user.end_sessions", Method::DELETE, path, None, Some(to))
        }
        (4, _) => {
            let path = "/logout".to_owned();
            Change::new("logout", Method::POST, path, None, without(own)).by(cookie)
        }
        (5, Some((ended, session))) => {
            let path = format!("/me/sessions/{}", session["id"].as_str().unwrap());
            Change::new("session.end", Method::DELETE, path, None, without(ended)).by(cookie)
        }
        (6, Some((ended, session))) => {
            let path = format!("/users/{name}/sessions/{}", session["id"].as_str().unwrap());
            Change::new("user.end_sessions", Method::DELETE, path, None, without(ended))
        }
        _ => log_in(name, state, mark),
    }
}

fn log_in(name: &str, state: &Value, mark: &str) -> Change {
    let body = json!({"username": name, "password": state["password"]});
    let mut to = state.clone();
    to["sessions"][mark] = json!({"id": null, "cookie": null});
    Change::new("login", Method::POST, "/login".to_owned(), Some(body), Some(to))
}

/// The user changes the password; all other sessions end.
fn change_password(state: &Value, own: &str, cookie: &str, mark: &str) -> Change {
    let new = format!("what {mark} chose");
    let body = json!({"current_password": state["password"], "new_password": new});
    let mut to = json!({"password": new, "pending": false, "sessions": {}});
    to["sessions"][own] = state["sessions"][own].clone();
    Change::new("password.change", Method::POST, "/me/password".to_owned(), Some(body), Some(to)).by(cookie)
}

/// The administrator resets the password; all sessions end, and only the answer contains the new password.
fn rotate(name: &str) -> Change {
    let to = json!({"password": null, "pending": true, "sessions": {}});
    Change::new("user.rotate_password", Method::POST, format!("/users/{name}/password"), None, Some(to))
}

/// Adds what the answer to a change contains.
pub fn insert_generated_values(to: &mut Value, mark: &str, generated_values: &Value) {
    if to["password"].is_null() {
        to["password"] = generated_values["initial_password"].clone();
    }
    if let Some(session) = to["sessions"].get_mut(mark) {
        session["cookie"] = generated_values["cookie"].clone();
    }
}

/// Returns the part of a state that is compared.
pub fn observable_state(state: &Value) -> Value {
    json!({"password": state["password"], "pending": state["pending"], "sessions": names(&state["sessions"])})
}

/// Returns the state as an administrator sees it, with the known password and cookies. Cookies of ended sessions must be
/// rejected.
pub async fn state(admin: &Client, name: &str, known: &Value) -> Value {
    let user = admin.get(&format!("/users/{name}")).await.expect(200).body;
    let list = admin.get(&format!("/users/{name}/sessions")).await.expect(200).body;
    let mut sessions = json!({});
    for session in list["sessions"].as_array().unwrap() {
        let mark = session["user_agent"].as_str().unwrap();
        assert!(sessions[mark].is_null(), "{name}: two sessions of one sign-in: {list}");
        sessions[mark] = json!({"id": session["id"], "cookie": known["sessions"][mark]["cookie"]});
    }
    for (mark, session) in known["sessions"].as_object().into_iter().flatten() {
        let Some(cookie) = session["cookie"].as_str() else { continue };
        let expected = if sessions[mark].is_null() { 401 } else { 200 };
        let session_status = admin.with("cookie", cookie).get("/me").await.status;
        assert_eq!(session_status, expected, "{name}: the session of {mark}, of these: {list}");
    }
    json!({"password": known["password"], "pending": user["must_change_password"], "sessions": sessions})
}

/// Returns the one valid password among those in these states; null if none of them is valid. At most one may be valid.
pub async fn password(anonymous: &Client, name: &str, states: [Option<&Value>; 2]) -> Value {
    let named = states.into_iter().flatten().filter_map(|state| state["password"].as_str());
    let named: BTreeSet<&str> = named.collect();
    let mut valid_passwords = Vec::new();
    for password in named {
        if is_valid_password(anonymous, name, password).await {
            valid_passwords.push(password);
        }
    }
    assert!(valid_passwords.len() <= 1, "{name}: the old and the new password are both valid");
    json!(valid_passwords.first())
}

/// Signs in, and out again. The session is not added to the secrets, for which every later answer would be searched: a long
/// run has thousands.
async fn is_valid_password(anonymous: &Client, name: &str, password: &str) -> bool {
    let login = json!({"username": name, "password": password});
    let response = anonymous.request(Method::POST, "/login").json(&login).send().await.unwrap();
    if response.status() == 401 {
        return false;
    }
    assert_eq!(response.status(), 200, "{name}: {password}");
    let cookie = response.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap();
    anonymous.with("cookie", cookie).send(Method::POST, "/logout", None).await.expect(204);
    true
}

/// Resets the password and returns the new one, after a password that no client received.
pub async fn new_password(admin: &Client, name: &str) -> Value {
    let path = format!("/users/{name}/password");
    admin.send(Method::POST, &path, None).await.expect(200).body["initial_password"].clone()
}

//! Checks credentials, and changes that must take effect on the next request.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tracewarden_sample_data::SUPPORTED_TENANTS;

use super::{DemoUnderTest, Findings};
use crate::demo::demo_users::{ADMINISTRATOR, AGENT_OWNER, DEMO_USERS};
use crate::demo::expectations::Landmark;
use crate::stack::api::{Client, list};

/// Without a credential, every request fails. With an API key, the client sees exactly what the key's owner sees.
pub fn credentials(subject: &DemoUnderTest<'_>, findings: &mut Findings) -> Result<()> {
    let owner = DEMO_USERS.iter().position(|demo_user| demo_user.username == AGENT_OWNER).unwrap_or_default();
    let agent = subject.accounts.of(AGENT_OWNER)?.client.with_key(&subject.accounts.key);
    let unknown_key = subject.anonymous.with_key("twk_thisisnotakeyofanybody0000000000000000");
    for landmark in &subject.expectations.landmarks {
        for (who, client, expected) in [
            ("unknown-user", subject.anonymous, 401),
            ("a made-up key", &unknown_key, 401),
            ("the agent's key", &agent, status(landmark, owner)),
        ] {
            let got = fetch(client, landmark)?;
            findings.assert(got == expected, || {
                format!("{who} got {got} for `{}`, must get {expected}", landmark.name)
            });
        }
    }
    let answer = subject.anonymous.send("POST", "/traces/query", None, Some(&json!({})))?;
    findings.assert(answer.status == 401, || {
        format!("a query without credentials got {}, must get 401", answer.status)
    });
    Ok(())
}

/// Changes a user's attribute, a role's policies, a user's roles and an API key, and reverts each change.
pub fn changes_take_effect(subject: &DemoUnderTest<'_>, findings: &mut Findings) -> Result<()> {
    let administrator = &subject.accounts.of(ADMINISTRATOR)?.client;
    let support = &subject.accounts.of("sam")?.client;
    let incident = named(subject, "incident")?;
    let mut expect = |client: &Client, landmark: &Landmark, status: u16, when: &str| -> Result<()> {
        let got = fetch(client, landmark)?;
        findings.assert(got == status, || {
            format!("{when}: got {got} for `{}`, must get {status}", landmark.name)
        });
        Ok(())
    };
    let [_, second] = SUPPORTED_TENANTS;
    let tenants = |tenants: Value| json!({"attributes": {"tenants": tenants}});
    administrator.call("PATCH", "/users/sam", Some(&tenants(json!([second]))))?;
    expect(support, incident, 404, "after a tenant was removed from sam's attributes")?;
    administrator.call("PATCH", "/users/sam", Some(&tenants(json!(SUPPORTED_TENANTS))))?;
    expect(support, incident, 200, "after it was restored")?;

    administrator.call("PATCH", "/users/sam", Some(&json!({"roles": []})))?;
    expect(support, incident, 404, "after sam's role was removed")?;
    administrator.call("PATCH", "/users/sam", Some(&json!({"roles": ["support"]})))?;
    expect(support, incident, 200, "after it was restored")?;

    let logistics = named(subject, "logistics")?;
    let wide = json!({"policies": [
        {"title": "Two teams", "expression": r#"ResourceAttributes["team"] in ["storefront", "logistics"]"#}]});
    let storefront = &subject.accounts.of("stefan")?.client;
    let path = "/roles/storefront-production";
    expect(storefront, logistics, 404, "before stefan's role was extended")?;
    let before = administrator.get(path)?;
    administrator.call("PUT", path, Some(&wide))?;
    expect(storefront, logistics, 200, "after stefan's role was extended")?;
    administrator.call("PUT", path, Some(&policies_of(&before)?))?;
    expect(storefront, logistics, 404, "after it was restored")?;

    let owner = &subject.accounts.of(AGENT_OWNER)?.client;
    let created = owner.call("POST", "/me/api-keys", Some(&json!({"name": "for a moment"})))?;
    let member = |name: &str| created.get(name).and_then(Value::as_str).context("the new key lacks a member");
    let agent = owner.with_key(member("token")?);
    expect(&agent, incident, 200, "with a new key")?;
    owner.call("DELETE", &format!("/me/api-keys/{}", member("id")?), None)?;
    expect(&agent, incident, 401, "after the key was revoked")
}

fn fetch(client: &Client, landmark: &Landmark) -> Result<u16> {
    Ok(client.send("GET", &format!("/traces/{}", landmark.id), None, None)?.status)
}

fn status(landmark: &Landmark, demo_user: usize) -> u16 {
    if landmark.visible.get(demo_user).copied().unwrap_or_default() { 200 } else { 404 }
}

fn named<'a>(subject: &'a DemoUnderTest<'_>, name: &str) -> Result<&'a Landmark> {
    let found = subject.expectations.landmarks.iter().find(|landmark| landmark.name == name);
    found.with_context(|| format!("there is no landmark `{name}`"))
}

/// Converts a role from a response into a request body.
fn policies_of(role: &Value) -> Result<Value> {
    let policies: Vec<Value> = list(role, "/policies")?
        .iter()
        .map(|policy| json!({"title": policy.get("title"), "expression": policy.get("expression")}))
        .collect();
    Ok(json!({ "policies": policies }))
}

//! Checks explanations of access, viewers of traces, previews of a role change, and collateral access of a role.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{DemoUnderTest, Findings};
use crate::demo::demo_users::{ADMINISTRATOR, DEMO_USERS, PAYMENTS_ON_CALL, PROPOSAL, STOREFRONT_PRODUCTION};
use crate::demo::expectations::Landmark;
use crate::stack::api::{expect, list, rfc_3339};

/// Maximum number of matching spans that an explanation names.
const NAMED_SPANS: usize = 20;

/// Explains each landmark for each user. Users get an explanation exactly if they see the trace; the administrator always gets
/// one. The verdicts must agree.
pub fn explain_landmarks(subject: &DemoUnderTest<'_>, findings: &mut Findings) -> Result<()> {
    let administrator = &subject.accounts.of(ADMINISTRATOR)?.client;
    for landmark in &subject.expectations.landmarks {
        for (index, account) in subject.accounts.all.iter().enumerate() {
            let username = account.demo_user.username;
            let path = format!("/traces/{}/explain", landmark.id);
            let visible = landmark.visible.get(index).copied().unwrap_or_default();
            let answer = account.client.send("GET", &path, None, None)?;
            let what = || format!("{username}, GET {path} (`{}`)", landmark.name);
            findings.assert(answer.status == if visible { 200 } else { 404 }, || {
                format!("{}: got {}, and visible is {visible}", what(), answer.status)
            });
            if answer.status == 200 {
                compare_explanation(findings, landmark, index, &answer.json()?, true, what);
            }
            let path = format!("{path}?user={username}");
            let what = || format!("{ADMINISTRATOR}, GET {path} (`{}`)", landmark.name);
            let answer = administrator.send("GET", &path, None, None)?;
            if let Some(body) = findings.take(expect(&answer, "GET", &path, &[200]), what)? {
                // The administrator sees no traces, and therefore gets counts only.
                compare_explanation(findings, landmark, index, &body, false, what);
            }
        }
        let path = format!("/traces/{}/viewers", landmark.id);
        let body = administrator.get(&path)?;
        let viewers: BTreeSet<&str> =
            list(&body, "/viewers")?.iter().filter_map(|viewer| viewer.get("username")?.as_str()).collect();
        let people = DEMO_USERS.iter().zip(&landmark.visible);
        let expected: BTreeSet<&str> =
            people.filter(|(_, visible)| **visible).map(|(demo_user, _)| demo_user.username).collect();
        findings.assert(viewers == expected, || {
            format!("GET {path} (`{}`): {viewers:?}, must be {expected:?}", landmark.name)
        });
    }
    let path = format!("/traces/{}/explain?user=paula", subject.absent);
    let absent = administrator.send("GET", &path, None, None)?;
    findings.assert(absent.status == 404, || format!("GET {path}: got {}, must get 404", absent.status));
    Ok(())
}

fn compare_explanation(
    findings: &mut Findings,
    landmark: &Landmark,
    demo_user: usize,
    body: &Value,
    details: bool,
    what: impl Fn() -> String,
) {
    let visible = landmark.visible.get(demo_user).copied().unwrap_or_default();
    let matching_spans = landmark.matching_spans.get(demo_user).map(Vec::as_slice).unwrap_or_default();
    let actual = (body.get("visible"), body.get("details"), body.get("spans"));
    let wanted = (json!(visible), json!(details), json!(landmark.spans.len()));
    findings.assert(actual == (Some(&wanted.0), Some(&wanted.1), Some(&wanted.2)), || {
        format!("{}: {actual:?}, must be {wanted:?}", what())
    });
    let policies = body.get("policies").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let counts: Vec<Option<u64>> =
        policies.iter().map(|policy| policy.get("satisfied_by").and_then(Value::as_u64)).collect();
    let expected: Vec<Option<u64>> = matching_spans.iter().map(|spans| Some(spans.len() as u64)).collect();
    findings.assert(counts == expected, || {
        format!("{}: policies satisfied by {counts:?} spans, must be {expected:?}", what())
    });
    for (policy, matching_spans) in policies.iter().zip(matching_spans) {
        let spans = policy.get("spans").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let named: BTreeSet<&str> =
            spans.iter().filter_map(|span| span.get("span_id").and_then(Value::as_str)).collect();
        let known = named.iter().all(|span| matching_spans.contains(*span));
        let count = if details { matching_spans.len().min(NAMED_SPANS) } else { 0 };
        findings.assert(known && named.len() == count, || {
            format!(
                "{}: access is granted by the spans {named:?}, must be {count} of {matching_spans:?}",
                what()
            )
        });
    }
}

/// Previews the replacement of a role's policies over the whole sample.
pub fn preview_proposal(subject: &DemoUnderTest<'_>, findings: &mut Findings) -> Result<()> {
    let administrator = &subject.accounts.of(ADMINISTRATOR)?.client;
    let (from, to) = window(subject);
    let search_query = json!({"role": STOREFRONT_PRODUCTION.name, "from": from, "to": to, "seconds": 60,
        "policies": [{"title": PROPOSAL.title, "expression": PROPOSAL.expression}]});
    let body = administrator.call("POST", "/policies/preview", Some(&search_query))?;
    findings.assert(body.get("sampled") == Some(&json!(false)), || {
        format!("the preview of a small sample is an estimate: {body}")
    });
    let impact = &subject.expectations.impact;
    let expected = [impact.gained, impact.lost, impact.unchanged].map(Some);
    let count = |of: Option<&Value>| {
        ["gained", "lost", "unchanged"].map(|member| of.and_then(|of| of.get(member)).and_then(Value::as_u64))
    };
    for (of, found) in [("the role", body.get("traces")), ("stefan", body.pointer("/users/0"))] {
        findings.assert(count(found) == expected, || {
            format!(
                "for {of}, gained, lost and unchanged traces of the proposal are {:?}, must be {expected:?}",
                count(found)
            )
        });
    }
    Ok(())
}

/// Analyses collateral access over the whole sample, by service.
pub fn report_collateral_access(subject: &DemoUnderTest<'_>, findings: &mut Findings) -> Result<()> {
    let administrator = &subject.accounts.of(ADMINISTRATOR)?.client;
    let (from, to) = window(subject);
    let search_query = json!({"role": PAYMENTS_ON_CALL.name, "from": from, "to": to, "seconds": 60});
    let body = administrator.call("POST", "/policies/collateral-access", Some(&search_query))?;
    let collateral_access = &subject.expectations.collateral_access;
    let shared = collateral_access.services.values().filter(|matches| !**matches).count() as u64;
    let services = collateral_access.services.len() as u64;
    // The administrator sees none of these traces, and therefore none of the names.
    for (member, expected) in [
        ("traces", collateral_access.traces),
        ("distinct", services),
        ("only_shared", shared),
        ("hidden_values", services),
    ] {
        let found = body.get(member).and_then(Value::as_u64);
        findings.assert(found == Some(expected), || {
            format!("collateral access: `{member}` is {found:?}, must be {expected}: {body}")
        });
    }
    let named = list(&body, "/values").context("collateral access contains no values")?.len();
    findings.assert(named == 0, || {
        format!("collateral access names services of traces that the administrator may not read: {body}")
    });
    Ok(())
}

/// Returns a window around all spans of the sample.
fn window(subject: &DemoUnderTest<'_>) -> (String, String) {
    const HOUR: u64 = 3_600_000_000_000;
    let (from, to) = subject.window;
    (rfc_3339(from - HOUR), rfc_3339(to + HOUR))
}

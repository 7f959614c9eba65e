//! Checks explanations of access, viewers of traces, previews of a role change, and collateral access of a role.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Findings, Subject};
use crate::demo::cast::{ADMINISTRATOR, PAYMENTS_ON_CALL, PEOPLE, PROPOSAL, STOREFRONT_PRODUCTION};
use crate::demo::expectations::Landmark;
use crate::stack::api::{expect, list, rfc_3339};

/// Maximum number of matching spans that an explanation names.
const NAMED_SPANS: usize = 20;

/// Explains each landmark for each user. Users get an explanation exactly if they see the trace; the administrator always gets
/// one. The verdicts must agree.
pub fn of_landmarks(subject: &Subject<'_>, findings: &mut Findings) -> Result<()> {
    let administrator = &subject.accounts.of(ADMINISTRATOR)?.client;
    for landmark in &subject.expectations.landmarks {
        for (index, account) in subject.accounts.all.iter().enumerate() {
            let username = account.person.username;
            let path = format!("/traces/{}/explain", landmark.id);
            let visible = landmark.visible.get(index).copied().unwrap_or_default();
            let answer = account.client.send("GET", &path, None, None)?;
            let what = || format!("{username}, GET {path} (`{}`)", landmark.name);
            findings.assert(answer.status == if visible { 200 } else { 404 }, || {
                format!("{}: got {}, and visible is {visible}", what(), answer.status)
            });
            if answer.status == 200 {
                compare(findings, landmark, index, &answer.json()?, true, what);
            }
            let path = format!("{path}?user={username}");
            let what = || format!("{ADMINISTRATOR}, GET {path} (`{}`)", landmark.name);
            let answer = administrator.send("GET", &path, None, None)?;
            if let Some(body) = findings.take(expect(&answer, "GET", &path, &[200]), what)? {
                // The administrator sees no traces, and therefore gets counts only.
                compare(findings, landmark, index, &body, false, what);
            }
        }
        let path = format!("/traces/{}/viewers", landmark.id);
        let body = administrator.get(&path)?;
        let viewers: BTreeSet<&str> =
            list(&body, "/viewers")?.iter().filter_map(|viewer| viewer.get("username")?.as_str()).collect();
        let people = PEOPLE.iter().zip(&landmark.visible);
        let expected: BTreeSet<&str> =
            people.filter(|(_, visible)| **visible).map(|(person, _)| person.username).collect();
        findings.assert(viewers == expected, || {
            format!("GET {path} (`{}`): {viewers:?}, must be {expected:?}", landmark.name)
        });
    }
    let path = format!("/traces/{}/explain?user=paula", subject.absent);
    let absent = administrator.send("GET", &path, None, None)?;
    findings.assert(absent.status == 404, || format!("GET {path}: got {}, must get 404", absent.status));
    Ok(())
}

fn compare(
    findings: &mut Findings,
    landmark: &Landmark,
    person: usize,
    body: &Value,
    details: bool,
    what: impl Fn() -> String,
) {
    let visible = landmark.visible.get(person).copied().unwrap_or_default();
    let openers = landmark.openers.get(person).map(Vec::as_slice).unwrap_or_default();
    let told = (body.get("visible"), body.get("details"), body.get("spans"));
    let wanted = (json!(visible), json!(details), json!(landmark.spans.len()));
    findings.assert(told == (Some(&wanted.0), Some(&wanted.1), Some(&wanted.2)), || {
        format!("{}: {told:?}, must be {wanted:?}", what())
    });
    let policies = body.get("policies").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let counts: Vec<Option<u64>> =
        policies.iter().map(|policy| policy.get("satisfied_by").and_then(Value::as_u64)).collect();
    let expected: Vec<Option<u64>> = openers.iter().map(|spans| Some(spans.len() as u64)).collect();
    findings.assert(counts == expected, || {
        format!("{}: policies satisfied by {counts:?} spans, must be {expected:?}", what())
    });
    for (policy, openers) in policies.iter().zip(openers) {
        let spans = policy.get("spans").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let named: BTreeSet<&str> =
            spans.iter().filter_map(|span| span.get("span_id").and_then(Value::as_str)).collect();
        let known = named.iter().all(|span| openers.contains(*span));
        let count = if details { openers.len().min(NAMED_SPANS) } else { 0 };
        findings.assert(known && named.len() == count, || {
            format!("{}: access is granted by the spans {named:?}, must be {count} of {openers:?}", what())
        });
    }
}

/// Previews the replacement of a role's policies over the whole sample.
pub fn of_a_proposal(subject: &Subject<'_>, findings: &mut Findings) -> Result<()> {
    let administrator = &subject.accounts.of(ADMINISTRATOR)?.client;
    let (from, to) = window(subject);
    let question = json!({"role": STOREFRONT_PRODUCTION.name, "from": from, "to": to, "seconds": 60,
        "policies": [{"title": PROPOSAL.title, "expression": PROPOSAL.expression}]});
    let body = administrator.call("POST", "/policies/preview", Some(&question))?;
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
pub fn of_sharing(subject: &Subject<'_>, findings: &mut Findings) -> Result<()> {
    let administrator = &subject.accounts.of(ADMINISTRATOR)?.client;
    let (from, to) = window(subject);
    let question = json!({"role": PAYMENTS_ON_CALL.name, "from": from, "to": to, "seconds": 60});
    let body = administrator.call("POST", "/policies/overshare", Some(&question))?;
    let reach = &subject.expectations.reach;
    let shared = reach.services.values().filter(|matches| !**matches).count() as u64;
    let services = reach.services.len() as u64;
    // The administrator sees none of these traces, and therefore none of the names.
    for (member, expected) in [
        ("traces", reach.traces),
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
fn window(subject: &Subject<'_>) -> (String, String) {
    const HOUR: u64 = 3_600_000_000_000;
    let (from, to) = subject.window;
    (rfc_3339(from - HOUR), rfc_3339(to + HOUR))
}

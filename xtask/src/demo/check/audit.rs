//! Checks that every request for traces or configuration has an audit record.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use serde_json::Value;

use super::{DemoUnderTest, Findings};
use crate::demo::demo_users::ADMINISTRATOR;
use crate::stack::api::{Client, list};

/// Checks that each user has as many records as requests: none missing, none extra.
pub fn audit_log_is_complete(subject: &DemoUnderTest<'_>, findings: &mut Findings) -> Result<()> {
    let administrator = &subject.accounts.of(ADMINISTRATOR)?.client;
    let records = all_records(administrator)?;
    for account in &subject.accounts.all {
        let actor = account.demo_user.username;
        let actions = actions_of(&records, actor);
        let count = |belongs: fn(&str) -> bool| -> u64 {
            actions.iter().filter(|(action, _)| belongs(action)).map(|(_, count)| count).sum()
        };
        let tally = &account.client.tally;
        let sent = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        for (what, sent, recorded) in [
            ("queries", sent(&tally.queries), count(|action| action == "traces.query")),
            ("traces by id", sent(&tally.fetches), count(|action| action == "traces.get")),
            ("traces to be explained", sent(&tally.explanations), count(|action| action == "traces.explain")),
            ("log-ins", sent(&tally.sign_ins), count(|action| action == "login")),
            (
                "changes",
                sent(&tally.changes),
                count(|action| !action.starts_with("traces.") && action != "login"),
            ),
        ] {
            findings.assert(sent == recorded, || {
                format!("{actor} sent {sent} {what}, and the audit log has {recorded}; all of the records: {actions:?}")
            });
        }
    }
    let unnamed =
        records.iter().filter(|record| record.get("outcome").and_then(Value::as_str).is_none()).count();
    findings.assert(unnamed == 0, || format!("{unnamed} audit records have no outcome"));
    Ok(())
}

fn actions_of(records: &[Value], actor: &str) -> BTreeMap<String, u64> {
    let mut actions = BTreeMap::new();
    for record in records {
        let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if text("/actor/username") == actor {
            *actions.entry(text("/action").to_owned()).or_default() += 1;
        }
    }
    actions
}

/// Reads all records page by page, newest first.
fn all_records(administrator: &Client) -> Result<Vec<Value>> {
    let mut records = Vec::new();
    let mut cursor = String::new();
    for _ in 0..1_000 {
        let page = administrator.get(&format!("/audit?limit=200{cursor}"))?;
        records.extend(list(&page, "/records")?.iter().cloned());
        match page.get("next_cursor").and_then(Value::as_str) {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(records),
        }
    }
    bail!("the pages of the audit log do not end: {} records so far", records.len())
}

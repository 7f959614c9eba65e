//! Compares the audit log with every request that was sent.

use std::collections::{BTreeMap, HashMap};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use tracewarden_testkit::postgres::Database;

use super::shared::ExpectedRecords;

/// An audit record with its outcome.
struct Record {
    request: String,
    action: String,
    outcome: String,
}

/// Numbers of records of an action, by type of request.
#[derive(Default, Clone, Copy)]
pub struct RecordCounts {
    pub records: u64,
    /// Records of responses that required one.
    pub answered: u64,
    /// Records of requests that failed with an error response.
    pub refused: u64,
    /// Records of requests without a complete response.
    pub cut_off: u64,
    /// Requests of this action without a complete response.
    pub sent: u64,
}

/// Returns the head of the chain: its sequence and hash, in the format of `audit verify --head`.
pub fn head(database: &Database) -> Result<String> {
    database.run(&["SELECT sequence || ':' || hash FROM audit_head"]).map_err(|error| anyhow!(error))
}

/// Verifies that the log is unmodified and contains all these heads.
pub fn verify(mut program: Command, heads: &[String]) -> Result<String> {
    program.args(["audit", "verify"]);
    for head in heads {
        program.args(["--head", head]);
    }
    let output = program.output().context("cannot run `tracewarden audit verify`")?;
    let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error_text = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "`tracewarden audit verify`: {output_text}{error_text}");
    Ok(output_text)
}

/// Compares the records after `first` with the sent requests. Returns the counts by action and the errors.
pub fn compare(
    database: &Database,
    first: &str,
    expected_records: &ExpectedRecords,
) -> Result<(BTreeMap<String, RecordCounts>, Vec<String>)> {
    let sequence = first.split(':').next().unwrap_or_default();
    let statement = format!(
        "SELECT b.request_id, b.action, coalesce(c.outcome, b.outcome) FROM audit b \
         LEFT JOIN audit c ON c.completes = b.sequence \
         WHERE b.completes IS NULL AND b.via <> 'service' AND b.sequence > {sequence}"
    );
    let rows = database.run(&[&statement]).map_err(|error| anyhow!(error))?;
    let records = rows.lines().map(|row| {
        let mut columns = row.split('|').map(str::to_owned);
        let mut next = || columns.next().unwrap_or_default();
        Record { request: next(), action: next(), outcome: next() }
    });
    Ok(compare_records(records, expected_records))
}

fn compare_records(
    records: impl Iterator<Item = Record>,
    expected_records: &ExpectedRecords,
) -> (BTreeMap<String, RecordCounts>, Vec<String>) {
    let (mut counts, mut errors) = (BTreeMap::<String, RecordCounts>::new(), Vec::new());
    let mut required: HashMap<&str, (&str, &str)> = HashMap::new();
    for (request, action, outcome) in &expected_records.required {
        if required.insert(request, (action, outcome)).is_some() {
            errors.push(format!("two requests have the id {request}"));
        }
    }
    for Record { request, action, outcome } in records {
        let count = counts.entry(action.clone()).or_default();
        count.records += 1;
        match required.remove(request.as_str()) {
            Some(expected) if expected == (action.as_str(), outcome.as_str()) => count.answered += 1,
            Some(expected) => {
                errors.push(format!("the request {request} left {action} {outcome}, must be {expected:?}"));
            }
            None if expected_records.permitted.contains(&request) => count.refused += 1,
            None if expected_records.denied.contains(&request) && outcome == "denied" => count.refused += 1,
            None => count.cut_off += 1,
        }
    }
    for (request, (action, outcome)) in required {
        errors.push(format!("the request {request} ({action}, {outcome}) left no record"));
    }
    for (action, sent) in &expected_records.cut_off {
        counts.entry((*action).to_owned()).or_default().sent = *sent;
    }
    for (action, count) in &counts {
        if count.cut_off > count.sent {
            errors.push(format!(
                "{action}: {} records of requests without an answer, and {} were cut off",
                count.cut_off, count.sent
            ));
        }
    }
    (counts, errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(request: &str, action: &str, outcome: &str) -> Record {
        Record { request: request.to_owned(), action: action.to_owned(), outcome: outcome.to_owned() }
    }

    fn expected_records() -> ExpectedRecords {
        let mut expected_records = ExpectedRecords::default();
        expected_records.required.push(("a".to_owned(), "traces.get", "success"));
        expected_records.permitted.insert("b".to_owned());
        expected_records.denied.insert("c".to_owned());
        expected_records.cut_off.insert("traces.get", 1);
        expected_records
    }

    fn faults(records: &[(&str, &str, &str)]) -> usize {
        let records = records.iter().map(|(request, action, outcome)| record(request, action, outcome));
        compare_records(records, &expected_records()).1.len()
    }

    #[test]
    fn lost_doubled_changed_and_made_up_records_are_found() {
        let own = ("a", "traces.get", "success");
        assert_eq!(faults(&[own]), 0);
        assert_eq!(faults(&[own, ("b", "traces.get", "failed"), ("x", "traces.get", "unknown")]), 0);
        assert_eq!(faults(&[own, ("c", "traces.get", "denied"), ("x", "traces.get", "unknown")]), 0);
        assert_eq!(faults(&[own, ("c", "traces.get", "success"), ("x", "traces.get", "unknown")]), 1);
        assert_eq!(faults(&[]), 1);
        assert_eq!(faults(&[("a", "traces.get", "unknown")]), 1);
        assert_eq!(faults(&[("a", "traces.query", "success")]), 1);
        // Only one request was cut off, and it had this action.
        assert_eq!(faults(&[own, own, ("x", "traces.get", "unknown")]), 1);
        assert_eq!(faults(&[own, ("x", "role.put", "success")]), 1);
    }
}

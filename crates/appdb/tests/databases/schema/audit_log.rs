//! An audit log of an early version. Every later version must find its chain unbroken and read its records unchanged.

use tracewarden_appdb::{
    AUDIT_PRUNE, AppDb, AuditFilter, AuditPosition, AuditRecord, AuditRemoval, GENESIS_HASH, NewAuditRecord,
    PrunedAudit, VerifiedAudit,
};
use tracewarden_model::Timestamp;

use crate::fixture::at;

/// A record with the hash from the time when it was written. A hash computed in each run would change with the program,
/// and no test would show that the program reports older logs as broken.
struct LoggedRecord {
    hash: &'static str,
    record: NewAuditRecord<'static>,
}

/// Returns a time with as many digits as in production, down to the last microsecond.
const fn after(micros: i64) -> Timestamp {
    at(1_795_382_000_123_456 + micros)
}

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600 * SECOND;

/// A time between the removed records and the kept ones.
const KEPT_FROM: Timestamp = after(HOUR / 2);

/// Number of removed records.
const REMOVED: usize = 3;

/// The record that is begun and not completed.
const INCOMPLETE: usize = 6;

const BY_ADA: NewAuditRecord<'static> = NewAuditRecord {
    completes: None,
    at: after(0),
    actor_id: Some("u1"),
    actor_name: Some("Ada"),
    credential_id: Some("s1"),
    via: "session",
    action: "traces.query",
    outcome: "success",
    request_id: "r1",
    client_ip: Some("192.0.2.1"),
    user_agent: None,
    target: None,
    detail: "{}",
};

/// The records, numbered from 1. The last one documents a removal and is present only if the log is pruned.
///
/// The records contain values that a migration could confuse or change: empty and absent texts, trailing spaces and
/// line breaks, JSON with its own order of members, spaces and escapes; also a deleted user, times that go back, and a
/// beginning without a completion.
static LOG: [LoggedRecord; 9] = [
    LoggedRecord {
        hash: "4b6c2318cfc6af341d4fc7b7cab962a751427c3f62edaf349a002218d03e464d",
        record: NewAuditRecord {
            credential_id: None,
            action: "login",
            user_agent: Some("Mozilla/5.0 (X11; \"ü\" it's)"),
            detail: "{\"session\":\"s1\",\"password_hash_renewed\":false}",
            ..BY_ADA
        },
    },
    LoggedRecord {
        hash: "b773c1fbbcb1b9e771da9eedb1cd9f82df14b4e90fd8b5fa58c0dd3fdd8b5ae4",
        record: NewAuditRecord {
            at: after(SECOND),
            outcome: "unknown",
            request_id: "r2",
            detail: "{\"model_version\":4,\"roles\":{\"reader\":7},\"filter\":[\"a == \\\"b\\\\c\\\"\"]}",
            ..BY_ADA
        },
    },
    LoggedRecord {
        hash: "4824744c55fb3c1cd5d269f3373a6c0ce136f0e2ad9936bd809052a758b1ddec",
        record: NewAuditRecord {
            completes: Some(2),
            at: after(2 * SECOND),
            request_id: "r2",
            detail: "{\"traces\":1,\"spans\":3}",
            ..BY_ADA
        },
    },
    LoggedRecord {
        hash: "0eff596e4486d898c9b3d96945c710b55a5edca7dda5e87ea8e989f2893e97ad",
        record: NewAuditRecord {
            at: after(HOUR),
            actor_id: Some("u0"),
            actor_name: Some("Zoë "),
            credential_id: Some("s0"),
            action: "role.put",
            request_id: "r3",
            target: Some("reader"),
            detail: "{ \"b\": 1.50,  \"a\": \"\\u00fc\" }\n",
            ..BY_ADA
        },
    },
    LoggedRecord {
        hash: "7c63678a1205ba53db7870e242c7455dd91cfd37f8d1aa7b4bc06a42a7fb361c",
        record: NewAuditRecord {
            at: after(HOUR + SECOND),
            credential_id: Some("k2"),
            via: "mcp",
            action: "traces.get",
            outcome: "unknown",
            request_id: "r4",
            user_agent: Some("agent/1"),
            target: Some("0123456789abcdef0123456789abcdef"),
            ..BY_ADA
        },
    },
    LoggedRecord {
        hash: "6c92e7db60996808de82d1e93745826551fc63b75e0df269838ada7b16e9ce26",
        record: NewAuditRecord {
            at: after(HOUR + 3 * SECOND),
            outcome: "unknown",
            request_id: "r5",
            client_ip: Some("2001:db8::1"),
            ..BY_ADA
        },
    },
    LoggedRecord {
        hash: "8ff7a22003dc42b18b54309ea53ddf3be7ba73130da8e94d27541fb938e4b00d",
        record: NewAuditRecord {
            completes: Some(5),
            at: after(HOUR + 2 * SECOND),
            credential_id: Some("k2"),
            via: "mcp",
            action: "traces.get",
            outcome: "not_found",
            request_id: "r4",
            user_agent: Some("agent/1"),
            detail: "{\"traces\":0,\"spans\":0}",
            ..BY_ADA
        },
    },
    LoggedRecord {
        hash: "80310a9462a31851f32956fd540cd69e3f8ceb5f3440e3bc44c90cd107c48c17",
        record: NewAuditRecord {
            at: after(HOUR + 4 * SECOND),
            actor_id: None,
            actor_name: Some("eve\n"),
            credential_id: None,
            action: "login",
            outcome: "denied",
            request_id: "r6",
            client_ip: Some(""),
            user_agent: Some(""),
            target: Some(""),
            detail: "{\"reason\":\"unknown_user\"}",
            ..BY_ADA
        },
    },
    LoggedRecord {
        hash: "8aa1bfc30f284565ca0c7fd0a51cdf4d7606cf418eebefe0ad249a1614a0685c",
        record: NewAuditRecord {
            at: after(2 * HOUR),
            actor_id: None,
            actor_name: None,
            credential_id: None,
            via: "service",
            action: AUDIT_PRUNE,
            request_id: "",
            client_ip: None,
            detail: "{\"through\":3,\
                     \"hash\":\"4824744c55fb3c1cd5d269f3373a6c0ce136f0e2ad9936bd809052a758b1ddec\",\
                     \"removed\":3,\"before\":\"2026-11-22T21:43:20.123456Z\"}",
            ..BY_ADA
        },
    },
];

fn text(text: Option<&str>) -> String {
    text.map_or_else(|| "NULL".to_owned(), |text| format!("'{}'", text.replace('\'', "''")))
}

/// Returns statements that insert a record and move the head of the chain to it.
fn append(index: usize) -> [String; 2] {
    let LoggedRecord { hash, record } = &LOG[index];
    let sequence = index + 1;
    let previous = index.checked_sub(1).map_or(GENESIS_HASH, |before| LOG[before].hash);
    let completes = record.completes.map_or_else(|| "NULL".to_owned(), |completes| completes.to_string());
    let texts = [
        record.actor_id,
        record.actor_name,
        record.credential_id,
        Some(record.via),
        Some(record.action),
        Some(record.outcome),
        Some(record.request_id),
        record.client_ip,
        record.user_agent,
        record.target,
        Some(record.detail),
        Some(previous),
        Some(*hash),
    ];
    [
        format!(
            "INSERT INTO audit (sequence, completes, at, actor_id, actor_name, credential_id, via, action, outcome, \
             request_id, client_ip, user_agent, target, detail, previous_hash, hash) \
             VALUES ({sequence}, {completes}, {}, {})",
            record.at.as_micros(),
            texts.map(text).join(", ")
        ),
        format!("UPDATE audit_head SET sequence = {sequence}, hash = '{hash}' WHERE id = 1"),
    ]
}

/// Returns statements that write the log, valid from the first migration on.
pub fn written() -> impl Iterator<Item = String> {
    (0..LOG.len() - 1).flat_map(append)
}

/// Returns statements that then prune the oldest records, valid from the migration on that adds the anchor.
pub fn pruned() -> impl Iterator<Item = String> {
    let hash = LOG[REMOVED - 1].hash;
    let removed = [
        format!("DELETE FROM audit WHERE sequence <= {REMOVED}"),
        format!("UPDATE audit_anchor SET sequence = {REMOVED}, hash = '{hash}' WHERE id = 1"),
    ];
    removed.into_iter().chain(append(LOG.len() - 1))
}

/// Returns the kept records with their numbers.
fn kept_records(is_pruned: bool) -> Vec<(u64, &'static LoggedRecord)> {
    let all: Vec<_> = (1_u64..).zip(&LOG).collect();
    if is_pruned { all[REMOVED..].to_vec() } else { all[..LOG.len() - 1].to_vec() }
}

fn removal() -> PrunedAudit {
    PrunedAudit { through: 3, hash: LOG[REMOVED - 1].hash.to_owned(), removed: 3 }
}

fn verified(is_pruned: bool) -> VerifiedAudit {
    let kept_records = kept_records(is_pruned);
    let position =
        |&(sequence, logged): &(u64, &LoggedRecord)| AuditPosition { sequence, at: logged.record.at };
    let (last, LoggedRecord { hash, .. }) = kept_records[kept_records.len() - 1];
    let newest_removal = is_pruned.then(|| AuditRemoval {
        record: position(&kept_records[kept_records.len() - 1]),
        removed: removal(),
        before: Some(KEPT_FROM),
    });
    VerifiedAudit {
        records: kept_records.len() as u64,
        first: kept_records.first().map(position),
        last: kept_records.last().map(position),
        head: (last, (*hash).to_owned()),
        anchor: if is_pruned { (3, removal().hash) } else { (0, GENESIS_HASH.to_owned()) },
        removals: u64::from(is_pruned),
        newest_removal,
    }
}

fn entry(sequence: u64, LoggedRecord { hash, record }: &LoggedRecord) -> AuditRecord {
    let completion = LOG.iter().map(|logged| &logged.record).find(|other| other.completes == Some(sequence));
    let owned = |text: Option<&str>| text.map(str::to_owned);
    AuditRecord {
        sequence,
        at: record.at,
        completed_at: completion.map(|completion| completion.at),
        actor_id: owned(record.actor_id),
        actor_name: owned(record.actor_name),
        credential_id: owned(record.credential_id),
        via: record.via.to_owned(),
        action: record.action.to_owned(),
        outcome: completion.unwrap_or(record).outcome.to_owned(),
        request_id: record.request_id.to_owned(),
        client_ip: owned(record.client_ip),
        user_agent: owned(record.user_agent),
        target: owned(record.target),
        detail: record.detail.to_owned(),
        completion_detail: completion.map(|completion| completion.detail.to_owned()),
        hash: (*hash).to_owned(),
    }
}

/// Checks that the log verifies and that every entry is read as written.
pub async fn require_read(db: &AppDb, is_pruned: bool) {
    let mut tx = db.begin_read().await.unwrap();
    assert_eq!(tx.verify_audit(|_, _| ()).await.unwrap(), Ok(verified(is_pruned)));
    let begun = kept_records(is_pruned).into_iter().filter(|(_, logged)| logged.record.completes.is_none());
    let entries: Vec<AuditRecord> = begun.rev().map(|(sequence, logged)| entry(sequence, logged)).collect();
    assert_eq!(tx.audit_records(&AuditFilter::default(), 100).await.unwrap(), entries);
}

/// Checks that a record from before a migration can be completed after it, and that older records can be pruned.
pub async fn require_writable(db: &AppDb, is_pruned: bool) {
    let mut tx = db.begin_write().await.unwrap();
    let completes = Some(INCOMPLETE as u64);
    let at = after(3 * HOUR);
    let record = NewAuditRecord { completes, at, outcome: "aborted", ..LOG[INCOMPLETE - 1].record.clone() };
    let number = verified(is_pruned).head.0 + 1;
    assert_eq!(tx.append_audit(&record).await.unwrap(), number);
    let pruned = tx.prune_audit(KEPT_FROM, 100).await.unwrap();
    assert_eq!(pruned, (!is_pruned).then(removal), "each record is removed once");
    if !is_pruned {
        tx.append_audit(&LOG[LOG.len() - 1].record).await.unwrap();
    }
    tx.commit().await.unwrap();

    let mut tx = db.begin_read().await.unwrap();
    let verified = tx.verify_audit(|_, _| ()).await.unwrap().unwrap();
    // Both logs have now lost the same records, and both have one more record and one of the removal.
    assert_eq!((verified.records, verified.removals, verified.anchor), (7, 1, (3, removal().hash)));
    let entries = tx.audit_records(&AuditFilter::default(), 100).await.unwrap();
    let completed = entries.iter().find(|entry| entry.sequence == INCOMPLETE as u64).unwrap();
    assert_eq!((completed.outcome.as_str(), completed.completed_at), ("aborted", Some(at)));
}

//! The hash chain over audit records: each record's hash covers its content and the hash before it, so that a changed,
//! inserted, removed or reordered row shows. Whoever can rewrite the whole table can also rewrite the chain; an anchor
//! kept elsewhere (the head's hash) shows that too.

use sha2::{Digest as _, Sha256};
use sqlx::any::AnyRow;
use tracewarden_model::Timestamp;

use crate::audit::NewAuditRecord;
use crate::database::ReadTx;
use crate::error::DbError;
use crate::rows;

/// The hash before the first record.
pub const GENESIS_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const PAGE: i64 = 1_000;

/// Where the chain breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainFault {
    /// The first record that does not fit.
    pub sequence: u64,
    /// How.
    pub reason: &'static str,
}

/// SHA-256 over every member with its length before it, so that no two different records have the same input.
pub(crate) fn hash(previous: &str, sequence: u64, record: &NewAuditRecord<'_>) -> String {
    let mut hasher = Sha256::new();
    let mut member = |value: Option<&str>| match value {
        None => hasher.update([0]),
        Some(text) => {
            hasher.update([1]);
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        }
    };
    member(Some("tracewarden audit 1"));
    member(Some(previous));
    member(Some(&sequence.to_string()));
    member(record.completes.map(|completes| completes.to_string()).as_deref());
    // Microseconds, as stored: a hash over more digits could not be recomputed from the row.
    member(Some(&record.at.as_micros().to_string()));
    member(record.actor_id);
    member(record.actor_name);
    member(record.credential_id);
    member(Some(record.via));
    member(Some(record.action));
    member(Some(record.outcome));
    member(Some(record.request_id));
    member(record.client_ip);
    member(record.user_agent);
    member(record.target);
    member(Some(record.detail));
    hex::encode(hasher.finalize())
}

impl ReadTx {
    /// The number and hash of the last record: 0 and [`GENESIS_HASH`] before the first.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or the row cannot be read.
    pub async fn audit_head(&mut self) -> Result<(u64, String), DbError> {
        let row = sqlx::query("SELECT sequence, hash FROM audit_head WHERE id = 1")
            .fetch_one(self.statements())
            .await?;
        Ok((rows::unsigned(&row, "sequence")?, rows::text(&row, "hash")?))
    }

    /// Checks the whole chain; the first fault, if any.
    ///
    /// # Errors
    /// [`DbError`] when the database fails or a row cannot be read.
    pub async fn verify_audit(&mut self) -> Result<Option<ChainFault>, DbError> {
        let mut last = 0_u64;
        let mut previous = GENESIS_HASH.to_owned();
        loop {
            let page = sqlx::query(
                "SELECT sequence, completes, at, actor_id, actor_name, credential_id, via, action, outcome, \
                 request_id, client_ip, user_agent, target, detail, previous_hash, hash FROM audit \
                 WHERE sequence > $1 ORDER BY sequence LIMIT $2",
            )
            .bind(rows::signed(last)?)
            .bind(PAGE)
            .fetch_all(self.statements())
            .await?;
            if page.is_empty() {
                break;
            }
            for row in &page {
                let sequence = rows::unsigned(row, "sequence")?;
                if let Some(reason) = check_link(row, sequence, last, &previous)? {
                    return Ok(Some(ChainFault { sequence, reason }));
                }
                last = sequence;
                previous = rows::text(row, "hash")?;
            }
        }
        let (sequence, hash) = self.audit_head().await?;
        if (last, previous) == (sequence, hash) {
            Ok(None)
        } else {
            Ok(Some(ChainFault { sequence, reason: "the log does not end with the last record written" }))
        }
    }
}

fn check_link(
    row: &AnyRow,
    sequence: u64,
    last: u64,
    previous: &str,
) -> Result<Option<&'static str>, DbError> {
    if last.checked_add(1) != Some(sequence) {
        return Ok(Some("records before it are missing"));
    }
    if rows::text(row, "previous_hash")? != previous {
        return Ok(Some("it does not follow the record before it"));
    }
    let texts = [
        rows::optional_text(row, "actor_id")?,
        rows::optional_text(row, "actor_name")?,
        rows::optional_text(row, "credential_id")?,
        rows::optional_text(row, "client_ip")?,
        rows::optional_text(row, "user_agent")?,
        rows::optional_text(row, "target")?,
    ];
    let [actor_id, actor_name, credential_id, client_ip, user_agent, target] =
        texts.each_ref().map(Option::as_deref);
    let record = NewAuditRecord {
        completes: match rows::optional_integer(row, "completes")? {
            None => None,
            Some(_) => Some(rows::unsigned(row, "completes")?),
        },
        at: Timestamp::from_micros(rows::integer(row, "at")?),
        actor_id,
        actor_name,
        credential_id,
        via: &rows::text(row, "via")?,
        action: &rows::text(row, "action")?,
        outcome: &rows::text(row, "outcome")?,
        request_id: &rows::text(row, "request_id")?,
        client_ip,
        user_agent,
        target,
        detail: &rows::text(row, "detail")?,
    };
    let expected = hash(previous, sequence, &record);
    Ok((rows::text(row, "hash")? != expected).then_some("its content is not what was written"))
}

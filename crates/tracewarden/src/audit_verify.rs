//! `tracewarden audit verify`: checks that nothing but the service has written to the audit log.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use secrecy::ExposeSecret as _;
use tracewarden_service::{AppDb, AuditRemoval, DbError, VerifiedAudit};

use crate::command_line::NotedHead;
use crate::configuration::Configuration;
use crate::serve;

/// Exit status when the check could not be completed.
pub const EXIT_NOT_CHECKED: u8 = 2;

/// Checks the whole audit log and prints the result.
pub fn run(configuration: &Configuration, heads: &[NotedHead]) -> anyhow::Result<ExitCode> {
    serve::runtime()?.block_on(async {
        // The database URL may contain a password, so the error shows only the database's own message.
        let db = AppDb::open_existing(configuration.database_url.expose_secret()).await?;
        let result = verify(&db, heads).await;
        db.close().await;
        result
    })
}

async fn verify(db: &AppDb, heads: &[NotedHead]) -> anyhow::Result<ExitCode> {
    // All reads use one snapshot: the check does not see concurrent writes of the service and does not block them.
    let mut tx = db.begin_read().await?;
    let mut shown = false;
    let show_progress = |done, total| {
        let mut terminal = io::stderr();
        if terminal.is_terminal() {
            // Progress output is optional, so a failed write is ignored.
            let _ = write!(terminal, "\rchecked {done} of {total} records").and_then(|()| terminal.flush());
            shown = true;
        }
    };
    let checked = tx.verify_audit(show_progress).await;
    if shown {
        let _ = write!(io::stderr(), "\r{:60}\r", "");
    }
    let verified = match checked {
        Ok(Ok(verified)) => verified,
        Ok(Err(fault)) => {
            println!("broken at record {}: {}", fault.sequence, fault.reason);
            return Ok(ExitCode::FAILURE);
        }
        Err(DbError::Corrupt(reason)) => {
            println!("broken: the log cannot be read in full: {reason}");
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error.into()),
    };
    print(&verified);
    let mut status = ExitCode::SUCCESS;
    for head in heads {
        let kept_hash = tx.audit_hash(head.sequence).await?;
        let result = match compare(head, kept_hash.as_deref(), &verified) {
            HeadComparison::Matches => "fits",
            HeadComparison::Removed => {
                status = EXIT_NOT_CHECKED.into();
                "cannot be checked, the record was removed because of its age"
            }
            HeadComparison::Differs(reason) => {
                println!("broken at record {}: {reason}", head.sequence);
                return Ok(ExitCode::FAILURE);
            }
        };
        println!("noted head {}: {result}", head.sequence);
        print_removal_since(head, &verified);
    }
    Ok(status)
}

fn print(verified: &VerifiedAudit) {
    let VerifiedAudit { records, first, last, head, anchor, removals, newest_removal } = verified;
    println!("intact: {records} records");
    if let (Some(first), Some(last)) = (first, last) {
        println!("from {} ({}) to {} ({})", first.sequence, first.at, last.sequence, last.at);
    }
    if anchor.0 > 0 {
        println!("older ones were removed because of their age, through {}:{}", anchor.0, anchor.1);
    }
    if let Some(newest) = newest_removal {
        println!("{removals} of the records report a removal, the newest is {}", describe_removal(newest));
    }
    println!("head {}:{}", head.0, head.1);
}

/// Prints the newest removal of old records after a noted head. The log alone cannot distinguish a removal by retention
/// from one that took more. An operator who keeps heads knows when the head was noted and how long records are kept, and
/// can judge it.
fn print_removal_since(head: &NotedHead, verified: &VerifiedAudit) {
    if let Some(newest) = &verified.newest_removal
        && newest.record.sequence > head.sequence
    {
        println!(
            "noted head {}: older records were removed since, see {}",
            head.sequence,
            describe_removal(newest)
        );
    }
}

fn describe_removal(AuditRemoval { record, removed, before }: &AuditRemoval) -> String {
    let bound = before.map_or_else(|| "an unknown time".to_owned(), |before| before.to_string());
    let (through, count) = (removed.through, removed.removed);
    format!("{} ({}): {count} from before {bound}, through {through}", record.sequence, record.at)
}

/// Result of comparing a noted head with the log.
#[derive(Debug, PartialEq, Eq)]
enum HeadComparison {
    Matches,
    Removed,
    Differs(&'static str),
}

fn compare(noted: &NotedHead, kept_hash: Option<&str>, verified: &VerifiedAudit) -> HeadComparison {
    let anchor = &verified.anchor;
    let hash = match kept_hash {
        Some(hash) => hash,
        None if noted.sequence == anchor.0 => anchor.1.as_str(),
        None if noted.sequence < anchor.0 => return HeadComparison::Removed,
        None => return HeadComparison::Differs("the log ends before the noted head: records were cut off"),
    };
    if hash == noted.hash {
        HeadComparison::Matches
    } else {
        HeadComparison::Differs("it is not the record whose hash was noted: the log was rewritten")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_noted_heads() {
        let verified = VerifiedAudit {
            records: 2,
            first: None,
            last: None,
            head: (7, "77".to_owned()),
            anchor: (5, "55".to_owned()),
            removals: 0,
            newest_removal: None,
        };
        let check = |sequence, hash: &str, kept_hash| {
            compare(&NotedHead { sequence, hash: hash.to_owned() }, kept_hash, &verified)
        };
        assert_eq!(check(7, "77", Some("77")), HeadComparison::Matches);
        assert!(matches!(check(7, "78", Some("77")), HeadComparison::Differs(_)));
        assert_eq!(check(5, "55", None), HeadComparison::Matches);
        assert!(matches!(check(5, "56", None), HeadComparison::Differs(_)));
        assert_eq!(check(4, "44", None), HeadComparison::Removed);
        assert!(matches!(check(8, "88", None), HeadComparison::Differs(_)));
    }

    #[test]
    fn parses_printed_heads() {
        let hash = "Ab".repeat(32);
        let head: NotedHead = format!("12:{hash}").parse().unwrap();
        assert_eq!(head, NotedHead { sequence: 12, hash: hash.to_lowercase() });
        for wrong in ["", "12", "12:", "x:00", &format!("12:{}", "g".repeat(64)), &format!("-1:{hash}")] {
            assert!(wrong.parse::<NotedHead>().is_err(), "{wrong}");
        }
    }
}

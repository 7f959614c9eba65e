//! Reads the audit log: one entry for each action, joined with its completion.

use sqlx::AssertSqlSafe;
use tracewarden_model::Timestamp;

use crate::error::DbError;
use crate::row_batches::placeholders;
use crate::rows::from_row;
use crate::transactions::ReadTx;
use crate::values::{Value, signed, values};

/// Filter for entries. An absent member matches everything.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter<'a> {
    /// Entries that began at or after this time.
    pub from: Option<Timestamp>,
    /// Entries that began before this time.
    pub to: Option<Timestamp>,
    /// Name (in any case) or id of the user. For a deleted user, the name exactly as recorded.
    pub actor: Option<&'a str>,
    /// Id of the session or key.
    pub credential_id: Option<&'a str>,
    /// The action.
    pub action: Option<&'a str>,
    /// Spellings of the target; at least one.
    pub target: Option<&'a [String]>,
    /// The outcome, after completion.
    pub outcome: Option<&'a str>,
    /// Only entries with a smaller sequence number.
    pub before: Option<u64>,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Position in the chain.
    pub sequence: u64,
    /// Time when the action began.
    pub at: Timestamp,
    /// Time when the action completed, if it has a separate completion.
    pub completed_at: Option<Timestamp>,
    /// The user's id.
    pub actor_id: Option<String>,
    /// The user's name at the time.
    pub actor_name: Option<String>,
    /// Id of the session or key.
    pub credential_id: Option<String>,
    /// `session`, `api_key`, `mcp` or `service`.
    pub via: String,
    /// The action.
    pub action: String,
    /// `success`, `failed`, `denied` or `aborted`; `unknown` if the action was never completed.
    pub outcome: String,
    /// Id of the request.
    pub request_id: String,
    /// Address of the client.
    pub client_ip: Option<String>,
    /// User agent of the client.
    pub user_agent: Option<String>,
    /// Target of the action.
    pub target: Option<String>,
    /// Details, a JSON object as text.
    pub detail: String,
    /// Details of the completion, a JSON object as text.
    pub completion_detail: Option<String>,
    /// Hash over this record and all records before it.
    pub hash: String,
}

from_row!(
    AuditRecord: sequence, at, completed_at, actor_id, actor_name, credential_id, via, action, outcome, request_id,
    client_ip, user_agent, target, detail, completion_detail, hash
);

impl ReadTx {
    /// Returns at most `limit` entries, newest first.
    pub async fn audit_records(
        &mut self,
        filter: &AuditFilter<'_>,
        limit: u32,
    ) -> Result<Vec<AuditRecord>, DbError> {
        // The statement contains only the conditions of the filter: with a parameter for each absent condition, no
        // index would serve the present ones. The `+` keeps SQLite from choosing the index on `completes`, with which
        // it would fetch half the log and sort it for every page.
        let mut statement = String::from(
            "SELECT begun.sequence, begun.at, ended.at AS completed_at, begun.actor_id, begun.actor_name, \
             begun.credential_id, begun.via, begun.action, COALESCE(ended.outcome, begun.outcome) AS outcome, \
             begun.request_id, begun.client_ip, begun.user_agent, begun.target, begun.detail, \
             ended.detail AS completion_detail, begun.hash \
             FROM audit AS begun LEFT JOIN audit AS ended ON ended.completes = begun.sequence \
             WHERE +begun.completes IS NULL AND begun.sequence < $1",
        );
        // A target has few records. Without this, SQLite would use another index, such as that of all records of an action.
        let column = |name: &str| match filter.target {
            Some(_) => format!("begun.{name} || ''"),
            None => format!("begun.{name}"),
        };
        let equals = |name: &str| format!(" AND {} = $", column(name));
        let mut values = Vec::from(values![filter.before.map_or(Ok(i64::MAX), signed)?]);
        if let Some(actor) = filter.actor {
            // Records contain the user name in the user's own spelling. Folding the name of every record would read the
            // whole log, and the two databases fold differently.
            let known = self.user_by_name(actor).await?.map(|user| [user.id, user.username]);
            let actors = known.into_iter().flatten().chain([actor.to_owned()]);
            let before = values.len();
            values.extend(actors.map(Value::from));
            let actors = placeholders(before, values.len().saturating_sub(before));
            let [name, id] = ["actor_name", "actor_id"].map(column);
            statement.push_str(&format!(" AND ({name} IN {actors} OR {id} IN {actors})"));
        }
        if let Some(target) = filter.target {
            let before = values.len();
            values.extend(target.iter().map(|spelling| Value::from(spelling.as_str())));
            statement.push_str(&format!(" AND begun.target IN {}", placeholders(before, target.len())));
        }
        let [credential_id, action] = ["credential_id", "action"].map(equals);
        let conditions = [
            (" AND begun.at >= $", filter.from.map(micros_rounded_up).map(Value::from)),
            (" AND begun.at < $", filter.to.map(micros_rounded_up).map(Value::from)),
            (credential_id.as_str(), filter.credential_id.map(Value::from)),
            (action.as_str(), filter.action.map(Value::from)),
            (" AND COALESCE(ended.outcome, begun.outcome) = $", filter.outcome.map(Value::from)),
            (" ORDER BY begun.sequence DESC LIMIT $", Some(Value::from(limit))),
        ];
        for (condition, value) in conditions {
            if let Some(value) = value {
                values.push(value);
                statement.push_str(&condition.replace('$', &format!("${}", values.len())));
            }
        }
        self.connection.all(AssertSqlSafe(statement), values).await
    }
}

/// Converts to microseconds, rounded up: stored times are whole microseconds, and `at >= from` must not match a time
/// before `from`.
fn micros_rounded_up(at: Timestamp) -> i64 {
    let micros = at.as_micros();
    if Timestamp::from_micros(micros) < at { micros.saturating_add(1) } else { micros }
}

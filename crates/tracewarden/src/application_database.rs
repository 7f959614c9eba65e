//! Opens the application database at start.

use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, sleep};
use tracewarden_model::Clock;
use tracewarden_service::{AppDb, DbError};

/// How long to wait for a database server that does not answer: containers and machines that start together start in any
/// order.
const MAX_WAIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(1);
/// Minimum time between two log lines about it.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// Opens the database, and waits for a database server that is not up yet. An error that waiting cannot resolve, such as a
/// wrong password, is returned at once. The message names the setting.
pub async fn open(url: &str, clock: &dyn Clock) -> anyhow::Result<AppDb> {
    let begun = Instant::now();
    let mut last_logged: Option<Instant> = None;
    let context = "cannot open the application database, see `database_url`";
    loop {
        let error = match AppDb::open(url, clock.now()).await {
            Ok(db) => return Ok(db),
            Err(error) => error,
        };
        // A database file exists or does not, so waiting helps only with a server. After a commit with an unknown outcome,
        // the next attempt reads the actual state.
        let transient = matches!(error, DbError::Unavailable(_) | DbError::OutcomeUnknown(_));
        let retryable = transient && AppDb::file(url).is_none();
        if !retryable {
            return Err(error).context(context);
        }
        if begun.elapsed() >= MAX_WAIT {
            return Err(error).with_context(|| {
                format!("{context} (waited {} s for its server)", begun.elapsed().as_secs())
            });
        }
        if last_logged.is_none_or(|last_logged| last_logged.elapsed() >= LOG_INTERVAL) {
            last_logged = Some(Instant::now());
            tracing::warn!(%error, "waiting for the application database");
        }
        sleep(PAUSE).await;
    }
}

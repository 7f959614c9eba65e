//! Which versions of ClickHouse are supported.

use crate::sql::Statement;
use crate::{StoreError, TraceStore};

/// The oldest supported version: earlier ones ignore settings of formats that come with a form (ClickHouse pull request
/// 85570), and write times without their zone.
pub(crate) const MINIMUM: &str = "25.8";

/// Parses year and number of a version such as `25.8.2.1`.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Whether a version is older than the oldest supported one. A version that cannot be parsed counts as older.
pub(crate) fn is_too_old(version: &str) -> bool {
    release(version) < release(MINIMUM)
}

impl TraceStore {
    /// Refuses a server of an unsupported version.
    ///
    /// # Errors
    /// [`StoreError::Unfit`] for a version that is too old, or failures of the statement.
    pub(crate) async fn verify_version(&self) -> Result<(), StoreError> {
        let rows: Vec<(String,)> = self.client.rows(Statement::new("SELECT version()")).await?;
        let version = rows.into_iter().next().map(|(version,)| version).unwrap_or_default();
        refuse_old(&version)
    }

    /// Refuses endpoints of an unsupported version. Endpoints that do not answer are skipped, unless none does.
    ///
    /// # Errors
    /// As [`Self::verify_version`].
    pub(crate) async fn verify_versions(&self) -> Result<(), StoreError> {
        let mut answered = Err(StoreError::Internal("no endpoint is configured".to_owned()));
        for endpoint in self.client.endpoints() {
            let store = Self { client: self.client.only(endpoint)?, ..self.clone() };
            match store.verify_version().await {
                Ok(()) => answered = Ok(()),
                Err(error @ StoreError::Unavailable { .. }) if answered.is_err() => answered = Err(error),
                Err(StoreError::Unavailable { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        answered
    }
}

/// Refuses an unsupported version.
///
/// # Errors
/// [`StoreError::Unfit`].
pub(crate) fn refuse_old(version: &str) -> Result<(), StoreError> {
    if is_too_old(version) {
        return Err(StoreError::Unfit(format!(
            "the server is ClickHouse {version}, and {MINIMUM} is the oldest version that is supported: upgrade it"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for old in ["24.8.4.1", "25.5.2.47", "25.7", "9.10", "", "nightly", "25"] {
            assert!(is_too_old(old), "{old}");
        }
        for new in ["25.8", "25.8.2.1", "25.10.1", "26.1.1.1-testing", "100.1"] {
            assert!(!is_too_old(new), "{new}");
        }
    }
}
